"""The store, signatures and HTTP of production in virtual worlds, over a wire that has faults of its own."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest
from click.testing import CliRunner

from simulator.explore_cli import explore
from simulator.virtual.faults import KINDS
from simulator.virtual.faults.wire_faults import OF_WIRES, ForgottenConnections
from simulator.virtual.hosts.queue_service import Queues
from simulator.virtual.hosts.queue_wire import QueueWire
from simulator.virtual.http.blob_api import AskedCall, differences, http_date
from simulator.virtual.search.exploration import Exploration
from simulator.virtual.search.story_report import promises, tell
from simulator.virtual.search.world_scenario import WorldScenario
from simulator.virtual.storage.network import SPOILINGS, Spoilt
from simulator.virtual.worlds.world import World
from singleton.settings.accounts import LockContainer
from singleton.settings.connection import StorageAccount
from singleton.stores.protocol import StoreFailure, within
from tests.support.mutants import Mutant, applied
from tests.worlds import WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from simulator.virtual.storage.network import NetworkRequest, Passage
    from simulator.virtual.worlds.outcome import Run

A, B = (f"00000000-0000-4000-8000-00000000000{digit}" for digit in "ab")
FINDINGS: Final = frozenset(
    ("wrong signature", "another request", "request sent twice", "another answer", "dead connection", "refused token")
)
PLAN: Final = Exploration(scenarios=30, hosts=4, kinds=("forgotten connections",), workloads=("wires",), seed=1)
CLIENT: Final = "stores.http.connections"
MUTANTS: Final = [
    Mutant("older connections are used after a silence", CLIENT, " and since > self._silence and", " and"),
    Mutant("a time-out is no silence", CLIENT, "task.cancelling() < cancellations", "False"),
]


def test_forgotten_connections_cost_no_hold() -> None:
    forgotten = 0
    for index in range(PLAN.scenarios // 2):
        run = PLAN.scenario(index).run()
        assert not run.violations, f"scenario {index + 1}"
        forgotten += run.reached["idle connections forgotten"]
    assert forgotten > 20


def test_a_silence_says_nothing_of_a_connection_that_was_used_after_it() -> None:
    """In this world a connection is used while another one is silent, is forgotten later, and a renewal goes there."""
    twice = tuple(ForgottenConnections(at=at, host=0) for at in (6.0, 10.0))
    planned = WorldScenario(seed=31004000339, hosts=4, workload="listener", faults=twice, wire=True)
    run = planned.run()
    assert run.reached["idle connections forgotten"] >= 2
    assert not run.violations, "\n".join(tell(planned, run))


@pytest.mark.planted
@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_worlds_find_a_client_that_trusts_old_connections(mutant: Mutant) -> None:
    with applied(mutant):
        assert any(PLAN.scenario(index).run().violations for index in range(PLAN.scenarios))


def test_worlds_over_the_wire_keep_every_promise_and_have_every_fault_of_the_wire() -> None:
    plan = Exploration(scenarios=20, hosts=4, kinds=tuple(KINDS), workloads=WORKLOADS, seed=11, wire=True)
    struck: set[str] = set()
    for index in range(plan.scenarios):
        planned = plan.scenario(index)
        run = planned.run()
        assert not run.violations, "\n".join(tell(planned, run))
        struck |= {name.removeprefix("fault: ") for name in run.reached if name.startswith("fault: ")}
    assert {name for name, kind in KINDS.items() if OF_WIRES in kind.of} <= struck


def test_a_world_over_the_wire_survives_a_file_and_its_story_says_so() -> None:
    first = replace(PLAN.scenario(3), wire=True)
    again = WorldScenario.from_dict(first.to_dict())
    assert again == first
    run = again.run()
    assert run.history == first.run().history
    assert ", over the virtual wire, seed" in tell(again, run)[0]


def test_every_finding_of_the_wire_is_explained() -> None:
    assert promises().keys() >= FINDINGS


def test_the_command_line_runs_every_world_over_the_wire_on_request(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: list[bool] = []
    run = WorldScenario.run

    def watched(planned: WorldScenario) -> Run:
        seen.append(planned.wire)
        return run(planned)

    monkeypatch.setattr(WorldScenario, "run", watched)
    arguments = ["--scenarios", "4", "--hosts", "3", "--jobs", "1", "--story", str(tmp_path / "story.json")]
    for option in ([], ["--wire"], ["--through-sdk"]):
        result = CliRunner().invoke(explore, [*arguments, *option], standalone_mode=False)
        assert result.return_value == 0, result.output
    assert 0 < sum(seen[:4]) < 4
    assert seen[4:] == [True] * 4 + [False] * 4


# --- the wire itself ------------------------------------------------------------------------------------------------


class Host:
    """A host's store on the wire, with a network that does what it is told."""

    def __init__(self, seed: int = 1) -> None:
        self.world = world = World(seed, 1, (), wire=True)
        assert world.wire is not None
        self.wire = world.wire
        self.sent: list[str] = []
        self.passage: Callable[[Passage], None] = lambda _: None
        self.machine = world.machines[0]
        world.network.rules.append(self._rule)
        place = LockContainer(StorageAccount(), "webjobshost")
        self.store: Any = self.wire.open_store(self.machine, place, lambda: None)

    @property
    def found(self) -> list[str]:
        """The findings of the wire so far."""
        found = self.world.oracle.violations
        return [f"{each.check}: {each.text}" for each in found if each.check in FINDINGS]

    def _rule(self, request: NetworkRequest, passage: Passage) -> None:
        self.sent.append(request.call)
        self.passage(passage)

    def run(self, request: Coroutine[Any, Any, Any]) -> Any:
        """Make one request, in the machine's context."""

        async def main() -> Any:
            return await self.world.loop.create_task(within(200.0, request), context=self.machine.context())

        with self.wire.installed():
            return self.world.loop.run_until_complete(main())

    def failure(self, request: Coroutine[Any, Any, Any]) -> StoreFailure:
        """Make one request that fails."""
        with pytest.raises(StoreFailure) as caught:
            self.run(request)
        return caught.value


@pytest.mark.parametrize("seed", range(6))
def test_every_call_of_a_store_travels_by_every_way_in(seed: int) -> None:
    host = Host(seed)
    name, store, run = "locks/a b~%2e/ä", host.store, host.run
    assert host.failure(store.acquire(name, A, 15)).code == "ContainerNotFound"
    assert run(store.create(name, {"Team": "ä"})).metadata == {"Team": "ä"}
    assert run(store.create(name)) is None
    etag = run(store.acquire(name, A, 15))
    assert run(store.renew(name, A)) == A
    assert host.failure(store.acquire(name, B, 15)).code == "LeaseAlreadyPresent"
    assert host.failure(store.write(name, A, {}, '"0x0"')).code == "ConditionNotMet"
    etag = run(store.write(name, A, {"SingletonEpoch": "7"}, etag))
    etag = run(store.put(name, A, {"SingletonEpoch": "8"}, etag, b"{}" * 40_000))
    content = run(store.get(name, A, 100_000))
    assert (content.blob.etag, content.body, content.blob.size) == (etag, b"{}" * 40_000, 80_000)
    assert run(store.get(name, None, 10)).body == b""
    assert run(store.break_(name, None, 5)) == 5
    run(store.break_(name))
    assert run(store.read(name)).lease == "broken"
    run(store.release(name, A))
    run(store.note("deferred/x", {"Times": "3"}))
    assert run(store.noted("deferred/x")) == {"Times": "3"}
    run(store.remove("deferred/x"))
    assert run(store.start_log("log", {"K": "v"}))
    assert not run(store.start_log("log", {}))
    assert run(store.tail("log", 0, 10)).body == b""
    assert [run(store.append("log", block)) for block in (b"abc", b"defg")] == [0, 3]
    assert host.failure(store.tail("log", 7, 10)).code == "InvalidRange"
    tail = run(store.tail("log", 2, 4))
    assert (tail.body, tail.blocks, dict(tail.metadata)) == (b"cdef", 2, {"K": "v"})
    labelled = run(store.label("log", {"K": "w & <x>"}, tail.etag))
    page = run(store.page("l", None, 1))
    assert [(each.name, each.metadata, each.size) for each in page.entries] == [(name, {"SingletonEpoch": "8"}, 80_000)]
    assert run(store.page("l", page.marker, 5)).entries[0].metadata == {"K": "w & <x>"}
    run(store.drop("log", labelled))
    assert host.failure(store.drop("log", labelled)).meaning == "missing"
    run(store.aclose())
    assert not host.found


# --- queues -----------------------------------------------------------------------------------------------------------


class QueueHost(Host):
    """A host's queue on the wire, as its locks use the queue."""

    def __init__(self, seed: int = 1) -> None:
        super().__init__(seed)
        self.queues = Queues(self.world.loop)
        self.queue = QueueWire(self.world, self.queues).open(self.machine, "orders")


def test_every_call_of_a_queue_travels_and_times_come_in_whole_seconds() -> None:
    host = QueueHost()
    queue, run = host.queue, host.run
    assert host.failure(queue.send("x", delay=0, life=60)).code == "QueueNotFound"
    run(queue.create())
    text = "a\r\nb <&> \u00e4\u2028"
    sent = run(queue.send(text, delay=2, life=None))
    assert (run(queue.take(32, 30)), sent.inserted) == ([], float(int(sent.inserted)))
    run(asyncio.sleep(2.0))
    (taken,) = run(queue.take(32, 30))
    assert (taken.id, taken.text, taken.dequeued) == (sent.id, text, 1)
    hidden = run(queue.hide(taken.id, taken.receipt, 0))
    assert hidden.until == int(host.world.loop.now)
    assert host.failure(queue.delete(taken.id, taken.receipt)).code == "PopReceiptMismatch"
    (received,) = run(queue.receive(1, 30))
    assert (received.text, received.dequeue_count, received.inserted.timestamp()) == (text, 2, sent.inserted)
    run(queue.delete(received.id, received.pop_receipt))
    assert host.failure(queue.hide(received.id, received.pop_receipt, 1)).code == "MessageNotFound"
    assert run(queue.now()) == int(host.world.loop.now)
    run(queue.aclose())
    assert not host.found


@pytest.mark.parametrize("how", SPOILINGS)
def test_what_comes_in_place_of_a_queues_answer_is_no_answer(how: str) -> None:
    for seed in range(20):
        host = QueueHost(seed)
        host.run(host.queue.create())
        where = "answer" if how == "page" else "unread"
        host.passage = lambda passage, where=where: setattr(passage, where, Spoilt(how))  # type: ignore[misc]
        queue = host.queue
        requests = (queue.take(1, 9), queue.hide("m", "r", 9), queue.delete("m", "r"), queue.now(), queue.create())
        for request in (*requests, queue.send("x", delay=0, life=None)):
            failure = host.failure(request)
            assert (failure.code, failure.meaning) == (None, "transient")
        assert not host.found


def test_what_a_queue_is_asked_and_tells_is_compared_with_the_service() -> None:
    asked = {"another request": ("time_to_live", 7), "another answer": ("visibility_timeout", 8)}
    for finding, (option, value) in asked.items():
        host = QueueHost()
        host.run(host.queue.create())
        client: Any = host.queue._client
        if finding == "another request":
            send = client.send_message
            client.send_message = lambda *args, **more: send(*args, **more | {option: value})  # noqa: B023
            host.run(host.queue.send("x", delay=0, life=60))
        else:

            async def gone(*_: Any) -> None:
                raise StoreFailure(404, "MessageNotFound")

            client.delete_message = gone
            host.failure(host.queue.delete("m", "r"))
        assert [each.partition(":")[0] for each in host.found] == [finding]
        assert finding != "another request" or host.found[0].endswith("hears another: args[life] is 7 in place of 60")


def test_two_calls_that_differ_are_told_by_what_differs() -> None:
    asked = AskedCall("put", "lock", ({"Owner": "me", "Count": "1"}, "etag", b"a" * 300 + b"bc"))
    heard = AskedCall("put", "lock", ({"Owner": "me", "Count": "2"}, "", b"a" * 300 + b"xc"))
    assert list(differences(asked, asked)) == []
    assert list(differences(asked, heard)) == [
        "args[0][Count] is '2' in place of '1'",
        "args[1] is '' in place of 'etag'",
        "args[2] is …aaaaaaaaaaxc' in place of …aaaaaaaaaabc'",
    ]


@pytest.mark.parametrize("how", SPOILINGS)
def test_what_comes_in_place_of_an_answer_is_no_answer(how: str) -> None:
    for seed in range(20):
        host = Host(seed)
        host.run(host.store.create("job"))
        host.run(host.store.acquire("job", A, 15))
        where = "answer" if how == "page" else "unread"
        host.passage = lambda passage, where=where: setattr(passage, where, Spoilt(how))  # type: ignore[misc]
        for call, args in (("renew", ("job", A)), ("read", ("job",)), ("noted", ("job",))):
            failure = host.failure(getattr(host.store, call)(*args))
            assert (failure.code, failure.meaning) == (None, "transient")
        host.passage = lambda _: None
        assert host.run(host.store.renew("job", A)) == A
        assert not host.found


def test_a_void_token_is_refused_once_and_the_next_request_has_a_new_one() -> None:
    host = next(host for host in map(Host, range(20)) if host.wire.ways[host.machine] == "token")
    host.run(host.store.create("job"))
    host.world.replace_credentials()
    assert host.failure(host.store.acquire("job", A, 15)).status == 401
    host.run(host.store.acquire("job", A, 15))
    assert not host.found


def test_the_service_and_a_host_agree_on_the_time_by_the_virtual_clock() -> None:
    host = next(host for host in map(Host, range(20)) if host.wire.ways[host.machine] == "key")
    host.run(asyncio.sleep(100.0))
    host.run(host.store.create("job"))
    assert host.run(host.store.get("job", None, 10)).at == 100.0
    host.machine.ahead = 1_000.0
    refused = host.failure(host.store.read("job"))
    assert (refused.status, refused.at) == (403, 100.0)
    assert "17 minutes ahead" in str(refused)
    assert http_date(100) == "Thu, 01 Jan 1970 00:01:40 GMT"
