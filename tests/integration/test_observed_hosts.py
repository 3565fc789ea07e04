"""Metrics of real hosts, exported by each of their workers into a file, against the journals: what really happened."""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from tests.integration.hosts import Queue, RunningHost, wait_until, write_app

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

APP = """
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult, PeriodicExportingMetricReader

class ToFile(MetricExporter):
    def export(self, metrics_data, timeout_millis=10_000, **_):
        with Path(f"{os.environ['EXPORTS_AS']}-{os.getpid()}.metrics").open("a") as file:
            file.write(json.dumps(json.loads(metrics_data.to_json())) + "\\n")
        return MetricExportResult.SUCCESS
    def force_flush(self, timeout_millis=10_000):
        return True
    def shutdown(self, timeout_millis=30_000, **_):
        pass

metrics.set_meter_provider(MeterProvider([PeriodicExportingMetricReader(ToFile(), export_interval_millis=300)]))

@app.queue_trigger(arg_name="msg", queue_name="%QUEUE%-waits", connection="AzureWebJobsStorage")
@singleton(scope="Id")
def waits(msg: func.QueueMessage) -> None:
    time.sleep(0.05)

@app.queue_trigger(arg_name="msg", queue_name="%QUEUE%-skips", connection="AzureWebJobsStorage")
@singleton(scope="Id", on_contention="skip")
async def skips(msg: func.QueueMessage) -> None:
    await asyncio.sleep(0.1)
"""
SECONDS = ("wait", "hold")


def started(app: Path, storage: str, folder: Path, queue: str, count: int, stack: ExitStack) -> list[RunningHost]:
    found = []
    for number in range(1, count + 1):
        name = f"host-{number}"
        environment = {"QUEUE": queue, "EXPORTS_AS": name}
        host = RunningHost(app, storage, folder, name=name, environment=environment)
        stack.callback(host.close)
        found.append(host.start())
    for host in found:
        host.wait_for("host_ready")
    return found


def exports(app: Path, host: RunningHost) -> Iterator[list[dict[str, Any]]]:
    """Yield what each worker of a host has exported, oldest first; a line that a kill cut off is none."""
    for file in app.glob(f"{host.name}-*.metrics"):
        yield [json.loads(line) for line in file.read_text().splitlines(keepends=True) if line.endswith("\n")]


def points(export: dict[str, Any], name: str) -> list[dict[str, Any]]:
    metrics = [
        metric
        for resource in export["resource_metrics"]
        for scope in resource["scope_metrics"]
        for metric in scope["metrics"]
    ]
    return [point for metric in metrics if metric["name"] == name for point in metric["data"]["data_points"]]


def exported(app: Path, running: list[RunningHost]) -> Counter[tuple[str, ...]]:
    """Count what the last exports say, and add up its seconds, by function and outcome."""
    totals: Counter[tuple[str, ...]] = Counter()
    for host in running:
        for last in [each[-1] for each in exports(app, host) if each]:
            for name in ("acquired", "contended", "lost"):
                for point in points(last, f"singleton.lock.{name}"):
                    totals[name, point["attributes"]["singleton.function"]] += point["value"]
            for point in points(last, "singleton.processing.count"):
                about = point["attributes"]
                totals["body", about["singleton.function"], about["singleton.outcome"]] += point["value"]
            for name in SECONDS:
                for point in points(last, f"singleton.lock.{name}"):
                    key = (name, point["attributes"]["singleton.function"])
                    totals[*key, "count"] += point["count"]
                    totals[*key, "ms"] += round(point["sum"] * 1000)
    return totals


def journalled(running: list[RunningHost], until: float = float("inf")) -> Counter[tuple[str, ...]]:
    """Count the same from the journals, as far as it happened before ``until``."""
    totals: Counter[tuple[str, ...]] = Counter()
    for host in running:
        for record in host.records("lock"):
            if record.get("at") >= until:
                continue
            kind, function = record.text("kind"), record.text("function")
            if kind in ("acquired", "contended", "lost"):
                totals[kind, function] += 1
            if kind == "body_ended":
                totals["body", function, record.text("reason")] += 1
            for name, field in (("wait", "waited"), ("hold", "held")):
                if (seconds := record.get(field)) is not None:
                    totals[name, function, "count"] += 1
                    totals[name, function, "ms"] += round(seconds * 1000)
    return totals


def same(one: Counter[tuple[str, ...]], other: Counter[tuple[str, ...]]) -> bool:
    """Tell whether all counts are equal, and all seconds but for their rounding."""
    keys = one.keys() | other.keys()
    return all(abs(one[key] - other[key]) <= (100 if key[-1] == "ms" else 0) for key in keys)


def test_the_metrics_of_a_storm_are_what_the_journals_say(
    tmp_path: Path, connection_string: str, container_name: str
) -> None:
    app = write_app(tmp_path / "app", APP, telemetryMode="OpenTelemetry")
    queue = container_name[:20]
    with ExitStack() as stack:
        queues = {name: stack.enter_context(Queue(connection_string, f"{queue}-{name}")) for name in ("waits", "skips")}
        for each in queues.values():
            each.create()
        running = started(app, connection_string, tmp_path, queue, 3, stack)
        for name, each in queues.items():
            each.send(*({"Id": f"{name}-{number % 3}"} for number in range(40)))

        def done() -> bool:
            return sum(len(host.records("message_completed")) for host in running) == 80

        wait_until(done, within=120)
        wait_until(lambda: same(exported(app, running), journalled(running)), within=60)
        truth = journalled(running)
        assert truth["acquired", "waits"] == truth["body", "waits", "ok"] >= 40
        assert truth["acquired", "skips"] + truth["contended", "skips"] >= 40
        assert truth["contended", "skips"] > 0
        assert sum(host.stop() for host in running) == 0
        assert same(exported(app, running), journalled(running)), "their end adds nothing"


def test_requests_are_those_that_went_over_the_network(
    tmp_path: Path, connection_string: str, container_name: str
) -> None:
    app = write_app(tmp_path / "app", APP, telemetryMode="OpenTelemetry")
    queue = container_name[:20]
    with ExitStack() as stack:
        waits = stack.enter_context(Queue(connection_string, f"{queue}-waits")).create()
        (host,) = started(app, connection_string, tmp_path, queue, 1, stack)
        waits.send(*({"Id": str(number % 2)} for number in range(10)))
        host.wait_for("message_completed", count=10)

        def sent() -> Counter[str]:
            asked = host.records("lease_request", action="acquire")
            return Counter("ok" if record.get("status") == 201 else record.text("status") for record in asked)

        def counted() -> Counter[str]:
            found: Counter[str] = Counter()
            for last in [each[-1] for each in exports(app, host) if each]:
                for point in points(last, "singleton.storage.requests"):
                    if point["attributes"]["singleton.operation"] == "blob.acquire":
                        found[point["attributes"]["singleton.status"]] += point["value"]
            return found

        assert sent()["ok"] >= 2
        assert sent()["404"] >= 1, "the first lock was not there yet"
        wait_until(lambda: sent() == counted(), within=60)


def test_a_killed_host_lacks_at_most_its_last_export(
    tmp_path: Path, connection_string: str, container_name: str
) -> None:
    app = write_app(tmp_path / "app", APP, telemetryMode="OpenTelemetry")
    queue = container_name[:20]
    with ExitStack() as stack:
        waits = stack.enter_context(Queue(connection_string, f"{queue}-waits")).create()
        (host,) = started(app, connection_string, tmp_path, queue, 1, stack)
        waits.send(*({"Id": str(number)} for number in range(60)))
        wait_until(lambda: exported(app, [host])["acquired", "waits"] >= 5, within=60)
        host.signal(signal.SIGKILL)
        killed = time.time()
        host.running.wait()
        last = max(
            point["time_unix_nano"] / 1e9
            for each in exports(app, host)
            for point in points(each[-1], "singleton.lock.acquired")
        )
        assert killed - last < 60.0, "it is exported every 0.3 s, on a machine with time for it"
        known, before, after = exported(app, [host]), journalled([host], last - 1.5), journalled([host], last + 1.5)
        for key in after:
            assert before[key] <= known[key] <= after[key] + (100 if key[-1] == "ms" else 0), key
