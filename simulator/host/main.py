"""Run one fake host: ``python -m simulator.host CONFIG.json``; or tell what an app is: ``--describe APP``.

``--measure ENDPOINT JOURNAL`` measures the storage of a run.

Exit codes: 0 stopped as asked, 1 failed or ended at once, 2 usage, 3 the app or the configuration can't be used; the
last line of the error stream then says why.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from simulator.history.journal import Journal
from simulator.host.app.app_model import REFUSED, STOPPED, HostConfig, HostError

_USAGE: Final = "usage: python -m simulator.host CONFIG.json | --describe APP"
_PARENT_CHECK: Final = 0.25


def main(arguments: list[str]) -> int:
    """Run what the arguments ask for; return the exit code."""
    match arguments:
        case ["--describe", app]:
            return _describe(Path(app))
        case ["--measure", endpoint, journal]:
            from simulator.host.storage_measure import measure_storage

            measure_storage(endpoint, journal)
            return STOPPED
        case [config] if not config.startswith("-"):
            return _run(Path(config))
        case _:
            sys.stderr.write(_USAGE + "\n")
            return 2


def _run(path: Path) -> int:
    try:
        config = HostConfig.read(path)
    except HostError as error:
        sys.stderr.write(f"{error}\n")
        return REFUSED
    from simulator.host.process import STOPS, FakeHost

    parent = config.parent or os.getppid()
    with Journal(config.journal, config.name) as journal:
        host = FakeHost(config, journal)
        for number in STOPS:
            signal.signal(number, lambda *_: host.stop())
        host.start()
        _end_with(parent)
        return host.run()


def _describe(app: Path) -> int:
    from simulator.host.startup import describe  # a third of what a host imports

    # The output of the app's import belongs neither into the JSON nor before the message.
    output, errors = os.dup(1), os.dup(2)
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    try:
        text, stream, code = json.dumps(describe(app)), output, STOPPED
    except HostError as error:
        text, stream, code = str(error), errors, REFUSED
    except Exception as error:  # noqa: BLE001 - a defect of ours, and nobody would see it
        text, stream, code = f"it can't be described: {type(error).__name__}: {error}", errors, REFUSED
    for printed in (sys.stdout, sys.stderr):
        with suppress(Exception):  # the app may have closed or replaced it
            printed.flush()
    with os.fdopen(stream, "w", encoding="utf-8") as file:
        file.write(text + "\n")
    return code


def _end_with(parent: int) -> None:
    """End this process at once after its parent's death: without a parent no process would stop it."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_PARENT_CHECK)
        if sys.platform != "win32" and os.getpgrp() == os.getpid():  # as under the fleet: all that the app has started
            os.killpg(0, signal.SIGKILL)
        os._exit(1)

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()
