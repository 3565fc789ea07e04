"""The command lines that the pages show, and how each is tried."""

from __future__ import annotations

import importlib.util
import re
import shlex
import tomllib
from typing import TYPE_CHECKING, Final

import click

from simulator.cli import cli as singleton_sim
from singleton.cli.main import cli as singleton_locks
from tests.docs.pages import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.docs.pages import Block

SHELLS: Final = ("", "bash", "console", "sh")
"""What a block of commands is labelled with; most have no label. Output alone, and drawings, are labelled `text`."""
OURS: Final = {"singleton-sim": singleton_sim, "singleton-locks": singleton_locks}
SHELL_WORDS: Final = {"mkdir", "cd", ".", "export"}
FOREIGN: Final = {
    "az": "needs an account in Azure; the files and parameters that it names are looked at",
    "func": "Azure Functions Core Tools are not on PyPI; the simulator stands for them",
    "npm": "brings func",
}
"""Programs that are not ours, and why they are not run here."""
_FOREIGN_MODULES: Final = {"build": "makes what test_packaging.py makes with hatchling, and is not needed for more"}
_PROMPT: Final = re.compile(r"^ *\$ ", re.MULTILINE)
_PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
_BEFORE: Final = re.compile(r"^(?:\w+=\$\(|\w+=\S+ +)")


def commands(block: Block) -> list[list[str]]:
    """Return the commands of a block, each as its words. Where lines begin with `$`, the others are output."""
    lines = re.sub(r"\\\n\s*", "", block.code).splitlines()
    if _PROMPT.search(block.code):
        lines = [line for line in lines if _PROMPT.match(line)]
    found = []
    for line in lines:
        for part in re.split(r" && | & *$", _PROMPT.sub("", line)):
            words = _words(_BEFORE.sub("", part.strip()))
            if words and _known(words[0]):
                found.append(words)
    return found


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line, comments=True)
    except ValueError:
        return []  # an apostrophe: words of a program's output


def _known(program: str) -> bool:
    return program in OURS or program in FOREIGN or program in SHELL_WORDS or program in {"make", "pip", "python"}


def check(words: list[str]) -> None:
    """Try a command without its effects: its options are parsed by the real program, what it names is there."""
    program, *rest = words
    if program in OURS:
        parse(OURS[program], program, rest)
    elif program == "make":
        _check_make(rest)
    elif program == "pip":
        _check_pip(rest)
    elif program == "python" and rest[:1] == ["-m"]:
        known = rest[1] in _FOREIGN_MODULES or importlib.util.find_spec(rest[1]) is not None
        assert known, f"there is no module {rest[1]}"
    elif program == "az":
        _check_az(rest)
    else:
        assert program in FOREIGN or program in SHELL_WORDS or program == "python"


def parse(group: click.Command, name: str, words: list[str]) -> None:
    """Parse a command line as the program does, its subcommand's too.

    Raises:
        click.UsageError: the program would refuse it.
    """
    try:
        context = group.make_context(name, list(words))
        rest = [*context._protected_args, *context.args]
        if rest:
            assert isinstance(group, click.Group), f"{name} takes no {rest}"
            subname, command, others = group.resolve_command(context, rest)
            assert command is not None
            command.make_context(subname, others, parent=context)
    except click.exceptions.Exit:
        pass  # --help


def _check_make(words: list[str]) -> None:
    targets = re.findall(r"^([\w-]+(?: [\w-]+)*):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    known = {name for names in targets for name in names.split()}
    for word in words:
        assert "=" in word or word in known, f"make has no target {word}"


def _check_pip(words: list[str]) -> None:
    for word in words:
        if found := re.fullmatch(rf"{_PROJECT['name']}(?:\[([\w,]+)\])?", word):
            extras = set((found[1] or "").split(",")) - {""}
            assert extras <= set(_PROJECT["optional-dependencies"]), f"there is no extra {extras}"


def _check_az(words: list[str]) -> None:
    """Look for the template that is deployed, and for its parameters."""
    if "-f" not in words:
        return
    template = (ROOT / words[words.index("-f") + 1]).read_text("utf-8")
    given = words[words.index("-p") + 1 :] if "-p" in words else []
    for name in (word.partition("=")[0] for word in given if "=" in word and not word.startswith("-")):
        assert re.search(rf"^param {name} ", template, re.MULTILINE), f"it has no parameter {name}"


def programs(blocks: list[Block]) -> Iterator[str]:
    """Yield the programs that the blocks start."""
    for block in blocks:
        yield from (words[0] for words in commands(block))
