"""The values that functions give back, as the worker types or refuses them; `test_worker_outputs` asks the real one."""

from __future__ import annotations

from typing import Any

import azure.functions as func
import pytest

from simulator.host.triggers.bindings import Out
from simulator.host.triggers.outputs import OutputError, Typed, given_back
from tests.support.output_table import EXPECTED, SET, VALUES, functions

FUNCTIONS = functions()


def given(output: str, value: Any) -> Typed | None:
    """Return what is sent when a function gives this value to this output."""
    function = FUNCTIONS[output]
    out = Out()
    out.set(value)
    sent = given_back(function, {"out": out}, None) if output in SET else given_back(function, {}, value)
    return sent[0][1] if sent else None


@pytest.mark.parametrize("output", EXPECTED)
def test_each_binding_takes_what_the_worker_can_send_and_refuses_the_rest(output: str) -> None:
    found: dict[str, set[str]] = {}
    for name, make in VALUES.items():
        try:
            data = given(output, make())
        except (OutputError, RuntimeError):
            continue
        found.setdefault(data.kind if data else "", set()).add(name)
    assert found == {kind: set(names) for kind, names in EXPECTED[output].items()}


@pytest.mark.parametrize(
    ("output", "value", "data"),
    [
        ("queue", "é", Typed("string", "é")),
        ("queue", func.QueueMessage(body="b"), Typed("json", '{"id": null, "body": "b"}')),
        ("queue", [func.QueueMessage(id="i", body="b"), "c"], Typed("json", '[{"id": "i", "body": "b"}, "c"]')),
        ("queue", {"a": 1}, Typed("json", '["a"]')),
        ("queue_text", {"a": 1}, Typed("json", '{"a": 1}')),
        ("queue_text", 7, Typed("int", 7)),
        ("queue_text", bytearray(b"\xff"), Typed("bytes", b"\xff")),
        ("cosmosDB", func.Document.from_dict({"id": "d"}), Typed("json", '[{"id": "d"}]')),
    ],
)
def test_what_is_sent(output: str, value: Any, data: Typed) -> None:
    assert given(output, value) == data


def test_none_of_a_return_value_is_refused_with_the_remedy_and_of_an_output_it_is_nothing() -> None:
    with pytest.raises(OutputError, match=r'type "queue" for Python type "NoneType".*func\.Out'):
        given("queue", None)
    assert given("queue_text", None) is None


def test_an_output_that_was_not_set_is_nothing() -> None:
    assert given_back(FUNCTIONS["queue_text"], {"out": Out()}, None) == ()


def test_a_value_without_a_binding_for_it_fails_the_invocation() -> None:
    with pytest.raises(RuntimeError, match=r"without a \$return binding"):
        given("nothing", "text")


def test_with_an_output_that_has_no_converter_a_function_may_return_what_can_be_sent() -> None:
    function = FUNCTIONS["table_text"]
    assert given_back(function, {"out": Out()}, {"a": 1}) == ()
    with pytest.raises(OutputError, match="unable to encode"):
        given_back(function, {"out": Out()}, object())
