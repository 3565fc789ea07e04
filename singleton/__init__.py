"""Singleton functions for Azure Functions in Python, over Azure blob leases."""

from __future__ import annotations

from singleton.base.errors import (
    ConfigurationError,
    LockClosed,
    LockLost,
    LockNotAcquired,
    ResultNotKept,
    ScopeError,
    SingletonError,
    StorageDenied,
    StorageError,
    StorageUnavailable,
)
from singleton.base.events import LockEvent, subscribe
from singleton.base.hold import Hold
from singleton.decorator import singleton
from singleton.functions.invocation import current_hold

__all__ = [
    "AsyncLockClient",
    "AsyncOnceBlock",
    "AsyncOperation",
    "Broken",
    "ConfigurationError",
    "Contention",
    "Hold",
    "Holder",
    "Inbox",
    "InboxMessage",
    "InboxWorker",
    "Leadership",
    "Lifted",
    "LockClient",
    "LockClosed",
    "LockEvent",
    "LockInfo",
    "LockLost",
    "LockNotAcquired",
    "OnceBlock",
    "Operation",
    "PeriodicWorker",
    "ResultNotKept",
    "ScopeError",
    "SingletonError",
    "SingletonOptions",
    "StorageDenied",
    "StorageError",
    "StorageUnavailable",
    "current_hold",
    "observe",
    "once",
    "ordered",
    "singleton",
    "start_singleton",
    "subscribe",
]

_LATER = {
    "AsyncLockClient": "singleton.client",
    "AsyncOnceBlock": "singleton.patterns.once.block",
    "AsyncOperation": "singleton.patterns.once.operation",
    "Broken": "singleton.operating.breaking",
    "Contention": "singleton.functions.contention",
    "Holder": "singleton.base.holder",
    "Inbox": "singleton.patterns.ordered.inbox",
    "InboxMessage": "singleton.patterns.ordered.visit",
    "InboxWorker": "singleton.patterns.ordered.worker",
    "Leadership": "singleton.clients.leadership",
    "Lifted": "singleton.operating.lifting",
    "LockClient": "singleton.client",
    "LockInfo": "singleton.operating.locks",
    "OnceBlock": "singleton.patterns.once.block",
    "Operation": "singleton.patterns.once.operation",
    "PeriodicWorker": "singleton.clients.worker",
    "SingletonOptions": "singleton.settings.options",
    "observe": "singleton.observing.observe",
    "once": "singleton.patterns.once.declared",
    "ordered": "singleton.patterns.ordered.trigger",
    "start_singleton": "singleton.functions.durable",
}
"""Imported when first asked for: a worker imports every module at its start, and most apps need only the decorator.

``__init__.pyi`` has the same names for type checkers.
"""


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    value: object = getattr(importlib.import_module(_LATER[name]), name)
    globals()[name] = value
    return value
