"""Read journals into a `History`, record by record, oldest first.

A thing that was never seen to end has ended when its host died, or with the last record of the run.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from simulator.history.facts import (
    LEASE,
    LISTENER_LEASE,
    POLL,
    RECOVERY,
    Acquisition,
    Ending,
    Function,
    Held,
    History,
    Invocation,
    Kill,
    Message,
    Mode,
    Pause,
    Refusal,
    Section,
    Wait,
)
from simulator.history.journal import Record, in_order

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def read_history(records: Iterable[Record]) -> History:
    """Read records, in any order, into a `History`."""
    ordered = in_order(records)
    reader = _Reader()
    for record in ordered:
        reader.take(record)
    return reader.finish(ordered)


class _Reader:
    """Folds records, oldest first, into a history."""

    def __init__(self) -> None:
        self.history = History()
        self._held: set[tuple[str, str, str]] = set()
        self._bodies: dict[tuple[str, str, str], list[Section]] = defaultdict(list)
        self._waiting: dict[tuple[str, str, str], list[Wait]] = defaultdict(list)
        self._running: dict[tuple[str, str], Invocation] = {}
        self._deferring: set[tuple[str, str]] = set()
        self._originals: dict[str, str] = {}  # of copies

    def take(self, record: Record) -> None:
        """Take the next record; events that tell the checks nothing are passed over."""
        handler = getattr(self, f"_on_{record.event}", None)
        if handler is not None:
            handler(record)

    def finish(self, ordered: Sequence[Record]) -> History:
        """Close what never ended."""
        history = self.history
        if ordered:
            history.end = ordered[-1].t
            history.start = history.start or ordered[0].t
        self._end_all(None, history.end, "open")
        history.sections.sort(key=lambda section: (section.start, section.end))
        history.waits.sort(key=lambda wait: wait.start)
        history.invocations.sort(key=lambda invocation: invocation.start)
        return history

    # -- the fleet ----------------------------------------------------------------------------------

    def _on_run_started(self, record: Record) -> None:
        self.history.start = record.t
        self.history.setup = dict(record.fields)

    def _on_run_ended(self, record: Record) -> None:
        self.history.interrupted = bool(record.get("interrupted"))

    def _on_message_sent(self, record: Record) -> None:
        message = self._message(record)
        message.sent = record.t
        message.key = record.text("key")
        message.queue = record.text("queue")

    def _on_kill(self, record: Record) -> None:
        holds = tuple(
            Held(
                lock=str(hold.get("lock", "")),
                function=str(hold.get("function", "")),
                owner=str(hold.get("owner", "")),
                token=hold.get("token"),
                mode=_mode(hold.get("mode")),
            )
            for hold in record.get("holds") or ()
        )
        kill = Kill(t=record.t, host=record.host, pid=int(record.get("pid") or 0), holds=holds)
        self.history.kills.append(kill)
        self._bury(record.host, record.t, "killed")

    def _on_pause(self, record: Record) -> None:
        self.history.pauses.append(Pause(host=record.host, start=record.t, end=math.inf))

    def _on_operator(self, record: Record) -> None:
        self.history.operated.append((record.t, record.text("lock")))

    def _on_resume(self, record: Record) -> None:
        for pause in self.history.pauses:
            if pause.host == record.host and pause.end == math.inf:
                pause.end = record.t

    def _on_host_exited(self, record: Record) -> None:
        if record.get("expected"):
            self._end_all(record.host, record.t, "killed")  # nothing is left to end, unless it would not stop
        elif record.host not in self.history.deaths:
            self.history.crashes.append((record.host, record.text("code")))
            self._bury(record.host, record.t, "crashed")

    def _on_queue_left(self, record: Record) -> None:
        queue = record.text("queue")
        self.history.ready_left[queue] = {str(name) for name in record.get("ids") or ()}
        self.history.invisible_left[queue] = int(record.get("invisible") or 0)

    # -- the hosts ----------------------------------------------------------------------------------

    def _on_host_started(self, record: Record) -> None:
        self.history.hosts[record.host] = int(record.get("pid") or 0)

    def _on_host_ready(self, record: Record) -> None:
        self.history.hosts.setdefault(record.host, 0)
        self.history.ready.add(record.host)

    def _on_host_error(self, record: Record) -> None:
        self.history.errors.append((record.host, record.text("message")))

    def _on_note(self, record: Record) -> None:
        self.history.notes[record.text("message")] = None

    def _on_function(self, record: Record) -> None:
        name = record.text("name")
        listener = record.get("listener") or {}
        self.history.functions.setdefault(
            name,
            Function(
                name=name,
                trigger=record.text("trigger"),
                queue=record.text("queue"),
                guarded=bool(record.get("guarded")),
                mode=_mode(record.get("mode")),
                on_contention=record.text("on_contention") or "wait",
                lease=_number(record.get("lease"), LEASE),
                poll=_number(record.get("poll"), POLL),
                listener_lease=_number(listener.get("lease"), LISTENER_LEASE),
                recovery=_number(listener.get("poll"), RECOVERY),
                tick=_number(record.get("tick"), 0.0),
                away=_number(record.get("away"), 0.0),
                sync=record.get("async") is False,
            ),
        )

    def _on_tick(self, record: Record) -> None:
        self.history.ticks.append((record.t, record.host, record.text("function")))

    def _on_message_received(self, record: Record) -> None:
        message = self._message(record)
        message.receipts.append((record.t, record.host))
        message.most_dequeued = max(message.most_dequeued, int(record.get("dequeue_count") or 0))

    def _on_message_completed(self, record: Record) -> None:
        self._message(record).completed.append(record.host)

    def _on_message_poisoned(self, record: Record) -> None:
        self._message(record).poisoned = True

    def _on_invocation_started(self, record: Record) -> None:
        invocation = Invocation(
            id=record.text("invocation"),
            function=record.text("function"),
            host=record.host,
            message=record.text("message"),
            start=record.t,
            end=record.t,
        )
        self._running[record.host, invocation.id] = invocation
        if invocation.message:
            self._message_called(invocation.message).invocations.append(invocation)

    def _on_invocation_ended(self, record: Record) -> None:
        invocation = self._running.pop((record.host, record.text("invocation")), None)
        if invocation is not None:
            invocation.end = record.t
            succeeded: Ending = "deferred" if (record.host, invocation.id) in self._deferring else "ok"
            invocation.ending = succeeded if record.text("outcome") == "ok" else "error"
            invocation.error = record.text("error")
            self.history.invocations.append(invocation)
            for key in [key for key in self._waiting if (key[0], key[2]) == (record.host, invocation.id)]:
                self._end_wait(key, record.t, "failed")

    def _on_lock(self, record: Record) -> None:
        kind, about = record.text("kind"), _about(record)
        key = (record.host, record.text("lock"), record.text("owner"))
        if kind == "waiting":
            self._waiting[key].append(Wait(start=record.t, end=record.t, **about))
        elif kind == "acquired":
            self._end_wait(key, record.t, "acquired")
            self._held.add(key)
            self.history.acquisitions.append(Acquisition(t=record.t, token=_token(record), **about))
        elif kind == "contended":
            self._end_wait(key, record.t, "contended")
            self.history.refusals.append(Refusal(t=record.t, reason=record.text("reason"), **about))
        elif kind == "deferred":
            self._deferring.add((record.host, record.text("owner")))
            self._hand_on(self._message_called(record.text("message_id")), record.text("copy_id"))
        elif kind == "poisoned":
            self._message_called(record.text("message_id")).poisoned = True
        elif kind == "body_started":
            holder = (key[0], key[1], "") if about["mode"] == "listener" else key
            self._bodies[key].append(section_of(record, held=holder in self._held))
        elif kind == "body_ended":
            self._end_body(key, record)
        elif kind in {"lost", "released"}:
            self._held.discard(key)
            if kind == "lost":
                self.history.losses.append((record.t, key[0], key[1], record.text("reason")))
                for section in self._bodies.get(key, ()):
                    section.told = record.t

    def _end_body(self, key: tuple[str, str, str], record: Record) -> None:
        if self._bodies.get(key):
            section = self._bodies[key].pop(0)
            section.end = record.t
            reason = record.text("reason")
            section.ending = "error" if reason == "error" else "lost" if reason == "lost" else "ok"
            self.history.sections.append(section)

    def _end_wait(self, key: tuple[str, str, str], t: float, outcome: str) -> None:
        waits = self._waiting.pop(key, [])
        for wait in waits:
            wait.end, wait.outcome = t, outcome
            self.history.waits.append(wait)

    def _bury(self, host: str, t: float, ending: Ending) -> None:
        """Note a host's untimely death."""
        self.history.deaths[host] = t
        self._end_all(host, t, ending)

    def _end_all(self, host: str | None, t: float, ending: Ending) -> None:
        """End all that a host was at, or all hosts."""
        for key in [key for key in self._bodies if host in {None, key[0]}]:
            for section in self._bodies.pop(key):
                section.end, section.ending = t, ending
                self.history.sections.append(section)
        for key in [key for key in self._waiting if host in {None, key[0]}]:
            for wait in self._waiting.pop(key):
                wait.end, wait.outcome = t, ending
                self.history.waits.append(wait)
        for where in [where for where in self._running if host in {None, where[0]}]:
            invocation = self._running.pop(where)
            invocation.end, invocation.ending = t, ending
            self.history.invocations.append(invocation)

    def _hand_on(self, message: Message, name: str) -> None:
        """From now on, what becomes of this copy becomes of the message."""
        self._originals[name] = message.id
        message.deferred += 1
        message.ids.add(name)
        early = self.history.messages.pop(name, None)  # it was received before its sender could say so
        if early is not None:
            message.ids |= early.ids
            message.most_dequeued = max(message.most_dequeued, early.most_dequeued)
            message.deferred += early.deferred
            message.poisoned = message.poisoned or early.poisoned
            message.receipts += early.receipts
            message.completed += early.completed
            message.invocations += early.invocations
            for each in early.ids:
                self._originals[each] = message.id

    def _message(self, record: Record) -> Message:
        return self._message_called(record.text("id"), record.text("queue"))

    def _message_called(self, name: str, queue: str = "") -> Message:
        name = self._originals.get(name, name)
        if name not in self.history.messages:
            self.history.messages[name] = Message(id=name, queue=queue, ids={name})
        return self.history.messages[name]


def section_of(record: Record, *, held: bool) -> Section:
    """Return the body that starts with this record, under its lock or not."""
    return Section(token=_token(record), start=record.t, end=record.t, held=held, **_about(record))


def _about(record: Record) -> dict[str, Any]:
    """Return which lock a record speaks of, and whose doing it is."""
    named = {name: record.text(name) for name in ("lock", "function", "owner")}
    return {**named, "host": record.host, "mode": _mode(record.get("mode"))}


def _token(record: Record) -> int | None:
    token = record.get("token")
    return token if isinstance(token, int) and not isinstance(token, bool) else None


def _mode(value: object) -> Mode:
    return "listener" if value == "listener" else "function"


def _number(value: object, default: float) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else default
