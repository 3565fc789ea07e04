"""A suggested ``singleton-locks break`` works as it stands: with the container, the account, and a quoted name."""

from __future__ import annotations

import shlex

import pytest

from singleton.cli.holder_commands import break_
from singleton.settings.accounts import GivenAccount, GivenClients, LockContainer
from singleton.settings.connection import StorageAccount, resolve_blob_account

KEY = "DefaultEndpointsProtocol=https;AccountName=orders;AccountKey=YWJj;EndpointSuffix=core.windows.net"


def by_setting(connection: str, **settings: str) -> StorageAccount:
    return resolve_blob_account(connection, settings)


def clients(container: str) -> None:  # pragma: no cover - never called
    raise AssertionError(container)


@pytest.mark.parametrize(
    ("account", "options"),
    [
        (by_setting("AzureWebJobsStorage", AzureWebJobsStorage=KEY), {}),
        (by_setting("Orders", AzureWebJobsOrders=KEY), {"connection": "AzureWebJobsOrders"}),
        (by_setting("Orders", Orders__accountName="orders"), {"connection": "Orders"}),
        (by_setting(KEY), {"account": "https://orders.blob.core.windows.net"}),
        (by_setting("UseDevelopmentStorage=true"), {"connection": "UseDevelopmentStorage=true"}),
        (
            GivenAccount("https://orders.blob.core.windows.net", object()),
            {"account": "https://orders.blob.core.windows.net"},
        ),
        (GivenClients(clients), {}),  # type: ignore[arg-type]
    ],
)
@pytest.mark.parametrize("name", ["dev.tfstate", "ship it's 5 o'clock", "-x", 'a"b$c'])
def test_the_command_names_container_account_and_lock(
    account: StorageAccount | GivenAccount | GivenClients, options: dict[str, str], name: str
) -> None:
    command = LockContainer(account, "tfstate").break_command(name)
    program, verb, *given = shlex.split(command)
    assert (program, verb) == ("singleton-locks", "break")
    parsed = break_.make_context("break", given).params
    expected = {"account": None, "connection": "AzureWebJobsStorage", "container": "tfstate", "name": name} | options
    assert {key: parsed[key] for key in expected} == expected
    assert "YWJj" not in command


def test_a_name_in_plain_letters_reads_plainly() -> None:
    place = LockContainer(by_setting("AzureWebJobsStorage", AzureWebJobsStorage=KEY), "tfstate")
    assert place.break_command("dev.tfstate") == "singleton-locks break dev.tfstate --container tfstate"
