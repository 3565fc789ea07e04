"""However a run ends, nothing stays behind: no process, no port, no folder."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import psutil
import pytest
from azure.storage.blob import BlobServiceClient
from azure.storage.queue import QueueServiceClient

from tests.cli.apps import SMALL, write_app

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.running import Sim


@pytest.fixture
def app(tmp_path: Path) -> Path:
    return write_app(tmp_path / "app", SMALL)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_in_the_midst_ends_the_run_and_tells_what_it_had(
    sim: Callable[..., Sim], app: Path, number: signal.Signals, code: int
) -> None:
    run = sim("--app", str(app), "--hosts", "2", "--duration", "60", "--report", "run.html")
    run.wait_for(run.says("hosts ready"))
    run.wait_for(run.says("messages done"))
    run.send(number)
    assert run.wait() == code
    assert "BROKEN OFF" in run.output
    assert "the run was broken off" in run.output
    assert "BROKEN OFF" in (run.work / "run.html").read_text("utf-8")
    assert "interrupted; nothing is left behind" in run.errors
    assert "the report in run.html\n" in run.errors
    assert "Traceback" not in run.output + run.errors
    assert run.left_behind() == []


@pytest.mark.parametrize("words", ["Starting Azurite", "Reading the app", "Starting 2 hosts"])
def test_a_signal_while_the_run_is_prepared_ends_it(sim: Callable[..., Sim], app: Path, words: str) -> None:
    run = sim("--app", str(app), "--hosts", "2")
    run.wait_for(run.says(words))
    run.send(signal.SIGINT)
    assert run.wait() == 130
    assert "Traceback" not in run.output + run.errors
    assert run.left_behind() == []


def test_hosts_and_storage_end_when_the_command_is_killed(sim: Callable[..., Sim], app: Path) -> None:
    run = sim("--app", str(app), "--hosts", "2", "--duration", "60")
    run.wait_for(run.says("messages done"))
    host = next(
        each for each in psutil.Process(run.process.pid).children() if "host-2.config.json" in " ".join(each.cmdline())
    )
    os.killpg(host.pid, signal.SIGSTOP)  # as a pause of the run does
    run.send(signal.SIGKILL)
    run.process.wait()
    run.left_behind()
    assert run.processes_left() == []


def test_a_storage_that_dies_is_an_environments_failure(sim: Callable[..., Sim], app: Path) -> None:
    run = sim("--app", str(app), "--hosts", "2", "--duration", "60")
    run.wait_for(run.says("messages done"))
    (azurite,) = run.named("azurite")
    azurite.kill()
    assert run.wait() == 3
    assert "Azurite" in run.errors or "the storage did not" in run.errors
    assert "Traceback" not in run.output + run.errors
    assert run.left_behind() == []


def test_a_host_that_crashes_is_found_and_the_others_go_on(sim: Callable[..., Sim], app: Path, storage: str) -> None:
    run = sim("--app", str(app), "--hosts", "3", "--duration", "4", "--storage", storage)
    run.wait_for(run.says("messages done"))
    host, worker = sorted(run.named("host-2.config"), key=lambda process: process.ppid() != run.process.pid)
    assert worker.ppid() == host.pid
    host.kill()
    assert run.wait() == 1
    assert "somebody outside this run ended host-2 (by SIGKILL): what followed is not ours" in run.output
    assert "VIOLATED" not in run.output
    assert run.left_behind() == []


def test_a_storage_of_ones_own_is_left_as_it_was(sim: Callable[..., Sim], app: Path, storage: str) -> None:
    run = sim("--app", str(app), "--hosts", "2", "--duration", "2", "--storage", storage)
    assert run.wait() == 0, run.output + run.errors
    with (
        QueueServiceClient.from_connection_string(storage) as queues,
        BlobServiceClient.from_connection_string(storage) as blobs,
    ):
        with queues.get_queue_client("parcels") as queue:
            assert queue.get_queue_properties().approximate_message_count == 0
        names = list(blobs.get_container_client("webjobshost").list_blob_names(name_starts_with="locks/simulated-"))
    assert names == []
    assert run.left_behind() == []


def test_a_queue_with_messages_of_somebody_elses_is_not_touched(
    sim: Callable[..., Sim], app: Path, storage: str
) -> None:
    with (
        QueueServiceClient.from_connection_string(storage) as queues,
        queues.get_queue_client("parcels") as queue,
    ):
        if "parcels" not in [found.name for found in queues.list_queues()]:
            queue.create_queue()
        queue.send_message("precious")
        run = sim("--app", str(app), "--hosts", "2", "--duration", "2", "--storage", storage)
        assert run.wait() == 3
        assert "the queue 'parcels' has 1 messages" in run.errors
        assert queue.get_queue_properties().approximate_message_count == 1
        queue.clear_messages()
    assert run.left_behind() == []


def test_a_storage_that_does_not_answer_is_an_environments_failure(sim: Callable[..., Sim], app: Path) -> None:
    nobody = "http://127.0.0.1:9/devstoreaccount1"
    account = f"AccountName=devstoreaccount1;AccountKey=a2V5;BlobEndpoint={nobody};QueueEndpoint={nobody}"
    run = sim("--app", str(app), "--storage", account)
    assert run.wait() == 3
    assert run.errors.count("\n") == 1
    assert "the storage did not create the queue 'parcels'" in run.errors
    assert run.left_behind() == []
