"""Run one fake host, or describe an app; see `simulator.host.main`."""

from __future__ import annotations

import gc
import sys
from pathlib import Path


def own_modules_only() -> None:
    """Take the working directory off the module path, where ``python -m`` has put it first.

    A file there, such as the ``queue.py`` of an app, would stand in for a module of the standard library.
    """
    if not sys.flags.safe_path:
        del sys.path[0]
    root = str(Path(__file__).resolve().parents[2])
    if root not in sys.path:
        sys.path.append(root)


if __name__ == "__main__":
    own_modules_only()
    gc.disable()  # nothing of what is imported is garbage, and looking for some takes a tenth of the start
    from simulator.host.main import main
    from simulator.host.workprocess import leave

    gc.freeze()
    gc.enable()
    leave(main(sys.argv[1:]))
