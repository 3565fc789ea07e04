"""``@singleton(mode="listener")``: one process runs the function until the process ends; no other process does.

The host of each instance delivers messages, and the host of each app or slot fires its timers (W-111). A Python
function can't stop its host from listening, as WebJobs does, so the guard decides at each invocation. In the process
that is the listener, the body runs. In every other process a timer's run is skipped as a success, a queue's message is
put back, and an invocation that needs an answer fails with ``LockNotAcquired``.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from singleton.base.appsettings import filled
from singleton.base.errors import ConfigurationError, LockNotAcquired, ScopeError
from singleton.base.events import tell
from singleton.base.forks import cached_property, importing
from singleton.base.invocation import current
from singleton.base.invocation import log as _log
from singleton.functions import trigger_rules as rules
from singleton.functions.candidacy import Candidacy
from singleton.functions.guard import Guard
from singleton.functions.misdeclaration import OF_THE_APP
from singleton.functions.payload import has_tick
from singleton.functions.trigger_rules import check_message
from singleton.functions.triggers import QUEUE, TIMER
from singleton.runtime.cancellation import unless_lost
from singleton.settings.connection import DEFAULT_CONNECTION
from singleton.settings.durations import in_words
from singleton.settings.hostid import host_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from singleton.base.events import Call
    from singleton.base.hold import Hold
    from singleton.base.kinds import Mode
    from singleton.functions.triggers import Trigger
    from singleton.runtime.address import Address
    from singleton.runtime.calls import Locks
    from singleton.runtime.registry import Registry
    from singleton.settings.accounts import LockContainer


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ListenerGuard(Guard):
    """A declaration with mode ``listener``."""

    mode: ClassVar[Mode] = "listener"
    _report: ClassVar[Callable[..., None]] = staticmethod(lambda *_: None)
    """Silent: the lock is the process's, and the candidacy tells of it."""

    def __post_init__(self) -> None:
        """Raise ``ConfigurationError`` if an argument doesn't go with this mode."""
        wrong = self._wrong_argument()
        if wrong:
            raise ConfigurationError(f"@singleton(mode='listener') on {self.function}: {wrong}")

    def rules(self, trigger: Trigger) -> Iterator[Callable[[], None]]:
        """See ``Declaration.rules``."""
        yield from super().rules(trigger)
        who = f"{self.decorator} on {trigger.function or self.function}"
        if self.on_contention != "raise" and trigger.type in (QUEUE, TIMER):
            what = "mode='listener' in a process that is not the listener"
            yield partial(rules.refuse_none, who, what, trigger, "on_contention='raise'")
        if self._puts_back(trigger):
            with importing:
                from singleton.functions.deferrable import check_installed

            yield partial(rules.refuse_text, who, trigger, rules.declared_type(self.written, trigger))
            yield partial(check_installed, "mode='listener' on a storage queue", OF_THE_APP)
        yield partial(self._refuse_the_hosts_own, who, trigger)

    def _wrong_argument(self) -> str | None:
        if self.scope is not None:
            return (
                f"scope={self.scope!r} is looked up in a message, and a listener is chosen before there is a message: "
                "leave it out, or use a scope_id with %SETTING%"
            )
        if self.template.paths:
            names = ", ".join(f"{{{path}}}" for path in self.template.paths)
            return f"scope_id has {names}, and a listener is chosen before there is a message: use %SETTING%"
        if self.level == "host":
            return "level='host' is for mode='function' only: each function has its own listener. Leave level out"
        if self.on_contention not in ("wait", "defer", "raise"):
            return (
                f"on_contention={self.on_contention!r} can't be used with this mode. Leave it out: in a process that "
                "is not the listener, a timer's run is skipped, and a queue's message is put back. Or give 'raise': "
                "the invocation fails there"
            )
        interval = self.options.listener_lock_recovery_polling_interval
        if self.timeout is not None and interval is not None:
            return (
                f"timeout={self.timeout:g} has no effect: a process asks for the listener's lock once every "
                f"{in_words(interval)} (listenerLockRecoveryPollingInterval). Leave timeout out"
            )
        return None

    @property
    def period(self) -> float:
        """Seconds of one lease (W-25)."""
        return self.options.listener_lock_period

    @property
    def poll(self) -> float:
        """The longest time in seconds until a process asks for the lock again."""
        return (
            self.options.lock_acquisition_polling_interval if self.options.recovery is None else self.options.recovery
        )

    @cached_property
    def wait(self) -> float | None:
        """Seconds of one attempt to become the listener: 0 asks once (W-99)."""
        return 0 if self.options.recovery is not None else self._patience

    def _puts_back(self, trigger: Trigger | None) -> bool:
        """Tell whether messages are put back while another process listens: those of a storage queue."""
        return trigger is not None and trigger.type == QUEUE and self.on_contention != "raise"

    def call(self, arguments: Mapping[str, Any], context: Any) -> Call:
        """See ``Guard.call``."""
        call = super().call(arguments, context)
        if self._puts_back(self.trigger):
            check_message(f"{self.decorator} on {call.function}", self.trigger, arguments)
        return call

    def _refuse_the_hosts_own(self, who: str, trigger: Trigger) -> None:
        """Refuse the lock by which the host of this very app listens to its timer (W-111)."""
        if trigger.type != TIMER or not self.layout.dotnet or self.scope_id:
            return
        with importing:
            from singleton.dotnet.webjobs import WebJobsLayout

        host = host_id(os.environ, self.app_dir) if self.options.host_id else "0"
        lock = self.layout.lock(self.options.host_id or host, self.name or trigger.function, [], listener=True)
        hosts_own = WebJobsLayout().lock(host, trigger.function, [], listener=True)
        if self.connection == DEFAULT_CONNECTION and lock == hosts_own:
            raise ConfigurationError(
                f"{who}: the Functions host itself holds this lock for its timer, so the function would never run. "
                "Leave mode='listener' out; or, to share the lock of another app's timer, set hostId in host.json's "
                "singleton section to that app's id",
                reason="listener-of-the-host",
            )

    def _scopes(self, _: Mapping[str, Any]) -> list[str]:
        if not self.scope_id:
            return []
        try:
            return [self.template.bind(os.environ, {})]
        except ScopeError as error:  # a setting holds a placeholder
            raise ConfigurationError(f"{error}: a listener's scope_id is filled from app settings only") from error

    @cached_property
    def _address_of(self) -> Callable[[LockContainer, str], Address]:
        with importing:
            from singleton.runtime.address import address_maker

        return address_maker(self.options.replace(lock_period=self.period), self.layout.stamp(listener=True))

    async def _enter(self, call: Call, locks: Locks) -> Hold | None:
        about = replace(call, owner="", arguments={})
        address = self._address_of(self._place, about.lock)
        acquire = self._acquiring(about, (address,), self.wait)
        limit, invocation = self._limit, current()

        async def attempt(registry: Registry) -> Hold:  # the process's own: it goes on when this invocation has ended
            return await acquire(registry, self.wait)

        async def seat(registry: Registry, within: float | None) -> Hold:
            candidacy = registry.keepers.get(address)
            if candidacy is None:
                candidacy = registry.keepers[address] = Candidacy(
                    registry, address, about, attempt, wait=self.wait, recovery=self.options.recovery
                )
            assert isinstance(candidacy, Candidacy)
            return await candidacy.seat(call.owner, within)

        _ = self._told
        try:
            return await locks.call_async(unless_lost(lambda registry: limit.within(registry, None, invocation, seat)))
        except LockNotAcquired as error:
            elsewhere = error
        way = self._way(call)
        tell("contended", call, reason=way)
        if way == "raise":
            raise elsewhere
        if way == "defer":
            await self._deferring.put_back(call, elsewhere, locks)
        else:
            _log.info("%s skipped: another process is its listener", call.function, extra=call.fields)
        return None

    def _notices(self) -> Iterator[str]:
        """Say that several worker processes are several candidates: the host may choose one that does not listen."""
        count = filled(os.environ, "FUNCTIONS_WORKER_PROCESS_COUNT") or ""
        if count.isdecimal() and int(count) > 1:
            yield (
                f"it has mode='listener', and FUNCTIONS_WORKER_PROCESS_COUNT is {count}: one worker process is the "
                f"listener, and {self._elsewhere()}. Set it to 1, or leave mode out"
            )

    def _elsewhere(self) -> str:
        """Say what becomes of an invocation which the host gives to a process that is not the listener."""
        if self._puts_back(self.trigger):
            return "a message that the host gives to another one is put back for a while"
        if self.on_contention == "raise" or (self.trigger is not None and self.trigger.type != TIMER):
            return "an invocation that the host gives to another one fails"
        return "a timer's run that the host gives to another one is skipped"

    def _way(self, call: Call) -> Literal["skip", "defer", "raise"]:
        """Say what becomes of an invocation while another process listens."""
        if self.on_contention == "raise":
            return "raise"
        trigger = self.trigger
        if self._puts_back(trigger):
            return "defer"
        ticks = trigger.type == TIMER if trigger is not None else not call.arguments or has_tick(call.arguments)
        return "skip" if ticks else "raise"
