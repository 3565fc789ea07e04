"""See what ``once(…).run`` passes on: what its work returns is what is kept, and what is returned.

A difference is told as ``altered``: ``ran``. What the work returned is told in place of what the product keeps.
"""

from __future__ import annotations

import functools
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from simulator.history.value_digest import UNREADABLE, digest
from simulator.host.client_tap import around
from simulator.witness.witness import invoked
from singleton.patterns.once.block import AsyncOnceBlock, OnceBlock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from simulator.history.journal import Write

_returned: Final[ContextVar[list[str]]] = ContextVar("simulated_run")
"""The digests of what the work has returned to the ``run`` around the caller."""


def tap_runs(write: Write) -> None:
    """Write a record of each difference from now on."""

    @contextmanager
    def running(block: OnceBlock | AsyncOnceBlock, *_: Any, **__: Any) -> Iterator[list[Any]]:
        answer, works = list[Any](), list[str]()
        outer = _returned.set(works)
        try:
            yield answer
        finally:
            _returned.reset(outer)
        kept = block._operation.result if not works else None  # noqa: SLF001 - which no user asks a block for
        if works[1:] or (UNREADABLE not in works and digest(answer[0]) != (works[0] if works else digest(kept))):
            name = block.lock.removesuffix(f"/{block.key}")
            write("altered", kind="ran", function=name, invocation=invoked.get())

    for block in (OnceBlock, AsyncOnceBlock):
        setattr(block, "run", around(_with_seen_work(block.run), running))  # noqa: B010 - a method of two types


def worked(result: object) -> str:
    """Return the digest of what the work of a ``run`` around returned, or of this result without one."""
    works = [each for each in _returned.get([]) if each != UNREADABLE]
    return works[-1] if works else digest(result)


def _with_seen_work(real: Callable[..., Any]) -> Callable[..., Any]:
    """Return a ``run`` whose work is watched; a wrong call raises as before."""

    @functools.wraps(real)
    def run(block: Any, /, *given: Any, **named: Any) -> Any:
        if given:
            return real(block, _seen(given[0]), *given[1:], **named)
        return real(block, **{**named, "work": _seen(named["work"])} if "work" in named else named)

    return run


def _seen(work: Any) -> Any:
    @contextmanager
    def seeing(*_: Any, **__: Any) -> Iterator[list[Any]]:
        answer = list[Any]()
        yield answer
        _returned.get().append(UNREADABLE if hasattr(answer[0], "__await__") else digest(answer[0]))

    return around(work, seeing) if callable(work) else work
