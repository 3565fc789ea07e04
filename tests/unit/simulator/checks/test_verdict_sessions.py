"""Sessions of Service Bus: their messages run in order, one at a time, unless a host loses the lock on its message."""

from __future__ import annotations

from typing import Any

import pytest

from simulator.checks.verdict import judge
from simulator.report.words import summary
from tests.support.journals import Story, key_lock

QUEUE = "servicebus/orders"


def base() -> Story:
    story = Story()
    story.know(queue=QUEUE)
    story.body("host-1", 0.5, 0.6)
    for number, name in enumerate(("m1", "m2", "m3")):
        story.fleet(1 + number / 10, "message_sent", queue=QUEUE, id=name, key="a", session="a")
    story.fleet(1.5, "message_sent", queue=QUEUE, id="other", key="b", session="b")
    return story


def run(story: Story, name: str, host: str, start: float, end: float, **more: Any) -> None:
    about = {"queue": QUEUE, "id": name, "function": "ship"}
    story.add(more.pop("received", start), host, "message_received", **about, dequeue_count=1)
    story.body(host, start, end, key_lock(f"{name}-{host}"), message=name, **more)
    story.add(end + 0.01, host, "message_completed", **about)


def violations(story: Story) -> tuple[str, ...]:
    run(story, "other", "host-3", 2.5, 20.0)  # another session has an order of its own
    return judge(story.end(60)).violations


def test_messages_of_a_session_one_after_the_other_are_as_they_should_be() -> None:
    story = base()
    run(story, "m1", "host-1", 2.0, 3.0)
    run(story, "m2", "host-2", 3.05, 4.0)
    run(story, "m3", "host-1", 4.05, 5.0)
    assert violations(story) == ()
    verdict = judge(story.records)
    assert "4 messages of 2 sessions: in the order sent, one at a time" in [line.text for line in summary(verdict)]
    check = next(check for check in verdict.checks if check.name == "sessions")
    assert check.looked_at == {"sessions": 2, "messages": 4}


def test_a_message_that_overtakes_another_one_of_its_session_is_found() -> None:
    story = base()
    run(story, "m1", "host-1", 2.0, 3.0)
    run(story, "m3", "host-2", 3.05, 4.0)
    run(story, "m2", "host-1", 4.05, 5.0)
    assert violations(story) == (f"1 message of '{QUEUE}' ran after a later one of the same session",)
    lines = [line.text for line in summary(judge(story.records))]
    assert f"1 message of '{QUEUE}' ran after a later one of the same session" in lines
    assert not any("in the order sent" in line for line in lines)


def test_a_message_that_runs_beside_another_one_of_its_session_is_found() -> None:
    story = base()
    run(story, "m1", "host-1", 2.0, 3.0)
    run(story, "m2", "host-2", 2.5, 4.0)
    run(story, "m3", "host-1", 4.05, 5.0)
    assert violations(story) == (f"1 message of '{QUEUE}' ran beside another one of the same session",)


def test_a_body_that_goes_on_after_its_invocation_counts() -> None:
    story = base()
    run(story, "m1", "host-1", 2.0, 3.0, seen=(2.0, 3.9))
    run(story, "m2", "host-2", 3.05, 4.0)
    run(story, "m3", "host-1", 4.05, 5.0)
    assert any("ran beside another one of the same session" in each for each in violations(story))


@pytest.mark.parametrize("cause", ["", "pause", "let go"])
def test_a_host_that_lost_the_lock_on_its_message_explains_both(cause: str) -> None:
    story = base()
    run(story, "m1", "host-2", 25.0, 26.0)
    run(story, "m2", "host-2", 26.1, 40.0)
    run(story, "m1", "host-1", 30.0, 31.0, received=2.1)
    run(story, "m3", "host-2", 41.0, 42.0)
    if cause == "pause":
        story.add(2.2, "host-1", "pause")
        story.add(29.0, "host-1", "resume")
    elif cause:
        story.add(2.2, "host-1", "message_let_go", queue=QUEUE, id="m1")
    told = violations(story)
    found = [each for each in told if each.endswith("another one of the same session")]
    late = [each for each in told if each.endswith("after a later one of the same session")]
    assert (len(found), len(late)) == ((0, 0) if cause else (1, 1))
