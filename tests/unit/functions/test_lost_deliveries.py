"""No delivery ends well without its body: whatever comes, however it is declared, and if its trigger is not known."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import azure.functions as func
import pytest

from singleton import ConfigurationError, LockNotAcquired, ScopeError, singleton
from singleton.functions.message_deferral import Deferring
from singleton.functions.trigger_rules import check_message
from singleton.functions.triggers import user_function
from tests.support import deliveries as given
from tests.support.lock_thread import Context, LockThread, an_app, outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

REFUSED = (LockNotAcquired, ConfigurationError, ScopeError)
"""The invocation fails, and its message comes again."""
WAYS: dict[str, dict[str, Any]] = {
    "listener": {"mode": "listener"},
    "skip": {"on_contention": "skip"},
    "defer": {"on_contention": "defer"},
    "conflict": {"on_contention": "conflict"},
    "chosen conflict": {"on_contention": lambda _: "conflict"},
    "chosen skip": {"on_contention": lambda _: "skip"},
    "chosen defer": {"on_contention": lambda _: "defer"},
}


class Delivery(NamedTuple):
    """What a worker passes: the trigger's type, and the arguments, of which ``given`` is the trigger's."""

    trigger: str
    given: Any
    more: Any = None


def sdk_message() -> Any:
    return SimpleNamespace(body=[b"{}"], body_type="data", delivery_count=1, message_id="m-1")


MESSAGES: dict[str, tuple[str, Callable[[], Any]]] = {
    "queue message": ("queueTrigger", given.queue_message),
    "service bus message": ("serviceBusTrigger", given.service_bus_message),
    "message of an SDK": ("serviceBusTrigger", sdk_message),
    "event hub event": ("eventHubTrigger", given.event_hub_event),
    "kafka event": ("kafkaTrigger", given.kafka_event),
    "event grid event": ("eventGridTrigger", lambda: given.event_grid_event({})),
    "cloud event": ("eventGridTrigger", lambda: given.cloud_event({})),
    "HTTP request": ("httpTrigger", given.http_request),
    "text": ("queueTrigger", lambda: "{}"),
    "bytes": ("eventHubTrigger", lambda: b"{}"),
}
DELIVERIES: dict[str, Delivery] = {
    **{name: Delivery(trigger, make()) for name, (trigger, make) in MESSAGES.items()},
    **{f"a batch: {name}": Delivery(trigger, [make(), make()]) for name, (trigger, make) in MESSAGES.items()},
    **{f"a batch of one: {name}": Delivery(trigger, [make()]) for name, (trigger, make) in MESSAGES.items()},
    **{f"{name} beside a text": Delivery(trigger, make(), "{}") for name, (trigger, make) in MESSAGES.items()},
    **{f"{name} beside a blob": Delivery(trigger, make(), given.blob()) for name, (trigger, make) in MESSAGES.items()},
    "an empty batch": Delivery("eventHubTrigger", []),
    "blob": Delivery("blobTrigger", given.blob()),
    "document": Delivery("cosmosDBTrigger", given.documents({})),
    "documents": Delivery("cosmosDBTrigger", given.documents({}, {})),
    "rows": Delivery("sqlTrigger", func.SqlRowList([func.SqlRow(), func.SqlRow()])),
    "activity's object": Delivery("activityTrigger", given.activity_input({})),
    "activity's list": Delivery("activityTrigger", given.activity_input([1])),
    "activity's null": Delivery("activityTrigger", given.activity_input(None)),
    "MCP tool": Delivery("mcpToolTrigger", given.tool_call()),
    "MCP prompt": Delivery("mcpPromptTrigger", given.prompt()),
    "what nobody knows": Delivery("someTrigger", object()),
    "timer": Delivery("timerTrigger", given.tick()),
    "timer beside a text": Delivery("timerTrigger", given.tick(), "{}"),
}


@pytest.fixture
def thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LockThread]:
    """Have another process hold the lock and listen."""
    an_app(tmp_path, monkeypatch)
    with LockThread() as running:
        running.taken_by_another_process("locks/app/job")
        running.taken_by_another_process("locks/app/job~listener")
        yield running


@pytest.fixture
def put_back(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Return what is put back into a queue; there is none."""
    queue: list[object] = []

    async def put(deferring: Any, call: Any, *_: object) -> None:
        check_message("@singleton on job", deferring.trigger, call.arguments)
        queue.append(call.arguments["given"])

    monkeypatch.setattr(Deferring, "put_back", put)
    return queue


def declared(delivery: Delivery, way: str, *, known: bool) -> Callable[..., Any]:
    def job(given: Any) -> None:
        pytest.fail("the body ran")

    def two(given: Any, more: Any) -> None:
        pytest.fail("the body ran")

    two.__name__ = "job"
    function = job if delivery.more is None else two
    if not known:
        return singleton(**WAYS[way])(function)
    app = func.FunctionApp()
    builder = app.generic_trigger(arg_name="given", type=delivery.trigger)(function)
    if delivery.trigger == "httpTrigger":
        builder = app.generic_output_binding(arg_name="$return", type="http")(builder)
    return user_function(singleton(**WAYS[way])(builder))


@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", DELIVERIES)
def test_what_another_process_has_is_refused_or_put_back_unless_a_skip_is_declared_or_it_is_a_tick(
    thread: LockThread, put_back: list[object], name: str, way: str, known: bool
) -> None:
    delivery = DELIVERIES[name]
    arguments = {"given": delivery.given} | ({} if delivery.more is None else {"more": delivery.more})
    try:
        result = outcome(declared(delivery, way, known=known)(**arguments, context=Context()))
    except REFUSED:
        ended = "refused"
    else:
        ended = "skipped" if result is None else f"answered {result.status_code}"
        ended = "put back" if put_back else ended
    answers = delivery.trigger == "httpTrigger" and (known or not isinstance(delivery.given, list))
    skips = not answers if way.endswith("skip") else way == "listener" and name.startswith("timer")
    may = {"skipped"} if skips else {"refused", "put back"}
    if answers and way.endswith("conflict"):
        may = {"answered 409"}
    assert ended in may
    assert put_back == ([delivery.given] if ended == "put back" else [])
    assert (ended == "put back") <= (delivery.trigger == "queueTrigger" and known)


@pytest.mark.parametrize("way", ["listener", "defer", "chosen defer"])
def test_a_queues_message_is_put_back(thread: LockThread, put_back: list[object], way: str) -> None:
    delivery = DELIVERIES["queue message"]
    assert outcome(declared(delivery, way, known=True)(given=delivery.given, context=Context())) is None
    assert put_back == [delivery.given]
