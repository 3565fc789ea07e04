"""A host's workers: one that ends takes its bodies with it and is started again, as by the real host."""

from __future__ import annotations

import ctypes
import signal
import sys
import time
from pathlib import Path

import pytest

from simulator.checks.verdict import judge
from simulator.host.workers import RESTART
from tests.integration.hosts import PATIENCE, Queue, RunningHost, hosts, seen, wait_until, write_app


def test_a_wait_that_outlives_the_functions_time_limit_kills_the_holder_and_a_bystander(
    tmp_path: Path, connection_string: str, container_name: str
) -> None:
    holders, bystanders = f"{container_name}-a", f"{container_name}-b"
    code = f"""
    @app.queue_trigger(arg_name="msg", queue_name="{holders}", connection="AzureWebJobsStorage")
    @singleton(timeout=60)
    async def hold(msg: func.QueueMessage) -> None:
        seen("hold", msg.dequeue_count)
        await asyncio.sleep(2 if msg.dequeue_count > 1 else 60)

    @app.queue_trigger(arg_name="msg", queue_name="{bystanders}", connection="AzureWebJobsStorage")
    async def stand_by(msg: func.QueueMessage) -> None:
        seen("stand_by", msg.dequeue_count)
        await asyncio.sleep(0 if msg.dequeue_count > 1 else 60)
    """
    app = write_app(tmp_path / "app", code, functionTimeout="00:00:03")
    with (
        hosts(app, connection_string, tmp_path, visibility=4.0) as (host,),
        Queue(connection_string, holders) as first,
        Queue(connection_string, bystanders) as second,
    ):
        first.create().send("holder")
        wait_until(lambda: seen(app))
        time.sleep(0.5)
        (message,) = second.create().send("bystander")
        host.wait_for("worker_exited", timeout=True)
        host.wait_for("message_completed", id=message)
        host.wait_for("invocation_ended", function="hold")
        bystander, holder = host.records("invocation_ended", outcome="error")[:2]
        restart = host.records("worker_started")[1]
        error = "FunctionTimeoutException: Timeout value of 00:00:03 exceeded by function"
        assert (bystander.text("error"), holder.text("error")) == (f"{error} stand_by", f"{error} hold")
        assert holder.t - restart.t > RESTART - 0.1  # the bystander has its own time, and the holder fails after this
        assert ["stand_by", 2] in seen(app)
        verdict = judge(host.records())
        assert any("1 guarded body short: FunctionTimeoutException" in reason for reason in verdict.violations)


def test_a_body_that_ends_its_process_takes_the_others_with_it_until_the_host_gives_up(
    tmp_path: Path, connection_string: str, container_name: str
) -> None:
    code = f"""
    if not os.fork():  # what the app forks has all that the worker has open, and outlives it
        time.sleep(60)
        os._exit(0)

    @app.queue_trigger(arg_name="msg", queue_name="{container_name}", connection="AzureWebJobsStorage")
    async def ship(msg: str) -> None:
        seen(msg, os.getpid())
        await asyncio.sleep(0.2)
        if msg == "exits":
            os._exit(7)
        raise asyncio.CancelledError if msg == "cancels" else SystemExit
    """
    app = write_app(tmp_path / "app", code, extensions={"queues": {"maxDequeueCount": 9}})
    with (
        hosts(app, connection_string, tmp_path, visibility=4.0) as (host,),
        Queue(connection_string, container_name) as queue,
    ):
        queue.create().send("cancels")
        wait_until(lambda: seen(app))
        time.sleep(0.4)
        assert not host.records("invocation_ended")  # it is never answered
        queue.send("exits", "leaves")
        assert host.running.wait(PATIENCE) == 1
        exits = host.records("worker_exited")
        assert len(exits) == 3
        assert {record.get("code") for record in exits} <= {1, 7}
        assert len({pid for _, pid in seen(app)}) == 3
        _, second, third = host.records("worker_started")
        assert second.t - exits[0].t < RESTART - 0.1 < third.t - second.t
        assert [row[0] for row in seen(app)].count("cancels") == 3
        (error,) = host.records("host_error")
        assert error.text("message") == "its workers ended by themselves 3 times: it stops, as the real host does"


def test_calls_are_spread_over_two_workers(tmp_path: Path, connection_string: str, container_name: str) -> None:
    code = f"""
    @app.queue_trigger(arg_name="msg", queue_name="{container_name}", connection="AzureWebJobsStorage")
    async def ship(msg: str) -> None:
        seen(os.getpid())
    """
    app = write_app(tmp_path / "app", code)
    with (
        hosts(app, connection_string, tmp_path, environment={"FUNCTIONS_WORKER_PROCESS_COUNT": "2"}) as (host,),
        Queue(connection_string, container_name) as queue,
    ):
        queue.create().send(*"abcd")
        host.wait_for("message_completed", count=4)
        assert {record.get("pid") for record in host.records("worker_started")} == {pid for (pid,) in seen(app)}
        assert len(seen(app)) == 4


def test_a_second_worker_that_cannot_read_the_app_ends_the_host_in_words(
    tmp_path: Path, connection_string: str
) -> None:
    code = """
    Path("taken").mkdir()

    @app.timer_trigger(arg_name="timer", schedule="0 0 3 * * *")
    def tick(timer: func.TimerRequest) -> None: ...
    """
    host = RunningHost(write_app(tmp_path / "app", code), connection_string, tmp_path)
    host.environment = {"FUNCTIONS_WORKER_PROCESS_COUNT": "2"}
    try:
        assert host.start().running.wait(PATIENCE) == 3
    finally:
        host.close()
    (error,) = host.records("host_error")
    assert error.text("message").startswith("function_app.py, line 13 does not import: FileExistsError")


def test_a_host_that_is_told_to_stop_while_it_reads_the_app_stops(tmp_path: Path, connection_string: str) -> None:
    host = RunningHost(write_app(tmp_path / "app", "time.sleep(60)"), connection_string, tmp_path).start()
    try:
        host.wait_for("worker_started")
        host.running.terminate()
        assert host.running.wait(PATIENCE) == 0
    finally:
        host.close()


@pytest.mark.skipif(sys.platform != "linux", reason="a signal for one thread is sent with tgkill")
def test_a_host_hears_of_a_stop_though_another_thread_gets_the_signal(tmp_path: Path, connection_string: str) -> None:
    host = RunningHost(write_app(tmp_path / "app", "time.sleep(60)"), connection_string, tmp_path).start()
    try:
        host.wait_for("worker_started")
        tasks = Path(f"/proc/{host.running.pid}/task")
        wait_until(lambda: len(list(tasks.iterdir())) > 3)  # those that hear its worker: its loop sleeps now
        newest = max(int(each.name) for each in tasks.iterdir())
        assert ctypes.CDLL(None).tgkill(host.running.pid, newest, signal.SIGTERM) == 0
        assert host.running.wait(PATIENCE) == 0
    finally:
        host.close()
