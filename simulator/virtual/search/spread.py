"""Run the scenarios of ``explore`` on a Dask cluster.

The cluster's scheduler gives them to its workers, and again to others when one ends. Their findings come back in the
order of the scenarios, so that they are those of one machine.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import time
from collections import deque
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from simulator.virtual.search import errand
from simulator.virtual.search.explore import Plan, Summary, chunks

if TYPE_CHECKING:
    from collections.abc import Iterator

_CONNECT: Final = 10.0
"""Seconds within which the scheduler must answer, and have a worker."""
_ALONE: Final = 60.0
"""Seconds to wait for a worker when all have gone."""
_LOOK: Final = 2.0
_AHEAD: Final = 8
"""Chunks under way for each thread of the cluster: a slow chunk does not hold up the others."""
_RETRIES: Final = 2
_ASK: Final = "__import__('simulator.virtual.search.errand', fromlist=['version']).version()"


class ClusterError(Exception):
    """The cluster can't run the scenarios; the message says why, and what to do."""


def spread(plan: Plan, address: str) -> Iterator[Summary]:
    """Run the plan's scenarios on the workers of the scheduler at ``address``.

    Raises:
        ClusterError: Dask isn't installed, the scheduler can't be reached, or its workers can't run them.
    """
    distributed = _dask()
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # this process says it
    try:
        client = distributed.Client(address, timeout=_CONNECT, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise ClusterError(
            f"no Dask scheduler answers at {address} within {_CONNECT:g} s ({_first_line(error)}): "
            "start one with `dask scheduler`, and give the address that it shows"
        ) from None
    with client:
        try:
            yield from _in_order(client, plan, _threads(client, address))
        except asyncio.CancelledError:
            raise ClusterError(f"the scheduler at {address} was lost while scenarios were running") from None


def _dask() -> Any:
    try:
        return importlib.import_module("distributed")
    except ImportError:
        raise ClusterError("Dask is not installed: pip install 'azure-functions-singleton[dask]'") from None


def _threads(client: Any, address: str) -> int:
    """Return how many threads the workers have; each must have this code.

    Raises:
        ClusterError: there is no worker, or one can't do it.
    """
    try:
        client.wait_for_workers(1, timeout=_CONNECT)
    except TimeoutError:
        raise ClusterError(
            f"the scheduler at {address} has no workers: start some with `dask worker {address}`"
        ) from None
    for worker, said in sorted(client.run(eval, _ASK, on_error="return").items()):
        if isinstance(said, OSError):  # it has gone meanwhile; if it comes back, it is asked with each chunk
            continue
        if isinstance(said, BaseException):
            raise ClusterError(
                f"the worker {worker} can't load the simulator ({_first_line(said)}): install this package, with its "
                "extra [sim], in the environment of each worker"
            )
        _must_be_ours(str(said), f"the worker {worker}")
    threads: dict[str, int] = client.nthreads()
    return max(1, sum(threads.values()))


def _must_be_ours(said: str, who: str) -> None:
    if said != errand.version():
        raise ClusterError(
            f"{who} has another version of the simulator, {said}; here it is {errand.version()}: "
            "install the same everywhere"
        )


def _in_order(client: Any, plan: Plan, threads: int) -> Iterator[Summary]:
    left = iter(chunks(plan))
    under_way: deque[tuple[Any, tuple[Plan, int, int]]] = deque()
    while True:
        for chunk in islice(left, max(0, _AHEAD * threads - len(under_way))):
            asked = client.submit(errand.carry_out, errand.version(), chunk, pure=False, retries=_RETRIES)
            under_way.append((asked, chunk))
        if not under_way:
            return
        future, chunk = under_way.popleft()
        yield _answer(client, future, chunk)


def _answer(client: Any, future: Any, chunk: tuple[Plan, int, int]) -> Summary:
    """Wait for as long as there are workers."""
    alone_since: float | None = None
    while not future.done():
        with suppress(TimeoutError):
            future.exception(timeout=_LOOK)
        if future.done() or client.nthreads():
            alone_since = None
        elif alone_since is None:
            alone_since = time.monotonic()
        elif time.monotonic() - alone_since > _ALONE:
            raise ClusterError(f"all workers have gone, and none came back within {_ALONE:g} s")
    try:
        part = future.result()
    except Exception as error:
        _, start, end = chunk
        told = f"{type(error).__name__}: {_first_line(error)}"
        raise ClusterError(f"scenarios {start} to {end - 1} can't be run on the workers ({told})") from error
    if isinstance(part, Summary):
        return part
    _must_be_ours(part, "a worker that has joined")
    raise AssertionError("a worker refuses its own version")


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
