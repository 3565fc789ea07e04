"""The requirements of ``on_contention="defer"`` for a function and a message.

What can't be deferred is refused at the declaration if the trigger is known there, else at the invocation, which then
fails: nothing is lost.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from singleton.base.errors import ConfigurationError
from singleton.functions.misdeclaration import OF_THE_APP
from singleton.functions.triggers import QUEUE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from singleton.functions.triggers import Trigger

_LONGEST_WAIT: Final = 240.0
"""Seconds that an invocation may wait before the deferral: the host changes the receipt after 300 (H-35)."""


def check_deferrable(function: str, wait: float | None, trigger: Trigger | None) -> None:
    """Raise ``ConfigurationError`` if trigger, time-out or installation do not allow ``on_contention="defer"``."""
    if wait is not None and wait > _LONGEST_WAIT:
        raise ConfigurationError(
            f"timeout is {wait:g} with on_contention='defer': give at most {_LONGEST_WAIT:g} seconds, because the host "
            "changes a message's receipt soon after that. A deferred message waits in its queue"
        )
    if trigger is not None:
        _check_trigger(function, trigger)
    check_installed("on_contention='defer'", OF_THE_APP)


def _check_trigger(function: str, trigger: Trigger) -> None:
    if trigger.type != QUEUE:
        raise ConfigurationError(
            f"{function} can't use on_contention='defer': its trigger is a {trigger.type}, and only messages of a "
            "storage queue (queueTrigger) can be put back. Use 'wait', 'skip' or 'raise'",
            reason="defer-on-trigger",
        )


def check_message(function: str, trigger: Trigger | None, arguments: Mapping[str, Any]) -> Trigger:
    """Refuse an invocation whose message could not be put back: at its start, rather than when the lock is busy."""
    from singleton.functions.message_properties import is_whole

    if trigger is None:
        raise ConfigurationError(
            f"{function} can't use on_contention='defer': @singleton doesn't see its trigger. Put @singleton above the "
            "trigger's decorator"
        )
    _check_trigger(function, trigger)
    message = arguments.get(trigger.parameter)
    if not is_whole(message, trigger):
        raise ConfigurationError(
            f"{function} can't use on_contention='defer': its parameter {trigger.parameter} is a "
            f"{type(message).__name__}, which has no message id. Annotate the parameter as func.QueueMessage"
        )
    return trigger


def check_installed(what: str, reason: str | None = None) -> None:
    """Raise ``ConfigurationError`` if the package azure-storage-queue, which ``what`` needs, is missing."""
    try:
        found = find_spec("azure.storage.queue")
    except ModuleNotFoundError:
        found = None
    if found is None:
        raise ConfigurationError(
            f"{what} needs the package azure-storage-queue (the extra [defer]): add azure-storage-queue[aio] to "
            "requirements.txt",
            reason=reason,
        )
