"""What the lock clients tell of the locks that they ask for: the same events as guards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from singleton.base.errors import LockNotAcquired
from singleton.base.events import Call, tell, tell_failed
from singleton.locking.section import Section

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from singleton.base.hold import Hold
    from singleton.base.kinds import LossReason
    from singleton.process.onthread import Work
    from singleton.process.registry import Registry


async def told(call: Call, ask: Callable[[], Awaitable[Hold]], *, otherwise: str) -> Hold:
    """Acquire by ``ask`` on the lock thread, and tell of it; ``otherwise``: what follows where others have the lock."""
    tell("waiting", call)
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
    about: dict[str, Any] = {"token": hold.token, "lock": hold.lock}

    def lost(reason: LossReason) -> None:
        tell("lost", call, reason=reason, **about)

    tell("acquired", call, **about)
    hold.lost.add_callback(lost)
    if isinstance(hold, Section):
        hold.turn.settled.add_done_callback(lambda _: tell("released", call, **about))


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
