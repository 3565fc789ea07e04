"""Lock clients: locks without Functions, for threads and for coroutines."""

from __future__ import annotations

import asyncio
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from singleton import (
    AsyncLockClient,
    ConfigurationError,
    LockClient,
    LockClosed,
    LockNotAcquired,
    SingletonOptions,
    current_hold,
    once,
)
from tests.support.lock_thread import LockThread, an_app, outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from singleton import Hold

OPTIONS = SingletonOptions(lock_acquisition_min_polling_interval=0.01)
DOCS = Path(__file__).resolve().parents[3] / "docs"
SECRET = "c2VjcmV0LWtleQ=="
both_kinds = pytest.mark.parametrize("kind", [LockClient, AsyncLockClient])


@pytest.fixture(autouse=True)
def thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LockThread]:
    an_app(tmp_path, monkeypatch)
    with LockThread() as running:
        yield running


def inside(client: LockClient | AsyncLockClient, name: str, body: Callable[[Hold], Any], **arguments: Any) -> Any:
    """Run ``body(hold)`` inside ``client.lock(name)``, of whichever kind the client is."""
    if isinstance(client, LockClient):
        with client.lock(name, **arguments) as hold:
            return body(hold)

    async def run() -> Any:
        async with client.lock(name, **arguments) as hold:
            return body(hold)

    return asyncio.run(run())


def entered(kind: type[LockClient | AsyncLockClient], block: Any) -> None:
    """Enter and leave a block of this kind of client."""
    if kind is LockClient:
        with block:
            return

    async def run() -> None:
        async with block:
            pass

    asyncio.run(run())


def never(_: Hold) -> None:
    pytest.fail("the block was entered")


@both_kinds
def test_the_block_holds_the_lock(thread: LockThread, kind: type[LockClient | AsyncLockClient]) -> None:
    seen: list[tuple[str, str, set[str]]] = []
    inside(kind(options=OPTIONS), "reports/daily", lambda hold: seen.append((hold.lock, hold.owner, thread.leased())))
    assert seen == [("reports/daily", "", {"reports/daily"})]
    assert thread.leased() == set()


@both_kinds
def test_the_owner_is_kept_with_the_blob(thread: LockThread, kind: type[LockClient | AsyncLockClient]) -> None:
    inside(kind(options=OPTIONS), "reports", lambda _: None, owner="host-1/import")
    state = thread.do(lambda: thread.memory.read("reports"))
    assert state.metadata["FunctionInstance"] == "host-1/import"


@both_kinds
def test_an_error_in_the_block_comes_through_after_the_release(
    thread: LockThread, kind: type[LockClient | AsyncLockClient]
) -> None:
    def fail(_: Hold) -> None:
        raise KeyError("own")

    with pytest.raises(KeyError, match="own"):
        inside(kind(options=OPTIONS), "reports", fail)
    assert thread.leased() == set()


@both_kinds
@pytest.mark.parametrize("timeout", [0, 0.05, timedelta(milliseconds=50)])
def test_a_lock_that_is_taken_is_not_acquired_in_time(
    thread: LockThread, kind: type[LockClient | AsyncLockClient], timeout: float | timedelta
) -> None:
    thread.taken_by_another_process("reports")
    with pytest.raises(LockNotAcquired, match=r"'reports' was not acquired .*: somebody else has it") as caught:
        inside(kind(options=OPTIONS), "reports", never, timeout=timeout, owner="me")
    assert (caught.value.lock, caught.value.owner) == ("reports", "me")


@both_kinds
def test_within_the_process_a_lock_in_use_is_refused_at_once(kind: type[LockClient | AsyncLockClient]) -> None:
    client = kind(options=OPTIONS)

    def again(_: Hold) -> None:
        with ThreadPoolExecutor(1) as pool:
            second = pool.submit(inside, client, "reports", never, timeout=0, owner="second")
            error = second.exception(5)
        assert isinstance(error, LockNotAcquired)
        assert error.owner == "second"

    inside(client, "reports", again)


def test_threads_and_coroutines_exclude_one_another() -> None:
    sync, other, entered = LockClient(options=OPTIONS), AsyncLockClient(options=OPTIONS), threading.Event()
    order: list[str] = []

    def body(_: Hold) -> None:
        entered.set()
        order.append("in")
        threading.Event().wait(0.02)
        order.append("out")

    with ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(inside, (sync, other)[number % 2], "reports", body) for number in range(8)]
        for each in waiting:
            each.result(60)
    assert order == ["in", "out"] * 8


def test_equal_connections_share_one_store(thread: LockThread) -> None:
    for client in (LockClient(options=OPTIONS), LockClient("AzureWebJobsStorage", options=OPTIONS)):
        inside(client, "reports", lambda _: None)
    inside(LockClient(options=OPTIONS.replace(container="elsewhere")), "reports", lambda _: None)
    assert [place.container for place in thread.places] == ["webjobshost", "elsewhere"]


SENTENCE = (
    "Make one client and keep it for the life of the process; a second one costs little, because all clients share one "
    "lock thread, and clients with the same arguments share their connections."
)


def test_how_long_a_client_lives_is_said_with_one_sentence() -> None:
    texts = {
        "LockClient": LockClient.__doc__,
        "AsyncLockClient": AsyncLockClient.__doc__,
        "locks.md": (DOCS / "locks.md").read_text("utf-8"),
        "semaphore.md": (DOCS / "how-to" / "semaphore.md").read_text("utf-8"),
    }
    assert [name for name, text in texts.items() if SENTENCE not in " ".join((text or "").split())] == []
    said = [
        page.name
        for page in DOCS.rglob("*.md")
        if re.search("cheap to make|one client per process", page.read_text("utf-8"))
    ]
    assert said == []


@both_kinds
def test_a_second_client_costs_no_thread_and_no_connection(
    thread: LockThread, kind: type[LockClient | AsyncLockClient]
) -> None:
    made: list[str] = []

    def connect(container: str) -> Any:
        made.append(container)

    key = "c2VjcmV0"
    for one, other in (
        ({}, {}),
        ({"connection": connect}, {"connection": connect}),
        *(({"connection": "https://a.blob.core.windows.net", "credential": key},) * 2,),
    ):
        first = kind(options=OPTIONS, **one)
        inside(first, "reports", lambda _: None)
        threads, places = {each.ident for each in threading.enumerate()}, len(thread.places)
        second = kind(options=OPTIONS.replace(lock_period=30), **other)
        inside(second, "reports", lambda _: None)
        assert {each.ident for each in threading.enumerate()} <= threads
        assert len(thread.places) == places
    assert len(thread.places) == 3


def test_a_block_is_no_guarded_function() -> None:
    def body(_: Hold) -> None:
        with pytest.raises(RuntimeError, match="outside a function guarded"):
            current_hold()

    inside(LockClient(options=OPTIONS), "reports", body)


# --- what is refused --------------------------------------------------------------------------------------------------


@both_kinds
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "has 0 characters: it must have from 1 to 1,024"),
        ("x" * 1025, "has 1025 characters"),
        ("a\\b", "backslash"),
        ("a/", "may not end in a slash"),
        ("a./b", "none of its segments may end in a dot"),
        ("a\nb", "control character"),
        (5, "is not a text"),
        (None, "is not a text"),
        (["reports"], "is not a text"),
    ],
)
def test_a_name_that_the_service_would_not_take(
    thread: LockThread, kind: type[LockClient | AsyncLockClient], name: Any, said: str
) -> None:
    with pytest.raises(ConfigurationError, match=said):
        inside(kind(options=OPTIONS), name, never)
    assert thread.memory.calls.total() == 0


@both_kinds
@pytest.mark.parametrize("timeout", [-1, float("nan"), float("inf"), "5", True, timedelta(seconds=-1)])
def test_a_time_out_that_is_none(kind: type[LockClient | AsyncLockClient], timeout: Any) -> None:
    with pytest.raises(ConfigurationError, match="timeout is "):
        inside(kind(options=OPTIONS), "reports", never, timeout=timeout)


@both_kinds
def test_a_setting_that_is_missing_fails_the_first_use_and_not_the_making_of_a_client(
    kind: type[LockClient | AsyncLockClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module makes it at import, and a worker loads no function of an app whose import fails."""
    client: Any = kind("Orders")
    client.periodic("nightly", never, every=1)
    blocks = [
        *(client.lock("nightly"), client.lock("nightly", reentrant=True), client.lock_all(["a", "b"])),
        *(client.semaphore("slots", 2), client.try_lock("nightly"), client.leadership("nightly"), once(client, "7")),
    ]
    asks: list[Callable[[], Any]] = [partial(entered, kind, block) for block in blocks]
    asks += [lambda: outcome(client.acquire("reports")), lambda: outcome(client.holder("reports"))]
    for ask in asks:
        with pytest.raises(ConfigurationError, match=r"connection 'Orders'.*Set Orders to the account's connection"):
            ask()
    monkeypatch.setenv("Orders", "UseDevelopmentStorage=true")
    inside(client, "reports", lambda _: None)


@both_kinds
def test_a_connection_string_is_taken_as_it_is_and_never_shown(kind: type[LockClient | AsyncLockClient]) -> None:
    kind(f"DefaultEndpointsProtocol=https;AccountName=orders;AccountKey={SECRET}")
    for wrong in (f"AccountName=orders;AccountKey={SECRET};AccountKey={SECRET}", f"AccountKey={SECRET}", f"{SECRET};x"):
        with pytest.raises(ConfigurationError) as caught:
            kind(wrong)
        assert SECRET not in str(caught.value)


@both_kinds
def test_after_closing_nothing_is_acquired_and_what_is_held_stays(
    thread: LockThread, kind: type[LockClient | AsyncLockClient]
) -> None:
    client = kind(options=OPTIONS)

    def body(hold: Hold) -> None:
        client.close()
        assert not hold.lost.is_set()
        assert thread.leased() == {"reports"}

    inside(client, "reports", body)
    with pytest.raises(LockClosed, match="'reports': its client is closed: make a new client"):
        inside(client, "reports", never)
    inside(kind(options=OPTIONS), "reports", lambda _: None)
