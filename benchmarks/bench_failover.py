"""How long a killed holder's lock takes to be taken over with ``failover=2``, on Azurite and real processes.

Each round kills a process that has the lock, at a random time between two touches. A waiter must have it within
``failover + 1`` seconds.
"""

from __future__ import annotations

import random
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.measuring import heading, machine, table
from simulator.azurite.server import Azurite
from singleton import LockClient

if TYPE_CHECKING:
    from benchmarks.measuring import Rows, Tables

ROOT: Final = Path(__file__).resolve().parents[1]
ROUNDS: Final = 20
FAILOVER: Final = 2.0
_HOLDER: Final = """
import sys, time
from singleton import LockClient
hold = LockClient(sys.argv[1], failover=float(sys.argv[2])).acquire(sys.argv[3])
print("held", flush=True)
time.sleep(60)
"""


def main() -> Tables:
    """Kill holders, one after another, and say how long each takeover took."""
    heading(f"{ROUNDS} killed holders with failover={FAILOVER:g} ({machine()})")
    rng = random.Random(1)
    with Azurite() as azurite, LockClient(azurite.connection_string, failover=FAILOVER) as locks:
        took = sorted(_round(azurite, locks, f"job-{number}", rng) for number in range(ROUNDS))
    within = sum(seconds < FAILOVER + 1 for seconds in took)
    rows: Rows = [(f"`failover={FAILOVER}`, kills", f"within {FAILOVER + 1:g} s", "fastest", "median", "slowest")]
    rows += [(str(ROUNDS), str(within), f"{took[0]:.2f} s", f"{statistics.median(took):.2f} s", f"{took[-1]:.2f} s")]
    table(rows)
    return {"failover": rows}


def _round(azurite: Azurite, locks: LockClient, name: str, rng: random.Random) -> float:
    command = [sys.executable, "-c", _HOLDER, azurite.connection_string, str(FAILOVER), name]
    with (
        subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as holder,
        ThreadPoolExecutor(1) as pool,
    ):
        assert holder.stdout is not None
        holder.stdout.readline()
        waiting = pool.submit(locks.acquire, name, timeout=30)
        time.sleep(1.0 + rng.uniform(0, 2.0))
        holder.kill()
        died = time.monotonic()
        hold = waiting.result()
        seconds = time.monotonic() - died
        locks.release(hold)
    return seconds
