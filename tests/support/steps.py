"""Cancel a task between any two callbacks of the loop: all of the moments at which asyncio can."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from simulator.virtual.time.loop import VirtualLoop

if TYPE_CHECKING:
    import asyncio
    import contextvars
    from collections.abc import Callable, Coroutine

    from simulator.virtual.time.machine import Callback, Machine, Timer

MOST_STEPS = 3000


class SteppedLoop(VirtualLoop):
    """A virtual loop that cancels its victim so many callbacks after it began."""

    def __init__(self, steps: int, again: int | None = None) -> None:
        super().__init__()
        self.cancelled = False
        self._left = steps
        self._again = again
        self._begun = False
        self._victim: asyncio.Task[Any] | None = None

    def victim(self, coro: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start the task that is to be cancelled."""

        async def begin() -> None:
            self._begun = True
            await coro

        self._victim = self.create_task(begin(), name="victim")
        return self._victim

    def call_soon(self, *call: Any, context: contextvars.Context | None = None) -> Callback:  # type: ignore[override]
        return super().call_soon(self._counted, *call, context=context)

    def set_timer(
        self, due: float, call: tuple[Any, ...], context: contextvars.Context, machine: Machine | None
    ) -> Timer:
        return super().set_timer(due, (self._counted, *call), context, machine)

    def _counted(self, callback: Callable[..., object], *args: Any) -> None:
        callback(*args)
        if not self._begun or self._victim is None or self._victim.done():
            return
        self._left -= 1
        if self._left == 0:
            self.cancelled = True
            self._victim.cancel()
            if self._again is not None:
                self._left, self._again = self._again, None


def at_every_step(scenario: Callable[[SteppedLoop], Coroutine[Any, Any, None]], *, again: int | None = None) -> int:
    """Run the scenario, cancelling its victim after 1, 2, 3… callbacks, until it ends before that.

    ``again``: cancel it once more, so many callbacks later. Return the number of runs.
    """
    for steps in itertools.count(1):
        loop = SteppedLoop(steps, again)  # type: ignore[abstract]
        try:
            loop.run_until_complete(scenario(loop))
        except BaseException as error:
            error.add_note(f"cancelled after {steps} callbacks")
            raise
        assert not loop.errors, (steps, loop.errors)
        assert not loop.leftover_tasks(), (steps, loop.leftover_tasks())
        if not loop.cancelled:
            return steps
        assert steps < MOST_STEPS
    raise AssertionError
