"""One process of a fleet that contends for locks, and writes down in one journal with all others when it is inside.

    python contender.py LABEL JOURNAL CONTAINER SEED OPTIONS

It needs nothing but ``singleton`` and the standard library, so it runs on any version of the package that PYTHONPATH
has. ``OPTIONS`` is JSON. It ends, with its sections, when its input does.

The journal is the witness, and no lock: each line is appended by one write, so the order of its lines is the order in
which things happened. A line that says "enter" is written inside the lock, and so is the one that says "leave".
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time

import singleton
from singleton import LockClient, SingletonOptions

HOT = ("hot-0", "hot-1", "hot-2")
"""Locks that all processes use all the time."""
THREADS = 3
FRESH = 0.15
"""Part of the sections that is under a name of this half second: new to all, who race to make it."""


def contend(label: str, journal: int, locks: LockClient, rng: random.Random, stop: threading.Event) -> None:
    """Have sections, one after the other, until told to stop."""

    def write(what: str, name: str, token: int | None) -> None:
        os.write(journal, f"{what} {os.getpid()} {label} {name} {token}\n".encode())

    while not stop.is_set():
        name = f"fresh-{int(time.time() * 2)}" if rng.random() < FRESH else rng.choice(HOT)
        with locks.lock(name, owner=label) as hold:
            write("enter", name, hold.token)
            time.sleep(rng.uniform(0.0, 0.02))
            write("leave", name, hold.token)
        time.sleep(rng.uniform(0.0, 0.05))


def main(label: str, path: str, container: str, seed: str, options: str) -> None:
    """Contend on some threads until the input ends."""
    journal = os.open(path, os.O_WRONLY | os.O_APPEND)
    os.write(journal, f"begin {os.getpid()} {label} {singleton.__file__} None\n".encode())
    stop = threading.Event()
    locks = LockClient("LOCKS", options=SingletonOptions(container=container, **json.loads(options)))
    rngs = [random.Random(f"{seed}/{number}") for number in range(THREADS)]
    threads = [threading.Thread(target=contend, args=(label, journal, locks, rng, stop)) for rng in rngs]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    stop.set()
    for thread in threads:
        thread.join()
    os.write(journal, f"end {os.getpid()} {label} - None\n".encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
