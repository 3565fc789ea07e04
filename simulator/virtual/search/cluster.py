"""Run the scenarios of ``explore`` on a Dask cluster.

The cluster's scheduler gives scenarios to workers. When a worker ends, the scheduler gives its scenarios to other
workers, and fails the scenarios after a few ended workers; then this process sends the scenarios again. The findings
come back in the order of the scenarios, as on one machine.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from simulator.virtual.search import cluster_worker
from simulator.virtual.search.exploration import Exploration, Summary

if TYPE_CHECKING:
    from collections.abc import Iterator

_CONNECT: Final = 10.0
"""Seconds within which the scheduler must answer, and have a worker."""
_ALONE: Final = 60.0
"""Seconds to wait for a worker when all have gone."""
_LOOK: Final = 2.0
_FETCH: Final = 60.0
"""Seconds to fetch an answer from its worker before looking whether it is still there."""
_AHEAD: Final = 8
"""Chunks under way for each thread of the cluster: a slow chunk does not hold up the others."""
_RETRIES: Final = 2
_SENDS: Final = 5
"""Times that a chunk is sent before its own scenarios are held to be what ends its workers."""
_ASK: Final = "__import__('simulator.virtual.search.cluster_worker', fromlist=['version']).version({modules!r})"


class ClusterError(Exception):
    """The cluster can't run the scenarios; the message says why, and what to do."""


def spread(plan: Exploration, address: str) -> Iterator[Summary]:
    """Run the plan's scenarios on the workers of the scheduler at ``address``.

    Raises:
        ClusterError: Dask isn't installed, the scheduler can't be reached, or its workers can't run them.
    """
    distributed = _dask()
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # this process reports instead
    try:
        client = distributed.Client(address, timeout=_CONNECT, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise ClusterError(
            f"no Dask scheduler answers at {address} within {_CONNECT:g} s ({_first_line(error)}): "
            "start one with `dask scheduler`, and give the address that it shows"
        ) from None
    with client:
        try:
            yield from _in_order(client, plan, _threads(client, plan, address))
        except asyncio.CancelledError:
            raise ClusterError(f"the scheduler at {address} was lost while scenarios were running") from None


def _dask() -> Any:
    try:
        return importlib.import_module("distributed")
    except ImportError:
        raise ClusterError("Dask (the extra [dask]) is not installed: pip install distributed") from None


def _threads(client: Any, plan: Exploration, address: str) -> int:
    """Return how many threads the workers have; every worker must have this code.

    Raises:
        ClusterError: the cluster has no worker, or a worker lacks the code.
    """
    try:
        client.wait_for_workers(1, timeout=_CONNECT)
    except TimeoutError:
        raise ClusterError(
            f"the scheduler at {address} has no workers: start some with `dask worker {address}`"
        ) from None
    for worker, said in sorted(client.run(eval, _ASK.format(modules=plan.modules), on_error="return").items()):
        if isinstance(said, OSError):  # it has gone meanwhile; if it comes back, it is asked with each chunk
            continue
        if isinstance(said, BaseException):
            raise ClusterError(
                f"the worker {worker} can't load the simulator ({_first_line(said)}): install "
                "azure-functions-singleton-sim in the environment of each worker"
            )
        _must_be_ours(str(said), plan, f"the worker {worker}")
    threads: dict[str, int] = client.nthreads()
    return max(1, sum(threads.values()))


def _must_be_ours(said: str, plan: Exploration, who: str) -> None:
    if said != (ours := cluster_worker.version(plan.modules)):
        raise ClusterError(
            f"{who} has another version of the simulator, {said}; here it is {ours}: install the same everywhere"
        )


@dataclass(slots=True)
class _SentChunk:
    chunk: tuple[Exploration, int, int]
    future: Any
    times: int = 1


def _in_order(client: Any, plan: Exploration, threads: int) -> Iterator[Summary]:
    left = iter(plan.chunks())
    under_way: deque[_SentChunk] = deque()
    while True:
        for chunk in islice(left, max(0, _AHEAD * threads - len(under_way))):
            under_way.append(_SentChunk(chunk, _send(client, chunk)))
        if not under_way:
            return
        yield _first_answer(client, under_way)
        under_way.popleft()


def _send(client: Any, chunk: tuple[Exploration, int, int]) -> Any:
    return client.submit(
        cluster_worker.carry_out, cluster_worker.version(chunk[0].modules), chunk, pure=False, retries=_RETRIES
    )


def _first_answer(client: Any, under_way: deque[_SentChunk]) -> Summary:
    """Wait for the first chunk for as long as there are workers; send again all that were given up."""
    first = under_way[0]
    alone_since: float | None = None
    while (part := _answer(first)) is None:
        for sent in under_way:
            if sent.times < _SENDS and _given_up(sent):
                sent.future = _send(client, sent.chunk)
                sent.times += 1
        with suppress(TimeoutError):
            first.future.exception(timeout=_LOOK)
        if client.nthreads():
            alone_since = None
        elif alone_since is None:
            alone_since = time.monotonic()
        elif time.monotonic() - alone_since > _ALONE:
            raise ClusterError(f"all workers have gone, and none came back within {_ALONE:g} s")
    if isinstance(part, Summary):
        return part
    _must_be_ours(part, first.chunk[0], "a worker that has joined")
    raise AssertionError("a worker refuses its own version")


def _answer(sent: _SentChunk) -> Summary | str | None:
    """Return None as long as there is no answer, and where the chunk is to be sent again."""
    if not sent.future.done():
        return None
    try:
        part: Summary | str = sent.future.result(timeout=_FETCH)
    except Exception as error:
        if isinstance(error, TimeoutError) and sent.future.status != "error":
            return None  # its worker ended before it was fetched: another one runs the chunk
        _, start, end = sent.chunk
        why = f"{type(error).__name__}: {_first_line(error)}"
        told = f"scenarios {start} to {end - 1} can't be run on the workers ({why})"
        if not isinstance(error, _dask().KilledWorker):
            raise ClusterError(told) from error
        if sent.times < _SENDS:
            return None
        raise ClusterError(
            f"{told}. They were sent {sent.times} times; each time the workers that had them ended. Look at what these "
            "workers wrote, and at the memory of their machines"
        ) from error
    return part


def _given_up(sent: _SentChunk) -> bool:
    """Say whether too many workers ended with this chunk, as Dask counts."""
    return sent.future.status == "error" and isinstance(sent.future.exception(), _dask().KilledWorker)


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
