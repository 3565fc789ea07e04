"""Requests are those that declarations explain: the blob, the lease, how often, and one before each refusal."""

from __future__ import annotations

from typing import Any

import pytest

from simulator.checks.verdict import judge
from simulator.report.words import summary
from tests.support.journals import TIMER, Story, key_lock

A = key_lock("a")
KEYS: dict[str, str | None] = {"function": "key of a"}
PLACE = f"container/{A}"


def violations(story: Story, end: float = 60) -> list[str]:
    return [*judge(story.end(end)).violations]


def expecting(story: Story, t: float, host: str, owner: str, blob: str = PLACE, mode: str = "function") -> None:
    story.add(t, host, "expected", invocation=owner, keys={mode: "key of a"}, blobs={mode: blob})


def body(story: Story, host: str, start: float, end: float, *, blob: str = PLACE, told: str = A) -> None:
    """Tell of a body under the lock ``told``, whose expected blob is ``blob``."""
    owner = f"{host} at {start}"
    story.add(start, host, "invocation_started", function="ship", invocation=owner)
    expecting(story, start, host, owner, blob)
    story.lock(start, host, "waiting", told, owner)
    story.lock(start, host, "acquired", told, owner)
    story.lock(start, host, "body_started", told, owner)
    story.lock(end, host, "body_ended", told, owner, reason="ok")
    story.lock(end, host, "released", told, owner)
    story.add(end, host, "invocation_ended", function="ship", invocation=owner, outcome="ok")


def ask(story: Story, t: float, host: str, blob: str = PLACE, status: int | None = 201, **more: Any) -> None:
    story.add(t, host, "lease_request", action="acquire", blob=f"/account/{blob}", status=status, **more)


def skipped(story: Story, host: str, t: float, reason: str = "skip", until: float = 0.0) -> None:
    owner = f"{host} at {t}"
    story.add(t, host, "invocation_started", function="ship", invocation=owner)
    expecting(story, t, host, owner)
    story.lock(t, host, "waiting", A, owner)
    t = until or t
    story.lock(t, host, "contended", A, owner, reason=reason)
    outcome = {"outcome": "ok"} if reason == "skip" else {"outcome": "error", "blames": "LockNotAcquired"}
    story.add(t, host, "invocation_ended", function="ship", invocation=owner, **outcome)


def calls(story: Story, t: float, host: str, pid: int = 1, **numbers: int) -> None:
    kinds = {name.replace("_", " "): number for name, number in numbers.items()}
    story.add(t, host, "storage_calls", pid=pid, calls={}, blobs={f"/account/{PLACE}": kinds})


# --- the blob ---------------------------------------------------------------------------------------------------------


def test_the_blob_that_the_declaration_names_is_no_finding() -> None:
    story = Story()
    ask(story, 0.9, "host-1")
    body(story, "host-1", 1, 2)
    assert violations(story) == []


def test_another_lock_than_the_declared_one_is_told_with_both_blobs() -> None:
    story = Story()
    ask(story, 0.9, "host-1", "container/locks/shared/ship")
    body(story, "host-1", 1, 2, told="locks/shared/ship")
    (text,) = violations(story)
    assert text == (
        "another blob was asked for, 1 time for 'ship': the first time account/container/locks/shared/ship, where the "
        "declaration names container/locks/shared/ship.a"
    )


@pytest.mark.parametrize("blob", ["elsewhere/locks/shared/ship.a", ""])
def test_a_blob_on_the_network_that_the_lock_does_not_tell_is_found(blob: str) -> None:
    story = Story()
    if blob:
        ask(story, 0.9, "host-1", blob)
    body(story, "host-1", 1, 2)
    (text,) = violations(story)
    told = "account/elsewhere/locks/shared/ship.a" if blob else "no blob at all"
    assert text == (
        f"another blob was asked for, 1 time for 'ship': the first time {told}, where the declaration names "
        "container/locks/shared/ship.a"
    )


def test_a_slot_is_a_blob_of_its_semaphore_and_a_journal_without_blobs_is_not_judged() -> None:
    story = Story().know(at_once=3, several=True)
    ask(story, 0.9, "host-1", f"{PLACE}/slot-2")
    body(story, "host-1", 1, 2, told=f"{A}/slot-2")
    assert violations(story) == []
    old = Story()
    old.body("host-1", 1, 2, A, keys=KEYS)
    assert violations(old) == []


# --- the lease --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("period", "found"), [(15, []), (60, ["1 lease of 'ship' was asked for with 60 s"])])
def test_a_lease_of_another_period_than_the_declared_one_is_found(period: int, found: list[str]) -> None:
    story = Story()
    ask(story, 0.9, "host-1", period=period)
    body(story, "host-1", 1, 2)
    assert violations(story) == [f"{text}, though the declared lease has 15 s" for text in found]


# --- refusals ---------------------------------------------------------------------------------------------------------


def refused(story: Story, at: float) -> list[str]:
    """Tell of a skip on host-2 while host-1 has the lock."""
    ask(story, 0.9, "host-1")
    body(story, "host-1", 1, 9.4)
    skipped(story, "host-2", at)
    return violations(story)


UNASKED = "1 invocation of 'ship' met a refusal, though nobody had asked the storage for the lock"


def test_with_failover_a_caller_that_has_read_the_blob_is_refused_without_a_request_for_the_lease() -> None:
    assert UNASKED in refused(Story(policy="skip"), 5)
    assert refused(Story(policy="skip").know(failover=2), 5) == []


def test_a_refusal_that_no_request_met_is_found_though_somebody_has_the_lock() -> None:
    assert refused(Story(policy="skip"), 9) == [UNASKED]


@pytest.mark.parametrize(("asked", "found"), [(8.9, []), (5, []), (0.5, [UNASKED])])
def test_a_request_that_was_refused_a_poll_ago_accounts_for_a_refusal(asked: float, found: list[str]) -> None:
    story = Story(policy="skip")
    ask(story, asked, "host-2", status=409)
    assert refused(story, 9) == found


@pytest.mark.parametrize(("blob", "found"), [(f"{PLACE}~next", False), ("container/other~next", True)])
def test_who_comes_again_asks_for_the_seat_of_its_lock_before_the_lock(blob: str, *, found: bool) -> None:
    story = Story(policy="coalesce").know(timeout=1)
    ask(story, 8.9, "host-2", blob, status=409)
    ask(story, 0.9, "host-1")
    body(story, "host-1", 1, 9.4)
    skipped(story, "host-2", 9, reason="timeout")
    assert (UNASKED in violations(story)) is found


TROUBLED = "1 invocation of 'ship' met a refusal beside a fault, though nobody had the lock"


@pytest.mark.parametrize(("status", "found"), [(None, [TROUBLED]), (404, [TROUBLED]), (409, [])])
def test_beside_a_fault_only_the_answer_that_somebody_has_the_lock_accounts_for_a_refusal(
    status: int | None, found: list[str]
) -> None:
    story = Story(policy="skip")
    story.fault(3, 20, "partition", "host-2")
    ask(story, 2.5, "host-2", status=status)
    assert refused(story, 9) == found


@pytest.mark.parametrize(("line", "found"), [(True, []), (False, [TROUBLED])])
def test_beside_a_fault_an_old_answer_accounts_for_a_refusal_behind_others_only(
    *, line: bool, found: list[str]
) -> None:
    story = Story(policy="skip")
    story.fault(3, 20, "error", "host-2")
    ask(story, 0.5, "host-2", status=409)
    if line:
        story.add(1, "host-2", "invocation_started", function="ship", invocation="first")
        keys, blobs = {"function": "key of a"}, {"function": PLACE}
        story.add(1, "host-2", "expected", invocation="first", keys=keys, blobs=blobs)
        story.lock(1, "host-2", "waiting", A, "first")
    assert [text for text in refused(story, 19) if text == TROUBLED] == found


@pytest.mark.parametrize(("answer", "before", "found"), [(503, 4, 1), (None, 4, 1), (409, 4, 0), (503, 4.95, 0)])
def test_who_asks_the_storage_alone_is_refused_by_its_answer_or_by_a_holder_of_then(
    answer: int | None, before: float, found: int
) -> None:
    story = Story(policy="skip")
    ask(story, 0.9, "host-2")
    body(story, "host-2", 1, before)
    story.fault(4.99, 9, "throttle", "host-2")
    ask(story, 5.1, "host-2", status=answer, took=0.05)
    skipped(story, "host-2", 5, until=5.2)
    assert violations(story).count(TROUBLED) == found


def test_a_slow_machine_polls_later() -> None:
    story = Story(policy="skip")
    ask(story, 0.5, "host-2", status=409)
    story.add(8, "host-2", "machine_slow", measures=[(1, 0.9), (1, 0.9), (1, 0.9), (1, 0.9)])
    assert refused(story, 9) == []


def test_a_holder_in_the_same_process_accounts_for_a_refusal() -> None:
    story = Story(policy="skip")
    ask(story, 0.9, "host-1")
    body(story, "host-1", 1, 9.4)
    skipped(story, "host-1", 9)
    assert violations(story) == []


def test_a_holder_in_the_same_process_may_tell_of_its_hold_just_after_the_refusal() -> None:
    story = Story()
    ask(story, 4.9, "host-2")
    body(story, "host-2", 5.001, 9)
    skipped(story, "host-2", 5)
    assert not any("nobody had asked" in text for text in violations(story))


def test_a_refusal_by_the_number_of_waiters_needs_no_request() -> None:
    story = Story(policy="wait").know(max_waiting=0, when_full="raise")
    ask(story, 0.9, "host-1")
    body(story, "host-1", 1, 9.4)
    skipped(story, "host-2", 9, reason="raise")
    assert UNASKED not in violations(story)


# --- how often --------------------------------------------------------------------------------------------------------


def test_as_many_requests_as_documented_are_no_finding() -> None:
    story = Story()
    ask(story, 0.9, "host-1")
    body(story, "host-1", 1, 2)
    calls(story, 3, "host-1", acquire_a_lease=2, release_a_lease=1, look_at_a_blob=2, write_a_blob=1)
    assert violations(story) == []


def test_twenty_reads_of_a_lock_are_too_many() -> None:
    story = Story()
    ask(story, 0.9, "host-1")
    body(story, "host-1", 1, 2)
    calls(story, 2, "host-1", look_at_a_blob=10)
    calls(story, 3, "host-1", look_at_a_blob=20)
    assert violations(story) == [
        "host-1 sent 20 reads for the lock ship.a, and its callers, waits and holds explain 5 at most"
    ]


@pytest.mark.parametrize(("slots", "until", "found"), [(2, 5.0, True), (2, 3.0, False), (3, 5.0, False)])
def test_a_process_whose_callers_wait_for_a_slot_has_asked_for_each(slots: int, until: float, *, found: bool) -> None:
    story = Story().know(at_once=3, several=True)
    for slot in range(slots):
        ask(story, 0.5, "host-1", f"{PLACE}/slot-{slot}", status=409)
    story.add(1.0, "host-1", "invocation_started", function="ship", invocation="one")
    expecting(story, 1.0, "host-1", "one")
    story.lock(1.0, "host-1", "waiting", A, "one")
    story.lock(until, "host-1", "contended", A, "one", reason="timeout")
    waited = f"though invocations of 'ship' waited there for {until - 1:.1f} s"
    text = f"host-1 asked for 2 of the 3 slots of ship.a, {waited}"
    assert (text in violations(story)) is found


def test_who_waits_with_failover_reads_at_each_of_its_quick_polls_too() -> None:
    story = Story().know(failover=3)
    ask(story, 0.9, "host-1")
    body(story, "host-1", 1, 2)
    calls(story, 3, "host-1", look_at_a_blob=11)
    assert violations(story) == []
    calls(story, 3.5, "host-1", look_at_a_blob=20)
    assert [text.partition(" for")[0] for text in violations(story)] == ["host-1 sent 20 reads"]


def test_requests_of_a_guard_that_knows_no_invocation_are_not_counted() -> None:
    story = Story()
    story.add(0.8, "host-1", "invocation_started", function="ship", invocation="one")
    expecting(story, 0.8, "host-1", "one")
    story.lock(0.9, "host-1", "waiting", A, "")
    calls(story, 3, "host-1", look_at_a_blob=20)
    assert not any("explain" in text for text in violations(story))


def test_a_request_without_an_answer_is_sent_again() -> None:
    story = Story()
    ask(story, 0.7, "host-1", status=None)
    ask(story, 0.9, "host-1")
    body(story, "host-1", 1, 2)
    calls(story, 3, "host-1", look_at_a_blob=6, acquire_a_lease=9, write_a_blob=9)
    assert violations(story) == []


@pytest.mark.parametrize(("kind", "found"), [("look_at_a_blob", True), ("read_a_blob", False)])
def test_reads_of_content_that_the_app_keeps_there_are_its_own(kind: str, *, found: bool) -> None:
    story = Story()
    ask(story, 0.9, "host-1")
    body(story, "host-1", 1, 2)
    calls(story, 3, "host-1", write_content_under_a_lease=9, **{kind: 20})
    assert bool(violations(story)) is found


OLD = "locks/shared/send.a"


@pytest.mark.parametrize(("since", "had", "found"), [(1, False, True), (35, False, False), (1, True, False)])
def test_two_locks_that_wait_for_each_other_are_named(since: float, *, had: bool, found: bool) -> None:
    story = Story()
    places = {"function": PLACE, "also": f"container/{OLD}"}
    for host, blobs in (("host-1", places), ("host-2", dict(zip(places, reversed(places.values()), strict=True)))):
        ask(story, since, host, blobs["function"])
        story.add(since, host, "invocation_started", function="ship", invocation=host)
        story.add(since, host, "expected", invocation=host, keys=dict.fromkeys(blobs, "key of a"), blobs=blobs)
        story.lock(since, host, "waiting", blobs["function"].partition("/")[2], host, function="ship")
    if had:
        story.lock(32, "host-1", "acquired", A, "host-1")
    verdict = judge(story.end(40))
    text = "send.a and ship.a wait for each other: both are leased, and none of 2 invocations has both"
    assert (text in verdict.reasons) is found
    assert had or verdict.violations == ()


def with_both(story: Story, host: str, start: float, end: float, old: str = f"container/{OLD}") -> None:
    """Tell of a body of a guard with ``also=``: its declaration names two blobs."""
    body(story, host, start, end)
    record = next(each for each in story.records if each.event == "expected" and each.t == 1000 + start)
    record.fields["blobs"] |= {"also": old}  # type: ignore[index]
    record.fields["keys"] |= {"also": "key of old a"}  # type: ignore[index]


def former(story: Story, host: str, start: float, end: float) -> None:
    """Tell of a body of the older version, which knows the older name only."""
    owner = f"{host} at {start}"
    story.add(start, host, "invocation_started", function="send", invocation=owner)
    keys, blobs = {"function": "key of old a"}, {"function": f"container/{OLD}"}
    story.add(start, host, "expected", invocation=owner, keys=keys, blobs=blobs)
    for t, kind in ((start, "waiting"), (start, "acquired"), (start, "body_started"), (end, "body_ended")):
        story.lock(t, host, kind, OLD, owner, function="send", reason="ok")
    story.lock(end, host, "released", OLD, owner, function="send")
    story.add(end, host, "invocation_ended", function="send", invocation=owner, outcome="ok")


def renaming(policy: str = "wait") -> Story:
    story = Story(policy=policy)
    for record in story.records:
        if record.get("name") == "ship":
            record.fields["also"] = True  # type: ignore[index]
    story.add(0.1, "host-1", "function", name="send", guarded=True)
    return story


def give_back(story: Story, t: float, host: str, blob: str) -> None:
    story.add(t, host, "lease_request", action="release", blob=f"/account/{blob}", status=200)


def test_a_body_with_also_has_a_lease_of_both_names() -> None:
    story = renaming()
    for blob in (PLACE, f"container/{OLD}"):
        ask(story, 0.9, "host-1", blob)
    with_both(story, "host-1", 1, 3)
    for blob in (PLACE, f"container/{OLD}"):
        give_back(story, 3.1, "host-1", blob)
    ask(story, 3.5, "host-2", f"container/{OLD}")
    former(story, "host-2", 4, 5)
    verdict = judge(story.end(60))
    assert verdict.violations == ()
    assert verdict.sections == 2
    assert not any("also=" in text for text in verdict.untried)


@pytest.mark.parametrize("old", ["container/locks/shared/ship.ca97", f"older/{A}"], ids=["hashed", "container"])
def test_an_older_name_of_the_same_key_is_another_lock(old: str) -> None:
    story = renaming()
    for blob in (PLACE, old):
        ask(story, 0.9, "host-1", blob)
    with_both(story, "host-1", 1, 3, old)
    for record in story.records:
        if "also" in record.fields.get("keys", ()):
            record.fields["keys"].update(also=record.fields["keys"]["function"])
    for blob in (PLACE, old):
        give_back(story, 3.1, "host-1", blob)
    assert judge(story.end(60)).violations == ()


@pytest.mark.parametrize("before", [False, True])
def test_a_body_with_also_that_has_no_lease_of_the_older_name_is_found(*, before: bool) -> None:
    story = renaming()
    if before:  # the process had that lease once, and gave it back
        ask(story, 0.3, "host-1", f"container/{OLD}")
        give_back(story, 0.6, "host-1", f"container/{OLD}")
    ask(story, 0.9, "host-1")
    with_both(story, "host-1", 1, 3)
    (text,) = violations(story)
    assert text == (
        "another blob was asked for, 1 time for 'ship': the first time account/container/locks/shared/ship.a, where "
        "the declaration names container/locks/shared/send.a"
    )


def test_a_holder_of_the_older_name_accounts_for_a_refusal() -> None:
    story = renaming("skip")
    for blob in (PLACE, f"container/{OLD}"):
        ask(story, 0.9, "host-1", blob)
    with_both(story, "host-1", 1, 3)
    give_back(story, 3.1, "host-1", f"container/{OLD}")
    ask(story, 8.9, "host-3", f"container/{OLD}")
    former(story, "host-3", 9, 12)
    skipped(story, "host-2", 10)
    assert violations(story) == []


def test_bodies_of_both_versions_at_a_time_are_an_overlap() -> None:
    story = renaming()
    for host, blob in (("host-1", PLACE), ("host-1", f"container/{OLD}"), ("host-2", f"container/{OLD}")):
        ask(story, 0.9, host, blob)
    with_both(story, "host-1", 1, 3)
    former(story, "host-2", 2, 4)
    (text,) = violations(story)
    assert text.startswith("1 overlap: two bodies of one lock ran at the same time; the longest for 1.00 s, of send.a")


@pytest.mark.parametrize(("also", "number"), [(False, 1), (True, 0)])
def test_an_invocation_with_also_explains_requests_for_both_locks(*, also: bool, number: int) -> None:
    story = renaming() if also else Story()
    ask(story, 0.9, "host-1")
    ask(story, 0.9, "host-1", f"container/{OLD}")
    (with_both if also else body)(story, "host-1", 1, 2)
    give_back(story, 2.1, "host-1", f"container/{OLD}")
    ask(story, 4.9, "host-1", f"container/{OLD}")
    former(story, "host-1", 5, 6)
    calls(story, 8, "host-1", acquire_a_lease=20)
    assert sum("explain" in text for text in violations(story)) == number


@pytest.mark.parametrize("known", [False, True])
def test_who_waits_with_also_may_wait_for_the_other_lock_and_other_locks_are_judged(*, known: bool) -> None:
    story = renaming()
    for blob in (PLACE, f"container/{OLD}"):
        ask(story, 0.9, "host-1", blob)
    (with_both if known else body)(story, "host-1", 1, 2)
    for lock, function in ((A, "ship"), (TIMER, "import_eligibility")):
        story.add(3, "host-2", "invocation_started", function=function, invocation=f"late {function}")
        story.lock(3, "host-2", "waiting", lock, f"late {function}")
        story.lock(40, "host-2", "acquired", lock, f"late {function}")
    verdict = judge(story.end(60))
    assert [text.partition(" ")[0] for text in verdict.violations if "was free for" in text] == (
        ["import_eligibility"] if known else []
    )
    assert ("also= of 'ship' was not judged" in verdict.untried) is not known


LATE = "an invocation of 'ship' on host-1 asked for its lock"


@pytest.mark.parametrize(("after", "found"), [(1.0, False), (4.0, True)])
@pytest.mark.parametrize("within", ["the guard", "the wait"])
def test_who_is_alone_in_its_process_asks_at_once(after: float, within: str, *, found: bool) -> None:
    story = Story()
    start = 10 - after if within == "the wait" else 10
    story.add(10 - after, "host-1", "invocation_started", function="ship", invocation="one")
    expecting(story, 10 - after, "host-1", "one")
    story.lock(start, "host-1", "waiting", A, "one", late=0.0 if within == "the wait" else max(after - 1, 0.0))
    ask(story, 10.1, "host-1", took=0.1)
    story.lock(10.2, "host-1", "acquired", A, "one")
    assert any(LATE in text for text in violations(story)) is found


@pytest.mark.parametrize("who", ["a holder", "a holder before", "a waiter", "a host that stood still", "another host"])
def test_who_is_not_alone_or_stands_still_need_not_ask(who: str) -> None:
    story = Story()
    if who in {"a holder", "a holder before", "another host"}:
        host = "host-2" if who == "another host" else "host-1"
        ask(story, 0.9, host)
        body(story, host, 1, 9 if who == "a holder" else 3)
    elif who == "a waiter":
        story.add(4, "host-1", "invocation_started", function="ship", invocation="first")
        expecting(story, 4, "host-1", "first")
        story.lock(4, "host-1", "waiting", A, "first")
        ask(story, 4.1, "host-1", status=409, took=0.1)
    else:
        story.add(9.8, "host-1", "loop_stood", worker=1, seconds=4)
    story.add(5, "host-1", "invocation_started", function="ship", invocation="one")
    expecting(story, 5, "host-1", "one")
    story.lock(5, "host-1", "waiting", A, "one")
    ask(story, 10, "host-1")
    story.lock(10.1, "host-1", "acquired", A, "one")
    assert any(LATE in text for text in violations(story)) is (who == "another host")


def test_requests_of_two_processes_of_a_worker_are_counted_together() -> None:
    story = Story()
    ask(story, 0.9, "host-1")
    body(story, "host-1", 1, 2)
    calls(story, 3, "host-1", pid=1, acquire_a_lease=10)
    calls(story, 3, "host-1", pid=2, acquire_a_lease=10)
    (text,) = violations(story)
    assert text.startswith("host-1 sent 20 requests for the lock ship.a")


# --- beside faults ----------------------------------------------------------------------------------------------------


def twenty_reads(*hosts: str, start: float, end: float) -> list[str]:
    """Tell of a body from 20 s to 21 s with twenty reads, of an earlier body, and of a fault of these hosts."""
    story = Story()
    story.fault(start, end, "throttle", *hosts)
    for begin in (1, 20):
        ask(story, begin - 0.1, "host-1")
        body(story, "host-1", begin, begin + 1)
    calls(story, 19, "host-1", look_at_a_blob=3)
    calls(story, 22, "host-1", look_at_a_blob=23)
    return [text for text in violations(story) if "explain" in text]


def test_requests_between_two_faults_are_counted_by_themselves() -> None:
    explained = "and its callers, waits and holds explain"
    assert twenty_reads("host-1", start=4, end=10) == [
        f"host-1 sent 20 reads for the lock ship.a after 19.0 s, {explained} 5 at most"
    ]
    assert twenty_reads("host-1", start=25, end=30) == [
        f"host-1 sent 23 reads for the lock ship.a, {explained} 5 at most"
    ]


@pytest.mark.parametrize(("start", "end"), [(4, 19), (20.5, 20.6), (4, 14), (22, 30)])
def test_requests_while_a_fault_goes_on_or_shortly_after_are_not_counted(start: float, end: float) -> None:
    assert twenty_reads("host-1", start=start, end=end) == []


def test_a_fault_of_another_host_concerns_a_host_only_if_it_ends_a_lease() -> None:
    (text,) = twenty_reads("host-2", start=4, end=10)
    assert text.startswith("host-1 sent 23 reads")
    story = Story()
    story.fault(4, 4, "break", "host-2", lock=A)
    calls(story, 3, "host-1", look_at_a_blob=1)
    calls(story, 5, "host-1", look_at_a_blob=20)
    assert not any("19 reads" in text for text in violations(story))


def test_a_caller_from_before_a_stretch_may_send_its_last_requests_in_the_stretch() -> None:
    story = Story()
    story.fault(4, 10, "throttle", "host-1")
    ask(story, 9, "host-1")
    body(story, "host-1", 9.5, 30)
    calls(story, 17, "host-1", look_at_a_blob=50, renew_a_lease=3, release_a_lease=0)
    calls(story, 32, "host-1", look_at_a_blob=53, renew_a_lease=5, release_a_lease=3)
    assert not any("explain" in text for text in violations(story))


@pytest.mark.parametrize(("start", "end", "found"), [(20, 21, True), (-10, -8, True), (0, 1, False), (8, 10, False)])
def test_a_refusal_is_judged_in_a_run_with_faults_too(start: float, end: float, *, found: bool) -> None:
    story = Story(policy="skip")
    story.fault(start, end, "throttle", "host-2")
    assert (UNASKED in refused(story, 9)) is found


# --- leaders ----------------------------------------------------------------------------------------------------------


def led(story: Story, host: str, start: float, *, anew: bool = False) -> None:
    about = {"mode": "listener", "worker": 1}
    lock = "locks/shared/ship~listener"
    owner = f"{host} at {start}"
    story.add(start, host, "invocation_started", function="ship", invocation=owner)
    if anew:
        story.lock(start, host, "acquired", lock, "", **about)
    story.lock(start, host, "body_started", lock, owner, **about)
    story.lock(start + 0.1, host, "body_ended", lock, owner, reason="ok", **about)
    story.add(start + 0.1, host, "invocation_ended", function="ship", invocation=owner, outcome="ok")


def test_bodies_of_a_listener_in_two_workers_by_turns_are_two_leaders() -> None:
    story = Story().know(mode="listener")
    led(story, "host-1", 1, anew=True)
    led(story, "host-2", 2, anew=True)
    led(story, "host-1", 3)
    (text,) = violations(story)
    assert text == (
        "two leaders of ship (listener): a body ran on host-2 at 2.0 s, between bodies on host-1 at 1.0 s and at "
        "3.0 s, and neither had become the listener anew"
    )


def test_two_leaders_at_once_are_said_to_be_two_leaders_beside_their_overlaps() -> None:
    story = Story().know(mode="listener")
    led(story, "host-1", 1, anew=True)
    led(story, "host-2", 1.05, anew=True)
    led(story, "host-1", 3)
    told = [line.text for line in summary(judge(story.end(40)))]
    assert "3 guarded bodies ran on 1 lock: 1 overlap of two leaders; the longest:" in told
    assert any(line.startswith("two leaders of ship (listener): a body ran on host-2 at 1.") for line in told)


def test_who_becomes_the_listener_anew_is_the_only_leader() -> None:
    story = Story().know(mode="listener")
    for host, start in (("host-1", 1), ("host-2", 20), ("host-1", 40)):
        led(story, host, start, anew=True)
    assert not any("two leaders" in text for text in violations(story))


def test_a_listener_whose_lease_an_operator_breaks_hears_of_it_at_its_next_renewal() -> None:
    story = Story().know(mode="listener")
    led(story, "host-1", 1, anew=True)
    story.fault(2.0, 2.0, "break", "host-1", lock="locks/shared/ship~listener")
    led(story, "host-1", 2.5)
    led(story, "host-2", 3, anew=True)
    led(story, "host-1", 5)
    assert not any("two leaders" in text for text in violations(story))


@pytest.mark.parametrize(("every", "accused"), [(7.5, False), (2.5, False), (1.0, True)])
def test_a_hold_that_is_renewed_far_more_often_than_declared_is_found(every: float, *, accused: bool) -> None:
    story = Story()
    story.lease(0.9, "host-1", "acquire", A, status=201, lease="1")
    for number in range(1, int(20 / every)):
        story.lease(1 + number * every, "host-1", "renew", A, lease="1")
    story.body("host-1", 1, 21, A, token=1)
    story.lease(21.1, "host-1", "release", A, lease="1")
    said = "a hold of 'ship' on host-1 was renewed 19 times in 20.0 s, from second 1.0 on: "
    said += "one renewal in 7.5 s is declared"
    assert (said in violations(story)) == accused


@pytest.mark.parametrize(("pause", "found"), [(2.6, False), (1.9, True)])
def test_who_waits_asks_again_after_half_a_poll_at_the_earliest(pause: float, found: bool) -> None:
    story = Story()
    body(story, "host-1", 1, 59)
    body(story, "host-2", 2, 58)
    story.records = [record for record in story.records if record.host == "host-1" or record.t < 1058]
    for number in range(20):
        taken: dict[str, Any] = {"lease": "x", "code": "LeaseAlreadyPresent", "took": 0.0}
        ask(story, 2 + pause * number, "host-2", status=409, **taken)
    assert any("asked again for the lock of 'ship'" in text for text in violations(story)) == found
