"""The nemesis strikes in time and where it hurts, leaves two hosts working, and undoes what it has done."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import pytest

from simulator.faults.real import ALL, KINDS
from simulator.nemesis.aims import lock_in
from simulator.nemesis.fault_plan import draw_plan
from simulator.nemesis.field import Holding, Wanting
from simulator.nemesis.nemesis import GIVEN_UP, PATIENCE, Nemesis
from simulator.proxy.actions import Hang
from tests.support.recording_proxy import name_of
from tests.unit.simulator.nemesis.fake_field import SHIP, FakeField, asked

if TYPE_CHECKING:
    from simulator.faults.real import RealFault
    from simulator.proxy.exchange import Exchange


def fault(kind: str, at: float = 1.0, **fields: Any) -> RealFault:
    return KINDS[kind](at=at, **fields)


def striking(field: FakeField, *faults: RealFault, seed: int = 1) -> Nemesis:
    nemesis = Nemesis(faults, field, seed=seed)
    nemesis.start()
    return nemesis


def go_on(field: FakeField, nemesis: Nemesis, seconds: float, step: float = 0.1) -> None:
    end = field.time + seconds
    while field.time < end - 1e-9:
        field.time = round(field.time + step, 6)
        nemesis.step()


def test_a_fault_strikes_when_it_is_due_and_ends_in_time_with_its_hits() -> None:
    field = FakeField()
    nemesis = striking(field, fault("partition", at=2.0, seconds=3.0, way="both", host="host-2"))
    go_on(field, nemesis, 1.9)
    assert field.records == []
    go_on(field, nemesis, 0.2)
    (record,) = field.told("fault")
    assert (record["id"], record["kind"], record["hosts"], record["seconds"]) == (1, "partition", ["host-2"], 3.0)
    assert (record["way"], record["aim"]) == ("both", "anybody")
    assert record["what"] == "host-2 is cut off from the storage for 3 s, both ways"
    wire = field.wire("host-2")
    assert wire.fate("renew") == "Hang"
    assert field.wire("host-1").fate("renew") == ""
    assert wire.cuts == 1
    go_on(field, nemesis, 3.2)
    assert field.told("fault_ended") == [{"host": "host-2", "id": 1, "hits": 1}]
    assert wire.fate("renew") == ""
    assert wire.cuts == 2


@pytest.mark.parametrize(("way", "cuts"), [("both", 1), ("replies", 1), ("requests", 0)])
def test_replies_to_earlier_requests_are_lost_unless_only_requests_are(way: str, cuts: int) -> None:
    field = FakeField()
    nemesis = striking(field, fault("partition", seconds=3.0, way=way, host="host-1"))
    go_on(field, nemesis, 1.2)
    assert field.wire("host-1").cuts == cuts
    rule = field.wire("host-1").blobs.rule_for(asked("renew"))
    assert rule is not None
    assert rule.action == Hang(forward=way == "replies")
    go_on(field, nemesis, 3.2)
    assert field.wire("host-1").cuts == cuts + 1  # nobody hangs for longer


def test_forgotten_connections_are_over_at_once_and_hurt_no_work() -> None:
    field = FakeField(2)
    nemesis = striking(field, fault("forget", at=1.0, everybody=True))
    forgotten: list[Any] = []
    for host in field.names:
        field.wire(host).blobs.forget_connections = partial(forgotten.append, host)  # type: ignore[method-assign]
    go_on(field, nemesis, 1.2)
    (record,) = field.told("fault")
    assert (record["kind"], record["hosts"], record["seconds"]) == ("forget", field.names, None)
    assert record["what"] == "the network forgets the idle connections of everybody to the blobs, without a word"
    assert forgotten == field.names
    assert len(field.told("fault_ended")) == 1


def test_a_length_in_leases_is_one_of_the_apps_leases() -> None:
    field = FakeField()
    go_on(field, striking(field, fault("pause", leases=1.4)), 1.2)
    assert field.told("fault")[0]["seconds"] == 21.0


def test_a_holder_is_struck_only_when_somebody_holds() -> None:
    field = FakeField()
    nemesis = striking(field, fault("kill", aim="holder"))
    go_on(field, nemesis, 3.0)
    assert field.done == []
    field.held = [Holding("host-4", SHIP, 15.0)]
    go_on(field, nemesis, 0.1)
    assert field.done == [("kill", "host-4", True)]
    (record,) = field.told("fault")
    assert (record["aim"], record["lock"], record["seconds"]) == ("holder", SHIP, None)
    assert [fields["id"] for fields in field.told("fault_ended")] == [1]


def test_a_holder_that_has_gone_on_meanwhile_is_not_recorded_as_struck() -> None:
    field = FakeField()
    field.held, field.refuses = [Holding("host-4", SHIP, 15.0)], True
    nemesis = striking(field, fault("kill", aim="holder"))
    go_on(field, nemesis, 2.0)
    assert field.records == []
    field.refuses = False
    go_on(field, nemesis, 0.1)
    assert [record["id"] for record in field.told("fault")] == [1]


def test_a_moment_that_does_not_come_is_waited_for_no_longer_and_the_record_says_so() -> None:
    field = FakeField()
    nemesis = striking(field, fault("drain", aim="renewal"))
    go_on(field, nemesis, PATIENCE)
    assert field.done == []
    go_on(field, nemesis, 2.0)
    (record,) = field.told("fault")
    assert (record["aim"], record["meant"]) == ("anybody", "renewal")


def test_who_holds_is_struck_rather_than_anybody_when_the_moment_does_not_come() -> None:
    field = FakeField()
    field.held = [Holding("host-4", SHIP, 15.0)]
    go_on(field, striking(field, fault("drain", aim="release")), PATIENCE + 2)
    assert [(record["hosts"], record["aim"]) for record in field.told("fault")] == [(["host-4"], "holder")]


@pytest.mark.parametrize("kind", ["kill", "break"])
def test_a_fault_about_one_lock_strikes_nobody_else(kind: str) -> None:
    field = FakeField()
    field.held = [Holding("host-1", "locks/fleet/other", 15.0)]
    nemesis = striking(field, fault(kind, aim="release", lock="ship"))
    go_on(field, nemesis, PATIENCE + 2)
    assert field.records == []
    field.held.append(Holding("host-2", SHIP, 15.0))
    go_on(field, nemesis, 0.3)
    assert [record["hosts"] for record in field.told("fault")] == [["host-2"]]


def test_nobody_waits_for_requests_where_nothing_is_locked() -> None:
    field = FakeField()
    field.locked = False
    go_on(field, striking(field, fault("drain", aim="renewal")), 1.2)
    assert [record["aim"] for record in field.told("fault")] == ["anybody"]


def test_a_break_without_any_lock_is_given_up() -> None:
    field = FakeField()
    nemesis = striking(field, fault("break", aim="renewal"))
    go_on(field, nemesis, PATIENCE + GIVEN_UP + 2)
    assert (field.records, nemesis.aiming) == ([], {})


class Held:
    """An exchange that notes what becomes of it."""

    def __init__(self, operation: str) -> None:
        self.request = asked(operation)
        self.fate = ""

    async def forward(self) -> None:
        self.fate += "forwarded "

    async def reply(self, _: object) -> None:
        self.fate += "answered"

    def reset(self) -> None:
        self.fate += "reset"


async def caught_by(field: FakeField, nemesis: Nemesis, host: str, operation: str) -> Held:
    """Let a host send a request, and the nemesis have its turn while that is held back."""
    held = Held(operation)
    rule = field.wire(host).blobs.rule_for(held.request)
    assert rule is not None
    assert name_of(rule.action) == "ambush"
    task = asyncio.ensure_future(rule.action(cast("Exchange", held)))
    await asyncio.sleep(0)
    assert held.fate == ""
    assert {field.wire(other).fate(operation) for other in field.names} == {""}  # one is enough
    go_on(field, nemesis, 0.1)
    await asyncio.wait_for(task, 1.0)
    return held


@pytest.mark.parametrize(
    ("kind", "fields", "fate"),
    [
        ("pause", {"seconds": 20.0}, "reset"),
        ("kill", {}, "reset"),
        ("drain", {}, "forwarded answered"),
        ("break", {}, "forwarded answered"),
        ("lose", {"seconds": 4.0, "percent": 1}, "forwarded reset"),
        ("error", {"seconds": 4.0}, "answered"),
    ],
)
async def test_a_renewal_is_held_back_until_the_fault_has_begun_and_is_its_first_victim(
    kind: str, fields: dict[str, Any], fate: str
) -> None:
    field = FakeField()
    nemesis = striking(field, fault(kind, aim="renewal", **fields))
    go_on(field, nemesis, 1.5)
    assert field.wire("host-3").fate("acquire") == ""
    assert field.wire("host-3").fate("renew", lock="locks/simulated/platform") == ""
    held = await caught_by(field, nemesis, "host-3", "renew")
    (record,) = field.told("fault")
    assert (record["hosts"], record["lock"], record["aim"]) == (["host-3"], SHIP, "renewal")
    assert held.fate == fate
    # Nobody else is waited for.
    assert field.wire("host-1").fate("renew") == ""


async def test_waiters_are_struck_where_two_wait_and_the_holder_is_dead() -> None:
    field = FakeField()
    other = "locks/fleet/other"
    field.wanted = [Wanting("host-1", SHIP, 20.0), Wanting("host-2", SHIP, 20.0)]
    field.wanted += [Wanting("host-3", other), Wanting("host-4", other)]
    nemesis = striking(field, fault("kill", aim="waiters"))
    go_on(field, nemesis, 1.5)
    assert field.wire("host-3").fate("acquire", lock=other) == ""
    await caught_by(field, nemesis, "host-2", "acquire")
    assert field.done == [("kill", "host-2", False)]


def test_one_waiter_alone_is_no_crowd() -> None:
    field = FakeField()
    field.wanted = [Wanting("host-1", SHIP, 20.0), Wanting("host-1", SHIP, 20.0)]
    go_on(field, striking(field, fault("kill", aim="waiters")), 1.5)
    assert field.wire("host-1").fate("acquire") == ""


@pytest.mark.parametrize("hosts", [3, 5])
def test_two_hosts_can_always_work(hosts: int) -> None:
    field = FakeField(hosts)
    nemesis = striking(field, *(fault("partition", seconds=6.0, way="both", number=2) for _ in range(6)))
    for _ in range(300):
        go_on(field, nemesis, 0.1)
        cut = [name for name in field.names if field.wire(name).fate("renew")]
        assert len(cut) <= hosts - 2
    assert len(field.told("fault")) >= 3


def test_a_host_that_suffers_already_is_not_struck_again_before_that_is_over() -> None:
    field = FakeField()
    go_on(field, striking(field, *(fault("delay", seconds=3.0, host="host-1") for _ in range(2))), 3.5)
    assert len(field.told("fault")) == 1
    field = FakeField()
    go_on(field, striking(field, *(fault("delay", seconds=3.0, host="host-1") for _ in range(2))), 4.5)
    assert len(field.told("fault")) == 2


def test_what_harms_no_work_does_not_wait_for_room() -> None:
    field = FakeField(3)
    go_on(field, striking(field, fault("pause", seconds=9.0), fault("delay", at=2.0, seconds=3.0)), 3)
    assert [record["kind"] for record in field.told("fault")] == ["pause", "delay"]


def test_everybody_may_be_struck_while_one_is() -> None:
    field = FakeField(3)
    everybody = fault("throttle", seconds=3.0, everybody=True, percent=100)
    go_on(field, striking(field, fault("pause", seconds=2.0, host="host-1"), everybody), 1.5)
    assert field.told("fault")[-1]["hosts"] == ["host-2", "host-3"]
    assert field.wire("host-2").fate("renew") == field.wire("host-3").fate("get") == "Answer"


def test_only_what_a_gateway_may_send_again_is_doubled() -> None:
    field = FakeField()
    go_on(field, striking(field, fault("duplicate", seconds=5.0, host="host-1", percent=100)), 1.5)
    assert field.wire("host-1").fate("renew") == "Twice"
    assert field.wire("host-1").fate("post", method="POST") == ""


def test_healing_undoes_everything_and_waits_until_all_hosts_are_back() -> None:
    field = FakeField()
    faults = [
        fault("partition", seconds=40.0, way="both", host="host-1"),
        fault("pause", seconds=40.0, host="host-2"),
        fault("kill", host="host-3"),
        fault("kill", at=90.0),
        fault("lose", at=1.5, aim="renewal", seconds=40.0),
    ]
    nemesis = striking(field, *faults)
    go_on(field, nemesis, 3.0)
    assert len(field.told("fault")) == 3
    assert field.wire("host-4").fate("renew") == "ambush"
    assert not nemesis.heal()
    assert field.working() == ["host-1", "host-2", "host-4", "host-5"]
    assert {name: field.wire(name).fate("renew") for name in field.names} == dict.fromkeys(field.names, "")
    assert field.told("healed") == []
    field.away.clear()
    assert nemesis.heal()
    assert nemesis.heal()
    assert field.told("healed") == [{}]
    assert sorted(each["id"] for each in field.told("fault_ended")) == [1, 2, 3]


def test_a_drained_host_is_waited_for() -> None:
    field = FakeField()
    nemesis = striking(field, fault("drain", host="host-2"))
    go_on(field, nemesis, 2.0)
    assert field.told("fault_ended") == []
    assert not nemesis.heal()
    field.leaving.clear()
    assert nemesis.heal()
    assert len(field.told("fault_ended")) == 1


@pytest.mark.parametrize("seed", range(3))
def test_a_plan_of_all_kinds_strikes_as_often_as_it_should(seed: int) -> None:
    field = FakeField()
    nemesis = striking(field, *draw_plan(ALL, every=5, duration=120, seed=seed), seed=seed)
    for _ in range(600):
        go_on(field, nemesis, 0.2, step=0.2)
        field.held = [Holding(host, SHIP, 15.0) for host in field.working()[:1]]
        field.away.clear()
        field.leaving.clear()
    struck = field.told("fault")
    assert len(struck) >= 15
    assert len({record["kind"] for record in struck}) >= 8
    assert [record["id"] for record in struck] == list(range(1, len(struck) + 1))


def test_a_lock_is_found_in_a_path_with_an_account_and_without() -> None:
    locks = frozenset({SHIP})
    assert lock_in(f"/account/webjobshost/{SHIP}", locks) == SHIP
    assert lock_in(f"/webjobshost/{SHIP}", locks) == SHIP
    assert lock_in(f"/account/webjobshost/{SHIP}.north", locks) == ""
