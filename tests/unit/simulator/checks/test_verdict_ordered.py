"""The messages of a key run in the order sent, one at a time, and none is lost or repeated: inboxes and outboxes."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from simulator.checks.verdict import judge
from tests.support.journals import Story

_numbers = count(1)


def story_of(**setup: Any) -> Story:
    story = Story(fresh=True, **setup)
    story.body("host-3", 1, 2, token=1)
    return story


def send(story: Story, t: float, body: str, *, key: str = "c1", host: str = "host-1", error: str = "") -> None:
    about = {"of": "inbox", "what": "send", "name": "orders", "key": key, "digest": body, "queue": "orders"}
    use(story, host, t, t + 0.1, error=error, **about)


def use(story: Story, host: str, start: float, end: float | None, *, error: str = "", **about: Any) -> None:
    number = str(next(_numbers))
    story.add(start, host, "pattern_asked", number=number, **about)
    if end is not None:
        story.add(end, host, "pattern_answered", number=number, **({"error": error} if error else {}))


def handle(
    story: Story,
    host: str,
    start: float,
    end: float | None,
    *bodies: str,
    key: str = "c1",
    error: str = "",
    outcome: str = "ok",
    invocation: str | None = None,
    attempts: int | None = None,
) -> None:
    """Tell of an invocation that handles messages, one after the other; ``error``: of the handler of the last.

    ``attempts``: how often the app lets a message be tried; None: as in an older journal.
    """
    name = f"{host} {start}" if invocation is None else invocation
    until = start + 1 if end is None else end
    each = (until - start) / len(bodies)
    if name:
        story.add(start, host, "invocation_started", function="take", invocation=name)
    for at, body in enumerate(bodies):
        item: dict[str, Any] = {"inbox": "orders", "key": key, "id": f"sender-{body}", "digest": body.partition("#")[0]}
        item |= {} if attempts is None else {"attempts": attempts}
        last = at == len(bodies) - 1
        left = {"error": error} if error and last else {}
        begin, over = start + at * each, None if end is None and last else start + (at + 0.9) * each
        story.sight(host, begin, over, invocation=name, function="take", sees={"item": item}, **left)
    if name and end is not None:
        story.add(end, host, "invocation_ended", function="take", invocation=name, outcome=outcome)


def told(story: Story) -> tuple[str, ...]:
    return tuple(text for text in judge(story.end(60)).reasons if "inbox" in text or "outbox" in text)


def two_sent() -> Story:
    story = story_of()
    send(story, 2, "one")
    send(story, 3, "two")
    return story


def test_messages_in_order_are_right_whoever_handles_them() -> None:
    story = two_sent()
    send(story, 3, "other", key="c2")
    handle(story, "host-1", 4, 5, "one")
    handle(story, "host-2", 4.5, 5.5, "other", key="c2")
    handle(story, "host-2", 6, 7, "two")
    verdict = judge(story.end(60))
    assert verdict.violations == ()
    assert not any("inbox" in text for text in verdict.untried)
    check = next(check for check in verdict.checks if check.name == "ordered")
    assert check.looked_at == {"messages sent by the app": 3}


def test_a_message_that_overtakes_one_of_its_key_is_found() -> None:
    story = two_sent()
    handle(story, "host-2", 4, 6, "two", "one")
    assert told(story) == (
        (
            "inbox 'orders': a message ran before an earlier one of its key was over: 1 time, the first on host-2 at "
            "4.0 s, of key 'c1'"
        ),
    )


def test_a_message_that_is_passed_over_is_found_by_the_next_one() -> None:
    story = two_sent()
    handle(story, "host-2", 4, 5, "two")
    assert any("a message ran before an earlier one of its key was over" in text for text in told(story))


def test_of_two_that_are_sent_at_the_same_time_either_may_be_first() -> None:
    story = story_of()
    send(story, 2, "one")
    send(story, 2.05, "two")
    handle(story, "host-2", 4, 6, "two", "one")
    assert told(story) == ()


def test_of_two_that_are_the_same_the_one_whose_send_returned_is_handled() -> None:
    story = story_of()
    story.add(2.5, "host-2", "pause")
    use(story, "host-2", 2, 20, of="inbox", what="send", name="orders", key="c1", digest="one", queue="orders")
    send(story, 10, "one")
    handle(story, "host-1", 11, 12, "one")
    send(story, 13, "two")
    handle(story, "host-1", 14, 15, "two")
    story.add(19, "host-2", "resume")
    assert not any("before an earlier one" in text for text in told(story))


def test_the_last_message_is_lost_if_nothing_is_left_in_the_queue_and_nothing_went_wrong() -> None:
    story = two_sent()
    handle(story, "host-2", 4, 5, "one")
    assert told(story) == (
        "inbox 'orders': a message was sent, and never handled: 1 time, the first on host-1 at 3.0 s, of key 'c1'",
    )


def test_otherwise_it_is_not_shown_what_became_of_it() -> None:
    story = two_sent()
    handle(story, "host-2", 4, 5, "one")
    story.kill(6, "host-3")
    assert told(story) == ("inbox 'orders': 1 message not handled by the end of the run",)


def test_a_message_that_runs_again_after_it_was_done_is_found() -> None:
    story = two_sent()
    handle(story, "host-1", 4, 5, "one", "two")
    handle(story, "host-2", 6, 7, "two")
    assert told(story) == (
        "inbox 'orders': a message ran again after it was done: 1 time, the first on host-2 at 6.0 s, of key 'c1'",
    )


@pytest.mark.parametrize("cause", ["error of the handler", "lost lock", "kill", "worker of an inbox that was killed"])
def test_a_message_in_hand_is_repeated_after_a_failure(cause: str) -> None:
    story = two_sent()
    if cause == "error of the handler":
        handle(story, "host-1", 4, 5, "one", error="ValueError", outcome="error")
    elif cause == "lost lock":
        handle(story, "host-1", 4, 5, "one", outcome="error")
    elif cause == "kill":
        handle(story, "host-1", 4, None, "one")
        story.kill(4.5, "host-1")
    else:
        handle(story, "host-1", 4, 5, "one", invocation="")
        story.kill(5.5, "host-1")
    handle(story, "host-2", 25, 27, "one", "two")
    assert told(story) == ()


def test_a_message_whose_process_died_is_not_passed_over() -> None:
    story = two_sent()
    handle(story, "host-1", 4, None, "one")
    story.kill(4.5, "host-1")
    handle(story, "host-2", 25, 26, "two")
    assert any("a message ran before an earlier one of its key was over" in text for text in told(story))


def test_a_message_that_failed_may_be_put_aside() -> None:
    story = two_sent()
    handle(story, "host-1", 4, 5, "one", error="ValueError", outcome="error")
    handle(story, "host-2", 6, 7, "two")
    assert told(story) == ()


def failing(story: Story, *starts: float, attempts: int | None = 3, host: str = "host-1") -> Story:
    """Tell of attempts at the first message, each of which fails."""
    for start in starts:
        handle(story, host, start, start + 0.5, "one", error="ValueError", outcome="error", attempts=attempts)
    return story


def test_a_message_that_failed_holds_back_its_key_until_it_was_tried_as_often_as_the_app_says() -> None:
    early = failing(two_sent(), 4, 6)
    handle(early, "host-2", 8, 9, "two", attempts=3)
    handle(early, "host-2", 10, 11, "one", attempts=3)
    assert told(early) == (
        (
            "inbox 'orders': a message ran before an earlier one of its key, which failed and is tried 3 times, was "
            "over: 1 time, the first on host-2 at 8.0 s, of key 'c1'"
        ),
    )
    aside = failing(two_sent(), 4, 6, 9)
    handle(aside, "host-2", 10, 11, "two", attempts=3)
    assert told(aside) == ()


def test_a_message_that_is_passed_over_after_its_failure_is_found_though_it_never_runs_again() -> None:
    story = failing(two_sent(), 4)
    handle(story, "host-2", 8, 9, "two", attempts=3)
    assert any("which failed and is tried 3 times, was over" in text for text in told(story))


def test_a_message_that_fails_and_is_tried_again_in_its_turn_is_right() -> None:
    story = failing(two_sent(), 4, 6)
    handle(story, "host-2", 9, 11, "one", "two", attempts=3)
    verdict = judge(story.end(60))
    assert verdict.violations == ()
    assert not any("inbox" in text for text in verdict.untried)


@pytest.mark.parametrize("attempts", [None, 1])
def test_one_failure_ends_a_turn_where_the_app_says_so_or_its_word_is_not_known(attempts: int | None) -> None:
    story = failing(two_sent(), 4, attempts=attempts)
    handle(story, "host-2", 8, 9, "two", attempts=attempts)
    assert told(story) == ()


@pytest.mark.parametrize("cause", ["kill", "pause", "operator", "fault"])
def test_attempts_may_have_no_runs_where_something_struck_the_run_meanwhile(cause: str) -> None:
    story = failing(two_sent(), 4)
    if cause == "kill":
        story.kill(6, "host-3")
    elif cause == "pause":
        story.add(5, "host-3", "pause")
        story.add(7, "host-3", "resume")
    elif cause == "operator":
        story.fleet(6, "operator", action="break", lock="inbox/orders/keys/c1")
    else:
        story.fault(5, 7, "partition", "host-3")
    handle(story, "host-2", 28, 29, "two", attempts=3)
    assert told(story) == ()


def test_the_last_message_that_failed_must_be_tried_again() -> None:
    def of(attempts: int, left: int = 0) -> tuple[str, ...]:
        story = failing(two_sent(), 4, attempts=attempts)
        story.fleet(58, "queue_left", queue="orders", ready=0, invisible=left, ids=[])
        return told(story)

    lost = "inbox 'orders': a message failed, and was never tried again: 1 time, the first on host-1 at 4.0 s"
    assert any(lost in text for text in of(3))
    assert not any(lost in text for text in of(3, left=1))
    assert not any(lost in text for text in of(1))


@pytest.mark.parametrize("paused", [False, True])
def test_two_messages_of_a_key_do_not_run_beside_one_another(paused: bool) -> None:
    story = two_sent()
    handle(story, "host-1", 4, 30, "one", outcome="error" if paused else "ok")
    if paused:
        story.add(5, "host-1", "pause")
        story.add(28, "host-1", "resume")
        handle(story, "host-2", 24, 25, "one")
    handle(story, "host-2", 26, 27, "two")
    assert any("ran beside another one of its key" in text for text in told(story)) is not paused


def test_a_message_that_runs_more_often_than_it_was_sent_is_found() -> None:
    story = two_sent()
    handle(story, "host-1", 4, 5, "one")
    handle(story, "host-1", 6, 7, "one#again")
    handle(story, "host-1", 8, 9, "two")
    assert any("a message ran more often than sent: 1 time" in text for text in told(story))


def test_messages_of_senders_that_are_not_seen_are_judged_by_their_runs_alone() -> None:
    story = story_of()
    handle(story, "host-1", 4, 5, "one", "two")
    assert told(story) == ()


def test_a_send_that_raised_may_have_sent_or_not() -> None:
    story = story_of()
    send(story, 2, "one", error="StorageUnavailable")
    send(story, 3, "two")
    handle(story, "host-1", 4, 5, "two")
    assert told(story) == ()


def test_an_inbox_without_a_handler_that_is_seen_is_said_to_be_unjudged() -> None:
    verdict = judge(two_sent().end(60))
    assert "inbox 'orders' was not judged: no handler of its messages was seen" in verdict.untried
    assert verdict.violations == ()


def test_a_worker_of_an_inbox_runs_for_no_invocation_and_nobody_wonders() -> None:
    story = two_sent()
    handle(story, "host-1", 4, 5, "one", "two", invocation="")
    verdict = judge(story.end(60))
    assert verdict.violations == ()
    assert not any("ran for no invocation" in text for text in verdict.notes)


def relay(
    story: Story, t: float, what: str, id_: str, place: int, *, host: str = "host-1", error: str = "", left: int = 0
) -> None:
    about = {"of": "outbox", "name": "outbox", "what": what, "key": "c1", "id": id_, "place": place, "left": left}
    use(story, host, t, t + 0.1, error=error, **about)


def test_a_relay_that_sends_and_then_notes_in_order_is_right_also_after_a_crash() -> None:
    story = story_of()
    relay(story, 2, "send", "one", 1)
    relay(story, 20, "send", "one", 1, host="host-2")
    relay(story, 21, "sent", "one", 1, host="host-2")
    relay(story, 22, "send", "two", 2, host="host-2", error="ValueError")
    relay(story, 22.2, "again", "two", 2, host="host-2")
    relay(story, 24, "send", "two", 2, host="host-2")
    verdict = judge(story.end(60))
    assert verdict.violations == ()
    assert any("outbox 'outbox' was judged by what its relay sends" in text for text in verdict.untried)


@pytest.mark.parametrize(
    ("steps", "what"),
    [
        ([("sent", "one", 1), ("send", "one", 1)], "was noted as sent before it was sent"),
        ([("send", "one", 1), ("sent", "one", 1), ("send", "one", 1)], "was sent again after it was noted as sent"),
        ([("send", "two", 2), ("send", "one", 1)], "was sent before an earlier one of its key"),
    ],
)
def test_a_relay_that_breaks_its_promise_is_found(steps: list[tuple[str, str, int]], what: str) -> None:
    story = story_of()
    for at, step in enumerate(steps):
        relay(story, 2 + at, *step)
    assert any(f"outbox 'outbox': a message {what}: 1 time" in text for text in told(story))


@pytest.mark.parametrize(
    ("sent", "wrong"),
    [({}, False), ({"where": ""}, True), ({"digest": "b"}, True), ({"digest": "?"}, False), ({"key": "c2"}, True)],
)
def test_a_message_is_sent_as_the_app_has_added_it(sent: dict[str, str], wrong: bool) -> None:
    story = story_of()
    about = {"of": "outbox", "name": "outbox", "key": "c1", "where": "shipping", "digest": "a"}
    story.add(2, "host-1", "pattern_asked", number="add", what="add", **about)
    story.add(2.1, "host-1", "pattern_answered", number="add", id="one")
    use(story, "host-2", 3, 3.1, what="send", id="one", **{**about, **sent})
    use(story, "host-2", 4, 4.1, what="send", id="other", **{**about, "where": "mail"})
    found = any("was sent with another key, destination or body than was added" in text for text in told(story))
    assert found is wrong


@pytest.mark.parametrize(
    ("attempts", "given_up", "token", "said"),
    [
        ((1, 2, 3), False, 7, ""),
        ((1, 1), True, 7, ""),  # it was put back
        ((1, 1), False, 7, "was told another number of its attempt than its own"),
        ((1, 3), False, 7, "was told another number of its attempt than its own"),
        ((1,), False, 8, "was told another token than its relay's hold has"),
    ],
)
def test_a_message_of_an_outbox_tells_its_attempt_and_the_token_of_the_hold(
    attempts: tuple[int, ...], said: str, token: int, *, given_up: bool
) -> None:
    story = story_of()
    story.lock(1, "host-1", "acquired", "locks/shared/import_eligibility", "call", token=7)
    about = {"of": "outbox", "name": "outbox", "key": "c1", "digest": "a", "id": "one"}
    use(story, "host-1", 1.5, 1.6, what="add", **about)
    for at, attempt in enumerate(attempts):
        use(story, "host-1", 2 + at, 2.1 + at, what="send", attempt=attempt, token=token, error="OSError", **about)
        if given_up:
            use(story, "host-1", 2.2 + at, 2.3 + at, what="failed", **about)
    assert [said in text for text in told(story)] == [True] * bool(said)


def test_a_message_that_was_given_up_lets_its_key_go_on() -> None:
    story = story_of()
    relay(story, 2, "send", "one", 1, error="ValueError")
    relay(story, 3, "failed", "one", 1)
    relay(story, 4, "send", "two", 2)
    assert told(story) == ()


@pytest.mark.parametrize("resumed", [None, 2.5, 3.5, 5])
def test_a_message_of_an_outbox_that_stops_its_key_stops_it_until_the_app_resumes_it(resumed: float | None) -> None:
    story = story_of()
    relay(story, 2, "send", "one", 1, error="ValueError")
    relay(story, 3, "stopped", "one", 1)
    if resumed:
        use(story, "host-2", resumed, resumed + 0.1, of="outbox", what="resume", name="outbox", id="one")
    relay(story, 4, "send", "two", 2)
    said = "a message was sent behind one that was given up and stops its key: 1 time, the first on host-1 at 4.0 s"
    assert any(said in text for text in told(story)) == (resumed != 3.5)


@pytest.mark.parametrize("left", [0, 1])
def test_a_message_is_given_up_when_the_attempts_of_its_relay_are_used_up_and_not_before(left: int) -> None:
    story = story_of()
    relay(story, 2, "send", "one", 1, error="ValueError", left=left)
    relay(story, 3, "failed", "one", 1)
    said = "outbox 'outbox': a message was given up before its attempts were used up: 1 time, the first on host-1"
    assert any(said in text for text in told(story)) == (left > 0)


TOO_OFTEN = "inbox 'orders': a message was tried more often than the 2 times that the app allows: 1 time, the first on"


@pytest.mark.parametrize("cause", ["", "kill", "fault", "resume", "decorator"])
def test_a_message_is_tried_as_often_as_the_app_says_and_no_more(cause: str) -> None:
    assert not any("more often than the" in text for text in told(failing(two_sent(), 4, 6, attempts=2)))
    story = failing(two_sent(), 4, 6, 9, attempts=2)
    if cause == "kill":
        story.kill(6, "host-3")
    elif cause == "fault":
        story.fault(5, 7, "partition", "host-3")
    elif cause == "resume":
        use(story, "host-3", 7, 7.1, of="resumed inbox", what="resume", name="orders", key="c1")
    elif cause == "decorator":
        story.add(0.2, "host-1", "function", name="take", decorated=True)
    assert any(TOO_OFTEN in text for text in told(story)) == (not cause)


@pytest.mark.parametrize(("starts", "pause"), [((4, 6, 9), 0), ((4, 4.8), 1), ((4, 6, 7.5), 2), ((4, 6, 9, 9.6), 0)])
def test_a_message_that_failed_is_tried_again_after_the_pause_that_is_promised(
    starts: tuple[float, ...], pause: int
) -> None:
    said = f"a message was tried again before the {pause} s that follow its failure {pause}: 1 time"
    assert any(said in text for text in told(failing(two_sent(), *starts, attempts=3))) == (pause > 0)


def taken(
    story: Story, start: float, body: str, *, error: str = "", lock: str = "inbox/orders/c1", **item: Any
) -> None:
    """Tell of a run of the handler under the hold with token 7, and what it was told; it is tried three times."""
    about = {"inbox": "orders", "key": "c1", "id": body, "digest": body, "attempts": 3, "attempt": 1, "token": 7}
    left = {"error": error} if error else {}
    sees = {"item": {**about, **item}, "hold": lock, "token": 7}
    story.sight("host-2", start, start + 0.5, function="take", sees=sees, **left)


@pytest.mark.parametrize(
    ("item", "what"),
    [
        ({}, ""),
        ({"token": None}, "was told another token than its hold's"),
        ({"token": 6}, "was told another token than its hold's"),
        ({"attempt": 1}, "was told another number of its attempt than its own"),
        ({"attempt": None}, "was told another number of its attempt than its own"),
        ({"digest": "none"}, "was handled that nobody had sent with this key and body"),
        ({"key": "c2"}, "was handled that nobody had sent with this key and body"),
        ({"digest": "two"}, "had the id of another one"),
        ({"id": "other"}, "ran more often than sent"),
    ],
)
def test_what_a_handler_is_told_of_a_message_is_what_was_sent_and_tried(item: dict[str, Any], what: str) -> None:
    story = two_sent()
    taken(story, 4, "one", error="ValueError")
    taken(story, 6, "one", **{"attempt": 2, **item})
    taken(story, 8, "two")
    found = told(story)
    assert any(f"inbox 'orders': a message {what}: 1 time" in text for text in found) if what else found == ()


@pytest.mark.parametrize("lock", ["inbox/orders/c1", "parcels"])
def test_a_handler_that_the_app_calls_itself_is_told_what_the_app_says(lock: str) -> None:
    story = two_sent()
    taken(story, 4, "one", lock=lock, token=6, digest="none")
    assert any("nobody had sent" in text for text in told(story)) is (lock != "parcels")


def test_an_inbox_may_have_two_connections_to_one_account() -> None:
    story = two_sent()
    use(story, "host-1", 3.5, 3.6, of="inbox", what="send", name="orders 1a2b3c", key="c1", digest="three")
    taken(story, 4, "three")
    assert not any("nobody had sent" in text for text in told(story))


@pytest.mark.parametrize("since", ["failed", "killed", "resumed", "resumed before", "skips"])
def test_a_key_that_its_app_stops_stands_still_after_its_last_attempt_until_it_is_resumed(since: str) -> None:
    story = two_sent()
    stops: dict[str, Any] = {"stops": since != "skips"}
    if since == "resumed before":
        use(story, "host-1", 3.5, 3.6, of="resumed inbox", what="resume", name="orders", key="c1")
    for number, start in enumerate((4, 6, 9), 1):
        taken(story, start, "one", error="ValueError", attempt=number, **stops)
    if since == "killed":
        story.kill(10, "host-3")
    still = judge(story.end(60))
    assert (still.violations == ()) is (since != "skips")
    waits = "of keys stopped by on_poison='stop', and not resumed"
    assert any(waits in text for text in still.notes) is (since != "skips")
    assert not any("inbox" in text for text in still.reasons) or since == "skips"
    if since == "resumed":
        use(story, "host-1", 11, 11.2, of="resumed inbox", what="resume", name="orders", key="c1")
    taken(story, 12, "two", **stops)
    wrong = "a message ran before an earlier one of its key, which failed and stops its key, was over: 1 time"
    assert any(wrong in text for text in told(story)) is (since in {"failed", "killed"})
