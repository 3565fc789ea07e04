"""A field without processes: hosts by name, a clock that the test moves, and a list of what was done."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from simulator.nemesis.field import Field, Holding, Wanting
from simulator.nemesis.wires import Wire
from simulator.proxy.exchange import ProxyRequest
from tests.support.recording_proxy import name_of

if TYPE_CHECKING:
    import asyncio

    from simulator.nemesis.field import Tell

STORAGE = "BlobEndpoint=http://127.0.0.1:1/a;QueueEndpoint=http://127.0.0.1:2/a;"
SHIP = "locks/fleet/ship"


class FakeWire(Wire):
    """A wire that leads nowhere."""

    def __init__(self) -> None:
        loop = SimpleNamespace(call_soon_threadsafe=lambda call, *arguments: call(*arguments))
        super().__init__(STORAGE, cast("asyncio.AbstractEventLoop", loop))
        self.cuts = 0

    def cut(self) -> None:
        self.cuts += 1

    def fate(self, operation: str, *, lock: str = SHIP, method: str = "PUT") -> str:
        """Tell which action a request would suffer."""
        rule = self.blobs.rule_for(asked(operation, lock, method))
        return "" if rule is None else name_of(rule.action)


def asked(operation: str, lock: str = SHIP, method: str = "PUT") -> ProxyRequest:
    """Make a request about a lock."""
    headers = {"x-ms-lease-action": operation}
    return ProxyRequest(
        number=1, method=method, path=f"/a/webjobshost/{lock}", query={"comp": "lease"}, headers=headers
    )


class FakeField(Field):
    """Hosts that do what the test says."""

    def __init__(self, hosts: int = 5) -> None:
        self.time = 0.0
        self.names = [f"host-{number}" for number in range(1, hosts + 1)]
        self._wires: dict[str, Wire] = {name: FakeWire() for name in self.names}
        self.held: list[Holding] = []
        self.wanted: list[Wanting] = []
        self.known = frozenset({SHIP})
        self.paused: dict[str, float] = {}
        self.leaving: set[str] = set()
        self.away: set[str] = set()
        self.done: list[tuple[Any, ...]] = []
        self.records: list[tuple[str, dict[str, Any]]] = []
        self.refuses = False
        self.locked = True

    @property
    def locking(self) -> bool:
        return self.locked

    @property
    def wires(self) -> dict[str, Wire]:
        return self._wires

    def wire(self, host: str) -> FakeWire:
        return cast("FakeWire", self._wires[host])

    def now(self) -> float:
        return self.time

    def working(self) -> list[str]:
        out = {*self.paused, *self.leaving, *self.away}
        return [name for name in self.names if name not in out]

    def absent(self) -> int:
        return len(self.away) + len(self.leaving)

    def holdings(self) -> list[Holding]:
        return self.held

    def wantings(self) -> list[Wanting]:
        return self.wanted

    def locks(self) -> frozenset[str]:
        return self.known

    def lease(self) -> float:
        return 15.0

    def tend(self) -> None:
        pass

    def kill(self, host: str, tell: Tell, *, holding: bool) -> bool:
        if done := self._do(tell, "kill", host, holding):
            self.away.add(host)
        return done

    def pause(self, host: str, seconds: float, tell: Tell, *, holding: bool) -> bool:
        if done := self._do(tell, "pause", host, holding):
            self.paused[host] = self.time + seconds
        return done

    def stands(self, host: str) -> bool:
        return host in self.paused

    def wake(self, host: str) -> None:
        self.paused.pop(host, None)

    def drain(self, host: str, tell: Tell) -> bool:
        if done := self._do(tell, "drain", host):
            self.leaving.add(host)
        return done

    def is_gone(self, host: str) -> bool:
        return host not in self.leaving

    def operate(self, lock: str, action: str, tell: Tell) -> bool:
        return self._do(tell, action, lock)

    def write(self, event: str, /, **fields: object) -> None:
        self.records.append((event, fields))

    def told(self, event: str) -> list[dict[str, Any]]:
        """Return the records of an event."""
        return [fields for name, fields in self.records if name == event]

    def _do(self, tell: Tell, *what: object) -> bool:
        if not self.refuses:
            tell()
            self.done.append(what)
        return not self.refuses
