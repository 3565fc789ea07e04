"""Timer functions in real host processes on a real emulator."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from azure.storage.blob import BlobClient

from simulator.host.triggers.timer import CONTAINER
from tests.integration.hosts import hosts, seen, wait_until, write_app

if TYPE_CHECKING:
    from pathlib import Path

TICK = """
@app.timer_trigger(arg_name="timer", schedule="%WHEN%", use_monitor=MONITOR)
def tick(timer: func.TimerRequest) -> None:
    seen(timer.past_due, timer.schedule_status.get("Last"))
"""


def test_the_hosts_tick_together_at_the_runs_pace(tmp_path: Path, connection_string: str) -> None:
    app = write_app(tmp_path / "app", TICK.replace("MONITOR", "False"))
    with hosts(app, connection_string, tmp_path, count=2, environment={"WHEN": "0 0 3 * * *"}) as running:
        for host in running:
            host.wait_for("tick", count=3)
        one, two = ([float(record.get("due")) for record in host.records("tick")] for host in running)
        assert len(set(one) & set(two)) >= 2
        assert all(due == round(due) for due in [*one, *two])
        (function,) = running[0].records("function")
        assert (function.get("trigger"), function.get("schedule"), function.get("tick")) == (
            "timer",
            "0 0 3 * * *",
            1.0,
        )
    assert seen(app)[0] == [False, None]


def test_an_apps_own_schedule_is_kept_on_request(tmp_path: Path, connection_string: str) -> None:
    app = write_app(tmp_path / "app", TICK.replace("MONITOR", "False"))
    environment = {"WHEN": "*/2 * * * * *"}
    with hosts(app, connection_string, tmp_path, environment=environment, timer_every=0) as (host,):
        ticks = host.wait_for("tick", count=2)
        assert all(float(record.get("due")) % 2 == 0 for record in ticks)
        assert host.stop() == 0


def test_a_tick_that_was_missed_while_no_host_ran_is_made_up_for(tmp_path: Path, connection_string: str) -> None:
    app = write_app(tmp_path / "app", TICK.replace("MONITOR", "True"))
    environment = {"WHEN": "0 0 3 * * *"}
    host_id = tmp_path.name.replace("_", "-")[-30:]
    with hosts(app, connection_string, tmp_path, environment=environment, host_id=host_id) as (host,):
        host.wait_for("tick", count=2)  # the first one's status is stored by then
        assert host.stop() == 0
        assert not host.records("tick", why="past due")
    time.sleep(1.5)
    with hosts(app, connection_string, tmp_path, environment=environment, host_id=host_id, name="host-2") as (host,):
        host.wait_for("tick", count=2)
        assert host.stop() == 0
        assert [record.get("why") for record in host.records("tick")][:2] == ["past due", "schedule"]
    late = [row for row in seen(app) if row[0]]
    assert len(late) == 1
    assert late[0][1].startswith("20")


def test_a_failed_run_is_tried_again_by_its_retry_policy(tmp_path: Path, connection_string: str) -> None:
    code = """
    @app.timer_trigger(arg_name="timer", schedule="0 0 3 * * *", run_on_startup=True, use_monitor=False)
    @app.retry(strategy="fixed_delay", max_retry_count="2", delay_interval="00:00:00")
    async def tick(timer: func.TimerRequest, context: func.Context) -> None:
        seen(context.retry_context.retry_count, context.retry_context.max_retry_count)
        raise ValueError("never works")
    """
    app = write_app(tmp_path / "app", code)
    with hosts(app, connection_string, tmp_path, timer_every=0) as (host,):
        host.wait_for("invocation_ended", count=3)
        assert host.stop() == 0
        assert [record.get("why") for record in host.records("tick")] == ["startup"]
        assert len({record.get("invocation") for record in host.records("invocation_started")}) == 1
    assert seen(app) == [[0, 2], [1, 2], [2, 2]]


@pytest.mark.slow
def test_of_the_hosts_of_one_app_the_platform_lets_one_listen_and_its_lock_is_free_when_it_stops(
    tmp_path: Path, connection_string: str
) -> None:
    app = write_app(
        tmp_path / "app",
        TICK.replace("MONITOR", "False") + "    time.sleep(0.8)\n",
        singleton={"listenerLockPeriod": "00:00:15", "listenerLockRecoveryPollingInterval": "00:00:15"},
    )
    host_id = tmp_path.name.replace("_", "-")[-30:]
    with hosts(
        app, connection_string, tmp_path, count=2, environment={"WHEN": "0 0 3 * * *"}, host_id=host_id, same_app=True
    ) as running:
        first = wait_until(lambda: next((host for host in running if host.records("tick")), None))
        second = next(host for host in running if host is not first)
        first.wait_for("invocation_started", count=3)
        assert not second.records("tick")
        assert first.stop() == 0
        stopped = first.records("host_stopped")[0].t
        # What runs is finished, and then the platform's lock is given back.
        assert first.records("host_stopping")[0].t < first.records("invocation_ended")[-1].t <= stopped
        lock = f"locks/{host_id}/Host.Functions.tick.Listener"
        with BlobClient.from_connection_string(connection_string, CONTAINER, lock) as blob:
            assert blob.get_blob_properties().lease.state == "available" or second.records("tick")
        second.wait_for("tick", within=15 + 30.0)
        assert second.stop() == 0
