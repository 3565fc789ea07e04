"""Put a queue message back for later: nothing is lost at any moment, and no dequeue is counted for it.

The Functions host deletes a message when its function returns, and each receive counts as a dequeue. So the message
itself can't go back unburnt; a copy of it does, and the host's own delete is made to miss:

    1. hide the original, by its receipt: so it is still ours, and from now on only ours. The host's own receipt is
       void, so that its delete at the end of the invocation is ignored (H-41)
    2. send the copy, invisible for the delay, with what is left of the original's life
    3. delete the original

Where the body has taken the place of the message's own id or receipt (H-80), 1 and 3 can't be asked for. Then the copy
is sent, and the host's own delete, which succeeds, is the third step.

A crash after 1 leaves the original, which comes back by itself. A crash after 2 leaves both, and the message is handled
twice. After no step are both gone. If the steps take so long that another receiver may have the original, they are
given up, and a sent copy is withdrawn. No cancellation stops the steps. So only a crash, a request without
an answer, or a copy that the queue refuses on the host's last delivery, leaves one message too many.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from singleton.base.errors import StorageDenied, StorageError, StorageUnavailable
from singleton.base.invocation import log as _log
from singleton.base.tasks import undisturbed
from singleton.stores.message_store import GONE, Hidden
from singleton.stores.protocol import StoreFailure, within
from singleton.stores.refusals import denial

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from singleton.stores.message_store import MessageStore, Sent

_T = TypeVar("_T")

_HIDDEN: Final = 60
"""Seconds for which nobody else sees the original."""
_OURS: Final = 40.0
"""Seconds after the hiding from which no step begins that needs the original to be ours."""
_ANSWER: Final = 10.0
"""Seconds for one request, at most."""
_ROLE: Final = "deferring needs the role Storage Queue Data Contributor"
_PAUSES: Final = (0.2, 1.0)
"""Seconds before a request that was refused for the moment is made again."""
_DELETES: Final = 3
_LIFE: Final = 604_800
"""Seconds for which a message lives by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A message of an invocation: values of the queue, never values that the body put in their place.

    None: not known.

    Attributes:
        text: the body, encoded as in the queue.
        inserted: when it was put into the queue, by the service's clock since 1970.
        dequeue_count: number of receives under this id, the present receive included.
        invisible_until: until when its receiver was promised to be alone with it, by the service's clock since 1970.
        expires: when it ends; infinite: never.
    """

    id: str | None
    receipt: str | None
    text: str
    invisible_until: float | None
    expires: float | None
    inserted: float | None = None
    dequeue_count: int | None = 1

    def __str__(self) -> str:
        return "a message whose body has an Id of its own" if self.id is None else f"message {self.id}"

    @property
    def known(self) -> tuple[str, str] | None:
        """Id and receipt, if both are known: without them only the host can hide or delete the message."""
        return None if self.id is None or self.receipt is None else (self.id, self.receipt)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """A message that lies elsewhere now, as a copy.

    Attributes:
        to: the queue of the copy.
        by_host: whether the original is left for its host to delete, which it does if the invocation succeeds.
    """

    to: MessageStore
    copy: Sent
    by_host: bool


class MessageElsewhere(Exception):
    """Another receiver may have the message by now. Nothing was done: the invocation must not end as a success."""


@undisturbed
async def put_back(
    queue: MessageStore, message: Received, *, delay: int, handed_on: Callable[[str], None]
) -> Moved | None:
    """Put a message back for ``delay`` seconds; the invocation can then end as a success, whatever its host deletes.

    Args:
        delay: seconds; fewer if the message's life would end before.
        handed_on: told the copy's id as soon as the copy is sent, before the original ends.

    Returns:
        the move: queue, copy, ``by_host``; None: the original comes back by itself: we were held up, or its life ends.

    Raises:
        MessageElsewhere: the message is not ours any more.
        StorageDenied, StorageUnavailable, StorageError: the queue refused. The original comes back by itself, or
            is there beside a copy.
    """
    clock = asyncio.get_running_loop().time
    began = clock()
    claimed, now = await _claim(queue, message)
    if claimed is not None and clock() - began > _OURS:
        return None
    life = _life(message.expires, now)
    if life is not None and life < 1:  # a copy would live longer than the message may, and not stay away
        return None
    wait = delay if life is None else min(delay, life // 2)
    copy = await _answered(lambda: queue.send(message.text, delay=wait, life=life), f"{message}: its copy")
    if claimed is None:
        handed_on(copy.id)
        return Moved(to=queue, copy=copy, by_host=True)
    if clock() - began > _OURS:
        await _gone(lambda: queue.delete(copy.id, copy.receipt))
        return None
    handed_on(copy.id)
    if not await _gone(lambda: queue.delete(*claimed)):
        _log.warning("%s was put back as %s, but was not deleted itself: it will run twice", message, copy.id)
    return Moved(to=queue, copy=copy, by_host=False)


@undisturbed
async def withdraw(moved: Moved) -> None:
    """Take a copy away again: its host will not delete the original, as the invocation does not succeed."""
    await _gone(lambda: moved.to.delete(moved.copy.id, moved.copy.receipt))


def _life(expires: float | None, now: float) -> int | None:
    """Return the whole seconds that are left; None: no end."""
    if expires is None:
        return _LIFE
    return None if expires == math.inf else math.floor(expires - now)


@undisturbed
async def move(
    queue: MessageStore,
    to: MessageStore,
    message: Received,
    *,
    by_host: bool = True,
    handed_on: Callable[[], None] = lambda: None,
) -> Moved | None:
    """Move a message of ours to another queue, which is made where missing; None: the message was not moved.

    A message without a known id or receipt, or with a receipt renewed by the host, is left for the host to delete: the
    invocation must end as a success. If it can't (``by_host=False``), the message is not moved. ``handed_on`` is called
    after the sending, before the original ends.

    A crash on the way leaves the message in both queues, as a crash of the host does on the way to the poison queue
    (H-39).

    Raises:
        MessageElsewhere: the message is not ours any more.
        StorageDenied, StorageUnavailable, StorageError: a queue refused.
    """
    clock = asyncio.get_running_loop().time
    began = clock()
    claimed, _ = await _claim(queue, message)
    if claimed is None and not by_host:
        return None  # the host would put the message back beside its copy
    await _answered(to.create, "making the poison queue")
    if clock() - began > _OURS:
        return None
    copy = await _answered(lambda: to.send(message.text, delay=0, life=_LIFE), f"{message}: moving it")
    handed_on()
    if claimed is not None:
        await _gone(lambda: queue.delete(*claimed))
    return Moved(to=to, copy=copy, by_host=claimed is None)


async def _claim(queue: MessageStore, message: Received) -> tuple[tuple[str, str] | None, float]:
    """Make the message only ours; return its id and new receipt, and the service's clock.

    Without id and receipt the message is the host's, and the host's own delete will work: either the body hides id or
    receipt, or the host has renewed the receipt, as for a function that waits in the worker. Then no other
    receiver can have the message yet.
    """
    if message.known is None:
        now = await _answered(queue.now, f"{message}: asking for the time")
        if message.invisible_until is not None and now >= message.invisible_until:
            raise MessageElsewhere
        return None, now
    name, receipt = message.known
    try:
        hidden: Hidden = await _asked(lambda: queue.hide(name, receipt, _HIDDEN))
    except StoreFailure as failure:
        if failure.code not in GONE:
            raise _error(failure, f"{message}: hiding it") from failure
        if failure.at is None or message.invisible_until is None or failure.at >= message.invisible_until:
            raise MessageElsewhere from failure
        return None, failure.at
    return (name, hidden.receipt), hidden.until - _HIDDEN


async def _answered(request: Callable[[], Awaitable[_T]], what: str) -> _T:
    try:
        return await _asked(request)
    except StoreFailure as failure:
        raise _error(failure, what) from failure


async def _gone(delete: Callable[[], Awaitable[None]]) -> bool:
    """Delete a message; tell whether the message is gone. A delete may be repeated, whatever its outcome."""
    for _ in range(_DELETES):
        try:
            await _asked(delete)
        except StoreFailure as failure:
            if failure.code in GONE:
                return True
            if failure.meaning != "transient":
                return False
        else:
            return True
    return False


async def _asked(request: Callable[[], Awaitable[_T]]) -> _T:
    """Make a request; again if the service refuses it for the moment, never if its outcome is unknown."""
    pauses = iter(_PAUSES)
    while True:
        try:
            return await within(_ANSWER, request())
        except StoreFailure as failure:
            pause = next(pauses, None)
            if pause is None or failure.status is None or failure.meaning != "transient":
                raise
        await asyncio.sleep(pause)


def _error(failure: StoreFailure, what: str) -> StorageError:
    kind, why = {
        "denied": (StorageDenied, f"{denial(failure, 'queue')}; {_ROLE}"),
        "transient": (StorageUnavailable, "the queue does not answer as it should"),
    }.get(failure.meaning, (StorageError, "the queue refuses the request"))
    return kind(f"{what}: {why} ({failure})", reason=str(failure), status=failure.status, code=failure.code)
