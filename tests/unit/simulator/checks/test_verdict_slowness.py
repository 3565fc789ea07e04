"""A slow machine is no fault of the lock, and no excuse for one: the delays that were measured move the deadlines."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from simulator.checks.findings import unproven, violation
from simulator.checks.reports import CheckResult
from simulator.checks.verdict import Verdict, judge
from simulator.history.slowness import STORAGE
from simulator.report.words import UNJUDGED_SHOWN, headline, summary
from tests.support.journals import Story, key_lock

A = key_lock("a")
POLL = 5


def story(**setup: Any) -> Story:
    """A run whose hosts measure."""
    made = Story(**setup)
    for record in made.records:
        if record.event == "host_started":
            record.fields["measures"] = True  # type: ignore[index]
    return made


def slow(made: Story, host: str, start: float, end: float, late: float) -> Story:
    """In each second between these two the machine kept a host waiting for ``late`` seconds."""
    for second in range(round(end - start)):
        made.add(start + second + 1, host, "machine_slow", measures=[[0.5, late], [0.5, 0.0]])
    return made


def free_for(seconds: float) -> Story:
    """host-2 waits for a lock that host-1 gives back at second 10, and gets it so many seconds later."""
    made = story()
    made.body("host-1", 5, 10, A)
    made.body("host-2", 10 + seconds, 11 + seconds, A, asked=6)
    return made


def judged(made: Story) -> Verdict:
    return judge(made.end(60))


def test_on_a_quick_machine_a_free_lock_is_acquired_within_a_poll_and_half_a_second() -> None:
    assert judged(free_for(POLL + 0.4)).violations == ()
    (said,) = judged(free_for(POLL + 0.6)).violations
    assert said.startswith("ship.a was free for 5.6 s while host-2 waited for it")


def test_a_run_that_measured_nothing_has_a_second_more() -> None:
    old = free_for(POLL + 1.4)
    for record in old.records:
        record.fields.pop("measures", None)  # type: ignore[attr-defined]
    assert judged(old).violations == ()


@pytest.mark.parametrize("host", ["host-2", STORAGE])
def test_as_much_as_the_waiters_machine_or_the_storage_was_slow_is_added(host: str) -> None:
    assert judged(slow(free_for(POLL + 2), host, 10, 17, 0.3)).verdict == "holds"
    assert judged(slow(free_for(POLL + 4), host, 10, 19, 0.3)).verdict == "violated"
    assert judged(slow(free_for(POLL + 2), host, 20, 27, 0.3)).verdict == "violated"  # at another time


def test_the_slowness_of_another_host_excuses_nobody() -> None:
    assert judged(slow(free_for(POLL + 2), "host-3", 10, 17, 0.4)).verdict == "violated"


def test_beyond_one_poll_a_delay_that_the_machine_explains_is_not_judged_and_the_headline_says_so() -> None:
    verdict = judged(slow(free_for(POLL + 8), "host-2", 10, 23, 0.5))
    assert judged(free_for(POLL + 8)).verdict == "violated"
    slow_storage = slow(slow(free_for(POLL + 8), "host-2", 10, 23, 0.5), STORAGE, 10, 23, 0.5)
    assert verdict.verdict == "violated"  # 8 s late, and slow for 6.5 s
    verdict = judged(slow_storage)
    assert verdict.verdict == "unproven"
    accusation = "ship.a was free for 13.0 s while host-2 waited for it"
    assert verdict.reasons == (f"{accusation}: not judged, as this machine was too slow from 10.0 s to 23.0 s",)
    assert verdict.too_slow == ((10.0, 23.0),)
    assert verdict.to_dict()["too_slow"] == [[10.0, 23.0]]
    assert headline(verdict).text.endswith("; not judged: this machine was too slow from 10.0 s to 23.0 s.")


def test_what_is_later_than_the_machine_explains_is_a_violation_however_slow_it_was() -> None:
    assert judged(slow(free_for(POLL + 20), "host-2", 10, 35, 0.4)).verdict == "violated"


@pytest.mark.parametrize(
    ("struck", "late", "judged_as"),
    [
        pytest.param(16, 0.5, "unproven", id="the machine explains the delay until the fault"),
        pytest.param(16, 0.0, "violated", id="the deadline had passed before the fault"),
        pytest.param(30, 0.5, "violated", id="the machine explains less"),
    ],
)
def test_a_fault_that_strikes_whom_the_machine_kept_waiting_is_added(struck: int, late: float, judged_as: str) -> None:
    made = free_for(POLL + 20)
    made.fault(struck, struck + 8, "throttle", "host-2", hits=3)
    slow(slow(made, "host-2", 10, 20, late), STORAGE, 10, 20, late)
    assert judged(made).verdict == judged_as


@pytest.mark.parametrize(("late", "judged_as"), [(0.0, "violated"), (0.2, "holds")])
def test_who_skips_may_wait_for_a_storage_that_does_not_answer_and_then_for_the_machine(
    late: float, judged_as: str
) -> None:
    made = story().know(on_contention="skip")
    made.body("host-1", 5, 40, A)
    made.lock(10, "host-2", "waiting", A, "two")
    made.fault(9.5, 21, "partition", "host-2", hits=3)
    made.lock(23.2, "host-2", "contended", A, "two", reason="skip")  # after the ten seconds of a single attempt
    found = judged(slow(made, "host-2", 10, 24, late)).violations
    assert any("waited for 13.2 s for its lock, despite on_contention='skip'" in text for text in found) == (
        judged_as == "violated"
    )


def test_a_take_over_may_be_late_by_as_much_as_the_machine_was_slow() -> None:
    def taken(seconds: float, late: float) -> Verdict:
        made = story(kill=1)
        made.body("host-1", 9, None, A, token=1)
        made.kill(10, "host-1", A)
        made.body("host-2", 10 + seconds, 11 + seconds, A, token=2, asked=9.5)
        return judged(slow(slow(made, "host-2", 25, 45, late), STORAGE, 25, 45, late))

    assert taken(20 + 2, 0).verdict == "violated"
    assert taken(20 + 2, 0.2).verdict == "holds"
    verdict = taken(20 + 7, 0.5)
    assert verdict.verdict == "unproven"
    assert "was taken over late: not judged, as this machine was too slow" in " ".join(verdict.reasons)
    assert verdict.failovers[0].overs[0].state == "not judged"


def test_a_host_that_the_run_lets_stand_still_is_not_slow() -> None:
    made = free_for(POLL + 2)
    made.add(11, "host-1", "pause")
    made.add(16, "host-1", "machine_slow", measures=[[5.0, 4.75]])
    made.add(16.1, "host-1", "resume")
    made.add(18, "host-1", "machine_slow", measures=[[0.25, 0.2]])
    verdict = judged(made)
    assert verdict.verdict == "violated"


def test_a_lock_that_is_kept_is_forgiven_as_much() -> None:
    def kept(late: float) -> bool:
        made = story().know(witnessed=True)
        made.body("host-1", 5, 14, A, seen=(5, 10))
        return any("was kept by host-1" in said for said in judged(slow(made, "host-1", 10, 14, late)).violations)

    assert kept(0.2)
    assert not kept(0.5)


@pytest.mark.parametrize(
    ("late", "until", "found"),
    [
        pytest.param(0.0, 15, True, id="a quick machine"),
        pytest.param(0.2, 15, True, id="a slow machine"),
        pytest.param(0.5, 8, True, id="a machine that was slow before the renewal was due"),
        pytest.param(0.4, 15, False, id="a machine that explains it"),
    ],
)
def test_a_renewal_three_seconds_late_is_found_if_the_machine_was_not_as_slow_since_it_was_due(
    late: float, until: int, *, found: bool
) -> None:
    made = story()
    made.lease(0.9, "host-1", "acquire", A, status=201)
    made.lease(1 + 7.5 + 3, "host-1", "renew", A)
    made.body("host-1", 1, 14, A)
    said = judged(slow(slow(made, "host-1", 1, until, late), STORAGE, 1, until, late)).violations
    assert found == any("was not renewed in time" in text for text in said)


@pytest.mark.parametrize(
    ("slow_until", "host", "found"), [(24, "host-1", False), (10, "host-1", True), (24, "host-2", True)]
)
def test_a_body_that_had_no_processor_could_not_end_after_the_loss(slow_until: int, host: str, *, found: bool) -> None:
    made = story().know(cancels=True)
    made.add(1, "host-1", "invocation_started", function="ship", invocation="i")
    for kind in ("waiting", "acquired", "body_started"):
        made.lock(1, "host-1", kind, A, "i")
    made.sight("host-1", 1, 23, invocation="i", sees={"can_be_asked": True}, lost=True)
    made.lock(20, "host-1", "lost", A, "i", reason="expired")
    made.lock(23, "host-1", "body_ended", A, "i", reason="lost")
    said = judged(slow(made, host, 1, slow_until, 0.4)).violations
    assert found == any("nobody had asked for an end" in text for text in said)


def failing(late: float, *, error: str, seconds: float, slow_from: float = 4, **known: Any) -> Verdict:
    """An invocation that asks from second 5 on, and fails, while the machine keeps its host waiting."""
    made = slow(story().know(**known), "host-1", slow_from, 30, late)
    made.body("host-2", 1, 2, key_lock("b"))
    made.add(5, "host-1", "invocation_started", function="ship", invocation="call-1")
    made.lock(5, "host-1", "waiting", A, "call-1")
    if error == "LockLost":
        for kind in ("acquired", "body_started"):
            made.lock(5, "host-1", kind, A, "call-1", token=1)
        made.lock(5 + seconds, "host-1", "lost", A, "call-1", token=1, reason="expired")
        made.lock(5 + seconds, "host-1", "body_ended", A, "call-1", token=1, reason="lost")
    about = {"outcome": "error", "error": error, "blames": error}
    made.add(5.1 + seconds, "host-1", "invocation_ended", function="ship", invocation="call-1", **about)
    return judge(made.end(40))


@pytest.mark.parametrize(
    ("late", "error", "seconds", "judged"),
    [
        (0.5, "StorageUnavailable", 10.0, False),
        (0.2, "StorageUnavailable", 10.0, True),
        (0.5, "StorageUnavailable", 2.0, True),
        (0.5, "LockLost", 7.0, False),
        (0.1, "LockLost", 7.0, True),
        (0.5, "LockClosed", 10.0, True),
    ],
)
def test_an_invocation_that_the_machine_let_fail_is_not_judged(
    late: float, error: str, seconds: float, *, judged: bool
) -> None:
    found = failing(late, error=error, seconds=seconds, on_contention="skip", failover=2)
    text = f"an invocation of 'ship' failed with {error} on host-1: not judged, as this machine was too slow"
    assert any(text in reason for reason in found.reasons) != judged
    accused = f"1 invocation of 'ship' failed with {error}, which nothing in this run caused"
    assert (accused in found.violations) == judged


def test_an_invocation_may_join_an_attempt_that_its_process_began_before() -> None:
    accused = "1 invocation of 'ship' failed with StorageUnavailable, which nothing in this run caused"
    for slow_from, judged in ((0, False), (4, True)):
        found = failing(0.5, error="StorageUnavailable", seconds=5.0, slow_from=slow_from, on_contention="skip")
        assert (accused in found.violations) == judged


def test_of_many_that_were_not_judged_the_first_are_told_and_the_rest_is_counted() -> None:
    unjudged = tuple(unproven(f"late {number}: not judged", (number, number + 1.0)) for number in range(70))
    checks = (CheckResult(name="bounds", promise="", looked_at={}, findings=(violation("broken"), *unjudged)),)
    told = tuple(finding.text for finding in checks[0].findings)
    verdict = replace(judged(story()), verdict="violated", checks=checks, reasons=told, violations=("broken",))
    lines = [(line.mark, line.text) for line in summary(verdict)]
    assert ("bad", "broken") in lines
    assert sum("late" in text for _, text in lines) == UNJUDGED_SHOWN
    assert all(mark == "open" for mark, text in lines if "not judged" in text)
    assert ("open", "and 65 more not judged: this machine was too slow") in lines


@pytest.mark.parametrize(("late", "verdict"), [(0.1, "violated"), (0.4, "unproven")])
def test_a_message_that_the_machine_was_too_slow_to_keep_hidden_is_not_judged(late: float, verdict: str) -> None:
    made = story()
    made.message("m", "host-1", 5, 20)
    made.received(15, "host-2", "m")
    made.body("host-2", 21, 22, A, message="m", asked=15.1)
    told = judged(slow(made, STORAGE, 5, 15, late))
    assert told.verdict == verdict
    unjudged = "1 message ran twice: not judged, as this machine was too slow to keep them hidden"
    assert (unjudged in [each.text for check in told.checks for each in check.findings]) == (verdict == "unproven")
