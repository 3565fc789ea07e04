"""Routes of HTTP triggers, by the rules of ASP.NET's route templates, which the Functions host uses.

`products/{category:alpha}/{id:int?}`: text matches in any case, ``?`` makes a last part optional, ``=`` gives it a
default, ``*`` takes the rest of the path, and constraints decide whether a route fits at all. Of several that fit, the
one with more text and more constraints wins, part by part from the left.

Sources: https://learn.microsoft.com/azure/azure-functions/functions-bindings-http-webhook-trigger (customize the HTTP
endpoint) and https://learn.microsoft.com/aspnet/core/fundamentals/routing (route templates, constraints).
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_PARAMETER: Final = re.compile(r"\A(?P<stars>\*{0,2})(?P<name>[^:=?*{}/]+)(?P<rules>(?::.*?)?)(?P<rest>\?|=.*)?\Z")
_RULE: Final = re.compile(r"\A(?P<name>[A-Za-z]+)(?:\((?P<arguments>.*)\))?\Z", re.DOTALL)
_LITERAL, _RULED, _FREE, _REST_RULED, _REST = range(1, 6)

Check: TypeAlias = "Callable[[str], bool]"


class RouteError(ValueError):
    """A template is wrong; the message says where."""


@dataclass(frozen=True, slots=True)
class RouteParameter:
    """A ``{name}`` of a template, with the constraints as they are written. ``rest``: it takes the rest of the path."""

    name: str
    rules: tuple[str, ...] = ()
    default: str | None = None
    optional: bool = False
    rest: bool = False

    def fits(self, value: str) -> bool:
        """Tell whether all its constraints allow a value."""
        return all(_check(rule)(value) for rule in self.rules)


RoutePart: TypeAlias = "str | RouteParameter"


@dataclass(frozen=True, slots=True)
class Route:
    """A template that was read: for each segment of the path its texts and parameters."""

    template: str
    segments: tuple[tuple[RoutePart, ...], ...]

    @classmethod
    def parse(cls, template: str) -> Route:
        """Read a template.

        Raises:
            RouteError: it is wrong, and the host would not serve the function.
        """
        text = template.strip().lstrip("~").strip("/")
        segments = tuple(_parts(segment, template) for segment in _split(text, "/", "{", "}") if segment)
        route = cls(template, segments)
        names = [parameter.name.casefold() for parameter in route.parameters]
        if len(set(names)) < len(names):
            raise RouteError(f"the route {template!r} names a parameter twice")
        for parameter in route.parameters:
            for rule in parameter.rules:
                _check(rule)
        if any(parameter.rest for parameter in cls(template, segments[:-1]).parameters):
            raise RouteError(f"the route {template!r} goes on after a parameter that takes the rest of the path")
        return route

    @property
    def parameters(self) -> tuple[RouteParameter, ...]:
        """The parameters of the route, in order."""
        return tuple(part for segment in self.segments for part in segment if isinstance(part, RouteParameter))

    @property
    def precedence(self) -> tuple[int, ...]:
        """The lower, the earlier it is tried."""
        return tuple(map(_rank, self.segments))

    def match(self, path: str) -> dict[str, str] | None:
        """Return the values of its parameters for a path (still escaped, without the prefix); None: it does not fit."""
        given = [unquote(segment) for segment in path.strip("/").split("/")] if path.strip("/") else []
        values: dict[str, str] = {}
        for at, segment in enumerate(self.segments):
            first = segment[0]
            if isinstance(first, RouteParameter) and first.rest:
                values[first.name] = "/".join(given[at:]) or first.default or ""
                return values if self._allows(values) else None
            if at >= len(given):
                if not all(
                    isinstance(part, RouteParameter) and (part.optional or part.default is not None) for part in segment
                ):
                    return None
                if isinstance(first, RouteParameter) and first.default is not None:
                    values[first.name] = first.default
                continue
            found = _segment(segment, given[at])
            if found is None:
                return None
            values |= found
        return values if len(given) <= len(self.segments) and self._allows(values) else None

    def _allows(self, values: dict[str, str]) -> bool:
        return all(parameter.fits(values[parameter.name]) for parameter in self.parameters if parameter.name in values)


def first_match(
    routes: Iterable[tuple[Route, frozenset[str], str]], method: str, path: str
) -> tuple[str, dict[str, str]] | None:
    """Return the name of the route that serves a request, and its values; None: no route does.

    An entry of ``routes`` has the allowed methods; an empty collection allows every method.
    """
    for route, methods, name in sorted(routes, key=lambda each: (each[0].precedence, each[2])):
        if not methods or method.upper() in methods:
            values = route.match(path)
            if values is not None:
                return name, values
    return None


def _split(text: str, by: str, opening: str, closing: str) -> list[str]:
    """Split a text where it has ``by`` outside of brackets."""
    pieces, depth, start = [], 0, 0
    for at, char in enumerate(text):
        depth += (char == opening) - (char == closing)
        if char == by and not depth:
            pieces.append(text[start:at])
            start = at + 1
    return [*pieces, text[start:]]


def _parts(segment: str, template: str) -> tuple[RoutePart, ...]:
    parts: list[RoutePart] = []
    at = 0
    while at < len(segment):
        if segment[at] != "{" or segment[at : at + 2] == "{{":
            end = at + 2 if segment[at : at + 2] in ("{{", "}}") else at + 1
            literal = segment[at:end][0]
            if literal == "}" and end == at + 1:
                raise RouteError(f"the route {template!r} has a }} without a {{")
            parts = [*parts[:-1], parts[-1] + literal] if parts and isinstance(parts[-1], str) else [*parts, literal]
            at = end
            continue
        end = _closing(segment, at, template)
        parts.append(_parameter(segment[at + 1 : end].replace("{{", "{").replace("}}", "}"), template))
        at = end + 1
    return tuple(parts)


def _closing(segment: str, at: int, template: str) -> int:
    """Return where the parameter that begins at a brace ends; doubled braces in a constraint are text."""
    end = at + 1
    while end < len(segment):
        if segment[end : end + 2] in ("{{", "}}") and segment[end + 2 : end + 3] != "":
            end += 2
        elif segment[end] == "}":
            return end
        else:
            end += 1
    raise RouteError(f"the route {template!r} has a {{ without a }}")


def _parameter(text: str, template: str) -> RouteParameter:
    found = _PARAMETER.match(text)
    if found is None:
        raise RouteError(f"the route {template!r} has a parameter {{{text}}} that can't be read")
    rest = found["rest"] or ""
    return RouteParameter(
        name=found["name"].strip(),
        rules=tuple(rule for rule in _split(found["rules"], ":", "(", ")") if rule),
        default=rest[1:] if rest.startswith("=") else None,
        optional=rest == "?",
        rest=bool(found["stars"]),
    )


def _segment(segment: tuple[RoutePart, ...], text: str) -> dict[str, str] | None:
    """Match one segment: text in any case, each parameter at least one character."""
    pattern = "".join(re.escape(part) if isinstance(part, str) else "(.+)" for part in segment)
    found = re.fullmatch(pattern, text, re.IGNORECASE | re.DOTALL)
    names = [part.name for part in segment if isinstance(part, RouteParameter)]
    return None if found is None else dict(zip(names, found.groups(), strict=True))


def _rank(segment: tuple[RoutePart, ...]) -> int:
    if len(segment) > 1:
        return _RULED
    first = segment[0]
    if isinstance(first, str):
        return _LITERAL
    if first.rest:
        return _REST_RULED if first.rules else _REST
    return _RULED if first.rules else _FREE


def _check(rule: str) -> Check:
    """Return what a constraint asks of a value.

    Raises:
        RouteError: ASP.NET has no such constraint.
    """
    found = _RULE.match(rule.strip())
    name = found["name"].lower() if found else ""
    arguments = found["arguments"] if found and found["arguments"] is not None else ""
    if name == "regex":
        return lambda value: re.search(arguments, value, re.IGNORECASE) is not None
    try:
        numbers = [int(number) for number in arguments.split(",") if number.strip()]
    except ValueError:
        raise RouteError(f"the constraint {rule!r} has {arguments!r} where numbers must be") from None
    simple = _SIMPLE.get(name) if not numbers else None
    ranged = _RANGED.get((name, len(numbers)))
    if simple is None and ranged is None:
        raise RouteError(f"there is no constraint {rule!r}; there are {', '.join(_NAMES)}")
    return simple or (lambda value: ranged is not None and ranged(value, numbers))


def _whole(value: str, bits: int) -> bool:
    return re.fullmatch(r"[+-]?[0-9]+", value) is not None and -(2 ** (bits - 1)) <= int(value) < 2 ** (bits - 1)


def _reads(parse: Callable[[str], object]) -> Check:
    def check(value: str) -> bool:
        try:
            parse(value)
        except ValueError:
            return False
        return True

    return check


def _number(value: str) -> int:
    return int(value) if _whole(value, 64) else -(2**63) - 1


_SIMPLE: Final[dict[str, Check]] = {
    "int": lambda value: _whole(value, 32),
    "long": lambda value: _whole(value, 64),
    "bool": lambda value: value.lower() in ("true", "false"),
    "guid": _reads(uuid.UUID),
    "datetime": _reads(datetime.fromisoformat),
    "decimal": _reads(float),
    "double": _reads(float),
    "float": _reads(float),
    "alpha": lambda value: re.fullmatch("[A-Za-z]*", value) is not None,
    "required": bool,
}
_RANGED: Final[dict[tuple[str, int], Callable[[str, list[int]], bool]]] = {
    ("min", 1): lambda value, of: _whole(value, 64) and _number(value) >= of[0],
    ("max", 1): lambda value, of: _whole(value, 64) and _number(value) <= of[0],
    ("range", 2): lambda value, of: _whole(value, 64) and of[0] <= _number(value) <= of[1],
    ("minlength", 1): lambda value, of: len(value) >= of[0],
    ("maxlength", 1): lambda value, of: len(value) <= of[0],
    ("length", 1): lambda value, of: len(value) == of[0],
    ("length", 2): lambda value, of: of[0] <= len(value) <= of[1],
}
_NAMES: Final = (*_SIMPLE, *(f"{name}({', '.join('n' * many)})" for name, many in _RANGED), "regex(…)")
