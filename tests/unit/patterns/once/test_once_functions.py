"""``@once`` on functions: where the key is found, what a repeat answers, and what it stands beside."""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
import logging
import threading
from concurrent.futures import Future
from contextlib import suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import azure.functions as func
import pytest

from singleton import (
    AsyncLockClient,
    ConfigurationError,
    LockClient,
    LockLost,
    LockNotAcquired,
    ResultNotKept,
    ScopeError,
    StorageError,
    current_hold,
    once,
)
from singleton import singleton as one_at_a_time
from singleton.base.events import LockEvent, subscribe
from singleton.base.invocation import warn_once
from singleton.base.state import MOST_STATE
from singleton.decorator import guards_of
from singleton.functions.trigger_rules import refuse_returned
from singleton.functions.triggers import Trigger
from singleton.patterns.once.keys import Key
from singleton.testing import held_elsewhere, memory_locks
from tests.support.empty_values import EMPTY
from tests.support.lock_thread import FOREIGN, Context, LockThread, an_app, outcome
from tests.support.responses import BackgroundTask, JSONResponse, Out, StreamingResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

both = pytest.mark.parametrize("kind", ["sync", "async"])


@pytest.fixture
def thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LockThread]:
    an_app(tmp_path, monkeypatch, '{"singleton": {"lockAcquisitionPollingInterval": "00:00:00.5000000"}}')
    with LockThread() as running:
        yield running


def job(
    kind: str, body: Callable[[Any], Any], below: Callable[..., Any] | None = None, **arguments: Any
) -> Callable[..., Any]:
    """Return a function under ``@once`` that runs ``body``; ``below``: a decorator between the two."""

    def ship(msg: Any) -> Any:
        return body(msg)

    async def ship_async(msg: Any) -> Any:
        await asyncio.sleep(0)
        return body(msg)

    ship_async.__name__ = "ship"
    written: Callable[..., Any] = ship_async if kind == "async" else ship
    return once(**{"key": "Id", **arguments})(written if below is None else below(written))


def invoked(function: Callable[..., Any], invocation: str = "inv-1", /, **arguments: Any) -> Any:
    return outcome(function(**arguments, context=Context(invocation)))


def request(key: str | None = "k-1", body: bytes = b"{}", **more: Any) -> func.HttpRequest:
    headers = {} if key is None else {"Idempotency-Key": key}
    return func.HttpRequest("POST", "/api/ship", headers=headers, body=body, **more)


# --- once -------------------------------------------------------------------------------------------------------------


@both
def test_a_message_that_comes_again_is_answered_without_running(thread: LockThread, kind: str) -> None:
    ran: list[str] = []

    def counted(msg: str) -> int:
        ran.append(msg)
        return len(ran)

    ship = job(kind, counted)
    answers = [invoked(ship, msg=json.dumps({"Id": number})) for number in (7, 7, 8, 7)]
    assert answers == [1, 1, 2, 1]
    assert len(ran) == 2
    assert sorted(thread.memory.names()) == ["once/app/ship/7", "once/app/ship/8"]
    assert thread.leased() == set()


@both
def test_a_body_that_raised_runs_again(thread: LockThread, kind: str) -> None:
    ran: list[str] = []

    def fail_first(msg: str) -> str:
        ran.append(msg)
        if len(ran) == 1:
            raise ArithmeticError
        return "done"

    ship = job(kind, fail_first)
    with pytest.raises(ArithmeticError):
        invoked(ship, msg='{"Id": 7}')
    assert [invoked(ship, msg='{"Id": 7}') for _ in range(2)] == ["done", "done"]
    assert len(ran) == 2


@both
def test_one_that_comes_meanwhile_is_refused_where_it_is_told_to(thread: LockThread, kind: str) -> None:
    ship = job(kind, lambda msg: msg, on_contention="raise")
    thread.taken_by_another_process("once/app/ship/7")
    with pytest.raises(LockNotAcquired):
        invoked(ship, msg='{"Id": 7}')
    thread.given_back_by_the_other("once/app/ship/7")
    assert invoked(ship, msg='{"Id": 7}') == '{"Id": 7}'


def test_a_users_test_says_that_another_instance_is_at_it() -> None:
    @once(key="Id", on_contention="raise")
    @one_at_a_time
    def ship(msg: str) -> str:
        return msg

    with memory_locks():
        with held_elsewhere(ship, '{"Id": 7}'), pytest.raises(LockNotAcquired):
            ship('{"Id": 7}')
        assert ship('{"Id": 7}') == '{"Id": 7}'


@both
def test_the_store_is_opened_on_the_lock_thread(thread: LockThread, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several who come first each would open one of its own, and leave all but one open."""
    registry, opened = thread.runtime.registry, list[str]()
    opens = registry._open_store

    def opening(place: Any) -> Any:
        opened.append(threading.current_thread().name)
        return opens(place)

    monkeypatch.setattr(registry, "_open_store", opening)
    invoked(job(kind, lambda _: None), msg='{"Id": 7}')
    assert opened == ["singleton-locks"]


@both
def test_a_request_that_comes_meanwhile_is_answered_with_409_where_it_is_told_to(thread: LockThread, kind: str) -> None:
    charge = job(kind, lambda _: func.HttpResponse("paid", status_code=201), on_contention="conflict")
    thread.taken_by_another_process("once/app/ship/7")
    refused = invoked(charge, msg=request(body=b'{"Id": 7}'))
    assert (refused.status_code, refused.headers["Retry-After"]) == (409, "1")
    thread.given_back_by_the_other("once/app/ship/7")
    assert [invoked(charge, msg=request(body=b'{"Id": 7}')).status_code for _ in range(2)] == [201, 201]


def test_what_the_body_was_refused_is_no_conflict_of_its_key(thread: LockThread) -> None:
    def busy(_: str) -> None:
        raise LockNotAcquired("another lock", lock="another", owner="", reason="held")

    with pytest.raises(LockNotAcquired, match="another lock"):
        invoked(job("sync", busy, on_contention="conflict"), msg=request(body=b'{"Id": 7}'))


def test_only_http_is_answered_with_a_conflict(thread: LockThread) -> None:
    app = func.FunctionApp()

    @once(key="Id", on_contention="conflict")
    @app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
    def ship(msg: func.QueueMessage) -> None: ...

    with pytest.raises(ConfigurationError, match=r"answers HTTP requests, and its trigger is a queueTrigger"):
        app.get_functions()


@both
def test_the_first_gets_what_a_repeat_will_get(thread: LockThread, kind: str) -> None:
    ship = job(kind, lambda _: ("a", (1, 2)))
    assert [invoked(ship, msg='{"Id": 7}') for _ in range(2)] == [["a", [1, 2]]] * 2


@both
def test_a_body_that_outlives_its_lease_fails_and_its_result_is_not_kept(thread: LockThread, kind: str) -> None:
    def outlive(_: str) -> str:
        thread.push_clock(60)
        return "late"

    with pytest.raises((LockLost, asyncio.CancelledError)):
        invoked(job(kind, outlive), msg='{"Id": 7}')
    assert invoked(job(kind, lambda _: "second"), msg='{"Id": 7}') == "second"


@both
def test_a_process_that_stands_still_after_its_result_is_kept_returns_the_result(thread: LockThread, kind: str) -> None:
    def stand_still(event: LockEvent) -> None:
        if event.kind == "body_ended":
            thread.push_clock(60)

    unsubscribe = subscribe(stand_still)
    assert invoked(job(kind, lambda _: "first"), msg='{"Id": 7}') == "first"
    unsubscribe()
    assert invoked(job(kind, lambda _: "second"), msg='{"Id": 7}') == "first"


@both
def test_the_hold_is_there_for_its_token(thread: LockThread, kind: str) -> None:
    assert isinstance(invoked(job(kind, lambda _: current_hold().token), msg='{"Id": 7}'), int)


@both
def test_its_hold_keeps_no_state_as_the_result_is_kept_there(thread: LockThread, kind: str) -> None:
    def body(_: str) -> None:
        current_hold().state.write({"half": "done"})

    with pytest.raises(ConfigurationError, match=r"@once keeps its result there.*@singleton below"):
        invoked(job(kind, body), msg='{"Id": 7}')
    assert invoked(job(kind, lambda _: "later"), msg='{"Id": 7}') == "later"  # what failed has left nothing there


def test_a_body_that_keeps_state_between_its_tries_has_a_lock_for_that_below(thread: LockThread) -> None:
    @once(key="Id")
    @one_at_a_time(scope="Id")
    def ship(msg: str) -> Any:
        state = current_hold().state
        state.write(done := state.read(default=0) + 1)
        if done == 1:
            raise OSError
        return done

    with pytest.raises(OSError):  # noqa: PT011 - it has no text
        invoked(ship, msg='{"Id": 7}')
    assert [invoked(ship, msg='{"Id": 7}') for _ in range(2)] == [2, 2]


def test_a_repeat_is_told_in_the_log(thread: LockThread, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "singleton")
    ship = job("sync", lambda _: "done")
    for _ in range(2):
        invoked(ship, msg='{"Id": 7}')
    assert [record.getMessage() for record in caplog.records] == [
        "ship was done before: its result is kept with lock once/app/ship/7"
    ]


def test_what_is_switched_off_runs_each_time_and_warns_of_it_once(
    thread: LockThread, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "host.json").write_text('{"version": "2.0", "singleton": {"enabled": false}}')
    ran: list[str] = []
    ship = job("sync", ran.append)
    warn_once.cache_clear()
    for _ in range(2):
        invoked(ship, msg='{"Id": 7}')
    assert len(ran) == 2
    [warning] = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert "the option enabled is false" in warning


# --- results ----------------------------------------------------------------------------------------------------------


def test_an_http_response_is_given_again_as_it_was(thread: LockThread) -> None:
    def answer(_: Any) -> func.HttpResponse:
        made = func.HttpResponse(b"\x00gone", status_code=202, mimetype="application/x", charset="latin-1")
        made.headers.add_header("Location", "/ship/1")
        made.headers.add_header("Set-Cookie", "a=1")
        made.headers.add_header("Set-Cookie", "b=2")
        return made

    ship = job("sync", answer, key="{headers.Idempotency-Key}")
    first, again = (invoked(ship, msg=request()) for _ in range(2))
    for each in (first, again):
        assert isinstance(each, func.HttpResponse)
        assert (each.status_code, each.mimetype, each.charset) == (202, "application/x", "latin-1")
        assert each.get_body() == b"\x00gone"
        assert list(each.headers) == [("Location", "/ship/1"), ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")]


@both
@pytest.mark.parametrize("empty", EMPTY, ids=repr)
def test_an_empty_result_and_an_empty_output_are_given_again_as_they_were(
    thread: LockThread, kind: str, empty: Any
) -> None:
    def body(msg: str, out: Any) -> Any:
        out.set(empty)
        return empty

    async def body_async(msg: str, out: Any) -> Any:
        return body(msg, out)

    body_async.__name__ = "body"
    ship = once(key="Id")(body_async if kind == "async" else body)
    for again in (False, True):
        out = Out()
        out.value = "unset"
        given = invoked(ship, msg='{"Id": 7}', out=out)
        left = "unset" if again and empty is None else empty  # None is no output
        assert (type(given), given, type(out.value), out.value) == (type(empty), empty, type(left), left)


def test_an_empty_response_is_given_again_as_it_was(thread: LockThread) -> None:
    ship = job("sync", lambda _: func.HttpResponse(b"", status_code=204, mimetype=""))
    for each in (invoked(ship, msg=request(body=b'{"Id": 7}')) for _ in range(2)):
        assert (each.status_code, each.mimetype, each.get_body()) == (204, "", b"")


def test_what_was_put_into_outputs_is_put_there_again(thread: LockThread) -> None:
    ran: list[str] = []

    @once(key="Id")
    def ship(msg: str, out: Any, other: Any) -> str:
        ran.append(msg)
        out.set([f"message-{len(ran)}", {"a": 1}])
        return "done"

    for _ in range(2):
        out, other = Out(), Out()
        assert invoked(ship, msg='{"Id": 7}', out=out, other=other) == "done"
        assert (out.value, other.value) == (["message-1", {"a": 1}], None)
    assert len(ran) == 1


@both
def test_outputs_of_the_first_are_sent_once_whoever_kept_them(thread: LockThread, kind: str) -> None:
    def ship(msg: str, out: Any) -> str:
        out.set(object() if "8" in msg else msg)
        return "done"

    async def ship_async(msg: str, out: Any) -> str:
        return ship(msg, out)

    ship_async.__name__ = "ship"
    written: Any = ship_async if kind == "async" else ship
    always, first = once(key="Id")(written), once(key="Id", outputs="first")(written)
    sent = []
    for function, number in ((always, 7), (first, 7), (first, 9), (first, 9), (always, 9), (first, 8), (first, 8)):
        out = Out()
        assert invoked(function, msg=json.dumps({"Id": number}), out=out) == "done"
        sent.append(out.value is not None)
    assert sent == [True, False, True, False, False, True, False]  # of 8 nothing is kept that JSON lacks
    trigger = Trigger("queueTrigger", "msg", {}, returns="queue")
    with pytest.raises(ConfigurationError, match="each repeat would send the result to the 'queue' output"):
        refuse_returned("@once on ship", trigger)
    with pytest.raises(ConfigurationError, match="outputs is 'last'"):
        once(key="Id", outputs=cast("Any", "last"))(written)


@both
def test_a_result_that_cant_be_kept_is_returned_once_and_a_repeat_fails(
    thread: LockThread, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    ran: list[str] = []
    result = object()

    def unkeepable(msg: str) -> object:
        ran.append(msg)
        return result

    ship = job(kind, unkeepable)
    assert invoked(ship, msg='{"Id": 7}') is result
    assert "ship is done, but its result can't be kept, and a repeat will fail: <object" in caplog.text
    with pytest.raises(ResultNotKept, match=r"'once/app/ship/7' is done, and will not be done again"):
        invoked(ship, msg='{"Id": 7}')
    assert len(ran) == 1


@both
@pytest.mark.parametrize("theirs", [b"theirs", bytes(MOST_STATE + 1)], ids=["short", "too long to be read"])
def test_a_blob_with_content_of_somebody_else_is_refused_before_the_work(
    thread: LockThread, kind: str, theirs: bytes
) -> None:
    lock, ran = "once/app/ship/7", list[str]()

    async def fill() -> None:
        etag = (await thread.memory.read(lock)).etag
        await thread.memory.put(lock, FOREIGN, {}, etag, theirs)

    thread.taken_by_another_process(lock)
    thread.do(fill)
    thread.given_back_by_the_other(lock)
    with pytest.raises(StorageError, match=f"has {len(theirs):,} bytes of content which this package did not"):
        invoked(job(kind, ran.append), msg='{"Id": 7}')
    assert ran == []
    assert thread.memory._blobs[lock].body == theirs


LATE: dict[str, Callable[[], Any]] = {
    "StreamingResponse": lambda: StreamingResponse([b"row"]),
    "JSONResponse": lambda: JSONResponse({}, background=BackgroundTask(print)),
    "map": lambda: map(str, "ab"),
    "generator": lambda: (each for each in "ab"),
    "coroutine": lambda: unheard_of(),  # noqa: PLW0108 - it is defined below
    "Future": Future,
}


async def unheard_of() -> None:
    raise AssertionError


@both
@pytest.mark.parametrize("late", LATE)
@pytest.mark.parametrize("below", ["nothing", "singleton", "lock"])
def test_an_operation_whose_result_is_refused_is_done_and_is_not_done_again(
    thread: LockThread, kind: str, late: str, below: str
) -> None:
    ran: list[str] = []

    def charge(msg: str) -> Any:
        ran.append(msg)
        return LATE[late]()

    client = AsyncLockClient if kind == "async" else LockClient
    between = {"singleton": one_at_a_time, "lock": client("AzureWebJobsStorage").lock("ledger")}
    guarded = job(kind, charge, below=between.get(below))
    with pytest.raises(ConfigurationError, match=rf"returned a {late}, .* The body ran"):
        invoked(guarded, msg='{"Id": 7}')
    refused = rf"'once/app/ship/7' is done, and will not be done again, .* kept: .* returned a {late}, which would run"
    with pytest.raises(ResultNotKept, match=refused):
        invoked(guarded, msg='{"Id": 7}')
    assert len(ran) == 1


@both
@pytest.mark.parametrize("caught", [False, True])
def test_a_body_that_another_functions_refusal_ended_has_not_done_the_operation(
    thread: LockThread, kind: str, *, caught: bool
) -> None:
    """The refusal is of a result of another function, or of the same one's for another key."""
    broken = True
    charged: list[str] = []

    @one_at_a_time
    def report(msg: str) -> Any:
        return map(str, msg) if broken else [*msg]

    def charge(msg: str) -> Any:
        try:
            report(msg)
        except ConfigurationError:
            if not caught:
                raise
            raise LookupError("no report") from None
        charged.append(msg)
        return "charged"

    guarded = job(kind, charge)
    with pytest.raises(LookupError if caught else ConfigurationError):
        invoked(guarded, msg='{"Id": 7}')
    broken = False
    assert [invoked(guarded, msg='{"Id": 7}') for _ in range(2)] == ["charged"] * 2
    assert len(charged) == 1


def test_an_operation_that_another_ones_refusal_ended_is_not_done(thread: LockThread) -> None:
    """An operation that does another one, with another key, of the same function."""
    charged: list[str] = []

    @once(key="Id")
    def charge(msg: str) -> Any:
        if msg == '{"Id": 8}':
            return map(str, "ab")
        if not charged:
            charged.append("tried")
            invoked(charge, msg='{"Id": 8}')
        return "charged"

    with pytest.raises(ConfigurationError, match="returned a map"):
        invoked(charge, msg='{"Id": 7}')
    assert invoked(charge, msg='{"Id": 7}') == "charged"


def test_a_body_that_has_not_begun_has_not_done_the_operation(thread: LockThread) -> None:
    charged: list[str] = []

    @once(key="Id")
    def steps(msg: str) -> Iterator[str]:
        charged.append(msg)
        yield msg

    for _ in range(2):
        with pytest.raises(ConfigurationError, match=r"returned a generator, .* The body has not begun"):
            invoked(steps, msg='{"Id": 7}')
    assert charged == []


def test_items_for_an_output_are_made_in_the_operation_and_kept(thread: LockThread) -> None:
    @once(key="Id")
    def ship(msg: str, out: Any) -> None:
        out.set(current_hold().lock for _ in range(2))

    for _ in range(2):
        out = Out()
        invoked(ship, msg='{"Id": 7}', out=out)
        assert out.value == ["once/app/ship/7"] * 2


# --- keys -------------------------------------------------------------------------------------------------------------


class Timer:
    past_due = False


class Unlike:
    """An object that is neither a message nor plain."""


TRIGGERS: dict[str, tuple[dict[str, Any], str]] = {
    "a request behind the context": ({"ctx": Context(), "req": request()}, "req"),
    "a request behind an input": ({"prices": "1", "req": request()}, "req"),
    "a streamed request": ({"prices": "1", "req": SimpleNamespace(path_params={}, query_params={})}, "req"),
    "a message behind a row": ({"rows": ["a"], "msg": func.QueueMessage(id="1", body=b"x")}, "msg"),
    "a timer behind an input": ({"prices": "1", "timer": Timer()}, "timer"),
    "a text behind an output": ({"out": Unlike(), "msg": "x"}, "msg"),
    "all that there is": ({"it": Unlike()}, "it"),
    "all that there is beside an output": ({"out": Out(), "it": Unlike()}, "it"),
}


@pytest.mark.parametrize("case", TRIGGERS)
def test_a_key_function_is_given_the_argument_that_can_only_be_the_triggers(case: str) -> None:
    arguments, name = TRIGGERS[case]
    key = Key(lambda argument: str(id(argument)))
    assert key.of(arguments, None) == str(id(arguments[name]))


@pytest.mark.parametrize(
    "arguments",
    [{"prices": "1", "msg": "2"}, {"blob": b"1", "rows": ["2"]}, {"one": Unlike(), "other": Unlike()}],
    ids=" ".join,
)
def test_a_key_function_is_given_nothing_where_several_may_be_the_triggers(arguments: dict[str, Any]) -> None:
    key = Key(pytest.fail)
    with pytest.raises(ScopeError, match=rf"{', '.join(arguments)}: put .*@once.* above the trigger"):
        key.of(arguments, None)
    known = Trigger("queueTrigger", "msg", {})
    assert Key(str.upper).of({"prices": "wrong", "msg": "right"}, known) == "RIGHT"


KEYS: dict[str, tuple[Any, Any, str]] = {
    "a property": ("Id", '{"Id": 7.50}', "7%2E50"),
    "a nested property": ("My:Nested:Property", '{"My": {"Nested": {"Property": "x y"}}}', "x%20y"),
    "a template": ("{My.Nested.Property}-{Id}", '{"My": {"Nested": {"Property": "x"}}, "Id": 1}', "x-1"),
    "a setting": ("%REGION%/{Id}", '{"Id": 1}', "north%2F1"),
    "a header": ("{headers.idempotency-key}", request("k-1"), "k-1"),
    "the query": ("{query.order}", request(params={"order": "42"}), "42"),
    "the route": ("{id}", request(route_params={"id": "42"}), "42"),
    "a function": (lambda msg: msg.headers["Idempotency-Key"].upper(), request("k-1"), "K-1"),
    "a function of a number": (len, "12345", "5"),
    "the message's id": ("{id}", func.QueueMessage(id="4711", body=b"x"), "4711"),
}


@pytest.mark.parametrize("case", KEYS)
def test_keys(thread: LockThread, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    monkeypatch.setenv("REGION", "north")
    key, msg, name = KEYS[case]
    invoked(job("sync", lambda _: None, key=key), msg=msg)
    assert thread.memory.names() == [f"once/app/ship/{name}"]


NO_KEYS: dict[str, tuple[Any, Any, str]] = {
    "null": ("Id", '{"Id": null}', "key 'Id': its value in the body is null: every message needs a value"),
    "empty": ("Id", '{"Id": ""}', "is empty"),
    "an object": ("Id", '{"Id": {}}', "is an object"),
    "missing": ("Id", '{"Name": 1}', "has no property 'Id'; it has 'Name'"),
    "no JSON": ("Id", "x", "can't be parsed as JSON"),
    "null in a template": (
        "order-{My.Id}",
        '{"My": {"Id": null}}',
        r"key 'order-{My.Id}': the value of {My.Id} is null",
    ),
    "blank in a template": ("order-{Id}", '{"Id": " "}', "is blank"),
    "missing in a template": ("{headers.Idempotency-Key}", request(None), "the part before 'Idempotency-Key' has no"),
    "nothing by a function": (lambda _: None, "x", "what it returned is null"),
    "a list by a function": (lambda _: [1], "x", "what it returned is a list"),
}


@pytest.mark.parametrize("case", NO_KEYS)
def test_keys_that_are_none_fail_before_anything_is_done(thread: LockThread, case: str) -> None:
    key, msg, why = NO_KEYS[case]
    ran: list[str] = []
    with pytest.raises(ScopeError) as told:
        invoked(job("sync", ran.append, key=key), msg=msg)
    assert why in str(told.value)
    assert (ran, thread.memory.names()) == ([], [])


def test_a_timer_has_no_property(thread: LockThread) -> None:
    class Timer:
        past_due = False

    with pytest.raises(ScopeError, match="a timer has none"):
        invoked(job("sync", lambda _: None), msg=Timer())


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"key": ""}, "key is ''"),
        ({"key": None}, "key is None"),
        ({"key": 7}, "key is 7"),
        ({"key": "A::B"}, "empty segment"),
        ({"key": "{Id"}, "no closing bracket"),
        ({"key": "{{Id}}"}, "the same for all messages"),
        ({"keep": 0}, "keep is 0"),
        ({"on_contention": "skip"}, "'wait', 'raise' or 'conflict'"),
        ({"timeout": 0}, "timeout is 0"),
        ({"connection": ""}, "connection is ''"),
        ({"owner": "me"}, "only be used with a lock client"),
    ],
)
def test_declarations_that_are_wrong(thread: LockThread, arguments: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigurationError) as told:
        job("sync", lambda _: None, **arguments)
    assert why in str(told.value)


# --- where it stands --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [SystemExit, asyncio.CancelledError, GeneratorExit, StopIteration])
@both
def test_a_key_function_that_exits_fails_the_invocation_with_an_error_that_a_worker_answers(
    thread: LockThread, kind: str, error: type[BaseException]
) -> None:
    def find(_: object) -> str:
        raise error(1)

    with pytest.raises(RuntimeError, match=rf"key \S+find raised {error.__name__}: it must return") as told:
        invoked(job(kind, str, key=find), msg="{}")
    assert isinstance(told.value.__cause__, error)
    assert thread.memory.calls.total() == 0


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
@both
def test_the_error_of_a_key_function_is_the_invocations_and_an_interrupt_the_threads(
    thread: LockThread, kind: str, error: type[BaseException]
) -> None:
    def find(_: object) -> str:
        raise error

    with pytest.raises(error):
        invoked(job(kind, str, key=find), msg="{}")


def test_it_stands_above_or_below_the_trigger_and_the_worker_sees_the_function(thread: LockThread) -> None:
    app = func.FunctionApp()

    @once(key="Id")
    @app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
    def above(msg: func.QueueMessage) -> None: ...

    @app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
    @once(key=lambda msg: msg.get_json()["Id"])
    async def below(msg: func.QueueMessage) -> None: ...

    one, other = app.get_functions()
    assert (one.get_function_name(), other.get_function_name()) == ("above", "below")
    for each in (one, other):
        function = each.get_user_function()
        assert list(inspect.signature(function).parameters) == ["msg", "context"]
        outcome(function(msg=func.QueueMessage(body=b'{"Id": 7}'), context=Context(function_name="known")))
    assert inspect.iscoroutinefunction(other.get_user_function())
    assert thread.memory.names() == ["once/app/known/7"]


@pytest.mark.parametrize("order", ["once above", "once below"])
@both
def test_it_stands_beside_singleton(thread: LockThread, kind: str, order: str) -> None:
    held: list[set[str]] = []
    per_tenant = one_at_a_time(scope="Tenant")
    per_id = once(key="Id")

    def ship(msg: str) -> str:
        held.append(thread.leased())
        return "done"

    async def ship_async(msg: str) -> str:
        return ship(msg)

    ship_async.__name__ = "ship"
    inner: Any = ship_async if kind == "async" else ship
    both_of_them = per_id(per_tenant(inner)) if order == "once above" else per_tenant(per_id(inner))
    for _ in range(2):
        assert invoked(both_of_them, msg='{"Tenant": "t", "Id": 7}') == "done"
    assert held == [{"locks/app/ship.t", "once/app/ship/7"}]
    assert len(guards_of(both_of_them)) == 1


def test_it_is_declared_once(thread: LockThread) -> None:
    with pytest.raises(ConfigurationError, match="@once is declared twice"):
        once(key="Id")(job("sync", lambda _: None))


def test_orchestrators_are_refused_in_its_own_name(thread: LockThread) -> None:
    def orchestrator(context: Any) -> None: ...

    orchestrator.__annotations__["context"] = "DurableOrchestrationContext"
    with pytest.raises(ConfigurationError, match=r"^@once on .*Put @once on the activities"):
        once(key="Id")(orchestrator)


def test_a_misdeclared_one_fails_at_its_calls_in_a_worker(thread: LockThread, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "azure_functions_worker", object())
    monkeypatch.setenv("AzureFunctionsJobHost__singleton__failFast", "false")
    broken = job("sync", lambda _: None, key="")
    assert once(key="Id")(broken) is broken
    with pytest.raises(ConfigurationError, match="key is ''"):
        broken(msg="x")


def test_another_function_below_the_same_decorator_may_skip_and_the_work_is_done() -> None:
    def without_a_trace(function: Callable[[str], object]) -> Callable[[str], object]:
        def inner(msg: str) -> object:
            return function(msg)

        return inner

    ran: list[str] = []

    def refresh(_: str) -> None:
        ran.append("refreshed")

    refresh_alone = one_at_a_time(on_contention="skip", name="refresh")(without_a_trace(refresh))

    def pay(msg: str) -> str:
        refresh_alone(msg)
        ran.append("paid")
        return "a receipt"

    pay_once = once(key="Id")(without_a_trace(pay))
    with memory_locks(), held_elsewhere(refresh_alone, '{"Id": 7}'):
        assert [pay_once('{"Id": 7}') for _ in range(2)] == ["a receipt"] * 2
    assert ran == ["paid"]


def test_work_that_a_try_lock_below_skipped_is_not_done() -> None:
    ran: list[str] = []
    locks = LockClient("UseDevelopmentStorage=true")

    @once(key="Id")
    @locks.try_lock("ledger")
    def pay(msg: str) -> str:
        ran.append(msg)
        return "a receipt"

    with memory_locks():
        with held_elsewhere("ledger"):
            assert pay('{"Id": 7}') is None
        assert [pay('{"Id": 7}') for _ in range(2)] == ["a receipt"] * 2
    assert len(ran) == 1


class Attributes(dict[str, Any]):
    """A dict whose keys are attributes, as many write it: a missing one is a ``KeyError``."""

    __getattr__ = dict.__getitem__


class Broken(list[int]):
    def __iter__(self) -> Any:
        raise KeyError(1)


def begun() -> Iterator[int]:
    """Return a generator that was begun, whose clean-up exits."""

    def items() -> Iterator[int]:
        try:
            yield 1
        finally:
            raise SystemExit(3)

    made = items()
    next(made)
    return made


@both
@pytest.mark.parametrize("result", [lambda: Attributes(id=7), lambda: Broken([1]), begun], ids=["dict", "list", "gen"])
def test_what_is_done_is_done_once_also_if_a_look_at_its_result_fails(kind: str, result: Callable[[], Any]) -> None:
    done: list[str] = []

    def body(msg: str) -> Any:
        done.append(msg)
        return result()

    with memory_locks():
        ship = job(kind, body, key="Id")
        for _ in range(3):
            with suppress(ResultNotKept, ConfigurationError):
                outcome(ship('{"Id": 1}'))
    assert len(done) == 1


def test_a_refused_result_counts_as_done_also_where_a_decorator_makes_another_error_of_the_refusal() -> None:
    done: list[str] = []

    def translating(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                return function(*args, **kwargs)
            except Exception as error:
                raise ValueError("it failed") from error

        return call

    @once(key="Id")
    @translating
    @one_at_a_time
    def ship(msg: str) -> Any:
        done.append(msg)
        return map(str, [1])

    with memory_locks():
        with pytest.raises(ValueError, match="it failed"):
            ship('{"Id": 1}')
        with pytest.raises(ResultNotKept, match="returned a map"):
            ship('{"Id": 1}')
    assert len(done) == 1


@pytest.mark.parametrize("work", [lambda: map(str, [1]), lambda: (each for each in [1])], ids=["map", "generator"])
def test_run_refuses_an_iterator_over_its_work_which_nobody_would_begin(work: Callable[[], Any]) -> None:
    async def in_a_task() -> Any:
        locks = AsyncLockClient("AzureWebJobsStorage")
        with pytest.raises(ConfigurationError, match="its body did not run"):
            await once(locks, "7", name="job").run(work)
        return await once(locks, "7", name="job").run(lambda: "done")

    with memory_locks():
        locks = LockClient("AzureWebJobsStorage")
        with pytest.raises(ConfigurationError, match="its body did not run"):
            once(locks, "8", name="job").run(work)
        assert once(locks, "8", name="job").run(lambda: "done") == "done"
        assert asyncio.run(in_a_task()) == "done"
