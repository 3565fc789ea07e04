"""When user code is inside of a lock of a lock client is told at the boundary to the product."""

from __future__ import annotations

import asyncio
import gc
import time
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any

import pytest

from simulator.history.journal import Record
from simulator.host.client_tap import tap_clients
from simulator.witness.witness import AskedTask
from singleton import AsyncLockClient, LockClient, SingletonOptions, current_hold
from singleton.base.errors import LockLost
from singleton.base.hold import Hold, LossSignal
from singleton.baseclient import BaseClient
from singleton.clients import periodic_worker
from singleton.clients.blocks import AsyncBlock, Block, _BaseBlock
from singleton.clients.leadership import Leadership
from singleton.clients.periodic_worker import PeriodicWorker
from singleton.runtime.cancellation import LossWatch
from singleton.runtime.reentry import BodyContext
from singleton.testing import memory_locks

if TYPE_CHECKING:
    from collections.abc import Iterator

_OF_CLIENTS = (
    "lock",
    "semaphore",
    "try_lock",
    "lock_all",
    "leadership",
    "periodic",
    "acquire",
    "release",
    "break_",
    "holder",
    "locked",
)
_WORDS = {"entered": "in", "left": "out of", "refused": "refused"}
_TAPPED: dict[Any, tuple[str, ...]] = {
    LockClient: _OF_CLIENTS,
    AsyncLockClient: _OF_CLIENTS,
    Block: ("__enter__",),
    AsyncBlock: ("__aenter__",),
    BaseClient: ("safe_name", "lock_name", "close"),
    _BaseBlock: ("_left", "another"),
    Leadership: ("start", "__enter__", "__aenter__", "wait", "_wait_async", "stop", "__aexit__", "hold"),
    BodyContext: ("__exit__",),
    PeriodicWorker: ("__init__", "start", "__aenter__", "run", "stop", "_do"),
}


class Told(list[Record]):
    """Collects records, and tells in short what they say."""

    def __call__(self, event: str, /, **fields: Any) -> None:
        self.append(Record(float(len(self)), "host-1", event, fields))

    @property
    def events(self) -> list[str]:
        """What was told: the names that were asked for in vain, that were entered, and who left."""
        names = {record.text("number"): record.text("name") for record in self if record.get("kind") == "entered"}
        names |= {each.text("number"): each.text("name") for each in self if each.get("kind") == "asked"}
        return [
            f"{_WORDS[record.text('kind')]} {names[record.text('number')]}"
            for record in self
            if record.event == "client_lock" and record.get("kind") in _WORDS
        ]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[Told]:
    for owner, names in _TAPPED.items():
        for name in names:
            monkeypatch.setattr(owner, name, getattr(owner, name))  # put back afterwards
    told = Told()
    tap_clients(told)
    with memory_locks():
        yield told


@pytest.fixture
def locks(told: Told) -> LockClient:
    return LockClient("AzureWebJobsStorage")


def test_a_block_is_told_with_what_was_asked_for_and_got(told: Told, locks: LockClient) -> None:
    with locks.lock("stock", at_least=1, max_hold=30) as hold:
        asked, entered = told
        assert asked.get("kind") == "asked"
        assert (entered.text("name"), entered.text("got"), entered.get("token")) == ("stock", "stock", hold.token)
        assert (entered.get("limit"), entered.get("lease")) == (None, 15)
        assert (entered.get("at_least"), entered.get("max_hold")) == (1, 30)
    assert told.events == ["in stock", "out of stock"]


def test_a_block_tells_which_blocks_are_around_it(told: Told, locks: LockClient) -> None:
    with locks.lock("a"), locks.lock("b"), suppress(OSError), locks.lock("c"):
        raise OSError
    with locks.lock("d"):
        pass
    asked = {each.text("name"): each for each in told if each.get("kind") == "asked"}
    numbers = {name: each.text("number") for name, each in asked.items()}
    around = {
        name: [numbers[name] for name in names] for name, names in {"a": "", "b": "a", "c": "ab", "d": ""}.items()
    }
    assert {name: each.get("within") for name, each in asked.items()} == around


def test_a_block_around_another_of_its_lock_is_one_stay(told: Told, locks: LockClient) -> None:
    with locks.lock("stock", reentrant=True):
        with locks.lock("stock", reentrant=True):
            assert told.events == ["in stock"]
        assert told.events == ["in stock"]
    assert told.events == ["in stock", "out of stock"]


def test_a_loss_that_user_code_sees_by_the_clock_is_told_before_the_lock_says_so(
    told: Told, locks: LockClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(LockLost), locks.lock("stock"):
        monkeypatch.setattr(LossSignal, "reason", "expired")
    assert told[-1].get("kind") == "left"
    assert told[-1].get("lost")


def test_which_text_got_which_name_is_told_once(told: Told, locks: LockClient) -> None:
    names = [locks.safe_name(text) for text in ("north", "north/", "north")]
    assert [record.text("name") for record in told] == names[:2]
    assert len({record.text("text") for record in told}) == 2


def test_the_name_of_a_guards_lock_is_told_once_with_the_one_that_it_has(told: Told) -> None:
    locks = LockClient("AzureWebJobsStorage", options=SingletonOptions(host_id="app"))
    names = [
        *(locks.lock_name("ship") for _ in range(2)),
        locks.lock_name("ship", ["a/b", "c"], scope_hash=True),
        locks.lock_name("ship", "a/b", listener=True),
        locks.lock_name("ship", "a/b", limit=3),
        locks.lock_name("ship", ["imports", "7"], level="host"),
    ]
    assert [(each.text("name"), each.text("expected")) for each in told] == [(name, name) for name in names[1:]]
    assert [each.text("function") for each in told] == ["ship", "ship", "ship", "ship", ""]


def test_a_try_in_vain_is_no_stay(told: Told, locks: LockClient) -> None:
    with locks.lock("stock"), locks.try_lock("stock") as got:
        assert got is None
    assert told.events == ["in stock", "refused stock", "out of stock"]


def test_each_slot_and_each_lock_of_a_set_is_told(told: Told, locks: LockClient) -> None:
    with locks.semaphore("printers", 2), locks.lock_all(["b", "a"]):
        assert told.events == ["in printers", "in b", "in a"]
        assert told[1].get("limit") == 2
        assert told[1].text("got").startswith("printers/slot-")
    assert sorted(told.events[3:]) == ["out of a", "out of b", "out of printers"]


def test_each_call_of_a_decorated_function_is_a_stay(told: Told, locks: LockClient) -> None:
    @locks.lock("numbers")
    def count() -> None: ...

    count()
    count()
    assert told.events == ["in numbers", "out of numbers"] * 2


@pytest.mark.parametrize("lost", ["stock", "numbers", ""])
@pytest.mark.parametrize("deaf", [True, False])
def test_whether_a_decorated_function_sees_the_loss_of_its_lock_or_of_one_around_it_is_told(
    told: Told, locks: LockClient, monkeypatch: pytest.MonkeyPatch, lost: str, *, deaf: bool
) -> None:
    if deaf:
        monkeypatch.setattr(Hold, "owned", True)

    @locks.lock("numbers", on_loss="tell")
    def count() -> None:
        {"stock": around, "numbers": current_hold(), "": around}[lost].own_lost.fire("too long") if lost else None

    with locks.lock("stock", on_loss="tell") as around:
        count()
    saw = [record.get("saw") for record in told if record.get("kind") == "leaving"]
    assert saw == [bool(lost) and not deaf, None]


async def test_so_are_blocks_of_coroutines(told: Told) -> None:
    async with AsyncLockClient("AzureWebJobsStorage") as locks:
        async with locks.lock("stock"):
            assert told.events == ["in stock"]
        hold = await locks.acquire("mails")
        await locks.release(hold)
    assert told.events == ["in stock", "out of stock", "in mails", "out of mails"]


@pytest.mark.parametrize("cancels", [True, False])
async def test_an_async_block_whose_task_nobody_cancels_at_its_loss_is_told(
    told: Told, monkeypatch: pytest.MonkeyPatch, *, cancels: bool
) -> None:
    if not cancels:
        monkeypatch.setattr(LossWatch, "cancel_soon", lambda _: None)
    with suppress(LockLost):
        async with AsyncLockClient("AzureWebJobsStorage").lock("stock") as hold:
            hold.own_lost.fire("expired")
            with suppress(asyncio.CancelledError):  # a body that swallows its cancellation was cancelled all the same
                for _ in range(5):
                    await asyncio.sleep(0)
    found = [record for record in told if record.event == "altered" and record.get("kind") == "uncancelled"]
    assert [0 <= record.get("seconds") < 1 for record in found] == [True] * (not cancels)


@pytest.mark.parametrize("cancels", [True, False])
async def test_async_work_of_a_periodic_worker_that_nobody_cancels_at_its_loss_is_told(
    told: Told, monkeypatch: pytest.MonkeyPatch, *, cancels: bool
) -> None:
    async def work(hold: Hold) -> None:
        hold.own_lost.fire("expired")
        for _ in range(5):
            await asyncio.sleep(0)
        worker.stop()

    if not cancels:
        monkeypatch.setattr(periodic_worker, "cancelled_when_lost", nullcontext)
    worker = AsyncLockClient("AzureWebJobsStorage").periodic("stock", work, every=0.1)
    running = asyncio.create_task(worker.run())
    await asyncio.sleep(0.05)
    worker.stop()
    await running
    found = [record for record in told if record.event == "altered" and record.get("kind") == "worked"]
    assert [(record.text("function"), record.get("seconds") < 1) for record in found] == [("stock", True)] * (
        not cancels
    )


@pytest.mark.parametrize(("how", "found"), [("right", []), ("cancelled", ["books"]), ("another block", [])])
async def test_an_async_block_that_only_tells_and_is_cancelled_at_its_loss_is_told(
    told: Told, how: str, found: list[str]
) -> None:
    locks = AsyncLockClient("AzureWebJobsStorage")

    async def body() -> None:
        async with locks.lock("books", on_loss="tell") as books:
            watch = LossWatch([books], task) if how == "cancelled" else None
            async with locks.lock("stock", on_loss="raise" if how == "another block" else "tell") as stock:
                if how == "another block":
                    stock.own_lost.fire("expired")
                books.own_lost.fire("expired")
                await asyncio.sleep(0.01)
        del watch

    task: asyncio.Task[object] = AskedTask(body(), asked=lambda *_: None)
    with suppress(asyncio.CancelledError, LockLost):
        await task
    assert [each.text("function") for each in told if each.get("kind") == "cancelled"] == found


def test_a_hold_without_a_block_ends_as_it_is_released(told: Told, locks: LockClient) -> None:
    locks.release(locks.acquire("mails"))
    assert told.events == ["in mails", "out of mails"]


def test_or_as_it_is_dropped(told: Told, locks: LockClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LockClient, "_do", lambda *_: Hold("mails"))
    locks.acquire("mails")
    gc.collect()
    assert told.events == ["in mails", "out of mails"]


def test_the_work_of_a_periodic_worker_is_a_stay(told: Told, locks: LockClient) -> None:
    with locks.periodic("cleanup", print, every=60):
        while len(told) < 2:
            time.sleep(0.01)
    assert told.events == ["in cleanup", "out of cleanup"]


@pytest.mark.parametrize("closes", [True, False])
async def test_a_worker_asks_from_its_start_to_its_stop_or_the_close_of_its_client(told: Told, *, closes: bool) -> None:
    def kinds() -> list[Any]:
        return [each.get("kind") for each in told if each.get("kind") in {"begun", "over"}]

    locks, other = AsyncLockClient("AzureWebJobsStorage"), LockClient("AzureWebJobsStorage")
    with other.leadership("poller"):
        assert [told[0].get("every"), *kinds()] == [60, "begun"]
        async with locks.periodic("cleanup", print, every=5):
            assert kinds() == ["begun"] * 2
            if closes:
                locks.close()
                assert kinds() == ["begun"] * 2 + ["over"]
    assert kinds() == ["begun"] * 2 + ["over"] * 2


def test_a_leader_leads_from_its_first_look_to_its_stop(told: Told, locks: LockClient) -> None:
    with locks.leadership("poller") as leadership:
        hold = leadership.wait()
        assert leadership.hold is hold
        assert told.events == ["in poller"]
        assert told[0].get("lease") == 60
    assert told.events == ["in poller", "out of poller"]
    assert leadership.hold is None
    assert told[-1].get("kind") == "left"


def test_a_leadership_that_shows_a_hold_which_it_has_lost_is_told(
    told: Told, locks: LockClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Leadership, "_give_back", lambda *_: asyncio.sleep(60))  # and ask anew
    with locks.leadership("poller") as leadership:
        hold = leadership.wait()
        assert hold is not None
        hold.own_lost.fire("expired")
        assert leadership.hold is None
        assert "altered" not in [record.event for record in told]
        with monkeypatch.context() as patch:
            patch.setattr(LossSignal, "is_set", lambda _: False)
            assert leadership.hold is hold
    assert [record.get("kind") for record in told if record.event == "altered"] == ["led"]


def test_a_leader_that_leads_anew_has_left_the_hold_that_it_lost(told: Told, locks: LockClient) -> None:
    with locks.leadership("poller") as leadership:
        first = leadership.wait()
        assert first is not None
        first.own_lost.fire("expired")
        assert leadership.wait() is not first
        assert told.events == ["in poller", "out of poller", "in poller"]


def test_user_code_that_breaks_a_lock_is_told_as_an_operator(told: Told, locks: LockClient) -> None:
    with locks.lock("stock", on_loss="tell"):
        told.clear()
        locks.break_("stock")
        locks.break_("stock", notice=10)
        assert len(told) == 2
    assert [(each.event, each.get("action"), each.get("lock")) for each in told[:2]] == [
        ("operator", "break", "stock"),
        ("operator", "break slowly", "stock"),
    ]
