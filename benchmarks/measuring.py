"""What the benchmarks share: a line of output, a table, and how busy the machine is."""

from __future__ import annotations

import os
import platform
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def say(line: str = "") -> None:
    """Write a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def heading(title: str) -> None:
    """Begin a part."""
    say()
    say(title)
    say("=" * len(title))


def table(rows: Sequence[Sequence[str]]) -> None:
    """Write rows in columns, the first to the left and the others to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        first, *others = (
            text.ljust(width) if column == 0 else text.rjust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        say("   ".join([f"  {first}", *others]).rstrip())


def machine() -> str:
    """Say what it is measured on, and how much else runs there."""
    return f"Python {platform.python_version()}, {os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}"
