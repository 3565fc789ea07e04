"""``explore`` on a Dask cluster of real processes: what one machine finds, whichever worker dies."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from simulator.virtual.faults import KINDS
from simulator.virtual.search import cluster as cluster_module
from simulator.virtual.search import cluster_worker, exploration
from simulator.virtual.search.cluster import ClusterError
from simulator.virtual.search.exploration import Exploration, Summary
from tests.worlds import WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parents[2]
PLAN = Exploration(scenarios=40, hosts=4, kinds=tuple(KINDS), workloads=WORKLOADS, seed=9)

pytestmark = pytest.mark.process


class Mourning:
    """A client of a scheduler whose workers end as they are asked for their version."""

    def __init__(self, **said: object) -> None:
        self._said = said

    def wait_for_workers(self, count: int, timeout: float) -> None:
        del count, timeout

    def run(self, *_: object, **__: object) -> dict[str, object]:
        return self._said

    def nthreads(self) -> dict[str, int]:
        return {worker: 2 for worker, said in self._said.items() if isinstance(said, str)}


@pytest.mark.parametrize(("lives", "threads"), [(True, 2), (False, 1)])
def test_a_worker_that_ends_as_it_is_asked_for_its_version_is_done_without(lives: bool, threads: int) -> None:
    """Where all have ended, chunks are sent all the same, and wait for workers that come back."""
    client = Mourning(
        one=OSError("Stream is closed"), **({"two": cluster_worker.version(PLAN.modules)} if lives else {})
    )
    assert cluster_module._threads(client, PLAN, "tcp://") == threads


class Cluster:
    """A scheduler on a port of its own, and workers of one thread each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = folder / "scheduler.json"
        self.workers: list[subprocess.Popen[bytes]] = []
        self._scheduler = self._start(
            "scheduler", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(self._file)
        )
        while not self._file.exists():
            assert self._scheduler.poll() is None
            time.sleep(0.05)
        self.address: str = json.loads(self._file.read_text())["address"]

    def add_worker(self) -> None:
        self.workers.append(self._start("worker", self.address, "--nthreads", "1", "--no-nanny"))

    def close(self) -> None:
        for process in (*self.workers, self._scheduler):
            if process.poll() is None:
                process.kill()
            process.wait()

    def _start(self, what: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (self._folder / "output").open("ab") as output:
            return subprocess.Popen(
                [sys.executable, "-m", "dask", what, *arguments, "--no-dashboard"],
                cwd=self._folder,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdout=output,
                stderr=output,
            )


@pytest.fixture(autouse=True)
def settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have small chunks, and take back after the test what worlds set."""
    monkeypatch.setattr(exploration, "_CHUNK", 5)
    monkeypatch.setenv("AzureWebJobsStorage", "UseDevelopmentStorage=true")
    monkeypatch.setenv("AzureFunctionsWebHost__hostid", "taken back after the test")
    monkeypatch.setenv("AzureFunctionsJobHost__functionTimeout", "-1")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path)
    yield cluster
    cluster.close()


def explored(cluster: Cluster, progress: Callable[[Summary], Any] = lambda _: None) -> Summary:
    found = exploration.explore(PLAN, progress, partial(cluster_module.spread, address=cluster.address))
    return replace(found, elapsed=0.0)


def test_two_workers_one_of_them_killed_find_what_one_machine_finds(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_module, "_CONNECT", 0.5)
    with pytest.raises(ClusterError, match="has no workers: start some with `dask worker tcp://127"):
        explored(cluster)
    monkeypatch.setattr(cluster_module, "_CONNECT", 30.0)
    alone = replace(exploration.explore(PLAN, lambda _: None), elapsed=0.0)
    cluster.add_worker()
    cluster.add_worker()
    seen: list[int] = []
    errands: list[psutil.Process] = []

    def progress(summary: Summary) -> None:
        if not seen:
            victim = cluster.workers[0]
            errands.extend(psutil.Process(victim.pid).children())
            victim.kill()
        seen.append(summary.scenarios)

    assert explored(cluster, progress) == alone
    assert seen == list(range(5, 45, 5))
    _, left = psutil.wait_procs(errands, timeout=10)
    assert not left, "the process of a dead worker lives on"
    monkeypatch.setattr(cluster_worker, "version", lambda _: "cafe on Python 3.0")
    with pytest.raises(ClusterError, match=r"worker tcp://.* has another version .* here it is cafe on Python 3\.0"):
        explored(cluster)
    monkeypatch.setattr(cluster_module, "_ASK", "__import__('no_such_simulator')")
    with pytest.raises(
        ClusterError, match=r"can't load the simulator .*no_such_simulator.*: install azure-functions-singleton-sim"
    ):
        explored(cluster)


def test_workers_killed_one_after_the_other_find_what_one_machine_finds_though_dask_gives_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_module, "_CONNECT", 30.0)
    monkeypatch.setenv("DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES", "0")
    alone = replace(exploration.explore(PLAN, lambda _: None), elapsed=0.0)
    sent: list[int] = []
    with closing(Cluster(tmp_path)) as cluster:
        cluster.add_worker()
        cluster.add_worker()

        def progress(summary: Summary) -> None:
            if summary.scenarios <= 10:
                cluster.workers[-2].kill()
                cluster.add_worker()

        def send(client: Any, chunk: tuple[Exploration, int, int]) -> Any:
            sent.append(chunk[1])
            return as_it_is(client, chunk)

        as_it_is = cluster_module._send
        monkeypatch.setattr(cluster_module, "_send", send)
        assert explored(cluster, progress) == alone
    assert set(sent) == set(range(0, 40, 5))
    assert len(sent) > 8, "Dask gave up none"
