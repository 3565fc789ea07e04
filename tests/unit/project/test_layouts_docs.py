"""docs/layouts.md can't rot: each row of its tables is true of the code."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from singleton import ScopeError, singleton
from singleton.base.json_values import read_json
from singleton.dotnet.dequeueable import _KEYS, DequeueableOptions
from singleton.scopes.template import ScopeTemplate
from singleton.settings.options import SingletonOptions
from tests.support.lock_thread import Context, an_app, guard_of

TEXT = (Path(__file__).resolve().parents[3] / "docs" / "layouts.md").read_text(encoding="utf-8")
MESSAGE = json.dumps({"TenantId": 42, "Region": "north", "Zone": 3})


@pytest.fixture(autouse=True)
def app_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    an_app(tmp_path, monkeypatch)
    monkeypatch.setenv("Other", "UseDevelopmentStorage=true")


def rows(beginning: str) -> list[list[str]]:
    """Return the cells of the table whose head begins so."""
    table = TEXT.split(f"| {beginning}", 1)[1].split("\n\n", 1)[0]
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in table.splitlines()[2:]]


def code(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def lock_of(arguments: str) -> str:
    def ShipOrders(msg: str) -> None: ...  # noqa: N802

    given: dict[str, Any] = eval(f"dict({arguments})")  # noqa: S307
    guarded = singleton(**given, layout="webjobs")(ShipOrders)
    lock: str = guard_of(guarded).call({"msg": MESSAGE}, Context()).lock
    return lock


@pytest.mark.parametrize(
    ("beginning", "count", "more", "unscoped"),
    [
        ("C# method", 5, ", dotnet_name='Contoso.Shop.Orders.Ship'", "Contoso.Shop.Orders.Ship"),
        ("a function `ShipOrders`", 4, "", "Host.Functions.ShipOrders"),
    ],
)
def test_each_declaration_means_the_blob_that_the_page_says(
    beginning: str, count: int, more: str, unscoped: str
) -> None:
    table = rows(beginning)
    assert len(table) == count
    for _, blob, python in table:
        declared = [spelt for spelt in code(python) if spelt.startswith("@singleton")]
        declared += [f"@singleton({spelt}, …)" for spelt in code(python) if spelt.startswith("scope=")]
        assert declared
        for spelt in declared:
            arguments = spelt.removeprefix("@singleton(").removesuffix(")").replace("…", "").rstrip(", ")
            expected = code(blob)[0] if code(blob) else unscoped
            assert lock_of(f"{arguments}{more}".removeprefix(", ")) == f"locks/app/{expected}"


VALUES = {
    "text, a GUID": ['"7F2A1C1E-3D0B-4A1E-9A55-1F2F3A4B5C6D"'],
    "text, a date": ['"2026-11-22T10:20:30Z"'],
}
"""What a cell of the page stands for, where it shows no value itself."""
PRINTED = {
    "text": ('"x y"', "x y"),
    "a whole number": ("42", "42"),
    "text or a number": ('"North"', "North"),
    "any text, a URL for example": ('"http://EXAMPLE.com/a b"', "http://EXAMPLE.com/a b"),
    'text, a whole number: `"7"`': ('"7"', "7"),
    "text, a GUID, `{Key:N}`": (VALUES["text, a GUID"][0], "7f2a1c1e3d0b4a1e9a551f2f3a4b5c6d"),
    "text, a date, `{When:yyyy-MM-dd}`": (VALUES["text, a date"][0], "2026-11-22"),
    "`null`, objects, lists": ("null", ""),
}


def test_each_value_is_printed_or_refused_as_the_page_says() -> None:
    """Each row's values, with the format that it names or, where it is refused, with the remedies that it gives."""
    table = rows("in the message")
    assert len(table) == 19
    for message, _, _, here in table[:-1]:
        if message in PRINTED:
            value, printed = PRINTED[message]
            pattern = re.search(r"`\{\w+(:[^}]+)\}`", message)
            assert scope_of(f"{{v{pattern[1] if pattern else ''}}}", value) == printed
            continue
        assert "refused" in here
        for value in VALUES.get(message) or code(message):
            with pytest.raises(ScopeError):
                scope_of("{v}", value)
            for remedy in re.findall(r"`\{\w+:([^}]+)\}`", here):
                assert scope_of(f"{{v:{remedy}}}", value)
    assert {message for message, *_ in table} > PRINTED.keys()


def scope_of(template: str, value: str) -> str:
    return ScopeTemplate(template, dotnet=True).bind({}, read_json_object(f'{{"v": {value}}}'))


def read_json_object(body: str) -> dict[str, object]:
    found = read_json(body)
    assert isinstance(found, dict)
    return found


def test_the_settings_of_dequeueable_are_all_there_with_their_defaults() -> None:
    table = {code(cells[0])[0]: cells for cells in rows("Dequeueable, section")}
    assert [key for key in table if key in _KEYS] == list(_KEYS)
    for key, (attribute, _) in _KEYS.items():
        _, setting, default, _ = table[key]
        assert f"`Dequeueable__Singleton__{key}`" in setting
        value = getattr(DequeueableOptions(), attribute)
        assert value is None or str(value) == default.strip("`")


def test_the_containers_are_those_of_the_layouts(monkeypatch: pytest.MonkeyPatch) -> None:
    def job(msg: str) -> None: ...

    for name, container, _, _, tokens in rows("`layout` | container"):
        (layout,) = code(name)
        guard = guard_of(singleton(scope="Id", layout=layout.strip('"'))(job))  # type: ignore[call-overload]
        assert guard.options.container == code(container)[0]
        assert (guard.layout.stamp() == "token") == (tokens == "yes")
    assert SingletonOptions().container == "webjobshost"
