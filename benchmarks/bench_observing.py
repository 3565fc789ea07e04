"""What does it cost to be observed? The five events of an invocation, told to nobody, to ``observe()``, and to an SDK.

Beside it, what the first call of ``observe()`` costs, which imports OpenTelemetry's API, and what a request costs that
is counted.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Final

from benchmarks.measuring import heading, machine, say, table
from singleton import observe
from singleton.base.events import Call, tell
from singleton.base.hold import Hold
from singleton.stores.request_count import counted
from singleton.testing.storage.memory_store import MemoryLeaseStore

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from opentelemetry.sdk.trace import ReadableSpan

_ROUNDS: Final = 30
_IN_A_ROUND: Final = 500
_FIRST: Final = """
import singleton, time
began = time.process_time()
singleton.observe()
print(time.process_time() - began)
"""


def _invocation() -> None:
    call, hold = Call("locks/app/ship.7", "ship", "inv-1"), Hold("locks/app/ship.7", owner="inv-1", token=1)
    tell("waiting", call)
    tell("acquired", call, hold)
    tell("body_started", call, hold)
    tell("body_ended", call, hold, "ok")
    tell("released", call, hold)


def _microseconds(work: Callable[[], object]) -> float:
    """Return the median of some rounds."""
    rounds = []
    for _ in range(_ROUNDS):
        began = time.process_time()
        for _ in range(_IN_A_ROUND):
            work()
        rounds.append((time.process_time() - began) / _IN_A_ROUND * 1e6)
    return statistics.median(rounds)


def _told() -> list[tuple[str, float]]:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

    class Nowhere(SpanExporter):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            return SpanExportResult.SUCCESS if spans else SpanExportResult.FAILURE

    rows = [("observed by nobody", _microseconds(_invocation))]
    end = observe()
    rows.append(("observe(), no SDK set up", _microseconds(_invocation)))
    end()
    meters, tracers = MeterProvider([InMemoryMetricReader()]), TracerProvider()
    end = observe(meter_provider=meters)
    rows.append(("observe(), metrics of the SDK", _microseconds(_invocation)))
    end()
    tracers.add_span_processor(BatchSpanProcessor(Nowhere()))
    end = observe(meter_provider=meters, tracer_provider=tracers)
    rows.append(("observe(), metrics and two spans of the SDK", _microseconds(_invocation)))
    end()
    tracers.shutdown()
    return rows


def _requests() -> list[tuple[str, float]]:
    async def reading(store: MemoryLeaseStore) -> float:
        await store.create("a")
        rounds = []
        for _ in range(_ROUNDS):
            began = time.process_time()
            for _ in range(_IN_A_ROUND):
                await store.read("a")
            rounds.append((time.process_time() - began) / _IN_A_ROUND * 1e6)
        return statistics.median(rounds)

    bare = asyncio.run(reading(counted(MemoryLeaseStore(), "blob")))
    end = observe()
    more = asyncio.run(reading(counted(MemoryLeaseStore(), "blob"))) - bare
    end()
    return [("a request more, counted", more)]


def main() -> None:
    """Measure, and show."""
    heading("What it costs to be observed")
    say(machine())
    first = min(
        float(subprocess.run([sys.executable, "-c", _FIRST], capture_output=True, text=True, check=True).stdout)
        for _ in range(5)
    )
    rows = [("the five events of an invocation", "CPU")]
    rows += [(name, f"{cost:.1f} µs") for name, cost in [*_told(), *_requests()]]
    rows.append(("the first observe() of a process", f"{first * 1e3:.0f} ms"))
    table(rows)


if __name__ == "__main__":
    main()
