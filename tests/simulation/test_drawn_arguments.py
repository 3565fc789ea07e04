"""The ledger of what is explored: worlds draw two values of each public argument, or the ledger says why not."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Final

import pytest

_SYNC = "the twin for threads runs the same coroutine on the lock's loop: tests/unit has both"
_OPERATOR = "worlds break and delete leases by the service itself; tests/unit/operating has the calls"
_NO_REQUEST = "no request and no wait: tests/unit has each value"
_ONE_QUEUE = "a world has one inbox, and names of queues and accounts change no request: tests/unit/patterns/ordered"
_OTHER_TABLE = "a statement of one row, in the user's own transaction: tests/integration has it on real databases"
_BY_BLOCK = "worlds enter and leave the block, which calls it"
_NOT_DRAWN: Final = {
    "@singleton(defer_delay)": "the option of the app is drawn, and the guard reads one option",
    "@singleton(listener_lock_period)": "the option of the app is drawn, and the guard reads one option",
    "@singleton(listener_lock_recovery_polling_interval)": "the option of the app is drawn",
    "@singleton(name)": _NO_REQUEST,
    "AsyncLockClient.break_": _OPERATOR,
    "AsyncLockClient.lift_epochs": _OPERATOR,
    "AsyncLockClient.lock_name": _NO_REQUEST,
    "AsyncLockClient.locks(function)": "worlds of clients have no functions: tests/unit/operating",
    "AsyncLockClient.safe_name": _NO_REQUEST,
    "AsyncOnceBlock.run": _BY_BLOCK,
    "AsyncOperation.raise_if_lost": _NO_REQUEST,
    "Inbox(": _ONE_QUEUE,
    "Inbox.ahandle": "worlds handle by @ordered and by workers, which call it",
    "Inbox.aside": _SYNC,
    "Inbox.discard": _SYNC,
    "Inbox.handle": _SYNC,
    "Inbox.look": _SYNC,
    "Inbox.resend": _SYNC,
    "Inbox.resume": _SYNC,
    "Inbox.stopped": _SYNC,
    "InboxWorker.run": _BY_BLOCK,
    "InboxWorker.start": _SYNC,
    "InboxWorker.stop(timeout)": _SYNC,
    "Leadership.": _SYNC,
    "LockClient(failover)": "AsyncLockClient(failover) is drawn",
    "LockClient.break_": _OPERATOR,
    "LockClient.holder": _SYNC,
    "LockClient.leadership": _SYNC,
    "LockClient.lift_epochs": _OPERATOR,
    "LockClient.lock_name": _NO_REQUEST,
    "LockClient.locked": _SYNC,
    "LockClient.locks": _SYNC,
    "LockClient.periodic": _SYNC,
    "LockClient.safe_name": _NO_REQUEST,
    "LossSignal.wait(timeout)": "blocks a thread; worlds wait by `await hold.lost`: tests/unit/base",
    "OldLock(": "OldLock(scope_hash) is drawn: each of the others gives another name, and nothing else",
    "OnceBlock.run": _BY_BLOCK,
    "Operation.": _SYNC,
    "OutboxRelay(": "worlds have one relay's options, and draw what the receiver and the database do",
    "OutboxRelay.worker": "worlds make the periodic worker themselves",
    "PeriodicWorker.start": _SYNC,
    "PeriodicWorker.stop(": "worlds stop workers at once: tests/unit/clients has each value",
    "RowStates.": _OTHER_TABLE,
    "SingletonOptions(enabled)": "without locks nothing is to be explored: tests/unit/functions",
    "SingletonOptions(fail_fast)": "it decides at the import of an app: tests/unit/functions/test_misdeclared.py",
    "SingletonOptions(http)": "--wire and --through-sdk run the worlds over both ways",
    "SqlOutbox.": _OTHER_TABLE,
    "State.aread(default)": _NO_REQUEST,
    "State.aremove": "a removal is a write of no bytes: tests/unit/locking",
    "State.read": _SYNC,
    "State.remove": _SYNC,
    "State.write": _SYNC,
    "observe": "changes no request: tests/unit/observing",
    "once(connection)": "a world has one account",
    "start_singleton(connection)": "a world has one account",
}
"""Arguments, or beginnings of their names, and why the worlds don't draw them."""


@pytest.fixture(scope="module")
def undrawn() -> set[str]:
    """Return the arguments that had fewer than two values, of all that are public."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation.drawn_arguments", "3"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    values: dict[str, list[str]] = json.loads(done.stdout)
    assert len(values) > 250
    return {name for name, found in values.items() if len(found) < 2}


@pytest.mark.process
def test_worlds_draw_every_public_argument_or_the_ledger_says_why_not(undrawn: set[str]) -> None:
    assert {name for name in undrawn if not name.startswith(tuple(_NOT_DRAWN))} == set()


@pytest.mark.process
def test_the_ledger_excuses_nothing_that_is_drawn(undrawn: set[str]) -> None:
    assert [begins for begins in _NOT_DRAWN if not any(name.startswith(begins) for name in undrawn)] == []
