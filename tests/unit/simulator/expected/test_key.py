"""The expected key, case by case (W-28 to W-44, D-10 to D-18, H-47, H-80)."""

from __future__ import annotations

import doctest
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from simulator.expected import key as module
from simulator.expected.key import Declared, Delivered, expected_key
from simulator.expected.values import CantTell, NoKey
from tests.worlds.deployments import blob_names

SETTINGS = {"REGION": "north", "Orders__Name": "{Zone}", "FIELD": "Id", "EMPTY": "", "PERCENT": "%REGION%"}
OWN = {
    "Id": "m-1",
    "DequeueCount": 2,
    "PopReceipt": "pop",
    "InsertionTime": datetime(2026, 11, 28, 12, 0, 5, 90_000, tzinfo=UTC),
    "ExpirationTime": None,
}
GUID = "7F2A1C1E-3d0b-4a1e-9a55-1f2f3a4b5c6d"
TIMER = Delivered(trigger="timerTrigger", parameter="timer")


def message(body: bytes | str, **changes: Any) -> Delivered:
    text = body.encode() if isinstance(body, str) else body
    return Delivered(**{"trigger": "queueTrigger", "parameter": "msg", "body": text, "own": OWN} | changes)


def key(delivered: Delivered = TIMER, **declared: Any) -> str | NoKey | CantTell:
    return expected_key(Declared(**{"function": "ship", "host_id": "app"} | declared), delivered, SETTINGS)


def parts(delivered: Delivered = TIMER, **declared: Any) -> list[str]:
    found = key(delivered, **declared)
    assert isinstance(found, str), found
    return list(json.loads(found))


def value(delivered: Delivered, **declared: Any) -> str:
    place, host, whose, function, text = parts(delivered, **declared)
    assert [place, host, whose, function] == ["default", "app", "function", "ship"]
    return text


BODY = '{"Id": 1.0, "Zone": "north", "Order": {"Id": "o-1"}, "Zip": 1, "zip": 2}'


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ({}, ["default", "app", "function", "ship"]),  # W-28
        ({"scope": "Id"}, ["default", "app", "function", "ship", "1.0"]),  # W-29
        ({"scope": "Zone", "level": "host"}, ["default", "app", "host", "north"]),  # W-30
        ({"scope_id": "{zone}", "level": "host"}, ["default", "app", "host", "north"]),
        ({"scope_id": "{Zone}", "scope": "Order:Id"}, ["default", "app", "function", "ship", "north", "o-1"]),
        ({"mode": "listener"}, ["default", "app", "listener", "ship"]),  # W-15
        ({"mode": "listener", "scope_id": "%REGION%"}, ["default", "app", "listener", "ship", "north"]),  # W-44
        ({"layout": "webjobs", "scope": "Zone"}, ["webjobs", "app", "function", "ship", "north"]),
        ({"layout": "webjobs", "scope": "Zip", "scope_id": "{Zip}"}, ["webjobs", "app", "function", "ship", "2", "2"]),
        ({"layout": "dequeueable", "scope": "Zone"}, ["dequeueable", "north"]),  # D-18
        ({"layout": "dequeueable", "scope_id": "{Zone}/x", "level": "host"}, ["dequeueable", "north/x"]),
    ],
)
def test_a_key_says_whose_lock_it_is_and_which_values_name_it(declared: dict[str, Any], expected: list[str]) -> None:
    assert parts(message(BODY), **declared) == expected


def test_the_scope_of_dequeueable_may_be_in_its_section() -> None:
    """D-1."""
    declared = Declared(function="ship", host_id="app", layout="dequeueable")
    settings = {"dequeueable:Singleton__SCOPE": "Order:Id"}
    assert expected_key(declared, message(BODY), settings) == '["dequeueable", "o-1"]'


@pytest.mark.parametrize(
    ("spelt", "expected"),
    [
        ("1", "1"),
        ("1.0", "1.0"),
        ("1e3", "1e3"),
        ("1E+2", "1E+2"),
        ("-0", "-0"),
        ("9" * 5000, "9" * 5000),
        ("true", "True"),
        ("false", "False"),
        ('"a"', "a"),
        ('"\\u0061"', "a"),
        ('"a\\/b"', "a/b"),
        ('" padded "', " padded "),
        ('"\\ud83d\\ude00"', "😀"),
        ('"{Id}%REGION%"', "{Id}%REGION%"),
    ],
)
@pytest.mark.parametrize("declared", [{"scope": "N"}, {"scope_id": "{n}"}])
def test_a_value_of_json_is_its_text_and_a_number_as_it_is_spelt(
    spelt: str, expected: str, declared: dict[str, str]
) -> None:
    """D-11."""
    assert value(message(f'{{"N": {spelt}}}'), **declared) == expected


@pytest.mark.parametrize(
    ("scope", "body", "expected"),
    [
        ("My:Nested:Property", '{"My": {"Nested": {"Property": 1}}}', "1"),
        ("Id", '{"id": 1, "Id": 2, "ID": 3}', "2"),
        ("Id", '{"Id": 1, "Id": 2}', "2"),
        ("a.b", '{"a.b": 1}', "1"),
        ("É", '\ufeff{"\\u00c9": 1}', "1"),
    ],
)
def test_a_path_walks_into_objects_and_case_counts(scope: str, body: str, expected: str) -> None:
    """D-10."""
    assert value(message(body), scope=scope) == expected


@pytest.mark.parametrize(
    ("scope_id", "body", "expected"),
    [
        ("x", "", "x"),
        ("%region%-{Zone}", BODY, "north-north"),
        ("%Orders:Name%", BODY, "north"),
        ("{%FIELD%}", BODY, "1.0"),
        ("%PERCENT%", BODY, "%REGION%"),
        ("{{Id}}", BODY, "{Id}"),
        ("{{{Id}}}", BODY, "{1.0}"),
        ("{Order.iD}", BODY, "o-1"),
        ("{o.Id}", '{"o": {"ID": 1, "Id": 2, "id": 3}}', "2"),
        ("{o.iD}", '{"o": {"ID": 1, "Id": 2}}', "1"),
        ("{o.x-y.1}", '{"o": {"x-y": {"1": "z"}}}', "z"),
        ("a{x}b", '{"x": null}', "ab"),
        ("{id}", '{"ID": 1, "iD": 1}', "1"),
        ("{id}", '{"ID": null, "iD": 2}', "2"),
        ("{Id}", "{}", "m-1"),
        ("{Id}", "no JSON", "m-1"),
        ("{DequeueCount}", '{"dequeuecount": 7}', "7"),
        ("{Id}", '{"Id": null}', "m-1"),  # H-80
        ("{Id}", '{"iD": [1]}', "m-1"),
        ("{DEQUEUECOUNT}", "[1]", "2"),
        ("{QueueTrigger}", "some text", "some text"),
        ("{QueueTrigger}", '{"QueueTrigger": "x"}', "x"),
        ("{InsertionTime}", "{}", "2026-11-28T12-00-05Z"),
        ("{InsertionTime:yyyyMMdd}", "{}", "20261128"),
        ("{InsertionTime: }", "{}", "2026-11-28T12-00-05Z"),
        ("{DateTime}", '{"DateTime": "x"}', "x"),  # W-42
    ],
)
def test_a_template_is_filled_from_settings_and_then_from_names(scope_id: str, body: str, expected: str) -> None:
    assert value(message(body), scope_id=scope_id) == expected


def test_with_data_type_binary_a_body_replaces_no_name_of_the_messages_own() -> None:
    """H-80."""
    assert value(message('{"Id": 5, "Zone": 1}', binary=True), scope_id="{Id}-{Zone}") == "m-1-1"


def test_a_function_that_takes_the_bare_text_is_told_the_text_alone() -> None:
    bare = message("some text", own=None)
    assert value(bare, scope_id="{msg}|{DATA}|{QueueTrigger}") == "some text|some text|some text"
    assert isinstance(key(bare, scope_id="{Id}"), NoKey)
    assert isinstance(key(message("some text", own=None, binary=True), scope_id="{data}"), NoKey)


@pytest.mark.parametrize(
    ("text", "pattern", "expected"),
    [
        (GUID, "N", "7f2a1c1e3d0b4a1e9a551f2f3a4b5c6d"),
        (GUID, "D", GUID.lower()),
        (f"{{{GUID}}}", "B", f"{{{GUID.lower()}}}"),
        (f"({GUID})", "N", "7f2a1c1e3d0b4a1e9a551f2f3a4b5c6d"),
        (GUID.replace("-", ""), "P", f"({GUID.lower()})"),
        ("2021-03-04T05:06:07.0891234Z", "yyyyMMdd'T'HHmm", "20210304T0506"),
        ("2021-03-04T15:06:07.0891234Z", "o", "2021-03-04T15:06:07.0891234Z"),
        ("2021-03-04 15:06", "h:m:s tt K", "3:6:0 PM "),
        ("2021-03-04T00:06:07-03:30", "hh ddd d MMM z zz zzz K", "12 Thu 4 Mar -3 -03 -03:30 -03:30"),
        ("2021-03-04", "D", "Thursday, 04 March 2021"),
        ("2021-03-04", 'yy"yy"/', "21yy/"),
    ],
)
def test_guids_and_dates_take_the_formats_of_dotnet(text: str, pattern: str, expected: str) -> None:
    assert value(message(json.dumps({"x": text})), scope_id=f"{{x:{pattern}}}") == expected


@pytest.mark.parametrize(
    ("declared", "body", "reason"),
    [
        ({"scope": "Id"}, "", "no JSON"),  # D-15
        ({"scope": "Id"}, "{'Id': 1}", "no JSON"),
        ({"scope": "Id"}, '{"Id": NaN}', "no JSON"),
        ({"scope": "Id"}, b'{"Id": "\xff"}', "no JSON"),
        ({"scope": "Id"}, '{"Id": 1}'.encode("utf-16"), "no JSON"),
        ({"scope": "Id"}, "{}", "no such property"),  # D-13
        ({"scope": "Id"}, '{"id": 1}', "no such property"),
        ({"scope": "Id"}, '[{"Id": 1}]', "no such property"),
        ({"scope": "a:0"}, '{"a": [1]}', "no such property"),
        ({"scope": "a:b"}, '{"a": null}', "no such property"),
        ({"scope": "Id"}, '{"Id": null}', "comes to nothing"),  # D-14
        ({"scope": "Id"}, '{"Id": " \\t"}', "comes to nothing"),
        ({"scope": "Id"}, '{"Id": {}}', "an object or a list"),  # D-12
        ({"scope": "Id"}, '{"Id": [1]}', "an object or a list"),
        ({"scope": "a::b"}, "{}", "blank segment"),  # D-16
        ({"scope_id": "{Zone}"}, "{}", "no value for {Zone}"),  # W-39
        ({"scope_id": "{Id}"}, '{"id": 1, "Id": 2}', "two spellings"),
        ({"scope_id": "{ExpirationTime}"}, "{}", "no value for {ExpirationTime}"),
        ({"scope_id": "{DateTime}"}, "{}", "no value for {DateTime}"),  # W-42
        ({"scope_id": "{rand-guid}"}, "{}", "names no property"),
        ({"scope_id": "{sys.utcnow}"}, "{}", "no value for {sys}"),
        ({"scope_id": "{a.b}"}, '{"a": {}}', "no property 'b'"),
        ({"scope_id": "{a.b}"}, '{"a": "b"}', "no property 'b'"),
        ({"scope_id": "{a}"}, '{"a": null}', "comes to nothing"),
        ({"scope_id": "{a} "}, '{"a": ""}', "comes to nothing"),
        ({"scope_id": "{a}"}, '{"a": [1]}', "an object or a list"),
        ({"scope_id": "%EMPTY%"}, "{}", "comes to nothing"),
        ({"scope_id": "%NOPE%"}, "{}", "no app setting 'NOPE'"),  # W-41
        ({"scope_id": "%%"}, "{}", "no app setting"),
        ({"scope_id": "a%b"}, "{}", "% without another"),
        ({"scope_id": "{}"}, "{}", "names no property"),  # W-40
        ({"scope_id": "{a"}, "{}", "bracket without another"),
        ({"scope_id": "{Id}}"}, "{}", "bracket without another"),
        ({"scope_id": "{1a}"}, "{}", "names no property"),
        ({"scope_id": "{a..b}"}, "{}", "names no property"),
        ({"scope_id": "{a:N}"}, '{"a": "text"}', "nothing for the format"),
        ({"scope_id": "{a:N}"}, '{"a": "2021-03-04"}', "nothing for the format"),
        ({"scope_id": "{a:yyyy}"}, f'{{"a": "{GUID}"}}', "no format"),
        ({"scope_id": "{a:yyyy}"}, '{"a": 20210304}', "nothing for the format"),
        ({"scope_id": "{a:N}"}, f'{{"a": {"1" * 32}}}', "nothing for the format"),
        ({"scope_id": "{DequeueCount:N}"}, "{}", "nothing for the format"),
        ({"level": "host"}, "{}", "needs a scope"),  # W-10
        ({"mode": "listener", "scope": "Id"}, '{"Id": 1}', "a listener has neither"),  # W-11
        ({"mode": "listener", "level": "host", "scope_id": "x"}, "{}", "a listener has neither"),
        ({"mode": "listener", "scope_id": "%Orders:Name%"}, '{"Zone": 1}', "means nothing to a listener"),
        ({"host_id": " "}, "{}", "no host id"),  # W-31
        ({"layout": "dequeueable"}, "{}", "one value"),
        ({"layout": "dequeueable", "scope": "Id", "scope_id": "x"}, "{}", "one value"),
        *(
            ({"layout": "dequeueable", "scope": "Id"}, json.dumps({"Id": name}), "no name of a blob")
            for name in ("a\\b", "/a", "a/", "a.", "a./b", "a\x01", "x" * 1025, "a/" * 254 + "a", "locks/a", "\ud83d")
        ),
    ],
)
def test_where_the_invocation_fails_there_is_no_key(declared: dict[str, Any], body: bytes | str, reason: str) -> None:
    found = key(message(body), **declared)
    assert isinstance(found, NoKey)
    assert reason in found.reason


def test_a_timer_has_no_payload() -> None:
    assert value(TIMER, scope_id="%REGION%-x") == "north-x"
    for declared in ({"scope": "Id"}, {"scope_id": "{Id}"}):
        assert key(TIMER, **declared) == NoKey("a timer has no payload")


@pytest.mark.parametrize("declared", [{"scope": "Id"}, {"scope_id": "{Id}"}])
def test_one_lock_stands_for_no_list_of_several_messages(declared: dict[str, str]) -> None:
    listed = Delivered(trigger="", several=True)
    assert key(listed, **declared) == NoKey("one lock can't stand for many messages")
    assert parts(listed) == ["default", "app", "function", "ship"]


@pytest.mark.parametrize("declared", [{"scope": "Id"}, {"scope_id": "{Id}"}])
def test_payloads_of_other_triggers_are_not_read_but_locks_without_one_are_told(declared: dict[str, str]) -> None:
    request = Delivered(trigger="kafkaTrigger", parameter="event", body='{"Id": 1}')
    assert key(request, **declared) == CantTell("payloads of a kafkaTrigger are not read here")
    assert parts(request) == ["default", "app", "function", "ship"]
    assert value(request, scope_id="x") == "x"


@pytest.mark.parametrize(
    ("declared", "body"),
    [
        ({"scope": "Id"}, "[" * 100_000),
        ({"scope_id": "{a:yyyy}"}, '{"a": "20210304"}'),
        ({"scope_id": "{a:yyyy}"}, '{"a": "2021-02-30"}'),
        ({"scope_id": "{a:YYYY}"}, '{"a": "2021-02-03"}'),
        ({"scope_id": "{a:t}"}, '{"a": "2021-02-03"}'),
        ({"scope_id": "{a:yy\\}"}, '{"a": "2021-02-03"}'),
        ({"layout": "webjobs", "scope": "a"}, '{"a": true}'),
        ({"layout": "webjobs", "scope_id": "x{a}"}, '{"a": 1.5}'),
        ({"layout": "webjobs", "scope_id": "x{a}"}, '{"a": null}'),
        ({"layout": "webjobs", "scope_id": "{a}"}, '{"a": ""}'),
    ],
)
def test_what_is_not_read_here_is_said(declared: dict[str, Any], body: str) -> None:
    assert isinstance(key(message(body), **declared), CantTell)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('"\\ud83d"', '"\\\\ud83d"'),
        ('"\\ud83d"', '"\\ude00"'),
        ('"a\\",\\"b"', '"a"'),
        ('"1"', '"1 "'),
        ('"e\\u0301"', '"\\u00e9"'),
        ('"A"', '"a"'),
    ],
)
def test_different_values_have_different_keys_that_can_be_written_down(one: str, other: str) -> None:
    keys = [key(message(f'{{"Id": {spelt}}}'), scope="Id") for spelt in (one, other)]
    assert keys[0] != keys[1]
    assert all(isinstance(found, str) and found.encode() for found in keys)


def test_two_halves_put_together_are_not_the_whole() -> None:
    """As Python has it, and so the product: in .NET they are one text."""
    halves = key(message('{"a": "\\ud83d", "b": "\\ude00"}'), scope_id="{a}{b}")
    assert halves != key(message('{"a": "😀"}'), scope_id="{a}")


def test_the_examples_are_right() -> None:
    assert doctest.testmod(module) == doctest.testmod(blob_names) == (0, 2)
