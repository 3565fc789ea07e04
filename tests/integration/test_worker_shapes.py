"""Functions of every shape, in the real Python worker and in the fake host's: both answer each the same.

A shape is a trigger, sync or async, an output, a policy, and a lock that is free or taken; those with a queue are given
several bodies. The host's half is the same for both: what it shows of a message (H-80) and writes to queues (H-87).
"""

from __future__ import annotations

import ast
import asyncio
import base64
import json
import uuid
from dataclasses import replace
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from azure.storage.blob import BlobServiceClient
from azure.storage.queue import QueueServiceClient

from simulator.host.app.app_model import HostConfig, HostError
from simulator.host.triggers.bindings import ScheduleStatus
from simulator.host.triggers.outputs import Typed, written
from simulator.host.triggers.queue import QueueMessage
from simulator.host.triggers.timer import Tick
from simulator.host.worker import RetryContext, WorkerAnswer, WorkerCall
from simulator.host.workers import WorkerProcess
from singleton.base import errors
from singleton.functions.triggers import NEVER_NONE, WRITTEN_ONE_BY_ONE
from tests.integration.shapes_app.shapes import ANSWERS, ANSWERS_OF, LATE, SHAPES
from tests.integration.workers import Worker, needs_worker

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from simulator.azurite.server import Azurite
    from tests.integration.shapes_app.shapes import Shape
    from tests.integration.workers import Invocation

pytestmark = needs_worker
APP = Path(__file__).parent / "shapes_app"
WHEN = datetime(2026, 11, 28, 12, tzinfo=UTC)

Case = tuple[str, str | None]
"""A function, and the body of the message that it is given; a timer has none."""
Answers = dict[Case, dict[str, Any]]


def writes_queues(function: str) -> bool:
    """Tell whether a function's output is a queue, if it has one."""
    output = SHAPES[function].output if function in SHAPES else function.partition("_")[2]
    return output in ("out", "return", "queue") or function.startswith("folder")


def body(answer: str, **more: object) -> str:
    return json.dumps({"answer": answer, **more})


BODIES: tuple[str | None, ...] = (
    json.dumps({"Order": 1}),
    json.dumps({"Id": "k", "Order": 1}),
    json.dumps({"id": 7, "POPRECEIPT": "theirs", "dequeueCount": 3, "InsertionTime": None}),
)
ANSWERING: list[Case] = [(name, body(answer, Id=f"{name}-{answer}")) for name in ANSWERS_OF for answer in ANSWERS]
ANSWERING += [(name, body("text", Order=1)) for name in ("sync_out", "async_out")]
OTHERS: list[Case] = [(name, body("text")) for name in ("folder", "folder_async", "elsewhere", "promise")]
MISDECLARED: list[Case] = [(name, body("text")) for name in ("misdeclared", "misdeclared_above")]
"""In a worker alone: the simulator refuses the app."""
ODD: list[Case] = [
    (f"queue_{kind}_error_wait_free", text)
    for kind in ("sync", "async")
    for text in ("", "text", "[1]", '"Id"', '{"Id": [1]}', '{"DequeueCount": "many"}', '{"insertionTime": "soon"}')
]
"""With bodies that replace nothing, or replace what then can't be read."""


def of(shape: Shape) -> Sequence[str | None]:
    """Return the bodies that a function is given."""
    return {"queue": BODIES, "text": BODIES[:2], "binary": BODIES[:2]}.get(shape.trigger, (None,))


ROUNDS: tuple[list[Case], ...] = (
    [*ANSWERING, *[(name, None) for name, shape in SHAPES.items() if not shape.waits and shape.ticks]],
    *[[(name, text) for name, shape in SHAPES.items() if not shape.waits and text in of(shape)] for text in BODIES],
    [(name, text) for name, shape in SHAPES.items() for text in of(shape) if shape.waits],
    [*OTHERS, *ODD],
)
"""Run one after the other, so that no lock that is free is asked for twice; those that wait have time for it."""


@pytest.fixture(scope="module")
def prefix(azurite: Azurite) -> Iterator[str]:
    """Have another process hold the lock that is taken; return what queues begin with."""
    with BlobServiceClient.from_connection_string(azurite.connection_string) as service:
        container = service.get_container_client("webjobshost")
        if not container.exists():
            container.create_container()
        blob = container.get_blob_client("locks/worker/~busy")
        blob.upload_blob(b"", overwrite=True)
        lease = blob.acquire_lease()
        yield f"s{uuid.uuid4().hex[:8]}"
        lease.release()


# --- what the functions are given -------------------------------------------------------------------------------------


class Queues:
    """The queues of those functions that put their messages back, which must be there."""

    def __init__(self, storage: str, prefix: str) -> None:
        self._service = QueueServiceClient.from_connection_string(storage)
        self._names = {name: f"{prefix}-{name.replace('_', '-')}" for name, shape in SHAPES.items() if shape.defers}
        for queue in self._names.values():
            self._service.create_queue(queue)

    def message(self, case: Case) -> QueueMessage:
        """Return a case's message: a received one, where it matters."""
        function, text = case
        assert text is not None
        made = QueueMessage(
            id=str(uuid.uuid5(uuid.NAMESPACE_OID, f"{case}")),
            text=base64.b64encode(text.encode()).decode(),
            dequeue_count=1,
            pop_receipt="AgAAAAMAAAA=",
            inserted=WHEN,
            expires=WHEN,
            next_visible=WHEN,
            body=text.encode(),
        )
        if function not in self._names:
            return made
        client = self._service.get_queue_client(self._names[function])
        client.send_message(made.text)
        received = next(client.receive_messages(visibility_timeout=60))
        return replace(made, id=received.id, pop_receipt=str(received.pop_receipt))

    def left(self) -> dict[str, int]:
        """Return how many messages each function has left; those that it has put back are two (H-80) or one."""
        return {
            function: self._service.get_queue_client(queue).get_queue_properties().approximate_message_count or 0
            for function, queue in self._names.items()
        }


def delivered(text: str, message: QueueMessage, kind: str) -> dict[str, Any]:
    """Return what the host sends to the worker; a text's properties stand over the message's own (H-80)."""
    dates = dict.fromkeys(
        ("ExpirationTime", "InsertionTime", "NextVisibleTime"), ("json", json.dumps(WHEN.isoformat()))
    )
    texts = {"Id": ("string", message.id), "PopReceipt": ("string", message.pop_receipt)}
    own = {**dates, **texts, "DequeueCount": ("json", "1")}
    try:
        found = json.loads(text)
    except ValueError:
        return own
    properties = found.items() if isinstance(found, dict) and kind == "string" else ()
    theirs = {name.lower(): ("string", str(value)) for name, value in properties if isinstance(value, str | int)}
    return {name: theirs.get(name.lower(), value) for name, value in own.items()}


def request(case: Case, message: QueueMessage | None) -> Invocation:
    """Return what the real worker is asked."""
    function, text = case
    given = "given" if function in SHAPES else "msg"
    if text is not None and message is not None:
        kind = "bytes" if function.startswith("binary") else "string"
        return (function, given, {"inputs": {given: (kind, text)}, "metadata": delivered(text, message, kind)})
    times = dict.fromkeys(("Last", "Next", "LastUpdated"), WHEN.isoformat())
    info = {"Schedule": {"AdjustForDST": True}, "ScheduleStatus": times, "IsPastDue": True}
    return (function, given, {"inputs": {given: ("json", json.dumps(info))}, "metadata": {}})


def call_of(case: Case, message: QueueMessage | None) -> WorkerCall:
    """Return what the fake host's worker is asked."""
    instant = WHEN.timestamp()
    tick = Tick(due=instant, past_due=True, status=ScheduleStatus(last=instant, next=instant, last_updated=instant))
    return WorkerCall(function=case[0], invocation=str(uuid.uuid4()), cause=message or tick, retry=RetryContext())


# --- what they answer -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def real(azurite: Azurite, prefix: str, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """Return what the real worker answers in each case, and what is left in the queues."""
    prefix = f"{prefix}-real"
    queues = Queues(azurite.connection_string, prefix)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PREFIX", prefix)
        patch.setenv("MISDECLARED", "1")
        worker = Worker(APP, azurite.connection_string, tmp_path_factory.mktemp("real") / "journal", threads=100)
    answers: Answers = {}
    try:
        worker.functions()
        for cases in (*ROUNDS, MISDECLARED):
            messages = [None if case[1] is None else queues.message(case) for case in cases]
            worker.ask([request(case, message) for case, message in zip(cases, messages, strict=True)])
            for case, message, answer in zip(cases, messages, worker.answer(), strict=True):
                answers[case] = {**answer, "given": message}
    finally:
        worker.end()
    return answers | {(function, "left"): {"left": count} for function, count in queues.left().items()}


@pytest.fixture(scope="module")
def fake(azurite: Azurite, prefix: str, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """Return what the fake host's worker answers, and what is left in the queues."""
    prefix = f"{prefix}-fake"
    queues = Queues(azurite.connection_string, prefix)
    config = HostConfig(
        name="fake",
        app=APP,
        journal=tmp_path_factory.mktemp("fake") / "journal",
        storage=azurite.connection_string,
        host_id="fake",
        lock_host_id="worker",
        timer_every=0,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PREFIX", prefix)
        worker = WorkerProcess(config, 1)
    try:
        answers = asyncio.run(_answers(worker, queues))
    finally:
        worker.bury()
    return answers | {(function, "left"): {"left": count} for function, count in queues.left().items()}


async def _answers(worker: WorkerProcess, queues: Queues) -> Answers:
    answers: Answers = {}
    rounds = iter(ROUNDS)
    running: dict[str, tuple[Case, QueueMessage | None]] = {}
    async for said in worker.messages():
        assert not isinstance(said, HostError), said
        if isinstance(said, WorkerAnswer):
            texts = [base64.b64decode(text) for _, text in said.messages]
            case, message = running.pop(said.invocation)
            answers[case] = {"error": said.error, "written": texts, "given": message}
        if not running:
            cases = next(rounds, None)
            if cases is None:
                return answers
            asked = [(case, None if case[1] is None else queues.message(case)) for case in cases]
            calls = [call_of(case, message) for case, message in asked]
            running = {call.invocation: each for call, each in zip(calls, asked, strict=True)}
            for call in calls:
                worker.send(call)
    raise AssertionError(f"the fake worker ended; it was at {sorted(running.values())}")


ERRORS = {name for name in dir(errors) if isinstance(getattr(errors, name), type)}
OF_THE_BODIES = {"LookupError", "PermissionError"}
NOT_SENT = {"OutputError", "TypeError"}
"""What can't be given back fails with the first in the fake host, and with the other in the worker."""


def brief(error: str | None) -> str | None:
    """Return an error of ours and of the bodies' as it is; of others, which are worded differently, the class."""
    if error is None:
        return None
    kind = error.partition(":")[0]
    return error if kind in ERRORS | OF_THE_BODIES else "not sent" if kind in NOT_SENT else kind


def answered(case: Case, answer: dict[str, Any]) -> tuple[Any, ...]:
    """Return what is the same for both: the error, what the host writes to queues, or what is left in one."""
    error, texts = brief(answer.get("error")), answer.get("written", [])
    if "sent" in answer and writes_queues(case[0]):
        data = [Typed(kind, ast.literal_eval(value)) for kind, value in answer["sent"]]
        try:
            texts = [text for each in data for text in written(each)]
        except ValueError:
            error = "not sent"
    return unnamed(error, answer), [unnamed(repr(text), answer) for text in texts], answer.get("left")


def unnamed(text: str | None, answer: dict[str, Any]) -> str | None:
    """Return a text without the names that the queue has given to a message."""
    message: QueueMessage | None = answer.get("given")
    if text is None or message is None:
        return text
    return text.replace(message.id, "<id>").replace(message.pop_receipt, "<receipt>")


def test_the_fake_host_answers_as_the_real_worker_does(real: Answers, fake: Answers) -> None:
    different = [
        f"{case}: {answered(case, real[case])} in the worker, {answered(case, answer)} in the fake host"
        for case, answer in fake.items()
        if answered(case, real[case]) != answered(case, answer)
    ]
    assert len(fake) == sum(map(len, ROUNDS)) + sum(shape.defers for shape in SHAPES.values())
    assert different == []


def test_our_own_none_is_refused_in_words_where_the_worker_cannot_hand_it_on(real: Answers) -> None:
    for (function, text), answer in real.items():
        if not function.endswith(("_skip", "_chosen")):
            continue
        if "_queue_" in function:
            assert "ConfigurationError: @singleton on" in answer["error"], function
            assert "func.Out[str]" in answer["error"]
        else:
            assert (answer["error"], answer["sent"]) == (None, []), (function, text)


def test_none_as_a_return_value_fails_in_the_worker_for_the_types_that_we_refuse_it_for(real: Answers) -> None:
    none = {case[0]: real[case]["error"] for case in ANSWERING if str(case[1]).startswith(body("none")[:-1])}
    refused = {function.partition("_")[2] for function, error in none.items() if error is not None}
    assert refused == NEVER_NONE - {"http"}
    assert all("NoneType" in error or "Kafka" in error for error in none.values() if error is not None)


def test_items_are_made_under_the_lock_where_the_worker_would_make_them_and_other_late_results_are_refused(
    real: Answers,
) -> None:
    for function, late in product(ANSWERS_OF, LATE):
        error = str(real[function, body(late, Id=f"{function}-{late}")]["error"])
        output = function.partition("_")[2]
        if output == "out":
            assert "ConfigurationError" not in error
        elif late in ("map", "generator") and output in WRITTEN_ONE_BY_ONE:
            assert ("ConfigurationError" in error, "current_hold" in error) == (False, False)
        else:
            assert "would run after the lock is released" in error
    for function in ("sync_out", "async_out", "sync_queue"):
        for late in ("map", "generator"):
            assert real[function, body(late, Id=f"{function}-{late}")]["sent"] == [["json", repr('["a", "b"]')]]


def test_a_guarded_functions_directory_is_the_apps(real: Answers) -> None:
    for name in ("folder", "folder_async"):
        answer = real[name, body("text")]
        assert (answer["error"], answer["sent"]) == (None, [["string", repr(str(APP))]])


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("elsewhere", "'queue' output"),  # its trigger is found, though its module has no app
        ("promise", "returned a coroutine, which would run after the lock is released"),
        ("misdeclared", "ConfigurationError: scope is blank"),
        ("misdeclared_above", "'queue' output"),
    ],
)
def test_what_is_wrong_with_one_function_fails_its_calls_in_words(real: Answers, function: str, said: str) -> None:
    assert said in real[function, body("text")]["error"]
