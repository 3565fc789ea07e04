"""Both ways to the service ask the same: each request of ours and of the SDK's, compared on the wire."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from singleton.runtime.accounts.stores import open_container, open_through_sdk
from singleton.settings.connection import StorageAccount
from singleton.stores.protocol import StoreFailure
from singleton.stores.wire import VERSION
from tests.support.scripted_server import LEASED, Answer, ScriptedServer, error

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Ask = Callable[[Any, str], Awaitable[object]]

MINE = LEASED["x-ms-lease-id"]
MEANT = ("content-length", "if-match", "if-none-match", "x-ms-blob-type", "x-ms-version")
"""Headers that say what is asked, beside those of leases and metadata."""

ASKS: dict[str, Ask] = {
    "acquire": lambda store, name: store.acquire(name, MINE, 15),
    "renew": lambda store, name: store.renew(name, MINE),
    "release": lambda store, name: store.release(name, MINE),
    "evict": lambda store, name: store.evict(name, MINE, '"0x1"'),
    "break": lambda store, name: store.break_(name),
    "create": lambda store, name: store.create(name, {"SingletonHost": "a b", "Empty": ""}),
    "read": lambda store, name: store.read(name),
    "write": lambda store, name: store.write(name, MINE, {"SingletonEpoch": "1"}, '"0x1"'),
    "note": lambda store, name: store.note(name, {"Failures": "2"}),
    "noted": lambda store, name: store.noted(name),
    "remove": lambda store, name: store.remove(name),
    "page": lambda store, name: store.page(name, "a marker/+", 7),
    "break in ten seconds": lambda store, name: store.break_(name, '"0x1"', 10),
    "break at its end": lambda store, name: store.break_(name, None, None),
}
NAMES = ["locks/app/Host.Functions.Ship.A-1", "a b/ü%2F+x'!()*~,;:@$&=?#[]", "x.y/.z", "%41%", "日本/€"]


class Sent(NamedTuple):
    """What is meant by a request."""

    method: str
    path: str
    query: list[tuple[str, str]]
    headers: dict[str, str]


def meaning(method: str, target: str, headers: dict[str, str]) -> Sent:
    url = urlsplit(target)
    told = {
        name: value
        for name, value in headers.items()
        if name in MEANT or name.startswith(("x-ms-lease-", "x-ms-proposed-", "x-ms-meta-", "x-ms-delete-"))
    }
    query = sorted(pair for pair in parse_qsl(url.query) if pair != ("showonly", ""))
    return Sent(method, unquote(url.path), query, told)


async def sent(name: str, ask: Ask, *answers: Answer, signature: str = "") -> dict[str, list[Sent]]:
    """Return what each way sends, until it has its answers."""
    found: dict[str, list[Sent]] = {}
    for http in ("direct", "sdk"):
        async with ScriptedServer(*answers) as server:
            account = StorageAccount(server.connection_string)
            if signature:
                account = StorageAccount(account_url=f"{account.endpoint}?{signature}")
            direct = http == "direct"
            store: Any = (
                open_container(account, "locks") if direct else open_through_sdk(account, "locks", api_version=VERSION)
            )
            async with aclosing(store):
                try:
                    async with asyncio.timeout(5):
                        await ask(store, name)
                except StoreFailure:
                    pass
            found[http] = [
                meaning(method, target, headers)
                for (method, headers), target in zip(server.requests, server.targets, strict=True)
            ]
    return found


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("call", ASKS)
async def test_each_request_is_the_same(call: str, name: str) -> None:
    found = await sent(name, ASKS[call], error(409, "LeaseAlreadyPresent"))
    assert found["direct"] == found["sdk"]
    assert len(found["direct"]) == 1


async def test_making_the_container_is_the_same() -> None:
    answers = error(404, "ContainerNotFound"), Answer(201, LEASED), Answer(201, LEASED)
    found = await sent("job", ASKS["create"], *answers)
    assert found["direct"] == found["sdk"]
    assert len(found["direct"]) == 3


@pytest.mark.parametrize("call", ASKS)
async def test_with_a_signature_each_request_is_the_same(call: str) -> None:
    signature = "sv=2021-12-02&ss=b&srt=sco&sp=rwdlac&se=2030-01-01T00%3A00%3A00Z&sig=a%2Fb%2B%3D"
    found = await sent("job/a b", ASKS[call], error(403, "AuthorizationFailure"), signature=signature)
    assert found["direct"] == found["sdk"]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("call", ["acquire", "read"])
async def test_neither_follows_a_redirect(call: str, status: int) -> None:
    async with ScriptedServer(Answer(201, LEASED)) as elsewhere:
        there = StorageAccount(elsewhere.connection_string).endpoint
        for http in ("direct", "sdk"):
            async with ScriptedServer(Answer(status, {"Location": f"{there}/locks/job?comp=lease"})) as server:
                account = StorageAccount(server.connection_string)
                store: Any = (open_container if http == "direct" else open_through_sdk)(account, "locks")
                async with aclosing(store):
                    with pytest.raises(StoreFailure, match="a redirect, which is not followed") as caught:
                        await ASKS[call](store, "job")
                assert (caught.value.status, caught.value.meaning) == (status, "transient")
                assert len(server.requests) == 1
        assert elsewhere.requests == []


@settings(max_examples=40)
@given(
    name=st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\\/"), min_size=1, max_size=12),
    call=st.sampled_from(["acquire", "read", "write", "page"]),
)
def test_whatever_the_name_it_is_asked_for_the_same_blob(name: str, call: str) -> None:
    found = asyncio.run(sent(f"locks/x{name}x", ASKS[call], error(409, "LeaseAlreadyPresent")))
    assert found["direct"] == found["sdk"]
