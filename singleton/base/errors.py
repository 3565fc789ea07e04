"""The errors of this package, named by the state of the caller afterwards.

    SingletonError
    ├── ConfigurationError (ValueError)   an argument, option, setting or declaration is wrong; nothing was tried
    ├── ScopeError                        no value for the scope in the payload; the lock was not asked for
    ├── LockNotAcquired (TimeoutError)    another holder has the lock; the body did not run
    ├── LockLost                          the hold ended before its body; exclusivity is not guaranteed any more
    ├── LockClosed                        the client is closed and acquires nothing
    ├── ResultNotKept                     ``once``: the operation is done, without a result to give
    └── StorageError                      the storage refused a request or failed
        ├── StorageDenied                 401 or 403: credentials or permissions are wrong; never read as contention
        └── StorageUnavailable            no usable answer in time (time-out, 5xx, 429, connection)

Every error has attributes for lock, owner and reason, and survives pickling.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Self

from singleton.base.forks import importing

if TYPE_CHECKING:
    from collections.abc import Callable

    from singleton.base.holder_record import Holder

_TAKEN_FOR_SECRETS: Final = re.compile(
    r"((?:key|token|sig|pwd|password|secret|credential|code|data source|server|protocol)\s*)=([^\s;&'\"]{40,})?"
    r"|(://)[^:\s\"'/]+:[^@\s\"'/]+(@)",
    re.IGNORECASE,
)


def shown(text: str) -> str:
    r"""Return a text in which the Functions host hides nothing: it hides what follows ``key=``, also of a user's value.

    What may be a real key, because it is as long, is left out, and so is the password in a URL.

    >>> print(shown("scope_id 'key={Id'"))
    scope_id 'key\x3d{Id'
    """
    return _TAKEN_FOR_SECRETS.sub(
        lambda found: f"{found[3]}…@" if found[3] else rf"{found[1]}\x3d{(found[2] and '…') or ''}", text
    )


class SingletonError(Exception):
    """Root of all errors of this package.

    Attributes:
        lock: name of the lock's blob, or None.
        owner: the invocation id, or the ``owner=`` of a lock client, or None.
        reason: the cause in a word or a short phrase, or None.
    """

    def __init__(
        self, message: str, *, lock: str | None = None, owner: str | None = None, reason: str | None = None
    ) -> None:
        super().__init__(message)
        self.lock = lock
        self.owner = owner
        self.reason = reason

    def __str__(self) -> str:
        return shown(super().__str__())

    def another(self, owner: str | None = None) -> Self:
        """Return a copy: waiters which fail for the same cause raise separate errors."""
        twin = type(self).__new__(type(self), *self.args)  # tblib makes copy.copy return the error itself
        twin.args = self.args
        twin.__dict__.update(self.__dict__)
        twin.__cause__ = self.__cause__
        twin.owner = self.owner if owner is None else owner
        return twin


def text_of(error: BaseException, write: Callable[[object], str] = str) -> str:
    """Return the text of an error of any code; the name of its type, if its ``__str__`` or ``__repr__`` raises."""
    try:
        return write(error)
    except BaseException:  # noqa: BLE001 - of the app's class
        return type(error).__name__


def as_told(what: str, cause: BaseException, *, lock: str) -> SingletonError:
    """Return ``cause`` if it is an error of this package, else a new ``SingletonError`` which calls it unexpected."""
    if isinstance(cause, SingletonError):
        return cause
    error = SingletonError(f"{what} {lock!r}: unexpected {text_of(cause, repr)}", lock=lock)
    error.__cause__ = cause
    return error


class ConfigurationError(SingletonError, ValueError):
    """An argument, option, setting or declaration is wrong. The message has name, value and range."""


class ScopeError(SingletonError):
    """The invocation's payload has no value for the scope (D-12 to D-17). No lock was asked for."""


class LockNotAcquired(SingletonError, TimeoutError):
    """The timeout is over and another holder has the lock (W-65). The guarded body did not run.

    Attributes:
        holder: the holder of the lock: a section of this process, or the record on the lock's blob, read during the
            wait or in the minute before. The read comes just before the error, at most once a minute for a lock and
            process. None: not recorded, no answer in time, or the lock is free again.
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
        return shown(f"{self.message}{self.whose}")

    @property
    def message(self) -> str:
        """The message without the holder."""
        return str(self.args[0])

    @property
    def whose(self) -> str:
        """The holder as the end of a sentence: ``; held by 'inv-7' on vm-1, process 812``. Empty: not known."""
        if self.holder is None:
            return ""
        with importing:
            from singleton.base.holder_record import in_words

        said = in_words(self.holder)
        return said and f"; {said}"

    @property
    def who_has(self) -> tuple[str, str]:
        """Who has the lock, this process or somebody else; and ``whose``."""
        return "somebody else" if self.reason is None else "this process", self.whose


class LockLost(SingletonError):
    """The hold ended before its body.

    ``reason``: a ``LossReason``, or released.
    """


class LockClosed(SingletonError):
    """The lock client is closed and acquires nothing."""


class ResultNotKept(SingletonError):
    """The operation is done and will not be repeated, but its result was not kept. ``reason`` has the cause."""


class StorageError(SingletonError):
    """The lock's storage refused or failed; ``status`` and ``code`` are from the service's answer, or None."""

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
    """The storage account answered 401 or 403: the credentials or permissions are wrong. Never contention (B12).

    Also where no request was sent, because the key is none, a SAS is of another time, or an identity got no token.
    """


class StorageUnavailable(StorageError):
    """The storage did not answer in time. If the service carried out an acquire, the lock is released.

    Of a write (``hold.state``, the result of ``once``) nobody knows whether the service carried out the write.
    """
