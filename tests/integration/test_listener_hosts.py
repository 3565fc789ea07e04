"""Listeners in several real host processes on a real emulator: W-90, W-91 (upstream skipped), W-106 and W-110."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from singleton import LockClient
from tests.integration.hosts import Queue, hosts, seen, wait_until, write_app

if TYPE_CHECKING:
    from pathlib import Path

SINGLETON = {
    "listenerLockPeriod": "00:00:15",
    "listenerLockRecoveryPollingInterval": "00:00:15",
    "deferDelay": "00:00:01",
}
LATE = 25.0
"""Seconds by which a busy machine may be late: less than two more recovery intervals."""
TIMER = """
@app.timer_trigger(arg_name="timer", schedule="0 0 0 * * *", use_monitor=False)
@singleton(mode="listener")
def tick(timer: func.TimerRequest) -> None:
    seen("tick", os.getpid(), current_hold().token)
"""
SHIP = """
@app.queue_trigger(arg_name="msg", queue_name="%QUEUE%", connection="AzureWebJobsStorage")
@singleton(mode="listener")
async def ship(msg: func.QueueMessage) -> None:
    await asyncio.sleep(0.3)
    seen("ship", os.getpid(), msg.dequeue_count, json.loads(msg.get_body())["Id"])
"""


def app_with(folder: Path, *functions: str) -> Path:
    return write_app(folder / "app", "".join(functions), singleton=SINGLETON)


def ran(app: Path, function: str) -> list[list[Any]]:
    return [row for row in seen(app) if row[0] == function]


def pids(app: Path, function: str) -> set[int]:
    return {row[1] for row in ran(app, function)}


def lock(folder: Path, function: str) -> str:
    return f"locks/{folder.name.replace('_', '-')[-30:].strip('-').lower()}/{function}~listener"


def holders(storage: str, *names: str) -> list[bool]:
    with LockClient(storage) as locks:
        return [locks.holder(name) is not None for name in names]


def test_of_three_hosts_started_together_one_listens_for_each_function_and_after_all_stop_the_leases_lapse(
    tmp_path: Path, connection_string: str, container_name: str
) -> None:
    app = app_with(tmp_path, TIMER, TIMER.replace("tick", "tock"))
    names = lock(tmp_path, "tick"), lock(tmp_path, "tock")
    with hosts(app, connection_string, tmp_path, count=3) as running:
        for host in running:
            host.wait_for("invocation_ended", count=3, function="tick")
            host.wait_for("invocation_ended", count=3, function="tock")
        assert holders(connection_string, *names) == [True, True]
        # A host kills its workers at its end: nothing is given back.
        assert [host.stop() for host in running] == [0, 0, 0]
        assert holders(connection_string, *names) == [True, True]
        for function in ("tick", "tock"):
            assert len(pids(app, function)) == 1
            skipped = [host for host in running if host.records("lock", kind="contended", function=function)]
            assert len(skipped) == 2
            errors = [record.text("error") for host in running for record in host.records("invocation_ended")]
            assert set(errors) == {""}
        assert len({row[2] for row in ran(app, "tick")}) == 1


@pytest.mark.slow
def test_messages_that_reach_the_other_hosts_are_handled_by_the_one_that_listens_unburnt(
    tmp_path: Path, connection_string: str, container_name: str
) -> None:
    app = app_with(tmp_path, SHIP)
    with (
        hosts(app, connection_string, tmp_path, count=3, environment={"QUEUE": container_name}) as running,
        Queue(connection_string, container_name) as queue,
    ):
        queue.create()
        for number in range(24):
            queue.send({"Id": number})
            time.sleep(0.05)
        wait_until(lambda: len(ran(app, "ship")) >= 24)
        wait_until(lambda: queue.length() == 0)
        assert [host.stop() for host in running] == [0, 0, 0]
        assert sorted(row[3] for row in ran(app, "ship")) == list(range(24))
        assert len(pids(app, "ship")) == 1
        assert {row[2] for row in ran(app, "ship")} == {1}
        put_back = [len(host.records("lock", kind="deferred")) for host in running]
        assert min(put_back) == 0
        assert sum(put_back) > 0
        assert not any(host.records("message_poisoned") for host in running)


@pytest.mark.slow
def test_a_message_that_always_fails_is_poison_after_as_many_failures_as_of_any_other(
    tmp_path: Path, connection_string: str, container_name: str
) -> None:
    app = app_with(tmp_path, SHIP + "    assert json.loads(msg.get_body())['Id'] != 'bad'\n")
    with (
        hosts(app, connection_string, tmp_path, count=3, environment={"QUEUE": container_name}) as running,
        Queue(connection_string, container_name) as queue,
        Queue(connection_string, f"{container_name}-poison") as poison,
    ):
        queue.create().send({"Id": "good"}, {"Id": "bad"}, {"Id": "fine"})
        wait_until(lambda: len(ran(app, "ship")) >= 7 and queue.length() == 0)
        assert [json.loads(body) for body in poison.bodies()] == [{"Id": "bad"}]
        assert [host.stop() for host in running] == [0, 0, 0]
    handled = [row[3] for row in ran(app, "ship")]
    assert (handled.count("bad"), handled.count("good"), handled.count("fine")) == (5, 1, 1)


def test_a_host_that_stops_lets_its_bodies_end_and_another_takes_over_when_the_lease_has_lapsed(
    tmp_path: Path, connection_string: str, container_name: str
) -> None:
    slow = SHIP.replace("0.3", "1.5")
    app = app_with(tmp_path, slow)
    with (
        hosts(app, connection_string, tmp_path, count=2, environment={"QUEUE": container_name}) as running,
        Queue(connection_string, container_name) as queue,
    ):
        queue.create().send({"Id": 0})
        wait_until(lambda: any(host.records("lock", kind="body_started") for host in running))
        (leader,) = [host for host in running if host.records("lock", kind="body_started")]
        (other,) = [host for host in running if host is not leader]
        assert leader.stop() == 0
        events = [record.text("kind") for record in leader.records("lock")]
        assert events[-1] == "body_ended"
        queue.send({"Id": 1})
        # The lease, and one recovery interval at the most.
        other.wait_for("lock", kind="body_ended", within=15 + 15 + LATE)
        assert other.stop() == 0
    assert [row[3] for row in ran(app, "ship")] == [0, 1]


@pytest.mark.slow
def test_when_the_host_that_listens_is_killed_another_does_within_its_lease_and_an_interval(
    tmp_path: Path, connection_string: str, container_name: str
) -> None:
    app = app_with(tmp_path, TIMER)
    with hosts(app, connection_string, tmp_path, count=3) as running:
        for host in running:
            host.wait_for("invocation_ended", count=2, function="tick")
        (leader,) = [host for host in running if host.records("lock", kind="body_started")]
        leader.running.kill()
        killed = time.monotonic()
        leader.running.wait()
        wait_until(lambda: len(pids(app, "tick")) == 2, within=15 + 15 + LATE)
        assert time.monotonic() - killed > 5
        tokens = [row[2] for row in ran(app, "tick")]
        assert tokens == sorted(tokens)
        assert len(set(tokens)) == 2
        survivors = [host for host in running if host is not leader]
        assert [host.stop() for host in survivors] == [0, 0]
