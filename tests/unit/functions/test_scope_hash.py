"""A scope's value stands in no lock's name where its declaration says so; it excludes as before."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from singleton import ConfigurationError, ScopeError, singleton
from tests.support.lock_thread import Context, an_app, guard_of

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def app_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    an_app(tmp_path, monkeypatch)


def lock(body: object, **arguments: Any) -> str:
    def ship(msg: Any) -> None: ...

    name: str = guard_of(singleton(**arguments)(ship)).call({"msg": json.dumps(body)}, Context()).lock
    return name


def test_its_hash_stands_in_the_name_and_nothing_of_the_value() -> None:
    body = {"Mail": "jane@example.com"}
    assert lock(body, scope="Mail", scope_hash=True) == "locks/app/ship.8c87b489ce35cf2e2f39f80e282cb2e804932a56"
    assert "jane" in lock(body, scope="Mail")


def test_equal_values_have_one_lock_and_others_another() -> None:
    one, other = {"Id": "a"}, {"Id": "b"}
    assert lock(one, scope="Id", scope_hash=True) == lock({**one, "More": 1}, scope="Id", scope_hash=True)
    assert lock(one, scope="Id", scope_hash=True) != lock(other, scope="Id", scope_hash=True)


def test_each_of_two_values_is_hashed_and_a_template_as_a_whole() -> None:
    body = {"Tenant": "acme", "Id": "7"}
    both = lock(body, scope_id="tenant:{Tenant}", scope="Id", scope_hash=True).removeprefix("locks/app/ship.")
    assert [len(part) for part in both.split(".")] == [40, 40]
    assert both.split(".")[1] == lock(body, scope="Id", scope_hash=True).rpartition(".")[2]


def test_functions_share_the_lock_of_their_host_by_it() -> None:
    name = lock({"Id": "a"}, scope="Id", level="host", scope_hash=True)
    assert name.startswith("locks/app/~")
    assert len(name) == len("locks/app/~") + 40


def test_an_empty_value_is_refused_as_ever() -> None:
    with pytest.raises(ScopeError):
        lock({"Id": ""}, scope="Id", scope_hash=True)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"scope": "Id", "scope_hash": 1}, "scope_hash is 1: give True or False"),
        ({"scope": "Id", "scope_hash": None}, "scope_hash is None"),
        ({"scope_hash": True}, "scope_hash=True needs a scope or a scope_id"),
        ({"scope": "Id", "scope_hash": True, "layout": "webjobs"}, "scope_hash=True is for layout='default' only"),
        ({"scope": "Id", "scope_hash": True, "layout": "dequeueable"}, "layout is 'dequeueable'"),
    ],
)
def test_where_it_makes_no_sense_it_is_refused(arguments: Any, expected: str) -> None:
    with pytest.raises(ConfigurationError, match=expected):
        lock({"Id": "a"}, **arguments)
