"""What a fault of a nemesis excuses, and that nothing else does.

Each story is judged with its fault, without it, and with the same fault on another host, on another lock, at another
time.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from simulator.checks.verdict import Verdict, judge
from simulator.faults.effects import EFFECTS, UNKNOWN, effects_of
from simulator.faults.real import ALL, KINDS
from simulator.history.historian import read_history
from tests.support.journals import TIMER, Story, bare, key_lock, plain

if TYPE_CHECKING:
    from collections.abc import Callable

A, B = key_lock("a"), key_lock("b")
NETWORK: Final = ("partition", "lose", "delay", "throttle", "error")


def fleet(**known: Any) -> Story:
    """Begin a run with a nemesis, which is healed in the end."""
    return Story(faults=["partition"]).know(**known)


def ended(story: Story, t: float = 60.0) -> Verdict:
    """End the run and judge it. The nemesis heals all that it did just before."""
    if not any(record.event == "fault" for record in story.records):
        story.fault(0.5, 0.6, "duplicate", "host-3")
    story.fleet(t - 1, "healed")
    return judge(story.end(t))


def lost_body(
    story: Story,
    host: str,
    start: float,
    told: float,
    end: float,
    lock: str = A,
    *,
    why: str = "expired",
    token: int = 1,
) -> None:
    """Tell of a body that lost its lock and ended later, so that its invocation failed."""
    owner = f"lost by {host} at {told}"
    function = "ship" if "ship" in lock else "import_eligibility"
    story.add(start, host, "invocation_started", function=function, invocation=owner)
    story.lock(start, host, "waiting", lock, owner)
    story.lock(start, host, "acquired", lock, owner, token=token)
    story.lock(start, host, "body_started", lock, owner, token=token)
    story.lock(told, host, "lost", lock, owner, reason=why)
    story.lock(end, host, "body_ended", lock, owner, token=token, reason="lost")
    error = {"outcome": "error", "error": "LockLost: lost", "blames": "LockLost"}
    story.add(end, host, "invocation_ended", function=function, invocation=owner, **error)


# --- the cut-off host -------------------------------------------------------------------------------------------------


def cut_off_thread(*faults: tuple[float, float, str, str]) -> Verdict:
    """Judge a thread that was told at its deadline and went on beside the next holder."""
    story = fleet(**{"async": False})
    for start, end, kind, host in faults:
        story.fault(start, end, kind, host)
    lost_body(story, "host-1", 1.0, 15.0, 25.0)
    story.body("host-2", 16.0, 20.0, A, token=2, asked=5.0)
    return ended(story)


@pytest.mark.parametrize("kind", NETWORK)
def test_a_thread_that_was_told_may_overlap_if_its_host_was_cut_off_for_long_enough(kind: str) -> None:
    verdict = cut_off_thread((3.0, 18.0, kind, "host-1"))
    assert (verdict.violations, verdict.overlaps, len(verdict.caught)) == ((), (), 1)
    said = "1 body ended late: host-1 was told at 15.0 s that ship.a was lost, and went on for 4.0 s beside host-2"
    assert f"{said}, the next holder" in verdict.notes
    assert verdict.faults[0].excused == "1 overlap, 1 lost hold, 1 failed invocation"


@pytest.mark.parametrize(
    "faults",
    [
        pytest.param((), id="no fault"),
        pytest.param(((3.0, 18.0, "partition", "host-2"),), id="another host"),
        pytest.param(((30.0, 45.0, "partition", "host-1"),), id="later"),
        pytest.param(((3.0, 3.5, "partition", "host-1"),), id="too short"),
        pytest.param(((3.0, 18.0, "duplicate", "host-1"),), id="duplicate"),
        pytest.param(tuple((float(at), float(at), "forget", "host-1") for at in range(3, 18)), id="forget"),
        pytest.param(((3.0, 18.0, "drain", "host-1"),), id="drain"),
        pytest.param(((3.0, 18.0, "earthquake", "host-1"),), id="unknown kind"),
    ],
)
def test_nothing_else_explains_that_thread(faults: tuple[tuple[float, float, str, str], ...]) -> None:
    verdict = cut_off_thread(*faults)
    assert len(verdict.overlaps) == 1
    assert "1 invocation of 'ship' failed with LockLost, which nothing in this run caused" in bare(verdict.violations)
    assert all(not fault.excused for fault in verdict.faults)


@pytest.mark.parametrize("kind", sorted({*ALL} - {"break", "pause"}))
def test_no_fault_excuses_an_overlap_in_which_the_first_was_told_after_the_second_began(kind: str) -> None:
    story = fleet(**{"async": False})
    story.fault(2.0, 30.0, kind, "host-1", "host-2", lock=A)
    lost_body(story, "host-1", 1.0, 16.5, 25.0)
    story.body("host-2", 16.0, 20.0, A, token=2, asked=5.0)
    assert len(ended(story).overlaps) == 1


@pytest.mark.parametrize("kind", ["delay", "throttle", "error"])
def test_a_fault_that_hit_no_request_excuses_nothing(kind: str) -> None:
    def lost(hits: int) -> Verdict:
        story = fleet()
        story.fault(2.0, 18.0, kind, "host-1", hits=hits)
        lost_body(story, "host-1", 1.0, 17.0, 17.1)
        return ended(story)

    assert lost(1).holds
    assert not lost(0).holds


@pytest.mark.parametrize("kind", NETWORK)
def test_a_fault_of_one_host_excuses_nothing_on_a_host_whose_name_begins_like_its_name(kind: str) -> None:
    def lost(hit: str, victim: str) -> Verdict:
        story = fleet()
        story.fault(2.0, 18.0, kind, hit)
        lost_body(story, victim, 1.0, 17.0, 17.1)
        return ended(story)

    said = "1 invocation of 'ship' failed with LockLost, which nothing in this run caused"
    assert said not in lost("host-1.2", "host-1.2").violations
    for hit, victim in (("host-1", "host-1.2"), ("host-1.2", "host-1"), ("host-1", "host-10"), ("host-10", "host-1")):
        assert said in lost(hit, victim).violations


def test_a_cut_that_is_too_short_explains_no_lost_lock() -> None:
    def cut(seconds: float) -> Verdict:
        story = fleet()
        story.fault(17.0 - seconds, 17.0, "partition", "host-1")
        lost_body(story, "host-1", 1.0, 17.0, 17.1)
        return ended(story)

    assert cut(4.5).holds
    assert cut(3.0).verdict == "violated"


def test_an_invocation_failed_by_a_fault_only_if_its_own_lock_was_lost_by_it() -> None:
    story = fleet()
    story.fault(2.0, 18.0, "partition", "host-1")
    lost_body(story, "host-1", 1.0, 17.0, 17.1)
    owner = story.body("host-1", 18.0, None, B, token=1)
    error = {"outcome": "error", "error": "LockLost: lost", "blames": "LockLost"}
    story.lock(19.0, "host-1", "body_ended", B, owner, token=1, reason="error")
    story.lock(19.0, "host-1", "released", B, owner, token=1)
    story.add(19.0, "host-1", "invocation_ended", function="ship", invocation=owner, **error)
    said = bare(ended(story).violations)
    assert said == ["1 invocation of 'ship' failed with LockLost, which nothing in this run caused"]


def test_an_async_body_may_not_go_on_for_three_seconds() -> None:
    def went_on(seconds: float) -> Verdict:
        story = fleet(**{"async": True})
        story.fault(2.0, 17.0, "partition", "host-1")
        lost_body(story, "host-1", 1.0, 16.0, 16.0 + seconds)
        story.body("host-2", 16.5, 30.0, A, token=2, asked=5.0)
        return ended(story)

    assert went_on(1.5).overlaps == ()
    assert len(went_on(3.0).overlaps) == 1


def test_an_async_body_that_was_told_has_a_moment_to_end_and_no_more() -> None:
    def told(end: float) -> Verdict:
        story = fleet(**{"async": True})
        story.fault(3.0, 18.0, "partition", "host-1")
        lost_body(story, "host-1", 1.0, 15.0, end)
        story.body("host-2", 16.0, 30.0, A, token=2, asked=5.0)
        return ended(story)

    assert (len(told(16.5).overlaps), len(told(16.5).caught)) == (0, 1)
    assert (len(told(22.0).overlaps), len(told(22.0).caught)) == (1, 0)


def unavailable(policy: str, start: float, end: float, *, fault: tuple[float, float], host: str = "host-1") -> Verdict:
    """Judge an invocation that failed because the storage gave no answer."""
    story = Story(policy=policy, faults=["throttle"])
    story.fault(*fault, "throttle", host)
    story.body("host-2", 0.5, 0.9, B)
    story.add(start, "host-1", "invocation_started", function="ship", invocation="call-1")
    story.lock(start, "host-1", "waiting", A, "call-1")
    error = {"outcome": "error", "error": "StorageUnavailable: 503", "blames": "StorageUnavailable"}
    story.add(end, "host-1", "invocation_ended", function="ship", invocation="call-1", **error)
    return ended(story, 120.0)


def test_a_single_attempt_may_fail_where_its_patience_ends_under_a_fault() -> None:
    assert unavailable("skip", 5.0, 15.0, fault=(4.0, 14.0)).holds
    assert unavailable("wait", 5.0, 66.0, fault=(4.0, 70.0)).holds


@pytest.mark.parametrize(
    ("policy", "end", "fault", "host"),
    [
        pytest.param("skip", 15.0, (4.0, 6.0), "host-1", id="the fault was over long before"),
        pytest.param("skip", 15.0, (30.0, 40.0), "host-1", id="later"),
        pytest.param("skip", 15.0, (4.0, 14.0), "host-2", id="another host"),
        pytest.param("skip", 6.0, (4.0, 14.0), "host-1", id="without patience"),
        pytest.param("wait", 20.0, (4.0, 24.0), "host-1", id="a wait has more patience"),
    ],
)
def test_an_invocation_that_fails_without_need_is_a_violation(
    policy: str, end: float, fault: tuple[float, float], host: str
) -> None:
    said = bare(unavailable(policy, 5.0, end, fault=fault, host=host).violations)
    assert "1 invocation of 'ship' failed with StorageUnavailable, which nothing in this run caused" in said


def troubled_candidate(*faults: tuple[float, float, str, str], paused: float = 0.0) -> Verdict:
    """Judge a tick that was told what became of its candidate's last attempt to lead, half a minute ago."""
    story = fleet(mode="listener", listener={"lease": 15, "poll": 15})
    for start, end, kind, host in faults:
        story.fault(start, end, kind, host)
    if paused:
        story.add(8.0, "host-1", "pause")
        story.add(8.0 + paused, "host-1", "resume")
    story.lock(1.0, "host-1", "waiting", TIMER, "", mode="listener")
    story.lock(1.0, "host-2", "acquired", TIMER, "", mode="listener", token=1)
    story.add(25.0, "host-1", "invocation_started", function="import_eligibility", invocation="call-1")
    error = {"outcome": "error", "error": "StorageUnavailable: 429", "blames": "StorageUnavailable"}
    story.add(25.1, "host-1", "invocation_ended", function="import_eligibility", invocation="call-1", **error)
    return ended(story)


def test_a_candidate_tells_of_its_last_attempt_until_the_next() -> None:
    def accused(verdict: Verdict) -> bool:
        return any("which nothing in this run caused" in text for text in verdict.violations)

    assert not accused(troubled_candidate((7.0, 9.0, "throttle", "host-1")))
    assert not accused(troubled_candidate(paused=6.0))
    assert accused(troubled_candidate(paused=2.0))  # a request has more time
    for faults in ((), ((7.0, 9.0, "throttle", "host-2"),), ((40.0, 42.0, "throttle", "host-1"),)):
        assert accused(troubled_candidate(*faults))
    assert accused(troubled_candidate((-10.0, -9.0, "throttle", "host-1")))


def not_put_back(*faults: tuple[float, float, str, str]) -> Verdict:
    """Judge a message that was to be put back, and whose put-back failed at once."""
    story = Story(policy="defer", faults=["error"])
    for start, end, kind, host in faults:
        story.fault(start, end, kind, host)
    story.body("host-2", 1.0, 4.0, A, token=1)
    story.add(2.0, "host-1", "invocation_started", function="ship", invocation="call-1")
    story.lock(2.0, "host-1", "waiting", A, "call-1")
    story.lock(2.1, "host-1", "contended", A, "call-1", reason="defer")
    error = {"outcome": "error", "error": "StorageUnavailable: 503", "blames": "StorageUnavailable"}
    story.add(3.0, "host-1", "invocation_ended", function="ship", invocation="call-1", **error)
    return ended(story)


def test_a_put_back_has_no_patience_with_a_queue_that_fails() -> None:
    assert not_put_back((2.5, 4.0, "error", "host-1")).violations == ()
    for faults in ((), ((2.5, 4.0, "error", "host-2"),), ((5.0, 6.0, "error", "host-1"),)):
        said = not_put_back(*faults).violations
        assert said == ("1 invocation of 'ship' failed with StorageUnavailable, which nothing in this run caused",)


def short_wait_by_a_policy(*faults: tuple[float, float, str, str], patience: float | None = 2) -> tuple[str, ...]:
    """Return what is said of an invocation that its own policy let wait, and that failed after two seconds."""
    story = Story(policy="custom", faults=["error"])
    for start, end, kind, host in faults:
        story.fault(start, end, kind, host)
    about = {"function": "ship", "invocation": "call-1"}
    story.add(2.0, "host-1", "invocation_started", **about)
    story.lock(2.0, "host-1", "waiting", A, "call-1")
    story.add(2.1, "host-1", "policy_answered", answer="wait", patience=patience, **about)
    error = {"outcome": "error", "error": "StorageUnavailable: 503", "blames": "StorageUnavailable"}
    story.add(4.2, "host-1", "invocation_ended", **about, **error)
    return ended(story).violations


def test_a_fault_explains_the_end_of_a_short_wait_that_a_policy_of_the_app_chose() -> None:
    said = ("1 invocation of 'ship' failed with StorageUnavailable, which nothing in this run caused",)
    assert short_wait_by_a_policy((3.0, 4.0, "error", "host-1")) == ()
    assert short_wait_by_a_policy() == said
    (endless,) = short_wait_by_a_policy((3.0, 4.0, "error", "host-1"), patience=None)
    assert endless.startswith(said[0])


@pytest.mark.parametrize(("since", "excused"), [(15.0, True), (3.0, False)])
def test_a_waiter_fails_whose_seat_is_silent_for_five_seconds_before_its_body(since: float, *, excused: bool) -> None:
    story = Story(policy="coalesce", faults=["error"])
    story.fault(since, since + 4, "error", "host-1")
    story.add(2.0, "host-1", "invocation_started", function="ship", invocation="call-1")
    story.lock(2.0, "host-1", "waiting", A, "call-1")
    error = {"outcome": "error", "error": "StorageUnavailable: 503", "blames": "StorageUnavailable"}
    story.add(30.0, "host-1", "invocation_ended", function="ship", invocation="call-1", **error)
    assert any("failed with StorageUnavailable" in text for text in ended(story).violations) is not excused


# --- a lock that stays leased -----------------------------------------------------------------------------------------


def lost_release(*faults: tuple[float, float, str, str]) -> Verdict:
    """Judge a lock that was released, and that a waiter got only a lease later."""
    story = fleet()
    for start, end, kind, host in faults:
        story.fault(start, end, kind, host)
    story.body("host-1", 1.0, 10.0, A, token=1)
    story.body("host-2", 27.0, 28.0, A, token=2, asked=5.0)
    return ended(story)


@pytest.mark.parametrize("kind", [*NETWORK, "duplicate"])
def test_a_lock_whose_release_was_lost_stays_leased_for_one_more_lease(kind: str) -> None:
    assert lost_release((9.0, 11.0, kind, "host-1")).holds


@pytest.mark.parametrize(
    "faults",
    [
        pytest.param((), id="no fault"),
        pytest.param(((9.0, 11.0, "lose", "host-3"),), id="another host"),
        pytest.param(((18.0, 20.0, "lose", "host-1"),), id="later"),
        pytest.param(((9.0, 11.0, "drain", "host-1"),), id="drain"),
        pytest.param(((9.0, 11.0, "break", "host-1"),), id="break of another lock"),
    ],
)
def test_without_it_the_lock_is_free_at_once(faults: tuple[tuple[float, float, str, str], ...]) -> None:
    assert plain(lost_release(*faults).violations) == ["ship.a was free for 17.0 s while host-2 waited for it"]


def cut_off_waiter(kind: str, got: float, host: str = "host-2") -> list[str]:
    story = fleet()
    story.body("host-1", 1.0, 4.0, A, token=1)
    story.fault(8.0, 14.0, kind, host)
    story.body("host-2", got, got + 1, A, token=2, asked=3.0)
    return plain(ended(story).violations)


@pytest.mark.parametrize("kind", ["throttle", "error"])
def test_a_waiter_whose_requests_are_refused_waits_as_much_longer_and_no_more(kind: str) -> None:
    assert cut_off_waiter(kind, 21.0) == []  # 6 s of the fault and 5 s after it, besides a poll
    assert cut_off_waiter(kind, 23.0) == ["ship.a was free for 8.0 s while host-2 waited for it"]
    assert cut_off_waiter(kind, 21.0, "host-3") == ["ship.a was free for 17.0 s while host-2 waited for it"]


@pytest.mark.parametrize("kind", ["partition", "lose", "delay", "duplicate"])
def test_a_waiter_may_have_been_given_the_lease_unseen_which_costs_one_more_lease(kind: str) -> None:
    assert cut_off_waiter(kind, 40.0) == []
    assert cut_off_waiter(kind, 50.0) == ["ship.a was free for 16.0 s while host-2 waited for it"]


def retained(*faults: tuple[float, float, str, str]) -> Verdict:
    """Judge a lock that its holder released long after its body had ended."""
    story = fleet()
    for start, end, kind, host in faults:
        story.fault(start, end, kind, host)
    story.add(1.0, "host-1", "invocation_started", function="ship", invocation="call-1")
    for t, what in ((1.0, "waiting"), (1.0, "acquired"), (1.0, "body_started"), (2.0, "body_ended"), (7.0, "released")):
        story.lock(t, "host-1", what, A, "call-1", token=1, reason="ok")
    story.add(7.0, "host-1", "invocation_ended", function="ship", invocation="call-1", outcome="ok")
    return ended(story)


def test_a_release_takes_longer_only_under_a_fault_of_its_host() -> None:
    assert retained((1.5, 5.0, "throttle", "host-1")).violations == ()
    for faults in ((), ((1.5, 5.0, "throttle", "host-2"),), ((20.0, 25.0, "throttle", "host-1"),)):
        said = plain(retained(*faults).violations)
        assert said == ["ship.a was kept by host-1 for 5.0 s after its body had ended"]


def slow_skip(*faults: tuple[float, float, str, str]) -> Verdict:
    """Judge a single attempt that took long, while another had the lock."""
    story = Story(policy="skip", faults=["delay"])
    for start, end, kind, host in faults:
        story.fault(start, end, kind, host)
    story.body("host-1", 1.0, 13.0, A, token=1)
    story.lock(2.0, "host-2", "waiting", A, "call-1")
    story.lock(10.0, "host-2", "contended", A, "call-1", reason="skip")
    return ended(story)


def test_a_single_attempt_takes_longer_only_under_a_fault_of_its_host() -> None:
    assert slow_skip((3.0, 7.0, "delay", "host-2")).violations == ()
    for faults in ((), ((3.0, 7.0, "delay", "host-3"),), ((30.0, 35.0, "delay", "host-2"),)):
        assert any("waited for 8.0 s for its lock" in text for text in slow_skip(*faults).violations)


def unrenewed(*faults: tuple[float, float, str, str]) -> Verdict:
    """Judge a hold whose only renewal was still under way when the hold ended."""
    story = fleet()
    for start, end, kind, host in faults:
        story.fault(start, end, kind, host)
    story.lease(1.0, "host-1", "acquire", A)
    for record in [story.records[-1]]:
        record.fields.update(worker=0)  # type: ignore[attr-defined]
    story.body("host-1", 1.0, 12.0, A, token=1)
    return ended(story)


def test_a_renewal_that_hangs_is_no_renewal_that_was_not_sent() -> None:
    assert unrenewed((8.0, 12.0, "partition", "host-1")).violations == ()
    for faults in ((), ((8.0, 12.0, "partition", "host-2"),), ((20.0, 22.0, "partition", "host-1"),)):
        said = plain(unrenewed(*faults).violations)
        assert said == [
            "a hold of 'ship' was not renewed in time: no request for it left host-1 for 11.0 s",
        ]


def crowd(*faults: tuple[float, float, str, str]) -> Verdict:
    """Judge two invocations of one process that wait, where one may."""
    story = fleet(max_waiting=1)
    for start, end, kind, host in faults:
        story.fault(start, end, kind, host)
    story.body("host-1", 1.0, 10.0, A, token=1)
    story.body("host-2", 10.5, 11.0, A, token=2, asked=2.0)
    story.body("host-2", 11.5, 12.0, A, token=3, asked=2.0)
    return ended(story)


def test_who_can_not_ask_does_not_know_yet_that_too_many_wait() -> None:
    assert crowd((2.0, 6.0, "error", "host-2")).violations == ()
    for faults in ((), ((2.0, 6.0, "error", "host-3"),)):
        assert any("waited for ship.a at a time" in text for text in crowd(*faults).violations)


# --- an operator ------------------------------------------------------------------------------------------------------


def broken_lease(
    *, lock: str = A, at: float = 10.0, second: float = 11.0, told: float | None = 14.0, victim: str = "host-1"
) -> Verdict:
    """Judge two bodies of one lock, after an operator has broken a lease."""
    story = fleet()
    story.fault(at, at, "break", victim, lock=lock)
    story.fleet(at, "operator", lock=lock, action="break")
    if told is None:
        story.body("host-1", 1.0, 20.0, A, token=1)
    else:
        lost_body(story, "host-1", 1.0, told, told + 0.5, why="stolen")
    story.body("host-2", second, 22.0, A, token=2, asked=5.0)
    return ended(story)


def test_after_a_break_two_are_inside_until_the_next_renewal() -> None:
    verdict = broken_lease()
    assert (verdict.overlaps, len(verdict.caught), verdict.violations) == ((), 1, ())
    assert verdict.faults[0].excused == "1 overlap, 1 lost hold, 1 failed invocation"


@pytest.mark.parametrize(
    "break_",
    [
        pytest.param({"lock": B}, id="another lock"),
        pytest.param({"at": 30.0}, id="later"),
        pytest.param({"at": 0.5}, id="before it was acquired"),
        pytest.param({"second": 15.0, "told": 18.0, "at": 2.0}, id="long before"),
    ],
)
def test_a_break_excuses_its_own_lock_and_its_own_time_only(break_: dict[str, Any]) -> None:
    verdict = broken_lease(**break_)
    assert (len(verdict.overlaps), len(verdict.caught)) == (1, 0)


def test_a_break_excuses_no_overlap_that_began_before_it() -> None:
    story = fleet()
    story.fault(14.0, 14.0, "break", "host-1", lock=A)
    lost_body(story, "host-1", 1.0, 18.0, 18.5, why="stolen")
    story.body("host-2", 11.0, 22.0, A, token=2, asked=5.0)
    assert len(ended(story).overlaps) == 1


def test_a_holder_that_is_never_told_of_a_break_is_a_violation() -> None:
    story = fleet()
    story.fault(3.0, 3.0, "break", "host-1", lock=A)
    story.body("host-1", 1.0, 40.0, A, token=1)
    said = ended(story).violations
    assert "host-1 was not told for 37.0 s that the lease of ship.a was gone (fault 1)" in said


def test_a_holder_that_is_cut_off_after_a_break_is_told_at_its_deadline() -> None:
    def cut(host: str) -> Verdict:
        story = fleet()
        story.fault(3.0, 3.0, "break", "host-1", lock=A)
        story.fault(4.0, 30.0, "partition", host)
        lost_body(story, "host-1", 1.0, 18.5, 18.6)
        return ended(story)

    assert cut("host-1").holds
    assert any("was not told" in text for text in cut("host-2").violations)


def test_the_stale_token_of_a_broken_hold_is_refused_and_the_verdict_names_it() -> None:
    story = fleet()
    story.fault(10.0, 10.0, "break", "host-1", lock=A)
    owner = story.body("host-1", 1.0, 13.0, A, token=1, outcome="error")
    sees = {"token": 1}
    story.sight("host-1", 1.0, 13.0, invocation=owner, sees=sees, error="StaleToken")
    story.body("host-2", 11.0, 22.0, A, token=2, asked=5.0)
    verdict = ended(story)
    assert [overlap.refused for overlap in verdict.caught] == ["StaleToken"]
    assert "1 stale write refused by the token (StaleToken)" in verdict.notes
    assert verdict.to_dict()["caught"][0]["refused"] == "StaleToken"


def test_who_takes_a_lock_after_it_was_broken_is_excused_by_nothing() -> None:
    story = fleet()
    story.body("host-1", 5.0, 9.0, A, token=1)
    story.body("host-2", 9.1, 10.5, A, token=2)
    story.fault(10.0, 10.0, "break", "host-2", lock=A)
    story.body("host-1", 13.0, 20.0, A, token=3, asked=12.5)
    story.body("host-3", 15.0, 16.0, A, token=4, asked=9.5)
    assert len(ended(story).overlaps) == 1


def test_a_break_excuses_who_was_being_granted_the_lease_only_if_nobody_else_had_it() -> None:
    def granted(*, first_ends: float) -> Verdict:
        story = fleet()
        story.body("host-3", 5.0, first_ends, A, token=1)
        story.fault(10.0, 10.0, "break", "host-3", lock=A)
        story.body("host-1", 11.0, 20.0, A, token=2, asked=6.0)
        story.body("host-2", 15.0, 16.0, A, token=3, asked=14.0)
        return ended(story)

    assert (len(granted(first_ends=9.9).caught), len(granted(first_ends=9.9).overlaps)) == (1, 0)
    assert len(granted(first_ends=10.8).overlaps) == 1


def test_whose_host_was_cut_off_or_stood_still_may_not_have_been_the_one_whose_lease_was_broken() -> None:
    def granted(*, paused: bool) -> Verdict:
        story = fleet()
        for at, event in ((8.0, "pause"), (30.0, "resume")):
            story.add(at, "host-3" if paused else "host-2", event)
        story.fault(25.0, 25.0, "break", "host-3", lock=A)
        lost_body(story, "host-3", 5.0, 30.1, 30.2)
        story.body("host-1", 26.0, 31.0, A, token=2, asked=6.0)
        story.body("host-2", 28.0, 29.0, A, token=3, asked=27.0)
        return ended(story)

    assert granted(paused=True).overlaps == ()
    assert len(granted(paused=False).overlaps) > 0


def test_a_break_is_told_in_time_and_from_then_on_excuses_nothing() -> None:
    late = broken_lease(told=40.0)
    assert "1 invocation of 'ship' failed with LockLost, which nothing in this run caused" in late.violations
    story = fleet()
    story.fault(3.0, 3.0, "break", "host-1", lock=A)
    lost_body(story, "host-1", 1.0, 6.0, 15.0, why="stolen")
    story.body("host-2", 12.0, 13.0, A, token=2, asked=5.0)
    assert len(ended(story).overlaps) == 1


def test_a_break_excuses_the_worker_whose_lease_it_was_and_no_other() -> None:
    def overlap(worker: int) -> Verdict:
        story = fleet()
        story.body("host-1", 1.0, 4.0, A, token=1)
        story.fault(3.0, 3.0, "break", "host-1", lock=A)
        owner = story.body("host-1", 4.0, 9.0, A, token=2, asked=3.9)
        story.body("host-2", 6.0, 8.0, A, token=3, asked=5.0)
        for record in story.records:
            if record.get("owner") == owner:
                record.fields["worker"] = worker  # type: ignore[index]
        return ended(story)

    assert overlap(0).overlaps == ()
    assert len(overlap(2).overlaps) == 1


def test_a_break_of_one_slot_excuses_no_holder_of_another() -> None:
    def more_than_two(slot: str) -> Verdict:
        story = fleet(at_once=2, several=True)
        story.fault(10.0, 10.0, "break", "host-1", lock=f"{A}/{slot}")
        for number in (1, 2, 3):
            held = f"{A}/slot-{number if number < 3 else 1}"
            story.body(f"host-{number}", 9.0 + 2 * (number == 3), 14.0, held, token=number)
        return ended(story)

    assert (len(more_than_two("slot-1").overlaps), len(more_than_two("slot-1").caught)) == (0, 1)
    assert len(more_than_two("slot-7").overlaps) == 1


def stale_token(*, lock: str, at: float) -> Verdict:
    """Judge a hold that was handed on within its process after its lease was gone."""
    story = fleet()
    story.fault(at, at, "break", "host-1", lock=lock)
    story.body("host-1", 1.0, 10.5, A, token=1001)
    story.body("host-2", 11.0, 30.0, A, token=2001, asked=5.0)
    story.body("host-1", 12.0, 12.5, A, token=1002, asked=9.0)
    return ended(story)


def test_a_token_is_out_of_order_only_where_its_lease_was_broken() -> None:
    assert stale_token(lock=A, at=10.0).tokens.increasing
    assert not stale_token(lock=B, at=10.0).tokens.increasing
    assert not stale_token(lock=A, at=20.0).tokens.increasing


@pytest.mark.parametrize(
    ("lock", "at", "excused"), [(A, 9.0, True), (A, 3.0, False), (A, 13.0, False), (B, 9.0, False)]
)
def test_a_lease_may_be_broken_while_its_process_keeps_the_lock_without_a_body(
    lock: str, at: float, *, excused: bool
) -> None:
    """`host-1` hands the lock on when the time of ``at_least`` is over, as it does not know of the break yet."""
    story = fleet(at_least=8)
    story.fault(at, at, "break", "host-1", lock=lock, hits=0)
    story.body("host-1", 4.0, 4.5, A, token=1001)
    story.body("host-2", 10.0, 11.0, A, token=2001, asked=5.0)
    story.body("host-1", 12.0, 12.5, A, token=1002, asked=9.0)
    verdict = ended(story)
    assert verdict.tokens.increasing == excused
    assert any("at_least is 8 s" in text for text in verdict.violations) != excused


def test_a_process_that_got_another_lease_of_a_broken_lock_hands_on_the_one_that_it_believes_in() -> None:
    story = fleet()
    story.fault(5.0, 5.0, "break", "host-1", lock=A)
    for t, action, lease in ((0.9, "acquire", "one"), (8.0, "acquire", "two"), (8.1, "release", "two")):
        story.lease(t, "host-1", action, A, lease=lease, worker=0)
    story.body("host-1", 1.0, 10.0, A, token=1001)
    story.body("host-1", 10.0, 11.0, A, token=1002, asked=9.0)
    assert [got.lease for got in read_history(story.records).acquisitions] == ["one", "one"]


# --- what lies near a fault, and is not its work ----------------------------------------------------------------------


def test_a_break_excuses_no_overlap_that_began_shortly_before_it() -> None:
    assert len(broken_lease(at=12.0, second=11.0).overlaps) == 1


def test_a_break_excuses_no_overlap_under_a_lease_that_was_acquired_after_it() -> None:
    story = fleet()
    story.fault(10.0, 10.0, "break", "host-1", lock=A)
    story.body("host-1", 9.0, 10.2, A, token=1)
    story.body("host-1", 14.0, 17.0, A, token=2)
    story.body("host-2", 15.0, 16.0, A, token=3)
    verdict = ended(story)
    assert (len(verdict.overlaps), len(verdict.caught)) == (1, 0)


@pytest.mark.parametrize("token", [4, 5])
def test_after_a_break_the_token_of_who_waited_must_be_greater(token: int) -> None:
    story = fleet()
    story.fault(10.0, 10.0, "break", "host-1", lock=A)
    lost_body(story, "host-1", 9.0, 15.0, 15.5, why="broken", token=5)
    story.body("host-2", 11.0, 12.0, A, token=token, asked=6.0)
    verdict = ended(story)
    assert [(each.host, each.token) for each in verdict.tokens.regressions] == [("host-2", token)]


def heard_late(*, broken: bool) -> Verdict:
    """Judge a waiter that had the lease when it was broken, as the holder before it had been broken, too."""
    story = fleet()
    if broken:
        story.fault(6.0, 6.0, "break", "host-3", lock=A)
    story.fault(10.0, 10.0, "break", "host-3", lock=A)
    lost_body(story, "host-3", 1.0, 12.0, 12.5, why="stolen", token=1)
    story.body("host-1", 10.5, 11.2, A, token=1001, asked=3.0)
    story.body("host-2", 11.0, 11.6, A, token=2001, asked=10.9)
    return ended(story)


def test_who_had_the_lease_at_the_break_may_hear_of_it_shortly_after() -> None:
    assert heard_late(broken=True).violations == ()
    assert len(heard_late(broken=False).overlaps) == 1


def slept(start: float, end: float, *, told: float) -> Verdict:
    """Judge a body whose host stood still for a time, and the next holder beside it."""
    story = fleet(**{"async": False})
    story.fault(start, end, "pause", "host-1")
    story.add(start, "host-1", "pause")
    story.add(end, "host-1", "resume")
    lost_body(story, "host-1", 5.0, told, told + 0.5)
    story.body("host-2", 26.0, 29.0, A, token=2, asked=12.0)
    return ended(story)


def test_a_pause_excuses_an_overlap_if_it_outlasts_the_lease_and_the_body_is_told_as_its_host_wakes() -> None:
    assert len(slept(10.0, 30.0, told=30.5).caught) == 1
    assert len(slept(10.0, 30.0, told=50.0).overlaps) == 1
    assert len(slept(10.0, 11.0, told=30.5).overlaps) == 1


def test_a_pause_that_is_too_short_loses_no_hold() -> None:
    said = bare(slept(10.0, 11.0, told=13.0).violations)
    assert "1 invocation of 'ship' failed with LockLost, which nothing in this run caused" in said
    assert slept(10.0, 25.0, told=25.5).violations == ()


# --- messages ---------------------------------------------------------------------------------------------------------


def run_again(*faults: tuple[float, float, str, str], first_end: float = 6.0) -> Verdict:
    """Judge a message that was delivered again, to another host."""
    story = fleet()
    for start, end, kind, host in faults:
        story.fault(start, end, kind, host)
    story.sent(3.0, "m1")
    story.received(4.0, "host-1", "m1")
    story.body("host-1", 5.0, first_end, A, token=1, message="m1")
    story.received(24.0, "host-2", "m1", 2)
    story.body("host-2", 25.0, 26.0, B, token=1, message="m1")
    story.completed(26.1, "host-2", "m1")
    return ended(story)


@pytest.mark.parametrize("kind", NETWORK)
def test_a_message_runs_again_whose_deletion_a_fault_prevented(kind: str) -> None:
    verdict = run_again((5.5, 7.0, kind, "host-1"))
    assert verdict.violations == ()
    assert verdict.messages.duplicated == 1
    assert verdict.faults[0].excused == "1 repeated message"


@pytest.mark.parametrize("kind", NETWORK)
def test_a_message_runs_twice_at_once_if_its_host_could_not_renew_it(kind: str) -> None:
    assert run_again((5.5, 24.0, kind, "host-1"), first_end=30.0).violations == ()


@pytest.mark.parametrize(
    "faults",
    [
        pytest.param((), id="no fault"),
        pytest.param(((5.5, 7.0, "partition", "host-2"),), id="another host"),
        pytest.param(((15.0, 17.0, "partition", "host-1"),), id="later"),
        pytest.param(((5.5, 7.0, "duplicate", "host-1"),), id="duplicate"),
        pytest.param(((5.5, 5.5, "break", "host-1"),), id="break"),
    ],
)
def test_a_message_that_runs_again_without_such_a_fault_is_a_violation(
    faults: tuple[tuple[float, float, str, str], ...],
) -> None:
    assert "1 message ran twice although nobody had been killed" in run_again(*faults).violations


@pytest.mark.parametrize("kind", sorted(ALL))
def test_no_fault_excuses_a_message_that_is_lost_or_stuck(kind: str) -> None:
    def left(ids: list[str]) -> tuple[str, ...]:
        story = fleet()
        story.fault(2.0, 30.0, kind, "host-1", lock=A)
        story.sent(3.0, "m1")
        story.received(4.0, "host-1", "m1")
        story.body("host-1", 5.0, 6.0, A, token=1, message="m1", outcome="error")
        story.fleet(58.0, "queue_left", queue="orders", ready=len(ids), invisible=0, ids=ids)
        if not ids:
            story.completed(6.1, "host-1", "m1")
        return ended(story).violations

    assert any("lost: gone from the queue" in text for text in left([]))
    assert any("stuck: still in the queue" in text for text in left(["m1"]))


def poisoned(*faults: tuple[float, float, str, str]) -> tuple[str, ...]:
    story = Story(policy="skip", faults=["throttle"])
    for start, end, kind, host in faults:
        story.fault(start, end, kind, host)
    story.body("host-2", 0.5, 0.9, B)
    story.sent(1.0, "m1")
    story.received(1.5, "host-1", "m1")
    story.add(2.0, "host-1", "invocation_started", function="ship", invocation="call-1", message="m1")
    error = {"outcome": "error", "error": "StorageUnavailable: 503", "blames": "StorageUnavailable"}
    story.add(12.0, "host-1", "invocation_ended", function="ship", invocation="call-1", **error)
    story.add(12.1, "host-1", "message_poisoned", queue="orders", id="m1")
    return ended(story).violations


def test_a_message_is_poisoned_by_the_lock_only_if_a_fault_failed_its_invocations() -> None:
    assert poisoned((1.0, 11.0, "throttle", "host-1")) == ()
    for faults in ((), ((1.0, 11.0, "throttle", "host-2"),), ((20.0, 30.0, "throttle", "host-1"),)):
        said = "1 message poisoned from 'orders' by the lock's own failure (StorageUnavailable)"
        assert said in poisoned(*faults)


def two_copies(*faults: tuple[float, float, str, str]) -> Verdict:
    """Judge a message that was put back as one copy that was told, and another that nobody had sent."""
    story = Story(policy="defer", faults=["lose"])
    for start, end, kind, host in faults:
        story.fault(start, end, kind, host)
    story.sent(1.0, "m1")
    about = {"queue": "orders", "dequeue_count": 1, "function": "ship", "digest": "d"}
    story.add(2.0, "host-1", "message_received", id="m1", **about)
    story.add(2.0, "host-1", "invocation_started", function="ship", invocation="call-1", message="m1")
    story.lock(2.0, "host-1", "waiting", A, "call-1")
    story.lock(2.5, "host-1", "contended", A, "call-1", reason="defer")
    story.lock(2.5, "host-1", "deferred", A, "call-1", copy_id="c1")
    story.add(2.6, "host-1", "invocation_ended", function="ship", invocation="call-1", outcome="ok")
    story.body("host-2", 1.0, 3.0, A, token=1)
    for name, start in (("c1", 5.0), ("c2", 8.0)):
        story.add(4.5, "host-2", "message_received", id=name, **about)
        story.body("host-2", start, start + 1, A, token=int(start), message=name)
        story.completed(start + 1.1, "host-2", name)
    return ended(story)


def test_a_copy_may_be_there_twice_only_if_the_answer_to_it_was_lost() -> None:
    def says(*faults: tuple[float, float, str, str]) -> bool:
        return any("came that nobody had sent" in text for text in two_copies(*faults).violations)

    assert not says((2.0, 3.0, "lose", "host-1"))
    assert says()
    assert says((2.0, 3.0, "lose", "host-3"))
    assert says((2.0, 3.0, "duplicate", "host-1"))
    assert says((20.0, 23.0, "lose", "host-1"))


# --- kills, pauses, drains --------------------------------------------------------------------------------------------


def test_a_pause_explains_what_its_host_missed_while_it_stood_still() -> None:
    story = fleet(**{"async": False})
    story.fault(2.0, 20.0, "pause", "host-1")
    story.add(2.0, "host-1", "pause")
    story.add(20.0, "host-1", "resume")
    lost_body(story, "host-1", 1.0, 20.1, 20.5)
    story.body("host-2", 18.0, 19.0, A, token=2, asked=5.0)
    verdict = ended(story)
    assert verdict.violations == ()
    assert verdict.faults[0].excused == "1 overlap, 1 lost hold, 1 failed invocation"


@pytest.mark.parametrize(
    ("paused", "second", "told"),
    [
        pytest.param((2.0, 3.0), 18.0, 20.1, id="too short, and long ago"),
        pytest.param((16.5, 18.5), 18.0, 18.6, id="too short"),
        pytest.param((2.0, 20.0), 18.0, 30.0, id="told too late"),
    ],
)
def test_a_pause_explains_no_overlap_if_the_lease_can_not_have_ended_by_it_or_nobody_is_told(
    paused: tuple[float, float], second: float, told: float
) -> None:
    story = fleet(**{"async": False})
    for at, event in zip(paused, ("pause", "resume"), strict=True):
        story.add(at, "host-1", event)
    lost_body(story, "host-1", 1.0, told, told + 0.4)
    story.body("host-2", second, second + 1, A, token=2, asked=5.0)
    assert len(ended(story).overlaps) == 1


def test_a_short_pause_explains_no_lost_lock() -> None:
    story = fleet()
    story.add(10.0, "host-1", "pause")
    story.add(11.0, "host-1", "resume")
    lost_body(story, "host-1", 1.0, 18.0, 18.1)
    hold, invocation = ended(story).violations
    assert hold == (
        "1 hold of 'ship' lost (expired), which nothing in this run caused (the pause from second 10.0 to 11.0 does "
        "not explain it): the first on host-1 at 18.0 s, 17.0 s after its lease was last granted"
    )
    assert bare([invocation]) == ["1 invocation of 'ship' failed with LockLost, which nothing in this run caused"]


def test_who_was_killed_in_a_short_pause_could_not_have_lost_its_lease_by_it() -> None:
    assert len(never_woke(paused=(17.5, 20.0), killed=20.1).overlaps) == 1


def never_woke(*, paused: tuple[float, float], killed: float) -> Verdict:
    story = fleet()
    story.fault(paused[0], paused[1], "pause", "host-1")
    story.add(paused[0], "host-1", "pause")
    story.add(paused[1], "host-1", "resume")
    story.body("host-1", 1.0, None, A, token=1)
    story.kill(killed, "host-1", A)
    story.body("host-2", 18.0, 30.0, A, token=2, asked=5.0)
    return ended(story)


def test_a_host_that_was_killed_while_it_stood_still_past_its_lease_can_not_be_told() -> None:
    assert len(never_woke(paused=(2.0, 25.0), killed=25.1).caught) == 1
    assert len(never_woke(paused=(2.0, 20.0), killed=25.0).overlaps) == 1
    assert len(never_woke(paused=(20.0, 25.0), killed=25.1).overlaps) == 1


def drained(*, asked: bool, freed: float) -> Verdict:
    """Judge a host that ended, and whose lock was acquired by another some time after."""
    story = fleet()
    if asked:
        story.fault(3.0, 13.0, "drain", "host-1")
        story.add(3.0, "host-1", "host_draining", holds=[])
    story.sent(0.8, "m1")
    story.received(0.9, "host-1", "m1")
    story.body("host-1", 1.0, None, A, token=1, message="m1")
    story.add(13.0, "host-1", "host_exited", code=0, expected=asked)
    story.received(25.0, "host-2", "m1", 2)
    story.body("host-2", freed, freed + 1, A, token=2, asked=25.1, message="m1")
    story.completed(freed + 1.1, "host-2", "m1")
    return ended(story)


def test_a_drained_host_is_cut_as_by_a_kill_and_its_lock_is_free_a_lease_later() -> None:
    verdict = drained(asked=True, freed=28.5)
    assert verdict.violations == ()
    assert verdict.hosts[0].ended == "drained"
    assert verdict.faults[0].excused == "1 body cut, 1 repeated message"


def test_a_host_that_ends_without_being_asked_and_a_lock_that_is_late_are_violations() -> None:
    (said, *_) = drained(asked=False, freed=28.5).reasons
    assert said == "somebody outside this run ended host-1 (by SIGTERM or SIGINT): what followed is not ours"
    assert any("was free for" in text for text in drained(asked=True, freed=45.0).violations)


def test_a_nemesis_may_kill_a_host_that_holds_nothing() -> None:
    story = fleet()
    story.fault(3.0, 3.0, "kill", "host-3")
    story.kill(3.0, "host-3")
    story.body("host-1", 1.0, 2.0, A)
    assert ended(story).holds


def taken_over(*faults: tuple[float, float, str, str], at: float = 44.0) -> Verdict:
    """Judge a failover that took 40 seconds, or as told; 20 are the bound."""
    story = fleet()
    for start, end, kind, host in faults:
        story.fault(start, end, kind, host)
    story.body("host-1", 1.0, None, A, token=1)
    story.kill(4.0, "host-1", A)
    story.body("host-2", at, at + 1, A, token=2, asked=3.0)
    return ended(story)


def test_a_take_over_may_be_late_only_if_a_fault_hit_who_waited_for_it() -> None:
    assert taken_over((10.0, 30.0, "partition", "host-2")).violations == ()
    for faults in ((), ((10.0, 30.0, "partition", "host-3"),), ((50.0, 55.0, "partition", "host-2"),)):
        assert any("was taken over after 40.0 s" in text for text in taken_over(*faults).violations)


def test_the_bound_of_a_take_over_grows_by_the_time_for_which_its_waiter_was_refused() -> None:
    assert taken_over((18.0, 24.0, "throttle", "host-2"), at=30.0).violations == ()
    for faults in ((), ((18.0, 24.0, "throttle", "host-3"),), ((10.0, 11.0, "throttle", "host-2"),)):
        assert any("was taken over after 26.0 s" in text for text in taken_over(*faults, at=30.0).violations)


def ticked(*faults: tuple[float, float, str, str]) -> tuple[str, ...]:
    """Judge a timer's lock that nobody took after a kill, though a host ticked before the victim's lease had ended."""
    story = fleet()
    for start, end, kind, host in faults:
        story.fault(start, end, kind, host)
    story.body("host-1", 1.0, None, TIMER, token=1)
    story.kill(4.0, "host-1", TIMER)
    story.add(10.0, "host-2", "tick", function="import_eligibility")
    story.skip("host-2", 10.0)
    return ended(story).violations


def test_a_tick_that_could_not_ask_takes_nothing_over() -> None:
    assert not any("taken over" in text for text in ticked((19.0, 25.0, "partition", "host-2")))
    assert any("was never taken over" in text for text in ticked((19.0, 25.0, "partition", "host-3")))


def test_a_host_that_was_started_again_does_not_stand_for_one_that_was_never_ready() -> None:
    story = Story(hosts=2, faults=["kill"])
    for record in story.records:
        if record.event == "run_started":
            record.fields.update(hosts=3)  # type: ignore[attr-defined]
    story.body("host-1", 1.0, 2.0, A, token=1)
    story.kill(3.0, "host-2")
    story.add(4.0, "host-2.2", "host_restarted", after="host-2")
    story.add(5.0, "host-2.2", "host_ready")
    assert ended(story).reasons == ("only 2 of 3 hosts became ready",)


def test_a_nemesis_need_not_show_the_failover_of_each_kill() -> None:
    def killed(**setup: Any) -> Verdict:
        story = Story(**setup)
        story.fault(3.0, 3.0, "kill", "host-1")
        story.body("host-1", 1.0, None, A, token=1)
        story.kill(3.0, "host-1", A)
        return ended(story)

    assert killed(faults=["kill"]).holds
    assert killed().reasons == (
        "ship.a, which host-1 held when it was killed, was not asked for again: its failover is not measured",
    )


# --- after the faults -------------------------------------------------------------------------------------------------


def quiet_after(tell: Callable[[Story], None], *, healed: float | None = 10.0) -> Verdict:
    story = fleet()
    story.fault(5.0, 9.0, "partition", "host-2")
    story.body("host-1", 1.0, 2.0, A)
    if healed is not None:
        story.fleet(healed, "healed")
    tell(story)
    return judge(story.end(200.0))


def ticks(story: Story, *hosts: str) -> None:
    for host in hosts:
        story.add(20.0, host, "tick", function="import_eligibility")


def test_every_timer_ticks_on_every_host_after_the_faults() -> None:
    assert quiet_after(lambda story: ticks(story, "host-1", "host-2", "host-3")).holds

    def stopped(story: Story) -> None:
        ticks(story, "host-1", "host-3")
        story.add(30.0, "host-2", "host_stopping")

    assert quiet_after(stopped).holds
    said = quiet_after(lambda story: ticks(story, "host-1", "host-3")).violations
    assert said == ("the timer 'import_eligibility' did not tick on host-2 in the 190 s after all faults were over",)


def test_a_timer_need_not_tick_after_the_run_has_ended_its_ticks() -> None:
    def soon(story: Story) -> None:
        story.fleet(30.0, "ticks_ended")

    def late(story: Story) -> None:
        story.fleet(100.0, "ticks_ended")

    assert quiet_after(soon).holds
    said = quiet_after(late).violations
    assert "the timer 'import_eligibility' did not tick on host-2 in the 90 s after all faults were over" in said


def test_every_queue_is_polled_again_after_the_faults() -> None:
    def polled(story: Story, *, again: bool) -> None:
        ticks(story, "host-1", "host-2", "host-3")
        story.add(6.0, "host-2", "queue_unreachable", queue="orders", reason="no answer")
        if again:
            story.add(12.0, "host-2", "queue_reached", queue="orders")

    assert quiet_after(lambda story: polled(story, again=True)).holds
    said = quiet_after(lambda story: polled(story, again=False)).violations
    assert said == ("host-2 could not poll 'orders' for 190 s after all faults were over",)
    assert quiet_after(lambda story: polled(story, again=False), healed=190.0).holds


def test_who_waits_acquires_after_the_faults() -> None:
    def waits(story: Story, busy: float) -> None:
        ticks(story, "host-1", "host-2", "host-3")
        story.body("host-1", 3.0, 3.0 + busy, B, token=1)
        story.body("host-2", 3.0 + busy, 199.0, B, token=2, asked=2.9)
        story.body("host-3", 199.0, 199.5, B, token=3, asked=12.0)

    assert quiet_after(lambda story: waits(story, 150.0)).holds

    def starves(story: Story) -> None:
        ticks(story, "host-1", "host-2", "host-3")
        for number, start in enumerate(range(12, 190, 16), 1):  # each hold is cut by a worker's end, and lapses
            story.lock(start, "host-1", "acquired", B, f"call-{number}", token=number)
            story.lock(start + 1, "host-1", "released", B, f"call-{number}")
        story.body("host-3", 199.0, 199.5, B, token=30, asked=12.0)

    said = quiet_after(starves).violations
    assert "host-3 waited for ship.b for 187 s after all faults were over" in said


def test_faults_that_were_not_undone_prove_nothing() -> None:
    verdict = quiet_after(lambda story: ticks(story, "host-1", "host-2", "host-3"), healed=None)
    assert verdict.reasons == ("the faults were not undone before the run ended: nobody had to get on",)


def test_faults_that_were_asked_for_and_did_not_strike_prove_nothing() -> None:
    story = Story(faults=["kill", "pause"])
    story.body("host-1", 1.0, 2.0, A)
    story.fleet(10.0, "healed")
    assert judge(story.end(20.0)).reasons == ("2 kinds of faults asked for, and no fault struck",)


def test_kinds_that_did_not_strike_are_named() -> None:
    story = Story(faults=["kill", "pause", "duplicate"])
    story.body("host-1", 1.0, 2.0, A)
    assert "asked for, but none struck: kill, pause" in ended(story).notes


# --- the statements ---------------------------------------------------------------------------------------------------


def test_each_kind_has_a_statement() -> None:
    assert EFFECTS.keys() == KINDS.keys() == set(ALL)
    assert effects_of("unknown") is UNKNOWN


def test_the_docs_say_what_each_kind_excuses_in_the_same_words() -> None:
    page = (Path(__file__).parents[4] / "docs" / "how-to" / "faults.md").read_text("utf-8")
    for kind in ALL:
        assert f"| `{kind}` | {effects_of(kind).may} | {effects_of(kind).still} |" in page


def test_the_verdict_has_a_report_of_each_fault() -> None:
    story = fleet()
    about = {"aim": "holder", "meant": "renewal"}
    story.fault(3.0, 9.5, "delay", "host-2", lock=TIMER, what="host-2 is late", hits=4, **about)
    story.fault(4.0, None, "break", "host-1", lock=A, what="an operator")
    story.body("host-1", 1.0, 2.0, B)
    first, second = ended(story).to_dict()["faults"]
    assert first == {
        "id": 1,
        "kind": "delay",
        "at": 3.0,
        "seconds": 6.5,
        "hosts": ["host-2"],
        "lock": TIMER,
        "aim": "holder",
        "meant": "renewal",
        "what": "host-2 is late",
        "hits": 4,
        "excused": "",
    }
    assert (second["seconds"], second["kind"]) == (None, "break")
    assert (second["aim"], second["meant"]) == ("holder", "holder")


def test_holds_without_an_owners_name_end_though_the_next_is_told_before() -> None:
    story = Story(faults=["break"])
    for t, kind, token in ((1, "acquired", 1), (2, "acquired", 2), (2.01, "released", 1), (3, "released", 2)):
        story.lock(t, "host-1", kind, key_lock("a"), "", token=token)
    story.fault(20, 20.1, "break", "host-1", lock=key_lock("a"))
    assert not any("was not told" in text for text in judge(story.end(60)).violations)
