"""The relay of an outbox: as a periodic worker, under a function's lock, with stores and senders of both kinds."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from singleton import AsyncLockClient, ConfigurationError, LockClient, LockLost
from singleton.base.hold import Hold
from singleton.patterns.handler_call import told
from singleton.patterns.outbox import Message, OutboxRelay, StaleClaim
from singleton.patterns.sql import AsyncSqlOutbox, SqlOutbox
from tests.support.lock_thread import LockThread, an_app
from tests.support.patterns import Receiver, add, column, held

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from pathlib import Path

    from sqlalchemy import Engine


@pytest.fixture
def outbox(engine: Engine) -> SqlOutbox:
    outbox = SqlOutbox(engine)
    outbox.create_table()
    return outbox


@pytest.fixture
def thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LockThread]:
    an_app(tmp_path, monkeypatch)
    with LockThread() as running:
        yield running


# --- as a worker ------------------------------------------------------------------------------------------------------


def test_a_worker_sends_under_its_lock(engine: Engine, outbox: SqlOutbox, thread: LockThread) -> None:
    add(engine, outbox, "a1", "a2")
    sent = threading.Event()
    receiver = Receiver(sees=lambda each: sent.set() if each.body == "a2" else None)
    relay = OutboxRelay(outbox, receiver)
    assert not relay.asynchronous
    with LockClient() as locks, relay.worker(locks, "relay", every=60):
        assert sent.wait(60)
    assert receiver.got == ["a1", "a2"]
    assert all(message.token > 1000 for message in receiver.messages)
    assert column(engine, outbox.table, "state") == ["sent", "sent"]


async def test_a_worker_of_coroutines_sends_from_a_sync_engine(
    engine: Engine, outbox: SqlOutbox, thread: LockThread
) -> None:
    add(engine, outbox, "a1", "a2")
    receiver, sent = Receiver(), asyncio.Event()

    async def send(message: Message) -> None:
        await receiver.later(message)
        if message.body == "a2":
            sent.set()

    async with AsyncLockClient() as locks, OutboxRelay(outbox, send).worker(locks, "relay", every=60):
        await asyncio.wait_for(sent.wait(), 10)
    assert receiver.got == ["a1", "a2"]


def test_a_stop_comes_between_two_messages(engine: Engine, outbox: SqlOutbox, thread: LockThread) -> None:
    add(engine, outbox, "a1", "a2", "a3")
    begun = threading.Event()

    def sees(_: Message) -> None:
        begun.set()
        assert stopping.wait(60)

    stopping = threading.Event()
    receiver = Receiver(sees=sees)
    with LockClient() as locks:
        worker = OutboxRelay(outbox, receiver).worker(locks, "relay", every=60)
        worker.start()
        assert begun.wait(60)
        assert not worker.stop(0)
        stopping.set()
        assert worker.stop()
    assert receiver.got == ["a1"]
    assert column(engine, outbox.table, "state") == ["sent", "pending", "pending"]


async def test_async_sending_is_cancelled_when_the_hold_is_lost_and_the_message_comes_again(
    engine: Engine, outbox: SqlOutbox, thread: LockThread
) -> None:
    add(engine, outbox, "a1")
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def send(_: Message) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async with AsyncLockClient() as locks, OutboxRelay(outbox, send).worker(locks, "relay", every=60):
        await asyncio.wait_for(begun.wait(), 10)
        thread.push_clock(60)
        await asyncio.wait_for(cancelled.wait(), 10)
    assert column(engine, outbox.table, "state") == ["pending"]
    receiver = Receiver()
    OutboxRelay(outbox, receiver).work(held(10**15))
    assert [each.attempt for each in receiver.messages] == [2]


# --- both kinds of engines and senders --------------------------------------------------------------------------------


@pytest.mark.parametrize("sends", ["sync", "async", "a plain function around an async one"])
async def test_an_async_engine_does_what_a_sync_one_does(tmp_path: Path, sends: str) -> None:
    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path}/other.db")
    outbox = AsyncSqlOutbox(engine)
    await outbox.create_table()
    async with AsyncSession(engine) as session, session.begin():
        assert await outbox.add(session, "one", key="a", id="1") == "1"
        await outbox.add(session, "two", key="a")
    async with engine.begin() as connection:
        await outbox.add(connection, "bad", key="b", id="bad")
    async with AsyncSession(engine) as session:
        await outbox.add(session, "never")
    receiver = Receiver(refuses=lambda each: each.body == "bad")

    def plain(message: Message) -> Coroutine[Any, Any, None]:
        return receiver.later(message)

    ways: dict[str, Callable[[Message], Any]] = {"sync": receiver, "async": receiver.later}
    send = ways.get(sends, plain)
    relay = OutboxRelay(outbox, send, attempts=1, on_poison="stop", keep=0, batch=1)
    assert relay.asynchronous
    await relay.work(held(2))
    assert receiver.got == ["one", "two"]
    assert [each["id"] for each in await outbox.poisoned()] == ["bad"]
    assert await outbox.set_aside("bad")
    assert await outbox.put_back("bad")
    with pytest.raises(LockLost):
        await relay.work(held(1))
    await engine.dispose()


async def test_a_sync_engine_does_not_block_the_loop(engine: Engine, outbox: SqlOutbox) -> None:
    add(engine, outbox, "a1")
    here, threads = threading.get_ident(), set[int]()
    ask = outbox.attempt

    def attempt(message: Message) -> bool:
        threads.add(threading.get_ident())
        return ask(message)

    outbox.attempt = attempt  # type: ignore[method-assign]
    receiver = Receiver()
    await OutboxRelay(outbox, receiver.later).work(held())
    assert receiver.got == ["a1"]
    assert here not in threads


class Remembered:
    """An outbox of another kind: what a user writes for his own database."""

    asynchronous = False

    def __init__(self, *bodies: str) -> None:
        self.waiting = dict(enumerate(bodies))
        self.seen = 0

    def claim(self, token: int, limit: int) -> list[Message]:
        if token < self.seen:
            raise StaleClaim("a greater token was seen")
        self.seen = token
        return [
            Message(id=body, body=body, attempt=1, token=token, position=number)
            for number, body in list(self.waiting.items())[:limit]
        ]

    def attempt(self, message: Message) -> bool:
        return message.position in self.waiting

    def sent(self, message: Message) -> None:
        del self.waiting[message.position]

    def failed(self, _: Message, error: str, **__: object) -> None:
        raise AssertionError(error)

    def tidy(self, *_: object) -> int:
        return 0


def test_a_store_of_the_users_own_is_four_methods_and_tidying() -> None:
    store, receiver = Remembered("x", "y"), Receiver()
    OutboxRelay(store, receiver, batch=1).work(held(3))
    assert receiver.got == ["x", "y"]
    with pytest.raises(LockLost):
        OutboxRelay(store, receiver).work(held(2))


def test_a_store_that_waits_and_does_not_say_so_is_named() -> None:
    class Waits(Remembered):
        async def _later(self) -> list[Message]:
            await asyncio.sleep(0)
            return []

        def claim(self, *_: object) -> Any:
            return self._later()

    store = Waits()
    with pytest.raises(ConfigurationError, match="set its asynchronous"):
        OutboxRelay(store, print).work(held())


def test_a_send_that_returns_a_coroutine_unasked_has_not_sent_its_message(engine: Engine, outbox: SqlOutbox) -> None:
    add(engine, outbox, "a1")

    def send(message: Message) -> Any:
        return Receiver().later(message)

    OutboxRelay(outbox, send).work(held())
    assert column(engine, outbox.table, "state") == ["pending"]
    assert "give a coroutine function" in column(engine, outbox.table, "error")[0]


# --- arguments, errors, lines -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "told_so"),
    [
        ({"attempts": 0}, "attempts is 0: give a whole number from 1"),
        ({"attempts": True}, "attempts is True"),
        ({"batch": 10_001}, "batch is 10001"),
        ({"backoff": 0}, "backoff is 0"),
        ({"longest": -1}, "longest is -1"),
        ({"keep": "a week"}, "keep is 'a week'"),
        ({"on_poison": "halt"}, "on_poison is 'halt': give 'skip' or 'stop'"),
        ({"send": None}, "send is None"),
        ({"outbox": "outbox"}, "outbox is a value of type str"),
    ],
)
def test_a_wrong_argument_is_named(outbox: SqlOutbox, wrong: dict[str, Any], told_so: str) -> None:
    with pytest.raises(ConfigurationError, match=told_so):
        OutboxRelay(**{"outbox": outbox, "send": print, **wrong})


def test_a_hold_without_a_token_is_refused_unless_locking_is_off(engine: Engine, outbox: SqlOutbox) -> None:
    add(engine, outbox, "a1")
    receiver, hold = Receiver(), Hold("relay")
    hold.lease_id = "11111111-1111-4111-8111-111111111111"
    with pytest.raises(ConfigurationError, match=r"limit=.*layout=.webjobs.*fencing_tokens"):
        OutboxRelay(outbox, receiver).work(hold)
    OutboxRelay(outbox, receiver).work(Hold("relay"))
    assert receiver.got == ["a1"]


class PanicError(BaseException):
    """An error like that of a Rust library (PyO3), which is no ``Exception``."""


@pytest.mark.parametrize("sends", ["sync", "async", "in a thread"])
@pytest.mark.parametrize(
    "error", [SystemExit(3), PanicError("index"), asyncio.CancelledError(), StopIteration()], ids=repr
)
async def test_whatever_send_raises_is_the_failure_of_its_message_and_other_keys_go_on(
    engine: Engine,
    outbox: SqlOutbox,
    thread: LockThread,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    sends: str,
) -> None:
    add(engine, outbox, "a1", "b1")
    receiver = Receiver()

    def send(message: Message) -> None:
        if message.key == "a":
            raise error
        receiver(message)

    async def later(message: Message) -> None:
        send(message)

    if sends == "in a thread":
        _as_an_async_store(outbox, monkeypatch)
    relay = OutboxRelay(outbox, later if sends == "async" else send)
    if relay.asynchronous:
        await relay.work(held())
    else:
        relay.work(held())
    assert receiver.got == ["b1"]
    assert column(engine, outbox.table, "state") == ["pending", "sent"]


@pytest.mark.parametrize("work", [lambda each: (each for _ in [1]), lambda each: map(print, [each])])
def test_a_send_that_returns_its_work_as_an_iterator_fails_for_its_message_and_other_keys_go_on(
    engine: Engine, outbox: SqlOutbox, work: Any
) -> None:
    add(engine, outbox, "a1", "b1")
    OutboxRelay(outbox, lambda message: work(message) if message.key == "a" else None).work(held())
    assert column(engine, outbox.table, "state") == ["pending", "sent"]
    assert "its body did not run" in column(engine, outbox.table, "error")[0]


def _as_an_async_store(outbox: SqlOutbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a relay await the methods of the outbox, so that a plain ``send`` runs in a thread."""

    def awaited(method: Callable[..., Any]) -> Callable[..., Any]:
        async def call(*arguments: Any, **named: Any) -> Any:
            return method(*arguments, **named)

        return call

    for name in ("claim", "attempt", "sent", "failed", "tidy"):
        monkeypatch.setattr(outbox, name, awaited(getattr(outbox, name)))
    monkeypatch.setattr(outbox, "asynchronous", True)


def test_poison_is_an_error_in_the_log_and_no_body_or_error_is_shown(
    engine: Engine, outbox: SqlOutbox, caplog: pytest.LogCaptureFixture
) -> None:
    add(engine, outbox, "body1")
    caplog.set_level(logging.DEBUG, logger="singleton")
    OutboxRelay(outbox, Receiver(refuses=lambda _: True), attempts=1).work(held())
    (record,) = caplog.records
    assert (record.levelname, record.getMessage()) == (
        "ERROR",
        "message body1 of the outbox failed (attempts: 1), and will not be tried again",
    )


@pytest.mark.parametrize(
    ("error", "kept"),
    [
        (
            OSError("postgresql+psycopg://me:p@ss/w@host:1/db is away"),
            "OSError: postgresql+psycopg://***@host:1/db is away",
        ),
        (OSError("https://a.blob/x?sv=1&sig=abc%3D&se=2"), "OSError: https://a.blob/x?sv=1&sig=***&se=2"),
        (OSError("Server=x;Password=hush;User=y"), "OSError: Server=x;Password=***;User=y"),
        (ValueError("x" * 5000), "ValueError: " + "x" * 988),
    ],
)
def test_what_is_kept_of_an_error_is_short_and_shows_no_password(error: Exception, kept: str) -> None:
    assert told(error) == kept


def test_an_error_whose_text_fails_is_told_by_its_kind() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert told(Mute()) == "Mute: "
