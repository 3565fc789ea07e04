"""Connections: which account a setting names, and that no secret is ever printed (H-21 to H-28, W-48 to W-50)."""

from __future__ import annotations

import dataclasses
import doctest
import logging
import pickle
from typing import TYPE_CHECKING

import pytest
from azure.identity import aio
from azure.storage.blob import BlobServiceClient
from hypothesis import given
from hypothesis import strategies as st

from singleton.base.errors import ConfigurationError
from singleton.runtime.accounts.credentials import open_credential
from singleton.settings import connection
from singleton.settings.connection import (
    StorageAccount,
    configured,
    redact,
    resolve_blob_account,
    resolve_queue_account,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from singleton.settings.connection import StorageService

KEY = "c2VjcmV0LWtleS1vZi1vcmRlcnM="
ORDERS = f"DefaultEndpointsProtocol=https;AccountName=orders;AccountKey={KEY};EndpointSuffix=core.windows.net"
OTHER = f"DefaultEndpointsProtocol=https;AccountName=other;AccountKey={KEY};EndpointSuffix=core.windows.net"
SIGNED = "sv=2024-01-01&sig=hush%2Bhush%3D"
EMULATOR = "http://127.0.0.1:10000/devstoreaccount1"


def refusal(name: str, settings: dict[str, str]) -> str:
    with pytest.raises(ConfigurationError) as caught:
        resolve_blob_account(name, settings)
    return str(caught.value)


def account_name(account: StorageAccount) -> str | None:
    """The account as the SDK understands it."""
    assert account.connection_string
    return BlobServiceClient.from_connection_string(account.connection_string).account_name


# Where a name is looked up


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("AzureWebJobsStorage", {"AzureWebJobsStorage": ORDERS}),
        ("Storage", {"AzureWebJobsStorage": ORDERS}),
        ("", {"AzureWebJobsStorage": ORDERS}),  # W-49
        ("  ", {"AzureWebJobsStorage": ORDERS}),
        ("Orders", {"Orders": ORDERS}),
        ("Orders", {"AzureWebJobsOrders": ORDERS, "Orders": OTHER}),
        ("Orders", {"ConnectionStrings__AzureWebJobsOrders": ORDERS, "AzureWebJobsOrders": OTHER}),
        ("Orders", {"ConnectionStrings:Orders": ORDERS, "Orders": OTHER}),
        ("Orders", {"CUSTOMCONNSTR_Orders": ORDERS, "Orders": OTHER}),
        ("Orders", {"AzureWebJobsOrders": OTHER.replace("other", "orders"), "ConnectionStrings__Orders": OTHER}),
        ("orders", {"ORDERS": ORDERS}),
        ("Orders", {"AzureWebJobsOrders": "  ", "Orders": ORDERS}),
        ("Orders", {"Orders": f"  {ORDERS};\n"}),
        ("Orders", {"Orders": ORDERS, "Orders__accountName": "other"}),  # H-23
        (ORDERS, {}),
        (f"AccountName=orders;AccountKey={KEY}", {}),
    ],
)
def test_a_name_is_looked_up_as_the_host_does(name: str, settings: dict[str, str]) -> None:
    """H-21."""
    account = resolve_blob_account(name, settings)
    assert account_name(account) == "orders"
    assert account.endpoint == "https://orders.blob.core.windows.net"
    assert (account.account_url, account.credential) == (None, None)


@pytest.mark.parametrize(
    ("name", "settings", "expected"),
    [
        (
            "Orders",
            {},
            "connection 'Orders': there is no app setting AzureWebJobsOrders or Orders. Set Orders to",
        ),  # H-22
        ("", {"AzureWebJobsStorage": ""}, "there is no app setting AzureWebJobsStorage. Set AzureWebJobsStorage to"),
        ("Orders", {"Orders__credential": "managedidentity"}, "has only credential. Set Orders__accountName or"),
        (
            "O",
            {"O__queueServiceUri": "https://x", "O__tenantId": "t"},
            "has only queueserviceuri, tenantid. Set O__",
        ),
        (
            "O",
            {"O": "@Microsoft.KeyVault(SecretUri=https://v/s)"},
            "app setting O is a Key Vault reference that Azure could not resolve",
        ),
        ("O", {"O": f"https://orders.blob.core.windows.net?{SIGNED}"}, "app setting O is a URL: put it into"),
        (f"https://orders.blob.core.windows.net?{SIGNED}", {}, "the connection string is a URL"),
        ("hush/hush+hush", {}, "neither the name of an app setting nor a connection string"),
    ],
)
def test_a_connection_that_is_not_set_up_is_refused_with_what_to_set(
    name: str, settings: dict[str, str], expected: str
) -> None:
    message = refusal(name, settings)
    assert expected in message
    assert "hush" not in message


# Connection strings


@pytest.mark.parametrize(
    ("text", "endpoint", "way_in"),
    [
        ("UseDevelopmentStorage=true", EMULATOR, "account key"),
        ("usedevelopmentstorage=True;", EMULATOR, "account key"),
        (
            "UseDevelopmentStorage=true;DevelopmentStorageProxyUri=http://azurite",
            "http://azurite:10000/devstoreaccount1",
            "account key",
        ),
        (
            "UseDevelopmentStorage=true;DevelopmentStorageProxyUri=https://azurite:8888/",
            "https://azurite:10000/devstoreaccount1",
            "account key",
        ),
        (
            f"DefaultEndpointsProtocol=http;AccountName=orders;AccountKey={KEY}",
            "http://orders.blob.core.windows.net",
            "account key",
        ),
        (f"AccountName=a;AccountKey={KEY};BlobEndpoint=http://h:1/a/", "http://h:1/a/", "account key"),
        (
            f"accountname=orders;accountkey={KEY};endpointsuffix=core.chinacloudapi.cn",
            "https://orders.blob.core.chinacloudapi.cn",
            "account key",
        ),
        (
            f"BlobEndpoint=https://o.example;SharedAccessSignature={SIGNED}",
            "https://o.example",
            "shared access signature",
        ),
        (
            f"AccountName=orders;SharedAccessSignature={SIGNED}",
            "https://orders.blob.core.windows.net",
            "shared access signature",
        ),
        (f"BlobEndpoint=https://o.example?{SIGNED}", "https://o.example", "shared access signature"),
    ],
)
def test_a_connection_string_is_completed_for_the_sdk(text: str, endpoint: str, way_in: str) -> None:
    account = resolve_blob_account(text, {})
    assert account.endpoint == endpoint
    assert repr(account) == f"StorageAccount({endpoint} by {way_in})"
    assert account.connection_string
    with BlobServiceClient.from_connection_string(account.connection_string) as client:
        assert client.url.partition("?")[0].rstrip("/") == endpoint.rstrip("/")
        assert ("sig=" in client.url) == ("signature" in way_in)
        assert (client.credential is not None) == ("key" in way_in)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("AccountName=orders;hushhush", "can't be parsed: its part 2 is no name with a value"),
        ("=hush", "can't be parsed: its part 1 is no name with a value"),
        (f"AccountName=orders;AccountKey={KEY};AccountKey=hush", "has AccountKey twice"),
        (
            "hush=hush",
            "names no account: it has none of a storage account's keys. Add AccountName or BlobEndpoint",
        ),
        ("AccountName=orders", "has no key: it has only AccountName. Add AccountName and AccountKey, or Shared"),
        ("AccountName=orders;AccountKey=", "has no key: it has only AccountName."),
        (f"AccountKey={KEY}", "names no account: it has only AccountKey."),
        (f"BlobEndpoint=https://h;AccountKey={KEY}", "has an AccountKey without AccountName"),
        ("AccountName=orders;AccountKey=hush-hush", "AccountKey in the connection string is not base64"),
        ("AccountName=orders;AccountKey=hushé", "AccountKey in the connection string is not base64"),
        ("AccountName=orders;AccountKey=hush1", "AccountKey in the connection string is not base64"),
        (f"AccountName=a b;AccountKey={KEY}", "the blob endpoint that the connection string makes is not a URL"),
        (f"AccountName=a;AccountKey={KEY};DefaultEndpointsProtocol=ftp", "makes is not a URL"),
        (f"AccountName=a;AccountKey={KEY};BlobEndpoint=hush.net", "BlobEndpoint in the connection string is not a URL"),
        ("UseDevelopmentStorage=false", "UseDevelopmentStorage in the connection string is not 'true'"),
        ("UseDevelopmentStorage=true;AccountName=hush", "has UseDevelopmentStorage and an account"),
        (
            "UseDevelopmentStorage=true;DevelopmentStorageProxyUri=hush",
            "the proxy in the connection string is not a URL",
        ),
        (f"Endpoint=sb://hush.servicebus.windows.net/;SharedAccessKeyName=n;SharedAccessKey={KEY}", "names no account"),
    ],
)
def test_a_malformed_connection_string_is_refused_without_being_printed(text: str, expected: str) -> None:
    for message in (
        refusal(text, {}),
        refusal("Orders", {"Orders": text}).replace("app setting Orders", "the connection string"),
    ):
        assert expected in message
        assert "hush" not in message
        assert KEY not in message


@given(st.text(max_size=60) | st.text(alphabet="AccountKey=;Sig hus/+", max_size=40))
def test_any_connection_is_resolved_or_refused_as_configuration(text: str) -> None:
    for name, found in ((text, {}), ("Orders", {"Orders": text}), ("Orders", {"Orders__blobServiceUri": text})):
        try:
            account = resolve_blob_account(name, found)
        except ConfigurationError:
            continue
        assert account.endpoint


# Identities


@pytest.mark.parametrize(
    ("keys", "url"),
    [
        ({"accountName": "orders"}, "https://orders.blob.core.windows.net"),
        ({"ACCOUNTNAME": "orders"}, "https://orders.blob.core.windows.net"),
        ({"blobServiceUri": "https://orders.blob.core.windows.net/"}, "https://orders.blob.core.windows.net"),
        ({"blobServiceUri": "https://o.example", "accountName": " "}, "https://o.example"),
        ({"serviceUri": "https://orders.blob.core.windows.net/"}, "https://orders.blob.core.windows.net"),
        ({"SERVICEURI": "https://o.example", "blobServiceUri": ""}, "https://o.example"),
    ],
)
@pytest.mark.parametrize("separator", ["__", ":"])
def test_an_account_is_named_by_uri_or_name(keys: dict[str, str], url: str, separator: str) -> None:
    """H-24."""
    account = resolve_blob_account("Orders", {f"Orders{separator}{key}": value for key, value in keys.items()})
    assert account == resolve_blob_account("Orders", {"Orders__blobServiceUri": url})
    assert (account.endpoint, repr(account)) == (url, f"StorageAccount({url} by DefaultAzureCredential)")


AZURE = "https://orders.{}.core.windows.net"


@pytest.mark.parametrize("service", ["blob", "queue", "table"])
@pytest.mark.parametrize(
    "others",
    [
        {},
        {"serviceUri": "https://short.example"},
        {"blobServiceUri": AZURE.format("blob"), "queueServiceUri": AZURE.format("queue"), "tableserviceuri": "x"},
    ],
)
def test_each_service_has_an_address_of_its_own_which_goes_before_the_short_form(
    service: StorageService, others: dict[str, str]
) -> None:
    """The documented spellings: with one setting for each service, a connection serves all of them."""
    keys = others | {f"{service}ServiceUri": AZURE.format(service)}
    account = configured("O", {f"O:{key}": text for key, text in keys.items()}).account(service, {})
    assert account.account_url == AZURE.format(service)
    named = configured("O", {"O__accountName": "orders", "O__serviceUri": "https://short.example"})
    assert named.account(service, {}).account_url == AZURE.format(service)


@pytest.mark.parametrize("key", ["serviceUri", "queueServiceUri"])
@pytest.mark.parametrize(
    "url",
    [
        "https://orders.table.core.windows.net",
        "https://orders.z7.blob.storage.azure.net:443/?sv=1&sig=hush",
        "https://ORDERS.privatelink.BLOB.core.chinacloudapi.cn",
    ],
)
def test_the_address_of_another_service_is_refused_with_the_setting_that_is_missing(key: str, url: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        resolve_queue_account("O", {f"O__{key}": url})
    said = str(caught.value)
    assert f"O__{key} is {url.partition('?')[0]}" in said
    assert "Set O__queueServiceUri to their address" in said
    assert "hush" not in said


def test_the_uri_wins_over_the_name_and_a_disagreement_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    """H-24, H-25."""
    with caplog.at_level(logging.WARNING, "singleton"):
        agreed = {"O__blobServiceUri": "https://orders.blob.core.windows.net", "O__accountName": "orders"}
        assert resolve_blob_account("O", agreed).account_url == "https://orders.blob.core.windows.net"
        assert not caplog.records
        account = resolve_blob_account("O", agreed | {"O__accountName": "other"})
    assert account.account_url == "https://orders.blob.core.windows.net"
    assert "is not of the account other that O__accountName names" in caplog.text


def test_a_uri_with_a_signature_needs_no_identity_and_keeps_it_secret() -> None:
    account = resolve_blob_account("O", {"O__blobServiceUri": f"https://orders.blob.core.windows.net/?{SIGNED}"})
    assert account.account_url == f"https://orders.blob.core.windows.net/?{SIGNED}"
    assert account.credential is None
    assert "hush" not in repr(account)
    assert repr(account).endswith("by shared access signature)")


@pytest.mark.parametrize(
    ("keys", "kind", "arguments"),
    [
        ({"credential": "managedidentity"}, "ManagedIdentityCredential", {}),  # H-26
        ({"credential": "ManagedIdentity", "clientId": "c"}, "ManagedIdentityCredential", {"client_id": "c"}),
        (
            {"credential": "managedidentity", "managedIdentityClientId": "c"},
            "ManagedIdentityCredential",
            {"client_id": "c"},
        ),
        (
            {"credential": "managedidentity", "managedIdentityResourceId": "/r"},
            "ManagedIdentityCredential",
            {"identity_config": {"resource_id": "/r"}},
        ),
        (
            {"credential": "managedidentity", "managedIdentityObjectId": "o"},
            "ManagedIdentityCredential",
            {"identity_config": {"object_id": "o"}},
        ),
        (
            {"tenantId": "t", "clientId": "c", "clientSecret": "hush"},
            "ClientSecretCredential",
            {"tenant_id": "t", "client_id": "c", "client_secret": "hush"},
        ),  # H-27
        (
            {"tenantId": "t", "clientId": "c", "clientCertificate": "/cert.pem"},
            "CertificateCredential",
            {"tenant_id": "t", "client_id": "c", "certificate_path": "/cert.pem"},
        ),
        (
            {"credential": "workloadidentity", "clientId": "c"},
            "WorkloadIdentityCredential",
            {"tenant_id": "env-t", "client_id": "c", "token_file_path": "/env-token"},
        ),
        (
            {"credential": "workloadidentity", "tenantId": "t", "clientId": "c", "tokenFilePath": "/f"},
            "WorkloadIdentityCredential",
            {"tenant_id": "t", "client_id": "c", "token_file_path": "/f"},
        ),
        ({"tenantId": "t"}, "DefaultAzureCredential", {"workload_identity_tenant_id": "t"}),  # H-28
        ({"clientId": "c"}, "DefaultAzureCredential", {"managed_identity_client_id": "c"}),
        ({}, "DefaultAzureCredential", {}),
    ],
)
def test_the_identity_is_the_one_that_the_settings_ask_for(
    keys: dict[str, str], kind: str, arguments: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aio, kind, lambda **given: {name: value for name, value in given.items() if value})
    settings = {"Orders__accountName": "orders", "AZURE_TENANT_ID": "env-t", "AZURE_FEDERATED_TOKEN_FILE": "/env-token"}
    account = resolve_blob_account("Orders", settings | {f"Orders__{key}": value for key, value in keys.items()})
    assert account.credential is not None
    made: object = open_credential(account.credential)
    assert (account.credential.kind, made) == (kind, arguments)
    assert "hush" not in repr(account) + repr(account.credential)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (
            {"accountName": "Orders!"},
            "O__accountName is 'Orders!': an account's name has from 3 to 24 lower-case letters",
        ),
        ({"accountName": "ab"}, "O__accountName is 'ab': an account's name has from 3 to 24"),
        (
            {"blobServiceUri": "orders.blob.core.windows.net"},
            "O__blobServiceUri is not a URL: give one such as https://",
        ),  # H-24
        ({"blobServiceUri": "https://"}, "O__blobServiceUri is not a URL"),
        ({"blobServiceUri": "https://[x"}, "O__blobServiceUri is not a URL"),
        ({"blobServiceUri": "https://a b"}, "O__blobServiceUri is not a URL"),
        ({"blobServiceUri": "https://u:hush@h"}, "O__blobServiceUri is not a URL"),
        ({"blobServiceUri": "http://h"}, "O: http://h is not an https URL"),
        (
            {"accountName": "abc", "credential": "managedidentity", "clientId": "c", "managedIdentityResourceId": "r"},
            "O__clientId and O__managedIdentityResourceId each name a managed identity: keep one of these",
        ),
        (
            {"accountName": "abc", "credential": "magic"},
            "O__credential is 'magic': give 'managedidentity' or 'workloadidentity', or leave it out",
        ),
        (
            {"accountName": "abc", "credential": "workloadidentity", "clientId": "c"},
            "O__credential is 'workloadidentity': set O__tenantId or AZURE_TENANT_ID as well",
        ),
        ({"accountName": "abc", "clientSecret": "hush"}, "O__clientSecret needs O__tenantId and O__clientId as well"),
        ({"accountName": "abc", "clientCertificate": "x"}, "O__clientCertificate needs O__tenantId and O__clientId"),
    ],
)
def test_settings_that_contradict_or_are_incomplete_are_refused(keys: dict[str, str], expected: str) -> None:
    message = refusal("O", {f"O__{key}": value for key, value in keys.items()})
    assert expected in message
    assert "hush" not in message


# Values


def test_accounts_are_values_that_can_be_keys_of_a_cache() -> None:
    one, same = resolve_blob_account(ORDERS, {}), resolve_blob_account("Orders", {"Orders": ORDERS + ";"})
    assert one == same
    assert len({one, same}) == 1
    assert pickle.loads(pickle.dumps(one)) == one  # noqa: S301 - our own bytes
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.account_url = "x"  # type: ignore[misc]


@pytest.mark.parametrize("show", [repr, str, lambda account: f"{account}", lambda account: f"{[account]}"])
def test_an_account_never_shows_its_secrets(show: Callable[[StorageAccount], str]) -> None:
    for text in (
        ORDERS,
        f"AccountName=orders;SharedAccessSignature={SIGNED}",
        f"BlobEndpoint=https://o.example?{SIGNED}",
    ):
        shown = show(resolve_blob_account(text, {}))
        assert KEY not in shown
        assert "hush" not in shown


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("AccountName=a;AccountKey=hush==;EndpointSuffix=s", "AccountName=a;AccountKey=***;EndpointSuffix=s"),
        ("accountkey = hush", "accountkey = ***"),
        ('{"AccountKey": "hush", "x": 1}', '{"AccountKey": "***", "x": 1}'),
        ("SharedAccessSignature=sv=1&sig=hush;x=y", "SharedAccessSignature=***;x=y"),
        ("SharedAccessKey=hush", "SharedAccessKey=***"),
        ("https://h/c?sv=1&sig=hush%2B&se=2", "https://h/c?sv=1&sig=***&se=2"),
        ("https://h/c?sig=hush", "https://h/c?sig=***"),
        ("http://user:hush@host/", "http://user:***@host/"),
        ("Password=hush;User=u", "Password=***;User=u"),
        ("Orders__clientSecret: hush", "Orders__clientSecret: ***"),
        ("Authorization: SharedKey orders:hush=", "Authorization: SharedKey orders:***"),
        ("Authorization: Bearer hush.hush", "Authorization: Bearer ***"),
        ("nothing to hide; design=1", "nothing to hide; design=1"),
    ],
)
def test_secrets_are_taken_out_of_a_text(text: str, expected: str) -> None:
    assert redact(text) == expected


SECRET = st.text(alphabet="ABCXYZabcxyz0189+/=%-_.", min_size=8, max_size=88).filter(lambda text: text.strip("=*"))


@given(
    SECRET, st.sampled_from(["AccountKey={}", "x;AccountKey={};y", "https://h/c?sv=1&sig={}", '"clientSecret": "{}"'])
)
def test_no_secret_is_left_wherever_it_stands(secret: str, around: str) -> None:
    assert secret not in redact(around.replace("{}", secret))


def test_the_examples_are_right() -> None:
    result = doctest.testmod(connection)
    assert result.attempted
    assert not result.failed
