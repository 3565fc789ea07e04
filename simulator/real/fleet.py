"""The fleet: hosts, their journals, and the board that is made from them; and how a host is killed while it holds.

A host is killed only while it surely holds. First it is stopped. Then its journal is read to the end: a stopped host
writes nothing more. If the host is inside a guarded body, it is killed. If not, it goes on and does not notice. A pause
begins in the same way, and ends long after the end of the lease.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from simulator.history.facts import Acquisition, Deed
from simulator.history.journal import Journal, Tail, clock, in_order
from simulator.host.app.app_model import NO_TICKS
from simulator.program import HOST
from simulator.report.board import Board

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    import psutil

    from simulator.work.deployments import Deployment
    from simulator.work.scenario import Scenario


STOPPED_WITHIN: Final = 2.0
TAIL: Final = 4096
LINES: Final = 3
TEMPORARY: Final = "temporary"


class Host:
    """One fake Functions host with its workers, in a process group of its own: no Ctrl-C of the terminal reaches it."""

    program = HOST

    def __init__(self, name: str, folder: Path, config: dict[str, Any]) -> None:
        self.name = name
        self.journal = folder / f"{name}.jsonl"
        self.log = folder / f"{name}.jsonl.log"
        self.tail = Tail(self.journal)
        self.reaped = False  # its end is expected
        self.suspended = False
        self._config = folder / f"{name}.config.json"
        self._config.write_text(json.dumps({**config, "name": name, "journal": str(self.journal)}), "utf-8")
        self._config.chmod(0o600)  # it contains the storage's key
        # The hosts of a run share a temporary folder, and no other run does: what apps leave there ends with the run.
        self._temporary = folder / TEMPORARY
        self._temporary.mkdir(exist_ok=True)
        self._process: subprocess.Popen[bytes] | None = None
        self._swept = False

    def start(self) -> None:
        """Start the process."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self.program, str(self._config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(self._temporary))},
                # No session of its own: when the fleet is killed, the kernel wakes and ends a group that stands still.
                process_group=0,
            )

    @property
    def pid(self) -> int:
        """The process's id; 0 if it was never started."""
        return self._process.pid if self._process else 0

    def exit_code(self) -> int | None:
        """Return how the process ended, or None while it runs (or was never started)."""
        code = self._process.poll() if self._process else None
        if code is not None:
            self._sweep()
        return code

    @property
    def running(self) -> bool:
        """Whether the process was started and has not ended."""
        return self._process is not None and self.exit_code() is None

    @property
    def stopped(self) -> bool:
        """Whether somebody else has stopped the process (SIGSTOP); False where the system does not tell."""
        try:
            state = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2]
        except OSError:
            return False
        return not self.suspended and state.startswith(" T")

    def suspend(self) -> bool:
        """Stop host and workers at once, and return when they stand still; False if that can't be done."""
        import psutil  # only a run of hosts needs psutil, and has asked for it before (`simulator.real.run`)

        self.suspended = True
        still = (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE)
        try:
            self._signal("SIGSTOP")
            deadline = time.monotonic() + STOPPED_WITHIN
            while not all(process.status() in still for process in self._processes()):
                if time.monotonic() > deadline:
                    self.resume()
                    return False
                time.sleep(0.0001)
        except (psutil.Error, OSError):  # such as a process that ended meanwhile
            self.resume()
            return False
        return True

    def resume(self) -> None:
        """Let a suspended host and its workers go on."""
        import psutil

        with contextlib.suppress(psutil.Error, OSError):
            self._signal("SIGCONT")
        self.suspended = False

    def _signal(self, name: str) -> None:
        """Send a signal to host and workers at one moment."""
        if sys.platform != "win32" and self.running:
            os.killpg(self.pid, getattr(signal, name))

    def _processes(self) -> list[psutil.Process]:
        import psutil

        host = psutil.Process(self.pid)
        return [host, *host.children()]

    def kill(self) -> None:
        """End the process and its descendants, at once."""
        if self._process is None or not self.running:
            return
        self.reaped = True
        if sys.platform == "win32":
            self._process.kill()
        self._sweep()
        self._process.wait()

    def _sweep(self) -> None:
        """End all that is in the host's session, once: the host, its workers, and what the app has started."""
        if sys.platform != "win32" and not self._swept:
            self._swept = True
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    def ask_to_stop(self) -> None:
        """Ask the process to finish its work, and end."""
        if self._process is not None:
            with contextlib.suppress(OSError):
                self._process.terminate()

    def last_words(self) -> str:
        """Return the last lines of the process's own output."""
        text = self.log.read_bytes()[-TAIL:].decode("utf-8", "replace") if self.log.exists() else ""
        return " | ".join([line.strip() for line in text.splitlines() if line.strip()][-LINES:])


READY_WITHIN: Final = 60.0
READY_WITHIN_EACH: Final = 8.0
AT_ONCE: Final = max(5, 2 * (os.cpu_count() or 1))
"""How many hosts start at the same time. All of 100 at once would slow each other down, and with it the first locks."""
GRACE: Final = 15.0
POLLING: Final = 1.0
POLLED_TOGETHER: Final = 25.0
"""How often in a second all idle hosts together ask a queue. One emulator can't answer 100 hosts more often."""
STEPS: Final = 400
STEP: Final = 0.0001
PAST_LEASE: Final = (5.5, 9.0)  # seconds of a pause after the end of the lease: longer than a poll of others
SETTLED_EXITS: Final = (0, -15)


StrikeAction: TypeAlias = "Callable[[Host, list[Deed]], None]"
"""What is done to a host that stands still with these bodies and these listener's locks."""


class FleetTrouble(Exception):
    """The hosts can't be started, or all of them are gone; the message says why."""


class Fleet:
    """All hosts of one run, and the fleet's own journal."""

    def __init__(
        self,
        scenario: Scenario,
        folder: Path,
        *,
        storage: str,
        account: Mapping[str, str] | None = None,
        lock_host_id: str,
        sites: Sequence[Deployment] = (),
        way: Callable[[str], str] | None = None,
        bus: str = "",
    ) -> None:
        """Prepare the hosts' files in `folder`; nothing runs yet.

        Args:
            storage: connection string of the storage.
            account: settings of an account in its place, by what follows the name of a connection.
            lock_host_id: the host id of the locks; of sites, what their host ids begin with.
            sites: the apps, which the hosts run in turn; none: all hosts run the scenario's app.
            way: returns the connection string of one host, by its name, if each has a way of its own to the storage.
            bus: URL of the run's message broker; empty if no function needs it.
        """
        self.scenario = scenario
        self.board = Board()
        self.journal = Journal(folder / "fleet.jsonl", "fleet")
        self._own_tail = Tail(folder / "fleet.jsonl")
        self._random = random.Random(f"kill {scenario.seed}")
        self.asleep: dict[Host, float] = {}
        """The hosts that stand still, and until when."""
        self._stopped: set[Host] = set()  # by somebody outside
        self._folder = folder
        self._way = way or (lambda _: storage)
        self._account = dict(account or {})
        self._lock_host_id = lock_host_id
        self._sites = sites
        self._bus = bus
        self.hosts = [self._host(number) for number in range(1, scenario.hosts + 1)]

    def _host(self, number: int, times: int = 1) -> Host:
        scenario, name = self.scenario, f"host-{number}" + (f".{times}" if times > 1 else "")
        config: dict[str, Any] = {
            "app": str(scenario.app),
            "storage": self._way(name),
            "account": self._account,
            "host_id": "simulated" if scenario.same_app else f"simulated-{number}",
            "lock_host_id": self._lock_host_id,
            "singleton": scenario.singleton,
            "same_app": scenario.same_app,
            "seed": scenario.seed + number,
            "timer_every": scenario.timer_every,
            "visibility": scenario.visibility,
            "max_polling_interval": max(POLLING, scenario.hosts / POLLED_TOGETHER),
            "bus": self._bus,
        }
        if self._sites:  # the hosts of a site are instances of one app
            site = self._sites[(number - 1) % len(self._sites)]
            config |= {"app": str(site.folder), "site": site.name, "same_app": True}
            config |= {"host_id": f"simulated-{site.host_id}", "lock_host_id": self._lock_host_id + site.lock_id}
        return Host(name, self._folder, config)

    def start_again(self, name: str) -> None:
        """Start a host anew that has ended, under its next name."""
        lane, _, times = name.removeprefix("host-").partition(".")
        host = self._host(int(lane), int(times or 1) + 1)
        self.journal.write("host_restarted", host=host.name, after=name)
        self.board.state(host.name)
        self.hosts.append(host)
        host.start()

    def start(self, watch: Callable[[], None], undisturbed: Callable[[], AbstractContextManager[None]]) -> None:
        """Start all hosts and return when they are ready; call ``watch`` meanwhile.

        A host is started in the context ``undisturbed``, where no signal interrupts us.

        Raises:
            FleetTrouble: a host did not become ready.
        """
        for host in self.hosts:
            self.board.state(host.name)
        started: list[Host] = []
        deadline = time.monotonic() + READY_WITHIN + READY_WITHIN_EACH * len(self.hosts)
        while late := [host for host in self.hosts if self.board.state(host.name) == "starting"]:
            coming = sum(host in started for host in late)
            for host in self.hosts[len(started) :][: max(AT_ONCE - coming, 0)]:
                with undisturbed():
                    host.start()
                started.append(host)
            self.look()
            watch()
            for host in started:
                if self.board.state(host.name) == "failed" or not host.running:
                    said = dict(self.board.history.errors).get(host.name) or host.last_words()
                    raise FleetTrouble(
                        f"{host.name} did not start: {said or f'it ended with exit code {host.exit_code()}'}"
                    )
            if time.monotonic() > deadline:
                raise FleetTrouble(f"{late[0].name} was not ready in time: {late[0].last_words() or 'it said nothing'}")
            time.sleep(0.03)

    def look(self) -> None:
        """Read what was written since the last look, and notice hosts that ended by themselves."""
        records = self._own_tail.read()
        for host in self.hosts:
            ended = host.exit_code() is not None
            records += host.tail.read()
            if ended and not host.reaped:
                host.reaped = True
                self.journal.write("host_exited", host=host.name, code=host.exit_code(), expected=False)
            elif host.stopped != (host in self._stopped):
                self._stopped ^= {host}
                event = "pause" if host in self._stopped else "resume"
                self.journal.write(event, host=host.name, outside=True)
        for record in in_order(records):
            self.board.take(record)

    def strike_one(self, what: str, *, wanted: bool) -> bool:
        """Kill ("kill") one host that is inside a guarded body, if there is one now, or stop the host beyond its lease.

        With ``wanted``, only a host that holds a lock which another host waits for, or will surely ask for.
        """
        strike = self.kill if what == "kill" else self._pause
        self.look()
        targets = [(host, hold) for host in self.hosts for hold in self._choices(host)]
        if not wanted and not targets:
            return self._stalk(strike)
        self._random.shuffle(targets)
        targets.sort(key=lambda target: self._rank(target[1]), reverse=True)
        return any(self._try(host, strike) for host, hold in targets if not wanted or self._rank(hold))

    def wake(self, *, early: bool = False) -> None:
        """Let the hosts go on whose pause is over, or all of them."""
        for host, until in [*self.asleep.items()]:
            if early or clock() >= until:
                host.resume()
                self.journal.write("resume", host=host.name)
                del self.asleep[host]

    def stands(self, name: str) -> bool:
        """Tell whether a host of this name stands still."""
        return any(host.name == name for host in self.asleep)

    def wake_one(self, name: str) -> None:
        """Let a host go on before its time."""
        for host in self.asleep:
            if host.name == name:
                self.asleep[host] = 0.0
        self.wake()

    def end_ticks(self) -> None:
        """Let no timer fire from now on; what runs goes on."""
        path = self._folder / NO_TICKS
        if not path.exists():
            path.touch()
            self.journal.write("ticks_ended")

    def strike(self, name: str, strike: StrikeAction, *, holding: bool) -> bool:
        """Stop a host and strike it, with `holding` only while it is inside a body or the listener of a function."""
        host = next((host for host in self._awake() if host.name == name), None)
        return host is not None and self._try(host, strike, holding=holding)

    def kill(self, host: Host, holds: list[Deed]) -> None:
        """Kill a host that stands still with these holds."""
        self.journal.write("kill", host=host.name, pid=host.pid, holds=[self.told(hold) for hold in holds])
        host.kill()

    def pause(self, host: Host, holds: list[Deed], seconds: float) -> None:
        """Leave a host that stands still with these holds as it is, for so long."""
        self.journal.write("pause", host=host.name, holds=[self.told(hold) for hold in holds])
        self.asleep[host] = clock() + seconds

    def holds(self, name: str) -> list[Deed]:
        """Return the holds of a host: with a body inside, the best first; else holds that are not released yet."""
        host = next(host for host in self.hosts if host.name == name)
        return self._choices(host) or [got for got in self.board.held.values() if got.host == name]

    def stop(self, *, grace: float = GRACE, hurry: Callable[[], bool] = lambda: False) -> None:
        """Stop all hosts: ask them, kill them after ``grace`` seconds, or as soon as ``hurry`` says so; tell how."""
        self.wake(early=True)
        running = [host for host in self.hosts if host.running]
        deadline = time.monotonic() + grace
        for host in running:
            host.reaped = True
            host.ask_to_stop()
        while any(host.running for host in running) and time.monotonic() < deadline:
            self.look()
            if hurry():
                break
            time.sleep(0.02)
        forced = [host for host in running if host.running]
        for host in forced:
            host.kill()
        for host in running:
            code = host.exit_code()
            expected = host in forced or code in SETTLED_EXITS
            self.journal.write("host_exited", host=host.name, code=code, expected=expected, forced=host in forced)
        self.look()

    def end_at_once(self) -> None:
        """Make sure that no host is left, whatever it is doing."""
        for host in self.hosts:
            host.kill()

    def _awake(self) -> list[Host]:
        """Return the hosts that work and don't stand still, if another host can go on."""
        alive = self.board.alive()
        awake = [host for host in self.hosts if host.name in alive and host not in self.asleep]
        return awake if len(awake) > 1 else []

    def _choices(self, host: Host) -> list[Deed]:
        """Return what a host may be killed for, the best first: bodies under a lock, if anything is locked.

        Then the functions of which it is the listener, while none of their bodies runs.
        """
        if host not in self._awake():
            return []
        locked = self.scenario.singleton
        bodies = (body for body in self.board.inside() if body.held or not locked)
        holds: dict[tuple[str, str], Deed] = {
            (hold.lock, hold.owner if hold.mode == "function" else ""): hold
            for hold in (*self.board.leads(), *bodies)
            if hold.host == host.name
        }
        return sorted(holds.values(), key=self._rank, reverse=True)

    def _rank(self, hold: Deed) -> int:
        """Prefer locks with waiters on other hosts, then locks of timers: every host asks for them at each tick.

        A listener with no body inside comes last.
        """
        if isinstance(hold, Acquisition):
            return 0
        if any(wait.lock == hold.lock and wait.host != hold.host for wait in self.board.waiting()):
            return 2
        return int(self.board.history.function(hold.function).trigger == "timer")

    def _try(self, host: Host, strike: StrikeAction, *, holding: bool = True) -> bool:
        """Kill or pause the host if it stands still, and, with `holding`, its journal says that it is inside."""
        if not host.suspend():
            return False
        self.look()
        choices = self._choices(host)
        struck = bool(choices) or not holding
        if struck:
            strike(host, choices or self.holds(host.name))
            self.look()
        else:
            host.resume()
        return struck

    def _pause(self, host: Host, choices: list[Deed]) -> None:
        lease = max(self.board.history.function(hold.function).lease for hold in choices)
        self.pause(host, choices, lease + self._random.uniform(*PAST_LEASE))

    def _stalk(self, strike: StrikeAction) -> bool:
        """Follow a host that has just asked for a lock, step by step.

        A body may be so short that no host is ever seen inside one. So the host may run for a fraction of a millisecond
        at a time, until it is inside or clearly does not get there.
        """
        asking = [host for host in self._awake() if self._about_to_enter(host)]
        if not asking:
            return False
        host = self._random.choice(asking)
        for _ in range(STEPS):
            if self._try(host, strike):
                return True
            if not (host.running and self._about_to_enter(host)):
                return False
            time.sleep(STEP)
        return False

    def _about_to_enter(self, host: Host) -> bool:
        """Tell whether a host waits for a lock that nobody else has, or has acquired one and is not inside yet."""
        board = self.board
        taken = {hold.lock for hold in (*board.inside(), *board.leads(), *board.orphans.values())}
        waits = any(wait.host == host.name and wait.lock not in taken for wait in board.waiting())
        return waits or any(
            got.host == host.name and got.mode == "function" and not board.bodies.get(key)
            for key, got in board.held.items()
        )

    def told(self, hold: Deed) -> dict[str, object]:
        """Return a hold as records have it."""
        fields = {name: getattr(hold, name) for name in ("lock", "function", "owner", "token", "mode")}
        function = self.board.history.functions.get(hold.function)
        return {**fields, "on_contention": function.on_contention if function is not None else ""}
