"""The end of a run: it waits for what is outstanding, and not for ever."""

from __future__ import annotations

import pytest

from simulator.checks.messages import HIDDEN
from simulator.history.historian import read_history
from simulator.real import settle
from simulator.real.settle import HUNG, LONGEST, PUT_BACK
from tests.support.journals import TIMER, Story, good_story, key_lock


def outstanding(story: Story, queued: int) -> list[str]:
    return settle.outstanding(read_history(story.records), queued)


def hopeless(story: Story, now: float) -> bool:
    return settle.hopeless(read_history(story.records), now, since=1030, visibility=20)


def killed() -> Story:
    story = Story(kill=1)
    story.body("host-1", 9, None, key_lock("a"), token=1)
    story.kill(10, "host-1", key_lock("a"))
    return story


def test_a_run_without_kills_ends_with_empty_queues() -> None:
    story = Story()
    story.body("host-1", 1, 2)
    assert outstanding(story, 0) == []
    assert outstanding(story, 1) == ["1 message"]
    assert outstanding(story, 2) == ["2 messages"]


def test_what_is_left_when_all_messages_of_the_run_are_done_is_not_told_as_one_of_them() -> None:
    story = Story()
    story.sent(0.5, "m2")
    story.message("m1", "host-1", 1, 2)
    assert outstanding(story, 1) == ["1 message"]
    story.message("m2", "host-1", 3, 4)
    assert outstanding(story, 1) == ["1 message that this run did not send"]


def test_a_failover_is_waited_for_until_it_is_seen() -> None:
    story = killed()
    assert outstanding(story, 0) == ["the failover of host-1"]
    story.lock(11, "host-2", "waiting", key_lock("a"), "w")
    assert outstanding(story, 0) == ["the failover of host-1"]
    story.lock(25, "host-2", "acquired", key_lock("a"), "w", token=2)
    assert outstanding(story, 0) == []


def test_a_failover_that_nobody_wants_is_not_waited_for_if_a_nemesis_killed() -> None:
    story = Story(faults=["kill"])
    story.body("host-1", 9, None, key_lock("a"), token=1)
    story.kill(10, "host-1", key_lock("a"))
    assert outstanding(story, 0) == []
    story.lock(11, "host-2", "waiting", key_lock("a"), "w")
    assert outstanding(story, 0) == ["the failover of host-1"]


def test_a_failover_that_is_late_is_waited_for_no_longer() -> None:
    story = killed()
    story.lock(11, "host-2", "waiting", key_lock("a"), "w")
    story.add(40, "host-2", "tick", function="import_eligibility", due=40)
    assert outstanding(story, 0) == []


def test_what_else_a_victim_held_is_waited_for_if_it_is_wanted() -> None:
    story = Story(kill=1)
    story.body("host-1", 9, None, key_lock("a"), token=1)
    story.body("host-1", 9, None, key_lock("b"), token=1)
    story.kill(10, "host-1", key_lock("a"), key_lock("b"))
    story.body("host-2", 20, 21, key_lock("a"), token=2, asked=10)
    assert outstanding(story, 0) == []
    story.lock(12, "host-3", "waiting", key_lock("b"), "w")
    assert outstanding(story, 0) == ["the failover of host-1"]


def test_without_locks_nothing_fails_over() -> None:
    story = Story(kill=1, singleton=False)
    story.body("host-1", 9, None, held=False)
    story.kill(10, "host-1", TIMER)
    assert outstanding(story, 0) == []


@pytest.mark.parametrize(("now", "over"), [(1050, False), (1059.9, False), (1060.1, True)])
def test_hope_ends_a_lease_a_tick_or_a_redelivery_after_the_last_progress(now: float, *, over: bool) -> None:
    assert hopeless(good_story(), now) == over


def test_messages_that_are_done_keep_hope_alive() -> None:
    story = Story()
    story.message("m1", "host-1", 55, 56)
    assert not hopeless(story, 1080)


def test_messages_that_are_put_back_keep_hope_alive_for_a_while() -> None:
    story = Story(policy="defer")
    for second in range(31, 700, 5):
        story.lock(second, "host-1", "deferred", key_lock("a"), f"i{second}", message_id="m", copy_id="m")
        about = {"function": "ship", "invocation": f"i{second}", "message": "m"}
        story.add(second, "host-1", "invocation_started", **about)
        story.add(second + 0.5, "host-1", "invocation_ended", outcome="ok", **about)
    assert not hopeless(story, 1000 + PUT_BACK)
    assert hopeless(story, 1000 + PUT_BACK + 100)


def test_timers_that_tick_on_do_not() -> None:
    story = Story()
    for second in range(0, 300, 5):
        story.body("host-1", second, second + 1, seen=(second, second + 1))
    story.body("host-2", 295, None, seen=(295, None))
    assert hopeless(story, 1300)


def test_a_body_that_runs_keeps_hope_alive_until_it_has_hung() -> None:
    story = Story()
    story.sent(1, "m")
    story.body("host-1", 31, None, key_lock("a"), message="m", seen=(31, None))
    assert not hopeless(story, 1031 + HUNG - 1)
    assert hopeless(story, 1031 + HUNG + 1)


@pytest.mark.parametrize("timeout", [True, False])
def test_what_ran_in_a_worker_that_was_killed_for_another_call_keeps_hope_alive_too(timeout: bool) -> None:
    story = Story()
    story.sent(1, "m")
    story.body("host-1", 31, None, key_lock("a"), message="m", seen=(31, None))
    story.add(35, "host-1", "worker_exited", worker=1, reason="functionTimeout", timeout=timeout)
    assert hopeless(story, 1031 + HUNG - 1) is not timeout
    assert hopeless(story, 1031 + HUNG + 1)


def test_no_run_settles_for_ever() -> None:
    story = Story()
    story.message("m1", "host-1", 1000, 1001)
    assert hopeless(story, 1030 + LONGEST + 1)


def put_back(story: Story, t: float, message: str, copy: str) -> None:
    about = {"function": "ship", "invocation": f"of {message}", "message": message}
    story.add(t, "host-1", "message_received", id=message, queue="orders", digest="d")
    story.add(t, "host-1", "invocation_started", **about)
    story.lock(t, "host-1", "deferred", key_lock("a"), f"of {message}", message_id=message, copy_id=copy)
    story.add(t, "host-1", "invocation_ended", outcome="ok", **about)


def test_copies_of_which_nobody_was_told_decide_a_run_when_they_are_more_than_what_was_sent() -> None:
    story = Story(policy="defer")
    story.sent(1, "m")
    put_back(story, 1, "m", "m2")
    put_back(story, 5, "m2", "m3")
    put_back(story, 5, "beside m2", "m4")
    assert not settle.multiplying(read_history(story.records))
    put_back(story, 9, "beside m3", "m5")
    assert settle.multiplying(read_history(story.records))


def test_messages_that_the_app_sends_itself_do_not() -> None:
    story = Story(policy="defer")
    story.sent(1, "m")
    put_back(story, 1, "m", "m2")
    for name in "xyz":
        story.add(2, "host-1", "message_received", id=name, queue="orders", digest=name)
    assert not settle.multiplying(read_history(story.records))


def failed(story: Story, t: float, *, reason: str = "StorageUnavailable") -> Story:
    """Tell of a message whose only call failed."""
    about = {"function": "ship", "invocation": "i1", "message": "m"}
    story.sent(t - 1, "m")
    story.received(t - 1, "host-1", "m")
    story.add(t - 1, "host-1", "invocation_started", **about)
    story.add(t, "host-1", "invocation_ended", **about, outcome="error", error=f"{reason}: no", blames=reason)
    return story


def test_a_message_that_its_process_hid_and_did_not_put_back_is_waited_for_until_it_comes_back() -> None:
    assert not hopeless(failed(Story(policy="defer"), 30), 1030 + HIDDEN + 25)
    assert hopeless(failed(Story(policy="defer"), 30), 1030 + HIDDEN + 40)
    assert hopeless(failed(Story(), 30), 1030 + 40)


def test_the_death_of_a_host_may_leave_a_hidden_message_too() -> None:
    story = Story(policy="defer")
    story.sent(29, "m")
    story.received(29, "host-1", "m")
    story.add(29, "host-1", "invocation_started", function="ship", invocation="i1", message="m")
    story.kill(30, "host-1")
    assert not hopeless(story, 1030 + HIDDEN + 25)


def test_a_message_that_failed_is_waited_for_as_long_as_the_app_lets_its_queue_hide_it() -> None:
    assert not hopeless(failed(Story().know(hides=200), 30), 1030 + 200 + 25)
    assert hopeless(failed(Story().know(hides=200), 30), 1030 + 200 + 40)


def test_a_message_that_ended_after_its_failure_is_waited_for_no_longer() -> None:
    story = failed(Story(policy="defer"), 30)
    story.completed(31, "host-2", "m")
    assert hopeless(story, 1030 + 40)
