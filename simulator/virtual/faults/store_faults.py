"""The faults of the code between a lock and its storage, and of log handlers: no protocol says how they fail."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from simulator.faults.fault_record import drawn
from simulator.virtual.faults.network_faults import NetworkFault
from simulator.virtual.faults.world_fault import Lasting, about, sometimes
from singleton.stores.azure_blob import Judging
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping, Sequence

    from simulator.virtual.faults.world_fault import Target
    from simulator.virtual.storage.network import NetworkRequest, Passage


_ERRORS: Final[dict[str, Callable[[], Exception]]] = {
    "ValueError": lambda: ValueError("simulated: an answer that makes no sense"),
    "OSError": lambda: OSError(104, "simulated: connection reset by peer"),
    "KeyError": lambda: KeyError("simulated: etag"),
    "RuntimeError": lambda: RuntimeError("simulated: session is closed"),
    "TimeoutError": lambda: TimeoutError("simulated"),
    "418": lambda: StoreFailure(418, "SimulatedTeapot", "simulated"),
    "409": lambda: StoreFailure(409, "SimulatedConflict", "simulated"),
    "507": lambda: StoreFailure(507, "SimulatedShortage", "simulated"),
}
_WHEN: Final = ("unsent", "unread")


_OF_LEASES: Final = frozenset({"acquire", "renew", "release", "evict", "break_", "create", "read", "write"})


class StoreFault(NetworkFault):
    """A rule about the requests of locks to their store; queues have stores of their own."""

    __slots__ = ()

    def concerns(self, request: NetworkRequest) -> bool:
        return request.call in _OF_LEASES and super().concerns(request)


@dataclass(frozen=True, slots=True, kw_only=True)
class StrangeError(StoreFault, kind="strange error"):
    """The store raises any exception, before it sends a request or when it has the reply."""

    allowed: ClassVar[Mapping[str, Sequence[str]]] = {"error": tuple(_ERRORS), "when": _WHEN}
    seconds: float = about(0.2, 2, 5, 10, 20, 40)
    percent: int = drawn(100, lambda rng: rng.choice([10, 50, 100]))
    error: str = drawn("ValueError", lambda rng: rng.choice(list(_ERRORS)))
    when: str = drawn("unsent", lambda rng: rng.choice(_WHEN))

    def affect(self, passage: Passage, rng: random.Random, since: float) -> None:  # noqa: ARG002
        if rng.random() * 100 < self.percent:
            error = _ERRORS[self.error]()
            if isinstance(error, StoreFailure):
                passage.answer = error  # the service gives it instead of carrying the request out
            elif self.when == "unsent":
                passage.unsent = error
            else:
                passage.unread = error

    def words(self) -> str:
        share = "" if self.percent == 100 else f"{self.percent} % of "
        if self.error.isdigit():
            return f"{share}the requests of {self.whose} are answered {self.error} for {self.seconds:g} s"
        how = "are not sent" if self.when == "unsent" else "are carried out, and their replies can't be read"
        return f"{share}the requests of {self.whose} {how} ({self.error}) for {self.seconds:g} s"


def _heard(error: type[BaseException]) -> StoreFailure:
    """Return what a request hears, by the shipped code, of a credential that raises this error."""

    async def token() -> None:
        raise error("simulated: no token")

    try:
        Judging()(token()).send(None)
    except StoreFailure as failure:
        return StoreFailure(detail=str(failure), source="unsent")
    raise AssertionError("a credential that raises has given a token")


_REFUSALS: Final[dict[str, Callable[[], Exception]]] = {
    "invalid tenant": lambda: ValueError("simulated: invalid tenant"),
    "401": lambda: StoreFailure(401, None, "simulated: authentication failed", source="unsent"),
    "no answer": lambda: StoreFailure(detail="simulated: no token", source="unsent"),
    **{
        error.__name__: partial(_heard, error)
        for error in (SystemExit, KeyboardInterrupt, asyncio.CancelledError, GeneratorExit)
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FailingCredentials(StoreFault, kind="failing credentials"):
    """The credentials give no token: each request fails on the host itself, until they work again."""

    allowed: ClassVar[Mapping[str, Sequence[str]]] = {"error": tuple(_REFUSALS)}
    said: ClassVar[str] = "{0.whose} can't get a token ({0.error}) for {0.seconds:g} s"
    seconds: float = about(1, 5, 12, 20, 40, 80)
    error: str = drawn("invalid tenant", lambda rng: rng.choice(list(_REFUSALS)))

    def affect(self, passage: Passage, rng: random.Random, since: float) -> None:  # noqa: ARG002
        passage.unsent = _REFUSALS[self.error]()


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockedLog(Lasting, kind="blocked log"):
    """A log handler blocks the code that logs. Or it raises, as listeners of events and callbacks on a loss do.

    On the lock thread and the log thread each kind of error is raised in turn, ``SystemExit`` and its like too.
    """

    said: ClassVar[str] = "{0.what} for {0.seconds:g} s"
    raises: bool = sometimes(0.3)

    @property
    def what(self) -> str:
        """Say what the watchers do."""
        of = f"of host-{self.host}"
        return f"log handler, listeners and callbacks {of} raise" if self.raises else f"the log handler {of} blocks"

    def strike(self, world: Target) -> None:
        world.spoil_log(self.host, self.seconds, raises=self.raises)
