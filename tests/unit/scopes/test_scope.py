"""``scope``: the property of a JSON body that a lock is for (D-10 to D-17)."""

from __future__ import annotations

import doctest
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from singleton.base.errors import ConfigurationError, ScopeError
from singleton.base.json_values import check_path, read_json
from singleton.scopes import template
from singleton.scopes.template import value_at

GUID = "7f2a1c1e-3d0b-4a1e-9a55-1f2f3a4b5c6d"


def refusal(path: str, body: object) -> ScopeError:
    with pytest.raises(ScopeError) as caught:
        value_at(path, body)
    return caught.value


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        ("Id", '{"Id": "text"}', "text"),  # D-11
        ("Id", '{"Id": 419}', "419"),
        ("Id", f'{{"Id": "{GUID}"}}', GUID),
        ("Id", '{"Id": "3"}', "3"),
        ("Id", '{"Id": true}', "True"),
        ("Id", '{"Id": false}', "False"),
        ("Id", '{"Id": -0}', "-0"),
        ("Id", '{"Id": 1.50}', "1.50"),
        ("Id", '{"Id": 1E+2}', "1E+2"),
        ("Id", '{"Id": 12345678901234567890.123456789012345678901}', "12345678901234567890.123456789012345678901"),
        ("Id", '{"Id": " padded "}', " padded "),
        ("My:Nested:Property", '{"My": {"Nested": {"Property": "x"}}}', "x"),  # D-10
        ("My:Nested", '{"My": {"nested": 1, "Nested": 2}}', "2"),
        ("a b", '{"a b": "x"}', "x"),
        ("Id", '{"Id": 1, "Id": 2}', "2"),
        ("Id", '{"Id": "\\ud800"}', "\ud800"),
        ("É", '{"\\u00c9": 1}', "1"),
        ("Id", '\ufeff{"Id": 1}', "1"),
    ],
)
def test_the_value_is_the_text_of_the_property(path: str, body: str, expected: str) -> None:
    found = value_at(path, body)
    assert found == expected
    assert type(found) is str
    assert value_at(path, body.encode()) == expected
    assert value_at(path, bytearray(body.encode())) == expected
    assert value_at(path, memoryview(body.encode())) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [("x", "x"), (419, "419"), (1.5, "1.5"), (True, "True"), (False, "False"), (10**30, "1" + "0" * 30)],
)
def test_an_object_that_is_parsed_already_will_do(value: object, expected: str) -> None:
    assert value_at("a:b", {"a": {"b": value}}) == expected


def test_a_name_may_have_a_dot_in_it() -> None:
    assert value_at("Order.Id", '{"Order.Id": 1, "Order": {"Id": 2}}') == "1"


def test_a_number_too_long_for_python_is_a_scope_like_any_other() -> None:
    assert value_at("Id", f'{{"Id": {"9" * 5000}}}') == "9" * 5000


@pytest.mark.parametrize(
    ("path", "body", "expected", "reason"),
    [
        # D-13
        ("Id", '{"Name": 1}', "scope 'Id': the body has no property 'Id'; it has 'Name'", "missing"),
        ("Id", "{}", "has no property 'Id'; it is an empty object", "missing"),
        ("Id", '{"id": 1, "x": 2}', "has no property 'Id'; it has 'id' (names are case-sensitive)", "missing"),
        ("A:B:C", '{"A": {"B": {"D": 1}}}', "the body at 'A:B' has no property 'C'; it has 'D'", "missing"),
        ("Order.Id", '{"Order": {"Id": 1}}', "it has 'Order'; did you mean 'Order:Id'?", "missing"),
        ("Order/Id", '{"Order": {"Id": 1}}', "it has 'Order'; did you mean 'Order:Id'?", "missing"),
        ("A:B.C:D", '{"A": {"B": {"C": {"D": 1}}}}', "it has 'B'; did you mean 'A:B:C:D'?", "missing"),
        ("Order.Id", '{"Order": {"No": 1}}', "has no property 'Order.Id'; it has 'Order'", "missing"),
        ("A:B", '{"A": null}', "at 'A' is null, which has no property 'B'", "missing"),
        ("A:B", '{"A": [1]}', "at 'A' is a list, which has no property 'B'", "missing"),
        ("A:B", '{"A": "secret"}', "at 'A' is text, which has no property 'B'", "missing"),
        ("A:B", '{"A": 7}', "at 'A' is a number, which has no property 'B'", "missing"),
        ("A:B", '{"A": true}', "at 'A' is a boolean, which has no property 'B'", "missing"),
        ("Id", '["secret"]', "the body is a list, which", "missing"),
        ("Id", "null", "the body is null, which", "missing"),
        ("Id", '"secret"', "the body is text, which", "missing"),
        # D-14
        ("Id", '{"Id": null}', "its value in the body is null: every message needs a value", "empty"),
        ("Id", '{"Id": ""}', "is empty: every message needs a value", "empty"),
        ("Id", '{"Id": " \\t"}', "is blank: every message needs a value", "empty"),
        # D-12
        ("Id", '{"Id": {"a": 1}}', "is an object: it must be text, a number or a boolean", "kind"),
        ("Id", '{"Id": [1]}', "is a list: it must be text, a number or a boolean", "kind"),
        # D-15
        ("Id", "secret text", "can't be parsed as JSON: Expecting value: line 1 column 1 (char 0)", "not JSON"),
        ("Id", "", "scope 'Id': the body can't be parsed as JSON", "not JSON"),
        ("Id", '{"Id": 1} x', "can't be parsed as JSON: Extra data", "not JSON"),
        ("Id", '{"Id": NaN}', "can't be parsed as JSON: NaN is not JSON", "not JSON"),
        ("Id", '{"Id": -Infinity}', "can't be parsed as JSON: -Infinity is not JSON", "not JSON"),
        ("Id", '{"Id": 01}', "can't be parsed as JSON", "not JSON"),
        ("Id", "{'Id': 1}", "can't be parsed as JSON", "not JSON"),
        ("Id", b'{"Id": "\xff"}', "can't be parsed as JSON: byte 8 is not UTF-8", "not JSON"),
        ("Id", '{"Id": 1}'.encode("utf-16"), "byte 0 is not UTF-8", "not JSON"),
        ("Id", "[" * 100_000, "can't be parsed as JSON: it is nested too deeply", "not JSON"),
        ("Id", '{"Id":' * 100_000, "can't be parsed as JSON: it is nested too deeply", "not JSON"),
        # parsed already
        ("Id", None, "is null, which has no property 'Id'", "missing"),
        ("Id", 7, "is a value of type int, which has no property 'Id'", "missing"),
        ("Id", {"Id": float("nan")}, "is a value of type float", "kind"),
        ("Id", {"Id": float("inf")}, "is a value of type float", "kind"),
        pytest.param("Id", {"Id": 10**5000}, "is a value of type int", "kind", id="huge int"),
        ("Id", {"Id": b"x"}, "is a value of type bytes", "kind"),
        ("Id", {5: 1}, "has no property 'Id'; it has 5", "missing"),
    ],
)
def test_a_body_without_a_usable_value_is_refused_and_says_why(
    path: str, body: object, expected: str, reason: str
) -> None:
    error = refusal(path, body)
    assert str(error).startswith((f"scope {path!r}: ", "the body can't"))
    assert expected in str(error)
    assert error.reason == reason
    assert "secret" not in str(error)


def test_a_body_that_is_not_json_carries_the_cause() -> None:
    """D-15."""
    assert isinstance(refusal("Id", "{").__cause__, json.JSONDecodeError)
    assert isinstance(refusal("Id", b"\xff").__cause__, UnicodeDecodeError)


def test_a_message_names_few_properties_and_none_at_length() -> None:
    body = {f"{'long' * 100}{number}": "secret" for number in range(500)}
    message = str(refusal("Id", body))
    assert len(message) < 700
    assert message.endswith("and 490 more")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("", "scope is blank"),  # D-16
        ("  ", "scope is blank"),
        (None, "scope is None: give a property path"),
        (["Id"], r"scope is \['Id'\]: give a property path"),
        (":", "scope ':' has an empty segment"),
        (":a", "has an empty segment"),
        ("a:", "has an empty segment"),
        ("a::b", "has an empty segment"),
        ("a: :b", "has an empty segment"),
    ],
)
def test_a_path_that_names_nothing_is_refused_before_any_body_is_read(path: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        check_path(path)
    with pytest.raises(ConfigurationError, match=message):
        value_at(path, b"not JSON")


def test_a_path_is_split_at_its_colons() -> None:
    assert check_path("My:Nested:Property") == ("My", "Nested", "Property")
    assert check_path("Some name.with-anything") == ("Some name.with-anything",)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["Id", "A", "B", ""]), inner, max_size=3)
    ),
    max_leaves=10,
)


@settings(max_examples=200)
@given(st.sampled_from(["Id", "A:B", "A:B:Id"]), st.binary(max_size=60) | st.text(max_size=60) | JSON)
def test_any_body_gives_a_text_or_a_scope_error(path: str, body: object) -> None:
    try:
        found = value_at(path, body)
    except ScopeError:
        return
    assert found.strip()


@settings(max_examples=200)
@given(JSON, st.sampled_from(["Id", "A:B", "A:B:Id"]))
def test_a_body_and_what_a_parser_makes_of_it_have_the_same_scope(root: object, path: str) -> None:
    text = json.dumps(root)

    def outcome(body: object) -> str:
        try:
            return value_at(path, body)
        except ScopeError as error:
            return str(error.reason)

    if "NaN" in text or "Infinity" in text:
        assert outcome(text) == "not JSON" or "NaN" in str(root) or "Infinity" in str(root)
        return
    if not isinstance(root, str):
        assert outcome(text) == outcome(json.loads(text)) == outcome(text.encode())


@given(st.integers() | st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_keep_the_spelling_of_the_body(number: float) -> None:
    spelt = json.dumps(number)
    assert value_at("n", f'{{"n": {spelt}}}') == spelt
    assert read_json(spelt) == spelt


def test_the_examples_are_right() -> None:
    result = doctest.testmod(template)
    assert result.attempted
    assert not result.failed
