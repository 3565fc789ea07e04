"""Singleton functions for Azure Functions in Python, over Azure blob leases."""

from __future__ import annotations

from singleton.base.forks import importing as _importing

_NAMES = {
    "singleton.base.errors": (
        "ConfigurationError LockClosed LockLost LockNotAcquired ResultNotKept "
        "ScopeError SingletonError StorageDenied StorageError StorageUnavailable"
    ),
    "singleton.base.events": "EventKind LockEvent subscribe",
    "singleton.base.hold": "Hold LossSignal current_hold",
    "singleton.base.holder_record": "Holder",
    "singleton.base.holds": "HeldLock Holds WaitingFor holds",
    "singleton.base.kinds": "LayoutName Level LossReason Mode Policy Seconds Use WhenFull",
    "singleton.base.state": "Json State",
    "singleton.client": "AsyncLockClient LockClient",
    "singleton.clients.blocks": "AsyncBlock AsyncTryBlock Block TryBlock",
    "singleton.clients.leadership": "Leadership",
    "singleton.clients.periodic_worker": "PeriodicWorker",
    "singleton.decorator": "singleton",
    "singleton.defer.trigger_queue": "Encoding",
    "singleton.functions.old_lock": "OldLock",
    "singleton.functions.contention": "Contention OnContention",
    "singleton.observing.observe": "observe",
    "singleton.operating.container_pass": "Lifted",
    "singleton.operating.lease_break": "Broken",
    "singleton.operating.locks": "LockInfo",
    "singleton.patterns.durable": "Started start_singleton",
    "singleton.patterns.once.block": "AsyncOnceBlock AsyncOperation OnceBlock Operation",
    "singleton.patterns.once.entry_point": "OnRepeat once",
    "singleton.patterns.once.keys": "GivenKey",
    "singleton.patterns.ordered.aside_messages": "AsideMessage",
    "singleton.patterns.ordered.inbox": "Inbox",
    "singleton.patterns.ordered.messages": "InboxMessage OnPoison",
    "singleton.patterns.ordered.operators": "StoppedKey",
    "singleton.patterns.ordered.trigger": "ordered",
    "singleton.patterns.ordered.inbox_worker": "InboxWorker",
    "singleton.settings.options": "SingletonOptions",
    "singleton.stores.protocol": "LeaseState",
}
"""The public names, by module. ``__init__.pyi`` has them for type checkers."""
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_MODULES)  # noqa: PLE0605


def __getattr__(name: str) -> object:
    """Import a public name when first asked for: a worker imports every module at start, and most apps need few."""
    if name not in _MODULES:
        raise _unknown(name)
    with _importing:
        import importlib

        value: object = getattr(importlib.import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def _unknown(name: str) -> Exception:
    """Return the error for a name that the package lacks: perhaps of an app's own module, which the package hides."""
    with _importing:
        from importlib.util import find_spec

        ours = name.startswith("__") or find_spec(f"{__name__}.{name}") is not None  # a module, not yet imported
    said = f"module {__name__!r} has no attribute {name!r}"
    if ours:
        return AttributeError(said)
    with _importing:
        import sys

        from singleton.base.attribute_names import instead_of
        from singleton.base.words import did_you_mean

    instead = instead_of(name)
    hint = f"{instead}." if instead else did_you_mean(name, __all__) or "."
    why = (
        f": it is the package azure-functions-singleton{hint} If a module of your own "
        "with the name singleton is meant, the package hides that module: give the module another name"
    )
    if sys._getframe(2).f_code.co_name == "_handle_fromlist":  # noqa: SLF001 - an import drops an AttributeError's text
        return ImportError(f"cannot import name {name!r} from {__name__!r} ({__file__}){why}", name=__name__)
    return AttributeError(said + why)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
