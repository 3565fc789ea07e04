"""No code of a result runs after the lock is released: each way to guard a body refuses and closes such results."""

from __future__ import annotations

import asyncio
import codecs
import collections
import collections.abc
import contextlib
import csv
import functools
import gc
import io
import itertools
import logging
import re
import sqlite3
import tempfile
from concurrent.futures import Future
from typing import TYPE_CHECKING, Annotated, Any, Optional
from unittest.mock import AsyncMock, MagicMock

import azure.functions as func
import pytest

from singleton import AsyncLockClient, ConfigurationError, LockClient, current_hold, once, singleton
from singleton.functions.triggers import WRITTEN_ONE_BY_ONE
from singleton.testing import Headcount, memory_locks
from tests.support.responses import (
    BackgroundTask,
    BackgroundTasks,
    EventSourceResponse,
    FlaskResponse,
    JSONResponse,
    Out,
    Response,
    StreamingHttpResponse,
    StreamingResponse,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

pytestmark = [
    pytest.mark.filterwarnings("error"),
    pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(autouse=True)
def memory() -> Iterator[None]:
    with memory_locks():
        yield


# --- four ways to guard a body ----------------------------------------------------------------------------------------


def by_singleton(body: Callable[..., Any]) -> Callable[..., Any]:
    return singleton(body)


def by_async_singleton(body: Callable[..., Any]) -> Callable[..., Any]:
    return in_a_loop(singleton(as_async(body)))


def by_client(body: Callable[..., Any]) -> Callable[..., Any]:
    return LockClient("AzureWebJobsStorage").lock("export")(body)


def by_async_client(body: Callable[..., Any]) -> Callable[..., Any]:
    return in_a_loop(AsyncLockClient("AzureWebJobsStorage").lock("export")(as_async(body)))


def as_async(body: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(body)
    async def call(*args: Any, **kwargs: Any) -> Any:
        return body(*args, **kwargs)

    return call


def in_a_loop(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **kwargs: asyncio.run(function(*args, **kwargs))


every_way = pytest.mark.parametrize("way", [by_singleton, by_async_singleton, by_client, by_async_client])
Way = "Callable[[Callable[..., Any]], Callable[..., Any]]"

# --- what is refused --------------------------------------------------------------------------------------------------

worked: list[str] = []


@pytest.fixture(autouse=True)
def nothing_worked() -> None:
    worked.clear()


def rows() -> Iterator[bytes]:
    worked.append("an item")
    yield b"row"


async def arows() -> AsyncIterator[bytes]:
    worked.append("an item")
    yield b"row"


async def job() -> None:
    worked.append("a job")


class Steps:
    """An iterator of the app's own."""

    def __iter__(self) -> Steps:
        return self

    def __next__(self) -> str:
        worked.append("an item")
        return "step"


class Feed:
    def __aiter__(self) -> Feed:
        return self

    async def __anext__(self) -> str:
        worked.append("an item")
        return "event"


class Pending:
    def __await__(self) -> Iterator[None]:
        worked.append("a job")
        yield


class Numbered:
    """Rows by number, as the protocol of sequences has them."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, number: int) -> str:
        worked.append("an item")
        return ["a", "b"][number]


class Timed(Response):
    """A response of the app's own, which works as the server sends it."""

    async def __call__(self, *_: Any) -> None:
        worked.append("a response")


def take(_: Any = None) -> str:
    worked.append("an item")
    return "row"


@contextlib.contextmanager
def opened() -> Iterator[None]:
    worked.append("a block")
    yield


LATE: dict[str, Callable[[], Any]] = {
    "map": lambda: map(worked.append, ["an item"]),
    "filter": lambda: filter(worked.append, ["an item"]),
    "zip": lambda: zip(rows(), rows(), strict=True),
    "enumerate": lambda: enumerate(rows()),
    "chain": lambda: itertools.chain(rows()),
    "groupby": lambda: itertools.groupby(rows()),
    "generator": rows,
    "async_generator": arows,
    "Steps": Steps,
    "Feed": Feed,
    "coroutine": job,
    "Future": Future,
    "Pending": Pending,
    "_GeneratorContextManager": opened,
    "StreamingResponse": lambda: StreamingResponse(rows()),
    "StreamingResponse of async rows": lambda: StreamingResponse(arows()),
    "StreamingResponse of a list": lambda: StreamingResponse([b"row"]),
    "EventSourceResponse": lambda: EventSourceResponse(arows()),
    "StreamingHttpResponse": lambda: StreamingHttpResponse(rows()),
    "generator of Flask": lambda: FlaskResponse(rows()),
    "JSONResponse": lambda: JSONResponse({}, background=BackgroundTask(job)),
    "Response": lambda: Response("ok", background=BackgroundTasks(job)),
    "Response with an own task": lambda: Response("ok", background=job),
    "generator in a tuple": lambda: (200, rows()),
    "generator in JSON": lambda: {"data": [{"rows": rows()}]},
    "map in a set": lambda: {map(worked.append, ["an item"])},
    "map far inside": lambda: [[[[{"rows": [map(worked.append, ["an item"])]}]]]],
    "callable_iterator": lambda: iter(take, None),
    "callable_iterator of a partial": lambda: iter(functools.partial(take, 1), None),
    "iterator over rows by number": lambda: iter(Numbered()),
    "reversed": lambda: reversed(Numbered()),
    "reader of a generator": lambda: csv.reader(map(str, rows())),
    "Timed": lambda: Timed("ok"),
}


@every_way
@pytest.mark.parametrize("late", LATE)
def test_a_result_that_would_run_later_is_refused_before_one_item(way: Any, late: str) -> None:
    began: list[str] = []

    def body() -> Any:
        began.append(current_hold().lock)
        return LATE[late]()

    said = rf"returned an? {late.partition(' ')[0]}, which would run after the lock is released"
    with pytest.raises(ConfigurationError, match=rf"{said}.* The body ran until it returned: what it did stays done\."):
        way(body)()
    gc.collect()  # what nobody awaited would warn
    assert (len(began), worked) == (1, [])
    assert not LockClient("AzureWebJobsStorage").locked("export")


@every_way
@pytest.mark.parametrize(
    ("late", "remedy"),
    [
        ("map", "Return a list of its items, or take the lock in the generator"),
        ("coroutine", "Await it in the function"),
        ("StreamingResponse", "Return a response with all its content, or take the lock in the generator"),
        ("JSONResponse", "Do the work of the background task in the function, or take the lock in the task"),
        ("_GeneratorContextManager", "take the lock inside"),
    ],
)
def test_the_error_says_what_to_do(way: Any, late: str, remedy: str) -> None:
    def body() -> Any:
        return LATE[late]()

    with pytest.raises(ConfigurationError, match=remedy):
        way(body)()


def begun(ended: list[str]) -> Iterator[bytes]:
    """Return a generator within its body."""

    def items() -> Iterator[bytes]:
        try:
            yield b"first"
            worked.append("an item")
            yield b"second"
        finally:
            ended.append(current_hold().lock)

    generator = items()
    next(generator)
    return generator


@every_way
@pytest.mark.parametrize(
    "around",
    [
        lambda items: items,
        lambda items: map(bytes, items),
        lambda items: itertools.chain([b"zero"], zip(items, strict=True)),
        StreamingResponse,
        lambda items: StreamingResponse(itertools.chain([b"zero"], items)),
        lambda items: [items],
        csv.reader,
    ],
)
def test_a_generator_that_has_begun_ends_under_the_lock(way: Any, around: Callable[[Any], Any]) -> None:
    ended: list[str] = []
    with pytest.raises(ConfigurationError) as refused:
        way(lambda: around(begun(ended)))()
    assert (len(ended), worked) == (1, [])
    assert refused.traceback  # which keeps the generator alive


def test_an_async_generator_that_has_begun_ends_under_the_lock() -> None:
    ended: list[str] = []

    async def items() -> AsyncIterator[bytes]:
        try:
            yield b"first"
        finally:
            await asyncio.sleep(0)
            ended.append(current_hold().lock)

    async def body() -> Any:
        generator = items()
        await anext(generator)
        return StreamingResponse(generator)

    async def main() -> None:
        for guarded in (singleton(body), AsyncLockClient("AzureWebJobsStorage").lock("export")(body)):
            with pytest.raises(ConfigurationError, match="returned a StreamingResponse"):
                await guarded()

    asyncio.run(main())
    assert [each.rpartition("/")[2] for each in ended] == ["body", "export"]


def test_what_fails_as_it_is_closed_is_logged_and_the_result_refused_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def items() -> Iterator[int]:
        try:
            yield 1
        finally:
            raise LookupError("no such row")

    def body() -> Any:
        generator = items()
        next(generator)
        return generator

    with caplog.at_level(logging.ERROR), pytest.raises(ConfigurationError, match="returned a generator"):
        singleton(body)()
    assert "a generator failed as it was closed" in caplog.text
    assert "no such row" in caplog.text


# --- what passes ------------------------------------------------------------------------------------------------------


class Cart:
    """An object that makes iterators."""

    def __iter__(self) -> Iterator[str]:
        return iter(["a"])


class Cursor:
    """As drivers of databases have it, in Python."""

    def __iter__(self) -> Cursor:
        return self

    def __next__(self) -> str:
        return self.fetchone()

    def fetchone(self) -> str:
        return "row"


def finished() -> Future[str]:
    future: Future[str] = Future()
    future.set_result("done")
    return future


def of_a_package(name: str) -> Any:
    """Return an object of a class that an installed package has, in Python."""
    code = f"class {name}:\n    def __next__(self): ...\n    def __await__(self): ...\n"
    found: dict[str, Any] = {}
    exec(compile(code, "/app/.python_packages/lib/site-packages/driver.py", "exec"), found)  # noqa: S102
    return found[name]()


CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)
CONNECTION = sqlite3.connect(":memory:")
RIGHT: dict[str, Callable[[], Any]] = {
    "text": lambda: "done",
    "JSON": lambda: {"data": [{"rows": (1, None, "x")}]},
    "a circle": lambda: CIRCLE,
    "the worker's response": lambda: func.HttpResponse("ok"),
    "a response": lambda: JSONResponse({"a": 1}),
    "a response whose tasks are none": lambda: Response("ok", background=BackgroundTasks()),
    "a response of Flask": lambda: FlaskResponse([b"row"]),
    "a file": lambda: io.BytesIO(b"row"),
    "a reader in Python": lambda: codecs.getreader("utf-8")(io.BytesIO(b"row")),
    "a cursor": lambda: sqlite3.Cursor(CONNECTION),
    "a cursor in Python": Cursor,
    "rows of a file": lambda: csv.reader(io.StringIO("a,b")),
    "a list's iterator": lambda: iter([1]),
    "a tuple's": lambda: iter((rows, job)),
    "a dict's": lambda: iter({"a": 1}.items()),
    "a text's": lambda: iter("ab"),
    "from the end": lambda: reversed([1]),
    "blocks of a file": lambda: iter(functools.partial(io.BytesIO(b"row").read, 2), b""),
    "a finished future": finished,
    "many rows": lambda: [{"id": (number,)} for number in range(5000)],
    "matches": lambda: re.finditer("a", "a"),
    "a view": {"a": 1}.values,
    "pages or a pool of a package": lambda: of_a_package("Pages"),
    "a mock": MagicMock,
    "an async mock": AsyncMock,
    "a range": lambda: range(3),
    "an object": Cart,
    "a function": lambda: rows,
    "a class": lambda: Steps,
    "messages": lambda: [func.QueueMessage(body=b"x")],
    "documents": lambda: func.DocumentList([func.Document({"id": 1})]),
    "a deque": lambda: collections.deque([1]),
}


@every_way
@pytest.mark.parametrize("right", RIGHT)
def test_a_result_without_code_of_the_users_passes(way: Any, right: str) -> None:
    result = RIGHT[right]()
    assert way(lambda: result)() is result


@every_way
def test_an_open_file_passes_and_stays_open(way: Any) -> None:
    with tempfile.TemporaryFile() as file:
        assert way(lambda: file)() is file
        assert not file.closed


# --- outputs ----------------------------------------------------------------------------------------------------------


@every_way
@pytest.mark.parametrize("many", [map, lambda make, items: (make(each) for each in items)])
def test_items_that_a_body_gives_to_an_output_are_made_under_the_lock(way: Any, many: Any) -> None:
    def body(msg: str, out: Any) -> None:
        out.set(many(lambda item: current_hold().lock and item, ["a", "b"]))

    out = Out()
    way(body)(msg="", out=out)
    assert out.value == ["a", "b"]


@every_way
@pytest.mark.parametrize("given", ["text", ["a"], ("a",), io.BytesIO(b"x"), None, Cart(), Numbered(), {"a": 1}.keys()])
def test_another_value_of_an_output_stays_as_it_is(way: Any, given: Any) -> None:
    out = Out()
    way(lambda out: out.set(given))(out=out)
    assert out.value is given


class Ordered(collections.abc.Sequence[str]):
    """A collection of the app's own."""

    def __len__(self) -> int:
        return 1

    def __getitem__(self, number: int) -> str:  # type: ignore[override]
        return [current_hold().lock and "a"][number]


class Lines:
    def __iter__(self) -> Iterator[str]:
        yield current_hold().lock and "a"


class Named(str):
    __slots__ = ()

    def __iter__(self) -> Iterator[str]:
        raise AssertionError


def returned_to(output: str, given: Any) -> Any:
    """Return what the worker gets from a guarded function whose return value goes to an output."""
    app = func.FunctionApp()

    @singleton
    @app.queue_trigger(arg_name="msg", queue_name="in", connection="AzureWebJobsStorage")
    @app.generic_output_binding(arg_name="$return", type=output)
    def ship(msg: str) -> Any:
        return given

    (function,) = app.get_functions()
    return function.get_user_function()(msg="")


@pytest.mark.parametrize("make", [Ordered, Lines, lambda: iter(Ordered()), lambda: map(str, "a")])
def test_items_of_the_apps_collections_are_made_under_the_lock_for_an_output(make: Any) -> None:
    for output in WRITTEN_ONE_BY_ONE:
        assert returned_to(output, make()) == ["a"]


@pytest.mark.parametrize("given", ["a", Named("a"), b"a", ["a"], ("a",), {"a": 1}, collections.UserList("a"), Cart])
def test_another_return_value_for_an_output_stays_as_it_is(given: Any) -> None:
    assert returned_to("queue", given) is given


@every_way
def test_the_error_says_that_outputs_are_not_written(way: Any) -> None:
    def body(out: Any, other: Any) -> Any:
        out.set("ship it")
        return map(str, "a")

    with pytest.raises(ConfigurationError, match="stays done, and the outputs that it set are not written"):
        way(body)(out=Out(), other=Out())
    with pytest.raises(ConfigurationError, match=r"what it did stays done\. Return a list"):
        way(lambda out: map(str, out.get() or "a"))(out=Out())


@every_way
def test_only_the_first_values_of_a_large_result_are_looked_at(way: Any) -> None:
    """A large result must not stop the event loop."""
    looked_at = 0

    class Row(list[int]):
        def __iter__(self) -> Any:
            nonlocal looked_at
            looked_at += 1
            return super().__iter__()

    result = [Row([number]) for number in range(3000)]
    assert way(lambda: result)() is result
    assert 0 < looked_at <= 1000


class Easy(dict[str, Any]):
    """A dict whose keys are attributes, as of easydict: ``values`` may be one."""

    values: Any = (1, 2)


class Proxy:
    """As werkzeug's: each special method of the class is an object that forwards."""

    __await__ = property(lambda self: self)


OWN_STREAM = type("StreamingResponse", (), {"chunks": 3, "__module__": "billing.responses"})


@every_way
@pytest.mark.parametrize("result", [Easy(a=1), Proxy(), OWN_STREAM()], ids=["easy dict", "proxy", "class of that name"])
def test_what_only_looks_like_late_work_passes(way: Any, result: object) -> None:
    assert way(lambda: result)() is result


@every_way
def test_an_argument_of_a_class_named_out_need_be_no_binding(way: Any) -> None:
    class Out:
        path = "out/7"

    assert way(lambda out: out.path)(out=Out()) == "out/7"


async def test_a_task_in_a_refused_result_goes_on_as_others_may_wait_for_it() -> None:
    begun = asyncio.Event()
    shared = asyncio.create_task(begun.wait())

    @AsyncLockClient("AzureWebJobsStorage").lock("export")
    async def body() -> object:
        return {"cache": shared}

    with pytest.raises(ConfigurationError, match="returned a Task"):
        await body()
    begun.set()
    assert await shared


def test_a_coroutine_function_in_a_plain_function_has_not_begun() -> None:
    @functools.wraps(job)
    def plain() -> Any:
        return job()

    with pytest.raises(ConfigurationError, match=r"returned a coroutine, .* The body has not begun\. Await it"):
        singleton(plain)()


# --- declarations -----------------------------------------------------------------------------------------------------


class Export(StreamingResponse):
    """A stream of the app's own."""


def streams() -> StreamingResponse:
    raise AssertionError


def exports() -> Export:
    raise AssertionError


def unknown() -> starlette.StreamingResponse:  # type: ignore[name-defined]  # noqa: F821
    raise AssertionError


def maybe() -> Annotated[Response | StreamingResponse | None, "documented"]:
    raise AssertionError


def quoted() -> Optional[StreamingResponse]:  # noqa: UP045
    raise AssertionError


def unknown_union() -> "Unknown | StreamingResponse":  # type: ignore[name-defined]  # noqa: F821, UP037
    raise AssertionError


def beside_unknown(size: Unknown) -> Export:  # type: ignore[name-defined]  # noqa: F821
    raise AssertionError


def with_tasks(order: str, later: BackgroundTasks) -> str:
    raise AssertionError


def with_documented_tasks(order: Unknown, later: Annotated[BackgroundTasks, "of FastAPI"]) -> str:  # type: ignore[name-defined]  # noqa: F821
    raise AssertionError


def with_optional_tasks(later: BackgroundTasks | None = None) -> str:
    raise AssertionError


DECORATORS = [
    singleton,
    once(key="Id"),
    LockClient("UseDevelopmentStorage=true").lock("export"),
    LockClient("UseDevelopmentStorage=true").try_lock("export"),
    lambda function: AsyncLockClient("AzureWebJobsStorage").semaphore("export", limit=2)(as_async(function)),
]


@pytest.mark.parametrize("decorate", DECORATORS)
@pytest.mark.parametrize("function", [streams, exports, unknown, maybe, quoted, unknown_union, beside_unknown])
def test_a_stream_is_refused_where_it_is_declared(decorate: Any, function: Any) -> None:
    said = (
        rf"{function.__name__}.* returns a StreamingResponse, which would run after .* take the lock in the generator"
    )
    with pytest.raises(ConfigurationError, match=said):
        decorate(function)


@pytest.mark.parametrize("decorate", DECORATORS)
@pytest.mark.parametrize("function", [with_tasks, with_documented_tasks, with_optional_tasks])
def test_a_parameter_for_background_tasks_is_refused_where_it_is_declared(decorate: Any, function: Any) -> None:
    with pytest.raises(ConfigurationError, match="it adds tasks to later, which would run after the lock is released"):
        decorate(function)


class _Row:
    class BackgroundTask:
        """A table of the app's own."""


@pytest.mark.parametrize("decorate", DECORATORS)
def test_other_annotations_are_none_of_it(decorate: Any) -> None:
    def plain(task: _Row.BackgroundTask, size: Unknown) -> Callable[[Response], StreamingResponse]:  # type: ignore[name-defined]  # noqa: F821
        raise AssertionError

    assert decorate(plain)


# --- in all -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["singleton", "lock"])
def test_of_three_streams_at_once_none_runs_beside_another(way: str) -> None:
    inside = Headcount()

    async def export() -> Any:
        async def content() -> AsyncIterator[bytes]:
            with inside:
                await asyncio.sleep(0.01)
                yield b"row"

        return StreamingResponse(content())

    async def served(guarded: Callable[[], Any]) -> list[bytes]:
        answer = await guarded()
        chunks: list[bytes] = await answer()
        return chunks

    async def main() -> list[Any]:
        guarded = singleton(export) if way == "singleton" else AsyncLockClient().lock("export")(export)
        return await asyncio.gather(*[served(guarded) for _ in range(3)], return_exceptions=True)

    answers = asyncio.run(main())
    assert [type(each) for each in answers] == [ConfigurationError] * 3
    assert inside.most == 0


def test_a_generator_that_takes_the_lock_streams_alone() -> None:
    """What the message advises."""
    inside = Headcount()

    async def main() -> list[Any]:
        locks = AsyncLockClient("AzureWebJobsStorage")

        async def export() -> StreamingResponse:
            async def content() -> AsyncIterator[bytes]:
                async with locks.lock("export"):
                    with inside:
                        await asyncio.sleep(0)
                        yield b"row"

            return StreamingResponse(content())

        streams = [(await export())() for _ in range(3)]
        return [*await asyncio.gather(*streams)]

    assert asyncio.run(main()) == [[b"row"]] * 3
    assert inside.most == 1
