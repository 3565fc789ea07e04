"""Check that waiting messages of an inbox are always fetched.

left without a bell    a key has had messages for a while without a bell, a consumer, or trouble
stands still           a message that has failed is not tried again for minutes, whatever clocks show
not gone on with       the consumer of a key is dead, and nobody goes on with it
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from simulator.virtual.worlds.world import Judge
from singleton.base.errors import ConfigurationError
from singleton.patterns.ordered.bells import bell_in

if TYPE_CHECKING:
    from simulator.virtual.hosts.queue_service import Queues
    from simulator.virtual.storage.service import Tenure
    from simulator.virtual.time.machine import Machine
    from tests.worlds.inboxes.postbook import Postbook

_BARE: Final = 5.0
"""Seconds after which a key with messages has a bell or a consumer, without faults."""
_GOES_ON: Final = 24.0
"""Seconds after the end of a dead consumer's lease in which another comes: a delayed bell, and a poll."""
_TROUBLE: Final = 60.0
_STANDS: Final = 180.0
"""Seconds after a failure in which the message is tried again: a pause of a minute, and what comes before."""


@dataclass(slots=True)
class BellWatch(Judge):
    """Checks every second."""

    book: Postbook
    queues: Queues
    queue: str
    _since: dict[str, float] = field(default_factory=dict)
    """Since when each key has had a log with messages."""
    _failed: dict[str, tuple[object, float]] = field(default_factory=dict)
    """How far the attempts at the first message of each key have come, and since when."""
    _bare: dict[str, float] = field(default_factory=dict)
    _gone: dict[Machine, float] = field(default_factory=dict)
    _orphans: dict[str, tuple[float, Machine]] = field(default_factory=dict)
    """When the lease of each key's dead consumer ended, and who that was."""

    def look(self) -> None:
        """Check the current state."""
        now, names, service = self.world.loop.now, self.book.names, self.world.service
        for machine in self.world.machines:
            if machine.leaving:
                self._gone.setdefault(machine, now)
        # A request to make a log that arrives a second time, after the log was deleted, leaves an empty log.
        logs = {spot for spot in self.book.with_logs() if service.content(names.log(spot))}
        rung = self._rung()
        for spot in [spot for spot in self._since if spot not in logs]:
            for known in (self._since, self._bare, self._orphans, self._failed):
                known.pop(spot, None)
        for spot in sorted(logs):
            self._since.setdefault(spot, now)
            is_visited = service.tenure(names.lock(spot)) is not None
            if is_visited:
                self._orphans.pop(spot, None)
                self.book.silenced.discard(spot)
            if is_visited or spot in rung or spot in self.book.silenced or self.book.keys[spot].kept.stopped:
                self._bare.pop(spot, None)
            else:
                self._bare.setdefault(spot, now)
            self._must_be_well(spot, now)

    def _must_be_well(self, spot: str, now: float) -> None:
        since, kept = self._since[spot], self.book.keys[spot].kept
        if now - self._bare.get(spot, now) > _BARE and self._is_calm(now - since + _BARE):
            self._blame("left without a bell", f"{spot} has had messages for {now - since:.0f} s, and no bell")
        tried = self.book.keys[spot].tried, kept.until
        if spot not in self._failed or self._failed[spot][0] != tried:
            self._failed[spot] = tried, now
        stood = now - self._failed[spot][1]
        if kept.failures and not kept.stopped and stood > _STANDS and self._is_calm(stood):
            self._blame("stands still", f"a message of {spot} has failed, and is not tried again for {stood:.0f} s")
        if spot not in self._orphans or kept.stopped or kept.failures:
            return
        ended, dead = self._orphans[spot]
        if now - ended > _GOES_ON and self._is_calm(now - ended + _TROUBLE, dead):
            self._blame("not gone on with", f"{dead.name}, the consumer of {spot}, is dead since {now - ended:.0f} s")

    def ended(self, tenure: Tenure) -> None:
        """Take the end of a lease."""
        machine, names = tenure.machine, self.book.names
        if (
            tenure.ending != "expired"
            or machine is None
            or not machine.crashed
            or not tenure.lock.startswith(names.locks)
        ):
            return
        spot = tenure.lock.removeprefix(names.locks)
        began = any(body.hold.lease_id == tenure.lease_id for body in self.world.oracle.bodies(tenure.lock))
        if began and not self.world.oracle.conduct.troubled(machine, _TROUBLE):
            self.world.oracle.reached["consumers that died"] += 1
            self._orphans[spot] = self.world.loop.now, machine

    def _is_calm(self, seconds: float, dead: Machine | None = None) -> bool:
        """Tell whether all other hosts of the last seconds are well."""
        now, conduct = self.world.loop.now, self.world.oracle.conduct
        there = [each for each in self.world.machines if now - self._gone.get(each, now) < seconds and each is not dead]
        return all(conduct.well(machine, seconds) and not machine.leaving for machine in there)

    def bells(self, lock: str) -> int:
        """Return how many bells there are for the key of a lock: each asks for it, at least a second apart."""
        return self._rung()[lock.removeprefix(self.book.names.locks)]

    def _rung(self) -> Counter[str]:
        """Return the keys with bells, and how many each has."""
        spots = Counter[str]()
        for text in self.queues.texts(self.queue):
            with suppress(ConfigurationError):
                spots[bell_in(text, self.book.names.inbox).spot] += 1
        return spots
