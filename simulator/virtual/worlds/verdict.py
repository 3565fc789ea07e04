"""The verdict on a world: the one that real hosts get, by the same checks, from records of the same schema.

Hosts and faults write what real hosts and the fleet write. Beside that a world says that anything may strike in it
(``rough``), so that what no lock can help is excused, and that its kills are not aimed at holders: the verdict's bound
on failovers is that of a quiet network, and means nothing here. The oracle judges failovers, by what each fault does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulator.checks.verdict import judge
from simulator.history.journal import Record

if TYPE_CHECKING:
    from collections.abc import Iterable


def broken_promises(records: Iterable[Record]) -> tuple[str, ...]:
    """Return what the verdict says was broken, a sentence each: exclusion, tokens, guards, messages."""
    begin = Record(0.0, "world", "run_started", {"rough": True, "aimed": False})
    return judge([begin, *(record for record in records if record.event != "request")]).violations
