"""Plans: a seed always draws the same one, every kind comes up as often, and a file is checked to the last value."""

from __future__ import annotations

import json
import random
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from simulator.faults.real import ALL, KINDS, Victims
from simulator.nemesis.fault_plan import PlanError, chosen, draw_plan, read_plan

if TYPE_CHECKING:
    from pathlib import Path


def test_the_kinds_are_those_that_people_are_told_of() -> None:
    assert set(KINDS) == set(ALL)


@pytest.mark.parametrize("seed", range(20))
def test_two_minutes_bring_every_kind_and_no_kind_much_more_often(seed: int) -> None:
    plan = draw_plan(ALL, every=5, duration=120, seed=seed)
    many = Counter(fault.kind for fault in plan)
    assert len(plan) >= 20
    assert len(many) == len(ALL)
    assert max(many.values()) - min(many.values()) <= 1
    assert all(0 < one.at < two.at <= 118 for one, two in pairwise(plan))


@pytest.mark.parametrize("seed", range(5))
def test_a_lock_is_lost_early_if_leases_may_be_broken(seed: int) -> None:
    for kinds in (ALL, ("kill", "break"), ("break",)):
        second = draw_plan(kinds, every=5, duration=30, seed=seed)[1]
        assert (second.kind, second.aim) == ("break", "renewal")
    assert all(fault.kind != "break" for fault in draw_plan(("kill", "pause"), every=5, duration=60, seed=seed))


def test_a_seed_draws_its_plan_again_and_another_seed_another() -> None:
    assert draw_plan(ALL, every=5, duration=120, seed=7) == draw_plan(ALL, every=5, duration=120, seed=7)
    assert draw_plan(ALL, every=5, duration=120, seed=7) != draw_plan(ALL, every=5, duration=120, seed=8)


def test_partitions_are_shorter_and_longer_than_the_lease_and_of_every_way() -> None:
    drawn = [KINDS["partition"].draw(random.Random(seed), 1.0) for seed in range(60)]
    assert min(fault.leases for fault in drawn) < 1 < max(fault.leases for fault in drawn)
    assert {fault.way for fault in drawn} == {"both", "requests", "replies"}


def test_every_kind_says_in_a_sentence_what_happens() -> None:
    for kind in ALL:
        for seed in range(10):
            words = (
                KINDS[kind].draw(random.Random(seed), 1.0).words(Victims(("host-1", "host-2"), "locks/fleet/a"), 3.0)
            )
            assert "host-1" in words or "everybody" in words
            assert "None" not in words


@pytest.mark.parametrize(
    ("text", "kinds"),
    [("all", ALL), ("kill", ("kill",)), (" Pause ,kill,kill", ("kill", "pause")), ("kill,all", ALL)],
)
def test_kinds_are_chosen_by_name(text: str, kinds: tuple[str, ...]) -> None:
    assert chosen(text) == kinds


@pytest.mark.parametrize(
    ("text", "words"), [("partitoin", "did you mean 'partition'?"), ("", "no kind is named"), ("x", "and all")]
)
def test_an_unknown_kind_is_refused(text: str, words: str) -> None:
    with pytest.raises(PlanError) as caught:
        chosen(text)
    assert words in str(caught.value)


def written(folder: Path, *faults: Any) -> Path:
    path = folder / "plan.json"
    path.write_text(json.dumps(faults))
    return path


def test_a_plan_of_the_users_own_is_read_in_the_order_of_its_times(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        {"at": 9, "kind": "kill", "host": "host-2", "aim": "holder"},
        {"at": 2.5, "kind": "partition", "way": "both", "leases": 1.2},
        {"at": 4, "kind": "throttle", "seconds": 3, "status": 429, "everybody": True},
    )
    assert [(fault.at, fault.kind) for fault in read_plan(path)] == [(2.5, "partition"), (4, "throttle"), (9, "kill")]


def test_a_drawn_plan_can_be_written_down_and_read_again(tmp_path: Path) -> None:
    plan = draw_plan(ALL, every=5, duration=120, seed=3)
    assert read_plan(written(tmp_path, *[fault.to_dict() for fault in plan])) == plan


GOOD = {"at": 1, "kind": "partition", "way": "both", "seconds": 3}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kind": "partitions"}, ["fault 1", "'partitions'", "did you mean 'partition'?"]),
        ({"kind": None}, ['"kind" is None', "kill, pause"]),
        ({"kind": ["kill"]}, ["\"kind\" is ['kill']", "kill, pause"]),
        ({"secnods": 3}, ["'secnods' is unknown to partition", "did you mean 'seconds'?"]),
        ({"seconds": "3"}, ["\"seconds\" is '3'", "a number"]),
        ({"seconds": -1}, ["fault 1", '"seconds" is -1', "above 0, and 3600 at most"]),
        ({"seconds": 0}, ["fault 1", '"seconds" is 0', "above 0, and 3600 at most"]),
        ({"seconds": 4000}, ['"seconds" is 4000', "above 0, and 3600 at most"]),
        ({"leases": 0}, ["fault 1", '"leases" is 0', "above 0"]),
        ({"leases": 1.2}, ["fault 1", '"seconds" and "leases"', "one of them"]),
        ({"at": -1}, ['"at" is -1', "from 0 to 3600"]),
        ({"at": True}, ['"at" is True', "a number"]),
        ({"way": "up"}, ["\"way\" is 'up'", "both, requests, replies"]),
        ({"way": ""}, ['"way"']),
        ({"aim": "heart"}, ["\"aim\" is 'heart'", "holder"]),
        ({"number": 1.5}, ["a whole number"]),
        ({"kind": "kill", "way": "both", "seconds": 3}, ["kill has no way"]),
        ({"percent": 50}, ["'percent' is unknown to partition"]),
        ({"kind": "pause", "way": "", "number": 2}, ["pause has no way"]),
    ],
)
def test_a_wrong_value_of_a_plan_is_named(tmp_path: Path, changes: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(PlanError) as caught:
        read_plan(written(tmp_path, {**GOOD, **changes}))
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "no JSON"),
        ("[]", "no list of faults"),
        ("3", "no list of faults"),
        ("[3]", "must be an object"),
        ('[{"kind": "kill"}]', '"at" is missing'),
        ('[{"at": 1, "kind": "error"}]', '"seconds" is missing'),
        ('[{"at": 1, "kind": "delay", "seconds": 1}]', '"way" is missing'),
        ('[{"at": 1, "kind": "kill", "seconds": 1}]', "has no length"),
        ('[{"at": 1, "kind": "break", "aim": "anybody"}]', '"aim" is'),
        ('[{"at": 1, "kind": "kill", "lock": "ship"}]', '"lock" needs an "aim"'),
        ('[{"at": 1, "kind": "kill", "leases": 1}]', "has no length"),
        ('[{"at": 1, "kind": "pause", "seconds": 1, "number": 2}]', "one host at a time: leave number out"),
    ],
)
def test_a_file_that_is_no_plan_is_refused(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(PlanError) as caught:
        read_plan(tmp_path / "plan.json")
    assert words in str(caught.value)
