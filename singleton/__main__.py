"""``python -m singleton``: the command ``singleton-locks``."""

from __future__ import annotations

import signal
import sys


def main() -> int:
    """Run the command; without click, which is an extra, say what to install."""
    try:
        from singleton.cli.main import run
    except ModuleNotFoundError as error:
        if error.name != "click":
            raise
        sys.stderr.write("singleton-locks: click (the extra [cli]) is not installed: pip install click\n")
        return 3
    code = run()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a second Ctrl-C ends what is left of it, without a traceback
    return code


if __name__ == "__main__":
    sys.exit(main())
