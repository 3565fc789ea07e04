"""An unknown argument is refused with the argument that does the job, in every call, under any library's name."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any

import pytest

from singleton import (
    AsyncLockClient,
    ConfigurationError,
    Inbox,
    LockClient,
    OldLock,
    SingletonOptions,
    once,
    ordered,
    singleton,
    start_singleton,
)
from singleton.settings.argument_names import _ELSEWHERE, _MEANINGS
from singleton.settings.options import load_options

if TYPE_CHECKING:
    from pathlib import Path

PLACE = "UseDevelopmentStorage=true"


def refusal(call: Any, *args: Any, **given: Any) -> str:
    def called() -> None:
        result = call(*args, **given)
        if inspect.iscoroutine(result):
            asyncio.run(result)

    with pytest.raises(TypeError) as refused:
        called()
    return str(refused.value)


@pytest.mark.parametrize("client", [LockClient, AsyncLockClient])
@pytest.mark.parametrize(
    ("method", "word", "said"),
    [
        ("lock", "at_most", "give max_hold"),
        ("lock", "key", "give name"),
        ("lock", "ttl", "give max_hold"),
        ("lock", "retries", "give timeout"),
        ("lock", "blocking", "'blocking': timeout=0 does not wait, and locks.try_lock(name) gives None"),
        ("lock", "lease", "give max_hold"),
        ("lock", "poll_interval", "options=SingletonOptions(lock_acquisition_polling_interval=…)"),
        ("lock", "lock_period", "options=SingletonOptions(lock_period=…)"),
        ("try_lock", "wait", "give timeout"),
        ("semaphore", "permits", "give limit"),
        ("acquire", "expire", "give max_hold"),
        ("periodic", "interval", "give every"),
        ("leadership", "ttl", ": listener_lock_period is an option of the whole app. Set listenerLockPeriod in"),
        ("leadership", "sleep", "SingletonOptions(listener_lock_recovery_polling_interval=…)"),
        ("lock_name", "keys", "give scope"),
    ],
)
def test_a_clients_call_names_the_argument_for_the_word_of_another_library(
    client: Any, method: str, word: str, said: str
) -> None:
    message = refusal(getattr(client(PLACE), method), "report", **{word: 1})
    assert message.startswith(f"{client.__name__}.{method} has no argument {word!r}: ")
    assert said in message


@pytest.mark.parametrize(
    ("call", "word", "said"),
    [
        (SingletonOptions, "ttl", "SingletonOptions has no argument 'ttl': give lock_period"),
        (SingletonOptions, "timeout", "give lock_acquisition_timeout"),
        (SingletonOptions, "at_most", "locks.lock(name, max_hold=…)"),
        (SingletonOptions, "lockPeriod", "write lock_period"),
        (SingletonOptions, "lock_perod", "did you mean 'lock_period'?"),
        (LockClient, "lease", "LockClient has no argument 'lease': lock_period is an option"),
        (AsyncLockClient, "blocking", "AsyncLockClient has no argument 'blocking'"),
        (once, "ttl", "give keep"),
        (once, "lease", "once has no argument 'lease': lock_period is an option"),
        (once, "scope", "once has no argument 'scope': give key"),
        (once, "blocking", "give on_contention"),
        (singleton, "misfire_grace_time", "ask timer.past_due in the body"),
        (singleton, "coalesce", "for one more run after the last change, give on_contention='coalesce'"),
        (singleton, "fair", "leave it out. Waiters of one process take turns"),
        (once, "lock_key", "give key"),
        (ordered, "retry", "ordered has no argument 'retry'"),
        (Inbox, "container", "options=SingletonOptions(container=…)"),
        (OldLock, "key", "OldLock has no argument 'key': give name"),
        (singleton, "at_most", "max_hold (seconds"),
        (singleton, "lease", "give lock_period (seconds of a lease"),
        (singleton, "once", "@once with a key"),
        (singleton, "lockAcquisitionTimeout", "give timeout"),
        (singleton, "Account", "give connection"),
        (start_singleton, "wait", "start_singleton has no argument 'wait': give timeout"),
    ],
)
def test_every_call_names_the_argument_for_the_word_of_another_library(call: Any, word: str, said: str) -> None:
    assert said in refusal(call, **{word: 1})


def test_a_call_on_the_class_itself_is_answered_too() -> None:
    assert refusal(LockClient.lock, ttl=3).startswith("LockClient.lock has no argument 'ttl': give max_hold")


def test_each_word_leads_to_an_argument_that_is_explained_and_that_a_call_has() -> None:
    calls = (singleton, once, LockClient.semaphore, LockClient.periodic, SingletonOptions)
    had = {name for call in calls for name in inspect.signature(call).parameters}
    assert set(_MEANINGS) <= had
    assert {name for found in _ELSEWHERE.values() for name in found} <= set(_MEANINGS)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (LockClient(PLACE).lock, "LockClient.lock takes only name without a name: give 5 by name, such as timeout"),
        (AsyncLockClient(PLACE).try_lock, "AsyncLockClient.try_lock takes only name without a name: give 5 by name"),
        (AsyncLockClient(PLACE).acquire, "AsyncLockClient.acquire takes only name without a name: give 5 by name"),
        (LockClient, "LockClient takes only connection without a name: give 5 by name"),
        (OldLock, "OldLock takes nothing without a name: give 'report' by name"),
    ],
)
def test_a_value_too_many_is_asked_to_have_its_name(call: Any, said: str) -> None:
    assert said in refusal(call, "report", 5)


def test_host_json_names_the_option_for_the_word_of_another_library(tmp_path: Path) -> None:
    (tmp_path / "host.json").write_text('{"singleton": {"lockTtl": "00:00:30"}}')
    with pytest.raises(ConfigurationError, match="no option 'lockTtl'; did you mean 'lockPeriod'"):
        load_options(tmp_path, {})


def test_an_explained_call_still_looks_like_the_call() -> None:
    assert inspect.iscoroutinefunction(AsyncLockClient.acquire)
    assert inspect.iscoroutinefunction(start_singleton)
    assert "max_hold" in inspect.signature(LockClient.lock).parameters
    assert "container" in inspect.signature(SingletonOptions).parameters
