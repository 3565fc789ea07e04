"""A hundred thousand lock blobs on Azurite, listed and swept by ``singleton-locks`` while a storm of lockers runs.

Judged by what the lockers wrote down: no two inside one lock, no hold lost, tokens greater each time. Told is what they
pay: how many holds there were in a second, how long they were waited for, and how often the storage did not answer,
before the sweep and beside it. A delete keeps the emulator as busy as twenty cycles of a lock do, the more so the more
blobs there are, and a sweep rests five times as long as it works. So it is broken off after some minutes: all of
100,000 would take more than a day. What was measured is in ``docs/operations.md``.
``python -c "from benchmarks import bench_sweep; bench_sweep.main(5_000)"`` has fewer blobs.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from benchmarks.measuring import heading, machine, say, table
from simulator.azurite.server import ACCOUNT, KEY, Azurite
from singleton import AsyncLockClient, SingletonOptions, StorageUnavailable
from singleton.layouts.blob_name import lock_name

ROOT: Final = Path(__file__).resolve().parents[1]
CONTAINER: Final = "storm"
HOT: Final = 300
"""Locks that the storm uses; all of them are among those that the sweep finds old."""
PROCESSES: Final = 2
TASKS: Final = 4
AT_ONCE: Final = 32
ALONE: Final = 60.0
"""Seconds of the storm before anybody lists or sweeps."""
LONGEST: Final = 240.0
"""Seconds after which a command is broken off."""


def main(blobs: int = 100_000) -> None:
    """Make the blobs, start the storm, list, sweep, and judge."""
    heading(f"{blobs:,} lock blobs listed and swept in a storm of {PROCESSES * TASKS} lockers ({machine()})")
    with Azurite() as azurite, tempfile.TemporaryDirectory() as folder:
        start = time.monotonic()
        asyncio.run(_make(azurite, blobs))
        say(f"  made in {time.monotonic() - start:.0f} s; waiting a minute, for nothing younger is swept")
        time.sleep(62)
        environment = {**os.environ, "AzureWebJobsStorage": azurite.connection_string, "PYTHONPATH": str(ROOT)}
        storm = [
            subprocess.Popen([sys.executable, "-m", "benchmarks.bench_sweep", str(number), folder], env=environment)
            for number in range(PROCESSES)
        ]
        time.sleep(5)
        spans = [("alone", time.monotonic(), time.monotonic() + ALONE)]
        time.sleep(ALONE)
        rows = [("", "seconds", "blobs a second", "peak MiB")]
        results: list[dict[str, Any]] = []
        for name, arguments in (
            ("list --json", ["list", "--json"]),
            ("sweep", ["sweep", "--older-than", "1m", "--json"]),
            ("list after it", ["list", "--json"]),
        ):
            began = time.monotonic()
            seconds, peak, output = _command(arguments, environment)
            spans.append((name, began, time.monotonic()))
            found = json.loads(output)
            results.append({"listed": len(found)} if isinstance(found, list) else found)
            many = results[-1].get("listed") or results[-1]["seen"]
            rows.append((name, f"{seconds:.1f}", f"{many / seconds:,.0f}", f"{peak / 1024:.0f}"))
        for process in storm:
            process.send_signal(signal.SIGTERM)
        for process in storm:
            process.wait(60)
        table(rows)
        for result in results:
            say(f"  {result}")
        _judge(Path(folder), spans)


async def _make(azurite: Azurite, blobs: int) -> None:
    """Make them by plain requests under one signature: the SDK would take five times as long."""
    import aiohttp
    from azure.storage.blob import ContainerClient, ContainerSasPermissions, generate_container_sas
    from yarl import URL

    with ContainerClient.from_connection_string(azurite.connection_string, CONTAINER) as container:
        container.create_container()
        where = container.url
    allowed, later = ContainerSasPermissions(write=True, create=True), datetime.now(UTC) + timedelta(hours=3)
    signature = generate_container_sas(ACCOUNT, CONTAINER, account_key=KEY, permission=allowed, expiry=later)
    stamp = {"SingletonEpoch": "1", "SingletonHost": "bench", "SingletonPid": "1", "FunctionInstance": "made"}
    headers = {"x-ms-blob-type": "BlockBlob", "x-ms-version": "2021-12-02"}
    headers |= {f"x-ms-meta-{key}": value for key, value in stamp.items()}
    numbers = iter(range(blobs))
    async with aiohttp.ClientSession(headers=headers) as session:

        async def work() -> None:
            for number in numbers:
                url = URL(f"{where}/{quote(_name(number))}?{signature}", encoded=True)
                async with session.put(url, data=b"") as reply:
                    assert reply.status == 201, await reply.text()

        await asyncio.gather(*(work() for _ in range(AT_ONCE)))


def _name(number: int) -> str:
    return lock_name("bench", "ship", [f"customer/{number}"])


def _command(arguments: list[str], environment: dict[str, str]) -> tuple[float, int, str]:
    """Run the command, at most for some minutes; return its seconds, its greatest memory in KiB, and what it wrote."""
    with tempfile.TemporaryFile("w+") as output:
        start = time.monotonic()
        command = [sys.executable, "-m", "singleton", *arguments, "--container", CONTAINER]
        process = subprocess.Popen(command, env=environment, stdout=output)
        breaking_off = threading.Timer(LONGEST, process.terminate)
        breaking_off.start()
        _, status, usage = os.wait4(process.pid, 0)
        breaking_off.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.monotonic() - start
        assert process.returncode == 0 or seconds > LONGEST, arguments
        output.seek(0)
        return seconds, usage.ru_maxrss, output.read()


# --- the storm --------------------------------------------------------------------------------------------------------


async def _storm(number: int, folder: Path) -> None:
    """Lock and unlock until a signal comes; write down each hold: lock, asked, begin, end, token, how it was lost.

    Where the storage did not answer, only lock and asked.
    """
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    options = SingletonOptions(container=CONTAINER, lock_acquisition_polling_interval=0.5, handoff_window=1)
    client = AsyncLockClient(options=options)
    with (folder / f"holds-{number}.jsonl").open("w") as journal:

        async def work(task: int) -> None:
            rng = random.Random(number * 100 + task)
            while not ended.is_set():
                name = _name(rng.randrange(HOT) * 331)
                record: list[Any] = [name, time.monotonic()]
                with contextlib.suppress(StorageUnavailable):
                    async with client.lock(name, owner=f"{number}-{task}") as hold:
                        began = time.monotonic()
                        await asyncio.sleep(20 if rng.random() < 0.01 else rng.uniform(0, 0.2))
                        record += [began, time.monotonic(), hold.token, hold.lost.reason]
                journal.write(json.dumps(record) + "\n")
                await asyncio.sleep(rng.uniform(0, 0.5))

        await asyncio.gather(*(work(task) for task in range(TASKS)))


def _judge(folder: Path, spans: list[tuple[str, float, float]]) -> None:
    holds: defaultdict[str, list[tuple[float, float, int, str | None]]] = defaultdict(list)
    asked: list[tuple[float, float | None]] = []
    for journal in folder.glob("holds-*.jsonl"):
        for line in journal.read_text().splitlines():
            name, since, *record = json.loads(line)
            asked.append((since, record[0] - since if record else None))
            if record:
                holds[name].append(tuple(record))
    rows = [("beside", "holds a second", "mean wait, s", "unanswered")]
    for what, begins, ends in spans:
        found = [waited for since, waited in asked if begins <= since < ends]
        waits = [waited for waited in found if waited is not None]
        mean = sum(waits) / max(1, len(waits))
        rows.append((what, f"{len(waits) / (ends - begins):.1f}", f"{mean:.3f}", f"{len(found) - len(waits)}"))
    table(rows)
    overlaps = repeated = lost = 0
    for taken in holds.values():
        taken.sort()
        lost += sum(reason is not None for *_, reason in taken)
        for before, after in itertools.pairwise(taken):
            overlaps += after[0] < before[1]
            repeated += after[2] <= before[2]
    total = sum(map(len, holds.values()))
    say(
        f"  {total:,} holds of {len(holds)} locks in the storm: {overlaps} overlapped, {lost} were lost, "
        f"{repeated} tokens did not increase"
    )
    if overlaps or lost or repeated:
        raise SystemExit(1)


if __name__ == "__main__":
    asyncio.run(_storm(int(sys.argv[1]), Path(sys.argv[2])))
