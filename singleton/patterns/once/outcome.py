"""Reads the outcome of an operation without its lock, and learns the service's clock from the reply."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from singleton.base.clock import now
from singleton.base.errors import ConfigurationError
from singleton.base.state import MOST_STATE, Kept
from singleton.locking.acquisition import storage_error
from singleton.locking.holder import answered
from singleton.patterns.once.results import outcome_in
from singleton.stores.protocol import ContentStore, StoreFailure
from singleton.stores.stamps import kept_in

if TYPE_CHECKING:
    from singleton.patterns.once.results import Outcome
    from singleton.stores.protocol import LeaseStore

_CALL: Final = 20.0
"""Seconds for one answer, which may be of 8 MiB."""
_ANSWER: Final = 30.0


class Look:
    """What one request found, without the lock.

    Attributes:
        outcome: what is kept; None: nothing, or no longer.
    """

    def __init__(self, lock: str, kept: Kept, sent: float) -> None:
        self._ahead = time.time() - now()
        self.outcome = self.outcome_in(lock, kept, sent)

    @property
    def service_time(self) -> float:
        """The service's clock, now, seconds since 1970."""
        return self._ahead + now()

    def outcome_in(self, lock: str, kept: Kept, sent: float | None = None) -> Outcome | None:
        """Return what was read by a request, as of when it was sent: now, unless that is given."""
        if kept.at is not None:
            self._ahead = kept.at - (now() if sent is None else sent)
        return outcome_in(lock, kept, self.service_time)


async def look(store: LeaseStore, lock: str) -> Look:
    """Look for the outcome that is kept with this lock. Call it where locks live.

    Raises:
        StorageError: the storage refuses, does not answer, or has something else there.
    """
    if not isinstance(store, ContentStore):
        raise ConfigurationError(
            f"the store, a {type(store).__name__}, can't keep results: it needs the methods of ContentStore"
        )
    sent = now()
    try:
        kept = kept_in(await answered(lambda: store.get(lock, None, MOST_STATE), call=_CALL, answer=_ANSWER))
    except StoreFailure as failure:
        if failure.meaning != "missing":
            raise storage_error(lock, failure, what="the result kept with lock") from failure
        kept = Kept(at=failure.at)
    return Look(lock, kept, sent)
