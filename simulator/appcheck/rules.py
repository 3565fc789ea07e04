"""The rules of ``check``, read from ``rules.toml``: the one list of possible findings."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from simulator.appcheck.finding import SEVERITIES, Finding, Place

if TYPE_CHECKING:
    from simulator.appcheck.finding import Severity


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


_FILE: Final = tomllib.loads((files("simulator.appcheck") / "rules.toml").read_text("utf-8"))
RULES: Final[dict[str, Rule]] = {
    name: Rule(id=name, severity=severity, **texts)
    for severity in SEVERITIES
    for name, texts in _FILE[severity].items()
}
"""The rules by their ids: errors, warnings, notes, in this order."""
