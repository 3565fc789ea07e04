"""What user code keeps, and what it reads, is told at the boundary to the product."""

from __future__ import annotations

import asyncio
from itertools import product
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import MetaData, create_engine, event, insert, update

from simulator.history.journal import Record
from simulator.history.pattern_uses import CALLBACK, PatternUses
from simulator.history.value_digest import NOTHING, UNREADABLE, digest
from simulator.host.pattern_tap import tap_patterns, tap_rows
from simulator.witness.witness import Witness, inbox_name, invoked
from singleton import AsyncLockClient, InboxMessage, LockClient, SingletonOptions, once
from singleton.base.hold import Hold, LossSignal
from singleton.base.state import State
from singleton.patterns import durable
from singleton.patterns.once.block import AsyncOnceBlock, AsyncOperation, BaseOperation, OnceBlock, Operation
from singleton.patterns.ordered.inbox import Inbox
from singleton.patterns.outbox import OutboxRelay
from singleton.patterns.sql import AsyncRowStates, AsyncSqlOutbox, RowStates, SqlOutbox, work_table
from singleton.testing import memory_locks, virtual_time

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sqlalchemy import Engine

    from simulator.history.facts import PatternUse

_TAPPED: dict[object, tuple[str, ...]] = {
    durable: ("start_singleton",),
    Hold: ("state",),
    LossSignal: ("wait", "_wait_async", "add_callback"),
    State: ("read", "write", "remove", "aread", "awrite", "aremove"),
    OnceBlock: ("__enter__", "__exit__", "run"),
    AsyncOnceBlock: ("__aenter__", "__aexit__", "run"),
    Operation: ("finish",),
    AsyncOperation: ("finish",),
    Inbox: (
        "send",
        "asend",
        "resend",
        "aresend",
        "resume",
        "aresume",
        "discard",
        "adiscard",
        "worker",
        "handle",
        "ahandle",
    ),
    OutboxRelay: ("__init__",),
}


class Told:
    """Collects records, and reads them as a history does."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def __call__(self, event: str, /, **fields: Any) -> None:
        self.records.append(Record(float(len(self.records)), "host-1", event, fields))

    @property
    def uses(self) -> list[PatternUse]:
        reader = PatternUses()
        return [use for record in self.records for use in reader.take(record)]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[Told]:
    for owner, names in _TAPPED.items():
        for name in names:
            monkeypatch.setattr(owner, name, getattr(owner, name))  # put back afterwards
    told = Told()
    tap_patterns(told, Witness(told))
    with memory_locks():
        yield told


def seen(told: Told) -> list[tuple[str, str, str]]:
    return [(use.of, use.what, use.digest) for use in told.uses]


def test_a_read_and_a_write_of_state_are_told_with_digests(told: Told) -> None:
    with LockClient("AzureWebJobsStorage").lock("numbers") as hold:
        assert hold.state.read(default=0) == 0
        hold.state.write((1, 2))
        assert hold.state.read() == [1, 2]
        hold.state.remove()
    both = digest([1, 2])
    assert seen(told) == [
        ("hold.state", "read", digest(0)),
        ("hold.state", "write", both),
        ("hold.state", "read", both),
        ("hold.state", "write", NOTHING),
    ]
    assert {use.name for use in told.uses} == {"numbers"}
    assert told.uses[0].default == digest(0)
    assert len({use.register for use in told.uses}) == 1
    assert all(use.ok for use in told.uses)


async def test_looks_at_an_instance_and_starts_are_told(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    class Client:
        async def get_status(self, _: str) -> SimpleNamespace:
            return SimpleNamespace(runtime_status="Running" if told.uses[1:] else None, created_time=len(told.uses))

        async def start_new(self, *_: object) -> None: ...

    monkeypatch.setenv("AzureWebJobsStorage", "UseDevelopmentStorage=true")
    assert (await durable.start_singleton(Client(), "run", "nightly")).started
    assert [(use.of, use.what, use.name) for use in told.uses] == [
        ("instance", what, "nightly") for what in ("get_status", "start_new", "get_status")
    ]
    assert len({use.id for use in told.uses}) == 1


@pytest.fixture
def tables(told: Told, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """An engine, while what happens in tables is told."""
    for owners, names in (
        ((SqlOutbox, AsyncSqlOutbox), ("add", "put_back", "set_aside", "claim", "_claim")),
        ((RowStates, AsyncRowStates), ("claim", "done", "failed", "give_back", "renew", "put_back")),
    ):
        for owner, name in product(owners, names):
            monkeypatch.setattr(owner, name, getattr(owner, name))  # put back afterwards
    listen, heard = event.listen, list[Any]()

    def listening(*given: Any) -> None:
        heard.append(given)
        listen(*given)

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(event, "listen", listening)
        tap_rows(told)
    engine = create_engine("sqlite://")
    yield engine
    engine.dispose()
    for each in heard:
        event.remove(*each)


def test_a_message_that_is_added_to_an_outbox_is_told_with_its_id(told: Told, tables: Engine) -> None:
    outbox = SqlOutbox(tables)
    outbox.create_table()
    with tables.begin() as connection:
        added = outbox.add(connection, "a", key="c1", destination="shipping")
    outbox.set_aside(added)
    outbox.claim(7, 5)
    use, resumed, look = told.uses
    assert (resumed.what, resumed.id) == ("resume", added)
    assert (use.what, use.id, use.key, use.where, use.digest) == ("add", added, "c1", "shipping", digest("a"))
    assert (look.of, look.what, look.found, look.left, look.token) == ("look", "outbox", (added,), 4, 7)
    OutboxRelay(outbox, print)
    outbox.claim(8, 5)
    left = next(use for use in told.uses if use.what == "left")
    assert (left.of, left.name, left.found, left.left > 0) == ("look", use.name, (added,), True)


def test_what_rows_a_claimer_finds_is_told_and_what_becomes_of_them(told: Told, tables: Engine) -> None:
    jobs = work_table(MetaData(), "jobs")
    rows, some = RowStates(tables, jobs), RowStates(tables, jobs, where=jobs.c.id == "b")
    with tables.begin() as connection:
        jobs.metadata.create_all(connection)
        connection.execute(insert(jobs).values([{"id": "a", "body": "1"}, {"id": "b", "body": "2"}]))
    (first,) = rows.claim()
    rows.failed(first, "the bank is away", retry_in=2)
    (second,) = some.claim(3)
    with tables.begin() as connection:
        rows.failed(second, "no such account", connection=connection)
        connection.execute(update(jobs).values(body="3"))
    rows.put_back("a")
    assert [(use.of, use.what, use.key or use.found) for use in told.uses] == [
        ("look", "rows", ("['a']",)),
        ("rows", "claim", "['a']"),
        ("rows", "failed", "['a']"),
        ("look", "rows", ("['b']",)),
        ("rows", "claim", "['b']"),
        ("rows", "failed", "['b']"),
        ("touch", "SQL", ()),
        ("touch", "put_back", ()),
    ]
    failed, looks = told.uses[2], [use.left for use in told.uses if use.of == "look"]
    assert (failed.keep, failed.attempt, failed.left) == (2.0, 1, 4)
    assert looks == [0, -1]  # the app claims some rows only: nobody knows of how many more
    assert told.uses[5].attempt == 0  # nobody knows of the end of the app's transaction
    assert told.uses[6].name == "jobs"


def test_what_a_method_does_by_another_one_is_the_products_business(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(State, "remove", lambda state: state.write(None))  # that is the bug
    tap_patterns(told, Witness(told))
    with LockClient("AzureWebJobsStorage").lock("numbers") as hold:
        hold.state.remove()
        hold.state.write(1)
    assert {digest for _, _, digest in seen(told)} == {NOTHING, digest(1)}


async def test_so_are_those_of_coroutines(told: Told) -> None:
    async with AsyncLockClient("AzureWebJobsStorage").lock("numbers") as hold:
        await hold.state.awrite("one")
        assert await hold.state.aread() == "one"
    assert seen(told) == [("hold.state", "write", digest("one")), ("hold.state", "read", digest("one"))]


def test_a_write_that_raises_is_told_as_one_of_which_nobody_knows(told: Told) -> None:
    with LockClient("AzureWebJobsStorage").lock("numbers") as hold:
        pass
    with pytest.raises(Exception, match="released"):
        hold.state.write(1)
    (use,) = told.uses
    assert (use.ok, use.digest) == (False, digest(1))


def test_what_the_product_leaves_out_changes_nothing_in_what_is_told(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    from singleton.locking.section_state import SectionState

    async def dropped(*_: object) -> None:
        return

    monkeypatch.setattr(SectionState, "write", dropped)
    with LockClient("AzureWebJobsStorage").lock("numbers") as hold:
        hold.state.write(1)
        hold.state.read()
    assert [use.digest for use in told.uses] == [digest(1), digest(None)]


def test_a_block_of_once_tells_what_it_found_and_what_was_done(told: Told) -> None:
    locks = LockClient("AzureWebJobsStorage")
    for _ in range(2):
        assert once(locks, "7", name="charge").run(lambda: "paid") == "paid"
    paid = digest("paid")
    assert seen(told) == [("once", "read", NOTHING), ("once", "write", paid), ("once", "read", paid)]
    assert {(use.name, use.key) for use in told.uses} == {("once/charge/7", "7")}
    assert told.uses[1].keep == 7 * 86400


def test_a_block_of_once_keeps_nothing_if_it_raises_and_its_end_if_it_calls_no_finish(told: Told) -> None:
    with pytest.raises(OSError, match="away"), once(LockClient("AzureWebJobsStorage"), "7", name="charge"):
        raise OSError("away")
    with once(LockClient("AzureWebJobsStorage"), "7", name="charge"):
        pass
    nothing = ("once", "read", NOTHING)
    assert seen(told) == [nothing, nothing, ("once", "write", digest(None))]


async def test_so_does_one_of_coroutines(told: Told) -> None:
    locks = AsyncLockClient("AzureWebJobsStorage")

    async def pay() -> str:
        return "paid"

    with pytest.raises(OSError, match="away"):
        async with once(locks, "7", name="charge"):
            raise OSError("away")
    assert [await once(locks, "7", name="charge").run(pay) for _ in range(2)] == ["paid", "paid"]
    assert [digest_ for *_, digest_ in seen(told)] == [NOTHING, NOTHING, digest("paid"), digest("paid")]


@pytest.mark.parametrize("returned", [True, False], ids=["keeps another value", "returns another value"])
async def test_a_run_that_passes_on_something_else_is_told(
    told: Told, monkeypatch: pytest.MonkeyPatch, *, returned: bool
) -> None:
    async def pay() -> str:
        return "paid"

    keeping: Any = BaseOperation._keeping
    result: Any = BaseOperation.result
    if returned:
        monkeypatch.setattr(BaseOperation, "_keeping", lambda self, result: keeping(self, result.upper()))
    else:
        monkeypatch.setattr(BaseOperation, "result", property(lambda self: result.fget(self).upper()))
    once(LockClient("AzureWebJobsStorage"), "7", name="charge").run(lambda: "paid")
    await once(AsyncLockClient("AzureWebJobsStorage"), "8", name="charge").run(pay)
    assert [(each.get("kind"), each.text("function")) for each in told.records if each.event == "altered"] == [
        ("ran", "once/charge"),
        ("ran", "once/charge"),
    ]
    assert [use.digest for use in told.uses if use.what == "write"] == [digest("paid")] * 2


def test_operations_of_one_name_in_two_containers_are_two_registers(told: Told) -> None:
    for container in ("first", "second"):
        locks = LockClient("AzureWebJobsStorage", options=SingletonOptions(container=container))
        assert once(locks, "7", name="charge").run(lambda kept=container: kept) == container
    first, second = told.uses[:2], told.uses[2:]
    assert first[0].register == first[1].register != second[0].register == second[1].register


class _Answer:
    status_code = 201

    def get_body(self) -> bytes:
        return b"receipt"


@pytest.mark.parametrize(
    ("first", "second", "equal"),
    [
        ((1, [2]), [1, [2]], True),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        (b"7", "7", False),
        (1, "1", False),
        (None, False, False),
        (_Answer(), _Answer(), True),
        (_Answer(), b"receipt", False),
    ],
)
def test_digests_are_equal_for_what_is_kept_and_read_back(first: object, second: object, equal: bool) -> None:
    assert (digest(first) == digest(second)) is equal
    assert digest(object()) == UNREADABLE


def test_a_relay_tells_what_it_sends_and_what_it_notes(told: Told, tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy")
    from sqlalchemy import create_engine

    from singleton.patterns.sql import SqlOutbox

    engine = create_engine(f"sqlite:///{tmp_path / 'shop.db'}")
    outbox = SqlOutbox(engine)
    outbox.create_table()
    with engine.begin() as connection:
        for number in range(2):
            outbox.add(connection, f"{number}", key="c1", id=f"m{number}")
    relay = OutboxRelay(outbox, lambda message: None if message.id == "m0" else 1 / 0)
    with LockClient("AzureWebJobsStorage").lock("relay") as hold:
        relay.work(hold)
    assert [(use.what, use.id, use.ok) for use in told.uses] == [
        ("send", "m0", True),
        ("sent", "m0", True),
        ("send", "m1", False),
        ("again", "m1", True),
    ]
    assert {(use.of, use.name, use.key) for use in told.uses} == {
        ("outbox", f"outbox in sqlite:///{tmp_path / 'shop.db'}", "c1")
    }
    assert [use.place for use in told.uses] == [1, 1, 2, 2]
    assert (told.uses[-1].attempt, told.uses[-1].left, told.uses[-1].keep) == (1, 9, 1.0)
    stopping = OutboxRelay(outbox, lambda _: 1 / 0, attempts=1, on_poison="stop")
    for what in ("failed", "stopped"):  # one of its relays skips, and then both stop
        with engine.begin() as connection:
            outbox.add(connection, "x", key=what, id=what)
        with LockClient("AzureWebJobsStorage").lock("relay") as hold:
            stopping.work(hold)
        assert told.uses[-1].what == what
        vars(outbox)["_witnessed"][0]["on_poison"] = "stop"
    engine.dispose()


@virtual_time
async def test_an_inbox_tells_of_its_sends_and_its_worker_of_what_it_handles(told: Told) -> None:
    inbox = Inbox("orders")

    async def ship(message: InboxMessage) -> None:
        assert message.key == "c1"

    for number in range(2):
        await inbox.asend("c1", {"order": number})
    async with inbox.worker(ship):
        await asyncio.sleep(5)
    sent = [(use.of, use.what, use.name, use.key, use.queue, use.digest) for use in told.uses]
    bodies = [digest({"order": number}) for number in range(2)]
    assert sent == [("inbox", "send", "orders", "c1", "orders", body) for body in bodies]
    items = [record.get("item") for record in told.records if record.event == "body_entered"]
    assert [(each["inbox"], each["key"], each["digest"]) for each in items] == [
        ("orders", "c1", each) for each in bodies
    ]
    assert len({each["id"] for each in items}) == 2


def test_inboxes_of_one_name_in_two_accounts_are_two() -> None:
    assert inbox_name(Inbox("orders")) == "orders"
    names = {inbox_name(Inbox("orders", setting)) for setting in ("TenantA", "TenantB", "AzureWebJobsStorage")}
    assert len(names) == 3


async def test_waits_for_a_loss_are_told_until_their_end_and_callbacks_until_their_call(told: Told) -> None:
    hold, heard = Hold("numbers"), list[object]()
    before = invoked.set("i")
    forget = hold.lost.add_callback(heard.append)
    forget()
    hold.lost.add_callback(heard.append)
    waiting = asyncio.ensure_future(_until(hold))
    await asyncio.sleep(0)
    assert not hold.lost.wait(0.001)  # its caller looks at the hold so often itself
    hold.own_lost.fire("stolen")
    assert (await waiting, heard) == ("stolen", ["stolen"])
    assert hold.lost.wait()
    invoked.reset(before)
    assert [use.what for use in told.uses] == [CALLBACK, CALLBACK, "an await of hold.lost", "hold.lost.wait()"]
    assert all(use.ok and use.of == "hold.lost" and use.name == "numbers" for use in told.uses)


async def _until(hold: Hold) -> object:
    return await hold.lost
