"""Write the table of docs/options.md from the code that it describes: `python -m tools.options`.

It lists every argument of `@singleton` and every option of the app once, with the places where it can be set. With
`--check` nothing is written; exit code 1 tells that the page is out of date.
"""

from __future__ import annotations

import inspect
import re
import sys
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

import singleton
from singleton.base.kinds import LayoutName, Level, Mode, WhenFull
from singleton.base.timespan import FOREVER
from singleton.locking.semaphore import MOST
from singleton.settings import options
from tools.reference import camel, code, rewritten, table

if TYPE_CHECKING:
    from collections.abc import Callable

PAGE: Final = Path(__file__).resolve().parent.parent / "docs" / "options.md"
_PART: Final = re.compile(r"(?P<head><!-- made: options -->\n).*?(?P<end><!-- end -->)", re.DOTALL)

GROUPS: Final[dict[str, tuple[str, ...]]] = {
    "Which lock": (
        *("scope", "scope_id", "scope_hash", "level", "mode", "limit", "name", "dotnet_name", "layout"),
        *("connection", "container", "host_id", "also"),
    ),
    "When it is taken": ("on_contention", "timeout", "max_waiting", "when_full", "handoff_window", "defer_delay"),
    "For how long": ("at_least", "max_hold", "lock_period", "listener_lock_period", "renewal_interval", "failover"),
    "How often it is asked for": (
        "lock_acquisition_polling_interval",
        "lock_acquisition_min_polling_interval",
        "listener_lock_recovery_polling_interval",
    ),
}
"""The options in the order in which a reader looks for them; those that are in no group come last."""
RENAMES: Final = frozenset(
    {
        *("scope", "scope_id", "scope_hash", "level", "mode", "limit", "name", "dotnet_name", "layout"),
        *("connection", "container", "host_id"),
    }
)
"""Those with which a lock is another one when they change."""
SAME: Final = {"timeout": "lock_acquisition_timeout"}
"""Arguments that are called otherwise in ``SingletonOptions``."""
METHODS: Final = ("__init__", "lock", "try_lock", "acquire", "semaphore", "periodic", "lock_name")
"""Where a lock client takes an option."""
NOT_THE_SAME: Final = {("name", "lock"), ("name", "try_lock"), ("name", "acquire"), ("name", "semaphore")}
"""Arguments of clients that mean something else: there ``name`` is the whole name."""
_WORDS: Final[dict[str, str]] = {
    "scope": "a path, `Id` or `Order:Customer:Id`",
    "scope_id": "a template",
    "scope_hash": "`True` or `False`",
    "level": " or ".join(map(code, get_args(Level))),
    "mode": " or ".join(map(code, get_args(Mode))),
    "limit": f"1 to {MOST:,} invocations",
    "name": "a text that is not blank",
    "dotnet_name": "a full name, `Contoso.Shop.Orders.Ship`",
    "also": "`OldLock(…)`",
    "layout": ", ".join(map(code, get_args(LayoutName))),
    "connection": "the name of an app setting",
    "container": "a container's name",
    "host_id": "a text that is not blank",
    "on_contention": '`"wait"`, `"skip"`, `"raise"`, `"conflict"`, `"defer"`, `"coalesce"` or a function',
    "timeout": "above 0 seconds",
    "max_waiting": "at least 0 invocations",
    "when_full": " or ".join(map(code, get_args(WhenFull))),
    "at_least": "at least 0 seconds, and at most `max_hold`",
    "max_hold": "above 0 seconds",
}
"""The range of what no option's limits tell."""


def rows() -> dict[str, list[tuple[str, ...]]]:
    """Return the rows of each group."""
    arguments = {
        each.name: each
        for each in inspect.signature(singleton.singleton).parameters.values()
        if each.kind is each.KEYWORD_ONLY
    }
    known = {each.name: each for each in fields(singleton.SingletonOptions)}
    named = [name for names in GROUPS.values() for name in names]
    every = dict.fromkeys([*arguments, *known])
    left = tuple(name for name in every if name not in named and name not in SAME.values())
    return {
        title: [_row(name, arguments, known) for name in names if name in every]
        for title, names in {**GROUPS, "The rest": left}.items()
    }


def _row(name: str, arguments: dict[str, Any], known: dict[str, Any]) -> tuple[str, ...]:
    field = SAME.get(name, name)
    return (
        f"`{name}`" + (" ⟳" if name in RENAMES else ""),
        "yes" if name in arguments else "",
        _at_clients(name),
        f"`{camel(field)}`" if field in known else "",
        _range(name),
        _default(name, arguments, known),
    )


def _at_clients(name: str) -> str:
    taken = [
        "the client" if method == "__init__" else f"`{method}`"
        for method in METHODS
        if name in inspect.signature(_method(method)).parameters and (name, method) not in NOT_THE_SAME
    ]
    return ", ".join(taken)


def _method(name: str) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(singleton.LockClient, name)
    return found


def _range(name: str) -> str:
    if name in options.DURATIONS:
        limits = options.DURATIONS[name]
        if limits.above is not None:
            reach = f"above {limits.above:g}"
        elif limits.maximum < FOREVER:
            reach = f"{limits.minimum:g} to {limits.maximum:,.15g}"
        else:
            reach = f"at least {limits.minimum:g}"
        unit = "whole seconds" if limits.whole else "second" if reach.endswith(" 1") else "seconds"
        return f"{reach} {unit}".replace("604,800 seconds", "604,800 seconds (7 days)")
    if name in options.CHOICES:
        return " or ".join(map(code, options.CHOICES[name]))
    return _WORDS.get(name, "`true` or `false`")


def _default(name: str, arguments: dict[str, Any], known: dict[str, Any]) -> str:
    """Return the app's default where there is one: that of the function is the app's."""
    field = SAME.get(name, name)
    value = known[field].default if field in known else arguments[name].default
    if value is None or value == "":
        return "none"
    if isinstance(value, bool) and name not in arguments:
        return f"`{str(value).lower()}`"
    return f"{value:g}" if isinstance(value, float) else code(value)


HEADS: Final = ("option", "`@singleton`", "lock clients", "whole app", "range", "default")


def made(page: str) -> str:
    """Return the page with its table made anew."""
    parts = [f"\n### {title}\n\n{table(*each, heads=HEADS)}" for title, each in rows().items()]
    return _PART.sub(lambda part: part["head"] + "".join(parts)[1:] + "\n" + part["end"], page)


def main(arguments: list[str]) -> int:
    """Write the page, or with ``--check`` tell whether it is up to date."""
    return rewritten(PAGE, made, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
