"""Names of lock blobs: injective, within their prefix, legal (W-28 to W-31, S-5, B11, M-13)."""

from __future__ import annotations

import doctest
import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from singleton.base.errors import ConfigurationError, ScopeError
from singleton.base.kinds import Level
from singleton.base.names import check_blob_name, check_container_name
from singleton.layouts import blob_name
from singleton.layouts.blob_name import LONGEST_NAME, lock_name

LETTERS = "aA0_-./\\~% :\x00\x1f\x7f\ud800\udfff\ud83d\ude00é😀\u202e"
HOSTILE = st.text(alphabet=LETTERS, min_size=1, max_size=8) | st.text(min_size=1, max_size=300)
SURROGATES = st.text(alphabet=st.characters(min_codepoint=0xD800, max_codepoint=0xDFFF), min_size=1, max_size=4)
PART = HOSTILE | SURROGATES
HOST = PART.filter(str.strip)
LEVELS: tuple[Level, ...] = ("function", "host")

Parts = tuple[str, str, tuple[str, ...], Level]


@pytest.mark.parametrize(
    ("host", "function", "scopes", "level", "expected"),
    [
        ("hid", "ship", [], "function", "locks/hid/ship"),  # W-28
        ("hid", "ship", ["testscope"], "function", "locks/hid/ship.testscope"),  # W-29
        ("hid", "ship", ["a", "b"], "function", "locks/hid/ship.a.b"),
        ("hid", "ship", ["testscope"], "host", "locks/hid/~testscope"),  # W-30
        ("hid", "", ["testscope"], "host", "locks/hid/~testscope"),
        ("hid", "ship", ["a.b/c\\d~e%f"], "function", "locks/hid/ship.a%2Eb%2Fc%5Cd%7Ee%25f"),
        ("hid", "ship", ["."], "function", "locks/hid/ship.%2E"),
        ("hid", "Host.Functions.ship", [], "function", "locks/hid/Host%2EFunctions%2Eship"),
        ("a/b", "ship", [], "function", "locks/a%2Fb/ship"),
        ("hid", "ship", ["é😀"], "function", "locks/hid/ship.%C3%A9%F0%9F%98%80"),
        ("hid", "ship", ["\ud800"], "function", "locks/hid/ship.%ED%A0%80"),
        ("hid", "~ship", [], "function", "locks/hid/%7Eship"),
    ],
)
def test_a_name_is_made_of_host_function_and_scopes(
    host: str, function: str, scopes: list[str], level: Level, expected: str
) -> None:
    assert lock_name(host, function, scopes, level) == expected


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("", "ship"), ConfigurationError, "host_id is empty"),  # W-31
        (("  ", "ship"), ConfigurationError, "host_id is empty"),
        (("hid", ""), ConfigurationError, "function is empty"),
        (("hid", "ship", [], "host"), ConfigurationError, "level 'host' needs a scope"),  # W-10
        (("hid", "ship", [], "Host"), ConfigurationError, "level is 'Host': give 'function' or 'host'"),
        (("hid", "ship", "scope"), ConfigurationError, "scopes is the text 'scope'"),
        (("hid", "ship", ["a", ""]), ScopeError, "a scope of 'ship' has an empty value"),
    ],
)
def test_parts_that_make_no_name_are_refused(arguments: tuple[str, ...], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        lock_name(*arguments)  # type: ignore[arg-type]


def test_a_long_name_is_cut_and_ends_in_a_hash_of_the_whole() -> None:
    name = lock_name("hid", "ship", ["x" * 2000])
    assert len(name) == LONGEST_NAME
    assert name.startswith("locks/hid/ship." + "x" * 100)
    assert name[-41] == "~"
    assert name != lock_name("hid", "ship", ["x" * 2001])


def test_names_are_the_same_in_every_version() -> None:
    """Hosts of two versions must mean the same blob: these literals may never change."""
    assert lock_name("hid", "ship", ["é" * 300]) == (
        "locks/hid/ship." + "%C3%A9" * 32 + "~b1f7b0bc71e92c1efbdada8557c7b6e8fbb45b58"
    )
    assert lock_name("H" * 101, "ship") == ("locks/" + "H" * 59 + "~845cf06b9c09baa469d57a9ce74d9e27907c6e0f/ship")


def test_a_cut_never_goes_through_an_escape() -> None:
    for length in range(200, 212):
        name = lock_name("hid", "ship", ["x" * length + "/" * 100])
        assert "%" not in name[:-41].replace("%2F", "")
        assert len(name) > LONGEST_NAME - 3


def test_long_values_that_differ_only_past_the_cut_differ() -> None:
    names = {lock_name("hid", "ship", ["x" * 1000 + str(number)]) for number in range(8_000)}
    assert len(names) == 8_000


def test_a_long_host_id_keeps_a_folder_of_its_own() -> None:
    first = lock_name("h" * 5000, "ship", ["s" * 5000])
    other = lock_name("h" * 5001, "ship", ["s" * 5000])
    assert first.split("/")[1] != other.split("/")[1]
    assert {len(first), len(other)} == {LONGEST_NAME}
    assert lock_name("h" * 5000, "load").startswith(first.rpartition("/")[0] + "/")


def parts_at_random(source: random.Random) -> Parts:
    def text() -> str:
        short = "".join(source.choice(LETTERS) for _ in range(source.randint(1, 4)))
        return short + source.choice(["", "", "x" * source.choice([90, 190, 250, 1000]) + source.choice("ab./~%")])

    level = source.choice(LEVELS)
    scopes = tuple(text() for _ in range(source.randint(level == "host", 3)))
    return "h" + text(), "" if level == "host" else text(), scopes, level


def test_thousands_of_hostile_parts_never_share_a_name_and_never_leave_their_prefix() -> None:
    source = random.Random(20)
    parts = {parts_at_random(source) for _ in range(8_000)}
    names = {lock_name(*each): each for each in parts}
    assert len(parts) > 7_000
    assert len(names) == len(parts)
    for name, (host, function, _, level) in names.items():
        assert_legal(name, host, function, level)


def assert_legal(name: str, host: str, function: str, level: Level) -> None:
    assert check_blob_name(name) == name
    assert len(name) <= LONGEST_NAME
    assert name.count("/") == 2
    assert name.startswith("locks/")
    assert name.isascii()
    assert not name.endswith((".", "/", "%"))
    assert (name.rpartition("/")[2][0] == "~") == (level == "host")
    bare = lock_name(host, "f").removesuffix("f")
    assert name.startswith(bare)
    if level == "function" and len(lock_name(host, function)) < 100:
        assert name == lock_name(host, function) or name.startswith(lock_name(host, function) + ".")


@settings(max_examples=150)
@given(HOST, PART, st.lists(PART, max_size=3), st.sampled_from(LEVELS))
def test_any_name_is_legal_and_within_its_prefix(host: str, function: str, scopes: list[str], level: Level) -> None:
    if level == "host" and not scopes:
        return
    assert_legal(lock_name(host, function, scopes, level), host, function, level)


@st.composite
def neighbours(draw: st.DrawFn) -> tuple[Parts, Parts]:
    """Two sets of parts that are likely to meet: the same characters, cut in other places."""
    text = draw(st.text(alphabet="a./~%2E", min_size=3, max_size=12))

    def cut() -> Parts:
        places = sorted(draw(st.lists(st.integers(1, len(text) - 1), min_size=2, max_size=4)))
        pieces = [text[a:b] for a, b in pairwise([0, *places, len(text)]) if a < b]
        host, function, *scopes = [*pieces, "f"]
        level = draw(st.sampled_from(LEVELS)) if scopes else "function"
        return host, function if level == "function" else "", tuple(scopes), level

    return cut(), cut()


@settings(max_examples=150)
@given(neighbours())
def test_different_parts_have_different_names(pair: tuple[Parts, Parts]) -> None:
    one, other = pair
    assert (lock_name(*one) == lock_name(*other)) == (one == other)


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("ab", "has 2 characters: it must have from 3 to 63"),
        ("a" * 64, "has 64 characters"),
        ("", "has 0 characters"),
        ("Locks", "only lower-case letters a-z, digits and dashes"),
        ("my_locks", "only lower-case letters"),
        ("lóck", "only lower-case letters"),
        ("lock٣", "only lower-case letters"),
        ("$web", "only lower-case letters"),
        ("-locks", "must begin and end with a letter or digit"),
        ("locks-", "must begin and end with a letter or digit"),
        ("my--locks", "two dashes in a row"),
        (None, "is not a text"),
    ],
)
def test_a_container_name_that_breaks_a_rule_is_refused_by_that_rule(name: str, rule: str) -> None:
    """S-5."""
    with pytest.raises(ConfigurationError, match=rule):
        check_container_name(name)


@pytest.mark.parametrize("name", ["abc", "webjobshost", "azure-webjobs-hosts", "0-1", "a" * 63])
def test_legal_container_names_pass(name: str) -> None:
    assert check_container_name(name) == name


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("", "has 0 characters: it must have from 1 to 1,024"),
        ("a" * 1025, "has 1025 characters"),
        ("/".join("a" * 255), "has 255 segments between slashes: at most 254"),
        ("a/", "may not end in a slash"),
        ("a.", "none of its segments may end in a dot"),
        ("a./b", "none of its segments may end in a dot"),
        ("..", "none of its segments may end in a dot"),
        ("a\\b", "has a backslash"),  # M-14
        ("a\nb", "has a control character"),
        ("a\x7f", "has a control character"),
        ("\ud800", "half of a surrogate pair"),
        (7, "is not a text"),
    ],
)
def test_a_blob_name_that_breaks_a_rule_is_refused_by_that_rule(name: str, rule: str) -> None:
    """S-5, M-14."""
    with pytest.raises(ConfigurationError, match=rule) as caught:
        check_blob_name(name)
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize("name", ["a", "ImportEligibility-A", "a" * 1024, "/".join("a" * 254), "é 😀?#&", "/a"])
def test_legal_blob_names_pass(name: str) -> None:
    assert check_blob_name(name) == name


@pytest.mark.parametrize("value", ["a" * 2000, "a/", "a\\", "/".join("a" * 254), "\\".join("a" * 254), "/" * 254])
def test_names_that_other_locks_choke_on_can_be_locked(value: str) -> None:
    """M-13."""
    check_blob_name(lock_name("hid", "f", [value]))


def test_the_examples_are_right() -> None:
    result = doctest.testmod(blob_name)
    assert result.attempted
    assert not result.failed
