"""A call under several holds: no body begins, and no wait goes on, after the loss of one of them."""

from __future__ import annotations

import asyncio
import gc
import re
import threading
import weakref
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pytest

from singleton import (
    AsyncLockClient,
    Hold,
    LockClient,
    LockLost,
    SingletonOptions,
    current_hold,
    once,
    singleton,
    subscribe,
)
from singleton.base.hold import holds_in, shown_hold
from singleton.locking.section_state import SectionState
from singleton.runtime.lock_thread import Runtime
from singleton.testing import assert_no_leases_left, disabled, held_elsewhere, lose, memory_locks, virtual_time
from singleton.testing.memory import current
from tests.support.lock_thread import Context

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from singleton import LockEvent

OPTIONS: Final = SingletonOptions()
PATIENCE: Final = 20.0
"""Seconds in which a thread must go on."""
OUTER: Final = ("singleton", "once", "listener", "slot", "lock", "locks", "block")
WAITING: Final = ("singleton", "once", "slot", "lock", "locks")

contexts: Final = pytest.mark.parametrize("context", [None, Context("inv-1")], ids=["nameless", "named"])
outer_kinds: Final = pytest.mark.parametrize("outer", OUTER)
waiting_kinds: Final = pytest.mark.parametrize("inner", WAITING)
inner_kinds: Final = pytest.mark.parametrize("inner", [*WAITING, "listener"])
both: Final = pytest.mark.parametrize("sync", [True, False], ids=["sync", "async"])


@pytest.fixture
def in_memory() -> Iterator[None]:
    with memory_locks():
        yield


in_threads: Final = pytest.mark.usefixtures("in_memory")


def guarded(kind: str, name: str, body: Callable[..., Any]) -> Callable[..., Any]:
    """Return the body under a lock with ``name`` in its name."""
    is_async = asyncio.iscoroutinefunction(body)
    client: Any = (AsyncLockClient if is_async else LockClient)(options=OPTIONS)
    body.__name__ = name
    if kind == "block":
        return _in_a_block(client, name, body)
    declare: dict[str, Callable[[], Callable[..., Any]]] = {
        "singleton": lambda: singleton(scope_id=name),
        "once": lambda: once(key=lambda _: name),
        "listener": lambda: singleton(mode="listener", scope_id=name),
        "slot": lambda: singleton(scope_id=name, limit=1),
        "lock": lambda: client.lock(name),
        "locks": lambda: client.lock_all([name, f"{name}-2"]),
    }
    function: Callable[..., Any] = declare[kind]()(body)
    return function


def _in_a_block(client: Any, name: str, body: Callable[..., Any]) -> Callable[..., Any]:
    async def block(msg: str, context: Any = None) -> Any:
        async with client.lock(name):
            return await body(msg, context)

    def sync_block(msg: str, context: Any = None) -> Any:
        with client.lock(name):
            return body(msg, context)

    return block if asyncio.iscoroutinefunction(body) else sync_block


class Calls:
    """A function in others, each with a guard of its kind, the outermost first; their locks are named a, b, …

    Attributes:
        began: for each begun body the loss that its hold told of.
        then: what the body does.
        inner: the guarded function in the middle.
    """

    def __init__(self, *kinds: str, sync: bool) -> None:
        self.began: list[str | None] = []
        self.then: Callable[[], object] = lambda: None
        self._sync = sync
        function = self._calling(self._body_sync if sync else self._body)
        for number, kind in reversed([*enumerate(kinds)]):
            function = guarded(kind, "abc"[number], function)
            if number == len(kinds) - 1:
                self.inner = function
            function = self._calling(function)
        self._function = function
        self._kind = kinds[-1]

    def _calling(self, function: Callable[..., Any]) -> Callable[..., Any]:
        async def call_async(msg: str, context: Any = None) -> Any:
            return await function(msg, context)

        def call(msg: str, context: Any = None) -> Any:
            return function(msg, context)

        return call if self._sync else call_async

    async def _body(self, _msg: str, _context: Any) -> str:
        self._begin()
        if asyncio.iscoroutine(work := self.then()):
            await work
        return "done"

    def _body_sync(self, _msg: str, _context: Any) -> str:
        self._begin()
        self.then()
        return "done"

    def _begin(self) -> None:
        hold = shown_hold.get()
        self.began.append(None if hold is None else hold.lost.reason)

    def make(self, context: Any = None) -> Any:
        """Make a call, on this thread or as a coroutine."""
        return self._function("m", context)

    def in_the_way(self, name: str = "b") -> Any:
        """Let another process have the lock of the function in the middle."""
        return held_elsewhere(name) if self._kind in ("lock", "locks") else held_elsewhere(self.inner, "m")


def the_hold(name: str) -> Hold:
    """Return the hold of the lock with this name."""
    held = [each for each in current().registry.acquired if not each.own_lost.ended]
    return next(each for each in held if is_named(each.lock, name))


def is_named(lock: str, name: str) -> bool:
    return re.search(rf"(^|/){name}($|[./~])", lock) is not None


@contextmanager
def hearing(listener: Callable[[LockEvent], None]) -> Iterator[None]:
    forget = subscribe(listener)
    try:
        yield
    finally:
        forget()


# --- before the grant: the wait ---------------------------------------------------------------------------------------


@contexts
@waiting_kinds
@outer_kinds
@virtual_time
async def test_a_coroutine_that_waits_for_an_inner_lock_is_told_at_once_of_the_loss_of_an_outer_one(
    outer: str, inner: str, context: Any
) -> None:
    calls = Calls(outer, inner, sync=False)
    with calls.in_the_way():
        invocation = asyncio.create_task(calls.make(context))
        await asyncio.sleep(7)
        lost, at = the_hold("a"), asyncio.get_running_loop().time()
        lose(lost)
        with pytest.raises(LockLost) as told:
            await invocation
        assert asyncio.get_running_loop().time() == at
    assert (told.value.lock, calls.began) == (lost.lock, [])


@contexts
@waiting_kinds
@outer_kinds
@in_threads
def test_so_is_a_thread(outer: str, inner: str, context: Any) -> None:
    calls, errors, asked = Calls(outer, inner, sync=True), list[LockLost](), threading.Event()

    def hear(event: LockEvent) -> None:
        if event.kind == "waiting" and is_named(event.lock, "b"):
            asked.set()

    def invoke() -> None:
        with pytest.raises(LockLost) as told:
            calls.make(context)
        errors.append(told.value)

    with calls.in_the_way(), hearing(hear):
        thread = threading.Thread(target=invoke, daemon=True)
        thread.start()
        assert asked.wait(PATIENCE)
        lost = the_hold("a")
        lose(lost)
        thread.join(PATIENCE)
    assert ([error.lock for error in errors], calls.began) == ([lost.lock], [])


@pytest.mark.parametrize("policy", ["wait", "skip", "raise"])
@virtual_time
async def test_after_the_loss_no_request_is_sent_and_no_call_is_skipped(policy: Any) -> None:
    kinds: list[str] = []

    @singleton(scope_id="b", on_contention=policy)
    async def inner() -> None:
        raise AssertionError

    @singleton(scope_id="a", cancel_on_loss=False)
    async def outer() -> None:
        lose(current_hold())
        with hearing(lambda event: kinds.append(event.kind)), held_elsewhere(inner), pytest.raises(LockLost) as told:
            await inner()
        assert told.value.lock == current_hold().lock

    with pytest.raises(LockLost):
        await outer()
    assert kinds == ["waiting", "failed"]


# --- at the grant -----------------------------------------------------------------------------------------------------


async def _fail_after(inside: asyncio.Event, leave: asyncio.Event) -> None:
    inside.set()
    await leave.wait()
    raise ZeroDivisionError


@pytest.mark.parametrize("cancels", [True, False])
@waiting_kinds
@virtual_time
async def test_whenever_the_loss_comes_no_body_begins_after_it_and_no_lock_is_left(inner: str, cancels: bool) -> None:
    """The inner lock is handed to the call, and at each step of the loop from then on the outer one is lost."""
    for steps in range(60):
        calls = Calls(inner, sync=False)
        middle = calls.inner

        @singleton(scope_id=f"a{steps}", cancel_on_loss=cancels)
        async def outer() -> None:
            await middle("m")  # noqa: B023

        inside, leave = asyncio.Event(), asyncio.Event()
        calls.then = partial(_fail_after, inside, leave)  # so that ``once`` has not been done
        holder = asyncio.create_task(calls.make())
        await inside.wait()
        invocation = asyncio.create_task(outer())
        await asyncio.sleep(1)
        lost = next(each for each in current().registry.acquired if f".a{steps}" in each.lock and each.owned)
        calls.then = lambda: None
        leave.set()
        for _ in range(steps):
            await asyncio.sleep(0)
        lose(lost)
        (outcome,) = await asyncio.gather(invocation, return_exceptions=True)
        await asyncio.wait([holder])
        assert isinstance(holder.exception(), ZeroDivisionError)
        assert_no_leases_left()
        assert isinstance(outcome, LockLost)
        assert outcome.lock == lost.lock
        if calls.began == [None, None]:
            return
        assert calls.began == [None]
    raise AssertionError("it never began")


@contexts
@inner_kinds
@outer_kinds
@in_threads
def test_a_thread_that_slept_between_the_grant_and_its_body_does_not_begin(
    outer: str, inner: str, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, lost = Calls(outer, inner, sync=True), list[str]()
    ask = Runtime.call

    def answered(locks: Runtime, work: Any) -> Any:
        answer = ask(locks, work)
        if any(is_named(hold.lock, "b") for hold in holds_in(answer)):
            lost.append(the_hold("a").lock)
            lose(the_hold("a"))
        return answer

    monkeypatch.setattr(Runtime, "call", answered)
    with pytest.raises(LockLost) as told:
        calls.make(context)
    assert ([told.value.lock], calls.began) == (lost, [])


@both
@in_threads
def test_once_looks_at_all_holds_again_when_it_knows_that_nothing_is_kept(
    sync: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The look takes a request, and the body begins after it."""
    calls = Calls("singleton", "once", sync=sync)
    glance = SectionState.glance

    async def late(keeper: Any) -> Any:
        kept = await glance(keeper)
        current().runtime()
        await current().lose(the_hold("a"), "expired")
        return kept

    monkeypatch.setattr(SectionState, "glance", late)
    with pytest.raises(LockLost, match=r"a\.a"):
        calls.make() if sync else asyncio.run(calls.make())
    assert calls.began == []


# --- after the grant: the hold answers for all ------------------------------------------------------------------------


@inner_kinds
@outer_kinds
@in_threads
def test_the_hold_of_a_body_answers_for_all_holds_and_says_which_is_lost(outer: str, inner: str) -> None:
    calls, reasons = Calls(outer, "singleton", inner, sync=True), list[str]()

    def then() -> None:
        hold, lost = current_hold(), the_hold("a")
        assert hold.owned
        assert hold.lost.deadline == min(the_hold(name).own_lost.deadline for name in "abc")
        hold.lost.add_callback(reasons.append)
        waits = threading.Thread(target=lambda: reasons.append(f"waited {hold.lost.wait(PATIENCE)}"))
        waits.start()
        lose(lost, "stolen")
        waits.join(PATIENCE)
        assert (hold.owned, hold.lost.is_set(), hold.lost.reason) == (False, True, "stolen")
        assert asyncio.run(awaited(hold)) == "stolen"
        with pytest.raises(LockLost, match=r"is lost \(stolen\)") as told:
            hold.raise_if_lost()
        assert told.value.lock == lost.lock

    calls.then = then
    with pytest.raises(LockLost, match="stolen"):
        calls.make()
    assert sorted(reasons) == ["stolen", "waited True"]


async def awaited(hold: Hold) -> str | None:
    return await hold.lost


@both
@in_threads
def test_the_loss_of_the_innermost_hold_is_named_before_that_of_an_outer_one(sync: bool) -> None:
    calls, names = Calls("once", "listener", "singleton", sync=sync), list[str | None]()

    def then() -> None:
        for name in "abc":
            lose(the_hold(name))
            with pytest.raises(LockLost) as told:
                current_hold().raise_if_lost()
            names.append(told.value.lock)

    calls.then = then
    with pytest.raises(LockLost):
        calls.make() if sync else asyncio.run(calls.make())
    assert [name for name in "abc" for lock in names if is_named(lock or "", name)] == ["a", "b", "c"]


@in_threads
def test_the_first_loss_of_several_is_told_with_its_own_lock_and_its_own_reason() -> None:
    calls = Calls("singleton", "singleton", sync=True)

    def then() -> None:
        outer, inner = the_hold("a"), the_hold("b")
        lose(outer, "too long")
        lose(inner, "expired")
        with pytest.raises(LockLost) as told:
            current_hold().raise_if_lost()
        assert (told.value.lock, told.value.reason) == (outer.lock, "too long")

    calls.then = then
    with pytest.raises(LockLost):
        calls.make()


@outer_kinds
@virtual_time
async def test_a_cancellation_of_somebody_else_stays_a_cancellation(outer: str) -> None:
    calls = Calls(outer, "singleton", sync=False)
    with calls.in_the_way():
        invocation = asyncio.create_task(calls.make())
        await asyncio.sleep(7)
        invocation.cancel()
        with pytest.raises(asyncio.CancelledError):
            await invocation
    assert calls.began == []


@virtual_time
async def test_one_loss_is_one_cancellation() -> None:
    """A body that cleans up is not cancelled again by the guard inside."""
    calls, cleaned = Calls("singleton", "once", "singleton", sync=False), list[str]()

    async def then() -> None:
        try:
            await asyncio.sleep(100)
        finally:
            await asyncio.sleep(3)
            cleaned.append("up")

    calls.then = then
    invocation = asyncio.create_task(calls.make())
    await asyncio.sleep(7)
    lost = the_hold("a")
    lose(lost)
    with pytest.raises(LockLost) as told:
        await invocation
    assert (told.value.lock, cleaned) == (lost.lock, ["up"])


@virtual_time
async def test_each_guard_cancels_for_the_loss_of_its_own_lock_only() -> None:
    ends = []

    @singleton(scope_id="b")
    async def inner() -> None:
        lose(the_hold("outer"))
        await asyncio.sleep(1)
        ends.append(current_hold().owned)

    @singleton(scope_id="a", cancel_on_loss=False)
    async def outer() -> None:
        await inner()

    with pytest.raises(LockLost, match=r"outer\.a"):
        await outer()
    assert ends == [False]


# --- what an outer hold does not touch --------------------------------------------------------------------------------


@both
@in_threads
def test_a_block_in_a_body_answers_for_itself_so_a_body_can_clean_up(sync: bool) -> None:
    calls = Calls("singleton", "once", sync=sync)

    def then() -> None:
        lose(the_hold("a"))
        with LockClient(options=OPTIONS).lock("cleaning") as hold:
            assert hold.owned
            hold.raise_if_lost()
            hold.state.write("cleaned")
            with pytest.raises(LockLost):
                current_hold().raise_if_lost()

    calls.then = then
    with pytest.raises(LockLost, match=r"a\.a"):
        calls.make() if sync else asyncio.run(calls.make())


@in_threads
def test_a_result_is_kept_under_its_own_lock_and_a_lock_for_its_time() -> None:
    """What is done is done, and its repeat must find that, although the call fails."""
    ran, locks = list[str](), list[str]()

    @once(key=lambda _: "b")
    def charge(msg: str) -> str:
        ran.append(msg)
        locks.append(the_hold("report").lock)
        lose(the_hold("order"))
        return "charged"

    @singleton(scope_id="b2", at_least=60)
    def report(msg: str) -> str:
        return charge(msg)

    @singleton(scope_id="a")
    def order(msg: str) -> str:
        return report(msg)

    with pytest.raises(LockLost, match=r"order\.a"):
        order("m")
    assert charge("m") == "charged"
    assert LockClient(options=OPTIONS).locked(locks[0])
    assert ran == ["m"]


def _skipping(how: str, function: Callable[..., Any], sync: bool) -> Callable[..., Any]:
    """Return the function under a lock that skips, perhaps below another guard."""
    client: Any = (LockClient if sync else AsyncLockClient)(options=OPTIONS)
    if how == "try_lock":
        below: Callable[..., Any] = client.try_lock("x")(function)
        return below
    policy: Any = (lambda _: "skip") if how == "policy" else "skip"
    below = singleton(scope_id="x", on_contention=policy)(function)
    return client.lock("y")(below) if how == "below another lock" else below


@pytest.mark.parametrize("how", ["skip", "policy", "try_lock", "below another lock"])
@both
@in_threads
def test_a_call_that_a_lock_below_skipped_is_not_done(sync: bool, how: str) -> None:
    """Nor is its None kept: the next call with the key does the work."""
    ran = []

    def charge(msg: str) -> str:
        ran.append(msg)
        skipped_too()
        return "charged"

    async def charge_async(msg: str) -> str:
        return charge(msg)

    @singleton(scope_id="helper", on_contention="skip")
    def skipped_too() -> None:
        raise AssertionError

    below = _skipping(how, charge if sync else charge_async, sync)
    call: Any = once(key=lambda msg: msg)(below)
    taken = partial(held_elsewhere, "x") if how == "try_lock" else partial(held_elsewhere, below, "m")

    def made() -> Any:
        return call("m") if sync else asyncio.run(call("m"))

    with held_elsewhere(skipped_too):
        with taken():
            assert made() is None
        assert [made(), made()] == ["charged", "charged"]
    assert ran == ["m"]


@virtual_time
async def test_a_task_that_outlives_the_outer_block_runs_under_its_own_lock() -> None:
    began, started = [], list[asyncio.Task[None]]()

    @singleton(scope_id="b")
    async def inner() -> None:
        began.append(current_hold().owned)

    @singleton(scope_id="a")
    async def outer() -> None:
        started.append(asyncio.create_task(inner()))
        await asyncio.sleep(1)

    with held_elsewhere(inner):
        await outer()
    await started[0]
    assert began == [True]


@virtual_time
async def test_so_does_a_task_that_asks_for_its_lock_after_the_end_of_a_lost_block() -> None:
    began, started, kept = [], list[asyncio.Task[None]](), list[Hold]()

    @singleton(scope_id="b")
    async def inner() -> None:
        began.append(current_hold().owned)

    async def later() -> None:
        await asyncio.sleep(10)
        await inner()

    @singleton(scope_id="a")
    async def outer() -> None:
        kept.append(current_hold())
        started.append(asyncio.create_task(later()))
        lose(current_hold())

    with pytest.raises(LockLost):
        await outer()
    await started[0]
    assert (began, kept[0].lost.reason) == ([True], "expired")


@virtual_time
async def test_the_signal_of_a_body_ends_with_its_hold_and_leaves_nothing_with_the_outer_ones() -> None:
    signals, waiting = list[Any](), list[asyncio.Task[str | None]]()

    @singleton(scope_id="b")
    async def inner() -> None:
        signals.append(current_hold().lost)
        waiting.append(asyncio.create_task(awaited(current_hold())))
        await asyncio.sleep(1)

    @singleton(scope_id="a")
    async def outer() -> None:
        hold = current_hold()
        before = len(hold.own_lost._callbacks), len(hold.own_lost._waiters)
        await inner()
        assert await waiting[0] is None
        assert (signals[0].ended, signals[0].is_set()) == (True, False)
        assert (len(hold.own_lost._callbacks), len(hold.own_lost._waiters)) == before
        assert hold.lost is hold.own_lost

    await outer()


@virtual_time
async def test_an_inner_hold_keeps_no_outer_hold_alive_nor_the_other_way_round() -> None:
    kept: list[Any] = []

    @singleton(scope_id="b")
    async def inner() -> None:
        kept.append(current_hold().lost)
        holds.append(weakref.ref(current_hold()))

    @singleton(scope_id="a")
    async def outer() -> None:
        holds.append(weakref.ref(current_hold()))
        await inner()

    holds: list[weakref.ref[Hold]] = []
    gc.disable()
    try:
        await outer()
        assert [hold() for hold in holds] == [None, None]
    finally:
        gc.enable()


@virtual_time
async def test_a_shared_hold_answers_as_before_when_the_inner_call_has_ended() -> None:
    locks, seen = AsyncLockClient(options=OPTIONS), list[Any]()

    @locks.lock("job", reentrant=True)
    async def job(depth: int) -> None:
        seen.append(current_hold().lost)
        if depth:
            async with locks.lock(f"other-{depth}"):
                await job(depth - 1)
        assert current_hold().lost is seen.pop()

    @singleton(scope_id="a")
    async def outer() -> None:
        await job(2)

    await outer()


@in_threads
def test_a_switched_off_guard_inside_one_that_locks_answers_for_the_outer_hold() -> None:
    calls = Calls("singleton", "singleton", sync=True)
    with memory_locks(), LockClient(options=OPTIONS).lock("z", on_loss="tell") as hold, disabled():
        lose(hold)
        with pytest.raises(LockLost, match="'z'"):
            calls.make()
    assert calls.began == []
