"""``scope_id``: WebJobs templates (W-35 to W-44)."""

from __future__ import annotations

import doctest
from collections import UserDict
from datetime import UTC, date, datetime, timedelta, timezone
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from singleton.base.errors import ConfigurationError, ScopeError
from singleton.base.json_values import NumberText, read_json
from singleton.scopes import template
from singleton.scopes.template import ScopeTemplate

GUID = UUID("7f2a1c1e-3d0b-4a1e-9a55-1f2f3a4b5c6d")
WHEN = datetime(2021, 3, 4, 5, 6, 7, 89_000, tzinfo=UTC)
SETTINGS = {
    "var1": "Value1",
    "var2": "Value2",
    "brace": "{P1}",
    "half": "{P1",
    "empty": "",
    "Case": "c",
    "percent": "%x%",
}
DATA = {"P1": "Test1", "P2": "Test2"}


def declaration_error(text: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        ScopeTemplate(text)
    return str(caught.value)


def bind_error(text: str, data: dict[str, object] | None) -> ScopeError:
    bound = ScopeTemplate(text)
    with pytest.raises(ScopeError) as caught:
        bound.bind(SETTINGS, data)
    return caught.value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),  # W-37
        ("scope", "scope"),
        ("scope{P1}", "scopeTest1"),
        ("scope:{P1}-{P2}", "scope:Test1-Test2"),
        ("%var1%", "Value1"),
        ("{P1}%var2%{P2}%var1%", "Test1Value2Test2Value1"),
        ("%brace%", "Test1"),  # W-35: settings first, over the whole text
        ("{%var1%}", "a name that a setting completes"),
        ("%percent%", "%x%"),  # once only
        ("%CASE%", "c"),
        ("{{P1}}", "{P1}"),  # W-40
        ("{{{P1}}}", "{Test1}"),
        ("{{}}", "{}"),
        ("a}}b{{c", "a}b{c"),
        ("{P1}{P1}", "Test1Test1"),
    ],
)
def test_a_template_is_filled_from_settings_then_from_binding_data(text: str, expected: str) -> None:
    data = DATA | {"Value1": "a name that a setting completes"}
    assert ScopeTemplate(text).bind(SETTINGS, data) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", ""), ("scope", "scope"), ("{P1}-%var1%", "{P1}-Value1"), ("{{x}}", "{{x}}"), ("%half%", "{P1")],
)
def test_without_binding_data_placeholders_are_left_as_they_are(text: str, expected: str) -> None:
    """W-36, W-44."""
    assert ScopeTemplate(text).bind(SETTINGS, None) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("text", "text"),
        (7, "7"),
        (-1, "-1"),
        (GUID, "7f2a1c1e-3d0b-4a1e-9a55-1f2f3a4b5c6d"),
        (WHEN, "2021-03-04T05-06-07Z"),
        (WHEN.replace(tzinfo=None), "2021-03-04T05-06-07"),
        (WHEN.astimezone(timezone(timedelta(hours=-3, minutes=-30))), "2021-03-04T01-36-07-03:30"),
        (date(2021, 3, 4), "2021-03-04T00-00-00"),
        (None, ""),
        (True, "True"),  # ours: WebJobs prints nothing for plain booleans and floats
        (False, "False"),
        (1.5, "1.5"),
        (read_json("1.50"), "1.50"),
        ("{P1}%var1%", "{P1}%var1%"),
    ],
)
def test_a_value_is_printed_the_same_everywhere(value: object, expected: str) -> None:
    """W-38."""
    assert ScopeTemplate("a{x}b").bind(SETTINGS, {"x": value}) == f"a{expected}b"


def test_a_backslash_stays_one() -> None:
    """W-38; the blob's name percent-encodes it (W-43)."""
    assert ScopeTemplate("{Region}\\{Zone}").bind({}, {"Region": "testregion", "Zone": 1}) == "testregion\\1"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{a.prop}", "bar"),
        ("{a.pRop}", "bar"),
        ("{a.x-header}", "header"),
        ("{a.b.c}", "1"),
        ("x{a.null}", "x"),
        ("{a.1}", "one"),
    ],
)
def test_a_dotted_name_walks_into_objects_ignoring_case(text: str, expected: str) -> None:
    """W-40."""
    inner = {"prop": "bar", "PROP2": "x", "x-header": "header", "null": None, "b": UserDict(C=1), "1": "one"}
    assert ScopeTemplate(text).bind({}, {"a": inner}) == expected


def test_an_exact_name_wins_over_one_of_other_case() -> None:
    assert ScopeTemplate("{a.Id}").bind({}, {"a": {"ID": 1, "Id": 2, "id": 3}}) == "2"


def test_the_first_name_is_matched_as_the_mapping_matches_it() -> None:
    assert bind_error("{p1}", dict(DATA)).reason == "missing"

    class IgnoringCase(UserDict[str, object]):
        def __getitem__(self, key: str) -> object:
            return self.data[key.upper()]

    assert ScopeTemplate("{p1}").bind({}, IgnoringCase(P1=1)) == "1"


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("", ()),
        ("x%var1%{{y}}", ()),
        ("{P1}-{P2}-{P1}", ("P1", "P2")),
        ("{a.b.c}{a.d:yyyy}", ("a.b.c", "a.d")),
        ("{%var1%}{P1}{a.%var2%}", ("P1",)),
    ],
)
def test_a_template_tells_what_it_needs(text: str, paths: tuple[str, ...]) -> None:
    assert ScopeTemplate(text).paths == paths
    assert repr(ScopeTemplate(text)) == f"ScopeTemplate({text!r})"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a{}b", "scope_id 'a{}b': the placeholder at character 2 is empty"),
        ("a{b", "the { at character 2 has no closing bracket }"),
        ("a{b{c}", "the { at character 2 has no closing bracket }"),
        ("{", "the { at character 1 has no closing bracket }"),
        ("ab}", "the } at character 3 has no opening bracket {"),
        ("{a}}", "the } at character 4 has no opening bracket {"),
        ("{{a}", "the } at character 4 has no opening bracket {"),
        ("{ a }", "' a ' at character 2 is not a property name"),
        ("{1a}", "'1a' at character 2 is not a property name"),
        ("{a-b}", "'a-b' at character 2 is not a property name"),
        ("{a..b}", "'a..b' at character 2 is not a property name"),
        ("{.a}", "'.a' at character 2 is not a property name"),
        ("{a.}", "'a.' at character 2 is not a property name"),
        ("{a.b c}", "'a.b c' at character 2 is not a property name"),
        ("{:N}", "'' at character 2 is not a property name"),
        ("{rand-guid}", "{rand-guid} makes a new scope at each invocation"),  # W-42
        ("x-{RAND-GUID:N}", "{rand-guid} makes a new scope at each invocation"),
        ("a%b", "the % at character 2 has no closing %"),  # W-41
        ("%a%%", "the % at character 4 has no closing %"),
        ("%%", "%% names no setting"),
        ("  ", "scope_id is blank"),
        ("{x:YYYYMMdd}", "'YYYY' in the format 'YYYYMMdd' is not known"),
        ("{x:X}", "'X' in the format 'X' is not known"),
        ("{x:q}", "'q' in the format 'q' is not known"),
        ("{x:yyyy 'o}", "has a quote that isn't closed"),
        (None, "scope_id is None"),
        (5, "scope_id is 5"),
    ],
)
def test_a_template_that_breaks_the_grammar_is_refused_where_it_is_declared(text: str, expected: str) -> None:
    """W-40."""
    assert expected in declaration_error(text)


@pytest.mark.parametrize(
    ("text", "data", "expected"),
    [
        ("{Region}{Zone}", {"Region": "x"}, "no value for {Zone}; the binding data has 'Region'"),  # W-39
        ("{Zone}", {}, "no value for {Zone}; the binding data has none"),
        (
            "{a.missing}",
            {"a": {"p": 1}},
            "{a.missing}: the part before 'missing' has no property 'missing'; it has 'p'",
        ),
        ("{a.b}", {"a": "secret"}, "the part before 'b' is text, which has no property 'b'"),
        ("{a.b}", {"a": None}, "the part before 'b' is null, which has no property 'b'"),
        ("{a.b}", {"a": [1]}, "the part before 'b' is a list"),
        ("{a}", {"a": {"p": 1}}, "the value of {a} is an object: it must be text"),  # W-38
        ("{a}", {"a": [1]}, "the value of {a} is a list: it must be text"),
        ("{a}", {"a": b"x"}, "the value of {a} is of type bytes"),
        ("{a}", {"a": float("nan")}, "the value of {a} is of type float"),
        ("{a:N}", {"a": "secret"}, "is not a GUID or a date that the format 'N' fits"),
        ("{a:N}", {"a": WHEN}, "is not a GUID or a date that the format 'N' fits"),
        ("{a:yyyy}", {"a": GUID}, "is not a GUID or a date that the format 'yyyy' fits"),
        ("{a:yyyy}", {"a": 5}, "is not a GUID or a date that the format 'yyyy' fits"),
        ("{a:yyyy}", {"a": NumberText("20210304")}, "is not a GUID or a date that the format 'yyyy' fits"),
        ("{a:N}", {"a": NumberText("1" * 32)}, "is not a GUID or a date that the format 'N' fits"),
        ("{DateTime}", {"a": 1}, "WebJobs fills in such a name, this doesn't"),  # W-42
        ("{sys.randguid}", {"a": 1}, "WebJobs fills in such a name, this doesn't"),
        ("{a}", {"a": None}, "is empty"),
        ("{a} {b}", {"a": None, "b": ""}, "is empty"),
        ("%empty%", {}, "is empty"),
        ("%empty%", None, "is empty"),
    ],
)
def test_data_that_does_not_fill_the_template_is_refused(
    text: str, data: dict[str, object] | None, expected: str
) -> None:
    error = bind_error(text, data)
    assert expected in str(error)
    assert str(error).startswith(f"scope_id {text!r}")
    assert "secret" not in str(error)


def test_binding_data_wins_over_a_built_in_of_its_name() -> None:
    """W-42."""
    assert ScopeTemplate("{DateTime}{sys.randguid}").bind({}, {"DateTime": "x", "sys": {"RandGuid": "y"}}) == "xy"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%missing%", "there is no app setting missing for %missing%: set it"),  # W-41
        ("%half%", "its settings filled in,: the { at character 1 has no closing bracket }"),
    ],
)
def test_a_setting_that_is_missing_or_breaks_the_template_is_a_configuration_error(text: str, expected: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        ScopeTemplate(text).bind(SETTINGS, {})
    assert expected in str(caught.value)


def test_what_a_setting_holds_is_not_printed() -> None:
    with pytest.raises(ConfigurationError) as caught:
        ScopeTemplate("%key%").bind({"key": "hush}hush"}, {})
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("given_as", [GUID, str(GUID), GUID.hex.upper(), f"({GUID})", f"{{{GUID}}}"])
@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("N", "7f2a1c1e3d0b4a1e9a551f2f3a4b5c6d"),
        ("D", "7f2a1c1e-3d0b-4a1e-9a55-1f2f3a4b5c6d"),
        ("B", "{7f2a1c1e-3d0b-4a1e-9a55-1f2f3a4b5c6d}"),
        ("P", "(7f2a1c1e-3d0b-4a1e-9a55-1f2f3a4b5c6d)"),
    ],
)
def test_a_guid_takes_the_formats_of_dotnet(given_as: object, pattern: str, expected: str) -> None:
    """W-40."""
    assert ScopeTemplate(f"{{g:{pattern}}}").bind({}, {"g": given_as}) == expected


@pytest.mark.parametrize("given_as", [WHEN, "2021-03-04T05:06:07.089Z"])
@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("yyyyMMdd", "20210304"),
        ("yyyy-MM-ddTHH:mm:ss.fffZ", "2021-03-04T05:06:07.089Z"),
        ("yy/M/d h:m:s tt", "21/3/4 5:6:7 AM"),
        ("dddd dd MMMM, ddd MMM", "Thursday 04 March, Thu Mar"),
        ("HHmm'h of' yyyy", "0506h of 2021"),
        ("H:mm K", "5:06 Z"),
        ("zzz zz z", "+00:00 +00 +0"),
        ("hh fffffff", "05 0890000"),
        ("d", "03/04/2021"),
        ("D", "Thursday, 04 March 2021"),
        ("s", "2021-03-04T05:06:07"),
        ("o", "2021-03-04T05:06:07.0890000Z"),
        (" ", "2021-03-04T05-06-07Z"),
    ],
)
def test_a_date_takes_the_formats_of_dotnet(given_as: object, pattern: str, expected: str) -> None:
    """W-40."""
    if pattern == " " and isinstance(given_as, str):
        expected = given_as  # a blank format is none, and text is printed as it is
    assert ScopeTemplate(f"{{when:{pattern}}}").bind({}, {"when": given_as}) == expected


def test_seconds_have_seven_digits_as_in_dotnet() -> None:
    text = "2021-03-04T05:06:07.1234567Z"
    for layout in (ScopeTemplate("{x:fffffff}"), ScopeTemplate("{x:fffffff}", dotnet=True)):
        assert layout.bind({}, {"x": text}) == "1234567"
    assert ScopeTemplate("{x:o}").bind({}, {"x": text}) == text


def test_an_offset_is_printed_with_its_sign_and_noon_is_pm() -> None:
    when = WHEN.astimezone(timezone(timedelta(hours=-16, minutes=-30)))
    assert ScopeTemplate("{w:hh tt zzz z}").bind({}, {"w": when}) == "12 PM -16:30 -16"


@settings(max_examples=300)
@given(st.text(alphabet="a.{}%:-N ", max_size=12) | st.text(max_size=30))
def test_any_text_is_a_template_or_refused_as_configuration(text: str) -> None:
    try:
        bound = ScopeTemplate(text).bind({"a": "x"}, {"a": {"a": "y"}})
    except (ConfigurationError, ScopeError):
        return
    assert bound.strip() or not text


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.uuids()
    | st.datetimes()
    | st.binary(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "b", "A"]), inner, max_size=2),
    max_leaves=6,
)


@settings(max_examples=200)
@given(
    st.sampled_from(["{a}", "{a.b}", "{a:N}", "{a:yyyyMMdd}", "{a.b:D}"]),
    st.dictionaries(st.sampled_from(["a", "b"]), VALUES),
)
def test_any_data_fills_a_template_or_is_refused_as_a_scope(text: str, data: dict[str, object]) -> None:
    try:
        bound = ScopeTemplate(text).bind({}, data)
    except ScopeError:
        return
    assert bound.strip()


@given(st.text(max_size=50))
def test_braces_that_are_doubled_come_out_as_they_went_in(text: str) -> None:
    if "%" in text or not text.strip():
        return
    assert ScopeTemplate(text.replace("{", "{{").replace("}", "}}")).bind({}, {}) == text


@given(st.text(min_size=1, max_size=50))
def test_what_data_holds_is_never_taken_for_a_template(text: str) -> None:
    assert ScopeTemplate("<{a}>").bind(SETTINGS, {"a": text}) == f"<{text}>"


def test_the_examples_are_right() -> None:
    result = doctest.testmod(template)
    assert result.attempted
    assert not result.failed
