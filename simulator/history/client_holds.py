"""What user code did with locks of lock clients, in the words of guards.

A block, a hold from ``acquire``, the work of a periodic worker and the time of a leader are the bodies; each lock, with
what was asked for, is a guard that no function of the host carries. So the checks of guards judge them, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from simulator.history.deeds import OF_PATTERNS, inside, semaphore_of
from simulator.history.journal import Record

if TYPE_CHECKING:
    from collections.abc import Iterator

_MEANS: Final = {
    "looked": (),
    "asked": ("waiting",),
    "refused": ("contended",),
    "failed": ("failed",),
    "entered": ("acquired", "body_started"),
    "lost": ("lost",),
    "leaving": ("body_ended",),
    "left": ("body_ended", "released"),
    "begun": ("begun",),
    "over": ("over",),
}
"""What a guard would have told in the place of a ``client_lock`` record."""
_OPTIONS: Final = (
    "limit",
    "timeout",
    "every",
    "at_least",
    "max_hold",
    "lease",
    "poll",
    "failover",
    "renewal",
    "window",
)
_USUAL: Final = {"lease": 15.0, "poll": 5.0, "window": 30.0}


class ClientLocks:
    """Translates the records, oldest first. ``container``: the one with the locks of guards.

    A lock and a semaphore of one name have nothing in common but the name: the later one is left out.
    """

    def __init__(self) -> None:
        self.container = ""
        self._entries: dict[tuple[str, str], dict[str, Any]] = {}
        self._limited: dict[str, bool] = {}
        self._known: set[str] = set()
        self._leaving: set[tuple[str, str]] = set()

    def translated(self, record: Record) -> Iterator[Record]:
        """Yield what a guard would have told."""
        whose, kind = (record.host, record.text("number")), record.text("kind")
        if kind in {"asked", "entered", "looked", "begun"} and (entry := self._entry(record, whose[1])) is not None:
            self._entries[whose] = entry
            if entry["function"] not in self._known:
                self._known.add(entry["function"])
                yield Record(record.t, record.host, "guard", _facts(record, entry))
        if (entry := self._entries.get(whose)) is not None:
            reasons = {"contended": entry["policy"], "body_ended": "lost" if record.get("lost") else "ok"}
            for meant in ("released",) if kind == "left" and whose in self._leaving else _MEANS[kind]:
                told = {"kind": meant, "worker": record.get("worker")}
                told |= {"reason": reasons.get(meant, record.get("reason")), "saw": record.get("saw")}
                yield Record(record.t, record.host, "lock", {**entry, **told})
            if kind == "leaving":
                self._leaving.add(whose)

    def _entry(self, record: Record, number: str) -> dict[str, Any] | None:
        name, limit, got = record.text("name"), record.get("limit"), record.text("got")
        account, _, container = record.text("where").partition("/")
        if self._limited.setdefault(f"{container}/{name}", bool(limit)) != bool(limit):
            return None
        lock = name if container == self.container else f"{account}/{container}/{name}"
        policy = "wait" if record.get("timeout") != 0 else "skip" if record.get("how") == "try_lock" else "raise"
        options = [f"{option}={record.get(option):g}" for option in _OPTIONS if _is_told(record, option)]
        called = ["decorator"] * bool(record.get("called")) + ["look"] * (record.get("how") == "look")
        about = ", ".join(["lock client", *called, *[policy] * (policy != "wait"), *options])
        return {
            "function": f"{name if lock == name else f'{container}/{name}'} ({about})",
            "lock": lock + got.removeprefix(semaphore_of(got)) * bool(limit),
            "owner": inside(record.text("invocation"), number),
            "within": record.get("within"),
            "token": None if limit else record.get("token"),  # tokens order the holds of one slot only
            "policy": "timeout" if policy == "wait" else policy,
            "blob": f"{container}/{name}",
            "on_contention": policy,
        }


def _is_told(record: Record, option: str) -> bool:
    value = record.get(option)
    return bool(value) and value != _USUAL.get(option)


def _facts(record: Record, entry: dict[str, Any]) -> dict[str, Any]:
    """Return what the journal tells of a guard."""
    name, limit, timeout = record.text("name"), record.get("limit"), record.get("timeout")
    told = {**record.fields, "name": entry["function"], "blob": entry["blob"], "guarded": True, "async": False}
    told |= {
        "tick": record.get("every"),
        "trigger": "once" if name.startswith(OF_PATTERNS) else record.get("how") or "lock",
    }
    told |= {"direct": record.get("called"), "on_contention": entry["on_contention"], "timeout": timeout, "limit": None}
    return told | {"at_once": limit or 1, "several": bool(limit), "tokens": record.get("tokens") and not limit}
