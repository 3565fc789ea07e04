"""docs/tutorial.md is walked through by its own blocks, from the first to the last, twice in one folder."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from azure.storage.queue import QueueClient

from tests.docs.commands import commands
from tests.docs.pages import ROOT, blocks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.docs.pages import Block

PAGE = ROOT / "docs" / "tutorial.md"
SHORT = "UseDevelopmentStorage=true"
NOT_HERE = {
    "mkdir": "the test has a folder",
    "cd": "the test has a folder",
    "pip": "the package is the one that is tested, with its extra sim",
    ".": "its environment is the test's",
    "export": "the test sets it",
    "npm": "brings func",
    "func": "is not on PyPI",
}
"""Programs that the walk leaves out, and why."""
UNRENEWED = "HOLDS, as far as it was tried: no renewal was seen"
"""The bodies of the page's app are short: whether one process has a lease for long enough to renew it is luck."""
BOOKED = re.compile(r"instance (\d): order 42: (booking a parcel|shipped)")


class Walk:
    """Somebody who does what the page says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.emulator: subprocess.Popen[str] | None = None
        self.connection = ""
        self.printed: list[str] = []

    def do(self, block: Block, before: str) -> None:
        """Write the block's file, or run its commands. `before`: the text above it."""
        if name := _file_of(block, before):
            (self.folder / name).write_text(block.code.replace(SHORT, self.connection or SHORT))
        elif block.language == "":
            for words in commands(block):
                self._run(words)
        else:
            assert block.language in {"text", "sql"}, f"what is to be done with {block}?"

    def _run(self, words: list[str]) -> None:
        if words[0] in NOT_HERE or words[:3] == ["python", "-m", "venv"]:
            return
        words = [str(Path(sys.executable).with_name(words[0])), *words[1:]]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        environment.pop("AzureWebJobsStorage", None)
        if self.connection:
            environment["AzureWebJobsStorage"] = self.connection
        if words[1:] == ["storage"]:
            self._start([*words, "--blob-port", "0", "--queue-port", "0", "--table-port", "0"], environment)
            return
        result = subprocess.run(
            words, cwd=self.folder, env=environment, capture_output=True, text=True, check=False, timeout=200
        )
        violated = "--no-singleton" in words
        assert result.returncode == int(violated), result.stdout + result.stderr
        self.printed.append(result.stdout + result.stderr)

    def _start(self, words: list[str], environment: dict[str, str]) -> None:
        """Start the emulator, on ports of its own: those of the page may be in use on this machine."""
        if self.emulator is not None:
            return  # it runs since the first time, in its terminal
        self.emulator = subprocess.Popen(words, env=environment, cwd=self.folder, stdout=subprocess.PIPE, text=True)
        assert self.emulator.stdout is not None
        for line in self.emulator.stdout:
            if found := re.match(r"Connection string: (\S+)", line):
                self.connection = found[1]
            if "Ctrl-C ends it" in line:
                break
        assert self.connection

    def end(self) -> None:
        """Press Ctrl-C in the emulator's terminal."""
        if self.emulator is not None:
            self.emulator.send_signal(signal.SIGINT)
            self.emulator.communicate(timeout=60)
            assert self.emulator.returncode == 130


def _file_of(block: Block, before: str) -> str | None:
    """Return the name of the file that a block is: in its first line, or the last one that is named above."""
    if block.language == "json":
        return str(re.findall(r"`([\w.]+\.json)`", before)[-1])
    if block.language == "text" and re.search(r"`requirements\.txt`[^`]*:\s*<!-- made: [^>]*-->\s*$", before):
        return "requirements.txt"
    return block.file


def steps(*, simulator: bool) -> Iterator[tuple[Block, str]]:
    """Yield the blocks, each with the text above it."""
    text = PAGE.read_text("utf-8")
    for block in blocks(PAGE):
        at = text.index(block.code)
        if simulator or "singleton-sim --hosts" not in block.code:
            yield block, text[:at].rpartition("```" + block.language)[0]
        text = text[at + len(block.code) :]


@pytest.fixture
def walk(tmp_path: Path) -> Iterator[Walk]:
    walking = Walk(tmp_path)
    try:
        yield walking
    finally:
        walking.end()


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_tutorial_runs_to_its_end_twice(walk: Walk) -> None:
    for first in (True, False):
        walk.printed.clear()
        for block, before in steps(simulator=first):
            walk.do(block, before)
        wrong, right, locks, *simulated, sent = walk.printed
        assert [found[2] for found in BOOKED.finditer(wrong)] == ["booking a parcel"] * 2 + ["shipped"] * 2, wrong
        assert [found[2] for found in BOOKED.finditer(right)] == ["booking a parcel", "shipped"] * 2, right
        assert len({found[1] for found in BOOKED.finditer(right)}) == 2
        assert re.search(r"^free +ship +42 ", locks, re.MULTILINE), locks
        assert sent == ""
        if first:
            holds, violated = simulated
            shown = [block.code.strip() for block in blocks(PAGE) if block.code.startswith("[")]
            assert shown[0] in holds or UNRENEWED in holds, holds
            assert shown[1] in violated, violated
    with QueueClient.from_connection_string(walk.connection, "orders") as queue:
        assert queue.get_queue_properties().approximate_message_count == 4
    assert walk.emulator is not None
    named = [re.split(" @ |==", line)[0] for line in (walk.folder / "requirements.txt").read_text().splitlines()]
    assert named == ["azure-functions", "azure-functions-singleton"]


def test_what_the_walk_leaves_out_is_on_the_page() -> None:
    assert {words[0] for block in blocks(PAGE) if block.language == "" for words in commands(block)} >= set(NOT_HERE)
