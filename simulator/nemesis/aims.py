"""The moment at which a fault strikes, and the hosts that are struck.

"holder" takes a host that has a lock which others want. "renewal", "release" and "waiters" lie in wait on the wires:
the first request of that kind is held back until the fault has begun. So it is the first request that the fault hits,
and a host that is killed or stopped has not sent it yet. "waiters" waits for a request to acquire a lock that two hosts
wait for, a lock with a dead holder first: there the requests come when the lease ends.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from typing import TYPE_CHECKING, Final

from simulator.faults.real import REQUESTS, Aim, RealFault, Victims

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping

    from simulator.nemesis.field import Field
    from simulator.nemesis.wires import Wire
    from simulator.proxy.actions import Action, ProxyRule
    from simulator.proxy.exchange import Exchange, ProxyRequest

HELD_BACK: Final = 1.5
"""Seconds for which a request is held back, at most: a host that is not struck must not lose its lease by it."""


class Ambush:
    """Holds back the first request of a kind, from certain hosts and about certain locks."""

    def __init__(self, operation: str) -> None:
        self._operation = operation
        self._rules: dict[Wire, ProxyRule] = {}
        self._freed: tuple[Wire, asyncio.Event] | None = None
        self._dropped = False
        self.wanted: Mapping[str, frozenset[str]] = {}
        self.caught: Victims | None = None

    def spread(self, wires: Mapping[str, Wire], wanted: Mapping[str, frozenset[str]], aim: Aim) -> None:
        """Wait for these hosts and locks from now on."""
        self.wanted = wanted
        for host in wanted:
            wire = wires.get(host)
            if wire is not None and wire not in self._rules:
                self._rules[wire] = wire.blobs.add(self._matches(host), self._catch(host, wire, aim))

    def end(self, *, drop: bool = False) -> None:
        """Let the request go on, and wait for no other; with ``drop`` the request is lost on the way."""
        self.wanted, self._dropped = {}, drop
        for wire, rule in self._rules.items():
            wire.remove([rule])
        if self._freed is not None:
            wire, event = self._freed
            with contextlib.suppress(RuntimeError):  # the loop has ended, and the request with it
                wire.loop.call_soon_threadsafe(event.set)

    def _matches(self, host: str) -> Callable[[ProxyRequest], bool]:
        def matches(request: ProxyRequest) -> bool:
            if self.caught is not None or request.operation != self._operation:
                return False
            return lock_in(request.path, self.wanted.get(host, frozenset())) != ""

        return matches

    def _catch(self, host: str, wire: Wire, aim: Aim) -> Action:
        async def ambush(exchange: Exchange) -> None:
            lock = lock_in(exchange.request.path, self.wanted.get(host, frozenset()))
            event = asyncio.Event()
            self._freed = wire, event
            self.caught = Victims((host,), lock, aim)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(event.wait(), HELD_BACK)
            if self._dropped:
                exchange.reset()
                return
            await wire.blobs.carry_out(exchange)

        return ambush


def lock_in(path: str, locks: frozenset[str]) -> str:
    """Return which of these blobs a request is about; "" for none.

    >>> lock_in("/account/webjobshost/locks/fleet/ship", frozenset({"locks/fleet/ship"}))
    'locks/fleet/ship'
    """
    parts = path.split("/")
    # The container comes first, after the account if that is in the path.
    return next((name for at in (3, 2) if (name := "/".join(parts[at:])) in locks), "")


class Aiming:
    """Looks for the victims of a fault, until some are found."""

    def __init__(self, fault: RealFault, field: Field, rng: random.Random) -> None:
        self.fault = fault
        self.aim: Aim = fault.aim
        self._field = field
        self._random = rng
        self._ambush = Ambush(REQUESTS[fault.aim]) if fault.aim in REQUESTS else None

    def look(self, spared: frozenset[str], room: int) -> Victims | None:
        """Return the victims of a strike now; None if the moment has not come.

        The hosts ``spared`` may not be struck, and ``room`` is the number of hosts that may be disabled.
        """
        able = [host for host in self._field.working() if host not in spared and self._is_meant(host)]
        if not able or (self.fault.disabling and room < 1):
            return None
        found = self._first(able)
        return None if found is None else self._with_others(found, able, room)

    def lower(self, aim: Aim) -> None:
        """Aim at something easier."""
        self.end()
        self.aim, self._ambush = aim, None

    def end(self, *, drop: bool = False) -> None:
        """Look no more; a request that was held back goes on, or is dropped."""
        if self._ambush is not None:
            self._ambush.end(drop=drop)

    def _first(self, able: list[str]) -> Victims | None:
        if self._ambush is not None:
            if self._ambush.caught is None:
                self._ambush.spread(self._field.wires, self._wanted(able), self.aim)
            return self._ambush.caught
        if self.aim == "holder":
            held = [each for each in self._field.holdings() if each.host in able and self._is_about(each.lock)]
            if not held:
                return None
            best = self._random.choice(held[:3])
            return Victims((best.host,), best.lock, "holder")
        return Victims((self._random.choice(able),), "", "anybody")

    def _wanted(self, able: list[str]) -> dict[str, frozenset[str]]:
        """Return for each host the locks about which its request is waited for."""
        if self.aim != "waiters":
            locks = frozenset(lock for lock in self._field.locks() if self._is_about(lock))
            return dict.fromkeys(able, locks)
        wanting = [each for each in self._field.wantings() if self._is_about(each.lock)]
        hosts = Counter(lock for lock, _ in {(each.lock, each.host) for each in wanting})
        crowded = [each for each in wanting if hosts[each.lock] > 1]
        crowded = [each for each in crowded if each.free_at is not None] or crowded
        return {host: frozenset(each.lock for each in crowded if each.host == host) for host in able}

    def _with_others(self, found: Victims, able: list[str], room: int) -> Victims:
        if self.fault.everybody:
            return Victims(tuple(self._field.working()), found.lock, found.aim)
        more = min(self.fault.number, room if self.fault.disabling else len(able)) - 1
        rest = [host for host in able if host not in found.hosts]
        others = self._random.sample(rest, max(min(more, len(rest)), 0))
        return Victims((*found.hosts, *sorted(others)), found.lock, found.aim)

    def _is_meant(self, host: str) -> bool:
        return not self.fault.host or self.fault.host in {host, lane_of(host)}

    def _is_about(self, lock: str) -> bool:
        return not self.fault.lock or lock == self.fault.lock or lock.endswith(f"/{self.fault.lock}")


def lane_of(host: str) -> str:
    """Return the first name of a host that was started again.

    >>> lane_of("host-3.2"), lane_of("host-3")
    ('host-3', 'host-3')
    """
    return host.partition(".")[0]
