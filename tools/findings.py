"""Write the tables of docs/how-to/check.md from the rules of the check: `python -m tools.findings`.

With `--check` nothing is written; exit code 1 tells that the page is out of date.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

from simulator.appcheck.rules import RULES
from tools.reference import rewritten, table

PAGE: Final = Path(__file__).resolve().parent.parent / "docs" / "how-to" / "check.md"
_PART: Final = re.compile(r"(?P<head><!-- made: findings -->\n).*?(?P<end><!-- end -->)", re.DOTALL)
_TITLES: Final = {"error": "Errors", "warning": "Warnings", "note": "Notes"}


def made(page: str) -> str:
    """Return the page with its tables made anew."""
    parts = []
    for severity, title in _TITLES.items():
        rows = [
            (f"`{rule.id}`", rule.means, f"{rule.remedy}{_link(rule.page)}")
            for rule in RULES.values()
            if rule.severity == severity
        ]
        parts.append(f"\n### {title}\n\n{table(*rows, heads=('id', 'what it means', 'what to do'))}")
    return _PART.sub(lambda part: part["head"] + "".join(parts)[1:] + "\n" + part["end"], page)


def _link(page: str) -> str:
    """Return a link from the page to another one, or nothing to itself."""
    if page.startswith("how-to/check.md"):
        return ""
    name = page.removeprefix("how-to/") if page.startswith("how-to/") else f"../{page}"
    return f" [More]({name})"


def main(arguments: list[str]) -> int:
    """Write the page, or with ``--check`` tell whether it is up to date."""
    return rewritten(PAGE, made, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
