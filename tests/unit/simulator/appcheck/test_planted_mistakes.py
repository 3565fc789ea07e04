"""Each planted mistake is found by its rule, at its line, and nothing else is."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from simulator.appcheck.rules import RULES
from simulator.virtual.search.user_app import _sleep_virtually
from tests.support.checked import beside, checked
from tests.unit.simulator.appcheck.planted_bodies import BODIES
from tests.unit.simulator.appcheck.planted_mistakes import PLANTED

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.simulator.appcheck.planted_mistakes import Planted


@pytest.mark.parametrize("planted", [*PLANTED, *BODIES], ids=lambda each: each.name)
def test_a_planted_mistake_is_found_and_nothing_else(planted: Planted, tmp_path: Path) -> None:
    report = checked(tmp_path, planted.code, planted.host, planted.settings)
    found = [*report.errors, *report.warnings]
    assert {each.id for each in found} == set(planted.finds), "\n".join(map(str, found))
    assert planted.says in " ".join(each.message for each in found)
    if planted.line:
        places = [each.place for each in found if each.place is not None]
        assert any(planted.line in (tmp_path / at.file).read_text().splitlines()[at.line - 1] for at in places)
    assert not any(str(tmp_path) in str(each) for each in found), "files are named from the app's folder"


def test_every_rule_is_planted() -> None:
    notes = {each.id for each in RULES.values() if each.severity == "note"}
    elsewhere = {
        "function-refused",
        "unknown-argument",
        "identity-not-installed",
        "lock-renamed",
        "limit-changed",
        "also-removed",
        "timer-in-each-app",
        "function-not-registered",
        "no-function",
        "own-module-singleton",
    } | notes
    assert {rule for each in (*PLANTED, *BODIES) for rule in each.finds} == set(RULES) - elsewhere


def test_a_function_of_httpx_blocks_whose_module_is_that_of_the_package(tmp_path: Path) -> None:
    code = "import httpx\n@queue()\nasync def ship(msg: func.QueueMessage) -> None: httpx.post(msg.id)\n"
    with beside(tmp_path, httpx="def post(url): ...\n"):
        (found,) = checked(tmp_path, code).warnings
    assert (found.id, "Use an async HTTP client" in found.message) == ("blocking-call", True)


def test_a_sleep_on_virtual_time_is_still_known_as_the_one_that_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (sleeps,) = (each for each in BODIES if each.name == "time.sleep in an async def")
    monkeypatch.setattr(time, "sleep", _sleep_virtually(time.sleep))
    assert [each.id for each in checked(tmp_path, sleeps.code).warnings] == ["blocking-call"]
