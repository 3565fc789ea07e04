"""What goes into a guard and comes out of it is compared with what its function gets and gives; nothing else is."""

from __future__ import annotations

import asyncio
import functools
import itertools
import time
from contextlib import suppress
from copy import copy
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import azure.functions as func
import pytest

from simulator.history.value_digest import digest
from simulator.host.triggers.bindings import Out
from simulator.witness import guards as witness_guards
from simulator.witness.guards import GuardedFunction
from simulator.witness.value_form import form_of
from simulator.witness.witness import Witness
from singleton.base.errors import LockNotAcquired

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Guards:
    """Guards that do as they are told, and what their witness wrote."""

    def __init__(self) -> None:
        self.altered: list[tuple[str, str]] = []
        self.fields: list[dict[str, Any]] = []
        self.failed: list[str] = []
        self.unrun: list[tuple[str, bool, bool]] = []
        self.kept: list[tuple[str, str, dict[str, str]]] = []
        self.witness = Witness(self._write)

    def _write(self, event: str, /, **fields: Any) -> None:
        if event == "altered":
            self.altered.append((fields["kind"], fields["what"]))
            self.fields.append(fields)
        if event == "guard_ended":
            self.unrun.append((fields["error"], fields["own"], fields["delivered"]))
        if event == "items_failed":
            self.failed.append(fields["error"])
        if event.startswith("once_"):
            self.kept.append((event, fields["digest"], fields["outputs"]))

    def around(self, function: Any, guard: Callable[..., Any], *, keeps: bool = False) -> Any:
        """Guard a function: ``guard`` gets the function and the arguments."""

        @functools.wraps(function)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            return guard(function, *args, **kwargs)

        return self.watched(guarded, function, keeps=keeps)

    def watched(self, guarded: Any, function: Any, *, keeps: bool = False) -> Any:
        self.witness.watch([("ship", function)])
        self.witness.watch_guards([GuardedFunction(name="ship", guard=guarded, below=function, keeps=keeps)])
        return guarded

    def call(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        with self.witness.invocation("one", "ship", kwargs.get("msg"), {}):
            return function(*args, **kwargs)


@pytest.fixture
def guards() -> Guards:
    return Guards()


def passing(function: Any, *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


def message(text: str = "{}") -> func.QueueMessage:
    return func.QueueMessage(id="m1", body=text)


def body(msg: func.QueueMessage, context: object = None) -> Any:
    return msg.get_body()


def changing(msg: Any, **more: Any) -> Any:
    msg._QueueMessage__body += b" "
    return msg.get_body()


class Held:
    """A hold that its guard ends, or not, and whose ``lost`` tells of that as of a loss, or not."""

    def __init__(self, how: str) -> None:
        self.lost, self.owned, self.lock, self.owner, self.lease_id = self, how == "owned", "a", "me", ""
        self.reason, self.waited, self.token = None, 0.0, 1
        self._how = how

    def is_set(self) -> bool:
        return False

    def wait(self, _: float) -> bool:
        return self._how == "ended"

    def raise_if_lost(self) -> None: ...


@pytest.mark.parametrize("how", ["right", "owned", "ended"])
def test_a_hold_that_does_not_end_with_its_guard_or_that_tells_of_a_loss_then_is_told(how: str) -> None:
    guards = Guards()
    guards.witness = Witness(guards._write, lambda: Held(how))
    guards.call(guards.around(body, passing), message())
    assert guards.altered == [(how, "")] * (how != "right")


# --- what a body is called with ---------------------------------------------------------------------------------------


def another(function: Any, msg: Any, **more: Any) -> Any:
    return function(message("{} "), **more)


def in_place(function: Any, msg: Any, **more: Any) -> Any:
    return function(changing(msg) and msg, **more)


def without_context(function: Any, msg: Any, context: Any = None) -> Any:
    return function(msg=msg)


def other_context(function: Any, msg: Any, context: Any = None) -> Any:
    return function(msg=msg, context="another")


@pytest.mark.parametrize(
    ("guard", "found"),
    [
        (another, [("argument", "msg")]),
        (in_place, [("argument", "msg")]),
        (without_context, [("argument", "context")]),
        (other_context, [("argument", "context")]),
        (passing, []),
        (lambda function, *args, **kwargs: function(message(), *args[1:], context=kwargs["context"]), []),
    ],
)
def test_a_body_gets_what_its_guard_was_called_with_or_something_equal(
    guards: Guards, guard: Any, found: list[Any]
) -> None:
    def ship(msg: func.QueueMessage, context: object = None) -> Any:
        return msg.get_body()

    guards.call(guards.around(ship, guard), msg=message(), context="mine")
    assert guards.altered == found


@pytest.mark.parametrize("trigger", [True, False])
@pytest.mark.parametrize(
    ("given", "change", "found"),
    [
        (lambda: {"Customer": "c1"}, lambda msg: msg.pop("Customer"), "of a trigger"),
        (lambda: [b"one", b"two"], list.pop, "of a trigger"),
        (lambda: {"Customer": "c1"}, dict.copy, ""),
        (lambda: {"app": SimpleNamespace(read=0)}, lambda msg: vars(msg["app"]).update(read=1), ""),
        (lambda: func.blob.InputStream(data=b"abc"), lambda msg: msg.read(), "always"),
        (lambda: func.blob.InputStream(data=b"abc"), lambda msg: msg.read() and msg._io.seek(0), ""),
    ],
)
def test_what_a_guard_changes_in_place_of_an_invocations_own_is_found(
    guards: Guards, given: Callable[[], Any], change: Callable[[Any], object], found: str, trigger: bool
) -> None:
    def ship(msg: Any) -> None: ...

    def guard(function: Any, msg: Any) -> None:
        change(msg)
        function(msg)

    value, guarded = given(), guards.around(ship, guard)
    with guards.witness.invocation("one", "ship", value if trigger else "another", {}):
        guarded(value)
    assert guards.altered == [("argument", "msg")] * (found == "always" or (trigger and found == "of a trigger"))


def test_what_a_body_changes_of_its_own_while_a_helper_waits_is_its_business(guards: Guards) -> None:
    order = {"Customer": "c1"}

    def note_down(entry: dict[str, str]) -> None: ...

    def waiting(function: Any, entry: dict[str, str]) -> None:
        order["Booked"] = "by the body"
        function(entry)

    helper = guards.around(note_down, waiting)

    def ship(msg: dict[str, str]) -> None:
        helper(msg)

    guards.call(guards.around(ship, passing), msg=order)
    assert guards.altered == []


def test_bytes_texts_numbers_and_batches_are_compared_too(guards: Guards) -> None:
    def ship(msg: Any, other: Any, *more: Any, **named: Any) -> None: ...

    last: dict[str, Any] = {}

    def guard(function: Any, msg: Any, other: Any, *more: Any) -> Any:
        return function(last["msg"], other, *more)

    guarded = guards.around(ship, guard)
    for given, got, differs in [
        (b"ab", bytearray(b"ab"), False),
        (b"ab", b"abc", True),
        ("ab", "ac", True),
        (1, True, True),
        ({"a": [1, 2]}, {"a": [1]}, True),
        ([message()], [message()], False),
        ([message(), message()], [message()], True),
    ]:
        last["msg"] = got
        guards.altered.clear()
        guards.call(guarded, given, 2)
        assert bool(guards.altered) is differs, (given, got)


def test_a_batch_that_lost_a_message_on_the_way_is_found(guards: Guards) -> None:
    def ship(msg: list[func.QueueMessage]) -> None: ...

    def guard(function: Any, msg: list[Any]) -> Any:
        del msg[-1]
        return function(msg)

    guards.call(guards.around(ship, guard), msg=[message(), message("[]")])
    assert guards.altered == [("argument", "msg")]


def test_what_a_body_changes_in_its_arguments_is_its_own_business(guards: Guards) -> None:
    def ship(msg: func.QueueMessage) -> Any:
        return changing(msg)

    guards.call(guards.around(ship, passing), msg=message())
    assert guards.altered == []


def test_decorators_above_and_below_a_guard_may_change_what_they_like(guards: Guards) -> None:
    def ship(msg: dict[str, str]) -> Any:
        return [*msg]

    @functools.wraps(ship)
    def read(msg: func.QueueMessage) -> str:
        return str(ship({**msg.get_json(), "read": "yes"}))

    guarded = guards.around(read, passing)

    def above(msg: str) -> str:
        return f"{guarded(func.QueueMessage(body=msg))}!"

    assert guards.call(above, msg="{}") == "['read']!"
    assert guards.altered == []


def test_a_body_that_calls_itself_is_compared_once(guards: Guards) -> None:
    def ship(msg: int) -> int:
        return ship(msg - 1) if msg else msg

    guards.call(guards.around(ship, passing), msg=3)
    assert guards.altered == []


# --- what became of its answer ----------------------------------------------------------------------------------------


def answered(guards: Guards, given: Callable[[], Any], guard: Callable[..., Any], **more: Any) -> list[tuple[str, str]]:
    def ship(msg: str) -> Any:
        return given()

    guards.call(guards.around(ship, guard, **more), msg="x")
    return guards.altered


def listed(function: Any, **named: Any) -> Any:
    return [*function(**named)]


def shorter(function: Any, **named: Any) -> Any:
    return [*function(**named)][:-1]


def numbers() -> Iterator[int]:
    yield from (1, 2, 3)


def test_a_result_is_passed_on_as_it_is_and_what_is_iterated_over_as_a_list(guards: Guards) -> None:
    for given in (lambda: None, lambda: "x", lambda: func.HttpResponse("x"), object, lambda: {"a": (1,)}):
        assert answered(guards, given, passing) == []
    assert answered(guards, numbers, listed) == []
    assert answered(guards, lambda: iter([1]), listed) == []
    assert answered(guards, numbers, shorter) == [("result", "")]


@pytest.mark.parametrize(
    ("given", "guard"),
    [
        (lambda: [1, 2], shorter),
        (lambda: [1, 2], lambda function, **named: (result := function(**named), result.pop())[0]),
        (lambda: "x", lambda function, **named: function(**named) and None),
        (lambda: None, lambda function, **named: function(**named) or ""),
        (lambda: func.HttpResponse(status_code=201), lambda function, **_: function("x") and func.HttpResponse()),
        (numbers, lambda function, **named: function(**named) and []),
        (numbers, lambda function, **named: function(**named) and None),
        (lambda: iter([1]), lambda function, **named: function(**named) and "x"),
    ],
)
def test_another_result_is_found_also_one_that_was_changed_in_place(guards: Guards, given: Any, guard: Any) -> None:
    assert answered(guards, given, guard) == [("result", "")]


def test_a_generator_body_whose_last_item_is_dropped_is_found(guards: Guards) -> None:
    def ship(msg: str) -> Iterator[str]:
        yield msg
        yield "last"

    guards.call(guards.around(ship, listed), msg="x")
    assert guards.altered == []
    guards.call(guards.around(ship, shorter), msg="x")
    assert guards.altered == [("result", "")]
    assert guards.fields[0]["given"].startswith("list of 2 ")


def test_the_items_of_an_iterator_in_an_output_all_reach_the_worker(guards: Guards) -> None:
    def ship(msg: str, out: Out) -> None:
        out.set(map(str.upper, [msg, "last"]))

    def settling(function: Any, msg: str, out: Out) -> None:
        function(msg, out)
        out.set([*out.get()])

    def losing(function: Any, msg: str, out: Out) -> None:
        function(msg, out)
        out.set([*out.get()][1:])

    guards.call(guards.around(ship, settling), msg="x", out=Out())
    guards.call(guards.around(ship, lambda function, **named: function(**named)), msg="x", out=Out())
    assert guards.altered == []
    guards.call(guards.around(ship, losing), msg="x", out=Out())
    assert guards.altered == [("output", "out")]


class Countdown:
    """An iterator of an app's own, with attributes; ``fails``: its second item raises."""

    def __init__(self, start: int, *, fails: bool = False) -> None:
        self.left, self.fails = start, fails

    def __iter__(self) -> Countdown:
        return self

    def __next__(self) -> int:
        if not self.left:
            raise StopIteration
        self.left -= 1
        return self.left // (0 if self.fails and self.left == 1 else 1)


LAZY: list[Callable[[], Any]] = [
    lambda: map(str, (1, 2)),
    lambda: zip((1, 2), (3, 4), strict=True),
    lambda: filter(None, (1, 2)),
    lambda: enumerate("ab"),
    lambda: itertools.chain((1,), (2,)),
    lambda: (each for each in (1, 2)),
    lambda: Countdown(2),
]


@pytest.mark.parametrize("given", LAZY)
def test_each_item_of_an_iterator_that_a_body_returns_reaches_the_worker(guards: Guards, given: Any) -> None:
    assert answered(guards, given, listed) == answered(guards, given, passing) == []
    assert answered(guards, given, shorter) == [("result", "")]


def test_an_iterator_of_the_apps_own_keeps_its_class_and_attributes(guards: Guards) -> None:
    made = Countdown(2)
    given = guards.call(guards.around(lambda **_: made, passing), msg="x")
    assert (given is made, isinstance(given, Countdown), type(given).__name__, given.left) == (
        True,
        True,
        "Countdown",
        2,
    )
    assert [*given] == [1, 0]


def test_an_iterator_of_the_apps_own_that_fails_is_the_apps_error(guards: Guards) -> None:
    def ship(msg: str, out: Out) -> None:
        out.set(Countdown(3, fails=True))

    def settling(function: Any, msg: str, out: Out) -> None:
        function(msg, out)
        out.set([*out.get()])

    for function in (lambda **_: Countdown(3, fails=True), lambda **_: map(divmod, (1, 1), (1, 0))):
        with pytest.raises(ZeroDivisionError):
            answered(guards, function, listed)
    with pytest.raises(ZeroDivisionError):
        guards.call(guards.around(ship, settling), msg="x", out=Out())
    assert (guards.altered, guards.failed) == ([], ["ZeroDivisionError"] * 3)


def test_guards_that_one_factory_has_made_are_compared_with_the_function_of_each(guards: Guards) -> None:
    def ship(msg: str) -> str:
        return msg

    def count(msg: str) -> int:
        return len(msg)

    first, _ = guards.around(ship, passing), guards.around(count, passing)
    guards.call(first, msg="x")
    assert guards.altered == []


def test_a_result_that_another_body_may_have_changed_is_not_sure(guards: Guards) -> None:
    shared: list[int] = []
    other: list[Any] = []

    def ship(msg: str) -> Any:
        return shared

    def beside(msg: str) -> None:
        shared.append(1)

    def guard(function: Any, **named: Any) -> Any:
        result = function(**named)
        guards.call(other[0], msg="y")
        return result

    other.append(guards.around(beside, passing))
    guards.call(guards.around(ship, guard), msg="x")
    assert [(each["kind"], each["sure"]) for each in guards.fields] == [("result", False)]


def test_an_output_is_handed_on_as_the_body_set_it(guards: Guards) -> None:
    def ship(msg: str, out: Out) -> None:
        out.set(msg)

    def guard(function: Any, msg: str, out: Out) -> None:
        function(msg, out=out)
        out.set("another")

    for way, found in ((passing, []), (guard, [("output", "out")])):
        guards.call(guards.around(ship, way), msg="x", out=Out())
        assert guards.altered == found


def test_what_a_body_sets_in_a_copy_of_its_output_is_lost(guards: Guards) -> None:
    def ship(msg: str, out: Out) -> None:
        out.set(msg)

    def rarely(msg: str, out: Out) -> None: ...

    def guard(function: Any, msg: str, out: Out) -> None:
        function(msg, out=copy(out))

    for body, found in ((rarely, []), (ship, [("output", "out")])):
        guards.call(guards.around(body, guard), msg="x", out=Out())
        assert guards.altered == found


def test_a_class_of_the_apps_own_named_out_is_no_output(guards: Guards) -> None:
    mine = type("Out", (), {"get": None, "set": None})()

    def ship(msg: str, out: Any) -> None: ...

    guards.call(guards.around(ship, passing), msg="x", out=mine)
    assert guards.altered == []


def test_what_an_awaitable_gives_may_take_its_place(guards: Guards) -> None:
    async def later() -> str:
        return "x"

    assert answered(guards, later, lambda function, **named: asyncio.run(function(**named))) == []


def test_what_once_keeps_may_come_back_as_json_does(guards: Guards) -> None:
    assert answered(guards, lambda: (1, 2), lambda function, **named: [*function(**named)], keeps=True) == []
    assert answered(guards, lambda: "x", lambda *_, **__: "kept", keeps=True) == []
    assert answered(guards, lambda: "", lambda function, **named: function(**named) or None, keeps=True) == [
        ("result", "")
    ]


def test_what_once_is_given_and_what_it_hands_on_is_told_with_its_outputs(guards: Guards) -> None:
    def ship(msg: str, out: Out, log: Out) -> str:
        out.set(msg)
        return "shipped"

    def repeats(_: Any, msg: str, out: Out, log: Out) -> str:
        return "shipped"

    def fails(function: Any, **named: Any) -> None:
        raise KeyError

    read = Out()
    read.set("by a decorator above")  # an output that is set before is none of the guard's
    guards.call(guards.around(ship, passing, keeps=True), msg="x", out=Out(), log=read)
    guards.call(guards.around(ship, repeats, keeps=True), msg="x", out=Out(), log=read)
    with pytest.raises(KeyError):
        guards.call(guards.around(ship, fails, keeps=True), msg="x", out=Out(), log=read)
    guards.call(guards.around(ship, passing), msg="x", out=Out(), log=read)
    done = digest("shipped"), {"out": digest("x")}
    assert guards.kept == [("once_kept", *done), ("once_answered", *done), ("once_answered", done[0], {"out": ""})]


def test_without_its_body_a_guard_answers_nothing_or_that_it_is_busy(guards: Guards) -> None:
    busy = func.HttpResponse(status_code=409, headers={"Retry-After": "1"})
    for answer in (None, busy):
        assert answered(guards, str, lambda *_, answer=answer, **__: answer) == []
    assert answered(guards, str, lambda *_, **__: "skipped") == [("answer", "")]


@pytest.mark.parametrize("keeps", [False, True])
def test_a_conflict_is_answered_with_when_to_come_back_and_a_kept_answer_may_be_one(
    guards: Guards, *, keeps: bool
) -> None:
    bare, busy = func.HttpResponse(status_code=409), func.HttpResponse(status_code=409, headers={"retry-after": "1"})
    assert answered(guards, str, lambda *_, **__: busy, keeps=keeps) == []
    assert answered(guards, str, lambda *_, **__: bare, keeps=keeps) == [("refusal", "")]
    unavailable = func.HttpResponse(status_code=503)
    kind = "refusal" if keeps else "answer"
    assert answered(guards, str, lambda *_, **__: unavailable, keeps=keeps)[-1] == (kind, "")


def test_how_late_a_guard_asks_counts_from_its_call_and_not_in_its_body(
    guards: Guards, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead, told = [0.0], list[float]()
    monkeypatch.setattr(witness_guards, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + ahead[0]))
    late = guards.witness.guards.asks_late

    def guard(function: Any, **named: Any) -> None:
        for seconds in (0.5, 3.0):
            ahead[0] = seconds
            told.append(late())
        function(**named)

    guards.call(guards.around(lambda **_: told.append(late()), guard), msg="x")
    first, second, inside = told
    assert (first, inside, late()) == (0.0, 0.0, 0.0)
    assert 2.0 <= second < 3.0


class ConfigurationError(Exception):
    """Refuses a result, as the lock's own does."""

    __module__ = "singleton.base.errors"


def refusing(function: Any, **named: Any) -> Any:
    function(**named)
    raise ConfigurationError


@pytest.mark.parametrize(("given", "found"), [(str, [("refused", "")]), (numbers, []), (lambda: iter([object()]), [])])
def test_only_what_runs_later_may_be_refused(guards: Guards, given: Any, found: list[Any]) -> None:
    with pytest.raises(ConfigurationError):
        answered(guards, given, refusing)
    assert guards.altered == found


def test_an_error_that_is_added_or_swallowed_is_found(guards: Guards) -> None:
    def fails(function: Any, **named: Any) -> Any:
        function(**named)
        raise KeyError

    def swallows(function: Any, **named: Any) -> Any:
        with pytest.raises(ZeroDivisionError):
            function(**named)

    with pytest.raises(KeyError):
        answered(guards, str, fails)
    answered(guards, lambda: 1 / 0, swallows)
    assert guards.altered == [("failed", "KeyError"), ("swallowed", "ZeroDivisionError")]


@pytest.mark.parametrize("begun", [False, True])
def test_a_guard_that_ends_before_its_body_is_found(guards: Guards, begun: bool) -> None:
    tasks: list[asyncio.Task[None]] = []

    async def ship(msg: str) -> None:
        await asyncio.sleep(0.01)

    @functools.wraps(ship)
    async def hasty(*args: Any, **kwargs: Any) -> None:
        tasks.append(asyncio.create_task(ship(*args, **kwargs)))
        if begun:
            await asyncio.sleep(0)

    @functools.wraps(ship)
    async def patient(*args: Any, **kwargs: Any) -> None:
        await ship(*args, **kwargs)

    async def run(guarded: Any) -> None:
        await guards.call(guarded, msg="x")
        await asyncio.gather(*tasks)

    asyncio.run(run(guards.watched(patient, ship)))
    assert guards.altered == []
    asyncio.run(run(guards.watched(hasty, ship)))
    assert guards.altered == [("early", "")]


# --- forms ------------------------------------------------------------------------------------------------------------


def test_what_somebody_has_read_of_a_request_changes_nothing_in_it() -> None:
    request = func.HttpRequest("POST", "/", headers={"Content-Type": "application/x-www-form-urlencoded"}, body=b"a=1")
    before = form_of(request)
    assert request.form["a"] == "1"
    assert form_of(request) == before


def test_a_form_says_nothing_of_the_content_and_ends_in_circles_and_in_objects_that_answer_nothing() -> None:
    class Refuses:
        @property
        def __dict__(self) -> Any:  # type: ignore[override]
            raise ValueError

    circle: list[Any] = ["secret"]
    circle.append(circle)
    assert "secret" not in str(form_of(circle))
    assert form_of(circle) == form_of(circle)
    assert form_of(Refuses()).plain is form_of(circle).plain is False
    assert form_of({"b": 1}) != form_of({"b": 2})
    assert form_of({1, 2}) == form_of(frozenset({2, 1}))


@pytest.mark.parametrize(
    ("error", "told"),
    [(None, [("", False)]), (LockNotAcquired("taken"), [("LockNotAcquired", True)]), (KeyboardInterrupt(), [])],
)
@pytest.mark.parametrize("delivered", [True, False])
def test_how_a_guard_ends_that_calls_no_function_is_told(
    guards: Guards, error: BaseException | None, told: list[tuple[str, bool]], *, delivered: bool
) -> None:
    def guard(_: Any, msg: Any, **more: Any) -> None:
        if error is not None:
            raise error

    guarded, given = guards.around(body, guard), message()
    with guards.witness.invocation("one", "ship", given, {}), suppress(LockNotAcquired, KeyboardInterrupt):
        guarded(msg=given if delivered else message())
    assert guards.unrun == [(*each, delivered) for each in told]
