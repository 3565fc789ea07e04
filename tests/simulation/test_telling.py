"""What a story says of made-up records: nothing against what the service knows, and nothing that does not matter."""

from __future__ import annotations

from collections import Counter
from typing import Any

from simulator.history.journal import Record
from simulator.virtual.oracle.evidence import Violation
from simulator.virtual.search.story_report import tell
from simulator.virtual.search.world_scenario import WorldScenario
from simulator.virtual.worlds.outcome import Run

LOCK = "locks/explored/~key-0"
SCENARIO = WorldScenario(seed=7, hosts=3, workload="mutex")


def lock(at: float, caller: str, kind: str, **fields: Any) -> Record:
    """Make an event of a lock, as its host tells it."""
    return Record(at, caller.split("/", maxsplit=1)[0], "lock", {"kind": kind, "lock": LOCK, "owner": caller, **fields})


def request(at: float, host: str, call: str, lease: str, answer: str = "ok", **fields: Any) -> Record:
    """Make a request that the service has answered."""
    times = {"out": 0.0, "back": 0.0} | fields
    return Record(at, host, "request", {"call": call, "name": LOCK, "lease": lease, "answer": answer, **times})


def hold(at: float, caller: str, *, until: float, token: int) -> list[Record]:
    """Make all that is written of a caller that asks, gets the lock, works, and lets go; healthy."""
    host = caller.split("/", maxsplit=1)[0]
    return [
        lock(at, caller, "waiting"),
        request(at + 0.1, host, "acquire", f"id-{at}", until=at + 15.1),
        lock(at + 0.2, caller, "acquired", token=token),
        lock(at + 0.2, caller, "body_started", token=token),
        lock(until, caller, "body_ended", token=token, reason="ok"),
        lock(until, caller, "released", token=token),
        request(until + 0.1, host, "release", f"id-{at}"),
    ]


def told(records: list[Record], at: float, check: str, text: str, scenario: WorldScenario = SCENARIO) -> list[str]:
    """Return the story of these records, which end with a broken promise."""
    return tell(scenario, Run((Violation(at, check, text),), Counter(), at, 0, tuple(records)))


LOST = [
    *hold(1.0, "host-0/0/0", until=99.0, token=1)[:4],
    request(5.0, "host-0", "renew", "id-1.0", "lost"),
    lock(15.0, "host-0/0/0", "lost", reason="expired", token=1),
    lock(15.0, "host-0/0/0", "body_ended", reason="lost", token=1),
    lock(15.0, "host-0/0/0", "released", token=1),
    request(15.1, "host-0", "release", "id-1.0", "lost"),
]


def test_a_hold_that_was_lost_is_never_said_to_be_let_go_or_given_back() -> None:
    lines = told(LOST, 16.1, "left to lapse", f"host-0 left the lease of {LOCK} to lapse")
    assert "   15.000 s  host-0/0/0 is told that it lost ~key-0 (expired), and leaves its body (lost)." in lines
    assert "   15.100 s  host-0's release of ~key-0 is lost on its way." in lines
    assert not [line for line in lines if "lets go" in line or "back" in line or "ends host-0's lease" in line]


def test_a_lease_that_nobody_prolongs_runs_out_at_its_time() -> None:
    lines = told(LOST, 16.1, "left to lapse", f"host-0 left the lease of {LOCK} to lapse")
    assert "    1.100 s  the service gives host-0 the lease of ~key-0 until 16.100 s." in lines
    assert "   16.100 s  host-0's lease of ~key-0 runs out." in lines


def test_a_release_that_comes_after_the_lease_has_run_out_does_not_end_it() -> None:
    late = [*LOST[:-1], request(17.0, "host-0", "release", "id-1.0")]
    lines = told(late, 20.0, "lost in peace", f"host-0 lost {LOCK}, and one renewal went wrong")
    assert "   17.000 s  host-0 gives the lease of ~key-0 back, which has run out." in lines
    assert "ends host-0's lease" not in "\n".join(lines)


def test_a_caller_lets_go_and_only_the_service_ends_a_lease() -> None:
    lines = told(hold(1.0, "host-0/0/0", until=4.0, token=1), 20.0, "flood", f"host-0 asks for {LOCK} 41 times")
    assert "    4.000 s  host-0/0/0 leaves its body (ok), and lets go of ~key-0." in lines
    assert "    4.100 s  the service ends host-0's lease of ~key-0, as host-0 asks." in lines


def test_of_two_that_are_inside_at_once_both_leases_are_told_from_their_beginnings() -> None:
    records = [
        *hold(1.0, "host-0/0/0", until=99.0, token=1)[:4],
        *hold(3.0, "host-1/0/0", until=99.0, token=2)[:4],
    ]
    lines = told(records, 3.2, "two inside", f"host-1 entered {LOCK} while host-0 is inside and running")
    assert "    1.100 s  the service gives host-0 the lease of ~key-0 until 16.100 s." in lines
    assert "    1.200 s  host-0/0/0 gets ~key-0 with token 1, and enters its body." in lines
    assert "    3.100 s  the service gives host-1 the lease of ~key-0 until 18.100 s." in lines
    assert "    3.200 s  host-1/0/0 gets ~key-0 with token 2, and enters its body." in lines


def test_healthy_hand_overs_before_what_matters_are_one_line() -> None:
    healthy = [
        record
        for number in range(30)
        for record in hold(number * 2.0, f"host-{number % 2}/0/{number}", until=number * 2.0 + 1, token=number + 1)
    ]
    records = [*healthy, *hold(70.0, "host-2/0/0", until=99.0, token=31)[:4]]
    lines = told(records, 80.0, "believes", f"host-2 counts on the lease of {LOCK} until 1.000 s after its end")
    assert lines == [
        "3 hosts, of which 1 matters here (host-2), workload 'mutex', seed 7.",
        "No fault strikes.",
        "    0.200 s  until 59.000 s: 30 healthy hand-overs of ~key-0 among 2 hosts.",
        "   70.000 s  host-2/0/0 asks for ~key-0.",
        "   70.100 s  the service gives host-2 the lease of ~key-0 until 85.100 s.",
        "   70.200 s  host-2/0/0 gets ~key-0 with token 31, and enters its body.",
        "   80.000 s  BROKEN (believes): host-2 counts on the lease of ~key-0 until 1.000 s after its end.",
        lines[-1],
    ]


def test_hand_overs_before_and_after_a_fault_are_told_apart_and_calls_in_vain_are_told_with_them() -> None:
    strikes = Record(5.0, "world", "fault", {"kind": "pause", "words": "host-2 stands still for 1 s"})
    given_up = [lock(at, f"host-0/1/{at:g}", "contended", reason="skip") for at in (0.5, 4.5, 8.5)]
    records = [
        *given_up[:1],
        *hold(1.0, "host-0/0/0", until=2.0, token=1),
        *given_up[1:2],
        strikes,
        *hold(6.0, "host-0/0/1", until=7.0, token=2),
        *given_up[2:],
        *hold(9.0, "host-0/0/2", until=10.0, token=3),
        lock(11.0, "host-1/0/0", "waiting"),
    ]
    lines = told(records, 20.0, "late answer", f"host-1/0/0 still waits for {LOCK} after 9.0 s")
    assert [line for line in lines if "hand-over" in line] == [
        "    0.500 s  until 4.500 s: 1 healthy hand-over of ~key-0 on host-0, and 2 calls in vain.",
        "    6.200 s  until 8.500 s: 1 healthy hand-over of ~key-0 on host-0, and 1 call in vain.",
    ]


def test_bodies_under_the_lock_of_their_process_are_counted_as_bodies() -> None:
    listener = {"mode": "listener"}
    bodies = [
        lock(at, f"host-0/{at:g}", kind, **listener)
        for at in (2.0, 3.0, 4.0)
        for kind in ("body_started", "body_ended")
    ]
    got = [request(1.0, "host-0", "acquire", "id", until=16.0), lock(1.1, "host-0", "acquired", token=1, **listener)]
    lines = told([*got, *bodies], 15.0, "lost in peace", f"host-0 lost {LOCK}, and no renewal went wrong")
    assert "    2.000 s  until 4.000 s: 3 healthy bodies of ~key-0 on host-0." in lines
    assert "    1.100 s  host-0 gets ~key-0 with token 1." in lines


def test_a_waiter_that_is_named_is_told_of_from_its_first_request_however_long_ago() -> None:
    polls = [request(2.0 + n, "host-1", "acquire", "mine", "409 LeaseAlreadyPresent") for n in range(200)]
    asks = [lock(2.0, "host-1/0/0", "waiting"), *polls]
    lines = told(asks, 300.0, "late answer", f"host-1/0/0 still waits for {LOCK} after 298.0 s")
    assert lines[2:4] == [
        "    2.000 s  host-1/0/0 asks for ~key-0.",
        "    2.000 s  host-1 asks for the lease of ~key-0 in vain, 200 times until 201.000 s.",
    ]


def test_renewals_in_a_row_are_one_line_that_says_how_long_the_last_one_lasts() -> None:
    renewals = [request(8.0 + 7 * n, "host-0", "renew", "id-1.0", until=23.0 + 7 * n) for n in range(4)]
    records = [*hold(1.0, "host-0/0/0", until=99.0, token=1)[:4], *renewals]
    lines = told(records, 30.0, "inside after end", f"the lease of {LOCK} ended with host-0 inside")
    renewed = "    8.000 s  the service renews host-0's lease of ~key-0 4 times, last at 29.000 s, until 44.000 s."
    assert renewed in lines


def test_an_operator_s_act_is_told_with_the_name_of_its_lock() -> None:
    acts = [
        Record(5.0, "world", "fault", {"kind": "operator", "words": "an operator steals lock number 3"}),
        Record(5.0, "world", "operator", {"action": "steal", "lock": LOCK}),
    ]
    records = [*hold(1.0, "host-0/0/0", until=99.0, token=1)[:4], *acts]
    lines = told(records, 9.0, "not told", f"host-0 does not know that its lease of {LOCK} was taken away")
    assert [line for line in lines if "an operator" in line and " s  " in line] == [
        "    5.000 s  an operator takes the lease of ~key-0 away."
    ]


def test_who_looks_for_a_slot_or_is_a_candidate_is_told_of_from_there() -> None:
    slot = Record(3.0, "host-1", "visit_began", {"owner": "host-1/2/0", "timeout": 20.0})
    lines = told([slot], 30.0, "late answer", "host-1/2/0 still waits for a slot after 27.0 s")
    assert "    3.000 s  host-1/2/0 wants a slot within 20 s." in lines
    stands = Record(4.0, "host-2", "candidacy_began", {"owner": "host-2", "lock": "poller"})
    lines = told([stands], 60.0, "nobody leads", "host-2 is a candidate, and poller is free for 18 s")
    assert "    4.000 s  host-2 becomes a candidate for poller." in lines


def test_what_became_of_a_message_that_is_named_is_told() -> None:
    records = [
        Record(1.0, "world", "message_sent", {"queue": "orders", "id": "m3"}),
        Record(2.0, "host-0", "message_received", {"queue": "orders", "id": "m3", "dequeue_count": 2}),
        Record(2.0, "host-0", "invocation_started", {"invocation": "host-0/m3/2", "message": "m3"}),
        lock(2.0, "host-0/m3/2", "waiting"),
        lock(2.5, "host-0/m3/2", "contended", reason="raise"),
        Record(2.5, "world", "message_copied", {"queue": "orders", "id": "m5", "first": "m3"}),
        Record(2.5, "world", "message_copied", {"queue": "orders", "id": "m6", "first": "m4"}),
        Record(2.5, "host-0", "invocation_ended", {"invocation": "host-0/m3/2", "outcome": "error", "error": "No"}),
        Record(2.6, "host-0", "message_completed", {"queue": "orders", "id": "m3"}),
        Record(2.7, "host-1", "message_received", {"queue": "orders", "id": "m4", "dequeue_count": 1}),
    ]
    lines = told(records, 9.0, "message lost", "message m3 is gone, and no invocation of it succeeded")
    assert lines[2:-2] == [
        "    1.000 s  message m3 is sent to the queue orders.",
        "    2.000 s  host-0 receives message m3, 2 times by now.",
        "    2.000 s  host-0/m3/2 asks for ~key-0.",
        "    2.500 s  host-0/m3/2 does not get ~key-0 (raise).",
        "    2.500 s  message m5, a copy of m3, comes into the queue orders.",
        "    2.500 s  host-0/m3/2 ends with No.",
        "    2.600 s  host-0 deletes message m3 as done.",
    ]


def test_events_of_an_unknown_kind_are_told_in_their_own_words_or_passed_over() -> None:
    strange = [
        lock(1.5, "host-0/0/0", "half_open", reason="odd"),
        Record(1.6, "host-0", "never_heard_of", {"what": object()}),
    ]
    records = [*hold(1.0, "host-0/0/0", until=99.0, token=1)[:4], *strange]
    lines = told(records, 9.0, "believes", f"host-0 counts on the lease of {LOCK} until 1.000 s after its end")
    assert "    1.500 s  host-0/0/0: half open, ~key-0 (odd)." in lines
    assert "never" not in "\n".join(lines)


def test_a_network_that_loses_every_other_request_does_not_make_a_story_longer_than_somebody_reads() -> None:
    answers = ("lost", "409 LeaseAlreadyPresent", "503 simulated")
    polls = [request(2.0 + n, "host-1", "acquire", "mine", answers[n % 3]) for n in range(200)]
    asks = [lock(2.0, "host-1/0/0", "waiting"), *polls]
    lines = told(asks, 300.0, "late answer", f"host-1/0/0 still waits for {LOCK} after 298.0 s")
    fates = "67 lost on the way, 67 in vain, 66 answered 503"
    assert f"    2.000 s  host-1 sends 200 requests for ~key-0 until 201.000 s: {fates}." in lines
    assert len(lines) < 10


def test_a_story_says_how_many_hosts_there_are_and_which_matter() -> None:
    everybody = [
        record for host in range(3) for record in hold(host * 5.0, f"host-{host}/0/0", until=99.0, token=host)[:4]
    ]
    lines = told(everybody, 20.0, "too many inside", "3 are inside, and the limit is 2")
    assert lines[0].startswith("3 hosts, which all matter here, workload")
    alone = WorldScenario(seed=7, hosts=1, workload="mutex")
    assert told(everybody[:4], 20.0, "starved", "<host-0> has not ended", alone)[0].startswith("1 host, workload")
    lines = told([], 20.0, "starved", "the feed has not ended its work")
    assert lines[0].startswith("3 hosts, none of which is named, workload")
    assert "host-0 has not ended" in told(everybody, 20.0, "starved", "<host-0> has not ended")[-2]


def test_requests_to_queues_and_databases_are_told_with_what_they_are_about_and_how_they_end() -> None:
    asked = {"out": 0.0, "back": 0.0}
    refused = {"answer": "429 simulated", "retry_after": 2.0, **asked}
    records = [
        Record(0.0, "host-0", "failover", {"seconds": 2.0}),
        Record(0.0, "host-1", "failover", {"seconds": None}),
        Record(1.0, "host-0", "message_received", {"queue": "orders", "id": "m3", "dequeue_count": 1}),
        Record(2.0, "host-0", "request", {"call": "queue send", "name": "orders", "about": "m3", **refused}),
        Record(2.5, "host-0", "request", {"call": "queue send", "name": "orders", "about": "m4", **refused}),
        Record(3.0, "host-0", "request", {"call": "remove", "name": "deferred/orders/m3", "answer": "ok", **asked}),
        Record(4.0, "host-1", "request", {"call": "database claim", "about": "row 5", "answer": "ok", **asked}),
        Record(5.0, "host-1", "request", {"call": "database claim", "about": "row 6", "answer": "ok", **asked}),
    ]
    lines = told(records, 9.0, "starved", "message m3 of host-0 for row 5 waits, and host-1 has left it")
    assert lines[2:-1] == [
        "    0.000 s  failover is not the same everywhere (host-0: 2 s, host-1: none).",
        "    1.000 s  host-0 receives message m3.",
        "    2.000 s  the service answers host-0's queue send of orders (m3) with 429, and asks for 2 s (Retry-After).",
        "    3.000 s  host-0 forgets the failures of message m3.",
        "    4.000 s  the database carries out host-1's claim of row 5.",
        "    9.000 s  BROKEN (starved): message m3 of host-0 for row 5 waits, and host-1 has left it.",
    ]


def test_a_queue_s_refusal_of_a_caller_that_is_named_is_told_and_no_refusal_of_others() -> None:
    def send(at: float, host: str, answer: str, call: str = "queue send") -> Record:
        fields = {"call": call, "name": "orders", "about": "text", "answer": answer, "out": 0.0, "back": 0.0}
        return Record(at, host, "request", fields)

    records = [
        lock(1.0, "host-0/m3/1", "waiting"),
        *(send(1.1, "host-1", "400 Other"), send(1.1, "host-0", "ok"), send(1.1, "host-0", "404", "queue receive")),
        send(1.2, "host-0", "400 OutOfRange"),
        Record(1.3, "host-0", "invocation_ended", {"invocation": "host-0/m3/1", "outcome": "error"}),
    ]
    lines = told(records, 1.3, "false alarm", "host-0/m3/1 ended with StorageError, and no fault struck its requests")
    refusals = [line for line in lines if "queue" in line]
    assert refusals == ["    1.200 s  the service answers host-0's queue send of orders (text) with 400 OutOfRange."]


def test_who_wrote_that_another_waits_is_told_of_a_caller_that_left_for_it() -> None:
    seat: dict[str, Any] = {"name": f"{LOCK}~next", "until": 16.0}
    records = [
        request(0.5, "host-2", "write", "old", **seat),
        request(1.0, "host-1", "write", "id", **seat | {"back": None}),
        request(1.5, "host-0", "acquire", "mine", "409 LeaseAlreadyPresent", **seat),
        request(6.0, "host-1", "release", "id", "lost", **seat),
        lock(7.0, "host-0/m3/1", "waiting"),
        lock(7.5, "host-0/m3/1", "coalesced"),
        request(8.0, "host-1", "release", "id", "lost", **seat),
    ]
    lines = told(records, 9.0, "left for nobody", "host-0/m3/1 came at 7.00 and left, and no body began")
    assert lines[2:-2] == [
        "    1.000 s  the service carries out host-1's write of ~key-0~next, but the reply is lost.",
        "    6.000 s  host-1's release of ~key-0~next is lost on its way.",
        "    7.000 s  host-0/m3/1 asks for ~key-0.",
        "    7.500 s  host-0/m3/1 leaves, as another invocation waits for ~key-0.",
    ]


def test_a_lease_that_nobody_uses_and_nobody_gives_back_is_told_and_so_is_who_deletes_the_lock() -> None:
    kept = [each for each in hold(1.0, "host-0/0/0", until=4.0, token=1) if each.get("call") != "release"]
    gone = request(7.0, "host-2", "remove", "", name=LOCK)
    lines = told([*kept, gone], 9.0, "left to lapse", f"host-0 keeps {LOCK}")
    assert "    7.000 s  the service carries out host-2's remove of ~key-0." in lines
    assert (
        "    9.000 s  host-0's lease of ~key-0 goes on, and host-0 has not asked for its release since 4.000 s."
        in lines
    )
