"""Token credentials that are not for asyncio, such as ``azure.identity.DefaultAzureCredential``: they may block."""

from __future__ import annotations

import asyncio
import contextvars
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
from azure.core.credentials import AccessToken, AccessTokenInfo
from azure.core.exceptions import ClientAuthenticationError, ServiceRequestError

from singleton import AsyncLockClient, LockClient, SingletonOptions, StorageDenied, StorageUnavailable
from singleton.runtime.accounts import credentials
from singleton.runtime.accounts.credentials import ThreadedCredential
from singleton.runtime.accounts.stores import open_container, open_through_sdk, way_to
from singleton.settings.accounts import GivenAccount
from singleton.settings.connection import StorageAccount
from singleton.stores.access import Request
from singleton.stores.bearer_token import SCOPE
from singleton.stores.protocol import StoreFailure, within
from singleton.testing.storage.memory_store import MemoryLeaseStore
from tests.support.lock_thread import LockThread
from tests.support.scripted_server import LEASED, Answer, ScriptedServer
from tests.support.transport import NoTransport

if TYPE_CHECKING:
    from collections.abc import Iterator

    from singleton.settings.accounts import LockContainer
    from singleton.stores.lock_keeping import BlobStore

URL = "https://made.blob.core.windows.net"
MINE = LEASED["x-ms-lease-id"]
HOUR = 3600.0
COLOUR: contextvars.ContextVar[str] = contextvars.ContextVar("COLOUR", default="none")
DIRECT = SingletonOptions(fencing_tokens=False)
SDK = DIRECT.replace(http="sdk")


class Credential:
    """A user's own, which blocks until it may go on. It gives one answer after the other, the last again and again."""

    def __init__(self, *answers: float | BaseException, blocked: bool = False) -> None:
        """``answers``: for how many seconds each token is good, or what is raised."""
        self.answers = [*answers] or [HOUR]
        self.asked: list[tuple[tuple[str, ...], dict[str, Any]]] = []
        self.threads: list[int] = []
        self.colours: list[str] = []
        self.called, self.go = threading.Event(), threading.Event()
        self.closed = False
        if not blocked:
            self.go.set()

    def get_token(self, *scopes: str, **keywords: Any) -> AccessToken:
        self.asked.append((scopes, keywords))
        self.threads.append(threading.get_ident())
        self.colours.append(COLOUR.get())
        number = len(self.asked)
        self.called.set()
        assert self.go.wait(60)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return AccessToken(f"token {number}", int(time.time() + answer))

    def close(self) -> None:
        self.closed = True


class Recording(NoTransport):
    """The SDK's way to nowhere: no request gets through. It knows with which tokens they came."""

    def __init__(self) -> None:
        self.bearers: list[str] = []

    async def send(self, request: Any, **_: Any) -> Any:
        self.bearers.append(request.headers["Authorization"])
        raise ServiceRequestError("did not get through")


@dataclass
class Way:
    """Requests that are authorised, over one of both ways to the service; none gets through."""

    ask: Callable[[], Any]
    """Make a request; return its token."""
    aclose: Callable[[], Any]


Open: TypeAlias = Callable[[object], Way]


def direct(credential: object) -> Way:
    wire = way_to(GivenAccount(URL, credential))

    async def ask() -> str:
        asked = Request("PUT", "/locks/job", "comp=lease", {})
        await wire._access.grant(asked)
        return asked.headers["Authorization"]

    return Way(ask, wire.aclose)


def through_the_sdk(credential: object) -> Way:
    transport = Recording()
    store = open_through_sdk(GivenAccount(URL, credential), "locks", transport=transport)

    async def ask() -> str:
        before = len(transport.bearers)
        try:
            await store.acquire("job", MINE, 15)
        except StoreFailure:
            if len(transport.bearers) == before:
                raise
        return transport.bearers[-1]

    return Way(ask, store.aclose)


both_ways = pytest.mark.parametrize("opened", [direct, through_the_sdk], ids=["direct", "sdk"])


async def is_called(credential: Credential) -> None:
    """Wait for that, on a loop that must go on meanwhile."""
    assert await asyncio.to_thread(credential.called.wait, 5)


def credential_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "singleton-credential"]


@pytest.fixture(autouse=True)
def _ends_its_threads() -> Iterator[None]:
    before = credential_threads()
    yield
    for thread in credential_threads():
        if thread not in before:
            thread.join(60)
            assert not thread.is_alive(), "the thread of a call ends with the call"


# --- tokens -----------------------------------------------------------------------------------------------------------


@both_ways
async def test_it_is_asked_once_for_several_requests_and_never_on_the_loops_thread(opened: Open) -> None:
    credential = Credential()
    async with aclosing(opened(credential)) as way:
        together = await asyncio.gather(*(way.ask() for _ in range(5)))
        assert [*together, await way.ask()] == ["Bearer token 1"] * 6
    assert [scopes for scopes, _ in credential.asked] == [(SCOPE,)]
    assert threading.get_ident() not in credential.threads


@both_ways
async def test_it_is_asked_again_when_its_token_ends_soon(opened: Open) -> None:
    credential = Credential(-1, HOUR)
    async with aclosing(opened(credential)) as way:
        assert [await way.ask() for _ in range(3)] == ["Bearer token 1", "Bearer token 2", "Bearer token 2"]


async def test_requests_go_on_with_the_old_token_while_a_new_one_is_asked_for() -> None:
    credential = Credential(200, HOUR)
    async with aclosing(direct(credential)) as way:
        await way.ask()
        way_in = way.aclose.__self__._access  # type: ignore[attr-defined]
        way_in._due = 0.0
        credential.called.clear()
        credential.go.clear()
        assert await way.ask() == "Bearer token 1"
        await is_called(credential)
        assert await way.ask() == "Bearer token 1"
        credential.go.set()
        await asyncio.wait({way_in._asking})
        assert await way.ask() == "Bearer token 2"


@both_ways
@pytest.mark.parametrize(
    ("error", "meaning"),
    [
        (ClientAuthenticationError("no identity here"), "denied"),
        (ServiceRequestError("nobody there"), "transient"),
        (OSError(), "transient"),
        (StopIteration(), "transient"),
        (SystemExit(1), "transient"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else value,
)
async def test_what_it_raises_means_what_it_means_of_one_for_asyncio(
    opened: Open, error: BaseException, meaning: str
) -> None:
    async with aclosing(opened(Credential(error, HOUR))) as way:
        with pytest.raises(StoreFailure) as caught:
            await way.ask()
        assert caught.value.meaning == meaning
        assert await way.ask() == "Bearer token 2", "the next request asks again"


@both_ways
async def test_who_gives_up_does_not_wait_for_it_and_leaves_the_token_to_the_others(opened: Open) -> None:
    credential = Credential(blocked=True)
    async with aclosing(opened(credential)) as way:
        for _ in range(3):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.02):
                    await way.ask()
        waiting = asyncio.create_task(way.ask())
        await is_called(credential)
        await asyncio.sleep(0)
        credential.go.set()
        assert await waiting == "Bearer token 1"
    assert len(credential.asked) == 1


async def test_a_call_that_is_stuck_is_left_to_itself_and_another_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    credential = Credential(blocked=True)
    adapted = ThreadedCredential(credential)
    with pytest.raises(StoreFailure, match="no answer within"):
        await within(0.02, adapted.get_token("a"))
    monkeypatch.setattr(credentials, "_PATIENCE", 0.0)
    await is_called(credential)
    credential.called.clear()
    second = asyncio.create_task(adapted.get_token("a"))
    await is_called(credential)
    credential.go.set()
    assert (await second).token == "token 2"
    assert len(set(credential.threads)) == 2
    await adapted.close()


async def test_where_no_more_threads_are_started_the_lock_thread_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interpreter that ends starts none, while its last threads may hold locks for hours."""
    credential = Credential(-1, HOUR)
    async with aclosing(direct(credential)) as way:
        assert await way.ask() == "Bearer token 1"
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", _no_thread)
            assert await way.ask() == "Bearer token 2"
    assert credential.threads[1] == threading.get_ident() != credential.threads[0]


def _no_thread(_: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


async def test_scopes_keywords_and_context_are_passed_on() -> None:
    credential = Credential()
    adapted = ThreadedCredential(credential)
    COLOUR.set("green")
    await asyncio.gather(adapted.get_token("a", "b", tenant_id="t"), adapted.get_token("a", claims="c"))
    assert sorted(credential.asked, key=str) == [(("a", "b"), {"tenant_id": "t"}), (("a",), {"claims": "c"})]
    assert credential.colours == ["green", "green"]
    await adapted.close()


@both_ways
async def test_details_of_a_token_are_asked_for_where_the_credential_has_them(opened: Open) -> None:
    class Detailed(Credential):
        def get_token_info(self, *scopes: str, **_: Any) -> AccessTokenInfo:
            token, ends = self.get_token(*scopes)
            return AccessTokenInfo(f"{token} in detail", ends)

    async with aclosing(opened(Detailed())) as way:
        assert await way.ask() == "Bearer token 1 in detail"


@both_ways
async def test_closing_does_not_wait_for_it_and_leaves_it_open(opened: Open) -> None:
    credential = Credential(blocked=True)
    way = opened(credential)
    asking = asyncio.create_task(way.ask())
    await is_called(credential)
    await asyncio.wait_for(way.aclose(), 5)
    assert not credential.closed
    credential.go.set()
    await asyncio.wait({asking})
    assert asking.exception() is None or isinstance(asking.exception(), StoreFailure)
    assert not credential.closed


async def test_what_is_closed_starts_no_thread_any_more() -> None:
    credential = Credential()
    adapted = ThreadedCredential(credential)
    await adapted.close()
    with pytest.raises(RuntimeError, match="is closed"):
        await adapted.get_token("a")
    assert credential.asked == []


# --- clients ----------------------------------------------------------------------------------------------------------


class Renewing(MemoryLeaseStore):
    def __init__(self) -> None:
        super().__init__()
        self.renewed = threading.Event()

    async def renew(self, name: str, lease_id: str) -> str:
        self.renewed.set()
        return await super().renew(name, lease_id)


class Accounts(LockThread):
    """A lock thread: locks of a credential are on a server, which is asked without https; all others in memory."""

    def __init__(self, endpoint: str) -> None:
        super().__init__()
        self.endpoint = endpoint
        self.renewing = Renewing()

    def _open(self, place: LockContainer) -> BlobStore:
        self.places.append(place)
        if not isinstance(place.account, GivenAccount):
            return self.renewing
        if place.http == "sdk":
            return open_through_sdk(place.account, place.container, transport=Recording())
        return open_container(GivenAccount(self.endpoint, place.account.credential), place.container)


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    """A storage that grants a lease and takes it back, on a thread of its own."""
    loop = asyncio.new_event_loop()
    serving = ScriptedServer(Answer(201, LEASED), Answer(200, LEASED))
    loop.run_until_complete(serving.__aenter__())
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield serving
    asyncio.run_coroutine_threadsafe(serving.__aexit__(), loop).result(60)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@pytest.fixture
def accounts(server: ScriptedServer) -> Iterator[Accounts]:
    with Accounts(StorageAccount(server.connection_string).endpoint) as running:
        yield running


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_client_takes_it(kind: str, accounts: Accounts, server: ScriptedServer) -> None:
    credential = Credential()

    async def lock_async() -> None:
        async with AsyncLockClient(URL, credential=credential, options=DIRECT).lock("job", timeout=5):
            pass

    if kind == "sync":
        with LockClient(URL, credential=credential, options=DIRECT).lock("job", timeout=5):
            pass
    else:
        asyncio.run(lock_async())
    assert [headers["authorization"] for _, headers in server.requests] == ["Bearer token 1"] * 2
    assert accounts.runtime._thread.ident not in [*credential.threads, None]


@pytest.mark.parametrize("options", [DIRECT, SDK], ids=["direct", "sdk"])
def test_its_error_is_the_clients(options: SingletonOptions, accounts: Accounts) -> None:
    credential = Credential(ClientAuthenticationError("no identity here"))
    with (
        LockClient(URL, credential=credential, options=options) as locks,
        pytest.raises(StorageDenied),
        locks.lock("job", timeout=0),
    ):
        pytest.fail("inside")


@pytest.mark.parametrize("options", [DIRECT, SDK], ids=["direct", "sdk"])
def test_one_that_blocks_holds_up_no_other_lock(options: SingletonOptions, accounts: Accounts) -> None:
    credential = Credential(ClientAuthenticationError("after all"), blocked=True)
    failed: list[BaseException] = []

    def ask() -> None:
        try:
            LockClient(URL, credential=credential, options=options).acquire("job", timeout=0)
        except (StorageDenied, StorageUnavailable) as error:
            failed.append(error)

    asking = threading.Thread(target=ask)
    with LockClient("UseDevelopmentStorage=true", options=DIRECT) as others, others.lock("other") as hold:
        asking.start()
        assert credential.called.wait(60)
        with others.lock("third", timeout=2):
            pass
        accounts.renewing.renewed.clear()
        accounts.push_clock(8)
        assert accounts.renewing.renewed.wait(2), "the lease is not renewed"
        hold.raise_if_lost()
        credential.go.set()
        asking.join(60)
    assert failed


def test_clients_with_the_same_one_share_it(accounts: Accounts) -> None:
    credential = Credential(ClientAuthenticationError("no identity here"))
    for _ in range(2):
        with pytest.raises(StorageDenied):
            LockClient(URL, credential=credential, options=DIRECT).acquire("job", timeout=0)
    assert len(accounts.places) == 1
    assert accounts.places[0].account == GivenAccount(URL, credential)


HANGS = """
import asyncio, threading
from singleton.runtime.accounts.credentials import ThreadedCredential

class Stuck:
    def get_token(self, *scopes):
        threading.Event().wait()

async def ask():
    try:
        await asyncio.wait_for(ThreadedCredential(Stuck()).get_token("a"), 0.05)
    except TimeoutError:
        print("given up")

asyncio.run(ask())
"""


@pytest.mark.process
def test_one_that_hangs_keeps_no_process_alive() -> None:
    assert subprocess.check_output([sys.executable, "-c", HANGS], text=True, timeout=30).split() == ["given", "up"]
