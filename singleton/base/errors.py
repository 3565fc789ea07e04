"""What can go wrong, named by the state in which it leaves the caller.

    SingletonError
    ├── ConfigurationError (ValueError)   an argument, option, setting or declaration is wrong; nothing was tried
    ├── ScopeError                        the scope's value can't be found in this payload; the lock was not asked for
    ├── LockNotAcquired (TimeoutError)    somebody else has the lock; the body did not run
    ├── LockLost                          the hold ended before its body did; exclusivity is not guaranteed any more
    ├── LockClosed                        the client was closed, nothing can be acquired through it
    ├── ResultNotKept                     ``once``: the operation is done, and has no result to give
    └── StorageError                      the lock's storage did not do what was asked
        ├── StorageDenied                 401 or 403: credentials or permissions are wrong; never read as contention
        └── StorageUnavailable            no usable answer in time (time-out, 5xx, 429, connection)

Every error carries what is known as attributes and survives pickling.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from singleton.base.holder import Holder


class SingletonError(Exception):
    """Root of all errors of this package.

    Attributes:
        lock: name of the lock's blob, or None.
        owner: who asked (an invocation id, or what the caller gave), or None.
        reason: one word or short phrase naming the cause, or None.
    """

    def __init__(
        self, message: str, *, lock: str | None = None, owner: str | None = None, reason: str | None = None
    ) -> None:
        super().__init__(message)
        self.lock = lock
        self.owner = owner
        self.reason = reason

    def another(self, owner: str | None = None) -> Self:
        """Return a copy: of those who are told of one thing, each raises an error of its own."""
        twin = type(self).__new__(type(self), *self.args)  # copy.copy may be made to return the same (tblib does)
        twin.args = self.args
        twin.__dict__.update(self.__dict__)
        twin.__cause__ = self.__cause__
        twin.owner = self.owner if owner is None else owner
        return twin


def as_told(what: str, cause: BaseException, *, lock: str) -> SingletonError:
    """Return an error of this package: the given one, or a new one if it is of another kind, which is unexpected."""
    if isinstance(cause, SingletonError):
        return cause
    error = SingletonError(f"{what} {lock!r}: unexpected {cause!r}", lock=lock)
    error.__cause__ = cause
    return error


class ConfigurationError(SingletonError, ValueError):
    """An argument, option, setting or declaration is wrong. The message names it, its value and what is allowed."""


class ScopeError(SingletonError):
    """The scope's value can't be found in this invocation's payload (D-12 to D-17). No lock was asked for."""


class LockNotAcquired(SingletonError, TimeoutError):
    """Somebody else has the lock and the time to wait is over (W-65). The guarded body did not run.

    Attributes:
        holder: who has the lock: a section of this process, or the holder that was read from the lock's blob, during
            this wait or in the minute before. It is read just before the error is raised, at most once a minute for
            each lock of this process. None: that is not known, or the answer took too long, or nobody has it any more.
    """

    def __init__(
        self,
        message: str,
        *,
        lock: str | None = None,
        owner: str | None = None,
        reason: str | None = None,
        holder: Holder | None = None,
    ) -> None:
        super().__init__(message, lock=lock, owner=owner, reason=reason)
        self.holder = holder

    def __str__(self) -> str:
        return f"{self.message}{self.whose}"

    @property
    def message(self) -> str:
        """What happened, without who has it."""
        return str(self.args[0])

    @property
    def whose(self) -> str:
        """Who has it, as the end of a sentence: ``; held by 'inv-7' on vm-1, process 812``. Empty: not known."""
        if (holder := self.holder) is None:
            return ""
        known: dict[str, object] = {" by {!r}": holder.owner, " ({})": holder.function, " on {}": holder.host}
        known |= {", process {}": holder.pid, ", since {:%Y-%m-%d %H:%M:%S} UTC": holder.since}
        said = "".join(words.format(value) for words, value in known.items() if value is not None)
        return said and f"; held{said}"


class LockLost(SingletonError):
    """The hold ended before its body did.

    ``reason``: expired, stolen, broken, blob gone, closed, too long or released.
    """


class LockClosed(SingletonError):
    """The lock client was closed; nothing can be acquired through it any more."""


class ResultNotKept(SingletonError):
    """The operation is done and will not be done again, but its result could not be kept. ``reason`` says why."""


class StorageError(SingletonError):
    """The storage that keeps the lock refused or failed; ``status`` and ``code`` are the service's, if it answered."""

    def __init__(
        self,
        message: str,
        *,
        lock: str | None = None,
        owner: str | None = None,
        reason: str | None = None,
        status: int | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(message, lock=lock, owner=owner, reason=reason)
        self.status = status
        self.code = code


class StorageDenied(StorageError):
    """The storage account answered 401 or 403: the credentials or permissions are wrong. Never contention (B12)."""


class StorageUnavailable(StorageError):
    """The storage did not answer in time. If a request was carried out all the same, the lock is released."""
