"""Declarations that their trigger, or the output of the result, can't take: no invocation would end well.

``who`` is decorator and function, as the errors begin.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import re
from typing import TYPE_CHECKING, Any, Final

from singleton.base.appsettings import environment, is_disabled
from singleton.base.callables import annotations_of
from singleton.base.errors import ConfigurationError, ScopeError
from singleton.base.forks import importing
from singleton.base.words import with_article
from singleton.functions.misdeclaration import in_worker
from singleton.functions.triggers import (
    GUARDS_MARK,
    MCP_TOOL,
    QUEUE,
    REPLAY,
    TIMER,
    WRITTEN_ONE_BY_ONE,
    is_http,
    is_streamed_request,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from singleton.base.appsettings import Environment
    from singleton.functions.triggers import Trigger

_COSMOS: Final = "cosmosDBTrigger"
_ARGUMENTS: Final = {
    MCP_TOOL: ("toolProperties", "propertyName", "tool"),
    "mcpPromptTrigger": ("promptArguments", "name", "prompt"),
}
"""Where triggers tell of the arguments: the setting, the property with the name, and what has them."""
_NAMED_ARGUMENT: Final = r"(?<!\{)\{(?:(?i:arguments)\.)?(\w+)"
_OF_CALLS: Final = frozenset({"arguments", "clientinfo", "name", "sessionid", "transport"})
"""Names of the call of an MCP tool, beside its arguments."""


def declared_as(function: Callable[..., Any] | None, trigger: Trigger) -> object:
    """Return the annotation of the trigger's parameter, as a class where the app has a class of the name."""
    annotations = annotations_of(function)
    if function is not None and isinstance(annotations.get(trigger.parameter), str):
        with contextlib.suppress(Exception):  # a name that only a type checker knows
            annotations = inspect.get_annotations(function, eval_str=True)
    return annotations.get(trigger.parameter)


def declared_type(function: Callable[..., Any] | None, trigger: Trigger) -> str:
    """Return the name of the type that the trigger's parameter is declared as; empty: none."""
    annotation = declared_as(function, trigger)
    name = getattr(annotation, "__name__", str(annotation)) if annotation is not None else ""
    return str(name).partition("[")[0].rpartition(".")[2]


def refuse_replay(who: str, decorator: str, trigger: Trigger) -> None:
    """Refuse an orchestrator or an entity."""
    if trigger.is_replayed:
        raise ConfigurationError(f"{who}: it {REPLAY.format(decorator)}", reason="durable-replay")


def refuse_policy(who: str, policy: object, trigger: Trigger | None, arguments: Mapping[str, Any]) -> None:
    """Refuse a policy whose end of an invocation is no answer for the trigger or the output.

    Below a decorator that hides the guard, no trigger is known. The arguments of an invocation tell of a request then.
    """
    if policy == "conflict":
        _refuse_conflict(who, trigger, arguments)
    if policy not in ("skip", "defer", "coalesce"):
        return
    if is_http(trigger, arguments) and policy != "defer":
        raise ConfigurationError(
            f"{who}: on_contention={policy!r} ends an invocation without a result, but an HTTP trigger must answer, or "
            "its caller gets status 500. Use 'conflict', which answers 409, or 'wait' or 'raise'",
            reason="skip-on-http",
        )
    refuse_none(who, f"on_contention={policy!r}", trigger, "on_contention 'wait' or 'raise'")


def _refuse_conflict(who: str, trigger: Trigger | None, arguments: Mapping[str, Any]) -> None:
    remedy = "use 'raise', so that the invocation fails and is tried again"
    if not is_http(trigger, arguments):
        what = (
            "none of its arguments is a request" if trigger is None else f"its trigger is {with_article(trigger.type)}"
        )
    elif trigger is None or trigger.returns == "http":
        return
    else:
        what = (
            "no output takes what it returns"
            if trigger.returns is None
            else f"what it returns goes to its {trigger.returns!r} output"
        )
        remedy = (
            'return the response, with @app.generic_output_binding(arg_name="$return", type="http"); or use \'raise\''
        )
    raise ConfigurationError(
        f"{who}: on_contention='conflict' answers HTTP requests, and {what}: {remedy}", reason="conflict-without-http"
    )


def refuse_none(who: str, what: str, trigger: Trigger | None, otherwise: str) -> None:
    """Refuse to end an invocation as None where the worker can't hand that on: it would fail, and be tried again.

    ``what`` is the argument that ends invocations as None, ``otherwise`` what to declare instead, to keep the output.
    """
    if trigger is not None and not trigger.may_end_as_none:
        raise ConfigurationError(
            f"{who}: {what} ends an invocation without a result, but the function's result goes to its "
            f"{trigger.returns!r} output, where the worker refuses None: the invocation would fail. Give the "
            'output its own parameter, such as arg_name="out" with out: func.Out[str], and set that instead of '
            f"returning; or use {otherwise}",
            reason="none-for-output",
        )


def refuse_returned(who: str, trigger: Trigger) -> None:
    """Refuse ``outputs="first"`` of ``@once`` where the result is an output: a repeat returns it, too."""
    if trigger.returns not in (None, "http"):
        raise ConfigurationError(
            f"{who}: outputs='first' sends outputs once, and each repeat would send the result to the "
            f'{trigger.returns!r} output. Give the output its own parameter, such as arg_name="out" with '
            "out: func.Out[str], and set that instead of returning"
        )


def refuse_blocking(who: str, decorator: str, trigger: Trigger) -> None:
    """Refuse a plain ``def`` that may wait and that a coroutine calls: it would block the loop with the holder."""
    if trigger.on_loop:
        raise ConfigurationError(
            f"{who}: @app.mcp_tool() calls a plain def on the event loop of the worker, and a wait for the lock would "
            f"block the loop, with the holder of the lock. Write `async def`; or put {decorator} above "
            "@app.mcp_tool(); or don't wait: on_contention='raise'",
            reason="blocks-event-loop",
        )


def refuse_scope(who: str, looked_up: str, trigger: Trigger) -> None:
    """Refuse a scope or key that is looked up in a message, where there is none, or a list of them."""
    cardinality, many = trigger.settings.get("cardinality"), trigger.settings.get("maxItemsPerInvocation") != 1
    if trigger.type == TIMER:
        why = "a payload, and a timer has none. Leave it out, or use scope_id with text and %SETTING%"
    elif str(getattr(cardinality, "name", cardinality)).upper() == "MANY":
        why = "a message, and the trigger delivers lists. Set cardinality to 'one', or leave the scope out"
    elif trigger.type == _COSMOS and many:
        why = "a document, and the trigger delivers lists. Set max_items_per_invocation=1, or leave the scope out"
    else:
        return
    reason = "scope-on-timer" if trigger.type == TIMER else "scope-on-batch"
    raise ConfigurationError(f"{who}: {looked_up} is looked up in {why}", reason=reason)


def refuse_no_argument(who: str, looked_up: str, template: str, path: str, trigger: Trigger) -> None:
    """Refuse a name that is none of the arguments of an MCP tool or prompt, nor of the call's other names."""
    known = _ARGUMENTS.get(trigger.type)
    if known is None:
        return
    setting, key, what = known
    try:
        published = {str(each[key]) for each in json.loads(trigger.settings[setting])}
    except (KeyError, TypeError, ValueError):  # given by hand, or left to the host
        return
    names = {name.casefold() for name in re.findall(_NAMED_ARGUMENT, template)}
    missing = names - {name.casefold() for name in published} - _OF_CALLS
    if path and (first := path.removeprefix("arguments:").partition(":")[0]) not in published | _OF_CALLS:
        missing.add(first)
    if missing:
        raise ConfigurationError(
            f"{who}: {looked_up}: the {what} {trigger.function} has no argument {', '.join(sorted(missing))}; it has "
            f"{', '.join(sorted(published)) or 'none'}. Name one of these",
            reason="scope-not-an-argument",
        )


def refuse_streamed(who: str, looked_up: str, function: Callable[..., Any] | None, trigger: Trigger) -> None:
    """Refuse a property of the body of a streamed request, which only the function can read."""
    if is_http(trigger, {}) and is_streamed_request(declared_as(function, trigger)):
        raise ConfigurationError(
            f"{who}: {looked_up} is looked up in the body, and nobody can read the body of a streamed request before "
            "the function does. Name the route, the query or a header in braces, such as '{query.id}', in the scope_id "
            "of @singleton or the key of @once",
            reason="scope-in-streamed-body",
        )


def refuse_generator(guarded: Callable[..., Any], trigger: Trigger) -> None:
    """Refuse a guarded generator: no body runs, and only some outputs take what it makes."""
    may_yield = trigger.is_replayed or trigger.returns in WRITTEN_ONE_BY_ONE
    if inspect.isgeneratorfunction(guarded) and not may_yield:
        raise ConfigurationError(
            f"{guarded.__name__} has a yield, so a call of it runs nothing of its body: each invocation fails. Do the "
            "work in the function, and return a value or a list",
            reason="generator-function",
        )


def refuse_settings(function: str, look_up: Callable[[Environment], object]) -> None:
    """Refuse a missing or wrong app setting: in a worker, which has all of them, of a function that the host runs."""
    if not in_worker():
        return
    settings = environment()
    try:
        look_up(settings)
    except (ConfigurationError, ScopeError) as error:
        if not is_disabled(function, settings):
            raise error if isinstance(error, ConfigurationError) else ConfigurationError(str(error)) from None


def refuse_same_lock(who: str, name: tuple[str, ...], old: tuple[str, ...]) -> None:
    """Refuse an ``also=`` whose lock, by account, container and name, is the one that the function has anyway."""
    if name == old:
        raise ConfigurationError(
            f"{who}: also= names the lock that the function has anyway. Say what was different before, or leave also= "
            "out",
            reason="old-lock-is-the-same",
        )


# --- messages that are put back ---------------------------------------------------------------------------------------


def refuse_trigger(who: str, trigger: Trigger) -> None:
    """Refuse a trigger whose messages can't be put back."""
    if trigger.type != QUEUE:
        raise ConfigurationError(
            f"{who}: its trigger is {with_article(trigger.type)}, "
            "and only messages of a storage queue (queueTrigger) can be put "
            "back. Use on_contention 'wait', 'skip' or 'raise'",
            reason="defer-on-trigger",
        )


def refuse_several(guarded: Any, triggers: Sequence[Trigger]) -> None:
    """Refuse to put messages back where several functions of the app have one entry point, and other queues."""
    names = " and ".join(each.function for each in triggers)
    for each in getattr(guarded, GUARDS_MARK, ()):
        if "defer" in (each.on_contention, each.when_full):
            raise ConfigurationError(
                f"{each.decorator} on {each.function}: 'defer' puts a message back into the queue of its trigger, and "
                f"{names} have this entry point, with triggers that differ. Give each an entry point of its own"
            )


def refuse_text(who: str, trigger: Trigger, declared: str, refused: Sequence[str] = ("str", "bytes", "dict")) -> None:
    """Refuse a parameter that is no message: ``declared`` is the name of its type, or of the type of its value."""
    if declared in refused:
        raise ConfigurationError(
            f"{who}: a message is put back by its id, and the parameter {trigger.parameter} is a {declared}, which has "
            "none. Annotate the parameter as func.QueueMessage",
            reason="defer-without-message",
        )


def check_message(who: str, trigger: Trigger | None, arguments: Mapping[str, Any]) -> Trigger:
    """Refuse an invocation whose message could not be put back: at its start, rather than when the lock is busy."""
    with importing:
        from singleton.functions.message_properties import is_whole

    if trigger is None:
        raise ConfigurationError(
            f"{who}: on_contention='defer' needs the trigger, which is not known here: no app has listed the function, "
            "and no app is a global of its module. Put @singleton above the trigger's decorator"
        )
    refuse_trigger(who, trigger)
    message = arguments.get(trigger.parameter)
    if not is_whole(message, trigger):
        refuse_text(who, trigger, kind := type(message).__name__, (kind,))
    return trigger
