"""A report for people, in lines of at most 80 characters where its names allow that."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any, Final

import click

from singleton.settings.durations import in_words
from singleton.settings.options import DURATIONS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

WIDTH: Final = 80
_COLOURS: Final = {"error": "red", "warning": "yellow", "note": "cyan"}
_SECONDS: Final = frozenset({"timeout", "at_least", "max_hold", *DURATIONS})
_POLICIES: Final = {
    "wait": "waits for the lock",
    "skip": "is skipped while another invocation has the lock",
    "raise": "fails while another invocation has the lock",
    "defer": "puts its message back while another invocation has the lock",
    "conflict": "answers 409 while another invocation has the lock",
    "coalesce": "waits for the lock, or ends while another invocation waits",
}


def lines(report: Mapping[str, Any], app: str, *, verbose: bool) -> Iterator[str]:
    """Yield the report's lines; with ``verbose`` every option of a guard, and not only the options that are set."""
    number = len(report["functions"])
    yield f"{number} function{'' if number == 1 else 's'} in {app}"
    of_app = {} if verbose else _of_app(report)
    if of_app:
        yield ""
        yield "options of the app"
        yield from _options(of_app, "  ")
    for function in report["functions"]:
        yield ""
        where = f"{function['trigger']}  {function['file']}:{function['line']}"
        yield f"{click.style(function['name'], bold=True)}  {where}"
        for guard in function["guards"]:
            yield from _guard(guard, verbose=verbose)
        if not function["guards"]:
            yield "  its declaration is refused" if function["refused"] else "  no guard"
    for finding in report["findings"]:
        yield ""
        yield from _finding(finding)
    counts = report["counts"]
    yield ""
    yield ", ".join(_counted(counts[f"{kind}s"], kind) for kind in _COLOURS)


def _guard(guard: Mapping[str, Any], *, verbose: bool) -> Iterator[str]:
    policy, options = guard["on_contention"], guard["options"]
    own = ("argument", f"layout {guard['layout']}")
    does = _POLICIES.get(policy, f"asks {policy} what to do while another invocation has the lock")
    if policy == "wait" and options["timeout"]["value"] is not None:
        does += f", for at most {in_words(options['timeout']['value'])}"
    if guard["mode"] == "listener":
        does = "runs in one process, which listens until it ends"
    if policy == "order":
        does = "handles the messages of each key in order"
    yield from _wrapped(f"{guard['decorator']}  {does}", 2, 4)
    yield from _wrapped(f"lock     {_lock(guard)}", 4, 13)
    if guard["also"]:
        yield from _wrapped(f"and      {guard['also']}, its old name", 4, 13)
    yield f"    account  {guard['connection'] or 'not known'}"
    shown = options if verbose else {name: each for name, each in options.items() if each["source"] in own}
    if shown:
        first, *rest = _options(shown, " " * 13)
        yield from (f"    options  {first.lstrip()}", *rest)


def _of_app(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that are set for the whole app and apply to one guard at least."""
    found = {}
    for guard in (guard for function in report["functions"] for guard in function["guards"]):
        for name, option in guard["options"].items():
            applies = guard["mode"] == "listener" or not name.startswith("listener_")
            if applies and option["source"].startswith(("host.json", "app setting")):
                found[name] = option
    return found


def _options(options: Mapping[str, Any], indent: str) -> Iterator[str]:
    column = max(map(len, options))
    for name, option in options.items():
        source = option["source"]
        shown = next((kind for kind in ("host.json", "app setting") if source.startswith(kind)), source)
        yield f"{indent}{name:<{column}}  {_value(name, option['value']):<10}  {shown}".rstrip()


def _lock(guard: Mapping[str, Any]) -> str:
    return "not known" if guard["blob"] is None else f"{guard['container']}/{guard['blob']}"


def _value(name: str, value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if name in _SECONDS and isinstance(value, int | float):
        return in_words(value).replace(" seconds", " s").replace(" second", " s")
    return str(value)


def _finding(finding: Mapping[str, Any]) -> Iterator[str]:
    severity = click.style(finding["severity"], fg=_COLOURS[finding["severity"]], bold=True)
    where = f"  {finding['file']}:{finding['line']}" if finding["file"] else ""
    whose = f"  {finding['function']}" if finding["function"] else ""
    yield f"{severity}  {finding['id']}{where}{whose}"
    yield from _wrapped(f"{_sentence(finding['message'])} See {finding['docs']}", 2)


def _sentence(text: str) -> str:
    return text if text.endswith((".", "?", "!")) else f"{text}."


def _wrapped(text: str, indent: int, hanging: int | None = None) -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent if hanging is None else hanging),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _counted(number: int, kind: str) -> str:
    return f"{number} {kind}{'' if number == 1 else 's'}"
