"""A name of a class or module stands once in a package, or on a list that says why not."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.unit.project.limits import CLASSES_TWICE, MODULES_TWICE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ("singleton", "simulator")
OF_PYTHON = {"__init__", "__main__"}
"""Names of modules that Python gives."""


def files(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def modules(package: str) -> list[str]:
    return [file.stem for file in files(package) if file.stem not in OF_PYTHON]


def classes(package: str) -> list[str]:
    return [
        node.name
        for file in files(package)
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    ]


def twice(names: Iterable[str]) -> set[str]:
    return {name for name, count in Counter(names).items() if count > 1}


def listed(reasons: Mapping[str, Mapping[str, str]], package: str) -> set[str]:
    return set(reasons.get(package, {}))


@pytest.mark.parametrize("package", PACKAGES)
def test_a_module_has_a_name_of_its_own_or_a_reason(package: str) -> None:
    assert len(modules(package)) > 100
    assert twice(modules(package)) == listed(MODULES_TWICE, package)


@pytest.mark.parametrize("package", PACKAGES)
def test_a_class_has_a_name_of_its_own_or_a_reason(package: str) -> None:
    assert len(classes(package)) > 100
    assert twice(classes(package)) == listed(CLASSES_TWICE, package)


@pytest.mark.parametrize("reasons", [MODULES_TWICE, CLASSES_TWICE])
def test_each_reason_is_one(reasons: Mapping[str, Mapping[str, str]]) -> None:
    assert set(reasons) <= set(PACKAGES)
    assert all(len(reason.split()) > 3 for names in reasons.values() for reason in names.values())


def test_a_test_module_has_a_name_of_its_own() -> None:
    """Two test files of one name can't be collected in one run: pytest imports them by their bare names."""
    assert twice(file.name for file in (ROOT / "tests").rglob("test_*.py")) == set()
