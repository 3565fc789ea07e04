"""What this process holds and waits for: read from memory, for health probes and for draining."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from singleton.base.clock import now
from singleton.base.events import going

if TYPE_CHECKING:
    from singleton.base.events import Call
    from singleton.base.kinds import LossReason, Use


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldLock:
    """A lock that this process holds.

    Attributes:
        lock: name of the lock's blob; of a semaphore the slot's.
        function: the function that holds it, or "" outside Functions.
        owner: the invocation id, or what the caller of the lock client gave. "" for a listener's lock.
        mode: what the lock is used for: ``function``, ``listener``, ``lock``, ``semaphore``, ``leadership`` or
            ``periodic``. A process keeps the locks of ``listener`` and ``leadership`` until it ends.
        token: the fencing token; None where there is none.
        since: when it was acquired, by this machine's clock.
        seconds: for how many seconds it has been held.
        lost: why it is lost; None while it is good. A lost lock is listed until the code under it has ended.
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
    """A lock that this process waits for.

    Attributes:
        lock: name of the lock's blob; of a semaphore the semaphore's.
        function: the function that waits, or "" outside Functions.
        owner: the invocation id, or what the caller of the lock client gave. "" for a listener's lock.
        mode: see ``HeldLock``. A process that stands by as a listener, or for a leadership, always waits.
        since: when the wait began, by this machine's clock.
        seconds: for how many seconds it has waited.
    """

    lock: str
    function: str
    owner: str
    mode: Use
    since: datetime
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Holds:
    """The locks of this process at one moment, in the order in which they were asked for.

    Attributes:
        held: the locks that it holds. A lock is listed until it is given back to the storage.
        waiting: the locks that it waits for.
    """

    held: tuple[HeldLock, ...]
    waiting: tuple[WaitingFor, ...]


def holds() -> Holds:
    """Return what this process holds and waits for, through ``@singleton``, ``@once``, ``@ordered`` and lock clients.

    Call it on any thread at any time. It only reads memory: it sends no request, waits for nothing and starts nothing.
    A forked child holds nothing. The lock of ``mode="listener"`` is listed once for the process, not for each
    invocation. A function whose locking is switched off is not listed.

    Example::

        def drained() -> bool:
            return not any(each.mode not in ("listener", "leadership") for each in holds().held)
    """
    held: list[HeldLock] = []
    waiting: list[WaitingFor] = []
    moment, clock = datetime.now(UTC), now()
    for call in going():
        _add(call, held, waiting, moment, clock)
    return Holds(held=tuple(held), waiting=tuple(waiting))


def _add(call: Call, held: list[HeldLock], waiting: list[WaitingFor], moment: datetime, clock: float) -> None:
    times = call.times
    got = times.got  # read once: the lock thread may change it meanwhile
    begun = times.asked if got is None else times.acquired
    seconds = 0.0 if begun is None else max(0.0, clock - begun)
    since = moment - timedelta(seconds=seconds)
    if got is None:
        waiting.append(
            WaitingFor(
                lock=call.lock,
                function=times.function,
                owner=call.owner,
                mode=call.mode,
                since=since,
                seconds=seconds,
            )
        )
        return
    lock, token, lost = got
    held.append(
        HeldLock(
            lock=lock,
            function=times.function,
            owner=call.owner,
            mode=call.mode,
            token=token,
            since=since,
            seconds=seconds,
            lost=lost.reason,
        )
    )
