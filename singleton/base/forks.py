"""What a fork must not cut in two: imports at the first use of a module, and values worked out once.

A fork copies one thread. A module that another thread was importing stays half a module in the child, and the child's
own import of it waits for ever. So every import of ours in a function, and every making of a client of the SDK, stands
in ``with importing``, and a fork waits for its end. Threads in such blocks don't wait for one another.

The mutex of ``functools.cached_property`` in Python 3.11 would stay taken in a child, too: ours has none.
"""

from __future__ import annotations

import concurrent.futures.thread  # noqa: F401 - it has a hook that takes a mutex, which must run after ours
import logging  # noqa: F401 - so it has. Hooks run from the last to the first
import os
import threading
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import Callable

_T = TypeVar("_T")

_LONGEST: Final = 60.0
"""Seconds for which a fork waits: an import that never ends must not stop every fork."""


class Importing:
    """The threads that import, or make clients, at this moment."""

    def __init__(self) -> None:
        self._mutex = threading.RLock()
        self._changed = threading.Condition(self._mutex)
        self._threads: list[int] = []
        self._told = False
        """Whether a fork has come: before the first one, nobody is to be told of an end."""

    def __enter__(self) -> None:
        with self._mutex:
            self._threads.append(threading.get_ident())

    def __exit__(self, *_: object) -> None:
        with self._mutex:
            self._threads.remove(threading.get_ident())
            if self._told:
                self._changed.notify_all()

    def before_fork(self) -> None:
        """Wait until no other thread imports, and let none begin. The forking thread goes on in the child."""
        self._mutex.acquire()
        self._told = True
        self._changed.wait_for(lambda: not self._others(), _LONGEST)

    def after_fork(self) -> None:
        """Let threads import again."""
        self._mutex.release()

    def after_fork_in_child(self) -> None:
        """Forget the threads that the child has not."""
        for thread in self._others():
            self._threads.remove(thread)
        self._mutex.release()

    def _others(self) -> list[int]:
        return [thread for thread in self._threads if thread != threading.get_ident()]


importing: Final = Importing()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=importing.before_fork,
        after_in_parent=importing.after_fork,
        after_in_child=importing.after_fork_in_child,
    )


class cached_property(Generic[_T]):  # noqa: N801 - it stands in for the one of functools
    """Keeps a property's value in the object. Two threads may both work it out; the first value is kept."""

    def __init__(self, compute: Callable[[Any], _T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, _: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> _T: ...
    def __get__(self, instance: object, owner: type) -> _T | Self:
        if instance is None:
            return self
        value: _T = vars(instance).setdefault(self._name, self._compute(instance))
        return value
