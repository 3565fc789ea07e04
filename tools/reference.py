"""Write the tables of docs/reference.md and docs/reference/ from the code: `python -m tools.reference`.

Each part between `<!-- made: NAME -->` and `<!-- end -->` is made from signatures, docstrings and checked ranges, so
the reference says what the code does. With `--check` nothing is written; exit code 1 tells that a part is out of date.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import itertools
import re
import sys
import textwrap
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import singleton
from singleton.base import errors
from singleton.base.hold import LossSignal
from singleton.base.timespan import host_json_timespan
from singleton.observing.metrics import METRICS
from singleton.settings import options
from tools.docs_site import home, public

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference.md"
PAGES = (PAGE, *sorted(PAGE.with_suffix("").glob("*.md")))
_PART = re.compile(r"(?P<head><!-- made: (?P<name>\w+) -->\n).*?(?P<end><!-- end -->)", re.DOTALL)
_SOURCE = re.compile(r" \((?:see )?[WDMSHBA]-?\d+[^()]*\)")
_FOR_THE_LOCK = {"deadline", "finish", "fire", "forget", "freeze"}
"""Methods of a loss signal that only its lock calls."""
_STARS = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
_ENTRY = re.compile(r"^(\w+(?:, \w+)*): ", re.MULTILINE)


def section(target: object, title: str) -> dict[str, str]:
    """Return a section of a docstring, name to text: ``Args``, ``Attributes`` or ``Raises``."""
    text = inspect.getdoc(target) or ""
    found = re.search(rf"^{title}:\n((?:    .*\n|\n)+)", text + "\n", re.MULTILINE)
    if found is None:
        return {}
    body = textwrap.dedent(found[1])
    starts = [*_ENTRY.finditer(body)]
    ends = [start.start() for start in starts[1:]] + [len(body)]
    texts = [flat(body[start.end() : end]) for start, end in zip(starts, ends, strict=True)]
    return {name: text for start, text in zip(starts, texts, strict=True) for name in start[1].split(", ")}


def flat(text: str) -> str:
    """Return docstring text as one line of Markdown that may stand in a table's cell, without its sources."""
    return _SOURCE.sub("", " ".join(text.split())).replace("``", "`").replace("|", "\\|")


def summary(target: object) -> str:
    """Return the first paragraph of a docstring."""
    return flat((inspect.getdoc(target) or "").split("\n\n", 1)[0])


def table(*rows: tuple[str, ...], heads: tuple[str, ...]) -> str:
    """Return a Markdown table."""
    lines = [heads, ("---",) * len(heads), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def code(value: object) -> str:
    """Return a value as code, texts in the quotes that Python programmers write."""
    return f'`"{value}"`' if isinstance(value, str) else f"`{value}`"


def camel(name: str) -> str:
    """Return an option's name as host.json spells it."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def arguments() -> str:
    """Make the table of the decorator's arguments."""
    return _arguments_of(singleton.singleton)


def _arguments_of(function: Callable[..., Any]) -> str:
    told = section(function, "Args")
    rows = [
        (f"`{parameter.name}`", code(parameter.default), told[parameter.name])
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind is parameter.KEYWORD_ONLY
    ]
    return table(*rows, heads=("argument", "default", "meaning"))


def options_table() -> str:
    """Make the table of the options."""
    told = section(singleton.SingletonOptions, "Attributes")
    rows = [
        (f"`{camel(field.name)}`", _default(field.default), _range(field.name), told[field.name])
        for field in fields(singleton.SingletonOptions)
    ]
    return table(*rows, heads=("key", "default", "range", "meaning"))


def _default(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{host_json_timespan(value)}`" if isinstance(value, float) else f"`{value}`"


def _range(name: str) -> str:
    if name in options.CHOICES:
        return " or ".join(code(choice) for choice in options.CHOICES[name])
    if name not in options.DURATIONS:
        return ""
    return str(options.DURATIONS[name])


def errors_table() -> str:
    """Make the table of the errors, in the order of their source."""
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    rows = [(f"`{kind.__name__}`", f"`{kind.__bases__[-1].__name__}`", summary(kind)) for kind in kinds]
    return table(*rows, heads=("error", "is a", "when"))


def hold() -> str:
    """Make the table of what a hold offers."""
    members = dict(_members(singleton.Hold))
    del members["lost"]
    lost = [(f"lost.{name}", text) for name, text in _members(LossSignal) if name.split("(")[0] not in _FOR_THE_LOCK]
    return _member_table("member", {**members, "await lost": summary(LossSignal.__await__), **dict(lost)})


def client() -> str:
    """Make the table of the lock clients' methods."""
    return _member_table("method", dict(_members(singleton.LockClient)))


def _member_table(head: str, members: dict[str, str]) -> str:
    return table(*((f"`{name}`", text) for name, text in members.items()), heads=(head, ""))


def _members(kind: type) -> Iterator[tuple[str, str]]:
    yield from section(kind, "Attributes").items()
    yield from _methods(kind)


def _methods(kind: type) -> Iterator[tuple[str, str]]:
    for name, member in inspect.getmembers_static(kind):
        if name.startswith("_"):
            continue
        if isinstance(member, property):
            yield name, summary(member)
        elif inspect.isfunction(member) and ":meta private:" not in (member.__doc__ or ""):
            yield f"{name}({', '.join(_words(member))})", summary(member)


def _words(function: Callable[..., Any]) -> Iterator[str]:
    """Return the parameters with their defaults, as a reader would call them."""
    named = False
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind in _STARS:
            named = True
            yield _STARS[parameter.kind] + parameter.name
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not named:
            named = True
            yield "*"
        given = "" if parameter.default is parameter.empty else f"={parameter.default!r}"
        yield parameter.name + given


def names() -> str:
    """Make the table of all public names: what each is, and where it is described."""
    rows = []
    for name in public("singleton"):
        thing = getattr(singleton, name)
        source = importlib.import_module(home("singleton", name)).__file__
        assert source is not None
        link = Path(source).resolve().relative_to(PAGE.parent.parent).as_posix()
        rows.append(
            (f"[`{name}`](../{link})", summary(thing) if inspect.isroutine(thing) or isinstance(thing, type) else "")
        )
    return table(*rows, heads=("name", ""))


def types() -> str:
    """Make the table of the types that annotations name: what each may be, and what for."""
    rows = []
    for name in singleton.__all__:
        public = getattr(singleton, name)
        if isinstance(public, type) or inspect.isfunction(public):
            continue
        source, meaning = _alias(vars(singleton)["_MODULES"][name], name)
        rows.append((f"`{name}`", f"`{flat(source)}`", meaning))
    return table(*rows, heads=("type", "is", "for"))


def _alias(module: str, name: str) -> tuple[str, str]:
    """Return how a type is written in its module, and the text below it."""
    found = importlib.util.find_spec(module)
    assert found is not None
    assert found.origin is not None
    lines = ast.parse(Path(found.origin).read_text(encoding="utf-8")).body
    for line, below in itertools.pairwise(lines):
        target = line.targets[0] if isinstance(line, ast.Assign) else getattr(line, "target", None)
        if isinstance(target, ast.Name) and target.id == name and isinstance(line, (ast.Assign, ast.AnnAssign)):
            assert isinstance(below, ast.Expr), f"{name} in {module} has no text below it"
            assert isinstance(below.value, ast.Constant), name
            assert line.value is not None
            return ast.unparse(line.value), flat(str(below.value.value))
    raise AssertionError(f"{name} is not in {module}")


def holds() -> str:
    """Make the tables of what ``holds`` returns."""
    kinds = (singleton.Holds, singleton.HeldLock, singleton.WaitingFor)
    return "\n".join(_member_table(f"`{kind.__name__}`", dict(_members(kind))) for kind in kinds)


def contention() -> str:
    """Make the table of what a policy is told."""
    return _member_table("attribute", dict(_members(singleton.Contention)))


def events() -> str:
    """Make the table of what an event tells."""
    return _member_table("attribute", section(singleton.LockEvent, "Attributes"))


def observing() -> str:
    """Make the tables of what ``observe`` takes, and of the metrics."""
    rows = [
        (f"`{each.name}`", each.kind, f"`{each.unit}`", flat(each.description), ", ".join(map(_label, each.attributes)))
        for each in METRICS
    ]
    heads = ("metric", "kind", "unit", "meaning", "attributes")
    return _member_table("argument", section(singleton.observe, "Args")) + "\n" + table(*rows, heads=heads)


def _label(name: str) -> str:
    return f"`{name}`"


PARTS: dict[str, Callable[[], str]] = {
    "arguments": arguments,
    "client": client,
    "contention": contention,
    "errors": errors_table,
    "events": events,
    "hold": hold,
    "holds": holds,
    "names": names,
    "observing": observing,
    "options": options_table,
    "types": types,
}


def made(page: str) -> str:
    """Return the page with all its parts made anew."""
    return _PART.sub(lambda part: part["head"] + PARTS[part["name"]]() + part["end"], page)


def main(arguments: list[str]) -> int:
    """Write the pages, or with ``--check`` tell whether they are up to date."""
    return max([rewritten(page, made, arguments) for page in PAGES])


def rewritten(page: Path, made: Callable[[str], str], arguments: list[str]) -> int:
    """Write a page as it is made of what it is, or with ``--check`` tell by 1 that it is not so yet."""
    old = page.read_text(encoding="utf-8")
    new = made(old)
    if "--check" in arguments:
        return int(new != old)
    page.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
