"""Where the report of an interactive run goes if nobody said where: into the cache folder, where the last ones stay."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from simulator.azurite.install import cache

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

KEPT: Final = 20
"""So many reports stay; a further one replaces the oldest."""
_NAME: Final = re.compile(r"run-[0-9]{8}-[0-9]{6}-[0-9]+\.html")


def place_for_report(at: datetime, seed: int) -> Path:
    """Return the path of a new report, and make room for it.

    Raises:
        OSError: the folder can't be made, or an old report can't be deleted.
    """
    folder = cache() / "reports"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    old = sorted(path for path in folder.iterdir() if _NAME.fullmatch(path.name))
    for path in old[: max(len(old) - KEPT + 1, 0)]:
        path.unlink(missing_ok=True)
    return folder / f"run-{at:%Y%m%d-%H%M%S}-{seed}.html"
