"""The policies of ``on_contention``: how an invocation goes on while another has the lock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from singleton.base.callables import refuse_async
from singleton.base.errors import ConfigurationError
from singleton.base.kinds import POLICIES, Policy
from singleton.base.tasks import decided
from singleton.base.words import called, check_arity, did_you_mean, quoted
from singleton.functions.bindings import is_message
from singleton.functions.message_properties import own, own_id, replaced_names

if TYPE_CHECKING:
    from singleton.base.events import Call
    from singleton.functions.triggers import Trigger

_ANSWERS: Final = tuple(policy for policy in POLICIES if policy != "coalesce")
"""What a function may return: all invocations of a lock must coalesce, or none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contention:
    """The contention, for a policy that is a function.

    Attributes:
        function: name of the function.
        lock: name of the lock's blob.
        owner: the invocation's id.
        message_id: id of the message, or an event's sequence number if there is no id; None without a message, or if
            the body has an ``Id``, which the host shows instead (H-80).
        dequeue_count: how often the message has been received, this time included; 0: unknown, for example because
            the body has a ``DequeueCount``.
        waiting: how many further invocations of this process wait for the lock now.
    """

    function: str
    lock: str
    owner: str
    message_id: str | None = None
    dequeue_count: int = 0
    waiting: int = 0

    @classmethod
    def over(cls, call: Call, trigger: Trigger | None, waiting: int = 0) -> Contention:
        """Return the contention of an invocation; its trigger may be unknown. ``waiting``: how many others wait."""
        values = call.arguments.values() if trigger is None else [call.arguments.get(trigger.parameter)]
        message = next(filter(is_message, values), None)
        replaced = replaced_names(message, trigger)
        count = own(message, "dequeue_count", replaced) or own(message, "delivery_count", replaced)
        return cls(
            function=call.function,
            lock=call.lock,
            owner=call.owner,
            message_id=own_id(message, trigger),
            dequeue_count=count if isinstance(count, int) else 0,
            waiting=waiting,
        )


OnContention: TypeAlias = Policy | Callable[[Contention], Policy]
"""What ``on_contention`` takes: a policy, or a function that is given a ``Contention`` and returns one."""


def check_policy(policy: object) -> None:
    """Raise ``ConfigurationError`` unless the policy is a known word or a plain function."""
    refuse_async(policy, "on_contention")
    if callable(policy) and not isinstance(policy, type):
        check_arity("on_contention", policy, "one argument, a Contention")
        return
    if policy in POLICIES:
        return
    hint = did_you_mean(str(policy), POLICIES)
    allowed = ", ".join(map(repr, POLICIES))
    raise ConfigurationError(f"on_contention is {quoted(policy)}: it must be one of {allowed}, or a function{hint}")


def decide(policy: OnContention, contention: Contention) -> Policy:
    """Return what to do, asking a policy of the user's own; refuse an answer that is no policy. See ``decided``."""
    if not callable(policy):
        return policy
    name = f"on_contention={called(policy)}"
    answer = decided(name, partial(policy, contention))
    if answer not in _ANSWERS:
        raise ConfigurationError(
            f"{name} returned {quoted(answer)}: it must return one of {', '.join(map(repr, _ANSWERS))}"
        )
    return answer
