"""What a process remembers of its locks while nobody uses them, and of those that it has not asked for yet."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from singleton.locking.acquisition import Guess

if TYPE_CHECKING:
    from collections.abc import Callable

    from singleton.settings.accounts import LockContainer

IDLE_LOCKS: Final = 1024
"""Locks remembered while nobody uses them: a key that comes back saves one request."""
_LOOKS: Final = 2
"""Of those remembered that are looked at when a new one comes: more of them than come."""
_KINDS: Final = 256
"""Kinds of names of which is remembered whether their blobs are missing."""


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


class Guesses:
    """Whether the blobs of locks that this process has not asked for yet are missing: a guess for each kind of names.

    One function may get new scopes, and another one those that are there. The first name of a kind is guessed as the
    first one of another kind was, so that names with a folder each are learnt of, too: ``order/7/pay``.
    """

    def __init__(self) -> None:
        self._kinds: OrderedDict[tuple[LockContainer, str], Guess] = OrderedDict()
        self._firsts: defaultdict[LockContainer, Guess] = defaultdict(Guess)

    def of(self, place: LockContainer, name: str) -> Guess:
        """Return the guess for names of this kind."""
        kind = place, _kind(name)
        guess = self._kinds.pop(kind, None)
        if guess is None:
            firsts = self._firsts[place]
            guess = Guess(firsts.missing, firsts)
            if len(self._kinds) >= _KINDS:
                self._kinds.popitem(last=False)
        self._kinds[kind] = guess
        return guess


def _kind(name: str) -> str:
    """Return what the names of a function's locks have in common; of any other name its folder.

    >>> _kind("locks/myapp/ship.42"), _kind("locks/myapp/~north"), _kind("orders/7")
    ('locks/myapp/ship.', 'locks/myapp/~', 'orders/')
    >>> _kind("locks/myapp/ship.42/slot-3")
    'locks/myapp/ship./slot-'
    """
    lock, slot, _ = name.partition("/slot-")
    folder, slash, last = lock.rpartition("/")
    function, mark, _ = last.partition("~" if last.startswith("~") else ".")
    return f"{folder}{slash}{function if mark else ''}{mark}{slot}"
