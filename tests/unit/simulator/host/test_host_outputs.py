"""What a host does with the outputs of its functions, and whom it wakes."""

from __future__ import annotations

import base64
import re
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING, Any, cast

import pytest

from simulator.host.app.config import HostConfig
from simulator.host.app.hostjson import QueueOptions
from simulator.host.app.model import IndexedFunction, Parameter
from simulator.host.listeners import make_listeners
from simulator.host.plan import Plan
from simulator.host.triggers.bindingdata import binding_data
from simulator.host.triggers.messages import Message
from simulator.host.triggers.outputs import Outputs
from simulator.host.triggers.typed import OutputError, Typed
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
    await given.outputs.send("split", [(output("%NEXT%"), Typed("json", '["one", "two"]'))])
    assert given.queues.texts("next-queue") == ["one", "two"]
    assert base64.b64decode(given.queues.queues["next-queue"][0].text) == b"one"
    assert given.woken == ["next-queue", "next-queue"]
    assert [event for event, _ in given.events] == ["message_sent", "message_sent"]


async def test_what_the_simulator_does_not_write_is_noted_once() -> None:
    given = Given()
    for _ in range(3):
        await given.outputs.send("split", [(output("x", binding="table"), Typed("string", "row"))])
    assert [event for event, _ in given.events] == ["note"]


@pytest.mark.parametrize("queue", ["", "No_Queue", "%MISSING%"])
async def test_a_queue_that_can_not_be_is_an_error(queue: str) -> None:
    with pytest.raises(OutputError, match="output 'out': its queue: "):
        await Given().outputs.send("split", [(output(queue), Typed("string", "one"))])


async def test_one_that_can_not_be_sent_keeps_none_of_the_others_from_being_sent() -> None:
    given = Given()
    values = [(output("next"), Typed("string", "{no JSON}")), (output("next"), Typed("string", "fine"))]
    with pytest.raises(OutputError, match=r"output 'out': text that begins with \{ must be JSON"):
        await given.outputs.send("split", values)
    assert given.queues.texts("next") == ["fine"]


def received(body: str) -> Message:
    moment = datetime(2026, 11, 22, 10, 30, tzinfo=UTC)
    return Message(id="m-1", text="", body=body.encode(), dequeue_count=3, pop_receipt="r", inserted=moment)


@pytest.mark.parametrize(
    ("queue", "body", "name"),
    [
        ("{Id}-outs", "text", "m-1-outs"),
        ("{id}-outs", '{"ID": 7}', "7-outs"),
        ("try{DequeueCount}", '["Id"]', "try3"),
        ("{Id}-outs", '{"Id": null}', "m-1-outs"),
        ("{Id}-outs", '{"Id": [1]}', "m-1-outs"),
        ("for-{Order.zone}", '{"order": {"Zone": "North"}}', "for-north"),
        ("for-{flag}", "{flag: true}", "for-true"),
        ("{QueueTrigger}", "whole", "whole"),
        ("on-{InsertionTime:yyyyMMdd}", "", "on-20261122"),
        ("%NEXT%-{Id}", "", "next-queue-m-1"),
    ],
)
async def test_names_in_a_queues_name_are_the_messages_and_its_bodys(queue: str, body: str, name: str) -> None:
    given = Given()
    trigger = Parameter(name="msg", binding="queueTrigger", converter="generic")
    await given.outputs.send(
        "split", [(output(queue), Typed("string", "one"))], lambda: binding_data(trigger, received(body))
    )
    assert given.queues.texts(name) == ["one"]


async def test_a_binary_trigger_gives_no_properties_of_the_body() -> None:
    given = Given()
    trigger = Parameter(name="msg", binding="queueTrigger", converter="generic", data_type=2)
    await given.outputs.send(
        "split", [(output("{Id}-outs"), Typed("string", "one"))], lambda: binding_data(trigger, received('{"Id": 7}'))
    )
    assert given.queues.texts("m-1-outs") == ["one"]


async def test_a_new_guid_and_the_time_are_built_in() -> None:
    given = Given()
    await given.outputs.send("split", [(output("q-{rand-guid:N}"), Typed("string", "one"))])
    await given.outputs.send("split", [(output("on-{DateTime:yyyy}"), Typed("string", "one"))])
    first, second = given.queues.queues
    assert re.fullmatch(r"q-[0-9a-f]{32}", first)
    assert re.fullmatch(r"on-\d{4}", second)


@pytest.mark.parametrize("queue", ["{Nope}-outs", "{Id.Nope}", "{QueueTrigger:yyyy}"])
async def test_a_name_that_the_trigger_does_not_give_is_an_error(queue: str) -> None:
    trigger = Parameter(name="msg", binding="queueTrigger", converter="generic")
    with pytest.raises(OutputError, match="output 'out': its queue: "):
        await Given().outputs.send(
            "split", [(output(queue), Typed("string", "one"))], lambda: binding_data(trigger, received("text"))
        )


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
