"""Entries: messages as they stand in a log. Each is one block: a line of JSON, the body, and the end of a line."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from singleton.base.errors import StorageError
from singleton.base.state import encoded
from singleton.stores.log_store import LONGEST_BLOCK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from singleton.base.state import Json

_LINE: Final = b"\n"


@dataclass(frozen=True, slots=True)
class Entry:
    """A message in a log.

    Attributes:
        sender: name of the sending process.
        number: goes up with each message of the sender.
        kind: json or bytes.
        end: the offset behind the entry.
    """

    sender: str
    number: int
    key: str
    kind: str
    body: bytes
    end: int = 0

    @property
    def value(self) -> Any:
        """The body as it was sent. ``ValueError``, ``RecursionError``: the JSON can't be read here."""
        return self.body if self.kind == "bytes" else json.loads(self.body)

    def framed(self) -> bytes:
        """Return the entry as a block of the log."""
        head = {"from": self.sender, "n": self.number, "key": self.key, "kind": self.kind, "length": len(self.body)}
        return json.dumps(head, separators=(",", ":")).encode() + _LINE + self.body + _LINE


def checked_body(key: str, value: Json | bytes) -> tuple[str, bytes]:
    """Return the kind of a body, and its bytes. ``TypeError``, ``ValueError``: the body can't be sent."""
    kind, body = encoded(value)
    room = LONGEST_BLOCK - len(Entry("f" * 16, 2**53, key, kind, b"").framed()) - len(str(LONGEST_BLOCK))
    if len(body) > room:
        raise ValueError(
            f"a message of {len(body):,} bytes is too long: at most {room:,} are allowed. Put the content into a blob, "
            "and send its name"
        )
    return kind, body


def entries_in(data: bytes, at: int, name: str) -> Iterator[Entry]:
    """Yield the entries in a part of a log that begins at offset ``at``; an entry that is cut off is left out.

    ``StorageError``: the part has something other than entries.
    """
    start = 0
    try:
        while (line := data.find(_LINE, start)) >= 0:
            head = json.loads(data[start:line])
            stop = line + 1 + int(head["length"])
            if stop >= len(data):
                return
            if stop <= line or data[stop : stop + 1] != _LINE:
                break
            body = data[line + 1 : stop]
            start = stop + 1
            yield Entry(str(head["from"]), int(head["n"]), str(head["key"]), str(head["kind"]), body, at + start)
        else:
            return
    except (ValueError, KeyError, TypeError):
        pass
    raise not_understood(name, at + start)


def not_understood(name: str, at: int) -> StorageError:
    """Say that what stands in a log is no entry."""
    return StorageError(
        f"log {name!r}: what stands at offset {at} is not understood: another version, or somebody else, wrote it",
        lock=name,
        reason="log not understood",
    )
