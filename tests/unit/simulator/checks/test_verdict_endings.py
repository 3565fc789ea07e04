"""Invocations end as their bodies do: what is raised is the body's own error, or the lock's."""

from __future__ import annotations

from typing import Any

import pytest

from simulator.checks.verdict import Verdict, judge
from simulator.history.journal import PANIC
from tests.support.journals import Story, key_lock, plain

A = key_lock("a")


def violations(story: Story, end: float = 40) -> list[str]:
    return plain(judge(story.end(end)).violations)


def called(
    *,
    body: str | None = "",
    raised: str = "",
    asked: bool = True,
    decorated: bool = False,
    blames: str = "",
    items: str = "",
) -> list[str]:
    """Return what is found where an invocation raised one thing, and its body (None: there was none) another.

    ``items``: with what the iterator failed that the body had returned.
    """
    story = Story()
    owner = story.body("host-1", 1, 2, A, seen=(1, 2))
    story.know(witnessed=True, decorated=decorated)
    ended: dict[str, Any] = {"outcome": "error", "error": f"{raised}: no", "blames": blames}
    story.add(3, "host-1", "invocation_started", function="ship", invocation="x")
    if asked:
        story.lock(3, "host-1", "waiting", A, "x")
    if body is not None:
        story.lock(3, "host-1", "acquired", A, "x")
        story.lock(3, "host-1", "body_started", A, "x")
        story.sight("host-1", 3, 4, invocation="x", error=body)
        if items:
            story.add(4, "host-1", "items_failed", invocation="x", function="ship", error=items)
        story.lock(4, "host-1", "body_ended", A, "x", reason="error" if body else "ok")
        story.lock(4, "host-1", "released", A, "x")
    story.add(4.1, "host-1", "call_raised", invocation="x", error=raised)
    story.add(4.2, "host-1", "invocation_ended", function="ship", invocation="x", **ended)
    assert owner
    return violations(story)


def test_an_error_of_the_bodys_own_is_no_finding() -> None:
    assert called(body="ValueError", raised="ValueError") == []
    assert called(raised="ValueError", items="ValueError") == []
    (found,) = called(raised="KeyError", items="ValueError")
    assert found == "1 invocation of 'ship' failed with another error than its body's"


@pytest.mark.parametrize(
    ("found", "how"),
    [
        ("1 invocation of 'ship' failed though its body had succeeded", {"body": "", "raised": "KeyError"}),
        ("1 invocation of 'ship' failed with another error than its body's", {"body": "OSError", "raised": "KeyError"}),
        (
            "1 invocation of 'ship' failed without its body, by no error of the lock's",
            {"body": None, "raised": "OSError"},
        ),
        (
            "1 invocation of 'ship' failed with LockNotAcquired, and nobody had refused it the lock",
            {"body": None, "raised": "LockNotAcquired", "blames": "LockNotAcquired"},
        ),
    ],
)
def test_an_error_that_is_not_the_bodys_is_found_unless_decorators_of_the_app_may_have_made_it(
    found: str, how: dict[str, Any]
) -> None:
    assert found in called(**how)
    assert called(**how, decorated=True) == []


def test_what_fails_before_the_lock_is_asked_for_is_not_the_locks_fault() -> None:
    assert called(body=None, raised="UnicodeDecodeError", asked=False) == []


@pytest.mark.parametrize("ended", ["cancelled", "SystemExit", "StopIteration", "KeyboardInterrupt", PANIC])
def test_the_guard_may_answer_for_what_no_worker_answers(ended: str) -> None:
    assert called(body=ended, raised="RuntimeError") == []


def test_each_try_of_an_invocation_has_a_body_of_its_own() -> None:
    story = Story()
    for attempt, error in enumerate(["RuntimeError", ""]):
        t = 1.0 + 2 * attempt
        story.add(t, "host-1", "invocation_started", function="ship", invocation="x")
        for kind in ("waiting", "acquired", "body_started"):
            story.lock(t, "host-1", kind, A, "x")
        told = {"invocation": "x", "function": "ship", "run": f"x#{attempt}", "attempt": attempt}
        story.add(t, "host-1", "body_entered", **told)
        story.add(t + 1, "host-1", "body_left", **told, error=error)
        for kind in ("body_ended", "released"):
            story.lock(t + 1, "host-1", kind, A, "x")
        if error:
            story.add(t + 1, "host-1", "call_raised", invocation="x", error=error)
        outcome = "error" if error else "ok"
        story.add(t + 1, "host-1", "invocation_ended", function="ship", invocation="x", outcome=outcome, error=error)
    assert violations(story) == []


def test_a_message_that_went_to_the_poison_queue_ends_well_though_its_body_failed() -> None:
    def story(*, poisoned: bool) -> Story:
        story = Story(policy="defer")
        story.know(witnessed=True)
        owner = story.body("host-1", 1, 2, A, seen=(1, None))
        story.add(1.9, "host-1", "body_left", run=2, function="ship", invocation=owner, error="ValueError")
        if poisoned:
            story.lock(1.95, "host-1", "poisoned", A, owner, message_id="m1")
        return story

    assert violations(story(poisoned=True)) == []
    assert violations(story(poisoned=False)) == ["1 invocation of 'ship' succeeded although its body had failed"]


def test_a_decorator_of_the_apps_own_may_run_a_body_again_under_one_hold_and_swallow_its_errors() -> None:
    def story(*, decorated: bool) -> Story:
        story = Story()
        story.know(witnessed=True, decorated=decorated)
        owner = story.body("host-1", 1, 3, A)
        story.sight("host-1", 1, 1.5, invocation=owner, error="RuntimeError")
        story.sight("host-1", 2, 3, invocation=owner)
        return story

    assert violations(story(decorated=True)) == []
    assert violations(story(decorated=False)) == ["1 invocation of 'ship' ran its body more than once"]


# --- how long who asks may wait ---------------------------------------------------------------------------------------


def waiting(policy: str, *, timeout: float | None = None, seconds: float, paused: bool = False) -> list[str]:
    story = Story(policy=policy)
    story.know(witnessed=True, timeout=timeout)
    story.body("host-1", 1, 1 + seconds, A)
    if paused:
        story.add(2, "host-2", "pause")
        story.add(2 + seconds, "host-2", "resume")
    story.body("host-2", 1.2 + seconds, 1.5 + seconds, A, asked=1.1)
    return [text for text in violations(story) if "despite" in text]


@pytest.mark.parametrize("policy", ["skip", "raise", "defer"])
def test_who_does_not_wait_is_told_so_as_soon_as_another_has_the_lock(policy: str) -> None:
    assert waiting(policy, seconds=3) == []
    assert waiting(policy, seconds=6, paused=True) == []
    text = f"an invocation of 'ship' waited for 6.1 s for its lock, despite on_contention={policy!r}"
    assert waiting(policy, seconds=6) == [text]


def test_a_timeout_ends_a_wait() -> None:
    assert waiting("wait", seconds=20) == []
    assert waiting("wait", timeout=4, seconds=6) == []
    text = "an invocation of 'ship' waited for 9.1 s for its lock, despite on_contention='wait', timeout=4"
    assert waiting("wait", timeout=4, seconds=9) == [text]


@pytest.mark.parametrize(
    ("policy", "more", "fails"),
    [
        ("skip", {}, True),
        ("conflict", {}, True),
        ("skip", {"timeout": 3}, True),
        ("wait", {}, True),
        ("wait", {"timeout": 3}, False),
        ("wait", {"limit": 3}, False),
        ("raise", {}, False),
        ("skip", {"decorated": True}, False),
    ],
)
@pytest.mark.parametrize("rough", [False, True])
def test_contention_fails_nobody_who_skips_or_waits_for_as_long_as_it_takes(
    policy: str, more: dict[str, Any], fails: bool, rough: bool
) -> None:
    story = Story(policy=policy, rough=rough).know(**more)
    story.body("host-1", 1, 9, A)
    story.skip("host-2", 5, A, reason="raise")
    text = f"1 invocation of 'ship' failed with LockNotAcquired, which on_contention={policy!r} does not allow"
    assert (text in violations(story)) is fails


@pytest.mark.parametrize(
    ("policy", "found"), [("wait", True), ("raise", True), ("skip", False), ("conflict", False), ("custom", False)]
)
def test_only_who_skips_succeeds_when_the_lock_is_refused(policy: str, found: bool) -> None:
    story = Story(policy=policy).know(witnessed=True, timeout=1)
    story.body("host-1", 1, 9, A, seen=(1, 9))
    story.skip("host-2", 5, A)
    text = "1 invocation of 'ship' succeeded without its body, neither skipped nor put back"
    assert (text in violations(story)) is found


@pytest.mark.parametrize("told", [False, True])
def test_a_body_may_raise_an_error_of_the_locks_while_its_own_is_not_lost(told: bool) -> None:
    story = Story().know(witnessed=True)
    for owner, outcome in (("well", "ok"), ("x", "error")):
        story.add(3, "host-1", "invocation_started", function="ship", invocation=owner)
        story.lock(3, "host-1", "acquired", A, owner)
        story.lock(3, "host-1", "body_started", A, owner)
        if told and owner == "x":
            story.lock(3.5, "host-1", "lost", A, owner, reason="stolen")
        story.sight("host-1", 3, 4, invocation=owner, error="" if outcome == "ok" else "LockLost")
        story.lock(4, "host-1", "body_ended", A, owner, reason=outcome)
        story.lock(4, "host-1", "released", A, owner)
        error = {} if outcome == "ok" else {"error": "LockLost: no", "blames": "LockLost"}
        story.add(4.2, "host-1", "invocation_ended", function="ship", invocation=owner, outcome=outcome, **error)
    found = "1 invocation of 'ship' failed with LockLost, which nothing in this run caused"
    assert (found in violations(story)) is told


def test_a_decorator_of_the_apps_own_that_swallows_errors_is_noted() -> None:
    story = Story().know(witnessed=True, decorated=True)
    story.body("host-1", 1, 2, A, owner="x")
    story.sight("host-1", 1, 2, invocation="x", error="KeyError")
    verdict = judge(story.end(40))
    text = "1 body of 'ship' failed, and their invocations succeeded: one of its own decorators may do that"
    assert (verdict.violations, text in verdict.notes) == ((), True)


@pytest.mark.parametrize(
    ("answer", "did", "found"),
    [("skip", "skip", False), ("defer", "skip", True), ("wait", "skip", False), ("skip", "ok", True)],
)
def test_a_guard_does_what_the_policy_of_the_app_answers(answer: str, did: str, found: bool) -> None:
    story = Story().know(on_contention="custom")
    owner = story.skip("host-1", 3, A) if did == "skip" else story.body("host-1", 1, 2, A)
    story.add(3, "host-1", "policy_answered", invocation=owner, function="ship", answer=answer)
    text = f"1 answer {answer!r} of the policy of 'ship' did not count: its guard went on"
    assert (text in violations(story)) is found


@pytest.mark.parametrize("asked", ["each", "first", "none"])
def test_each_contended_invocation_asks_the_policy_of_the_app(asked: str) -> None:
    story = Story().know(on_contention="custom")
    owners = [story.skip("host-1", 3 + number, A) for number in range(3)]
    for owner in {"each": owners, "first": owners[:1], "none": []}[asked]:
        story.add(3, "host-1", "policy_answered", invocation=owner, function="ship", answer="skip")
    text = "2 contended invocations of 'ship' ended without an answer of its policy, which each contention asks anew"
    assert (text in violations(story)) is (asked == "first")


UNASKED = "1 contended invocation of 'ship' ended without an answer of its policy, which each contention asks anew"


@pytest.mark.parametrize(("asked", "waited", "found"), [(False, 12, True), (True, 12, False), (False, 0.3, False)])
def test_an_invocation_that_waits_asks_the_policy_of_the_app(asked: bool, waited: float, found: bool) -> None:
    story = Story().know(on_contention="custom")
    story.body("host-1", 1, 2 + waited, A, owner="first")
    owner = "second"
    story.add(2, "host-1", "invocation_started", function="ship", invocation=owner)
    story.lock(2, "host-1", "waiting", A, owner)
    for kind in ("acquired", "body_started", "body_ended", "released"):
        story.lock(2 + waited, "host-1", kind, A, owner, token=2)
    story.add(3 + waited, "host-1", "invocation_ended", function="ship", invocation=owner, outcome="ok")
    for name in [story.skip("host-1", 1.5, A), *([owner] if asked else [])]:
        answer = "skip" if name != owner else "wait"
        story.add(2, "host-1", "policy_answered", invocation=name, function="ship", answer=answer)
    assert (UNASKED in violations(story)) is found


def a_short_wait(
    story: Story, *, refused: float, code: str = "LeaseAlreadyPresent", other: float | None = None
) -> bool:
    """Tell of a wait of one second, and of a request that the storage refused at a time; ``other``: of another wait.

    Return whether the verdict says that the policy was not asked.
    """
    asked = story.skip("host-1", 1, A)
    story.add(1, "host-1", "policy_answered", invocation=asked, function="ship", answer="skip")
    told = {"action": "acquire", "blob": f"/account/webjobshost/{A}", "status": 409, "code": code, "took": 0.05}
    story.add(refused, "host-1", "lease_request", lease="l", **told)
    story.add(3, "host-1", "invocation_started", function="ship", invocation="second")
    story.lock(3, "host-1", "waiting", A, "second")
    if other is not None:
        story.add(other, "host-1", "invocation_started", function="ship", invocation="other")
        story.lock(other, "host-1", "waiting", A, "other")
        story.add(other, "host-1", "policy_answered", invocation="other", function="ship", answer="wait")
    for kind in ("acquired", "body_started", "body_ended", "released"):
        story.lock(4, "host-1", kind, A, "second", token=2)
    story.add(4, "host-1", "invocation_ended", function="ship", invocation="second", outcome="ok")
    return UNASKED in violations(story)


def test_a_policy_is_asked_however_short_the_wait_is_that_the_storage_refused() -> None:
    custom = {"on_contention": "custom"}
    assert a_short_wait(Story().know(**custom), refused=3.1)
    assert not a_short_wait(Story().know(**custom), refused=3.01)
    assert not a_short_wait(Story().know(**custom), refused=3.1, code="ContainerBeingDeleted")
    assert not a_short_wait(Story().know(**custom, failover=2), refused=3.1)
    assert not a_short_wait(Story().know(**custom, several=True, at_once=2), refused=3.1)


def test_a_refusal_that_may_have_answered_another_caller_of_the_process_proves_no_contention() -> None:
    custom = {"on_contention": "custom"}
    assert not a_short_wait(Story().know(**custom), refused=3.1, other=2.9)
    assert a_short_wait(Story().know(**custom), refused=3.7, other=2.9)


def by_a_policy(
    answer: str, reason: str, *, after: float = 0.5, patience: float | None = 2, outcome: str = "error", **known: Any
) -> list[str]:
    """Tell of an invocation that was refused so many seconds after the answer of its policy."""
    story = Story().know(on_contention="custom", witnessed=True, **known)
    story.body("host-1", 1, 30, A, seen=(1, 30))
    about = {"function": "ship", "invocation": "asks"}
    story.add(5, "host-2", "invocation_started", **about)
    story.lock(5, "host-2", "waiting", A, "asks")
    story.add(5, "host-2", "policy_answered", answer=answer, patience=patience, **about)
    story.lock(5 + after, "host-2", "contended", A, "asks", reason=reason)
    blames = "LockNotAcquired" if outcome == "error" else ""
    error = {"error": "LockNotAcquired: no", "raised": blames} if blames else {}
    story.add(5 + after, "host-2", "invocation_ended", outcome=outcome, blames=blames, **about, **error)
    return violations(story)


def test_who_waits_by_a_policy_of_the_app_waits_as_long_as_declared() -> None:
    early = "1 invocation of 'ship' gave up after 0.5 s, though timeout=2"
    assert early in by_a_policy("wait", "timeout")
    assert by_a_policy("wait", "timeout", after=1.9) == []
    endless = "1 invocation of 'ship' gave up (timeout), though the answer of its policy does not allow that"
    assert endless in by_a_policy("wait", "timeout", patience=None, after=20)
    assert by_a_policy("wait", "timeout", patience=None, after=18.5, limit=20) == []
    late = "an invocation of 'ship' waited for 12.0 s for its lock, despite on_contention='custom', timeout=2"
    assert late in by_a_policy("wait", "timeout", after=12)


def test_what_became_of_an_invocation_is_what_the_policy_of_the_app_answered() -> None:
    other = "1 invocation of 'ship' gave up (skip), though the answer of its policy does not allow that"
    assert other in by_a_policy("wait", "skip", outcome="ok")
    assert by_a_policy("raise", "raise") == []
    empty = "1 invocation of 'ship' succeeded without its body, neither skipped nor put back"
    assert empty in by_a_policy("raise", "raise", outcome="ok")
    assert by_a_policy("skip", "skip", outcome="ok") == []
    failed = "1 invocation of 'ship' failed with LockNotAcquired, which the answer of its policy does not allow"
    assert failed in by_a_policy("skip", "skip")


def test_a_policy_that_is_told_what_is_not_so_is_found() -> None:
    story = Story().know(on_contention="custom")
    for t, wrong in ((3, []), (4, ["count 0 in place of 2"])):
        owner = story.skip("host-1", t, A)
        about = {"invocation": owner, "function": "ship", "answer": "skip"}
        story.add(t, "host-1", "policy_answered", wrong=wrong, **about)
    told = "the policy of 'ship' was told 1 time what is not so: the first count 0 in place of 2, on host-1 at 4.0 s"
    assert told in violations(story)


def test_the_answer_of_a_policy_to_a_guard_that_knows_no_invocation_is_not_judged() -> None:
    story = Story().know(on_contention="custom")
    owner = story.body("host-1", 1, 2, A)
    story.lock(3, "host-1", "waiting", A, "")
    story.add(3, "host-1", "policy_answered", invocation=owner, function="ship", answer="skip")
    assert not any("did not count" in text for text in violations(story))


def a_refused_declaration(story: Story, *, well: bool = True, inside: bool = False) -> Verdict:
    """Tell of an invocation that ended with a ConfigurationError, beside one that ran its body, if all went well."""
    if well:
        story.body("host-1", 1, 2, A, seen=(1, 2))
    about = {"function": "ship", "invocation": "refused"}
    story.add(5, "host-1", "invocation_started", **about)
    if inside:
        story.sight("host-1", 5.1, 5.2, invocation="refused", error="ConfigurationError")
    error = {"error": "ConfigurationError: no scope", "blames": "ConfigurationError"}
    story.add(5.3, "host-1", "invocation_ended", outcome="error", **about, **error)
    return judge(story.end(40))


CONFIGURATION = "1 invocation of 'ship' failed with ConfigurationError, which nothing in this run caused"
PERHAPS = "1 invocation of 'ship' failed, perhaps by the app's own fault: the first with ConfigurationError: no scope"


@pytest.mark.parametrize("policy", ["wait", "raise"])
def test_a_declaration_that_was_accepted_is_refused_in_no_call(policy: str) -> None:
    assert CONFIGURATION in a_refused_declaration(Story(policy=policy)).violations


@pytest.mark.parametrize(
    ("policy", "known"),
    [
        ("skip", {}),
        ("defer", {}),
        ("custom", {}),
        ("wait", {"decorated": True}),
        ("wait", {"once": True}),
        ("wait", {"ordered": True}),
        ("wait", {"guarded": False}),
        ("wait", {"max_waiting": 2}),
    ],
)
def test_where_the_app_may_be_to_blame_for_a_refused_declaration_nothing_is_shown(
    policy: str, known: dict[str, Any]
) -> None:
    verdict = a_refused_declaration(Story(policy=policy).know(**known))
    assert PERHAPS in verdict.reasons
    assert CONFIGURATION not in verdict.violations


def test_a_declaration_that_is_refused_in_each_call_is_the_apps_own_fault_perhaps() -> None:
    assert PERHAPS in a_refused_declaration(Story(), well=False).reasons


def test_a_configuration_error_in_a_body_is_the_bodys_own() -> None:
    verdict = a_refused_declaration(Story(), inside=True)
    assert PERHAPS not in verdict.reasons
    assert CONFIGURATION not in verdict.violations


def test_a_decorator_that_takes_no_context_is_named() -> None:
    story = Story().know(narrow="logged (line 9)")
    about = {"function": "ship", "invocation": "one"}
    story.add(5, "host-1", "invocation_started", **about)
    story.add(5.3, "host-1", "invocation_ended", outcome="error", error="TypeError: ship() got an unexpected", **about)
    note = (
        "1 invocation of 'ship' failed with TypeError (its decorator logged (line 9), which takes no argument "
        "'context': give it **kwargs)"
    )
    assert note in judge(story.end(40)).notes
