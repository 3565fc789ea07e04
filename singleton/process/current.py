"""The lock thread of this process: made when first needed, closed at the process's end, made anew after a fork."""

from __future__ import annotations

import atexit
import concurrent.futures.thread  # noqa: F401 - its own hook for forks must come before ours
import contextlib
import importlib
import os
import sys
import threading
from typing import TYPE_CHECKING

from singleton.base.events import forget_going
from singleton.process.calls import Phase
from singleton.process.logthread import LogThread
from singleton.process.registry import Registry
from singleton.process.runtime import Runtime
from singleton.stores.request_count import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from singleton.process.calls import LockRuntime
    from singleton.settings.accounts import GivenClients, LockContainer
    from singleton.settings.connection import StorageAccount
    from singleton.stores.message_store import MessageStore
    from singleton.stores.protocol import LeaseStore

_guard = threading.Lock()
_provider: Callable[[], LockRuntime] | None = None
_accounts: Callable[[str], GivenClients] | None = None
_current: Runtime | None = None
_forked: list[Runtime] = []
_loading = threading.RLock()
"""Held while modules are imported or clients made, and by who forks.

A child that inherits half a module could never import it, and a lock that the SDK or the standard library has taken to
make a client (``platform`` does, on 3.11) stays taken in the child for ever.
"""

_NEEDED = ("singleton.stores.wire", "encodings.idna")
"""What a request needs. The last would be imported at the first request, while anybody may fork."""


def provide_runtime(
    provider: Callable[[], LockRuntime] | None, accounts: Callable[[str], GivenClients] | None = None
) -> None:
    """Have locks live elsewhere than on this process's lock thread: under virtual time. None undoes it.

    ``accounts`` says which account a connection's name stands for there; without it, the settings do.
    """
    global _provider, _accounts
    _provider, _accounts = provider, accounts


def provided_account(connection: str) -> GivenClients | None:
    """Return the account that a connection's name stands for where locks live elsewhere; None: ask the settings."""
    return None if _accounts is None else _accounts(connection)


def _load_http() -> None:
    """Import what sends requests while no loop waits for it. Where one is missing, it is said when it is needed."""
    with _loading, contextlib.suppress(ImportError):
        for module in _NEEDED:
            importlib.import_module(module)
        if "singleton.stores.message_store" in sys.modules:  # some function puts messages back
            importlib.import_module("azure.storage.queue.aio")


def _open_store(place: LockContainer) -> LeaseStore:
    from singleton.process.accounts.stores import open_container

    with _loading:
        return counted(open_container(place.account, place.container, place.http), "blob")


def _open_queue(account: StorageAccount, queue: str) -> MessageStore:
    from singleton.process.accounts.stores import open_queue

    with _loading:
        return counted(open_queue(account, queue), "queue")


def runtime() -> LockRuntime:
    """Return the lock thread of this process; start it at the first call."""
    global _current  # noqa: PLW0603 - one per process
    if _provider is not None:
        return _provider()
    with _guard:
        if _current is None or _current.phase is Phase.OVER:  # it could not start: perhaps it can now
            with _loading:
                importlib.import_module("singleton.process.accounts.stores")
            _current = Runtime(Registry(_open_store, open_queue=_open_queue), prepare=_load_http, log=LogThread())
        return _current


@atexit.register
def shutdown() -> None:
    """Close the lock thread of this process, if there is one. A later use starts a new one."""
    global _current
    with _guard:
        closing, _current = _current, None
    if closing is not None:
        closing.close()


def _after_fork() -> None:
    """A child holds nothing, and starts a lock thread of its own.

    The parent's is kept unreachable but alive: collecting its sockets here would unregister them in the parent.
    """
    global _current, _guard  # noqa: PLW0603
    _loading.release()
    forget_going()
    _guard = threading.Lock()
    if _current is not None:
        _current.forget()
        _forked.append(_current)
        _current = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_loading.acquire, after_in_parent=_loading.release, after_in_child=_after_fork)
