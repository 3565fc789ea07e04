"""A message of an inbox that failed is tried again when it is due, and is put aside after its last attempt."""

from __future__ import annotations

import pytest

from tests.unit.simulator.checks.test_verdict_ordered import failing, handle, send, taken, told, two_sent


@pytest.mark.parametrize(
    "why", ["", "tried again", "waits for a thread", "struck", "one is no proof", "its key had more"]
)
def test_a_message_that_is_due_again_is_not_passed_over_by_later_ones_with_bells_of_their_own(why: str) -> None:
    story = failing(two_sent(), *((4, 6) if why == "tried again" else (4,)))
    story.add(0.2, "host-1", "function", name="take")
    if why == "waits for a thread":
        story.add(5, "host-2", "invocation_started", function="take", invocation="waiting")
    elif why == "struck":
        story.kill(12, "host-3")
    elif why == "its key had more":
        send(story, 13, "before", key="c2")
        handle(story, "host-1", 20, 20.4, "before", key="c2")
    for t in (14,) if why == "one is no proof" else (14, 15):
        send(story, t, f"at {t}", key="c2")
        late = 10 * (why == "its key had more")
        handle(story, "host-1", t + 0.2 + late, t + 0.4 + late, f"at {t}", key="c2")
    said = "a message was not tried again when it was due after failure 1: 1 time, the first on host-1 at 4.0 s, of key"
    assert any(said in text for text in told(story)) is (not why)


@pytest.mark.parametrize("why", ["", "sent again", "discarded"])
def test_nothing_deletes_a_message_that_was_put_aside_but_the_app(why: str) -> None:
    story = two_sent()
    story.add(0.2, "host-1", "function", name="take")
    for number, start in enumerate((4, 6, 9), 1):
        taken(story, start, "one", error="ValueError", attempt=number)
    blob = "/account/locks/inbox/orders/aside/c1/one"
    story.add(10, "host-2", "blob_made", status=201, blob=blob)
    if why == "sent again":
        send(story, 11, "one")
    elif why:
        about = {"of": "resumed inbox", "what": "resume", "name": "orders", "key": "c1"}
        story.add(11, "host-1", "pattern_asked", number="discarded", **about)
    story.add(12, "host-2", "lease_request", action="delete", blob=blob, status=202, lease="")
    said = "a message was put aside, and deleted by nobody's order: 1 time, the first on host-2 at 9.0 s"
    assert any(said in text for text in told(story)) is (not why)


@pytest.mark.parametrize("why", ["", "aside", "not seen", "struck", "stops"])
def test_a_message_that_failed_for_the_last_time_is_put_aside(why: str) -> None:
    story = two_sent()
    story.add(0.2, "host-1", "function", name="take")
    for number, start in enumerate((4, 6, 9), 1):
        taken(story, start, "one", error="ValueError", attempt=number, stops=why == "stops")
    if why == "struck":
        story.kill(10, "host-3")
    blob = "aside/c1/one" if why == "aside" else "logs/c1"
    if why != "not seen":
        story.add(10, "host-2", "blob_made", status=201, blob=f"/account/locks/inbox/orders/{blob}")
    taken(story, 12, "two")
    said = "a message failed for the last time, and was not put aside: 1 time, the first on host-2 at 9.0 s"
    assert any(said in text for text in told(story)) is (not why)
