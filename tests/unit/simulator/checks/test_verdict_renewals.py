"""A lease that is held for long is renewed: by requests that its host has seen, and not by the lock's word."""

from __future__ import annotations

from typing import Any

import pytest

from simulator.checks.verdict import judge
from tests.support.journals import TIMER, Story, key_lock

FOUND = "a hold of 'import_eligibility' was not renewed in time"


def story(until: float, **known: Any) -> Story:
    """A hold from second 1 on, of a lease that was seen to come over the network."""
    story = Story().know(**known)
    story.lease(0.9, "host-1", "acquire", status=201)
    story.body("host-1", 1, until)
    return story


def violations(story: Story) -> list[str]:
    return [text.partition(": no request for it left host-1 for ")[0] for text in judge(story.end(40)).violations]


def test_a_hold_that_outlived_half_its_lease_without_a_renewal_is_found() -> None:
    assert violations(story(10.4)) == []
    assert violations(story(10.6)) == [FOUND]


def test_a_renewal_that_was_asked_for_is_none_that_was_forgotten_whatever_came_of_it() -> None:
    for status in (200, 503, None):
        asked = story(12)
        asked.lease(8.5, "host-1", "renew", status=status)
        assert violations(asked) == []


@pytest.mark.parametrize(("host", "lock"), [("host-2", TIMER), ("host-1", key_lock("a"))])
def test_the_renewal_of_another_lock_or_host_does_not_count(host: str, lock: str) -> None:
    other = story(12)
    other.lease(8.5, host, "renew", lock)
    assert violations(other) == [FOUND]


def test_a_function_that_says_when_it_renews_is_held_to_that() -> None:
    assert violations(story(14.9, renewal=12)) == []
    assert violations(story(15.1, renewal=12)) == [FOUND]
    assert violations(story(6.1, renewal=3)) == [FOUND]


def test_a_host_that_stood_still_could_not_renew() -> None:
    stood = story(12)
    stood.add(5, "host-1", "pause")
    stood.add(8, "host-1", "resume")
    assert violations(stood) == []


@pytest.mark.parametrize(("stopping", "found"), [(8.0, []), (10.6, [FOUND])])
def test_a_host_that_is_told_to_end_tells_no_end_of_its_holds(stopping: float, found: list[str]) -> None:
    ending = story(14)
    released = next(record for record in ending.records if record.get("kind") == "released")
    ending.records.remove(released)
    ending.add(stopping, "host-1", "host_stopping")
    ending.add(14, "host-1", "host_exited", expected=True)
    assert violations(ending) == found


def test_nothing_is_said_of_leases_that_never_came_over_the_network() -> None:
    elsewhere = Story()
    elsewhere.lease(0.9, "host-1", "acquire", status=409)
    elsewhere.lease(0.9, "host-2", "acquire", status=201)
    elsewhere.body("host-1", 1, 12)
    assert violations(elsewhere) == []


def test_a_lease_that_is_handed_on_within_a_process_is_known_still() -> None:
    handed = story(2)
    handed.body("host-1", 3, 14)
    assert violations(handed) == [FOUND]


def test_a_lock_is_known_by_its_blob_to_the_end_of_a_folders_name() -> None:
    other = Story()
    other.lease(0.9, "host-1", "acquire", f"x{TIMER}", status=201)
    other.body("host-1", 1, 12)
    assert violations(other) == []


@pytest.mark.parametrize(("worker", "found"), [(1, []), (2, [FOUND])])
def test_a_process_that_did_nothing_at_all_renewed_nothing(worker: int, found: list[str]) -> None:
    stood = story(12)
    for record in stood.records:
        if record.event in {"lock", "lease_request"}:
            record.fields["worker"] = 1  # type: ignore[index]
    stood.add(11, "host-1", "loop_stood", worker=worker, seconds=4)
    assert violations(stood) == found


def test_a_guarded_helper_that_is_no_function_of_the_hosts_is_spared() -> None:
    helper = story(3)
    helper.lease(3.9, "host-1", "acquire", "locks/shared/helper", status=201)
    helper.lock(4, "host-1", "acquired", "locks/shared/helper", "", function="helper")
    assert violations(helper) == []
