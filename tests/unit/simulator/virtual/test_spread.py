"""Chunks that Dask gives up, because too many workers ended with them, are sent again."""

from __future__ import annotations

import itertools
from collections import Counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from distributed import KilledWorker

from simulator.virtual.faults import KINDS
from simulator.virtual.search import cluster as cluster_room
from simulator.virtual.search import exploration
from simulator.virtual.search.cluster import ClusterError
from simulator.virtual.search.exploration import Exploration, Summary
from tests.worlds import WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

CHUNK = exploration._CHUNK
PLAN = Exploration(scenarios=20 * CHUNK, hosts=2, kinds=tuple(KINDS), workloads=WORKLOADS)
LAST: Any = SimpleNamespace(address="tcp://last")
KILLED = KilledWorker("a task", LAST, 3)


class Future:
    """What comes of a chunk, once it is ready."""

    def __init__(self, end: Summary | Exception, ready: Callable[[], bool], fetched: Callable[[], bool]) -> None:
        self._end, self._ready, self._fetched = end, ready, fetched

    @property
    def status(self) -> str:
        if not self._ready():
            return "pending"
        return "finished" if isinstance(self._end, Summary) else "error"

    def done(self) -> bool:
        return self._ready()

    def exception(self, timeout: float | None = None) -> Exception | None:
        del timeout
        if not self._ready():
            raise TimeoutError
        return None if isinstance(self._end, Summary) else self._end

    def result(self, timeout: float | None = None) -> Summary:
        assert timeout is not None, "it would wait for ever for a worker that has gone"
        if not self._fetched():
            raise TimeoutError
        if isinstance(self._end, Summary):
            return self._end
        raise self._end


class Cluster:
    """A client of a cluster whose workers end with some chunks, as often as told."""

    def __init__(
        self,
        ends: Mapping[int, int],
        broken: int | None = None,
        error: Exception = KILLED,
        ready: Callable[[int], bool] = lambda _: True,
        fetched: Callable[[], bool] = lambda: True,
        threads: int = 1,
    ) -> None:
        self._ends, self._broken, self._error, self._ready = ends, broken, error, ready
        self._fetched, self._threads = fetched, threads
        self.sent: Counter[int] = Counter()

    def submit(self, function: object, version: str, chunk: tuple[Exploration, int, int], **more: object) -> Future:
        del function, version, more
        start, end = chunk[1:]
        number = start // CHUNK
        self.sent[number] += 1
        broken = start if number == self._broken else None
        part = Summary(scenarios=end - start, virtual_seconds=float(start), broken=broken)
        ended = self.sent[number] <= self._ends.get(number, 0)
        return Future(self._error if ended else part, lambda: self._ready(number), self._fetched)

    def nthreads(self) -> dict[str, int]:
        return {"tcp://one": self._threads} if self._threads else {}

    def explored(self) -> tuple[Summary, list[int]]:
        seen: list[int] = []
        found = exploration.explore(
            PLAN, lambda summary: seen.append(summary.scenarios), lambda plan: cluster_room._in_order(self, plan, 1)
        )
        found.elapsed = 0.0
        return found, seen


def test_chunks_that_were_given_up_are_sent_again_and_change_nothing_in_what_is_found() -> None:
    calm, killing = Cluster({}, broken=18), Cluster({0: 1, 1: 4, 9: 2, 18: 4, 19: 1}, broken=18)
    found, seen = killing.explored()
    assert (found, seen) == calm.explored()
    assert found.broken == 18 * CHUNK
    assert seen == list(range(CHUNK, 19 * CHUNK + 1, CHUNK))
    assert [killing.sent[number] for number in (0, 1, 2, 9, 18)] == [2, 5, 1, 3, 5]


def test_chunks_that_were_given_up_are_sent_again_while_an_earlier_one_still_runs() -> None:
    looks = itertools.count()

    def ready(number: int) -> bool:
        return number > 0 or (cluster.sent[3], cluster.sent[5]) == (2, 3) or next(looks) >= 100

    cluster = Cluster({3: 1, 5: 2}, ready=ready)
    found, _ = cluster.explored()
    assert found.scenarios == PLAN.scenarios
    assert next(looks) < 100, "only when the first was done"


def test_a_chunk_that_ends_its_workers_each_time_ends_the_run_with_words_on_where_to_look() -> None:
    cluster = Cluster({2: 1000})
    with pytest.raises(ClusterError, match=r"^scenarios 20 to 29 can't .*tcp://last.* sent 5 times.* Look at .*memory"):
        cluster.explored()
    assert cluster.sent[2] == 5


def test_a_promise_broken_before_a_chunk_that_ends_its_workers_is_found_as_on_one_machine() -> None:
    found, seen = Cluster({2: 1000}, broken=1).explored()
    assert (found.broken, seen) == (CHUNK, [CHUNK, 2 * CHUNK])


def test_an_error_of_the_chunk_itself_ends_the_run_at_once() -> None:
    cluster = Cluster({2: 1}, error=RuntimeError("the process that ran them ended with code -9"))
    with pytest.raises(ClusterError, match=r"^scenarios 20 to 29 can't .*\(RuntimeError: the process .* code -9\)$"):
        cluster.explored()
    assert cluster.sent[2] == 1


def test_an_answer_whose_worker_ended_before_it_was_fetched_is_waited_for() -> None:
    tries = itertools.count()
    calm, slow = Cluster({}), Cluster({}, fetched=lambda: next(tries) % 3 == 2)
    assert slow.explored() == calm.explored()
    assert slow.sent == calm.sent


def test_an_answer_whose_worker_ended_before_it_was_fetched_is_not_waited_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster_room, "_ALONE", 0.0)
    with pytest.raises(ClusterError, match=r"^all workers have gone, and none came back within 0 s$"):
        Cluster({}, fetched=lambda: False, threads=0).explored()


def test_a_chunk_that_ran_out_of_time_by_itself_ends_the_run_at_once() -> None:
    cluster = Cluster({2: 1}, error=TimeoutError("no answer"))
    with pytest.raises(ClusterError, match=r"^scenarios 20 to 29 can't .*\(TimeoutError: no answer\)$"):
        cluster.explored()
