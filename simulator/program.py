"""The command's name and how it was called, for hints that can be pasted; and how a host is started."""

from __future__ import annotations

import os
import shutil
import sys
from importlib import metadata
from pathlib import Path
from typing import Final

PROGRAM: Final = "singleton-sim"
HOST: Final = (sys.executable, "-P", str(Path(__file__).parent / "host" / "__main__.py"))
"""Runs a host. No file of the working directory replaces a module, in its workers either: that folder may be an app."""
USAGE: Final = 2
ENVIRONMENT: Final = 3


def complain(text: str, code: int) -> int:
    """Say on the error stream what ended the command; return the exit code."""
    sys.stderr.write(f"{PROGRAM}: {text}\n")
    return code


def called_as() -> str:
    """Return the command by its name if the shell finds it, else by the path with which it was called."""
    called = Path(sys.argv[0])
    if shutil.which(PROGRAM) or called.stem != PROGRAM:
        return PROGRAM
    nearest = os.path.relpath(called)
    return str(called) if nearest.startswith("..") else nearest


def version() -> str:
    """Return the version that is installed."""
    try:
        return metadata.version("azure-functions-singleton")
    except metadata.PackageNotFoundError:
        return "unknown (not installed)"
