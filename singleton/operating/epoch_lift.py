"""Lift the epochs of a container's locks after its storage went back in time: later tokens exceed all earlier tokens.

An account that failed over, or was restored to a point in time, may have lost its last writes. Then a blob has an older
epoch than was used already, and the next tokens would repeat. Nobody has to know the lost epochs: an epoch begins at a
thousand times the service's clock and grows by one a lease (``fencing.py``), so all epochs that were given until now
are below a thousand times the next second. The clock is the service's, from the reply to a write. The epoch is written
under a lease, so no holder is disturbed.

Lifted are each blob with an epoch, and each empty blob with a name of our layouts: its epoch may be lost. A lock with a
user's own name and without metadata looks like a foreign blob, and is left alone. Locks shared with WebJobs have no
tokens, and stay unchanged. A held lock stays unchanged, too: only the holder may write, so lift a held lock later, when
the lock is free.
"""

from __future__ import annotations

import uuid
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from singleton.base.errors import StorageError
from singleton.dotnet.webjobs import CONTAINER as WEBJOBS
from singleton.locking.acquisition import storage_error
from singleton.locking.holder import answered
from singleton.operating.container import keeping_of
from singleton.operating.container_pass import ContainerPass, Counts
from singleton.operating.locks import lock_info, parts_of
from singleton.stores.protocol import LeaseStore, StoreFailure, within
from singleton.stores.stamps import EPOCH_KEY, lifted_epoch, recorded_epoch

if TYPE_CHECKING:
    from singleton.stores.lock_keeping import Listed

_MISSING = 404
_CALL: Final = 5.0
_TRY: Final = 30.0
_ANSWER: Final = 60.0
"""Seconds for one lock, all tries together."""
_SHORTEST: Final = 15

Fate: TypeAlias = Literal["lifted", "held", "gone", "kept"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifted(Counts):
    """Outcomes of a lift of epochs, as numbers of blobs.

    Attributes:
        lifted: locks whose next tokens are greater than all earlier tokens; in a dry run, locks to lift.
        held: held locks, unchanged: call the lift again when these locks are free.
        gone: locks deleted meanwhile. The epoch of a new blob counts from the clock.
        kept: blobs without a sign of a lock with tokens, or of other functions than the one asked for.
    """

    lifted: int = 0
    held: int = 0
    gone: int = 0
    kept: int = 0


class Lift(ContainerPass[Lifted]):
    """One pass over a container that lifts the epochs, page by page.

    Args:
        store: the container.
        container: name of the container.
        function: only locks of this function.
        dry_run: write nothing.

    Attributes:
        functions: functions with locks, as far as the pass went.
    """

    _page = 100
    """Each lock takes six requests: with pages of a thousand nothing would be told for long."""

    def __init__(
        self, store: LeaseStore, container: str, *, function: str | None = None, dry_run: bool = False
    ) -> None:
        super().__init__(keeping_of(store), container, Lifted, "lifted", prefix="", dry_run=dry_run)
        self._store = store
        self._function = function
        self.functions: set[str] = set()

    def _end_of(self, blob: Listed, at: float) -> Fate:  # noqa: ARG002 - how old a lock is does not count
        lock = lock_info(blob, self._container)
        if lock is not None and lock.function:
            self.functions.add(lock.function)
        if not has_tokens(blob, self._container):
            return "kept"
        if self._function is not None and (lock is None or lock.function != self._function):
            return "kept"
        return "held" if blob.held else "lifted"

    async def _work_on(self, blob: Listed) -> Fate:
        try:
            epoch = await lift_epoch(self._store, blob.name, str(uuid.uuid4()))
        except StorageError as error:
            if error.status == _MISSING:
                return "gone"
            raise
        return "held" if epoch is None else "lifted"


def has_tokens(blob: Listed, container: str) -> bool:
    """Tell whether the blob is a lock with tokens, or with tokens that were lost."""
    if recorded_epoch(blob) is not None:
        return True
    return container != WEBJOBS and not blob.size and parts_of(blob.name, container) is not None


async def lift_epoch(store: LeaseStore, name: str, lease_id: str) -> int | None:
    """Write an epoch above all that were given so far; return it, or None where somebody has the lock, or took it.

    Args:
        store: of the lock's container.
        name: the lock's.
        lease_id: a new one, for this lock only. With it everything may be done again where an answer is missing.

    Raises:
        StorageError: the storage refuses, does not answer, or has no such lock. A lease that was granted without an
            answer lapses within 15 seconds.
    """
    try:
        return await answered(lambda: _lift_under_a_lease(store, name, lease_id), call=_TRY, answer=_ANSWER)
    except StoreFailure as failure:
        if failure.meaning in ("held", "lost", "changed"):
            return None
        raise storage_error(name, failure) from failure


async def _lift_under_a_lease(store: LeaseStore, name: str, lease_id: str) -> int:
    await within(_CALL, store.acquire(name, lease_id, _SHORTEST))
    try:
        return await _lifted(store, name, lease_id)
    finally:
        with suppress(StoreFailure):
            await within(_CALL, store.release(name, lease_id))


async def _lifted(store: LeaseStore, name: str, lease_id: str) -> int:
    before = await within(_CALL, store.read(name))
    await within(_CALL, store.write(name, lease_id, before.metadata, before.etag))
    now = await within(_CALL, store.read(name))  # its Last-Modified is the clock
    epoch = lifted_epoch(now)
    kept = {key: value for key, value in now.metadata.items() if key.lower() != EPOCH_KEY.lower()}
    await within(_CALL, store.write(name, lease_id, {**kept, EPOCH_KEY: str(epoch)}, now.etag))
    return epoch
