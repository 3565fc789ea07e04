"""Apps with real ``@singleton`` guards in several real host processes: what the simulator is for."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from tests.integration.hosts import Queue, RunningHost, hosts, seen, wait_until, write_app

if TYPE_CHECKING:
    from pathlib import Path

    from simulator.history.journal import Record


def locks(running: list[RunningHost], kind: str) -> list[Record]:
    return [record for host in running for record in host.records("lock", kind=kind)]


def sections(running: list[RunningHost]) -> dict[str, list[tuple[float, float]]]:
    """Return by lock when each guarded body began and ended."""
    found: dict[str, list[tuple[float, float]]] = {}
    for host in running:
        starts = {record.text("owner"): record for record in host.records("lock", kind="body_started")}
        for end in host.records("lock", kind="body_ended"):
            found.setdefault(end.text("lock"), []).append((starts[end.text("owner")].t, end.t))
    return {lock: sorted(spans) for lock, spans in found.items()}


def overlaps(spans: list[tuple[float, float]]) -> int:
    return sum(later[0] < earlier[1] for earlier, later in pairwise(spans))


BLUEPRINT = """
import azure.functions as func
from singleton import singleton
import asyncio

blueprint = func.Blueprint()

@singleton(scope_id="{Region}", level="host")
@blueprint.queue_trigger(arg_name="msg", queue_name="%QUEUE%-c", connection="AzureWebJobsStorage")
async def by_region(msg: func.QueueMessage) -> None:
    await asyncio.sleep(0.2)
"""


def test_guarded_functions_of_all_shapes_exclude_one_another_across_hosts(
    tmp_path: Path, connection_string: str, container_name: str
) -> None:
    code = """
    from shapes import blueprint
    app.register_functions(blueprint)

    @app.queue_trigger(arg_name="msg", queue_name="%QUEUE%-a", connection="AzureWebJobsStorage")
    @singleton(scope="Order:Customer:Id")
    def nested(msg: func.QueueMessage) -> None:
        time.sleep(0.2)
        seen("nested", current_hold().token)

    @singleton(scope="Id")
    @app.function_name("Renamed")
    @app.queue_trigger(arg_name="msg", queue_name="%QUEUE%-b", connection="AzureWebJobsStorage")
    async def above(msg: str, context) -> None:
        await asyncio.sleep(0.2)
        seen("above", context.function_name)

    @app.timer_trigger(arg_name="timer", schedule="0 0 0 * * *", use_monitor=False)
    @singleton(on_contention="skip")
    async def tick(timer: func.TimerRequest) -> None:
        await asyncio.sleep(0.3)
    """
    app = write_app(tmp_path / "app", code)
    (app / "shapes.py").write_text(BLUEPRINT)
    environment = {"QUEUE": container_name}
    bodies: dict[str, list[dict[str, Any]]] = {
        "a": [{"Order": {"Customer": {"Id": key}}} for key in "xxxxyy"],
        "b": [{"Id": key} for key in "xxxxyy"],
        "c": [{"Region": key} for key in "xxxxyy"],
    }
    with hosts(app, connection_string, tmp_path, count=3, environment=environment) as running:
        for suffix, sent in bodies.items():
            with Queue(connection_string, f"{container_name}-{suffix}") as queue:
                queue.create().send(*sent)
        wait_until(lambda: sum(len(host.records("message_completed")) for host in running) == 18)
        wait_until(lambda: any(host.records("tick", function="tick") for host in running))
        assert [host.stop() for host in running] == [0, 0, 0]

        spans = sections(running)
        prefix = f"locks/{tmp_path.name.replace('_', '-')[-30:].strip('-').lower()}/"
        named = {lock.removeprefix(prefix): len(found) for lock, found in spans.items() if not lock.endswith("/tick")}
        assert named == {"nested.x": 4, "nested.y": 2, "Renamed.x": 4, "Renamed.y": 2, "~x": 4, "~y": 2}
        assert {lock: overlaps(found) for lock, found in spans.items()} == dict.fromkeys(spans, 0)
        assert {row[1] for row in seen(app) if row[0] == "above"} == {"Renamed"}
        tokens = [row[1] for row in seen(app) if row[0] == "nested"]
        assert len(tokens) == 6
        owners = {record.get("invocation") for host in running for record in host.records("invocation_started")}
        assert {record.get("owner") for record in locks(running, "body_started")} <= owners


def test_without_the_locks_the_bodies_overlap_and_say_so(
    tmp_path: Path, connection_string: str, container_name: str
) -> None:
    code = f"""
    @app.queue_trigger(arg_name="msg", queue_name="{container_name}", connection="AzureWebJobsStorage")
    @singleton(scope="Id")
    async def ship(msg: func.QueueMessage) -> None:
        await asyncio.sleep(0.5)
    """
    app = write_app(tmp_path / "app", code)
    with (
        hosts(app, connection_string, tmp_path, singleton=False) as running,
        Queue(connection_string, container_name) as queue,
    ):
        queue.create().send(*[{"Id": 1}] * 4)
        running[0].wait_for("message_completed", count=4)
        assert not locks(running, "acquired")
        (spans,) = sections(running).values()
        assert overlaps(spans) > 0


def test_a_scope_that_is_not_there_fails_the_invocation_and_loses_no_message(
    tmp_path: Path, connection_string: str, container_name: str
) -> None:
    code = f"""
    @app.queue_trigger(arg_name="msg", queue_name="{container_name}", connection="AzureWebJobsStorage")
    @singleton(scope="Id")
    def ship(msg: func.QueueMessage) -> None:
        seen("ran")
    """
    app = write_app(tmp_path / "app", code)
    with hosts(app, connection_string, tmp_path) as (host,), Queue(connection_string, container_name) as queue:
        queue.create().send({"Other": 1}, "no json", "", "null")
        host.wait_for("message_poisoned", count=4)
        errors = {record.text("error").partition(":")[0] for record in host.records("invocation_ended")}
        assert errors == {"ScopeError"}
        with Queue(connection_string, f"{container_name}-poison") as poison:
            assert poison.length() == 4
    assert seen(app) == []


def test_a_guard_that_no_function_carries_is_told_as_a_helpers(tmp_path: Path, connection_string: str) -> None:
    code = """
    @singleton
    def helper() -> None: ...

    @app.timer_trigger(arg_name="timer", schedule="0 0 0 * * *", use_monitor=False)
    def tick(timer: func.TimerRequest) -> None: ...
    """
    app = write_app(tmp_path / "app", code)
    with hosts(app, connection_string, tmp_path) as (host,):
        assert [guard.text("name") for guard in host.records("guard")] == ["helper"]
        assert host.records("note") == []
