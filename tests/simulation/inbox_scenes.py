"""Situations for the checks of the workload ``ordered``: what they must not overlook."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from simulator.virtual.hosts.queue_service import Queues
from simulator.virtual.oracle.evidence import RunningBody
from simulator.virtual.storage.network import NetworkRequest, Passage
from simulator.virtual.storage.service import Tenure
from singleton import InboxMessage
from singleton.base.errors import StorageUnavailable
from singleton.base.hold import Hold
from singleton.patterns.ordered.entries import Entry
from singleton.patterns.ordered.log_reader import Position
from singleton.patterns.ordered.protocol import NEW, Names
from tests.simulation.scenes import IDS, Belief
from tests.worlds.inboxes.bellwatch import BellWatch
from tests.worlds.inboxes.hosts import _Office
from tests.worlds.inboxes.messages import Plan
from tests.worlds.inboxes.postbook import Postbook

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from tests.simulation.scenes import Host, Scene
    from tests.worlds.inboxes.messages import Send

NAMES: Final = Names("orders")
KEY: Final = "k"


class Desk:
    """A book, and what it is told of one key."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.book = Postbook(host.scene.world, NAMES, attempts=2)

    def lands(self, number: int, name: str = NAMES.log(KEY)) -> None:
        """A message is added to a log."""
        block = entry(number).framed()
        self._carried_out("append", name, block)

    async def sent(self, number: int) -> Send:
        """A message is sent, and in the log."""
        send = self.book.sends(self.host.machine, KEY, number)
        self.lands(number)
        await asyncio.sleep(1.0)
        self.book.sent(send, ok=True)
        await asyncio.sleep(1.0)
        return send

    def keeps(self, **state: Any) -> None:
        """The state of the key is written."""
        said = json.dumps(asdict(Position(**state))).encode()
        self._carried_out("put", NAMES.lock(KEY), IDS[0], {}, '"0x1"', said)

    def gets(self, number: int, attempt: int = 1) -> None:
        """A handler gets a message."""
        message = InboxMessage(key=KEY, body={"number": number}, id=f"s-{number}", attempt=attempt)
        self.book.begins(self.host.machine, Hold(NAMES.lock(KEY), token=1), message)

    def _carried_out(self, call: str, name: str, *args: Any) -> None:
        request = NetworkRequest(self.host.machine, call, name, lambda: None, args=args)
        self.book.answered(request, None, Passage(0.0, 0.0))


def entry(number: int) -> Entry:
    """Return a message as it stands in a log."""
    return Entry("s", number, KEY, "json", json.dumps({"number": number}).encode())


async def _sent_by_nobody(host: Host) -> None:
    Desk(host).gets(1)


async def _out_of_order(host: Host) -> None:
    desk = Desk(host)
    await desk.sent(1)
    await desk.sent(2)
    desk.gets(2)


async def _handled_again(host: Host) -> None:
    desk = Desk(host)
    send = await desk.sent(1)
    desk.gets(1)
    desk.book.done(send)
    desk.keeps(senders={"s": 1})
    desk.gets(1)


async def _repeated_beside(host: Host) -> None:
    desk = Desk(host)
    first = await desk.sent(1)
    await desk.sent(2)
    desk.gets(1)
    desk.book.done(first)
    desk.gets(2)


async def _miscounted(host: Host) -> None:
    desk = Desk(host)
    await desk.sent(1)
    desk.gets(1, attempt=2)


async def counted_twice(host: Host) -> None:
    desk = Desk(host)
    await desk.sent(1)
    desk.keeps(failures=1)
    desk.keeps(failures=2)


async def _tried_too_early(host: Host) -> None:
    desk = Desk(host)
    send = await desk.sent(1)
    desk.gets(1)
    desk.book.fails(host.machine, send, 1)
    desk.keeps(failures=1, until=1.0)
    desk.keeps(failures=2, until=1.0)
    await asyncio.sleep(0.5)
    desk.gets(1, attempt=2)


async def _resumed_in_vain(host: Host) -> None:
    desk = Desk(host)
    desk.keeps(failures=1, until=1e10)
    desk.book.resumed(KEY, host.scene.world.loop.now)


async def _handled_while_stopped(host: Host) -> None:
    desk = Desk(host)
    await desk.sent(1)
    desk.keeps(stopped="it failed")
    desk.gets(1)


async def _put_back(host: Host) -> None:
    desk = Desk(host)
    desk.keeps(senders={"s": 2})
    desk.keeps(senders={"s": 1})


async def _kept_unhandled(host: Host) -> None:
    desk = Desk(host)
    await desk.sent(1)
    desk.keeps(senders={"s": 1})


async def _deleted_unread(host: Host) -> None:
    Desk(host)
    await host.store.start_log(NAMES.log(KEY), NEW)
    await host.store.append(NAMES.log(KEY), entry(1).framed())
    await host.store.drop(NAMES.log(KEY), (await host.store.read(NAMES.log(KEY))).etag)


async def _appended_in_vain(host: Host) -> None:
    await host.store.start_log(NAMES.log(KEY), NEW)
    Desk(host).lands(1, NAMES.log(KEY, "another", 1))


async def _poisoned(host: Host) -> None:
    desk = Desk(host)
    send = await desk.sent(1)
    desk.gets(1)
    desk.book.fails(host.machine, send, 1)
    desk.lands(1, f"{NAMES.asides}{KEY}/s-1")


async def _put_aside_too_late(host: Host) -> None:
    desk = Desk(host)
    desk.book.done(await desk.sent(1))
    desk.keeps(senders={"s": 1})
    desk.lands(1, f"{NAMES.asides}{KEY}/s-1")


async def _handled_though_aside(host: Host) -> None:
    desk = Desk(host)
    await desk.sent(1)
    desk.lands(1, f"{NAMES.asides}{KEY}/s-1")
    desk.gets(1)


async def _forgotten(host: Host) -> None:
    desk = Desk(host)
    desk.book.sent(desk.book.sends(host.machine, KEY, 1), ok=True)


async def _watched(host: Host) -> BellWatch:
    """Look at a key with a message."""
    watch = BellWatch(host.scene.world, Desk(host).book, Queues(host.scene.world.loop), "orders")
    await host.store.start_log(NAMES.log(KEY), NEW)
    await host.store.append(NAMES.log(KEY), entry(1).framed())
    watch.look()
    return watch


async def _without_bell(host: Host) -> None:
    watch = await _watched(host)
    await asyncio.sleep(6.0)
    watch.look()


async def _stands_still(host: Host) -> None:
    watch = await _watched(host)
    watch.book.keys[KEY].kept.failures = 1
    watch.look()
    await asyncio.sleep(181.0)
    watch.look()


async def _not_gone_on_with(host: Host) -> None:
    world, dead, lock = host.scene.world, host.scene.b.machine, NAMES.lock(KEY)
    watch = await _watched(host)
    hold = Hold(lock, lease=Belief(IDS[0], 14.0))
    world.oracle.bodies(lock).append(RunningBody(lock, dead, hold, sync=False, since=0.0))
    world.crash(dead.index)
    watch.ended(Tenure(lock, IDS[0], dead, 0.0, 15.0, ended=15.0, ending="expired"))
    await asyncio.sleep(25.0)
    watch.look()


async def _refused(host: Host) -> None:
    office = _Office(host.scene.world, {"attempts": 2}, look_every=30.0)

    async def refuses(*_: object) -> None:
        raise StorageUnavailable("no answer", reason="transient")

    office.inbox.asend = refuses  # type: ignore[assignment,method-assign]
    plan = Plan(
        number=1, pause=0.0, key=KEY, fails=0, takes=0.0, careful=True, heavy=False, sync=False, cancel_after=None
    )
    await office._send(office.book.sends(host.machine, KEY, 1), plan)


async def all_is_well(host: Host) -> None:
    """Two messages are sent, the first fails once, both are handled, and their log goes."""
    desk = Desk(host)
    await host.store.start_log(NAMES.log(KEY), NEW)
    sends = [await desk.sent(number) for number in (1, 2)]
    for number in (1, 2):
        await host.store.append(NAMES.log(KEY), entry(number).framed())
    desk.gets(1)
    desk.book.fails(host.machine, sends[0], 1)
    desk.keeps(failures=1, until=1.0)
    await asyncio.sleep(1.0)
    desk.keeps(failures=2, until=1.0)
    desk.gets(1, attempt=2)
    desk.book.done(sends[0])
    desk.keeps(failures=3, until=1.0)
    desk.gets(1, attempt=3)  # a crash repeats the one in hand
    desk.keeps(senders={"s": 1})
    desk.gets(2)
    desk.book.done(sends[1])
    desk.keeps(senders={"s": 2})
    await host.store.drop(NAMES.log(KEY), (await host.store.read(NAMES.log(KEY))).etag)
    desk.book.must_be_settled()


async def an_empty_log(host: Host) -> None:
    """The second copy of a request makes the log of a key without messages again: no bell is needed."""
    watch = BellWatch(host.scene.world, Desk(host).book, Queues(host.scene.world.loop), "orders")
    await host.store.start_log(NAMES.log(KEY), NEW)
    for _ in range(10):
        watch.look()
        await asyncio.sleep(1.0)


async def a_key_without_its_stop(host: Host) -> None:
    """An operator deletes the state of a key that stands still: a look will ring for its messages, nobody sooner."""
    desk = Desk(host)
    watch = BellWatch(host.scene.world, desk.book, Queues(host.scene.world.loop), "orders")
    await host.store.start_log(NAMES.log(KEY), NEW)
    await host.store.append(NAMES.log(KEY), entry(1).framed())
    desk.book.keys[KEY].kept = Position(stopped="_Fails: no")
    desk.book._deletes(NAMES.lock(KEY))
    for _ in range(10):
        watch.look()
        await asyncio.sleep(1.0)


def _of(part: Callable[[Host], Coroutine[Any, Any, None]]) -> Callable[[Scene], None]:
    return lambda scene: scene.a.plays(part)


INBOXES: Final[dict[str, Callable[[Scene], None]]] = {
    "sent by nobody": _of(_sent_by_nobody),
    "handled out of order": _of(_out_of_order),
    "handled again": _of(_handled_again),
    "repeated beside": _of(_repeated_beside),
    "miscounted": _of(_miscounted),
    "tried too early": _of(_tried_too_early),
    "handled while stopped": _of(_handled_while_stopped),
    "resumed in vain": _of(_resumed_in_vain),
    "offset put back": _of(_put_back),
    "kept unhandled": _of(_kept_unhandled),
    "deleted unread": _of(_deleted_unread),
    "appended in vain": _of(_appended_in_vain),
    "poisoned too soon": _of(_poisoned),
    "put aside too late": _of(_put_aside_too_late),
    "handled though put aside": _of(_handled_though_aside),
    "message forgotten": _of(_forgotten),
    "left without a bell": _of(_without_bell),
    "stands still": _of(_stands_still),
    "not gone on with": _of(_not_gone_on_with),
    "refused in peace": _of(_refused),
}
