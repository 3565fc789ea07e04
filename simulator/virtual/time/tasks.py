"""The tasks of a virtual loop, which keeps them from garbage collection, in three generations.

A callback from each task that ends would take a tenth of the time. So those that have ended are looked for now and
then. Most tasks are short: who is still there at a second look is seldom looked at again, and the next tasks soon get
the memory of the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    import asyncio

    from simulator.virtual.time.machine import Machine

    Hosts: TypeAlias = "dict[asyncio.Task[Any], Machine | None]"
    """Tasks, each with its host; None: it has none."""

_FEW: Final = 16


class Tasks:
    """Tasks that have not ended, and some that have."""

    def __init__(self) -> None:
        self._new: Hosts = {}
        self._young: Hosts = {}
        self._old: Hosts = {}
        self._many_new = self._many_old = _FEW

    def add(self, task: asyncio.Task[Any], host: Machine | None) -> None:
        """Keep a task that has just been made, until it has ended and somebody looks."""
        self._new[task] = host
        if len(self._new) > self._many_new:
            self._look()

    def leftover(self) -> Hosts:
        """Return the tasks that have not ended, in the order in which they began; drop the others.

        What a task returned is nobody's any more when it is dropped.
        """
        self._old = _not_done(self._old | self._young | self._new)
        self._young, self._new = {}, {}
        return dict(self._old)

    def _look(self) -> None:
        self._old |= _not_done(self._young)
        self._young, self._new = _not_done(self._new), {}
        self._many_new = max(_FEW, 2 * len(self._young))
        if len(self._old) > self._many_old:
            self._old = _not_done(self._old)
            self._many_old = max(_FEW, 2 * len(self._old))


def _not_done(tasks: Hosts) -> Hosts:
    return {task: host for task, host in tasks.items() if not task.done()}
