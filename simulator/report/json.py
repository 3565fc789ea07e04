"""The verdict as JSON, for machines: on standard output, and nothing else there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from pathlib import Path

    from simulator.checks.verdict import Verdict


def write_json(verdict: Verdict, journals: Path | None, stream: TextIO) -> None:
    """Write the verdict, and where the journals are if they were kept."""
    kept = {} if journals is None else {"journals": str(journals)}
    stream.write(json.dumps(verdict.to_dict() | kept, indent=2) + "\n")
    stream.flush()
