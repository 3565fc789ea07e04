"""Report how much prose points in place of naming: `python -m tools.prose [-n ROWS] [FOLDER...]`. It never fails.

Pro-words (it, that, who, others, such …) make readers look back for the thing that is meant. The report has the share
of pro-words in docstrings and comments of each folder, and the sentences with the largest shares, worst first. In
codebases that read well the share is 3 to 8 %.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FOLDERS: Final = ("singleton", "simulator")
ROWS: Final = 10
PRO_WORDS: Final = re.compile(
    r"\b(it|its|that|who|whom|whose|he|his|him|one|ones|those|these|this|what|they|them|their|so|such|there|some|others?|"
    r"somebody|anybody|nobody|each|where|then|here|same|any|all)\b",
    re.IGNORECASE,
)
COUNTED: Final = range(5, 41)
"""Words of a sentence that is listed: in a shorter sentence one pro-word is a large share, a longer text is a table."""
_SENTENCE_ENDS: Final = re.compile(r"(?<=[.:;!?])\s+")
_FOR_TOOLS: Final = ("noqa", "type:")
"""In comments that linters and type checkers read."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence, with its file and line."""

    file: Path
    line: int
    text: str

    @property
    def words(self) -> int:
        """The number of words."""
        return len(self.text.split())

    @property
    def pro_words(self) -> int:
        """The number of pro-words."""
        return len(PRO_WORDS.findall(self.text))

    @property
    def share(self) -> float:
        """The share of pro-words in all words."""
        return self.pro_words / max(self.words, 1)


def sentences(file: Path) -> Iterator[Sentence]:
    """Return the sentences of a module's docstrings and comments."""
    source = file.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            for text in _SENTENCE_ENDS.split(" ".join(node.value.value.split())):
                yield Sentence(file, node.lineno, text)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not any(mark in token.string for mark in _FOR_TOOLS):
            yield Sentence(file, token.start[0], token.string.lstrip("# "))


def report(folders: Sequence[str], rows: int) -> str:
    """Return the share of each folder, and the ``rows`` worst sentences of all folders."""
    lines: list[str] = []
    listed: list[Sentence] = []
    for folder in folders:
        found = [each for file in sorted(Path(folder).rglob("*.py")) for each in sentences(file)]
        words = sum(each.words for each in found)
        share = sum(each.pro_words for each in found) / max(words, 1)
        lines.append(f"{folder}: {100 * share:.1f} % of {words:,} words of prose are pro-words")
        listed += [each for each in found if each.words in COUNTED]
    worst = sorted(listed, key=lambda each: -each.share)[:rows]
    return "\n".join([*lines, *(f"  {100 * each.share:.0f} %  {each.file}:{each.line}  {each.text}" for each in worst)])


def main(arguments: Sequence[str]) -> int:
    """Print the report."""
    parser = argparse.ArgumentParser(prog="python -m tools.prose", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("-n", type=int, default=ROWS, metavar="ROWS", help="how many sentences are listed")
    parser.add_argument("folders", nargs="*", default=FOLDERS, metavar="FOLDER")
    given = parser.parse_args(arguments)
    sys.stdout.write(report(given.folders, given.n) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
