"""A checked declaration: which lock an invocation of the function needs, and where the lock is."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Any, ClassVar

from singleton.base.errors import ConfigurationError, ScopeError
from singleton.base.forks import cached_property, importing
from singleton.base.words import quoted
from singleton.functions import trigger_rules as rules
from singleton.functions.trigger_rules import check_message, refuse_same_lock
from singleton.functions.triggers import Trigger, invocation_id, tries
from singleton.layouts.blob_name import hashed_scope, semaphore_name
from singleton.runtime.provided import provided_account
from singleton.scopes.template import value_at
from singleton.settings.connection import resolve_blob_account
from singleton.settings.hostid import host_id, is_machine_bound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from singleton.base.appsettings import Environment
    from singleton.base.events import Call
    from singleton.base.kinds import Level, Mode, Policy
    from singleton.functions.contention import OnContention
    from singleton.layouts.layout import Layout
    from singleton.runtime.address import Address
    from singleton.scopes.template import ScopeTemplate
    from singleton.settings.accounts import LockContainer
    from singleton.settings.connection import StorageAccount
    from singleton.settings.options import SingletonOptions


@lru_cache(maxsize=32)  # many functions of an app have one account
def _endpoint(connection: str, settings: Environment) -> str:
    return resolve_blob_account(connection, settings).endpoint


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Declaration:
    """One declaration. See ``singleton.singleton`` for the arguments; ``options`` are the options of this function.

    ``written``: the function below all decorators that leave a trace. ``own``: the options of this function alone.
    """

    function: str
    scope: str | None
    scope_id: str
    scope_hash: bool = False
    level: Level
    on_contention: OnContention
    timeout: float | None
    connection: str
    options: SingletonOptions
    app_dir: Path | None
    layout: Layout
    template: ScopeTemplate
    name: str | None = None
    limit: int | None = None
    at_least: float = 0.0
    max_hold: float | None = None
    max_waiting: int | None = None
    when_full: Policy = "raise"
    also: Declaration | None = None
    find_trigger: Callable[[], Trigger | None] = lambda: None
    written: Callable[..., Any] | None = None
    own: tuple[str, ...] = ()

    decorator: ClassVar[str] = "@singleton"
    """By which users know it."""
    mode: ClassVar[Mode] = "function"
    switched_off: ClassVar[bool] = False
    """Whether tests have switched every guard off."""

    @cached_property
    def trigger(self) -> Trigger | None:
        """The trigger, as far as known. Read it at an invocation, when the app is complete.

        ``ConfigurationError``: the trigger can't take the declaration, and no app has listed the function before.
        """
        trigger = self.find_trigger()
        for rule in () if trigger is None else self.rules(trigger):
            rule()
        return trigger

    @property
    def enabled(self) -> bool:
        """Tell whether bodies run under the lock, or without it."""
        return self.options.enabled and not self.switched_off

    @property
    def period(self) -> float:
        """Seconds of one lease (W-25)."""
        return self.options.lock_period

    @property
    def poll(self) -> float:
        """The longest time in seconds until a waiter asks for the lock again."""
        return self.options.lock_acquisition_polling_interval

    @property
    def looked_up(self) -> str | None:
        """What is looked up in a payload for the lock's name, for errors; None: nothing."""
        if self.scope is not None:
            return f"scope={self.scope!r}"
        return f"scope_id={self.scope_id!r}" if self.template.paths else None

    @property
    def asked_for(self) -> tuple[str, str]:
        """What is looked up: the template, and the path of a property. Empty: none."""
        return self.scope_id, self.scope or ""

    def rules(self, trigger: Trigger) -> Iterator[Callable[[], None]]:
        """Yield functions which raise ``ConfigurationError`` if no invocation by the trigger would end well."""
        function, policy = trigger.function or self.function, self.on_contention
        who = f"{self.decorator} on {function}"
        yield partial(rules.refuse_settings, function, partial(self.look_up_settings, function))
        if self.also is not None:
            yield partial(rules.refuse_same_lock, who, self.known_name(function), self.also.known_name(function))
        yield partial(rules.refuse_replay, who, self.decorator, trigger)
        yield partial(rules.refuse_policy, who, policy, trigger, {})
        if self.when_full == "defer":
            yield partial(rules.refuse_none, who, "when_full='defer'", trigger, "when_full='raise'")
        if "defer" in (policy, self.when_full):
            yield partial(rules.refuse_trigger, who, trigger)
            yield partial(rules.refuse_text, who, trigger, rules.declared_type(self.written, trigger))
        waits = policy in ("wait", "coalesce") or (self.timeout is not None and not callable(policy))
        if waits and self.mode == "function":
            yield partial(rules.refuse_blocking, who, self.decorator, trigger)
        if looked_up := self.looked_up:
            yield partial(rules.refuse_scope, who, looked_up, trigger)
            template, path = self.asked_for
            yield partial(rules.refuse_no_argument, who, looked_up, template, path, trigger)
            if path:
                yield partial(rules.refuse_streamed, who, looked_up, self.written, trigger)

    def known_name(self, function: str, settings: Mapping[str, str] | None = None) -> tuple[str, str, str]:
        """Return connection, container and name of the function's lock, with a 1 for what only an invocation tells.

        Without ``settings`` that is the whole scope. A host id that only this machine has is a 0.

        Raises:
            ConfigurationError: a setting is missing or wrong, or no lock can have the name.
            ScopeError: the same of a scope.
        """
        scope_id = self.scope_id and ("1" if settings is None else self.template.outline(settings))
        scopes = [*filter(None, [scope_id, self.scope and "1"])]
        if self.scope_hash:
            scopes = [*map(hashed_scope, scopes)]
        host = self.options.host_id
        if host is None and settings is not None and self.layout.by_host and not is_machine_bound(settings):
            host = self._host_id
        listener = self.mode == "listener"
        lock = self.layout.lock(host or "0", self.name or function, scopes, self.level, listener=listener)
        return self.connection, self.options.container, lock

    def look_up_settings(self, function: str, settings: Environment) -> None:
        """Raise ``ConfigurationError`` or ``ScopeError`` for a missing or wrong app setting."""
        name = self.known_name(function, settings)
        if self.also is not None:
            who = f"{self.decorator} on {function}"
            refuse_same_lock(who, name, self.also.known_name(function, settings))
            self.also.look_up_settings(function, settings)
        if not self.enabled:
            return
        endpoint = _endpoint(self.connection, settings)
        self.layout.account_url(endpoint)
        if self.layout.by_host and self.options.host_id is None and "KUBERNETES_SERVICE_HOST" in settings:
            with importing:
                from singleton.settings.localrun import refuse_host_id_of_pod

            refuse_host_id_of_pod(settings, endpoint, self._host_id)

    def call(self, arguments: Mapping[str, Any], context: Any) -> Call:
        """Work out the lock of an invocation. ``ScopeError``: the payload lacks the scope, and no lock is asked for."""
        with importing:
            from singleton.base.events import Call

        known = getattr(context, "function_name", None) or (self.trigger and self.trigger.function)
        function = str(known or self.function)
        if "defer" in (self.on_contention, self.when_full) and self.enabled:
            check_message(f"{self.decorator} on {function}", self.trigger, arguments)
        lock, scopes = self._lock_of(function, arguments)
        shown = "" if self.scope_hash else ".".join(scopes)
        storage = getattr(context, "thread_local_storage", None)
        return Call(lock, function, invocation_id(context), arguments, self.mode, storage, shown, *tries(context))

    def _lock_of(self, function: str, arguments: Mapping[str, Any]) -> tuple[str, list[str]]:
        """Return the name of an invocation's lock, and the scopes in the name. A ``ScopeError`` names the message."""
        try:
            scopes = self._scopes(arguments)
            named, listener = self.name or function, self.mode == "listener"
            lock = self.layout.lock(self._host_id, named, scopes, self.level, listener=listener)
            return lock if self.limit is None else semaphore_name(lock), scopes
        except ScopeError as error:
            with importing:
                from singleton.functions.payload import find_payload

            with contextlib.suppress(ScopeError):  # a batch, or several payloads
                payload = find_payload(arguments, self.trigger)
                if payload is not None and (name := payload.find_id()) is not None:
                    error.args = (f"{error}. This is message {quoted(name)}",)
            raise

    def _scopes(self, arguments: Mapping[str, Any]) -> list[str]:
        if self._always is not None:
            return [*self._always]
        with importing:
            from singleton.functions.payload import BindingData, find_payload

        find = cache(partial(find_payload, arguments, self.trigger))
        scopes = []
        if self.scope_id:
            scopes.append(self.template.bind(os.environ, BindingData(find, dotnet=self.layout.dotnet)))
        if self.scope is not None:
            payload = find()
            if payload is None:
                raise ScopeError(
                    f"scope {self.scope!r}: {self.function} has no parameter with a message or another payload to "
                    "look it up in. For a timer, use scope_id in place of scope",
                    reason="no payload",
                )
            scopes.append(value_at(self.scope, payload.read(), dotnet=self.layout.dotnet))
        return [*map(hashed_scope, scopes)] if self.scope_hash else scopes

    @cached_property
    def _always(self) -> list[str] | None:
        """The scopes of every invocation; None: the scopes depend on the invocation, or on settings."""
        if self.scope is not None or not self.template.is_literal:
            return None
        scopes = [self.template.bind({}, {})] if self.scope_id else []
        return [*map(hashed_scope, scopes)] if self.scope_hash else scopes

    @cached_property
    def _host_id(self) -> str:
        return self.options.host_id or host_id(os.environ, self.app_dir)

    @cached_property
    def _account(self) -> StorageAccount:
        with importing:
            from singleton.settings.localrun import warn_of_local_run

        account = resolve_blob_account(self.connection, os.environ)
        account = account.reached_at(self.layout.account_url(account.endpoint))
        warn_of_local_run(os.environ, account.endpoint, self.options, self._host_id if self.layout.by_host else None)
        return account

    @property
    def _place(self) -> LockContainer:
        with importing:
            from singleton.settings.accounts import LockContainer

        account = provided_account(self.connection)
        return self._own_place if account is None else LockContainer(account, self.options.container, self.options.http)

    @cached_property
    def _own_place(self) -> LockContainer:
        """The place that the settings name: one object makes comparisons quick."""
        with importing:
            from singleton.settings.accounts import LockContainer

        return LockContainer(self._account, self.options.container, self.options.http)

    @cached_property
    def _address_of(self) -> Callable[[LockContainer, str], Address]:
        """Returns the address of a lock: container, name."""
        with importing:
            from singleton.runtime.address import address_maker

        return address_maker(self.options, self.layout.stamp())

    def _addresses(self, call: Call) -> tuple[Address, ...]:
        """Return the address of the lock, and with ``also`` the address of the old name; refuse two equal addresses."""
        address = self._address_of(self._place, call.lock)
        if self.also is None:
            return (address,)
        lock, _ = self.also._lock_of(call.function, call.arguments)  # noqa: SLF001 - one more of our kind
        old = self.also._address_of(self.also._place, lock)  # noqa: SLF001
        if old.blob == address.blob:
            raise ConfigurationError(
                f"also= on {self.function} names the lock that the function has anyway: {call.lock!r} in the container "
                f"{self.options.container!r}. Say what was different before, or leave also= out"
            )
        return address, old
