"""docs/options.md lists each option once, and what renames a lock is marked."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import pytest

from singleton import SingletonOptions, singleton
from singleton.decorator import guards_of
from tests.support.lock_thread import Context, an_app
from tools import options

if TYPE_CHECKING:
    from pathlib import Path

OTHERWISE: dict[str, Any] = {
    "scope": "Other",
    "scope_id": "x",
    "scope_hash": True,
    "level": "host",
    "mode": "listener",
    "limit": 2,
    "name": "old",
    "dotnet_name": "A.B.C",
    "layout": "webjobs",
    "on_contention": "skip",
    "timeout": 5,
    "max_waiting": 1,
    "when_full": "raise",
    "at_least": 5,
    "max_hold": 5,
    "cancel_on_loss": False,
    "lock_period": 30,
    "failover": 5,
}
"""A value of each argument that is not its default."""
BESIDE: dict[str, dict[str, Any]] = {
    "mode": {"scope": None},
    "dotnet_name": {"layout": "webjobs"},
    "when_full": {"max_waiting": 1},
}


def test_the_page_says_what_the_code_does() -> None:
    page = options.PAGE.read_text("utf-8")
    assert options.made(page) == page, "run python -m tools.options"


def test_each_argument_and_each_option_is_there_once() -> None:
    named = [row[0].split("`")[1] for rows in options.rows().values() for row in rows]
    assert len(set(named)) == len(named)
    arguments = set(singleton.__kwdefaults__ or ()) | {field.name for field in fields(SingletonOptions)}
    assert set(named) == arguments - {"lock_acquisition_timeout"}, "that is the app's timeout"


def lock_of(**arguments: Any) -> Any:
    def ship(msg: str) -> None: ...

    (guard,) = guards_of(singleton(**arguments)(ship))
    call = guard.call({"msg": json.dumps({"Id": "1", "Other": "2"})}, Context())
    return guard._place.container, call.lock, guard.limit


@pytest.mark.parametrize("name", OTHERWISE)
def test_what_is_marked_renames_the_lock_and_nothing_else_does(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    an_app(tmp_path, monkeypatch)
    same = {"scope": "Id", **BESIDE.get(name, {})}
    assert (lock_of(**{**same, name: OTHERWISE[name]}) != lock_of(**same)) == (name in options.RENAMES)
