"""Deferred messages in a storm: hosts are killed and paused at random moments, and every message must come through.

The experiment at its full size, its verdict as JSON; another seed is another storm:

    python -m tests.integration.defer_storm --seed 7
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simulator.azurite.server import Azurite
from simulator.checks.verdict import Verdict, judge
from simulator.history.journal import Journal, Record, Tail, in_order, read_journals
from simulator.report.board import Board
from tests.integration.hosts import Queue, RunningHost, seen, write_app

if TYPE_CHECKING:
    from collections.abc import Iterator

APP = """
@app.queue_trigger(arg_name="msg", queue_name="{queue}", connection="AzureWebJobsStorage")
@singleton(scope="Id", on_contention="defer")
async def ship(msg: func.QueueMessage) -> None:
    body = msg.get_json()
    await asyncio.sleep(body["Seconds"])
    current_hold().raise_if_lost()
    seen(body["Number"], msg.dequeue_count, current_hold().token)
"""
LEASE = 15.0
PATIENCE = 240.0
IN_FLIGHT = 2.0
"""Seconds between a request and the record of its answer, on a busy machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Storm:
    """What is to happen. ``seconds``: in which messages are sent, and hosts killed and paused."""

    messages: int = 500
    keys: int = 20
    hosts: int = 6
    kills: int = 10
    pauses: int = 5
    seconds: float = 45.0
    longest_body: float = 0.6
    delay: str = "00:00:03"
    seed: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What came of it; ``runs`` has for each run of a body the message's number and dequeue count.

    ``burnt`` has the ids of the messages whose count rose although no host that had them was struck.
    """

    verdict: Verdict
    runs: list[tuple[int, int]] = field(repr=False)
    poisoned: int
    burnt: list[str]

    @property
    def handled(self) -> int:
        """How many messages were handled, once or more often."""
        return len({number for number, _ in self.runs})


class _Fleet:
    """Hosts that come back after each kill, under a new name; what happens to them is in the fleet's journal."""

    def __init__(self, storm: Storm, app: Path, storage: str, folder: Path) -> None:
        self.journal = Journal(folder / "fleet.jsonl", "fleet")
        self.board = Board()
        self.hosts: list[RunningHost] = []
        self.paused: set[str] = set()
        self._tails: list[Tail] = []
        self._app, self._storage, self._folder = app, storage, folder
        for _ in range(storm.hosts):
            self.start()

    def start(self) -> None:
        number = len(self.hosts) + 1
        changes = {"name": f"host-{number}", "visibility": 20.0, "max_polling_interval": 1.0, "seed": number}
        host = RunningHost(self._app, self._storage, self._folder, **changes)
        self.hosts.append(host.start())
        self._tails.append(Tail(host.journal))

    def look(self) -> None:
        for record in in_order(record for tail in self._tails for record in tail.read()):
            self.board.take(record)

    def ready(self) -> list[RunningHost]:
        self.look()
        alive = set(self.board.alive()) - self.paused
        return [host for host in self.hosts if host.name in alive]

    def kill(self, host: RunningHost) -> None:
        host.signal(signal.SIGSTOP)
        time.sleep(0.01)  # what it had begun to write is written
        self.look()
        inside = [each for each in self.board.inside() if each.host == host.name]
        holds = [
            {"lock": each.lock, "function": each.function, "owner": each.owner, "token": each.token} for each in inside
        ]
        self.journal.write("kill", host=host.name, pid=host.running.pid, holds=holds)
        host.close()
        self.board.take(Record(0.0, host.name, "kill", {"pid": host.running.pid, "holds": holds}))

    def pause(self, host: RunningHost) -> None:
        self.paused.add(host.name)
        self.journal.write("pause", host=host.name)
        host.signal(signal.SIGSTOP)

    def resume(self, host: RunningHost) -> None:
        host.signal(signal.SIGCONT)
        self.journal.write("resume", host=host.name)
        self.paused.discard(host.name)

    def stop(self) -> None:
        running = [host for host in self.hosts if host.running.poll() is None]
        for host in running:
            host.running.terminate()
        for host in running:
            code = host.running.wait(60)
            self.journal.write("host_exited", host=host.name, code=code, expected=code in {0, -15})

    def close(self) -> None:
        for host in self.hosts:
            host.close()
        self.journal.close()


def run(storm: Storm, storage: str, folder: Path, queue_name: str) -> Result:
    """Run the storm and judge it."""
    rng = random.Random(storm.seed)
    app = write_app(
        folder / "app", APP.replace("{queue}", queue_name), singleton={"deferDelay": storm.delay}, extensions={}
    )
    journals = folder / "journals"
    journals.mkdir()
    with Queue(storage, queue_name) as queue:
        queue.create()
        fleet = _Fleet(storm, app, storage, journals)
        try:
            fleet.journal.write(
                "run_started", hosts=storm.hosts, kill=storm.kills, seed=storm.seed, singleton=True, aimed=False
            )
            _weather(storm, rng, fleet, queue)
            _calm(queue)
            fleet.stop()
            poisoned = _left(fleet.journal, storage, queue)
            fleet.journal.write("run_ended", interrupted=False)
        finally:
            fleet.close()
    records = read_journals(journals)
    runs = [(number, count) for number, count, _ in seen(app)]
    return Result(verdict=judge(records), runs=runs, poisoned=poisoned, burnt=_burnt(records))


def _weather(storm: Storm, rng: random.Random, fleet: _Fleet, queue: Queue) -> None:
    """Send, kill and pause."""
    while len(fleet.ready()) < storm.hosts:
        time.sleep(0.1)
    start = time.monotonic()
    for at, what, number in sorted(_plan(storm, rng)):
        while (wait := start + at - time.monotonic()) > 0:
            time.sleep(min(wait, 0.05))
        if what == "send":
            key = rng.randrange(storm.keys)
            body = {"Id": f"key-{key}", "Number": number, "Seconds": rng.uniform(0.02, storm.longest_body)}
            (name,) = queue.send(body)
            fleet.journal.write("message_sent", queue=queue.name, id=name, key=f"key-{key}")
        elif what == "resume":
            if paused := [host for host in fleet.hosts if host.name in fleet.paused]:
                fleet.resume(paused[0])
        else:
            host = _victim(fleet, rng)
            if what == "kill":
                fleet.kill(host)
                fleet.start()
            else:
                fleet.pause(host)


def _plan(storm: Storm, rng: random.Random) -> Iterator[tuple[float, str, int]]:
    for number in range(storm.messages):
        yield rng.uniform(0, storm.seconds), "send", number
    for number in range(storm.kills):
        yield rng.uniform(2, storm.seconds), "kill", number
    for number in range(storm.pauses):
        at = rng.uniform(2, storm.seconds)
        yield at, "pause", number
        yield at + rng.uniform(LEASE + 3, LEASE + 10), "resume", number


def _victim(fleet: _Fleet, rng: random.Random) -> RunningHost:
    """Choose a host that works; another one must, too. If need be, one that stands still goes on before its time."""
    patience = time.monotonic() + LEASE
    while len(ready := fleet.ready()) < 2:
        if time.monotonic() > patience:
            fleet.resume(next(host for host in fleet.hosts if host.name in fleet.paused))
            patience += LEASE
        time.sleep(0.05)
    return rng.choice(ready)


def _calm(queue: Queue) -> None:
    """Wait until all messages are gone."""
    end = time.monotonic() + PATIENCE
    while queue.length() and time.monotonic() < end:
        time.sleep(0.5)


def _left(journal: Journal, storage: str, queue: Queue) -> int:
    """Write down what is left in the queue, and in its poison queue; return how much that is."""
    ids = queue.peek()
    journal.write("queue_left", queue=queue.name, ready=len(ids), invisible=queue.length() - len(ids), ids=ids)
    with Queue(storage, f"{queue.name}-poison") as poison:
        ids = poison.peek()
    journal.write("poison", queue=queue.name, ids=ids)
    return len(ids)


def _burnt(records: list[Record]) -> list[str]:
    """Return the ids of messages that were received again although nobody had struck the host that had them before.

    A host that is struck while the answer is on its way has them, too, and never says so.
    """
    received = [record for record in records if record.event == "message_received"]
    had = {(record.text("id"), record.get("dequeue_count")): record for record in received}
    strikes = [record for record in records if record.event in {"kill", "pause", "resume"}]
    burnt = []
    for record in received:
        before = had.get((record.text("id"), record.get("dequeue_count") - 1))
        if before is not None and not any(
            strike.host == before.host and before.t - IN_FLIGHT <= strike.t <= record.t for strike in strikes
        ):
            burnt.append(record.text("id"))
    return burnt


def report(result: Result) -> dict[str, Any]:
    """Return what the experiment showed, for machines and people."""
    verdict = result.verdict
    return {
        "verdict": verdict.verdict,
        "reasons": verdict.reasons,
        "notes": verdict.notes,
        "sent": verdict.messages.sent,
        "handled": result.handled,
        "poisoned": result.poisoned,
        "burnt without a fault": len(result.burnt),
        "runs": len(result.runs),
        "runs by dequeue count": dict(sorted(Counter(count for _, count in result.runs).items())),
        "messages": {
            name: getattr(verdict.messages, name)
            for name in ("completed", "lost", "stuck", "deferred", "deferrals", "duplicated", "redelivered")
        },
        "troubles": [f"{each.id}: {each.what}" for each in verdict.messages.troubles],
        "kills": verdict.kills,
        "overlaps": len(verdict.overlaps),
        "caught": len(verdict.caught),
        "seconds": round(verdict.duration, 1),
    }


def main() -> None:
    """Run one storm on an Azurite of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, kind in (
        ("messages", int),
        ("keys", int),
        ("hosts", int),
        ("kills", int),
        ("pauses", int),
        ("seed", int),
    ):
        parser.add_argument(f"--{name}", type=kind, default=getattr(Storm(), name))
    parser.add_argument("--seconds", type=float, default=Storm().seconds)
    parser.add_argument("--keep", action="store_true", help="keep the journals")
    options = vars(parser.parse_args())
    keep = options.pop("keep")
    folder = Path(tempfile.mkdtemp(prefix="defer-storm-"))
    with Azurite() as azurite:
        result = run(Storm(**options), azurite.connection_string, folder, "orders")
    print(json.dumps(report(result), indent=2))  # noqa: T201 - it is what the command is for
    if keep:
        print(folder)  # noqa: T201


if __name__ == "__main__":
    main()
