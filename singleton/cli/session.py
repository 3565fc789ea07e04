"""The account and container of a command, the command's requests to the storage, and suggestions for unknown names."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar

import click

from singleton.base.errors import StorageDenied
from singleton.cli.output import say, state_of
from singleton.cli.silence import READING, AnswerWatch
from singleton.operating.lock_names import (
    layout_in,
    lock_is_missing,
    names_like,
    prefix_is_missing,
    slots_of,
)
from singleton.runtime.address import Address
from singleton.runtime.lock_thread import runtime
from singleton.runtime.provided import provided_account
from singleton.settings.accounts import LockContainer
from singleton.settings.connection import DEFAULT_CONNECTION, checked_account_name, checked_url, resolve_blob_account
from singleton.settings.hostid import host_id, is_machine_bound
from singleton.settings.misspelt import misspelt_sections
from singleton.settings.options import find_app_dir, load_options

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from singleton.base.hold import Hold
    from singleton.runtime.registry import Registry
    from singleton.stores.lock_keeping import BlobStore

_P = ParamSpec("_P")
_T = TypeVar("_T")

_OPTIONS: Final = ("connection", "account", "container", "app", "app_id", "as_json")
_LONGEST_MADE: Final = 32
_SIGN_IN: Final = (
    "; --account uses an identity: sign in (`az login`), or give your identity a role on this account's blobs"
)
_BY_IDENTITY: Final = "SINGLETON_LOCKS_ACCOUNT"
"""The connection under which an account that is reached by an identity is looked up."""


class Session:
    """The container that a command works on, by the options of ``in_a_session``.

    ``ConfigurationError``: the connection has no setting, or a wrong value.
    """

    def __init__(
        self,
        *,
        connection: str,
        account: str | None,
        container: str | None,
        app: Path | None,
        app_id: str | None,
        as_json: bool,
    ) -> None:
        folder = find_app_dir(app or Path.cwd(), {} if app else os.environ)
        options = load_options(folder, os.environ)
        for said in misspelt_sections(folder, os.environ):
            say(said, err=True)
        self._folder = folder
        self.as_json = as_json
        self._app_id_given = app_id is not None
        named = options.host_id if app_id is None else app_id
        self.options = options.replace(container=container or options.container, host_id=named)
        self._account = account
        self._connection = connection
        self._watched_store: BlobStore | None = None

    def in_container(self, name: str) -> Session:
        """Return a session for another container of the account."""
        other = copy.copy(self)
        other.options = self.options.replace(container=name)
        vars(other).pop("place", None)
        return other

    @functools.cached_property
    def place(self) -> LockContainer:
        """The container."""
        if self._account is None:
            account = provided_account(self._connection) or resolve_blob_account(self._connection, os.environ)
            return LockContainer(account, self.container, self.options.http)
        key, check = (
            ("blobServiceUri", checked_url) if "://" in self._account else ("accountName", checked_account_name)
        )
        check(self._account, "--account")  # under the option's name
        settings = {**os.environ, f"{_BY_IDENTITY}__{key}": self._account}
        account = dataclasses.replace(resolve_blob_account(_BY_IDENTITY, settings), setting="")
        return LockContainer(account, self.container, self.options.http)

    @property
    def container(self) -> str:
        """The container's name."""
        return self.options.container

    @property
    def app_id(self) -> str:
        """The host id under which the app has its locks."""
        return self.options.host_id or host_id(os.environ, self._folder)

    @property
    def app_id_doubt(self) -> str | None:
        """Reason for a doubt in the host id, in words; None: no doubt."""
        if self.options.host_id is None and is_machine_bound(os.environ):
            return (
                f"host id {self.app_id!r} is made of this machine and folder. In Azure it is made of the app's "
                "name: give --host-id"
            )
        app_id = self.app_id
        made_by_host = app_id == app_id.lower() and len(app_id) <= _LONGEST_MADE and not app_id.endswith("-")  # H-6
        if self._app_id_given and not made_by_host:
            return (
                f"host id {app_id!r} is used as it is. One that the Functions host makes has at most "
                "32 characters and no capital letters"
            )
        return None

    @functools.cached_property
    def answers(self) -> AnswerWatch:
        """What is known of whether the storage answers."""
        return AnswerWatch(self.place.account.endpoint or "the storage")

    def ask(self, work: Callable[[BlobStore], Coroutine[Any, Any, _T]]) -> _T:
        """Do something with the locks' store, on the lock thread, and tell where no answer comes; Ctrl-C ends it."""
        with self._hint():
            return runtime().call(lambda registry: work(self._watched(registry)))

    @contextlib.contextmanager
    def _hint(self) -> Iterator[None]:
        """Say how to sign in where an account is reached by an identity that gets no access."""
        try:
            yield
        except StorageDenied as error:
            if self._account is not None and error.args and _SIGN_IN not in str(error):
                error.args = (f"{error}{_SIGN_IN}", *error.args[1:])
            raise

    def _watched(self, registry: Registry) -> BlobStore:
        store = registry.store(self.place)
        if store is not self._watched_store:
            self._watched_store = self.answers.watch(store)
        return store

    def acquire(self, name: str, *, timeout: float | None, owner: str) -> Hold:
        """Take a lock, as any process of the app would, and leave a stamp, even where the app leaves none."""
        layout = layout_in(self.container)
        failover = None if layout.foreign else self.options.failover
        options = self.options.replace(fencing_tokens=True, failover=failover)
        address = Address.of(self.place, name, options, layout.stamp())

        async def acquired(registry: Registry) -> Hold:
            self._watched(registry)  # also while it is waited for, and renewed
            return await registry.acquire(address, timeout=timeout, owner=owner)

        with self._hint():
            return runtime().call(acquired)

    def release(self, hold: Hold) -> None:
        """Give it back."""
        runtime().release(hold)


def in_a_session(command: Callable[Concatenate[Session, _P], int]) -> Callable[..., int]:
    """Give a command a session, made of the options for the container, and of ``--json``."""

    @click.option(
        "--connection",
        metavar="SETTING",
        default=DEFAULT_CONNECTION,
        help="App setting (environment variable) of the storage account, or its connection string.",
    )
    @click.option("--account", metavar="NAME", help="The account's name or URL, to use an identity.")
    @click.option(
        "--container", metavar="NAME", help="The container of the locks. Default: the app's, or else webjobshost."
    )
    @click.option(
        "--app",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        metavar="DIR",
        help="The app's folder, with its host.json. Default: the current one.",
    )
    @click.option(
        "--host-id", "app_id", metavar="ID", help="The app's host id. Default: as the Functions host makes it."
    )
    @click.option("--json", "as_json", is_flag=True, help="Write JSON.")
    @functools.wraps(command)
    def with_session(**options: Any) -> int:
        source = click.get_current_context().get_parameter_source("connection")
        if options["account"] is not None and source is not click.core.ParameterSource.DEFAULT:
            raise click.UsageError("--account and --connection are both given: keep one of them")
        session = Session(**{name: options.pop(name) for name in _OPTIONS})
        return command(session, **options)  # type: ignore[call-arg] # click gives each command its own options

    return with_session


_SLOTS: Final = 10
"""Slots of a semaphore that are named."""


def no_such_lock(session: Session, name: str) -> str:
    """Return the text for a missing lock: the name is unknown, or is a semaphore's, with a lock for each slot."""
    if slots := named_slots(session, name):
        return f"{name!r} is a semaphore, and each of its slots is a lock. Name one of them: {slots}"
    like = session.ask(lambda store: names_like(store, session.container, name, answer=READING))
    return lock_is_missing(session.container, name, like)


def named_slots(session: Session, name: str) -> str:
    """Name the slots of the semaphore of this name, each with its state; empty: there is none."""
    slots = session.ask(lambda store: slots_of(store, session.container, name, answer=READING))
    named = ", ".join(f"{slot.name!r} ({state_of(slot)})" for slot in slots[:_SLOTS])
    return named + (f" and {len(slots) - _SLOTS:,} more" if len(slots) > _SLOTS else "")


def tell_of_slots(session: Session, name: str) -> None:
    """Tell the user that a semaphore has the name of this lock, if so: the user may mean a slot."""
    if slots := named_slots(session, name):
        say(f"{name!r} is also the name of a semaphore, and each of its slots is a lock: {slots}", err=True)


def no_such_prefix(session: Session, prefix: str) -> str | None:
    """Return the text for a prefix that begins no lock's name; None: the container has no lock yet."""
    return session.ask(lambda store: prefix_is_missing(store, session.container, prefix, answer=READING))
