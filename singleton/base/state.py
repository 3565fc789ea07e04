"""State kept with a lock: what a hold reads and writes, as JSON or bytes, in the lock's own blob."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeVar

from singleton.base.errors import StorageError
from singleton.base.words import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

_T = TypeVar("_T")

MOST_STATE: Final = 8 * 2**20
"""Bytes of state with one lock, at most."""
MOST_NESTED: Final = 500
"""Lists and dicts inside each other, at most: half of Python's recursion limit is left to the reader's own calls."""
STATE_KEY: Final = "SingletonState"
"""The key of a blob's metadata that says that state lies in it, and of which kind. A sweep leaves such a blob alone."""
OUTCOME: Final = "once"
"""The kind of state that ``once`` keeps: JSON, for whoever reads or removes it as an operator."""
UNTIL_KEY: Final = "SingletonUntil"
"""The key of the state's end of use, by the service's clock: seconds since 1970. A sweep may delete the state from this
second on."""
WHILE_KEY: Final = "SingletonWhile"
"""The key of names of blobs in the same container, with spaces in between. A name with a slash at its end means all
blobs below that name. While any of these blobs exists, the state is in use."""
NOT_UNDERSTOOD: Final = "state not understood"
"""The reason of an error over content that can't be read as what it is marked as."""
NOT_REPLACED: Final = (
    "the blob has {:,} bytes of content which this package did not write, and which state would replace. Take another "
    "blob for the lock, such as one with '.lock' behind the name; or delete the content, if nobody needs it"
)
"""Why no state is written into a blob with content that lacks the mark ``STATE_KEY``."""

Json: TypeAlias = bool | int | float | str | list[Any] | tuple[Any, ...] | dict[str, Any] | None
"""What JSON has. A tuple is read back as a list; the keys of a dict are texts."""


@dataclass(frozen=True, slots=True)
class Kept:
    """The content of a lock's blob, with the marks that tell of it in the blob's metadata. Without marks: nothing.

    ``at``: the service's clock as it was read, seconds since 1970; None: that is not known. ``foreign``: bytes of
    content which this package did not write, and which need not be read.
    """

    body: bytes = b""
    marks: Mapping[str, str] = field(default_factory=dict)
    at: float | None = field(default=None, compare=False)
    foreign: int = 0


class Keeper(Protocol):
    """Keeps the state of a hold. The coroutines run on the loop of the lock."""

    async def read(self) -> Kept:
        """Read it, under the lease."""

    async def glance(self) -> Kept:
        """Read it, unless it is known since the hold began that nothing is kept: that takes no request."""

    async def write(self, kept: Kept) -> None:
        """Replace it, under the lease."""


class Crossing(Protocol):
    """The way from any thread and any loop to the loop of the locks: ``Calls``."""

    def call(self, work: Callable[[Any], Coroutine[Any, Any, _T]]) -> _T:
        """Run the work on the lock thread, and block."""

    async def call_async(self, work: Callable[[Any], Coroutine[Any, Any, _T]]) -> _T:
        """Run the work on the lock thread, and await its result."""


class State:
    """The state kept with the lock of a hold: a cursor, a watermark, a checkpoint. Use on any thread and loop.

    The state is the content of the lock's blob, written under the lease: the service refuses a holder whose lease is
    gone, also if the holder's clock is wrong. The state of a later holder is never overwritten. A read or a write is
    one request; a write is billed as a write operation. A write without an answer is sent again while the hold is good.

    ``read``, ``write`` and ``remove`` block their thread; ``aread``, ``awrite`` and ``aremove`` are for coroutines.
    """

    __slots__ = ("_crossing", "_keeper", "_lock")

    def __init__(self, lock: str, keeper: Keeper, crossing: Crossing) -> None:
        self._lock = lock
        self._keeper = keeper
        self._crossing = crossing

    def read(self, default: Any = None) -> Any:
        """Return the last written value, of any holder; ``default`` if the lock keeps no state.

        Raises:
            LockLost: the hold is lost or was released.
            LockClosed: the locks of this process were closed, or this process is a fork of the process with the lock.
            StorageError: the storage refuses, or the content of the blob is not understood.
            StorageUnavailable: the storage does not answer.
        """
        return read_as(self._lock, self._crossing.call(lambda _: self._keeper.read()), default)

    def write(self, value: Json | bytes) -> None:
        """Replace the state. After the return, the next holder reads this value.

        Args:
            value: a JSON value (a tuple is read back as a list; keys are str) with at most 500 levels of nesting, or
                bytes; at most 8 MiB.

        Raises:
            TypeError, ValueError: the value is neither JSON nor bytes, too long, or nested too deeply. Nothing was
                written.
            LockLost: the hold is lost or was released. Nothing was written.
            LockClosed: as of ``read``.
            StorageError: the storage refuses, or the blob has content which this package did not write. Nothing was
                written.
            StorageUnavailable: the storage does not answer, or did not answer before the hold was lost. The value may
                be written or not: write again, or let the next holder decide by the state which the next holder reads.
        """
        kept = written_as(value)
        self._crossing.call(lambda _: self._keeper.write(kept))

    def remove(self) -> None:
        """Remove the state of the lock. Raises the errors of ``write``."""
        self._crossing.call(lambda _: self._keeper.write(Kept()))

    async def aread(self, default: Any = None) -> Any:
        """See ``read``."""
        return read_as(self._lock, await self._crossing.call_async(lambda _: self._keeper.read()), default)

    async def awrite(self, value: Json | bytes) -> None:
        """See ``write``."""
        kept = written_as(value)
        await self._crossing.call_async(lambda _: self._keeper.write(kept))

    async def aremove(self) -> None:
        """See ``remove``."""
        await self._crossing.call_async(lambda _: self._keeper.write(Kept()))


def written_as(value: Json | bytes) -> Kept:
    """Return a value as it is kept. ``TypeError``, ``ValueError``: the value can't be kept."""
    kind, body = encoded(value)
    if len(body) > MOST_STATE:
        raise ValueError(f"the state has {len(body):,} bytes: at most {MOST_STATE:,} are allowed")
    return Kept(body, {STATE_KEY: kind})


def marked(marks: Mapping[str, str], key: str) -> str | None:
    """Return the mark of a key, upper and lower case alike, or None."""
    return next((value for spelt, value in marks.items() if spelt.lower() == key.lower()), None)


def expired(marks: Mapping[str, str], at: float) -> bool:
    """Tell whether marks, or metadata, say that the state is of no use any more at ``at``."""
    until = marked(marks, UNTIL_KEY) or ""
    return until.isascii() and until.isdigit() and len(until) < 16 and at >= int(until)


def encoded(value: Json | bytes) -> tuple[str, bytes]:
    """Return the kind of a value, json or bytes, and its bytes. ``TypeError``, ``ValueError``: it can't be kept."""
    if isinstance(value, bytes):
        return "bytes", value
    try:
        body = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode()
    except TypeError as error:
        raise TypeError(f"{quoted(value)} can't be kept: {error}. Give a value of JSON, or bytes") from None
    except (ValueError, RecursionError) as error:  # NaN, a circle, half a surrogate pair
        raise ValueError(f"{quoted(value)} can't be kept as JSON: {error}") from None
    check_keys(value)
    return "json", body


def check_keys(value: object) -> None:
    """Refuse deep nesting, and keys that JSON would turn into text, perhaps into another key: 1 into "1"."""
    level, depth = [value], 0
    while level := [each for each in level if isinstance(each, (dict, list, tuple))]:
        if (depth := depth + 1) > MOST_NESTED:
            raise ValueError(
                f"{quoted(value)} can't be kept as JSON: at most {MOST_NESTED} levels of nesting are allowed"
            )
        for key in (key for each in level if isinstance(each, dict) for key in each if not isinstance(key, str)):
            raise TypeError(f"{quoted(value)} can't be kept as JSON: its key {quoted(key)} is not a text")
        level = [inner for each in level for inner in (each.values() if isinstance(each, dict) else each)]


def read_as(lock: str, kept: Kept, default: Any = None) -> Any:
    """Return the kept value; ``default`` without a value. ``StorageError``: the kept value is not understood."""
    kind = marked(kept.marks, STATE_KEY)
    if kind is None:
        return default
    if kind == "bytes":
        return kept.body
    try:
        if kind in ("json", OUTCOME):
            return json.loads(kept.body)
    except ValueError:
        kind = "json, and is not JSON"
    except RecursionError:
        text = f"lock {lock!r}: its state is nested too deeply to be read here: read it with fewer calls on the stack"
        raise StorageError(text, lock=lock, reason=NOT_UNDERSTOOD) from None
    raise not_understood(lock, kind)


def refuse_foreign(lock: str, kept: Kept) -> None:
    """Raise ``StorageError`` if the blob has content without our mark: a pattern would replace the content."""
    if kept.foreign:
        text = f"lock {lock!r}: {NOT_REPLACED.format(kept.foreign)}"
        raise StorageError(text, lock=lock, reason=NOT_UNDERSTOOD)


def not_understood(lock: str, kind: str) -> StorageError:
    """Make the error of state that is of another kind than was looked for."""
    return StorageError(
        f"lock {lock!r}: its blob has content marked {kind[:40]!r}, which is not known here: a newer version, or "
        "another tool, wrote it",
        lock=lock,
        reason=NOT_UNDERSTOOD,
    )
