"""Names of locks made of any text (M-7 to M-13, M-46, M-47, S-5)."""

from __future__ import annotations

import doctest
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from singleton import AsyncLockClient, ConfigurationError, LockClient
from singleton.base.names import check_blob_name
from singleton.layouts import blob_name
from singleton.layouts.blob_name import safe_name

AWKWARD = [
    "",
    "a" * 1000,
    "a" * 2000,
    "a/",
    "a\\",
    "\\" * 5,
    "\\" * 1000,
    "/" * 254,
    "\\".join("a" * 254),
    ".",
    "a.",
    "\0",
]
TEXTS = st.text(max_size=300) | st.text(alphabet="aA/\\.~_0", max_size=300)


@pytest.mark.parametrize("text", ["job", "ImportEligibility-A", "tenants/42", "/a", "a~b", "é 😀", "/".join("a" * 100)])
def test_what_may_be_a_name_stays_as_it_is(text: str) -> None:
    """M-11."""
    assert safe_name(text) == text


@pytest.mark.parametrize("text", AWKWARD)
def test_a_text_that_may_be_no_name_is_cut_and_gets_a_hash_of_the_whole(text: str) -> None:
    """M-9 to M-11, M-46: at most 250 characters, for the emulator; no `+` or `/` in the hash (M-12)."""
    name = safe_name(text)
    assert check_blob_name(name) == name
    assert len(name) <= 250
    assert re.search(r"~[0-9a-f]{40}$", name)


def test_a_hash_is_the_same_in_every_version() -> None:
    assert safe_name("") == "~e3b0c44298fc1c149afbf4c8996fb92427ae41e4"
    assert safe_name("a" * 2000) == "a" * 209 + "~c4a700f85b7e9e5cdbdc51170409ee2ad48bebe2"


def test_long_texts_that_differ_in_the_case_of_their_last_letter_have_different_names() -> None:
    """M-47."""
    assert safe_name("a" * 1000 + "b") != safe_name("a" * 1000 + "B")


@given(TEXTS, TEXTS)
@example("a/", "a\\")
@example("a//", "a/")
@example("", safe_name(""))
def test_different_texts_have_different_names_all_of_them_legal(one: str, other: str) -> None:
    """M-12; what this made of one text may itself be a text."""
    assert (safe_name(one) == safe_name(other)) is (one == other)
    assert check_blob_name(safe_name(one))
    assert check_blob_name(safe_name(safe_name(one)))


@pytest.mark.parametrize("text", [None, 7, b"job"])
def test_what_is_no_text_has_no_name(text: object) -> None:
    """M-8, M-46."""
    with pytest.raises(ConfigurationError, match="give a text"):
        LockClient.safe_name(text)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [LockClient, AsyncLockClient])
@pytest.mark.parametrize("name", [None, "", "a" * 1025, "a\\b", "a/", "a."])
def test_a_client_takes_names_as_they_are_and_refuses_what_is_none(kind: type[LockClient], name: str) -> None:
    """M-7, M-8, S-5: a blob's name is never altered behind the caller's back; `safe_name` is asked for."""
    client = kind("UseDevelopmentStorage=true")
    for way in (client.lock, client.try_lock, lambda name: client.semaphore(name, 2)):
        with pytest.raises(ConfigurationError, match="lock name"):
            way(name)


def test_the_examples_are_right() -> None:
    result = doctest.testmod(blob_name)
    assert result.attempted
    assert not result.failed
