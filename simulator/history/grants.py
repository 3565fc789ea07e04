"""Which leases the storage granted to the workers, by the requests on the network, and which it ended early."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final, TypeAlias
from zlib import crc32

from simulator.faults.real import short
from simulator.history.deeds import GONE_CODES, is_refused, may_have_ended
from simulator.history.outages import Strike

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from simulator.history.facts import Acquisition, History, LeaseRequest


_Grant: TypeAlias = "tuple[LeaseRequest, float]"


class Grants:
    """Knows which workers were granted leases, and counts their renewals."""

    def __init__(self) -> None:
        self._granted: dict[tuple[str, int], dict[str, dict[str, _Grant]]] = defaultdict(dict)
        """By worker, blob and lease id, the last granted request, and since when the worker had the lease.

        A process with several locks on a blob may get another lease while it does not know that it has lost the first.
        """

    def take(self, request: LeaseRequest, held: Iterable[Acquisition]) -> None:
        """Take a request for a lease and its answer, while locks are ``held``."""
        worker = request.host, request.worker
        theirs = self._granted[worker]
        if request.granted and (request.action == "acquire" or request.blob in theirs):
            leases = theirs.setdefault(request.blob, {})
            *_, (_, since) = leases.values() or [(request, request.t)]
            _, since = leases.pop(request.lease, (request, since))
            if request.action != "release" or not leases:
                leases[request.lease] = request, request.t if request.action == "acquire" else since
        for got in held:
            if (got.host, got.worker) != worker or not _is_of(request.blob, got.blob or got.lock):
                continue
            if is_refused(request) and got.lease and request.lease == got.lease:
                got.refused = request.t
                if request.action == "renew" and request.code in GONE_CODES:
                    got.gone = min(got.gone, request.t)
            if request.action == "renew":
                got.asked.append(request.sent)
                got.renewed += request.granted
                got.granted += [request.sent] * request.granted

    def known(self, got: Acquisition) -> Acquisition:
        """Note whether its worker was given this lock's lease over the network."""
        for blob, leases in self._granted[got.host, got.worker].items():
            if _is_of(blob, got.blob or got.lock):
                *_, (request, since) = leases.values()
                got.lease, got.leased, got.timed, got.granted = request.lease, since, request.timed, [request.sent]
        got.seen = bool(got.granted)
        return got


def broken_outside(history: History) -> Iterator[Strike]:
    """Yield the ends of leases that nobody in this run asked for.

    The storage refused a request under the id that it had granted, before the lease had run out.
    """
    ended = [*filter(may_have_ended, history.requests)]
    for got in history.acquisitions:
        if got.refused is None or got.refused > got.granted[-1] + history.lease_of(got):
            continue
        one = (each for each in history.acquisitions if (each.host, each.lease) == (got.host, got.lease))  # handed on
        first = min(each.t for each in one if each.until >= got.granted[-1])
        blob, start = got.blob or got.lock, max(first, got.granted[-1])
        ours = any(
            _is_of(each.blob, blob)
            and (each.action != "release" or each.lease in {"", got.lease})  # a release ends no other lease
            and got.granted[-1] <= each.t <= got.refused + 1
            for each in ended
        )
        if not ours and not any(lock == got.lock for _, lock in history.operated):
            what = f"somebody outside this run ended the lease of {short(blob)}, which {got.host} had"
            yield Strike(id=0, kind="break", hosts=(got.host,), lock=blob, what=what, start=start, end=start)


def deleted_outside(history: History) -> Iterator[Strike]:
    """Yield when a host made a blob anew that had been leased: nobody in this run had deleted the blob."""
    locks = {use.lock for use in history.uses} | {wait.lock for wait in history.waits}
    locks -= {lock for _, lock in history.deleted}
    leased: dict[str, float] = {}
    ours = {each.blob for each in history.requests if each.action == "delete" and each.lease != _NO_LEASE}
    for each in history.requests:
        if each.granted:
            leased.setdefault(each.blob, each.t)
    for t, blob in history.made:
        if leased.get(blob, t) < t and blob not in ours:
            for lock in (lock for lock in locks if _is_of(blob, lock)):
                what = f"somebody deleted the blob of {short(lock)}"
                yield Strike(id=0, kind="delete", lock=lock, what=what, start=t, end=t)


def replaced_by_user_code(history: History) -> Iterator[Strike]:
    """Yield when user code in a host overwrote or deleted the blob of a lock."""
    locks = {use.lock for use in history.uses} | {wait.lock for wait in history.waits}
    for each in history.replaced:
        for lock in (lock for lock in locks if _is_of(each.text("blob"), lock)):
            what = f"user code on {each.host} {each.text('action')} the blob of {short(lock)}"
            yield Strike(id=0, kind=each.text("action"), lock=lock, what=what, start=each.t, end=each.t)


_NO_LEASE: Final = f"{crc32(b''):08x}"
"""The lease of a request without a lease id."""


def _is_of(blob: str, lock: str) -> bool:
    """Tell whether this is the path to a lock's blob. The kind of address decides how much is above it."""
    return blob.endswith(f"/{lock}")
