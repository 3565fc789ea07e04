"""Read journals into a `History`, record by record, the oldest first.

If no record tells the end of something, the end is the death of its host, or the last record of the run.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from simulator.history.client_holds import ClientLocks
from simulator.history.deeds import (
    OF_PATTERNS,
    ONCE,
    about_of,
    bear_witness,
    began,
    broken_by_user_code,
    by_delivery,
    end,
    function_of,
    holds_of,
    inside,
    lease_request,
    of_a_guard,
    once_of,
    outside,
    seen_in,
    semaphore_of,
    strike_of,
    with_older_names,
)
from simulator.history.facts import (
    Acquisition,
    Drain,
    Ending,
    History,
    Invocation,
    Kill,
    Refusal,
    Section,
    Sight,
    Wait,
    WorkerEnd,
)
from simulator.history.grants import Grants, broken_outside, deleted_outside, replaced_by_user_code
from simulator.history.inbox_item import InboxItem
from simulator.history.journal import Record, in_order
from simulator.history.message_book import MessageBook
from simulator.history.outages import PauseSpan, PutBack, standstill
from simulator.history.pattern_uses import PatternUses

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from simulator.history.facts import Message


_MADE: Final = 201
_ENDINGS: Final[dict[str, Ending]] = {"error": "error", "lost": "lost"}
Key: TypeAlias = tuple[str, str, str]
"""Which host, which lock, and for whom: an invocation's id, or for a listener the worker."""


def read_history(records: Iterable[Record]) -> History:
    """Read records, in any order, into a `History`."""
    historian = Historian()
    ordered = [*by_delivery(in_order(records))]
    if ordered:
        historian.history.start = ordered[0].t
    for record in with_older_names(ordered):
        historian.take(record)
    for thing in historian.unended():
        thing.end = historian.history.end
    historian.history.outside.extend([*broken_outside(historian.history), *deleted_outside(historian.history)])
    historian.history.outside.extend(replaced_by_user_code(historian.history))
    historian.history.altered = [record for record in ordered if record.event == "altered"]
    historian.history.named = [record for record in ordered if record.event in {"named", "lock_named"}]
    historian.history.unrun = [record for record in ordered if record.event == "guard_ended"]
    historian.history.looks = [record for record in ordered if record.event in {"looked_up", "set_refused"}]
    historian.history.answers = [record for record in ordered if record.event == "policy_answered"]
    bear_witness(historian.history)
    return historian.history


class Historian:
    """Folds records, oldest first, into a history, and knows what is under way."""

    def __init__(self) -> None:
        self.history = History()
        self.held: dict[Key, Acquisition] = {}
        self.bodies: dict[Key, list[Section]] = defaultdict(list)
        self.waits: dict[Key, list[Wait]] = defaultdict(list)
        self._askers: dict[Key, list[Wait]] = defaultdict(list)
        self._calls: dict[Key, list[Invocation]] = defaultdict(list)
        self._sights: dict[Key, list[Sight]] = defaultdict(list)
        self._deferring: set[tuple[str, str]] = set()
        self._answered: set[tuple[str, str]] = set()  # the grants that the storage sent: blob and lease
        self._uses = PatternUses()
        self._clients = ClientLocks()
        self.grants = Grants()
        self._messages = MessageBook(self.history)

    def take(self, record: Record) -> None:
        """Take the next record. Events that mean nothing to the checks are skipped."""
        self.history.end = record.t
        self.history.traffic.take(record)
        self.history.uses += self._uses.take(record, self.held.values(), self._called(record))
        for part in (self._take_call, self._messages.take, self._take_host, self._take_run, self._take_strike):
            part(record)
        for told in self._clients.translated(record) if record.event == "client_lock" else ():
            self.take(told)

    def unended(self) -> Iterator[Section | Wait | Invocation | Sight]:
        """Yield what has not ended: its end is infinity."""
        for things in (self.bodies, self.waits, self._askers, self._calls, self._sights):
            for several in things.values():
                yield from several

    def _take_run(self, record: Record) -> None:
        history = self.history
        match record.event:
            case "run_started":
                history.start = record.t
                history.setup = dict(record.fields)
                self._clients.container = record.text("container")
            case "run_ended":
                history.interrupted = bool(record.get("interrupted"))
            case "queue_left":
                history.ready_left[record.text("queue")] = set(record.get("ids") or ())
                history.invisible_left[record.text("queue")] = int(record.get("invisible") or 0)
            case "queue_unreachable":
                history.unreachable.setdefault((record.host, record.text("queue")), record.t)
            case "queue_reached":
                history.unreachable.pop((record.host, record.text("queue")), None)
            case "note":
                history.notes[record.text("message")] = None
            case "function":
                history.witnessed |= bool(record.get("witnessed"))
                history.functions.setdefault(record.text("name"), function_of(record))
                history.renamed |= {record.text("name")} if record.get("also") else set()
            case "guard":
                history.inner.setdefault(record.text("name"), function_of(record))
            case "tick":
                history.ticks.append((record.t, record.host, record.text("function")))
            case "ticks_ended":
                history.last_tick = record.t

    def _take_strike(self, record: Record) -> None:
        history = self.history
        match record.event:
            case "kill":
                pid, holds = int(record.get("pid") or 0), holds_of(record)
                for hold in holds:
                    hold.blob = getattr(self.held.get((hold.host, hold.lock, hold.owner)), "blob", "")
                history.kills.append(Kill(t=record.t, host=record.host, pid=pid, holds=holds))
                self._bury(record, "killed")
            case "pause":
                history.pauses.append(PauseSpan(host=record.host, start=record.t, outside=bool(record.get("outside"))))
            case "resume":
                for pause in history.pauses:
                    if pause.host == record.host and pause.end == math.inf:
                        pause.end = record.t
            case "operator":
                history.operated.append((record.t, record.text("lock")))
                history.deleted += history.operated[-1:] if record.get("action") == "delete" else []
                if "path" in record.fields:
                    history.outside.append(broken_by_user_code(record))
            case "fault" if record.get("id") is not None:
                history.faults.append(strike_of(record))  # without an id: of a virtual world (`History.rough`)
            case "fault_ended":
                number, hits = int(record.get("id") or 0), int(record.get("hits") or 0)
                for place, fault in enumerate(history.faults):
                    if fault.id == number:
                        history.faults[place] = replace(fault, end=record.t, hits=hits)
            case "healed":
                history.healed = record.t

    def _take_host(self, record: Record) -> None:
        history, host = self.history, record.host
        match record.event:
            case "lease_granted":
                self._answered.add((record.text("blob"), record.text("lease")))
            case "lease_request":
                request = lease_request(record)
                lost = request.status is None and (request.blob, request.lease) in self._answered
                history.requests.append(replace(request, carried_out=lost))
                self.grants.take(request, self.held.values())
            case "blob_made" if record.get("status") == _MADE:
                history.made.append((record.t - float(record.get("took") or 0.0), record.text("blob")))
            case "blob_replaced":
                history.replaced.append(record)
            case "storage_calls":
                whose = (host, int(record.get("worker") or 0), int(record.get("pid") or 0))
                for blob, calls in (record.get("blobs") or {}).items():
                    history.blob_calls.setdefault((*whose, blob), []).append((record.t, calls))
            case "loop_stood" | "process_stood":
                history.standstills.append(standstill(record))
            case "machine_slow":
                history.slowness.take(record, history.paused)
            case "host_started":
                history.hosts[host] = int(record.get("pid") or 0)
                history.witnessed |= bool(record.get("witness"))
                history.slowness.measured |= bool(record.get("measures"))
            case "host_restarted":
                history.restarted[host] = record.text("after")
            case "host_ready":
                history.hosts.setdefault(host, 0)
                history.ready.add(host)
                history.began[host] = record.t
            case "host_error":
                history.errors.append((host, record.text("message")))
            case "host_stopping":
                history.stopping[host] = record.t
            case "host_draining":
                history.drains.append(Drain(t=record.t, host=host, holds=holds_of(record)))
            case "host_exited" if record.get("expected"):
                history.exits[host] = record.t
                # Nothing is left to end, unless it did not stop; what a drained host still does is cut, as by a kill.
                if any(drain.host == host for drain in history.drains):
                    self._bury(record, "killed")
                else:
                    self._end_all(record, "open")
            case "host_exited" if host not in history.deaths:
                history.crashes.append((host, record.text("code")))
                self._bury(record, "crashed")
            case "worker_exited":
                worker, timeout = int(record.get("worker") or 0), bool(record.get("timeout"))
                cut = sum((body.host, body.worker) == (host, worker) for each in self.bodies.values() for body in each)
                about: dict[str, Any] = {"worker": worker, "cut": cut, "timeout": timeout}
                history.worker_ends.append(WorkerEnd(t=record.t, host=host, reason=record.text("reason"), **about))
                whole = (
                    self.bodies,
                    self.waits,
                    self._askers,
                    self._sights,
                )  # what was called in it is ended by its host
                self._end_of(record, "crashed", whole, lambda thing: thing.worker == worker)

    def _take_call(self, record: Record) -> None:
        match record.event:
            case "lock":
                self._take_lock(record)
            case "body_entered":
                self._enter(record)
            case "body_left":
                worker = str(int(record.get("worker") or 1))
                for sight in self._sights.pop((record.host, worker, record.text("run")), ()):
                    sight.end, sight.ending = record.t, "error" if record.get("error") else "ok"
                    sight.error, sight.saw_loss = record.text("error"), record.get("lost")
                    sight.shown = record.get("shown") or {}
                    if sight.sees and "token" in record.fields and sight.error != "GeneratorExit":  # closed anywhere
                        sight.other_hold = seen_in(record) != sight.hold
                    sight.left_running = tuple(record.get("left_running") or ())
                    sight.digest = record.get("digest")
            case "items_failed":
                self._fail_items(record)
            case "invocation_started":
                told: dict[str, Any] = {name: record.text(name) for name in ("function", "message", "request")}
                call = Invocation(id=record.text("invocation"), host=record.host, start=record.t, **told)
                self.history.invocations.append(call)
                self._calls[record.host, "", call.id].append(call)
                if call.message:
                    self._messages.called(call.message).invocations.append(call)
            case "invocation_ended":
                self._end_call(record, record.text("invocation"))
            case "asked_to_end":
                self.history.asked.setdefault((record.host, record.text("invocation")), []).append(record)
            case "call_raised":
                for call in self._called(record):
                    call.raised = record.text("error")
            case "once_kept" | "once_answered":
                for call in self._called(record):
                    call.once[record.event] = {"": record.text("digest"), **(record.get("outputs") or {})}
            case "expected":
                for call in self._called(record):
                    keys = dict(record.get("keys") or {})
                    call.operation = keys.pop("once", "")
                    call.keys, call.blobs = keys, dict(record.get("blobs") or {})

    def _fail_items(self, record: Record) -> None:
        """A body is not over before the items of the iterator that it returned."""
        whose = record.host, record.text("invocation"), record.text("function")
        for sight in reversed(self.history.sights):
            if (sight.host, outside(sight.invocation), sight.function) == whose:
                sight.ending, sight.error = "error", record.text("error")
                return

    def _called(self, record: Record) -> Iterable[Invocation]:
        return self._calls.get((record.host, "", record.text("invocation")), ())

    def _end_call(self, record: Record, owner: str) -> None:
        for call in self._calls.pop((record.host, "", owner), ()):
            succeeded: Ending = "deferred" if (record.host, owner) in self._deferring else "ok"
            call.end = record.t
            call.ending = succeeded if record.text("outcome") == "ok" else "error"
            call.error = record.text("error")
            call.blames = record.text("blames")
        theirs = [key for key in self.waits if key[0] == record.host and outside(key[2]) == owner]
        for key in theirs:
            if not any(self.history.function(wait.function).blob for wait in self.waits[key]):  # a task may go on
                end(self.waits.pop(key), record, "error")

    def _enter(self, record: Record) -> None:
        told: dict[str, Any] = {name: record.text(name) for name in ("function", "invocation")}
        worker, attempt = int(record.get("worker") or 1), int(record.get("attempt") or 0)
        guard = self._inner_guard(record.host, told["invocation"], told["function"])
        if guard or told["function"] in self.history.inner:
            told |= {"inner": True, "invocation": inside(told["invocation"], told["function"])}
        sight = Sight(host=record.host, start=record.t, worker=worker, attempt=attempt, **told)
        sight.can_be_asked = bool(record.get("can_be_asked"))
        sight.sees = False if record.get("blind") else True if "token" in record.fields else None
        sight.token = record.get("token")
        sight.hold = seen_in(record)
        if item := record.get("item"):
            sight.item = InboxItem(**item)
        self.history.sights.append(sight)
        self._sights[record.host, str(sight.worker), record.text("run")].append(sight)

    def _take_lock(self, record: Record) -> None:
        if not of_a_guard(record):
            if record.get("kind") == "acquired" and not record.text("lock").startswith(OF_PATTERNS):
                self.history.client_locks[semaphore_of(record.text("lock"))] = None
            return
        about = about_of(record)
        blob, invocation = about["lock"], about["owner"]
        about |= self._inside(about)
        if self.history.function(about["function"]).several:
            about["lock"] = semaphore_of(blob)
        listener = f"listener {about['worker']}"
        led = about["mode"] == "listener"
        key = (record.host, about["lock"], about["owner"] or (listener if led else ""))
        match record.get("kind"):
            case "waiting":
                wait = Wait(start=record.t - (record.get("late") or 0.0), **about)
                self.history.waits.append(wait)
                self.waits[key].append(wait)
            case "acquired":
                end(self.waits.pop(key, ()), record, "acquired")
                got = Acquisition(t=record.t, token=record.get("token"), blob=blob, **about)
                if not self.history.function(got.function).several:
                    self._let_go(key, record, "ok")  # without an owner's name: the hold before tells late of its end
                self.held[key] = self.grants.known(got)
                self.history.acquisitions.append(self.held[key])
            case "contended" | "coalesced" as kind:
                asked, calls = self.waits.pop(key, []), self._calls.get((record.host, "", invocation), [])
                end(asked, record, "contended")
                since = began(asked, record), began(calls, record)
                reason = "coalesce" if kind == "coalesced" else record.text("reason")
                refusal = Refusal(t=record.t, reason=reason, asked=since[0], called=since[1], **about)
                self.history.refusals.append(refusal)
            case "failed":
                for wait in self.waits.get(key, ()):
                    wait.error = record.text("reason")
                end(self.waits.pop(key, ()), record, "error")
            case "deferred":
                self._deferring.add((record.host, invocation))
                self._messages.hand_on(message := self._message_of(record), copy := record.text("copy_id"))
                known = about["mode"] == self.history.function(about["function"]).mode
                if known and (told := self.history.traffic.sends.get(copy)) is not None:
                    name = about["function"]
                    put = PutBack(t=record.t, host=record.host, function=name, delay=told[0], life=told[1])
                    self.history.traffic.put_back.append(put)
                message.unnamed |= not record.text("message_id")
            case "poisoned":
                self._message_of(record).poisoned = True
                self.history.struck.add((record.host, invocation))
            case "body_started":
                holder = (*key[:2], listener) if led else key
                held = holder in self.held
                body = Section(token=record.get("token"), start=record.t, held=held, **about)
                self.history.sections.append(body)
                self.bodies[key].append(body)
            case "body_ended" if self.bodies.get(key):
                body = self.bodies[key].pop(0)
                body.saw_loss = record.get("saw")
                end([body], record, _ENDINGS.get(record.text("reason"), "ok"))
            case "lost":
                self._let_go(key, record, "lost")
                self.history.losses[record.text("reason")] += about["mode"] != "also"
                self._tell_bodies(key, record, about["worker"] if led else None)
            case "released" if record.get("token") in {None, getattr(self.held.get(key), "token", None)}:
                self._let_go(key, record, "ok")
            case "begun":
                self._askers[key].append(Wait(start=record.t, **about))
                self.history.askers += self._askers[key]
            case "over":
                end(self._askers.pop(key, ()), record, "ok")

    def _inside(self, about: Mapping[str, Any]) -> dict[str, str]:
        """Return the names of guard and owner of a deed under another guard than that of the invocation's function."""
        guard = self._inner_guard(about["host"], about["owner"], about["function"], about["lock"])
        return {"function": guard, "owner": inside(about["owner"], guard)} if guard else {}

    def _inner_guard(self, host: str, invocation: str, function: str, lock: str = "") -> str:
        """Return the name of a guard that is not that of the invocation's function; the empty text if it is."""
        call = next(iter(self._calls.get((host, "", invocation), ())), None)
        if call is None:
            return ""
        own = self.history.function(call.function)
        if function not in {call.function, *own.declared}:
            return function
        return once_of(function) if own.once and own.guarded and lock.startswith(ONCE) else ""

    def _tell_bodies(self, key: Key, record: Record, leader: int | None) -> None:
        """Note a loss for the bodies that are told of it: for a listener's lock all bodies of its worker."""
        for each, bodies in self.bodies.items():
            told = each == key if leader is None else each[:2] == key[:2]
            for body in bodies if told else ():
                if leader is None or (body.mode == "listener" and body.worker == leader):
                    body.told, body.why = record.t, record.text("reason")

    def _bury(self, record: Record, ending: Ending) -> None:
        self.history.deaths[record.host] = record.t
        self._end_all(record, ending)

    def _end_all(self, record: Record, ending: Ending) -> None:
        whole = (self.bodies, self.waits, self._askers, self._calls, self._sights)
        self._end_of(record, ending, whole, lambda _: True)

    def _end_of(
        self, record: Record, ending: Ending, whole: Iterable[dict[Key, Any]], of: Callable[[Any], bool]
    ) -> None:
        for things in whole:
            for key in [key for key in things if key[0] == record.host]:
                several = things.pop(key)
                end([thing for thing in several if of(thing)], record, ending)
                if rest := [thing for thing in several if not of(thing)]:
                    things[key] = rest
        for key in [key for key, got in self.held.items() if key[0] == record.host and of(got)]:
            self._let_go(key, record, ending)

    def _let_go(self, key: Key, record: Record, ending: Ending) -> None:
        held = self.held.pop(key, None)
        if held is not None:
            held.until, held.ending, held.why = record.t, ending, record.text("reason")

    def _message_of(self, record: Record) -> Message:
        """Return the message of the invocation that reports about a lock: it may not know the message's id itself."""
        calls = self._calls.get((record.host, "", record.text("owner")), ())
        names = [call.message for call in calls if call.message]
        return self._messages.called(names[-1] if names else record.text("message_id"))
