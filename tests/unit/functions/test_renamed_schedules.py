"""Random mixtures of versions with the old name, both, and the new one, under faults: the promises hold in all."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.chaos import Fault
from tests.support.network import FINE, LOST_REPLY, LOST_REQUEST, Fate, answered
from tests.support.renaming import NEW, OLD, Contender, Meddling, World
from tests.support.virtual import run_virtual

MOMENTS = st.floats(0.0, 60.0).map(lambda seconds: round(seconds, 2))
CALLS = ["acquire", "renew", "release", "create", "read", "write"]
FATES = [
    FINE,
    LOST_REQUEST,
    LOST_REPLY,
    Fate(up=1.2, down=1.2),
    Fate(up=0.1, down=4.5),
    Fate(up=4.5),
    Fate(up=7.0),
    Fate(up=20.0),
    answered(503, "ServerBusy", retry_after=3.0),
    answered(executed=True),
    answered(500, executed=True),
    answered(403, "AuthorizationFailure"),
    answered(409, "LeaseAlreadyPresent"),
]

contenders = st.builds(
    Contender,
    kind=st.sampled_from(["old", "both", "both", "swapped", "new"]),
    host=st.integers(0, 2),
    start=MOMENTS,
    timeout=st.sampled_from([None, None, 0, 0.3, 2.0, 12.0]),
    seconds=st.sampled_from([0.0, 0.01, 0.5, 6.0, 20.0]),
    cancel_after=st.one_of(st.none(), st.none(), st.sampled_from([0.0, 0.01, 0.03, 0.05, 0.1, 1.0, 5.0])),
)
faults = st.builds(
    Fault,
    hosts=st.sampled_from([frozenset({0}), frozenset({1}), frozenset({0, 1, 2})]),
    start=MOMENTS,
    seconds=st.sampled_from([0.02, 0.5, 6.0, 16.0, 80.0]),
    calls=st.one_of(st.just(frozenset(CALLS)), st.sampled_from(CALLS).map(lambda call: frozenset({call}))),
    fate=st.sampled_from(FATES),
)
meddlings = st.builds(
    Meddling,
    at=MOMENTS,
    what=st.sampled_from(["break", "steal", "delete", "sleep", "close"]),
    name=st.sampled_from([OLD, NEW]),
)

Schedule = tuple[list[Contender], list[Fault], list[Meddling]]
schedules: st.SearchStrategy[Schedule] = st.tuples(
    st.lists(contenders, min_size=2, max_size=10), st.lists(faults, max_size=4), st.lists(meddlings, max_size=2)
)


@settings(max_examples=100)
@given(schedules)
def test_whatever_happens_nobody_overlaps_tokens_increase_all_ends_and_nothing_leaks(schedule: Schedule) -> None:
    run_virtual(World().play(*schedule))


@settings(max_examples=60)
@given(schedules)
def test_with_failover_too(schedule: Schedule) -> None:
    run_virtual(World(failover=2.0).play(*schedule))


@settings(max_examples=40)
@given(st.lists(contenders, min_size=2, max_size=10))
def test_where_nothing_fails_everybody_who_waits_gets_in(who: list[Contender]) -> None:
    """Nobody waits for each other for ever, whichever name is the new one."""
    patient = [
        Contender(kind=one.kind, host=one.host, start=one.start, timeout=None, seconds=one.seconds) for one in who
    ]
    world = World()
    run_virtual(world.play(patient, [], []))
    assert world.grants == len(patient)
