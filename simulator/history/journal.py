"""Write and read journals: what each simulated host and the fleet did, and when.

A journal is a file of JSON lines. Every line is one record:

    {"t": 8123.456789, "host": "host-1", "event": "invocation_started", "function": "ship", ...}

``t`` comes from `clock`, which every process of a machine shares, so the records of all files can be put in one order.
`Journal.write` returns after it has passed the record to the kernel in a single write. So what a killed host wrote
stays written.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))

CANCELLED: Final = "cancelled"
"""The error of a body that was cancelled. An invocation that was cancelled has the error's own name."""
PANIC: Final = "BaseException"
"""The name in the journal of a body's error that is neither an ``Exception`` nor one of Python's own exits."""
UNSEEN: Final = "the app starts processes of its own: what these do to the blobs of locks is not seen"
"""The note of a host about such an app."""


class JournalError(Exception):
    """A journal contains something that no host writes; the message names file and line."""


def clock() -> float:
    """Seconds on the machine-wide clock of all journals; it never goes back."""
    if sys.platform != "win32" and _CLOCK is not None:
        return time.clock_gettime(_CLOCK)
    return time.monotonic()


class Write(Protocol):
    """How the parts of a host tell what they do; `Journal.write` is one."""

    def __call__(self, event: str, /, **fields: object) -> None:
        """Append ``event`` with its fields."""


@dataclass(frozen=True, slots=True)
class Record:
    """One line of a journal: who did what, when; `fields` has the rest of the line."""

    t: float
    host: str
    event: str
    fields: Mapping[str, Any] = field(default_factory=dict)

    def get(self, name: str, default: Any = None) -> Any:
        """Return the field called `name`, or `default` if the line has none."""
        return self.fields.get(name, default)

    def text(self, name: str) -> str:
        """Return the field called `name` as text; the empty text if there is none."""
        value = self.fields.get(name)
        return "" if value is None else str(value)


class Journal:
    """An append-only journal that several threads may write to.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with Journal(Path(folder) / "host-1.jsonl", "host-1") as journal:
        ...         journal.write("host_started", pid=7)
        ...     [(r.host, r.event, r.get("pid")) for r in read_journals(Path(folder))]
        [('host-1', 'host_started', 7)]
    """

    def __init__(self, path: Path | str, host: str) -> None:
        self.path = Path(path)
        self.host = host
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
        self._fd = os.open(self.path, flags, 0o644)
        self._turn = threading.RLock()  # reentrant: a signal handler may write too

    def write(self, event: str, /, **fields: object) -> None:
        """Append one record, stamped now.

        Records are in the file in the order of their times. A field called ``host`` says which host the record is
        about, if that is not the writer: the fleet's journal uses it. Fields without a form in JSON are written as
        text. A write to a closed journal does nothing, so a thread that outlives its host's shutdown does no harm.
        """
        with self._turn:
            record = {"t": round(clock(), 6), "host": self.host, "event": event, **fields}
            line = json.dumps(record, separators=(",", ":"), default=str) + "\n"
            if self._fd >= 0:
                os.write(self._fd, line.encode("ascii"))

    def close(self) -> None:
        """Close the file; further writes are dropped."""
        with self._turn:
            descriptor, self._fd = self._fd, -1
            if descriptor >= 0:
                os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Tail:
    """Read a growing journal bit by bit. It need not exist yet. A line is returned when it is complete."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._offset = 0
        self._line = 0
        self._rest = b""

    def read(self) -> list[Record]:
        """Return the records that were completed since the last call. There are none if there is no file yet."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return []
        self._offset += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        records = []
        for line in lines:
            self._line += 1
            if line.strip():
                records.append(_parse(line, self.path, self._line))
        return records


def read_journal(path: Path | str) -> list[Record]:
    """Read a journal, perhaps unfinished; a last line that was cut by a kill is left out.

    Raises:
        JournalError: a complete line is no record.
    """
    return Tail(path).read()


def read_journals(folder: Path | str) -> list[Record]:
    """Read every ``*.jsonl`` of `folder` into one list, in order of time.

    Raises:
        JournalError: a complete line is no record.
    """
    paths = sorted(Path(folder).glob("*.jsonl"))
    return in_order(record for path in paths for record in read_journal(path))


def in_order(records: Iterable[Record]) -> list[Record]:
    """Sort by time; records of the same instant keep the order in which they were given."""
    return sorted(records, key=lambda record: record.t)


def _parse(line: bytes, path: Path, number: int) -> Record:
    try:
        raw = json.loads(line)
        t, host, event = float(raw.pop("t")), str(raw.pop("host")), str(raw.pop("event"))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        message = f"{path.name}:{number}: not a journal record: {line[:80]!r}"
        raise JournalError(message) from error
    return Record(t, host, event, raw)
