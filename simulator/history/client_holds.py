"""Read what user code did under locks of lock clients: a history of its own, in which each lock is that of a guard.

A block, a hold from ``acquire``, the work of a periodic worker and the time of a leader are the bodies. So the checks
of guards judge the locks of lock clients by the same rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from simulator.history.deeds import inside, semaphore_of
from simulator.history.historian import read_history
from simulator.history.journal import Record, in_order

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from simulator.history.facts import History

_OF_GUARDS: Final = frozenset({"lock", "function", "guard", "expected", "body_entered", "body_left", "tick", "note"})
_MEANS: Final = {"entered": ("acquired", "body_started"), "lost": ("lost",), "left": ("body_ended", "released")}
"""What a guard would have told in the place of a ``client_lock`` record."""


def client_history(records: Iterable[Record]) -> History:
    """Return what was done under locks of lock clients; without any, a history without bodies.

    A lock and a semaphore of one name have nothing in common but the name: such a semaphore is left out.
    """
    ordered = in_order(records)
    locks = {_path(each) for each in ordered if each.get("kind") == "entered" and each.get("limit") is None}
    return read_history(_as_guards(ordered, locks))


def _as_guards(records: Iterable[Record], locks: set[str]) -> Iterator[Record]:
    entries: dict[tuple[str, str], dict[str, Any]] = {}
    for record in records:
        whose = record.host, record.text("number")
        if record.event != "client_lock":
            if record.event not in _OF_GUARDS:
                yield Record(record.t, record.host, record.event, {**record.fields, **_place(record)})
            continue
        limit, got = record.get("limit"), record.text("got")
        if record.get("kind") == "entered" and not (limit and _path(record) in locks):
            options = [f"{name}={record.get(name):g}" for name in ("limit", "at_least", "max_hold") if record.get(name)]
            function = record.text("name") + f" ({', '.join(options)})" * bool(options)
            facts = {**record.fields, "name": function, "guarded": True, "async": False}
            yield Record(record.t, record.host, "function", facts | {"at_once": limit or 1, "several": bool(limit)})
            owner = inside(record.text("invocation"), whose[1])
            call = {"invocation": owner, "function": function}
            yield Record(record.t, record.host, "invocation_started", call)
            blobs = {"function": _path(record).partition("/")[2]}  # without the account
            yield Record(record.t, record.host, "expected", {**call, "keys": {}, "blobs": blobs})
            lock = _path(record) + got.removeprefix(semaphore_of(got)) * bool(limit)
            token = None if limit else record.get("token")  # tokens order the holds of one slot only
            entries[whose] = {"lock": lock, "function": function, "owner": owner, "token": token}
        for kind in _MEANS[record.text("kind")] if whose in entries else ():
            yield Record(record.t, record.host, "lock", {**record.fields, **entries[whose], "kind": kind})


def _place(record: Record) -> dict[str, str]:
    """Return what an operator's deed by user code was done to."""
    return {"lock": record.text("path")} if record.get("path") else {}


def _path(entry: Record) -> str:
    return f"{entry.text('where')}/{entry.text('name')}"
