"""The host sees the lease requests that go over the network, and nothing else of them."""

from __future__ import annotations

import asyncio
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal
from zlib import crc32

import pytest
from aiohttp import ClientPayloadError, ClientSession

from simulator.witness import tap
from simulator.witness.tap import tap_leases
from singleton.runtime.accounts.stores import open_container
from singleton.settings.connection import StorageAccount
from singleton.stores.http.connections import Connections
from tests.support.scripted_server import LEASED, Answer, ScriptedServer

if TYPE_CHECKING:
    from collections.abc import Callable

URL = "http://127.0.0.1:10000/account/container/locks/h/ship.a%252Db?comp=lease&sig=secret"


def _plain(fields: dict[str, Any]) -> dict[str, Any]:
    """Return what was told of a request without how long it took, and by what leases are told apart."""
    return {name: value for name, value in fields.items() if name not in {"took", "lease"}}


def _answered(patch: pytest.MonkeyPatch, write: Callable[..., None], **answer: Any) -> Callable[..., Any]:
    """Return a tapped way to send requests, each of which gets the same answer: by default a success."""

    async def answered(*_: object, **__: object) -> Any:
        return SimpleNamespace(**{"status": 200, "headers": {}, **answer})

    patch.setattr(ClientSession, "_request", answered)
    tap_leases(write)
    request: Any = ClientSession._request
    return partial(request, SimpleNamespace())


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[dict[str, Any]]]:
    """Send a request through the tap, and return what was told of it."""

    async def answer(*_: object, **more: Any) -> Any:
        await asyncio.sleep(0)
        if more["status"] is None:
            raise ConnectionError
        return SimpleNamespace(status=more["status"], headers={})

    monkeypatch.setattr(ClientSession, "_request", answer)
    told: list[dict[str, Any]] = []
    tap_leases(lambda event, /, **fields: told.append({"event": event, **_plain(fields)}))

    def send(action: str, url: str = URL, status: int | None = 200) -> list[dict[str, Any]]:
        headers = {"x-ms-lease-action": action, "x-ms-lease-id": "secret"} if action else {}
        request: Any = ClientSession._request
        sending = request(SimpleNamespace(), "PUT", url, headers=headers, status=status)
        try:
            assert asyncio.run(sending).status == status
        except ConnectionError:
            assert status is None
        return told

    return send


@pytest.mark.parametrize("http", ["direct", "sdk"])
async def test_requests_are_seen_whichever_way_they_go(
    http: Literal["direct", "sdk"], monkeypatch: pytest.MonkeyPatch
) -> None:
    for client, method in ((ClientSession, "_request"), (Connections, "send")):
        monkeypatch.setattr(client, method, getattr(client, method))  # put back afterwards
    told: list[dict[str, Any]] = []
    tap_leases(lambda _, /, **fields: told.append(_plain(fields)) if "action" in fields else None, Connections)
    async with ScriptedServer(Answer(201, LEASED)) as server:
        store = open_container(StorageAccount(server.connection_string), "locks", http)
        await store.acquire("h/ship.a%2Db c", LEASED["x-ms-lease-id"], 15)
        await store.aclose()
    assert told == [{"action": "acquire", "blob": "/made/locks/h/ship.a%2Db c", "status": 201, "period": 15}]


@pytest.mark.parametrize("status", [200, 409, None])
@pytest.mark.parametrize("action", ["acquire", "renew", "release", "break", "change"])
def test_a_request_for_a_lease_is_told_with_its_blob_and_its_answer(
    sent: Callable[..., list[dict[str, Any]]], action: str, status: int | None
) -> None:
    told = {"event": "lease_request", "action": action, "blob": "/account/container/locks/h/ship.a%2Db"}
    assert sent(action, status=status) == [{**told, "status": status}]


@pytest.mark.parametrize(("action", "url"), [("", URL), ("renew", "http://h/container/blob")])
def test_other_requests_pass_unseen(sent: Callable[..., list[dict[str, Any]]], action: str, url: str) -> None:
    assert sent(action, url) == []


async def test_how_long_an_answer_took_is_told_and_leases_are_told_apart_by_no_part_of_their_ids(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    times = iter((5.0, 7.25))
    monkeypatch.setattr(tap, "clock", lambda: next(times))
    told: list[dict[str, Any]] = []
    request = _answered(monkeypatch, lambda _, /, **fields: told.append(fields))
    await request("PUT", URL, headers={"x-ms-lease-action": "renew", "x-ms-lease-id": "secret"})
    assert (told[0]["took"], told[0]["lease"]) == (2.25, f"{crc32(b'secret'):08x}")
    assert "secret" not in str(told)


async def test_the_end_of_a_kept_result_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tap, "time", SimpleNamespace(time=lambda: 1000.0))
    told: list[dict[str, Any]] = []
    request = _answered(monkeypatch, lambda event, /, **fields: told.append(fields) if event == "result_kept" else None)
    until = {"x-ms-meta-SingletonUntil": "1060"}
    for asked, marks in (("", until), ("", {}), ("?comp=metadata", until)):
        await request("PUT", URL.partition("?")[0] + asked, headers={"x-ms-version": "1", **marks})
    assert told == [{"blob": "/account/container/locks/h/ship.a%2Db", "seconds": 60.0}]


async def test_requests_to_the_storage_are_counted_by_kind_and_told_once_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tap, "_STEP", 0.01)
    told: list[dict[str, Any]] = []
    request = _answered(monkeypatch, lambda event, /, **fields: told.append({"event": event, **fields}))
    ours = {"x-ms-version": "2024-08-04"}
    blob, queue = "http://h/account/locks/name", "http://h/account/orders/messages"
    for method, url, headers in (
        ("PUT", f"{blob}?comp=lease", {**ours, "x-ms-lease-action": "break"}),
        ("GET", blob, ours),
        ("HEAD", blob, ours),
        ("PUT", blob, ours),
        ("PUT", f"{blob}?comp=metadata", ours),
        ("DELETE", blob, ours),
        ("PUT", "http://h/account/locks?restype=container", ours),
        ("GET", "http://h/account/locks?restype=container&comp=list", ours),
        ("GET", queue, ours),
        ("POST", queue, ours),
        ("POST", "https://api.example/pay", {}),
    ):
        await request(method, url, headers=headers)
    assert [(each["event"], each["action"]) for each in told] == [
        ("lease_request", "break"),
        *[("blob_replaced", "replaced")] * 2,
        ("lease_request", "delete"),
        ("blob_replaced", "deleted"),
    ]
    await asyncio.sleep(0.05)
    record = told[-1]
    kinds = ("break a lease", "read a blob", "look at a blob", "write a blob", "write a blob's metadata")
    more = ("delete a blob", "make a container", "list blobs", "receive messages", "send a message")
    assert (record["event"], record["calls"]) == ("storage_calls", dict.fromkeys((*kinds, *more), 1))
    assert record["blobs"] == {"/account/locks/name": dict.fromkeys((*kinds, "delete a blob"), 1)}


async def test_requests_are_told_for_leased_blobs_that_had_some_and_content_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tap, "_STEP", 0.01)
    told: list[dict[str, Any]] = []
    request = _answered(
        monkeypatch, lambda event, /, **fields: told.append(fields) if event == "storage_calls" else None
    )
    ours = {"x-ms-version": "2024-08-04"}
    leasing = {**ours, "x-ms-lease-action": "acquire"}
    await request("PUT", "http://h/account/locks/one%20x?comp=lease", headers=leasing)
    await request("PUT", "http://h/account/locks/two?comp=lease", headers=leasing)
    await request("PUT", "http://h/account/other/blob", headers=ours)
    await asyncio.sleep(0.05)
    await request("PUT", "http://h/account/locks/two", headers={**ours, "x-ms-lease-id": "secret"})
    await asyncio.sleep(0.05)
    assert [each["blobs"] for each in told] == [
        {"/account/locks/one x": {"acquire a lease": 1}, "/account/locks/two": {"acquire a lease": 1}},
        {"/account/locks/two": {"acquire a lease": 1, "write content under a lease": 1}},
    ]


async def test_the_error_code_of_a_refusal_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[dict[str, Any]] = []
    refusal = {"x-ms-error-code": "LeaseIdMismatchWithLeaseOperation"}
    request = _answered(monkeypatch, lambda _, /, **fields: told.append(fields), status=409, headers=refusal)
    await request("PUT", URL, headers={"x-ms-lease-action": "renew", "x-ms-lease-id": "secret"})
    assert (told[0]["status"], told[0]["code"]) == (409, "LeaseIdMismatchWithLeaseOperation")


async def test_a_request_to_make_a_blob_is_told_with_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(*_: object, **__: object) -> Any:
        return SimpleNamespace(status=201, headers={})

    monkeypatch.setattr(ClientSession, "_request", answer)
    told: list[tuple[str, object, object]] = []
    tap_leases(lambda event, /, **fields: told.append((event, fields.get("blob"), fields.get("status"))))
    request: Any = ClientSession._request
    for condition in ({"If-None-Match": "*"}, {"If-Match": "etag"}):
        headers = {"x-ms-version": "1", **condition}
        await request(SimpleNamespace(), "PUT", "http://h/account/locks/name", headers=headers)
    assert [each for each in told if each[0] != "storage_calls"] == [("blob_made", "/account/locks/name", 201)]


@pytest.mark.parametrize(
    ("method", "query", "headers", "told"),
    [
        ("PUT", "", {}, ["replaced"]),
        ("PUT", "?comp=metadata", {}, ["replaced"]),
        ("DELETE", "", {}, ["deleted"]),
        ("PUT", "", {"x-ms-lease-id": "x"}, []),  # as the product does
        ("PUT", "", {"If-None-Match": "*"}, []),
        ("PUT", "?restype=container", {}, []),
        ("GET", "", {}, []),
    ],
)
async def test_a_blob_that_an_async_client_of_the_app_replaces_is_told(
    monkeypatch: pytest.MonkeyPatch, method: str, query: str, headers: dict[str, str], told: list[str]
) -> None:
    seen: list[dict[str, Any]] = []
    request = _answered(monkeypatch, partial(_noted, seen, "blob_replaced"), status=201)
    await request(method, f"http://host/account/locks/ship{query}", headers={"x-ms-version": "1", **headers})
    assert [each["action"] for each in seen] == told


async def test_a_message_that_a_queue_took_is_told_with_its_delay_and_its_life(monkeypatch: pytest.MonkeyPatch) -> None:
    async def read() -> bytes:
        return b"<QueueMessagesList><QueueMessage><MessageId>7-a</MessageId></QueueMessage></QueueMessagesList>"

    told: list[dict[str, Any]] = []
    note = partial(_noted, told, "message_put")
    request = _answered(monkeypatch, note, status=201, read=read)
    url, ours = "http://h/account/orders/messages", {"x-ms-version": "1"}
    for query in ("?visibilitytimeout=9&messagettl=-1", "?messagettl=60"):
        await request("POST", url + query, headers=ours)
    await request("POST", "https://api.example/messages", headers={})
    assert told == [{"id": "7-a", "delay": 9, "life": -1}, {"id": "7-a", "delay": 0, "life": 60}]
    for status in (400, 201):
        broken = _answered(monkeypatch, note, status=status, read=_cut_off)
        assert (await broken("POST", url, headers=ours)).status == status
    assert len(told) == 2


def _noted(told: list[dict[str, Any]], wanted: str, event: str, /, **fields: Any) -> None:
    if event == wanted:
        told.append(fields)


async def _cut_off() -> bytes:
    raise ClientPayloadError
