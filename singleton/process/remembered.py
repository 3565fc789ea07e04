"""What a process remembers of its locks while nobody uses them."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

IDLE_LOCKS: Final = 1024
"""Locks remembered while nobody uses them: a key that comes back saves one request."""
_LOOKS: Final = 2
"""Of those remembered that are looked at when a new one comes: more of them than come."""


class Idling(Protocol):
    """What may be forgotten while nobody needs it."""

    @property
    def forgettable(self) -> bool:
        """Tell whether nobody does."""


_KeyT = TypeVar("_KeyT")
_IdlingT = TypeVar("_IdlingT", bound=Idling)


class Remembered(OrderedDict[_KeyT, _IdlingT]):
    """What is known by its key, by when it was last asked for. What is needed is kept, and so many beside that."""

    def __init__(self, keep: int) -> None:
        super().__init__()
        self._keep = keep

    def known(self, key: _KeyT, make: Callable[[], _IdlingT]) -> _IdlingT:
        """Return what is known by this key, made where it is not; those that were idle for longest make room for it."""
        if (found := self.get(key)) is None:
            found = make()
            for _ in range(_LOOKS if len(self) >= self._keep else 0):
                oldest, each = next(iter(self.items()))
                if each.forgettable:
                    del self[oldest]
                else:
                    self.move_to_end(oldest)
            self[key] = found
        self.move_to_end(key)
        return found
