"""The locks of lock clients are judged as those of guards."""

from __future__ import annotations

import math
from typing import Any

import pytest

from simulator.checks.verdict import judge
from simulator.history.deeds import inside
from tests.support.journals import Story, key_lock


class Sections(Story):
    """A run whose functions take locks of lock clients."""

    def __init__(self) -> None:
        super().__init__(container="locks")

    def stay(
        self,
        host: str,
        start: float,
        end: float | None,
        name: str = "stock",
        *,
        token: int | None = 1,
        got: str = "",
        lease: tuple[float, float] | None = None,
        lost: tuple[float, str] | None = None,
        seen: bool = False,
        leaving: float | None = None,
        saw: bool | None = None,
        **asked: Any,
    ) -> None:
        """Tell of a block.

        ``lease``: when its lease was granted and given back, if not with the block. ``seen``: at its end user code
        could see its loss, whether the lock had said so or not.
        """
        number, got = str(next(self._numbers)), got or name
        of_lease = {
            "blob": f"/{asked.get('where', 'account/locks')}/{got}",
            "lease": number,
            "status": 200,
            "took": 0.0,
            "worker": 1,
        }
        granted, released = lease or (start, math.inf if end is None or lost else end)
        self.add(granted, host, "lease_request", action="acquire", period=15, **of_lease)
        told = {"number": number, "worker": 1}
        facts = {"lease": 15, "name": name, "got": got, "token": token, "where": "account/locks", **asked}
        self.add(start, host, "client_lock", kind="entered", **told, **facts)
        if lost is not None:
            self.add(lost[0], host, "client_lock", kind="lost", reason=lost[1], **told)
        if leaving is not None:
            self.add(leaving, host, "client_lock", kind="leaving", saw=saw, **told)
        if end is not None:
            self.add(end, host, "client_lock", kind="left", lost=seen, **told)
        if released < math.inf:
            self.add(released, host, "lease_request", action="release", **of_lease)

    def ask(self, host: str, t: float, end: float, kind: str = "refused", name: str = "stock", **asked: Any) -> None:
        """Tell of a request in vain."""
        told = {"number": str(next(self._numbers)), "worker": 1}
        facts = {"lease": 15, "name": name, "where": "account/locks", **asked}
        self.add(t, host, "client_lock", kind="asked", **told, **facts)
        blob, refused = f"/account/locks/{name}", {"status": 409, "code": "LeaseAlreadyPresent"}
        for sent in (t, max(t, end - 0.5)):
            about = {"action": "acquire", "period": 15, "lease": told["number"], "took": 0.0, "worker": 1}
            self.add(sent, host, "lease_request", blob=blob, **refused, **about)
        self.add(end, host, "client_lock", kind=kind, **told)

    def says(self) -> list[str]:
        """Return what is wrong with locks of lock clients."""
        return [*judge(self.records).violations]


def test_blocks_one_after_the_other_are_right() -> None:
    run = Sections()
    run.stay("host-1", 1, 3, token=1)
    run.stay("host-2", 3, 5, token=2)
    run.stay("host-3", 1, 9, "other", token=1)
    assert run.says() == []
    assert not any("lock clients" in text for text in judge(run.records).untried)
    (check,) = (each for each in judge(run.records).checks if each.name == "overlaps")
    assert check.looked_at == {"guarded bodies": 3, "locks": 2, "of them under locks of lock clients": 3}


def test_two_blocks_of_one_lock_at_once_are_found() -> None:
    run = Sections()
    run.stay("host-1", 1, 4, token=1)
    run.stay("host-2", 3, 5, token=2)
    (text,) = run.says()
    assert text.startswith("1 overlap: two bodies of one lock ran at the same time; the longest for 1.00")
    assert text.endswith("of stock, on host-1 and host-2")


def test_locks_of_two_containers_are_two() -> None:
    run = Sections()
    run.stay("host-1", 1, 4, token=1)
    run.stay("host-2", 3, 5, token=1, where="account/others", got="stock")
    assert run.says() == []


def test_a_semaphore_lets_in_as_many_as_it_says() -> None:
    run = Sections()
    run.stay("host-1", 1, 4, "printers", got="printers/slot-0", token=8, limit=2)
    run.stay("host-2", 2, 5, "printers", got="printers/slot-1", token=3, limit=2)
    assert run.says() == []
    run.stay("host-3", 3, 6, "printers", got="printers/slot-2", token=1, limit=2)
    (text,) = run.says()
    assert "more than 2 bodies of one semaphore" in text


def test_a_lock_and_a_semaphore_of_one_name_are_two() -> None:
    run = Sections()
    run.stay("host-1", 1, 4, token=1)
    run.stay("host-2", 2, 5, token=1, got="stock/slot-0", limit=1)
    assert run.says() == []


def test_a_block_that_begins_after_its_lease_is_found() -> None:
    run = Sections()
    run.stay("host-1", 2, 3, lease=(1, 1.5))
    assert any("body went on after the lease was given back" in text for text in run.says())


def test_a_block_under_another_lease_is_found() -> None:
    run = Sections()
    run.stay("host-1", 2, 3, got="stack")
    (text,) = run.says()
    assert text.startswith("another blob was asked for, 1 time for 'stock (lock client)': the first time")


def test_a_block_beyond_its_lease_is_found() -> None:
    run = Sections()
    run.stay("host-1", 2, 6, lease=(2, 4))
    assert run.says() == ["1 body went on after the lease was given back: the first of stock, on host-1 at 2.0 s"]


@pytest.mark.parametrize(("told", "overlaps"), [(40.01, 0), (42.0, 1), (math.inf, 1)])
def test_a_block_that_its_body_leaves_as_its_host_wakes_is_told_of_its_loss_a_moment_later(
    told: float, overlaps: int
) -> None:
    run = Sections()
    run.stay("host-1", 1, None, leaving=40.0, token=1)
    number = run.records[-1].text("number")
    run.add(2, "host-1", "pause")
    run.add(39.9, "host-1", "resume")
    run.stay("host-2", 17, 18, token=2)
    run.add(told, "host-1", "client_lock", kind="lost", number=number, reason="expired", worker=1)
    assert len(judge(run.end(50)).overlaps) == overlaps


def test_tokens_go_up() -> None:
    run = Sections()
    run.stay("host-1", 1, 3, token=2)
    run.stay("host-2", 3, 5, token=1)
    (text,) = run.says()
    assert text.startswith("1 fencing token out of order; the first on stock: host-2 got 1")


@pytest.mark.parametrize("at", [2.5, 9.0])
def test_a_token_may_come_again_after_user_code_has_replaced_the_blob(at: float) -> None:
    run = Sections()
    run.stay("host-1", 1, 2, token=2)
    run.ask("host-3", 1.2, 1.4, timeout=0, how="try_lock")
    run.add(at, "host-2", "blob_replaced", blob="/account/locks/stock", action="replaced")
    run.stay("host-2", 3, 5, token=2)
    assert any("out of order" in text for text in run.says()) == (at > 3)


def test_a_loss_needs_a_cause() -> None:
    run = Sections()
    run.stay("host-1", 1, 9, lost=(4, "expired"))
    early, text = run.says()
    assert early.startswith("host-1 was told that the lease of stock had expired, 11.0 s before its deadline")
    assert text.startswith("1 hold of 'stock (lock client)' lost (expired), which nothing in this run caused")


def test_user_code_that_breaks_its_lock_is_a_cause_and_said() -> None:
    run = Sections()
    run.stay("host-1", 1, 9, token=1, lost=(6, "gone"))
    run.add(4, "host-2", "operator", action="break", lock="stock", path="account/locks/stock")
    run.stay("host-2", 5, 8, token=2)
    assert run.says() == []
    notes = judge(run.records).notes
    assert "user code on host-2 asked to break the lease of stock, after second 4.0: that is not judged" in notes


def test_a_block_that_ends_as_its_host_wakes_is_no_overlap() -> None:
    run = Sections()
    run.stay("host-1", 1, None, token=1)
    number = str(next(run._numbers) - 1)
    run.add(2, "host-1", "pause")
    run.add(40, "host-1", "resume")
    for t, told in (
        (40.1, {"kind": "leaving"}),
        (40.2, {"kind": "lost", "reason": "expired"}),
        (40.3, {"kind": "left"}),
    ):
        run.add(t, "host-1", "client_lock", number=number, worker=1, lost=True, **told)
    run.stay("host-2", 18, 24, token=2)
    run.fleet(70, "run_ended")
    assert run.says() == []


@pytest.mark.parametrize("end", [60, None])
def test_a_host_that_slept_past_its_lease_is_no_overlap(end: float | None) -> None:
    run = Sections()
    run.stay("host-1", 1, end, token=1, lost=(40, "expired"))
    run.add(2, "host-1", "pause")
    run.add(40, "host-1", "resume")
    run.stay("host-2", 18, 24, token=2)
    run.fleet(70, "run_ended")
    assert run.says() == []


@pytest.mark.parametrize(("seen", "said"), [(True, 0), (False, 2)])
def test_a_host_that_slept_past_its_lease_has_no_slot_of_a_semaphore_beside_others(said: int, *, seen: bool) -> None:
    run = Sections()
    run.stay("host-1", 1, 40.1, limit=2, got="stock/slot-0", seen=seen)
    run.add(2, "host-1", "pause")
    run.add(40, "host-1", "resume")
    run.stay("host-2", 18, 26, limit=2, got="stock/slot-0")
    run.stay("host-3", 19, 22, limit=2, got="stock/slot-1")
    run.stay("host-3", 23, 25, limit=2, got="stock/slot-1")
    run.fleet(70, "run_ended")
    assert len(judge(run.records).overlaps) == said


@pytest.mark.parametrize(("how", "until", "found"), [("lock_all", 18.2, 0), ("lock_all", 4, 2), ("lock", 18.2, 2)])
def test_a_set_gives_its_locks_back_one_after_the_other_while_the_storage_does_not_answer(
    how: str, until: float, found: int
) -> None:
    run = Sections()
    run.fault(3, until, "lose", "host-1", hits=9)
    for name in ("a", "b"):
        run.stay("host-1", 1, 18.2, name, lease=(1, 18.2), how=how, leaving=10)
    assert sum("after its body had ended" in text for text in judge(run.end(70)).violations) == found


def test_the_report_says_which_leader_ended_late() -> None:
    run = Sections()
    run.fault(3.0, 18.0, "partition", "host-1")
    run.stay("host-1", 1, 25, "poller", token=1, how="leadership", lease=(1, 99), lost=(15, "expired"), seen=True)
    run.stay("host-2", 17, 30, "poller", token=2, how="leadership")
    said = "1 lost leadership ended late: host-1 was told at 15.0 s that poller was lost, and went on for 8.0 s beside"
    assert f"{said} host-2, the next holder" in judge(run.records).notes


@pytest.mark.parametrize("called", [True, False])
def test_a_body_that_has_lost_its_lock_may_clean_up_under_another_in_a_block(*, called: bool) -> None:
    run = Sections()
    run.add(0.9, "host-1", "invocation_started", function="ship", invocation="call")
    for t, kind in ((1, "waiting"), (1, "acquired"), (1, "body_started"), (5, "lost"), (20, "body_ended")):
        run.lock(t, "host-1", kind, key_lock("a"), "call", reason="lost")
    run.stay("host-1", 15, 18, invocation="call", called=called)
    said = "'stock (lock client, decorator)' began inside 'ship' on host-1, 10.0 s after the lock of 'ship' was lost"
    assert [said in text for text in run.says() if "inside 'ship'" in text] == [True] * called


@pytest.mark.parametrize(("within", "found"), [(True, 1), (False, 0)])
def test_no_guarded_helper_begins_in_a_lost_block_around_its_call(*, within: bool, found: int) -> None:
    run = Sections()
    run.add(0.9, "host-1", "invocation_started", function="ship", invocation="call")
    run.stay("host-1", 1, 20, invocation="call", max_hold=4.0, lost=(5, "too long"))
    number = run.records[-1].text("number")
    for t, kind in ((15, "waiting"), (15, "acquired"), (15, "body_started"), (18, "body_ended"), (18, "released")):
        around = {"within": [number]} if within else {}
        run.lock(t, "host-1", kind, key_lock("b"), inside("call", "book"), function="book", reason="ok", **around)
    said = "'book' began inside 'stock (lock client, max_hold=4)' on host-1, 10.0 s after"
    assert sum(said in text for text in run.says()) == found


@pytest.mark.parametrize(("saw", "end", "found"), [(False, 20, 1), (True, 20, 0), (None, 20, 0), (False, 5.5, 0)])
@pytest.mark.parametrize("around", ["guard", "block", "itself"])
def test_the_body_of_a_decorated_function_sees_the_loss_of_its_lock_and_of_each_around_it(
    around: str, end: float, found: int, *, saw: bool | None
) -> None:
    run, within = Sections(), list[str]()
    run.add(0.5, "host-1", "invocation_started", function="ship", invocation="call")
    if around == "guard":
        for t, kind in ((0.6, "waiting"), (0.7, "acquired"), (0.8, "body_started"), (5, "lost"), (30, "body_ended")):
            run.lock(t, "host-1", kind, key_lock("b"), "call", function="ship", reason="too long")
    elif around == "block":
        run.stay("host-1", 0.6, 30, "books", lost=(5, "too long"), invocation="call")
        within = [run.records[-1].text("number")]
    lost = (5.0, "too long") if around == "itself" else None
    run.stay("host-1", 1, end, leaving=end, saw=saw, within=within, lost=lost, invocation="call", called=True)
    said = "1 body of 'stock (lock client, decorator)' could not see that the lock was lost"
    assert judge(run.end(70)).violations.count(said) == found


def test_options_of_one_block_are_not_those_of_another() -> None:
    run = Sections()
    run.stay("host-1", 1, 5, token=1, max_hold=2.0, lost=(3, "too long"), lease=(1, 5))
    run.stay("host-1", 20, 28, token=2)
    assert run.says() == []


def test_a_function_without_a_guard_is_judged_by_its_locks() -> None:
    run = Sections()
    run.add(0.9, "host-1", "invocation_started", function="reserve", invocation="call")
    run.stay("host-1", 1, 3, invocation="call")
    run.add(3.1, "host-1", "invocation_ended", function="reserve", invocation="call", outcome="ok")
    assert judge(run.records).inside == {"reserve": ("locks of lock clients",)}


@pytest.mark.parametrize(
    ("asked", "end", "says"),
    [
        ({}, 40.0, "stock was free for 31.9 s while host-2 waited for it"),
        ({"timeout": 30.0}, 14.0, "gave up after 11.0 s, though timeout=30"),
        ({"timeout": 2.0}, 11.0, "waited for 8.0 s for its lock, despite on_contention='wait', timeout=2"),
        ({"timeout": 0.0, "how": "try_lock"}, 3.1, ""),
        ({"timeout": 5.0}, 8.0, ""),
        ({"timeout": 5.0, "name": "other"}, 8.0, "found the lock taken, and nobody had it"),
    ],
)
def test_requests_in_vain_are_judged_as_those_of_invocations(asked: dict[str, Any], end: float, says: str) -> None:
    run = Sections()
    run.stay("host-1", 1, 8.1)
    run.ask("host-2", 3, end, **asked)
    run.fleet(60, "run_ended")
    assert any(says in text for text in run.says()) if says else run.says() == []


def test_a_client_that_takes_the_lock_of_a_guard_is_beside_it() -> None:
    run = Sections()
    run.body("host-1", 1, 5, "ship", token=1)
    run.stay("host-2", 5, 6, "ship", token=2)
    assert run.says() == []
    run.stay("host-2", 3, 4, "ship", token=3)
    assert any("two bodies of one lock ran at the same time" in text for text in run.says())


def test_a_run_without_guards_has_counts_and_holds() -> None:
    run = Sections()
    run.records = [record for record in run.records if record.event != "function"]
    run.stay("host-1", 1, 4, token=1)
    run.ask("host-2", 2, 4, timeout=2.0)
    verdict = judge(run.records)
    assert verdict.reasons == ()
    assert (verdict.sections, verdict.locks, verdict.exercised.refusals) == (1, 1, 1)


def test_a_block_that_hides_its_loss_is_found() -> None:
    run = Sections()
    run.add(3, "host-1", "altered", kind="hushed", function="stock", invocation="")
    (text,) = run.says()
    assert text.startswith("1 invocation of 'stock' left a block without LockLost, though its hold was lost")


@pytest.mark.parametrize(("stood", "seconds", "found"), [(0, 1.5, 0), (0, 2.5, 1), (1, 2.5, 0)])
def test_a_block_whose_task_was_not_cancelled_in_time_is_found(stood: int, seconds: float, found: int) -> None:
    run = Sections()
    run.add(5, "host-1", "machine_slow", measures=[[1.0, 0.9]] * stood)
    told = {"kind": "uncancelled", "function": "stock", "invocation": ""}
    run.add(5.5, "host-1", "altered", seconds=seconds, **told)
    assert [text for text in run.says() if "nobody cancelled its task" in text] == run.says()
    assert len(run.says()) == found


def _use(run: Story, host: str, t: float, what: str, place: int, **how: Any) -> None:
    number = str(next(run._numbers))
    run.add(
        t, host, "pattern_asked", number=number, of="rows", what=what, name="orders", key="[1]", place=place, keep=9
    )
    run.add(t + 0.1, host, "pattern_answered", number=number, **how)


@pytest.mark.parametrize(
    ("uses", "says"),
    [
        ([(1, "claim", 1), (2, "done", 1), (3, "claim", 2)], ""),
        ([(1, "claim", 1), (11, "claim", 2)], ""),
        ([(1, "claim", 1), (1, "claim", 1)], "had several claimers at a time: the first row [1] by host-1 and host-2"),
        ([(1, "claim", 1), (3, "claim", 2)], "had several claimers at a time"),
        ([(1, "claim", 1), (9, "renew", 1), (12, "claim", 2)], "had several claimers at a time"),
        ([(1, "claim", 1), (11, "claim", 2), (12, "done", 1)], "was not refused, though another had claimed"),
    ],
)
def test_a_row_has_one_claimer_at_a_time(uses: list[tuple[float, str, int]], says: str) -> None:
    run = Story()
    for number, (t, what, place) in enumerate(uses, start=1):
        _use(run, f"host-{number}", t, what, place)
    told = judge(run.records).violations
    assert any(says in text for text in told) if says else told == ()


def test_a_stale_claim_that_is_refused_is_right() -> None:
    run = Story()
    _use(run, "host-1", 1, "claim", 1)
    _use(run, "host-2", 11, "claim", 2)
    _use(run, "host-1", 12, "done", 1, error="StaleClaim")
    assert judge(run.records).violations == ()


@pytest.mark.parametrize(
    ("asks", "over", "quiet"),
    [
        ([6, 11, 16, 21, 26, 31, 36, 41], None, ""),  # at each tick
        ([6, 11, 16], 20, ""),  # somebody ends it
        ([6, 11, 16], None, "'cleanup (lock client, every=5)' on host-1 sent no request for its lock for 24.0 s"),
        ([], None, "sent no request for its lock for 39.0 s"),
    ],
)
def test_who_asks_again_and_again_does_so_until_somebody_ends_it(
    asks: list[float], over: float | None, quiet: str
) -> None:
    run = Sections()
    told = {"number": "begun", "worker": 1}
    facts = {"name": "cleanup", "how": "periodic", "every": 5, "lease": 15, "poll": 5, "where": "account/locks"}
    run.add(1, "host-1", "client_lock", kind="begun", **told, **facts)
    run.stay("host-1", 1, 1.5)
    for t in asks:
        refused = {"status": 409, "code": "LeaseAlreadyPresent", "lease": "x", "took": 0.0, "worker": 1}
        run.add(t, "host-1", "lease_request", action="acquire", blob="/account/locks/cleanup", period=15, **refused)
    if over:
        run.add(over, "host-1", "client_lock", kind="over", **told)
    found = [text for text in judge(run.end(40)).violations if "sent no request" in text]
    assert [quiet in text for text in found] == [True] * bool(quiet)


@pytest.mark.parametrize("ends", [18, 40])
def test_with_failover_reads_of_the_lock_tell_that_somebody_asks(ends: int) -> None:
    run = Sections()
    facts = {"name": "poller", "how": "leadership", "every": 15, "lease": 15, "poll": 15, "where": "account/locks"}
    run.add(1, "host-1", "client_lock", kind="begun", number="begun", worker=1, failover=3, **facts)
    run.stay("host-1", 1, 1.5)
    for t in range(2, ends, 2):
        run.add(t, "host-1", "storage_calls", worker=1, pid=1, blobs={"/account/locks/poller": {"look at a blob": t}})
    assert any("sent no request" in text for text in judge(run.end(40)).violations) == (ends == 18)


@pytest.mark.parametrize(
    ("function", "name", "expected", "kind", "said"),
    [
        ("ship", "locks/shared/ship.a", "locks/shared/ship.a", "note", ""),
        ("ship", "locks/shared/ship.b", "locks/shared/ship.a", "violation", "and the guard's lock is 'locks/shared/sh"),
        ("shp", "locks/shared/shp", "locks/shared/shp", "note", "lock_name was asked for 'shp', and no function of th"),
        ("ship", "locks/shared/ship", "locks/shared/ship", "note", "a lock client had ship by lock_name, and no invoc"),
        ("", "locks/shared/a", "locks/shared/~a", "violation", "lock_name gave 'locks/shared/a' for level='host', and"),
        ("", "locks/shared/~a", "locks/shared/~a", "note", "had ~a by lock_name, and no invocation of level='host'"),
    ],
)
def test_a_name_that_excludes_no_guard_is_told(function: str, name: str, expected: str, kind: str, said: str) -> None:
    run = Sections()
    run.body("host-1", 1, 2, key_lock("a"), owner="call")
    run.add(1, "host-1", "expected", invocation="call", keys={}, blobs={"function": "locks/locks/shared/ship.a"})
    run.add(3, "host-1", "lock_named", function=function, name=name, expected=expected)
    run.stay("host-1", 4, 5, name)
    told = judge(run.records)
    found = [text for text in (told.violations if kind == "violation" else told.notes) if "lock_name" in text]
    assert [said in text for text in found] == [True] * bool(said)


@pytest.mark.parametrize(
    ("works", "made_up"),
    [
        ([(1, 8), (11, 12), (16, 17)], False),
        ([(1, 8), (8.2, 9), (13.2, 14)], False),
        ([(1, 8), (8.1, 9), (9.1, 10)], True),
    ],
)
def test_a_tick_that_falls_into_running_work_is_left_out(works: list[tuple[float, float]], made_up: bool) -> None:
    run = Sections()
    facts: dict[str, Any] = {"how": "periodic", "every": 5, "poll": 5}
    told = {"number": "begun", "worker": 1, "name": "cleanup", "lease": 15, "where": "account/locks"}
    run.add(1, "host-1", "client_lock", kind="begun", **told, **facts)
    for token, (start, end) in enumerate(works, 1):
        run.stay("host-1", start, end, "cleanup", token=token, **facts)
    run.add(12, "host-1", "client_lock", kind="over", **told)
    assert any("made up for ticks" in text for text in judge(run.end(40)).violations) == made_up


@pytest.mark.parametrize(("ago", "wrong"), [(2.0, ""), (4.9, ""), (2000.0, "held for 2000 s on host-2 at 3.0 s, and")])
def test_a_client_tells_since_when_a_lock_is_held(ago: float, wrong: str) -> None:
    run = Sections()
    run.stay("host-1", 1, 4)
    where = {"name": "stock", "where": "account/locks"}
    run.add(3, "host-2", "looked_up", how="holder", held=True, took=0.1, ago=ago, **where)
    found = [text for text in judge(run.end(20)).violations if "of a lock client told" in text]
    assert [wrong in text for text in found] == [True] * bool(wrong)


@pytest.mark.parametrize(
    ("t", "held", "wrong"),
    [
        (3, True, ""),
        (3, False, "free on host-2 at 3.0 s, though host-1 had it"),
        (4.1, True, ""),  # an answer may be old
        (9, False, ""),
        (4.3, True, "held on host-2 at 4.3 s, though nobody had it"),  # the answer to the release was seen
        (9, True, "held on host-2 at 9.0 s, though nobody had it"),
    ],
)
def test_a_client_tells_who_has_a_lock(t: float, held: bool, wrong: str) -> None:
    run = Sections()
    run.records[0].fields.update(fresh=True)  # type: ignore[attr-defined]
    run.stay("host-1", 1, 4)
    run.lock(1, "host-1", "acquired", "stock", "", mode="lock")
    run.add(t, "host-2", "looked_up", how="locked", name="stock", where="account/locks", held=held, took=0.1)
    found = [text for text in judge(run.end(20)).violations if "of a lock client told" in text]
    assert [wrong in text for text in found] == [True] * bool(wrong)


def test_a_task_that_goes_on_after_its_invocation_waits_as_long_as_it_says() -> None:
    run = Sections()
    run.stay("host-2", 1, 20)
    run.add(2, "host-1", "invocation_started", function="ship", invocation="call")
    run.ask("host-1", 3, 9, timeout=6, invocation="call")
    run.add(4, "host-1", "invocation_ended", function="ship", invocation="call", outcome="ok")
    assert not any("gave up" in text for text in judge(run.end(40)).violations)


@pytest.mark.parametrize("trouble", ["", "answer", "fault", "pause", "under way", "slow"])
def test_a_wait_that_ends_by_trouble_with_the_storage_needs_trouble(trouble: str) -> None:
    run = Sections()
    run.stay("host-2", 1, 20)
    if trouble == "answer":
        refused = {"status": 503, "blob": "/account/locks/stock", "lease": "x", "took": 0.1, "worker": 1}
        run.add(3.5, "host-1", "lease_request", action="acquire", **refused)
    elif trouble == "fault":
        run.fault(2, 3.5, "error", "host-1")
    elif trouble == "pause":
        run.add(2, "host-1", "pause")
        run.add(2.5, "host-1", "resume")
    elif trouble == "under way":
        asked = {"status": 409, "blob": "/account/locks/stock", "lease": "x", "took": 0.4, "worker": 1}
        run.add(4.2, "host-1", "lease_request", action="acquire", **asked)
    elif trouble == "slow":
        run.add(2.5, "host-1", "machine_slow", measures=[[1.0, 0.6]])
    run.ask("host-1", 3, 4, "failed", timeout=1)
    run.records[-1].fields.update(reason="StorageUnavailable")  # type: ignore[attr-defined]
    accused = any("ended as StorageUnavailable" in text for text in judge(run.end(40)).violations)
    assert accused == (not trouble)


@pytest.mark.parametrize(
    ("had", "struck"),
    [("", ""), ("a", ""), ("c", ""), ("other", ""), ("", "fault"), ("", "a short poll"), ("", "a late fault")],
)
def test_sets_that_wait_for_each_other_are_named(had: str, struck: str) -> None:
    run = Sections()
    for host, names in (("host-1", ["a", "b"]), ("host-2", ["b", "a"]), ("host-3", ["b", "c"])):
        run.add(20, host, "set_refused", names=names, where="account/locks", took=12.0, poll=5)
    if struck.startswith("a "):  # then one of the locks is had in between, and the others are not
        had = "a" if struck == "a short poll" else ""
        for record in run.records:
            if record.event == "set_refused":
                record.fields.update(poll=0.5)  # type: ignore[attr-defined]
    run.stay("host-1", 9, 10, had or "other")
    if struck.endswith("fault"):
        run.fault(19 if "late" in struck else 5, 20, "partition", "host-1")
    run.stay("host-1", 2, 3, "a")
    found = [text for text in judge(run.end(40)).violations if "wait for each other" in text]
    assert [text.startswith("3 sets of lock_all waited in vain") for text in found] == [True] * (
        struck != "fault" and (had in {"", "other"} or bool(struck))
    )
