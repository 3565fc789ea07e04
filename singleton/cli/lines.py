"""Lines as wide as the terminal. A name or an id is never cut; where the output goes elsewhere, no line is broken."""

from __future__ import annotations

import shutil
import sys
import textwrap
from typing import Final

import click

_INDENT: Final = 4


def terminal_width(*, err: bool = False) -> int | None:
    """Return how many characters a line of the terminal has; None where the output goes elsewhere."""
    stream = sys.stderr if err else sys.stdout
    return shutil.get_terminal_size().columns if stream.isatty() else None


def say(text: str, *, first: str = "", indent: int = _INDENT, err: bool = False) -> None:
    """Write a text, on a terminal in lines that fit.

    Args:
        text: words with spaces between them.
        first: what stands before it, as it is.
        indent: spaces before each line but the first.
        err: on the error stream.
    """
    width = terminal_width(err=err)
    if width is not None and len(first) + len(text) > width:
        text = textwrap.fill(
            text,
            width,
            initial_indent=first,
            subsequent_indent=" " * indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
        first = ""
    click.echo(first + text, err=err)
