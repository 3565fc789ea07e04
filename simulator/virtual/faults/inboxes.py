"""The faults of inboxes: worlds of the workload ``ordered`` have them, and all others too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Self

from simulator.virtual.faults.fault import about, drawn
from simulator.virtual.faults.network import DISTURBANCES, Disturbed
from simulator.virtual.faults.queues import OneQueueRequest

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping, Sequence

_CALLS: Final = {
    "append": "messages into logs",
    "drop": "deletions of logs",
    "tail": "reads of logs",
    "start_log": "makings of logs",
    "label": "labels of logs",
    "create": "marks of an end",
    "read": "looks at blobs",
    "page": "listings",
    "put": "writes of offsets",
    "get": "reads of offsets",
    "queue send": "bells",
    "queue receive": "receipts of bells",
    "queue delete": "deletions of bells",
    "queue update": "bells that are put off",
}
_MOSTLY: Final = ("append", "append", "append", "drop", "drop", "tail", "start_log", "put", "put", "create", "label")
_FATES: Final = (
    *("request lost", "reply lost", "reply reset", "late", "late", "reply late", "twice", "twice"),
    *("host dies before", "host dies after", "host dies after", "host pauses", "403", "500", "503"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogsDisturbed(Disturbed, kind="logs disturbed"):
    """The requests of a host for logs, offsets or bells go wrong in one way for some seconds."""

    of: ClassVar[tuple[str, ...]] = ("ordered",)
    allowed: ClassVar[Mapping[str, Sequence[str]]] = {"call": tuple(_CALLS), "fate": tuple(DISTURBANCES)}
    names: ClassVar[Mapping[str, str]] = _CALLS
    seconds: float = about(0.5, 2, 4, 8, 20, 40)
    call: str = drawn("append", lambda rng: rng.choice((*_MOSTLY, *_CALLS)))


@dataclass(frozen=True, slots=True, kw_only=True)
class OneLogRequest(OneQueueRequest, kind="log request"):
    """The next requests of a kind to the logs, offsets or bells of an inbox meet their fate."""

    of: ClassVar[tuple[str, ...]] = ("ordered",)
    allowed: ClassVar[Mapping[str, Sequence[str]]] = {"call": tuple(_CALLS), "fate": tuple(dict.fromkeys(_FATES))}
    call: str = "append"
    by_locks: bool = False

    @classmethod
    def draw(cls, rng: random.Random, *, hosts: int, until: float) -> Self:
        at, host = round(rng.uniform(0, until), 3), rng.randrange(hosts)
        call, fate = rng.choice((*_MOSTLY, *_CALLS)), rng.choice(_FATES)
        seconds = round(rng.choice([0.5, 2, 4, 12, 20, 35]) * rng.uniform(0.9, 1.1), 3)
        return cls(at=at, host=host, call=call, fate=fate, seconds=seconds, times=rng.choice([1, 1, 1, 2, 4]))

    def words(self) -> str:
        return super(OneLogRequest, self).words().replace("start_log", "making of a log")
