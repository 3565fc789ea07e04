"""Situations for the checks of the workload ``arguments``: what they must not overlook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from singleton.base.hold import Hold, shown_hold
from tests.worlds.arguments import Call, Drawn, Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from tests.simulation.scenes import Host, Scene

_PLAIN: Final[dict[str, Any]] = dict.fromkeys(Drawn.__slots__) | {
    "scope_hash": False,
    "renamed": False,
    "at_least": 0.0,
}


def _watch(host: Host, **drawn: Any) -> tuple[Watch, Callable[..., Call]]:
    """Return a watch of functions with these arguments, and what makes calls on the host."""
    watch = Watch(host.scene.world, Drawn(**_PLAIN | drawn))

    def call(*, is_old: bool = False) -> Call:
        made = Call(host.machine, "key", host.scene.world.loop.now, is_old)
        watch.calls[made] = None
        return made

    return watch, call


async def _body(host: Host, watch: Watch, call: Call, *, token: int) -> None:
    shown_hold.set(Hold("lock", token=token, lease=await host.take()))
    watch.begins(call)


async def _waits_for_too_many(host: Host) -> None:
    watch, call = _watch(host, max_waiting=0)
    call()
    await host.until(15.0)
    watch.look()


async def _refused_alone(host: Host) -> None:
    watch, call = _watch(host, max_waiting=1)
    watch.refused(call())


async def _not_kept(host: Host) -> None:
    watch, call = _watch(host, at_least=9.0)
    await _body(host, watch, call(), token=1)
    watch.begins(call())


async def _longer_than_allowed(host: Host) -> None:
    watch, call = _watch(host, max_hold=3.0)
    await _body(host, watch, call(), token=1)
    await host.until(6.0)


async def _both_versions(host: Host) -> None:
    watch, call = _watch(host, renamed=True)
    await _body(host, watch, call(is_old=True), token=1)
    watch.begins(call())


async def _from_before(host: Host) -> None:
    watch, call = _watch(host, renamed=True)
    before = call(is_old=True)
    await _body(host, watch, before, token=2)
    watch.ended(before, "ok")
    shown_hold.set(Hold("lock", token=1))
    watch.begins(call())


def _plays(part: Callable[[Host], Coroutine[object, object, None]]) -> Callable[[Scene], None]:
    return lambda scene: scene.a.plays(part)


ARGUMENTS: Final[dict[str, Callable[[Scene], None]]] = {
    "waits for too many": _plays(_waits_for_too_many),
    "refused alone": _plays(_refused_alone),
    "not kept": _plays(_not_kept),
    "longer than allowed": _plays(_longer_than_allowed),
    "both versions at once": _plays(_both_versions),
    "a token from before": _plays(_from_before),
}
