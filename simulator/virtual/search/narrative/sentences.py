"""Each thing that happened, in a sentence without its end.

What a host believes and what the service knows have different words: a caller lets go of its lock, the service ends a
lease.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from simulator.checks.findings import label
from simulator.virtual.storage.network import SOON

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simulator.history.journal import Record
    from simulator.virtual.search.narrative.visits import Lease, Visit

_SLOW: Final = SOON / 2
_TWICE: Final = 2
_LEASING: Final = ("acquire", "renew")
"""Requests after which a lease lasts longer."""
_OF_MESSAGES: Final = {
    "message_sent": "message {id} is sent to the queue {queue}",
    "message_received": "{host} receives message {id}",
    "message_completed": "{host} deletes message {id} as done",
    "message_returned": "{host} leaves message {id} to be received again{reason}",
    "message_poisoned": "{host} moves message {id} to the poison queue{reason}",
}
_DONE: Final = {
    "contended": "{owner} does not get {lock}{reason}",
    "deferred": "{owner} has message {message_id} put back, as message {copy_id}",
    "poisoned": "{owner} gives message {message_id} up: it was put back and has failed too often",
    "released": "{owner} lets go of {lock}",
}
_CARRIED_OUT: Final = {
    "acquire": "the service gives {host} the lease of {lock}",
    "renew": "the service renews {host}'s lease of {lock}",
    "release": "the service ends {host}'s lease of {lock}, as {host} asks",
    "break_": "the service breaks the lease of {lock}, as {host} asks",
}
_OPERATORS: Final = {
    "break_": "breaks the lease of {lock}",
    "break slowly": "breaks the lease of {lock}, with ten seconds' notice",
    "label": "writes a key of his own on {lock}",
    "steal": "takes the lease of {lock} away",
    "delete": "deletes the blob of {lock}",
}

Told = tuple["Record", str]
"""Something that was written down, in words."""


def visit_words(visit: Visit, *, brief: bool, scope: str = "") -> list[Told]:
    """Tell of a visit what its host says; what the service knows is told of its lease. ``brief``: not of its wait."""
    who, lock = visit.owner or visit.host, label(visit.lock)
    told: list[Told] = []
    if visit.began is not None and not brief:
        told.append((visit.began, f"{who} {_wish(visit.began)}"))
    if visit.asked is not None and not brief:
        told.append((visit.asked, f"{who} asks for {lock}{f', for the scope {scope!r}' if scope else ''}"))
    token = "" if visit.got is None or visit.got.get("token") is None else f" with token {visit.got.get('token')}"
    told += _joined(who, visit.got, f"gets {lock}{token}", visit.entered, "enters its body")
    lost = f"is told that it lost {lock}{_reason(visit.lost)}"
    told += _joined(who, visit.lost, lost, visit.left, f"leaves its body{_reason(visit.left)}")
    if visit.done is not None and not (visit.was_lost and visit.done.text("kind") == "released"):
        if visit.left is not None and visit.left.t == visit.done.t and visit.done.text("kind") == "released":
            told[-1] = visit.left, f"{told[-1][1]}, and lets go of {lock}"
        else:
            told.append((visit.done, _DONE[visit.done.text("kind")].format(**_fields(visit.done, who))))
    return [*told, *((record, other_words(record)) for record in visit.others)]


def outcome_words(record: Record) -> str:
    """Tell how a call ended."""
    who = record.text("invocation") or record.text("owner")
    error = record.text("error") or ("" if record.text("outcome") in ("ok", "error") else record.text("outcome"))
    if error == "failed":
        return f"{who} fails, as functions do"
    return f"{who} ends with {error}" if error else f"{who} ends well"


def message_words(record: Record) -> str:
    """Tell what happened to a message."""
    told = {"host": record.host, "id": record.text("id"), "queue": record.text("queue"), "reason": _reason(record)}
    sentence = _OF_MESSAGES.get(record.event, f"{{host}}: {record.event.replace('_', ' ')}, {{id}}")
    times = int(record.get("dequeue_count") or 1)
    again = f", {times} times by now" if times > 1 else ""
    return sentence.format(**told) + again


def other_words(record: Record) -> str:
    """Tell a record that has no sentence of its own."""
    what = record.text("kind").replace("_", " ") or record.event.replace("_", " ")
    if record.text("kind") in _DONE:
        return _DONE[record.text("kind")].format(**_fields(record, record.text("owner") or record.host))
    return f"{record.text('owner') or record.host}: {what}, {label(record.text('lock'))}{_reason(record)}"


def operator_words(record: Record) -> str:
    """Tell what an operator did."""
    what = _OPERATORS.get(record.text("action"), f"does {record.text('action')!r} to {{lock}}")
    return f"an operator {what.format(lock=label(record.text('lock')))}"


def request_words(records: Sequence[Record], lease: Lease | None) -> str:
    """Tell what the service did with similar requests, and whether they or their replies were late or lost.

    ``lease``: the one that they were sent under, if it was ever given.
    """
    record, last = records[0], records[-1]
    lasts = f" until {last.get('until'):.3f} s" if record.text("call") in _LEASING and last.get("until") else ""
    what, delays = _done_with(record, lease), _delays(record)
    if len(records) == 1:
        return f"{what}{lasts}{delays}"
    if lasts:
        often = f"{_times(len(records))}, last at {last.t:.3f} s,{lasts}"
        return f"{what}{delays}, {often}" if delays else f"{what} {often}"
    if len(records) == _TWICE:
        return f"{what}{delays}, and again at {last.t:.3f} s"
    return f"{what}{delays}, {_times(len(records))} until {last.t:.3f} s"


def _done_with(record: Record, lease: Lease | None) -> str:
    """Tell what the service did with a request, if it arrived."""
    call, answer = record.text("call"), record.text("answer")
    about = {"host": record.host, "call": call.strip("_"), "lock": label(record.text("name"))}
    if answer == "lost":
        return "{host}'s {call} of {lock} is lost on its way".format(**about)
    if in_vain(record):
        return "{host} asks for the lease of {lock} in vain".format(**about)
    if answer != "ok":
        with_ = answer.removesuffix(" simulated")
        return "the service answers {host}'s {call} of {lock} with {answer}".format(**about, answer=with_)
    if call == "acquire" and not (lease is not None and lease.requests[0] is record):
        return "the service gives {host} the same lease of {lock}".format(**about)
    if call == "release" and lease is not None and lease.ending == "expired" and (lease.ended or 0.0) <= record.t:
        return "{host} gives the lease of {lock} back, which has run out".format(**about)
    return _CARRIED_OUT.get(call, "the service carries out {host}'s {call} of {lock}").format(**about)


def _times(number: int) -> str:
    return "twice" if number == _TWICE else f"{number} times"


def _delays(record: Record) -> str:
    if record.text("answer") == "lost":
        return ""
    out, back = float(record.get("out", 0.0)), record.get("back", 0.0)
    late = f", {out:.1f} s after it was sent" if out >= _SLOW else ""
    if back is None:
        return f"{late}, but the reply is lost"
    return f"{late}; the reply takes {back:.1f} s" if back >= _SLOW else late


def in_vain(record: Record) -> bool:
    """Tell whether this is a request for a lease that somebody else has."""
    return record.text("call") == "acquire" and record.text("answer").endswith("LeaseAlreadyPresent")


def is_trouble(record: Record) -> bool:
    """Tell whether a request was late, lost or refused, for another reason than that somebody else has the lease."""
    late = float(record.get("out") or 0.0) >= _SLOW or record.get("back") is None or record.get("back") >= _SLOW
    return late or not (record.text("answer") == "ok" or in_vain(record))


def _joined(who: str, one: Record | None, said: str, other: Record | None, then: str) -> list[Told]:
    """Tell of two records: in one sentence, where they are of the same time."""
    if one is not None and other is not None and round(one.t - other.t, 3) == 0:
        return [(one, f"{who} {said}, and {then}")]
    return [(record, f"{who} {text}") for record, text in ((one, said), (other, then)) if record is not None]


def _reason(record: Record | None) -> str:
    reason = "" if record is None else record.text("reason")
    return f" ({reason})" if reason else ""


def _wish(record: Record) -> str:
    if record.get("lock"):
        return f"becomes a candidate for {label(record.text('lock'))}"
    timeout = record.get("timeout")
    return "wants a slot" if timeout is None else f"wants a slot within {timeout:g} s"


def _fields(record: Record, who: str) -> dict[str, Any]:
    told = {name: record.text(name) for name in ("message_id", "copy_id")}
    return {"owner": who, "lock": label(record.text("lock")), "reason": _reason(record), **told}
