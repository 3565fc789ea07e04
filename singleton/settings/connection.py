"""Storage accounts by the names of their settings, resolved as the Functions host does (H-21 to H-28).

A connection string is taken apart, completed and checked before the SDK sees the string. Connection strings and keys
are secrets, and in no message and no ``repr``. A message about a string names only the well-known keys.
"""

from __future__ import annotations

import binascii
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from singleton.base.appsettings import filled, section
from singleton.base.errors import ConfigurationError
from singleton.base.forks import importing
from singleton.base.invocation import log
from singleton.base.words import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

StorageService = Literal["blob", "queue", "table"]

ADDRESSES: Final[dict[StorageService, tuple[str, ...]]] = {
    "blob": ("blobServiceUri", "accountName", "serviceUri"),
    "queue": ("accountName", "queueServiceUri", "serviceUri"),
    "table": ("accountName", "tableServiceUri", "serviceUri"),
}
"""The settings below a connection that name a service of an account: the first one that is set counts (H-24, H-25).

``serviceUri`` is the documented short form for a connection with one service.
"""


class CredentialSpec(NamedTuple):
    """A token credential to make: the name of a class of azure-identity, and its arguments. No ``repr`` shows them.

    ``resource_id`` and ``object_id`` of a managed identity go into its ``identity_config``.
    """

    kind: str
    arguments: tuple[tuple[str, str | None], ...] = ()

    @classmethod
    def of(cls, kind: str, **arguments: str | None) -> CredentialSpec:
        """Return the class and its arguments as a value that can be the key of a cache."""
        return cls(kind, tuple(arguments.items()))

    def __repr__(self) -> str:
        return f"CredentialSpec({self.kind})"


def credential_of(name: str, keys: Mapping[str, str], settings: Mapping[str, str]) -> CredentialSpec:
    """Return the identity that the connection ``name`` asks for. Refuse settings that are not enough, or contradictory.

    ``keys`` are the connection's settings by normalised key, without blanks: ``{"credential": "managedidentity", …}``.
    The ``AZURE_*`` ones of the app settings complete a workload identity.
    """
    asked = keys.get("credential", "").lower()
    if asked == "managedidentity":
        return _managed_identity(name, keys)
    if asked == "workloadidentity":
        return _workload_identity(name, keys, settings)
    if asked:
        raise ConfigurationError(
            f"{name}__credential is {quoted(asked)}: give 'managedidentity' or 'workloadidentity', or leave it out"
        )
    tenant_id, client_id = keys.get("tenantid"), keys.get("clientid")
    secret, certificate = keys.get("clientsecret"), keys.get("clientcertificate")
    if not secret and not certificate:
        by_default = {"managed_identity_client_id": client_id, "workload_identity_tenant_id": tenant_id}
        return CredentialSpec.of("DefaultAzureCredential", **by_default)
    if not tenant_id or not client_id:
        key = "clientSecret" if secret else "clientCertificate"
        raise ConfigurationError(f"{name}__{key} needs {name}__tenantId and {name}__clientId as well: set them")
    whose = {"tenant_id": tenant_id, "client_id": client_id}
    if secret:
        return CredentialSpec.of("ClientSecretCredential", **whose, client_secret=secret)
    return CredentialSpec.of("CertificateCredential", **whose, certificate_path=certificate)


def _managed_identity(name: str, keys: Mapping[str, str]) -> CredentialSpec:
    spellings = ("clientId", "managedIdentityClientId", "managedIdentityResourceId", "managedIdentityObjectId")
    given = [spelt for spelt in spellings if spelt.lower() in keys]
    if len(given) > 1:
        listed = " and ".join(f"{name}__{spelt}" for spelt in given)
        raise ConfigurationError(f"{listed} each name a managed identity: keep one of these settings")
    return CredentialSpec.of(
        "ManagedIdentityCredential",
        client_id=keys.get("clientid") or keys.get("managedidentityclientid"),
        resource_id=keys.get("managedidentityresourceid"),
        object_id=keys.get("managedidentityobjectid"),
    )


def _workload_identity(name: str, keys: Mapping[str, str], settings: Mapping[str, str]) -> CredentialSpec:
    def found(key: str, variable: str) -> str:
        value = keys.get(key.lower()) or filled(settings, variable)
        if value is None:
            raise ConfigurationError(
                f"{name}__credential is 'workloadidentity': set {name}__{key} or {variable} as well"
            )
        return value

    return CredentialSpec.of(
        "WorkloadIdentityCredential",
        tenant_id=found("tenantId", "AZURE_TENANT_ID"),
        client_id=found("clientId", "AZURE_CLIENT_ID"),
        token_file_path=found("tokenFilePath", "AZURE_FEDERATED_TOKEN_FILE"),
    )


DEFAULT_CONNECTION: Final = "AzureWebJobsStorage"


@dataclass(frozen=True, slots=True)
class StorageAccount:
    """How to reach a storage account's blobs or queues: by a connection string, or by a URL and perhaps an identity.

    Equal settings make equal accounts, so it may be the key of a cache. Its ``repr`` shows no secret.

    Attributes:
        connection_string: complete and checked, or None.
        account_url: the service's URL, perhaps with a shared access signature; None with a connection string.
        credential: the identity to use with the URL; None with a connection string or signature.
        setting: the app setting that names the account, for messages; empty: none.
    """

    connection_string: str | None = None
    account_url: str | None = None
    credential: CredentialSpec | None = None
    setting: str = field(default="", compare=False)

    @property
    def told(self) -> StorageString:
        """The URL and the way in: of the connection string, or of a URL, which has no key."""
        if self.connection_string is not None:
            return parse_connection_string(self.connection_string, "the connection string")
        endpoint, _, signature = (self.account_url or "").partition("?")
        return StorageString("", endpoint, "", "", signature)

    @property
    def endpoint(self) -> str:
        """The service's URL without secrets, as messages name the account."""
        return self.told.endpoint

    @property
    def name(self) -> str:
        """The name of the account; empty: not known, as behind a domain of the user's own."""
        with importing:
            from urllib.parse import urlsplit

        if named := self.told.account:
            return named.lower()
        name, _, domain = (urlsplit(self.endpoint).hostname or "").partition(".")
        return name if domain.startswith(("blob.core.", "queue.core.")) else ""

    def reached_at(self, url: str | None) -> StorageAccount:
        """Return this account with its identity at ``url``; without an identity or a URL, this account."""
        return self if url is None or self.credential is None else replace(self, account_url=url)

    def __repr__(self) -> str:
        """Return the endpoint and the way in, as in ``(https://orders.blob.core.windows.net by account key)``."""
        return f"StorageAccount({self.endpoint} by {self._way_in()})"

    def _way_in(self) -> str:
        if self.credential is not None:
            return self.credential.kind
        return "account key" if self.told.key else "shared access signature"


def resolve_blob_account(name: str, settings: Mapping[str, str]) -> StorageAccount:
    """Return the account that a connection names.

    A name N is looked up as ``ConnectionStrings:AzureWebJobsN``, ``AzureWebJobsN``, ``ConnectionStrings:N`` and N
    (H-21): a connection string there, or settings below it such as ``N__accountName`` and ``N__credential``.
    A connection string may be given in place of a name. A blank name is ``AzureWebJobsStorage`` (W-49).

    Raises:
        ConfigurationError: nothing is set for this name, or the value is wrong. The message has the names looked up.
    """
    name = name.strip() or DEFAULT_CONNECTION
    if "=" in name:
        return StorageAccount(checked_connection_string(name, "the connection string"))
    return configured(name, settings).account("blob", settings)


def resolve_queue_account(name: str, settings: Mapping[str, str]) -> StorageAccount:
    """Return the account that a queue trigger's connection names, by ``ADDRESSES`` (H-25).

    ``ConfigurationError``: nothing is set for this name, or what is set is wrong.
    """
    return configured(name, settings).account("queue", settings)


def check_setting_name(name: str) -> None:
    """Refuse what can't be the name of a connection's app setting, and print none of it: it may be half a key."""
    if not all(char.isalnum() or char in "_-.: " for char in name):
        raise ConfigurationError(
            "connection is neither the name of an app setting nor a connection string: give one of them"
        )


def configured(name: str, settings: Mapping[str, str]) -> _SettingGroup:
    """Return what is configured under a connection's name, at the first of the places where it may be (H-21).

    ``ConfigurationError``, with what was looked for: nothing is configured, or the name is none.
    """
    check_setting_name(name)
    for candidate in (f"AzureWebJobs{name}", name):
        for place in (f"ConnectionStrings__{candidate}", f"CUSTOMCONNSTR_{candidate}", candidate):
            value = filled(settings, place)
            keys = {key: text.strip() for _, key, text in section(settings, place) if text.strip()}
            if value or keys:
                return _SettingGroup(place, value, keys)
    shown = name[:80]
    prefixed = "" if name.lower().startswith("azurewebjobs") else f"AzureWebJobs{shown} or "
    raise ConfigurationError(
        f"connection {quoted(name)}: there is no app setting {prefixed}{shown}. Set {shown} to the account's "
        f"connection string; or, to use an identity, set {shown}__accountName to the account's name"
    )


class _SettingGroup(NamedTuple):
    """A name in the app settings: the value, and the settings below the name (``NAME__key``)."""

    name: str
    value: str | None
    keys: dict[str, str]

    def account(self, service: StorageService, settings: Mapping[str, str]) -> StorageAccount:
        if self.value:  # wins over every setting below it (H-23)
            return StorageAccount(checked_connection_string(self.value, f"app setting {self.name}"), setting=self.name)
        url = self._url(service)
        if "sig=" in url.partition("?")[2]:
            return StorageAccount(account_url=url, setting=self.name)
        if not url.startswith("https:"):
            raise ConfigurationError(
                f"{self.name}: {redact(url)} is not an https URL, and an identity's token is only sent over https"
            )
        identity = credential_of(self.name, self.keys, settings)
        return StorageAccount(account_url=url, credential=identity, setting=self.name)

    def _url(self, service: StorageService) -> str:
        key, given = next(((key, text) for key in ADDRESSES[service] if (text := self.keys.get(key.lower()))), ("", ""))
        if not given:
            wanted = f"Set {self.name}__accountName or {self.name}__{service}ServiceUri"
            raise ConfigurationError(
                f"connection {self.name} names no {'account' if service == 'blob' else f'{service}s'}: it has only "
                f"{', '.join(sorted(self.keys))}. {wanted}"
            )
        label = f"{self.name}__{key}"
        if key == "accountName":
            return f"https://{checked_account_name(given, label)}.{service}.core.windows.net"
        url = checked_url(given, label)
        if (other := service_at(url)) not in (None, service):
            raise ConfigurationError(
                f"{label} is {redact(url)}, the address of {other}s, and the {service}s of this connection are needed. "
                f"Set {self.name}__{service}ServiceUri to their address"
            )
        account = self.keys.get("accountname", "") if service == "blob" else ""
        if account and account.lower() not in re.split(r"[/.:?]+", url.lower()):
            log.warning(
                "%s is %s, which is not of the account %s that %s__accountName names: the locks are at the first, and "
                "queue triggers use the second",
                *(label, redact(url), account, self.name),
            )
        return url


def service_at(url: str) -> StorageService | None:
    """Return the service of a URL by Azure's names, such as ``https://orders.queue.core.windows.net``; else None."""
    labels = url.partition("://")[2].partition("/")[0].lower().split(".")[1:-1]
    return next((service for service in ADDRESSES if service in labels), None)


def checked_account_name(name: str, label: str) -> str:
    """Return the name if a storage account may have it, or raise a ConfigurationError that calls it ``label``."""
    allowed = name.isascii() and name.isalnum() and name == name.lower()
    if not allowed or not 3 <= len(name) <= 24:
        raise ConfigurationError(
            f"{label} is {quoted(name)}: an account's name has from 3 to 24 lower-case letters and digits"
        )
    return name


def checked_connection_string(text: str, label: str) -> str:
    """Return a connection string in full, or raise a ConfigurationError that calls it ``label``."""
    if text.startswith("@Microsoft.KeyVault("):
        raise ConfigurationError(
            f"{label} is a Key Vault reference that Azure could not resolve: check that the app may read the secret"
        )
    if text.startswith(("http://", "https://")):
        raise ConfigurationError(f"{label} is a URL: put it into the setting that ends in __blobServiceUri")
    return parse_connection_string(development_storage(text.strip(), label), label).text


_HIDDEN_KEYS: Final = r"(?:account_?key|shared_?access_?(?:key|signature)|client_?secret|password|pwd)"
_SECRETS: Final = (
    rf"(?i)({_HIDDEN_KEYS}[\"']?\s*[=:]\s*[\"']?)[^;\s\"',}}]+",  # AccountKey=…; "clientSecret": "…"; Password=…
    r"(?i)(\bsig=)[^&;\s\"']+",
    r"(?i)(://[^/\s:@]*:)[^/\s@]+(?=@)",
    r"(?i)(\bSharedKey(?:Lite)?\s+[^:\s]+:)[^\s\"']+",
    r"(?i)(\bBearer\s+)[^\s\"']+",
)


def redact(text: str) -> str:
    """Return the text with account keys, signatures, passwords and tokens as ``***``.

    >>> redact("AccountName=orders;AccountKey=c2VjcmV0")
    'AccountName=orders;AccountKey=***'
    """
    for pattern in _SECRETS:
        text = re.sub(pattern, r"\1***", text)
    return text


_DEVELOPMENT_ACCOUNT: Final = "devstoreaccount1"
_DEVELOPMENT_KEY: Final = (  # the emulator's, the same everywhere and published
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)

_KNOWN_KEYS: Final = {
    key.lower(): key
    for key in (
        *("AccountName", "AccountKey", "SharedAccessSignature", "DefaultEndpointsProtocol", "EndpointSuffix"),
        *("BlobEndpoint", "QueueEndpoint", "TableEndpoint", "FileEndpoint"),
        *("BlobSecondaryEndpoint", "QueueSecondaryEndpoint", "TableSecondaryEndpoint", "FileSecondaryEndpoint"),
        *("UseDevelopmentStorage", "DevelopmentStorageProxyUri"),
    )
}


class StorageString(NamedTuple):
    """A connection string that is complete: ``text`` as the SDK takes it, the blob service's URL in it, the way in.

    Of ``key``, with the account's name, and ``signature`` one is there; the key counts where both are.
    """

    text: str
    endpoint: str
    account: str
    key: str
    signature: str


def parse_connection_string(text: str, label: str) -> StorageString:
    """Check a connection string, called ``label``. ``ConfigurationError``: malformed, or without account or key."""
    parts = _parts(text, label)
    url = parts.get("blobendpoint")
    if not url and not parts.get("accountname"):
        raise ConfigurationError(f"{label} names no account: {_shown(parts)}. Add AccountName or BlobEndpoint")
    if url:
        checked_url(url, f"BlobEndpoint in {label}")
    _check_way_in(parts, label)
    if not url:  # said in full, as the SDK takes the protocol only together with the suffix
        parts = {"defaultendpointsprotocol": "https", "endpointsuffix": "core.windows.net"} | parts
        url = "{defaultendpointsprotocol}://{accountname}.blob.{endpointsuffix}".format_map(parts)
        checked_url(url, f"the blob endpoint that {label} makes")
    endpoint, _, signature = url.partition("?")
    return StorageString(
        ";".join(f"{_KNOWN_KEYS.get(key, key)}={value}" for key, value in parts.items()),
        endpoint,
        account=parts.get("accountname", ""),
        key=parts.get("accountkey", ""),
        signature=parts.get("sharedaccesssignature") or signature,
    )


def _check_way_in(parts: dict[str, str], label: str) -> None:
    check_signature(parts.get("sharedaccesssignature", ""), f"SharedAccessSignature in {label}")
    signed = parts.get("sharedaccesssignature") or "sig=" in parts.get("blobendpoint", "")
    key = parts.get("accountkey")
    if not key:
        if not signed:
            raise ConfigurationError(
                f"{label} has no key: {_shown(parts)}. Add AccountName and AccountKey, or SharedAccessSignature"
            )
        return
    if not parts.get("accountname"):
        raise ConfigurationError(f"{label} has an AccountKey without AccountName: add AccountName")
    try:
        binascii.a2b_base64(key, strict_mode=True)
    except ValueError:
        raise ConfigurationError(f"AccountKey in {label} is not base64: copy the whole key again") from None


def check_signature(text: str, label: str) -> None:
    """Refuse a shared access signature with a character that no URL has, as a line break; call the SAS ``label``."""
    if any(not "!" <= each <= "~" for each in text):
        raise ConfigurationError(
            f"{label} has white space, a line break, or another character that no key or SAS has: copy the whole again"
        )


def _parts(text: str, label: str) -> dict[str, str]:
    """Return the values of a connection string by lower-case key."""
    parts: dict[str, str] = {}
    for number, part in enumerate(text.split(";"), start=1):
        if not part.strip():
            continue
        key, equals, value = part.partition("=")
        key = key.strip().lower()
        if not equals or not key:
            raise ConfigurationError(
                f"{label} can't be parsed: its part {number} is no name with a value behind an equals sign"
            )
        if key in parts:
            raise ConfigurationError(f"{label} has {_KNOWN_KEYS.get(key, 'a key')} twice: keep one of them")
        parts[key] = value.strip()
    return parts


def _shown(parts: dict[str, str]) -> str:
    """Say what the string has, by the names of well-known keys: other keys might be misplaced secrets."""
    known = [_KNOWN_KEYS[key] for key, value in parts.items() if key in _KNOWN_KEYS and value]
    return f"it has only {', '.join(known)}" if known else "it has none of a storage account's keys"


def checked_url(text: str, label: str) -> str:
    """Return a blob service's URL without a slash at its end, or raise a ConfigurationError."""
    with importing:
        from urllib.parse import urlsplit

    check_signature(text.partition("?")[2], label)
    try:
        url = urlsplit(text)
        fine = url.scheme in ("http", "https") and bool(url.hostname) and url.username is None and url.port != 0
    except ValueError:
        fine = False
    if not fine or any(char <= " " for char in text):
        raise ConfigurationError(f"{label} is not a URL: give one such as https://myaccount.blob.core.windows.net")
    return text.rstrip("/")


def development_storage(text: str, label: str) -> str:
    """Return the emulator's connection string in full for ``UseDevelopmentStorage=true``, any other text unchanged."""
    parts = _parts(text, label)
    if "usedevelopmentstorage" not in parts:
        return text
    if parts["usedevelopmentstorage"].lower() != "true":
        raise ConfigurationError(f"UseDevelopmentStorage in {label} is not 'true': leave it out to use an account")
    others = set(parts) - {"usedevelopmentstorage", "developmentstorageproxyuri"}
    if others:
        raise ConfigurationError(f"{label} has UseDevelopmentStorage and an account: keep one of them")
    proxy = checked_url(parts.get("developmentstorageproxyuri") or "http://127.0.0.1", f"the proxy in {label}")
    host = proxy.rpartition(":")[0] if proxy.rpartition(":")[2].isdigit() else proxy
    ports = {"Blob": 10000, "Queue": 10001, "Table": 10002}
    endpoints = [f"{service}Endpoint={host}:{port}/{_DEVELOPMENT_ACCOUNT}" for service, port in ports.items()]
    account = f"AccountName={_DEVELOPMENT_ACCOUNT};AccountKey={_DEVELOPMENT_KEY}"
    return ";".join([f"DefaultEndpointsProtocol={proxy.partition(':')[0]}", account, *endpoints])
