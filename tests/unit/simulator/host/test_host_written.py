"""The queue messages that the host writes for what the worker sends (H-87)."""

from __future__ import annotations

import json
import math
import os
import time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.host.triggers.jsonnet import plain, read, write
from simulator.host.triggers.outputs import DataKind, Typed, written

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def utc() -> Iterator[None]:
    before = os.environ.get("TZ")
    os.environ["TZ"] = "UTC"
    time.tzset()
    yield
    os.environ.pop("TZ")
    if before is not None:
        os.environ["TZ"] = before
    time.tzset()


@pytest.mark.parametrize(
    ("kind", "value", "bodies"),
    [
        ("string", "text", ["text"]),
        ("string", "", [""]),
        ("string", '"quoted"', ['"quoted"']),
        ("string", "1.10", ["1.10"]),
        ("string", "{half]", ["{half]"]),
        ("string", '{"a":1.10}', ['{\n  "a": 1.1\n}']),
        ("string", "  {'a': 'it\\'s'} ", ['{\n  "a": "it\'s"\n}']),
        ("string", '{"a": 1, "b": 2, "a": 3}', ['{\n  "a": 3,\n  "b": 2\n}']),
        ("string", '{"t": "2026-11-22T12:30:00+02:00"}', ['{\n  "t": "2026-11-22T10:30:00+00:00"\n}']),
        ("string", '{"t": "2026-11-22T12:30:00.120Z"}', ['{\n  "t": "2026-11-22T12:30:00.12Z"\n}']),
        ("string", '{"t": "2026-11-22T12:30:00"}', ['{\n  "t": "2026-11-22T12:30:00"\n}']),
        ("string", '{"t": "2026-11-22"}', ['{\n  "t": "2026-11-22"\n}']),
        ("string", '["a", "b"]', ["a", "b"]),
        ("string", "[]", []),
        ("string", '[1.0, true, null, {"a": []}]', ["1", "True", "", '{\n  "a": []\n}']),
        ("string", '["2026-11-22T12:30:00Z"]', ["11/22/2026 12:30:00"]),
        ("json", '{"id": null, "body": "b"}', ['{\n  "id": null,\n  "body": "b"\n}']),
        ("json", '["a", "2026-11-22T12:30:00Z", "{}"]', ["a", "2026-11-22T12:30:00Z", "{}"]),
        ("json", '{"t": "2026-11-22T12:30:00+02:00"}', ['{\n  "t": "2026-11-22T12:30:00+02:00"\n}']),
        ("int", 7, ["7"]),
        ("double", 1.0, ["1"]),
        ("double", 1e-7, ["1E-07"]),
    ],
)  # fmt: skip
def test_what_is_written(kind: DataKind, value: Any, bodies: list[str]) -> None:
    assert written(Typed(kind, value)) == [body.encode() for body in bodies]


def test_bytes_stay_as_they_are() -> None:
    assert written(Typed("bytes", b'["\xff"]')) == [b'["\xff"]']


@pytest.mark.parametrize("text", ["{hello}", "[hello]", "[1 2]", "{}{}", "[" * 65 + "]" * 65, r'["\x"]'])
def test_text_that_looks_like_json_and_is_none_fails(text: str) -> None:
    with pytest.raises(ValueError, match="must be JSON"):
        written(Typed("string", text))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("{a: 1, $b_1: 2,}", '{\n  "a": 1,\n  "$b_1": 2\n}'),
        ("[1,,2,]", "[\n  1,\n  undefined,\n  2\n]"),
        ("[/* one */ 1, // two\n 2]", "[\n  1,\n  2\n]"),
        ("[0x1F, 017, .5, -0, 1e5, 1.0]", "[\n  31,\n  15,\n  0.5,\n  0,\n  100000.0,\n  1.0\n]"),
        ("[1e14, 1234567890123456.0]", "[\n  100000000000000.0,\n  1234567890123456.0\n]"),
        ("[0.0001, 0.00001, 12e-7]", "[\n  0.0001,\n  1E-05,\n  1.2E-06\n]"),
        ("[NaN, -Infinity, undefined]", '[\n  "NaN",\n  "-Infinity",\n  undefined\n]'),
        ("[1e15, 123456789012345678901234567890]", "[\n  1E+15,\n  123456789012345678901234567890\n]"),
        (r'["\u00e9\ud83d\ude00\ud800\u2028\u0001\t"]', '[\n  "é😀\ufffd\\u2028\\u0001\\t"\n]'),
    ],
)
def test_more_than_json_is_read_and_json_is_written(text: str, shown: str) -> None:
    assert write(read(text, dates=True)) == shown


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_what_python_writes_comes_through_with_the_same_meaning(value: Any) -> None:
    assert json.loads(write(read(json.dumps(value), dates=False))) == value


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_keep_their_value(number: float) -> None:
    assert float(plain(number)) == number
    assert math.copysign(1, float(plain(number))) == math.copysign(1, number)
