"""The rules of ``check``: the one list of what can be found. ``docs/how-to/check.md`` is made from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from singleton.checking.finding import Finding, Place
from singleton.checking.perhaps import NOTES, WARNINGS
from singleton.checking.surely import ERRORS

if TYPE_CHECKING:
    from singleton.checking.finding import Severity


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule.

    Attributes:
        id: stable.
        severity: of its findings.
        means: what happens in Azure, in a sentence or two.
        remedy: what to do.
        page: where more is said, below ``docs``.
    """

    id: str
    severity: Severity
    means: str
    remedy: str
    page: str

    def broken(self, message: str, function: str = "", place: Place | None = None) -> Finding:
        """Return a finding of this rule."""
        return Finding(
            id=self.id,
            severity=self.severity,
            message=message,
            function=function,
            place=place,
            docs=f"docs/{self.page}",
        )


RULES: Final[dict[str, Rule]] = {
    **{rule[0]: Rule(rule[0], "error", *rule[1:]) for rule in ERRORS},
    **{rule[0]: Rule(rule[0], "warning", *rule[1:]) for rule in WARNINGS},
    **{rule[0]: Rule(rule[0], "note", *rule[1:]) for rule in NOTES},
}
"""The rules by their ids: errors first, then warnings, then notes."""
