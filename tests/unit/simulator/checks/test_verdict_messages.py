"""Messages: each sent one ends in exactly one state, and only a kill excuses that one ran twice."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.checks.messages import HIDDEN
from simulator.checks.verdict import judge
from simulator.history.deeds import inside
from tests.support.journals import Story, good_story, key_lock


def base(policy: str = "wait") -> Story:
    story = Story(policy=policy)
    story.body("host-1", 0.5, 0.6)
    return story


def busy(policy: str) -> Story:
    """A run in which the lock of key "a" is taken for twenty seconds."""
    story = base(policy)
    story.body("host-1", 0.9, 20.0, key_lock("a"))
    return story


def test_deliveries_whose_replies_were_lost_may_poison_a_message_without_an_invocation() -> None:
    story = good_story()
    story.sent(6, "m9")
    story.received(9, "host-1", "m9", 6)
    story.add(9.5, "host-1", "message_poisoned", queue="orders", id="m9")
    verdict = judge(story.end(30))
    assert verdict.verdict == "holds", verdict.reasons
    said = "1 message poisoned from 'orders' by deliveries that never reached a host, which count all the same"
    assert said in verdict.notes


def test_such_deliveries_are_counted_for_each_copy_of_a_message_that_was_put_back() -> None:
    story = busy("defer")
    story.sent(1, "m9")
    for number, (name, copy) in enumerate((("m9", "c1"), ("c1", "c2"), ("c2", "c3"))):
        put_back(story, 1.1 + 3 * number, "host-2", name, copy)
    story.received(14, "host-2", "c3", 4)  # the fourth delivery of this copy, and of all copies too
    story.add(14.1, "host-2", "message_poisoned", queue="orders", id="c3")
    verdict = judge(story.end(30))
    said = "1 message poisoned from 'orders' by deliveries that never reached a host, which count all the same"
    assert said in verdict.notes, verdict.reasons
    story.received(13, "host-2", "c3", 3)
    story.received(12, "host-2", "c3", 2)
    story.received(11, "host-2", "c3", 1)
    assert "1 message poisoned from 'orders' without one failed invocation" in judge(story.end(30)).violations


def test_messages_that_ran_once_are_completed() -> None:
    messages = judge(good_story().end(30)).messages
    assert (messages.sent, messages.completed, messages.redelivered) == (4, 4, 1)


def test_a_message_that_began_on_a_killed_host_and_ran_again_is_a_duplicate_and_fine() -> None:
    verdict = judge(good_story().end(30))
    assert verdict.messages.duplicated == 1
    assert verdict.messages.troubles == ()
    assert verdict.holds


def test_a_message_that_a_victim_had_done_but_not_deleted_may_run_again() -> None:
    story = base()
    story.sent(1, "m")
    story.received(1.1, "host-2", "m")
    story.body("host-2", 1.2, 1.4, key_lock("a"), message="m")
    story.body("host-2", 1.3, None, key_lock("b"))
    story.kill(1.5, "host-2", key_lock("b"))
    story.received(22, "host-3", "m", 2)
    story.body("host-3", 22.1, 22.2, key_lock("a"), message="m")
    story.completed(22.3, "host-3", "m")
    messages = judge(story.end(30)).messages
    assert (messages.completed, messages.duplicated, messages.troubles) == (1, 1, ())


def test_a_message_that_its_host_deleted_before_it_died_has_no_excuse_to_run_again() -> None:
    story = base()
    story.message("m", "host-2", 1.2, 1.4)
    story.body("host-2", 1.3, None, key_lock("b"))
    story.kill(1.5, "host-2", key_lock("b"))
    story.received(22, "host-3", "m", 2)
    story.body("host-3", 22.1, 22.2, key_lock("a"), message="m")
    story.completed(22.3, "host-3", "m")
    assert [t.what for t in judge(story.end(30)).messages.troubles] == ["ran twice without a kill"]


def test_a_message_that_a_victim_deleted_without_living_to_say_so_is_completed() -> None:
    story = base()
    story.sent(1, "m")
    story.received(1.1, "host-2", "m")
    story.body("host-2", 1.2, 1.4, key_lock("a"), message="m")
    story.kill(1.41, "host-2")
    messages = judge(story.end(30)).messages
    assert (messages.completed, messages.lost) == (1, 0)


def test_a_message_whose_function_chose_to_skip_is_skipped_not_lost() -> None:
    story = busy("skip")
    story.sent(1, "m")
    story.received(1.1, "host-2", "m")
    story.skip("host-2", 1.2, key_lock("a"), message="m")
    story.completed(1.3, "host-2", "m")
    verdict = judge(story.end(30))
    assert (verdict.messages.skipped, verdict.messages.completed, verdict.messages.lost) == (1, 0, 0)
    assert verdict.holds


def test_a_failed_delivery_and_then_a_good_one_is_no_duplicate() -> None:
    story = base()
    story.sent(1, "m")
    story.received(1.1, "host-2", "m")
    story.body("host-2", 1.2, 1.4, key_lock("a"), message="m", outcome="error")
    story.received(2.1, "host-1", "m", 2)
    story.body("host-1", 2.2, 2.4, key_lock("a"), message="m")
    story.completed(2.5, "host-1", "m")
    verdict = judge(story.end(30))
    assert (verdict.messages.completed, verdict.messages.duplicated, verdict.messages.redelivered) == (1, 0, 1)
    assert verdict.holds
    assert "1 invocation of 'ship' failed with ValueError (its own code)" in verdict.notes


def poisoned(error: str) -> Story:
    story = base()
    story.message("fine", "host-1", 0.8, 0.9)
    story.sent(1, "m")
    for delivery in range(5):
        story.add(delivery + 1, "host-1", "invocation_started", function="ship", invocation=f"{delivery}", message="m")
        story.add(
            delivery + 1.5,
            "host-1",
            "invocation_ended",
            function="ship",
            invocation=f"{delivery}",
            outcome="error",
            error=error,
            blames="LockNotAcquired" if "LockNotAcquired" in error else "",
        )
    story.add(7, "host-1", "message_poisoned", queue="orders", id="m")
    return story


def test_poison_by_the_functions_own_errors_is_told_but_breaks_no_promise() -> None:
    verdict = judge(poisoned("KeyError: 'price'").end(30))
    assert verdict.holds
    assert verdict.messages.poisoned == 1
    assert "1 message poisoned from 'orders' by its function's own errors (KeyError)" in verdict.notes
    assert verdict.messages.troubles[0].what == "poisoned after 5 invocations: KeyError: 'price'"


def test_poison_by_the_raise_policy_is_told_as_such() -> None:
    verdict = judge(poisoned("LockNotAcquired: taken").know(timeout=0.4).end(30))
    assert verdict.holds
    assert any("its timeout gives a delivery up each time the lock is taken" in note for note in verdict.notes)


@pytest.mark.parametrize(
    ("policy", "known", "reason", "said"),
    [
        ("raise", {}, "raise", 'on_contention="raise" gives a delivery up each time the lock is taken'),
        ("wait", {"limit": 20}, "timeout", "its functionTimeout gives a delivery up each time the lock is taken"),
        (
            "wait",
            {"max_waiting": 0},
            "raise",
            'when_full="raise" gives a delivery up each time max_waiting others wait',
        ),
        (
            "defer",
            {"max_waiting": 0},
            "raise",
            'when_full="raise" gives a delivery up each time max_waiting others wait',
        ),
        ("raise", {"max_waiting": 0}, "raise", 'on_contention="raise" gives a delivery up each time the lock is taken'),
    ],
)
def test_poison_by_refusals_names_the_option_that_refused(
    policy: str, known: dict[str, Any], reason: str, said: str
) -> None:
    story = poisoned("LockNotAcquired: taken").know(on_contention=policy, **known)
    for delivery in range(1, 6):
        for kind in [*["waiting"] * ("max_waiting" in known), "contended"]:
            story.lock(delivery + 0.4, "host-1", kind, key_lock("a"), f"{delivery - 1}", reason=reason)
    assert f"1 message poisoned from 'orders': {said}" in judge(story.end(30)).notes


@pytest.mark.parametrize(
    ("guarded", "owner", "said"),
    [
        (True, inside("2", "book"), "the timeout of 'book' gives a delivery up each time the lock is taken"),
        (False, "other", "a lock that its body asked for was taken"),
    ],
)
def test_poison_by_another_lock_than_its_functions_own_is_told_as_such(*, guarded: bool, owner: str, said: str) -> None:
    story = poisoned("LockNotAcquired: taken").know(guarded=guarded)
    story.add(0.2, "host-1", "guard", name="book", guarded=True, timeout=0.2, on_contention="wait")
    story.lock(3.1, "host-1", "waiting", key_lock("b"), owner, function="book")
    story.lock(3.4, "host-1", "contended", key_lock("b"), owner, function="book", reason="timeout")
    assert any(said in text for text in judge(story.end(30)).notes)


def test_poison_by_a_fault_is_not_told_as_the_functions_own_errors() -> None:
    story = poisoned("StorageUnavailable: no answer")
    for record in story.records:
        if record.event == "invocation_ended" and record.fields["outcome"] == "error":
            record.fields["blames"] = "StorageUnavailable"  # type: ignore[index]
    story.add(1, "host-1", "pause")
    story.add(6, "host-1", "resume")
    said = "1 message poisoned from 'orders': what befell its hosts or the storage failed it (StorageUnavailable)"
    assert said in judge(story.end(30)).notes


UNSENT = "OutputError: output '$return': unable to encode outgoing TypedData"


def test_poison_by_outputs_that_can_not_be_sent_is_told_as_such() -> None:
    verdict = judge(poisoned(UNSENT).end(30))
    assert verdict.holds
    assert (
        f"1 message poisoned from 'orders' because its function's outputs could not be sent ({UNSENT})" in verdict.notes
    )


def test_poison_by_a_skipped_calls_none_is_the_guards_doing() -> None:
    story = poisoned(UNSENT)
    story.lock(3.1, "host-1", "contended", key_lock("a"), owner="2", reason="taken")
    verdict = judge(story.end(30))
    assert [reason for reason in verdict.violations if "because it was skipped" in reason]


def failed_on_a_poison_queue(error: str, blames: str = "") -> Story:
    story = base()
    story.message("fine", "host-1", 0.8, 0.9)
    story.add(0.2, "host-1", "function", name="rescue", trigger="queue", queue="orders-poison")
    story.fleet(1, "message_sent", queue="orders-poison", id="m", key="k")
    story.add(2, "host-1", "message_received", queue="orders-poison", id="m", dequeue_count=1, function="rescue")
    call = {"function": "rescue", "invocation": "1", "message": "m"}
    story.add(2, "host-1", "invocation_started", **call)
    story.add(2.5, "host-1", "invocation_ended", **call, outcome="error", error=error, blames=blames)
    story.fleet(29, "queue_left", queue="orders", ready=0, invisible=0, ids=[])
    story.fleet(29, "queue_left", queue="orders-poison", ready=0, invisible=1, ids=[])
    return story


def test_a_message_that_failed_where_there_is_no_poison_queue_is_left_and_not_stuck() -> None:
    verdict = judge(failed_on_a_poison_queue("KeyError: 'price'").end(30))
    assert verdict.holds
    assert (verdict.messages.stuck, verdict.messages.poisoned) == (0, 1)
    left = "1 message left in 'orders-poison', which has no poison queue, by its function's own errors (KeyError)"
    assert left in verdict.notes
    assert verdict.messages.troubles[0].what == "left in its queue after 1 invocation: KeyError: 'price'"


def test_a_message_that_the_lock_failed_there_is_a_violation_all_the_same() -> None:
    assert not judge(failed_on_a_poison_queue("LockLost: expired", "LockLost").end(30)).holds


def test_many_queues_that_nobody_reads_are_counted_and_not_named() -> None:
    story = base()
    story.message("fine", "host-1", 0.8, 0.9)
    for number in range(6):
        story.fleet(1, "message_sent", queue=f"{number}-outs", id=f"m{number}")
    verdict = judge(story.end(30))
    assert verdict.holds
    assert "6 messages sent to 6 queues that no function here reads" in verdict.notes


@pytest.mark.parametrize(
    ("policy", "known", "seconds"), [("defer", {}, HIDDEN), ("wait", {"hides": 90}, 90), ("wait", {}, 0)]
)
def test_a_message_that_its_queue_may_still_hide_is_open_and_not_stuck(
    policy: str, known: dict[str, float], seconds: float
) -> None:
    def state(end: float) -> tuple[int, int]:
        story = base(policy).know(**known)
        story.sent(1, "m9")
        story.received(1, "host-1", "m9")
        about = {"function": "ship", "invocation": "i1", "message": "m9"}
        story.add(1, "host-1", "invocation_started", **about)
        story.add(2, "host-1", "invocation_ended", **about, outcome="error", error="StorageUnavailable: no")
        story.fleet(end, "queue_left", queue="orders", ready=0, invisible=1, ids=[])
        messages = judge(story.end(end)).messages
        return messages.open, messages.stuck

    assert state(2 + seconds - 0.5) == ((1, 0) if seconds else (0, 1))
    assert state(2 + seconds + 0.5) == (0, 1)


def test_a_message_that_is_put_back_for_longer_than_a_run_lasts_is_open_unless_it_was_put_back_before() -> None:
    def state(copies: int) -> tuple[int, int]:
        story = busy("defer").know(away=1500)
        story.sent(1, "c0")
        for number in range(copies):
            put_back(story, 1.1 + 3 * number, "host-2", f"c{number}", f"c{number + 1}")
        story.fleet(900, "queue_left", queue="orders", ready=0, invisible=1, ids=[])
        messages = judge(story.end(900)).messages
        return messages.open, messages.stuck

    assert state(1) == (1, 0)
    assert state(2) == (0, 1)


def test_why_a_message_is_stuck_is_said() -> None:
    story = base()
    story.sent(1, "unseen")
    story.sent(1, "seen")
    story.received(2, "host-2", "seen")
    story.fleet(29, "queue_left", queue="orders", ready=1, invisible=1, ids=["unseen"])
    troubles = {t.id: t.what for t in judge(story.end(30)).messages.troubles}
    assert troubles == {
        "unseen": "still in its queue: no host ever received it",
        "seen": "still in its queue after 0 invocations, the last of them on host-2",
    }


def test_messages_that_were_in_the_queue_before_are_not_counted() -> None:
    story = base()
    story.received(1, "host-1", "old")
    story.completed(2, "host-1", "old")
    assert judge(story.end(30)).messages.sent == 0


@given(st.lists(st.sampled_from(["done", "skipped", "coalesced", "left", "gone", "poisoned"]), max_size=12))
def test_every_message_is_in_exactly_one_state(fates: list[str]) -> None:
    story = base()
    left = []
    for number, fate in enumerate(fates):
        name = f"m{number}"
        t = 1 + number
        if fate == "done":
            story.message(name, "host-1", t, t + 0.5)
            continue
        story.sent(t, name)
        if fate == "skipped":
            story.skip("host-1", t + 0.1, key_lock("a"), message=name)
            story.completed(t + 0.2, "host-1", name)
        elif fate == "coalesced":
            story.body("host-2", t, t + 0.2, key_lock("a"))
            story.add(t, "host-1", "invocation_started", function="ship", invocation=name, message=name)
            story.lock(t, "host-1", "coalesced", key_lock("a"), name)
            story.add(t, "host-1", "invocation_ended", function="ship", invocation=name, outcome="ok")
            story.completed(t + 0.2, "host-1", name)
        elif fate == "left":
            left.append(name)
        elif fate == "poisoned":
            story.add(t + 0.5, "host-1", "message_poisoned", queue="orders", id=name)
    story.fleet(50, "queue_left", queue="orders", ready=len(left), invisible=0, ids=left)
    messages = judge(story.end(60)).messages
    counted = {
        "done": messages.completed,
        "skipped": messages.skipped,
        "coalesced": messages.coalesced,
        "left": messages.stuck,
        "gone": messages.lost,
        "poisoned": messages.poisoned,
    }
    assert counted == {fate: fates.count(fate) for fate in counted}
    assert messages.sent == len(fates)


# --- messages that were put back --------------------------------------------------------------------------------------


def put_back(story: Story, t: float, host: str, name: str, copy: str, count: int = 1) -> None:
    """Tell of a delivery that found its lock busy, up to its end as a success."""
    story.received(t, host, name, count)
    owner = f"putting {name} back"
    story.add(t, host, "invocation_started", function="ship", invocation=owner, message=name)
    story.lock(t, host, "waiting", key_lock("a"), owner)
    story.lock(t, host, "contended", key_lock("a"), owner, reason="defer")
    story.lock(t + 0.1, host, "deferred", key_lock("a"), owner, message_id=name, copy_id=copy)
    story.add(t + 0.2, host, "invocation_ended", function="ship", invocation=owner, outcome="ok")


def test_a_message_and_the_copies_as_which_it_was_put_back_are_one_message() -> None:
    story = busy("defer")
    story.sent(1, "m")
    put_back(story, 1.1, "host-2", "m", "m2")
    put_back(story, 11.1, "host-3", "m2", "m3")
    story.received(21, "host-2", "m3")
    story.body("host-2", 21.1, 21.4, key_lock("a"), message="m3")
    story.completed(21.5, "host-2", "m3")
    verdict = judge(story.end(30))
    messages = verdict.messages
    assert (messages.sent, messages.completed, messages.deferred, messages.deferrals) == (1, 1, 1, 2)
    assert (messages.redelivered, messages.duplicated, messages.troubles) == (0, 0, ())
    assert verdict.holds


def hidden_for(delay: float | None, *, life: float = 604_800, away: float = 12.5, mode: str = "function") -> list[str]:
    """Return what is said of a message that is put back, hidden for so many seconds; None: its host saw no request."""
    story = busy("defer").know(away=away)
    story.sent(1, "m")
    if delay is not None:
        story.add(1.15, "host-2", "message_put", id="m2", delay=delay, life=life)
    put_back(story, 1.1, "host-2", "m", "m2")
    for record in story.records:
        if record.get("kind") == "deferred":
            record.fields["mode"] = mode  # type: ignore[index]
    story.received(21, "host-2", "m2")
    story.body("host-2", 21.1, 21.4, key_lock("a"), message="m2")
    story.completed(21.5, "host-2", "m2")
    return [text for text in judge(story.end(30)).violations if "defer_delay" in text]


@pytest.mark.parametrize("delay", [5, 20, 80])
def test_a_message_stays_away_as_long_as_declared(delay: float) -> None:
    text = f"another time than its defer_delay: the first for {delay} s, by host-2 at 1.2 s, where 7.5 to 12.5 s are"
    assert hidden_for(delay) == [f"'ship' put 1 message back for {text} declared"]


@pytest.mark.parametrize(
    ("delay", "more"),
    [
        (8, {}),
        (12, {}),
        (None, {}),
        (3, {"life": 6}),
        (10, {"life": -1}),
        (80, {"away": 0}),
        (1, {"away": 1.25}),
        (80, {"mode": "listener"}),
    ],
)
def test_a_quarter_more_or_less_the_end_of_its_life_and_what_is_not_known_are_right(
    delay: float | None, more: dict[str, Any]
) -> None:
    assert hidden_for(delay, **more) == []


def test_a_message_of_endless_life_is_not_put_back_for_less() -> None:
    assert hidden_for(2, life=-1)


def test_a_copy_that_is_gone_without_having_run_is_a_lost_message() -> None:
    story = busy("defer")
    story.sent(1, "m")
    put_back(story, 1.1, "host-2", "m", "m2")
    assert judge(story.end(30)).messages.lost == 1


def test_a_copy_is_lost_even_if_the_host_that_sent_it_died_later() -> None:
    story = busy("defer")
    story.sent(1, "m")
    put_back(story, 1.1, "host-2", "m", "m2")
    story.kill(5, "host-2")
    assert judge(story.end(30)).messages.lost == 1


def test_a_copy_that_is_left_in_the_queue_is_a_stuck_message() -> None:
    story = busy("defer")
    story.sent(1, "m")
    put_back(story, 1.1, "host-2", "m", "m2")
    story.fleet(29, "queue_left", queue="orders", ready=1, invisible=0, ids=["m2"])
    verdict = judge(story.end(30))
    assert verdict.messages.stuck == 1
    assert "1 message stuck: still in the queue at the end" in verdict.violations


def test_a_copy_that_was_received_before_its_sender_said_so_is_the_same_message() -> None:
    story = base()
    story.sent(1, "m")
    story.received(1.15, "host-1", "m2")
    story.body("host-1", 1.16, 1.17, key_lock("a"), message="m2")
    story.completed(1.18, "host-1", "m2")
    put_back(story, 1.1, "host-2", "m", "m2")
    messages = judge(story.end(30)).messages
    assert (messages.sent, messages.completed, messages.troubles) == (1, 1, ())


def test_a_host_that_died_between_copy_and_original_leaves_a_duplicate_that_is_excused() -> None:
    story = base()
    story.sent(1, "m")
    story.received(1.1, "host-2", "m")
    story.add(1.1, "host-2", "invocation_started", function="ship", invocation="dying", message="m")
    story.lock(1.2, "host-2", "contended", key_lock("a"), "dying", reason="defer")
    story.lock(1.3, "host-2", "deferred", key_lock("a"), "dying", message_id="m", copy_id="m2")
    story.kill(1.4, "host-2")
    story.received(11, "host-1", "m2")
    story.body("host-1", 11.1, 11.4, key_lock("a"), message="m2")
    story.completed(11.5, "host-1", "m2")
    story.received(61, "host-3", "m", 2)
    story.body("host-3", 61.1, 61.4, key_lock("a"), message="m")
    story.completed(61.5, "host-3", "m")
    messages = judge(story.end(70)).messages
    assert (messages.completed, messages.duplicated, messages.redelivered, messages.troubles) == (1, 1, 1, ())


def put_back_unnamed(story: Story, t: float, host: str, name: str, copy: str) -> None:
    """Tell of a message whose body hides its id: the guard does not know it, and the host deletes the original."""
    story.received(t, host, name)
    owner = f"putting {name} back"
    story.add(t, host, "invocation_started", function="ship", invocation=owner, message=name)
    story.lock(t, host, "contended", key_lock("a"), owner, reason="defer")
    story.lock(t + 0.1, host, "deferred", key_lock("a"), owner, message_id=None, copy_id=copy)
    story.add(t + 0.2, host, "invocation_ended", function="ship", invocation=owner, outcome="ok")


def runs(story: Story, t: float, host: str, name: str) -> None:
    story.received(t, host, name)
    story.body(host, t + 0.1, t + 0.4, key_lock("a"), message=name)
    story.completed(t + 0.5, host, name)


def test_a_copy_belongs_to_the_message_of_its_invocation() -> None:
    story = base("defer")
    story.body("host-1", 0.9, 1.2, key_lock("a"))
    story.sent(1, "m")
    put_back_unnamed(story, 1.1, "host-2", "m", "m2")
    story.completed(1.4, "host-2", "m")
    runs(story, 11, "host-3", "m2")
    verdict = judge(story.end(30))
    messages = verdict.messages
    assert (messages.sent, messages.completed, messages.deferred, messages.troubles) == (1, 1, 1, ())
    assert verdict.holds


def test_an_original_that_its_host_deleted_is_not_done_with_as_long_as_its_copy_is_not() -> None:
    story = base()
    story.sent(1, "m")
    put_back_unnamed(story, 1.1, "host-2", "m", "m2")
    story.completed(1.4, "host-2", "m")
    story.fleet(29, "queue_left", queue="orders", ready=0, invisible=1, ids=[])
    messages = judge(story.end(30)).messages
    assert (messages.stuck, messages.lost) == (1, 0)


@pytest.mark.parametrize("deleted", [False, True])
def test_a_host_that_died_before_it_deleted_the_original_excuses_a_duplicate_and_later_none(*, deleted: bool) -> None:
    story = base()
    story.sent(1, "m")
    put_back_unnamed(story, 1.1, "host-2", "m", "m2")
    if deleted:
        story.completed(1.4, "host-2", "m")
    story.kill(1.6, "host-2")
    runs(story, 11, "host-3", "m2")
    runs(story, 31, "host-1", "m")
    messages = judge(story.end(50)).messages
    assert messages.duplicated == 1
    assert [trouble.what for trouble in messages.troubles] == ["ran twice without a kill"] * deleted


def test_poison_that_the_guard_made_is_that_of_the_invocations_message() -> None:
    story = base()
    story.sent(1, "m")
    story.received(1.1, "host-3", "m")
    owner = story.body("host-3", 1.2, 1.4, key_lock("a"), message="m", outcome="error")
    story.lock(1.35, "host-3", "poisoned", key_lock("a"), owner, message_id=None)
    assert judge(story.end(30)).messages.poisoned == 1


def test_poison_by_contention_alone_breaks_the_promise_of_defer() -> None:
    story = base()
    story.message("fine", "host-1", 0.8, 0.9)
    for record in story.records:
        if record.event == "function" and record.get("name") == "ship":
            record.fields["on_contention"] = "defer"  # type: ignore[index]
    story.sent(1, "m")
    story.received(1.1, "host-1", "m", 5)
    story.skip("host-1", 1.2, key_lock("a"), reason="defer", message="m")
    story.add(1.4, "host-1", "message_poisoned", queue="orders", id="m", poison="orders-poison")
    verdict = judge(story.end(30))
    assert not verdict.holds
    assert any("by contention alone" in reason for reason in verdict.reasons)


def test_a_message_that_was_put_back_and_failed_too_often_is_poisoned_by_its_function() -> None:
    story = base("defer")
    story.message("fine", "host-1", 0.8, 1.5)
    story.sent(1, "m")
    put_back(story, 1.1, "host-2", "m", "m2")
    story.received(11, "host-3", "m2")
    owner = story.body("host-3", 11.1, 11.4, key_lock("a"), message="m2", outcome="error")
    story.lock(11.35, "host-3", "poisoned", key_lock("a"), owner, message_id="m2")
    verdict = judge(story.end(30))
    assert (verdict.messages.poisoned, verdict.messages.lost) == (1, 0)
    assert verdict.holds
    assert any("by its function's own errors (ValueError)" in note for note in verdict.notes)


@pytest.mark.parametrize(
    ("there", "received", "verdict"),
    [(["d1"], "", "holds"), ([], "d1", "holds"), (["other"], "", "violated"), ([], "", "unproven")],
    ids=["left there", "received there", "another body", "taken out by the app"],
)
def test_a_poisoned_message_has_its_body_in_the_poison_queue(there: list[str], received: str, verdict: str) -> None:
    story = good_story()
    story.sent(6, "m9")
    story.add(8, "host-1", "message_received", queue="orders", id="m9", dequeue_count=6, digest="d1")
    story.add(8.5, "host-1", "message_poisoned", queue="orders", id="m9")
    if received:
        story.add(9, "host-1", "message_received", queue="orders-poison", id="p1", dequeue_count=1, digest=received)
    story.add(29, "", "poison", queue="orders", digests=there)
    judged = judge(story.end(30))
    assert judged.verdict == verdict, judged.reasons
    assert verdict == "holds" or any("'orders-poison'" in reason for reason in judged.reasons)


def test_a_message_whose_only_failure_had_to_end_as_a_success_is_poisoned_by_its_body() -> None:
    story = base("defer")
    story.message("fine", "host-1", 0.8, 1.5)
    story.sent(1, "m")
    put_back(story, 1.1, "host-2", "m", "m2")
    story.received(11, "host-3", "m2", 5)  # others who received it never ran it
    owner = story.body("host-3", 11.1, 11.4, key_lock("a"), message="m2", outcome="error")
    for record in story.records:
        if record.event == "invocation_ended" and record.get("invocation") == owner:
            record.fields.update(outcome="ok")  # type: ignore[attr-defined]
    story.lock(11.35, "host-3", "poisoned", key_lock("a"), owner, message_id="m2")
    verdict = judge(story.end(30))
    assert verdict.holds
    assert any("in an invocation that then had to succeed" in note for note in verdict.notes)


# --- hosts that stood still -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("moment", [0.5, 5.0])
def test_a_host_that_stood_still_while_the_queue_answered_excuses_a_duplicate_and_an_earlier_pause_none(
    moment: float,
) -> None:
    story = base()
    story.sent(1, "m")
    story.add(2, "host-2", "pause")
    story.add(40, "host-2", "resume")
    runs(story, 40 + moment, "host-2", "m")
    runs(story, 31, "host-3", "m")
    troubles = judge(story.end(60)).messages.troubles
    assert bool(troubles) is (moment == 5.0)


def test_a_message_that_others_received_while_its_host_stood_still_may_run_twice() -> None:
    story = base()
    story.sent(1, "m")
    story.received(1.1, "host-2", "m")
    story.add(1.2, "host-2", "pause")
    story.add(40, "host-2", "resume")
    story.body("host-2", 40.1, 40.4, key_lock("a"), message="m")
    story.received(31, "host-3", "m", 2)
    story.body("host-3", 31.1, 31.4, key_lock("a"), message="m")
    story.completed(31.5, "host-3", "m")
    messages = judge(story.end(50)).messages
    assert (messages.completed, messages.duplicated, messages.troubles) == (1, 1, ())


def test_what_a_function_sends_to_a_queue_that_nobody_here_reads_is_not_the_fleets_to_process() -> None:
    story = good_story()
    for number in range(2):
        story.add(3, "host-1", "message_sent", queue="shipped", id=f"out-{number}", function="ship")
    verdict = judge(story.end(40))
    assert verdict.holds
    assert (verdict.messages.sent, verdict.messages.open) == (4, 0)
    assert "2 messages sent to 'shipped', which no function here reads" in verdict.notes


def test_a_message_that_was_to_be_put_back_and_was_not_is_lost() -> None:
    story = busy("defer")
    story.sent(1, "m")
    put_back(story, 1.1, "host-2", "m", "m2")
    story.completed(1.4, "host-2", "m")
    story.records = [record for record in story.records if record.get("kind") != "deferred"]
    verdict = judge(story.end(30))
    assert verdict.violations == ("1 message lost: gone from the queue, never processed",)
    assert [trouble.what for trouble in verdict.messages.troubles] == ["to be put back, and it was not"]


@pytest.mark.parametrize("reason", ["too long", "expired"])
def test_max_hold_that_ends_a_body_each_time_is_no_failure_of_the_lock(reason: str) -> None:
    story = base().know(max_hold=5)
    story.sent(1, "m")
    lock, failed = key_lock("a"), {"outcome": "error", "error": "LockLost: lost", "blames": "LockLost"}
    for number in range(5):
        t, call = 2 + 8 * number, f"call-{number}"
        story.received(t, "host-1", "m", number + 1)
        story.add(t, "host-1", "invocation_started", function="ship", invocation=call, message="m")
        for kind, after, more in (("acquired", 0, {}), ("body_started", 0, {}), ("lost", 5, {"reason": reason})):
            story.lock(t + after, "host-1", kind, lock, call, **more)
        story.lock(t + 5.1, "host-1", "body_ended", lock, call, reason="lost")
        story.add(t + 5.1, "host-1", "invocation_ended", function="ship", invocation=call, **failed)
    story.add(50, "host-1", "message_poisoned", queue="orders", id="m", poison="orders-poison")
    verdict = judge(story.end(60))
    accused = "1 message poisoned from 'orders' by the lock's own failure (LockLost)" in verdict.violations
    assert accused == (reason == "expired")
    assert ("1 message poisoned from 'orders': max_hold ended its body each time" in verdict.notes) != accused


def failing_copies(*names: str, each: int = 3, unnamed: bool = False) -> Story:
    """Tell of a message each of whose copies fails so many times, and is then put back; the last one is poison."""
    story = base("defer").know(tries=5)
    story.sent(1, names[0])
    t, owner = 2.0, ""
    for name, copy in zip(names, (*names[1:], ""), strict=True):
        for delivery in range(1, each + 1):
            story.received(t, "host-2", name, delivery)
            owner = story.body("host-2", t, t + 0.2, key_lock("a"), message=name, outcome="error")
            story.sight("host-2", t, t + 0.2, invocation=owner, error="ValueError")
            t += 1
        if copy:
            put = put_back_unnamed if unnamed else put_back
            put(story, t, "host-2", name, copy)
            t += 3
    story.lock(t - 0.85, "host-2", "poisoned", key_lock("a"), owner, message_id=names[-1])
    return story


FAILED = "m of 'orders' failed 6 times in all its deliveries, and the maxDequeueCount is 5: once too often on host-2"


def test_the_failures_of_a_message_are_counted_over_all_its_copies() -> None:
    assert any(FAILED in text for text in judge(failing_copies("m", "m2").end(60)).violations)
    later = failing_copies("m", "m2", "m3")
    later.fault(2, 2.1, "partition", "host-2")
    assert any(FAILED in text for text in judge(later.end(60)).violations)


@pytest.mark.parametrize("cause", ["older journal", "hidden id", "fault", "five in all"])
def test_no_failure_is_too_many_where_the_count_was_hindered_or_is_not_known(cause: str) -> None:
    story = failing_copies("m", "m2", unnamed=cause == "hidden id", each=2 if cause == "five in all" else 3)
    if cause == "older journal":
        story.know(tries=None)
    elif cause == "fault":
        story.fault(5, 7, "partition", "host-2")
    assert not any("in all its deliveries" in text for text in judge(story.end(60)).violations)


@pytest.mark.parametrize("each", [1, 2, 3])
def test_a_message_is_not_given_up_before_it_failed_as_often_as_it_may(each: int) -> None:
    said = "m of 'orders' was given up after 2 of 5 failures"
    assert any(said in text for text in judge(failing_copies("m", "m2", each=each).end(60)).violations) == (each == 1)


def test_outputs_that_could_not_be_sent_are_no_error_of_the_apps_code() -> None:
    story = base()
    story.add(1.1, "host-2", "invocation_started", function="ship", invocation="one")
    error = "OutputError: StoreFailure: throttled"
    story.add(1.5, "host-2", "invocation_ended", function="ship", invocation="one", outcome="error", error=error)
    notes = judge(story.end(30)).notes
    assert any("failed with OutputError (its outputs could not be sent)" in text for text in notes)
