"""What the real Python worker indexes: each app in a fork of one process, for its registries are the process's.

    python tests/support/python_worker_index.py APP_FOLDER ...

Writes a line of JSON for each app: the names of its functions, or the error as text.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import azure.functions  # noqa: F401 - once, not in each fork
from python_worker import index  # type: ignore[import-not-found]  # started as a script

import singleton  # noqa: F401 - once, not in each fork


def indexed(folder: str) -> list[str] | str:
    """Return the names of an app's functions, or why the worker refuses it."""
    os.chdir(folder)
    try:
        return sorted(asyncio.run(index(folder)))
    except Exception as error:  # noqa: BLE001 - told
        return f"{type(error).__name__}: {error}"


for app in sys.argv[1:]:
    child = os.fork()
    if not child:
        print(json.dumps(indexed(app)), flush=True)  # noqa: T201 - the protocol with the test
        os._exit(0)
    os.waitpid(child, 0)
