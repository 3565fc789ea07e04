"""Functions of every shape, in the real Python worker and in the fake host: both answer each the same.

A shape is an output (none, ``func.Out``, ``$return`` of each type), sync or async, a policy, and a message.
"""

from __future__ import annotations

import base64
import json
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from azure.storage.blob import BlobServiceClient
from azure.storage.queue import QueueServiceClient

from singleton.base import errors
from singleton.functions.triggers import NEVER_NONE
from tests.integration.hosts import hosts, wait_until
from tests.integration.shapes_app.shapes import ANSWERS, ANSWERS_OF, BUSY_OF
from tests.integration.workers import Worker, needs_worker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.azurite.server import Azurite
    from tests.integration.workers import Invocation

pytestmark = [pytest.mark.timeout(120), needs_worker]
APP = Path(__file__).parent / "shapes_app"

Case = tuple[str, str]
"""A function, and the message that it is given."""


def body(answer: str, **more: object) -> str:
    return json.dumps({"answer": answer, **more})


ANSWERING: list[Case] = [
    *[(name, body(answer, Id=1)) for name in ANSWERS_OF for answer in ANSWERS],
    *[(name, body("text", Order=1)) for name in ("sync_out", "async_out")],
]
BUSY: list[Case] = [
    *[(name, body("text")) for name in BUSY_OF],
    *[(name, body("text", Id="k")) for name in BUSY_OF if name.endswith("_defer")],
]
OTHERS: list[Case] = [
    (name, body("text"))
    for name in ("folder", "folder_async", "elsewhere", "promise", "misdeclared", "misdeclared_above")
]
ERRORS = [name for name in dir(errors) if isinstance(getattr(errors, name), type)]
Answers = dict[Case, Any]


@pytest.fixture(scope="module")
def prefix(azurite: Azurite) -> Iterator[str]:
    """Have another process hold the lock that the functions with policies ask for; return what queues begin with."""
    with BlobServiceClient.from_connection_string(azurite.connection_string) as service:
        container = service.get_container_client("webjobshost")
        if not container.exists():
            container.create_container()
        blob = container.get_blob_client("locks/worker/~busy")
        blob.upload_blob(b"", overwrite=True)
        lease = blob.acquire_lease()
        yield f"s{uuid.uuid4().hex[:8]}"
        lease.release()


def sent(storage: str, prefix: str, cases: list[Case], *, received: bool = False) -> list[Any]:
    """Put each case's message into its function's queue, and perhaps take it out again; return the messages."""
    found = []
    with QueueServiceClient.from_connection_string(storage) as service:
        queues = {function: f"{prefix}-{function.replace('_', '-').lower()}" for function, _ in cases}
        for queue in queues.values():
            service.create_queue(queue)
        for function, text in cases:
            client = service.get_queue_client(queues[function])
            message = client.send_message(base64.b64encode(text.encode()).decode())
            found.append(next(client.receive_messages(visibility_timeout=60)) if received else message)
    return found


def delivered(text: str, message: Any) -> dict[str, Any]:
    """Return what the host sends to the worker; the body's ``Id`` stands over the message's own (H-80)."""
    now = json.dumps("2026-11-28T12:00:00+00:00")
    dates = dict.fromkeys(("ExpirationTime", "InsertionTime", "NextVisibleTime"), ("json", now))
    name = ("string", str(json.loads(text).get("Id", message.id)))
    own = {"Id": name, "PopReceipt": ("string", message.pop_receipt), "DequeueCount": ("json", "1")}
    return {"inputs": {"msg": ("string", text)}, "metadata": {**dates, **own}}


@pytest.fixture(scope="module")
def real(azurite: Azurite, prefix: str, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """Return what the real worker answers in each case."""
    storage, prefix = azurite.connection_string, f"{prefix}-real"
    deferring = [case for case in BUSY if case[0].endswith("_defer")]
    receipts = dict(zip(deferring, sent(storage, prefix, deferring, received=True), strict=True))
    cases = [*ANSWERING, *BUSY, *OTHERS]
    asked: list[Invocation] = [
        (case[0], "msg", delivered(case[1], receipts[case]) if case in receipts else case[1]) for case in cases
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PREFIX", prefix)
        patch.setenv("MISDECLARED", "1")
        worker = Worker(APP, storage, tmp_path_factory.mktemp("real") / "journal")
    try:
        worker.functions()
        worker.ask(asked)
        return dict(zip(cases, worker.answer(), strict=True))
    finally:
        worker.end()


@pytest.fixture(scope="module")
def fake(azurite: Azurite, prefix: str, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """Return the error of each case in the fake host, or None."""
    storage, prefix = azurite.connection_string, f"{prefix}-fake"
    cases = [*ANSWERING, *BUSY]
    messages = [message.id for message in sent(storage, prefix, cases)]
    changes: dict[str, Any] = {
        "max_polling_interval": 2.0,
        "lock_host_id": "worker",
        "environment": {"PREFIX": prefix},
    }
    with hosts(APP, storage, tmp_path_factory.mktemp("fake"), **changes) as (host,):
        wait_until(
            lambda: len({record.get("message") for record in host.records("invocation_ended")}) >= len(cases),
            within=60.0,
        )
        ended = {record.get("message"): record.get("error") for record in reversed(host.records("invocation_ended"))}
    return dict(zip(cases, map(ended.get, messages), strict=True))


def brief(error: str | None) -> str | None:
    """Return the type of our own errors; what others fail with is worded differently."""
    if error is None:
        return None
    ours = [name for name in ERRORS if name in error]
    return ours[0] if ours else "another"


def test_the_fake_host_answers_as_the_real_worker_does(real: Answers, fake: Answers) -> None:
    different = [
        f"{function} {text}: {brief(real[function, text]['error'])} in the worker, {brief(error)} in the fake host"
        for (function, text), error in fake.items()
        if brief(real[function, text]["error"]) != brief(error)
    ]
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
    none = {case[0]: answer["error"] for case, answer in real.items() if case[1] == body("none", Id=1)}
    refused = {function.partition("_")[2] for function, error in none.items() if error is not None}
    assert refused == NEVER_NONE - {"http"}
    assert all("NoneType" in error or "Kafka" in error for error in none.values() if error is not None)


def test_a_guarded_functions_directory_is_the_apps(real: Answers) -> None:
    for name in ("folder", "folder_async"):
        answer = real[name, body("text")]
        assert (answer["error"], answer["sent"]) == (None, [["string", repr(str(APP))]])


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("elsewhere", "'queue' output"),  # its trigger is found, though its module has no app
        ("promise", "returned a coroutine, work that would run without the lock"),
        ("misdeclared", "ConfigurationError: scope is blank"),
        ("misdeclared_above", "'queue' output"),
    ],
)
def test_what_is_wrong_with_one_function_fails_its_calls_in_words(real: Answers, function: str, said: str) -> None:
    assert said in real[function, body("text")]["error"]
