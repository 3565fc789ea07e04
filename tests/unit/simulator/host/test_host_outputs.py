"""What a host does with the outputs of its functions, and whom it wakes."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING, Any, cast

import pytest

from simulator.host.app.app_model import HostConfig, IndexedFunction, Parameter
from simulator.host.app.hostjson import BusOptions, QueueOptions
from simulator.host.function_plan import Plan
from simulator.host.process import make_listeners
from simulator.host.startup import Prepared
from simulator.host.triggers.bindings import binding_data
from simulator.host.triggers.outputs import Outputs, Typed
from simulator.host.triggers.queue import QueueMessage
from simulator.host.triggers.timer import Tick
from singleton.settings.options import SingletonOptions
from tests.support.memory_queues import MemoryQueues

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from simulator.host.process import Runner
    from simulator.host.triggers.queue import QueueListener


def output(queue: str, binding: str = "queue") -> Parameter:
    return Parameter(name="out", binding=binding, converter="generic", settings={"queueName": queue})


class Given:
    """Outputs, and the records that they write."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, object]]] = []
        self.outputs = Outputs(
            encoding="base64",
            settings={
                "NEXT": "Next-Queue",
                "CONNECTION": "AzureWebJobsStorage",
                "AzureWebJobsStorage": "UseDevelopmentStorage=true",
            },
            write=lambda event, /, **fields: self.events.append((event, fields)),
        )

    def give(self, *values: tuple[Parameter, Typed], data: Any = dict) -> tuple[list[tuple[str, str]], str | None]:
        """Return the messages for these outputs with their bodies, and the error."""
        messages, error = self.outputs.messages("split", values, data)
        return [(queue, base64.b64decode(text).decode()) for queue, text in messages], error


ONE = Typed("string", "one")


def test_an_outputs_messages_are_in_the_hosts_encoding() -> None:
    messages, error = Given().give((output("%NEXT%"), Typed("json", '["one", "two"]')))
    assert messages == [("next-queue", "one"), ("next-queue", "two")]
    assert error is None


@pytest.mark.parametrize("connection", ["Nowhere", "%CONNECTION%"])
def test_a_connection_that_is_not_set_is_an_error_and_its_name_is_not_resolved(connection: str) -> None:
    there = replace(output("done"), settings={"queueName": "done", "connection": connection})
    messages, error = Given().give((there, ONE))
    assert messages == []
    assert str(error).startswith(f"OutputError: output 'out': there is no setting for its connection '{connection}'")


def test_what_the_simulator_does_not_write_is_noted_once() -> None:
    given = Given()
    for _ in range(3):
        assert given.give((output("x", binding="table"), Typed("string", "row"))) == ([], None)
    assert [event for event, _ in given.events] == ["note"]


@pytest.mark.parametrize("queue", ["", "No_Queue", "%MISSING%"])
def test_a_queue_that_can_not_be_is_an_error(queue: str) -> None:
    messages, error = Given().give((output(queue), ONE))
    assert messages == []
    assert str(error).startswith("OutputError: output 'out': its queue: ")


def test_one_that_can_not_be_sent_keeps_none_of_the_others_from_being_sent() -> None:
    messages, error = Given().give((output("next"), Typed("string", "{no JSON}")), (output("next"), ONE))
    assert messages == [("next", "one")]
    assert str(error).startswith("OutputError: output 'out': text that begins with { must be JSON: ")


@pytest.mark.parametrize("character", ["\0", "\x08", "\x1f", "\ufffe", "\uffff"])
def test_without_base64_a_character_that_xml_has_not_fails_after_those_before_it(character: str) -> None:
    bare = Outputs(encoding="none", settings={"AzureWebJobsStorage": "set"}, write=lambda *_, **__: None)
    three = Typed("json", json.dumps(["é\t\r\n\x7f\U0001f600", f"a{character}", "third"]))
    messages, error = bare.messages("split", [(output("next"), three), (output("last"), ONE)])
    assert messages == (("next", "é\t\r\n\x7f\U0001f600"), ("last", "one"))
    assert "can't be in a message with messageEncoding none" in str(error)
    assert Given().give((output("next"), three))[1] is None


def given_by(body: str, data_type: int | None = None) -> Callable[[], Mapping[str, object]]:
    """Return what a message with this body gives for names."""
    moment = datetime(2026, 11, 22, 10, 30, tzinfo=UTC)
    message = QueueMessage(id="m-1", text="", body=body.encode(), dequeue_count=3, pop_receipt="r", inserted=moment)
    trigger = Parameter(name="msg", binding="queueTrigger", converter="generic", data_type=data_type)
    return lambda: binding_data(trigger, message)


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
        ("%NEXT%-{Id}", "", "next-queue-m-1"),
    ],
)
def test_names_in_a_queues_name_are_the_messages_and_its_bodys(queue: str, body: str, name: str) -> None:
    assert Given().give((output(queue), ONE), data=given_by(body)) == ([(name, "one")], None)


def test_a_binary_trigger_gives_no_properties_of_the_body() -> None:
    messages, _ = Given().give((output("{Id}-outs"), ONE), data=given_by('{"Id": 7}', data_type=2))
    assert messages == [("m-1-outs", "one")]


def test_a_new_guid_and_the_time_are_built_in() -> None:
    messages, _ = Given().give((output("q-{rand-guid:N}"), ONE), (output("on-{DateTime:yyyy}"), ONE))
    assert re.fullmatch(r"q-[0-9a-f]{32}", messages[0][0])
    assert re.fullmatch(r"on-\d{4}", messages[1][0])


@pytest.mark.parametrize("queue", ["{Nope}-outs", "{Id.Nope}", "{QueueTrigger:yyyy}", "on-{InsertionTime:yyyyMMdd}"])
def test_a_name_that_the_trigger_does_not_give_is_an_error(queue: str) -> None:
    messages, error = Given().give((output(queue), ONE), data=given_by("text"))
    assert messages == []
    assert str(error).startswith("OutputError: output 'out': its queue: ")


def test_a_timer_gives_no_names() -> None:
    assert binding_data(output("x"), Tick(due=0.0)) == {}


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
    prepared = Prepared(
        plans=tuple(plans),
        queue_options=QueueOptions(),
        bus_options=BusOptions(),
        route_prefix="",
        options=SingletonOptions(),
        notes=(),
        retries={},
        time_limit=None,
        workers=1,
        zone=None,
        queues=True,
    )
    listeners = make_listeners(prepared, config, queues, cast("Runner", _NoRunner()), _ignore, Random(1))
    made = cast("list[QueueListener]", list(listeners))
    await queues.send("for-ship", "one")
    await queues.send("nobody-listens", "one")
    assert [(listener.queue, listener._found.is_set()) for listener in made] == [
        ("for-ship", True),
        ("for-bill", False),
    ]


def _ignore(event: str, /, **fields: object) -> None: ...


class _NoRunner:
    async def on_received(self, *_: Any) -> bool:
        return True
