"""The Python of the pages as modules that type checkers read."""

from __future__ import annotations

import ast
import re
import textwrap
from typing import TYPE_CHECKING

from tests.docs.pages import PAGES, ROOT, blocks

if TYPE_CHECKING:
    from pathlib import Path

    from tests.docs.pages import Block


def write_modules(folder: Path) -> dict[str, Block]:
    """Write each block as a module of its own; return the blocks by their files' paths in the folder.

    A block may define again what an earlier one has defined, so each gets what it lacks by imports from the nearest
    block before it that defines the name.
    """
    written = {}
    for page in PAGES:
        package = re.sub(r"\W", "_", str(page.relative_to(ROOT).with_suffix(""))).lower()
        before: list[Block] = []
        for block in blocks(page):
            if block.language != "python":
                continue
            place = folder / package / f"{block.module}.py"
            place.parent.mkdir(exist_ok=True)
            # Blocks that are files import one another by their names.
            code = block.code
            for other in (other for other in blocks(page) if other.language == "python" and other.file):
                code = re.sub(rf"^(import|from) ({other.module})\b", rf"\1 {package}.\2", code, flags=re.MULTILINE)
                code = code.replace(f"import {package}.{other.module}\n", f"from {package} import {other.module}\n")
            place.write_text("\n".join([*_imports(block, before, package), _module(block, code)]))
            written[f"{package}/{block.module}.py"] = block
            before.append(block)
    return written


def _imports(block: Block, before: list[Block], package: str) -> list[str]:
    lines = []
    for name in sorted(block.lacks):
        source = next((other for other in reversed(before) if name in other.defines and not other.awaits), None)
        if source is not None:
            lines.append(f"from {package}.{source.module} import {name} as {name}")
    return lines


def _module(block: Block, code: str) -> str:
    """Return the block as a module: what awaits at the top is a coroutine's body."""
    if not block.awaits:
        return code
    imports = [ast.get_source_segment(code, each) or "" for each in block.tree.body if isinstance(each, ast.ImportFrom)]
    return "\n".join([*imports, "", "", "async def page() -> None:", textwrap.indent(code, "    ")])
