"""How many requests of each kind each host sent to the storage."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from simulator.history.journal import Record

_WORDS: Final = {
    "acquire": "acquire a lease",
    "renew": "renew a lease",
    "release": "release a lease",
    "change": "change a lease",
    "break": "break a lease",
    "break_": "break a lease",
    "read": "read a blob",
    "get": "read a blob",
    "write": "write a blob",
    "put": "write a blob",
    "create": "write a blob",
    "delete": "delete a blob",
}


def count_calls(records: Iterable[Record]) -> Mapping[str, Mapping[str, int]]:
    """Count requests by host and kind.

    Hosts count for themselves (``storage_calls``, now and then, the number so far). Older journals have only the
    requests for leases. Virtual worlds have each request.
    """
    told: dict[tuple[str, int], Mapping[str, int]] = {}
    seen: dict[str, Counter[str]] = defaultdict(Counter)
    for record in records:
        if record.event == "storage_calls":
            told[record.host, int(record.get("pid") or 0)] = record.get("calls") or {}
        elif record.event in {"lease_request", "request"}:
            call = record.text("action") or record.text("call")
            seen[record.host][_WORDS.get(call, call)] += 1
    counted: dict[str, Counter[str]] = defaultdict(Counter)
    for (host, _), calls in told.items():
        counted[host].update(calls)
    return {host: dict(counted.get(host) or seen[host]) for host in sorted({*counted, *seen})}
