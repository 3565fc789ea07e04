"""One real Python worker: drives azure-functions-runtime as the proxy worker does. Run as a process of its own.

    python tests/support/python_worker.py APP_FOLDER

Reads a line of JSON (a list of invocations, to be started together) and answers with a line (their outcomes), until its
input ends. The first line that it writes tells what was indexed. Only the transport is made up: the requests and
answers are plain objects with the names of the protocol's.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import sys
import time
import urllib.error
import urllib.request
import uuid
from types import SimpleNamespace
from typing import Any

runtime: Any = importlib.import_module("azure_functions_runtime")


class Message(SimpleNamespace):
    """A protocol message: whatever is given by name, and which of a choice it is."""

    def WhichOneof(self, _: str) -> str | None:  # noqa: N802 - the protocol's name
        return next(iter(vars(self)), None)


class StatusResult(Message):
    Failure = 0
    Success = 1


class BindingInfo(Message):
    out = 1
    inout = 2
    undefined = 0


class TypedData(Message):
    """A value on its way; refuses what Protocol Buffers refuse."""

    def __init__(self, **content: Any) -> None:
        super().__init__(**content)
        if "string" in content:
            content["string"].encode()
        if "int" in content:
            if isinstance(content["int"], bool):
                raise TypeError("Field TypedData.int: Expected an int, got a boolean.")
            content["int"].to_bytes(8, signed=True)


class Protocol:
    """All the messages that the worker makes."""

    StatusResult = StatusResult
    BindingInfo = BindingInfo
    TypedData = TypedData

    def __getattr__(self, name: str) -> type[Message]:
        return Message


PROTOCOL = Protocol()


def request(**content: Any) -> Message:
    return Message(request=Message(**content), properties={"host": "127.0.0.1", "protos": PROTOCOL})


def failure_of(answer: Any) -> str | None:
    """Return the error's message, or None for a success."""
    return None if answer.result.status == StatusResult.Success else str(answer.result.exception.message)


async def index(folder: str) -> dict[str, str]:
    """Initialise the worker and return the ids of its functions by name."""
    sys.path.insert(0, folder)
    init = Message(capabilities={}, function_app_directory=folder)
    started = await runtime.worker_init_request(request(worker_init_request=init))
    if (failure := failure_of(started)) is not None:
        raise RuntimeError(failure)
    HTTP.append(started.capabilities.get("HttpUri"))
    listed = await runtime.functions_metadata_request(request())
    functions = {each.name: each.function_id for each in listed.function_metadata_results}
    for function_id in functions.values():
        await runtime.function_load_request(request(function_load_request=Message(function_id=function_id)))
    return functions


def typed(kind: str, value: Any) -> Message:
    """Return a value as the protocol types it; bytes and a request's body come as text, collections as lists."""
    if kind.startswith("collection_"):
        value = Message(**{kind.partition("_")[2]: value})
    if kind == "bytes":
        return Message(bytes=value.encode())
    if kind == "http":
        value = Message(**{**value, "body": typed("bytes", value["body"])})
    return Message(**{kind: value})


def incoming(trigger: str, body: Any) -> tuple[list[Message], dict[str, Message]]:
    """Return the parameters and the trigger's metadata, as the host sends them.

    Without a body it is a timer; text is a queue message's; for others, ``inputs`` and ``metadata`` say by name what
    kind of data with which value there is.
    """
    if isinstance(body, dict):
        inputs: list[Message] = [Parameter(name=name, data=typed(*given)) for name, given in body["inputs"].items()]
        return inputs, {name: typed(*given) for name, given in body["metadata"].items()}
    if body is None:
        data, metadata = Message(json='{"IsPastDue": false, "Schedule": {}, "ScheduleStatus": {}}'), {}
    else:
        now = json.dumps("2026-11-21T12:00:00+00:00")
        dates = {name: Message(json=now) for name in ("ExpirationTime", "InsertionTime", "NextVisibleTime")}
        texts = {name: Message(string=text) for name, text in (("Id", str(uuid.uuid4())), ("PopReceipt", "pop"))}
        data, metadata = Message(string=body), {**dates, **texts, "DequeueCount": Message(json="1")}
    return [Parameter(name=trigger, data=data)], metadata


class Parameter(Message):
    def WhichOneof(self, _: str) -> str:  # noqa: N802
        return "data"


async def invoke(function_id: str, trigger: str, body: Any) -> dict[str, Any]:
    """Run one invocation; an error that escapes from the worker is told apart from one that it reports."""
    inputs, metadata = incoming(trigger, body)
    invocation = Message(
        invocation_id=str(uuid.uuid4()),
        function_id=function_id,
        input_data=inputs,
        trigger_metadata=metadata,
        trace_context=Message(trace_parent="", trace_state="", attributes={}),
        retry_context=Message(retry_count=0, max_retry_count=0, exception=None),
    )
    path = body.get("path") if isinstance(body, dict) else None
    received = None if path is None else asyncio.create_task(asyncio.to_thread(fetched, path, invocation.invocation_id))
    setattr(asyncio.current_task(), IN_A_TASK, invocation.invocation_id)
    try:
        answer = await runtime.invocation_request(request(invocation_request=invocation))
    except BaseException as error:  # noqa: BLE001 - what is never to happen
        return {"escaped": repr(error)}
    http = getattr(getattr(answer, "return_value", None), "http", None)
    return {
        "id": invocation.invocation_id,
        "error": failure_of(answer),
        "status": http and http.status_code,
        "sent": sent(answer),
        "log": LOG.lines.pop(invocation.invocation_id, []),
        **({} if received is None else {"received": await received}),
    }


HTTP: list[str | None] = []
"""Where the worker serves HTTP streams."""


def fetched(path: str, invocation: str) -> str:
    """Send an HTTP request as the host does in an app with HTTP streams; return the body, or status and body."""
    asked = urllib.request.Request(f"{HTTP[0]}{path}", headers={"x-ms-invocation-id": invocation})  # noqa: S310
    for attempt in range(100):
        try:
            with urllib.request.urlopen(asked, timeout=60) as answer:  # noqa: S310
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            return f"{error.code} {error.read().decode()}"
        except urllib.error.URLError:  # the server begins with the loop
            if attempt == 99:
                raise
            time.sleep(0.05)
    raise AssertionError


def sent(answer: Any) -> list[tuple[str, str]]:
    """Return the kind and the value of all data that it brings, the return value's last."""
    outputs = [parameter.data for parameter in getattr(answer, "output_data", [])]
    given = [vars(data) for data in (*outputs, getattr(answer, "return_value", None)) if data is not None]
    return [(kind, repr(value)) for data in given for kind, value in data.items()]


# --- what is logged: the proxy worker's rules -------------------------------------------------------------------------

IN_A_TASK = "__azure_function_invocation_id__"


class Task(asyncio.Task[Any]):
    """A task of the worker's loop; one that another starts belongs to the same invocation."""

    def __init__(self, *what: Any, **more: Any) -> None:
        super().__init__(*what, **more)
        try:
            known = getattr(asyncio.current_task(), IN_A_TASK, None)
        except RuntimeError:  # the loop's own, at its end
            return
        if known is not None:
            setattr(self, IN_A_TASK, known)


class Log(logging.Handler):
    """Sends lines with the invocation that it finds, as the proxy worker does; the host drops those of nobody."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: dict[str | None, list[str]] = {}

    def emit(self, record: logging.LogRecord) -> None:
        try:
            known = getattr(asyncio.current_task(), IN_A_TASK, None)
        except RuntimeError:
            known = None
        self.lines.setdefault(known or runtime.invocation_id_cv.get(), []).append(record.getMessage())


LOG = Log()


async def main(folder: str) -> None:
    """Serve until the input ends."""
    runtime.start_threadpool_executor()
    loop = asyncio.get_running_loop()
    loop.set_task_factory(lambda loop, coro, **more: Task(coro, loop=loop, **more))
    logging.getLogger().addHandler(LOG)
    logging.getLogger().setLevel(logging.INFO)
    out, sys.stdout = sys.stdout, sys.stderr  # the output is for the test alone: a server logs there
    functions = await index(folder)
    print(json.dumps(sorted(functions)), file=out, flush=True)
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        wanted = [(functions[name], trigger, body) for name, trigger, body in json.loads(line)]
        print(json.dumps(await asyncio.gather(*(invoke(*each) for each in wanted))), file=out, flush=True)
    runtime.stop_threadpool_executor()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
