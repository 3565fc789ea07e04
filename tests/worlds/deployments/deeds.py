"""The bodies of deployed functions: a job, and what it returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simulator.virtual.hosts.jobs import Job


@dataclass(slots=True)
class Deed:
    """What one invocation's body does and returns; it notes how often it has begun."""

    job: Job
    gives: Any
    begun: int = field(default=0, init=False)


async def deed(msg: str, job: Deed) -> Any:
    """Do it."""
    job.begun += 1
    await job.job.run()
    return job.gives


def deed_sync(msg: str, job: Deed) -> Any:
    """Do it on a thread."""
    job.begun += 1
    job.job.run_sync()
    return job.gives
