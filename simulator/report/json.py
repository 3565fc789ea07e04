"""The verdict as JSON, for machines: on standard output, and nothing else there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from pathlib import Path

    from simulator.checks.verdict import Verdict
    from simulator.report.board import Board
    from simulator.report.reporter import Progress, Reporter


class JsonReporter:
    """Writes the verdict when the run is over; progress goes to another reporter, if there is one."""

    def __init__(self, stream: TextIO, progress: Reporter | None = None) -> None:
        """Write to `stream`; show progress with `progress`."""
        self._stream = stream
        self._progress = progress
        self.journals: Path | None = None

    def step(self, text: str) -> None:
        """Pass on what is being prepared."""
        if self._progress is not None:
            self._progress.step(text)

    def show(self, board: Board, progress: Progress) -> None:
        """Pass the fleet's state on."""
        if self._progress is not None:
            self._progress.show(board, progress)

    def finish(self, verdict: Verdict, hints: list[str]) -> None:
        """Write the verdict."""
        del hints  # for people
        data = verdict.to_dict()
        if self.journals is not None:
            data["journals"] = str(self.journals)
        self._stream.write(json.dumps(data, indent=2) + "\n")
        self._stream.flush()

    def close(self) -> None:
        """Close the other reporter."""
        if self._progress is not None:
            self._progress.close()
