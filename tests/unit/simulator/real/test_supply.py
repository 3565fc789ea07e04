"""The supply of a run: what is sent, is sent once, to a host that works, and what is left is told."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from simulator.bus import Bus
from simulator.history.journal import Journal, read_journal
from simulator.real.supply import Supply
from simulator.report.board import Board
from simulator.work.apps import App, AppFunction
from simulator.work.own import Outgoing
from simulator.work.request_specs import RequestSpec
from simulator.work.scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from simulator.history.journal import Record
    from simulator.real.fleet import Fleet
    from simulator.real.storage import Storage

APP = App(
    functions=(
        AppFunction(name="bus", trigger="serviceBus", source="servicebus/q"),
        AppFunction(name="hub", trigger="eventHub", source="eventHub/hub", how="delivered"),
        AppFunction(
            name="turns", trigger="serviceBus", source="serviceBus/t", how="delivered", many=True, sessions=True
        ),
        AppFunction(name="ship", trigger="http", source="http/ship", route="ship"),
    )
)


class Bench:
    def __init__(self, folder: Path) -> None:
        self.journal = Journal(folder / "fleet.jsonl", "fleet")
        self.board = Board()
        storage = SimpleNamespace(queued=lambda: 0)
        self.supply = Supply(APP, cast("Storage", storage), Scenario(app=folder, visibility=2))
        self.supply.start()
        self.supply.serve(cast("Fleet", self))

    def written(self, event: str) -> list[Record]:
        return [record for record in read_journal(self.journal.path) if record.event == event]

    def see(self, event: str, host: str, **fields: Any) -> None:
        self.journal.write(event, host=host, **fields)
        self.board.take(read_journal(self.journal.path)[-1])


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    try:
        yield made
    finally:
        made.supply.stop()
        made.journal.close()


async def test_messages_go_to_the_broker_and_what_is_left_is_told(bench: Bench) -> None:
    bench.supply.send(Outgoing("servicebus/q", "1", "a", metadata={"MessageId": "same"}))
    bench.supply.send(Outgoing("servicebus/q", "2", "a", metadata={"MessageId": "same"}))
    bench.supply.send(Outgoing("eventHub/hub", "3", ""))
    ids = [record.get("id") for record in bench.written("message_sent")]
    assert len(set(ids)) == 3
    assert bench.supply.queued() == 3
    bus = Bus(bench.supply.url)
    try:
        got = await bus.receive("servicebus/q", 1.0)
        assert got is not None
        assert (got["id"], got["body"], got["metadata"]) == (ids[0], "1", {"MessageId": "same"})
    finally:
        await bus.close()
    bench.supply.write_what_is_left()
    left = {record.get("queue"): (record.get("ids"), record.get("invisible")) for record in bench.written("queue_left")}
    assert left == {"servicebus/q": ([ids[1]], 1), "eventHub/hub": ([ids[2]], 0), "serviceBus/t": ([], 0)}


def test_messages_of_sessions_are_told_with_their_session(bench: Bench) -> None:
    for session in ("a", "b"):
        bench.supply.send(Outgoing("serviceBus/t", "[1]", "", metadata={"SessionId": session}))
        bench.supply.send(Outgoing("servicebus/q", "1", "", metadata={"SessionId": session}))  # it has no sessions
    sent = [(record.get("queue"), record.text("session")) for record in bench.written("message_sent")]
    assert sent == [("serviceBus/t", "a"), ("servicebus/q", ""), ("serviceBus/t", "b"), ("servicebus/q", "")]


def test_a_request_of_the_users_waits_until_a_host_is_up(bench: Bench) -> None:
    asked = RequestSpec(function="ship", method="GET", path="/api/ship")
    bench.supply.send(Outgoing("http/ship", "", "a", request=asked, own=True))
    bench.supply.send_held()
    (held,) = bench.written("request_held")
    assert bench.supply.requests() == 1
    bench.board.take(held)
    assert bench.board.history.traffic.held == {held.get("request"): "ship"}
    bench.see("http_port", "host-1", port=9)
    bench.see("host_ready", "host-1")
    bench.supply.send_held()
    bench.supply.send_held()
    (sent,) = bench.written("request_sent")
    assert (sent.get("request"), sent.host) == (held.get("request"), "host-1")
    bench.board.take(sent)
    assert bench.board.history.traffic.held == {}
    assert bench.supply.requests() == 1  # its caller waits


def test_a_request_goes_to_a_host_whose_app_has_the_function(bench: Bench) -> None:
    for number, functions in enumerate((["call"], ["ship", "call"], ["bill"])):
        bench.see("http_port", f"host-{number}", port=9, functions=functions)
        bench.see("host_ready", f"host-{number}")
    for _ in range(6):
        bench.supply.send(
            Outgoing("http/ship", "", "a", request=RequestSpec(function="ship", method="GET", path="/api/ship"))
        )
    assert {record.host for record in bench.written("request_sent")} == {"host-1"}


def test_a_request_goes_to_a_host_that_works_and_its_caller_tells_what_became_of_it(bench: Bench) -> None:
    ask = Outgoing("http/ship", "", "a", request=RequestSpec(function="ship", method="POST", path="/api/ship"))
    bench.supply.send(ask)
    bench.supply.send_held()
    assert bench.written("request_sent") == []  # nobody is there yet
    assert bench.supply.requests() == 0  # it was made
    bench.see("http_port", "host-1", port=9)  # nobody answers there
    bench.see("host_ready", "host-1")
    bench.see("http_port", "host-2", port=9)
    bench.supply.send(ask)
    (sent,) = bench.written("request_sent")
    assert (sent.host, sent.get("function"), sent.get("source"), sent.get("key")) == (
        "host-1",
        "ship",
        "http/ship",
        "a",
    )
    bench.board.take(sent)
    assert bench.supply.requests() == 1
    deadline = time.monotonic() + 60
    while not (failed := bench.written("request_failed")) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert (failed[0].host, failed[0].get("request")) == ("host-1", sent.get("request"))
    bench.board.take(failed[0])
    assert bench.supply.requests() == 0
