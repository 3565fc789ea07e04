"""Holders that are killed, stopped, blocked or starved: told in time, and nobody else is let in too early (B3, B19).

All scenarios of this file run at once (see ``tests/support/fault_world.py``).
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.fault_world import PERIOD, RENEWAL, SLACK, World, run_all, started

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future

    from simulator.azurite.server import Azurite

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

HOLDER = """
    start = time.monotonic()
    try:
        with locks.lock(LOCK) as hold:
            say("in", hold.token)
            while not hold.lost.is_set(): time.sleep(0.05)
            try: hold.raise_if_lost()
            except LockLost as error: say("lost", error.reason)
    except LockLost: say("out")
"""


@contextlib.contextmanager
def running(process: subprocess.Popen[str]) -> Iterator[Iterator[str]]:
    try:
        yield started(process)
    finally:
        process.kill()
        process.communicate()


def a_killed_holders_lock_is_free_when_its_lease_lapses(world: World) -> None:
    holder = world.script(HOLDER)
    with running(holder) as said:
        assert next(said).startswith("in ")
        time.sleep(PERIOD / 2 + 1)
        rival, killed = world.rival(), time.monotonic()
        holder.kill()
        # The last renewal was a second ago, or a little more on a busy machine.
        assert RENEWAL - 1 < rival.result(60) - killed < PERIOD + 0.5 + SLACK


def a_stopped_holder_knows_at_once_when_it_wakes(world: World) -> None:
    holder = world.script(HOLDER)
    with running(holder) as said:
        token = int(next(said).split()[1])
        os.kill(holder.pid, signal.SIGSTOP)
        had = world.rival()
        had.result(PERIOD + 0.5 + SLACK)
        os.kill(holder.pid, signal.SIGCONT)
        woken = time.monotonic()
        assert next(said) == "lost expired"
        assert time.monotonic() - woken < SLACK
        assert next(said) == "out"
        tokens: list[int] = []
        with world.client().lock(world.lock, timeout=60) as hold:
            tokens.append(hold.token or 0)
        assert tokens[0] > token


def a_holder_that_was_stopped_in_the_middle_of_a_write_of_state_overwrites_nothing(world: World) -> None:
    code = """
        with locks.lock(LOCK, on_loss="tell") as hold:
            number = 0
            hold.state.write(["stopped", number])
            say("in")
            try:
                while True: number += 1; hold.state.write(["stopped", number])
            except (LockLost, StorageUnavailable) as error: say("lost", hold.lost.reason)
            try: hold.state.read()
            except LockLost: say("refused")
    """
    holder = world.script(code)
    with running(holder) as said:
        assert next(said) == "in"
        time.sleep(0.5)
        os.kill(holder.pid, signal.SIGSTOP)
        with world.client().lock(world.lock, timeout=PERIOD + 2 * SLACK) as hold:
            who, number = hold.state.read()
            assert who == "stopped"
            assert number > 0
            hold.state.write(["successor", 1])
            os.kill(holder.pid, signal.SIGCONT)
            assert next(said).startswith("lost ")
            assert next(said) == "refused"
            assert hold.state.read() == ["successor", 1]


def threads_that_keep_the_interpreter_busy_starve_no_renewal(world: World) -> None:
    code = f"""
        def spin():  # for three seconds around each renewal
            while (now := time.monotonic()) < stop:
                if (now - start + 1.5) % {RENEWAL} < 3: sum(range(1000))
                else: time.sleep(0.01)
        with locks.lock(LOCK) as hold:
            start = time.monotonic()
            stop = start + {PERIOD + 3}
            threads = [threading.Thread(target=spin) for _ in range(4)]
            for thread in threads: thread.start()
            spin()
            for thread in threads: thread.join()
            say(hold.lost.reason)
    """
    with running(world.script(code)) as said:
        assert next(said) == "None"
    assert world.proxy.operations().count("renew") >= 2


def code_that_never_lets_the_interpreter_go_is_told_as_soon_as_it_does(world: World) -> None:
    code = f"""
        import ctypes
        library = ctypes.PyDLL(None)
        library.sleep.restype = ctypes.c_uint
        with locks.lock(LOCK, on_loss="tell") as hold:
            say("in")
            library.sleep({round(PERIOD) + 1})
            say(hold.lost.reason)
            try: hold.raise_if_lost()
            except LockLost as error: say("LockLost", error.reason)
        with locks.lock("other", timeout=60): say("lives on")
    """
    with running(world.script(code)) as said:
        assert next(said) == "in"
        world.rival().result(PERIOD + 0.5 + SLACK)
        assert [next(said), next(said), next(said)] == ["expired", "LockLost expired", "lives on"]


def a_pool_of_one_thread_starves_no_renewal(world: World) -> None:
    code = f"""
        from concurrent.futures import ThreadPoolExecutor
        def body():
            with locks.lock(LOCK) as hold:
                time.sleep({PERIOD + 2})
                return hold.lost.reason
        async def main():
            loop = asyncio.get_running_loop()
            loop.set_default_executor(ThreadPoolExecutor(1))
            first = loop.run_in_executor(None, body)
            others = [loop.run_in_executor(None, time.sleep, 0) for _ in range(20)]
            say(await first)
            await asyncio.gather(*others)
        asyncio.run(main())
    """
    with running(world.script(code)) as said:
        assert next(said) == "None"


def an_event_loop_that_is_blocked_starves_no_renewal_and_lets_nobody_in(world: World) -> None:
    code = f"""
        async def main():
            async with alocks.lock(LOCK) as hold:
                say("in")
                time.sleep({PERIOD + 5})
                say(hold.lost.reason, time.monotonic())
        asyncio.run(main())
    """
    with running(world.script(code)) as said:
        assert next(said) == "in"
        rival = world.rival()
        reason, when = next(said).split()
        assert reason == "None"
        assert rival.result(60) > float(when)


SCENARIOS: list[Callable[[World], None]] = [
    a_killed_holders_lock_is_free_when_its_lease_lapses,
    a_stopped_holder_knows_at_once_when_it_wakes,
    a_holder_that_was_stopped_in_the_middle_of_a_write_of_state_overwrites_nothing,
    threads_that_keep_the_interpreter_busy_starve_no_renewal,
    code_that_never_lets_the_interpreter_go_is_told_as_soon_as_it_does,
    a_pool_of_one_thread_starves_no_renewal,
    an_event_loop_that_is_blocked_starves_no_renewal_and_lets_nobody_in,
]


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest, azurite: Azurite, tmp_path_factory: Any) -> dict[str, Future[None]]:
    items = [item for item in request.session.items if getattr(item, "module", None) is request.module]
    specs = [item.callspec.params for item in items if hasattr(item, "callspec")]
    chosen = [parameters["scenario"] for parameters in specs if "scenario" in parameters]
    return run_all(chosen, azurite, tmp_path_factory.mktemp("app"))


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_that(scenario: Any, outcomes: dict[str, Future[None]]) -> None:
    outcomes[scenario.__name__].result()
