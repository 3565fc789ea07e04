"""Reports for tests: of a small story, of a run in which two are inside, and of a great many hosts."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, NamedTuple

from simulator.checks.verdict import judge
from simulator.history.facts import Acquisition, Section, Wait
from simulator.history.leases import Lease
from simulator.report.html.html_report import ReportContent, as_page, of_run
from simulator.report.timeline.timeline import HostLane, Life, LockLane, MessageLine, Note, Timeline
from simulator.report.words import Line
from tests.support.journals import Story, good_story, key_lock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simulator.history.journal import Record


def page_of(records: Sequence[Record]) -> str:
    """Return the report of a run with these records."""
    return as_page(of_run(records, judge(records), "singleton-sim --hosts 3 --seed 7"))


def good_page() -> str:
    """Return the report of a run as it should be, with a kill, a pause and a fault."""
    story = good_story()
    story.add(26, "host-1", "pause", holds=[])
    story.add(30, "host-1", "resume")
    story.fleet(31, "fault", id=1, kind="partition", hosts=["host-3"], lock="", what="host-3 is cut off for 4 s")
    story.fleet(35, "fault_ended", id=1, hits=3)
    story.fleet(36, "fault", id=2, kind="break", hosts=[], lock=key_lock("b"), what="an operator breaks ship.b")
    story.fleet(36.02, "fault_ended", id=2, hits=0)
    story.fleet(36, "operator", action="break", lock=key_lock("b"))
    story.fleet(37, "healed")
    story.lease(1, "host-1", "acquire", key_lock("a"), status=201)
    story.lease(2, "host-1", "release", key_lock("a"))
    return page_of(story.end(40))


def bad_page() -> str:
    """Return the report of a run in which two are inside."""
    story = Story(singleton=False)
    story.body("host-1", 10, 13, held=False)
    story.body("host-2", 12, 14, held=False)
    story.body("host-3", 20, 21, key_lock("z"), held=False)
    return page_of(story.end(40))


def large_page(hosts: int = 100, sections: int = 10_000, locks: int = 60) -> str:
    """Return the report of a large run. Its timeline is made up: to read and judge so many records takes long."""
    rng = random.Random(1)
    free, made, notes = [1.0] * locks, _Made([], [], [], [], []), []
    for number in range(sections):
        lock, host, owner = key_lock(str(number % locks)), f"host-{rng.randint(1, hosts)}", f"call-{number}"
        start = free[number % locks] + rng.uniform(0.01, 0.3)
        end = free[number % locks] = start + rng.uniform(0.1, 1.5)
        asked = max(0.9, start - rng.uniform(0, 4))
        whose: dict[str, Any] = {"lock": lock, "host": host, "function": "ship", "owner": owner}
        ran = {**whose, "ending": "ok", "token": number + 1}
        made.bodies.append(Section(**ran, start=start, end=end, held=True))
        made.holdings.append(Acquisition(**ran, t=start, until=end))
        made.waits.append(Wait(**whose, start=asked, end=start, ending="acquired"))
        made.leases.append(_lease(lock, host, start, end))
        made.messages.append(_message(f"m-{number}", asked, host, end))
        notes += [Note(at=start, host=host, owner=owner, lock=lock, text=f"acquired, token {number}")] * 8
    timeline = Timeline(
        duration=max(free) + 1,
        hosts=tuple(_host(number, max(free)) for number in range(1, hosts + 1)),
        locks=tuple(LockLane(lock=key_lock(str(n)), label=f"ship.{n}", function="ship") for n in range(locks)),
        bodies=tuple(sorted(made.bodies, key=lambda body: body.start)),
        holdings=tuple(sorted(made.holdings, key=lambda holding: holding.t)),
        leases=tuple(sorted(made.leases, key=lambda lease: lease.start)),
        waits=tuple(sorted(made.waits, key=lambda wait: wait.start)),
        messages=tuple(made.messages),
        notes=tuple(notes),
    )
    headline = Line("good", "HOLDS: never two at once.")
    return as_page(ReportContent(title="large", headline=headline, lines=(), facts=(), timeline=timeline))


class _Made(NamedTuple):
    bodies: list[Section]
    holdings: list[Acquisition]
    waits: list[Wait]
    leases: list[Lease]
    messages: list[MessageLine]


def _lease(lock: str, host: str, start: float, end: float) -> Lease:
    return Lease(lock=lock, blob=lock, host=host, start=start, end=end, ending="released", expires=start + 15)


def _message(name: str, asked: float, host: str, end: float) -> MessageLine:
    times: dict[str, Any] = {"sent": asked - 0.2, "received": ((asked - 0.1, host),), "done": end}
    return MessageLine(id=name, queue="orders", key="", state="completed", dequeued=1, deferred=0, **times)


def _host(number: int, end: float) -> HostLane:
    name = f"host-{number}"
    return HostLane(name=name, lives=(Life(name=name, pid=number, start=0.1, end=end, ended="stopped"),))
