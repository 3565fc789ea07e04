"""Start a Durable orchestration once: under a lock, look whether the instance runs, and start the instance if not.

Without the lock two callers may both ask ``client.get_status``, both see that nothing runs, and both start: the second
replaces the instance of the first. Nothing of the Durable package is imported: attributes tell Durable's
objects.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from singleton.base.errors import ConfigurationError
from singleton.base.hold import Hold
from singleton.base.invocation import current, warn_unlocked
from singleton.base.invocation import log as _log
from singleton.base.tasks import to_its_end
from singleton.base.words import quoted
from singleton.functions.wait_limit import WaitLimit
from singleton.layouts.blob_name import lock_name
from singleton.runtime.address import Address
from singleton.runtime.holders import naming_holder
from singleton.runtime.lock_thread import runtime
from singleton.runtime.provided import provided_account
from singleton.settings.accounts import LockContainer
from singleton.settings.argument_names import explained
from singleton.settings.connection import resolve_blob_account
from singleton.settings.durations import seconds
from singleton.settings.hostid import host_id
from singleton.settings.localrun import warn_of_local_run
from singleton.settings.misspelt import warn_of_misspelt_sections
from singleton.settings.options import find_app_dir, load_options

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from datetime import timedelta

    from singleton.runtime.registry import Registry

_ENDED = ("completed", "failed", "canceled", "terminated")
"""Every other state, under any name, stands in the way of a start."""
_EXISTS = "already exists"
"""Durable's words, passed on by the client, for the refusal to replace an instance."""
_UNTIL_VISIBLE = 10.0
_FIRST_LOOK, _LONGEST_PAUSE = 0.05, 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The result of ``start_singleton``.

    Attributes:
        instance_id: the id of the instance.
        started: whether this call started the instance.
        status: the instance's runtime status as last seen, such as ``"Running"``. If ``started`` is False, the
            instance existed before. None: Durable did not show the instance within ten seconds.
    """

    instance_id: str
    started: bool
    status: str | None


@explained
async def start_singleton(
    client: Any,
    orchestrator: str,
    instance_id: str,
    client_input: Any = None,
    *,
    timeout: float | timedelta | None = None,
    connection: str = "AzureWebJobsStorage",
) -> Started:
    """Start an orchestration unless the instance runs, waits or is suspended: once, also with several callers.

    Calls for an instance id run one after the other: the lock belongs to the app's host id and the instance id. The
    lock is held until Durable shows the new instance, for ten seconds at most: the next call sees the instance too. If
    the instance is started without this function meanwhile, Durable refuses this start, and ``started`` is False.

    Args:
        client: the Durable client of the ``durable_client_input`` binding.
        orchestrator: name of the orchestrator function.
        instance_id: the instance's id. Starts with equal ids exclude one another.
        client_input: input for the orchestrator.
        timeout: seconds to wait for other calls that start the instance, more than 0; by default the option
            ``lockAcquisitionTimeout`` (no limit, unless set). The wait ends before the host's ``functionTimeout`` in
            any case.
        connection: app setting, or prefix of ``__accountName`` and such settings, of the lock's storage account.

    Raises:
        LockNotAcquired: other calls had the lock for the whole time-out.
        LockLost: the lock was lost before the start; nothing was started.
        StorageDenied, StorageUnavailable: the lock's storage refuses, or does not answer.
        ConfigurationError: an argument, option or setting is wrong.
        RuntimeError: Durable answered the question for the status with an error; nothing was started.
        Exception: the client's error. If ``start_new`` raised the error, Durable answered that the instance was not
            started; or Durable did not answer, and the instance was not seen within ten seconds, or not before the
            lock was lost.

    Example::

        @app.route(route="orders/{id}/import")
        @app.durable_client_input(client_name="client")
        async def start(req: func.HttpRequest, client) -> func.HttpResponse:
            result = await start_singleton(client, "import_order", req.route_params["id"])
            if not result.started:
                return func.HttpResponse(f"already {result.status}", status_code=409)
            return client.create_check_status_response(req, result.instance_id)
    """
    _check_client(client)
    _check_text("orchestrator", orchestrator)
    _check_text("instance_id", instance_id)
    _check_text("connection", connection)
    patience = None if timeout is None else seconds(timeout, "timeout", above=0)
    async with _held(instance_id, patience, connection) as hold:
        before = await _look(client, instance_id)
        if before.in_the_way:
            _log.info("orchestration %r was not started: it is %s", instance_id, before.status)
            return Started(instance_id=instance_id, started=False, status=before.status)
        hold.raise_if_lost()
        # The caller's cancellation does not stop the start: the lock is kept until what came of it is known.
        starting = asyncio.ensure_future(_start(client, orchestrator, instance_id, client_input, before, hold))
        await to_its_end(starting, cancel=False, grace=2 * _UNTIL_VISIBLE)
    return starting.result()


def _check_client(client: object) -> None:
    if not callable(getattr(client, "get_status", None)) or not callable(getattr(client, "start_new", None)):
        raise ConfigurationError(
            f"client has the type {type(client).__name__}, without get_status and start_new: give the client of the "
            "durable_client_input binding, from azure-functions-durable"
        )


def _check_text(name: str, value: object) -> None:
    if not isinstance(value, str) or not value.strip():
        raise ConfigurationError(f"{name} is {quoted(value)}: give a text that isn't blank")


@asynccontextmanager
async def _held(instance_id: str, timeout: float | None, connection: str) -> AsyncIterator[Hold]:
    app_dir = find_app_dir(Path.cwd(), os.environ)
    options = load_options(app_dir, os.environ)
    warn_of_misspelt_sections(app_dir, os.environ)
    app = options.host_id or host_id(os.environ, app_dir)
    # No function is called ~durable, and no lock of level "host" begins with an encoded tilde.
    name = lock_name(app, "~durable", [instance_id])
    if not options.enabled:
        warn_unlocked()
        yield Hold(name)
        return
    account = provided_account(connection) or resolve_blob_account(connection, os.environ)
    warn_of_local_run(os.environ, account.endpoint, options, app)
    place = LockContainer(account, options.container, options.http)
    patience = options.lock_acquisition_timeout if timeout is None else timeout
    locks = runtime()
    address = Address.of(place, name, options)
    limit, invocation = _wait_limit(app_dir), current()

    async def acquire(registry: Registry) -> Hold:
        async with naming_holder(registry, address, patience):
            return await limit.within(
                registry, patience, invocation, lambda there, wait: there.acquire(address, timeout=wait, owner="")
            )

    hold = await locks.call_async(acquire)
    try:
        yield hold
    finally:
        await locks.release_async(hold)


@cache
def _wait_limit(app_dir: Path | None) -> WaitLimit:
    return WaitLimit.of(app_dir, os.environ)


class _InstanceStatus(NamedTuple):
    """An instance at one moment; both fields are None if the instance does not exist."""

    status: str | None
    created: object

    @property
    def in_the_way(self) -> bool:
        return self.status is not None and self.status.casefold() not in _ENDED


async def _look(client: Any, instance_id: str) -> _InstanceStatus:
    told = await client.get_status(instance_id)
    # The client makes a status of every answer, also of one that says that the question failed.
    if (failure := getattr(told, "ExceptionMessage", None)) is not None:
        raise RuntimeError(f"the status of orchestration {quoted(instance_id)} can't be read: {quoted(failure)}")
    status = getattr(told, "runtime_status", None)
    return _InstanceStatus(
        None if status is None else str(getattr(status, "name", status)), getattr(told, "created_time", None)
    )


async def _start(
    client: Any, orchestrator: str, instance_id: str, client_input: Any, before: _InstanceStatus, hold: Hold
) -> Started:
    try:
        await client.start_new(orchestrator, instance_id, client_input)
    except Exception as error:
        answered = type(error) is Exception  # the client's own, for what Durable answered
        exists = _EXISTS in str(error).casefold()
        if answered and not exists:
            raise
        seen = await _until_seen(client, instance_id, before, within=_UNTIL_VISIBLE)
        if answered:  # started without the lock, or while this process was stopped past its lease
            return Started(instance_id=instance_id, started=False, status=seen)
        # An answer that was lost says nothing. Under the lock, an instance that appears now is the one asked for.
        if seen is None or hold.lost.is_set():
            raise
        _log.warning("the start of orchestration %r failed (%s), but it runs", instance_id, type(error).__name__)
        return Started(instance_id=instance_id, started=True, status=seen)
    seen = await _until_seen(client, instance_id, before, within=_UNTIL_VISIBLE)
    if seen is None:
        _log.warning(
            "orchestration %r was started, but Durable has not shown it for %g s: a later call may start it again",
            instance_id,
            _UNTIL_VISIBLE,
        )
    return Started(instance_id=instance_id, started=True, status=seen)


async def _until_seen(client: Any, instance_id: str, before: _InstanceStatus, *, within: float) -> str | None:
    """Return the status of the instance that was started after ``before``, which may have ended already."""
    clock = asyncio.get_running_loop().time
    end, pause = clock() + within, _FIRST_LOOK
    while True:
        with suppress(Exception):  # the instance was started; a failed look has not seen it
            seen = await _look(client, instance_id)
            if seen.in_the_way or (seen.status is not None and seen.created != before.created):
                return seen.status
        if clock() + pause > end:
            return None
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
