"""Code as a user writes it, which mypy --strict and pyright read: what do the public names make of its types?

``test_users_code.py`` runs it, and ``tests/docs/test_pages_types.py`` has type checkers read it.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any, assert_type

import azure.functions as func

from singleton import (
    AsyncBlock,
    AsyncLockClient,
    Block,
    Contention,
    EventKind,
    HeldLock,
    Hold,
    Holder,
    Holds,
    Json,
    Leadership,
    Level,
    LockClient,
    LockEvent,
    LockNotAcquired,
    LossReason,
    Mode,
    OnContention,
    PeriodicWorker,
    Policy,
    Seconds,
    SingletonOptions,
    State,
    TryBlock,
    Use,
    WaitingFor,
    WhenFull,
    current_hold,
    holds,
    singleton,
    subscribe,
)

PATIENCE: Seconds = timedelta(minutes=1)
OPTIONS = SingletonOptions(
    lock_period=timedelta(seconds=30),
    listener_lock_period=timedelta(seconds=45),
    lock_acquisition_timeout=PATIENCE,
    lock_acquisition_polling_interval=timedelta(seconds=2),
    lock_acquisition_min_polling_interval=timedelta(milliseconds=200),
    listener_lock_recovery_polling_interval=timedelta(seconds=20),
    renewal_interval=timedelta(seconds=10),
    handoff_window=timedelta(seconds=20),
    defer_delay=timedelta(minutes=1),
    http="direct",
)
PERIOD: float = OPTIONS.lock_period
locks = LockClient(options=OPTIONS)
async_locks = AsyncLockClient()

app = func.FunctionApp()


# --- policies ---------------------------------------------------------------------------------------------------------


def patient_at_first(asked: Contention) -> Policy:
    """Return any policy: typed as ``Policy``, not as ``str``."""
    if asked.dequeue_count < 3:
        return "wait"
    return "defer" if asked.message_id is not None else "conflict"


def of_the_day(*, night: bool) -> OnContention:
    """Return a word or a function."""
    return "skip" if night else patient_at_first


# --- functions of an app ----------------------------------------------------------------------------------------------


@app.timer_trigger(arg_name="timer", schedule="0 */5 * * * *")
@singleton(on_contention="skip")
def import_eligibility(timer: func.TimerRequest) -> None:
    """Run one at a time."""


# The type of azure-functions' own keywords is not known.
@app.queue_trigger(arg_name="msg", queue_name="orders", connection="Queues")  # pyright: ignore[reportUnknownMemberType]
@singleton(scope="Id", on_contention=patient_at_first)
async def ship(msg: func.QueueMessage) -> None:
    """Ship one order at a time."""
    hold = current_hold()
    assert_type(hold, Hold)
    assert_type(hold.token, int | None)
    hold.raise_if_lost()


LEVEL: Level = "host"
MODE: Mode = "function"
FULL: WhenFull = "raise"


@singleton(
    scope_id="stock",
    level=LEVEL,
    mode=MODE,
    on_contention=of_the_day(night=False),
    timeout=5,
    max_waiting=3,
    when_full=FULL,
)
def stock(number: int, *, note: str = "") -> float:
    """Keep the signature."""
    return number + len(note)


@singleton
async def refresh(day: str) -> list[str]:
    """Keep the signature, async."""
    return [day]


# --- blocks -----------------------------------------------------------------------------------------------------------


def blocks() -> None:
    """Enter blocks on a thread."""
    with locks.lock("a", timeout=PATIENCE, at_least=1, max_hold=60, reentrant=True, owner="me") as hold:
        assert_type(hold, Hold)
        assert_type(hold.owned, bool)
        assert_type(hold.lost.reason, LossReason | None)
        assert_type(locks.locked("a"), bool)
    with locks.try_lock("b", timeout=0.5) as maybe:
        assert_type(maybe, Hold | None)
        if maybe is not None:
            assert_type(maybe.owned, bool)
    with locks.semaphore("c", 3) as slot, locks.lock_all(["d", "e"]) as several:
        assert_type(slot, Hold)
        assert_type(several, tuple[Hold, ...])
    acquired = locks.acquire("f", timeout=1)
    assert_type(acquired, Hold)
    locks.release(acquired)
    assert_type(locks.holder("a"), Holder | None)
    block: Block[Hold] = locks.lock("g")
    trying: TryBlock = locks.try_lock("g", on_loss="tell")
    with block, trying as nothing:
        assert nothing is None


async def async_blocks() -> None:
    """Enter blocks in a coroutine."""
    async with async_locks.lock("a", reentrant=True) as hold, async_locks.lock("a", reentrant=True) as again:
        assert_type(hold, Hold)
        assert again is hold
    async with async_locks.try_lock("b", timeout=1) as maybe:
        assert_type(maybe, Hold | None)
    async with async_locks.semaphore("c", limit=3) as slot, async_locks.lock_all(["d"]) as several:
        assert_type(slot, Hold)
        assert_type(several, tuple[Hold, ...])
    acquired = await async_locks.acquire("f")
    assert_type(acquired, Hold)
    await async_locks.release(acquired)
    assert_type(await async_locks.locked("f"), bool)
    block: AsyncBlock[Hold] = async_locks.lock("g", on_loss="raise")
    async with block:
        pass


# --- decorators -------------------------------------------------------------------------------------------------------


@locks.lock("report")
def report(day: str, *, copies: int = 1) -> list[str]:
    """Hold the lock for each call."""
    return [day] * copies


@locks.try_lock("nightly", at_least=5)
def nightly(day: str) -> int:
    """Skip the call where somebody else has the lock."""
    return len(day)


@async_locks.lock("report")
async def report_async(day: str) -> list[str]:
    """Hold the lock for each call."""
    return [day]


@async_locks.try_lock("nightly")
async def nightly_async(day: str) -> int:
    """Skip the call where somebody else has the lock."""
    return len(day)


class Reports:
    """Has methods under a lock."""

    @locks.semaphore("reports", 2)
    def make(self, number: int) -> float:
        """Hold a slot for each call."""
        return number / 2

    @async_locks.lock_all(["a", "b"])
    async def move(self, number: int) -> float:
        """Hold both for each call."""
        return number / 2


def decorated() -> None:
    """Call what is decorated."""
    assert_type(report("monday", copies=2), list[str])
    assert_type(nightly("monday"), int | None)
    assert_type(Reports().make(3), float)
    assert_type(stock(1, note="x"), float)


async def decorated_async() -> None:
    """Await what is decorated."""
    assert_type(await report_async("monday"), list[str])
    assert_type(await nightly_async("monday"), int | None)
    assert_type(await Reports().move(3), float)
    assert_type(await refresh("monday"), list[str])


# --- the rest ---------------------------------------------------------------------------------------------------------


def clean_up(hold: Hold) -> None:
    """Work at a tick."""
    hold.raise_if_lost()


async def clean_up_async(hold: Hold) -> None:
    """Work at a tick."""
    hold.raise_if_lost()


def workers() -> tuple[PeriodicWorker, PeriodicWorker, Leadership]:
    """Make what runs for long."""
    return (
        locks.periodic("cleanup", clean_up, every=60, at_least=50),
        async_locks.periodic("cleanup", clean_up_async, every=timedelta(minutes=1)),
        locks.leadership("poller"),
    )


def keep(hold: Hold) -> Any:
    """Keep state with a lock."""
    state: State = hold.state
    value: Json = {"cursor": 7}
    state.write(value)
    return state.read()


def probe() -> str:
    """Answer a health probe."""
    now = holds()
    assert_type(now, Holds)
    assert_type(now.held, tuple[HeldLock, ...])
    assert_type(now.waiting, tuple[WaitingFor, ...])
    modes: set[Use] = {each.mode for each in now.held}
    lost = [each.lock for each in now.held if each.lost is not None]
    return f"{sorted(modes)} {lost}"


def watch() -> list[EventKind]:
    """Listen to events."""
    seen: list[EventKind] = []

    def note(event: LockEvent) -> None:
        seen.append(event.kind)

    end = subscribe(note)
    try:
        with locks.lock("watched"):
            pass
    finally:
        end()
    return seen


def refused() -> str | None:
    """Be told who has the lock."""
    try:
        with locks.lock("a"), locks.lock("a", timeout=0):
            return None
    except LockNotAcquired as error:
        return None if error.holder is None else error.holder.owner


if TYPE_CHECKING:  # what is wrong is told before it runs

    def not_a_policy(asked: Contention) -> str:
        """Return a text, which may be anything."""
        return asked.lock

    singleton(on_contention=not_a_policy)  # type: ignore[arg-type]
    async_locks.lock("a")(decorated)  # type: ignore[arg-type]
    report(7)  # type: ignore[arg-type]
    locks.try_lock("a", timeout=None)  # type: ignore[arg-type]
    locks.lock("g", on_loss="log")  # type: ignore[arg-type]


def main() -> None:
    """Run it all."""
    blocks()
    decorated()
    workers()
    probe()
    watch()
    refused()
    with locks.lock("state") as hold:
        keep(hold)
    asyncio.run(async_blocks())
    asyncio.run(decorated_async())
