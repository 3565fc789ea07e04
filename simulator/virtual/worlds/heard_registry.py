"""The shipped registry of a machine's locks, whose every wait and end is told to the oracle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from simulator.virtual.oracle.errors_told import LockWait
from singleton.base.errors import SingletonError
from singleton.runtime.registry import Registry

if TYPE_CHECKING:
    from simulator.virtual.oracle.oracle import Oracle
    from simulator.virtual.time.machine import Machine
    from singleton.base.hold import Hold
    from singleton.runtime.address import Address


class HeardRegistry(Registry):
    """Tells the oracle what each wait for a lock ends with."""

    def __init__(self, oracle: Oracle, machine: Machine, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._oracle = oracle
        self._machine = machine

    async def acquire(
        self, address: Address, *, timeout: float | None, owner: str, limit: int | None = None, **more: Any
    ) -> Hold:
        """See ``Registry.acquire``."""
        since, lock = self._oracle.loop.now, address.name
        wait = LockWait(
            machine=self._machine,
            lock=lock,
            limit=limit,
            timeout=timeout,
            owner=owner,
            since=since,
            failover=address.timing.failover is not None,
        )
        errors = self._oracle.errors
        errors.waits(wait)
        try:
            hold = await super().acquire(address, timeout=timeout, owner=owner, limit=limit, **more)
        except SingletonError as error:
            errors.refused(wait, error)
            raise
        else:
            errors.acquired(wait, hold)
            self._oracle.ends.begun(self._machine, hold)
            return hold
        finally:
            errors.ended(wait)
