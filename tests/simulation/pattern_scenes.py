"""Situations for the checks of the workloads ``outbox`` and ``rows``: what they must not overlook."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final

from singleton.patterns.outbox import Message
from tests.worlds import outboxes, rowclaims, starts

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from tests.simulation.scenes import Host, Scene

_PLAN: Final = outboxes._Plan(pause=0.0, key="a", fails=0, arrives=False, rolled_back=False, takes=0.1)
FIRST, SECOND = (
    Message(id=f"a{number}", body="", key="a", attempt=1, token=1, position=number + 1) for number in range(2)
)


async def _at_once() -> None:
    pass


def _post(scene: Scene, *, committed: bool = True) -> outboxes._Post:
    post = outboxes._Post(scene.world, stops=False)
    post._database._travel = _at_once  # type: ignore[method-assign]
    for message in (FIRST, SECOND):
        post._plans[message.id] = _PLAN
        if committed:
            post._add(message.id, _PLAN)
    return post


async def _never_committed(host: Host) -> None:
    _post(host.scene, committed=False)._begins(FIRST)


async def _out_of_order(host: Host) -> None:
    _post(host.scene)._begins(SECOND)


async def _sent_again(host: Host) -> None:
    post = _post(host.scene)
    post._noted.add(FIRST.id)
    post._begins(FIRST)


async def _noted_unsent(host: Host) -> None:
    await _post(host.scene).sent(FIRST)


async def _stale_relay(host: Host) -> None:
    post = _post(host.scene)
    post._seen = 5
    await post.claim(3, 1)


async def _given_up(host: Host) -> None:
    await _post(host.scene).failed(FIRST, "no", again_in=None, stops=False)


async def _tried_too_often(host: Host) -> None:
    post = _post(host.scene)
    for _ in range(4):
        post._tried(FIRST)


async def _tried_too_soon(host: Host) -> None:
    post = _post(host.scene)
    await post.failed(FIRST, "no", again_in=5.0, stops=False)
    post._tried(FIRST)


async def _claimed_twice(host: Host) -> None:
    work = rowclaims._Work(host.scene.world, 1)
    work._versions["0"] = 1
    work._claim(1)


async def _taken_too_soon(host: Host) -> None:
    work = rowclaims._Work(host.scene.world, 1)
    work._since["0"] = host.scene.world.loop.now
    work._claim(1)


async def _claimed_too_often(host: Host) -> None:
    work = rowclaims._Work(host.scene.world, 1)
    work._claims["0"] = 4
    work._claim(1)


async def _done_twice(host: Host) -> None:
    work = rowclaims._Work(host.scene.world, 1)
    work._effects["0"] = 1
    work._is_done(*work._claim(1))


async def _stale_claimer(host: Host) -> None:
    work = rowclaims._Work(host.scene.world, 1)
    (claim,) = work._claim(1)
    work._versions["0"] = 2
    work._renews(claim)


async def noted_claimer(host: Host) -> None:
    work = rowclaims._Work(host.scene.world, 1)
    (claim,) = work._claim(1)
    work._is_done(claim)
    work._wrote(claim)


async def _older_token(host: Host) -> None:
    work = rowclaims._Work(host.scene.world, 1)
    work._tokens["0"] = 2
    work._claim(1, 1)


def _starter(host: Host) -> starts._Starter:
    world = host.scene.world
    return starts._Starter(starts._Hub(world, Random(1)), host.machine, "me", world.loop.now)


async def _started_at_once(host: Host) -> None:
    starter = _starter(host)
    starter.hub.begins(starter, "order")
    with suppress(Exception):
        starter.hub.begins(_starter(host), "order")


async def _told(host: Host, *, started: bool) -> None:
    _starter(host).hub.told(_starter(host), "order", started=started)


async def _start_forgotten(host: Host) -> None:
    starter = _starter(host)
    starter.saw = True
    starter.hub.failed(starter)


def _of(part: Callable[[Host], Coroutine[Any, Any, None]]) -> Callable[[Scene], None]:
    return lambda scene: scene.a.plays(part)


PATTERNS: Final[dict[str, Callable[[Scene], None]]] = {
    "never committed": _of(_never_committed),
    "sent out of order": _of(_out_of_order),
    "sent again": _of(_sent_again),
    "noted unsent": _of(_noted_unsent),
    "stale relay": _of(_stale_relay),
    "given up too soon": _of(_given_up),
    "tried too often": _of(_tried_too_often),
    "tried too soon": _of(_tried_too_soon),
    "claimed twice": _of(_claimed_twice),
    "taken too soon": _of(_taken_too_soon),
    "claimed too often": _of(_claimed_too_often),
    "done twice": _of(_done_twice),
    "stale claimer": _of(_stale_claimer),
    "older token": _of(_older_token),
    "started at once": _of(_started_at_once),
    "started by others": _of(partial(_told, started=True)),
    "nobody in the way": _of(partial(_told, started=False)),
    "start forgotten": _of(_start_forgotten),
}
