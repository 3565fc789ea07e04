"""``singleton-sim storage``: an emulator on known ports, that tells how it is used and leaves nothing behind."""

from __future__ import annotations

import re
import signal
import socket
from typing import TYPE_CHECKING

import pytest
from azure.storage.blob import BlobServiceClient
from azure.storage.queue import QueueServiceClient

from simulator import storage_cli
from simulator.cli import main
from simulator.storage_cli import USUAL

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.running import Sim

FREE = ("--any-port",)


def started(sim: Callable[..., Sim], *options: str) -> tuple[Sim, str]:
    """Start it; return it and the connection string that it prints."""
    run = sim("storage", *options)
    run.wait_for(run.says("Ctrl-C ends it."))
    found = re.search(r"^Connection string: (\S+)$", run.output, re.MULTILINE)
    assert found is not None
    return run, found[1]


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


@pytest.mark.process
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_it_serves_until_a_signal_ends_it_and_leaves_nothing(
    sim: Callable[..., Sim], number: signal.Signals, code: int
) -> None:
    run, connection = started(sim, *FREE)
    with (
        BlobServiceClient.from_connection_string(connection) as blobs,
        QueueServiceClient.from_connection_string(connection) as queues,
    ):
        blobs.create_container("webjobshost")
        assert [queue.name for queue in queues.list_queues()] == []
    assert f'"AzureWebJobsStorage": "{connection}"' in run.output
    assert f"export AzureWebJobsStorage='{connection}'" in run.output
    run.send(number)
    assert run.wait() == code
    assert run.errors.endswith("singleton-sim: stopped\n")
    assert "Traceback" not in run.errors
    assert run.left_behind() == []


@pytest.mark.process
def test_a_folder_keeps_what_was_stored(sim: Callable[..., Sim], tmp_path: Path) -> None:
    data = tmp_path / "new" / "data"
    for expected in ([], ["kept"]):
        run, connection = started(sim, *FREE, "--data", str(data))
        with BlobServiceClient.from_connection_string(connection) as blobs:
            assert [container.name for container in blobs.list_containers()] == expected
            if not expected:
                blobs.create_container("kept")
        run.send(signal.SIGTERM)
        assert run.wait() == 143
        assert str(data) in run.errors
        assert run.left_behind() == []


@pytest.mark.process
def test_it_has_the_ports_that_it_is_given_twice_in_a_row(sim: Callable[..., Sim]) -> None:
    blob, queue, table = free_ports(3)
    for _ in range(2):
        run, connection = started(sim, "--blob-port", str(blob), "--queue-port", str(queue), "--table-port", str(table))
        assert f"BlobEndpoint=http://127.0.0.1:{blob}/" in connection
        assert f"QueueEndpoint=http://127.0.0.1:{queue}/" in connection
        with BlobServiceClient.from_connection_string(connection) as blobs:
            assert list(blobs.list_containers()) == []
        run.send(signal.SIGINT)
        assert run.wait() == 130


@pytest.mark.process
def test_an_emulator_that_is_killed_is_told(sim: Callable[..., Sim]) -> None:
    run, _ = started(sim, *FREE)
    (node,) = run.named("azurite.js")
    node.kill()
    assert run.wait() == 3
    assert "singleton-sim: Azurite ended by itself" in run.errors


def complaint(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    with pytest.raises(SystemExit) as caught:
        main(["storage", *options])
    assert caught.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err


@pytest.mark.parametrize("service", USUAL)
def test_a_port_that_is_taken_is_an_error_that_names_its_option(
    capsys: pytest.CaptureFixture[str], service: str
) -> None:
    option = f"--{service.lower()}-port"
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        text = complaint(capsys, *FREE, option, str(port))
    assert f"{option} {port}: the port can't be used" in text
    assert f"{option} 0 takes any" in text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((*FREE, "--blob-port", "70000"), "--blob-port is 70000: it must be from 1 to 65535"),
        ((*FREE, "--table-port", "-1"), "--table-port is -1"),
        ((*FREE, "--queue-port", "ten"), "--queue-port"),
        ((*FREE, "--data", "/dev/null/x"), "--data /dev/null/x: the folder can't be made"),
    ],
)
def test_a_wrong_option_is_named(capsys: pytest.CaptureFixture[str], options: tuple[str, ...], words: str) -> None:
    assert words in complaint(capsys, *options)


def test_two_services_on_one_port_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    (port,) = free_ports(1)
    text = complaint(capsys, *FREE, "--blob-port", str(port), "--queue-port", str(port))
    assert f"--blob-port and --queue-port are both {port}" in text


def test_the_usual_ports_are_those_of_development_storage() -> None:
    from singleton.settings.connection import development_storage

    text = development_storage(storage_cli._SHORT, "storage")
    assert f":{USUAL['Blob']}/" in text
    assert f":{USUAL['Queue']}/" in text
