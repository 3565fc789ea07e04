"""A block whose hold was lost is no success: how it ends, for each way into a block, each end of a body, each loss."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from singleton import AsyncLockClient, ConfigurationError, Hold, LockClient, LockLost, subscribe
from singleton.base.hold import holds_in
from singleton.runtime.lock_thread import runtime
from singleton.testing import lose, memory_locks, virtual_time
from tests.support.lock_thread import LockThread, an_app

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

WAYS: dict[str, Callable[..., Any]] = {
    "lock": lambda client, **how: client.lock("job", **how),
    "reentrant": lambda client, **how: client.lock("job", reentrant=True, **how),
    "try_lock": lambda client, **how: client.try_lock("job", **how),
    "semaphore": lambda client, **how: client.semaphore("job", 2, **how),
    "try_lock of a slot": lambda client, **how: client.try_lock("job", limit=2, **how),
    "lock_all": lambda client, **how: client.lock_all(["a", "job", "z"], **how),
}
way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
REASONS = ("expired", "stolen", "broken", "blob gone", "too long", "closed")
UNTOUCHED = (KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError)


@pytest.fixture
def locks() -> Iterator[LockClient]:
    with memory_locks():
        yield LockClient()


def one_of(got: object) -> Hold:
    """Return a hold of the block: one of a set is enough."""
    return holds_in(got)[len(holds_in(got)) // 2]


def through(block: Any, reason: Any = "expired", error: BaseException | None = None, got: Any = None) -> None:
    """Lose a hold in the block, and leave the block by a return, or with the error. ``got`` receives the holds."""
    with block as held:
        if got is not None:
            got += holds_in(held)
        lose(one_of(held), reason)
        if error is not None:
            raise error


# --- a thread ---------------------------------------------------------------------------------------------------------


@way
@pytest.mark.parametrize("reason", REASONS)
def test_a_block_that_returns_under_a_lost_hold_gives_back_and_raises(
    locks: LockClient, way: Callable[..., Any], reason: str
) -> None:
    told, got = list[str](), list[Hold]()
    end = subscribe(lambda event: told.append(event.lock) if event.kind == "released" else None)
    with pytest.raises(LockLost) as caught:
        through(way(locks), reason, got=got)
    end()
    assert (caught.value.reason, caught.value.lock) == (reason, one_of(tuple(got)).lock)
    assert not any(hold.owned for hold in got)
    assert reason == "closed" or set(told) == {hold.lock for hold in got}, "a closed lock has no release"


@way
def test_an_error_of_the_body_goes_on_with_a_note(locks: LockClient, way: Callable[..., Any]) -> None:
    error, got = ValueError("of the body"), list[Hold]()
    with pytest.raises(ValueError, match="of the body") as caught:
        through(way(locks), "broken", error, got)
    lock = one_of(tuple(got)).lock
    assert caught.value is error
    assert error.__notes__ == [f"the hold of lock {lock!r} is lost (broken): another process may be inside"]


@way
@pytest.mark.parametrize("kind", UNTOUCHED)
def test_an_interrupt_of_the_body_goes_on_as_it_is(
    locks: LockClient, way: Callable[..., Any], kind: type[BaseException]
) -> None:
    interrupt = kind()
    with pytest.raises(kind) as caught:
        through(way(locks), error=interrupt)
    assert caught.value is interrupt
    assert not hasattr(interrupt, "__notes__")


@way
def test_a_loss_that_the_body_raises_itself_is_told_once(locks: LockClient, way: Callable[..., Any]) -> None:
    def work() -> None:
        with way(locks) as got:
            lose(one_of(got))
            one_of(got).raise_if_lost()

    with pytest.raises(LockLost) as caught:
        work()
    assert not hasattr(caught.value, "__notes__")


@way
def test_a_block_whose_hold_is_good_ends_as_its_body_does(locks: LockClient, way: Callable[..., Any]) -> None:
    error = ValueError("of the body")
    with way(locks):
        pass
    with pytest.raises(ValueError, match="of the body"), way(locks):
        raise error
    assert not hasattr(error, "__notes__")


@way
def test_a_hold_that_was_released_by_hand_is_not_lost(locks: LockClient, way: Callable[..., Any]) -> None:
    with way(locks) as got:
        for hold in holds_in(got):
            locks.release(hold)


@way
def test_a_block_is_not_entered_under_a_hold_that_was_lost_on_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: Callable[..., Any]
) -> None:
    an_app(tmp_path, monkeypatch)
    with LockThread() as thread:
        remember = thread.runtime._remember

        def sleep(answer: Any) -> Any:
            thread.push_clock(60)  # the machine sleeps before its caller gets the hold
            return remember(answer)

        monkeypatch.setattr(thread.runtime, "_remember", sleep)
        with pytest.raises(LockLost, match="expired"), way(LockClient()):
            pytest.fail("entered")


@way
@pytest.mark.parametrize("by_client", [True, False], ids=["client", "block"])
def test_a_block_that_only_tells_ends_as_its_body_does(way: Callable[..., Any], *, by_client: bool) -> None:
    error, got = ValueError("of the body"), list[Hold]()
    with memory_locks():
        client = LockClient(on_loss="tell" if by_client else "raise")
        how = {} if by_client else {"on_loss": "tell"}
        through(way(client, **how), got=got)
        with pytest.raises(ValueError, match="of the body"):
            through(way(client, **how), error=error)
    assert one_of(tuple(got)).lost.reason == "expired"
    assert not hasattr(error, "__notes__")


def test_a_block_may_raise_though_its_client_only_tells() -> None:
    with memory_locks(), pytest.raises(LockLost):
        through(LockClient(on_loss="tell").lock("job", on_loss="raise"))


@pytest.mark.parametrize("value", ["log", "", 1, ["raise"]])
@pytest.mark.parametrize("make", [LockClient, AsyncLockClient])
def test_another_on_loss_is_refused_at_once(locks: LockClient, make: Callable[..., Any], value: Any) -> None:
    said = r"on_loss is .*: it must be one of 'raise', 'tell'"
    with pytest.raises(ConfigurationError, match=said):
        make(on_loss=value)
    for asks in WAYS.values():
        with pytest.raises(ConfigurationError, match=said):
            asks(make(), on_loss=value)


def test_a_hold_without_a_block_is_only_told(locks: LockClient) -> None:
    hold = locks.acquire("job")
    lose(hold)
    locks.release(hold)
    assert hold.lost.reason == "expired"


def test_each_block_that_shares_a_lost_hold_fails_and_the_loss_is_told_once(locks: LockClient) -> None:
    def work() -> None:
        with locks.lock("job", reentrant=True):
            through(locks.lock("job", reentrant=True))

    with pytest.raises(LockLost) as caught:
        work()
    assert not hasattr(caught.value, "__notes__")


def test_a_block_raises_for_its_own_hold_and_not_for_the_hold_of_a_block_around_it(locks: LockClient) -> None:
    ended: list[str] = []

    def work() -> None:
        with locks.lock("outer") as outer:
            with locks.lock("inner"):
                lose(outer)
            ended.append("inner")

    with pytest.raises(LockLost, match="'outer'"):
        work()
    assert ended == ["inner"]


@way
@pytest.mark.parametrize("on_loss", ["raise", "tell"])
def test_a_decorated_call_ends_as_a_block_does(locks: LockClient, way: Callable[..., Any], on_loss: str) -> None:
    def body(error: Exception | None) -> str:
        lose(a_hold_of_this_process())
        if error is not None:
            raise error
        return "done"

    work, error = way(locks, on_loss=on_loss)(body), ValueError("of the body")
    with pytest.raises(LockLost) if on_loss == "raise" else contextlib.nullcontext():
        assert work(None) == "done"
    with pytest.raises(ValueError, match="of the body"):
        work(error)
    assert len(getattr(error, "__notes__", ())) == (on_loss == "raise")


def a_hold_of_this_process() -> Hold:
    """Return a hold that is good."""
    acquired: list[Hold] = list(runtime().registry.acquired)
    return next(hold for hold in acquired if hold.owned)


def test_a_block_whose_locks_were_closed_under_it_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    an_app(tmp_path, monkeypatch)
    with LockThread() as thread, pytest.raises(LockLost) as caught, LockClient().lock("job"):
        thread.runtime.close()
    assert caught.value.reason == "closed"


# --- a coroutine ------------------------------------------------------------------------------------------------------


def this_task() -> asyncio.Task[Any]:
    """Return the running task."""
    task = asyncio.current_task()
    assert task is not None
    return task


def end_of(body: Callable[[Any], Awaitable[None]], way: Callable[..., Any], **how: Any) -> BaseException | None:
    """Return how a task ends that runs the body in a block. Every cancellation by the block is taken back."""
    seen: list[BaseException | None] = []

    @virtual_time
    async def run() -> None:
        requests: list[int] = []

        async def work() -> None:
            try:
                async with way(AsyncLockClient(), **how) as got:
                    await body(got)
            finally:
                requests.append(this_task().cancelling())

        working = asyncio.create_task(work())
        await asyncio.wait({working}, timeout=100)
        assert working.done()
        seen.append(asyncio.CancelledError() if working.cancelled() else working.exception())
        assert requests == [int(working.cancelled())]

    run()
    return seen[0]


@way
@pytest.mark.parametrize("reason", REASONS)
def test_the_task_in_a_block_is_cancelled_at_a_loss_and_raises(way: Callable[..., Any], reason: Any) -> None:
    seen: list[str] = []

    async def body(got: Any) -> None:
        lose(one_of(got), reason)
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    error = end_of(body, way)
    assert isinstance(error, LockLost)
    assert error.reason == reason
    assert isinstance(error.__cause__, asyncio.CancelledError)
    assert seen == ["cancelled"]


@way
@pytest.mark.parametrize("swallows", [True, False])
def test_a_body_that_returns_after_the_loss_is_no_success(way: Callable[..., Any], *, swallows: bool) -> None:
    async def body(got: Any) -> None:
        lose(one_of(got))
        if swallows:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(3600)

    assert isinstance(end_of(body, way), LockLost)


@way
@pytest.mark.parametrize("at_the_cancellation", [True, False])
def test_an_error_of_a_coroutine_goes_on_with_a_note(way: Callable[..., Any], *, at_the_cancellation: bool) -> None:
    error = ValueError("of the body")

    async def body(got: Any) -> None:
        lose(one_of(got))
        if at_the_cancellation:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(3600)
        raise error

    assert end_of(body, way) is error
    assert len(error.__notes__) == 1


@way
@pytest.mark.parametrize("first", ["cancelled", "lost"])
def test_a_cancellation_by_another_task_at_the_same_time_wins(way: Callable[..., Any], first: str) -> None:
    async def body(got: Any) -> None:
        if first == "cancelled":
            this_task().cancel()
            lose(one_of(got))
        else:
            lose(one_of(got))
            asyncio.get_running_loop().call_soon(this_task().cancel)
        await asyncio.sleep(3600)

    assert isinstance(end_of(body, way), asyncio.CancelledError)


@way
def test_a_time_out_at_the_same_time_wins(way: Callable[..., Any]) -> None:
    @virtual_time
    async def run() -> None:
        async def work() -> None:
            async with asyncio.timeout_at(5), way(AsyncLockClient()) as got:
                asyncio.get_running_loop().call_at(5, lose, one_of(got))
                await asyncio.sleep(3600)

        with pytest.raises(TimeoutError):
            await work()
        assert this_task().cancelling() == 0

    run()


@way
@pytest.mark.parametrize("kind", UNTOUCHED)
def test_an_interrupt_of_a_coroutine_goes_on_as_it_is(way: Callable[..., Any], kind: type[BaseException]) -> None:
    interrupt = kind()

    @virtual_time
    async def run() -> None:
        async def work() -> None:
            async with way(AsyncLockClient()) as got:
                lose(one_of(got))
                raise interrupt

        with pytest.raises(kind) as caught:
            await work()
        assert caught.value is interrupt
        assert not hasattr(interrupt, "__notes__")
        await asyncio.sleep(1)  # no cancellation comes later

    run()


@way
def test_the_task_that_entered_is_cancelled_and_a_task_that_leaves_in_its_place_only_raises(
    way: Callable[..., Any],
) -> None:
    @virtual_time
    async def run() -> None:
        stack, entered = contextlib.AsyncExitStack(), list[Any]()

        async def enter() -> None:
            entered.append(await stack.enter_async_context(way(AsyncLockClient())))
            await asyncio.sleep(3600)

        entering = asyncio.create_task(enter())
        await asyncio.sleep(1)
        lose(one_of(entered[0]))
        await asyncio.wait({entering})
        assert entering.cancelled()
        with pytest.raises(LockLost):
            await stack.aclose()
        assert this_task().cancelling() == 0

    run()


def test_a_task_is_cancelled_once_for_all_the_holds_that_its_block_has_lost() -> None:
    seen: list[str] = []

    async def body(got: Any) -> None:
        for hold in holds_in(got):
            lose(hold)
        for _ in range(2):
            try:
                await asyncio.sleep(10)
                seen.append("slept")
            except asyncio.CancelledError:
                seen.append("cancelled")

    assert isinstance(end_of(body, WAYS["lock_all"]), LockLost)
    assert seen == ["cancelled", "slept"]


@way
def test_a_coroutine_that_is_only_told_is_not_cancelled(way: Callable[..., Any]) -> None:
    seen: list[object] = []

    async def body(got: Any) -> None:
        lose(one_of(got))
        seen.append(await one_of(got).lost)
        await asyncio.sleep(30)

    assert end_of(body, way, on_loss="tell") is None
    assert seen == ["expired"]


def test_blocks_that_are_lost_together_end_with_a_single_loss() -> None:
    @virtual_time
    async def run() -> None:
        locks = AsyncLockClient()

        async def work() -> None:
            ask: Any = {"reentrant": True}
            async with locks.lock("a") as outer, locks.lock("b", **ask) as inner, locks.lock("b", **ask):
                lose(inner)
                lose(outer)
                await asyncio.sleep(3600)

        with pytest.raises(LockLost):
            await work()
        assert this_task().cancelling() == 0
        await asyncio.sleep(1)  # no cancellation comes later

    run()


@way
@pytest.mark.parametrize("on_loss", ["raise", "tell"])
def test_a_decorated_coroutine_ends_as_a_block_does(way: Callable[..., Any], on_loss: str) -> None:
    @virtual_time
    async def run() -> None:
        async def body() -> str:
            lose(a_hold_of_this_process())
            await asyncio.sleep(60)
            return "done"

        work = way(AsyncLockClient(), on_loss=on_loss)(body)
        with pytest.raises(LockLost) if on_loss == "raise" else contextlib.nullcontext():
            assert await work() == "done"

    run()


@way
def test_what_max_hold_ends_is_a_loss_as_any_other(way: Callable[..., Any]) -> None:
    async def body(got: Any) -> None:
        await asyncio.sleep(90)

    if way is not WAYS["lock_all"]:
        error = end_of(body, way, max_hold=30)
        assert isinstance(error, LockLost)
        assert error.reason == "too long"


def test_a_loop_that_ended_under_a_block_is_told_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    an_app(tmp_path, monkeypatch)
    with LockThread():
        block = AsyncLockClient().lock("job")

        async def enter() -> Hold:
            return await block.__aenter__()

        asyncio.run(enter()).lost.fire("expired")
    assert "a callback on the loss of a lock raised" not in caplog.text


@pytest.mark.parametrize("sync", [True, False])
def test_a_block_that_was_dropped_leaves_its_hold_to_the_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, sync: bool
) -> None:
    """A hold entered by hand, without its block, is kept as long as the hold is, and no longer."""
    an_app(tmp_path, monkeypatch)
    with LockThread() as thread:

        async def enter() -> Hold:
            return await AsyncLockClient().lock("job").__aenter__()

        hold = LockClient().lock("job").__enter__() if sync else asyncio.run(enter())
        assert hold.owned
        assert thread.leased() == {"job"}
        del hold
        with LockClient().lock("another"):  # behind it on the lock thread
            assert "job" not in thread.leased()
