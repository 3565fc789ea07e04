"""Locks and semaphores across real processes (M-54 to M-56): respected, given back, and free after a death."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from singleton import LockClient, SingletonOptions
from singleton.base.errors import LockNotAcquired
from tests.support.fault_world import SLACK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from singleton import Hold

ROOT = Path(__file__).resolve().parents[2]
HELPER = """
import os, sys
from singleton import LockClient, SingletonOptions
connection, container, name, limit = sys.argv[1:]
locks = LockClient(connection, options=SingletonOptions(container=container))
hold = locks.acquire(name, limit=int(limit) or None, timeout=30, owner=str(os.getpid()))
print("held", flush=True)
if sys.stdin.readline() == "abandon\\n":
    os._exit(0)
locks.release(hold)
print("released", flush=True)
"""
KINDS = pytest.mark.parametrize("limit", [None, 1, 5], ids=["lock", "semaphore", "semaphore of 5, 4 taken"])


@pytest.fixture
def options(container_name: str) -> SingletonOptions:
    return SingletonOptions(container=container_name)


@pytest.fixture
def locks(connection_string: str, options: SingletonOptions) -> Iterator[LockClient]:
    with LockClient(connection_string, options=options) as client:
        yield client


def another_process(connection_string: str, container: str, name: str, limit: int | None) -> subprocess.Popen[str]:
    """Start a process that holds the lock; it has it when this returns."""
    command = [sys.executable, "-c", HELPER, connection_string, container, name, str(limit or 0)]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def tell(process: subprocess.Popen[str], what: str) -> str:
    """Say what to do and wait for the end; return what it printed."""
    out, _ = process.communicate(f"{what}\n", timeout=60)
    return out


def refused(locks: LockClient, name: str, limit: int | None) -> bool:
    try:
        locks.release(locks.acquire(name, limit=limit, timeout=0))
    except LockNotAcquired:
        return True
    return False


def taken(locks: LockClient, name: str, limit: int | None) -> list[Hold]:
    """Take all slots but one (M-67)."""
    return [locks.acquire(name, limit=limit, timeout=0) for _ in range((limit or 1) - 1)]


def owners(locks: LockClient, name: str, limit: int | None) -> set[str | None]:
    holders = map(locks.holder, [name] if limit is None else [f"{name}/slot-{number}" for number in range(limit)])
    return {holder.owner for holder in holders if holder is not None}


@KINDS
def test_another_process_is_respected_and_its_lock_can_be_had_within_ten_seconds_after_its_release(
    locks: LockClient, connection_string: str, container_name: str, limit: int | None
) -> None:
    """M-54."""
    slots = taken(locks, "job", limit)
    process = another_process(connection_string, container_name, "job", limit)
    assert refused(locks, "job", limit)
    assert str(process.pid) in owners(locks, "job", limit)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(locks.acquire, "job", limit=limit, timeout=30)
        assert tell(process, "release") == "released\n"
        released = time.monotonic()
        locks.release(waiting.result(60))
    assert time.monotonic() - released < 10 + SLACK
    assert process.returncode == 0
    for slot in slots:
        locks.release(slot)


@pytest.mark.slow
def test_the_lock_of_a_process_that_dies_can_be_had_after_its_lease(
    locks: LockClient, connection_string: str, container_name: str
) -> None:
    """M-55, M-56, for locks and semaphores, at once: each takes a lease."""
    longest = 15 + 5 + 10
    cases = [(f"{end}-{limit}", end, limit) for end in ("abandon", "kill") for limit in (None, 1, 5)]
    slots = [slot for name, _, limit in cases for slot in taken(locks, name, limit)]
    processes = {name: another_process(connection_string, container_name, name, limit) for name, _, limit in cases}
    with ThreadPoolExecutor(len(cases)) as pool:
        waiting = {
            name: pool.submit(locks.acquire, name, limit=limit, timeout=longest + 10) for name, _, limit in cases
        }
        for name, end, limit in cases:
            assert not waiting[name].done()
            process = processes[name]
            if end == "abandon":
                assert tell(process, "abandon") == ""
                assert process.returncode == 0
            else:
                process.kill()
                process.communicate(timeout=60)
                assert process.returncode == -signal.SIGKILL
            assert refused(locks, name, limit)
        died = time.monotonic()
        for each in waiting.values():
            locks.release(each.result(longest + 10))
        assert 3 < time.monotonic() - died < longest
    for slot in slots:
        locks.release(slot)


def test_the_slot_of_a_killed_process_stays_taken_and_that_of_another_can_be_had_once_it_is_released(
    locks: LockClient, connection_string: str, container_name: str
) -> None:
    processes = [another_process(connection_string, container_name, "reports", 2) for _ in range(2)]
    assert refused(locks, "reports", 2)
    processes[0].kill()
    processes[0].communicate(timeout=60)
    assert refused(locks, "reports", 2)
    assert tell(processes[1], "release") == "released\n"
    hold = locks.acquire("reports", limit=2, timeout=0)
    assert refused(locks, "reports", 2)
    locks.release(hold)
