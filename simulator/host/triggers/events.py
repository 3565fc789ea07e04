"""How the parts of a host tell what they do: one callable that appends to the journal."""

from __future__ import annotations

from typing import Protocol


class Write(Protocol):
    """Append one event; `simulator.history.journal.Journal.write` is one."""

    def __call__(self, event: str, /, **fields: object) -> None:
        """Append ``event`` with its fields."""
