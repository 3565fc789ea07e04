"""Situations for the checks of the workload ``state``: what they must not overlook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from simulator.virtual.storage.network import NetworkRequest, Passage
from singleton.base.errors import LockLost
from singleton.base.hold import Hold
from tests.simulation.scenes import LOCK
from tests.worlds.states import _Ledger

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from tests.simulation.scenes import Host, Scene


class _Reading:
    """A hold whose state is read, whatever the service has."""

    def __init__(self, found: Any) -> None:
        self._found = found
        self.lock, self.token, self.lost = LOCK, 7, Hold(LOCK).lost
        self.state = self

    async def aread(self, _: Any) -> Any:
        if isinstance(self._found, Exception):
            raise self._found
        return self._found


async def _read(host: Host, found: Any) -> None:
    ledger = _Ledger(host.scene.world)
    ledger._known[LOCK] = (5, 1)
    await ledger.read(host.machine, cast("Hold", _Reading(found)))


async def _went_back(host: Host) -> None:
    await _read(host, [4, 9])


async def _refused(host: Host) -> None:
    try:
        await _read(host, LockLost("lost", lock=LOCK, reason="stolen"))
    except LockLost:
        return


def _carry_out(ledger: _Ledger, host: Host) -> None:
    """Tell of a write of ``[3, 1]`` that the service has carried out."""
    args: tuple[Any, ...] = ("id", {}, '"0x1"', b"[3, 1]")
    ledger.answered(NetworkRequest(host.machine, "put", LOCK, lambda: None, "id", args=args), None, Passage(0.0, 0.0))


async def _overwritten(host: Host) -> None:
    ledger = _Ledger(host.scene.world)
    ledger._latest[LOCK], ledger._meant[LOCK, b"[3, 1]"] = 9, (3, 1)
    _carry_out(ledger, host)


async def _written_after_a_read(host: Host) -> None:
    ledger = _Ledger(host.scene.world)
    ledger._begun.add((LOCK, (3, 1)))
    ledger._meant[LOCK, b"[3, 1]"] = (3, 1)
    await ledger.read(host.machine, cast("Hold", _Reading([0, 0])))
    _carry_out(ledger, host)


async def _written_after_all(host: Host) -> None:
    ledger = _Ledger(host.scene.world)
    ledger._refused.add((LOCK, (3, 1)))
    ledger._meant[LOCK, b"[3, 1]"] = (3, 1)
    _carry_out(ledger, host)


async def _lost(host: Host) -> None:
    ledger = _Ledger(host.scene.world)
    ledger._known[LOCK] = (5, 1)
    ledger.must_be_there()


def _of(part: Callable[[Host], Coroutine[Any, Any, None]]) -> Callable[[Scene], None]:
    return lambda scene: scene.a.plays(part)


STATES: Final[dict[str, Callable[[Scene], None]]] = {
    "state went back": _of(_went_back),
    "refused without a loss": _of(_refused),
    "written after a read": _of(_written_after_a_read),
    "written after all": _of(_written_after_all),
    "overwritten": _of(_overwritten),
    "state lost": _of(_lost),
}
