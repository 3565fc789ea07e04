"""What failed is tried again when it is due, and no more after its last attempt: messages of outboxes, and rows."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from simulator.checks.verdict import judge
from tests.support.journals import Story

_numbers = count(1)
NOT = "1 {} that had failed, not tried again when it was due: the first: {} failed in attempt 1 on host-1 at 10.1 s"


def use(story: Story, host: str, start: float, end: float | None, *, error: str = "", **about: Any) -> None:
    number = str(next(_numbers))
    found = {name: about.pop(name) for name in ("found", "left")} if "found" in about else {}
    story.add(start, host, "pattern_asked", number=number, **about)
    if end is not None:
        story.add(end, host, "pattern_answered", number=number, **({"error": error} if error else found))


def failed(*, of: str = "outbox", left: int = 2, keep: float | None = 2.0, key: str = "c1", place: int = 3) -> Story:
    """Tell of an attempt that failed at 10 s, and is to be tried again after 2 s."""
    story = Story(fresh=True)
    story.body("host-3", 1, 2, token=1)
    what, name = ("again", "outbox in shop") if of == "outbox" else ("failed", "outbox in shop")
    about = {"id": "one", "where": "shipping"} if of == "outbox" else {"where": "stage"}
    use(
        story,
        "host-1",
        10,
        10.1,
        of=of,
        what=what,
        name=name,
        key=key,
        place=place,
        attempt=1,
        left=left,
        keep=keep,
        token=7,
        **about,
    )
    return story


def look(
    story: Story, t: float, *found: str, of: str = "outbox", room: int = 5, end: float | None = 0.0, **about: Any
) -> None:
    end = t + 0.1 if end == 0 else end
    about |= {"where": about.get("where") or ("stage" if of == "rows" else "")}
    use(story, "host-2", t, end, of="look", what=of, name="outbox in shop", found=list(found), left=room, **about)


def told(story: Story) -> str:
    return " | ".join(text for text in judge(story.end(60)).violations if "that had failed" in text)


@pytest.mark.parametrize("of", ["outbox", "rows"])
def test_failed_work_that_those_who_looked_did_not_find_is_named(of: str) -> None:
    story = failed(of=of)
    look(story, 13.5, of=of)
    assert told(story) == ""
    look(story, 15, of=of)
    assert NOT.format(*(("message", "one") if of == "outbox" else ("row", "c1"))) in told(story)
    assert "and host-2 looked at 15.0 s" in told(story)


@pytest.mark.parametrize(
    "why",
    [
        "found",
        "full",
        "early",
        "no pause known",
        "lesser token",
        "look that raised",
        "open look",
        "SQL",
        "put back",
        "another stage",
        "resumed",
    ],
)
def test_a_look_shows_nothing_where_the_work_may_be_elsewhere(why: str) -> None:
    of = "rows" if why in {"put back", "another stage"} else "outbox"
    story = failed(of=of, keep=None if why == "no pause known" else 2.0)
    token, room = 6 if why == "lesser token" else 7, 0 if why == "full" else 5
    if why in {"found", "look that raised", "open look"}:
        error = "OSError" if why == "look that raised" else ""
        look(story, 13.2, *(["one"] * (why == "found")), end=None if why == "open look" else 13.3, error=error)
    elif why in {"SQL", "put back"}:
        name = "outbox" if why == "SQL" else "outbox in shop"
        use(story, "host-1", 11, 11.1, of="touch", what=why, name=name)
    elif why == "resumed":
        use(story, "host-1", 11, 11.1, of="outbox", what="resume", name="outbox in shop", id="other")
    for t in (10.5, 11.5, 12.5) if why == "early" else (14, 15, 16):
        look(story, t, of=of, token=token, room=room, where="other" if why == "another stage" else None)
    assert told(story) == ""


def test_a_message_waits_for_an_earlier_one_of_its_key_that_failed_meanwhile() -> None:
    story = failed()
    about: dict[str, Any] = {
        "of": "outbox",
        "name": "outbox in shop",
        "key": "c1",
        "attempt": 1,
        "left": 2,
        "keep": 300.0,
    }
    use(story, "host-1", 11, 11.1, what="again", id="earlier", place=2, **about)
    look(story, 14)
    look(story, 15)
    assert told(story) == ""


@pytest.mark.parametrize(
    ("t", "left", "said"), [(10.3, 2, "before its pause was over"), (12.5, 2, ""), (12.5, 0, "after its last attempt")]
)
def test_failed_work_is_tried_again_after_its_pause_and_never_after_its_last_attempt(
    t: float, left: int, said: str
) -> None:
    story = failed(left=left)
    look(story, t, "one")
    assert (f"1 message that had failed, tried again {said}" in told(story)) if said else told(story) == ""


@pytest.mark.parametrize("why", ["", "noted", "touched", "full", "failed later", "never there"])
def test_a_message_stays_in_its_outbox_until_it_is_noted_as_sent(why: str) -> None:
    story = Story(fresh=True)
    look(story, 10, *(["one"] * (why not in {"never there", "failed later"})), of="left")
    about: dict[str, Any] = {"of": "outbox", "name": "outbox in shop", "id": "one"}
    if why == "noted":
        use(story, "host-1", 11, None, what="sent", **about)
    elif why == "touched":
        use(story, "host-1", 11, 11.1, of="touch", what="SQL", name="outbox")
    elif why == "failed later":
        use(story, "host-1", 11.9, 12.5, what="failed", **about)
    look(story, 12, of="left", room=0 if why == "full" else 5)
    if why == "failed later":
        look(story, 13, "one", of="left")
    gone = [text for text in judge(story.end(60)).violations if "vanished" in text]
    first = "host-2 saw it at 10.1 s, and host-2 did not at 12.0 s"
    what = "1 message vanished from its table, and nobody had noted it as sent"
    assert gone == ([f"outbox 'outbox in shop': {what}: {first}"] if not why else [])
