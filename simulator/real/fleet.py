"""The fleet: hosts, their journals, and the board that is kept from them; and how a host is killed while it holds.

A host is killed at a moment that nobody can argue with. It is stopped in its tracks first; then its journal is read to
the end: a host that stands still writes nothing more. If it is inside a guarded body then, it is killed. If not, it
goes on, and is none the wiser. A pause begins likewise, and ends when the lease is long over.
"""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Final, TypeAlias

from simulator.history.facts import LEASE, Section
from simulator.history.journal import Journal, Record, Tail, clock, in_order
from simulator.real.hosts import Host, stop_all
from simulator.report.board import Board, HostNow

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from simulator.work.scenario import Scenario

READY_WITHIN: Final = 60.0
READY_WITHIN_EACH: Final = 8.0
GRACE: Final = 15.0
POLLING: Final = 1.0
STEPS: Final = 400
STEP: Final = 0.0001
PAST_LEASE: Final = (3.0, 8.0)  # seconds for which a paused host goes on standing still when its lease is over
SETTLED_EXITS: Final = (0, -15)


Strike: TypeAlias = "Callable[[Host, list[Section]], None]"
"""What is done to a host that stands still inside these bodies."""


class FleetTrouble(Exception):
    """The hosts can't be started, or all of them are gone; the message says why."""


class Fleet:
    """All hosts of one run, and the fleet's own journal."""

    def __init__(self, scenario: Scenario, folder: Path, *, storage: str, lock_host_id: str) -> None:
        """Prepare the hosts' files in `folder`; nothing runs yet."""
        self.scenario = scenario
        self.board = Board()
        self.records: list[Record] = []
        self.journal = Journal(folder / "fleet.jsonl", "fleet")
        self._own_tail = Tail(folder / "fleet.jsonl")
        self._random = random.Random(f"kill {scenario.seed}")
        self._asleep: dict[str, float] = {}
        self.hosts = [
            Host(
                f"host-{number}",
                folder,
                {
                    "app": str(scenario.app),
                    "storage": storage,
                    "host_id": "simulated" if scenario.same_app else f"simulated-{number}",
                    "lock_host_id": lock_host_id,
                    "singleton": scenario.singleton,
                    "same_app": scenario.same_app,
                    "seed": scenario.seed + number,
                    "timer_every": scenario.timer_every,
                    "visibility": scenario.visibility,
                    "max_polling_interval": POLLING,
                },
            )
            for number in range(1, scenario.hosts + 1)
        ]

    def start(self, watch: Callable[[], None], undisturbed: Callable[[], AbstractContextManager[None]]) -> None:
        """Start all hosts and return when they are ready.

        Args:
            watch: called while we wait.
            undisturbed: a context in which no signal interrupts us.

        Raises:
            FleetTrouble: one of them did not become ready.
        """
        for host in self.hosts:
            self.board.host(host.name)
        for host in self.hosts:
            with undisturbed():
                host.start()
            watch()
        deadline = time.monotonic() + READY_WITHIN + READY_WITHIN_EACH * len(self.hosts)
        while any(self.board.host(host.name).state == "starting" for host in self.hosts):
            self.look()
            watch()
            for host in self.hosts:
                if self.board.host(host.name).state == "failed" or not host.running:
                    raise FleetTrouble(f"{host.name} did not start: {self._why(host)}")
            if time.monotonic() > deadline:
                late = next(host for host in self.hosts if self.board.host(host.name).state == "starting")
                raise FleetTrouble(f"{late.name} was not ready in time: {late.last_words() or 'it said nothing'}")
            time.sleep(0.03)

    def look(self) -> None:
        """Read what was written since the last look, and notice hosts that ended by themselves."""
        records = self._own_tail.read()
        for host in self.hosts:
            ended = host.exit_code() is not None
            records += host.tail.read()
            if ended and not host.reaped:
                host.reaped = True
                if not host.killed:
                    self.journal.write("host_exited", host=host.name, code=host.exit_code(), expected=False)
        for record in in_order(records):
            self.records.append(record)
            self.board.take(record)

    def kill_one(self, *, wanted: bool) -> bool:
        """Kill one host that is inside a guarded body, if one can be caught there now.

        Args:
            wanted: only one that holds a lock which another host waits for, or will surely ask for.
        """
        return self._strike_one(self._kill, wanted=wanted)

    def pause_one(self, *, wanted: bool) -> bool:
        """Have one host that is inside a guarded body stand still past its lease; see ``kill_one``."""
        return self._strike_one(self._pause, wanted=wanted)

    def wake(self, *, early: bool = False) -> None:
        """Let those go on whose pause is over, or all of them."""
        for name, until in [*self._asleep.items()]:
            if early or clock() >= until:
                self._process(name).resume()
                self.journal.write("resume", host=name)
                del self._asleep[name]

    @property
    def asleep(self) -> bool:
        """Whether a host stands still."""
        return bool(self._asleep)

    def _strike_one(self, strike: Strike, *, wanted: bool) -> bool:
        self.look()
        if not wanted and not any(self._choices(host) for host in self.board.alive()):
            return self._stalk(strike)
        best = sorted(
            ((self._rank(inside), self._random.random(), inside) for inside in self._targets()),
            key=lambda choice: choice[:2],
        )
        return any((rank > 0 or not wanted) and self._try(inside.host, strike) for rank, _, inside in reversed(best))

    def stop(self, *, grace: float = GRACE, hurry: Callable[[], bool] = lambda: False) -> None:
        """Stop all hosts, and write down how each of them ended."""
        self.wake(early=True)
        running = [host for host in self.hosts if host.running]
        for host in running:
            host.reaped = True  # that they end is no surprise from now on

        def impatient() -> bool:
            self.look()
            return hurry()

        forced = stop_all(running, grace, hurry=impatient)
        for host in running:
            code = host.exit_code()
            expected = host in forced or code in SETTLED_EXITS
            self.journal.write("host_exited", host=host.name, code=code, expected=expected, forced=host in forced)
        self.look()

    def end_at_once(self) -> None:
        """Make sure that no host is left, whatever it is at."""
        for host in self.hosts:
            host.kill()

    def _targets(self) -> list[Section]:
        return [inside for host in self.board.alive() for inside in self._choices(host)]

    def _choices(self, host: HostNow) -> list[Section]:
        """Return the bodies for whose sake a host may be killed: those under a lock, if anything is locked.

        Then what it is the listener of, while none of its bodies runs.
        """
        if host.name in self._asleep or len(self.board.alive()) - len(self._asleep) < 2:
            return []
        locked = self.scenario.singleton
        inside = {
            (each.lock, each.owner if each.mode == "function" else ""): each
            for each in (*host.leads.values(), *host.inside.values())
            if each.held or not locked
        }
        return list(inside.values())

    def _rank(self, inside: Section) -> int:
        """Prefer locks that others wait for, then those of timers, which all hosts ask for at each tick.

        A listener with no body inside comes last.
        """
        if not inside.owner and inside.mode == "listener":
            return 0
        if self.board.waiters(inside.lock, but=inside.host):
            return 2
        function = self.board.functions.get(inside.function)
        return 1 if function is not None and function.get("trigger") == "timer" else 0

    def _try(self, name: str, strike: Strike) -> bool:
        """Strike the host if it is still inside once it stands still."""
        host = self._process(name)
        if not host.suspend():
            return False
        if self._strike_if_inside(host, strike):
            return True
        host.resume()
        return False

    def _strike_if_inside(self, host: Host, strike: Strike) -> bool:
        """Strike a host that stands still, if its journal says that it is inside."""
        self.look()
        choices = sorted(self._choices(self.board.host(host.name)), key=self._rank, reverse=True)
        if not choices:
            return False
        strike(host, choices)
        self.look()
        return True

    def _kill(self, host: Host, choices: list[Section]) -> None:
        self.journal.write("kill", host=host.name, pid=host.pid, holds=[self._hold(inside) for inside in choices])
        host.kill()

    def _pause(self, host: Host, choices: list[Section]) -> None:
        functions = [self.board.functions.get(inside.function) for inside in choices]
        lease = max(float(function.get("lease") or LEASE) if function else LEASE for function in functions)
        self.journal.write("pause", host=host.name, holds=[self._hold(inside) for inside in choices])
        self._asleep[host.name] = clock() + lease + self._random.uniform(*PAST_LEASE)

    def _stalk(self, strike: Strike) -> bool:
        """Follow a host that has just asked for a lock, step by step.

        A body may be so short that no host is ever seen inside one. So the host is let go for a fraction of a
        millisecond at a time, until it is inside or has not come there.
        """
        asking = [host.name for host in self.board.alive() if self._about_to_enter(host)]
        if not asking:
            return False
        host = self._process(self._random.choice(asking))
        for _ in range(STEPS):
            if not host.suspend():
                return False
            if self._strike_if_inside(host, strike):
                return True
            host.resume()
            if not self._about_to_enter(self.board.host(host.name)):
                return False
            time.sleep(STEP)
        return False

    def _about_to_enter(self, host: HostNow) -> bool:
        """Tell whether a host waits for a lock that nobody else has, or has got one and is not inside yet."""
        if host.name in self._asleep or len(self.board.alive()) - len(self._asleep) < 2:
            return False
        held = {inside.lock for inside in self.board.inside()}
        held.update(lock for each in self.board.alive() for lock in each.leads)
        outside = any(key not in host.inside for key in host.held if key[0] not in host.leads)
        return outside or any(lock not in held and lock not in self.board.outages for lock, _ in host.waiting)

    def _process(self, name: str) -> Host:
        return next(host for host in self.hosts if host.name == name)

    def _hold(self, inside: Section) -> dict[str, object]:
        function = self.board.functions.get(inside.function)
        return {
            "lock": inside.lock,
            "function": inside.function,
            "owner": inside.owner,
            "token": inside.token,
            "mode": inside.mode,
            "on_contention": function.text("on_contention") if function is not None else "",
        }

    def _why(self, host: Host) -> str:
        said = [event.text for event in self.board.events if event.text.startswith(f"{host.name}: ")]
        if said:
            return said[-1].removeprefix(f"{host.name}: ")
        return host.last_words() or f"it ended with exit code {host.exit_code()}"
