"""The process that imports an app and checks it: ``python simulator/appcheck/__main__.py RESULT APP [SETTINGS]``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

if __name__ == "__main__":
    if not sys.flags.safe_path:
        del sys.path[0]
    root = str(Path(__file__).resolve().parents[2])
    if root not in sys.path:
        sys.path.append(root)
    from simulator.appcheck.importing import main

    main([Path(argument) for argument in sys.argv[1:]])
    os._exit(0)  # the app may have started threads, which nobody would end
