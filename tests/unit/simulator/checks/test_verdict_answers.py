"""What a guard does not pass on as it was given is told: with the host, the time, and both values' forms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from simulator.checks.verdict import judge
from tests.support.journals import Story, key_lock

if TYPE_CHECKING:
    from simulator.checks.verdict import Verdict

A = key_lock("a")


def told(*, known: dict[str, Any] | None = None, **fields: Any) -> Verdict:
    story = Story().know(witnessed=True, **(known or {}))
    story.body("host-1", 1, 2, A, seen=(1, 2), owner="x")
    story.add(1.9, "host-1", "altered", invocation="x", function="ship", **fields)
    return judge(story.end(40))


@pytest.mark.parametrize(
    ("kind", "what", "words"),
    [
        ("argument", "msg", "called its body with another 'msg' than @singleton was called with"),
        ("result", "", "returned something else than its body"),
        ("output", "out", "handed on another value of its output 'out' than its body had set"),
        ("answer", "", "returned a value though no body of it had run"),
        ("refused", "", "failed with ConfigurationError, though nothing in what its body had returned runs later"),
    ],
)
def test_what_a_guard_changed_is_told_with_both_forms(kind: str, what: str, words: str) -> None:
    text = f"1 invocation of 'ship' {words} (first on host-1, 1.9 s after the start: str of 2 b in place of str of 1 a)"
    fields: dict[str, Any] = {"given": "str of 1 a", "got": "str of 2 b", "sure": True}
    assert told(kind=kind, what=what, **fields).violations == (text,)


@pytest.mark.parametrize(
    ("kind", "mode", "words"),
    [
        ("owned", "function", "ended, and its hold says that it is owned still"),
        ("owned", "listener", ""),
        ("ended", "function", "ended, and its hold tells who waits for a loss that it is lost"),
    ],
)
def test_a_hold_ends_with_its_guard_and_is_not_lost_by_that(kind: str, mode: str, words: str) -> None:
    found = [text for text in told(kind=kind, known={"mode": mode}).violations if "and its hold" in text]
    assert [words in text for text in found] == [True] * bool(words)


@pytest.mark.parametrize("reason", ["conflict", "raise", ""])
def test_who_meets_a_conflict_is_answered_with_409_and_when_to_come_back(reason: str) -> None:
    story = Story(policy="conflict")
    owner = story.skip("host-1", 2, A, reason=reason) if reason else "x"
    story.add(2.1, "host-1", "altered", invocation=owner, function="ship", kind="refusal", given="HttpResponse 409")
    text = (
        "1 invocation of 'ship' met on_contention='conflict' without an answer of 409 and Retry-After (first on "
        "host-1, 2.1 s after the start: HttpResponse 409)"
    )
    assert (text in judge(story.end(40)).violations) is (reason == "conflict")


def test_an_answer_before_the_end_of_the_body_is_told() -> None:
    text = "1 invocation of 'ship' ended while its body still ran (first on host-1, 1.9 s after the start)"
    assert told(kind="early").violations == (text,)


def test_who_changed_a_value_while_other_bodies_ran_is_not_judged() -> None:
    verdict = told(kind="result", given="list of 1 a", got="list of 2 b", sure=False)
    assert (verdict.verdict, verdict.violations) == ("unproven", ())
    assert "not judged, as other bodies, which may have changed the value, ran meanwhile" in verdict.reasons[0]


def unrun(policy: str, reason: str, **told: Any) -> list[str]:
    """Tell of a guard that ran nothing, and of an invocation that ended well all the same."""
    story = Story(policy=policy).know(witnessed=True, decorated=True)
    story.body("host-2", 1, 5, A, seen=(1, 5))
    owner = story.skip("host-1", 2, A, reason="skip" if reason == "nobody" else reason)
    if reason == "nobody":
        story.records = [each for each in story.records if each.get("kind") != "contended"]
    story.records = [
        each for each in story.records if (each.event, each.get("invocation")) != ("invocation_ended", owner)
    ]
    story.add(2.1, "host-1", "invocation_ended", function="ship", invocation=owner, outcome="ok")
    story.add(2.1, "host-1", "guard_ended", function="ship", invocation=owner, **{"error": "", "own": True} | told)
    return [text for text in judge(story.end(40)).violations if "the guard" in text]


@pytest.mark.parametrize(
    ("policy", "reason", "told", "words"),
    [
        ("skip", "skip", {}, ""),
        ("raise", "raise", {"error": "LockNotAcquired"}, ""),
        ("raise", "raise", {}, "passed the guard without the body, neither skipped nor put back"),
        ("wait", "nobody", {}, "passed the guard without the body, neither skipped nor put back"),
        ("raise", "nobody", {"error": "LockNotAcquired"}, "failed at the guard with LockNotAcquired, and nobody had"),
        ("skip", "skip", {"error": "OSError", "own": False}, "failed at the guard without the body, by no error of"),
    ],
)
def test_a_guard_below_a_decorator_is_judged_by_its_own_end(
    policy: str, reason: str, told: dict[str, Any], words: str
) -> None:
    said = unrun(policy, reason, **told)
    assert [words in text for text in said] == [True] * bool(words), said


@pytest.mark.parametrize(("delivered", "keys", "found"), [(True, "a", True), (False, "a", False), (True, None, False)])
def test_a_value_that_the_message_has_is_found_by_its_guard(keys: str | None, *, delivered: bool, found: bool) -> None:
    story = Story().know(witnessed=True)
    story.add(1, "host-1", "invocation_started", function="ship", invocation="x")
    story.add(1, "host-1", "expected", invocation="x", keys={"function": keys})
    about = {"function": "ship", "invocation": "x"}
    story.add(1.1, "host-1", "guard_ended", error="ScopeError", own=True, delivered=delivered, **about)
    story.add(1.2, "host-1", "invocation_ended", outcome="error", error="ScopeError: no", blames="ScopeError", **about)
    text = "1 invocation of 'ship' failed with ScopeError, though its message has the value that @singleton names"
    assert (text in judge(story.end(40)).violations) is found


@pytest.mark.parametrize("kind", ["failed", "swallowed"])
def test_an_ending_that_is_not_the_bodys_is_told_here_where_decorators_hide_the_body(kind: str) -> None:
    words = {"failed": "failed with OSError though its body", "swallowed": "although its body had failed with OSError"}
    (text,) = told(kind=kind, what="OSError", known={"decorated": True}).violations
    assert words[kind] in text
    assert told(kind=kind, what="OSError").violations == ()


def test_a_body_whose_message_went_to_the_poison_queue_may_have_failed() -> None:
    story = Story(policy="defer").know(witnessed=True, decorated=True)
    owner = story.body("host-1", 1, 2, A, seen=(1, 2))
    story.lock(1.95, "host-1", "poisoned", A, owner, message_id="m1")
    story.add(1.96, "host-1", "altered", invocation=owner, function="ship", kind="swallowed", what="OSError")
    assert judge(story.end(40)).violations == ()


@pytest.mark.parametrize(("name", "said"), [("north", 1), ("north~0", 0)])
def test_different_texts_get_different_names_for_their_locks(name: str, said: int) -> None:
    story = Story()
    for host in ("host-1", "host-2"):
        story.add(1, host, "named", name="north", text="digest of north")
    story.add(2, "host-2", "named", name=name, text="digest of north/")
    found = [text for text in judge(story.end(40)).violations if "one name" in text]
    assert found == ["safe_name gave 2 texts one name, 'north': they share a lock"] * said
