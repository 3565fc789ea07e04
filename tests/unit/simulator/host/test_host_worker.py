"""The worker half: how bodies are called, where they run, what their results mean, and that no failure ends it."""

from __future__ import annotations

import asyncio
import io
import logging
import sys
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any

import azure.functions as func
import pytest

from simulator.host.app.function_index import index_function
from simulator.host.startup import set_up_logging
from simulator.host.worker import BodyOutcome, RetryContext, Worker, describe, thread_count
from simulator.witness.witness import Witness

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from simulator.host.app.app_model import IndexedFunction

WAIT = 20.0
HERE = Path(__file__).parent


@pytest.fixture
def worker() -> Iterator[Worker]:
    with running_worker(threads=2) as running:
        yield running


class running_worker:  # noqa: N801 - used as a context manager
    """A worker on a thread of its own, in place of the main thread of a host."""

    def __init__(self, threads: int) -> None:
        self.worker = Worker({"PYTHON_THREADPOOL_THREAD_COUNT": str(threads)}, Witness(lambda *_, **__: None))
        self.ended_with: list[BaseException] = []
        self.thread = threading.Thread(target=self.run)

    def run(self) -> None:
        try:
            self.worker.run()
        except BaseException as error:  # noqa: BLE001 - what ends a worker's process
            self.ended_with.append(error)

    def __enter__(self) -> Worker:
        self.thread.start()
        return self.worker

    def __exit__(self, *_: object) -> None:
        self.worker.stop()
        self.thread.join(WAIT)
        self.worker.close()
        assert not self.thread.is_alive()


@pytest.fixture(autouse=True)
def runtime_as_before() -> Iterator[None]:
    """What the worker shows of the real one's runtime, by which others know that they are in a worker, goes again."""
    before = sys.modules.get("azure_functions_runtime")
    yield
    if before is None:
        sys.modules.pop("azure_functions_runtime", None)


def indexed(body: Callable[..., Any], *outputs: str, **binding: Any) -> IndexedFunction:
    app = func.FunctionApp()
    builder: Any = body
    for name in outputs:
        builder = app.queue_output(arg_name=name, queue_name="next", connection="C")(builder)
    app.queue_trigger(arg_name="msg", queue_name="orders", connection="C", **binding)(builder)
    (function,) = app.get_functions()
    return index_function(function, HERE)


def submit(worker: Worker, body: Callable[..., Any], *outputs: str, **changes: Any) -> Future[BodyOutcome]:
    answered: Future[BodyOutcome] = Future()

    async def answer(outcome: BodyOutcome) -> None:
        answered.set_result(outcome)

    call = {"invocation": "id-1", "value": lambda: "the message", "retry": RetryContext(), "told": {}, **changes}
    worker.submit(indexed(body, *outputs), answer=answer, **call)
    return answered


def invoke(worker: Worker, body: Callable[..., Any], *outputs: str, **changes: Any) -> BodyOutcome:
    return submit(worker, body, *outputs, **changes).result(WAIT)


def test_async_bodies_run_on_the_workers_loop_and_sync_ones_in_its_pool(worker: Worker) -> None:
    threads: list[threading.Thread] = []

    def sync_body(msg: str) -> None:
        threads.append(threading.current_thread())

    async def async_body(msg: str) -> None:
        threads.append(threading.current_thread())

    assert invoke(worker, sync_body) == invoke(worker, async_body) == BodyOutcome()
    assert threads[0].name.startswith("worker")
    assert threads[1] is not threads[0]
    assert not threads[1].name.startswith("worker")


def test_a_waiting_sync_body_occupies_a_thread_of_the_pool() -> None:
    with running_worker(threads=1) as worker:
        free, second_ran = threading.Event(), threading.Event()

        def waits(msg: str) -> None:
            free.wait(WAIT)

        def quick(msg: str) -> None:
            second_ran.set()

        async def passes_by(msg: str) -> None: ...

        first = submit(worker, waits)
        second = submit(worker, quick)
        assert invoke(worker, passes_by) == BodyOutcome()
        assert not second_ran.is_set()
        free.set()
        assert first.result(WAIT) == second.result(WAIT) == BodyOutcome()


def test_a_body_that_blocks_the_loop_stalls_the_other_async_bodies(worker: Worker) -> None:
    free, ran = threading.Event(), threading.Event()

    async def blocks(msg: str) -> None:
        free.wait(WAIT)

    async def other(msg: str) -> None:
        ran.set()

    first = submit(worker, blocks)
    second = submit(worker, other)
    assert not ran.wait(0.05)
    free.set()
    assert first.result(WAIT) == second.result(WAIT) == BodyOutcome()


def test_the_context_is_passed_by_name_and_knows_the_invocation(worker: Worker) -> None:
    seen: list[Any] = []

    def body(msg: str, context) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
        seen.append(context)
        seen.append(context.thread_local_storage.invocation_id)

    assert invoke(worker, body, retry=RetryContext(1, 3)) == BodyOutcome()
    context = seen[0]
    assert (context.invocation_id, context.function_name, seen[1]) == ("id-1", "body", "id-1")
    assert context.function_directory == str(HERE)
    assert (context.retry_context.retry_count, context.retry_context.max_retry_count) == (1, 3)
    assert context.trace_context.trace_parent == context.trace_context.Traceparent
    assert not isinstance(context, func.Context)
    context.mine = context.retry_context.mine = "the app's own"
    with pytest.raises(AttributeError):
        context.invocation_id = "another"
    with pytest.raises(AttributeError):
        _ = context.retry_context.exception


def test_what_a_body_raises_is_the_outcome(worker: Worker) -> None:
    def fails(msg: str) -> None:
        raise ValueError("no such order")

    async def fails_too(msg: str) -> None:
        raise KeyError("order")

    assert invoke(worker, fails).error == "ValueError: no such order"
    assert invoke(worker, fails_too).error == "KeyError: 'order'"


@pytest.mark.parametrize("error", [asyncio.CancelledError(), GeneratorExit()])
def test_what_is_no_exception_is_never_answered_and_the_worker_goes_on(worker: Worker, error: BaseException) -> None:
    def sync_body(msg: str) -> None:
        raise error

    async def async_body(msg: str) -> None:
        raise error

    async def well(msg: str) -> None: ...

    never = [submit(worker, body) for body in (sync_body, async_body)]
    assert invoke(worker, well) == BodyOutcome()
    assert not any(answer.done() for answer in never)


@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt()])
@pytest.mark.parametrize("is_async", [True, False])
def test_what_ends_a_process_ends_the_worker(error: BaseException, is_async: bool) -> None:
    def sync_body(msg: str) -> None:
        raise error

    async def async_body(msg: str) -> None:
        raise error

    running = running_worker(threads=1)
    running.thread.start()
    answer = submit(running.worker, async_body if is_async else sync_body)
    running.thread.join(WAIT)
    running.worker.close()
    assert running.ended_with == [error]
    assert not answer.done()


def test_a_stream_of_the_apps_own_that_can_not_be_flushed_fails_the_invocation(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(msg: str) -> None:
        monkeypatch.setattr("sys.stdout", object())

    outcome = invoke(worker, body)
    assert outcome.error == "AttributeError: 'object' object has no attribute 'flush'"
    assert outcome.remark.startswith("the app has closed or replaced sys.stdout, which the worker flushes after each")


def test_a_body_that_fails_as_its_stdout_is_closed_is_remarked_on_too(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(msg: str) -> None:
        closed = io.TextIOWrapper(io.BytesIO())
        closed.close()
        monkeypatch.setattr("sys.stdout", closed)
        print("hello")  # noqa: T201

    outcome = invoke(worker, body)
    assert (outcome.error or "").startswith("ValueError: I/O operation on closed file")
    assert "the app has closed or replaced sys.stdout" in outcome.remark


def test_a_failure_is_answered_though_the_log_has_nowhere_to_go(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def body(msg: str) -> None:
        sys.stderr.close()
        raise RuntimeError(msg)

    root, log = logging.getLogger(), logging.getLogger("simulator.host.worker")
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr("sys.stderr", io.StringIO())
    set_up_logging()
    assert invoke(worker, body).error == "RuntimeError: the message"
    root.warning("the log itself raises nothing")
    monkeypatch.setattr(log, "filters", [lambda _: 1 / 0])
    assert invoke(worker, body).error == "RuntimeError: the message"


def test_a_sync_body_finds_its_invocation_where_the_real_worker_has_it(worker: Worker) -> None:
    seen: list[Any] = []

    def body(msg: str) -> None:
        seen.append(sys.modules["azure_functions_runtime"].invocation_id_cv.get())

    assert invoke(worker, body) == BodyOutcome()
    assert seen == ["id-1"]


def test_a_value_without_a_return_binding_fails_the_invocation(worker: Worker) -> None:
    def body(msg: str):  # type: ignore[no-untyped-def]  # noqa: ANN202
        return "something"

    assert (
        invoke(worker, body).error
        == "RuntimeError: function 'body' without a $return binding returned a non-None value"
    )


def test_a_bodys_error_gives_no_key_away() -> None:
    error = RuntimeError("can't connect to AccountName=orders;AccountKey=c2VjcmV0LWtleQ==;EndpointSuffix=x")
    assert describe(error) == "RuntimeError: can't connect to AccountName=orders;AccountKey=***;EndpointSuffix=x"


def test_what_can_not_be_decoded_fails_the_invocation(worker: Worker) -> None:
    def body(msg: str) -> None: ...

    def undecodable() -> None:
        raise ValueError("bad payload")

    assert invoke(worker, body, value=undecodable).error == "ValueError: bad payload"


def test_outputs_and_the_return_value_are_collected_if_they_were_set(worker: Worker) -> None:
    def body(msg: str, out: func.Out[str]) -> str | None:
        out.set("by out")
        return "returned"

    body.__annotations__["return"] = str

    def silent(msg: str, out: func.Out[str]) -> None: ...

    outcome = invoke(worker, body, "out", "$return")
    assert [(parameter.name, data.value) for parameter, data in outcome.outputs] == [
        ("out", "by out"),
        ("$return", "returned"),
    ]
    assert invoke(worker, silent, "out") == BodyOutcome()


def test_what_can_not_be_sent_fails_the_invocation(worker: Worker) -> None:
    def body(msg: str, out: func.Out[str]) -> None:
        out.set("by out")

    del body.__annotations__["return"]
    assert invoke(worker, body, "out", "$return").error == (
        "OutputError: output '$return': unable to encode outgoing TypedData: unsupported type \"queue\" for Python "
        'type "NoneType": '
        "return a value each time, or give it to a func.Out parameter, which may stay unset"
    )


@pytest.mark.parametrize(
    ("value", "expected"),
    [(None, 1000), ("", 1000), ("3", 3), (" 7 ", 7), ("0", None), ("many", None), ("-1", None)],
)
def test_the_pool_has_the_size_that_the_host_sets_where_the_app_sets_none(
    value: str | None, expected: int | None
) -> None:
    settings = {} if value is None else {"PYTHON_THREADPOOL_THREAD_COUNT": value}
    assert thread_count(settings) == expected
    assert settings["PYTHON_THREADPOOL_THREAD_COUNT"] == ("1000" if expected == 1000 else value)


def test_an_error_whose_text_cannot_be_had_is_answered(worker: Worker) -> None:
    class MuteError(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    async def ship(msg: str) -> None:
        raise MuteError

    assert invoke(worker, ship).error == "MuteError: its text can't be had: RuntimeError"
