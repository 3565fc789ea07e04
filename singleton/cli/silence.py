"""Messages on the error stream while the storage does not answer, so that a user takes no silence for progress.

A refusal is an answer. A request that was cancelled early counts neither as answered nor as silence.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
import time
from typing import TYPE_CHECKING, Any, Final, TypeVar

from singleton.cli.output import say, span
from singleton.settings.connection import redact
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from singleton.base.errors import SingletonError

_T = TypeVar("_T")

SILENT: Final = 2.0
"""Seconds without an answer after which that is told."""
_PAGE: Final = 10.0
"""The same for a page behind the first one: the storage has answered, and a long page takes a while."""
_PATIENT: Final = 1.0
"""Seconds after which a request that is called off counts as not answered."""
_REQUESTS: Final = (
    *("acquire", "renew", "release", "break_", "create", "read", "write", "put", "get"),
    *("page", "drop"),
)


class AnswerWatch:
    """Watch all requests of a store, those of holds and waits too, on the lock thread.

    ``since``: begin of a silence by the monotonic clock, in seconds; None: the storage answers, or nothing is asked.
    """

    def __init__(self, where: str) -> None:
        self.since: float | None = None
        self._where = where
        self._asked = 0
        self._told = self._left_to_others = False
        self._timer: asyncio.TimerHandle | None = None

    def leave_telling(self) -> None:
        """Print no more about this outage: another object reports its course and end."""
        self._told, self._left_to_others = False, True

    def watch(self, store: _T) -> _T:
        """Watch the requests of this store from now on, in place of an earlier watch; return the store."""
        for name in _REQUESTS:
            send = getattr(store, name, None)
            if send is not None:
                setattr(store, name, self._watched(name, getattr(send, "unwatched", send)))
        return store

    def _watched(self, name: str, send: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
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

        request.unwatched = send  # type: ignore[attr-defined] # for the next watch
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
        """Wait for the requests that are still without an answer, if any."""
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


READING: Final = 15.0
"""Seconds for which a command that only reads asks for one answer."""
_LONGEST_PAUSE: Final = 60.0


@contextlib.contextmanager
def silence_told(where: str) -> Iterator[None]:
    """Ask the storage in this block: after two seconds without an answer, say that the storage does not answer."""
    told = f"{where} has not answered for {span(SILENT)}; asking again"
    timer = threading.Timer(SILENT, lambda: say(told, err=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class Outage:
    """A time in which the storage does not answer: told at once, then after pauses that double, up to a minute.

    It began with the first request that was not answered, as far as ``answers`` knows.
    """

    def __init__(self, answers: AnswerWatch) -> None:
        self._answers = answers
        self._began: float | None = None
        self._due = self._pause = 0.0

    def goes_on(self, error: SingletonError) -> None:
        """Print the outage, if due."""
        now = time.monotonic()
        if self._began is None:
            self._began = now if self._answers.since is None else self._answers.since
            self._due, self._pause = now, 1.0
            self._answers.leave_telling()
        if now < self._due:
            return
        self._pause = min(_LONGEST_PAUSE, 2 * self._pause)
        self._due = now + self._pause
        lasted = f" for {span(now - self._began)}" if now - self._began >= 1 else ""
        say(f"{redact(str(error))}{lasted}; asking again, Ctrl-C ends it", err=True)

    def is_over(self) -> None:
        """Tell that the storage answers, if it did not."""
        if self._began is not None:
            say(f"the storage answers again, after {span(time.monotonic() - self._began)}", err=True)
            self._began = None
