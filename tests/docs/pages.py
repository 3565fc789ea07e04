"""The pages of the documentation, and the blocks of code in them."""

from __future__ import annotations

import ast
import builtins
import inspect
import re
import textwrap
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
_FENCE = re.compile(
    r"^(?P<indent> *)(?P<fence>```+)(?P<language>[^\n`]*)\n(?P<code>.*?)^ *(?P=fence) *$", re.MULTILINE | re.DOTALL
)
_FILE = re.compile(r"# (?P<name>\w+\.py)\n")


def named(page: Path) -> str:
    """Name a page as people do: its path in the project."""
    return str(page.relative_to(ROOT))


@dataclass(frozen=True)
class Block:
    """A fenced block of code."""

    page: Path
    number: int
    """Which block of its page this is, from 0."""
    language: str
    code: str

    def __str__(self) -> str:
        return f"{named(self.page)}-{self.number}"

    @property
    def module(self) -> str:
        """A module's name for it, on its page: that of its file if it names one in its first line."""
        file = self.file
        return f"block_{self.number}" if file is None else file.removesuffix(".py")

    @property
    def file(self) -> str | None:
        """The file's name, where the first line is `# name.py`: such blocks are modules that import one another."""
        found = _FILE.match(self.code)
        return None if found is None else found["name"]

    @cached_property
    def tree(self) -> ast.Module:
        """The block's Python. `await` may stand at the top, as in a notebook."""
        compiled = compile(self.code, str(self), "exec", flags=ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        assert isinstance(compiled, ast.Module)
        return compiled

    @property
    def awaits(self) -> bool:
        """Tell whether it awaits at the top."""
        code = compile(self.code, str(self), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        return bool(code.co_flags & inspect.CO_COROUTINE)

    @cached_property
    def defines(self) -> set[str]:
        """The names that it binds at its top."""
        return {name for statement in self.tree.body for name in _bound(statement)}

    @cached_property
    def lacks(self) -> set[str]:
        """The names that it uses and does not define: another block does, or the reader."""
        used = {node.id for node in ast.walk(self.tree) if isinstance(node, ast.Name)}
        bound = {name for node in ast.walk(self.tree) for name in _names_of(node)}
        return used - bound - set(dir(builtins))


def _bound(statement: ast.stmt) -> Iterable[str]:
    """Yield what a statement at the top binds; what stands inside a function is its own affair."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name
        return
    for node in ast.walk(statement):
        yield from _names_of(node)


def _names_of(node: ast.AST) -> Iterable[str]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield node.name
        case ast.Import() | ast.ImportFrom():
            yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
        case ast.Name(ctx=ast.Store()):
            yield node.id
        case ast.arg():
            yield node.arg
        case ast.ExceptHandler(name=str(name)):
            yield name


def blocks(page: Path) -> list[Block]:
    """Return the blocks of a page in their order."""
    return [
        Block(page, number, found["language"].strip(), textwrap.dedent(found["code"]))
        for number, found in enumerate(_FENCE.finditer(page.read_text("utf-8")))
    ]


def all_blocks(*languages: str) -> list[Block]:
    """Return the blocks of all pages in these languages."""
    return [block for page in PAGES for block in blocks(page) if block.language in languages]


def prelude(page: Path) -> str:
    """Name the module with what is around the page: fakes of services `beforehand`, and calls `afterwards`."""
    return f"tests.docs.preludes.{page.stem.lower().replace('-', '_')}"


def has_prelude(page: Path) -> bool:
    """Tell whether there is one."""
    return (ROOT / prelude(page).replace(".", "/")).with_suffix(".py").is_file()
