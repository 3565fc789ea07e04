"""How an account, a host id and options are written down: one truth in many ways, with other values near it.

What is written comes from the specification (H-1 to H-7, H-21 to H-28, W-19, W-23) and the documentation. Nothing here
reads: the truth comes first, so no reader's mistake can be shared.
"""

from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import dataclass, field
from hashlib import md5
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping

DEFAULT: Final = "AzureWebJobsStorage"
FOREVER: Final = "10675199.02:48:05.4775807"
_EMULATOR: Final = "http://127.0.0.1:10000/devstoreaccount1"
_EMULATORS_KEY: Final = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@dataclass(frozen=True, slots=True)
class Written:
    """A connection of an app: the decorator's argument, the settings, and the credential that they give."""

    argument: str
    settings: Mapping[str, str]
    way: str


@dataclass(slots=True)
class Papers:
    """What an app is deployed with: its settings, and the ``singleton`` section of its host.json."""

    settings: dict[str, str] = field(default_factory=dict)
    section: dict[str, Any] = field(default_factory=dict)


def key_of(account: str) -> str:
    """Return the key of an account."""
    return b64encode(f"the key of {account}".encode()).decode()


def _by_key(account: str) -> str:
    return f"key {key_of(account)}"


def _string(account: str, *more: str) -> str:
    return ";".join((f"AccountName={account}", f"AccountKey={key_of(account)}", *more))


# --- accounts: each of these writes the account down under the name of a setting --------------------------------------


def _plain(name: str, account: str) -> Written:
    text = f"DefaultEndpointsProtocol=https;{_string(account)};EndpointSuffix=core.windows.net"
    return Written(name, {name: text}, _by_key(account))


def _short(name: str, account: str) -> Written:
    return Written(name, {name.upper(): f" {_string(account)}; "}, _by_key(account))


def _prefixed(name: str, account: str) -> Written:
    short = name.removeprefix("AzureWebJobs")
    others = {} if name == DEFAULT else {short: _string("decoyone")}
    argument = name if name == DEFAULT else short
    return Written(argument, {f"AzureWebJobs{short}": _string(account), **others}, _by_key(account))


def _connection_string(name: str, account: str) -> Written:
    settings = {f"ConnectionStrings:{name}": _string(account), name: _string("decoytwo")}
    return Written(name, settings, _by_key(account))


def _custom(name: str, account: str) -> Written:
    settings = {f"CUSTOMCONNSTR_{name}": _string(account), name: _string("decoythree")}
    return Written(name, settings, _by_key(account))


def _value_over_keys(name: str, account: str) -> Written:
    settings = {f"{name}__accountName": "decoyfour", name: _string(account)}
    return Written(name, settings, _by_key(account))


def _itself(_: str, account: str) -> Written:
    return Written(_string(account), {}, _by_key(account))


def _signed(name: str, account: str) -> Written:
    text = f"BlobEndpoint=https://{account}.blob.core.windows.net/;SharedAccessSignature=sv=2024&sig={account}%3D"
    return Written(name, {name: text}, f"signature sv=2024&sig={account}%3D")


def _signed_url(name: str, account: str) -> Written:
    url = f"https://{account}.blob.core.windows.net?sv=2024&sig={account}%3D"
    return Written(name, {f"{name}__blobServiceUri": url}, f"signature sv=2024&sig={account}%3D")


def _by_default(name: str, account: str) -> Written:
    return Written(name, {f"{name}__accountName": account}, "identity DefaultAzureCredential")


def _managed(name: str, account: str) -> Written:
    settings = {f"{name}__accountName": account, f"{name}__credential": "managedidentity"}
    return Written(name, settings, "identity ManagedIdentityCredential")


def _managed_client(name: str, account: str) -> Written:
    url = f"https://{account}.blob.core.windows.net/"
    settings = {f"{name}:blobserviceuri": url, f"{name}:Credential": "managedIdentity", f"{name}:clientid": "c-1"}
    return Written(name, settings, "identity ManagedIdentityCredential client_id=c-1")


def _managed_resource(name: str, account: str) -> Written:
    settings = {
        f"{name}__accountName": account,
        f"{name}__credential": "managedidentity",
        f"{name}__managedIdentityResourceId": "r-1",
        "AZURE_CLIENT_ID": "decoy",
    }
    return Written(name, settings, "identity ManagedIdentityCredential resource_id=r-1")


def _secret(name: str, account: str) -> Written:
    keys = {"accountName": account, "tenantId": "t-1", "clientId": "c-1", "clientSecret": "s-1"}
    way = "identity ClientSecretCredential tenant_id=t-1 client_id=c-1 client_secret=s-1"
    return Written(name, {f"{name}__{key}": value for key, value in keys.items()}, way)


def _workload(name: str, account: str) -> Written:
    settings = {
        f"{name}__accountName": account,
        f"{name}__credential": "workloadidentity",
        f"{name}__clientId": "c-2",
        "AZURE_CLIENT_ID": "decoy",
        "AZURE_TENANT_ID": "t-2",
        "AZURE_FEDERATED_TOKEN_FILE": "/var/token",
    }
    way = "identity WorkloadIdentityCredential tenant_id=t-2 client_id=c-2 token_file_path=/var/token"
    return Written(name, settings, way)


def _service_url(name: str, account: str) -> Written:
    settings = {f"{name}__serviceUri": f"https://{account}.blob.core.windows.net"}
    return Written(name, settings, "identity DefaultAzureCredential")


def _url_over_service_url(name: str, account: str) -> Written:
    url = f"https://{account}.blob.core.windows.net/"
    settings = {f"{name}:SERVICEURI": "https://decoyseven.blob.core.windows.net", f"{name}:blobServiceUri": url}
    return Written(name, settings, "identity DefaultAzureCredential")


def _url_over_name(name: str, account: str) -> Written:
    settings = {
        f"{name}__blobServiceUri": f"https://{account}.blob.core.windows.net",
        f"{name}__accountName": "decoyfive",
    }
    return Written(name, settings, "identity DefaultAzureCredential")


_IN_THE_CLOUD: Final[tuple[Callable[[str, str], Written], ...]] = (
    *(_plain, _short, _prefixed, _connection_string, _custom, _value_over_keys, _itself, _signed, _signed_url),
    *(_by_default, _managed, _managed_client, _managed_resource, _secret, _workload, _url_over_name),
    *(_service_url, _url_over_service_url),
)


def _abroad(name: str, account: str) -> Written:
    return Written(name, {name: _string(account, "endpointsuffix=core.chinacloudapi.cn")}, _by_key(account))


def _unsafe_abroad(name: str, account: str) -> Written:
    text = _string(account, "EndpointSuffix=core.chinacloudapi.cn", "DefaultEndpointsProtocol=https")
    return Written(name, {f"ConnectionStrings__{name}": text}, _by_key(account))


def _own_domain(name: str, account: str) -> Written:
    text = _string("decoysix", f"BlobEndpoint=https://{account}.example.com/", "EndpointSuffix=core.windows.net")
    return Written(name, {name: text}, _by_key("decoysix"))


def _own_domain_url(name: str, account: str) -> Written:
    return Written(
        name, {f"{name}__blobServiceUri": f"https://{account}.example.com"}, "identity DefaultAzureCredential"
    )


def _emulator(name: str, _: str) -> Written:
    return Written(name, {name: "UseDevelopmentStorage=True"}, f"key {_EMULATORS_KEY}")


def _emulator_behind(name: str, _: str) -> Written:
    text = "UseDevelopmentStorage=true;DevelopmentStorageProxyUri=http://127.0.0.1:9999/"
    return Written(name, {name: text}, f"key {_EMULATORS_KEY}")


def _emulator_in_full(name: str, _: str) -> Written:
    text = f"AccountName=devstoreaccount1;AccountKey={_EMULATORS_KEY};BlobEndpoint={_EMULATOR};"
    return Written(name, {name: text}, f"key {_EMULATORS_KEY}")


@dataclass(frozen=True, slots=True)
class Account:
    """A storage account: its name, and the URL of its blobs."""

    name: str
    endpoint: str

    def written(self, rng: random.Random, name: str) -> Written:
        """Write it down in one of the ways there are."""
        return rng.choice(_WAYS.get(self.endpoint.partition(self.name)[2], _IN_THE_CLOUD))(name, self.name)


_WAYS: Final = {
    ".blob.core.chinacloudapi.cn": (_abroad, _unsafe_abroad),
    ".example.com": (_own_domain, _own_domain_url),
    "": (_emulator, _emulator_behind, _emulator_in_full),
}


def draw_account(rng: random.Random, name: str) -> Account:
    """Return an account of this name, most often in the public cloud."""
    tail = rng.choice((*[".blob.core.windows.net"] * 9, ".blob.core.chinacloudapi.cn", ".example.com", ""))
    return Account(name, f"https://{name}{tail}") if tail else Account("devstoreaccount1", _EMULATOR)


# --- host ids ---------------------------------------------------------------------------------------------------------


def draw_host_id(rng: random.Random, number: int) -> tuple[str, Papers]:
    """Return a host id, and the settings of an app that has it (H-1 to H-6)."""
    site = f"Shop-{number}"
    slot = rng.choice(("", "Production", "Staging"))
    named = site.lower() + ("-staging" if slot == "Staging" else "")
    slots = {"WEBSITE_SLOT_NAME": slot} if slot else {}
    long = f"{site}-of-the-Northern-and-east-{rng.choice(('-', 'a'))}-region"
    app_service = {"WEBSITE_INSTANCE_ID": "instance-1", "WEBSITE_SITE_NAME": site, **slots}
    ways: list[tuple[str, dict[str, str]]] = [
        (named, app_service),
        (named, {**app_service, "KUBERNETES_SERVICE_HOST": "10.0.0.1"}),
        (named, {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "POD_NAMESPACE": "shop", "WEBSITE_SITE_NAME": site, **slots}),
        (named, {"MANAGED_ENVIRONMENT": "true", "WEBSITE_SITE_NAME": site, **slots}),
        (long[:32].lower().rstrip("-"), {"WEBSITE_INSTANCE_ID": "1", "WEBSITE_SITE_NAME": long}),
        (f"shop-{number}", {"CONTAINER_NAME": "c", "WEBSITE_HOSTNAME": f"Shop-{number}.azurewebsites.net"}),
        (_of_flex(named), {"WEBSITE_SKU": "FlexConsumption", "WEBSITE_SITE_NAME": site, **slots}),
        (
            _of_flex(named),
            {"CONTAINER_NAME": "c", "LEGION_SERVICE_HOST": "10.0.0.2", "WEBSITE_SITE_NAME": site, **slots},
        ),
    ]
    if rng.random() < 0.4:
        return site, host_id_written(rng, site)
    given, settings = rng.choice(ways)
    return given, Papers(settings=settings)


def host_id_written(rng: random.Random, given: str) -> Papers:
    """Write a host id down as it is, and another one that does not count."""
    site = {"WEBSITE_INSTANCE_ID": "2", "WEBSITE_SITE_NAME": "decoy-site"}
    explicit = "AzureFunctionsWebHost__hostid"
    ways = (
        Papers({explicit: given, **site}),
        Papers({explicit.replace("__", ":").lower(): f" {given}"}),
        Papers({explicit: "decoy-id"}, {"hostId": given}),
        Papers(site, {"HOSTID": given}),
        Papers({"AzureFunctionsJobHost__singleton__hostId": given, explicit: "decoy-id"}, {"hostId": "decoy-json"}),
    )
    return rng.choice(ways)


def _of_flex(name: str) -> str:
    return UUID(bytes_le=md5(name.encode(), usedforsecurity=False).digest()).hex


# --- options ----------------------------------------------------------------------------------------------------------


def write_options(rng: random.Random, options: Mapping[str, object], papers: Papers) -> None:
    """Write options, by their names in host.json, into the section or the settings, in some spelling."""
    for name, value in options.items():
        if rng.random() < 0.5:
            papers.section[_spelt(rng, name)] = _in_json(rng, value)
            continue
        prefix = rng.choice(("AzureFunctionsJobHost__singleton__", "azurefunctionsjobhost:Singleton:"))
        papers.settings[prefix + _spelt(rng, name)] = str(_in_json(rng, value))
        if name in _DECOYS and rng.random() < 0.5:
            papers.section[name] = _DECOYS[name]


_DECOYS: Final = {
    "lockPeriod": "00:00:55",
    "lockAcquisitionTimeout": "00:00:03",
    "lockAcquisitionPollingInterval": "00:00:11",
    "handoffWindow": "00:01:00",
    "container": "decoy-container",
}


def _spelt(rng: random.Random, name: str) -> str:
    return rng.choice((name, name, name[0].upper() + name[1:], name.lower()))


def _in_json(rng: random.Random, value: object) -> object:
    if value is None:
        return FOREVER
    if isinstance(value, bool):
        return rng.choice((value, str(value).lower()))
    return timespan(rng, value) if isinstance(value, float) else value


def timespan(rng: random.Random, seconds: float) -> str:
    """Write seconds, fewer than ten minutes, as .NET does."""
    minutes, rest = divmod(round(seconds * 1000), 60_000)
    whole, thousandths = divmod(rest, 1000)
    tail = f".{thousandths:03}" if thousandths else ""
    return rng.choice(("00:", "0:", "0.00:")) + f"{minutes:02}:{whole:02}{tail}"


def host_json(rng: random.Random, section: Mapping[str, object]) -> str:
    """Return a host.json with this section, as the Functions host reads it: with comments and last commas."""
    entries = "".join(f"    {json.dumps(key)}: {json.dumps(value)}, // as it is\n" for key, value in section.items())
    name = rng.choice(("singleton", "Singleton"))
    begin = rng.choice(("", "\ufeff", "/* what the host reads */\n"))
    return f'{begin}{{\n  "version": "2.0",\n  "{name}": {{\n{entries}  }},\n}}\n'
