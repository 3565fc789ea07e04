"""What happens in a world, written down as real hosts write it, and the result.

The verdict is the one that real hosts get, by the same checks, from records of the same schema: hosts and faults write
what real hosts and the fleet write. A world also says that any fault may happen in it (``rough``), so that what no lock
can prevent is excused, and that its kills are not aimed at holders. The verdict's bound on failovers is for a quiet
network, and means nothing here. The oracle judges failovers, by what each fault does.

And the fenced resource that the bodies of virtual worlds write to.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from simulator.checks.verdict import judge
from simulator.history.journal import Record

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable, Mapping

    from simulator.virtual.oracle.evidence import Violation
    from simulator.virtual.storage.network import NetworkRequest, Passage
    from simulator.virtual.storage.service import Tenure
    from simulator.virtual.time.loop import VirtualLoop
    from singleton.base.events import LockEvent
    from singleton.base.hold import Hold


_OF_LOCKS: Final = ("kind", "lock", "function", "owner", "token", "reason", "mode", "message_id", "copy_id")


_LINE: Final = b"\n"


@dataclass(slots=True)
class Account:
    """How the bodies of one function of the user's app ended."""

    messages: bool  # whether a queue triggers it
    well: int = 0  # how many invocations ended well
    failed: int = 0  # how many ended by an error of its own
    error: str = ""  # the first of these errors, as ``Type: text``
    stale: int = 0  # how many of these told of a loss that the lock knows nothing of
    went_on: int = 0  # how many bodies ran on after their lock was lost, as nobody could end them or should
    longest: float = 0.0  # for how many seconds at most
    endless: int = 0  # how many bodies had not ended when their world was given up

    def add(self, other: Account) -> None:
        """Add the counts of another world."""
        self.well += other.well
        self.failed += other.failed
        self.stale += other.stale
        self.error = self.error or other.error
        self.went_on += other.went_on
        self.longest = max(self.longest, other.longest)
        self.endless += other.endless


@dataclass(frozen=True, slots=True)
class Run:
    """The result of a world: violations, states reached, all that happened, and the counts of an app's functions."""

    violations: tuple[Violation, ...]
    reached: Counter[str]
    seconds: float
    turns: int
    records: tuple[Record, ...] = field(repr=False, default=())
    accounts: Mapping[str, Account] = field(repr=False, default_factory=dict)

    @property
    def history(self) -> str:
        """A hash of the world's events."""
        digest = hashlib.sha256()
        for record in self.records:
            digest.update(repr((record.t, record.host, record.event, record.fields)).encode())
        return digest.hexdigest()[:16]


class Chronicle:
    """Records events, at the instant of each event."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.records: list[Record] = []
        self._loop = loop

    def note(self, host: str, event: str, /, **fields: object) -> None:
        """Write down what happened now."""
        self.records.append(Record(self._loop.now, host, event, fields))

    def hear(self, host: str, event: LockEvent) -> None:
        """Write down an event of a host's lock."""
        self.note(host, "lock", **{name: getattr(event, name) for name in _OF_LOCKS})

    def answered(
        self, request: NetworkRequest, failure: Exception | None, passage: Passage, tenure: Tenure | None
    ) -> None:
        """Write down a request that the service has answered; ``tenure`` is who has the lease after it."""
        granted = failure is None and tenure is not None and tenure.lease_id == request.lease_id
        self.note(
            request.machine.name,
            "request",
            call=request.call,
            name=request.name,
            answer="ok" if failure is None else str(failure),
            about=_about(request),
            out=round(passage.out, 3),
            back=None if passage.reply_lost else round(passage.back, 3),
            lease=request.lease_id,
            until=tenure.expires if granted and tenure is not None else None,
            retry_after=getattr(failure, "retry_after", None),
        )

    def lost(self, request: NetworkRequest) -> None:
        """Write down a request that never arrives."""
        told = {"call": request.call, "name": request.name, "lease": request.lease_id, "about": _about(request)}
        self.note(request.machine.name, "request", answer="lost", **told)


def _about(request: NetworkRequest) -> str:
    """Return which message a request is about: its id in a queue, or its number in the log of an inbox."""
    if request.call == "append":
        with suppress(ValueError, KeyError, IndexError):
            return f"number {json.loads(bytes(request.args[0]).partition(_LINE)[0])['n']}"
    about: str = getattr(request, "message", "")
    return about[:40]


def told(records: Iterable[Record]) -> list[Record]:
    """Return the records that real hosts and the fleet would have written."""
    begin = Record(0.0, "world", "run_started", {"rough": True, "aimed": False})
    return [begin, *(record for record in records if record.event not in ("request", "failover"))]


def broken_promises(records: Iterable[Record]) -> tuple[str, ...]:
    """Return the promises that the verdict finds broken, a sentence each: exclusion, tokens, guards, messages."""
    return judge(told(records)).violations


class Refused(Exception):
    """The fenced resource refused a stale token."""


class Resource:
    """The bodies write to it. It remembers the highest token of each lock, and refuses a smaller one."""

    def __init__(self, reached: Counter[str]) -> None:
        self._highest: dict[str, int] = {}
        self._reached = reached

    def write(self, hold: Hold) -> None:
        """Write under the token of ``hold``."""
        self._reached["writes after a loss"] += hold.lost.is_set()
        token = hold.token or 0
        if token < self._highest.get(hold.lock, 0):
            self._reached["stale holder refused"] += 1
            raise Refused(f"token {token} is older than {self._highest[hold.lock]}")
        self._highest[hold.lock] = token
        self._reached["writes"] += 1
