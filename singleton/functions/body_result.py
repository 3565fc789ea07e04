"""Ends of a body which the worker would not answer, and results which the worker would go through after the body."""

from __future__ import annotations

import asyncio

from singleton.base.errors import shown, text_of
from singleton.base.tasks import ends_the_thread


def refuse_unanswered(function: str, error: BaseException, *, is_async: bool) -> None:
    """Fail the invocation if its body raised an error which the Functions worker never answers for (facts §6).

    Call in the handler of the error, and raise any other error again.
    """
    if not ends_the_thread(error, awaited=is_async):
        return
    match error:
        case asyncio.CancelledError():
            said = "raised CancelledError, but nobody cancelled it"
        case StopIteration():
            said = "raised StopIteration"
        case SystemExit():
            said = f"called exit({error.code!r}): a function must return, or raise an error"
        case _:
            said = f"raised {type(error).__name__}, which is no Exception: {text_of(error)}"
    raise RuntimeError(shown(f"{function} {said}")) from error
