"""A loss is explained by the fault nearest in cause, by its own rule, and by nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from simulator.checks.verdict import judge
from tests.support.journals import Story, bare, key_lock

if TYPE_CHECKING:
    from simulator.checks.verdict import Verdict

A, B = key_lock("a"), key_lock("b")
UNCAUSED = "which nothing in this run caused"


def lost(told: float, *, why: str = "expired", granted: tuple[float, ...] = (1, 8.5), faults: Any = ()) -> Verdict:
    """Judge a body whose lock is lost: its lease was granted at these times, so its deadline is second 22.5."""
    story = Story(faults=["error"])
    story.fault(0.5, 0.6, "duplicate", "host-3")
    for kind, start, end in faults:
        lock = A if kind == "break" else ""
        story.fault(start, end, kind, "host-1", lock=lock)
        if kind == "pause":
            story.add(start, "host-1", "pause")
            story.add(end, "host-1", "resume")
    story.add(1, "host-1", "invocation_started", function="ship", invocation="one")
    story.lock(1, "host-1", "waiting", A, "one")
    story.lease(granted[0], "host-1", "acquire", A, took=0.0, lease="id")
    story.lock(1, "host-1", "acquired", A, "one")
    story.lock(1, "host-1", "body_started", A, "one")
    for t in granted[1:]:
        story.lease(t, "host-1", "renew", A, took=0.0, lease="id")
    story.lock(told, "host-1", "lost", A, "one", reason=why)
    story.lock(told, "host-1", "body_ended", A, "one", reason="lost")
    error = {"outcome": "error", "error": "LockLost: lost", "blames": "LockLost"}
    story.add(told + 0.1, "host-1", "invocation_ended", function="ship", invocation="one", **error)
    story.fleet(58, "healed")
    return judge(story.end(60))


def blamed(verdict: Verdict) -> list[str]:
    return [fault.kind for fault in verdict.faults if fault.excused]


def uncaused(verdict: Verdict) -> list[str]:
    return [text for text in bare(verdict.violations) if UNCAUSED in text]


ERROR = ("error", 6, 9)
"""It lasts for 3 seconds, and ended 13 seconds before the loss: the renewal after it was granted."""


def test_the_fault_that_kept_renewals_from_being_granted_is_named_and_no_earlier_one() -> None:
    slept = lost(22.6, faults=(ERROR, ("pause", 15, 22.6)))
    assert slept.violations == ()
    assert blamed(slept) == ["pause"]
    cut = lost(22.5, faults=(("pause", 2, 5), ("partition", 15, 24)))
    assert cut.violations == ()
    assert blamed(cut) == ["partition"]


def test_of_two_faults_before_a_deadline_the_longer_one_is_named() -> None:
    assert blamed(lost(22.5, faults=(("error", 15.8, 17), ("partition", 17.2, 23)))) == ["partition"]
    assert blamed(lost(22.5, faults=(("partition", 15.8, 21), ("error", 21.2, 23)))) == ["partition"]


@pytest.mark.parametrize(
    "faults",
    [
        pytest.param((), id="no fault"),
        pytest.param((ERROR,), id="an error that was over long before"),
        pytest.param((("pause", 9, 15.5),), id="a pause that ended before a renewal was due"),
        pytest.param((("partition", 9, 19),), id="a cut that left three seconds for renewals"),
        pytest.param((("error", 20, 23),), id="an error that began when renewals had had four seconds"),
        pytest.param((ERROR, ("pause", 12, 17)), id="two that are too short"),
    ],
)
def test_a_loss_that_no_fault_explains_by_its_own_rule_is_a_violation(faults: Any) -> None:
    hold, invocation = uncaused(lost(22.5, faults=faults))
    assert hold == (
        f"1 hold of 'ship' lost (expired), {UNCAUSED}: the first on host-1 at 22.5 s, 14.0 s after its lease was last "
        "granted"
    )
    assert invocation == f"1 invocation of 'ship' failed with LockLost, {UNCAUSED}"


def test_before_its_deadline_a_hold_is_lost_by_nothing_but_an_answer_of_the_storage() -> None:
    said, _ = uncaused(lost(18, faults=(("partition", 9, 30),)))
    assert said.startswith(f"1 hold of 'ship' lost (expired), {UNCAUSED}")
    broken = lost(18, faults=(("partition", 9, 12), ("break", 14, 14)))
    assert broken.violations == ()
    assert blamed(broken) == ["break"]


@pytest.mark.parametrize("why", ["broken", "stolen", "blob gone"])
def test_a_lease_is_broken_stolen_or_gone_where_somebody_did_that(why: str) -> None:
    assert blamed(lost(16, why=why, faults=(("break", 12, 12),))) == ["break"]
    said, _ = uncaused(lost(16, why=why, faults=(("partition", 2, 16),)))
    assert said.startswith(f"1 hold of 'ship' lost ({why}), {UNCAUSED}")


def test_a_hold_that_is_lost_with_no_body_inside_is_judged_too() -> None:
    def dropped(*, cut: bool) -> tuple[str, ...]:
        story = Story(faults=["partition"]).know(mode="listener", listener={"lease": 60, "poll": 60})
        story.fault(*((1, 70) if cut else (1, 2)), "partition", "host-1")
        story.lock(1, "host-1", "waiting", B, "", mode="listener")
        story.lock(1, "host-1", "acquired", B, "", mode="listener")
        story.lock(65 if cut else 20, "host-1", "lost", B, "", mode="listener", reason="expired")
        story.fleet(75, "healed")
        return tuple(text for text in bare(judge(story.end(78)).violations) if UNCAUSED in text)

    assert dropped(cut=True) == ()
    (said,) = dropped(cut=False)
    assert said.startswith(f"1 hold of 'ship' lost (expired), {UNCAUSED}: the first on host-1 at 20.0 s")


def test_a_blocked_loop_explains_no_loss_and_a_process_that_stood_still_does() -> None:
    def stood(event: str) -> tuple[str, ...]:
        story = Story()
        story.lease(1, "host-1", "acquire", A, took=0.0, lease="id")
        story.lock(1, "host-1", "waiting", A, "one")
        story.lock(1, "host-1", "acquired", A, "one")
        story.add(17, "host-1", event, seconds=15, worker=1)
        story.lock(17, "host-1", "lost", A, "one", reason="expired")
        return tuple(text for text in judge(story.end(40)).violations if UNCAUSED in text)

    assert stood("process_stood") == ()
    assert len(stood("loop_stood")) == 1


# --- by hand ---------------------------------------------------------------------------------------------------------


def ended_outside(*, lease: str = "id", by: str = "", refused: float = 9.0, overlap: bool = True) -> Verdict:
    """Judge a lease that the storage refuses to renew: nobody of the run, or somebody, had ended it."""
    story = Story()
    story.add(1, "host-1", "invocation_started", function="ship", invocation="one")
    story.lock(1, "host-1", "waiting", A, "one")
    story.lease(1, "host-1", "acquire", A, status=201, took=0.0, lease="id")
    story.lock(1, "host-1", "acquired", A, "one", token=1)
    story.lock(1, "host-1", "body_started", A, "one", token=1)
    if by:
        story.lease(4, "host-2", by, A, took=0.0, lease="id")
    if overlap:
        story.body("host-2", 5, 7, A, token=2)
    story.lease(refused, "host-1", "renew", A, status=409, took=0.0, lease=lease)
    story.lock(refused, "host-1", "lost", A, "one", reason="stolen")
    story.lock(refused, "host-1", "body_ended", A, "one", reason="lost", token=1)
    error = {"outcome": "error", "error": "LockLost: lost", "blames": "LockLost"}
    story.add(refused + 0.1, "host-1", "invocation_ended", function="ship", invocation="one", **error)
    return judge(story.end(40))


def test_a_lease_that_somebody_outside_the_run_ended_is_not_the_runs_and_is_told() -> None:
    verdict = ended_outside()
    assert verdict.violations == ()
    said = "somebody outside this run ended the lease of ship.a, which host-1 had, after second 1.0: that is not judged"
    assert said in verdict.notes


def test_a_lease_that_was_handed_on_after_its_end_exposes_the_holds_before() -> None:
    story = Story()
    story.lease(1, "host-1", "acquire", A, status=201, took=0.0, lease="id")
    story.body("host-1", 1, 4, A, token=1, owner="one")
    story.body("host-2", 3, 5, A, token=2)
    story.lease(5, "host-2", "release", A, took=0.0, lease="its own")
    story.body("host-1", 4, 6, A, token=1, owner="two")
    story.lock(6, "host-1", "waiting", A, "three")
    story.lock(6, "host-1", "acquired", A, "three", token=1)
    story.lease(7, "host-1", "release", A, status=409, took=0.0, lease="id")
    story.lock(7, "host-1", "released", A, "three", token=1)
    verdict = judge(story.end(40))
    assert (verdict.violations, len(verdict.caught)) == ((), 2)


@pytest.mark.parametrize(
    "how",
    [
        pytest.param({"by": "break"}, id="a host broke it"),
        pytest.param({"by": "delete"}, id="a host deleted the blob"),
        pytest.param({"by": "release"}, id="a host released it"),
        pytest.param({"lease": "another"}, id="asked for under another id"),
    ],
)
def test_a_lease_that_the_run_itself_ended_or_did_not_name_is_a_violation(how: dict[str, Any]) -> None:
    verdict = ended_outside(**how, overlap=False)
    assert any(UNCAUSED in text for text in verdict.violations)
    assert not any("outside this run" in text for text in verdict.notes)


def test_a_release_whose_answer_was_lost_may_have_ended_the_lease() -> None:
    def notes(status: int | None) -> list[str]:
        story = Story()
        story.lease(1, "host-1", "acquire", A, status=201, took=0.0, lease="id")
        story.body("host-1", 1, 4, A, token=1, owner="one")
        story.lock(4, "host-1", "waiting", A, "two")
        story.lock(4, "host-1", "acquired", A, "two", token=1)
        story.lease(7.5, "host-1", "release", A, status=status, took=2.5, lease="id")
        story.lease(7.6, "host-1", "release", A, status=409, took=0.0, lease="id")
        story.lock(7.6, "host-1", "released", A, "two", token=1)
        return [text for text in judge(story.end(40)).notes if "outside this run" in text]

    assert notes(None) == []
    assert len(notes(503)) == 1  # the storage did not carry it out


def test_a_lease_that_had_run_out_was_ended_by_nobody() -> None:
    verdict = ended_outside(refused=17.0, overlap=False)
    assert any(UNCAUSED in text for text in verdict.violations)
    assert not any("outside this run" in text for text in verdict.notes)


def test_a_host_that_somebody_stopped_stood_still_and_is_told() -> None:
    story = Story(pause=0)
    story.lease(1, "host-1", "acquire", A, took=0.0, lease="id")
    story.lock(1, "host-1", "waiting", A, "one")
    story.lock(1, "host-1", "acquired", A, "one")
    story.add(3, "host-1", "pause", outside=True)
    story.add(23, "host-1", "resume", outside=True)
    story.lock(23, "host-1", "lost", A, "one", reason="expired")
    verdict = judge(story.end(40))
    assert verdict.violations == ()
    assert "somebody outside this run stopped host-1 at 3.0 s, for 20.0 s: that is not judged" in verdict.notes
    assert verdict.pauses == 0


@pytest.mark.parametrize(("code", "how"), [(-9, "SIGKILL"), (-15, "SIGTERM"), (0, "SIGTERM or SIGINT")])
def test_a_host_that_somebody_ended_is_not_the_runs(code: int, how: str) -> None:
    story = Story()
    story.body("host-1", 1, None, A)
    story.add(3, "host-1", "host_exited", code=code, expected=False)
    verdict = judge(story.end(10))
    assert verdict.violations == ()
    assert f"somebody outside this run ended host-1 (by {how}): what followed is not ours" in verdict.reasons


def test_a_host_that_ended_by_itself_is_a_violation() -> None:
    story = Story()
    story.body("host-1", 1, None, A)
    story.add(3, "host-1", "host_exited", code=-11, expected=False)
    assert "host-1 ended by itself with exit code -11" in judge(story.end(10)).violations


def test_a_loss_that_only_the_machines_slowness_explains_is_not_judged() -> None:
    def slow(seconds: float) -> Verdict:
        story = Story()
        story.lease(1, "host-1", "acquire", A, took=0.0, lease="id")
        story.lock(1, "host-1", "waiting", A, "one")
        story.lock(1, "host-1", "acquired", A, "one")
        story.add(15, "host-1", "machine_slow", measures=[[6.0, seconds]])
        story.lock(15, "host-1", "lost", A, "one", reason="expired")
        return judge(story.end(40))

    assert not uncaused(slow(5.0))
    (said,) = (text for text in slow(5.0).reasons if "too slow" in text)
    assert said.startswith("a hold of 'ship' lost on host-1: not judged")
    assert uncaused(slow(2.0))


@pytest.mark.parametrize(("timeout", "granted", "caused"), [(1, 3.9, True), (1, 2.0, False), (10, 3.9, False)])
def test_a_short_wait_that_ends_just_after_a_grant_may_have_had_no_answer(
    timeout: float, granted: float, *, caused: bool
) -> None:
    made = Story().know(timeout=timeout)
    made.add(3, "host-1", "invocation_started", function="ship", invocation="i")
    made.lock(3, "host-1", "waiting", key_lock("a"), "i")
    made.lease(granted, "host-1", "acquire", f"{key_lock('a')}~next", status=201, lease="seat", took=0.0)
    made.lock(4, "host-1", "failed", key_lock("a"), "i", reason="StorageUnavailable")
    ended = {"outcome": "error", "error": "StorageUnavailable: no answer", "blames": "StorageUnavailable"}
    made.add(4, "host-1", "invocation_ended", function="ship", invocation="i", **ended)
    found = any("failed with StorageUnavailable, which nothing" in text for text in judge(made.end(30)).violations)
    assert found is not caused
