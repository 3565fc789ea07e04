"""What the hosts saw themselves stands over what the lock says: each lie that a lock can tell is found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from simulator.checks.verdict import judge
from tests.support.journals import TIMER, Story, good_story, key_lock

if TYPE_CHECKING:
    from simulator.checks.verdict import Verdict

A = key_lock("a")


def violations(story: Story) -> list[str]:
    return [*judge(story.end(40)).violations]


def one(story: Story) -> str:
    (text,) = violations(story)
    return text


def notes(story: Story) -> Verdict:
    return judge(story.end(40))


def test_bodies_that_were_seen_where_the_lock_says_they_were_are_no_finding() -> None:
    story = Story()
    story.body("host-1", 1, 2, A, token=1, seen=(1.0, 2.0), keys={"function": "a"})
    story.body("host-2", 2, 3, A, token=2, seen=(2.1, 2.9), keys={"function": "a"})
    story.body("host-3", 1, 3, key_lock("b"), token=1, seen=(1.1, 2.9), keys={"function": "b"})
    assert violations(story) == []


def test_bodies_of_one_key_overlap_whatever_their_locks_are_called() -> None:
    story = Story()
    story.body("host-1", 1, 3, f"{A}.100", token=1, seen=(1, 3), keys={"function": "a"})
    story.body("host-2", 2, 4, f"{A}.101", token=1, seen=(2, 4), keys={"function": "a"})
    found = violations(story)
    assert any("1 overlap" in text and "1.00 s" in text for text in found)
    assert any("1 scope had several locks" in text for text in found)
    assert any("1 fencing token out of order" in text for text in found)


def test_one_lock_for_two_keys_is_found_unless_its_layout_may_do_so() -> None:
    def story(**about: object) -> Story:
        story = Story()
        story.add(0.2, "host-1", "function", name="ship", trigger="queue", queue="orders", guarded=True, **about)
        for record in [
            record for record in story.records if record.event == "function" and "merges" not in record.fields
        ]:
            if about and record.get("name") == "ship":
                story.records.remove(record)
        story.body("host-1", 1, 2, A, token=1, seen=(1, 2), keys={"function": "a"})
        story.body("host-2", 3, 4, A, token=2, seen=(3, 4), keys={"function": "b"})
        return story

    assert "1 lock had several scopes" in one(story())
    assert violations(story(merges=True)) == []


def test_a_body_that_is_told_to_be_over_and_runs_on_overlaps() -> None:
    story = Story()
    story.body("host-1", 1, 2, A, token=1, seen=(1, 2.8))
    story.body("host-2", 2, 3, A, token=2, seen=(2, 3))
    found = violations(story)
    assert any("1 overlap" in text and "0.80 s" in text for text in found)
    assert any("1 body of 'ship' went on after the lock was given back" in text for text in found)


def test_a_body_that_begins_before_its_lock_is_got_is_found() -> None:
    story = Story()
    story.body("host-1", 1, 2, A, token=1, seen=(0.9, 2))
    assert one(story) == "1 body of 'ship' began before the lock was got"


def test_a_body_of_which_its_lock_knows_nothing_ran_without_it() -> None:
    story = Story()
    story.body("host-2", 5, 6, A, token=1, seen=(5, 6))
    story.add(1, "host-1", "invocation_started", function="ship", invocation="i")
    story.sight("host-1", 1, 2, invocation="i")
    story.add(2, "host-1", "invocation_ended", function="ship", invocation="i", outcome="ok")
    assert "1 guarded body ran without holding the lock" in violations(story)


def test_a_body_that_runs_twice_in_one_invocation_is_found() -> None:
    story = Story()
    owner = story.body("host-1", 1, 4, A, token=1, seen=(1, 2))
    story.sight("host-1", 3, 4, invocation=owner)
    assert "1 invocation of 'ship' ran its body more than once" in violations(story)


def test_a_body_for_no_invocation_is_found() -> None:
    story = Story()
    story.body("host-1", 1, 4, A, token=1, seen=(1, 4))
    story.sight("host-2", 2, 3)
    assert one(story) == "1 body of 'ship' ran for no invocation"


def test_a_body_whose_message_names_no_scope_must_not_run() -> None:
    story = Story()
    story.body("host-1", 1, 2, A, token=1, seen=(1, 2), keys={"function": None})
    assert "1 body of 'ship' ran though their messages name no scope" in violations(story)


@pytest.mark.parametrize("ending", ["lost", "killed"])
def test_a_body_that_goes_on_after_its_lock_was_lost_or_its_host_died_is_not_accused_of_that(ending: str) -> None:
    story = Story()
    owner = "i"
    story.add(1, "host-1", "invocation_started", function="ship", invocation=owner)
    story.lock(1, "host-1", "waiting", A, owner)
    story.lock(1, "host-1", "acquired", A, owner, token=1)
    story.lock(1, "host-1", "body_started", A, owner, token=1)
    if ending == "lost":
        story.sight("host-1", 1, 3, invocation=owner)
        story.lock(2, "host-1", "lost", A, owner, token=1, reason="expired")
        story.lock(3, "host-1", "body_ended", A, owner, token=1, reason="lost")
        story.add(
            3, "host-1", "invocation_ended", function="ship", invocation=owner, outcome="error", error="LockLost: x"
        )
    else:
        story.sight("host-1", 1, None, invocation=owner)
        story.kill(2, "host-1", A)
        story.body("host-2", 18, 19, A, token=2, asked=3)
    assert [text for text in violations(story) if "went on" in text or "began" in text] == []


def test_what_a_body_leaves_running_is_told() -> None:
    story = good_story()
    owner = story.body("host-1", 30, 31, A, token=9)
    story.sight("host-1", 30, 31, invocation=owner, left_running=["task linger"])
    verdict = notes(story)
    assert any("left something running, such as task linger" in text for text in verdict.notes)


def test_what_is_left_running_is_told_of_the_function_that_left_it() -> None:
    story = Story()
    for lock, what in ((A, "task linger"), (TIMER, "thread sweep")):
        owner = story.body("host-1", 1, 2, lock, token=1)
        function = "ship" if lock == A else "import_eligibility"
        story.sight("host-1", 1, 2, invocation=owner, function=function, left_running=[what])
    told = [text for text in notes(story).notes if "left something running" in text]
    assert ["thread sweep" in told[0], "task linger" in told[1]] == [True, True]
    assert ["import_eligibility" in told[0], "ship" in told[1]] == [True, True]


@pytest.mark.parametrize(
    ("sees", "found"), [({"token": 7}, False), ({"token": 8}, True), ({"token": None}, True), ({}, False)]
)
def test_a_body_that_sees_another_token_than_the_lock_told_is_found(sees: dict[str, Any], found: bool) -> None:
    story = Story().know(witnessed=True)
    owner = story.body("host-1", 1, 3, A, token=7)
    story.sight("host-1", 1.1, 2.9, invocation=owner, sees=sees)
    text = "1 body of 'ship' saw another fencing token than the lock had told"
    assert (text in judge(story.end(30)).violations) is found


_HOLD: Final = {"token": 7, "hold": A}


@pytest.mark.parametrize(
    ("first", "last", "found"),
    [
        (_HOLD, {**_HOLD, "lost": True}, False),
        (_HOLD, {**_HOLD, "token": 8}, True),
        ({"token": 7}, {"token": 8}, True),  # a journal of before, which tells no lock
        (_HOLD, {**_HOLD, "hold": key_lock("b")}, True),
        (_HOLD, {"blind": True}, False),  # closed from elsewhere
        (_HOLD, {**_HOLD, "token": 8, "error": "GeneratorExit"}, False),
    ],
)
def test_a_body_that_sees_the_hold_of_another_at_its_end_is_found(
    first: dict[str, Any], last: dict[str, Any], found: bool
) -> None:
    story = Story().know(witnessed=True)
    owner = story.body("host-1", 1, 3, A, token=7)
    story.sight("host-1", 1.1, 2.9, invocation=owner, sees=first, **last)
    text = "1 body of 'ship' saw another hold at their end than at their begin"
    assert (text in judge(story.end(30)).violations) is found


@pytest.mark.parametrize(
    ("decorated", "direct", "found"), [(False, True, True), (True, False, False), (True, True, True)]
)
def test_a_body_that_can_not_see_its_hold_is_found(decorated: bool, direct: bool, found: bool) -> None:
    story = Story().know(witnessed=True, decorated=decorated, direct=direct)
    owner = story.body("host-1", 1, 3, A, token=7)
    story.sight("host-1", 1.1, 2.9, invocation=owner, sees={"blind": True})
    text = "1 body of 'ship' could not see their hold: current_hold() failed"
    assert (text in judge(story.end(30)).violations) is found


@pytest.mark.parametrize(
    ("untrue", "found"),
    [
        ({}, ""),
        ({"lost": True}, "holds of 'ship' said that they were lost, and were not, 1 time"),
        ({"owner": "you"}, "holds of 'ship' had another owner than their invocations, 1 time: the first 'you'"),
        ({"listed": False}, "holds of 'ship' were missing in holds() as their bodies ended, 1 time"),
        ({"waited": 9.0}, "holds of 'ship' told another time in waited, 1 time: the first 9.0 s in place of 0.0 s"),
    ],
)
def test_what_a_hold_tells_its_body_is_compared_with_what_is_so(untrue: dict[str, object], found: str) -> None:
    story = Story()
    story.body("host-1", 1, 3, A, token=1, owner="me", keys={"function": "a"})
    shown = {"owner": "me", "lease": "", "waited": 0.0, "lost": False, "reason": None} | untrue
    sees: dict[str, Any] = {"token": 1, "hold": A}
    story.sight("host-1", 1.0, 3.0, invocation="me", sees=sees, **sees, lost=False, shown=shown)
    assert [text[: len(found)] for text in violations(story)] == [found] * bool(found)
