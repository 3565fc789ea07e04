"""The storage service in virtual time, with a record of each lease's owner and times; and a machine's way to it."""

from __future__ import annotations

import inspect
import math
import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Concatenate, Final, Literal, ParamSpec, TypeVar

from simulator.virtual.storage.network import NetworkRequest
from singleton.locking.seat import seat_name
from singleton.stores.protocol import StoreFailure
from singleton.stores.stamps import EPOCH_KEY
from singleton.testing.storage.memory_store import MemoryLeaseStore

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine, Mapping

    from simulator.virtual.storage.network import Network
    from simulator.virtual.time.loop import VirtualLoop
    from simulator.virtual.time.machine import Machine
    from singleton.settings.accounts import LockContainer

_P = ParamSpec("_P")
_T = TypeVar("_T")

_LABEL: Final = {"CostCentre": "4711"}
"""The metadata that an operator writes on a lock's blob."""
_NOTICE: Final = 10
"""Seconds that a lease still lasts when an operator breaks it slowly."""

_READS: Final = frozenset({"read", "get", "tail", "page"})
"""Requests that change nothing."""
_NO_LOCK: Final = re.compile(r"deferred/|inbox/[^/]+/(logs|aside)/")
"""Notes on messages that were put back, and the messages of inboxes."""

TenureEnd = Literal["expired", "released", "operator", "taken over", "taken away"]


@dataclass(slots=True, eq=False)
class Tenure:
    """A lease as the service saw it. ``machine`` is None for an operator's."""

    lock: str
    lease_id: str
    machine: Machine | None
    since: float
    expires: float
    ended: float | None = None
    ending: TenureEnd | None = None
    ended_by: Machine | None = None
    lasts: float = -math.inf
    """The end of the owner's lease, after an operator ended the lease with notice."""


class Service(MemoryLeaseStore):
    """``MemoryLeaseStore`` that calls ``on_grant``, ``on_end`` and ``on_epoch`` at the instant of each real change."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self.on_grant: Callable[[Tenure], None] = lambda *_: None
        self.on_end: Callable[[Tenure], None] = lambda *_: None
        self.on_epoch: Callable[[str, int, Machine | None], None] = lambda *_: None
        self.on_delete: Callable[[str], None] = lambda _: None
        self._loop = loop
        self._tenures: dict[str, Tenure] = {}
        self._made: dict[str, int] = {}
        self._held_until: dict[str, float] = {}
        self._labelled: set[str] = set()

    def execute(self, machine: Machine | None, call: str, name: str, args: tuple[Any, ...]) -> Any:
        """Carry out one request at once. Raises ``StoreFailure`` for an answer that is an error."""
        try:
            getattr(self, call)(name, *args).send(None)
        except StopIteration as done:
            if call not in _READS:
                self._note(machine, call, name, args)
            return done.value
        raise AssertionError(f"{call}: a request of the in-memory service waited for something")

    def operate(self, call: str, name: str) -> None:
        """Do an operator's act.

        The acts: ``break_``, ``break slowly``, ``steal`` (break, and take the lease), ``delete``, or ``label`` (write
        a foreign key on the blob of a free lock).
        """
        if call == "label":
            self._label(name)
            return
        if call == "delete":
            if self._made.get(name) == int(self._loop.now):
                return  # twice in one second: then tokens may repeat, as docs/guarantees.md says
            self.delete_at_once(name)
            return
        try:
            slowly, tenure = call == "break slowly", self._tenures.get(name)
            self.execute(None, "break_", name, (None, _NOTICE if slowly else 0))
            if slowly:
                self._held_until[name] = max(self.held_until(name), self._blobs[name].breaks or 0.0)
                if tenure is not None:
                    tenure.lasts = self._held_until[name]
            if call == "steal":
                self.execute(None, "acquire", name, ("00000000-0000-4000-8000-000000000000", 15))
        except StoreFailure:
            return

    def delete_at_once(self, name: str) -> None:
        """Delete a blob as an operator does, even within the second in which it was made."""
        self.delete(name)
        self.on_delete(name)
        self._labelled.discard(name)
        self._end(name, "operator")

    def _label(self, name: str) -> None:
        try:
            self.edit(name, {**self._blobs[name].metadata, **_LABEL})
            self._labelled.add(name)
        except StoreFailure:
            return

    def unlabelled(self) -> list[str]:
        """Return the locks that an operator labelled, and whose label is gone. The seat of a lock keeps no label."""
        locks = sorted(name for name in self._labelled if not name.endswith(seat_name("")))
        return [name for name in locks if not self._blobs[name].metadata.items() >= _LABEL.items()]

    def content(self, name: str) -> bytes:
        """Return the content of a lock's blob."""
        return self._blobs[name].body if name in self._blobs else b""

    def metadata(self, name: str) -> Mapping[str, str]:
        """Return the metadata of a lock's blob; empty for a missing blob."""
        return self._blobs[name].metadata if name in self._blobs else {}

    def free(self) -> list[str]:
        """Return the locks with a free lease."""
        return [name for name in self.names() if self._blobs[name].state(self._loop.now) not in ("leased", "breaking")]

    def names(self) -> list[str]:
        """Return the names of the locks."""
        return [name for name in super().names() if not _NO_LOCK.match(name)]

    def logs(self, prefix: str) -> list[str]:
        """Return the names of the logs that begin with this."""
        return [name for name, blob in self._blobs.items() if name.startswith(prefix) and blob.blocks is not None]

    def etag(self, name: str) -> str | None:
        """Return the ETag of a blob; None: no blob."""
        return self._blobs[name].etag if name in self._blobs else None

    def tenure(self, name: str) -> Tenure | None:
        """Return who has the lease now."""
        return self._tenures.get(name)

    def tenures(self) -> list[Tenure]:
        """Return the present leases."""
        return list(self._tenures.values())

    def held_until(self, name: str) -> float:
        """Return the time of the lease's end: now for a lease that lasts; later for a lease that is being broken."""
        return self._loop.now if name in self._tenures else self._held_until.get(name, -math.inf)

    def _begin(self, call: str) -> float:
        self.calls[call] += 1
        return self._loop.now

    def _note(self, machine: Machine | None, call: str, name: str, args: tuple[Any, ...]) -> None:
        """Note the changes of a request; a failed request changes nothing."""
        current, blob, now = self._tenures.get(name), self._blobs.get(name), self._loop.now
        if call == "create":
            self._made[name] = int(now)
        leased = blob if blob is not None and blob.state(now) == "leased" else None
        if current is not None and (leased is None or leased.lease_id != current.lease_id):
            self._end(name, self._ending(current, call, machine), machine)
            current = None
        if leased is not None:
            if current is None:
                tenure = self._tenures[name] = Tenure(name, leased.lease_id or "", machine, now, leased.expires)
                self._loop.at(tenure.expires, self._look, tenure)
                self.on_grant(tenure)
            else:
                current.expires = leased.expires
        if call in ("write", "put"):
            self.on_epoch(name, int(args[1].get(EPOCH_KEY, "0")), machine)

    def _look(self, tenure: Tenure) -> None:
        """Check at the instant at which a lease would expire whether it has."""
        if tenure.ended is None:
            if tenure.expires > self._loop.now:
                self._loop.at(tenure.expires, self._look, tenure)
            else:
                self._end(tenure.lock, "expired")

    def _end(self, name: str, ending: TenureEnd, by: Machine | None = None) -> None:
        tenure = self._tenures.pop(name, None)
        if tenure is not None:
            tenure.ended, tenure.ending, tenure.ended_by = self._loop.now, ending, by
            self._held_until[name] = self._loop.now
            self.on_end(tenure)

    def _ending(self, tenure: Tenure, call: str, machine: Machine | None) -> TenureEnd:
        """Say how a tenure ended, when a request of ``machine`` (None: an operator) left the lease to others."""
        if machine is None:
            return "operator"
        if call == "release" and machine is tenure.machine:
            return "released"
        if call in ("break_", "evict"):
            return "taken over"
        return "expired" if tenure.expires <= self._loop.now else "taken away"


def _sent(
    method: Callable[Concatenate[Any, _P], Coroutine[Any, Any, _T]],
) -> Callable[Concatenate[NetworkStore, _P], Coroutine[Any, Any, _T]]:
    """Return the method that sends this request of the service over the network, with all of its arguments."""
    parameters = [*inspect.signature(method).parameters.values()][1:]
    under_lease = [each.name for each in parameters[1:2]] == ["lease_id"]

    async def send(store: NetworkStore, /, *args: _P.args, **more: _P.kwargs) -> _T:
        given: list[Any] = [more.get(each.name, each.default) for each in parameters]
        given[: len(args)] = args
        name, *rest = given
        answer: _T = await store.request(method.__name__, name, tuple(rest), rest[0] if under_lease else None)
        return answer

    return send


@dataclass(slots=True)
class NetworkStore:
    """A machine's store, with the methods of ``MemoryLeaseStore``: each call is a request over the network."""

    _network: Network
    _service: Service
    _machine: Machine
    _place: LockContainer | None = None
    _closed: Callable[[], None] = lambda: None
    _is_closed: bool = False

    acquire = _sent(MemoryLeaseStore.acquire)
    renew = _sent(MemoryLeaseStore.renew)
    release = _sent(MemoryLeaseStore.release)
    evict = _sent(MemoryLeaseStore.evict)
    break_ = _sent(MemoryLeaseStore.break_)
    create = _sent(MemoryLeaseStore.create)
    read = _sent(MemoryLeaseStore.read)
    write = _sent(MemoryLeaseStore.write)
    put = _sent(MemoryLeaseStore.put)
    get = _sent(MemoryLeaseStore.get)
    note = _sent(MemoryLeaseStore.note)
    noted = _sent(MemoryLeaseStore.noted)
    remove = _sent(MemoryLeaseStore.remove)
    start_log = _sent(MemoryLeaseStore.start_log)
    append = _sent(MemoryLeaseStore.append)
    tail = _sent(MemoryLeaseStore.tail)
    label = _sent(MemoryLeaseStore.label)
    drop = _sent(MemoryLeaseStore.drop)
    page = _sent(MemoryLeaseStore.page)

    async def aclose(self) -> None:
        """See ``LeaseStore.aclose``."""
        self._is_closed = True
        self._closed()

    def request(self, call: str, name: str, args: tuple[Any, ...], lease_id: str | None) -> asyncio.Future[Any]:
        """Send a request of this machine, under a lease or None."""
        execute = partial(self._service.execute, self._machine, call, name, args)
        request = NetworkRequest(self._machine, call, name, execute, lease_id, self._place, self._is_closed, args)
        return self._network.send(request)
