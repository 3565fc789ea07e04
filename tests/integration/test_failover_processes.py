"""Failover across real processes: a killed holder's lock is taken over soon, and a mixed fleet stays exclusive."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from azure.storage.blob import BlobClient, BlobLeaseClient

from singleton import LockClient, LockNotAcquired, SingletonOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
FAILOVER = 2.0
BEFORE_THE_LEASE_ENDS = 11.0
"""Seconds after a death in which a lease does not end by itself. ``make bench ARGS=failover`` measures the time."""

HOLDER = """
import sys, time
from singleton import LockClient, SingletonOptions
connection, container, how, failover = sys.argv[1:]
locks = LockClient(connection, options=SingletonOptions(container=container), failover=float(failover))
if how == "leader":
    leadership = locks.leadership("job")
    leadership.start()
    hold = leadership.wait()
else:
    hold = locks.acquire("job")
print("held", flush=True)
time.sleep(60)
"""

STORM = """
import json, random, sys, time
from singleton import LockClient, SingletonOptions
from singleton.stores import stamps
connection, container, journal, number, failover, until = sys.argv[1:]
if failover == "older":  # it keeps what it does not know
    stamps.STAMP_KEYS -= {"singletonfailover", "singletonfailoverlease"}
    failover = "0"
locks = LockClient(connection, options=SingletonOptions(container=container), failover=float(failover))
rng = random.Random(int(number))
with open(journal, "a", buffering=1) as lines:
    while time.time() < float(until):
        with locks.lock("job") as hold:
            lines.write(json.dumps(["in", time.monotonic(), hold.token, number]) + "\\n")
            time.sleep(rng.choice([0.0, 0.1, 2.5]))
            lost = hold.lost.is_set()
            lines.write(json.dumps(["lost" if lost else "out", time.monotonic(), hold.token, number]) + "\\n")
        time.sleep(rng.uniform(0, 0.2))
"""


@pytest.fixture
def locks(connection_string: str, container_name: str) -> Iterator[LockClient]:
    options = SingletonOptions(container=container_name)
    with LockClient(connection_string, options=options, failover=FAILOVER) as client:
        yield client


def holder(connection_string: str, container: str, how: str = "lock") -> subprocess.Popen[str]:
    """Start a process that has the lock when this returns."""
    command = [sys.executable, "-c", HOLDER, connection_string, container, how, str(FAILOVER)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def kill(process: subprocess.Popen[str]) -> float:
    """Kill it; return when."""
    process.kill()
    at = time.monotonic()
    process.communicate(timeout=60)
    return at


@pytest.mark.parametrize("pause", [0.2, 1.3])
def test_a_waiter_takes_over_from_a_killed_process_before_its_lease_ends(
    locks: LockClient, connection_string: str, container_name: str, pause: float
) -> None:
    process = holder(connection_string, container_name)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(locks.acquire, "job", timeout=60)
        time.sleep(pause)
        assert not waiting.done()
        died = kill(process)
        locks.release(waiting.result(60))
    assert time.monotonic() - died < BEFORE_THE_LEASE_ENDS


def test_a_candidate_takes_over_from_a_killed_leader_before_its_lease_ends(
    locks: LockClient, connection_string: str, container_name: str
) -> None:
    process = holder(connection_string, container_name, "leader")
    with locks.leadership("job") as leadership:
        assert leadership.wait(1.5) is None
        died = kill(process)
        assert leadership.wait(60) is not None
        assert time.monotonic() - died < BEFORE_THE_LEASE_ENDS


def test_ticks_that_skip_take_over_from_a_killed_process_too(
    locks: LockClient, connection_string: str, container_name: str
) -> None:
    process = holder(connection_string, container_name)

    def tick() -> bool:
        try:
            locks.release(locks.acquire("job", timeout=0))
        except LockNotAcquired:
            return False
        return True

    assert not tick()
    died = kill(process)
    while not tick():
        assert time.monotonic() - died < BEFORE_THE_LEASE_ENDS
        time.sleep(0.5)


@pytest.mark.slow
def test_a_fleet_with_failover_off_and_on_and_an_older_version_is_exclusive(
    connection_string: str, container_name: str, tmp_path: Path
) -> None:
    fleet = ["2", "2", "5", "0", "older"]
    until = time.time() + 20
    journal = tmp_path / "journal"
    processes = [
        subprocess.Popen(
            [
                *(sys.executable, "-c", STORM, connection_string, container_name),
                *(str(journal), str(number), failover, str(until)),
            ],
            cwd=ROOT,
        )
        for number, failover in enumerate(fleet)
    ]
    time.sleep(12)
    while '"0"]' not in journal.read_text() and time.time() < until:
        time.sleep(0.1)  # on a busy machine the first may not have had its turn yet
    processes[0].kill()
    for process in processes:
        process.wait(120)
    events = sorted((json.loads(line) for line in journal.read_text().splitlines()), key=lambda event: event[1])
    inside: list[Any] = []
    last = 0
    for kind, _, token, number in events:
        if kind == "in":
            assert [each for each in inside if each != "0"] == [], "two inside"
            assert token > last
            last = token
            inside = [number]
        else:
            assert kind == "out", f"process {number} lost its hold"
            inside = []
    assert {event[3] for event in events} == {str(number) for number in range(len(fleet))}
    assert all(process.returncode == 0 for process in processes[1:])


def test_the_live_lease_of_another_library_is_waited_for_on_a_lock_that_was_touched_before(
    locks: LockClient, connection_string: str, container_name: str
) -> None:
    """As DistributedLock takes leases: it writes nothing on the blob."""
    kill(holder(connection_string, container_name))
    with locks.lock("job", timeout=BEFORE_THE_LEASE_ENDS):
        pass
    theirs = BlobLeaseClient(BlobClient.from_connection_string(connection_string, container_name, "job"))
    theirs.acquire(15)
    with pytest.raises(LockNotAcquired):
        locks.acquire("job", timeout=3 * FAILOVER)
    theirs.renew()
    theirs.release()
