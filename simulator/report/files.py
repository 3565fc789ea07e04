"""The files of a run: checked before anything starts, and written whole at its end, or not at all.

The report of an interactive run goes into the cache folder, where the last reports stay.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

import click

from simulator.azurite.install import cache

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from simulator.checks.verdict import Verdict


class OutFileError(ValueError):
    """A file can't be written; the message says why and what to do."""


class OutFile:
    """A file that will be written. ``option`` is how the user named it, for messages."""

    def __init__(self, option: str, path: Path) -> None:
        """Check that the file can be written; nothing is left in its folder.

        Raises:
            OutFileError: it can't.
        """
        self.option = option
        self.given = path
        try:
            self.path = path.resolve()  # for the working directory may change, and a link stays a link
            wrong = self._wrong()
            if not wrong:
                self._draft().unlink()
        except (OSError, RuntimeError, ValueError) as error:  # such as links in a circle, or a name with a null
            wrong = f"{_why(error)}: give a path that can be written"
        if wrong:
            raise OutFileError(f"{option} {path}: {wrong}")

    def _wrong(self) -> str:
        """Say what is wrong with the path; empty if nothing can be seen."""
        if self.path.is_dir():
            return "it is a folder: give the name of a file in it"
        if os.path.lexists(self.path) and not self.path.is_file():
            return "it is no regular file: give the name of a file"
        if os.path.lexists(self.path.parent) and not self.path.parent.is_dir():  # a file, or from 3.13 on such a circle
            return f"{self.path.parent} is no folder: give a path that can be written"
        if not self.path.parent.is_dir():
            return f"there is no folder {self.path.parent}: make it, or give another path"
        return ""

    def write(self, text: str) -> None:
        """Write the file: a reader sees the old one or the whole new one.

        Raises:
            OutFileError: the file can't be written any more.
        """
        try:
            draft = self._draft()
            try:
                draft.write_text(text, "utf-8")
                with suppress(OSError):
                    draft.chmod(0o666 & ~_umask())
                draft.replace(self.path)
            except BaseException:
                draft.unlink(missing_ok=True)
                raise
        except OSError as error:
            raise OutFileError(f"{self.option} {self.given}: {_why(error)}: it was not written") from None

    def _draft(self) -> Path:
        number, name = tempfile.mkstemp(prefix=f".{self.path.name[:40]}.", suffix=".tmp", dir=self.path.parent)
        os.close(number)
        return Path(name)


def _why(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error)).lower()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def out_file(context: click.Context, parameter: click.Parameter, value: str | Path | None) -> OutFile | None:
    """Return the file of an option, as its callback. ``UsageError``: it can't be written, or another option has it."""
    if value is None:
        return None
    others: list[OutFile] = context.meta.setdefault(__name__, [])
    try:
        file = OutFile(parameter.opts[0], Path(value))
    except OutFileError as error:
        raise click.UsageError(str(error), context) from None
    for other in others:
        if _same(other.path, file.path):
            raise click.UsageError(f"{other.option} and {file.option} are both {value}: give each a file of its own")
    others.append(file)
    return file


def apart(**others: Path | None) -> None:
    """Refuse a file that the command reads or writes, and that one of its `OutFile` options would overwrite.

    Raises:
        click.UsageError: two options name one file.
    """
    files: list[OutFile] = click.get_current_context().meta.get(__name__, [])
    for name, path in others.items():
        for file in files:
            if path is not None and _same(path.resolve(), file.path):
                said = f"{file.option} would overwrite {path}, which is --{name.replace('_', '-')}"
                raise click.UsageError(f"{said}: give it a file of its own")


def _same(one: Path, other: Path) -> bool:
    """Tell whether two paths are one file, also where names differ in case only, or by a link."""
    return one == other or (one.exists() and other.exists() and one.samefile(other))


def report_option(told: str) -> Callable[[Any], Any]:
    """Return ``--report FILE``, which gives the command an `OutFile`."""
    return click.option("--report", callback=out_file, metavar="FILE", help=told)


TRACE: Final = click.option(
    "--trace",
    type=click.Path(path_type=Path),
    callback=out_file,
    metavar="FILE",
    help="Write what happened as a trace, which Perfetto opens.",
)
"""``--trace FILE``, which gives the command an `OutFile`."""


def opened_with(file: OutFile) -> str:
    """Say where a trace is, and how to look at it."""
    return f"The trace is in {file.given}: open it at https://ui.perfetto.dev"


KEPT: Final = 20
"""So many reports stay; a further one replaces the oldest."""
_NAME: Final = re.compile(r"run-[0-9]{8}-[0-9]{6}-[0-9]+\.html")


def place_for_report(at: datetime, seed: int) -> Path:
    """Return the path of a new report, and make room for it.

    Raises:
        OSError: the folder can't be made, or an old report can't be deleted.
    """
    folder = cache() / "reports"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    old = sorted(path for path in folder.iterdir() if _NAME.fullmatch(path.name))
    for path in old[: max(len(old) - KEPT + 1, 0)]:
        path.unlink(missing_ok=True)
    return folder / f"run-{at:%Y%m%d-%H%M%S}-{seed}.html"


def write_json(verdict: Verdict, files: Mapping[str, Path | None], stream: TextIO) -> None:
    """Write the verdict, and where the files are that the run has left, by what they are."""
    left = {what: str(path) for what, path in files.items() if path is not None}
    stream.write(json.dumps(verdict.to_dict() | left, indent=2) + "\n")
    stream.flush()
