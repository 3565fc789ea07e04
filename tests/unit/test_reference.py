"""The reference can't drift from the code: every argument, option and error is in it, with its default."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from pathlib import Path

import pytest

import singleton
from singleton import SingletonOptions, errors

REFERENCE = (Path(__file__).resolve().parents[2] / "docs" / "reference.md").read_text(encoding="utf-8")


def rows(title: str) -> dict[str, str]:
    """Return the table under a heading: first cell, without backticks, to the whole row."""
    part = REFERENCE.split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]
    return {cell: line for line in part.splitlines() for cell in re.findall(r"^\| `([^`]+)`", line)}


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def test_every_argument_of_the_decorator_is_there_with_its_default() -> None:
    parameters = inspect.signature(singleton.singleton).parameters.values()
    documented = rows("`@singleton`")
    keywords = {
        parameter.name: parameter.default for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY
    }
    assert set(documented) == set(keywords)
    for name, default in keywords.items():
        shown = f'`"{default}"`' if isinstance(default, str) else f"`{default}`"
        assert f"| {shown} |" in documented[name]


def test_every_option_is_there() -> None:
    assert set(rows("Options")) == {camel(field.name) for field in fields(SingletonOptions)}


@pytest.mark.parametrize("field", fields(SingletonOptions), ids=lambda field: field.name)
def test_defaults_of_options_are_those_of_the_code(field: object) -> None:
    name, default = field.name, field.default  # type: ignore[attr-defined]
    cell = rows("Options")[camel(name)].split("|")[2].strip().strip("`")
    if isinstance(default, bool):
        assert cell == str(default).lower()
    elif isinstance(default, float):
        hours, minutes, seconds = cell.split(":")
        assert int(hours) * 3600 + int(minutes) * 60 + float(seconds) == default
    elif isinstance(default, str):
        assert cell == default


def test_every_error_is_there() -> None:
    kinds = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, Exception)}
    assert set(rows("Errors")) == kinds - {"SingletonError"}
