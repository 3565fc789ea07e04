"""``python -m simulator.azurite`` installs Azurite into the cache, and says so while it takes time."""

from __future__ import annotations

import sys

from simulator.azurite.install import AzuriteError, ensure_installed


def main() -> int:
    """Install it; return the exit code."""
    try:
        ensure_installed(lambda line: print(line, flush=True))  # noqa: T201 - a command's output
    except AzuriteError as error:
        sys.stderr.write(f"{error}\n")
        return 3
    except KeyboardInterrupt:
        return 130
    return 0


sys.exit(main())
