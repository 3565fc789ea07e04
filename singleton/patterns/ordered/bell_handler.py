"""Answers a bell: handles its key's messages, and sends another bell where there is more to do."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

from singleton.base.errors import StorageUnavailable
from singleton.patterns.ordered.visit import InboxMessage, Outcome, Rules, Visit
from singleton.stores.protocol import StoreFailure, within

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from singleton.patterns.ordered.bells import Bell
    from singleton.patterns.ordered.service import Service
    from singleton.process.calls import Locks
    from singleton.process.registry import Registry

INSURED: Final = 20
"""Seconds after which another bell rings where the process that was at a key has died: a lease, and some."""
_CALL: Final = 10.0


class Insurance(Protocol):
    """A bell that rings by itself unless it is put off: so that a key goes on when its consumer dies."""

    async def begin(self) -> None:
        """Make sure that the bell is in the queue."""

    async def end(self, again: float | None) -> None:
        """Ring the bell again in ``again`` seconds; None: delete it, no message is left."""


@dataclass(slots=True)
class SpareBell:
    """A bell of our own, rung for later before the first message is handled, beside the one that is answered."""

    service: Service
    locks: Locks
    bell: Bell
    _known: tuple[str, str] | None = None

    async def begin(self) -> None:
        """See ``Insurance.begin``."""

        async def rung(registry: Registry) -> None:
            sent = await self.service.ring(registry, replace(self.bell, again=1), INSURED)
            self._known = None if sent is None else (sent.id, sent.receipt)

        await self.locks.call_async(rung)

    async def end(self, again: float | None) -> None:
        """See ``Insurance.end``. Where the spare bell was received by somebody meanwhile, that does no harm."""
        known, self._known = self._known, None

        async def ended(registry: Registry) -> None:
            if again is None:
                await put_off(self.service, registry, known, None)
            elif not await put_off(self.service, registry, known, again):
                bell = replace(self.bell, again=self.bell.again + 1)
                if await self.service.ring(registry, bell, again) is None:
                    raise StorageUnavailable(f"the queue could not be told of {bell.spot} again", reason="no bell")

        if again is not None or known is not None:
            await self.locks.call_async(ended)


async def put_off(service: Service, registry: Registry, known: tuple[str, str] | None, again: float | None) -> bool:
    """Have a bell that is ours ring in so many seconds, or delete it; tell whether that was done."""
    if known is None:
        return False
    queue, seconds = service.queue(registry), math.ceil(again or 0)
    try:
        await within(_CALL, queue.delete(*known) if again is None else queue.hide(*known, seconds))
    except StoreFailure:
        return False
    return True


async def answer(
    service: Service,
    locks: Locks,
    bell: Bell,
    handle: Callable[[InboxMessage], Awaitable[None]],
    rules: Rules,
    insurance: Insurance,
    *,
    owner: str = "",
    stopping: Callable[[], bool] = lambda: False,
    cancel: bool = False,
) -> Outcome:
    """Visit the key of a bell. When this returns, the bell that was answered may be deleted.

    Raises:
        SingletonError: the key was not read to its end. The bell must stay, or ring again.
    """
    if bell.again and await locks.call_async(lambda registry: service.is_drained(registry, bell.spot)):
        await insurance.end(None)
        return Outcome()
    visit = Visit(
        locks=locks,
        attempt=service.attempt(bell.spot, owner),
        store=service.store,
        names=service.names,
        spot=bell.spot,
        rules=rules,
        handle=handle,
        begins=insurance.begin,
        again=bool(bell.again),
        stopping=stopping,
        cancel=cancel,
    )
    outcome = await visit.made()
    if outcome.busy:
        outcome = outcome._replace(again=bell.pause)
    await insurance.end(outcome.again)
    return outcome
