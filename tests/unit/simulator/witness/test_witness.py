"""The host sees bodies itself: for which invocation each runs, and what it leaves running."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import subprocess
import threading
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import azure.functions as func
import pytest

from simulator.history.journal import UNSEEN
from simulator.host.app.function_index import index_function
from simulator.witness.witness import Witness, inbox_rules, invoked
from singleton.patterns.ordered.messages import InboxMessage
from singleton.runtime.log_thread import LogThread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HERE = Path(__file__).parent


class Seen:
    """A witness, and what it wrote."""

    def __init__(self) -> None:
        self.records: list[tuple[str, dict[str, Any]]] = []
        self.witness = Witness(lambda event, /, **fields: self.records.append((event, fields)))

    def watch(self, *bodies: Any) -> None:
        app = func.FunctionApp()
        for body in bodies:
            app.queue_trigger(arg_name="msg", queue_name="orders", connection="C")(body)
        functions = [index_function(function, HERE) for function in app.get_functions()]
        self.witness.watch((function.name, function.call) for function in functions)

    def shown(self) -> list[str]:
        return [f"{event} {fields['function']} {fields['invocation']}".strip() for event, fields in self.records]


@pytest.fixture
def seen() -> Iterator[Seen]:
    seen = Seen()
    with seen.witness.leftovers.threads_followed():
        yield seen


def loop_of(seen: Seen) -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    seen.witness.follow(loop)
    return loop


def run(seen: Seen, work: Callable[[], Any]) -> None:
    loop = loop_of(seen)
    try:
        loop.run_until_complete(work())
    finally:
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


def test_a_body_is_known_by_its_message_though_its_context_says_otherwise(seen: Seen) -> None:
    def ship(msg: func.QueueMessage) -> None: ...

    seen.watch(ship)
    first, second = func.QueueMessage(body="1"), func.QueueMessage(body="2")
    told = {"message": "m1", "dequeue_count": 2}
    with seen.witness.invocation("one", "ship", first, told), seen.witness.invocation("two", "ship", second, {}):
        assert invoked.get() == "two"
        with ThreadPoolExecutor(1) as pool:  # a thread that knows of no invocation
            pool.submit(ship, msg=first).result()
    assert seen.shown() == ["body_entered ship one", "body_left ship one"]
    assert seen.records[0][1] == {"run": "one#1", "function": "ship", "invocation": "one", **told}


def test_handlers_that_one_factory_has_made_belong_to_the_inbox_of_each(seen: Seen) -> None:
    def handler() -> Any:
        def handle(item: InboxMessage) -> None: ...

        return handle

    handlers = {"orders": handler(), "returns": handler()}
    for inbox, each in handlers.items():
        seen.witness.watch_handler(each, inbox, inbox_rules(len(inbox), "stop"))
    for each in handlers.values():
        each(InboxMessage(key="k", body="x", id="m1"))
    items = [fields["item"] for event, fields in seen.records if event == "body_entered"]
    assert [(item["inbox"], item["attempts"]) for item in items] == [("orders", 6), ("returns", 7)]
    assert [item["stops"] for item in items] == [True, True]


def test_a_body_with_a_value_that_others_have_too_is_known_by_its_context(seen: Seen) -> None:
    def ship(msg: str) -> None: ...

    seen.watch(ship)
    with seen.witness.invocation("one", "ship", "", {}), seen.witness.invocation("two", "ship", "", {}):
        ship("")
    assert seen.shown() == ["body_entered ship two", "body_left ship two"]


def test_a_body_that_nobody_asked_for_has_no_invocation(seen: Seen) -> None:
    def ship(msg: str) -> None: ...

    seen.watch(ship)
    ship("x")
    assert seen.shown() == ["body_entered ship", "body_left ship"]


def test_a_body_that_ends_with_an_error_says_which(seen: Seen) -> None:
    def ship(msg: str) -> None:
        raise ValueError

    seen.watch(ship)
    with pytest.raises(ValueError):  # noqa: PT011 - it has no text
        ship("x")
    assert seen.records[-1] == ("body_left", {"run": "#1", "function": "ship", "invocation": "", "error": "ValueError"})


def test_a_task_that_a_body_leaves_behind_is_told_and_one_that_has_ended_is_not(seen: Seen) -> None:
    tasks = []

    async def linger(seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def ship(msg: str) -> None:
        await asyncio.create_task(linger(0))
        tasks.append(asyncio.create_task(linger(3600)))

    seen.watch(ship)

    async def host() -> None:
        with seen.witness.invocation("one", "ship", "x", {}):
            await ship("x")
        tasks[0].cancel()

    run(seen, host)
    left = seen.records[-1][1]["left_running"]
    assert [words.rpartition(".")[2] for words in left] == ["linger"]


def test_a_thread_that_runs_on_after_its_body_was_cancelled_is_told(seen: Seen) -> None:
    go_on = threading.Event()

    async def ship(msg: str) -> None:
        await asyncio.to_thread(go_on.wait)

    seen.watch(ship)

    async def host() -> None:
        with seen.witness.invocation("one", "ship", "x", {}):
            body = asyncio.create_task(ship("x"))
            await asyncio.sleep(0.01)
            body.cancel()
            with pytest.raises(asyncio.CancelledError):
                await body
        go_on.set()

    run(seen, host)
    assert seen.records[-1][1]["error"] == "cancelled"
    assert seen.records[-1][1]["left_running"] == ["a pool's thread, in Event.wait"]


def test_work_left_in_a_pool_is_named_by_its_function_without_the_data_of_messages(seen: Seen) -> None:
    go_on, pool = threading.Event(), ThreadPoolExecutor(1)

    def take(parcel: dict[str, str]) -> None:
        go_on.wait()

    def ship(msg: str) -> None:
        pool.submit(functools.partial(contextvars.copy_context().run, functools.partial(take, {"Region": "r1"})))

    seen.watch(ship)

    async def host() -> None:
        with seen.witness.invocation("one", "ship", "x", {}):
            ship("x")
        go_on.set()

    run(seen, host)
    pool.shutdown()
    (words,) = seen.records[-1][1]["left_running"]
    assert words.startswith("a pool's thread, in test_work_left")
    assert words.endswith("take")


def test_a_thread_of_a_thread_is_its_bodys_too(seen: Seen) -> None:
    go_on = threading.Event()
    inner = threading.Thread(target=go_on.wait, name="inner")

    def ship(msg: str) -> None:
        outer = threading.Thread(target=inner.start)
        outer.start()
        outer.join()

    seen.watch(ship)
    with seen.witness.invocation("one", "ship", "x", {}):
        ship("x")
    go_on.set()
    inner.join()
    assert seen.records[-1][1]["left_running"] == ["thread inner"]
    assert seen.witness.leftovers.of("one") == []


def test_a_pools_own_threads_are_nobodys(seen: Seen) -> None:
    with ThreadPoolExecutor(1) as pool:

        def ship(msg: str) -> None:
            pool.submit(int).result()

        seen.watch(ship)
        with seen.witness.invocation("one", "ship", "x", {}):
            ship("x")
        assert "left_running" not in seen.records[-1][1]


def test_the_threads_that_the_locks_library_keeps_are_no_work_of_the_body_that_first_needs_them(seen: Seen) -> None:
    logs = LogThread()
    waits = threading.Event()

    def say() -> None:
        waits.wait()

    def ship(msg: str) -> None:
        logs._put(say)
        threading.Thread(target=waits.wait, name="singleton-log").start()  # the body's own, whatever its name

    seen.watch(ship)
    with seen.witness.invocation("one", "ship", "x", {}):
        ship("x")
    waits.set()
    logs.close(5)
    assert seen.records[-1][1]["left_running"] == ["thread singleton-log"]


def test_a_thread_of_a_body_is_the_bodys_though_it_runs_a_function_of_asyncio(seen: Seen) -> None:
    goes_on = threading.Event()

    async def work() -> None:
        goes_on.wait()

    def ship(msg: str) -> None:
        threading.Thread(target=asyncio.run, args=(work(),), name="mine").start()

    seen.watch(ship)
    with seen.witness.invocation("one", "ship", "x", {}):
        ship("x")
    goes_on.set()
    assert seen.records[-1][1]["left_running"] == ["thread mine"]


@pytest.mark.process
def test_a_process_that_a_body_leaves_running_is_told_and_one_that_has_ended_is_not(seen: Seen) -> None:
    left = []

    async def ship(msg: str) -> None:
        ended = await asyncio.create_subprocess_exec("cat", stdin=subprocess.PIPE)
        await ended.communicate(b"")
        left.append(await asyncio.create_subprocess_exec("cat", stdin=subprocess.PIPE))

    def bill(msg: str) -> None:
        subprocess.run(["cat"], input=b"", check=True)

    seen.watch(ship, bill)

    async def host() -> None:
        with seen.witness.invocation("one", "ship", "x", {}):
            await ship("x")
        await left[0].communicate(b"")
        assert seen.witness.leftovers.of("one") == []
        with seen.witness.invocation("two", "bill", "x", {}):
            bill("x")

    run(seen, host)
    told = [fields.get("left_running") for event, fields in seen.records if event == "body_left"]
    assert told == [["process cat"], None]
    assert [fields["message"] for event, fields in seen.records if event == "note"] == [UNSEEN] * 3


def test_two_functions_with_one_body_are_told_apart_by_their_invocations(seen: Seen) -> None:
    def body(msg: str) -> None: ...

    @functools.wraps(body)
    def again(msg: str) -> None:
        body(msg)

    again.__name__ = "again"
    seen.watch(body, again)
    with seen.witness.invocation("two", "again", "x", {}):
        again("x")
    assert seen.shown() == ["body_entered again two", "body_left again two"]


def test_a_guarded_helper_is_seen_inside_its_caller_which_is_followed_on_after_it(seen: Seen) -> None:
    waits = threading.Event()

    def audit(text: str) -> None: ...

    def ship(msg: str) -> None:
        audit("shipped")
        with ThreadPoolExecutor(1) as pool:
            pool.submit(contextvars.copy_context().run, audit, "in a thread of the body's").result()
        threading.Thread(target=waits.wait, name="left").start()

    seen.watch(ship)
    seen.witness.watch([("audit", audit)])
    with seen.witness.invocation("one", "ship", "x", {}):
        ship("x")
    waits.set()
    audited = ["body_entered audit one", "body_left audit one"]
    assert [each for each in seen.shown() if each not in audited] == ["body_entered ship one", "body_left ship one"]
    assert not any("left_running" in fields for _, fields in seen.records[:-1])
    assert seen.records[-1][1]["left_running"] == ["thread left"]


def test_of_two_functions_of_one_name_only_the_one_with_once_has_its_result_written_down(seen: Seen) -> None:
    def ship(msg: str) -> str:
        return msg

    plain, kept = ship, types.FunctionType(ship.__code__.replace(), {}, "ship")
    kept.__once__ = True  # type: ignore[attr-defined]
    seen.witness.watch([("ship", plain), ("ship", kept)])
    plain("a")
    kept("a")
    assert ["digest" in fields for event, fields in seen.records if event == "body_left"] == [False, True]
