"""What CONTRIBUTING.md names is there, and its glossary is short enough to be learnt."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
WORDS = 60
PATH = re.compile(r"`((?:singleton|simulator|tests|tools|benchmarks|docs)/[\w./-]*)`")


def glossary() -> dict[str, tuple[str, str]]:
    """Return meaning and module of each word."""
    part = TEXT.partition("\n## Glossary\n")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines() if line.startswith("|")]
    return {word: (meaning, module.strip("`")) for word, meaning, module in rows[2:]}


def test_each_file_and_folder_is_there() -> None:
    named = PATH.findall(TEXT)
    assert len(named) > 40
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_the_glossary_has_at_most_sixty_words_each_once_with_a_meaning() -> None:
    words = glossary()
    assert 40 < len(words) <= WORDS
    assert all(len(meaning.split()) > 2 for meaning, _ in words.values())
    assert list(words) == sorted(words)
    part = TEXT.partition("\n## Glossary\n")[2].partition("\n## ")[0]
    assert part.count("\n| ") == len(words) + 2


def test_a_word_of_the_glossary_lives_in_a_module_that_is_there_and_uses_it() -> None:
    for word, (_, module) in glossary().items():
        source = (ROOT / "singleton" / module).read_text(encoding="utf-8").lower()
        stem = word.partition(" ")[0][:5]  # "expires" for "expiry"
        assert stem in source, f"{module} does not speak of {word!r}"
