"""What all tests share: determinism where it is asked for, and nothing left behind."""

from __future__ import annotations

import asyncio
import functools
import gc
import inspect
import itertools
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import psutil
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

# A busy machine is no finding: no deadline, and data may be drawn slowly.
_BUSY: Any = {"deadline": None, "suppress_health_check": [hypothesis.HealthCheck.too_slow]}
hypothesis.settings.register_profile("dev", **_BUSY)
# The same examples on every run: a red CI stays red, a green one stays green.
hypothesis.settings.register_profile("ci", **_BUSY, derandomize=True, print_blob=True)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev"))

# Tests that run on one worker: they share what takes long, or would starve one another.
GROUPS = {
    "tests/cli/test_runs.py": "runs",
    "tests/cli/test_triggers_run.py": "runs",
    "tests/cli/": "cli",
    "tests/docs/test_docs_site.py": "site",
    "tests/integration/test_faults.py": "faults",
    "tests/integration/test_faults_replies.py": "faults",
    "tests/integration/test_packaging.py": "packaging",
    "tests/integration/test_postgres.py": "postgres",
    "tests/integration/test_processes_stalled.py": "faults",
    "tests/integration/test_report_page.py": "browser",
    "tests/integration/test_worker_shapes.py": "shapes",
    "tests/integration/test_worker_tools.py": "tools",
    "tests/simulation/test_drawn_arguments.py": "drawn",
}
QUICK = ("tests/unit/", "tests/conformance/")
COMPUTING = ("gw0", "gw1")
"""Workers that begin with the last tests, which compute; the others begin with those that wait."""
# Threads that outlive a test on purpose: one for each process, or of a pool that its event loop ends.
LASTING = ("singleton-", "asyncio_", "execnet", "Dummy-")
GRACE = 30.0

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # As in a shell's background: the tests that interrupt, and the processes that they start, need it back.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--no-processes",
        action="store_true",
        help="leave out the tests that are marked `process`, and let no other start a process",
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep groups together by their files, and let two workers begin at the other end: with what computes.

    Tests of real processes wait for most of their time. Beside them the cores have work from the start.
    xdist 3.8 notes the groups of its marker where pytest 9.2 does not look.
    """
    if config.getvalue("dist") != "loadgroup":
        return None
    assert all((config.rootpath / start).exists() for start in GROUPS)
    from xdist.scheduler import LoadGroupScheduling

    scheduling = LoadGroupScheduling(config, log)
    assign = scheduling._assign_work_unit

    def from_both_ends(node: Any) -> None:
        if node.gateway.id in COMPUTING:
            scheduling.workqueue.move_to_end(next(reversed(scheduling.workqueue)), last=False)
        assign(node)

    config.option.loadscopereorder = False  # the order is that of _turn
    scheduling._assign_work_unit = from_both_ends
    scheduling._split_scope = _group
    return scheduling


def _group(nodeid: str) -> str:
    """Return the group of a test: of a quick one its file, as the scheduler looks at all groups after each test."""
    own = nodeid.partition("::")[0] if nodeid.startswith(QUICK) else nodeid
    return next((group for start, group in GROUPS.items() if nodeid.startswith(start)), own)


def _refused(*_: object, **__: object) -> None:
    raise AssertionError("this test starts a process: mark it with @pytest.mark.process")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let each coroutine test fail that leaves a task behind; leave out what starts processes, where none may be."""
    if config.getoption("--no-processes"):
        left_out = [item for item in items if item.get_closest_marker("process")]
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=left_out)
    for item in items:
        if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.obj):
            item.obj = _awaits_its_tasks(item.obj)
    items.sort(key=_turn)


# Collecting leaves no garbage, and to look for some among thousands of tests takes a quarter of the time.
gc.disable()


def pytest_collection_finish() -> None:
    """Let no garbage collection look at thousands of tests: they stay."""
    gc.freeze()
    gc.enable()


_count = itertools.count(1)


def _collect_now_and_then() -> None:
    """Let no collection look at what earlier tests have left for good: their reports, and what the SDKs remember.

    Some tests collect after each of a hundred steps.
    """
    if next(_count) % 20 == 0:
        gc.collect()
        gc.freeze()


def _turn(item: pytest.Item) -> int:
    """Let those that wait for real time come first, and those that compute for long come last: see the scheduler."""
    folder = item.path.parent.name
    if item.get_closest_marker("slow"):
        return 0 if folder in {"cli", "docs"} else 1  # the longest begin
    return 2 if folder in {"cli", "integration"} else 4 if folder in {"docs", "simulation"} else 3


def _awaits_its_tasks(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., Coroutine[Any, Any, None]]:
    @functools.wraps(test)
    async def checked(*args: Any, **kwargs: Any) -> None:
        before = asyncio.all_tasks()
        await test(*args, **kwargs)
        # Those that are just ending may.
        for _ in range(10):
            await asyncio.sleep(0)
        if left := asyncio.all_tasks() - before:
            pytest.fail(f"The test left tasks behind: {', '.join(sorted(map(repr, left)))}")

    return checked


@pytest.fixture(autouse=True, scope="session")
def no_processes(request: pytest.FixtureRequest) -> Iterator[None]:
    """Hold the tests that are not marked to it."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        if request.config.getoption("--no-processes"):
            platform.platform()  # which the SDK asks once, and which starts `uname`
            monkeypatch.setattr(subprocess.Popen, "__init__", _refused)
        yield


@pytest.fixture(autouse=True, scope="module")
def settings_stay() -> Iterator[None]:
    """Fail tests that leave a setting behind: the hosts of other tests would take it for their own."""
    before = _settings()
    yield
    if changed := {name for name, _ in before.items() ^ _settings().items()}:
        os.environ.update({name: before[name] for name in changed & before.keys()})
        for name in changed - before.keys():
            del os.environ[name]
        pytest.fail(f"The tests of this file left settings behind: {', '.join(sorted(changed))}")


@pytest.fixture
def prepared_for_worlds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prepare the process for virtual worlds. What these declare keeps the host id of its first world."""
    from simulator.virtual.worlds.runtime import prepare_process

    monkeypatch.setenv("AzureWebJobsStorage", "UseDevelopmentStorage=true")
    monkeypatch.setenv("AzureFunctionsWebHost__hostid", "taken back after the test")
    monkeypatch.setenv("AzureFunctionsJobHost__functionTimeout", "-1")
    prepare_process()


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """Fail a test that leaves a thread or a child process behind. Sockets and files: their ResourceWarning is an error.

    What a fixture of wider scope started is not the test's: it was there before. What a test, or an example of the
    docs, has begun to observe is ended here, and locks that it had elsewhere are on the process's lock thread again.
    The guards that it declared are forgotten: each check of an app looks at all of the process.
    """
    guards = len(_declared_guards())
    # Read twice: a process that ends during a reading may hide another one from it.
    threads, children = set(_threads()), _children() | _children()
    yield
    if (observing := sys.modules.get("singleton.observing.observe")) is not None:
        observing._take_the_place_of(None, ())
    if (current := sys.modules.get("singleton.runtime.provided")) is not None:
        current.provide_runtime(None)
    del _declared_guards()[guards:]
    end = time.monotonic() + GRACE
    while left := [*(set(_threads()) - threads), *(_children() - children)]:
        if time.monotonic() > end:
            named = [process for process in psutil.Process().children(recursive=True) if process.pid in left]
            pytest.fail(f"The test left behind: {', '.join(sorted(map(str, [*left, *named])))}")
        time.sleep(0.02)
    _collect_now_and_then()


def _declared_guards() -> list[Any]:
    decorator = sys.modules.get("singleton.decorator")
    return [] if decorator is None else decorator._declared


def _settings() -> dict[str, str]:
    return {name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")}


def _threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if not thread.name.startswith(LASTING)]


def _children() -> set[int]:
    """Return the processes below this one; psutil looks at all of the machine's, which takes longer than most tests."""
    try:
        return _below("self")
    except OSError:  # no Linux, or a thread or process that has just ended
        return {process.pid for process in psutil.Process().children(recursive=True)}


def _below(process: str) -> set[int]:
    tasks = Path("/proc", process, "task").iterdir()
    pids = {pid for task in tasks for pid in (task / "children").read_text().split()}
    return {int(pid) for pid in pids}.union(*map(_below, pids))
