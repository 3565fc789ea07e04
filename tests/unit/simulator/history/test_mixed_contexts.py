"""Deeds that a guard tells under another invocation's id are filed by the delivery for which the host saw them."""

from __future__ import annotations

import pytest

from simulator.checks.verdict import judge
from tests.support.journals import Story, key_lock, plain

A, B = key_lock("a"), key_lock("b")


@pytest.mark.parametrize("mixed", [False, True])
def test_a_mixed_up_context_is_told_as_such_and_not_as_a_body_without_its_lock(*, mixed: bool) -> None:
    story = Story()
    for owner, lock, start in (("one", A, 3.0), ("two", B, 3.5)):
        story.add(start, "host-1", "invocation_started", function="ship", invocation=owner)
        whose = {"owner": "one"} | ({} if owner == "one" else {"invocation": "two"})
        for at, kind in ((0.0, "acquired"), (0.0, "body_started"), (1.0, "body_ended"), (1.0, "released")):
            story.add(start + at, "host-1", "lock", kind=kind, lock=lock, function="ship", reason="ok", **whose)
        story.sight("host-1", start, start + 1, invocation=owner)
        story.add(start + 1, "host-1", "invocation_ended", function="ship", invocation=owner, outcome="ok")
    if mixed:
        about = {"kind": "argument", "what": "context", "given": "Context 1a", "got": "Context 2b", "sure": True}
        story.add(3.5, "host-1", "altered", function="ship", invocation="two", **about)
    story.know(witnessed=True)
    (found,) = plain(judge(story.end(30)).violations)
    context = "1 invocation of 'ship' called its body with another 'context' than @singleton was called with"
    assert found.startswith(context if mixed else "1 guarded body ran without holding the lock")
