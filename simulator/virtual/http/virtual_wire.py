"""The virtual wire: the shipped store for blobs in virtual worlds, over HTTP/1.1, in front of the model of the service.

``singleton/stores/direct_blob.py``, ``wire.py``, ``access.py``, ``bearer_token.py`` and ``stores/http`` run as shipped,
but for the dialling. Each host has a way in of its own: by key, by signature or by token. What is sent is checked by
the service, and what a store tells its lock is compared with what the service has answered. Findings:

wrong signature          a host with the right key sends a request whose signature or date is wrong
another request          the service hears something else than a lock has asked its store for
request sent twice       a store sends a request again: whether to do so is for the lock to decide
another answer           a store tells its lock something else than the service has answered
dead connection          a request is sent on a connection of which the host knows that it is at its end
refused token            a host sends a token again of which the service has said that it is void
"""

from __future__ import annotations

import inspect
from contextlib import ExitStack, contextmanager
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch

from simulator.virtual.http.account import VirtualAccount, untimely
from simulator.virtual.http.blob_api import AskedCall, Containers, HttpAnswer
from simulator.virtual.http.spoilt import Spoilt
from simulator.virtual.http.virtual_connections import (
    ASKING,
    ENDPOINT,
    HostConnections,
    HttpExchange,
    VirtualConnections,
    WatchedCall,
    WireRequest,
)
from simulator.virtual.time.machine import EPOCH, HOST
from singleton.stores import access, bearer_token, denials, listing_page, log_store
from singleton.stores.direct_blob import DirectBlobStore
from singleton.stores.protocol import StoreFailure
from singleton.stores.wire import Wire

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator, Sequence

    from simulator.virtual.http.blob_api import HeardRequest
    from simulator.virtual.storage.network import Network, NetworkRequest, Passage
    from simulator.virtual.storage.service import Service
    from simulator.virtual.time.loop import VirtualLoop
    from simulator.virtual.time.machine import Machine
    from singleton.settings.accounts import LockContainer

_WAYS: Final = ("key", "sas", "token")
_AGAIN: Final = ("ContainerNotFound", "InvalidRange")
"""Codes after which a call of a store goes on with another request."""


class VirtualWire:
    """The wire of a world."""

    def __init__(
        self,
        loop: VirtualLoop,
        network: Network,
        service: Service,
        blame: Callable[[str, str], None],
        rng: random.Random,
        machines: Sequence[Machine],
    ) -> None:
        self.loop = loop
        self.network = network
        self.blame = blame
        self._service = service
        self.rng = rng
        self.hosts = {machine: HostConnections() for machine in machines}
        self.account = VirtualAccount(rng)
        self._containers = Containers(service.execute)
        self._ways = {machine: rng.choice(_WAYS) for machine in machines}
        network.rules.append(_befall)

    def open_store(self, machine: Machine, place: LockContainer, closed: Callable[[], None]) -> DirectBlobStore:
        """Open a machine's store: all accounts are one."""
        way = self.account.access(self._ways[machine], self.clock)
        wire = Wire(ENDPOINT, way)
        wire._way = VirtualConnections(self, machine)  # noqa: SLF001 - the only part that is not as shipped
        return _WatchedStore(self, machine, wire, place, closed)

    def way_of(self, machine: Machine) -> str:
        """Return by what a host gets in: ``key``, ``sas`` or ``token``."""
        return self._ways[machine]

    def clock(self) -> float:
        """Return the wall clock of the running host, in the service's seconds."""
        machine = HOST.get()
        return self.loop.now if machine is None else machine.wall() - EPOCH

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Let the shipped code below a store read the wall clock of its host, and know how long logs are here."""

        class Clock:
            time = staticmethod(self.clock)

        with ExitStack() as stack:
            for module in (access, bearer_token, denials, listing_page):
                stack.enter_context(patch.object(module, "time", Clock))
            stack.enter_context(patch.object(log_store, "MOST_BLOCKS", self._service.most_blocks))
            yield

    def refusal(self, request: HeardRequest) -> StoreFailure | None:
        """Return the refusal of a request without a valid key, signature or token."""
        return self.account.refusal(request) or untimely(request, self.loop.now)

    def executing(self, machine: Machine, asking: WatchedCall, exchange: HttpExchange) -> Callable[[], Any]:
        """Return what carries a request out."""
        asked = asking.asked if exchange.as_asked else exchange.heard
        container = asking.place.container if asking.place is not None else ""
        return partial(self._containers.execute, machine, container, exchange.heard, asked)

    # --- what hosts send ----------------------------------------------------------------------------------------------

    def check_request(
        self,
        machine: Machine,
        request: HeardRequest,
        asking: WatchedCall,
        exchange: HttpExchange,
        refusal: StoreFailure | None,
    ) -> None:
        """Blame a host for a request that it may not send."""
        asked, heard, before = asking.asked, exchange.heard, asking.exchanges
        if not exchange.as_asked:
            self.blame("another request", f"{machine} asks for {_shown(asked)}, and the service hears {_shown(heard)}")
        if before and not _goes_on(before[-1]):
            self.blame("request sent twice", f"{machine} sends {_shown(asked)} again, unasked")
        if refusal is not None and refusal.status == 403:
            self.blame("wrong signature", f"{machine} sends {_shown(asked)}, and is refused: {refusal}")
        refused = self.hosts[machine].refused.get(request.headers.get("authorization", ""))
        if refused is not None and refused < asking.since:
            self.blame("refused token", f"{machine} sends {_shown(asked)} with a token that the service has refused")

    # --- what stores tell ---------------------------------------------------------------------------------------------

    def compare(self, machine: Machine, asking: WatchedCall, told: object) -> None:
        """Compare what a store tells its lock with what the service has answered."""
        last = asking.exchanges[-1] if asking.exchanges else None
        got = last and last.got
        if last is not None and got is None and getattr(told, "status", 0) is not None:
            got = last.coming  # a body that is longer than was asked for is not read to its end
        means = got.means if isinstance(got, HttpAnswer) else None
        if not isinstance(got, HttpAnswer):
            right = isinstance(told, StoreFailure) and told.source != "service" and told.code is None
        elif isinstance(means, StoreFailure) and asking.asked.call in ("create", "start_log"):
            right = _plain(told) == _plain(means) or (means.code == "BlobAlreadyExists" and not told)
        else:
            right = _plain(told) == _plain(means)
        if not right:
            answer = got.how if isinstance(got, Spoilt) else _plain(means) if got is not None else "nothing"
            text = f"the store of {machine} makes {_plain(told)} of the answer to {_shown(asking.asked)}: {answer}"
            self.blame("another answer", text[:400])


def _befall(request: NetworkRequest, passage: Passage) -> None:
    """Let a request meet what its connection and its sender's way in are worth."""
    if isinstance(request, WireRequest):
        passage.lost |= request.forgotten
        passage.answer = request.refusal


def _goes_on(exchange: HttpExchange) -> bool:
    got = exchange.got or exchange.coming
    if exchange.heard.call == "container":
        return isinstance(got, HttpAnswer)
    code = getattr(got.means, "code", None) if isinstance(got, HttpAnswer) else None
    return code in _AGAIN


def _shown(call: AskedCall) -> str:
    return f"{call.call} of {call.name or 'the container'} {call.args}"[:200]


def _plain(told: object) -> object:
    """Return what can be compared: of a failure what a lock may go by."""
    if isinstance(told, StoreFailure):
        return told.status, told.code, told.retry_after, told.at, told.source, told.meaning
    if isinstance(told, tuple):
        return tuple(_plain(each) for each in told)
    fields = getattr(told, "__dataclass_fields__", None)
    if fields is None:
        return dict(told) if isinstance(told, dict) else told
    return {name: _plain(getattr(told, name)) for name in fields if name != "name"}


def _watched(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return the method of a store, with its answer compared."""
    signature = inspect.signature(method)

    @wraps(method)
    async def ask(store: _WatchedStore, *args: Any, **more: Any) -> Any:
        bound = signature.bind(store, *args, **more)
        bound.apply_defaults()
        _, name, *rest = bound.arguments.values()
        asking = WatchedCall(AskedCall(method.__name__, name, tuple(rest)), store.place, store.watch.loop.time())
        before = ASKING.get()
        ASKING.set(asking)
        told: Any
        try:
            told = await method(store, *args, **more)
        except StoreFailure as failure:
            told = failure
            raise
        except Exception as error:
            told = error
            raise
        except BaseException:
            told = asking
            raise
        finally:
            ASKING.set(before)  # by no token: who closes a coroutine may do so in another context
            if told is not asking:
                store.watch.compare(store.machine, asking, told)
        return told

    return ask


class _WatchedStore(DirectBlobStore):
    """A shipped store whose requests and answers are compared with what it was asked for."""

    def __init__(
        self, watch: VirtualWire, machine: Machine, wire: Wire, place: LockContainer, closed: Callable[[], None]
    ) -> None:
        super().__init__(wire, place.container)
        self.watch = watch
        self.machine = machine
        self.place = place
        self._closed = closed

    async def aclose(self) -> None:
        """Report the closing."""
        self._closed()
        await super().aclose()


for _name in (
    *("acquire", "renew", "release", "break_", "create", "read", "write", "put", "get", "start_log", "append"),
    *("tail", "label", "drop", "note", "noted", "remove", "page", "shorten", "erase"),
):
    setattr(_WatchedStore, _name, _watched(getattr(DirectBlobStore, _name)))
