"""``@ordered``: a Functions app's queue function that handles the messages of an inbox, each key in order."""

from __future__ import annotations

import inspect
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from singleton.base.appsettings import environment
from singleton.base.callables import annotations_of, returns_coroutine, signature_of
from singleton.base.errors import ConfigurationError, StorageError
from singleton.base.forks import importing
from singleton.base.invocation import Invocation
from singleton.base.invocation import log as _log
from singleton.functions.listing import add_rules, declare
from singleton.functions.trigger_rules import refuse_settings
from singleton.functions.triggers import (
    ORDERED_MARK,
    Signature,
    check_guardable,
    invocation_id,
    refuse_coalescing,
    users_code,
)
from singleton.patterns.ordered.inbox import Inbox
from singleton.patterns.ordered.messages import checked_rules
from singleton.settings.argument_names import explained
from singleton.settings.options import app_dir_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from singleton.functions.triggers import Trigger
    from singleton.patterns.ordered.messages import InboxMessage, OnPoison, Rules
    from singleton.runtime.calls import Locks

_F = TypeVar("_F", bound="Callable[..., Any]")


@explained
def ordered(inbox: Inbox, *, attempts: int = 5, on_poison: OnPoison = "skip") -> Callable[[_F], _F]:
    """Make a queue-triggered function handle the messages of an inbox, the messages of a key in the order sent.

    Put ``@ordered`` below or above the trigger's decorator; the trigger's queue is the inbox's. The parameter of the
    trigger (without a trigger, the first) gets an ``InboxMessage``. The function is called once for each message, so
    perhaps several times in an invocation. The result of the function is not used.

    Args:
        inbox: the inbox.
        attempts: how often a message is tried, at least 1. The death of the process counts, except for the first time.
            After a failure the key waits for 1 s, then 2, 4 and so on up to a minute, and the invocation fails.
        on_poison: what follows the last attempt. ``"skip"``: the message is put aside (``Inbox.aside``), and the next
            message is handled. ``"stop"``: no more messages of the key are handled until ``Inbox.resume``.

    Raises:
        ConfigurationError: an argument is wrong, the function can't be guarded, or its trigger gets no bell of the
            inbox. In a Functions worker with the option ``fail_fast`` off every call raises the error instead.

    Example:
        >>> inbox = Inbox("orders")
        >>> @ordered(inbox)
        ... def ship(message: InboxMessage) -> None: ...
    """
    if not isinstance(inbox, Inbox):
        raise ConfigurationError("@ordered needs an inbox: @ordered(inbox), with inbox = Inbox(...)")

    def guarded(function: Callable[..., Any], _: object, trigger: Trigger | None) -> Callable[..., Any]:
        check_guardable(function, "@ordered")
        refuse_coalescing(function, "@ordered")
        if inspect.isgeneratorfunction(function):
            raise ConfigurationError(
                f"@ordered on {function.__name__}: it is a generator function, and nothing would run its body. Do the "
                "work in the function, without yield"
            )
        return _wrapped(function, inbox, checked_rules(attempts, on_poison), _parameter(function, trigger))

    return lambda target: declare(target, guarded)


def _parameter(function: Callable[..., Any], trigger: Trigger | None) -> str:
    """Return the parameter for the message: the trigger's, or the first if the trigger is not known."""
    parameters = signature_of(function).parameters
    name = next(iter(parameters), "") if trigger is None else trigger.parameter
    if name not in parameters:
        raise ConfigurationError(f"@ordered on {function.__name__}: it has no parameter for the message: add one")
    return name


def _rules(
    function: Callable[..., Any],
    inbox: Inbox,
    trigger: Trigger,
) -> Iterator[Callable[[], None]]:
    yield partial(_refuse_other_queue, function, inbox, trigger)
    yield partial(refuse_settings, trigger.function or function.__name__, inbox.bells.look_up_settings)


def _refuse_other_queue(function: Callable[..., Any], inbox: Inbox, trigger: Trigger) -> None:
    """Raise ``ConfigurationError`` if no bell of the inbox reaches the trigger of the function."""
    settings = environment()
    wrong = inbox.bells.wrong_queue(trigger, settings, app_dir_of(users_code(function).co_filename, settings))
    if wrong is not None:
        raise ConfigurationError(f"@ordered on {function.__name__}: {wrong}", reason="inbox-on-other-queue")


def _wrapped(function: Callable[..., Any], inbox: Inbox, rules: Rules, name: str) -> Callable[..., Any]:
    signature = Signature(function)
    is_async = returns_coroutine(function)

    def body(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[], Any]:
        named, context = signature.split(args, kwargs)
        storage = getattr(context, "thread_local_storage", None)
        invocation = Invocation(invocation_id(context), storage, function.__name__)

        def handle(message: InboxMessage) -> Any:
            arguments = {**named, name: message}
            for each, parameter in signature_of(function).parameters.items():
                if parameter.kind is parameter.VAR_KEYWORD:
                    arguments.update(arguments.pop(each, {}))
            return function(**arguments)

        with importing:
            from singleton.runtime.calls import SyncLocks, at_once
            from singleton.runtime.lock_thread import runtime

        _ = inbox.service  # which needs the SDK of queues: the lock thread loads it before its start
        answered = partial(_answered, inbox, named, name, handle, rules, invocation, is_async=is_async)
        return lambda: answered(runtime()) if is_async else at_once(answered(SyncLocks(runtime())))

    wrapper = signature.wrapper(function, body)
    setattr(wrapper, ORDERED_MARK, inbox)
    add_rules(wrapper, function, partial(_rules, function, inbox))
    # The worker reads the annotations: what comes from the queue is a QueueMessage, as without any.
    shown = signature_of(wrapper)
    wrapper.__annotations__ = {key: kind for key, kind in annotations_of(function).items() if key != name}
    plain = [each.replace(annotation=each.empty) if each.name == name else each for each in shown.parameters.values()]
    wrapper.__signature__ = shown.replace(parameters=plain)  # type: ignore[attr-defined]
    return wrapper


async def _answered(
    inbox: Inbox,
    named: dict[str, Any],
    name: str,
    handle: Callable[[InboxMessage], Any],
    rules: Rules,
    invocation: Invocation,
    locks: Locks,
    *,
    is_async: bool,
) -> None:
    """Handle the messages of a bell in an invocation; ``name`` is the parameter with the bell."""
    with importing:
        from singleton.patterns.ordered.bells import bell_in
        from singleton.patterns.ordered.visit import SpareBell, Visit, put_off

    given = named.get(name)
    service, bell = inbox.service, bell_in(given, inbox.name)
    with invocation:
        insurance = SpareBell(service, locks, bell)
        owner = invocation.id or ""
        outcome = await Visit(service, locks, bell, handle, rules, insurance, is_async, owner, named.values()).made()
        if outcome.error is None:
            return
        # The invocation fails, but the host must not have the bell back: another is rung where there is a need.
        known = getattr(given, "id", None), getattr(given, "pop_receipt", None)
        deleted = False
        if all(isinstance(each, str) and each for each in known):
            ours: Any = known
            with suppress(StorageError):
                deleted = await locks.call_async(lambda registry: put_off(service, registry, ours, None))
        if deleted:
            raise outcome.error
        _log.error(
            "%s failed; the inbox keeps its message, so it ends as a success",
            invocation.function,
            exc_info=outcome.error,
        )
