"""Guards that the host's functions don't carry: of helpers, of `@once`, and below a decorator that hides them."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import azure.functions as func
import pytest

from simulator.host.app.app_model import HostConfig
from simulator.host.expected_keys import expected_blobs, expected_keys
from simulator.host.function_plan import guarded_functions, inner_guards, inner_records, tell_apart, users_functions
from simulator.host.startup import describe, prepare_app
from simulator.host.triggers.queue import QueueMessage
from singleton.functions.triggers import ONCE_MARK
from singleton.patterns.once.keys import Key
from tests.support.checked import BUNDLE

if TYPE_CHECKING:
    from pathlib import Path

    from simulator.host.function_plan import Plan
    from simulator.host.startup import Prepared

pytestmark = pytest.mark.usefixtures("unchanged_process")

APP = """
import azure.functions as func
from singleton import Inbox, InboxMessage, once, ordered, singleton

app = func.FunctionApp()
inbox = Inbox("orders")


def quiet(function):
    def inner(msg):
        return function(msg)

    inner.__name__ = function.__name__
    inner.__annotations__ = {"msg": func.QueueMessage}
    return inner


@app.queue_trigger(arg_name="msg", queue_name="hidden", connection="AzureWebJobsStorage")
@quiet
@singleton(scope="Id")
def ship(msg: func.QueueMessage) -> None:
    return None


@singleton(on_contention="skip")
def audit(text: str) -> None:
    return None


@app.queue_trigger(arg_name="msg", queue_name="charges", connection="AzureWebJobsStorage")
@once(key=KEY)
@singleton
def charge(msg: func.QueueMessage) -> None:
    audit("charged")


@app.queue_trigger(arg_name="message", queue_name="orders", connection="AzureWebJobsStorage")
@ordered(inbox)
def handle(message: InboxMessage) -> None:
    return None
"""


def prepared(folder: Path, key: str = "'Id'", *, more: str = "") -> Prepared:
    (folder / "function_app.py").write_text(APP.replace("KEY", key) + more, "utf-8")
    (folder / "host.json").write_text(json.dumps({"version": "2.0", **BUNDLE}), "utf-8")
    about: dict[str, Any] = {"name": "host", "host_id": "id", "lock_host_id": "id", "timer_every": 0}
    storage = "UseDevelopmentStorage=true"
    return prepare_app(HostConfig(app=folder, journal=folder / "j", storage=storage, **about))


def plans_of(folder: Path, key: str = "'Id'") -> dict[str, Plan]:
    return {plan.function.name: plan for plan in prepared(folder, key).plans}


def test_a_guard_below_a_decorator_without_wrapped_is_the_guard_of_its_function(tmp_path: Path) -> None:
    ship = plans_of(tmp_path)["ship"].to_json()
    assert (ship["guarded"], ship["scope"], ship["decorated"]) == (True, "Id", True)


def test_the_users_own_bodies_are_seen_below_every_decorator_and_in_helpers(tmp_path: Path) -> None:
    plans = prepared(tmp_path).plans
    seen = {
        (name, function.__code__.co_qualname) for name, function in users_functions(plans) if name in {"ship", "audit"}
    }
    assert seen == {("ship", "ship"), ("audit", "audit")}


def test_each_guard_is_compared_with_the_function_right_below_also_of_helpers_and_of_once(tmp_path: Path) -> None:
    guards = guarded_functions(prepared(tmp_path).plans)
    mine = [each for each in guards if each.below.__code__.co_filename.startswith(str(tmp_path))]
    assert {(each.name, each.keeps, hasattr(each.below, "__wrapped__")) for each in mine} == {
        ("ship", False, False),
        ("audit", False, False),
        ("charge", True, True),
        ("charge", False, False),
    }


def test_a_function_is_told_by_what_its_app_wrote_whatever_the_guard_made_of_it(tmp_path: Path) -> None:
    changed = """
from singleton.decorator import guards_of
for guard in guards_of(charge._function.get_user_function()):
    vars(guard)["max_hold"] = 99
"""
    plans = prepared(tmp_path, more=changed).plans
    (charge,) = (plan for plan in plans if plan.function.name == "charge")
    assert charge.guard is not None
    assert (charge.guard.max_hold, charge.to_json()["max_hold"]) == (99, None)


def test_guards_that_no_function_carries_are_told_apart_with_options_of_their_own(tmp_path: Path) -> None:
    told = {record["name"]: record["on_contention"] for record in inner_records(prepared(tmp_path).plans)}
    assert told == {"audit": "skip", "charge (@once)": "wait"}


def test_a_helper_that_is_given_the_workers_context_tells_its_own_name_and_keeps_its_lock(tmp_path: Path) -> None:
    plans = prepared(tmp_path).plans
    context = SimpleNamespace(function_name="charge", invocation_id="one")
    (audit,) = (guard for guard in inner_guards(plans) if guard.function == "audit")
    before = audit.call({"text": "charged"}, context)
    assert before.function == "charge"
    tell_apart(inner_guards(plans))
    after = audit.call({"text": "charged"}, context)
    assert (after.function, after.lock, after.owner) == ("audit", before.lock, "one")
    (charge,) = (plan.guard for plan in plans if plan.function.name == "charge")
    assert charge is not None
    assert "call" not in vars(charge)


@pytest.mark.parametrize(
    ("key", "same"), [("'Id'", True), ("'Number'", False), ("'{Id}'", True), ("lambda msg: msg.get_json()['Id']", None)]
)
def test_repeats_are_the_calls_with_an_equal_key_of_once(tmp_path: Path, key: str, same: bool | None) -> None:
    charge = plans_of(tmp_path, key)["charge"]
    bodies = [f'{{"Id": 7, "Number": {number}}}' for number in (1, 2)]
    causes = [
        QueueMessage(id=text[-2], text=text, body=text.encode(), dequeue_count=1, pop_receipt="") for text in bodies
    ]
    first, second = (expected_keys(charge, cause, {}, "id").get("once") for cause in causes)
    assert (None if first is None else first == second) is same


RENAMED = """
from singleton import OldLock

@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@singleton(scope="Id", GIVEN)
def deliver(msg: func.QueueMessage) -> None: ...
"""


@pytest.mark.parametrize(
    "given",
    [
        "also=OldLock(name='send')",
        "name='bring', also=OldLock(name='')",
        "name='bring', also=OldLock(host_id='old')",
        "also=OldLock(scope_hash=True)",
        "scope_hash=True, also=OldLock(name='send')",
        "scope_hash=True, also=OldLock(scope_hash=False, container='theirs')",
    ],
)
def test_the_blob_of_the_older_name_is_that_of_a_right_product(tmp_path: Path, given: str) -> None:
    plans = {plan.function.name: plan for plan in prepared(tmp_path, more=RENAMED.replace("GIVEN", given)).plans}
    body = b'{"Id": "a.b"}'
    cause = QueueMessage(id="1", text=body.decode(), body=body, dequeue_count=1, pop_receipt="")
    guard, keys = plans["deliver"].guard, expected_keys(plans["deliver"], cause, {}, "id")
    assert guard is not None
    message = func.QueueMessage(id="1", body=body, pop_receipt="")
    new, old = guard._addresses(guard.call({"msg": message}, SimpleNamespace(function_name="deliver")))
    told = {mode: f"{address.place.container}/{address.name}" for mode, address in (("function", new), ("also", old))}
    assert expected_blobs(plans["deliver"], keys) == told


def test_the_older_name_in_another_layout_is_not_read(tmp_path: Path) -> None:
    more = RENAMED.replace("GIVEN", "also=OldLock(layout='webjobs')")
    plans = {plan.function.name: plan for plan in prepared(tmp_path, more=more).plans}
    assert [*expected_keys(plans["deliver"], None, {}, "id")] == ["function"]


NARROW = """
import functools

def logged(function):
    @functools.wraps(function)
    def inner(PARAMETERS):
        return function(msg)

    return inner

@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@logged
GUARD
def deliver(msg: func.QueueMessage) -> None: ...
"""


@pytest.mark.parametrize(
    ("parameters", "guard", "named"),
    [
        ("msg", "@singleton", "logged (line"),
        ("msg", "@once(key='Id')", "logged (line"),
        ("msg, context", "@singleton", ""),
        ("msg, *, context", "@singleton", ""),
        ("msg, **more", "@singleton", ""),
        ("msg", "", ""),
    ],
)
def test_a_decorator_around_a_guard_that_takes_no_context_is_named(
    tmp_path: Path, parameters: str, guard: str, named: str
) -> None:
    more = NARROW.replace("PARAMETERS", parameters).replace("GUARD", guard)
    plans = {plan.function.name: plan for plan in prepared(tmp_path, more=more).plans}
    narrow = plans["deliver"].to_json()["narrow"]
    assert narrow.startswith(named)
    assert bool(narrow) is bool(named)


def test_once_is_judged_by_the_arguments_as_the_app_wrote_them_whatever_its_guard_says(tmp_path: Path) -> None:
    charge = plans_of(tmp_path, "'{Id}-{Number}', keep=60")["charge"]
    before = charge.to_json()
    assert charge.once is not None
    vars(charge.once).update(keep=1.0, key=Key("{Id}"), on_contention="skip")
    assert charge.operation_key == "{Id}-{Number}"
    assert charge.to_json() == before
    assert before["keep"] == 60
    del vars(charge.function.call)[ONCE_MARK]  # as of a decorator that does nothing
    assert charge.operation_key == "{Id}-{Number}"
    assert charge.to_json() == before


def test_the_queue_of_an_inbox_gets_no_made_up_messages_and_the_host_says_that(tmp_path: Path) -> None:
    ready = prepared(tmp_path)
    assert {plan.function.name: plan.ordered for plan in ready.plans} == {
        "ship": False,
        "charge": False,
        "handle": True,
    }
    (note,) = (note for note in ready.notes if "inbox" in note)
    assert note.startswith("no messages were made up for 'orders', the queue of the inbox of 'handle'")


def test_a_function_that_is_not_run_for_want_of_a_connection_tells_its_queue(tmp_path: Path) -> None:
    source = APP.replace("KEY", "'Id'") + (
        '\n\n@app.service_bus_queue_trigger(arg_name="msg", queue_name="Bus-Orders", connection="Bus")'
        "\ndef far(msg: func.ServiceBusMessage) -> None: ...\n"
    )
    (tmp_path / "function_app.py").write_text(source, "utf-8")
    (tmp_path / "host.json").write_text(json.dumps({"version": "2.0", **BUNDLE}), "utf-8")
    told = {each["name"]: each.get("wanted") for each in describe(tmp_path)}
    assert told == {"ship": None, "charge": None, "handle": None, "far": "Bus-Orders"}
