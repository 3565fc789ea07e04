"""One process of an app: one version of it, whose function writes down in a shared journal when it is inside.

    python version_of_app.py VERSION JOURNAL FUNCTIONS

``VERSION``: ``old`` has the customer's number in the lock's name, ``new`` a hash of it, ``both`` the hash, and the old
name as well. Async or sync by ``FUNCTIONS``. It ends, with its invocations, when its input does.

Each line of the journal is appended by one write, so their order is that in which things happened.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import threading
import time
from typing import Any

from singleton import OldLock, current_hold, singleton

ARGUMENTS: dict[str, dict[str, Any]] = {
    "old": {},
    "both": {"scope_hash": True, "also": OldLock(scope_hash=False)},
    "new": {"scope_hash": True},
}
SCOPES = ("a", "b")
THREADS = 2


def main(version: str, path: str, functions: str) -> None:
    """Invoke the function on some threads until the input ends."""
    journal = os.open(path, os.O_WRONLY | os.O_APPEND)
    stop = threading.Event()

    def write(what: str, scope: str) -> None:
        os.write(journal, f"{what} {os.getpid()} {version} {scope} {current_hold().token}\n".encode())

    def ship(msg: str) -> None:
        scope = json.loads(msg)["Id"]
        write("enter", scope)
        time.sleep(random.uniform(0.005, 0.03))
        write("leave", scope)

    async def ship_async(msg: str) -> None:
        scope = json.loads(msg)["Id"]
        write("enter", scope)
        await asyncio.sleep(random.uniform(0.005, 0.03))
        write("leave", scope)

    ship_async.__name__ = "ship"
    guard = singleton(scope="Id", **ARGUMENTS[version])
    guarded = guard(ship)
    guarded_async = guard(ship_async)

    def work() -> None:
        while not stop.is_set():
            msg = json.dumps({"Id": random.choice(SCOPES)})
            if functions == "async":
                asyncio.run(guarded_async(msg=msg))
            else:
                guarded(msg=msg)

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    stop.set()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
