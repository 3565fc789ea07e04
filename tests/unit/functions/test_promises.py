"""A body that returns work still to be done, such as a coroutine, fails: that would run without the lock."""

from __future__ import annotations

import asyncio
import functools
import gc
import inspect
import sys
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import azure.functions as func
import pytest

from singleton import ConfigurationError, current_hold, singleton
from tests.support.lock_thread import Context, LockThread, an_app

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LockThread]:
    an_app(tmp_path, monkeypatch)
    with LockThread() as running:
        yield running


def in_a_plain_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Do what careless decorators do: wrap any function in a plain one."""

    @functools.wraps(function)
    def around(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return around


async def job(msg: str) -> None:
    pytest.fail("the body ran")


async def events(msg: str) -> AsyncIterator[str]:
    yield "never"


def steps(msg: str) -> Iterator[str]:
    yield "never"


class Later:
    def __await__(self) -> Iterator[None]:
        yield


def later(msg: str) -> Later:
    return Later()


@pytest.mark.parametrize(
    ("body", "kind"),
    [(job, "coroutine"), (events, "async_generator"), (steps, "generator"), (later, "Later")],
)
@pytest.mark.filterwarnings("error")
def test_it_is_refused_with_its_kind_and_the_lock_is_given_back(thread: LockThread, body: Any, kind: str) -> None:
    guarded = singleton(in_a_plain_function(body))
    with pytest.raises(
        ConfigurationError, match=rf"its body returned an? {kind}, which would run after the lock is released"
    ):
        guarded(msg="", context=Context())
    assert thread.kinds()[-2:] == ["body_ended:error", "released"]
    gc.collect()  # a coroutine that nobody awaits would warn


def holding(number: int) -> str:
    return f"{number} {current_hold().lock}"


@pytest.mark.parametrize("many", [lambda: map(holding, range(2)), lambda: (holding(number) for number in range(2))])
@pytest.mark.parametrize("output", ["queue", "eventGrid"])
@pytest.mark.parametrize("above", [True, False])
def test_an_iterator_that_the_worker_would_go_through_is_gone_through_under_the_lock(
    many: Callable[[], Iterator[str]], output: str, *, above: bool
) -> None:
    app: Any = func.FunctionApp()
    vars(sys.modules[__name__])["app"] = app

    def body(msg: str) -> Iterator[str]:
        return many()

    guarded = body if above else singleton(body)
    guarded = app.generic_output_binding(arg_name="$return", type=output)(guarded)
    guarded = app.queue_trigger(arg_name="msg", queue_name="orders", connection="C")(guarded)
    builder: Any = singleton(guarded) if above else guarded
    result = builder._function.get_user_function()(msg="", context=Context())
    assert result == ["0 locks/app/body", "1 locks/app/body"]


def test_a_generator_function_with_such_an_output_is_no_orchestrator() -> None:
    app: Any = func.FunctionApp()

    def body(msg: str) -> Iterator[str]:
        yield holding(0)

    builder: Any = app.queue_trigger(arg_name="msg", queue_name="orders", connection="C")(body)
    builder = singleton(app.generic_output_binding(arg_name="$return", type="queue")(builder))
    assert builder._function.get_user_function()(msg="", context=Context()) == ["0 locks/app/body"]


def test_a_generator_function_is_refused_when_it_is_called(thread: LockThread) -> None:
    with pytest.raises(ConfigurationError, match="its body returned a generator"):
        singleton(steps)(msg="", context=Context())  # type: ignore[call-arg]


def test_futures_are_cancelled() -> None:
    future: Future[None] = Future()

    def begun(msg: str) -> Future[None]:
        return future

    with pytest.raises(ConfigurationError, match="returned a Future"):
        singleton(begun)(msg="")
    assert future.cancelled()

    async def main() -> None:
        task = asyncio.ensure_future(asyncio.sleep(60))

        def running(msg: str) -> asyncio.Future[None]:
            return task

        with pytest.raises(ConfigurationError, match="returned a Task"):
            singleton(running)(msg="")
        await asyncio.wait({task}, timeout=5)
        assert task.cancelled()

    asyncio.run(main())


def test_a_task_that_has_just_been_made_never_begins() -> None:
    ran: list[str] = []

    async def step(msg: str) -> None:
        ran.append(msg)

    async def begun(msg: str) -> Any:
        return asyncio.create_task(step(msg))

    async def main() -> None:
        with pytest.raises(ConfigurationError, match="returned a Task"):
            await singleton(begun)(msg="")
        await asyncio.sleep(0)

    asyncio.run(main())
    assert ran == []


def test_an_async_body_that_forgot_to_await_is_refused_too() -> None:
    async def forgetful(msg: str) -> Any:
        return job(msg)

    with pytest.raises(ConfigurationError, match="returned a coroutine"):
        asyncio.run(singleton(forgetful)(msg=""))


@pytest.mark.skipif(sys.version_info < (3, 12), reason="inspect.markcoroutinefunction came with 3.12")
def test_a_plain_function_that_is_marked_as_a_coroutine_function_runs_under_the_lock() -> None:
    ran: list[str] = []

    async def body(msg: str) -> None:
        await asyncio.sleep(0)
        ran.append(current_hold().lock)

    marked: Any = in_a_plain_function(body)
    guarded = singleton(inspect.markcoroutinefunction(marked))  # type: ignore[attr-defined, unused-ignore]
    assert inspect.iscoroutinefunction(guarded)
    asyncio.run(guarded(msg="", context=Context()))
    assert ran == ["locks/app/body"]
