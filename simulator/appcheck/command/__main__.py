"""The process that imports and checks an app: ``python simulator/appcheck/command RESULT APP [SETTINGS]``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

if __name__ == "__main__":
    if not sys.flags.safe_path:
        del sys.path[0]
    root = str(Path(__file__).resolve().parents[3])
    if root not in sys.path:
        sys.path.append(root)
    from simulator.appcheck.command.app_import import main

    main([Path(argument) for argument in sys.argv[1:]])
    os._exit(0)  # the app may have started threads, which nobody would end
