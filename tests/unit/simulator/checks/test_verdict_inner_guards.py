"""Guards inside one another: each body is judged by the lock that it took, and no other guard speaks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from simulator.checks.verdict import judge
from simulator.report.words import summary
from tests.support.journals import Story, key_lock

if TYPE_CHECKING:
    from simulator.checks.verdict import Verdict

A, B = key_lock("a"), key_lock("b")
LEDGER = "locks/shared/write_ledger"
CHARGED = "once/shared/ship/7"


def with_ledger(**about: Any) -> Story:
    story = Story()
    story.add(0.2, "host-1", "guard", name="write_ledger", guarded=True, decorated=True, lease=15, poll=5, **about)
    return story


def ledger(
    story: Story, host: str, start: float, end: float, *, owner: str, token: int, sees: float | None = None
) -> None:
    """Tell of a guarded helper that ran within an invocation."""
    about: dict[str, Any] = {"function": "write_ledger", "token": token}
    story.lock(start - 0.1, host, "waiting", LEDGER, owner, **about)
    story.lock(start, host, "acquired", LEDGER, owner, **about)
    story.lock(start, host, "body_started", LEDGER, owner, **about)
    if sees is not None:
        story.sight(host, start, sees, invocation=owner or "one", function="write_ledger", sees={"token": token})
    story.lock(end, host, "body_ended", LEDGER, owner, reason="ok", **about)
    story.lock(end, host, "released", LEDGER, owner, **about)


def verdict_of(story: Story) -> Verdict:
    return judge(story.end(40))


def nested(story: Story, *, sees: float = 2.0, owner: str = "one") -> Story:
    story.body("host-1", 1, 3, A, token=5, owner="one", seen=(1, 3), keys={"function": "a"})
    ledger(story, "host-1", 1.5, 2, owner=owner, token=9, sees=sees)
    story.body("host-2", 4, 6, B, token=4, owner="two", seen=(4, 6), keys={"function": "b"})
    ledger(story, "host-2", 4.5, 5, owner="two", token=10, sees=5.0)
    return story


@pytest.mark.parametrize("owner", ["one", ""])
def test_a_guarded_function_that_calls_another_has_two_locks_and_breaks_nothing(owner: str) -> None:
    verdict = verdict_of(nested(with_ledger(), owner=owner))
    assert verdict.violations == ()
    assert (verdict.sections, verdict.locks) == (4, 3)


def test_bodies_of_a_helper_that_overlap_are_found_by_the_helpers_lock() -> None:
    story = nested(with_ledger())
    ledger(story, "host-3", 1.6, 1.9, owner="", token=11)
    assert any("write_ledger" in text and "overlap" in text for text in verdict_of(story).violations)


def test_a_helper_that_runs_on_after_its_lock_was_given_back_is_found() -> None:
    violations = verdict_of(nested(with_ledger(), sees=2.8)).violations
    assert violations == ("1 body of 'write_ledger' went on after the lock was given back",)


def test_a_helper_that_passes_by_its_guard_within_a_guarded_function_is_found() -> None:
    story = nested(with_ledger())
    story.sight("host-2", 5.2, 5.4, invocation="two", function="write_ledger", sees={"token": 4})
    assert verdict_of(story).violations == ("1 guarded body ran without holding the lock",)


def test_a_helpers_lock_is_not_the_lock_of_the_function_that_calls_it() -> None:
    story = with_ledger()
    story.add(1, "host-1", "invocation_started", function="ship", invocation="one")
    ledger(story, "host-1", 1.5, 2, owner="one", token=9)
    story.add(3, "host-1", "invocation_ended", function="ship", invocation="one", outcome="ok")
    assert verdict_of(story).violations == ("1 invocation of 'ship' succeeded without passing through its guard",)


def test_two_functions_without_a_guard_may_share_a_helper_that_has_one() -> None:
    story = with_ledger()
    for host, at in (("host-1", 1), ("host-2", 3)):
        story.add(0.2, host, "function", name="nightly", trigger="timer", guarded=False)
        story.add(at, host, "invocation_started", function="nightly", invocation=host)
        story.sight(host, at, at + 1, invocation=host, function="nightly", sees={"blind": True})
        ledger(story, host, at + 0.2, at + 0.8, owner=host, token=at, sees=at + 0.8)
        story.add(at + 1, host, "invocation_ended", function="nightly", invocation=host, outcome="ok")
    assert verdict_of(story).violations == ()


def lines(verdict: Verdict) -> list[str]:
    return [line.text for line in summary(verdict)]


def test_a_function_without_a_guard_is_said_to_be_judged_by_the_guards_within() -> None:
    story = with_ledger()
    for number, name in enumerate(("nightly", "plain", "bare")):
        story.add(0.2, "host-1", "function", name=name, trigger="timer", guarded=False)
        story.add(number + 1, "host-1", "invocation_started", function=name, invocation=name)
        story.add(number + 2, "host-1", "invocation_ended", function=name, invocation=name, outcome="ok")
    ledger(story, "host-1", 1.2, 1.8, owner="nightly", token=1, sees=1.8)
    story.sight("host-1", 3.2, 3.8, function="write_ledger", invocation="bare")  # its guard was passed no context
    told = lines(verdict_of(story))
    assert "without @singleton, and judged by the guards within: bare (write_ledger), nightly (write_ledger)" in told
    assert "without @singleton, and not judged: plain" in told


def test_a_guard_that_nothing_met_is_told_and_a_helper_that_ran_is_not() -> None:
    told = "@singleton on 'write_ledger': the host sees no such function, and no function called it in this run."
    alone = with_ledger()
    alone.body("host-1", 1, 3, A, token=5)
    assert any(note.startswith(told) for note in verdict_of(alone).notes)
    assert not any("sees no such function" in note for note in verdict_of(nested(with_ledger())).notes)


def test_a_helper_that_refuses_the_lock_fails_the_function_that_calls_it_by_no_policy_of_that_function() -> None:
    story = with_ledger()
    story.add(
        0.1, "host-1", "function", name="ship", trigger="queue", queue="orders", guarded=True, on_contention="skip"
    )
    story.know(on_contention="skip")
    ledger(story, "host-2", 1, 3, owner="", token=1)
    story.add(1, "host-1", "invocation_started", function="ship", invocation="one")
    story.lock(1, "host-1", "acquired", A, "one", token=1)
    story.lock(1, "host-1", "body_started", A, "one", token=1)
    story.sight("host-1", 1, 2, invocation="one", sees={"token": 1}, error="LockNotAcquired")
    story.lock(2, "host-1", "contended", LEDGER, "one", function="write_ledger", reason="raise")
    story.lock(2, "host-1", "body_ended", A, "one", token=1, reason="error")
    story.lock(2, "host-1", "released", A, "one", token=1)
    failed = {"outcome": "error", "error": "LockNotAcquired: taken", "blames": "LockNotAcquired"}
    story.add(2, "host-1", "call_raised", invocation="one", error="LockNotAcquired")
    story.add(2, "host-1", "invocation_ended", function="ship", invocation="one", **failed)
    assert not any("does not allow" in text and "'ship'" in text for text in verdict_of(story).violations)


# --- @once above @singleton -----------------------------------------------------------------------------------------


def charging(*, operations: tuple[str | None, str | None], first: str = "ok") -> Story:
    """Tell of a call whose body ran under both locks, and of a repeat that met no lock."""
    story = Story().know(once=True)
    for number, (owner, operation) in enumerate(zip(("one", "two"), operations, strict=True)):
        at = 1 + 5 * number
        story.add(at, "host-1", "invocation_started", function="ship", invocation=owner)
        keys = {"function": "a"} | ({} if operation is None else {"once": operation})
        story.add(at, "host-1", "expected", invocation=owner, keys=keys)
    outer: dict[str, Any] = {"token": 900}
    for kind in ("acquired", "body_started"):
        story.lock(1, "host-1", kind, CHARGED, "one", **outer)
    for kind in ("acquired", "body_started"):
        story.lock(1.2, "host-1", kind, A, "one", token=5)
    error = {} if first == "ok" else {"error": "ValueError"}
    story.sight("host-1", 1.2, 2, invocation="one", sees={"token": 5}, **error)
    for lock, token in ((A, 5), (CHARGED, 900)):
        story.lock(2, "host-1", "body_ended", lock, "one", token=token, reason=first)
        story.lock(2, "host-1", "released", lock, "one", token=token)
    outcome = {"outcome": "ok"} if first == "ok" else {"outcome": "error", "error": "ValueError: no"}
    story.add(2, "host-1", "invocation_ended", function="ship", invocation="one", **outcome)
    story.add(6.1, "host-1", "invocation_ended", function="ship", invocation="two", outcome="ok")
    return story


def test_a_repeat_that_once_answers_passes_no_inner_guard() -> None:
    verdict = verdict_of(charging(operations=("7", "7")))
    assert verdict.violations == ()
    assert verdict.locks == 2


@pytest.mark.parametrize("refused", [True, False])
def test_a_repeat_that_once_refuses_passes_no_inner_guard(refused: bool) -> None:
    story = charging(operations=("7", "7"))
    story.records = [record for record in story.records if record.text("invocation") != "two"]
    story.add(1.5, "host-1", "invocation_started", function="ship", invocation="two")
    story.add(1.5, "host-1", "expected", invocation="two", keys={"function": "a", "once": "7"})
    if refused:
        story.lock(1.5, "host-1", "waiting", CHARGED, "two")
        story.lock(1.6, "host-1", "contended", CHARGED, "two", reason="conflict")
    story.add(1.7, "host-1", "invocation_ended", function="ship", invocation="two", outcome="ok")
    past = [text for text in verdict_of(story).violations if "without passing through its guard" in text]
    assert bool(past) is not refused


@pytest.mark.parametrize(("operations", "first"), [(("7", "8"), "ok"), (("7", "7"), "error")])
def test_a_call_of_an_operation_that_never_ended_well_must_pass_the_inner_guard(
    operations: tuple[str, str], first: str
) -> None:
    violations = verdict_of(charging(operations=operations, first=first)).violations
    assert violations == ("1 invocation of 'ship' succeeded without passing through its guard",)


def test_a_result_that_was_kept_before_the_run_may_answer_where_the_storage_was_used_before() -> None:
    story = charging(operations=("7", "8"))
    story.records[0].fields["fresh"] = False  # type: ignore[index]
    verdict = verdict_of(story)
    assert verdict.violations == ()
    assert any("the result may be from before this run" in text for text in verdict.reasons)


def test_a_repeat_whose_key_is_not_read_is_judged_by_nobody_and_that_is_said() -> None:
    verdict = verdict_of(charging(operations=(None, None)))
    assert verdict.violations == ()
    (reason,) = verdict.reasons
    assert reason == (
        "1 invocation of 'ship' ran no body, and this run can't tell whether @once answered in its place: the key of "
        "@once is not read here"
    )


def test_a_hold_of_once_without_a_body_is_no_guarded_body() -> None:
    """The repeat got the kept result, and the lock of ``@once`` is around the body that ``@singleton`` guards."""
    story = charging(operations=("7", "7")).know(decorated=True)
    story.records[1].fields["witness"] = True  # type: ignore[index]
    about = {"function": "ship", "token": 901}
    for t, kind in ((6.02, "acquired"), (6.03, "body_started"), (6.04, "body_ended"), (6.05, "released")):
        story.lock(t, "host-1", kind, CHARGED, "two", **about)
    verdict = verdict_of(story)
    assert verdict.violations == ()
    assert (verdict.sections, sum(host.bodies for host in verdict.hosts)) == (1, 1)
    assert any(line.startswith("1 guarded body ran on 2 locks") for line in lines(verdict))


@pytest.mark.parametrize("lock", ["{}", "{}.north", LEDGER])
def test_a_helper_with_a_lock_for_each_function_that_calls_it_is_told_once(lock: str) -> None:
    story = with_ledger()
    for host, at, name in (("host-1", 1, "nightly"), ("host-2", 3, "ship it"), ("host-1", 5, "nightly")):
        story.add(0.2, host, "function", name=name, trigger="timer", guarded=False)
        story.add(at, host, "invocation_started", function=name, invocation=f"{at}")
        theirs = lock.format(f"locks/shared/{name.replace(' ', '%20')}")
        for t, kind in ((0.1, "waiting"), (0.2, "acquired"), (0.3, "body_started"), (0.4, "body_ended")):
            story.lock(at + t, host, kind, theirs, f"{at}", function="write_ledger", token=at)
        story.lock(at + 0.5, host, "released", theirs, f"{at}", function="write_ledger", token=at)
        story.add(at + 1, host, "invocation_ended", function=name, invocation=f"{at}", outcome="ok")
    told = [each for each in verdict_of(story).notes if "has a lock for each function" in each]
    said = (
        "@singleton on 'write_ledger' has a lock for each function that passes its context on (nightly, ship it): "
        "these don't exclude one another. With name=… it has one lock for all"
    )
    assert told == ([] if lock == LEDGER else [said])


@pytest.mark.parametrize(
    ("gave_up", "limit", "around", "right"),
    [
        (26, 30, None, True),  # a wait leaves five of the thirty seconds
        (10, 30, None, False),
        (10, None, None, False),
        (10, 30, LEDGER, True),  # its invocation has the lock: a wait would have no end
        (10, 30, A, False),
    ],
)
def test_a_helpers_wait_is_judged_by_the_helpers_policy(
    gave_up: float, limit: float | None, around: str | None, *, right: bool
) -> None:
    story = with_ledger(limit=limit, on_contention="wait")
    ledger(story, "host-2", 0.5, 30, owner="", token=9)
    story.add(1, "host-1", "invocation_started", function="ship", invocation="one")
    if around is not None:
        story.lock(1, "host-1", "body_started", around, "one", function="write_ledger", token=10)
    story.lock(1, "host-1", "waiting", LEDGER, "one", function="write_ledger")
    story.lock(gave_up, "host-1", "contended", LEDGER, "one", function="write_ledger", reason="timeout")
    found = [text for text in verdict_of(story).violations if "of 'write_ledger' gave up (timeout)" in text]
    assert bool(found) != right
