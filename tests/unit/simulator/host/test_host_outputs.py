"""What a host does with the outputs of its functions, and whom it wakes."""

from __future__ import annotations

import base64
from contextlib import AsyncExitStack
from random import Random
from typing import TYPE_CHECKING, Any, cast

import pytest

from simulator.host.app.config import HostConfig
from simulator.host.app.errors import SettingsError
from simulator.host.app.hostjson import QueueOptions
from simulator.host.app.model import IndexedFunction, Parameter
from simulator.host.listeners import make_listeners
from simulator.host.plan import Plan
from simulator.host.triggers.outputs import Outputs
from singleton.settings.options import SingletonOptions
from tests.support.memory_queues import MemoryQueues

if TYPE_CHECKING:
    from pathlib import Path

    from simulator.host.runner import Runner
    from simulator.host.triggers.queue import QueueListener


def output(queue: str, binding: str = "queue") -> Parameter:
    return Parameter(name="out", binding=binding, converter="generic", settings={"queueName": queue})


class Given:
    """Outputs on queues in memory."""

    def __init__(self) -> None:
        self.queues = MemoryQueues()
        self.woken: list[str] = []
        self.queues.tell("next-queue", lambda: self.woken.append("next-queue"))
        self.events: list[tuple[str, dict[str, object]]] = []
        self.outputs = Outputs(
            service=self.queues,
            encoding="base64",
            settings={"NEXT": "Next-Queue"},
            write=lambda event, /, **fields: self.events.append((event, fields)),
        )


async def test_a_message_is_sent_in_the_hosts_encoding_and_wakes_its_queue() -> None:
    given = Given()
    await given.outputs.send("split", [(output("%NEXT%"), ["one", "two"])])
    assert given.queues.texts("next-queue") == ["one", "two"]
    assert base64.b64decode(given.queues.queues["next-queue"][0].text) == b"one"
    assert given.woken == ["next-queue", "next-queue"]
    assert [event for event, _ in given.events] == ["message_sent", "message_sent"]


async def test_what_the_simulator_does_not_write_is_noted_once() -> None:
    given = Given()
    for _ in range(3):
        await given.outputs.send("split", [(output("x", binding="table"), "row")])
    assert [event for event, _ in given.events] == ["note"]


@pytest.mark.parametrize("queue", ["", "No_Queue", "%MISSING%"])
async def test_a_queue_that_can_not_be_is_an_error(queue: str) -> None:
    with pytest.raises(SettingsError, match="output 'out' of split"):
        await Given().outputs.send("split", [(output(queue), "one")])


async def test_a_listener_is_woken_for_its_own_queue_only(tmp_path: Path) -> None:
    config = HostConfig(name="h", app=tmp_path, journal=tmp_path, storage="", host_id="h", lock_host_id="l")
    queues = MemoryQueues()
    trigger = Parameter(name="msg", binding="queueTrigger", converter="generic")
    functions = [
        IndexedFunction(
            name=name, call=print, place="", directory="", is_async=False, wants_context=False, trigger=trigger
        )
        for name in ("ship", "bill", "off")
    ]
    plans = [
        Plan(function=function, queue=f"for-{function.name}", idle="why" if function.name == "off" else None)
        for function in functions
    ]
    runner = cast("Runner", _NoRunner())
    async with AsyncExitStack() as closing:
        listeners = make_listeners(
            plans,
            queue_options=QueueOptions(),
            options=SingletonOptions(),
            config=config,
            service=queues,
            runner=runner,
            write=_ignore,
            random=Random(1),
            closing=closing,
        )
        made = cast("list[QueueListener]", list(listeners))
        await queues.send("for-ship", "one")
        await queues.send("nobody-listens", "one")
    assert [(listener.queue, listener._found.is_set()) for listener in made] == [
        ("for-ship", True),
        ("for-bill", False),
    ]


def _ignore(event: str, /, **fields: object) -> None: ...


class _NoRunner:
    async def on_message(self, *_: Any) -> bool:
        return True
