"""Each row of the table of bounds, by the options that the function was declared with and not by the defaults."""

from __future__ import annotations

from typing import Any

import pytest

from simulator.checks.verdict import judge
from simulator.history.journal import Record
from tests.support.journals import Story, key_lock, plain

A = key_lock("a")


def said(story: Story, end: float = 120.0) -> list[str]:
    return plain(judge(story.end(end)).violations)


@pytest.mark.parametrize(("asked", "limit", "late"), [(3, 20, True), (3, 40, False), (14, 20, False)])
def test_a_wait_ends_in_time_for_the_function_timeout(asked: float, limit: float, late: bool) -> None:
    story = Story().know(limit=limit)
    story.body("host-1", 1, 24, A)
    story.body("host-2", 24.2, 25, A, asked=asked)
    text = f"waited for {24.2 - asked:.1f} s for its lock, despite functionTimeout={limit}, which ends a wait"
    assert any(text in each for each in said(story)) == late


# --- a process that keeps a wanted lock -------------------------------------------------------------------------------


def greedy(until: float, *, section: float = 1.0, gap: float = 0.05, host: str = "host-1", **known: Any) -> Story:
    """A process with one section after another, from second 2 on, while `host-2` waits from second 5 on."""
    story = Story().know(**known)
    t, token = 2.0, 0
    while t < until:
        story.body("host-1", t, t + section - gap, A, token=(token := token + 1))
        t += section
    story.body("host-2", t + 0.2, t + 1, A, token=token + 1, asked=5.0)
    return story


def test_a_waiter_gets_a_chance_within_the_window_the_longest_section_and_a_poll() -> None:
    assert said(greedy(39.0)) == []  # of 30 s, 0.95 s, 5.5 s
    kept = "ship.a was kept by host-1 for 60.0 s, one section after another, while host-2 waited for it"
    assert said(greedy(65.0)) == [kept]
    assert judge(greedy(65.0).end(120)).violations == (
        f"{kept} (from second 5.0 on; 36.5 s and a request are allowed)",
    )


@pytest.mark.parametrize(
    ("until", "known", "found"),
    [
        (40.0, {"poll": 2}, True),
        (37.0, {"poll": 2}, False),
        (20.0, {"window": 5}, True),
        (15.0, {"window": 5}, False),
        (65.0, {"window": 60}, False),
        (45.0, {"at_least": 20}, False),
    ],
)
def test_the_bound_is_that_of_the_options_as_declared(until: float, known: dict[str, Any], *, found: bool) -> None:
    assert any("one section after another" in text for text in said(greedy(until, **known))) == found


def test_a_lock_that_is_free_most_of_the_time_is_found_free_by_chance() -> None:
    assert said(greedy(65.0, section=3.0, gap=2.5)) == []


def test_a_waiter_in_another_process_that_gets_it_in_between_has_had_its_chance() -> None:
    story = greedy(65.0)
    story.body("host-3", 33.96, 33.98, A, token=100)
    assert not any("one section after another" in text for text in said(story))


def test_a_waiter_or_a_holder_that_stood_still_had_less_time() -> None:
    for host in ("host-1", "host-2"):
        story = greedy(65.0)
        story.add(20, host, "pause")
        story.add(45, host, "resume")
        assert not any("one section after another" in text for text in said(story))


# --- a lock that nobody has -------------------------------------------------------------------------------------------


def told_late(*, granted: float | None) -> list[str]:
    """`host-1` releases the lock at second 5; `host-2` waits, and tells at second 25 that it has the lock."""
    story = Story()
    story.lease(0.9, "host-1", "acquire", A, status=201, lease="1")
    story.body("host-1", 1, 5, A, token=1)
    story.lease(5.1, "host-1", "release", A, lease="1")
    if granted is not None:
        story.lease(granted, "host-2", "acquire", A, status=201, lease="2")
    story.body("host-2", 25, 26, A, token=2, asked=4.0)
    return said(story)


def test_a_lock_is_free_until_the_storage_grants_it_though_its_holder_tells_of_that_late() -> None:
    assert told_late(granted=5.6) == []
    assert told_late(granted=20.0) == ["ship.a was free for 15.0 s while host-2 waited for it"]
    assert told_late(granted=None) == ["ship.a was free for 20.0 s while host-2 waited for it"]


def test_a_lock_that_a_process_hands_on_late_is_not_free() -> None:
    story = Story()
    story.lease(0.9, "host-1", "acquire", A, status=201, lease="1")
    story.body("host-1", 1, 5, A, token=1)
    story.body("host-1", 25, 26, A, token=2, asked=4.0)
    story.body("host-2", 27, 28, A, token=3, asked=4.0)
    assert not any("was free for" in text for text in said(story))


# --- a slot of a semaphore --------------------------------------------------------------------------------------------


def slots(*taken: int, asked: float, got: float) -> Story:
    """Two slots, of which these are taken from second 1 to 30; `host-2` asks, and gets one."""
    story = Story().know(several=True, at_once=2)
    for number in taken:
        story.body("host-1", 1, 30, f"{A}/slot-{number}")
    story.body("host-2", got, got + 1, f"{A}/slot-1", asked=asked)
    return story


def test_a_slot_that_is_free_is_got_within_a_poll_though_other_slots_are_taken() -> None:
    assert said(slots(0, asked=3, got=9)) == []
    assert said(slots(0, asked=3, got=12)) == ["a slot of ship.a was free for 9.0 s while host-2 waited for it"]
    assert said(slots(0, 1, asked=3, got=31)) == []


@pytest.mark.parametrize("policy", ["skip", "raise", "defer"])
def test_a_refusal_needs_a_holder_of_each_slot(policy: str) -> None:
    def refused(*taken: int) -> list[str]:
        story = Story(policy=policy).know(several=True, at_once=2)
        for number in taken:
            story.body("host-1", 1, 10, f"{A}/slot-{number}")
        story.skip("host-2", 5, A, reason=policy)
        return [text for text in said(story) if "slots" in text]

    assert refused(0, 1) == []
    assert refused(0) == ["1 invocation of 'ship' found all slots of a semaphore taken, and fewer were in use"]


def test_one_slot_that_two_had_one_after_the_other_is_one_slot() -> None:
    story = Story(policy="skip").know(several=True, at_once=2)
    story.body("host-1", 1, 4.8, f"{A}/slot-0")
    story.body("host-3", 4.9, 10, f"{A}/slot-0")
    story.skip("host-2", 5, A)
    assert any("fewer were in use" in text for text in said(story))


@pytest.mark.parametrize(("asked", "found"), [(3.5, False), (6.0, True)])
def test_a_caller_may_be_refused_by_what_a_waiter_of_its_process_found_at_its_last_poll(
    asked: float, *, found: bool
) -> None:
    story = Story(policy="skip")
    story.body("host-1", 1, 2, A)
    story.lock(asked, "host-2", "waiting", A, "patient")
    story.skip("host-2", 5.8, A)
    story.lock(asked + 2.8, "host-2", "contended", A, "patient", reason="timeout")
    assert (
        any("1 invocation of 'ship' found the lock taken, and nobody had it" in text for text in said(story)) == found
    )


# --- the line of a process --------------------------------------------------------------------------------------------


def line(*waits: tuple[float, float], host: str = "host-1", lock: str = A, **known: Any) -> Story:
    """Callers ask for a lock at these times, and get the lock: `host` asks second, and `host-1` else."""
    story = Story().know(**known)
    for number, (asked, got) in enumerate(waits):
        where = host if number == 1 else "host-1"
        story.body(where, got, got + 0.9, lock, asked=asked, owner=f"call-{number}")
    return story


def overtaken(story: Story) -> list[str]:
    return [text for text in judge(story.end(60)).violations if "after another that had asked" in text]


def test_among_the_waiters_of_a_process_the_first_to_come_is_the_first_to_get_the_lock() -> None:
    assert overtaken(line((2, 7), (4, 8))) == []
    why = "among the waiters of one process the first to come is the first to get the lock"
    says = "an invocation of 'ship' on host-1 got its lock 3.0 s after another that had asked 2.0 s later"
    assert overtaken(line((2, 8), (4, 5))) == [f"{says} (from second 5.0 on; {why})"]


def test_among_the_waiters_for_a_slot_too() -> None:
    assert overtaken(line((2, 8), (4, 5), lock=f"{A}/slot-1", several=True, at_once=2))


def test_waiters_of_several_processes_have_no_order() -> None:
    assert overtaken(line((2, 8), (4, 5), host="host-2")) == []


def test_who_came_shortly_before_another_may_stand_behind_in_line() -> None:
    assert overtaken(line((2, 8), (2.8, 5))) == []


@pytest.mark.parametrize("known", [{"max_waiting": 9}, {"on_contention": "custom"}, {"merges": True}])
def test_who_asks_again_or_waits_out_of_line_has_no_place_to_lose(known: dict[str, Any]) -> None:
    assert overtaken(line((2, 8), (4, 5), **known)) == []


def test_a_process_that_stood_still_may_have_stood_in_line_later() -> None:
    story = line((2, 8), (4, 5))
    story.add(3.9, "host-1", "loop_stood", worker=1, seconds=1.5)
    assert overtaken(story) == []


def test_who_asks_a_second_time_comes_later() -> None:
    story = line((2, 8), (4, 5))
    story.lock(6, "host-1", "waiting", A, "call-0")
    assert overtaken(story) == []


# --- from the grant of a lock to the first line of its body ----------------------------------------------------------


def entered(t: float, *, granted: float = 1.0, acquired: float = 1.1, direct: bool = True, **stood: Any) -> list[str]:
    story = Story().know(direct=direct)
    story.lease(granted, "host-1", "acquire", A, status=201, lease="1")
    story.body("host-1", acquired, t + 1, A, asked=0.5, seen=(t, t + 1))
    if stood:
        story.add(t, "host-1", "loop_stood", worker=1, **stood)
    return said(story)


def test_a_body_begins_when_its_lock_is_granted() -> None:
    assert entered(4.0) == []
    assert entered(6.0) == ["a body of 'ship' began 5.0 s after host-1 had ship.a for it"]
    assert entered(6.0, acquired=5.9) == ["a body of 'ship' began 5.0 s after host-1 had ship.a for it"]


def test_a_body_that_its_loop_kept_waiting_or_that_has_more_around_it_is_not_judged() -> None:
    assert entered(6.0, seconds=3.0) == []
    assert entered(6.0, direct=False) == []


@pytest.mark.parametrize(("t", "found"), [(8.0, False), (10.0, True)])
def test_a_body_begins_when_the_hold_before_it_in_its_process_has_ended(t: float, *, found: bool) -> None:
    story = Story().know(direct=True)
    story.lease(0.9, "host-1", "acquire", A, status=201, lease="1")
    story.body("host-1", 1, 5, A, token=1, seen=(1, 5))
    story.body("host-1", t, t + 1, A, token=2, asked=2.0, seen=(t, t + 1))
    assert said(story) == ["a body of 'ship' began 5.0 s after host-1 had ship.a for it"] * found


def test_a_lock_of_an_older_layout_may_be_waited_for_in_between() -> None:
    story = Story().know(direct=True)
    story.lease(1.0, "host-1", "acquire", A, status=201, lease="1")
    story.lease(3.0, "host-1", "acquire", key_lock("old"), status=409, lease="2", took=0.01)
    story.body("host-1", 9.0, 10.0, A, asked=0.5, seen=(9.0, 10.0))
    assert said(story) == []


# --- renewals ---------------------------------------------------------------------------------------------------------


def renewed(*times: float, until: float = 30.0, **known: Any) -> Story:
    story = Story().know(**known)
    story.lease(0.9, "host-1", "acquire", A, status=201)
    story.body("host-1", 1, until, A)
    for t in times:
        story.lease(t, "host-1", "renew", A)
    return story


def test_each_renewal_comes_an_interval_after_the_one_before() -> None:
    assert said(renewed(8.5, 16.0, 23.5)) == []
    (late,) = said(renewed(8.5, 18.5, 26.0))
    assert late == "a hold of 'ship' was not renewed in time: no request for it left host-1 for 10.0 s"
    assert said(renewed(8.5, 18.5, 26.0, renewal=12)) == []
    assert said(renewed(8.5, 16.0)) != []


# --- a lease that expires ---------------------------------------------------------------------------------------------


def expired(at: float, *, granted: float = 8.5, **known: Any) -> list[str]:
    """A hold that is told that its lease has expired, in an outage of its host."""
    story = Story(faults=["partition"]).know(**known)
    story.fault(9.0, 24.0, "partition", "host-1")
    story.lease(0.9, "host-1", "acquire", A, status=201)
    story.lease(granted, "host-1", "renew", A)
    story.body("host-1", 1, None, A, token=1, owner="call-1")
    story.lock(at, "host-1", "lost", A, "call-1", token=1, reason="expired")
    story.lock(at + 0.1, "host-1", "body_ended", A, "call-1", token=1, reason="lost")
    error = {"outcome": "error", "error": "LockLost: expired", "blames": "LockLost"}
    story.add(at + 0.1, "host-1", "invocation_ended", function="ship", invocation="call-1", **error)
    story.fleet(59, "healed")
    return [text for text in said(story, 60) if "expired" in text]


def test_a_hold_lasts_until_its_deadline() -> None:
    assert expired(22.5) == []
    assert expired(15.5) == ["host-1 was told that the lease of ship.a had expired, 7.0 s before its deadline"]
    assert expired(22.5, lease=30) == [
        "host-1 was told that the lease of ship.a had expired, 14.0 s before its deadline",
    ]


def test_with_failover_the_touches_have_an_earlier_deadline() -> None:
    assert expired(11.5, failover=3) == []


GONE = "LeaseIdMismatchWithLeaseOperation"


def told_gone(told: float, *, code: str = GONE, struck: str = "", end: str = "lost") -> Story:
    """An operator breaks a lease at 7; at 8 a renewal is refused, and the hold ends at ``told``."""
    story = Story(faults=["break"]).know()
    story.fault(7, 7, "break", "host-1", lock=A)
    story.add(1, "host-1", "invocation_started", function="ship", invocation="one")
    story.lock(1, "host-1", "waiting", A, "one", worker=1)
    story.lease(1, "host-1", "acquire", A, status=201, took=0.0, lease="id", worker=1)
    story.lock(1, "host-1", "acquired", A, "one", token=1, worker=1)
    story.lock(1, "host-1", "body_started", A, "one", token=1, worker=1)
    for t in (8.0, 9.0, 10.0):
        if t < told:
            story.lease(t, "host-1", "renew", A, status=409, took=0.0, lease="id", code=code, worker=1)
    if struck:
        story.add(told, "host-1", struck, seconds=told - 8, worker=1)
    if end == "lost":
        story.lock(told, "host-1", "lost", A, "one", reason="expired", token=1, worker=1)
    story.lock(told, "host-1", "body_ended", A, "one", reason=end, token=1, worker=1)
    return story


def test_a_hold_ends_at_once_when_the_storage_answers_that_its_lease_is_gone() -> None:
    def late(story: Story) -> list[str]:
        return [text for text in said(story) if "was told of the loss" in text]

    text = "host-1 was told of the loss 5.0 s after the storage had answered that its lease of ship.a was gone"
    assert late(told_gone(13.0)) == [text]
    assert late(told_gone(8.9)) == []
    assert late(told_gone(13.0, code="")) == []  # an older journal, or something in between
    assert late(told_gone(13.0, code="InternalError")) == []
    assert late(told_gone(13.0, struck="loop_stood")) == []
    went_on = told_gone(13.0, end="ok")
    went_on.lock(16, "host-1", "released", A, "one", token=1, worker=1)
    assert late(went_on) == [text]


def test_a_break_excuses_no_overlap_after_the_storage_has_told_gone() -> None:
    def overlaps(begin: float, code: str) -> list[str]:
        story = told_gone(13.0, code=code)
        story.body("host-2", begin, 15, A, token=2)
        return [text for text in said(story) if "overlap" in text]

    assert [text[:9] for text in overlaps(10.0, GONE)] == ["1 overlap"]
    assert overlaps(8.2, GONE) == []
    assert overlaps(10.0, "") == []


# --- single attempts and releases -------------------------------------------------------------------------------------


def attempt(policy: str, seconds: float, *, fault: float = 0.0, **known: Any) -> list[str]:
    story = Story(policy=policy, faults=["throttle"]).know(**known)
    story.body("host-1", 1.0, 4.0, A)
    story.fault(2.5, 2.6 + fault, "throttle", "host-2" if fault else "host-3")
    story.add(3, "host-2", "invocation_started", function="ship", invocation="call-1")
    story.lock(3, "host-2", "waiting", A, "call-1")
    story.lock(3 + seconds, "host-2", "contended", A, "call-1", reason=policy)
    story.fleet(59, "healed")
    return [text for text in said(story, 60) if "despite" in text]


@pytest.mark.parametrize("policy", ["skip", "raise", "defer"])
def test_a_single_attempt_is_one_request_also_where_the_holder_has_gone(policy: str) -> None:
    assert attempt(policy, 3.0) == []
    assert attempt(policy, 6.0) == [
        f"an invocation of 'ship' waited for 6.0 s for its lock, despite on_contention={policy!r}",
    ]


def test_a_single_attempt_ends_after_ten_seconds_though_the_storage_does_not_answer() -> None:
    assert attempt("skip", 11.0, fault=20.0) == []
    assert attempt("skip", 15.0, fault=20.0) == [
        "an invocation of 'ship' waited for 15.0 s for its lock, despite on_contention='skip'",
    ]


@pytest.mark.parametrize(("forgotten", "found"), [(6, False), (0.5, True), (None, True)])
def test_a_connection_that_was_forgotten_loses_a_request_up_to_fifteen_seconds_later(
    forgotten: float | None, *, found: bool
) -> None:
    story = Story(policy="skip", faults=["forget"])
    story.body("host-1", 1, 30, A)
    if forgotten is not None:
        story.fault(forgotten, forgotten, "forget", "host-2", hits=0)
    story.lock(16, "host-2", "waiting", A, "call-1")
    story.lease(21, "host-2", "acquire", A, status=None, took=5.0, lease="x")
    story.lock(21.1, "host-2", "contended", A, "call-1", reason="skip")
    story.fleet(59, "healed")
    assert any("despite" in text for text in said(story, 60)) == found


def answered(seconds: float, policy: str = "skip", waited: float = 0.1, **known: Any) -> list[str]:
    story = Story(policy=policy).know(**known)
    story.body("host-1", 1.0, 30.0, A)
    story.add(3, "host-2", "invocation_started", function="ship", invocation="call-1")
    story.lock(3, "host-2", "waiting", A, "call-1")
    story.lock(3 + waited, "host-2", "contended", A, "call-1", reason="timeout" if policy == "wait" else policy)
    story.add(3 + waited + seconds, "host-2", "invocation_ended", function="ship", invocation="call-1", outcome="ok")
    return [text for text in said(story, 60) if "despite" in text]


@pytest.mark.parametrize("policy", ["skip", "raise", "conflict"])
def test_a_refusal_is_answered_as_soon_as_it_is_known(policy: str) -> None:
    late = "for its lock, despite on_contention={!r}{}, and its answer came 4.0 s after its refusal"
    assert answered(1.5, policy) == []
    assert answered(4.0, policy) == ["an invocation of 'ship' waited for 4.1 s " + late.format(policy, "")]
    told = ["an invocation of 'ship' waited for 8.0 s " + late.format(policy, ", timeout=4")]
    assert answered(4.0, policy, 4.0, timeout=4) == told
    for around in ("decorated", "once", "ordered"):
        assert answered(4.0, policy, **{around: True}) == []


def test_an_invocation_that_puts_its_message_back_may_end_later_than_its_refusal() -> None:
    assert answered(4.0, "defer") == []


@pytest.mark.parametrize(("seconds", "found"), [(6.0, False), (9.5, True)])
def test_a_release_takes_five_seconds_though_the_storage_does_not_answer(seconds: float, *, found: bool) -> None:
    story = Story(faults=["throttle"])
    story.fault(1.5, 20.0, "throttle", "host-1")
    owner = story.body("host-1", 1, 2, A)
    story.records.remove(next(each for each in story.records if each.get("kind") == "released"))
    story.lock(2 + seconds, "host-1", "released", A, owner)
    story.fleet(59, "healed")
    kept = [text for text in said(story, 60) if "was kept by" in text]
    assert kept == [f"ship.a was kept by host-1 for {seconds} s after its body had ended"] * found


@pytest.mark.parametrize(
    ("requests", "kept"),
    [
        ([(2.1, 6.9, 200)], None),  # answered late
        ([(5.8, 5.9, 200)], 3.8),
        ([(2.1, 2.2, 503), (5.7, 5.9, 200)], 3.7),
        ([(2.1, 2.2, 409)], 7.0),  # nothing was carried out
        ([], 7.0),
    ],
)
def test_a_lock_is_kept_until_its_release_is_sent(
    requests: list[tuple[float, float, int | None]], kept: float | None
) -> None:
    story = Story()
    story.lease(0.99, "host-1", "acquire", A, status=201, lease="one", period=15)
    owner = story.body("host-1", 1, 2, A)
    story.records.remove(next(each for each in story.records if each.get("kind") == "released"))
    for sent, t, status in requests:
        story.lease(t, "host-1", "release", A, status=status, lease="one", took=t - sent)
    story.lock(9, "host-1", "released", A, owner)
    told = [text for text in said(story, 60) if "was kept by" in text]
    assert told == ([] if kept is None else [f"ship.a was kept by host-1 for {kept} s after its body had ended"])


def given_back(*tries: tuple[float, int | None], **told: float) -> list[str]:
    """A body ends at second 2; each try of the release is answered at the second it is sent, with this status."""
    story = Story(faults=["throttle"])
    story.fault(1.5, 20.0, "throttle", "host-1")
    story.lease(0.9, "host-1", "acquire", A, status=201, lease="1", took=0.0)
    story.body("host-1", 1, 2, A)
    for t, status in tries:
        story.lease(t, "host-1", "release", A, status=status, lease="1", took=0.0)
    for event, t in told.items():
        story.add(t, "host-1", event, expected=True)
    story.fleet(59, "healed")
    return [text for text in said(story, 60) if "did not try again" in text]


def test_a_release_that_failed_is_tried_again() -> None:
    told = "host-1 did not try again to release ship.a for {} s after a try had failed"
    for status in (503, 429, 500, None):
        assert given_back((2.0, status)) == [told.format("5.0")]
        assert given_back((2.0, status), (6.5, 200)) == [told.format("4.5")]
        # As the product does: after 0.1, 0.2, 0.4, 0.8 and 1.6 seconds, and for five seconds.
        assert given_back(*((2.0 + after, status) for after in (0, 0.1, 0.3, 0.7, 1.5, 3.1))) == []
    for status in (200, 403, 404, 409, 412):
        assert given_back((2.0, status)) == []


@pytest.mark.parametrize("event", ["host_stopping", "host_exited", "pause"])
def test_a_process_that_ends_or_stands_still_tries_no_release_again(event: str) -> None:
    assert given_back((2.0, 503), **{event: 2.2}) == []
    assert len(given_back((2.0, 503), **{event: 9.0})) == 1


# --- failover ---------------------------------------------------------------------------------------------------------


def taken_over(seconds: float, *, asked: float = 9.0, own: float | None = None, **known: Any) -> list[str]:
    story = Story(kill=1).know(**known)
    if own is not None:
        story.body("host-2", own - 1, own, A, token=1)
    story.body("host-1", 9.5, None, A, token=2, asked=9.4)
    story.kill(10, "host-1", A)
    story.body("host-2", 10 + seconds, 11 + seconds, A, token=3, asked=asked)
    return said(story)


def test_with_failover_a_waiter_has_four_thirds_of_it() -> None:
    assert taken_over(4.0, failover=2) == []
    assert taken_over(14.1, failover=2) == [
        "ship.a, which host-1 held when it was killed, was taken over after 14.1 s; 2.7 s were allowed",
    ]
    assert taken_over(14.1) == []
    assert taken_over(14.1, failover=10) == []


@pytest.mark.parametrize(("granted", "found"), [(13.0, False), (24.0, True)])
def test_a_take_over_ends_as_the_storage_grants_the_lease(granted: float, *, found: bool) -> None:
    story = Story(kill=1).know(failover=2)
    story.body("host-1", 9.5, None, A, token=1, asked=9.4)
    story.kill(10, "host-1", A)
    story.lease(granted, "host-2", "acquire", A, status=201, lease="2")
    story.body("host-2", 24.1, 25.1, A, token=2, asked=9.0)
    assert any("was taken over after 14.0 s" in text for text in said(story)) == found


def test_with_failover_the_clock_of_a_later_caller_starts_at_its_demand() -> None:
    assert taken_over(8.0, asked=14.0, failover=2) == []
    assert taken_over(9.0, asked=14.0, failover=2) != []


@pytest.mark.parametrize("policy", ["skip", "raise"])
@pytest.mark.parametrize(
    ("asked", "known", "found"),
    [
        ((11, 14, 17, 20), {"failover": 2}, True),
        ((12, 16), {"failover": 2}, True),
        ((12, 14), {"failover": 2}, False),
        ((9, 13), {"failover": 2}, False),
        ((11, 14, 17, 20), {"failover": 10}, False),
        ((11, 14, 17, 20), {}, False),
    ],
)
def test_who_is_refused_again_though_it_had_read_a_silent_lock_is_late(
    policy: str, asked: tuple[float, ...], known: dict[str, Any], *, found: bool
) -> None:
    story = Story(kill=1).know(on_contention=policy, **known)
    story.body("host-1", 9.0, None, A, token=1)
    story.kill(10, "host-1", A)
    for t in asked:
        story.skip("host-2", t, A, reason=policy)
    story.body("host-2", 26, 27, A, token=2)
    assert any("was taken over after 16.0 s" in text for text in said(story)) == found


def test_a_process_that_stands_aside_after_its_run_looks_later() -> None:
    assert taken_over(8.0, own=9.3, failover=2) == []


def test_the_waiters_of_a_semaphore_look_at_their_polls() -> None:
    said = taken_over(14.1, failover=2, several=True, at_once=2)
    assert not any("taken over" in text for text in said)


@pytest.mark.parametrize(
    ("seconds", "failover", "allowed"), [(36.0, None, 0), (37.0, None, 35.0), (4.0, 2.0, 0), (14.0, 2.0, 2.7)]
)
def test_a_listener_is_followed_within_its_lease_and_a_recovery_interval_or_its_failover(
    seconds: float, failover: float | None, allowed: float
) -> None:
    lock = f"{A}~listener"
    story = Story(kill=1).know(mode="listener", listener={"lease": 15, "poll": 20}, failover=failover)
    story.lock(2, "host-1", "waiting", lock, "", mode="listener", worker=1)
    story.lock(2, "host-1", "acquired", lock, "", mode="listener", worker=1, token=1)
    story.lock(3, "host-2", "waiting", lock, "", mode="listener", worker=1)
    holds = [{"lock": lock, "function": "ship", "owner": "", "mode": "listener", "worker": 1}]
    story.records.append(Record(1010, "host-1", "kill", {"host": "host-1", "pid": 100, "holds": holds}))
    story.lock(10 + seconds, "host-2", "acquired", lock, "", mode="listener", worker=1, token=2)
    late = [text for text in said(story) if "taken over" in text]
    what = "ship.a (listener), which host-1 held when it was killed, was taken over"
    assert late == [f"{what} after {seconds} s; {allowed} s were allowed"] * (allowed > 0)
