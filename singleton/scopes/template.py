"""Scope ids as WebJobs writes them: text with ``%SETTING%`` and ``{property}`` in it."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping
from typing import NamedTuple

from singleton.base.appsettings import setting
from singleton.base.errors import ConfigurationError, ScopeError
from singleton.base.forks import importing
from singleton.base.json_values import check_path, kind_of, lacks, plain_text, read_json
from singleton.base.words import listed, quoted


class BoundNames(Mapping[str, object]):
    """Values for the placeholders of an invocation, each with its source: the host, or JSON of a sender.

    ``hint`` says why a name may be missing, as the end of a sentence, or is the empty text.
    """

    hint = ""

    @abstractmethod
    def is_the_hosts(self, name: str) -> bool:
        """Tell whether the value of a name comes from the host, and not from JSON of a sender."""


class ScopeTemplate:
    """A WebJobs scope id: literal text, ``%SETTING%`` and ``{property}`` (W-35 to W-42).

    >>> ScopeTemplate("%REGION%-{Order.Id:N}{{x}}").paths
    ('Order.Id',)
    >>> ScopeTemplate("%REGION%-{Zone}").bind({"REGION": "north"}, {"Zone": 1})
    'north-1'

    Settings are filled in first, over the whole text, so a setting may hold placeholders; what the binding data holds
    is never looked at again. ``{{`` and ``}}`` are braces; a percent sign can't be written. A placeholder may walk
    into objects, ignoring case below its first name, and format GUIDs and dates: ``{When:yyyyMMdd}``.

    ``{rand-guid}`` is refused, and ``{DateTime}`` and ``{sys.…}`` are only looked up in the binding data: a scope that
    is new at each invocation would guard nothing.

    With ``needs_values`` every placeholder needs a value. With ``dotnet`` values are printed as by the WebJobs SDK, and
    an empty or blank scope is returned unchanged. ``named``: name of the template in errors.

    Attributes:
        paths: dotted paths of the placeholders, without placeholders that contain a setting.
        is_literal: whether the template has neither settings nor placeholders.
    """

    def __init__(self, text: str, *, dotnet: bool = False, named: str = "scope_id", needs_values: bool = False) -> None:
        if not isinstance(text, str):
            raise ConfigurationError(f"{named} is {quoted(text)}: give a text such as '%REGION%-{{Zone}}'")
        if text and not (text.strip() or dotnet):
            raise ConfigurationError(f"{named} is blank: leave it out, or give a text such as '%REGION%-{{Zone}}'")
        self.text = text
        self._dotnet = dotnet
        self._needs_values = needs_values
        self._subject = subject = f"{named} {quoted(text)}"
        self._pieces = _parse(_settings_masked(text, subject), subject)
        self.is_literal = "%" not in text and all(isinstance(piece, str) for piece in self._pieces)
        self.paths = tuple(
            dict.fromkeys(
                ".".join(piece.names)
                for piece in self._pieces
                if isinstance(piece, _Placeholder) and "%" not in text[piece.start : piece.end]
            )
        )

    def __repr__(self) -> str:
        return f"ScopeTemplate({self.text!r})"

    def bind(self, settings: Mapping[str, str], data: Mapping[str, object] | None) -> str:
        """Return the scope id for these settings and this invocation's binding data.

        Without data (``None``), placeholders stay as they are (W-36).

        Raises:
            ConfigurationError: a setting is missing, or the value of a setting breaks the template.
            ScopeError: the data lacks a name, holds an object or list for one, or nothing is left of the scope.
        """
        resolved = _settings_filled(self.text, settings, self._subject)
        if data is None:
            return self._checked(resolved)
        pieces = self._pieces_of(resolved)
        return self._checked("".join(each if isinstance(each, str) else self._text_of(each, data) for each in pieces))

    def outline(self, settings: Mapping[str, str]) -> str:
        """Return the scope id with a 1 for each placeholder. See ``bind`` for the errors."""
        pieces = self._pieces_of(_settings_filled(self.text, settings, self._subject))
        return self._checked("".join(each if isinstance(each, str) else "1" for each in pieces))

    def _checked(self, bound: str) -> str:
        if self.text and not (bound.strip() or self._dotnet):
            raise ScopeError(
                f"{self._subject} is empty once it is filled in: its settings and values are empty", reason="empty"
            )
        return bound

    def _pieces_of(self, resolved: str) -> list[str | _Placeholder]:
        return self._pieces if resolved is self.text else _parse(resolved, f"{self._subject}, its settings filled in,")

    def _text_of(self, piece: _Placeholder, data: Mapping[str, object]) -> str:
        found, path = piece.value(data, self._subject), ".".join(piece.names)
        subject = f"{self._subject}: the value of {{{path}}}"
        if not self._dotnet:
            text = _bound_text(found, piece.format, subject)
            if self._needs_values and not text.strip():
                what = "null" if found is None else "blank" if text else "empty"
                raise ScopeError(f"{subject} is {what}: every message needs a value", reason="empty")
            return text
        with importing:
            from singleton.dotnet.typed_values import dotnet_text, dotnet_text_of_host

        is_the_hosts = isinstance(data, BoundNames) and data.is_the_hosts(piece.names[0])
        return (dotnet_text_of_host if is_the_hosts else dotnet_text)(found, piece.format, subject, path)


def placeholders_split(pattern: str, settings: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Split the path of a blob trigger into its literal texts and the names between them, one less.

    >>> placeholders_split("%BOX%/{name}.{ext}", {"BOX": "in"})
    (['in/', '.', ''], ['name', 'ext'])

    ``ConfigurationError``: a setting is missing, or the path is malformed; the Functions host refuses it, too.
    """
    subject = f"the trigger's path {quoted(pattern)}"
    _settings_masked(pattern, subject)
    literals, names = [""], []
    for piece in _parse(_settings_filled(pattern, settings, subject), subject):
        if isinstance(piece, str):
            literals[-1] += piece
        else:
            names.append(".".join(piece.names))
            literals.append("")
    return literals, names


class _Placeholder(NamedTuple):
    names: tuple[str, ...]
    format: str
    start: int
    end: int

    def value(self, data: Mapping[str, object], subject: str) -> object:
        path = ".".join(self.names)
        try:
            found = data[self.names[0]]
        except KeyError:
            hint = data.hint if isinstance(data, BoundNames) else ""
            if self.names[0].casefold() in ("datetime", "sys"):
                hint = (
                    " (WebJobs fills in such a name, this doesn't: a scope that is new at each invocation would guard "
                    "nothing)"
                )
            raise ScopeError(
                f"{subject}: there is no value for {{{path}}}; the binding data has {listed(data) or 'none'}{hint}",
                reason="missing",
            ) from None
        for name in self.names[1:]:
            found = _property(found, name, f"{subject}: {{{path}}}")
        return found


def _property(found: object, name: str, subject: str) -> object:
    if isinstance(found, Mapping):
        if name in found:
            return found[name]
        for other in found:
            if isinstance(other, str) and other.casefold() == name.casefold():
                return found[other]
    raise ScopeError(f"{subject}: the part before {quoted(name)} {lacks(name, found)}", reason="missing")


def _bound_text(value: object, pattern: str, subject: str) -> str:
    text = plain_text(value)
    if text is not None and pattern in ("", "text"):
        return text
    if value is None:
        return ""  # W-38
    if isinstance(value, Mapping | list | tuple):
        raise ScopeError(f"{subject} is {kind_of(value)}: it must be text, a number or a boolean", reason="kind")
    with importing:
        from singleton.dotnet.formats import formatted

    return formatted(value, pattern, subject)


def _settings_masked(text: str, subject: str) -> str:
    """Return the template with each ``%NAME%`` as underscores, so that positions stay right; check that they pair."""
    parts = text.split("%")
    if len(parts) % 2 == 0:
        raise ConfigurationError(f"{subject}: the % at character {text.rindex('%') + 1} has no closing %")
    if "" in parts[1::2]:
        raise ConfigurationError(f"{subject}: %% names no setting; a percent sign can't be written")
    return "".join("_" * (len(part) + 2) if index % 2 else part for index, part in enumerate(parts))


def _settings_filled(text: str, settings: Mapping[str, str], subject: str) -> str:
    if "%" not in text:
        return text
    parts = text.split("%")
    for index in range(1, len(parts), 2):
        name = parts[index]
        value = setting(settings, name)
        if value is None:
            raise ConfigurationError(f"{subject}: there is no app setting {name} for %{name}%: set it")
        parts[index] = value
    return "".join(parts)


def _parse(text: str, subject: str) -> list[str | _Placeholder]:
    pieces: list[str | _Placeholder] = []
    at = 0
    while at < len(text):
        if text.startswith(("{{", "}}"), at):
            pieces.append(text[at])
            at += 2
        elif text[at] == "{":
            end = _next_brace(text, at + 1)
            if text[end : end + 1] != "}":
                raise ConfigurationError(f"{subject}: the {{ at character {at + 1} has no closing bracket }}")
            pieces.append(_placeholder(text[at + 1 : end], at + 1, subject))
            at = end + 1
        elif text[at] == "}":
            raise ConfigurationError(f"{subject}: the }} at character {at + 1} has no opening bracket {{")
        else:
            end = _next_brace(text, at)
            pieces.append(text[at:end])
            at = end
    return pieces


def _next_brace(text: str, start: int) -> int:
    return next((at for at in range(start, len(text)) if text[at] in "{}"), len(text))


def _placeholder(content: str, start: int, subject: str) -> _Placeholder:
    expression, _, pattern = content.partition(":")
    if not content:
        raise ConfigurationError(f"{subject}: the placeholder at character {start} is empty: name a property in it")
    if expression.casefold() == "rand-guid":
        raise ConfigurationError(
            f"{subject}: {{rand-guid}} makes a new scope at each invocation, so no two would exclude each other: "
            "leave it out"
        )
    first, *later = expression.split(".")
    # Names behind the first may begin with a digit, and have dashes.
    valid = [first.isidentifier(), *(bool(name) and f"_{name.replace('-', '_')}".isidentifier() for name in later)]
    if not all(valid):
        raise ConfigurationError(
            f"{subject}: {quoted(expression)} at character {start + 1} is not a property name: "
            "write {Name} or {Name.Of.Nested-Property}"
        )
    if pattern.strip():
        with importing:
            from singleton.dotnet.formats import check_format

        check_format(pattern, f"{subject}: {{{content}}}")
    return _Placeholder((first, *later), pattern.strip() and pattern, start, start + len(content))


def value_at(path: str, body: object, *, dotnet: bool = False, named: str = "scope") -> str:
    """Return the text of the property at ``path`` in a JSON body (D-10 to D-17).

    >>> value_at("Order:Id", b'{"Order": {"Id": 419}}')
    '419'

    Names are matched case-sensitively. Numbers keep the body's spelling; ``true`` is "True". Of a name given twice the
    last one counts, as for ``msg.get_json()``; with ``dotnet`` also of two first names that differ in case only.

    Args:
        path: property names with ``:`` between levels.
        body: JSON as bytes (UTF-8) or text, or what a parser made of it.
        named: name of the path in errors.
        dotnet: print the value as the WebJobs SDK does; a value without a text there gives the empty text.

    Raises:
        ConfigurationError: the path is blank (D-16).
        ScopeError: the body isn't JSON, or the property is missing, null, blank, an object or a list; or .NET prints
            it by its type in C#, which is not known.
    """
    segments = check_path(path, named)
    asked = f"{named} {quoted(path)}"
    found = read_json(body, f"{asked}: the body") if isinstance(body, str | bytes | bytearray | memoryview) else body
    for depth, name in enumerate(segments):
        if not isinstance(found, Mapping) or name not in found:
            where = f"the body at {quoted(':'.join(segments[:depth]))}" if depth else "the body"
            meant = _colons_meant(segments, depth, found)
            raise ScopeError(f"{asked}: {where} {lacks(name, found)}{meant}", reason="missing")
        if dotnet and not depth:  # the host's names ignore the case, and the last one counts
            name = [each for each in found if str(each).casefold() == name.casefold()][-1]  # noqa: PLW2901
        found = found[name]
    subject = f"{asked}: its value in the body"
    if not dotnet:
        return filled_text(found, subject)
    with importing:
        from singleton.dotnet.typed_values import dotnet_text

    return dotnet_text(found, "", subject, ".".join(segments))


def _colons_meant(segments: tuple[str, ...], depth: int, found: object) -> str:
    """Suggest the path with ``:`` in place of ``.`` or ``/`` where that leads to a property: ``Order.Id``."""
    parts = re.split(r"[./]", segments[depth])
    for part in parts:
        if not isinstance(found, Mapping) or part not in found:
            return ""
        found = found[part]
    return f"; did you mean {quoted(':'.join((*segments[:depth], *parts, *segments[depth + 1 :])))}?"


def filled_text(value: object, subject: str) -> str:
    """Return the text of a value. ``ScopeError``: null, blank, or no plain value; ``subject`` says which it is."""
    text = plain_text(value)
    if text is None:
        if value is not None:
            raise ScopeError(f"{subject} is {kind_of(value)}: it must be text, a number or a boolean", reason="kind")
        raise ScopeError(f"{subject} is null: every message needs a value", reason="empty")
    if not text.strip():
        raise ScopeError(f"{subject} is {'blank' if text else 'empty'}: every message needs a value", reason="empty")
    return text
