# What type checkers know of the package: `__init__.py` imports most of it when it is first asked for.

from singleton.asyncclient import AsyncLockClient
from singleton.base.currenthold import current_hold
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
from singleton.base.events import EventKind, LockEvent, subscribe
from singleton.base.hold import Hold, LossSignal
from singleton.base.holder import Holder
from singleton.base.holds import HeldLock, Holds, WaitingFor, holds
from singleton.base.kinds import Level, LossReason, Mode, Seconds, Use, WhenFull
from singleton.base.state import Json, State
from singleton.client import LockClient
from singleton.clients.blocks import AsyncBlock, AsyncTryBlock, Block, TryBlock
from singleton.clients.leadership import Leadership
from singleton.clients.worker import PeriodicWorker
from singleton.decorator import singleton
from singleton.defer.queueplace import Encoding
from singleton.functions.contention import Contention, OnContention, Policy
from singleton.functions.durable import Started, start_singleton
from singleton.layouts.named import LayoutName
from singleton.observing.observe import observe
from singleton.oldlock import OldLock
from singleton.operating.breaking import Broken
from singleton.operating.lifting import Lifted
from singleton.operating.locks import LockInfo
from singleton.patterns.once.block import AsyncOnceBlock, OnceBlock
from singleton.patterns.once.declared import OnRepeat, once
from singleton.patterns.once.names import GivenKey
from singleton.patterns.once.operation import AsyncOperation, Operation
from singleton.patterns.ordered.aside import AsideMessage
from singleton.patterns.ordered.inbox import Inbox
from singleton.patterns.ordered.operating import StoppedKey
from singleton.patterns.ordered.trigger import ordered
from singleton.patterns.ordered.visit import InboxMessage, OnPoison
from singleton.patterns.ordered.worker import InboxWorker
from singleton.settings.options import SingletonOptions
from singleton.stores.protocol import LeaseState

__all__ = [
    "AsideMessage",
    "AsyncBlock",
    "AsyncLockClient",
    "AsyncOnceBlock",
    "AsyncOperation",
    "AsyncTryBlock",
    "Block",
    "Broken",
    "ConfigurationError",
    "Contention",
    "Encoding",
    "EventKind",
    "GivenKey",
    "HeldLock",
    "Hold",
    "Holder",
    "Holds",
    "Inbox",
    "InboxMessage",
    "InboxWorker",
    "Json",
    "LayoutName",
    "Leadership",
    "LeaseState",
    "Level",
    "Lifted",
    "LockClient",
    "LockClosed",
    "LockEvent",
    "LockInfo",
    "LockLost",
    "LockNotAcquired",
    "LossReason",
    "LossSignal",
    "Mode",
    "OldLock",
    "OnContention",
    "OnPoison",
    "OnRepeat",
    "OnceBlock",
    "Operation",
    "PeriodicWorker",
    "Policy",
    "ResultNotKept",
    "ScopeError",
    "Seconds",
    "SingletonError",
    "SingletonOptions",
    "Started",
    "State",
    "StoppedKey",
    "StorageDenied",
    "StorageError",
    "StorageUnavailable",
    "TryBlock",
    "Use",
    "WaitingFor",
    "WhenFull",
    "current_hold",
    "holds",
    "observe",
    "once",
    "ordered",
    "singleton",
    "start_singleton",
    "subscribe",
]
