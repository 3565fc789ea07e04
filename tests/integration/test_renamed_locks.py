"""Real processes of an app whose lock is renamed, old and new versions side by side on the emulator."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from tests.support import version_of_app

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.process

ROOT: Final = Path(__file__).resolve().parents[2]
ENOUGH: Final = 15
PATIENCE: Final = 60.0
HOST_JSON: Final = (
    '{"version": "2.0", "singleton": {"container": "%s", "lockAcquisitionPollingInterval": "00:00:00.5", '
    '"lockAcquisitionMinPollingInterval": "00:00:00.02"}}'
)


class Line(NamedTuple):
    """What a process wrote down."""

    what: str
    pid: int
    version: str
    scope: str
    token: int


class Fleet:
    """Processes of versions of one app, and their journal."""

    def __init__(self, folder: Path, connection: str) -> None:
        self._folder = folder
        container = f"renamed-{time.time_ns()}"
        (folder / "host.json").write_text(HOST_JSON % container)
        self._journal = folder / "journal"
        self._journal.touch()
        self._environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "AzureWebJobsScriptRoot": str(folder),
            "AzureFunctionsWebHost__hostid": "app",
            "AzureWebJobsStorage": connection,
        }

    @contextmanager
    def running(self, version: str, functions: str) -> Iterator[subprocess.Popen[bytes]]:
        command = [sys.executable, version_of_app.__file__, version, str(self._journal), functions]
        process = subprocess.Popen(
            command, env=self._environment, cwd=self._folder, stdin=subprocess.PIPE, start_new_session=True
        )
        try:
            yield process
            if process.poll() is None:
                process.communicate(timeout=60)
                assert process.returncode == 0
        finally:
            process.kill()
            process.wait()
            assert process.stdin is not None
            process.stdin.close()

    def lines(self) -> list[Line]:
        found = [text.split() for text in self._journal.read_text().splitlines()]
        return [Line(what, int(pid), version, scope, int(token)) for what, pid, version, scope, token in found]

    def until_each_had_enough(self, *versions: str, since: int = 0) -> None:
        end = time.monotonic() + PATIENCE
        while True:
            had = Counter(line.version for line in self.lines()[since:] if line.what == "enter")
            if all(had[version] >= ENOUGH for version in versions):
                return
            assert time.monotonic() < end, had
            time.sleep(0.1)

    def until_all_scopes_had(self, version: str, *, since: int) -> None:
        end = time.monotonic() + PATIENCE
        while {line.scope for line in self.lines()[since:] if line.version == version} < {*version_of_app.SCOPES}:
            assert time.monotonic() < end, self.lines()[since:]
            time.sleep(0.1)


def overlaps(lines: list[Line], killed: frozenset[int] = frozenset()) -> int:
    """Count those who were inside while another one was, of the same scope."""
    inside: dict[str, Line] = {}
    count = 0
    for line in lines:
        if line.what == "enter":
            other = inside.get(line.scope)
            count += other is not None and other.pid not in killed
            inside[line.scope] = line
        elif inside.get(line.scope, line).pid == line.pid:
            inside.pop(line.scope, None)
    return count


def assert_increasing(lines: list[Line]) -> None:
    for scope in version_of_app.SCOPES:
        entered = [line for line in lines if line.what == "enter" and line.scope == scope]
        for before, after in itertools.pairwise(entered):
            assert after.token > before.token, f"{after} after {before}"


def handed_over(lines: list[Line]) -> set[tuple[str, str]]:
    """Return which version followed which on one scope."""
    pairs: set[tuple[str, str]] = set()
    for scope in version_of_app.SCOPES:
        entered = [line.version for line in lines if line.what == "enter" and line.scope == scope]
        pairs.update(itertools.pairwise(entered))
    return pairs


def test_two_deployments_one_after_the_other_leave_no_gap_and_tokens_increase_over_all(
    tmp_path: Path, connection_string: str
) -> None:
    fleet = Fleet(tmp_path, connection_string)
    killed = set()
    with ExitStack() as last:
        with ExitStack() as second:
            with ExitStack() as first:
                for functions in ("sync", "async"):
                    first.enter_context(fleet.running("old", functions))
                    second.enter_context(fleet.running("both", functions))
                fleet.until_each_had_enough("old", "both")
                victim = second.enter_context(fleet.running("both", "sync"))
                time.sleep(1.0)
                os.kill(victim.pid, signal.SIGKILL)
                killed.add(victim.pid)
                fleet.until_each_had_enough("old", "both", since=len(fleet.lines()))
            # The killed one may have left a lease that keeps them from one of the locks until it lapses.
            fleet.until_all_scopes_had("both", since=len(fleet.lines()))
            for functions in ("sync", "async"):
                last.enter_context(fleet.running("new", functions))
            fleet.until_each_had_enough("both", "new", since=len(fleet.lines()))
        fleet.until_each_had_enough("new", since=len(fleet.lines()))
    lines = fleet.lines()
    assert overlaps(lines, frozenset(killed)) == 0
    assert_increasing(lines)
    assert handed_over(lines) >= {("old", "both"), ("both", "old"), ("both", "new"), ("new", "both")}


def test_without_also_old_and_new_versions_overlap(tmp_path: Path, connection_string: str) -> None:
    """What the test above would see if the old name were not taken: it can fail."""
    fleet = Fleet(tmp_path, connection_string)
    with fleet.running("old", "sync"), fleet.running("new", "sync"):
        fleet.until_each_had_enough("old", "new")
    assert overlaps(fleet.lines()) > 0
