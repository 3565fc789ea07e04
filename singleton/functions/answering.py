"""What no worker would answer becomes an error of its invocation: stray cancellations, and ``exit()``."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from singleton.base.tasks import being_cancelled

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def always_answered(function: str) -> Iterator[None]:
    """Fail the invocation where its body raises what the Functions worker never answers for (facts §6).

    That is a cancellation which nobody asked for, an exit, and ``StopIteration``, which no future can carry.
    """
    try:
        yield
    except asyncio.CancelledError as error:
        if being_cancelled():
            raise
        raise RuntimeError(f"{function} raised CancelledError, and nobody had cancelled it") from error
    except StopIteration:
        # Not "from" it: contextlib would take that for the StopIteration itself.
        raise RuntimeError(f"{function} raised StopIteration")  # noqa: B904
    except SystemExit as error:
        raise RuntimeError(
            f"{function} called exit({error.code!r}): a function ends by returning or raising"
        ) from error
