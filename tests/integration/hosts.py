"""Real host processes for tests: written, started, watched by their journals, stopped."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import time
from contextlib import contextmanager, suppress
from textwrap import dedent
from typing import TYPE_CHECKING, Any, Self

from azure.core.exceptions import ResourceNotFoundError
from azure.storage.queue import QueueServiceClient

from simulator.history.journal import Record, read_journal
from simulator.program import HOST
from tests.support.checked import BUNDLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PATIENCE = 120.0
"""Seconds in which a busy machine has surely done what is waited for."""
HEAD = """
import asyncio, json, os, time
from pathlib import Path
import azure.functions as func
from singleton import current_hold, singleton

app = func.FunctionApp()

def seen(*values):
    with Path("seen.jsonl").open("a") as file:
        file.write(json.dumps(values) + "\\n")
"""
# A queue may deliver twice when a message is renewed too late. A host renews at half this time, CPU or not.
VISIBILITY = 20.0
QUICK = {"visibility": VISIBILITY, "max_polling_interval": 0.2, "timer_every": 1.0}


def write_app(folder: Path, code: str, **host_json: Any) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "function_app.py").write_text(HEAD + dedent(code))
    (folder / "host.json").write_text(json.dumps({"version": "2.0", **BUNDLE, **host_json}))
    return folder


def seen(app: Path) -> list[list[Any]]:
    path = app / "seen.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def wait_until(condition: Callable[[], Any], *, within: float = PATIENCE) -> Any:
    """Wait until the condition holds, and return what it returned."""
    end = time.monotonic() + within
    while True:
        if found := condition():
            return found
        assert time.monotonic() < end, f"not within {within} s: {condition}"
        time.sleep(0.02)


class RunningHost:
    """A host process."""

    def __init__(self, app: Path, storage: str, folder: Path, **changes: Any) -> None:
        self.name = str(changes.pop("name", "host-1"))
        self.environment = changes.pop("environment", {})
        self.journal = folder / f"{self.name}.jsonl"
        self.log = folder / f"{self.name}.log"
        self.config = folder / f"{self.name}.json"
        config = {
            "name": self.name,
            "app": str(app),
            "journal": str(self.journal),
            "storage": storage,
            "host_id": self.name,
            "lock_host_id": folder.name.replace("_", "-")[-30:].strip("-").lower(),
            **QUICK,
            **changes,
        }
        self.config.write_text(json.dumps(config))
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> RunningHost:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*HOST, str(self.config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **self.environment},
                start_new_session=True,
            )
        return self

    @property
    def running(self) -> subprocess.Popen[bytes]:
        assert self.process is not None
        return self.process

    def records(self, event: str | None = None, **fields: object) -> list[Record]:
        """Return what the journal says so far."""
        if not self.journal.exists():
            return []
        return [
            record
            for record in read_journal(self.journal)
            if event in (None, record.event) and all(record.get(name) == value for name, value in fields.items())
        ]

    def wait_for(self, event: str, *, count: int = 1, within: float = PATIENCE, **fields: object) -> list[Record]:
        def enough() -> list[Record] | None:
            found = self.records(event, **fields)
            ended = self.process is not None and self.process.poll() is not None
            assert not ended or len(found) >= count, f"{self.name} ended: {self.log.read_text()[-2000:]}"
            return found if len(found) >= count else None

        try:
            found: list[Record] = wait_until(enough, within=within)
        except AssertionError as error:
            last = [f"{record.t:.2f} {record.event} {record.fields}"[:300] for record in self.records()[-40:]]
            log = self.log.read_text()[-2000:]
            raise AssertionError("\n".join([f"{error}: {event} {fields}", *last, log])) from None
        return found

    def stop(self) -> int:
        """Stop gracefully; return the exit code."""
        self.running.terminate()
        return self.running.wait(PATIENCE)

    def close(self) -> None:
        if self.process is not None:
            with suppress(ProcessLookupError):  # what the app has started may have outlived it
                self.signal(signal.SIGKILL)
            self.process.wait()

    def signal(self, number: int) -> None:
        """Send a signal to the host and its workers at one moment."""
        os.killpg(self.running.pid, number)


@contextmanager
def hosts(app: Path, storage: str, folder: Path, *, count: int = 1, **changes: Any) -> Iterator[list[RunningHost]]:
    """Start hosts of one app and wait until they listen; none outlives the block."""
    started = [
        RunningHost(app, storage, folder, **{"name": f"host-{number}", **changes}) for number in range(1, count + 1)
    ]
    try:
        for host in started:
            host.start()
        for host in started:
            host.wait_for("host_ready")
        yield started
    finally:
        for host in started:
            host.close()


class Queue:
    """A queue of the test's own."""

    def __init__(self, storage: str, name: str) -> None:
        self.name = name
        self._service = QueueServiceClient.from_connection_string(storage)
        self._client = self._service.get_queue_client(name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()
        self._service.close()

    def create(self) -> Queue:
        self._client.create_queue()
        return self

    def send(self, *bodies: Any) -> list[str]:
        texts = [body if isinstance(body, str) else json.dumps(body) for body in bodies]
        return [str(self._client.send_message(base64.b64encode(text.encode()).decode()).id) for text in texts]

    def bodies(self) -> list[str]:
        """Take all visible messages."""
        found = self._client.receive_messages(messages_per_page=32, visibility_timeout=60)
        return [base64.b64decode(message.content).decode() for message in found]

    def peek(self) -> list[str]:
        """Return the ids of up to 32 visible messages; none where there is no such queue."""
        try:
            return [str(message.id) for message in self._client.peek_messages(max_messages=32)]
        except ResourceNotFoundError:
            return []

    def length(self) -> int:
        return int(self._client.get_queue_properties().approximate_message_count or 0)
