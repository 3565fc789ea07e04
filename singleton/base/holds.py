"""The locks which this process holds and waits for, read from memory: for health probes and draining."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from singleton.base import clock
from singleton.base.events import going

if TYPE_CHECKING:
    from singleton.base.kinds import LossReason, Use


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldLock:
    """A lock held by this process.

    Attributes:
        lock: name of the lock's blob; for a semaphore, of the slot's blob.
        function: name of the function, or "" outside Functions.
        owner: the invocation id, or the ``owner=`` of a lock client. "" for a listener's lock.
        mode: the use of the lock: ``function``, ``listener``, ``lock``, ``semaphore``, ``leadership`` or ``periodic``.
            A process keeps the locks of ``listener`` and ``leadership`` until the process ends.
        token: the fencing token; None with fencing tokens off.
        since: time of the acquisition, by this machine's clock.
        seconds: age of the hold in seconds.
        lost: reason of the loss; None while the hold is good. A lost lock is listed until its body has ended.
    """

    lock: str
    function: str
    owner: str
    mode: Use
    token: int | None
    since: datetime
    seconds: float
    lost: LossReason | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingFor:
    """A lock which this process waits for.

    Attributes:
        lock: name of the lock's blob; for a semaphore, name of the semaphore.
        function: name of the waiting function, or "" outside Functions.
        owner: the invocation id, or the ``owner=`` of a lock client. "" for a listener's lock.
        mode: see ``HeldLock``. A candidate for a listener's lock or a leadership always waits.
        since: begin of the wait, by this machine's clock.
        seconds: length of the wait so far, in seconds.
    """

    lock: str
    function: str
    owner: str
    mode: Use
    since: datetime
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Holds:
    """The locks of this process at one moment, in the order of their requests.

    Attributes:
        held: held locks. A lock is listed until its lease is released.
        waiting: locks which the process waits for.
    """

    held: tuple[HeldLock, ...]
    waiting: tuple[WaitingFor, ...]


def holds() -> Holds:
    """Return the locks of this process, through ``@singleton``, ``@once``, ``@ordered`` and lock clients.

    Call on any thread at any time. The call reads memory only: no request, no wait, no thread is started.
    A forked child holds nothing. The lock of ``mode="listener"`` is listed once for the process, not for each
    invocation. A function with locking switched off is not listed.

    Example::

        def drained() -> bool:
            return not any(each.mode not in ("listener", "leadership") for each in holds().held)
    """
    held: list[HeldLock] = []
    waiting: list[WaitingFor] = []
    moment, here = datetime.now(UTC), clock.now()
    for call in going():
        times = call.times
        got = times.got  # read once: the lock thread may change it meanwhile
        begun = times.asked if got is None else times.acquired
        seconds = 0.0 if begun is None else max(0.0, here - begun)
        about: dict[str, Any] = {"function": times.function, "owner": call.owner, "mode": call.mode}
        about |= {"since": moment - timedelta(seconds=seconds), "seconds": seconds}
        if got is None:
            waiting.append(WaitingFor(lock=call.lock, **about))
        else:
            lock, token, lost = got
            held.append(HeldLock(lock=lock, token=token, lost=lost.reason, **about))
    return Holds(held=tuple(held), waiting=tuple(waiting))
