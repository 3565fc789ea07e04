# What type checkers know of the package: `__init__.py` imports most of it when it is first asked for.

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
from singleton.base.holder import Holder
from singleton.client import AsyncLockClient, LockClient
from singleton.clients.leadership import Leadership
from singleton.clients.worker import PeriodicWorker
from singleton.decorator import singleton
from singleton.functions.contention import Contention
from singleton.functions.durable import start_singleton
from singleton.functions.invocation import current_hold
from singleton.observing.observe import observe
from singleton.operating.breaking import Broken
from singleton.operating.lifting import Lifted
from singleton.operating.locks import LockInfo
from singleton.patterns.once.block import AsyncOnceBlock, OnceBlock
from singleton.patterns.once.declared import once
from singleton.patterns.once.operation import AsyncOperation, Operation
from singleton.patterns.ordered.inbox import Inbox
from singleton.patterns.ordered.trigger import ordered
from singleton.patterns.ordered.visit import InboxMessage
from singleton.patterns.ordered.worker import InboxWorker
from singleton.settings.options import SingletonOptions

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
