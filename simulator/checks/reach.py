"""Which functions of the app the run exercised, and how: by the rules of their triggers, or only delivered.

A guarded function is exercised if its body ran, any other one if it was invoked. Only of guarded functions anything is
shown; the others run beside them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from simulator.checks.findings import count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.history.facts import History
    from simulator.history.functions import Function

How = Literal["simulated", "delivered", "not exercised"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """How far the run came with one function: ``why`` says why it did not exercise it."""

    exercised: bool
    how: How
    why: str = ""


def reach_of(history: History) -> dict[str, Reach]:
    """Return for each function how the run exercised it."""
    return dict(_reaches(history))


def _reaches(history: History) -> Iterator[tuple[str, Reach]]:
    calls = Counter(call.function for call in history.invocations)
    bodies = Counter(section.function for section in history.sections)
    for name, function in history.functions.items():
        if bodies[name] if function.guarded else calls[name]:
            yield name, Reach(exercised=True, how="delivered" if function.how == "delivered" else "simulated")
        else:
            yield name, Reach(exercised=False, how="not exercised", why=_why(history, function, calls[name]))


def _why(history: History, function: Function, calls: int) -> str:
    if function.idle:
        return function.idle
    if calls:
        errors = Counter(
            call.raised or call.error.partition(":")[0]
            for call in history.invocations
            if call.function == function.name and call.error
        )
        name = errors.most_common(1)[0][0] if errors else ""
        return f"its body never ran: {count(calls, 'invocation')} ended before it" + (f" with {name}" if name else "")
    if function.how == "delivered":
        return f"nothing was delivered to it: its {function.trigger} trigger gets only what --messages FILE says"
    if function.route:
        return "no request was made for it: give one with --messages FILE"
    return "nothing triggered it during the run"
