"""The verdict on a world: the one that real hosts get, by the same checks, from records of the same schema.

Hosts and faults write what real hosts and the fleet write. Beside that a world says that anything may strike in it
(``rough``), so that what no lock can help is excused, and that its kills are not aimed at holders: the verdict's bound
on failovers is that of a quiet network, and means nothing here. The oracle judges failovers, by what each fault does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from simulator.journal import Record
from simulator.verdict import judge

if TYPE_CHECKING:
    from collections.abc import Iterable

    from singleton.guard import Guard


def broken_promises(records: Iterable[Record]) -> tuple[str, ...]:
    """Return what the verdict says was broken, a sentence each: exclusion, tokens, guards, messages."""
    begin = Record(0.0, "world", "run_started", {"rough": True, "aimed": False})
    return judge([begin, *(record for record in records if record.event != "request")]).violations


def told_of(name: str, guard: Guard | None, *, queue: str, is_async: bool) -> dict[str, Any]:
    """Return what a host's journal tells of a function, as far as the verdict asks for it."""
    told: dict[str, Any] = {"name": name, "trigger": "queue" if queue else "", "queue": queue, "async": is_async}
    if guard is None:
        return {**told, "guarded": False}
    policy = guard.on_contention if isinstance(guard.on_contention, str) else "custom"
    return {**told, "guarded": True, "mode": guard.mode, "on_contention": policy, "lease": guard.period}
