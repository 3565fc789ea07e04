"""Watches all requests of a store, also those of holds and waits, and says on the error stream if none is answered.

A refusal is an answer. A request that was cancelled early, because nobody needs it any more, counts for nothing.
"""

from __future__ import annotations

import asyncio
import functools
import time
from typing import TYPE_CHECKING, Any, Final, TypeVar

from singleton.cli.lines import say
from singleton.cli.words import span
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_T = TypeVar("_T")

SILENT: Final = 2.0
"""Seconds without an answer after which that is told."""
_PAGE: Final = 10.0
"""The same for a page behind the first one: the storage has answered, and a long page takes a while."""
_PATIENT: Final = 1.0
"""Seconds after which a request that is called off counts as not answered."""
_REQUESTS: Final = (
    "acquire",
    "renew",
    "release",
    "break_",
    "create",
    "read",
    "write",
    "put",
    "get",
    "page",
    "shorten",
    "erase",
)


class Hearing:
    """What is known of whether the storage answers. It lives on the lock thread.

    Attributes:
        since: since when nothing was answered though something was asked, by the monotonic clock; None: all is well.
    """

    def __init__(self, where: str) -> None:
        self.since: float | None = None
        self._where = where
        self._asked = 0
        self._told = self._left_to_others = False
        self._timer: asyncio.TimerHandle | None = None

    def leave_telling(self) -> None:
        """Say nothing more about this outage: another object reports it, and its end."""
        self._told, self._left_to_others = False, True

    def hear(self, store: _T) -> _T:
        """Hear the requests of this store from now on, in place of whoever heard them before; return it."""
        for name in _REQUESTS:
            send = getattr(store, name, None)
            if send is not None:
                setattr(store, name, self._heard(name, getattr(send, "unheard", send)))
        return store

    def _heard(self, name: str, send: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        @functools.wraps(send)
        async def request(*args: Any, **kwargs: Any) -> Any:
            began = self._begin(_PAGE if name == "page" and len(args) > 1 and args[1] is not None else SILENT)
            answered = called_off = False
            try:
                answer = await send(*args, **kwargs)
                answered = True
            except StoreFailure as failure:
                answered = failure.meaning != "transient"
                raise
            except asyncio.CancelledError:
                called_off = time.monotonic() - began < _PATIENT
                raise
            finally:
                self._end(began, answered=answered, called_off=called_off)
            return answer

        request.unheard = send  # type: ignore[attr-defined] # for whoever hears it next
        return request

    def _begin(self, patience: float) -> float:
        self._asked += 1
        now = time.monotonic()
        if self.since is None:
            self._wait(now, patience)
        return now

    def _end(self, began: float, *, answered: bool, called_off: bool) -> None:
        self._asked -= 1
        now = time.monotonic()
        if answered:
            if self._told and self.since is not None:
                say(f"the storage answers again, after {span(now - self.since)}", err=True)
            self._told = self._left_to_others = False
            self._rest(now)
        elif called_off and self.since == began:
            self._rest(now)

    def _rest(self, now: float) -> None:
        """Wait for the others that were asked, if there are any."""
        if self._asked:
            self._wait(now, SILENT)
            return
        self.since = None
        if self._timer is not None:
            self._timer.cancel()

    def _wait(self, now: float, patience: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.since = now
        self._timer = asyncio.get_running_loop().call_later(patience, self._tell)

    def _tell(self) -> None:
        if self.since is not None and not self._told and not self._left_to_others:
            self._told = True
            say(f"{self._where} has not answered for {span(time.monotonic() - self.since)}; asking again", err=True)
