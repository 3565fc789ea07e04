"""Random schedules of hosts, waiters, faults, cancellations and meddling: the promises hold in all of them."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.chaos import Actor, Fault, Meddling, World
from tests.support.network import FINE, LOST_REPLY, LOST_REQUEST, Fate, answered
from tests.support.virtual import run_virtual

MOMENTS = st.floats(0.0, 60.0).map(lambda seconds: round(seconds, 2))
CALLS = ["acquire", "renew", "release", "create", "read", "write"]
FATES = [
    FINE,
    LOST_REQUEST,
    LOST_REPLY,
    Fate(up=1.2, down=1.2),
    Fate(up=0.05, down=2.9),
    Fate(up=0.1, down=4.5),
    Fate(up=4.5),
    Fate(up=7.0),
    Fate(up=20.0),
    answered(503, "ServerBusy", retry_after=3.0),
    answered(500, executed=True),
    answered(),
    answered(executed=True),
    answered(403, "AuthorizationFailure"),
    answered(409, "LeaseAlreadyPresent"),
    answered(404, "ContainerNotFound"),
]

actors = st.builds(
    Actor,
    host=st.integers(0, 2),
    start=MOMENTS,
    timeout=st.sampled_from([None, None, 0, 0.3, 2.0, 12.0]),
    seconds=st.sampled_from([0.0, 0.01, 0.5, 6.0, 20.0, 40.0]),
    cancel_after=st.one_of(st.none(), st.sampled_from([0.0, 0.005, 0.01, 0.02, 0.05, 0.1, 1.0, 5.0, 9.0])),
)
faults = st.builds(
    Fault,
    hosts=st.sampled_from([frozenset({0}), frozenset({1}), frozenset({0, 1, 2})]),
    start=MOMENTS,
    seconds=st.sampled_from([0.02, 0.5, 6.0, 16.0, 80.0]),
    calls=st.one_of(st.just(frozenset(CALLS)), st.sampled_from(CALLS).map(lambda call: frozenset({call}))),
    fate=st.sampled_from(FATES),
)
meddlings = st.builds(Meddling, at=MOMENTS, what=st.sampled_from(["break", "steal", "delete", "sleep", "close"]))

Schedule = tuple[list[Actor], list[Fault], list[Meddling]]


@st.composite
def outages(draw: st.DrawFn) -> Schedule:
    """Return a long section that somebody waits for: its host hears its answers late, and then none at all."""
    start = draw(st.sampled_from([0.0, 1.0, 5.0]))
    late = draw(st.sampled_from([3.0, 8.0, 14.0, 16.0]))
    slow = draw(st.sampled_from([Fate(up=0.05, down=2.9), Fate(up=0.1, down=4.5), Fate(up=1.2, down=1.2)]))
    dead = draw(st.sampled_from([LOST_REQUEST, answered(500)]))
    inside = Actor(host=0, start=start, timeout=None, seconds=40.0)
    waits = Actor(host=1, start=start + 8.0, timeout=None, seconds=1.0)
    calls = draw(st.sampled_from([frozenset(CALLS), frozenset({"acquire", "renew"})]))
    return (
        [inside, waits, *draw(st.lists(actors, max_size=2))],
        [
            Fault(hosts=frozenset({0}), start=start, seconds=late, calls=calls, fate=slow),
            Fault(hosts=frozenset({0}), start=start + late, seconds=60.0, calls=frozenset({"renew"}), fate=dead),
        ],
        [],
    )


schedules: st.SearchStrategy[Schedule] = st.one_of(
    st.tuples(st.lists(actors, min_size=1, max_size=8), st.lists(faults, max_size=5), st.lists(meddlings, max_size=2)),
    outages(),
)


@settings(max_examples=120)
@given(schedules)
def test_whatever_happens_nobody_overlaps_all_ends_and_nothing_leaks(schedule: Schedule) -> None:
    run_virtual(World().play(*schedule))


@settings(max_examples=80)
@given(st.lists(actors, min_size=2, max_size=8), st.lists(faults, max_size=3))
def test_after_the_last_fault_everybody_who_waits_gets_in(who: list[Actor], breaks: list[Fault]) -> None:
    """Liveness: with endless patience, no cancellation, and faults that end within a minute."""
    patient = [Actor(host=one.host, start=one.start, timeout=None, seconds=min(one.seconds, 6.0)) for one in who]
    kind = [
        Fault(
            hosts=one.hosts,
            start=one.start,
            seconds=min(one.seconds, 16.0),
            calls=one.calls,
            fate=one.fate if one.fate.failure is None or one.fate.down == math.inf else answered(503),
        )
        for one in breaks
    ]
    world = World()
    run_virtual(world.play(patient, kind, []))
    assert world.grants == len(patient)
