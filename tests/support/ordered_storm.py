"""A storm over an inbox: processes that send and handle, and are killed or stand still; and what must be true after.

python -m tests.support.ordered_storm --keys 20 --count 200 --workers 6
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

SCRIPT = Path(__file__).with_name("ordered_process.py")
ROOT = Path(__file__).parents[2]


@dataclass
class Storm:
    """Its settings, and what became of it."""

    connection: str
    journal: Path
    keys: int = 4
    count: int = 20
    workers: int = 3
    senders: int = 2
    body: float = 0.02
    every: float = 3.0
    pause: float = 17.0
    within: float = 240.0
    seed: int = 1
    kills: int = 0
    pauses: int = 0
    took: float = 0.0
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    paused: dict[int, float] = field(default_factory=dict)
    inbox: str = field(default_factory=lambda: f"inbox-{uuid.uuid4().hex[:12]}")
    container: str = field(default_factory=lambda: f"test-{uuid.uuid4().hex}")

    def start(self, what: str, *more: object) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "INBOXES": self.connection, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, str(SCRIPT), what, str(self.journal), self.container, self.inbox, *map(str, more)]
        return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, cwd=ROOT)

    def run(self) -> None:
        """Send and handle, under kills and pauses, until all is handled or the time is over."""
        rng, began = random.Random(self.seed), time.monotonic()
        self.journal.touch()
        sending = [self.start("send", f"s{n}", self.keys, self.count) for n in range(self.senders)]
        self.processes = [self.start("work", self.body) for _ in range(self.workers)]
        strike = time.monotonic() + self.every
        try:
            while not self._all_handled() and time.monotonic() < began + self.within:
                time.sleep(0.05)
                now = time.monotonic()
                if not self.kills + self.pauses and self.lines("begin"):
                    strike = now  # however fast this machine is, somebody is struck with messages in hand
                for pid in [pid for pid, until in self.paused.items() if until <= now]:
                    os.kill(pid, signal.SIGCONT)
                    del self.paused[pid]
                if now >= strike:
                    strike = now + self.every
                    self._strike(rng, now)
            self.took = time.monotonic() - began
        finally:
            for process in [*sending, *self.processes]:
                if process.pid in self.paused:
                    os.kill(process.pid, signal.SIGCONT)
                if process in sending:
                    process.kill()
                assert process.stdin is not None
                process.stdin.close()
            for process in [*sending, *self.processes]:
                process.wait(60)

    def _strike(self, rng: random.Random, now: float) -> None:
        fit = [each for each in self.processes if each.pid not in self.paused]
        if not fit:
            return
        victim = rng.choice(fit)
        if rng.random() < 0.5 and len(fit) > 1:
            os.kill(victim.pid, signal.SIGSTOP)
            self.paused[victim.pid] = now + self.pause
            self.pauses += 1
        else:
            victim.kill()
            victim.communicate()
            self.kills += 1
            self.processes[self.processes.index(victim)] = self.start("work", self.body)

    def lines(self, what: str) -> list[list[str]]:
        return [line.split() for line in self.journal.read_text().splitlines() if line.startswith(f"{what} ")]

    def _all_handled(self) -> bool:
        return len({(key, body) for _, _, key, body, _ in self.lines("end")}) >= self.keys * self.count * self.senders

    def judge(self) -> dict[str, int]:
        """Raise ``AssertionError`` unless all was handled, in order, and only what was in hand was repeated."""
        expected = self.keys * self.count * self.senders
        sent, begun = self.lines("sent"), self.lines("begin")
        handled = {(key, body) for _, _, key, body, _ in self.lines("end")}
        assert len(sent) == expected, f"{len(sent)} of {expected} were sent"
        assert len(handled) == expected, f"{len(handled)} of {expected} were handled in {self.took:.0f} s"
        repeats = 0
        highest: dict[tuple[str, str], int] = {}
        tokens: dict[str, int] = {}
        order: dict[str, list[str]] = defaultdict(list)
        for _, pid, key, body, token in begun:
            label, number = body.split(":")
            if int(token) < tokens.get(key, 0):
                # It stood still between its check and its first line, as any process may.
                repeats += 1
                continue
            tokens[key] = int(token)
            last = highest.get((key, label), -1)
            if order[key] and order[key][-1] == body:
                repeats += 1
                continue
            assert int(number) == last + 1, f"{key}: {body} by {pid} after {label}:{last}"
            highest[key, label] = int(number)
            order[key].append(body)
        assert repeats <= (self.kills + self.pauses) * 8, f"{repeats} repeats by {self.kills + self.pauses} strikes"
        return {"messages": expected, "repeats": repeats, "kills": self.kills, "pauses": self.pauses}


def main() -> None:
    """Run one by hand."""
    from simulator.azurite.server import Azurite

    parser = argparse.ArgumentParser()
    parser.add_argument("--keys", type=int, default=20)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--workers", type=int, default=6)
    parser.add_argument("--senders", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--within", type=float, default=600)
    asked = vars(parser.parse_args())
    with Azurite() as azurite, tempfile.TemporaryDirectory() as folder:
        storm = Storm(azurite.connection_string, Path(folder) / "journal", **asked)
        storm.run()
        print(storm.judge(), f"{storm.took:.0f} s")  # noqa: T201


if __name__ == "__main__":
    main()
