"""What a check finds: a rule, and where the app breaks it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from pathlib import Path

Severity = Literal["error", "warning", "note"]
"""``error``: it will fail, or is surely wrong. ``warning``: it may be. ``note``: worth knowing."""
SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "note")


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a file. ``file`` is relative to the app's folder where it is below it; ``line`` counts from 1."""

    file: str
    line: int

    @classmethod
    def of(cls, file: str, line: int, folder: Path | None) -> Place:
        """Return the place; what is in the app's folder is named from there."""
        from pathlib import Path

        path = Path(file)
        if folder is not None and path.is_relative_to(folder):
            path = path.relative_to(folder)
        return cls(path.as_posix(), max(line, 1))

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A mistake, or a possible mistake.

    Attributes:
        id: id of the rule, such as ``skip-on-http``; an id never changes its meaning.
        severity: error, warning or note.
        message: the mistake, with the value, and the remedy.
        function: name of the function; "" for the whole app.
        place: the line to look at, or None.
        docs: the page that says more.
    """

    id: str
    severity: Severity
    message: str
    function: str = ""
    place: Place | None = None
    docs: str = ""

    def at(self, function: str, place: Place) -> Finding:
        """Return this finding with a function and a line."""
        return replace(self, function=function, place=place)

    def to_json(self) -> dict[str, Any]:
        """Return the finding as docs/how-to/check.md describes it."""
        place = self.place
        return {
            "id": self.id,
            "severity": self.severity,
            "message": self.message,
            "function": self.function or None,
            "file": None if place is None else place.file,
            "line": None if place is None else place.line,
            "docs": self.docs,
        }

    def __str__(self) -> str:
        where = f"{self.place}: " if self.place else ""
        whose = f"{self.function}: " if self.function else ""
        return f"{where}{self.severity}: {whose}{self.message} [{self.id}]"
