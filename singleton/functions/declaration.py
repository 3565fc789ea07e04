"""A checked declaration: which lock an invocation of the function needs, and where the lock is.

The payload of the invocation has the scope: the argument with the payload, and the names that ``scope_id`` may use.
"""

from __future__ import annotations

import contextlib
import os
from collections import UserList
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar

from singleton.base.errors import ConfigurationError, ScopeError
from singleton.base.events import Call
from singleton.base.words import quoted
from singleton.functions.bindings import (
    FromJson,
    Layer,
    Payload,
    is_data,
    is_message,
    is_output,
    payload_of,
    tool_payload,
)
from singleton.functions.triggers import ACTIVITY, MCP_TOOL, Trigger, invocation_id, refuse_none, refuse_policy, tries
from singleton.layouts.blob_name import hashed_scope, semaphore_name
from singleton.scopes.template import BoundNames, value_at

if TYPE_CHECKING:
    from pathlib import Path

    from singleton.base.kinds import Level, Mode
    from singleton.functions.contention import OnContention, Policy
    from singleton.layouts.layout import Layout
    from singleton.runtime.address import Address
    from singleton.scopes.template import ScopeTemplate
    from singleton.settings.accounts import LockContainer
    from singleton.settings.connection import StorageAccount
    from singleton.settings.options import SingletonOptions


class BindingData(BoundNames):
    """What ``{name}`` may name: what comes with the payload, and its JSON body's properties. Case is ignored.

    The payload is looked for when a name is: a template that has none, its settings filled in, needs no payload. The
    layers are read in order, so that a blob is not read for a name in the blob's path.

    Of JSON, null and lists take the place of nothing that has the name, as for the host (H-80); with ``dotnet`` they
    do, as properties of a C# type.
    """

    def __init__(self, find: Callable[[], Payload | None], *, dotnet: bool = False) -> None:
        self._find = find
        self._dotnet = dotnet
        self._read: list[dict[str, object]] = []

    @cached_property
    def _unread(self) -> list[Layer]:
        payload = self._find()
        if payload is None:
            return []
        self.hint = payload.hint
        return [*payload.layers]

    def _layers(self) -> Iterator[dict[str, object]]:
        yield from self._read
        while self._unread:
            found = self._unread.pop(0)()
            layer = FromJson() if isinstance(found, FromJson) else dict[str, object]()
            for name, value in found.items():
                folded = str(name).casefold()
                if folded not in layer or not self._is_weak(layer, value):
                    layer[folded] = value
            self._read.append(layer)
            yield layer

    def _is_weak(self, layer: Mapping[str, object], value: object) -> bool:
        """Tell whether what a layer has for a name takes the place of nothing."""
        return isinstance(layer, FromJson) and not self._dotnet and (value is None or isinstance(value, list))

    def _layer_of(self, name: str) -> dict[str, object] | None:
        """Return the first layer with a strong value for the name, else the first layer with a weak value."""
        weak = None
        for layer in self._layers():
            if name.casefold() in layer:
                if not self._is_weak(layer, layer[name.casefold()]):
                    return layer
                weak = weak or layer
        return weak

    def __getitem__(self, name: str) -> object:
        layer = self._layer_of(name)
        if layer is None:
            raise KeyError(name)
        return layer[name.casefold()]

    def is_the_hosts(self, name: str) -> bool:
        """See ``BoundNames.is_the_hosts``."""
        return not isinstance(self._layer_of(name), FromJson)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and any(name.casefold() in layer for layer in self._layers())

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(name for layer in self._layers() for name in layer))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def find_payload(arguments: Mapping[str, Any], trigger: Trigger | None) -> Payload | None:
    """Return the payload among an invocation's arguments; None: there is none, as with a timer, whatever is beside it.

    ``ScopeError``: the payload is a batch, or several parameters may be meant.
    """
    if trigger is not None and trigger.type == MCP_TOOL:
        return tool_payload(arguments, trigger)
    name = triggers_parameter(arguments, trigger)
    if name is None or _is_timer(arguments[name]):
        return None
    value = arguments[name]
    if _is_batch(value) and (trigger is None or trigger.type != ACTIVITY):
        value = _the_only_one(name, value)
    return payload_of(name, value, trigger)


def has_tick(arguments: Mapping[str, Any]) -> bool:
    """Tell whether the tick of a timer is among the arguments."""
    return any(map(_is_timer, arguments.values()))


def triggers_parameter(
    arguments: Mapping[str, Any], trigger: Trigger | None, *, of_any_kind: bool = False
) -> str | None:
    """Return the trigger's parameter among an invocation's arguments; None: no argument may be the trigger's.

    If the trigger is unknown, its parameter is that of the timer or of the only message, as only triggers deliver
    these; else that of the only blob, text, bytes or parsed JSON; else, ``of_any_kind``, the only one. ``ScopeError``:
    several parameters may be meant.
    """
    if trigger is not None and trigger.parameter in arguments:
        return trigger.parameter
    for may_be in (_is_timer, _has_message, _may_be_payload, lambda value: of_any_kind and not is_output(value)):
        candidates = [name for name, value in arguments.items() if may_be(value)]
        if len(candidates) > 1:
            raise ScopeError(
                f"the payload may be any of the parameters {', '.join(candidates)}: put @singleton (or @once) above "
                "the trigger's decorator, so that it knows which parameter is the trigger's",
                reason="ambiguous",
            )
        if candidates:
            return candidates[0]
    return None


def _is_timer(value: object) -> bool:
    return isinstance(getattr(value, "past_due", None), bool)


def _has_message(value: object) -> bool:
    return is_message(value) or _is_batch(value, of=is_message)


def _may_be_payload(value: object) -> bool:
    return is_data(value) or _is_batch(value)


def _is_batch(value: object, of: Callable[[object], bool] = lambda _: True) -> bool:
    """Tell whether it is a list, or one of the bindings' list-like classes (documents, rows)."""
    return isinstance(value, Sequence) and not isinstance(value, str | bytes) and all(map(of, value[:1] or [None]))


def _the_only_one(name: str, batch: Sequence[Any]) -> Any:
    """Return what is alone in a list of documents or rows, which come in lists even one by one.

    A trigger for messages can deliver a message without a list: so a list of one message is refused as well, rather
    than only under load.
    """
    documents = isinstance(batch, UserList)
    if documents and len(batch) == 1:
        return batch[0]
    what, remedy = (
        ("documents", "let the trigger deliver one document at a time (Cosmos DB: max_items_per_invocation=1)")
        if documents
        else ("messages", 'set the trigger\'s cardinality to "one"')
    )
    raise ScopeError(
        f"parameter {name} is a batch ({what}: {len(batch)}), which has no single scope: {remedy}", reason="batch"
    )


@dataclass(frozen=True, kw_only=True)
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
    layout: Layout = field(repr=False)
    template: ScopeTemplate = field(repr=False)
    name: str | None = None
    limit: int | None = None
    at_least: float = 0.0
    max_hold: float | None = None
    max_waiting: int | None = None
    when_full: Policy = "raise"
    also: Declaration | None = None
    find_trigger: Callable[[], Trigger | None] = field(default=lambda: None, repr=False)
    written: Callable[..., Any] | None = field(default=None, repr=False, compare=False)
    own: tuple[str, ...] = field(default=(), repr=False, compare=False)

    decorator: ClassVar[str] = "@singleton"
    """By which users know it."""
    mode: ClassVar[Mode] = "function"
    switched_off: ClassVar[bool] = False
    """Whether tests have switched every guard off."""

    @cached_property
    def trigger(self) -> Trigger | None:
        """The trigger, as far as known. Read it at an invocation, when the app is complete."""
        return self.find_trigger()

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

    def refuse_blocking(self, *, on_loop: bool) -> None:
        """Refuse a policy that waits, for a plain ``def`` which a coroutine calls on the event loop (``on_loop``).

        The wait would block the loop, with the holder of the lock.
        """
        waits = self.on_contention in ("wait", "coalesce") or (
            self.timeout is not None and not callable(self.on_contention)
        )
        if on_loop and waits and self.mode == "function":
            raise ConfigurationError(
                f"{self.decorator} on {self.function}: @app.mcp_tool() calls a plain def on the event loop of the "
                "worker, and a wait for the lock would block the loop, with the holder of the lock. Write `async def`; "
                f"or put {self.decorator} above @app.mcp_tool(); or don't wait: on_contention='raise'",
                reason="blocks-event-loop",
            )

    def call(self, arguments: Mapping[str, Any], context: Any) -> Call:
        """Work out the lock of an invocation. ``ScopeError``: the payload lacks the scope, and no lock is asked for."""
        known = getattr(context, "function_name", None) or (self.trigger and self.trigger.function)
        function = str(known or self.function)
        refuse_policy(function, self.on_contention, self.trigger, arguments)
        if self.trigger is not None and self.trigger.on_loop:
            self.refuse_blocking(on_loop=True)
        if self.when_full == "defer":
            refuse_none(function, "when_full='defer'", self.trigger, "when_full='raise'")
        if "defer" in (self.on_contention, self.when_full) and self.enabled:
            from singleton.functions.message_deferral import check_message

            check_message(function, self.trigger, arguments)
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
            with contextlib.suppress(ScopeError):  # a batch, or several payloads
                payload = find_payload(arguments, self.trigger)
                if payload is not None and (name := payload.find_id()) is not None:
                    error.args = (f"{error}. This is message {quoted(name)}",)
            raise

    def _scopes(self, arguments: Mapping[str, Any]) -> list[str]:
        if self._always is not None:
            return [*self._always]
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
        from singleton.settings.hostid import host_id

        return self.options.host_id or host_id(os.environ, self.app_dir)

    @cached_property
    def _account(self) -> StorageAccount:
        from singleton.settings.connection import resolve_blob_account
        from singleton.settings.localrun import warn_of_local_run

        account = resolve_blob_account(self.connection, os.environ)
        account = account.reached_at(self.layout.account_url(account.endpoint))
        warn_of_local_run(os.environ, account.endpoint, self.options, self._host_id if self.layout.by_host else None)
        return account

    @property
    def _place(self) -> LockContainer:
        from singleton.runtime.lock_thread import provided_account
        from singleton.settings.accounts import LockContainer

        account = provided_account(self.connection)
        return self._own_place if account is None else LockContainer(account, self.options.container, self.options.http)

    @cached_property
    def _own_place(self) -> LockContainer:
        """The place that the settings name: one object makes comparisons quick."""
        from singleton.settings.accounts import LockContainer

        return LockContainer(self._account, self.options.container, self.options.http)

    @cached_property
    def _address_of(self) -> Callable[[LockContainer, str], Address]:
        """Returns the address of a lock: container, name."""
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
