"""A caller that waits for a lock in the line of this process."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from singleton.base.naming import current
from singleton.base.timespan import format_timespan

if TYPE_CHECKING:
    from singleton.base.errors import SingletonError
    from singleton.base.naming import Invocation
    from singleton.locking.section import Section


@dataclass(slots=True, eq=False)
class Waiter:
    """Somebody in line. ``once``: it asks once, instead of waiting."""

    owner: str
    since: float
    deadline: float
    once: bool
    granted: asyncio.Future[None]
    whose: Invocation | None = field(default_factory=current)
    """In whose name what happens to it is logged."""
    hold: Section | None = None
    """What was granted, until the caller takes it: from then on nobody here may keep it alive (M-37)."""

    @property
    def within(self) -> str:
        """Its time-out, as WebJobs writes it: ``within 0:00:05`` (W-65)."""
        return "at once" if self.once else f"within {format_timespan(self.deadline - self.since)}"

    def give(self, hold: Section) -> None:
        """End the wait with this hold."""
        hold.waited = asyncio.get_running_loop().time() - self.since
        self.hold = hold
        self.granted.set_result(None)

    def take(self) -> Section:
        """Return the hold that was granted, once."""
        hold, self.hold = self.hold, None
        assert hold is not None
        return hold

    def refuse(self, error: SingletonError) -> None:
        """End the wait with an error of its own, unless it has ended."""
        if not self.granted.done():
            self.granted.set_exception(error.another(self.owner))
