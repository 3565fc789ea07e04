"""What the sentence of a broken promise names: hosts, callers, locks, tokens, messages, functions, errors."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from simulator.checks.findings import label

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simulator.history.journal import Record
    from simulator.virtual.oracle.evidence import Violation

_WORDS: Final = re.compile(r"[^\s,;:'\"<>()]+")
_TOKENS: Final = re.compile(r"\b(?:token|after|got) (\d+)\b")
_NUMBERED: Final = re.compile(r"\bmessage number (\d+)\b")
_BEGUN: Final = ("visit_began", "candidacy_began", "invocation_started")


@dataclass(frozen=True, slots=True, kw_only=True)
class Focus:
    """The things that a violation names, as the records call them, and when it was found."""

    at: float
    words: frozenset[str]
    hosts: frozenset[str]
    owners: frozenset[str]
    locks: frozenset[str]
    tokens: frozenset[int]
    messages: frozenset[str]
    scopes: frozenset[str]

    def names(self, word: str) -> bool:
        """Tell whether the sentence has this word."""
        return bool(word) and word in self.words


def names_of_locks(records: Sequence[Record]) -> set[str]:
    """Return the names of all locks that were asked for."""
    asked = {record.text("lock") for record in records if record.event in ("lock", "candidacy_began")}
    sent = {record.text("name") for record in records if record.event == "request" and _of_lock(record)}
    return (asked | sent) - {""}


def focus_of(records: Sequence[Record], violation: Violation) -> Focus:
    """Find what a violation names."""
    words = frozenset(word.rstrip(".") for word in _WORDS.findall(violation.text))
    hosts = {record.host for record in records} - {"world"}
    messages = _messages(records, words, violation.text)
    owners = _owners(records)
    named = {owner for owner in owners if owner in words and owner not in hosts}
    named |= {owner for owner, message in owners.items() if message in messages}
    return Focus(
        at=violation.at,
        words=words,
        hosts=frozenset((hosts & words) | {record.host for record in records if _owner(record) in named}),
        owners=frozenset(named),
        locks=frozenset(lock for lock in names_of_locks(records) if lock in words or label(lock) in words),
        tokens=frozenset(int(token) for token in _TOKENS.findall(violation.text) if "token" in words),
        messages=frozenset(messages),
        scopes=frozenset(scope for record in records for scope in scopes_of(record) if scope in words),
    )


def scopes_of(record: Record) -> set[str]:
    """Return the scopes that a call is for, where that was told."""
    keys = record.get("keys") if record.event == "expected" else None
    return {str(key) for key in keys.values() if key is not None} if isinstance(keys, dict) else set()


def _of_lock(record: Record) -> bool:
    return not record.text("call").startswith("queue ")


def _owner(record: Record) -> str:
    return record.text("invocation") if record.event == "invocation_started" else record.text("owner")


def _owners(records: Sequence[Record]) -> dict[str, str]:
    """Return all callers, each with the message that it is called for, if any."""
    owners = {_owner(record): "" for record in records if record.event in ("lock", *_BEGUN)}
    owners |= {_owner(record): record.text("message") for record in records if record.event == "invocation_started"}
    owners.pop("", None)
    return owners


def _messages(records: Sequence[Record], words: frozenset[str], text: str) -> set[str]:
    """Return the ids of the messages that a text names, and of the copies that went back in their place."""
    sent = [record.text("id") for record in records if record.event == "message_sent"]
    named = {sent[int(number)] for number in _NUMBERED.findall(text) if int(number) < len(sent)}
    if "message" in words:
        named |= {record.text("id") for record in records if record.event.startswith("message_")} & words
    for record in records:
        if record.event == "lock" and record.text("message_id") in named and record.text("copy_id"):
            named.add(record.text("copy_id"))
    return named - {""}
