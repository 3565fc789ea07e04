"""Who watches a function is told when its own code begins and ends, on all Pythons."""

from __future__ import annotations

import asyncio
import functools
import inspect
from types import FunctionType
from typing import TYPE_CHECKING, Any

import pytest

from simulator.witness.code_watch import watch

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping
    from types import CodeType


class Notes:
    """What was told, in order; each end belongs to a beginning."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.values: list[object] = []
        self.arguments: list[Mapping[str, Any]] = []
        self._runs: list[object] = []

    def entered(self, code: CodeType, run: object, arguments: Mapping[str, Any]) -> None:
        self._runs.append(run)
        self.arguments.append({**arguments})
        self.told.append(f"{code.co_name} begins")

    def left(self, code: CodeType, run: object, value: object, error: BaseException | None) -> None:
        assert run in self._runs
        self.values.append(value)
        self.told.append(f"{code.co_name} ends" + (f" with {type(error).__name__}" if error else ""))


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture
def watched(notes: Notes) -> Callable[[Any], Any]:
    def watched(function: Any) -> Any:
        assert isinstance(function, FunctionType)
        watch(function, notes)
        return function

    return watched


def test_a_plain_function_is_seen_from_its_first_line_to_its_last(notes: Notes, watched: Callable[[Any], Any]) -> None:
    beside = 3

    @watched
    def add(a: int, b: int = 2, *, c: int = 0) -> int:
        notes.told.append("inside")
        return a + b + c + beside

    assert (add(1), add(1, 5, c=1)) == (6, 10)
    assert notes.told == ["add begins", "inside", "add ends"] * 2
    assert notes.values == [6, 10]
    assert notes.arguments[1] == {"a": 1, "b": 5, "c": 1}


def test_it_is_seen_through_wrappers_and_from_threads(notes: Notes, watched: Callable[[Any], Any]) -> None:
    def body(msg: str) -> str:
        return msg

    @functools.wraps(body)
    def wrapper(**keywords: Any) -> str:
        return body(**keywords)

    watched(inspect.unwrap(wrapper))
    assert asyncio.run(asyncio.to_thread(wrapper, msg="x")) == "x"
    assert notes.told == ["body begins", "body ends"]


def test_functions_that_one_factory_has_made_have_a_watcher_and_a_code_each() -> None:
    def made() -> Any:
        return lambda: None

    functions, theirs = [made(), made()], [Notes(), Notes()]
    codes = [watch(function, notes) for function, notes in zip(functions, theirs, strict=True)]
    functions[0]()
    assert [notes.told for notes in theirs] == [["<lambda> begins", "<lambda> ends"], []]
    assert codes[0] is not codes[1]


def test_an_error_that_leaves_it_is_told(notes: Notes, watched: Callable[[Any], Any]) -> None:
    @watched
    def body() -> None:
        raise SystemExit

    with pytest.raises(SystemExit):
        body()
    assert notes.told == ["body begins", "body ends with SystemExit"]


def test_a_coroutine_lasts_from_its_first_step_to_its_end_through_every_await(
    notes: Notes, watched: Callable[[Any], Any]
) -> None:
    @watched
    async def body(name: str) -> str:
        notes.told.append(f"{name} waits")
        await asyncio.sleep(0)
        notes.told.append(f"{name} goes on")
        return name

    async def both() -> None:
        later = body("second")
        assert notes.told == []
        await asyncio.gather(body("first"), later)

    asyncio.run(both())
    assert notes.told == [
        *("body begins", "first waits", "body begins", "second waits"),
        *("first goes on", "body ends", "second goes on", "body ends"),
    ]


def test_a_coroutine_that_is_cancelled_or_fails_has_ended_and_a_generator_with_its_last_value(
    notes: Notes, watched: Callable[[Any], Any]
) -> None:
    @watched
    async def body() -> None:
        await asyncio.sleep(3600)

    async def cancelled() -> None:
        task = asyncio.create_task(body())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    dropped = body()
    with pytest.raises(RuntimeError):  # no loop runs
        dropped.send(None)
    del dropped
    assert [*watched(generator)()] == [1]
    assert notes.told == [
        *("body begins", "body ends with CancelledError"),
        *("body begins", "body ends with RuntimeError"),
        *("generator begins", "generator ends"),
    ]


def generator() -> Iterator[int]:
    yield 1


def test_a_generator_that_nobody_reads_to_its_end_has_ended(notes: Notes, watched: Callable[[Any], Any]) -> None:
    @watched
    def body() -> Iterator[int]:
        yield 1
        yield 2

    closed, dropped = body(), body()
    assert (next(closed), next(dropped)) == (1, 1)
    closed.close()
    assert notes.told == ["body begins", "body begins", "body ends with GeneratorExit"]
    del dropped
    assert notes.told[3:] == ["body ends with GeneratorExit"]
    assert notes.values == [[1], [1]]


def test_a_generator_gets_what_is_sent_and_thrown_and_its_result_is_passed_on(
    notes: Notes, watched: Callable[[Any], Any]
) -> None:
    @watched
    def body() -> Generator[str, str, str]:
        try:
            sent = yield "first"
            yield f"got {sent}"
        except KeyError as error:
            yield f"caught {error}"
        return "result"

    steps = body()
    assert (next(steps), steps.send("x"), steps.throw(KeyError(2))) == ("first", "got x", "caught 2")
    with pytest.raises(StopIteration) as end:
        next(steps)
    assert end.value.value == "result"
    assert notes.values == [["first", "got x", "caught 2"]]


def test_what_is_thrown_into_what_has_not_begun_is_no_run(notes: Notes, watched: Callable[[Any], Any]) -> None:
    @watched
    async def body() -> None: ...

    @watched
    def steps() -> Iterator[int]:
        yield 1

    for unstarted in (body(), steps()):
        with pytest.raises(KeyError):
            unstarted.throw(KeyError())
    assert notes.told == []


def test_a_watched_function_looks_as_before(watched: Callable[[Any], Any]) -> None:
    async def body(msg: str, *, context: Any = None) -> None:
        """Do it."""

    before = inspect.signature(body), inspect.getfile(body), body.__code__.co_qualname
    watched(body)
    assert (inspect.signature(body), inspect.getfile(body), body.__code__.co_qualname) == before
    assert inspect.iscoroutinefunction(body)


def test_arguments_that_do_not_fit_are_refused_as_before_and_nothing_has_begun(
    notes: Notes, watched: Callable[[Any], Any]
) -> None:
    @watched
    def body(msg: str) -> None: ...

    @watched
    async def later(msg: str) -> None: ...

    @watched
    def steps() -> Iterator[int]:
        yield 1

    with pytest.raises(TypeError, match="other"):
        body(other=1)
    with pytest.raises(TypeError, match="msg"):
        asyncio.run(later())
    with pytest.raises(TypeError, match="other"):
        [*steps(other=1)]
    assert notes.told == []


def test_what_a_function_says_of_its_arguments_does_not_hide_a_run(notes: Notes, watched: Callable[[Any], Any]) -> None:
    def body(msg: str) -> str:
        return msg

    body.__signature__ = inspect.Signature()  # type: ignore[attr-defined]
    assert watched(body)("x") == "x"
    assert notes.told == ["body begins", "body ends"]
