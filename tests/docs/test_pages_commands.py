"""Each command line in the documentation is one that the program takes; JSON is read; no other language is unknown."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click
import pytest

from singleton.settings.options import load_options
from tests.docs.commands import FOREIGN, OURS, SHELLS, check, commands, parse, programs
from tests.docs.pages import PAGES, ROOT, all_blocks, blocks

if TYPE_CHECKING:
    from pathlib import Path

    from tests.docs.pages import Block

TESTED_BY = {
    "python": "tests/docs/test_pages_run.py",
    "json": "tests/docs/test_pages_commands.py",
    "sql": "tests/docs/test_pages_commands.py",
    "kusto": "tests/integration/test_queries.py",
    "yaml": "tests/docs/test_pages_commands.py",
    **dict.fromkeys(SHELLS, "tests/docs/test_pages_commands.py"),
}
"""Languages of blocks, and the test that tries them."""
SHOWN_ONLY = {
    "text": "output of a program, a log, a drawing or a list of requirements",
}
"""Languages of blocks that can't be run, and what is written in them."""
TABLES = "CREATE TABLE orders (id TEXT, state TEXT, token INTEGER, customer TEXT, amount INTEGER);"


@pytest.mark.parametrize("language", sorted({block.language for page in PAGES for block in blocks(page)}))
def test_the_blocks_of_each_language_are_tried_somewhere(language: str) -> None:
    assert language in TESTED_BY or language in SHOWN_ONLY, f"nobody tries blocks of {language!r}"
    if language in TESTED_BY:
        assert (ROOT / TESTED_BY[language]).is_file()


@pytest.mark.parametrize("block", all_blocks("yaml"), ids=str)
def test_the_commands_of_a_pipeline_are_those_of_the_programs(block: Block) -> None:
    plain = replace(block, code=re.sub(r"^ *(?:- )?(?:run: )?", "", block.code, flags=re.MULTILINE))
    ours = [words for words in commands(plain) if words[0] in OURS]
    assert ours
    for words in ours:
        check(words)


@pytest.mark.parametrize("block", all_blocks(*SHELLS), ids=str)
def test_the_commands_of_a_block_are_those_of_the_programs(block: Block) -> None:
    found = commands(block)
    assert found, "no program starts here: label it ```text if it is output or a drawing"
    for words in found:
        try:
            check(words)
        except click.UsageError as error:
            pytest.fail(f"{' '.join(words)}: {error.format_message()}")


@pytest.mark.parametrize("block", all_blocks("text"), ids=str)
def test_what_is_only_shown_is_no_command_of_ours(block: Block) -> None:
    assert not {words[0] for words in commands(block)} & set(OURS)


def test_each_program_that_is_not_ours_is_on_some_page() -> None:
    assert set(programs(all_blocks(*SHELLS))) >= set(FOREIGN)


@pytest.mark.parametrize("words", [["--host", "5"], ["storage", "--port", "1"], ["explode"], ["explore", "--hosts"]])
def test_a_command_that_the_program_would_refuse_is_found(words: list[str]) -> None:
    with pytest.raises(click.UsageError):
        parse(OURS["singleton-sim"], "singleton-sim", words)


@pytest.mark.parametrize("block", all_blocks("json"), ids=str)
def test_json_is_read_and_its_options_are_ours(block: Block, tmp_path: Path) -> None:
    text = block.code.strip()
    content: dict[str, Any] = json.loads(text if text.startswith("{") else f"{{{text}}}")
    if "Values" in content:
        load_options(None, content["Values"])
    else:
        (tmp_path / "host.json").write_text(json.dumps({"version": "2.0"} | content))
        load_options(tmp_path, {})


@pytest.mark.parametrize("block", all_blocks("sql"), ids=str)
def test_sql_is_understood_by_a_database(block: Block) -> None:
    import sqlite3

    with sqlite3.connect(":memory:") as database:
        database.executescript(TABLES)
        for statement in filter(str.strip, block.code.split(";")):
            names = set(re.findall(r":(\w+)", statement))
            database.execute(statement, dict.fromkeys(names, 1))
    database.close()
