"""Unknown attributes: the error names the attribute that does the job, for the words of other libraries."""

from __future__ import annotations

import re
from typing import Any, Final, TypeVar

_T = TypeVar("_T")

_ELSEWHERE: Final = {
    "acquire_lock get_lock lock mutex with_lock": (
        "use locks.lock(name), a block of the client locks = LockClient('AzureWebJobsStorage')"
    ),
    "is_held is_locked locked locked_by": (
        "locks.locked(name) tells whether any process has the lock, and locks.holder(name) which; hold.owned is for a "
        "hold of this process"
    ),
    "acquire try_acquire try_acquire_async": (
        "use locks.try_lock(name), a block without a hold (None) while the lock is held; or hold = locks.acquire(name)"
    ),
    "release release_async unlock": (
        "a block of locks.lock(name) releases the lock at its end; locks.release(hold) releases a hold of locks.acquire"
    ),
    "extend extend_lock heartbeat reacquire refresh renew": (
        "leave it out: the lease of a hold is renewed until its end. max_hold= bounds the hold"
    ),
    "handle_lost_token is_lost lost_token": (
        "hold.lost is the signal of the loss, and hold.raise_if_lost() raises after the loss"
    ),
    "lock_error lock_not_acquired_error lock_timeout lock_timeout_error": (
        "LockNotAcquired says that another holder has the lock; the root of all errors is SingletonError"
    ),
}
"""Names in other libraries, with what to do here."""


def instead_of(name: str) -> str:
    """Return what to use here in place of the attribute of another library, after a colon; else the empty text."""
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    return next((f": {said}" for words, said in _ELSEWHERE.items() if snake in words.split()), "")


def _missing(self: object, name: str) -> Any:
    if said := instead_of(name):
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{said}", name=name, obj=self)
    return object.__getattribute__(self, name)  # fails once more, in Python's own words


def with_explained_attributes(owner: type[_T]) -> type[_T]:
    """Have objects of a class say what does the job of a missing attribute. Found attributes cost nothing more."""
    owner.__getattr__ = _missing  # type: ignore[attr-defined] # declared, type checkers would permit any attribute
    return owner
