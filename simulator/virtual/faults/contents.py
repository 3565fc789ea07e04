"""The faults of state that is kept with a lock: worlds of ``state`` and ``once`` have them, and all others too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from simulator.virtual.faults.fault import about, drawn
from simulator.virtual.faults.network import DISTURBANCES, Disturbed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


_CALLS: Final = {"put": "writes of state", "get": "reads of state", "write": "writes of owners"}


@dataclass(frozen=True, slots=True, kw_only=True)
class StateDisturbed(Disturbed, kind="state disturbed"):
    """The requests of a host for the content of blobs go wrong in one way for some seconds."""

    of: ClassVar[tuple[str, ...]] = ("state", "once")
    names: ClassVar[Mapping[str, str]] = _CALLS
    allowed: ClassVar[Mapping[str, Sequence[str]]] = {"call": tuple(_CALLS), "fate": tuple(DISTURBANCES)}
    seconds: float = about(0.5, 2, 4, 8, 20, 40)
    call: str = drawn("put", lambda rng: rng.choice(("put", "put", "put", *_CALLS)))
