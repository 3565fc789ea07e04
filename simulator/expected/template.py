"""``scope_id``: ``%SETTING%`` first, in the whole text, then ``{name}`` (W-35 to W-42); answers other than a key."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from unicodedata import category

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True, slots=True)
class NoKey:
    """The invocation fails before any lock is asked for, and says why."""

    reason: str


@dataclass(frozen=True, slots=True)
class CantTell:
    """This reading does not cover the case: nothing follows for the lock."""

    reason: str


class KeyRefused(Exception):
    """The specification lets the invocation fail."""


class Unclear(Exception):
    """This is not read here, or the specification does not say."""


_TOKEN: Final = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]|[^{}]+")
_BEGINS: Final = frozenset({"Lu", "Ll", "Lt", "Lm", "Lo", "Nl"})
_GOES_ON: Final = _BEGINS | {"Mn", "Mc", "Nd", "Pc", "Cf"}


def folded(name: str) -> str:
    """Return a form that is equal for names that differ only in upper and lower case, letter by letter as in .NET."""
    return "".join(char.upper() if len(char.upper()) == 1 else char for char in name)


def setting(settings: Mapping[str, str], name: str) -> str | None:
    """Return an app setting: upper and lower case are equal, and ``:`` is ``__``."""
    if name in settings:
        return settings[name]
    wanted = folded(name.replace(":", "__"))
    return next((value for spelt, value in settings.items() if folded(spelt.replace(":", "__")) == wanted), None)


def with_settings(text: str, settings: Mapping[str, str]) -> str:
    """Fill in ``%NAME%``, once: the value of a setting is not searched for another name (W-41)."""
    parts = text.split("%")
    if len(parts) % 2 == 0:
        raise KeyRefused(f"scope_id {text!r} has a % without another")
    for at in range(1, len(parts), 2):
        value = setting(settings, parts[at]) if parts[at] else None
        if value is None:
            raise KeyRefused(f"there is no app setting {parts[at]!r}")
        parts[at] = value
    return "".join(parts)


def with_names(text: str, value_of: Callable[[str], object], printed: Callable[[object, str], str]) -> str:
    """Fill in ``{name}``, ``{name.of.nested-part}`` and ``{name:format}``; ``{{`` and ``}}`` are braces (W-40).

    Args:
        text: a template without settings.
        value_of: what the first name means.
        printed: what a value is in text, in a format or, with the empty one, without.
    """
    filled = ""
    for token in _TOKEN.finditer(text):
        if token[1] is not None:
            path, _, pattern = token[1].partition(":")
            filled += printed(_value(path, value_of), pattern if pattern.strip() else "")
        elif token[0] in ("{", "}"):
            raise KeyRefused(f"scope_id {text!r} has a bracket without another")
        else:
            filled += token[0][0] if token[0] in ("{{", "}}") else token[0]
    return filled


def _value(path: str, value_of: Callable[[str], object]) -> object:
    first, *later = path.split(".")
    if not _is_identifier(first) or not all(name and _is_identifier(f"_{name.replace('-', '_')}") for name in later):
        raise KeyRefused(f"{{{path}}} names no property")
    value = value_of(first)
    for name in later:
        value = _property(value, name)
    return value


def _property(value: object, name: str) -> object:
    """Return a property of an object: the one with this exact name, else the first that differs only in case (W-40)."""
    if isinstance(value, dict):
        if name in value:
            return value[name]
        for spelt in value:
            if folded(spelt) == folded(name):
                return value[spelt]
    raise KeyRefused(f"there is no property {name!r}")


def _is_identifier(name: str) -> bool:
    """Tell whether it is one to C#."""
    return bool(name) and all(
        char == "_" or category(char) in (_GOES_ON if at else _BEGINS) for at, char in enumerate(name)
    )
