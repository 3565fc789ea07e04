"""The faults of hosts: killed, stopped for a while, drained. What ended is started again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from simulator.nemesis.fault import Aim, Done, Fault, Mark, Ongoing

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping

    from simulator.nemesis.field import Field, Tell


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill(Fault, kind="kill"):
    """SIGKILL: nothing of the process runs again."""

    about: ClassVar[str] = "a host gets SIGKILL, and is started again"
    aims: ClassVar[tuple[Aim, ...]] = ("holder", "holder", "renewal", "release", "waiters", "anybody")
    lasts: ClassVar[bool] = False
    stops: ClassVar[bool] = True

    def begin(self, field: Field, mark: Mark, tell: Tell) -> Ongoing | None:
        return Done() if field.kill(mark.hosts[0], tell, holding=mark.aim == "holder") else None

    def words(self, mark: Mark, seconds: float | None) -> str:  # noqa: ARG002 - an instant
        return f"{mark.who} is killed{mark.moment}"


class Standing:
    """A host that stands still."""

    hits = 0

    def __init__(self, field: Field, host: str) -> None:
        self._field = field
        self._host = host

    def is_over(self) -> bool:
        """Tell whether it goes on already."""
        return not self._field.stands(self._host)

    def end(self) -> None:
        """Let it go on."""
        self._field.wake(self._host)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause(Fault, kind="pause"):
    """SIGSTOP: a long pause of the garbage collector, a frozen machine."""

    about: ClassVar[str] = "a host stands still (SIGSTOP), often for longer than its lease, and goes on"
    aims: ClassVar[tuple[Aim, ...]] = ("holder", "holder", "renewal", "release", "waiters", "anybody")
    stops: ClassVar[bool] = True

    @classmethod
    def details(cls, rng: random.Random) -> Mapping[str, Any]:
        return {"leases": rng.choice((0.4, 1.2, 1.4, 1.6))}

    def begin(self, field: Field, mark: Mark, tell: Tell) -> Ongoing | None:
        host, seconds = mark.hosts[0], self.length(field) or 0.0
        paused = field.pause(host, seconds, tell, holding=mark.aim == "holder")
        return Standing(field, host) if paused else None

    def words(self, mark: Mark, seconds: float | None) -> str:
        return f"{mark.who} stands still for {seconds:g} s{mark.moment}"


class Draining:
    """A host that was asked to end."""

    hits = 0

    def __init__(self, field: Field, host: str) -> None:
        self._field = field
        self._host = host

    def is_over(self) -> bool:
        """Tell whether it has ended."""
        return self._field.is_gone(self._host)

    def end(self) -> None:
        """Do nothing: it can't be asked back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain(Fault, kind="drain"):
    """SIGTERM, as when the platform takes an instance away: its bodies get some seconds to end."""

    about: ClassVar[str] = "a host is told to end (SIGTERM), as at a scale-in, and is started again"
    aims: ClassVar[tuple[Aim, ...]] = ("holder", "renewal", "release", "anybody")
    lasts: ClassVar[bool] = False

    def begin(self, field: Field, mark: Mark, tell: Tell) -> Ongoing | None:
        return Draining(field, mark.hosts[0]) if field.drain(mark.hosts[0], tell) else None

    def words(self, mark: Mark, seconds: float | None) -> str:  # noqa: ARG002 - it ends when the host has ended
        return f"{mark.who} is told to end, as at a scale-in{mark.moment}"
