"""No failed request shows a key, a signature or a token: not even in a traceback that shows the frames' variables."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from traceback import TracebackException, walk_tb
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.core.exceptions import ClientAuthenticationError

from singleton.base.errors import ConfigurationError
from singleton.runtime.accounts.stores import open_through_sdk, way_to
from singleton.settings.accounts import GivenAccount
from singleton.settings.connection import StorageAccount
from singleton.stores.access import Request
from singleton.stores.azure_blob import Said
from singleton.stores.bearer_token import Token
from singleton.stores.direct_blob import DirectBlobStore
from singleton.stores.protocol import StoreFailure, within
from singleton.stores.wire import Wire
from tests.support.scripted_server import LEASED, Answer, ScriptedServer, error

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

MINE = LEASED["x-ms-lease-id"]
SECRET = "aHVzaC1odXNo"
"""The key, the signature or the token. The account's signature of a request is secret as well."""
WAYS = ["key", "signature", "token", "token from a thread"]


class Credential:
    """Gives the token that is secret, or does what it is told to, with the secret at hand."""

    def __init__(self, act: Callable[[str], object] | None = None) -> None:
        self._act = act

    async def get_token(self, *_: str, **__: Any) -> object:
        secret = SECRET
        return self._act(secret) if self._act else SimpleNamespace(token=secret, expires_on=time.time() + 3600)


class Blocking:
    """Does the same, and is not for asyncio."""

    def __init__(self, act: Callable[[str], object] | None = None) -> None:
        self._act = act

    def get_token(self, *_: str, **__: Any) -> object:
        secret = SECRET
        return self._act(secret) if self._act else SimpleNamespace(token=secret, expires_on=time.time() + 3600)


def account(server: ScriptedServer, way: str) -> GivenAccount:
    credential: dict[str, object] = {
        "key": AzureNamedKeyCredential("made", SECRET),
        "signature": AzureSasCredential(f"sv=1&sig={SECRET}"),
        "token": Credential(),
        "token from a thread": Blocking(),
    }
    return GivenAccount(StorageAccount(server.connection_string).endpoint, credential[way])


def opened(given: StorageAccount | GivenAccount) -> DirectBlobStore:
    return DirectBlobStore(way_to(given), "locks")


def all_beneath(failure: BaseException | None) -> Iterator[BaseException]:
    """Yield all errors that can be reached, also those that a traceback leaves out."""
    if failure is not None:
        yield failure
        yield from all_beneath(failure.__cause__)
        yield from all_beneath(failure.__context__)


def shown(failure: BaseException) -> str:
    """Return what a tool that shows the variables of frames can find."""
    told = list(TracebackException.from_exception(failure, capture_locals=True).format())
    for each in all_beneath(failure):
        told += [repr(each), repr(vars(each)), *TracebackException.from_exception(each, capture_locals=True).format()]
        for frame, _ in walk_tb(each.__traceback__):
            assert not any(isinstance(value, Request) for value in frame.f_locals.values()), frame
    return "".join(told)


def assert_nothing_secret(failure: BaseException) -> None:
    told = shown(failure)
    assert "test_wire_secrets.py" in told, "the variables of this frame are shown, at least"
    assert SECRET not in told
    assert "SharedKey" not in told
    assert "Bearer" not in told


async def failure_of(asking: Awaitable[object]) -> StoreFailure:
    with pytest.raises(StoreFailure) as caught:
        await asking
    return caught.value


ANSWERS = {
    "reset": Answer(instead="reset"),
    "garbage": Answer(instead="garbage"),
    "half": Answer(201, LEASED, instead="half"),
    "held": error(409, "LeaseAlreadyPresent"),
    "denied": error(403, "AuthenticationFailed"),
    "unknown": error(401, "InvalidAuthenticationInfo"),
    "redirect": Answer(302, {"Location": "http://elsewhere.example"}),
    "another success": Answer(206, LEASED),
    "not the service's": Answer(201, {"ETag": "nonsense"}),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("answer", ANSWERS)
async def test_a_failure_shows_nothing_secret(way: str, answer: str) -> None:
    async with ScriptedServer(ANSWERS[answer]) as server, aclosing(opened(account(server, way))) as store:
        assert_nothing_secret(await failure_of(store.acquire("job", MINE, 15)))
        sent = server.requests[0][1].get("authorization", server.targets[0])
        assert SECRET in sent or sent.startswith("SharedKey made:")


@pytest.mark.parametrize("answer", sorted({*ANSWERS} - {"not the service's"}))  # which the SDK believes
async def test_nor_does_what_is_printed_of_a_failure_of_the_sdk(answer: str) -> None:
    """It shows the request's URL in errors of its own, and of aiohttp's."""
    async with ScriptedServer(ANSWERS[answer]) as server:
        given = StorageAccount(account_url=f"{StorageAccount(server.connection_string).endpoint}?sv=1&sig={SECRET}")
        async with aclosing(open_through_sdk(given, "locks")) as store:
            failure = await failure_of(store.acquire("job", MINE, 15))
        assert SECRET in server.targets[0]
    assert {type(each) for each in all_beneath(failure)} <= {StoreFailure, Said}
    assert SECRET not in "".join(TracebackException.from_exception(failure).format())


@pytest.mark.parametrize("way", WAYS)
async def test_nor_does_one_to_connect_or_of_a_closed_store(way: str) -> None:
    async with ScriptedServer(Answer()) as server:
        given = account(server, way)
    async with aclosing(opened(given)) as store:
        assert_nothing_secret(await failure_of(store.acquire("job", MINE, 15)))
    assert_nothing_secret(await failure_of(store.acquire("job", MINE, 15)))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("instead", ["hang", "drip"])
async def test_nor_does_giving_up(way: str, instead: str) -> None:
    async with ScriptedServer(Answer(instead=instead)) as server, aclosing(opened(account(server, way))) as store:
        assert_nothing_secret(await failure_of(within(0.05, store.acquire("job", MINE, 15))))
        task = asyncio.create_task(store.acquire("job", MINE, 15))
        await asyncio.wait({task}, timeout=0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        assert_nothing_secret(caught.value)


def raises(failure: Exception | str) -> object:
    raise RuntimeError(failure) if isinstance(failure, str) else failure


@pytest.mark.parametrize(
    "act",
    [
        lambda _: None,
        lambda secret: {"token": secret},
        lambda secret: SimpleNamespace(access_token=secret),
        lambda secret: SimpleNamespace(token=secret, expires_on=secret),
        raises,
    ],
    ids=["nothing", "a dictionary", "another token", "without an end", "an error"],
)
@pytest.mark.parametrize("kind", [Credential, Blocking])
async def test_nor_does_a_credential_that_gives_no_token(
    kind: type[Credential | Blocking], act: Callable[[str], object]
) -> None:
    async with aclosing(opened(GivenAccount("http://127.0.0.1:1/made", kind(act)))) as store:
        assert_nothing_secret(await failure_of(store.acquire("job", MINE, 15)))


@pytest.mark.parametrize("kind", [Credential, Blocking])
async def test_why_an_identity_gives_no_token_is_told(kind: type[Credential | Blocking]) -> None:
    act = lambda _: raises(ClientAuthenticationError("no identity is assigned"))  # noqa: E731
    async with aclosing(opened(GivenAccount("http://127.0.0.1:1/made", kind(act)))) as store:
        failures = await asyncio.gather(*(failure_of(store.acquire("job", MINE, 15)) for _ in range(2)))
    assert failures[0] is not failures[1]
    for failure in failures:
        assert failure.meaning == "denied"
        assert "ClientAuthenticationError: no identity is assigned" in shown(failure)
        assert_nothing_secret(failure)


async def test_nor_does_a_key_that_is_replaced_by_something_else() -> None:
    credential = AzureNamedKeyCredential("made", SECRET)
    async with aclosing(opened(GivenAccount("http://127.0.0.1:1/made", credential))) as store:
        credential.update("made", f"{SECRET}?")
        failure = await failure_of(store.acquire("job", MINE, 15))
    assert (failure.meaning, "key is not base64" in str(failure)) == ("denied", True)
    assert_nothing_secret(failure)


def test_nor_does_a_key_that_is_none_from_the_beginning() -> None:
    with pytest.raises(ConfigurationError, match="key is not base64") as caught:
        opened(GivenAccount("https://made.blob.core.windows.net", f"{SECRET}?"))
    assert_nothing_secret(caught.value)


async def test_what_is_asked_with_is_left_as_it_was() -> None:
    """A caller's frame has it among its variables."""
    async with ScriptedServer(Answer(200, LEASED)) as server:
        wire = way_to(account(server, "key"))
        headers = {"x-ms-lease-action": "renew"}
        await wire.ask("PUT", "/made/locks/job", "comp=lease", headers, 200)
        await wire.aclose()
    assert headers == {"x-ms-lease-action": "renew"}


def test_a_request_shows_neither_its_query_nor_its_headers() -> None:
    asked = Request("PUT", "/made", f"sig={SECRET}", {"Authorization": SECRET})
    assert repr(asked) == "Request(method='PUT', path='/made')"


async def test_nor_does_a_url_with_a_password() -> None:
    given = GivenAccount(f"http://somebody:{SECRET}@127.0.0.1:1/made", AzureSasCredential("sv=1&sig=s"))
    async with aclosing(opened(given)) as store:
        failure = await failure_of(store.acquire("a", MINE, 15))
    assert "can't connect" in str(failure)
    assert str(failure).endswith("127.0.0.1:1")
    assert_nothing_secret(failure)


async def test_connections_are_closed_even_if_a_credential_can_not_be() -> None:
    class Broken(Token):
        async def aclose(self) -> None:
            raise RuntimeError("no end")

    async with ScriptedServer(Answer(200)) as server:
        given = account(server, "token")
        wire = Wire(given.endpoint, Broken(Credential(), close=True))
        await wire.ask("GET", "/made/a", "", {}, 200)
        with pytest.raises(RuntimeError, match="no end"):
            await wire.aclose()
        with pytest.raises(StoreFailure, match="closed"):
            await wire.ask("GET", "/made/a", "", {}, 200)
