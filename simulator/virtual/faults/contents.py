"""The faults of state that is kept with a lock: worlds of ``state`` and of ``once`` have them beside all others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from simulator.virtual.faults.fault import about, befallen, drawn
from simulator.virtual.faults.network import NetworkFault
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping, Sequence

    from simulator.virtual.storage.network import Passage, Request

_CALLS: Final = {"put": "writes of state", "get": "reads of state", "write": "writes of owners"}
_FATES: Final = {
    "request lost": "are lost",
    "reply lost": "are carried out, and the replies are lost",
    "late": "arrive {0:g} s late",
    "reply late": "are answered {0:g} s late",
    "twice": "arrive twice, {0:g} s apart",
    "503": "are answered 503",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StateDisturbed(NetworkFault, kind="state disturbed"):
    """What a host asks of the content of blobs goes wrong in one way for some seconds."""

    of: ClassVar[tuple[str, ...]] = ("state", "once")
    allowed: ClassVar[Mapping[str, Sequence[str]]] = {"call": tuple(_CALLS), "fate": tuple(_FATES)}
    seconds: float = about(0.5, 2, 4, 8, 20, 40)
    call: str = drawn("put", lambda rng: rng.choice(("put", "put", "put", *_CALLS)))
    fate: str = drawn("late", lambda rng: rng.choice(("late", "late", "reply lost", *_FATES)))
    delay: float = drawn(1.0, lambda rng: round(rng.choice((0.3, 1.0, 3.0, 6.0, 15.0)) * rng.uniform(0.5, 1.5), 3))

    def concerns(self, request: Request) -> bool:
        """Tell whether the rule is about this request."""
        return (self.everybody or request.machine.index == self.host) and self.call == request.call

    def affect(self, passage: Passage, rng: random.Random, since: float) -> None:  # noqa: ARG002
        if not befallen(passage, self.fate, self.delay):
            passage.answer = StoreFailure(503, None, "simulated")

    def words(self) -> str:
        return f"{_CALLS[self.call]} of {self.whose} {_FATES[self.fate].format(self.delay)} for {self.seconds:g} s"
