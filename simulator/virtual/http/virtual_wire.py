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
from functools import wraps
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from simulator.virtual.http.blob_api import AskedCall, HttpAnswer
from simulator.virtual.http.virtual_connections import (
    ASKING,
    ENDPOINT,
    VirtualConnections,
    WatchedCall,
    WireServer,
    shown,
)
from simulator.virtual.storage.network import Spoilt
from simulator.virtual.time.machine import EPOCH, HOST
from singleton.stores import access, bearer_token, listing_page, log_store, refusals
from singleton.stores.direct_blob import DirectBlobStore
from singleton.stores.protocol import StoreFailure
from singleton.stores.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from simulator.virtual.time.machine import Machine
    from singleton.settings.accounts import LockContainer


class VirtualWire(WireServer):
    """The wire of a world."""

    def open_store(self, machine: Machine, place: LockContainer, closed: Callable[[], None]) -> DirectBlobStore:
        """Open a machine's store: all accounts are one."""
        way = self.account.access(self.ways[machine], self.clock)
        wire = Wire(ENDPOINT, way)
        wire._way = VirtualConnections(self, machine)  # noqa: SLF001 - the only part that is not as shipped
        return _WatchedStore(self, machine, wire, place, closed)

    def clock(self) -> float:
        """Return the wall clock of the running host, in the service's seconds."""
        machine = HOST.get()
        return self.loop.now if machine is None else max(0.0, machine.wall() - EPOCH)

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Let the shipped code below a store read the wall clock of its host, and know how long logs are here."""

        class Clock:
            time = staticmethod(self.clock)

        with ExitStack() as stack:
            for module in (access, bearer_token, refusals, listing_page):
                stack.enter_context(patch.object(module, "time", Clock))
            stack.enter_context(patch.object(log_store, "MOST_BLOCKS", self._service.most_blocks))
            yield

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
            right = plain(told) == plain(means) or (means.code == "BlobAlreadyExists" and not told)
        else:
            right = plain(told) == plain(means)
        if not right:
            answer = got.how if isinstance(got, Spoilt) else plain(means) if got is not None else "nothing"
            text = f"the store of {machine} makes {plain(told)} of the answer to {shown(asking.asked)}: {answer}"
            self.blame("another answer", text[:400])


def plain(told: object) -> object:
    """Return what can be compared: of a failure what a lock may go by."""
    if isinstance(told, StoreFailure):
        return told.status, told.code, told.retry_after, told.at, told.source, told.meaning
    if isinstance(told, tuple | list):
        return tuple(plain(each) for each in told)
    fields = getattr(told, "__dataclass_fields__", None)
    if fields is None:
        return dict(told) if isinstance(told, dict) else told
    return {name: plain(getattr(told, name)) for name, each in fields.items() if each.compare and name != "name"}


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
            elif asking.exchanges:  # its time was up before it handled the answer
                store.watch.hosts[store.machine].refused.pop(asking.exchanges[-1].refused, None)
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
    *("acquire", "renew", "release", "evict", "break_", "create", "read", "write", "put", "get", "start_log", "append"),
    *("tail", "label", "drop", "note", "noted", "remove", "page"),
):
    setattr(_WatchedStore, _name, _watched(getattr(DirectBlobStore, _name)))
