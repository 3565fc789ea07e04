"""The verdict is tested by broken locks: each gets the finding that it must get, and no right one is accused.

They are broken in the product, as an installed lock may be, and run in virtual worlds without faults; the verdict reads
what was written down, as it does after a run of real hosts. It hears nothing of the oracle.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pytest

from simulator.checks.verdict import judge
from simulator.virtual.oracle.oracle import Oracle
from simulator.virtual.search.scenario import Scenario
from simulator.virtual.time.machine import HOST
from singleton.base.errors import LockLost, LockNotAcquired, StorageUnavailable
from singleton.base.events import tell
from singleton.base.hold import Hold
from singleton.functions.guard import Guard
from singleton.layouts.layout import Layout

if TYPE_CHECKING:
    from collections.abc import Callable

    from simulator.checks.verdict import Verdict

Break = "Callable[[pytest.MonkeyPatch], None]"
SEEDS: Final = range(2, 40)


@pytest.fixture(autouse=True)
def blind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Switch off the oracle, which would end the world at the first harm."""
    monkeypatch.setattr(Oracle, "blame", lambda *_: None)


def verdict_of(seed: int, workload: str) -> Verdict:
    return judge(Scenario(seed=seed, hosts=3, workload=workload).run().records)


def findings(workload: str, words: str) -> list[str]:
    """Return what is found in the first world in which it is found."""
    told: list[str] = []
    for seed in SEEDS:
        told = [*verdict_of(seed, workload).violations]
        if any(words in text for text in told):
            return told
    return told


# --- the locks, and how each is broken --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Broken:
    """A lock that is broken in one way: where it shows, and what must be said of it."""

    name: str
    breaks: Callable[[pytest.MonkeyPatch], None]
    says: str
    workload: str = "mutex"


BROKEN: list[Broken] = []


def broken(says: str, workload: str = "mutex") -> Callable[[Callable[[pytest.MonkeyPatch], None]], None]:
    """Have a function break the lock, named by what it does."""

    def take(breaks: Callable[[pytest.MonkeyPatch], None]) -> None:
        BROKEN.append(Broken(breaks.__name__.replace("_", " "), breaks, says, workload))

    return take


def around(patch: pytest.MonkeyPatch, owner: type, name: str, made: Callable[[Any], Any]) -> None:
    patch.setattr(owner, name, made(getattr(owner, name)))


def wrong_name(patch: pytest.MonkeyPatch, change: Callable[..., str]) -> None:
    around(patch, Layout, "lock", lambda real: lambda *args, **more: change(real(*args, **more), *args))


def own_body(patch: pytest.MonkeyPatch, changed: Callable[[Any], Any]) -> None:
    """Run something else in the place of each body."""

    def made(real: Any) -> Any:
        async def run(self: Any, call: Any, body: Any, *args: Any, **more: Any) -> Any:
            return await real(self, call, changed(body), *args, **more)

        return run

    around(patch, Guard, "_run", made)


def own_entry(patch: pytest.MonkeyPatch, made: Callable[[Any], Any]) -> None:
    around(patch, Guard, "_enter", made)


@broken("had several locks")
def each_host_has_locks_of_its_own(patch: pytest.MonkeyPatch) -> None:
    wrong_name(patch, lambda name, *_: f"{name}.{HOST.get().name}")  # type: ignore[union-attr]


@broken("overlap")
def each_hosts_locks_exclude_its_own_bodies_only(patch: pytest.MonkeyPatch) -> None:
    wrong_name(patch, lambda name, *_: f"{name}.{HOST.get().name}")  # type: ignore[union-attr]


@broken("several locks", "keys")
def each_invocation_has_a_lock_of_its_own(patch: pytest.MonkeyPatch) -> None:
    numbers = itertools.count()
    wrong_name(patch, lambda name, *_: f"{name}.{next(numbers)}")


@broken("had several scopes", "keys")
def all_keys_have_one_lock(patch: pytest.MonkeyPatch) -> None:
    wrong_name(patch, lambda name, *_: name[:-1] + "0")


@broken("went on after the lock was given back")
def bodies_run_on_after_the_release(patch: pytest.MonkeyPatch) -> None:
    running: list[asyncio.Future[Any]] = []

    def later(body: Any) -> Any:
        async def run() -> None:
            running.append(asyncio.ensure_future(body()))

        return run

    own_body(patch, later)


@broken("more than once")
def bodies_run_twice(patch: pytest.MonkeyPatch) -> None:
    def twice(body: Any) -> Any:
        async def run() -> None:
            await body()
            await body()

        return run

    own_body(patch, twice)


@broken("succeeded without its body")
def every_other_body_is_dropped(patch: pytest.MonkeyPatch) -> None:
    numbers = itertools.count()

    def dropped(body: Any) -> Any:
        async def run() -> None:
            if next(numbers) % 2:
                await body()

        return run

    own_body(patch, dropped)


@broken("although its body had failed")
def errors_are_swallowed(patch: pytest.MonkeyPatch) -> None:
    def quiet(body: Any) -> Any:
        async def run() -> None:
            with contextlib.suppress(Exception):  # that is the bug
                await body()

        return run

    own_body(patch, quiet)


@broken("began before the lock was got")
def bodies_begin_before_the_lock_is_got(patch: pytest.MonkeyPatch) -> None:
    def made(real: Any) -> Any:
        async def run(self: Any, call: Any, body: Any, *args: Any, **more: Any) -> Any:
            early = asyncio.ensure_future(body())

            async def wait() -> Any:
                return await early

            return await real(self, call, wait, *args, **more)

        return run

    around(patch, Guard, "_run", made)


@broken("overlap")
def nothing_is_locked(patch: pytest.MonkeyPatch) -> None:
    tokens = itertools.count(1)

    def made(_: Any) -> Any:
        async def enter(self: Any, call: Any, locks: Any) -> Hold:
            tell("waiting", call)
            return Hold(call.lock, owner=call.owner, token=next(tokens))

        return enter

    own_entry(patch, made)
    nothing_is_given_back(patch)


def nothing_is_given_back(patch: pytest.MonkeyPatch) -> None:
    class Keeps:
        async def release_async(self, hold: Hold) -> None: ...

    around(patch, Guard, "_held", lambda real: lambda self, _, *args, **more: real(self, Keeps(), *args, **more))


@broken("without holding the lock")
def the_lock_is_got_and_nobody_hears_of_it(patch: pytest.MonkeyPatch) -> None:
    around(
        patch,
        Guard,
        "_report",
        lambda real: lambda self, kind, *args: None if kind == "acquired" else real(self, kind, *args),
    )


@broken("ran without holding the lock")
def one_in_five_passes_by_the_guard(patch: pytest.MonkeyPatch) -> None:
    numbers = itertools.count()

    def made(real: Any) -> Any:
        async def run(self: Any, call: Any, body: Any, *args: Any, **more: Any) -> Any:
            return await (body() if next(numbers) % 5 == 4 else real(self, call, body, *args, **more))

        return run

    around(patch, Guard, "_run", made)


@broken("does not allow that")
def who_waits_skips_after_a_second(patch: pytest.MonkeyPatch) -> None:
    def made(_: Any) -> Any:
        async def enter(self: Any, call: Any, locks: Any) -> Hold | None:
            tell("waiting", call)
            try:
                hold: Hold = await locks.call_async(self._acquisition(call, 1.0))
            except LockNotAcquired:
                tell("contended", call, reason="skip")
                return None
            return hold

        return enter

    own_entry(patch, made)


@broken("nobody had it", "skip")
def every_other_is_told_that_the_lock_is_taken(patch: pytest.MonkeyPatch) -> None:
    numbers = itertools.count()

    def made(real: Any) -> Any:
        async def enter(self: Any, call: Any, locks: Any) -> Hold | None:
            if next(numbers) % 2:
                return await real(self, call, locks)  # type: ignore[no-any-return]
            tell("waiting", call)
            tell("contended", call, reason="skip")
            return None

        return enter

    own_entry(patch, made)


@pytest.mark.parametrize("error", [StorageUnavailable, LockLost])
def test_a_lock_that_fails_without_a_cause_is_found(monkeypatch: pytest.MonkeyPatch, error: type[Exception]) -> None:
    numbers = itertools.count()

    def made(real: Any) -> Any:
        async def enter(self: Any, call: Any, locks: Any) -> Hold | None:
            if next(numbers) % 4 == 3:
                tell("waiting", call)
                raise error("no")
            return await real(self, call, locks)  # type: ignore[no-any-return]

        return enter

    own_entry(monkeypatch, made)
    words = f"failed with {error.__name__}, which nothing in this run caused"
    assert any(words in text for text in findings("mutex", words))


@broken("was kept by")
def locks_are_kept_for_a_while_after_their_bodies(patch: pytest.MonkeyPatch) -> None:
    def made(real: Any) -> Any:
        async def held(self: Any, locks: Any, *args: Any, **more: Any) -> Any:
            class Slow:
                async def release_async(self, hold: Hold) -> None:
                    await asyncio.sleep(7.0)
                    await locks.release_async(hold)

            return await real(self, Slow(), *args, **more)

        return held

    around(patch, Guard, "_held", made)


@broken("was free for")
def who_waits_asks_twice_a_minute(patch: pytest.MonkeyPatch) -> None:
    def made(_: Any) -> Any:
        async def enter(self: Any, call: Any, locks: Any) -> Hold:
            tell("waiting", call)
            while True:
                try:
                    hold: Hold = await locks.call_async(self._acquisition(call, 0))
                except LockNotAcquired:
                    await asyncio.sleep(30)
                else:
                    return hold

        return enter

    own_entry(patch, made)


@broken("no fencing token")
def holds_have_no_tokens(patch: pytest.MonkeyPatch) -> None:
    def made(real: Any) -> Any:
        async def enter(self: Any, call: Any, locks: Any) -> Hold | None:
            hold = await real(self, call, locks)
            if hold is not None:
                hold.token = None
            return hold  # type: ignore[no-any-return]

        return enter

    own_entry(patch, made)


@broken("out of order")
def tokens_are_the_same_each_time(patch: pytest.MonkeyPatch) -> None:
    def made(real: Any) -> Any:
        async def enter(self: Any, call: Any, locks: Any) -> Hold | None:
            hold = await real(self, call, locks)
            if hold is not None:
                hold.token = 7
            return hold  # type: ignore[no-any-return]

        return enter

    own_entry(patch, made)


# --- the tests --------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("lock", BROKEN, ids=lambda lock: lock.name.replace(" ", "-"))
def test_a_broken_lock_gets_its_finding(lock: Broken, monkeypatch: pytest.MonkeyPatch) -> None:
    lock.breaks(monkeypatch)
    told = findings(lock.workload, lock.says)
    assert any(lock.says in text for text in told), told


@pytest.mark.parametrize(
    "workload", ["mutex", "keys", "chain", "skip", "mixed", "queue", "leader", "semaphore", "defer"]
)
def test_the_right_lock_is_not_accused(workload: str) -> None:
    assert [verdict_of(seed, workload).violations for seed in range(1, 9)] == [()] * 8
