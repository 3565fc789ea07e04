"""Hunt for planted bugs: a process that forks for each, so that as little as possible is imported for it.

A line of JSON asks, ``{"bug": {"file", "old", "new"} or null, "tests": [...], "explore": [scenarios, seed, first,
workload, over the wire]}``, and a line of JSON answers.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import signal
import sys
import tempfile
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.metadata import entry_points
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import pytest

from tests.simulation.exchange import exchange

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType, ModuleType

ROOT: Final = Path(__file__).resolve().parents[2]
_TIME: Final = 400
"""Seconds of real time for one hunt: a thousand scenarios on a machine that does three a second."""
_MEMORY: Final = 4 << 30
"""Bytes that a planted bug may use up."""
_OURS: Final = ("singleton", "simulator", "_singleton_found", "_singleton_pytest")
_WORLDS: Final = "tests.worlds"
_PREPARED: Final = ("simulator.virtual.search.exploration", "simulator.virtual.worlds.runtime")
_OTHERS: Final = ("azure.functions", "azure.storage.blob.aio", "azure.storage.queue.aio", "hypothesis")
"""What others wrote, and all worlds import."""


class Planting(SourceFileLoader):
    """Finds modules as always, but one with a bug in it."""

    def __init__(self, bug: dict[str, str]) -> None:
        super().__init__("", str(ROOT / bug["file"]))
        self._bug = bug
        self.done = False

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return the module's spec, with this loader if the bug is in it."""
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.origin == self.path:
            self.name = name
            spec.loader = self
        return spec

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002 - the only module there is
        """Compile the changed text: what is compiled already is that of the right one."""
        self.done = True
        source = Path(self.path).read_text(encoding="utf-8")
        return compile(source.replace(self._bug["old"], self._bug["new"]), self.path, "exec", dont_inherit=True)


class Failures:
    """Notices which test failed first."""

    first: str | None = None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.first = self.first or report.nodeid


def _explore(scenarios: int, seed: int, first: int, among: str, wire: bool) -> dict[str, object]:
    """Run scenario after scenario until one breaks a promise, number ``first`` before all others.

    ``among`` is a workload, or one with small worlds: then each point is struck once, in one order of events.
    """
    from simulator.virtual.faults import KINDS
    from simulator.virtual.search.exploration import Exploration
    from simulator.virtual.search.points import every_point
    from simulator.virtual.worlds.registry import small
    from simulator.virtual.worlds.runtime import prepare_process
    from tests.worlds import WORKLOADS

    prepare_process()
    if among in small():
        plan: Exploration = every_point((among,), orders=1, seed=seed)
    else:
        workloads = (among,) if among else WORKLOADS
        plan = Exploration(scenarios=scenarios, hosts=5, kinds=tuple(KINDS), workloads=workloads, seed=seed, wire=wire)
    for index in sorted(range(plan.scenarios), key=lambda index: index != first - 1):
        try:
            violations = plan.scenario(index).run().violations
        except Exception as error:  # noqa: BLE001 - no world can be made: whoever explores sees that
            return {"check": "no world", "text": repr(error), "after": index + 1}
        if violations:
            return {"check": violations[0].check, "text": violations[0].text, "after": index + 1}
    return {"check": None, "text": "", "after": scenarios}


def _test(tests: list[str]) -> dict[str, object]:
    """Run tests until one fails."""
    failures = Failures()
    quiet = ("-x", "-q", *("-p", "no:cacheprovider"), *("-p", "no:randomly"), *("-p", "no:xdist"))
    imported = ("-W", "ignore::pytest.PytestAssertRewriteWarning")  # plugins are there already
    unexplained = ("--assert=plain",)  # in CI, pytest would draw whole differences, which takes minutes
    code = pytest.main([*quiet, *imported, *unexplained, *tests], plugins=[failures])
    if code not in (0, 1) or (code == 1 and failures.first is None):
        raise SystemExit("the tests could not run")
    return {"check": failures.first and "tests", "text": failures.first or "", "after": 0}


def _answer(wanted: dict[str, Any]) -> dict[str, object]:
    """Plant the bug in this process, and look for it."""
    signal.alarm(_TIME)
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = _MEMORY if hard == resource.RLIM_INFINITY else min(_MEMORY, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    planting = wanted["bug"] and _plant(wanted["bug"])
    found = _test(wanted["tests"]) if wanted["tests"] else _explore(*wanted["explore"])
    if planting and not planting.done:
        raise SystemExit(f"nothing has imported {planting.path}")
    return found


def _plant(bug: dict[str, str]) -> Planting | None:
    """Exchange code where that is enough; else return what plants the bug when its module is imported."""
    path = str(ROOT / bug["file"])
    right = Path(path).read_text(encoding="utf-8")
    if exchange(path, right, right.replace(bug["old"], bug["new"])):
        return None
    planting = Planting(bug)
    sys.meta_path.insert(0, planting)
    if path in {getattr(module, "__file__", None) for module in sys.modules.values()}:
        for name in [name for name in sys.modules if name.partition(".")[0] in _OURS or name.startswith(_WORLDS)]:
            del sys.modules[name]
    return planting


def _in_a_fork(wanted: dict[str, Any], said: IO[bytes], result: Path) -> int:
    """Answer in a fork; return its exit code."""
    if child := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 1
    try:
        os.dup2(said.fileno(), 1)
        os.dup2(said.fileno(), 2)
        result.write_text(json.dumps(_answer(wanted)), encoding="utf-8")
        code = 0
    except BaseException:  # noqa: BLE001 - told, and the fork ends
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    """Answer until nobody asks."""
    os.environ["HYPOTHESIS_PROFILE"] = "ci"  # which keeps no examples that a bug has failed
    for name in (*_PREPARED, *_OTHERS):
        importlib.import_module(name)
    for plugin in entry_points(group="pytest11"):
        plugin.load()
    for line in sys.stdin:
        with tempfile.NamedTemporaryFile() as said, tempfile.NamedTemporaryFile() as result:
            if code := _in_a_fork(json.loads(line), said, Path(result.name)):
                said_last = Path(said.name).read_text(encoding="utf-8")[-5000:]
                answer = {"error": f"{said_last}exit code {code} (-{signal.SIGALRM:d}: after {_TIME} s)"}
            else:
                answer = json.loads(Path(result.name).read_text(encoding="utf-8"))
        print(json.dumps(answer), flush=True)  # noqa: T201 - the protocol with the test


if __name__ == "__main__":
    main()
