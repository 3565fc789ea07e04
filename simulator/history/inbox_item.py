"""A message of an inbox, as the witness saw its handler get it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class InboxItem:
    """What a handler was told of a message, and what the app has declared of the handler.

    Attributes:
        attempts: how often the app lets the message be tried; None: not known.
        stops: whether the app stops the key of a message that fails as often.
        attempt: as the handler was told; -1: an older journal. token: likewise.
    """

    inbox: str
    key: str
    id: str
    digest: str
    attempts: int | None = None
    stops: bool = False
    attempt: int | None = field(default=-1, compare=False)
    token: int | None = field(default=None, compare=False)
