"""``once`` across real processes that are killed and paused between an effect and its result, and many at one key."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

from singleton import LockClient, SingletonOptions, once

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[2]
FAILOVER = 2.0

DOER = """
import os, sys
from singleton import LockClient, LockLost, SingletonOptions, once
connection, container, effects = sys.argv[1:]
locks = LockClient(connection, options=SingletonOptions(container=container), failover=2.0)
try:
    with once(locks, "42", name="charge") as operation:
        if not operation.done:
            with open(effects, "a") as lines:
                lines.write(f"42 {operation.token}\\n")
            print("effect", flush=True)
            sys.stdin.readline()
            operation.finish({"by": os.getpid()})
except LockLost as error:
    print("lost", error.reason, flush=True)
else:
    print("by", operation.result["by"], flush=True)
"""


class Doers:
    """Processes that do the same operation, and what they did."""

    def __init__(self, connection: str, container: str, effects: Path) -> None:
        self._command = [sys.executable, "-c", DOER, connection, container, str(effects)]
        self._started: list[subprocess.Popen[str]] = []
        self._effects = effects

    def start(self) -> subprocess.Popen[str]:
        """Start one."""
        process = subprocess.Popen(self._command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._started.append(process)
        return process

    def at_it(self) -> subprocess.Popen[str]:
        """Start one; it has had its effect when this returns, and not kept a result."""
        process = self.start()
        assert process.stdout is not None
        assert process.stdout.readline() == "effect\n"
        return process

    def effects(self) -> list[int]:
        """Return the tokens of all effects, in order."""
        return [int(line.split()[1]) for line in self._effects.read_text().splitlines()]

    def end(self) -> None:
        """End all."""
        for process in self._started:
            process.kill()
            process.communicate(timeout=60)


@pytest.fixture
def doers(connection_string: str, container_name: str, tmp_path: Path) -> Iterator[Doers]:
    started = Doers(connection_string, container_name, tmp_path / "effects")
    try:
        yield started
    finally:
        started.end()


@pytest.fixture
def locks(connection_string: str, container_name: str) -> Iterator[LockClient]:
    options = SingletonOptions(container=container_name)
    with LockClient(connection_string, options=options, failover=FAILOVER) as client:
        yield client


def said(process: subprocess.Popen[str]) -> str:
    """Let it finish, and return its last line."""
    out, _ = process.communicate("\n", timeout=30)
    return out.strip().splitlines()[-1]


def test_one_that_is_killed_between_effect_and_result_leaves_one_more_effect_with_a_greater_token(
    doers: Doers, locks: LockClient
) -> None:
    first = doers.at_it()
    first.kill()
    second = doers.at_it()
    assert said(second) == f"by {second.pid}"
    assert once(locks, "42", name="charge").run(lambda: None) == {"by": second.pid}
    one, two = doers.effects()
    assert one < two


def test_one_that_is_paused_past_its_lease_raises_and_replaces_nothing(doers: Doers, locks: LockClient) -> None:
    first = doers.at_it()
    first.send_signal(signal.SIGSTOP)
    assert once(locks, "42", name="charge").run(lambda: {"by": 2}) == {"by": 2}
    first.send_signal(signal.SIGCONT)
    assert said(first).startswith("lost ")
    assert once(locks, "42", name="charge").run(lambda: None) == {"by": 2}
    assert said(doers.start()) == "by 2"
    assert len(doers.effects()) == 1


def test_of_many_processes_one_does_it(doers: Doers, locks: LockClient) -> None:
    started = [doers.start() for _ in range(4)]
    for process in started:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    results = {said(process) for process in started}
    assert len(results) == 1
    assert len(doers.effects()) == 1


@pytest.mark.parametrize("http", ["direct", "sdk"])
def test_results_expire_by_the_services_clock_and_are_read_as_written(
    connection_string: str, container_name: str, http: Literal["direct", "sdk"], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time", lambda: 0.0)  # the clock of this machine has no say
    locks = LockClient(connection_string, options=SingletonOptions(container=container_name, http=http))
    kept = {"text": "ä\x00", "parts": [1, 2.5, None]}
    assert once(locks, "k", keep=1).run(lambda: kept) == kept
    assert once(locks, "k").run(lambda: b"again") == kept
    time.sleep(2.3)
    assert once(locks, "k").run(lambda: b"\x00new") == b"\x00new"
    assert once(locks, "k").run(lambda: None) == b"\x00new"
