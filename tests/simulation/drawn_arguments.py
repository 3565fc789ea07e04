"""Run some worlds of each workload, and print which values the public arguments had: JSON, one line.

    python -m tests.simulation.drawn_arguments SEED

Runs in a process of its own: the public functions are replaced before the workloads import them.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import sys
from collections import defaultdict
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import singleton
from singleton.decorator import DEFAULTS
from singleton.functions.arguments import Arguments

if TYPE_CHECKING:
    from collections.abc import Callable

_FURTHER: Final = {
    "singleton.patterns.outbox": ("OutboxRelay",),
    "singleton.patterns.sql": ("RowStates", "SqlOutbox"),
}
"""Public names that the package itself does not have."""
_FUNCTIONS: Final = ("current_hold", "holds", "observe", "once", "ordered", "start_singleton", "subscribe")
_MADE_BY_USERS: Final = ("AsyncLockClient", "Inbox", "LockClient", "OldLock", "OutboxRelay", "SingletonOptions")
_GIVEN_TO_USERS: Final = (
    *("AsyncOnceBlock", "AsyncOperation", "Hold", "InboxWorker", "Leadership"),
    *("LossSignal", "OnceBlock", "Operation", "PeriodicWorker", "RowStates", "SqlOutbox", "State"),
)
"""Classes whose methods users call, and which they do not make."""
_WORLDS: Final = {
    "arguments": 30,
    "clients": 60,
    "defer": 4,
    "deployed": 16,
    "failover": 4,
    "leader": 3,
    "limits": 6,
    "listener": 4,
    "nested": 3,
    "once": 16,
    "ordered": 6,
    "outbox": 2,
    "rows": 4,
    "semaphore": 3,
    "starts": 6,
    "state": 3,
}
"""How many worlds of which workloads: together they draw what all workloads draw."""
_ANY: Final = inspect.Parameter.VAR_KEYWORD
_ONE_AND_ANOTHER: Final = frozenset({"one", "another"})
_INNER: Final = {
    "Hold.keeper",
    "AsyncOnceBlock.begins_with",
    "Leadership.begins_with",
    "LossSignal.fire",
    "LossSignal.forget",
    "LossSignal.freeze",
    "LossSignal.raise_if_over",
    "OnceBlock.begins_with",
}
"""Methods of public classes that only the package calls."""

values: Final[dict[str, set[str]]] = defaultdict(set)
"""The values of each argument, ``LockClient.lock(timeout)``, in words. A call without arguments: ``Hold.release()``."""


def _watched(label: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function, which notes its arguments first."""
    signature = inspect.signature(function)
    names = [name for name, each in signature.parameters.items() if name != "self" and each.kind is not _ANY]
    for name in names:
        values[f"{label}({name})"] |= set()
    if not names:
        values[f"{label}()"] |= set()

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        for name in names:
            values[f"{label}({name})"] |= _in_words(bound.arguments[name])
        if not names:
            values[f"{label}()"] |= _ONE_AND_ANOTHER
        return function(*args, **kwargs)

    return call


def _in_words(value: object) -> set[str]:
    """Return a value in words. An object counts for two: no two calls have the same."""
    plain = value is None or isinstance(value, str | bytes | int | float | tuple | list | dict)
    return {repr(value)[:60]} if plain else {f"{type(value).__name__} {each}" for each in _ONE_AND_ANOTHER}


def _guard_made(arguments: Arguments, **given: Any) -> None:
    for name, value in given.items():
        if name in DEFAULTS:
            values[f"@singleton({name})"] |= _in_words(value)
    SimpleNamespace.__init__(arguments, **given)


def _watch_class(owner: type, label: str, *, made: bool) -> None:
    for name, raw in inspect.getmembers(owner, inspect.isfunction):
        if (name.startswith("_") and not (made and name == "__init__")) or f"{label}.{name}" in _INNER:
            continue
        setattr(owner, name, _watched(label if name == "__init__" else f"{label}.{name}", raw))


def watch() -> None:
    """Replace the public functions and methods by ones that note their arguments."""
    further = [(module, name) for module, names in _FURTHER.items() for name in names]
    public = [
        (getattr(singleton, name).__module__, name)
        for name in (*_FUNCTIONS, *_MADE_BY_USERS, *_GIVEN_TO_USERS)
        if name in singleton.__all__
    ]
    for module, name in (*public, *further):
        there = importlib.import_module(module)
        if name in _FUNCTIONS:
            watched = _watched(name, getattr(there, name))
            setattr(there, name, watched)
            setattr(singleton, name, watched)
        elif name in _MADE_BY_USERS or name in _GIVEN_TO_USERS:
            _watch_class(getattr(there, name), name, made=name in _MADE_BY_USERS)
    for name in DEFAULTS:
        values[f"@singleton({name})"] |= set()
    Arguments.__init__ = _guard_made  # type: ignore[assignment]


def run(seed: int) -> None:
    """Run the worlds."""
    import tests.worlds  # noqa: F401 - registers the workloads
    from simulator.virtual.faults import KINDS
    from simulator.virtual.search.exploration import Exploration
    from simulator.virtual.worlds.runtime import prepare_process

    prepare_process()
    for workload, worlds in _WORLDS.items():
        plan = Exploration(scenarios=worlds, hosts=5, kinds=tuple(KINDS), workloads=(workload,), seed=seed)
        for index in range(worlds):
            violations = plan.scenario(index).run().violations
            assert not violations, f"world {index} of {workload}, seed {seed}: {violations}"


if __name__ == "__main__":
    watch()
    run(int(sys.argv[1]))
    sys.stdout.write(json.dumps({name: sorted(found)[:9] for name, found in values.items()}))
