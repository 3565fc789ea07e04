"""The verdict as JSON, for machines: on standard output, and nothing else there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from simulator.checks.verdict import Verdict


def write_json(verdict: Verdict, files: Mapping[str, Path | None], stream: TextIO) -> None:
    """Write the verdict, and where the files are that the run has left, by what they are."""
    left = {what: str(path) for what, path in files.items() if path is not None}
    stream.write(json.dumps(verdict.to_dict() | left, indent=2) + "\n")
    stream.flush()
