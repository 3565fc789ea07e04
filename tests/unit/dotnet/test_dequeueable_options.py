"""Dequeueable's options: the settings Dequeueable:Singleton, each checked by name, value and range (D-1 to D-8)."""

from __future__ import annotations

import pytest

from singleton.base.errors import ConfigurationError
from singleton.dotnet.dequeueable import DequeueableLayout, DequeueableOptions, load_dequeueable
from singleton.settings.connection import CredentialSpec, StorageAccount
from singleton.settings.options import SingletonOptions

BIGGEST = str(2**31 - 1)


def setting(key: str, value: str) -> dict[str, str]:
    return {f"Dequeueable__Singleton__{key}": value}


def refusal(settings: dict[str, str]) -> str:
    with pytest.raises(ConfigurationError) as caught:
        load_dequeueable(settings)
    return str(caught.value)


def test_the_defaults_are_dequeueable_s() -> None:
    """D-3 to D-5, D-7, D-8."""
    options = load_dequeueable({"Dequeueable__QueueName": "orders", "Dequeueable__SingletonX__Scope": "no"})
    assert options == DequeueableOptions(
        scope=None, lease=60, shortest=10, longest=120, retries=3, container="webjobshost", account_url=None
    )


@pytest.mark.parametrize("prefix", ["Dequeueable__Singleton__", "Dequeueable:Singleton:", "DEQUEUEABLE:singleton__"])
@pytest.mark.parametrize("spelt", [str, str.lower, str.upper])
def test_all_of_them_are_read_from_the_settings_however_they_are_spelt(prefix: str, spelt: type[str]) -> None:
    """D-1."""
    given = {
        "Scope": "My:Nested:Id",
        "LeaseDurationInSeconds": "30",
        "MinimumPollingIntervalInSeconds": "1",
        "MaximumPollingIntervalInSeconds": "5",
        "MaxRetries": "7",
        "ContainerName": "locks",
        "BlobUriFormat": "https://{accountName}.privateazure.com/{containerName}/{blobName}",
    }
    assert load_dequeueable({prefix + spelt(key): value for key, value in given.items()}) == DequeueableOptions(
        scope="My:Nested:Id",
        lease=30,
        shortest=1,
        longest=5,
        retries=7,
        container="locks",
        account_url="https://{accountName}.privateazure.com",
    )


@pytest.mark.parametrize(
    ("key", "allowed", "refused", "range_"),
    [
        ("LeaseDurationInSeconds", ["15", "60", " 30 "], ["14", "61", "-15", "30.5", "x", "9" * 30], "from 15 to 60"),
        ("MinimumPollingIntervalInSeconds", ["0", "119"], ["-1", "1.5", "", BIGGEST + "0"], "of at least 0"),
        ("MaximumPollingIntervalInSeconds", ["11", BIGGEST], ["0", "-1", "٣"], "of at least 1"),
        ("MaxRetries", ["0", "10"], ["-1", "11"], "from 0 to 10"),
    ],
)
def test_numbers_have_their_ranges(key: str, allowed: list[str], refused: list[str], range_: str) -> None:
    for text in allowed:
        load_dequeueable(setting(key, text))
    for text in refused:
        message = refusal(setting(key, text))
        assert f"app setting Dequeueable__Singleton__{key} is " in message
        assert repr(text)[:40] in message
        assert f"it must be a whole number {range_}" in message


@pytest.mark.parametrize(("least", "most"), [("10", "10"), ("11", "10"), ("120", "120")])
def test_the_shortest_delay_is_less_than_the_longest(least: str, most: str) -> None:
    """D-6."""
    message = refusal(
        setting("MinimumPollingIntervalInSeconds", least) | setting("MaximumPollingIntervalInSeconds", most)
    )
    assert f"MinimumPollingIntervalInSeconds is {least}" in message
    assert f"MaximumPollingIntervalInSeconds, {most}" in message


@pytest.mark.parametrize("key", ["Scope", "ContainerName", "BlobUriFormat"])
@pytest.mark.parametrize("blank", ["", "  "])
def test_texts_are_not_blank(key: str, blank: str) -> None:
    """D-2, D-8."""
    message = refusal(setting(key, blank))
    assert f"app setting Dequeueable__Singleton__{key} is {blank!r}: " in message


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (setting("Scope", "a::b"), ["Dequeueable__Singleton__Scope", "'a::b' has an empty segment"]),
        (setting("ContainerName", "Locks"), ["Dequeueable__Singleton__ContainerName", "'Locks'", "lower-case"]),
        (setting("MaxRetry", "1"), ["Dequeueable__Singleton__MaxRetry", "did you mean 'MaxRetries'?"]),
        (setting("Nothing__Like__It", "1"), ["no key of this name", "LeaseDurationInSeconds", "BlobUriFormat"]),
        (setting("MaxRetries", "1") | {"Dequeueable:Singleton:maxretries": "2"}, ["given twice", "keep one"]),
        (
            setting("BlobUriFormat", "https://{blobName}.privateazure.com/"),
            ["and end with /{containerName}/{blobName}"],
        ),
        (setting("BlobUriFormat", "http://a/{containerName}/{blobName}"), ["must begin with https://"]),
    ],
)
def test_what_is_wrong_is_said_by_key_and_value(given: dict[str, str], told: list[str]) -> None:
    message = refusal(given)
    for part in told:
        assert part in message


def test_they_become_options_of_the_lock() -> None:
    layout = DequeueableLayout(load_dequeueable(setting("ContainerName", "locks")))
    adapted = SingletonOptions(container="mine", lock_period=15, lock_acquisition_timeout=5).replace(
        **layout.fixed_options
    )
    assert (adapted.container, adapted.lock_period, adapted.lock_acquisition_timeout) == ("locks", 60, None)


@pytest.mark.parametrize(
    ("settings", "scope", "scope_id", "expected"),
    [
        ({}, "Id", "", "Id"),
        (setting("Scope", "Other"), "Id", "", "Id"),
        (setting("Scope", "Other"), None, "", "Other"),
        (setting("Scope", "Other"), None, "{Id}", None),
    ],
)
def test_the_declaration_s_scope_wins_over_the_section_s(
    settings: dict[str, str], scope: str | None, scope_id: str, expected: str | None
) -> None:
    """D-1."""
    assert DequeueableLayout(load_dequeueable(settings)).path(scope, scope_id) == expected


def test_a_scope_is_needed_and_one_is_enough() -> None:
    """D-2, D-16."""
    layout = DequeueableLayout(load_dequeueable({}))
    with pytest.raises(ConfigurationError, match="give @singleton one, or set Dequeueable__Singleton__Scope"):
        layout.path(None, "")
    with pytest.raises(ConfigurationError, match="scope or scope_id, not both"):
        layout.path("Id", "{Id}")


IDENTITY = CredentialSpec("DefaultAzureCredential")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            "https://{accountName}.blob.core.windows.net/{containerName}/{blobName}",
            "https://orders.blob.core.windows.net",
        ),
        ("https://{ACCOUNTNAME}.privateazure.com/{CONTAINERNAME}/{BLOBNAME}", "https://orders.privateazure.com"),
        ("https://blobs.example:8443/x/{containerName}/{blobName}", "https://blobs.example:8443/x"),
    ],
)
def test_an_identity_goes_where_the_uri_format_says(given: str, expected: str) -> None:
    """D-20."""
    account = StorageAccount(account_url="https://orders.blob.core.windows.net", credential=IDENTITY)
    layout = DequeueableLayout(load_dequeueable(setting("BlobUriFormat", given)))
    assert account.reached_at(layout.account_url(account.endpoint)) == StorageAccount(
        account_url=expected, credential=IDENTITY
    )


def test_a_connection_string_goes_where_it_says_itself() -> None:
    """D-19."""
    layout = DequeueableLayout(load_dequeueable(setting("BlobUriFormat", "https://a/{containerName}/{blobName}")))
    account = StorageAccount(connection_string="AccountName=orders;AccountKey=a2V5;EndpointSuffix=core.windows.net")
    assert account.reached_at(layout.account_url(account.endpoint)) is account
