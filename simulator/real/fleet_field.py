"""The field of a nemesis: real hosts on separate wires, struck through the fleet, and started again."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final
from zlib import crc32

from simulator.history.journal import clock
from simulator.nemesis.field import Field, Holding, Wanting
from simulator.real.fleet import GRACE, SETTLED_EXITS

if TYPE_CHECKING:
    from simulator.history.facts import Acquisition, Deed
    from simulator.history.journal import Write
    from simulator.nemesis.field import Tell
    from simulator.nemesis.wires import Wire, Wires
    from simulator.proxy.exchange import ProxyRequest
    from simulator.real.fleet import Fleet, Host
    from simulator.real.storage import Storage


BACK_AFTER: Final = (0.5, 3.0)
"""Seconds after which a host is started again."""
LEASE: Final = 15.0


class Wiring:
    """Gives each host a wire of its own."""

    def __init__(self, wires: Wires, connection: str) -> None:
        self._wires = wires
        self._connection = connection
        self.by_host: dict[str, Wire] = {}
        self.write: Write = lambda *_, **__: None

    def open(self, host: str) -> str:
        """Open a host's wire, and return the connection string by way of it."""
        self.by_host[host] = wire = self._wires.open(self._connection)
        wire.blobs.when_granted = self._granted
        return wire.connection_string

    def _granted(self, request: ProxyRequest) -> None:
        """Write that the storage granted a lease: the host hears of it only if the answer gets through."""
        lease = request.headers.get("x-ms-proposed-lease-id", "")
        self.write("lease_granted", blob=request.path, lease=f"{crc32(lease.encode()):08x}")

    def close(self, host: str) -> None:
        """Close the wire of a host that has ended."""
        wire = self.by_host.pop(host, None)
        if wire is not None:
            self._wires.close(wire)


class RealField(Field):
    """The fleet, as a nemesis sees it. `Field` has the contracts of the methods."""

    def __init__(self, fleet: Fleet, wiring: Wiring, storage: Storage) -> None:
        self._fleet = fleet
        self._wiring = wiring
        wiring.write = fleet.journal.write
        self._storage = storage
        self._random = random.Random(f"back {fleet.scenario.seed}")
        self._draining: dict[Host, float] = {}
        self._ended: dict[str, float] = {}  # to be started again, and when
        self._locks: frozenset[str] = frozenset()
        self._read = 0

    @property
    def wires(self) -> dict[str, Wire]:
        return self._wiring.by_host

    @property
    def locking(self) -> bool:
        return self._fleet.scenario.singleton

    def now(self) -> float:
        return clock()

    def working(self) -> list[str]:
        leaving = {host.name for host in self._draining}
        return [name for name in self._fleet.board.alive() if name not in leaving and not self._fleet.stands(name)]

    def absent(self) -> int:
        starting = sum(self._fleet.board.state(host.name) == "starting" for host in self._fleet.hosts)
        return len(self._ended) + len(self._draining) + starting

    def holdings(self) -> list[Holding]:
        """Return who has which lock, the locks that others wait for first; without locks: who is inside a body."""
        board, working = self._fleet.board, set(self.working())
        if not self._fleet.scenario.singleton:
            return [Holding(body.host, body.lock, LEASE) for body in board.inside() if body.host in working]
        wanted = {(wait.lock, wait.host) for wait in board.waiting()}

        def rank(got: Acquisition) -> int:
            if any(lock == got.lock and host != got.host for lock, host in wanted):
                return 0
            return 2 if got.mode == "listener" else 1

        held = sorted((got for got in board.held.values() if got.host in working), key=rank)
        return [Holding(got.host, got.blob or got.lock, self._lease_of(got)) for got in held]

    def wantings(self) -> list[Wanting]:
        orphans = self._fleet.board.orphans
        free = {lock: held.t + self._lease_of(held) for lock, held in orphans.items()}
        return [Wanting(wait.host, wait.lock, free.get(wait.lock)) for wait in self._fleet.board.waiting()]

    def locks(self) -> frozenset[str]:
        acquisitions = self._fleet.board.history.acquisitions
        if new := acquisitions[self._read :]:
            self._locks |= {got.blob or got.lock for got in new}
            self._read = len(acquisitions)
        return self._locks

    def lease(self) -> float:
        functions = self._fleet.board.history.functions.values()
        return max((function.lease for function in functions if function.lease), default=LEASE)

    def _lease_of(self, deed: Deed) -> float:
        return self._fleet.board.history.function(deed.function).lease_in(deed.mode)

    def tend(self) -> None:
        """Start again what has ended, in time; see whether drained hosts have ended."""
        now = clock()
        for host, deadline in [*self._draining.items()]:
            self._see_out(host, forced=now > deadline)
        for name, at in [*self._ended.items()]:
            if now >= at:
                del self._ended[name]
                self._fleet.start_again(name)

    def kill(self, host: str, tell: Tell, *, holding: bool) -> bool:

        def strike(victim: Host, holds: list[Deed]) -> None:
            tell()
            self._fleet.kill(victim, holds)
            self._leave(host)

        return self._fleet.strike(host, strike, holding=holding)

    def pause(self, host: str, seconds: float, tell: Tell, *, holding: bool) -> bool:

        def strike(victim: Host, holds: list[Deed]) -> None:
            tell()
            self._fleet.pause(victim, holds, seconds)

        return self._fleet.strike(host, strike, holding=holding)

    def stands(self, host: str) -> bool:
        return self._fleet.stands(host)

    def wake(self, host: str) -> None:
        self._fleet.wake_one(host)

    def drain(self, host: str, tell: Tell) -> bool:
        if host not in self.working():
            return False
        victim = next(each for each in self._fleet.hosts if each.name == host)
        tell()
        holds = [self._fleet.told(hold) for hold in self._fleet.holds(host)]
        self._fleet.journal.write("host_draining", host=host, holds=holds)
        victim.reaped = True  # its end is no surprise
        self._draining[victim] = clock() + GRACE
        victim.ask_to_stop()
        return True

    def is_gone(self, host: str) -> bool:
        return all(each.name != host for each in self._draining)

    def operate(self, lock: str, action: str, tell: Tell) -> bool:
        if not self._storage.is_leased(lock):
            return False
        tell()
        self._fleet.journal.write("operator", lock=lock, action=action)
        self._storage.end_lease(lock, delete=action == "delete")
        return True

    def write(self, event: str, /, **fields: object) -> None:
        self._fleet.journal.write(event, **fields)

    def _see_out(self, host: Host, *, forced: bool) -> None:
        """Note that a drained host has ended; with `forced`, see to it."""
        forced = forced and host.running
        if forced:
            host.kill()
        code = host.exit_code()
        if code is None:
            return
        del self._draining[host]
        expected = forced or code in SETTLED_EXITS
        self._fleet.journal.write("host_exited", host=host.name, code=code, expected=expected, forced=forced)
        self._leave(host.name)

    def _leave(self, host: str) -> None:
        self._wiring.close(host)
        self._ended[host] = clock() + self._random.uniform(*BACK_AFTER)
