"""What the lock clients tell of the locks that they ask for: the same events as guards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from singleton.base.errors import LockNotAcquired
from singleton.base.events import Call, tell, tell_failed
from singleton.locking.section import Section
from singleton.process.holders import name_holder, patience
from singleton.process.running import Ask

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from singleton.base.hold import Hold
    from singleton.base.kinds import LossReason
    from singleton.locking.section import Turn
    from singleton.process.address import Address
    from singleton.process.door import Door
    from singleton.process.onthread import Work
    from singleton.process.registry import Registry


async def told(call: Call, ask: Callable[[], Awaitable[Hold]], *, otherwise: str) -> Hold:
    """Acquire by ``ask`` on the lock thread, and tell of it; ``otherwise``: what follows where others have the lock."""
    tell("waiting", call)
    return await told_on(call, ask, otherwise=otherwise)


async def told_on(call: Call, ask: Callable[[], Awaitable[Hold]], *, otherwise: str) -> Hold:
    """Do as ``told`` for a call of which it was told that it waits."""
    try:
        hold = await ask()
    except LockNotAcquired:
        tell("contended", call, reason=otherwise)
        raise
    except BaseException as error:
        tell_failed(call, error)
        raise
    follow(call, hold)
    return hold


def follow(call: Call, hold: Hold) -> None:
    """Tell that the hold was acquired; and of its end, without keeping it alive: its caller may drop it (M-37)."""
    tell("acquired", call, hold, lock=hold.lock)
    turn = hold.turn if isinstance(hold, Section) else None
    end = _End(call, hold.lock, hold.token, turn)
    hold.lost.add_callback(end)
    if turn is not None:
        turn.when_settled(hold.lost, end)


class _End:
    """What is told of the end of a hold. As small as it can be: there is one for each lock that is held."""

    __slots__ = ("_call", "_lock", "_token", "_turn")

    def __init__(self, call: Call, lock: str, token: int | None, turn: Turn | None) -> None:
        self._call = call
        self._lock = lock
        self._token = token
        self._turn = turn

    def __call__(self, reason: LossReason | None = None) -> None:
        """Tell that the hold was lost; without a reason, that it was released."""
        if reason is not None:
            tell("lost", self._call, reason=reason, token=self._token, lock=self._lock)
            return
        given_up = None if self._turn is None else self._turn.given_up
        tell("released", self._call, given_up=given_up, token=self._token, lock=self._lock)


class ToldAsk(Ask):
    """Asks for a lock, through the door of its client, and tells of it; ``lend`` is called on the lock thread first."""

    __slots__ = ("_call", "_door", "_lend", "_otherwise")

    def __init__(
        self, address: Address, owner: str, timeout: float | None, door: Door, lend: Callable[[Registry], None]
    ) -> None:
        super().__init__(address, owner, timeout, door)
        self._call = Call(address.name, "", owner, mode="lock")
        self._door = door
        self._otherwise = "raise" if timeout == 0 else "timeout"
        self._lend = lend

    def __call__(self, registry: Registry) -> Coroutine[Any, Any, Hold]:
        """Do it all on the lock thread."""
        return told(self._call, lambda: self._acquired(registry, None), otherwise=self._otherwise)

    def begin(self, registry: Registry) -> None:
        """Tell that the lock is asked for."""
        del registry
        tell("waiting", self._call)

    def go_on(self, registry: Registry, since: float | None) -> Coroutine[Any, Any, Hold]:
        """Do the rest on the lock thread."""
        return told_on(self._call, lambda: self._acquired(registry, since), otherwise=self._otherwise)

    def _acquired(self, registry: Registry, since: float | None) -> Coroutine[Any, Any, Hold]:
        return self._door.through(self.address.name, lambda: self._named(registry, since))

    async def _named(self, registry: Registry, since: float | None) -> Hold:
        self._lend(registry)
        try:
            return await super().go_on(registry, since)
        except LockNotAcquired as error:
            await name_holder(registry, self.address, error, patience(self.timeout))
            raise

    def got(self, hold: Hold) -> None:
        """Tell that a runner got it."""
        follow(self._call, hold)

    def failed(self, error: BaseException) -> None:
        """Tell that a runner goes away."""
        tell_failed(self._call, error)


def told_while_asking(name: str, owner: str, attempt: Work[Hold], *, for_ever: bool) -> Work[Hold]:
    """Return the attempts of a candidate to lead, and tell of them: it waits from the first until it has the lock.

    ``for_ever``: an attempt in vain is a poll; else the candidate gives up.
    """
    asking: list[Call] = []

    async def ask(registry: Registry) -> Hold:
        if not asking:
            asking.append(Call(name, "", owner, mode="leadership"))
            tell("waiting", asking[0])
        try:
            hold = await attempt(registry)
        except LockNotAcquired:
            if not for_ever:
                tell("contended", asking[0], reason="timeout")
            raise
        follow(asking.pop(), hold)
        return hold

    return ask
