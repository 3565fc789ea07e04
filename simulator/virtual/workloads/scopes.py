"""Scopes as functions are declared with them, and the messages that name them: the values come first, then the body."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping

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
_WHEN: Final = "2026-03-09T07:08:09.5Z"

Message = tuple[str, tuple[str, ...] | None]
"""A body, and the values of the scope in it as text; None: it names none, and the invocation is to fail."""


@dataclass(frozen=True, slots=True)
class Scope:
    """How a declaration says its scope, and what messages for it look like."""

    path: str | None
    template: str
    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class _Value:
    json: str
    text: str


def _text(value: str) -> _Value:
    return _Value(json.dumps(value, ensure_ascii=len(value) % 2 == 0), value)


def draw_scope(rng: random.Random, layout: str, tag: str, *, needed: bool) -> Scope:
    """Draw the scope of a function in a layout; ``needed``: it can't be without."""
    values = _values(rng, layout)
    shapes: list[Callable[[random.Random, list[_Value], str, bool], Scope]] = [_path, _nested, _name, _template]
    if layout != "dequeueable":
        shapes += [_of_parts, _both]
        shapes += [_constant, _braces] if layout == "default" else [_constant]
        shapes += [] if needed else [_none, _none]
    if layout == "default":
        shapes += [_date, _guid]
    return rng.choice(shapes)(rng, values, tag, layout == "webjobs")


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


def _wrong(rng: random.Random, body: Callable[[str], str], *more: str, dotnet: bool) -> list[Message]:
    """Return a message that names no scope. What is there and can't be printed is nothing to .NET, and no mistake."""
    unprintable = () if dotnet else (body('{"a": 1}'), body("[1]"))
    return [(rng.choice(("{}", *unprintable, *more)), None)]


def _path(rng: random.Random, values: list[_Value], _: str, dotnet: bool) -> Scope:
    def body(value: str) -> str:
        return f'{{"id": "decoy", "Id": {value}, "ID": "decoy", "More": {{"Id": 7}}}}'

    wrong = _wrong(rng, body, '{"id": "other"}', "no JSON", "[]", dotnet=dotnet)
    return Scope("Id", "", (*_bodies(values, body, lambda text: (text,)), *wrong))


def _nested(rng: random.Random, values: list[_Value], _: str, dotnet: bool) -> Scope:
    def body(value: str) -> str:
        return f'\ufeff {{"Order": {{"Id": 0, "Customer": {{"id": "decoy", "Id": {value}}}}}, "Id": "decoy"}}'

    wrong = _wrong(rng, body, '{"Order": {"Customer": null}}', '{"Order:Customer:Id": 1}', dotnet=dotnet)
    return Scope("Order:Customer:Id", "", (*_bodies(values, body, lambda text: (text,)), *wrong))


def _name(rng: random.Random, values: list[_Value], _: str, dotnet: bool) -> Scope:
    def body(value: str) -> str:
        return f'{{"tenant": {{"NAME": {value}, "Other": 1}}, "name": "decoy"}}'

    wrong = _wrong(rng, body, '{"Tenant": {"Nom": 1}}', dotnet=dotnet)
    return Scope(None, "{Tenant.Name}", (*_bodies(values, body, lambda text: (text,)), *wrong))


def _template(rng: random.Random, values: list[_Value], _: str, dotnet: bool) -> Scope:
    def body(value: str) -> str:
        return f'{{"Zone": {value}, "REGION": "decoy"}}'

    wrong = _wrong(rng, body, dotnet=dotnet)
    template = rng.choice(("%REGION%-{Zone}", "%region%-{zone}"))
    return Scope(None, template, (*_bodies(values, body, lambda text: (f"north-{text}",)), *wrong))


def _of_parts(rng: random.Random, values: list[_Value], tag: str, dotnet: bool) -> Scope:
    def body(value: str) -> str:
        return f'{{"A": "x%REGION%", "B": {value}}}'

    template = f"{tag}:%stage__name%:{{A}}:{{B}}"
    texts = _bodies(values, body, lambda text: (f"{tag}:blue/green:x%REGION%:{text}",))
    return Scope(None, template, (*texts, *_wrong(rng, body, dotnet=dotnet)))


def _both(rng: random.Random, values: list[_Value], tag: str, dotnet: bool) -> Scope:
    def body(value: str) -> str:
        return f'{{"B": {{"C": {value}}}, "D": "e.f"}}'

    return Scope("B:C", f"{tag}{{d}}", (*_bodies(values, body, lambda text: (f"{tag}e.f", text)), *_wrong(rng, body, dotnet=dotnet)))


def _constant(_: random.Random, __: list[_Value], tag: str, ____: bool) -> Scope:
    return Scope(None, f"{tag}-nightly", (("", (f"{tag}-nightly",)), ("no JSON", (f"{tag}-nightly",))))


def _braces(_: random.Random, values: list[_Value], tag: str, ____: bool) -> Scope:
    def body(value: str) -> str:
        return f'{{"X": {value}}}'

    return Scope(None, f"{tag}{{{{X}}}}{{X}}", tuple(_bodies(values, body, lambda text: (f"{tag}{{X}}{text}",))))


def _none(_: random.Random, __: list[_Value], ___: str, ____: bool) -> Scope:
    return Scope(None, "", (("", ()), ('{"Id": 1}', ())))


def _date(rng: random.Random, _: list[_Value], tag: str, __: bool) -> Scope:
    formats: Mapping[str, str] = {"yyyy-MM-dd": "2026-03-09", "yyyyMMddTHH": "20260309T07", "H:mm": "7:08"}
    pattern, text = rng.choice(list(formats.items()))
    bodies = ((f'{{"When": "{_WHEN}"}}', (tag + text,)), ('{"When": "soon"}', None))
    return Scope(None, f"{tag}{{When:{pattern}}}", bodies)


def _guid(rng: random.Random, _: list[_Value], tag: str, __: bool) -> Scope:
    plain = _GUID.lower()
    formats = {"N": plain.replace("-", ""), "D": plain, "B": f"{{{plain}}}", "P": f"({plain})"}
    pattern, text = rng.choice(list(formats.items()))
    bodies = ((f'{{"Key": "{_GUID}"}}', (tag + text,)), (f'{{"Key": "{text}"}}', (tag + text,)), ('{"Key": 42}', None))
    return Scope(None, f"{tag}{{Key:{pattern}}}", bodies)
