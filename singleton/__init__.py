"""Singleton functions for Azure Functions in Python, over Azure blob leases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from singleton.base.errors import (
    ConfigurationError,
    LockClosed,
    LockLost,
    LockNotAcquired,
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

if TYPE_CHECKING:
    from singleton.base.holder import Holder
    from singleton.client import AsyncLockClient, LockClient
    from singleton.clients.leadership import Leadership
    from singleton.clients.worker import PeriodicWorker
    from singleton.functions.contention import Contention
    from singleton.functions.durable import start_singleton
    from singleton.observing.observe import observe
    from singleton.operating.breaking import Broken
    from singleton.operating.lifting import Lifted
    from singleton.operating.locks import LockInfo
    from singleton.settings.options import SingletonOptions

__all__ = [
    "AsyncLockClient",
    "Broken",
    "ConfigurationError",
    "Contention",
    "Hold",
    "Holder",
    "Leadership",
    "Lifted",
    "LockClient",
    "LockClosed",
    "LockEvent",
    "LockInfo",
    "LockLost",
    "LockNotAcquired",
    "PeriodicWorker",
    "ScopeError",
    "SingletonError",
    "SingletonOptions",
    "StorageDenied",
    "StorageError",
    "StorageUnavailable",
    "current_hold",
    "observe",
    "singleton",
    "start_singleton",
    "subscribe",
]

_LATER = {
    "AsyncLockClient": "singleton.client",
    "Broken": "singleton.operating.breaking",
    "Contention": "singleton.functions.contention",
    "Holder": "singleton.base.holder",
    "Leadership": "singleton.clients.leadership",
    "Lifted": "singleton.operating.lifting",
    "LockClient": "singleton.client",
    "LockInfo": "singleton.operating.locks",
    "PeriodicWorker": "singleton.clients.worker",
    "SingletonOptions": "singleton.settings.options",
    "observe": "singleton.observing.observe",
    "start_singleton": "singleton.functions.durable",
}
"""Imported when first asked for: a worker imports every module at its start, and most apps need only the decorator."""


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    value: object = getattr(importlib.import_module(_LATER[name]), name)
    globals()[name] = value
    return value
