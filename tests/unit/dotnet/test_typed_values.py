"""Values as the WebJobs SDK prints them into a scope id: a table of what was seen there (W-38, facts §9)."""

from __future__ import annotations

import doctest
import json
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest

from singleton.base.errors import ScopeError
from singleton.base.json_values import read_json
from singleton.dotnet import typed_values
from singleton.dotnet.typed_values import read_date
from singleton.scopes.template import BoundNames, ScopeTemplate, value_at

GUID = "7f2a1c1e-3d0b-4a1e-9a55-1f2f3a4b5c6d"
WHEN = "2026-11-22T10:20:30Z"


class OfTheHost(dict[str, object], BoundNames):
    def is_the_hosts(self, _: str) -> bool:
        return True


def bound(template: str, body: str) -> str:
    data = read_json(body)
    assert isinstance(data, dict)
    return ScopeTemplate(template, dotnet=True).bind({}, data)


def refused(template: str, body: str) -> str:
    with pytest.raises(ScopeError) as caught:
        bound(template, body)
    return str(caught.value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ('"text"', "text"),
        ('"  "', "  "),
        ('""', ""),
        ("419", "419"),
        ("-7", "-7"),
        ("0", "0"),
        ("12345678901234567890", "12345678901234567890"),
        (f'"{GUID}"', GUID),  # the same whether it is a Guid or a string there
        ("null", ""),
        ('{"a": 1}', ""),
        ("[1]", ""),
    ],
)
def test_a_value_is_what_net_makes_of_it(value: str, expected: str) -> None:
    body = f'{{"x": {value}}}'
    assert bound("{x}", body) == expected
    assert bound("a{x}b", body) == f"a{expected}b"
    assert value_at("x", body, dotnet=True) == expected


HEXADECIMAL = "{0x7f2a1c1e,0x3d0b,0x4a1e,{0x9a,0x55,0x1f,0x2f,0x3a,0x4b,0x5c,0x6d}}"
GUIDS = [GUID.upper(), f"{{{GUID}}}", f"({GUID})", GUID.replace("-", ""), f" {GUID} ", HEXADECIMAL]
DATES = [
    *(WHEN, "2026-11-22T10:20:30.5", "2026-11-22T10:20:30+02:00", "2026-11-22", "2026-11-22 10:20", "2026-1-5"),
    "2026-11-22T24:00:00",
    *("2026.11.22", "2026/11/22", "11/22/2026", "22 Nov 2026", "November 22, 2026 9:05 PM", "22-Nov-2026"),
    *("Sun, 22 Nov 2026 10:20:30 GMT", "/Date(1795342830000)/", "2026-Nov-22", "2026-11", "2026/1"),
]
SPANS = ["00:10:00", "-1.02:03:04.5", "10:20", "1:2:3:4"]
PARTS = [
    *("1/2", "3-4", "1 2", "9.10.11", "11/22/26", "Nov 5", "5Nov", "5 PM", "10:20Z", "2026-11-22-05", "3 4 5"),
    *("2026年11月22日", "11月 22日", "10時20分", "2026년 11월 22일"),
    *("Monday 11/30", "2026-11-22T25:00:00"),
]
BOOLEANS = ["true", "True", "FALSE", " false"]
NUMBERS = [" 7", "7 ", "007", "+7", "-0", "1.5", "12.5", "1,000", "1e3", ".5", "NaN", "-Infinity"]


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        (text, "may be a Guid in C#, which .NET prints in another way. In scope_id write {%s:D} if it is a Guid there")
        for text in GUIDS
    ]
    + [(text, "In scope_id write {%s:yyyy-MM-ddTHH-mm-ssK} if it is a DateTime there") for text in DATES]
    + [
        (text, "may be a TimeSpan in C#, for which .NET prints nothing. Leave it out if it is one there")
        for text in SPANS
    ]
    + [(text, "may be a bool in C#, for which .NET prints nothing. Leave it out") for text in BOOLEANS]
    + [(text, "may be a number in C#, which .NET prints in another way. Send plain digits") for text in NUMBERS]
    + [(text, "may be a date in C#, which .NET completes from its clock. Send year, month and day") for text in PARTS],
)
def test_a_text_that_may_be_of_a_type_is_refused_with_the_remedy(text: str, remedy: str) -> None:
    body = json.dumps({"x": text, "Order": {"Key": text}})
    for template, path in (("{x}", "x"), ("{Order.Key}", "Order.Key")):
        said = refused(template, body)
        assert said.startswith(f"scope_id '{template}': the value of {template} may be")
        assert remedy.replace("%s", path) in said
        assert f"{{{path}:text}} if it is a string" in said
        assert text not in said.replace(GUID.lower(), "")
    with pytest.raises(ScopeError, match=r"\{Order\.Key:text\} if it is a string"):
        value_at("Order:Key", body, dotnet=True)


@pytest.mark.parametrize("text", [*GUIDS, *DATES, *SPANS, *BOOLEANS, *NUMBERS, *PARTS])
def test_what_is_said_to_be_text_is_taken_as_it_stands(text: str) -> None:
    body = json.dumps({"x": text})
    assert bound("{x:text}", body) == text
    assert ScopeTemplate("{x:text}").bind({}, json.loads(body)) == text  # in all layouts


@pytest.mark.parametrize(
    "text",
    [
        *("2026-11-22 order 5", "20261122", "2026-13-01", "22/11/2026", "555-1234", "12-34", "2026-0042"),
        *("Order 22 2026", "the 22 Nov 2026", "/Date(x)/", "/Date(999999999999999)/", "10.0.0.1", "1-2-3-4-5"),
        *("November", "Monday", "1/2 a", "A-1", "5A", "1Z", "T12", "00:11:22:33:44:55", "yes", "7f", "- 7", "1 000a"),
        *("7f2a1c1e-3d0b", "{x}", "é😀", "2026-11-2222", "7", "-7", "0"),
    ],
)
def test_other_text_is_taken_as_it_stands(text: str) -> None:
    assert bound("{x}", json.dumps({"x": text})) == text


@pytest.mark.parametrize(
    ("template", "value", "expected"),
    [
        ("{x:yyyy-MM-dd}", WHEN, "2026-11-22"),
        ("{x:yyyy-MM-ddTHH-mm-ssK}", WHEN, "2026-11-22T10-20-30Z"),
        ("{x:yyyy-MM-ddTHH-mm-ssK}", "2026-11-22T10:20:30", "2026-11-22T10-20-30"),
        # a time with an offset is local to .NET's machine, which in Azure is in UTC
        ("{x:yyyy-MM-ddTHH-mm-ssK}", "2026-11-22T10:20:30+00:00", "2026-11-22T10-20-30+00:00"),
        ("{x:yyyy-MM-ddTHH-mm-ssK}", "2026-11-22T00:20:30+02:00", "2026-11-21T22-20-30+00:00"),
        ("{x:yyyyMMdd}", "22 Nov 2026", "20261122"),
        ("{x:yyyy-MM-ddTHH-mm-ssK}", "2026-11-22T24:00:00Z", "2026-11-23T00-00-00Z"),
        *[("{x:D}", text, GUID) for text in GUIDS],
        ("{x:N}", GUID, GUID.replace("-", "")),
        ("{x:N}", 42, "42"),  # whole numbers take no format in .NET
        ("{x:N}", None, ""),
        ("{x:text}", None, ""),
        ("{x:text}", 42, "42"),
    ],
)
def test_a_format_says_of_which_type_the_value_is(template: str, value: object, expected: str) -> None:
    assert bound(template, json.dumps({"x": value})) == expected


@pytest.mark.parametrize(
    ("value", "as_text"),
    [
        *(("true", "true"), ("false", "false"), ("1.5", "1.5"), ("1.50", "1.50"), ("1.0", "1.0"), ("1e3", "1e3")),
        *(("1E-7", "1E-7"), ("-0", "-0"), ("0.1", "0.1")),
    ],
)
def test_a_boolean_or_a_number_that_is_not_whole_is_refused_unless_it_is_said_to_be_text(
    value: str, as_text: str
) -> None:
    for name, body in (("x", f'{{"x": {value}}}'), ("a.x", f'{{"a": {{"x": {value}}}}}')):
        said = refused(f"{{{name}}}", body)
        assert ".NET prints that by its type in C#, which is not known here" in said
        assert f"In scope_id write {{{name}:text}} if it is a string there" in said
        assert bound(f"{{{name}:text}}", body) == as_text
    assert bound("{a.x}|", '{"a": {"x": null}}') == "|"


PRINTED: dict[str, dict[str, str]] = {
    **{
        whole: {"long": whole, "string": whole, "decimal": "", "double": "", "bool": ""}
        for whole in ("7", "0", "-5", "9223372036854775807")
    },
    "65": {"long": "65", "char": "A"},
    "123456789012345678901234567890": {"string": "123456789012345678901234567890", "double": "", "object": ""},
    **{
        number: {"long": rounded, "string": number, "decimal": "", "double": ""}
        for number, rounded in {"1.5": "2", "0.1": "0", "1.0": "1", "1e3": "1000", "1E-7": "0", "-0": "0"}.items()
    },
    "true": {"bool": "", "string": "true", "long": "1"},
    "false": {"bool": "", "string": "false"},
    '"true"': {"bool": "", "string": "true"},
    '"7"': {"long": "7", "string": "7", "decimal": "", "double": "", "TimeSpan": ""},
    **{f'"{text}"': {"long": "7", "int?": "7", "string": text, "decimal": "", "double": ""} for text in (" 7", "007")},
    '"1/2"': {"DateTime": "2026-01-02T00-00-00", "string": "1/2"},
    '"2026-11"': {"DateTime": "2026-11-01T00-00-00", "string": "2026-11"},
    '"green"': {"an enum": "1", "string": "green", "Uri": ""},
    '"http://EXAMPLE.com/a b"': {"Uri": "", "string": "http://EXAMPLE.com/a b"},
}
"""By the value in JSON, what .NET prints for each C# type (facts §11)."""
NOT_TOLD = {"decimal", "double", "char", "bool", "object", "TimeSpan", "an enum", "Uri"}
"""The types for which a value that is taken may be printed in another way: each has a row in docs/layouts.md."""


@pytest.mark.parametrize("value", PRINTED)
def test_a_value_is_refused_or_printed_alike_for_all_types_that_the_page_does_not_except(value: str) -> None:
    by_type = PRINTED[value]
    try:
        ours = bound("{x}", f'{{"x": {value}}}')
    except ScopeError:
        assert len(set(by_type.values())) > 1, "there was no reason to refuse it"
    else:
        assert {kind for kind, text in by_type.items() if text != ours} <= NOT_TOLD


def test_the_page_names_each_type_that_json_does_not_tell() -> None:
    page = (Path(__file__).parents[3] / "docs" / "layouts.md").read_text("utf-8")
    rows = [
        line for line in page.partition("### Values")[2].splitlines() if line.startswith("| ") and "as it is" in line
    ]
    for kind in NOT_TOLD:
        assert any(kind.removeprefix("an ") in row.split("|")[2] for row in rows), kind


def test_a_format_that_does_not_fit_is_refused() -> None:
    assert "is not a GUID or a date that the format 'N' fits" in refused("{x:N}", '{"x": "text"}')
    assert "prints that by its type" in refused("{x:N}", '{"x": true}')


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("Id", GUID.upper(), GUID.upper()),
        ("day", WHEN, WHEN),
        ("DequeueCount", 1, "1"),
        ("InsertionTime", datetime(2026, 11, 22, tzinfo=UTC), ""),  # a DateTimeOffset
        ("EnqueuedTimeUtc", datetime(2026, 11, 22, tzinfo=UTC), "2026-11-22T00-00-00Z"),  # a DateTime
        ("Key", UUID(GUID), GUID),
        ("Flag", True, ""),
        ("Weight", 1.5, ""),
        ("Things", {"a": 1}, ""),
    ],
)
def test_what_comes_from_the_host_is_printed_by_its_type(name: str, value: object, expected: str) -> None:
    assert ScopeTemplate(f"{{{name}}}", dotnet=True).bind({}, OfTheHost({name: value})) == expected


def test_a_scope_may_be_blank_or_nothing() -> None:
    assert ScopeTemplate(" ", dotnet=True).bind({}, {}) == " "
    assert ScopeTemplate("%empty%", dotnet=True).bind({"empty": ""}, {}) == ""


def test_a_missing_name_is_missing() -> None:
    assert "there is no value for {y}" in refused("{y}", '{"x": 1}')
    with pytest.raises(ScopeError, match="has no property 'y'"):
        value_at("y", '{"x": 1}', dotnet=True)


def test_a_date_is_read_with_its_zone() -> None:
    assert read_date("/Date(1795342830000+0200)/") == read_date("/Date(1795342830000)/") == read_date(WHEN)
    assert read_date("Nov 22, 2026 12:05 AM") == datetime(2026, 11, 22, 0, 5)  # noqa: DTZ001
    assert read_date("2026-11-22T10:20:30.1234567") == datetime(2026, 11, 22, 10, 20, 30, 123456)  # noqa: DTZ001
    assert doctest.testmod(typed_values).failed == 0
