"""What strikes between two moments of an invocation: after its body, in a short wait, between two tries, on state."""

from __future__ import annotations

from typing import Any

import pytest

from simulator.checks.verdict import judge
from tests.support.journals import Story, bare, key_lock

A = key_lock("a")
CHARGED = "once/shared/ship/7"
UNCAUSED = "which nothing in this run caused"


def violations(story: Story, end: float = 60.0) -> tuple[str, ...]:
    if any(record.event == "fault" for record in story.records):
        story.fleet(end - 1, "healed")
    return judge(story.end(end)).violations


# --- at_least -----------------------------------------------------------------------------------------------------


def kept(*, dies: float | None = None, refused: float = 25.0, drained: bool = False) -> Story:
    """A body of a second, whose lock is kept for 20 seconds; another host is refused the lock later."""
    story = Story(policy="skip").know(at_least=20)
    story.body("host-1", 1, 2, A)
    story.skip("host-2", refused, A)
    if dies is not None and drained:
        story.add(dies, "host-1", "host_exited", code=0, expected=True)
    elif dies is not None:
        story.kill(dies, "host-1")
    return story


@pytest.mark.parametrize("drained", [False, True])
def test_a_lock_whose_process_ended_while_it_kept_the_lock_stays_leased_for_one_more_lease(drained: bool) -> None:
    assert violations(kept(dies=12, drained=drained)) == ()
    left = "1 invocation of 'ship' found the lock taken, and nobody had it"
    assert left in violations(kept(dies=12, refused=31, drained=drained))


def test_a_host_that_stands_still_when_it_would_give_a_kept_lock_back_keeps_it_for_one_more_lease() -> None:
    story = kept(refused=35)
    story.add(21.5, "host-1", "pause")
    story.add(50, "host-1", "resume")
    assert violations(story) == ()


def test_the_end_of_a_process_after_its_lock_was_free_again_explains_no_refusal() -> None:
    left = "1 invocation of 'ship' found the lock taken, and nobody had it"
    assert left in violations(kept())
    assert left in violations(kept(dies=24))


# --- short waits ----------------------------------------------------------------------------------------------------


def given_up(after: float, *, policy: str, timeout: float, fault: tuple[float, float] = (4, 30)) -> tuple[str, ...]:
    """Judge an invocation that asked for its lock at second 10, and failed because the storage gave no answer."""
    story = Story(policy=policy, faults=["throttle"]).know(timeout=timeout)
    story.fault(*fault, "throttle", "host-1")
    story.body("host-2", 0.5, 0.9, key_lock("b"))
    story.add(10, "host-1", "invocation_started", function="ship", invocation="call-1")
    story.lock(10, "host-1", "waiting", A, "call-1")
    error = {"outcome": "error", "error": "StorageUnavailable: 503", "blames": "StorageUnavailable"}
    story.add(10 + after, "host-1", "invocation_ended", function="ship", invocation="call-1", **error)
    return violations(story, 90)


@pytest.mark.parametrize("policy", ["wait", "defer", "raise", "skip", "conflict"])
@pytest.mark.parametrize("timeout", [2, 5, 30])
def test_a_wait_whose_time_out_ends_under_a_fault_may_end_as_storage_unavailable(policy: str, timeout: float) -> None:
    assert given_up(timeout, policy=policy, timeout=timeout, fault=(4, 50)) == ()
    assert given_up(timeout, policy=policy, timeout=timeout, fault=(9 + timeout, 50)) == ()


@pytest.mark.parametrize("policy", ["wait", "defer", "raise"])
def test_a_wait_that_gives_the_storage_up_at_once_is_found_under_a_fault_too(policy: str) -> None:
    (said,) = bare(given_up(0.5, policy=policy, timeout=5))
    assert said == f"1 invocation of 'ship' failed with StorageUnavailable, {UNCAUSED}"


def test_a_fault_that_is_over_does_not_explain_the_end_of_a_wait() -> None:
    assert given_up(20, policy="wait", timeout=20, fault=(4, 12)) != ()


# --- tries ----------------------------------------------------------------------------------------------------------


def tried_twice(*, second: str = "ok", paused: bool = True) -> Story:
    """An invocation whose host tries it again after its first try has lost its lock in a pause."""
    story = Story()
    if paused:
        story.add(3, "host-1", "pause")
        story.add(23, "host-1", "resume")
    for start, told, end in ((1.0, 23.1, 23.2), (25.0, 27.0, 28.0)):
        lost = start == 1 or second == "lost"
        story.add(start, "host-1", "invocation_started", function="ship", invocation="one")
        story.lock(start, "host-1", "waiting", A, "one")
        story.lock(start, "host-1", "acquired", A, "one")
        story.lock(start, "host-1", "body_started", A, "one")
        story.sight("host-1", start, end, invocation="one", sees={"attempt": int(start > 1)})
        if lost:
            story.lock(told, "host-1", "lost", A, "one", reason="expired")
        story.lock(end, "host-1", "body_ended", A, "one", reason="lost" if lost else "ok")
        story.lock(end, "host-1", "released", A, "one")
        error = {"outcome": "error", "error": "LockLost: lost", "blames": "LockLost"}
        well = start > 1 and second != "failed"
        story.add(
            end,
            "host-1",
            "invocation_ended",
            function="ship",
            invocation="one",
            **({"outcome": "ok"} if well else error),
        )
    for record in story.records:
        if record.event == "host_started":
            record.fields["witness"] = True  # type: ignore[index]
    return story


def test_the_last_try_of_an_invocation_is_judged_by_its_own_lock() -> None:
    assert violations(tried_twice()) == ()
    without = "1 invocation of 'ship' succeeded although it had lost its lock"
    assert without in violations(tried_twice(second="lost"))


def test_a_pause_in_the_first_try_explains_no_loss_in_the_second() -> None:
    story = tried_twice(second="lost")
    story.records[-1].fields.update(outcome="error", error="LockLost: lost", blames="LockLost")  # type: ignore[attr-defined]
    assert f"1 invocation of 'ship' failed with LockLost, {UNCAUSED}" in violations(story)


# --- state and once --------------------------------------------------------------------------------------------------


def broken_once(*, broken: str = CHARGED, blames: str = "LockLost", told: bool = True, at: float = 3.0) -> Story:
    """An invocation of a guarded function under ``@once``, whose result meets the break of the lock of ``@once``."""
    story = Story(faults=["break"]).know(once=True)
    story.body("host-2", 0.5, 0.9, key_lock("b"))
    story.add(1, "host-1", "invocation_started", function="ship", invocation="one")
    for lock in (CHARGED, A):
        story.lock(1, "host-1", "waiting", lock, "one", function="ship")
        story.lock(1, "host-1", "acquired", lock, "one", function="ship")
        story.lock(1, "host-1", "body_started", lock, "one", function="ship")
    story.fault(at, at, "break", "host-1", lock=broken)
    story.lock(4, "host-1", "body_ended", A, "one", reason="ok")
    story.lock(4, "host-1", "released", A, "one")
    if told:
        story.lock(4.1, "host-1", "lost", CHARGED, "one", reason="blob gone", function="ship")
    story.lock(4.1, "host-1", "body_ended", CHARGED, "one", reason="lost" if told else "error", function="ship")
    story.lock(4.1, "host-1", "released", CHARGED, "one", function="ship")
    error: dict[str, Any] = {"outcome": "error", "error": f"{blames}: no", "blames": blames}
    story.add(4.2, "host-1", "invocation_ended", function="ship", invocation="one", **error)
    return story


@pytest.mark.parametrize(("blames", "told"), [("LockLost", True), ("StorageDenied", True), ("StorageDenied", False)])
def test_a_break_is_met_first_where_a_result_or_a_state_is_written(blames: str, told: bool) -> None:
    assert violations(broken_once(blames=blames, told=told)) == ()


@pytest.mark.parametrize("wrong", [{"broken": key_lock("b")}, {"at": 5.0}])
@pytest.mark.parametrize(("blames", "told"), [("LockLost", True), ("StorageDenied", False)])
def test_a_break_of_another_lock_or_at_another_time_explains_no_such_error(
    blames: str, told: bool, wrong: dict[str, Any]
) -> None:
    said = violations(broken_once(blames=blames, told=told, **wrong))
    assert f"1 invocation of 'ship' failed with {blames}, {UNCAUSED}" in said


def test_a_failure_that_only_the_machines_slowness_explains_is_not_judged() -> None:
    def failed(late: float) -> tuple[str, ...]:
        story = Story(policy="skip")
        story.body("host-2", 0.5, 0.9, A)
        story.add(10, "host-1", "invocation_started", function="ship", invocation="call-1")
        story.lock(10, "host-1", "waiting", A, "call-1")
        story.add(19, "host-1", "machine_slow", measures=[[6.0, late]])
        error = {"outcome": "error", "error": "StorageUnavailable: 503", "blames": "StorageUnavailable"}
        story.add(20, "host-1", "invocation_ended", function="ship", invocation="call-1", **error)
        verdict = judge(story.end(40))
        assert any("failed with StorageUnavailable on host-1: not judged" in text for text in verdict.reasons) == (
            late > 2
        )
        return tuple(text for text in verdict.violations if UNCAUSED in text)

    assert failed(5.0) == ()
    assert failed(1.0) == (f"1 invocation of 'ship' failed with StorageUnavailable, {UNCAUSED}",)
