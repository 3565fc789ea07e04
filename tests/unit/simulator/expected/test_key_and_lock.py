"""The reading of the specification is held to the product, and the product to it: random declarations and messages.

In the default layout two invocations have one key if they have one lock, and no key if they are refused. The other
layouts may give one lock to several keys. ``EXPECTED_ROUNDS=20000 EXPECTED_SEED=7`` looks further.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from functools import lru_cache
from itertools import product
from random import Random
from typing import TYPE_CHECKING, Any, Literal, get_args
from unittest.mock import patch

import pytest
from azure.functions.queue import QueueMessage
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.expected.key import Declared, Delivered, expected_key
from simulator.expected.values import CantTell, NoKey
from singleton import ConfigurationError, ScopeError, singleton
from singleton.decorator import guards_of
from tests.support.lock_thread import Context

if TYPE_CHECKING:
    from collections.abc import Sequence

    from singleton.functions.guard import Guard

LATER = datetime(2026, 11, 28, 12, 0, tzinfo=UTC)
DATES = ("InsertionTime", "ExpirationTime", "NextVisibleTime")
Layout = Literal["default", "webjobs", "dequeueable"]
LAYOUTS: tuple[Layout, ...] = get_args(Layout)
MANY = int(os.environ.get("EXPECTED_ROUNDS", "400"))
SEED = int(os.environ.get("EXPECTED_SEED", "1"))
SETTINGS = {"REGION": "north", "EMPTY": "", "NAMES": "{Zone}", "A__B": "é", "FIELD": "Id"}
ALIKE = (
    ("1", "1.0", "1e0", "1E0", '"1"', '"1.0"', '"1e0"', "01", "10"),
    ("0", "-0", "0.0", '"-0"'),
    (
        "9" * 40,
        "9" * 39 + "8",
        f'"{"9" * 40}"',
        "1e400",
        "1e401",
        "0.1234567890123456789012345",
        "0.1234567890123456789",
    ),
    ("true", "false", '"True"', '"true"', '"False"', "1"),
    ("null", '""', '" "', '"\\t"', '"\\u00a0"', "[]", "{}", '"null"', '"None"', '"\\u200b"'),
    ('"a"', '"A"', '"\\u0061"', '" a"', '"a "', '"a\\n"', '["a"]', '{"a": "a"}', '"a\\u0000"'),
    ('"a.b"', '"a/b"', '"a\\/b"', '"a\\\\b"', '"a%2Eb"', '"a:b"', '"a~b"', '"a%b"', '"%61.b"', '"b.a"', '"a"', '"b"'),
    ('"é"', '"\\u00e9"', '"e\\u0301"', '"É"', '"%C3%A9"', '"Ã©"'),
    ('"😀"', '"\\ud83d\\ude00"', '"\\ud83d"', '"\\ude00"', '"?"', '"\\ufffd"'),
    (f'"{"x" * 300}"', f'"{"x" * 300}y"', f'"{"x" * 299}"', f'"{"é" * 200}"', f'"{"é" * 199}è"'),
    (
        '"{Id}"',
        '"{Zone}"',
        '"%REGION%"',
        '"north"',
        '"{{"',
        '"{"',
        '"}"',
        '"x-north"',
        '"~listener"',
        '"ship"',
        '"bill"',
        '"~ship"',
    ),
    (
        *('"2021-03-04T05:06:07.089Z"', '"2021-03-04T05:06:07.0890000+00:00"', '"2021-03-04T17:06:07.089"'),
        *('"2021-03-04T05:06:07.089"', '"21/3/4 5:6 PM +00:00"', '"20210304"', '"05-06Z"', '"17-06"'),
        *('"2021-03-04"', '"2021-03-04T13:06:07-03:30"', '"2021-03-04 13:06"', '"2021-03-04T05:06:07Z"'),
    ),
    (
        *('"7f2a1c1e-3d0b-4a1e-9a55-1f2f3a4b5c6d"', '"7F2A1C1E3D0B4A1E9A551F2F3A4B5C6D"'),
        *(
            '"{7f2a1c1e-3d0b-4a1e-9a55-1f2f3a4b5c6d}"',
            '"7F2A1C1E-3d0b-4a1e-9a55-1f2f3a4b5c6e"',
            '"7f2a1c1e3d0b4a1e9a551f2f3a4b5c6d"',
        ),
    ),
)
"""Values that careless software takes for one another, as JSON spells them."""
BROKEN = (
    b"",
    b"{",
    b"\xff",
    b'{"Id": "\xff"}',
    b'{"Id": NaN}',
    b'{"Id": -Infinity}',
    b'{"Id": 01}',
    b'{"Id": 1} x',
    b"[]",
)
PATHS = ("Id", "Id", "Id", "id", "Zone", "Order:Id", "Order:Zone:Id", "Order", "a", "a:x-y", "é", "Order.Id")
PIECES = (
    *("x", "-", ".", "/", "\\", "{{", "}}", "~", "%REGION%", "%region%", "%EMPTY%", "%NAMES%", "%A:B%", "{%FIELD%}"),
    *("{Id}", "{id}", "{Zone}", "{Order.Id}", "{order.zone}", "{Order.Zone.iD}", "{a}", "{é}", "{a.x-y}", "{data}"),
    *("{Id:N}", "{Id:D}", "{Zone:B}", "{Id:yyyyMMdd}", "{Id: }", "{Zone:yy/M/d h:m tt zzz}", "{Id:o}", "{Id:dddd'Z'}"),
    *(
        "{Id:HH-mmK}",
        "{msg}",
        "{DequeueCount}",
        "{InsertionTime}",
        "{InsertionTime:yyyyMMdd}",
        "{QueueTrigger}",
        "{Id}",
    ),
    *("{Nope}", "{DateTime}"),
)
TIMER = Delivered(trigger="timerTrigger", parameter="msg")


def a_declaration(random: Random, layout: Layout) -> Declared:
    scope, templates = random.choice(PATHS), "".join(random.choices(PIECES, k=random.choice((1, 1, 2, 3))))
    scope_id = random.choice((random.choice(PIECES), templates))
    named = random.choice(((scope, ""), (scope, ""), (None, scope_id), (None, scope_id), (scope, scope_id), (None, "")))
    return Declared(
        function=random.choice(("ship", "bill")),
        host_id=random.choice(("app", "app", "other")),
        mode="listener" if random.random() < 0.1 and named[0] is None else "function",
        level=random.choice(("function", "host")),
        scope=named[0],
        scope_id=named[1],
        layout=layout,
    )


def an_object(random: Random, pairs: Sequence[tuple[str, str]]) -> str:
    """Write it as others do: in any order, a name twice at times, some in other case, some left out."""
    names = [name for name, _ in pairs]
    again = [(random.choice((name, name.lower(), name.upper())), random.choice(pairs)[1]) for name in names]
    chosen = [*pairs, *(pair for pair in again if random.random() < 0.1)]
    if random.random() < 0.5:
        chosen = random.sample(chosen, k=len(chosen) - (random.random() < 0.2))
    return "{" + ", ".join(f'"{name}": {value}' for name, value in chosen) + "}"


def a_body(random: Random, values: Sequence[str]) -> bytes:
    if random.random() < 0.05:
        return random.choice(BROKEN)

    def a_value() -> str:
        return random.choice(values)

    inner = an_object(random, [(random.choice(("Id", "ID")), a_value())])
    order = an_object(random, [("Id", a_value()), (random.choice(("Zone", "zone")), random.choice((inner, a_value())))])
    pairs = [
        ("Id", a_value()),
        ("Zone", a_value()),
        ("Order", random.choice((order, order, a_value()))),
        ("a", random.choice((an_object(random, [("x-y", a_value())]), a_value()))),
        ("é", a_value()),
        (random.choice(("data", "DequeueCount", "QueueTrigger", "PopReceipt", "id", "ID", "zone", "É")), a_value()),
    ]
    bom = "\ufeff" if random.random() < 0.05 else ""
    return f"{bom}{an_object(random, pairs)}".encode()


def a_message(random: Random, values: Sequence[str]) -> Delivered:
    if random.random() < 0.03:
        return TIMER
    own: dict[str, object] = {"Id": random.choice(("m-1", "m-2")), "DequeueCount": random.choice((1, 2))}
    own |= {"PopReceipt": "pop", **dict.fromkeys(DATES, LATER)}
    body = random.choice((a_body(random, values), b"{}")) if random.random() < 0.1 else a_body(random, values)
    if random.random() < 0.7:
        return Delivered(trigger="queueTrigger", parameter="msg", body=body, own=own)
    binary = body in BROKEN or random.random() < 0.2  # what is no UTF-8 comes as bytes or not at all (H-81)
    return Delivered(trigger="queueTrigger", parameter="msg", body=body, own=None, binary=binary)


def some_messages(random: Random) -> list[Delivered]:
    """Make messages of which many have values that are nearly equal."""
    values = random.sample(random.choice(ALIKE), k=3) + random.sample(random.choice(ALIKE), k=random.choice((0, 1)))
    return [a_message(random, values) for _ in range(4)]


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


@lru_cache(100_000)
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
    """Tell whether null or a list stands in the body where a name has a value already: in a C# type it counts."""
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


class Pairs:
    """Keys and locks seen so far, each with an invocation that had it."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.locks: dict[str, tuple[str, object]] = {}
        self.keys: dict[str, tuple[str, object]] = {}
        self.refused = 0

    def hold(self, declared: Declared, delivered: Delivered) -> None:
        """Hold what both make of an invocation to each other, and to what they made of others."""
        guard, key = guard_of(declared), expected_key(declared, delivered, SETTINGS)
        if guard is None or isinstance(key, CantTell) or (self.layout == "webjobs" and hides_a_value(delivered)):
            return
        lock, this = lock_of(guard, declared, delivered), (declared, delivered)
        if isinstance(key, NoKey) or lock is None:
            assert self.layout == "webjobs" or (isinstance(key, NoKey) and lock is None), (key, lock, this)
            self.refused += 1
            return
        assert self.locks.setdefault(key, (lock, this))[0] == lock, (
            "one key, two locks",
            key,
            lock,
            self.locks[key],
            this,
        )
        if self.layout == "default":
            assert self.keys.setdefault(lock, (key, this))[0] == key, (
                "two keys, one lock",
                key,
                lock,
                self.keys[lock],
                this,
            )


@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=15)
@given(random=st.randoms(use_true_random=False))
def test_one_key_is_one_lock(layout: Layout, random: Random) -> None:
    pairs = Pairs(layout)
    declared = [a_declaration(random, layout) for _ in range(3)]
    for one, delivered in product(declared, some_messages(random)):
        pairs.hold(one, delivered)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_one_key_is_one_lock_among_thousands(layout: Layout) -> None:
    pairs, random = Pairs(layout), Random(f"{layout} {SEED}")
    declared = [a_declaration(random, layout) for _ in range(300)]
    for _ in range(MANY):
        for one, delivered in product(random.sample(declared, 3), some_messages(random)):
            pairs.hold(one, delivered)
    assert len(pairs.locks) > MANY / 10
    assert pairs.refused > MANY / 4
