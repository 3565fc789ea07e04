"""What a pilot does in the time that it has, what it leaves out, and what that costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from simulator.checks.findings import count
from simulator.pilot.both_ways import LASTS
from simulator.pilot.idle import MARGIN, MINUTES
from simulator.work.scenario import ScenarioError

LEAST: Final = 10.0
MOST: Final = 4 * 3600.0
LEASES: Final = 20.0
"""Seconds that the ends of leases take."""
AROUND: Final = 60.0
"""Seconds that a storm takes beside its work: the start of the hosts, and the end of the last lease."""
SHORTEST: Final = 20.0
LONGEST: Final = 600.0
"""Seconds of work of a storm."""
PRICE: Final = 0.055
"""Dollars for 10,000 writes, as in docs/performance.md. Each request is counted as a write."""
QUICK: Final = 2200
SLOW: Final = 1500
A_SECOND: Final = 60
"""Requests, as counted on an emulator: of the short parts, of the ends of leases, and of each second of a storm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotPlan:
    """What a pilot does in ``seconds``. ``storm``: seconds of work of the storm; 0: none."""

    seconds: float

    def __post_init__(self) -> None:
        """Check the time. ``ScenarioError``: it is out of range."""
        if not LEAST <= self.seconds <= MOST:
            raise ScenarioError(f"--for {self.seconds:g}: give a time from {LEAST:g} seconds to 4 hours, such as 20m")

    @property
    def slow(self) -> bool:
        """Whether there is time for leases to end."""
        return self.seconds >= LEASES

    @property
    def timed(self) -> bool:
        """Whether there is time for histories in which leases end."""
        return self.seconds >= LASTS + LEASES

    @property
    def idle(self) -> tuple[float, ...]:
        """For how many minutes connections are idle."""
        return tuple(each for each in MINUTES if each * 60 + MARGIN <= self.seconds)

    @property
    def storm(self) -> float:
        """Seconds of work of the storm; 0: there is no storm."""
        left = self.seconds - AROUND - (LASTS if self.timed else LEASES)
        return min(left, LONGEST) if left >= SHORTEST else 0.0

    @property
    def requests(self) -> int:
        """About how many requests the pilot sends."""
        return round(QUICK + SLOW * self.timed + A_SECOND * (self.storm + AROUND * (self.storm > 0)))

    def left_out(self) -> list[str]:
        """Return what does not fit into the time."""
        left = [] if self.slow else [f"the ends of leases, which take {LEASES:.0f} s"]
        timed, storm = LASTS + LEASES, AROUND + LASTS + SHORTEST
        left += [] if self.timed else [f"random histories in which leases end, for which {timed:.0f} s are needed"]
        left += [f"a connection that is idle for {each:g} minutes" for each in MINUTES if each not in self.idle]
        return left if self.storm else [*left, f"the storm of processes, for which {storm:.0f} s are needed"]

    def words(self, container: str) -> list[str]:
        """Say what the pilot does, makes and costs."""
        does = ["It tries what locks assume about the service, with the Azure SDK and without, and measures latencies."]
        if self.idle:
            does.append(f"It keeps connections idle for {' and '.join(f'{each:g}' for each in self.idle)} minutes.")
        if self.storm:
            does.append(f"It runs 5 fake hosts for {self.storm:.0f} s with locks there, and kills and pauses some.")
        does += [f"Left out: {each}." for each in self.left_out()]
        dollars = f"{self.requests / 10_000 * PRICE:.2f} dollars"
        return [
            f"This makes the container {container} in the account, and deletes it at the end. Nothing else is touched.",
            *does,
            f"That is about {count(self.requests, 'request')}, or {dollars} at {PRICE} dollars for 10,000 writes.",
            "Prices differ by region and tier; versions and soft delete add to it.",
            "If the process is killed, the container stays: the next pilot offers to delete it, some hours later.",
        ]
