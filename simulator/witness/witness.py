"""The host's own witness: it sees when the user's innermost function begins and ends, and for which invocation.

It asks the lock nothing, as it checks the lock. It sees every body: also one that runs after its lock was released, one
that runs twice, and one that runs for nobody.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Final

from simulator.witness.asking import can_be_asked, invoked, tell_standstills
from simulator.witness.codewatch import watch
from simulator.witness.leftovers import Leftovers, inside

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from simulator.history.journal import Write

_SAME: Final = 1.0
"""Seconds within which a second request to end is not reported."""


@dataclass(slots=True)
class _Called:
    """An invocation that runs: its function, the value of its trigger, and the fields of its body's records.

    Attributes:
        gave: what its body returned last.
        asked: when it was last reported that it was asked to end.
    """

    function: str
    value: object
    told: Mapping[str, object]
    gave: object = None
    asked: float = -math.inf
    runs: Iterator[int] = field(default_factory=lambda: itertools.count(1))


class Witness:
    """Writes ``body_entered`` and ``body_left`` for each run of a user's function.

    ``hold`` returns the hold that a body can see, or raises RuntimeError.
    """

    def __init__(self, write: Write, hold: Callable[[], Any] | None = None) -> None:
        self.leftovers = Leftovers(self._asked)
        self._write = write
        self._hold = hold
        self._watched: dict[FunctionType, CodeType] = {}
        self._names: dict[CodeType, list[str]] = {}
        self._called: dict[str, _Called] = {}
        self._runs: dict[object, tuple[str, str, str]] = {}
        self._strays = itertools.count(1)
        self._turn = threading.Lock()

    def watch(self, functions: Mapping[str, Callable[..., Any]]) -> None:
        """Watch the innermost function of each from now on. The keys are the functions' names in the host."""
        for name, function in functions.items():
            innermost = inspect.unwrap(function)
            if isinstance(innermost, FunctionType):
                if innermost not in self._watched:
                    self._watched[innermost] = watch(innermost, self)
                self._names.setdefault(self._watched[innermost], []).append(name)

    def follow(self, loop: asyncio.AbstractEventLoop) -> None:
        """Follow what runs on a loop: the tasks that bodies start, requests to end, and times when none is possible."""
        loop.set_task_factory(self.leftovers.task_factory)
        tell_standstills(loop, self._write)

    @contextmanager
    def invocation(self, name: str, function: str, value: object, told: Mapping[str, object]) -> Iterator[None]:
        """Know an invocation and the value of its trigger until it is answered; report what it raises."""
        with self._turn:
            self._called[name] = _Called(function, value, told)
        before = invoked.set(name)
        try:
            yield
        except BaseException as error:
            self._write("call_raised", invocation=name, error=type(error).__name__)
            raise
        finally:
            invoked.reset(before)
            with self._turn:
                self._called.pop(name, None)

    def entered(self, code: CodeType, run: object, arguments: Mapping[str, Any]) -> None:
        """A body begins."""
        invocation = self._whose(arguments)
        names = self._names.get(code, [code.co_name])
        called = self._called.get(invocation)
        function = called.function if called and called.function in names else names[0]
        with self._turn:
            label = f"{invocation}#{next(called.runs if called else self._strays)}"
            self._runs[run] = (label, function, invocation)
        inside.set(invocation)
        told = {**called.told} if called else {}
        if code.co_flags & inspect.CO_COROUTINE and can_be_asked():
            told["can_be_asked"] = True
        self._write("body_entered", run=label, function=function, invocation=invocation, **told, **self._seen())

    def left(self, code: CodeType, run: object, value: object, error: BaseException | None) -> None:
        """A body has ended."""
        with self._turn:
            label, function, invocation = self._runs.pop(run, ("", code.co_name, ""))
            if called := self._called.get(invocation):
                called.gave = value
        inside.set("")
        told: dict[str, object] = {"function": function, "invocation": invocation, **self._seen()}
        if error is not None:
            told["error"] = "cancelled" if isinstance(error, asyncio.CancelledError) else type(error).__name__
        if still := self.leftovers.of(invocation):
            told["left_running"] = still
        self._write("body_left", run=label, **told)

    def _seen(self) -> dict[str, object]:
        """Return what a body can see here of its hold: the token that fences its writes, and whether it is lost."""
        if self._hold is None:
            return {}
        try:
            hold = self._hold()
        except RuntimeError:
            return {"blind": True}
        try:
            hold.raise_if_lost()
        except Exception:  # noqa: BLE001 - whatever it is, it is how a body hears of a loss
            return {"token": hold.token, "lost": True}
        return {"token": hold.token, "lost": False}

    def returned(self, invocation: str, result: object) -> None:
        """A function has returned the result of its body, or something else.

        A result that is iterated over may become a list.
        """
        called = self._called.get(invocation)
        gave = called.gave if called else None
        if gave is not None and gave is not result and not isinstance(gave, Iterator):
            self._write("result_replaced", invocation=invocation)

    def _asked(self, invocation: str) -> None:
        """Somebody asks the code of this invocation to end."""
        called, now = self._called.get(invocation), time.monotonic()
        if called and now - called.asked > _SAME:
            called.asked = now
            self._write("asked_to_end", invocation=invocation)

    def _whose(self, arguments: Mapping[str, Any]) -> str:
        """Return the invocation for which a body runs: the one with this value, otherwise the one in its context."""
        with self._turn:
            theirs = [
                name
                for name, called in self._called.items()
                if any(value is called.value for value in arguments.values())
            ]
        return theirs[0] if len(theirs) == 1 else invoked.get()
