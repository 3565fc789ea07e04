"""docs/layouts.md can't rot: each row of its tables is true of the code."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from singleton import singleton
from singleton.layouts.dequeueable_options import _KEYS, DequeueableOptions
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


def test_each_attribute_of_a_functions_app_means_the_blob_that_the_page_says() -> None:
    table = rows("C# in a Functions app")
    assert len(table) == 6
    for _, blob, python in table:
        declared = [spelt for spelt in code(python) if spelt.startswith("@singleton")]
        declared += [f"@singleton({spelt}, …)" for spelt in code(python) if spelt.startswith("scope=")]
        assert declared
        for spelt in declared:
            arguments = spelt.removeprefix("@singleton(").removesuffix(")").replace("…", "").rstrip(", ")
            expected = code(blob)[0] if code(blob) else "Host.Functions.ShipOrders"
            assert lock_of(arguments) == f"locks/app/{expected}"


def test_each_attribute_of_a_plain_host_means_the_blob_that_the_page_says() -> None:
    table = rows("C# | blob below")
    assert len(table) == 3
    for _, blob, python in table:
        assert lock_of(f"{code(python)[0]}, level='host'") == f"locks/app/{code(blob)[0]}"


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
