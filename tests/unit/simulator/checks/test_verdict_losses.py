"""Whose lock is lost hears of it, and an async body is asked to end."""

from __future__ import annotations

from typing import Any

import pytest

from simulator.checks.verdict import judge
from simulator.history.deeds import inside
from simulator.history.journal import CANCELLED
from simulator.history.pattern_uses import CALLBACK
from tests.support.journals import Story, key_lock

A = key_lock("a")
UNASKED = "1 body of 'ship' went on after the lock was lost, and nobody had asked for an end"
BLIND = "1 body of 'ship' could not see that the lock was lost"


def story(
    how: str = "told", *, until: float = 30, asked: float | None = None, rough: bool = False, **left: Any
) -> Story:
    """A body that begins at second 1, and is without its lock from second 20 on: it is told, or wakes at 22 s."""
    story = Story(rough=rough).know(cancels=True)
    story.add(1, "host-1", "invocation_started", function="ship", invocation="i")
    story.lock(1, "host-1", "waiting", A, "i")
    story.lock(1, "host-1", "acquired", A, "i")
    story.lock(1, "host-1", "body_started", A, "i")
    story.sight("host-1", 1, until, invocation="i", sees={"can_be_asked": True}, **{"lost": True, **left})
    if how == "told":
        story.lock(20, "host-1", "lost", A, "i", reason="expired")
    else:
        story.add(5, "host-1", "pause")
        story.add(22, "host-1", "resume")
    if asked is not None:
        story.add(asked, "host-1", "asked_to_end", invocation="i")
    story.lock(until, "host-1", "body_ended", A, "i", reason="lost")
    ended = {"outcome": "error", "error": "LockLost: lost", "blames": "LockLost"}
    story.add(until, "host-1", "call_raised", invocation="i", error="LockLost")
    story.add(until, "host-1", "invocation_ended", function="ship", invocation="i", **ended)
    return story


def found(story: Story) -> list[str]:
    return [text for text in judge(story.end(40)).violations if "which nothing in this run caused" not in text]


@pytest.mark.parametrize("how", ["told", "woke"])
def test_a_body_that_goes_on_without_its_lock_and_that_nobody_asks_to_end_is_found(how: str) -> None:
    assert found(story(how)) == [UNASKED]
    assert found(story(how, until=21.9 if how == "told" else 23.9)) == []


def test_a_body_of_a_listener_that_nobody_asks_to_end_is_found() -> None:
    led = Story().know(cancels=True, mode="listener", listener={"lease": 15, "poll": 15})
    led.add(1, "host-1", "invocation_started", function="ship", invocation="i")
    of = {"mode": "listener", "worker": 1}
    led.lock(0.5, "host-1", "waiting", A, "", **of)
    led.lock(0.6, "host-1", "acquired", A, "", **of)
    led.lock(1, "host-1", "body_started", A, "i", **of)
    led.sight("host-1", 1, 30, invocation="i", sees={"can_be_asked": True}, lost=True)
    led.lock(20, "host-1", "lost", A, "", reason="expired", **of)
    led.lock(30, "host-1", "body_ended", A, "i", reason="lost", **of)
    assert UNASKED in found(led)
    led.add(20.1, "host-1", "asked_to_end", invocation="i")
    assert UNASKED not in found(led)


@pytest.mark.parametrize(("how", "asked"), [("told", 19.5), ("told", 20.1), ("woke", 22.1)])
def test_a_body_that_was_asked_and_goes_on_is_the_apps_own_doing_and_named(how: str, asked: float) -> None:
    stubborn = story(how, asked=asked)
    assert found(stubborn) == []
    seconds = "10.0" if how == "told" else "8.0"
    note = f"'ship' swallows its cancellation: 1 body went on for up to {seconds} s after the lock was lost"
    assert note in judge(stubborn.records).notes


@pytest.mark.parametrize("how", ["told", "woke"])
def test_a_request_to_end_that_came_long_after_the_loss_was_about_something_else(how: str) -> None:
    assert found(story(how, asked=28)) == [UNASKED]


def test_a_request_to_end_that_came_long_before_the_loss_was_about_something_else() -> None:
    assert found(story(asked=15)) == [UNASKED]


UNTOLD = "1 body of 'ship' went on after the lease had run out, and the lock did not say so"


def cut_off(*, until: float = 30, lost: float | None = None, renewed: tuple[float, ...] = (8.5,)) -> Story:
    """A body that begins at second 1 and whose lease is renewed some times, and then no more."""
    story = Story().know(cancels=True)
    story.lease(0.9, "host-1", "acquire", A)
    owner = story.body("host-1", 1, until, A, seen=(1, until))
    for t in renewed:
        story.lease(t, "host-1", "renew", A)
    for t in (16, 19, 26):
        story.lease(t, "host-1", "renew", A, status=None)
    if lost is not None:
        story.lock(lost, "host-1", "lost", A, owner, reason="expired")
    return story


def test_a_body_that_goes_on_after_its_lease_and_hears_nothing_is_found() -> None:
    assert UNTOLD in found(cut_off())
    assert UNTOLD not in found(cut_off(until=25))  # the lease ends at 23.5 s
    assert UNTOLD not in found(cut_off(lost=23))
    assert UNTOLD in found(cut_off(lost=27))
    assert UNTOLD not in found(cut_off(renewed=(8.5, 16.0, 23.5)))
    assert UNTOLD in found(cut_off(renewed=(25.0,)))  # the storage may renew a lease that has run out


def test_who_stands_still_past_the_end_of_its_lease_hears_of_it_when_it_wakes() -> None:
    def slept(until: float) -> list[str]:
        story = cut_off(lost=until)
        story.add(10, "host-1", "pause")
        story.add(28, "host-1", "resume")
        return found(story)

    assert UNTOLD not in slept(28.5)
    assert UNTOLD not in slept(29.9)


def test_a_loop_that_stands_still_can_ask_nobody() -> None:
    blocked = story()
    blocked.add(29.5, "host-1", "loop_stood", seconds=9)
    assert found(blocked) == []
    other = story()
    other.add(29.5, "host-1", "loop_stood", seconds=9, worker=2)
    assert found(other) == [UNASKED]


def test_who_does_not_want_to_be_cancelled_is_not() -> None:
    assert found(story().know(cancels=False)) == []


def test_a_body_that_runs_where_nobody_sees_requests_to_end_is_left_alone() -> None:
    elsewhere = story()
    for record in elsewhere.records:
        record.fields.pop("can_be_asked", None)  # type: ignore[attr-defined]
    assert found(elsewhere) == []


@pytest.mark.parametrize("how", ["told", "woke"])
def test_a_body_that_could_not_see_the_loss_is_found(how: str) -> None:
    assert found(story(how, asked=20, lost=False)) == [BLIND]
    assert found(story(how, asked=20, lost=None)) == []


def test_where_anything_may_strike_a_pause_is_not_taken_for_a_loss() -> None:
    assert found(story("woke", asked=20, lost=False, rough=True)) == []
    assert found(story("told", asked=20, lost=False, rough=True)) == [BLIND]


def test_a_body_that_ends_as_its_lock_is_lost_need_not_see_it() -> None:
    assert found(story(until=20.5, lost=False)) == []


def test_a_body_that_is_cancelled_for_the_loss_must_see_it_at_once() -> None:
    cancelled: dict[str, Any] = {"until": 20.2, "error": CANCELLED}
    assert found(story(asked=20.1, lost=False, **cancelled)) == [BLIND]
    assert found(story(asked=20.1, lost=True, **cancelled)) == []
    assert found(story(asked=15, lost=False, **cancelled)) == []  # for another reason
    assert found(story(asked=20.1, lost=False, **cancelled).know(cancels=False)) == []


def test_a_pause_that_is_shorter_than_the_lease_loses_nothing() -> None:
    short = Story().know(cancels=True)
    short.body("host-1", 1, 30, A, owner="i")
    short.sight("host-1", 1, 30, invocation="i", sees={"can_be_asked": True}, lost=False)
    short.add(5, "host-1", "pause")
    short.add(15, "host-1", "resume")
    assert found(short) == []


def test_the_next_try_of_an_invocation_that_lost_its_lock_has_one_of_its_own() -> None:
    again = story(until=21, asked=20)
    again.add(22, "host-1", "invocation_started", function="ship", invocation="i")
    again.sight("host-1", 22, 30, invocation="i", sees={"can_be_asked": True, "attempt": 1}, lost=False)
    assert [text for text in found(again) if text in {BLIND, UNASKED}] == []


def waiting(what: str, *, ends: float | None, kind: str = "lost", stops: bool = False, **answer: Any) -> list[str]:
    """Return what is found of a body whose hold ends at second 20, and that waits for this from second 2 on."""
    waits = Story().know(cancels=True)
    waits.add(1, "host-1", "invocation_started", function="ship", invocation="i")
    waits.lock(1, "host-1", "acquired", A, "i")
    about = {"number": "1", "of": "hold.lost", "what": what, "name": A, "invocation": "i"}
    waits.add(2, "host-1", "pattern_asked", **about)
    waits.lock(20, "host-1", kind, A, "i", reason="expired")
    if stops:
        waits.add(20.2, "host-1", "host_stopping")
    if ends is not None:
        waits.add(ends, "host-1", "pattern_answered", number="1", **answer)
    return [text for text in found(waits) if "that its hold had ended, from second" in text]


UNWOKEN = "did not hear for 20.0 s that its hold had ended, from second 20.0 on: 0.5 s are allowed"


@pytest.mark.parametrize("what", ["hold.lost.wait()", "an await of hold.lost", CALLBACK])
def test_who_waits_for_a_loss_hears_of_it(what: str) -> None:
    assert waiting(what, ends=None) == [f"{what} of 'ship' on host-1 {UNWOKEN}"]
    assert waiting(what, ends=20.3) == []
    assert waiting(what, ends=12) == []  # a time-out
    assert waiting(what, ends=None, stops=True) == []  # its process may end before it can tell


def test_a_wait_ends_with_its_hold_too_and_a_callback_is_for_losses_only() -> None:
    assert waiting("hold.lost.wait()", ends=30, kind="released")
    assert waiting(CALLBACK, ends=None, kind="released") == []
    assert waiting(CALLBACK, ends=20.1, error="GeneratorExit") == [f"{CALLBACK} of 'ship' on host-1 {UNWOKEN}"]
    assert waiting("an await of hold.lost", ends=20.1, error="CancelledError") == []


ENDED = "1 body of 'ship' ended by the lock at its loss, though cancel_on_loss=False"


@pytest.mark.parametrize(("asked", "by"), [(20.1, "lock"), (20.1, ""), (12, "lock")])
def test_a_body_that_only_wants_to_be_told_of_a_loss_is_not_cancelled_by_the_lock(asked: float, by: str) -> None:
    told = story(until=20.3, error=CANCELLED).know(cancels=False)
    told.add(asked, "host-1", "asked_to_end", invocation="i", by=by)
    assert (ENDED in found(told)) == (asked > 20 and by == "lock")
    told.lock(20.2, "host-1", "acquired", "locks/shared/mine", "i", mode="client")
    assert ENDED not in found(told)  # perhaps by the loss of a lock client's lock


def nested(asked: float, got: float | None, *, until: float = 30, outer_owner: str = "i") -> Story:
    """A body whose lock is lost at second 20 asks for another lock inside, and gets it, or gives up at its end."""
    nested = story(until=until, asked=20.1)
    inner, whose = key_lock("b"), inside(outer_owner, "book")
    nested.lock(asked, "host-1", "waiting", inner, whose)
    kinds = ("contended",) if got is None else ("acquired", "body_started")
    for kind in kinds:
        nested.lock(until - 0.1 if got is None else got, "host-1", kind, inner, whose, reason="raise")
    if got is not None:
        nested.lock(until - 0.1, "host-1", "body_ended", inner, whose)
        nested.lock(until - 0.1, "host-1", "released", inner, whose)
    return nested


@pytest.mark.parametrize(
    ("asked", "got", "what"),
    [(21, 24, "began"), (20.6, 20.7, "began"), (15, 28, "began"), (15, None, "was waited for")],
)
def test_after_the_loss_of_the_lock_around_it_no_body_begins_and_no_wait_goes_on(
    asked: float, got: float | None, what: str
) -> None:
    assert any(f"{what} inside 'ship' on host-1" in text for text in found(nested(asked, got)))


@pytest.mark.parametrize(("saw", "entered", "found"), [(False, 15, 1), (True, 15, 0), (False, 21, 0)])
def test_the_hold_of_a_helper_tells_of_the_loss_of_the_lock_around_it(entered: float, found: int, *, saw: bool) -> None:
    made = nested(14, 14.5)
    made.add(0.2, "host-1", "guard", name="book", guarded=True)
    made.sight("host-1", entered, 29, invocation="i", function="book", sees={"token": 2}, token=2, lost=saw)
    said = "1 body of 'book' could not see that the lock was lost"
    assert sum(text == said for text in judge(made.end(60)).violations) == found


def test_a_guard_without_a_context_belongs_to_the_invocation_in_which_its_host_saw_it() -> None:
    made = nested(15, None)
    for record in made.records:
        if record.fields.get("owner") == inside("i", "book"):
            record.fields.update(owner="", invocation="i", function="book")  # type: ignore[attr-defined]
    assert any("'book' was waited for inside 'ship' on host-1" in text for text in found(made))


@pytest.mark.parametrize(
    "right",
    [
        nested(15, 16),
        nested(15, 20.3),
        nested(15, None, until=20.4),
        nested(29.8, None),
        nested(21, 21.1, outer_owner="j"),
    ],
    ids=["before", "at once", "the wait ends", "refused at once", "another invocation"],
)
def test_a_lock_inside_that_came_before_the_loss_or_ended_with_it_is_right(right: Story) -> None:
    assert not [text for text in found(right) if "inside 'ship'" in text]
