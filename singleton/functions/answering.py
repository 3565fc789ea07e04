"""What no worker would answer becomes an error of its invocation: stray cancellations, and ``exit()``."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def always_answered(function: str) -> Iterator[None]:
    """Fail the invocation where its body raises what the Functions worker never answers for (facts §6).

    That is a cancellation which nobody asked for, and an exit.
    """
    try:
        yield
    except asyncio.CancelledError as error:
        if _being_cancelled():
            raise
        raise RuntimeError(f"{function} raised CancelledError, and nobody had cancelled it") from error
    except SystemExit as error:
        raise RuntimeError(
            f"{function} called exit({error.code!r}): a function ends by returning or raising"
        ) from error


def _being_cancelled() -> bool:
    try:
        task = asyncio.current_task()
    except RuntimeError:  # a thread without a loop: a sync body
        return False
    return task is not None and task.cancelling() > 0
