"""A message of an inbox, as handlers get it, and the rules for handling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

from singleton.base.errors import ConfigurationError
from singleton.base.words import quoted

OnPoison = Literal["skip", "stop"]
"""What follows the last attempt: the message is put aside, or its key stands still."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxMessage:
    """A message for the handler.

    Attributes:
        key: the key.
        body: the sent body: JSON, or bytes.
        id: equal in every attempt at the message.
        attempt: 1 at first, greater after a failure of the handler. After the first crash of the process the number
            does not change.
        token: fencing token of the key's lock, for the resource that the handler writes.
    """

    key: str
    body: Any
    id: str
    attempt: int = 1
    token: int | None = None


class Rules(NamedTuple):
    """How messages are handled.

    ``slice``: seconds after which a visit ends, behind the message in hand; its key goes on with another.
    """

    attempts: int = 5
    on_poison: OnPoison = "skip"
    slice: float = 60.0


def checked_rules(attempts: int, on_poison: OnPoison) -> Rules:
    """Return the rules for handling messages. ``ConfigurationError``: an argument is wrong."""
    check_number("attempts", attempts)
    if on_poison not in get_args(OnPoison):
        raise ConfigurationError(f"on_poison is {quoted(on_poison)}: it must be one of 'skip', 'stop'")
    return Rules(attempts=attempts, on_poison=on_poison)


def check_number(what: str, number: object) -> None:
    """Refuse a number of attempts or keys that is none."""
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise ConfigurationError(f"{what} is {quoted(number)}: give a whole number of at least 1")
