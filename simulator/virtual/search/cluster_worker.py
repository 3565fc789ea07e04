"""What a worker of a Dask cluster does for ``explore``: it gives scenarios to a process of its own.

A world needs a process's main thread for itself: there the watchdog stops endless loops. A worker runs its tasks on
other threads, several at once; each thread gets a process, which ends with its worker.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from simulator.virtual.search.exploration import Exploration, Summary, run_chunk

if TYPE_CHECKING:
    from typing import BinaryIO

_PACKAGES: Final = ("simulator", "singleton")
_SAMPLE: Final = "sample"
"""Exists only in an installed package."""
_ROOT: Final = Path(__file__).resolve().parents[3]
_HERE = threading.local()


@cache
def version(modules: tuple[str, ...] = ()) -> str:
    """Return a hash of the code, and the Python: processes with equal versions find the same in a scenario.

    ``modules``: those that register workloads; their folders count, too.
    """
    digest = hashlib.sha256()
    more = [module.replace(".", "/") for module in modules if module.partition(".")[0] not in _PACKAGES]
    for package in (*_PACKAGES, *more):
        for file in sorted((_ROOT / package).rglob("*.py")):
            name = file.relative_to(_ROOT)
            if _SAMPLE not in name.parts:
                digest.update(name.as_posix().encode() + b"\0" + file.read_bytes())
    return f"{digest.hexdigest()[:12]} on Python {sys.version_info.major}.{sys.version_info.minor}"


def carry_out(asked: str, chunk: tuple[Exploration, int, int]) -> Summary | str:
    """Run a chunk in this thread's process; return this worker's version instead if it isn't ``asked``."""
    if (mine := version(chunk[0].modules)) != asked:
        return mine
    process: subprocess.Popen[bytes] | None = getattr(_HERE, "process", None)
    if process is None or process.poll() is not None:
        process = _HERE.process = _start()
    assert process.stdin is not None
    assert process.stdout is not None
    _send(process.stdin, chunk)
    try:
        part: Summary = pickle.load(process.stdout)  # noqa: S301 - from a process of our own
    except EOFError:
        raise RuntimeError(f"the process that ran them ended with code {process.wait()}") from None
    return part


def _start() -> subprocess.Popen[bytes]:
    path = os.pathsep.join(filter(None, (str(_ROOT), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.Popen(
        [sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    )


def _send(stream: BinaryIO | Any, thing: object) -> None:
    pickle.dump(thing, stream)
    stream.flush()


def main() -> None:
    """Run the chunks from stdin until it ends: then the worker has ended."""
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)  # the output of a world is no answer
        while True:
            try:
                chunk = pickle.load(sys.stdin.buffer)  # noqa: S301 - from the worker that started this
            except EOFError:
                return
            _send(answers, run_chunk(chunk))


if __name__ == "__main__":
    main()
