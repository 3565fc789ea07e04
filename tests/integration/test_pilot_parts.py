"""The parts of a pilot on Azurite: its container and leftovers, idle connections, and the storm."""

from __future__ import annotations

import asyncio
import time
import uuid
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from azure.storage.blob import (
    AccountSasPermissions,
    BlobServiceClient,
    ResourceTypes,
    generate_account_sas,
)

from simulator.pilot import idle
from simulator.pilot.container import LATE, PREFIX, delete_container, leftovers, make_container
from simulator.pilot.idle import watch_idle
from simulator.pilot.storm import storm
from simulator.pilot_cli import given_storage
from simulator.proxy.actions import Answer, Hang
from simulator.real.settle import Signals
from simulator.report.words import Reporter
from singleton.settings.connection import StorageAccount, parse_connection_string, resolve_blob_account
from singleton.stores.protocol import StoreFailure
from tests.support.recording_proxy import ProxyThread, on

if TYPE_CHECKING:
    from simulator.azurite.server import Azurite

pytestmark = pytest.mark.process


@pytest.fixture
def name() -> str:
    return f"{PREFIX}{uuid.uuid4().hex[:12]}"


def test_only_a_marked_container_is_a_leftover_and_is_deleted(connection_string: str, name: str) -> None:
    account = StorageAccount(connection_string)

    async def main() -> None:
        await make_container(account, name, time.time() - LATE - 60)
        await make_container(account, f"{name}-fresh", time.time())
        left = await leftovers(account)
        assert name in left
        assert not {f"{name}-fresh", f"{name}-theirs"} & {*left}
        with pytest.raises(StoreFailure, match="it stays"):
            await delete_container(account, f"{name}-theirs")
        for made in (name, f"{name}-fresh", f"{name}-none"):
            await delete_container(account, made)
        assert name not in await leftovers(account)

    with BlobServiceClient.from_connection_string(connection_string) as service:
        theirs = service.create_container(f"{name}-theirs")
        asyncio.run(main())
        theirs.delete_container()


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("kept", "was answered on the same connection"),
        ("closed", "had closed the connection after"),
        ("dropped", "dropped without a word"),
        ("denied", "not tried"),
    ],
)
def test_it_is_told_what_becomes_of_an_idle_connection(
    azurite: Azurite, name: str, monkeypatch: pytest.MonkeyPatch, what: str, said: str
) -> None:
    monkeypatch.setattr(idle, "_ANSWER", 1.0)
    with ProxyThread(azurite.blob_port) as proxy:

        def now() -> float:
            if what == "closed":
                proxy.reset_connections()
            return time.monotonic()

        monkeypatch.setattr(idle, "time", SimpleNamespace(monotonic=now))  # the idle time begins
        account = StorageAccount(proxy.connection_string(azurite.connection_string))

        async def main() -> str:
            await make_container(account, name, time.time())
            if what == "denied":
                proxy.add(on("put"), Answer(403, "AuthorizationFailure"))
            if what == "dropped":
                proxy.add(on("head"), Hang(), skip=1)
            (finding,) = (await watch_idle(account, name, [0.02])).findings
            proxy.clear()
            await delete_container(account, name)
            return finding.text

        assert said in asyncio.run(main())


@pytest.mark.slow
def test_the_storm_kills_and_pauses_and_is_judged_and_only_its_container_is_touched(
    connection_string: str, name: str
) -> None:
    """The account is reached by settings below the connection's name, as an identity is: here by a URL with a SAS."""
    told = parse_connection_string(connection_string, "Azurite")
    signature = generate_account_sas(
        told.account,
        told.key,
        ResourceTypes(service=True, container=True, object=True),
        AccountSasPermissions(read=True, write=True, delete=True, list=True, add=True, create=True),
        expiry=datetime.now(UTC) + timedelta(hours=1),
    )
    settings = {"PILOT__blobServiceUri": f"{told.endpoint}?{signature}"}
    account = resolve_blob_account("PILOT", settings)
    asyncio.run(make_container(account, name, time.time()))
    with BlobServiceClient.from_connection_string(connection_string) as service, Signals() as signals:
        before = {each.name for each in service.list_containers()}
        storage = given_storage("PILOT", account, settings)
        part, outcome = storm(storage, name, Reporter(), signals, seconds=12.0, seed=3, hosts=3)
        assert {each.name for each in service.list_containers()} <= before
        assert [*service.get_container_client(name).list_blob_names()]
    asyncio.run(delete_container(account, name))
    assert [finding.text for finding in part.findings if finding.kind == "violation"] == []
    assert part.looked_at["messages"] > 10
    assert part.looked_at["kills"] + part.looked_at["pauses"] >= 1
    assert outcome is not None
    assert outcome.verdict is not None
