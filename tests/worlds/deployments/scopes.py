"""Scopes of declarations, and the messages that name them: the values come first, then the body."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

SETTINGS: Final = {"REGION": "north", "stage:name": "blue/green", "region_": "decoy"}
"""App settings that templates name."""
_ANY: Final = (
    *("a42", "A42", "42", "Zürich ✓", "a/b", "../x", "50%", "~x", "two words", "a.b", "x" * 300, "é" * 120, " y "),
    *("0042", "null", "2026-01-05"),
)
_TEXTS_OF_DOTNET: Final = ("a42", "A42", "Zürich", "a/b", "north\\3", "two words", "x-1", "name")
_TEXTS_OF_BLOBS: Final = ("a42", "A42", "a/b", "two words", "Zürich ✓", "x" * 200)
_NUMBERS: Final = ("42", "0", "-7", "900719925474099312345")
_SPELT: Final = ("1.50", "1e3", "-0.0")
_GUID: Final = "7F2A1C1E-3d0b-4c55-9d3e-0a1b2c3d4e5f"
_WHEN: Final = "2026-03-09T19:08:09.5Z"

Message = tuple[str, tuple[str, ...] | None]
"""A body, and the values of its scope as text; None: it has no scope, and the invocation must fail."""


@dataclass(frozen=True, slots=True)
class Scope:
    """How a declaration gives its scope, and what its messages look like."""

    path: str | None
    template: str
    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class _Value:
    json: str
    text: str


@dataclass(frozen=True, slots=True)
class _Draw:
    """What a scope is drawn from: ``tag`` begins its text if possible; ``dotnet``: values are printed as in .NET."""

    rng: random.Random
    values: list[_Value]
    tag: str
    dotnet: bool


def _text(value: str) -> _Value:
    return _Value(json.dumps(value, ensure_ascii=len(value) % 2 == 0), value)


def draw_scope(rng: random.Random, layout: str, tag: str, *, needed: bool) -> Scope:
    """Draw the scope of a function in a layout; ``needed``: it can't be without."""
    values = _values(rng, layout)
    shapes: list[Callable[[_Draw], Scope]] = [_path, _nested, _name, _template]
    if layout != "dequeueable":
        shapes += [_of_parts, _both]
        shapes += [_constant, _braces] if layout == "default" else [_constant]
        shapes += [] if needed else [_none, _none]
    if layout == "default":
        shapes += [_date, _guid]
    if layout == "webjobs":
        shapes += [_date_of_dotnet, _guid_of_dotnet, _text_of_dotnet, _of_no_text, _of_no_text]
        shapes += [] if needed else [_whole_function]
    return rng.choice(shapes)(_Draw(rng, values, tag, dotnet=layout == "webjobs"))


def _values(rng: random.Random, layout: str) -> list[_Value]:
    texts = {"default": _ANY, "webjobs": _TEXTS_OF_DOTNET, "dequeueable": _TEXTS_OF_BLOBS}[layout]
    drawn = [_text(value) for value in rng.sample(texts, 2)]
    numbers = _NUMBERS if layout == "webjobs" else (*_NUMBERS, *_SPELT)
    if rng.random() < 0.5:
        drawn[0] = _Value(*[rng.choice(numbers)] * 2)
    if layout != "webjobs" and rng.random() < 0.3:
        drawn[1] = rng.choice((_Value("true", "True"), _Value("false", "False")))
    return drawn


def _bodies(values: list[_Value], body: Callable[[str], str], texts: Callable[[str], tuple[str, ...]]) -> list[Message]:
    return [(body(value.json), texts(value.text)) for value in values]


def _wrong(draw: _Draw, body: Callable[[str], str], *more: str, at: str = "") -> list[Message]:
    """Return messages that name no scope; ``at``: of a path, which is not to be empty.

    A value that can't be printed is nothing to .NET, and no error.
    """
    unprintable = ["[1]", '{"a": 1}', *(["null", '""', '" "'] if at else [])]
    wrong = ["{}", *more, *([] if draw.dotnet else map(body, unprintable))]
    return [(each, None) for each in draw.rng.sample(wrong, min(2, len(wrong)))]


def _path(draw: _Draw) -> Scope:
    def body(value: str) -> str:
        other = "" if draw.dotnet else ', "ID": "decoy"'  # of such names the last counts in .NET
        return f'{{"id": "decoy", "Id": {value}{other}, "More": {{"Id": 7}}}}'

    wrong = _wrong(draw, body, '{"id": "other"}', "no JSON", "[]", at="Id")
    return Scope("Id", "", (*_bodies(draw.values, body, lambda text: (text,)), *wrong))


def _nested(draw: _Draw) -> Scope:
    def body(value: str) -> str:
        return f'\ufeff {{"Order": {{"Id": 0, "Customer": {{"id": "decoy", "Id": {value}}}}}, "Id": "decoy"}}'

    wrong = _wrong(draw, body, '{"Order": {"Customer": null}}', '{"Order:Customer:Id": 1}', at="Id")
    return Scope("Order:Customer:Id", "", (*_bodies(draw.values, body, lambda text: (text,)), *wrong))


def _name(draw: _Draw) -> Scope:
    exactly = draw.rng.random() < 0.5

    def body(value: str) -> str:
        if exactly:
            return f'{{"tenant": {{"NAME": "decoy", "Name": {value}}}, "name": "decoy"}}'
        return f'{{"tenant": {{"NAME": {value}, "Other": 1}}, "name": "decoy"}}'

    wrong = _wrong(draw, body, '{"Tenant": {"Nom": 1}}')
    return Scope(None, "{Tenant.Name}", (*_bodies(draw.values, body, lambda text: (text,)), *wrong))


def _template(draw: _Draw) -> Scope:
    def body(value: str) -> str:
        return f'{{"Zone": {value}, "REGION": "decoy"}}'

    wrong = _wrong(draw, body)
    template = draw.rng.choice(("%REGION%-{Zone}", "%region%-{zone}"))
    return Scope(None, template, (*_bodies(draw.values, body, lambda text: (f"north-{text}",)), *wrong))


def _of_parts(draw: _Draw) -> Scope:
    def body(value: str) -> str:
        return f'{{"A": "x%REGION%", "B": {value}}}'

    template = f"{draw.tag}:%stage__name%:{{A}}:{{B}}"
    texts = _bodies(draw.values, body, lambda text: (f"{draw.tag}:blue/green:x%REGION%:{text}",))
    return Scope(None, template, (*texts, *_wrong(draw, body)))


def _both(draw: _Draw) -> Scope:
    def body(value: str) -> str:
        return f'{{"B": {{"C": {value}}}, "D": "e.f"}}'

    return Scope(
        "B:C",
        f"{draw.tag}{{d}}",
        (*_bodies(draw.values, body, lambda text: (f"{draw.tag}e.f", text)), *_wrong(draw, body)),
    )


def _constant(draw: _Draw) -> Scope:
    return Scope(None, f"{draw.tag}-nightly", (("", (f"{draw.tag}-nightly",)), ("no JSON", (f"{draw.tag}-nightly",))))


def _braces(draw: _Draw) -> Scope:
    def body(value: str) -> str:
        return f'{{"X": {value}}}'

    return Scope(
        None, f"{draw.tag}{{{{X}}}}{{X}}", tuple(_bodies(draw.values, body, lambda text: (f"{draw.tag}{{X}}{text}",)))
    )


def _none(_: _Draw) -> Scope:
    return Scope(None, "", (("", ()), ('{"Id": 1}', ())))


def _date(draw: _Draw) -> Scope:
    pattern, text = draw.rng.choice(list(_FORMATS.items()))
    bodies = ((f'{{"When": "{_WHEN}"}}', (draw.tag + text,)), ('{"When": "soon"}', None))
    return Scope(None, f"{draw.tag}{{When:{pattern}}}", bodies)


def _guid(draw: _Draw) -> Scope:
    pattern, text = draw.rng.choice(list(_GUIDS.items()))
    bodies = (
        (f'{{"Key": "{_GUID}"}}', (draw.tag + text,)),
        (f'{{"Key": "{text}"}}', (draw.tag + text,)),
        ('{"Key": 42}', None),
    )
    return Scope(None, f"{draw.tag}{{Key:{pattern}}}", bodies)


# --- as .NET prints values (docs/layouts.md) --------------------------------------------------------------------------


def _date_of_dotnet(draw: _Draw) -> Scope:
    spelt = (
        "2026-03-09",
        "2026-3-9",
        "3/9/2026",
        "9 Mar 2026",
        "Mon, 09 Mar 2026 07:08:09 GMT",
        "2026-03-09T23:59:59Z",
    )
    bodies = [(f'{{"When": "{text}"}}', (f"{draw.tag}09.03.2026",)) for text in draw.rng.sample(spelt, 3)]
    return Scope(None, f"{draw.tag}{{When:dd.MM.yyyy}}", (*bodies, ('{"When": "soon"}', None)))


def _guid_of_dotnet(draw: _Draw) -> Scope:
    pattern, text = draw.rng.choice(list(_GUIDS.items()))
    return Scope(
        None, f"{draw.tag}{{Key:{pattern}}}", ((f'{{"Key": "{_GUID}"}}', (draw.tag + text,)), ('{"Key": "x"}', None))
    )


def _text_of_dotnet(draw: _Draw) -> Scope:
    texts = draw.rng.sample(("2026-03-09", "00:10:00", "plain", "a b", _GUID), 3)
    return Scope(None, f"{draw.tag}{{V:text}}", tuple((f'{{"V": "{text}"}}', (draw.tag + text,)) for text in texts))


def _of_no_text(draw: _Draw) -> Scope:
    """Values that are nothing to .NET, and values that .NET may print in several ways: these are refused."""
    nothing = [(f'{{"V": {value}}}', (draw.tag,)) for value in draw.rng.sample(("null", "[1]", "{}", '""'), 2)]
    unclear = (
        "true",
        "1.5",
        "1.0",
        "-0",
        *(f'"{text}"' for text in ("2026-03-09", "00:10:00", _GUID, "9 Mar 2026", "007")),
    )
    refused = [(f'{{"V": {value}}}', None) for value in draw.rng.sample(unclear, 2)]
    clear = [(f'{{"V": "{_GUID.lower()}"}}', (draw.tag + _GUID.lower(),)), ('{"V": 42}', (f"{draw.tag}42",))]
    return Scope(None, f"{draw.tag}{{V}}", (*nothing, *clear, *refused))


def _whole_function(_: _Draw) -> Scope:
    """In .NET an empty scope means the whole function."""
    return Scope(
        "V", "", (('{"V": null}', ()), ('{"V": "a"}', ("a",)), ('{"V": ""}', ()), ('{"V": "2026-03-09"}', None))
    )


_FORMATS: Final = {
    "yyyy-MM-dd": "2026-03-09",
    "yyyyMMddTHH": "20260309T19",
    "H:mm": "19:08",
    "d MMM yy": "9 Mar 26",
    "dddd hh tt": "Monday 07 PM",
    "s": "2026-03-09T19:08:09",
    "yyyy-MM-ddTHH-mm-ssK": "2026-03-09T19-08-09Z",
    "HHmmss.fff": "190809.500",
    "MMMM": "March",
}
_GUIDS: Final = {
    "N": _GUID.lower().replace("-", ""),
    "D": _GUID.lower(),
    "B": f"{{{_GUID.lower()}}}",
    "P": f"({_GUID.lower()})",
}
