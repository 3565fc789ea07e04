"""The reading of the specification is held to the product, and the product to it: random declarations and messages.

In the default layout two invocations have one key if they have one lock, and no key if they are refused. The other
layouts may give one lock to several keys.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal
from unittest.mock import patch

import pytest
from azure.functions.queue import QueueMessage
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.expected.answers import CantTell, NoKey
from simulator.expected.key import Declared, Delivered, expected_key
from singleton import ConfigurationError, ScopeError, singleton
from singleton.decorator import guards_of
from tests.support.lock_thread import Context

if TYPE_CHECKING:
    from collections.abc import Sequence

    from singleton.functions.guard import Guard

LATER = datetime(2026, 11, 28, 12, 0, tzinfo=UTC)
DATES = ("InsertionTime", "ExpirationTime", "NextVisibleTime")
Run = tuple[list[Declared], list[Delivered]]
Layout = Literal["default", "webjobs", "dequeueable"]
NAMES = ("Id", "ID", "id", "Zone", "zone", "Order", "a", "B", "é", "É", "x-y", "data", "DequeueCount", "PopReceipt")
SCALARS = (
    *("0", "-0", "1", "1.0", "1e0", "1E0", "1.10", "12", "1e400", "9" * 40, "0.1234567890123456789012345"),
    *("true", "false", '"True"', '"true"', '"1"', '"1.0"', '"12"', '""', '" "', '"\\t"', '"\\u00a0"'),
    *('"a"', '"\\u0061"', '"A"', '"a.b"', '"a\\/b"', '"a/b"', '"a\\\\b"', '"%61"', '"{Id}"', '"%REGION%"', '"~a"'),
    *('"😀"', '"\\ud83d\\ude00"', '"\\ud83d"', '"\\ude00"', '"é"', '"e\\u0301"', '"\\u0000"', '"north"', '"x-north"'),
    *(
        '"2021-03-04T05:06:07.089Z"',
        '"2021-03-04T05:06:07.0890000+00:00"',
        '"2021-03-04"',
        '"2021-03-04T13:06:07-03:30"',
    ),
    *('"7f2a1c1e-3d0b-4a1e-9a55-1f2f3a4b5c6d"', '"7F2A1C1E3D0B4A1E9A551F2F3A4B5C6D"'),
    *(f'"{"x" * 300}"', f'"{"x" * 300}y"', f'"{"é" * 200}"'),
)
BROKEN = (
    b"",
    b"{",
    b"\xff",
    b'{"Id": NaN}',
    b'{"Id": 01}',
    b'{"Id": 1} x',
    b"{'Id': 1}",
    b'"Id"',
    b"[]",
    b"null",
    b"1",
)
PIECES = (
    *("x", "-", ".", "/", "\\", "{{", "}}", "~", "%REGION%", "%region%", "%EMPTY%", "%NAMES%", "%A:B%", "{%FIELD%}"),
    *("{Id}", "{id}", "{Zone}", "{Order.Id}", "{order.zone}", "{Order.Zone.iD}", "{a}", "{é}", "{a.x-y}", "{data}"),
    *("{Id:N}", "{Id:D}", "{a:B}", "{Id:yyyyMMdd}", "{Id: }", "{a:yy/M/d h:m tt zzz}", "{Id:o}", "{Id:dddd'Z'}"),
    *("{DequeueCount}", "{InsertionTime}", "{InsertionTime:yyyyMMdd}", "{QueueTrigger}", "{Nope}", "{DateTime}"),
)
SETTINGS = {"REGION": "north", "EMPTY": "", "NAMES": "{Zone}", "A__B": "é", "FIELD": "Id"}

ESCAPED = {ord(char): f"\\u{ord(char):04x}" for char in [*map(chr, range(32)), '"', "\\"]}
SCALAR = st.sampled_from(SCALARS) | st.text(max_size=3).map(lambda text: f'"{text.translate(ESCAPED)}"')
PATHS = ("Id", "Id", "id", "Zone", "Order:Id", "Order:Zone:Id", "a", "a:x-y", "é")
TIMER = Delivered(trigger="timerTrigger", parameter="msg")


@st.composite
def bodies(draw: st.DrawFn, values: st.SearchStrategy[str]) -> bytes:
    """Draw JSON as others write it: most have what most declarations look for, some a name twice or in other case."""

    def an_object(names: Sequence[str], held: st.SearchStrategy[str]) -> str:
        more = draw(st.lists(st.sampled_from(NAMES), max_size=2))
        chosen = draw(st.permutations([*names, *more]))
        return "{" + ", ".join(f'"{name}": {draw(held)}' for name in chosen) + "}"

    if draw(st.integers(0, 9)) == 0:
        return draw(st.sampled_from(BROKEN))
    odd = values | values | st.sampled_from(["null", "[1]", "{}"])
    pairs = [
        f'"Order": {an_object(["Id", draw(st.sampled_from(["Zone", "zone"]))], odd)}',
        f'"Order": {an_object(["Id"], values)[:-1]}, "Zone": {an_object(["Id"], values)}}}',
        f'"a": {an_object(["x-y"], values)}',
        f'"a": {draw(values)}',
    ]
    kept = draw(st.lists(st.sampled_from(pairs), max_size=2))
    text = an_object(["Id", draw(st.sampled_from(["Zone", "ZONE", "é"]))], odd)
    bom = draw(st.sampled_from(["", "", "", "\ufeff"]))
    return (bom + ", ".join([text[:-1], *kept]) + "}").encode("utf-8", "surrogatepass")


@st.composite
def runs(draw: st.DrawFn, layout: Layout) -> Run:
    """Draw declarations and what they are triggered with; few values, so that there are equal ones."""
    values = st.sampled_from(draw(st.lists(SCALAR, min_size=1, max_size=3)))
    own = st.builds(
        lambda identity, count: {
            "Id": identity,
            "DequeueCount": count,
            **dict.fromkeys(DATES, LATER),
            "PopReceipt": "p",
        },
        st.sampled_from(["m-1", "m-2"]),
        st.integers(1, 2),
    )
    message = st.builds(
        Delivered, trigger=st.just("queueTrigger"), parameter=st.just("msg"), body=bodies(values), own=own | st.none()
    )
    template = st.lists(st.sampled_from(PIECES), min_size=1, max_size=3).map("".join)
    scopes = st.one_of(
        st.tuples(st.sampled_from(PATHS), st.just("")),
        st.tuples(st.none(), template),
        st.tuples(st.none(), st.sampled_from(["", *PIECES])),
        st.tuples(st.sampled_from(PATHS), template),
    )
    declared = st.builds(
        lambda scope, **given: Declared(scope=scope[0], scope_id=scope[1], layout=layout, **given),
        scopes,
        function=st.sampled_from(["ship", "bill"]),
        host_id=st.sampled_from(["app", "other"]),
        mode=st.sampled_from([*["function"] * 5, "listener"]),
        level=st.sampled_from(["function", "host"]),
    )
    return (
        draw(st.lists(declared, min_size=1, max_size=4)),
        draw(st.lists(message, min_size=1, max_size=4)) + draw(st.sampled_from([[], [], [], [TIMER]])),
    )


class TimerRequest:
    past_due = False


def argument(delivered: Delivered) -> Any:
    """Return what the worker hands over."""
    if delivered.trigger == "timerTrigger":
        return TimerRequest()
    assert isinstance(delivered.body, bytes)
    if delivered.own is None:
        return delivered.body if delivered.binary else delivered.body.decode("utf-8", "replace")
    own = delivered.own
    kind: Any = QueueMessage
    return kind(
        body=delivered.body,
        id=own["Id"],
        dequeue_count=own["DequeueCount"],
        pop_receipt=own["PopReceipt"],
        insertion_time=own["InsertionTime"],
        expiration_time=own["ExpirationTime"],
        time_next_visible=own["NextVisibleTime"],
    )


@pytest.fixture(scope="module", autouse=True)
def _app(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("app")
    (folder / "host.json").write_text('{"version": "2.0"}')
    environment = {
        "AzureWebJobsScriptRoot": str(folder),
        "AzureWebJobsStorage": "UseDevelopmentStorage=true",
        **SETTINGS,
    }
    with patch.dict(os.environ, environment):
        yield


def guard_of(declared: Declared) -> Guard | None:
    """Return the product's guard, or None where it refuses the declaration: no invocation ever is."""
    try:

        @singleton(
            scope=declared.scope,
            scope_id=declared.scope_id,
            level=declared.level,
            mode=declared.mode,
            layout=declared.layout,
        )
        def job(msg: Any) -> None: ...

    except ConfigurationError:
        return None
    return guards_of(job)[0]


def lock_of(guard: Guard, declared: Declared, delivered: Delivered) -> str | None:
    """Return what the product calls the lock of an invocation, or None where it refuses it."""
    os.environ["AzureFunctionsWebHost__hostid"] = declared.host_id
    try:
        return guard.call({"msg": argument(delivered)}, Context("i-1", declared.function)).lock
    except (ScopeError, ConfigurationError):
        return None


def hides_a_value(delivered: Delivered) -> bool:
    """Tell whether null or a list stands in the body where a name has a value already: see the known differences."""
    try:
        found = json.loads(delivered.body, object_pairs_hook=tuple)
    except ValueError:
        return False
    taken = {name.lower() for name in ("QueueTrigger", "data", "msg", *(delivered.own or ()))}
    pairs = found if isinstance(found, tuple) else ()
    for at, (name, value) in enumerate(pairs):
        taken |= {other.lower() for other, _ in pairs[:at]}
        if name.lower() in taken and (value is None or isinstance(value, list)):
            return True
    return False


def keys_and_locks(run: Run) -> list[tuple[str | NoKey, str | None]]:
    """Return what both make of each declaration with each message, but for what isn't compared."""
    found: list[tuple[str | NoKey, str | None]] = []
    for declared in run[0]:
        guard = guard_of(declared)
        if guard is None:
            continue
        for delivered in run[1]:
            key = expected_key(declared, delivered, SETTINGS)
            if not isinstance(key, CantTell) and not (declared.scope_id and hides_a_value(delivered)):
                found.append((key, lock_of(guard, declared, delivered)))
    return found


@settings(max_examples=int(os.environ.get("N", "100")))
@given(runs("default"))
def test_in_the_default_layout_one_key_is_one_lock(run: Run) -> None:
    found = keys_and_locks(run)
    for key, lock in found:
        assert isinstance(key, NoKey) == (lock is None), (key, lock)
    for (key, lock), (other_key, other_lock) in combinations(found, 2):
        if lock is not None and other_lock is not None:
            assert (key == other_key) == (lock == other_lock), (key, other_key, lock, other_lock)


@pytest.mark.parametrize("layout", ["webjobs", "dequeueable"])
@settings(max_examples=int(os.environ.get("N", "100")) // 2)
@given(data=st.data())
def test_in_the_layouts_of_others_one_key_is_one_lock_at_least(layout: Layout, data: st.DataObject) -> None:
    found = keys_and_locks(data.draw(runs(layout)))
    for key, lock in found:
        assert layout == "webjobs" or isinstance(key, NoKey) == (lock is None), (key, lock)
    for (key, lock), (other_key, other_lock) in combinations(found, 2):
        if lock is not None and other_lock is not None:
            assert key != other_key or lock == other_lock, (key, other_key, lock, other_lock)
