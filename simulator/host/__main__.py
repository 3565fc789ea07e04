"""Run one fake host, or describe an app; see `simulator.host.main`."""

from __future__ import annotations

import gc
import sys
from pathlib import Path


def own_modules_only() -> None:
    """Remove the working directory from the module path: ``python -m`` has put it first.

    A file there, such as the ``queue.py`` of an app, would replace a module of the standard library.
    """
    if not sys.flags.safe_path:
        del sys.path[0]
    root = str(Path(__file__).resolve().parents[2])
    if root not in sys.path:
        sys.path.append(root)


if __name__ == "__main__":
    own_modules_only()
    gc.disable()  # imports leave no garbage, and to look for some takes a tenth of the start
    from simulator.host.main import main
    from simulator.host.startup import leave

    gc.freeze()
    gc.enable()
    leave(main(sys.argv[1:]))
