"""Files that a run writes at its end: checked before anything starts, and written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path


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
            OutFileError: it can't be written any more.
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
