"""An attribute that objects of other libraries have is refused with the attribute that does the job."""

from __future__ import annotations

import copy
import pickle
from unittest.mock import create_autospec

import pytest

import singleton
from singleton import AsyncLockClient, Hold, LockClient
from singleton.base.attribute_names import _ELSEWHERE

PLACE = "UseDevelopmentStorage=true"
CLIENT = LockClient(PLACE)
OBJECTS = (CLIENT, AsyncLockClient(PLACE), CLIENT.lock("a"), AsyncLockClient(PLACE).try_lock("a"), Hold("a"))


@pytest.mark.parametrize("thing", OBJECTS, ids=lambda thing: type(thing).__name__)
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("is_locked", "locks.locked(name)"),
        ("TryAcquireAsync", "locks.try_lock(name)"),
        ("try_acquire", "locks.try_lock(name)"),
        ("unlock", "locks.release(hold)"),
        ("renew", "is renewed until its end"),
        ("extend", "max_hold="),
        ("get_lock", "locks.lock(name)"),
    ],
)
def test_the_error_says_what_does_the_job(thing: object, name: str, said: str) -> None:
    with pytest.raises(AttributeError) as refused:
        getattr(thing, name)
    assert str(refused.value).startswith(f"{type(thing).__name__!r} object has no attribute {name!r}: ")
    assert said in str(refused.value)
    assert (refused.value.name, refused.value.obj) == (name, thing)
    assert not hasattr(thing, name)


@pytest.mark.parametrize("thing", OBJECTS, ids=lambda thing: type(thing).__name__)
def test_any_other_missing_attribute_is_told_as_python_does(thing: object) -> None:
    with pytest.raises(AttributeError, match=f"^'{type(thing).__name__}' object has no attribute 'colour'$"):
        getattr(thing, "colour")  # noqa: B009 - type checkers see that it is missing
    assert getattr(thing, "unlock", 7) == 7


def test_an_error_within_a_property_is_not_hidden() -> None:
    class Odd(Hold):
        @property
        def tint(self) -> str:
            raise AttributeError("the paint is missing")

    with pytest.raises(AttributeError, match=r"^the paint is missing$"):
        _ = Odd("a").tint


def test_copies_pickles_and_mocks_work_as_before() -> None:
    assert copy.copy(CLIENT).lock_name is not None
    assert copy.copy(Hold("a", owner="me")).owner == "me"
    assert not hasattr(create_autospec(LockClient, instance=True), "is_locked")
    assert type(pickle.loads(pickle.dumps(CLIENT))) is LockClient  # noqa: S301 - a text of this test


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("lock", "use locks.lock(name)"),
        ("is_locked", "locks.locked(name)"),
        ("locked", "locks.locked(name)"),
        ("LockError", "LockNotAcquired"),
    ],
)
def test_the_package_says_so_too(name: str, said: str) -> None:
    with pytest.raises(AttributeError) as refused:
        getattr(singleton, name)
    assert said in str(refused.value)
    assert "did you mean" not in str(refused.value)


def test_no_word_has_two_meanings() -> None:
    words = [word for names in _ELSEWHERE for word in names.split()]
    assert len({*words}) == len(words)
