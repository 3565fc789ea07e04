"""See what a block of a lock client does when its hold is lost: it fails or it only tells, as ``on_loss`` says.

What it does otherwise is told as ``altered``: ``hushed``, ``raised``, and for an async block's task ``uncancelled`` or
``cancelled``. Async work of a periodic worker that nobody cancels at the loss of its hold is told as ``worked``.
"""

from __future__ import annotations

import asyncio
import weakref
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from simulator.witness.witness import invoked
from singleton.base.errors import LockLost
from singleton.base.hold import LossSignal
from singleton.clients.blocks import AsyncBlock
from singleton.runtime.reentry import outer_signals

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from simulator.history.journal import Write
    from singleton.base.hold import Hold

_LOCKS: Final = "singleton.runtime.cancellation"
"""The module that cancels tasks when holds are lost."""
call_at_loss: Final = LossSignal.add_callback  # before anybody sees the calls of user code


class BlockLosses:
    """Writes what blocks do. ``raises``: whether a block fails at its end if its hold was lost."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._turned: weakref.WeakKeyDictionary[Any, tuple[asyncio.Task[Any], list[float]]] = (
            weakref.WeakKeyDictionary()
        )
        self._spared: weakref.WeakKeyDictionary[Any, tuple[asyncio.Task[Any], int]] = weakref.WeakKeyDictionary()

    def entered(self, block: Any, holds: Iterable[Hold], *, raises: bool) -> None:
        """Note when the loop of an async block next turns after a loss: the task of the block is cancelled then."""
        task = asyncio.current_task() if isinstance(block, AsyncBlock) else None
        if task is not None and not raises:
            self._spared[block] = task, task.cancelling()
        elif task is not None:
            self._turned[block] = task, _turns(task, holds)

    @contextmanager
    def leaving(self, block: Any, error: object, *, lost: bool, raises: bool) -> Iterator[None]:
        """Compare how a block ends with what was asked for. ``error``: of its body. ``lost``: whether its hold was."""
        task, turned = self._turned.pop(block, (None, []))
        if task and turned and error is None and task is asyncio.current_task() and not task.cancelling():
            self._tell(block, "uncancelled", seconds=task.get_loop().time() - turned[0])
        task, before = self._spared.pop(block, (None, 0))
        alone = sum(signal.is_set() for signal in outer_signals()) == 1  # the loss of another hold may cancel the task
        if task and lost and alone and task.cancelling() > before and getattr(task, "asker", "") == _LOCKS:
            self._tell(block, "cancelled")
        judged = lost and error is None
        try:
            yield
        except LockLost:
            if judged and not raises:
                self._tell(block, "raised")
            raise
        if judged and raises:
            self._tell(block, "hushed")

    @contextmanager
    def working(self, hold: Hold) -> Iterator[list[Any]]:
        """See whether the async work of a periodic worker goes on after the loss of its hold."""
        task = asyncio.current_task()
        assert task is not None
        turned = _turns(task, [hold])
        yield []
        if turned and not task.cancelling():
            seconds = task.get_loop().time() - turned[0]
            self._write("altered", kind="worked", function=hold.lock, invocation=invoked.get(), seconds=seconds)

    def _tell(self, block: Any, kind: str, **more: float) -> None:
        self._write("altered", kind=kind, function=block.name, invocation=invoked.get(), **more)


def _turns(task: asyncio.Task[Any], holds: Iterable[Hold]) -> list[float]:
    """Return a list that gets the times at which the task's loop next turns after a loss of these holds."""
    loop, turned = task.get_loop(), list[float]()

    def told(_: str) -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(lambda: turned.append(loop.time()))

    for hold in holds:
        call_at_loss(hold.own_lost, told)
    return turned
