"""The witness compares what a policy of the app's own is told with the invocation and its message."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from azure.functions.queue import QueueMessage

from simulator.host.function_plan import tell_policies
from simulator.witness.witness import invoked
from singleton import Contention, singleton
from singleton.decorator import guards_of

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def in_an_invocation() -> Iterator[None]:
    before = invoked.set("call-1")
    yield
    invoked.reset(before)


def told(body: object = None, **otherwise: Any) -> dict[str, Any]:
    """Return what is written of a policy's answer for a message that came for the second time."""

    @singleton(on_contention=lambda _: "wait", timeout=7)
    def ship(msg: QueueMessage) -> None: ...

    records: list[dict[str, Any]] = []
    make: Any = QueueMessage
    message = make(id="m1", body=json.dumps(body).encode(), dequeue_count=2)
    (guard,) = guards_of(ship)
    tell_policies(
        [guard], lambda _, /, **fields: records.append(fields), lambda: {"msg": message, "n": SimpleNamespace()}
    )
    right = {"function": "ship", "lock": "l", "owner": "call-1", "message_id": "m1", "dequeue_count": 2}
    policy: Any = guard.on_contention
    assert policy(Contention(**{**right, **otherwise})) == "wait"
    return records[0]


def test_a_policy_is_told_its_invocation_and_its_message() -> None:
    assert told()["wrong"] == []
    assert told(owner="another")["wrong"] == ["owner 'another' in place of 'call-1'"]
    assert told(owner="")["wrong"] == []
    assert told(message_id=None)["wrong"] == ["message_id None in place of 'm1'"]
    assert told(dequeue_count=0)["wrong"] == ["dequeue_count 0 in place of 2"]


def test_what_the_body_may_have_replaced_is_not_compared() -> None:
    assert told({"Id": "k"}, message_id=None)["wrong"] == []
    assert told({"DequeueCount": 9}, dequeue_count=0)["wrong"] == []
    assert told({"TenantId": "k"}, message_id=None)["wrong"]


def test_the_seconds_for_which_the_app_lets_it_wait_are_told() -> None:
    assert told()["patience"] == 7
