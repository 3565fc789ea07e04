"""The bodies of the user's app in a world, beyond the lock.

The app decides how long a body takes: a world waits for the body, up to a limit. A body that goes on after the loss of
its lock may write beside the next holder. The report remarks a sync body, as only a fencing token helps. An async body
was cancelled: a body that goes on swallows the cancellation, and no lock can keep its promise.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from simulator.checks.findings import count
from simulator.virtual.worlds.outcome import Account
from singleton.base.hold import current_hold

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from simulator.virtual.oracle.evidence import RunningBody
    from simulator.virtual.time.machine import Machine
    from simulator.virtual.worlds.world import World
    from singleton.base.hold import Hold
    from singleton.base.kinds import LossReason

LONGEST: Final = 3600.0
"""Seconds after which a world whose bodies still run is ended without a judgement."""
_A_MOMENT: Final = 1e-3
"""Seconds in which a cancellation reaches a body."""
_LOOK: Final = 1.0


@dataclass(slots=True, eq=False)
class _Running:
    function: str
    machine: Machine
    task: asyncio.Task[object] | None
    hold: Hold | None
    lost_at: float | None = None


class AppBodies:
    """Sees the bodies of one world begin and end, through its witness, and counts them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._running: dict[str, _Running] = {}
        self._ending = False
        world.gives_up_at = LONGEST
        world.oracle.ignoring = self._ignoring
        world.oracle.sealed = False
        for machine in world.machines:
            machine.tell = partial(self._tell, machine)

    def follow(self) -> None:
        """Begin to watch the bodies after the world's work has been started."""
        self._world.watch(self._look)

    def _tell(self, machine: Machine, event: str, /, **fields: object) -> None:
        self._world.note(machine.name, event, **fields)
        if event == "body_entered":
            self._entered(machine, str(fields["run"]), str(fields["function"]))
        elif event == "body_left":
            self._left(str(fields["run"]))

    def _entered(self, machine: Machine, run: str, function: str) -> None:
        task = hold = None
        with suppress(RuntimeError):  # a sync body's thread has no loop
            task = asyncio.current_task()
        with suppress(RuntimeError):  # it is not guarded
            hold = current_hold()
        running = self._running[run] = _Running(function, machine, task, hold)
        if hold is not None:
            hold.lost.add_callback(partial(self._lost, run, running))

    def _lost(self, run: str, running: _Running, _: LossReason) -> None:
        if self._running.get(run) is running:
            running.lost_at = self._world.loop.now
            self._world.later(_LOOK, self._must_end, run, running)

    def _left(self, run: str) -> None:
        running = self._running.pop(run, None)
        if (
            running is None
            or self._world.over
            or running.lost_at is None
            or running.machine.resumed_at > running.lost_at
        ):
            return
        if not self._without_lease(running) or (running.task is not None and running.task.cancelling()):
            return
        seconds = self._world.loop.now - running.lost_at
        if seconds > _A_MOMENT:
            account = self._world.accounts[running.function]
            account.went_on += 1
            account.longest = max(account.longest, seconds)

    def _without_lease(self, running: _Running) -> bool:
        """Tell whether the service has ended the lease: until its end, no other body is inside."""
        if running.hold is None:
            return False
        tenure = self._world.service.tenure(running.hold.lock)
        return tenure is None or tenure.lease_id != running.hold.lease_id

    # --- cancelled, and still there -----------------------------------------------------------------------------------

    def _ignoring(self, body: RunningBody) -> str:
        for running in self._running.values():
            if running.hold is body.hold:
                return self._complaint(running)
        return ""

    def _complaint(self, running: _Running) -> str:
        """Say that a body was cancelled as its lock was lost, and had the time to end; the empty text otherwise."""
        machine, task, hold = running.machine, running.task, running.hold
        if task is None or hold is None or running.lost_at is None or machine.stopped or not task.cancelling():
            return ""
        seconds = self._world.loop.now - max(running.lost_at, machine.resumed_at)
        if seconds <= _A_MOMENT:
            return ""
        return (
            f"the body of {running.function!r} on {machine.name} was cancelled as it lost {hold.lock}, and still runs "
            f"{seconds:.1f} s later without the lease: it swallows CancelledError, or takes long to clean up. "
            "That is the function's fault and not the lock's: let CancelledError end it"
        )

    def _must_end(self, run: str, running: _Running) -> None:
        """Whatever ended the lease: a body that is still inside was cancelled, or the oracle judges it."""
        if self._running.get(run) is not running or running.machine.crashed:
            return
        if self._without_lease(running) and (text := self._complaint(running)):
            self._world.oracle.blame("cancellation ignored", text)
        else:
            self._world.later(_LOOK, self._must_end, run, running)

    # --- long ---------------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Count each second in which a body runs as work; once more when the world is about to be given up."""
        alive = [running for running in self._running.values() if not running.machine.crashed]
        self._world.work += bool(alive)
        if self._world.loop.now >= LONGEST - _LOOK and not self._ending:
            self._ending = True
            for running in alive:
                self._world.accounts[running.function].endless += 1


def merge(accounts: dict[str, Account], more: Mapping[str, Account]) -> None:
    """Add the accounts of another world to these."""
    for name, account in more.items():
        accounts.setdefault(name, Account(account.messages)).add(account)


def remarks(accounts: Mapping[str, Account], *, own: bool) -> Iterator[str]:
    """Say what is worth knowing of the app's functions; ``own``: their messages were the user's own."""
    for name, account in accounts.items():
        if account.failed and not account.well:
            yield f"{name!r}: {_failing(account, own=own)}. Nothing was shown but the lock around bodies that fail."
        if account.stale:
            yield (
                f"{name!r}: {count(account.stale, 'LockLost', 'LockLosts')} came from the app, or its outbox, and not "
                "from the lock: not judged, as the app's own database may keep a greater token from another world."
            )
        if account.went_on:
            yield (
                f"{name!r}: {account.went_on:,} of its bodies went on after their lock was lost and its lease had "
                f"ended, for {account.longest:.1f} s at most. Nobody can end them; what they write in that time, only "
                "the fencing token can refuse. raise_if_lost() between their steps makes them end sooner."
            )
        if account.endless:
            yield (
                f"{name!r}: {account.endless:,} of its bodies still ran after {LONGEST / 60:.0f} min of virtual time; "
                "their worlds were ended without a judgement."
            )


def _failing(account: Account, *, own: bool) -> str:
    if not account.messages:
        return f"it failed each time it ran: {account.error}"
    if own:
        return f"its bodies fail on each of your messages: {account.error}"
    return f"its bodies fail on the made-up messages: {account.error}; give messages of your own with --messages FILE"
