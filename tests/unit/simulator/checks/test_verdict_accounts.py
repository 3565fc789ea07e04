"""Every ending is accounted for: refusals, successes, failures, locks that are kept, and locks that nobody takes."""

from __future__ import annotations

from typing import Any

import pytest

from simulator.checks.verdict import judge
from tests.support.journals import Story, good_story, key_lock, plain

A = key_lock("a")


def violations(story: Story, end: float = 40) -> list[str]:
    return plain(judge(story.end(end)).violations)


def call(story: Story, host: str, start: float, end: float, owner: str, **ended: Any) -> None:
    story.add(start, host, "invocation_started", function="ship", invocation=owner)
    story.add(end, host, "invocation_ended", function="ship", invocation=owner, **{"outcome": "ok", **ended})


def witnessed(story: Story) -> Story:
    story.add(0.15, "host-1", "host_started", pid=101, witness=True)
    return story


def test_a_good_run_has_no_such_finding() -> None:
    assert violations(good_story()) == []


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_a_refusal_while_another_has_the_lock_is_accounted_for() -> None:
    story = Story(policy="skip")
    story.body("host-1", 1, 5, A)
    story.skip("host-2", 2, A)
    assert violations(story) == []


def test_a_refusal_though_nobody_has_the_lock_is_found() -> None:
    story = Story(policy="skip")
    story.body("host-1", 1, 2, A)
    story.skip("host-2", 9, A)
    assert violations(story) == ["1 invocation of 'ship' found the lock taken, and nobody had it"]


@pytest.mark.parametrize("how", ["killed", "paused"])
def test_a_lease_of_a_host_that_died_or_stood_still_accounts_for_refusals_until_it_ends(how: str) -> None:
    def story(at: float) -> Story:
        story = Story(policy="skip")
        if how == "killed":
            story.body("host-1", 1, None, A)
            story.kill(2, "host-1", A)
        else:
            story.add(2, "host-1", "pause")
            story.body("host-1", 1, 2.1, A)
            story.add(2.2, "host-1", "resume")
        story.skip("host-2", at, A)
        story.body("host-2", 25, 26, A)
        return story

    assert violations(story(16)) == []
    assert "1 invocation of 'ship' found the lock taken, and nobody had it" in violations(story(22))


NOBODY = "1 invocation of 'ship' found the lock taken, and nobody had it"


def granted_for_no_hold(story: Story, *, blob: str = A, released: tuple[int | None, ...] = (429,)) -> Story:
    """Let the storage give a lease to host-1 for an attempt that fails, with these answers to its release."""
    story.body("host-3", 1.0, 1.4, blob)
    story.lock(2.0, "host-1", "waiting", A, "failing")
    story.lease(2.1, "host-1", "acquire", blob, status=201, lease="unheld", period=15)
    for number, status in enumerate(released):
        story.lease(2.2 + number / 10, "host-1", "release", blob, status=status, lease="unheld")
    story.lock(3.0, "host-1", "contended", A, "failing", reason="skip")
    return story


@pytest.mark.parametrize(
    ("released", "at", "accused"),
    [
        ((429, 503), 16, []),
        ((None,), 16, []),
        ((429,), 24, [NOBODY]),  # the lease has expired
        ((429, 200), 9, [NOBODY]),  # the lease was given back
        ((None, 409), 9, [NOBODY]),
        ((), 9, [NOBODY]),  # its host forgot the lease
    ],
)
def test_a_lease_that_was_granted_for_no_hold_accounts_for_refusals_while_it_lasts(
    released: tuple[int | None, ...], at: float, accused: list[str]
) -> None:
    story = granted_for_no_hold(Story(policy="skip"), released=released)
    story.skip("host-2", at, A)
    assert violations(story) == accused


@pytest.mark.parametrize(
    ("released", "at", "accused"),
    [
        ((None, None), 15, []),
        ((503,), 15, []),
        ((None, None), 20, [NOBODY]),  # the lease has expired
        ((None, 200), 15, [NOBODY]),
        ((400,), 15, [NOBODY]),  # no trouble of the storage's
    ],
)
def test_a_hold_whose_release_failed_accounts_for_refusals_until_its_lease_ends(
    released: tuple[int | None, ...], at: float, accused: list[str]
) -> None:
    story = Story(policy="skip")
    story.lease(0.9, "host-1", "acquire", A, status=201, lease="held", period=15)
    for number, status in enumerate(released):
        story.lease(1.8 + number / 10, "host-1", "release", A, status=status, lease="held")
    story.body("host-1", 1, 2, A)
    story.skip("host-2", at, A)
    assert violations(story) == accused


@pytest.mark.parametrize("slots", [1, 2])
def test_a_lease_that_was_granted_for_no_hold_is_not_free_for_a_waiter(slots: int) -> None:
    blob, several = (f"{A}/slot-0", {"at_once": slots, "several": True}) if slots > 1 else (A, {})
    story = granted_for_no_hold(Story().know(**several), blob=blob)
    for slot in range(1, slots):
        story.body("host-1", 0.5, 21, f"{A}/slot-{slot}")
    story.body("host-2", 19, 20, blob, asked=2.5)
    assert [text for text in violations(story) if "free" in text] == []


def test_a_lease_that_was_granted_for_no_hold_may_delay_a_take_over() -> None:
    story = Story(kill=1)
    story.body("host-3", 1, None, A)
    story.kill(2, "host-3", A)
    story.lease(17.1, "host-1", "acquire", A, status=201, lease="unheld", period=15)
    story.lease(17.2, "host-1", "release", A, status=503, lease="unheld")
    story.body("host-2", 33, 34, A, asked=1.5)
    assert [text for text in violations(story) if "taken over" in text] == []


def test_a_lock_of_a_client_accounts_for_the_refusals_of_a_function_with_the_same_lock() -> None:
    story = Story(policy="skip")
    story.lease(2.1, "host-1", "acquire", A, status=201, lease="client", period=15)
    story.add(2.1, "host-1", "lock", kind="acquired", lock=A, mode="client")
    story.skip("host-2", 9, A)
    assert violations(story) == []


@pytest.mark.parametrize(
    ("policy", "reason"), [("wait", "skip"), ("wait", "timeout"), ("raise", "skip"), ("skip", "raise")]
)
def test_a_refusal_that_the_policy_does_not_know_is_found(policy: str, reason: str) -> None:
    story = Story(policy=policy)
    story.body("host-1", 1, 5, A)
    story.skip("host-2", 2, A, reason=reason)
    text = f"1 invocation of 'ship' gave up ({reason}), though on_contention={policy!r} does not allow that"
    assert text in violations(story)


def test_a_wait_that_its_hosts_time_limit_cuts_is_no_finding() -> None:
    def story(given_up: float) -> Story:
        story = Story().know(limit=20)  # a wait leaves five of the twenty seconds
        story.body("host-1", 1, 30, A)
        story.add(2, "host-2", "invocation_started", function="ship", invocation="cut")
        story.lock(2, "host-2", "waiting", A, "cut")
        story.lock(given_up, "host-2", "contended", A, "cut", reason="timeout")
        story.add(given_up, "host-2", "invocation_ended", invocation="cut", outcome="error", blames="LockNotAcquired")
        return story

    assert violations(story(17)) == []
    (text,) = violations(story(12))
    assert text == (
        "1 invocation of 'ship' gave up (timeout), though on_contention='wait' does not allow that before 15 s "
        "(functionTimeout is 20 s)"
    )


def early(policy: str, gave_up: float, **known: Any) -> list[str]:
    story = Story(policy=policy).know(timeout=4, **known)
    story.body("host-1", 1, 30, A)
    story.add(2, "host-2", "invocation_started", function="ship", invocation="early")
    story.lock(2, "host-2", "waiting", A, "early")
    reason = "timeout" if policy == "wait" else policy
    story.lock(2 + gave_up, "host-2", "contended", A, "early", reason=reason)
    story.add(2 + gave_up, "host-2", "invocation_ended", function="ship", invocation="early", outcome="ok")
    return [text for text in judge(story.end(40)).violations if "gave up" in text]


@pytest.mark.parametrize("policy", ["wait", "raise", "skip", "conflict", "defer"])
def test_a_wait_that_ends_before_its_timeout_is_found_under_every_policy(policy: str) -> None:
    assert early(policy, 4.0) == early(policy, 3.6) == []
    said = ["1 invocation of 'ship' gave up after 1.0 s, though timeout=4 (from second 2.0 on, on host-2)"]
    assert early(policy, 1.0) == said
    assert early(policy, 1.0, limit=2.4) == []  # its functionTimeout leaves 1.2 s
    assert early(policy, 1.0, decorated=True) == said


@pytest.mark.parametrize("full", [True, False])
def test_a_wait_beyond_max_waiting_may_end_at_once_by_the_same_policy(*, full: bool) -> None:
    story = Story(policy="raise").know(timeout=4, max_waiting=1, when_full="raise")
    story.body("host-1", 1, 5, A)
    if full:
        story.body("host-2", 5, 6, A, asked=1.5)
    story.skip("host-2", 2, A, reason="raise")
    assert any("gave up after 0.0 s" in text for text in violations(story)) is not full


def test_who_is_refused_the_lock_that_it_has_is_refused_at_once() -> None:
    story = Story(policy="raise").know(timeout=4)
    story.body("host-1", 1, 5, A, owner="again")
    story.lock(2, "host-1", "waiting", A, "again")
    story.lock(2, "host-1", "contended", A, "again", reason="raise")
    story.lock(2, "host-1", "waiting", A, "a call of the body")
    story.lock(2, "host-1", "contended", A, "a call of the body", reason="raise")
    assert not any("gave up" in text for text in violations(story))


@pytest.mark.parametrize(("waited", "breaks"), [(1.0, True), (4.0, False)])
def test_a_message_whose_waits_ended_early_is_not_the_apps_poison(waited: float, *, breaks: bool) -> None:
    story = Story(policy="raise").know(timeout=4)
    story.body("host-1", 1, 30, A)
    story.sent(1.8, "m")
    story.received(1.9, "host-2", "m")
    story.add(2, "host-2", "invocation_started", function="ship", invocation="one", message="m")
    story.lock(2, "host-2", "waiting", A, "one")
    story.lock(2 + waited, "host-2", "contended", A, "one", reason="raise")
    failed = {"outcome": "error", "error": "LockNotAcquired: taken", "blames": "LockNotAcquired"}
    story.add(2 + waited, "host-2", "invocation_ended", function="ship", invocation="one", message="m", **failed)
    story.add(7, "host-2", "message_poisoned", queue="orders", id="m")
    verdict = judge(story.end(40))
    told = "1 message poisoned from 'orders' by refusals that no policy of its function allows"
    assert (told in verdict.violations) is breaks
    assert any('on_contention="raise" gives a delivery up' in text for text in verdict.notes) is not breaks


# --- successes and failures -------------------------------------------------------------------------------------------


def test_a_success_without_a_body_and_without_a_refusal_is_found() -> None:
    story = witnessed(Story())
    story.body("host-1", 1, 2, A, seen=(1, 2))
    call(story, "host-2", 3, 4, "empty")
    assert "1 invocation of 'ship' succeeded without its body, neither skipped nor put back" in violations(story)


def test_a_success_although_its_body_failed_is_found() -> None:
    story = witnessed(Story())
    owner = story.body("host-1", 1, 2, A)
    story.sight("host-1", 1, 2, invocation=owner, error="ValueError")
    assert violations(story) == ["1 invocation of 'ship' succeeded although its body had failed"]


@pytest.mark.parametrize("poisoned", [False, True])
def test_a_success_without_the_lock_is_found_unless_its_message_was_given_up(*, poisoned: bool) -> None:
    story = witnessed(Story())
    owner = story.body("host-1", 1, 2, A, outcome="lost", seen=(1, 2))
    for record in story.records:
        if record.event == "invocation_ended" and record.get("invocation") == owner:
            record.fields.update(outcome="ok")  # type: ignore[attr-defined]
    if poisoned:
        story.lock(1.95, "host-1", "poisoned", A, owner, message_id="m1")
    found = ["1 invocation of 'ship' succeeded although it had lost its lock"]
    assert [each for each in violations(story) if "although" in each] == ([] if poisoned else found)


@pytest.mark.parametrize(
    ("name", "by_pause"), [("LockLost", True), ("StorageUnavailable", True), ("StorageDenied", False)]
)
def test_a_failure_by_the_lock_needs_a_cause_in_the_run(name: str, *, by_pause: bool) -> None:
    def story(*, paused: bool) -> Story:
        story = Story()
        story.body("host-1", 1, 2, A)
        if paused:
            story.add(3, "host-2", "pause")
            story.add(24, "host-2", "resume")
        call(story, "host-2", 2.5, 25, "failed", outcome="error", error=f"{name}: no", blames=name)
        return story

    assert violations(story(paused=False)) == [
        f"1 invocation of 'ship' failed with {name}, which nothing in this run caused"
    ]
    assert bool(violations(story(paused=True))) != by_pause


def test_an_error_of_the_apps_own_with_the_name_of_one_of_the_locks_is_the_apps() -> None:
    story = Story()
    story.body("host-1", 1, 2, A)
    call(story, "host-2", 3, 4, "failed", outcome="error", error="StorageError: disk full", blames="")
    assert violations(story) == []


@pytest.mark.parametrize("fault", [False, True])
def test_a_lock_that_was_kept_for_at_least_may_stay_leased_by_a_fault_at_its_release(*, fault: bool) -> None:
    story = Story().know(at_least=2)
    story.body("host-1", 1, 1.1)
    if fault:
        story.fault(3.5, 6, "partition", "host-1")
    story.skip("host-2", 10)
    assert any("nobody had it" in text for text in violations(story)) != fault


# --- kept, and left free ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given_back", [True, False])
def test_a_lock_that_is_kept_after_its_body_is_found(given_back: bool) -> None:
    story = Story()
    owner = story.body("host-1", 1, 2, A)
    released = next(record for record in story.records if record.get("kind") == "released")
    story.records.remove(released)
    if given_back:
        story.lock(9, "host-1", "released", A, owner)
    kept = 7.0 if given_back else 38.0
    assert violations(story) == [f"ship.a was kept by host-1 for {kept} s after its body had ended"]


def test_a_lock_that_is_free_while_somebody_waits_is_found() -> None:
    story = Story()
    story.body("host-1", 1, 2, A)
    story.body("host-2", 12, 13, A, asked=1.5)
    assert violations(story) == ["ship.a was free for 10.0 s while host-2 waited for it"]


def test_a_waiter_that_stands_still_or_is_killed_takes_no_lock_and_is_not_accused() -> None:
    story = Story()
    story.body("host-1", 1, 2, A)
    story.add(1.8, "host-2", "pause")
    story.add(20, "host-2", "resume")
    story.body("host-2", 20.5, 21, A, asked=1.5)
    story.lock(1.5, "host-3", "waiting", A, "dying")
    story.kill(14, "host-3")
    assert [text for text in violations(story) if "free" in text] == []


def test_a_hold_without_a_token_is_found_where_it_should_have_one() -> None:
    story = Story()
    story.body("host-1", 1, 2, A)
    assert violations(story) == []
    story = Story()
    for record in story.records:
        if record.event == "function":
            record.fields["tokens"] = True  # type: ignore[index]
    story.body("host-1", 1, 2, A)
    assert violations(story) == ["1 hold of 'ship' had no fencing token"]


def test_each_try_of_an_invocation_is_refused_for_who_has_the_lock_then() -> None:
    story = Story(policy="skip")
    story.body("host-1", 1, 2, A)
    for t in (1.5, 20.5):
        story.add(t, "host-2", "invocation_started", function="ship", invocation="again")
        story.lock(t, "host-2", "waiting", A, "again")
        story.lock(t + 0.1, "host-2", "contended", A, "again", reason="skip")
        story.add(t + 0.1, "host-2", "invocation_ended", function="ship", invocation="again", outcome="ok")
    story.body("host-1", 20, 21, A)
    assert violations(story) == []
