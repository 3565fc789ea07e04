# The public names for type checkers: `__init__.py` imports each when first asked for.
# ruff: isort: skip_file

from singleton.base.errors import (
    ConfigurationError as ConfigurationError,
    LockClosed as LockClosed,
    LockLost as LockLost,
    LockNotAcquired as LockNotAcquired,
    ResultNotKept as ResultNotKept,
    ScopeError as ScopeError,
    SingletonError as SingletonError,
    StorageDenied as StorageDenied,
    StorageError as StorageError,
    StorageUnavailable as StorageUnavailable,
)
from singleton.base.events import EventKind as EventKind, LockEvent as LockEvent, subscribe as subscribe
from singleton.base.hold import Hold as Hold, LossSignal as LossSignal, current_hold as current_hold
from singleton.base.holder_record import Holder as Holder
from singleton.base.holds import HeldLock as HeldLock, Holds as Holds, WaitingFor as WaitingFor, holds as holds
from singleton.base.kinds import (
    LayoutName as LayoutName,
    Level as Level,
    LossReason as LossReason,
    Mode as Mode,
    Policy as Policy,
    Seconds as Seconds,
    Use as Use,
    WhenFull as WhenFull,
)
from singleton.base.state import Json as Json, State as State
from singleton.client import AsyncLockClient as AsyncLockClient, LockClient as LockClient
from singleton.clients.blocks import (
    AsyncBlock as AsyncBlock,
    AsyncTryBlock as AsyncTryBlock,
    Block as Block,
    TryBlock as TryBlock,
)
from singleton.clients.leadership import Leadership as Leadership
from singleton.clients.periodic_worker import PeriodicWorker as PeriodicWorker
from singleton.decorator import singleton as singleton
from singleton.defer.trigger_queue import Encoding as Encoding
from singleton.functions.old_lock import OldLock as OldLock
from singleton.functions.contention import Contention as Contention, OnContention as OnContention
from singleton.observing.observe import observe as observe
from singleton.operating.container_pass import Lifted as Lifted
from singleton.operating.lease_break import Broken as Broken
from singleton.operating.locks import LockInfo as LockInfo
from singleton.patterns.durable import Started as Started, start_singleton as start_singleton
from singleton.patterns.once.block import AsyncOnceBlock as AsyncOnceBlock, OnceBlock as OnceBlock
from singleton.patterns.once.entry_point import OnRepeat as OnRepeat, once as once
from singleton.patterns.once.keys import GivenKey as GivenKey
from singleton.patterns.once.block import AsyncOperation as AsyncOperation, Operation as Operation
from singleton.patterns.ordered.aside_messages import AsideMessage as AsideMessage
from singleton.patterns.ordered.inbox import Inbox as Inbox
from singleton.patterns.ordered.operators import StoppedKey as StoppedKey
from singleton.patterns.ordered.trigger import ordered as ordered
from singleton.patterns.ordered.messages import InboxMessage as InboxMessage, OnPoison as OnPoison
from singleton.patterns.ordered.inbox_worker import InboxWorker as InboxWorker
from singleton.settings.options import SingletonOptions as SingletonOptions
from singleton.stores.protocol import LeaseState as LeaseState

__all__: list[str]  # noqa: PYI035 - the names above, each once
