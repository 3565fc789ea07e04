"""Versions of this package side by side on the same locks.

The wheels in ``versions/`` are older versions, without the simulator. One was made of its commit like this::

    git archive COMMIT | tar x -C FOLDER
    sed -i '/^packages/s/, "simulator"//; /= "simulator.[cs]/d' FOLDER/pyproject.toml
    SOURCE_DATE_EPOCH=$(git log -1 --format=%ct COMMIT) pip wheel --no-deps -w tests/integration/versions/VERSION FOLDER

- ``stamps-always``: c21e7c9b289a33acf0bcda5263d0a73bad37c635, the last that stamped its blob at each acquisition
- ``stamps-seldom``: a8080497b0c4f35668b68b88947d07ab06ff8dcd, the last that had only the SDK
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import pytest

from singleton import SingletonOptions
from tests.support import contender

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

ROOT: Final = Path(__file__).resolve().parents[2]
WHEELS: Final = Path(__file__).parent / "versions"
BEFORE: Final = ("stamps-always", "stamps-seldom")
NOW: Final = "now"
ALL: Final = (*BEFORE, NOW)
EACH: Final = 2
"""Processes of each version."""
ENOUGH: Final = 15
"""Sections that each version must have had before the kills, and again once the leases of the killed have ended."""
PATIENCE: Final = 60.0
POLLS: Final = {"lock_acquisition_polling_interval": 0.5, "lock_acquisition_min_polling_interval": 0.02}


class Line(NamedTuple):
    """What a process wrote down: see ``contender.py``. ``killed`` is written once it is dead."""

    what: str
    pid: int
    version: str
    name: str
    token: int | None


def line(text: str) -> Line:
    what, pid, version, name, token = text.split()
    return Line(what, int(pid), version, name, None if token == "None" else int(token))


def findings(lines: Iterable[Line]) -> list[str]:
    """Say where two were inside one lock at once, and where a token is not greater than the one before."""
    inside: dict[str, Line] = {}
    last: dict[str, Line] = {}
    found = []
    for one in lines:
        if one.what == "enter":
            if (other := inside.get(one.name)) is not None:
                found.append(f"two inside: {one}, while {other}")
            before = last.get(one.name)
            if one.token is None or (before is not None and one.token <= (before.token or 0)):
                found.append(f"not greater: {one}, after {before}")
            inside[one.name] = last[one.name] = one
        elif one.what == "leave":
            inside.pop(one.name, None)
        elif one.what == "killed":
            inside = {name: other for name, other in inside.items() if other.pid != one.pid}
    return found


def sections(lines: Iterable[Line]) -> Counter[str]:
    return Counter(one.version for one in lines if one.what == "enter")


def handed_over(lines: Iterable[Line]) -> set[tuple[str, str]]:
    """Return which version followed which on one lock."""
    pairs: set[tuple[str, str]] = set()
    last: dict[str, str] = {}
    for one in lines:
        if one.what == "enter":
            pairs.add((last.get(one.name, one.version), one.version))
            last[one.name] = one.version
    return pairs


class Fleet:
    """Processes of several versions, their journal, and kills."""

    def __init__(self, packages: dict[str, Path], folder: Path, storage: str, container: str) -> None:
        self._packages, self._storage, self._container = packages, storage, container
        self._journal = folder / "journal"
        self._journal.touch()
        self._processes: list[tuple[str, subprocess.Popen[bytes]]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        for _, process in self._processes:
            _kill(process)

    def start(self, version: str) -> None:
        number = len(self._processes)
        options = {**POLLS, **(newest() if version == NOW and number % EACH else {})}
        environment = {**os.environ, "PYTHONPATH": str(self._packages[version]), "LOCKS": self._storage}
        command = [sys.executable, "-P", contender.__file__, version, str(self._journal), self._container, str(number)]
        process = subprocess.Popen([*command, json.dumps(options)], env=environment, stdin=subprocess.PIPE)
        self._processes.append((version, process))

    def lines(self) -> list[Line]:
        whole = self._journal.read_text().rpartition("\n")[0]
        return list(map(line, whole.splitlines()))

    def until(self, done: Callable[[list[Line]], bool], what: str) -> None:
        end = time.monotonic() + PATIENCE
        while not done(lines := self.lines()):
            assert time.monotonic() < end, f"{what}: not within {PATIENCE:g} s; {sections(lines)}"
            self._all_live()
            time.sleep(0.05)

    def kill_inside(self, version: str) -> set[str]:
        """Kill a process of this version while it is inside a lock that all use; return which those are."""
        for process in itertools.cycle([process for each, process in self._processes if each == version]):
            process.send_signal(signal.SIGSTOP)
            time.sleep(0.005)  # what it had begun to write is written
            inside: set[str] = set()
            for one in self.lines():
                if one.pid == process.pid and one.name in contender.HOT:
                    (inside.add if one.what == "enter" else inside.discard)(one.name)
            if inside:
                _kill(process)
                with self._journal.open("a") as journal:
                    journal.write(f"killed {process.pid} {version} - None\n")
                self._processes.remove((version, process))
                return inside
            process.send_signal(signal.SIGCONT)
            time.sleep(0.005)
        raise AssertionError

    def end(self) -> list[Line]:
        for _, process in self._processes:
            assert process.stdin is not None
            process.stdin.close()
        for _, process in self._processes:
            process.wait(60)
        self._all_live()
        return self.lines()

    def _all_live(self) -> None:
        for version, process in self._processes:
            assert process.poll() in (None, 0), f"a process of {version} failed; its words are on stderr"


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    assert process.stdin is not None
    process.stdin.close()


def newest() -> dict[str, Any]:
    """Return options that only this version has: half of its processes have them."""
    return {"failover": 2.0} if hasattr(SingletonOptions(), "failover") else {}


@pytest.fixture
def packages(tmp_path: Path) -> dict[str, Path]:
    """Return a folder for each version, which has the package as it was."""
    folders = {NOW: ROOT}
    for version in BEFORE:
        (wheel,) = (WHEELS / version).glob("*.whl")
        folders[version] = tmp_path / version
        with zipfile.ZipFile(wheel) as package:
            package.extractall(folders[version])
    return folders


@pytest.mark.slow
@pytest.mark.process
def test_versions_exclude_one_another_and_their_tokens_increase_through_a_storm_with_kills(
    packages: dict[str, Path], tmp_path: Path, connection_string: str, container_name: str
) -> None:
    with Fleet(packages, tmp_path, connection_string, container_name) as fleet:
        for version in ALL * EACH:
            fleet.start(version)
        fleet.until(lambda lines: all(sections(lines)[version] >= ENOUGH for version in ALL), "sections of each")
        locked = set().union(*(fleet.kill_inside(version) for version in ALL))
        for version in ALL:
            fleet.start(version)
        killed = len(fleet.lines())

        def taken_over(lines: list[Line]) -> bool:
            after = [one for one in lines[killed:] if one.what == "enter"]
            freed = [one for one in after if one.name in locked]
            return {one.name for one in freed} == locked and all(sections(freed)[each] >= ENOUGH for each in ALL)

        fleet.until(taken_over, "sections of each after the kills")
        lines = fleet.end()
    assert findings(lines) == []
    assert handed_over(lines) >= set(itertools.product(ALL, ALL))
    homes = {(one.version, Path(one.name).parents[1]) for one in lines if one.what == "begin"}
    assert homes == set(packages.items()), "each process had the package of its version"


@pytest.mark.parametrize(
    ("told", "found"),
    [
        (["enter 1 a x 1", "leave 1 a x 1", "enter 2 b x 2"], []),
        (["enter 1 a x 1", "enter 2 b y 1"], []),
        (["enter 1 a x 1", "killed 1 a - None", "enter 2 b x 2"], []),
        (["enter 1 a x 1", "enter 2 b x 2"], ["two inside"]),
        (["enter 1 a x 1", "killed 3 a - None", "enter 2 b x 2"], ["two inside"]),
        (["enter 1 a x 2", "leave 1 a x 2", "enter 2 b x 2"], ["not greater"]),
        (["enter 1 a x None"], ["not greater"]),
    ],
)
def test_the_judge_of_a_journal_finds_two_inside_and_tokens_that_do_not_increase(
    told: list[str], found: list[str]
) -> None:
    assert [each.partition(":")[0] for each in findings(map(line, told))] == found
