"""The requests that a pilot sends through stores: how long each took, what throttled them, what came last."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections import defaultdict
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar

from simulator.checks.findings import count, note
from simulator.checks.reports import CheckResult
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from simulator.pilot.pilot_time import PilotTime

StoreWay: TypeAlias = Literal["direct", "sdk"]
WAYS: Final[tuple[StoreWay, ...]] = ("direct", "sdk")
_StoreT = TypeVar("_StoreT")

LAST: ContextVar[list[tuple[str, StoreFailure | None]]] = ContextVar("LAST")
"""The requests of the running task: the operation, and its failure."""
_THROTTLED: Final = (429, 503)


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """How long the requests of an operation took by one way, in milliseconds."""

    way: StoreWay
    operation: str
    requests: int
    median: float
    p95: float
    longest: float


class PilotRequests:
    """Counts and times the requests of the stores that it watches."""

    def __init__(self, time: PilotTime) -> None:
        """Begin to count; ``time`` is told of each answer."""
        self._time = time
        self._took: defaultdict[tuple[StoreWay, str], list[float]] = defaultdict(list)
        self._throttled: list[StoreFailure] = []
        self.requests = 0
        self.timing = True
        """Whether requests are sent one at a time, so that their times are latencies."""

    def watch(self, store: _StoreT, way: StoreWay) -> _StoreT:
        """Return the store, with each of its requests timed."""
        for name, method in inspect.getmembers(type(store), inspect.iscoroutinefunction):
            if not name.startswith("_") and name != "aclose":
                setattr(store, name, functools.partial(self._timed, way, name, functools.partial(method, store)))
        return store

    async def _timed(
        self, way: StoreWay, name: str, send: Callable[..., Awaitable[Any]], *asked: Any, **more: Any
    ) -> Any:
        clock, failed, answered = asyncio.get_running_loop().time, None, False
        began = clock()
        self._time.asked()
        try:
            result = await send(*asked, **more)
            answered = True
            return result
        except StoreFailure as failure:
            failed, answered = failure, failure.status is not None
            if failure.status in _THROTTLED:
                self._throttled.append(failure)
            raise
        finally:
            self.requests += 1
            self._time.heard(answered=answered)
            if self.timing and answered and failed is None:
                self._took[way, name.rstrip("_")].append(clock() - began)
            LAST.get([]).append((name.rstrip("_"), failed))

    def latencies(self) -> list[Latency]:
        """Return the times by way and operation."""
        rows = []
        for (way, operation), took in sorted(self._took.items()):
            took.sort()
            median, p95 = (took[min(int(len(took) * share), len(took) - 1)] for share in (0.5, 0.95))
            numbers = {"median": median, "p95": p95, "longest": took[-1]}
            milliseconds = {name: round(seconds * 1000, 1) for name, seconds in numbers.items()}
            rows.append(Latency(way=way, operation=operation, requests=len(took), **milliseconds))
        return rows

    def throttling(self) -> CheckResult:
        """Say how the service has throttled."""
        findings = []
        if self._throttled:
            codes = sorted({str(failure.code or failure.status) for failure in self._throttled})
            asked = [failure.retry_after for failure in self._throttled if failure.retry_after is not None]
            wait = f", for up to {max(asked):g} s" if asked else ""
            many = count(len(self._throttled), "request")
            findings.append(note(f"{many} throttled ({', '.join(codes)}); {len(asked)} were asked to wait{wait}"))
        promise = "Locks obey Retry-After when the service throttles, and ask again."
        return CheckResult(
            name="throttling", promise=promise, looked_at={"requests": self.requests}, findings=tuple(findings)
        )
