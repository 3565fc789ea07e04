"""An operation, as the body of a ``once`` block gets it: done, with its result, or still to be done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from singleton.base.errors import LockLost
from singleton.patterns.once.results import kept_as

if TYPE_CHECKING:
    from singleton.base.hold import Hold
    from singleton.base.state import Kept
    from singleton.patterns.once.looking import Look
    from singleton.patterns.once.results import Outcome


class BaseOperation:
    """What both kinds have."""

    __slots__ = ("_failure", "_hold", "_keep", "_look", "_outcome", "key", "lock")

    def __init__(self, key: str, lock: str, look: Look, keep: float) -> None:
        self.key = key
        self.lock = lock
        self._look = look
        self._keep = keep
        self._hold: Hold | None = None
        self._outcome: Outcome | None = look.outcome
        self._failure: BaseException | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.lock!r} {'done' if self.done else 'to be done'}>"

    @property
    def done(self) -> bool:
        """Tell whether it is done: before this block, or because it was finished here."""
        return self._outcome is not None

    @property
    def result(self) -> Any:
        """The kept result, the same for all callers.

        Raises:
            ResultNotKept: it is done, and its result could not be kept.
            RuntimeError: it is not done yet.
        """
        if self._outcome is None:
            raise RuntimeError(f"{self.lock!r} is not done yet: do the work, and call finish(result)")
        return self._outcome.given(self.lock)

    @property
    def token(self) -> int | None:
        """The fencing token, for resources that refuse smaller ones. None if the operation was done before."""
        return None if self._hold is None else self._hold.token

    def raise_if_lost(self) -> None:
        """Check just before a side effect that nobody else may be doing it. See ``Hold.raise_if_lost``."""
        if self._hold is not None:
            self._hold.raise_if_lost()

    def _begin(self, hold: Hold, kept: Kept) -> bool:
        """Go on with what was read under the lease; tell whether it is to be done."""
        self._outcome = self._look.outcome_in(self.lock, kept)
        if self._outcome is None:
            self._hold = hold
        return self._outcome is None

    def _to_keep(self, result: Any) -> tuple[Kept, Outcome]:
        """Return how the result is kept. From here on no other result may be."""
        if self.done or self._failure is not None:
            raise RuntimeError(
                f"{self.lock!r} is finished already, and its result can't be replaced"
            ) from self._failure
        assert self._hold is not None
        self._failure = LockLost("finish was interrupted", lock=self.lock, reason="interrupted")
        return kept_as(result, {}, self._look.service_time + self._keep)

    def _finished(self, outcome: Outcome) -> None:
        self._outcome, self._failure = outcome, None
        _ = self.result

    @property
    def _unfinished(self) -> bool:
        """Tell whether a block that ends well is to finish it. A block that caught a failure of that can't end well."""
        if self._failure is not None and self._hold is not None:
            raise self._failure
        return not self.done


class Operation(BaseOperation):
    """An operation, in a ``with`` block.

    Attributes:
        key: the key, as text.
        lock: name of the lock's blob, where the result is kept.
    """

    __slots__ = ()

    def finish(self, result: Any = None) -> None:
        """Keep the result: from now on the operation is done. Call it once, after the effect.

        Args:
            result: what JSON has (a tuple is read back as a list), or bytes; as JSON 8 MiB at most, so 6 MiB of bytes.

        Raises:
            LockLost: the lock was lost before: this result does not count. Somebody else may be doing it again.
            StorageUnavailable: whether it was kept is not known; a repeat will find out.
            ResultNotKept: it is done, and can't be repeated; but the result is not what can be kept.
        """
        kept, outcome = self._to_keep(result)
        hold = self._hold
        assert hold is not None
        assert hold.crossing is not None
        try:
            hold.crossing.call(lambda _: hold.keeper().write(kept))
        except BaseException as error:
            self._failure = error
            raise
        self._finished(outcome)

    def _end(self) -> None:
        """End a block that raised nothing: what was not finished is, without a result."""
        if self._unfinished:
            self.finish()


class AsyncOperation(BaseOperation):
    """An operation, in an ``async with`` block: an ``Operation`` whose ``finish`` is awaited."""

    __slots__ = ()

    async def finish(self, result: Any = None) -> None:
        """Keep the result. See ``Operation.finish``."""
        kept, outcome = self._to_keep(result)
        hold = self._hold
        assert hold is not None
        assert hold.crossing is not None
        try:
            await hold.crossing.call_async(lambda _: hold.keeper().write(kept))
        except BaseException as error:
            self._failure = error
            raise
        self._finished(outcome)

    async def _end(self) -> None:
        """See ``Operation._end``."""
        if self._unfinished:
            await self.finish()
