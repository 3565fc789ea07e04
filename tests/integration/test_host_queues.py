"""Queue functions in real host processes on a real emulator."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import psutil

from tests.integration.hosts import PATIENCE, Queue, RunningHost, hosts, seen, wait_until, write_app

if TYPE_CHECKING:
    from pathlib import Path


PARENT = """
import subprocess, sys
subprocess.run([sys.executable, "-m", "simulator.host", sys.argv[1]], stderr=subprocess.DEVNULL)
"""


def test_messages_are_run_completed_retried_and_poisoned(
    tmp_path: Path, connection_string: str, container_name: str
) -> None:
    code = f"""
    @app.queue_trigger(arg_name="msg", queue_name="{container_name}", connection="AzureWebJobsStorage")
    def ship(msg: func.QueueMessage, context: func.Context) -> None:
        seen(msg.get_json()["Id"], msg.dequeue_count, context.invocation_id, context.function_name)
        if msg.get_json()["Id"] == "bad":
            raise ValueError("no such order")
    """
    app = write_app(tmp_path / "app", code, extensions={"queues": {"maxDequeueCount": 2}})
    with hosts(app, connection_string, tmp_path) as (host,), Queue(connection_string, container_name) as queue:
        # The queue is missing at first: it is polled for, and not created (H-45).
        assert not host.records("message_received")
        good, bad = queue.create().send({"Id": "good"}, {"Id": "bad"})
        host.wait_for("message_completed", id=good)
        host.wait_for("message_poisoned", id=bad)
        assert host.stop() == 0

        started = host.records("invocation_started")
        by_id = {record.get("invocation"): record.get("message") for record in started}
        assert [(row[0], row[1], by_id[row[2]], row[3]) for row in seen(app) if row[0] == "bad"] == [
            ("bad", 1, bad, "ship"),
            ("bad", 2, bad, "ship"),
        ]
        ended = host.records("invocation_ended", message=bad)
        assert [record.get("error") for record in ended] == ["ValueError: no such order"] * 2
        assert host.records("message_returned", id=bad, reason="failed")
        with Queue(connection_string, f"{container_name}-poison") as poison:
            assert poison.bodies() == ['{"Id": "bad"}']
        assert queue.length() == 0
        assert "can't be polled" not in host.log.read_text()  # an empty queue is no trouble
    told = [record.event for record in host.records() if record.event != "machine_slow"]
    assert told[-2:] == ["host_stopping", "host_stopped"]


def test_outputs_chain_queues_and_others_are_noted_once(
    tmp_path: Path, connection_string: str, container_name: str
) -> None:
    first, second, third = (f"{container_name}-{part}" for part in "abc")
    code = f"""
    @app.queue_trigger(arg_name="msg", queue_name="{first}", connection="AzureWebJobsStorage")
    @app.queue_output(arg_name="out", queue_name="{second}", connection="AzureWebJobsStorage")
    @app.blob_output(arg_name="blob", path="box/file", connection="AzureWebJobsStorage")
    def split(msg: func.QueueMessage, out: func.Out[str], blob: func.Out[str]) -> None:
        out.set(["one", "two"])
        blob.set("dropped")

    @app.queue_trigger(arg_name="msg", queue_name="{second}", connection="AzureWebJobsStorage")
    @app.queue_output(arg_name="$return", queue_name="%THIRD%", connection="AzureWebJobsStorage")
    async def pass_on(msg: str) -> str:
        return msg.upper()
    """
    app = write_app(tmp_path / "app", code)
    environment = {"THIRD": third}
    with hosts(app, connection_string, tmp_path, environment=environment, max_polling_interval=60.0) as (host,):
        with Queue(connection_string, first) as queue:
            queue.create().send("go", "again")
        # The listener of the second queue is woken (H-44): it would sleep for a minute by then.
        host.wait_for("message_sent", queue=third, count=4)
        assert host.stop() == 0
        with Queue(connection_string, third) as queue:
            assert sorted(queue.bodies()) == ["ONE", "ONE", "TWO", "TWO"]
        notes = [record.text("message") for record in host.records("note")]
        assert notes == ["output 'blob' (blob) is dropped: the simulator writes queues only"]


def test_a_killed_hosts_message_is_delivered_again_to_another(
    tmp_path: Path, connection_string: str, container_name: str
) -> None:
    code = f"""
    @app.queue_trigger(arg_name="msg", queue_name="{container_name}", connection="AzureWebJobsStorage")
    async def ship(msg: func.QueueMessage) -> None:
        seen(msg.dequeue_count, os.getppid())
        if msg.dequeue_count == 1:
            await asyncio.sleep(60)
    """
    app = write_app(tmp_path / "app", code)
    with (
        Queue(connection_string, container_name) as queue,
        hosts(app, connection_string, tmp_path, count=2, visibility=6.0) as running,
    ):
        (message,) = queue.create().send("one")
        pid = wait_until(lambda: seen(app))[0][1]
        victim, survivor = sorted(running, key=lambda host: host.running.pid != pid)
        # Longer than the message's visibility: only its renewal kept it.
        time.sleep(8.0)
        assert not survivor.records("message_received")
        victim.close()
        survivor.wait_for("message_completed", id=message)
        assert seen(app) == [[1, victim.running.pid], [2, survivor.running.pid]]


def test_a_body_that_blocks_its_loop_does_not_starve_the_renewal(
    tmp_path: Path, connection_string: str, container_name: str
) -> None:
    code = f"""
    @app.queue_trigger(arg_name="msg", queue_name="{container_name}", connection="AzureWebJobsStorage")
    async def ship(msg: func.QueueMessage) -> None:
        seen(msg.dequeue_count)
        time.sleep(8)
    """
    app = write_app(tmp_path / "app", code)
    with (
        hosts(app, connection_string, tmp_path, count=2, visibility=6.0) as running,
        Queue(connection_string, container_name) as queue,
    ):
        queue.create().send("one")
        wait_until(lambda: any(host.records("message_completed") for host in running))
        assert seen(app) == [[1]]


def test_stop_lets_what_runs_finish_and_completes_it_and_fetches_nothing_that_comes_meanwhile(
    tmp_path: Path, connection_string: str, container_name: str
) -> None:
    code = f"""
    @app.queue_trigger(arg_name="msg", queue_name="{container_name}", connection="AzureWebJobsStorage")
    def ship(msg: func.QueueMessage) -> None:
        seen("started")
        time.sleep(2)
        seen("ended")
    """
    app = write_app(tmp_path / "app", code)
    with (
        hosts(app, connection_string, tmp_path) as (host,),
        Queue(connection_string, container_name) as queue,
    ):
        (message,) = queue.create().send("one")
        wait_until(lambda: seen(app))
        host.running.terminate()
        host.wait_for("host_stopping")
        (late,) = queue.send("two")
        host.running.send_signal(signal.SIGINT)  # a second signal changes nothing
        assert host.running.wait(PATIENCE) == 0
        assert not host.records("message_received", id=late)
        assert seen(app) == [["started"], ["ended"]]
        assert [record.get("id") for record in host.records("message_completed")] == [message]
        assert not host.records("message_returned")
        assert queue.length() == 1
        assert host.records("host_stopped", code=0)


def test_no_other_storage_account_is_reachable(tmp_path: Path, connection_string: str, container_name: str) -> None:
    # An address that answers nobody: a host that went there would not do its work.
    cloud = "DefaultEndpointsProtocol=http;AccountName=cloud;AccountKey=Y2xvdWQ=;BlobEndpoint=http://192.0.2.1/cloud;"
    code = f"""
    @app.queue_trigger(arg_name="msg", queue_name="{container_name}", connection="Orders")
    @singleton(scope="Id", connection="Locks")
    def ship(msg: func.QueueMessage) -> None:
        seen(*(os.environ[name] for name in ("AzureWebJobsStorage", "Orders", "LOCKS", "UNUSED")))
    """
    app = write_app(tmp_path / "app", code)
    environment = {"AzureWebJobsStorage": cloud, "LOCKS": cloud, "UNUSED": cloud, "Orders__accountName": "cloud"}
    with (
        hosts(app, connection_string, tmp_path, environment=environment) as (host,),
        Queue(connection_string, container_name) as queue,
    ):
        (message,) = queue.create().send({"Id": 1})
        host.wait_for("message_completed", id=message)
        assert seen(app) == [[connection_string] * 4]


def test_it_ends_with_its_parent(tmp_path: Path, connection_string: str) -> None:
    code = """
    @app.timer_trigger(arg_name="timer", schedule="0 0 0 * * *", use_monitor=False)
    async def tick(timer: func.TimerRequest) -> None: ...
    """
    host = RunningHost(write_app(tmp_path / "app", code), connection_string, tmp_path)
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(host.config)])
    try:
        pid = int(wait_until(lambda: host.records("host_ready") and host.records("host_started"))[0].get("pid"))
        parent.kill()
        parent.wait()
        try:
            wait_until(lambda: not psutil.pid_exists(pid))
        finally:
            with suppress(psutil.NoSuchProcess):
                psutil.Process(pid).kill()
    finally:
        parent.kill()
        parent.wait()


def test_it_does_not_outlive_a_parent_that_died_while_it_started(tmp_path: Path, connection_string: str) -> None:
    app = write_app(tmp_path / "app", "")
    host = RunningHost(app, connection_string, tmp_path, parent=os.getpid() + 1_000_000)
    try:
        assert host.start().running.wait(PATIENCE) == -signal.SIGKILL  # with all that it has started
    finally:
        host.close()


def test_an_app_that_does_not_import_ends_the_host_with_its_message(tmp_path: Path, connection_string: str) -> None:
    app = write_app(tmp_path / "app", "1 / 0")
    host = RunningHost(app, connection_string, tmp_path)
    try:
        assert host.start().running.wait(PATIENCE) == 3
    finally:
        host.close()
    (error,) = host.records("host_error")
    assert error.text("message") == "function_app.py, line 12 does not import: ZeroDivisionError: division by zero"


def test_a_storage_that_is_none_is_told(tmp_path: Path, container_name: str) -> None:
    code = f"""
    @app.queue_trigger(arg_name="msg", queue_name="{container_name}", connection="AzureWebJobsStorage")
    def ship(msg: func.QueueMessage) -> None: ...
    """
    host = RunningHost(write_app(tmp_path / "app", code), "nonsense", tmp_path)
    try:
        assert host.start().running.wait(PATIENCE) == 3
    finally:
        host.close()
    assert "connection string can't be used" in host.records("host_error")[0].text("message")
