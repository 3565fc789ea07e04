"""A name of a class, type alias or module stands once in a package, or on a list that says why not.

Names that differ only in a leading underscore count as one name.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.unit.project.limits import MODULES_TWICE, TYPES_TWICE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ("singleton", "simulator")
OF_PYTHON = {"__init__", "__main__"}
"""Names of modules that Python gives."""
TYPE = re.compile(r"_*[A-Z]\w*[a-z]\w*").fullmatch
VARIABLE = re.compile(r"(TypeVar|ParamSpec|TypeVarTuple)\(").match


def files(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def modules(package: str) -> list[str]:
    return [file.stem for file in files(package) if file.stem not in OF_PYTHON]


def types(package: str) -> list[str]:
    """Return the names of all classes, and of the type aliases of modules, without leading underscores."""
    trees = [ast.parse(file.read_text(encoding="utf-8")) for file in files(package)]
    kinds = [node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    return [name.lstrip("_") for name in [*kinds, *(name for tree in trees for name in aliases(tree))]]


def aliases(tree: ast.Module) -> Iterator[str]:
    """Yield the names that a module gives to types, also for type checkers only. Type variables are no types."""
    of_checkers = [line for node in tree.body if isinstance(node, ast.If) for line in node.body]
    for line in [*tree.body, *of_checkers]:
        if not isinstance(line, (ast.Assign, ast.AnnAssign)) or line.value is None or VARIABLE(ast.unparse(line.value)):
            continue
        targets = line.targets if isinstance(line, ast.Assign) else [line.target]
        yield from (target.id for target in targets if isinstance(target, ast.Name) and TYPE(target.id))


def twice(names: Iterable[str]) -> set[str]:
    return {name for name, count in Counter(names).items() if count > 1}


def listed(reasons: Mapping[str, Mapping[str, str]], package: str) -> set[str]:
    return set(reasons.get(package, {}))


@pytest.mark.parametrize("package", PACKAGES)
def test_a_module_has_a_name_of_its_own_or_a_reason(package: str) -> None:
    assert len(modules(package)) > 100
    assert twice(modules(package)) == listed(MODULES_TWICE, package)


@pytest.mark.parametrize("package", PACKAGES)
def test_a_type_has_a_name_of_its_own_or_a_reason(package: str) -> None:
    assert len(types(package)) > 100
    assert twice(types(package)) == listed(TYPES_TWICE, package)


def test_aliases_count_and_an_underscore_makes_no_other_name() -> None:
    source = "_Tt = TypeVar('_Tt')\n_Asked: TypeAlias = 'str'\nMOST: Final = 3\nif TYPE_CHECKING:\n    Told = int"
    assert [*aliases(ast.parse(source))] == ["_Asked", "Told"]
    assert {"LockClient", "BlockClient", "EndCallback", "BlobKey"} <= set(types("singleton"))


@pytest.mark.parametrize("reasons", [MODULES_TWICE, TYPES_TWICE])
def test_each_reason_is_one(reasons: Mapping[str, Mapping[str, str]]) -> None:
    assert set(reasons) <= set(PACKAGES)
    assert all(len(reason.split()) > 3 for names in reasons.values() for reason in names.values())


def test_a_test_module_has_a_name_of_its_own() -> None:
    """Two test files of one name can't be collected in one run: pytest imports them by their bare names."""
    assert twice(file.name for file in (ROOT / "tests").rglob("test_*.py")) == set()
