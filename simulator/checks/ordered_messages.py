"""The messages of a key run in the order sent, one at a time, and none is lost or handled again: inboxes, outboxes.

A message of an inbox is known by its id, and belongs to a send by its digest. A crash, a lost lease or a failure
repeats the message in hand. A message that has failed holds back its key until the message was tried as often as the
app lets it be tried (``attempts``), or for good (``on_poison="stop"``). Where something struck the run meanwhile,
attempts may have no runs.

The relay of an outbox is judged by the messages that the relay sends and notes, and that the app has added. What its
table has left, `second_tries` judges.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from operator import itemgetter
from typing import TYPE_CHECKING, Final, TypeAlias

from simulator.checks.excuses import hindering
from simulator.checks.findings import Finding, count, note, unproven, violation
from simulator.history.deeds import OF_INBOXES
from simulator.history.journal import UNSEEN
from simulator.history.slowness import STORAGE
from simulator.history.value_digest import UNREADABLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from simulator.history.facts import History, PatternUse, Sight

_IN_VAIN: Final = 2
"""Attempts without an end after which a message may be put aside, at least."""
_LEASE: Final = 15.0
_FIRST_PAUSE: Final = 1.0
"""Seconds until a message that failed is tried again; twice as long after each further failure."""
_LONGEST_PAUSE: Final = 60.0
_SLACK: Final = 0.25
_LATE: Final = 5.0
"""Seconds by which a bell may come late: whole seconds of a queue, and looks at the queue."""
_PASSED: Final = 2
"""Messages that must have passed one whose next try was due."""
_GIVEN_UP: Final = ("failed", "stopped")

Wrong: TypeAlias = "tuple[str, Sight | PatternUse]"
"""A fault in words, and the run or the send with the fault."""


@dataclass(frozen=True, slots=True)
class MessageRuns:
    """A message of an inbox: its send, if any was seen, and the runs of its handler, in order.

    ``stops``: it may stop its key, and nobody may have resumed the key.
    """

    send: PatternUse | None
    runs: list[Sight]
    stops: bool

    @property
    def attempts(self) -> int:
        """How often the message is tried before its key goes on, at least; 1 if the app's word is not known."""
        return min((run.item.attempts or 1 for run in self.runs if run.item), default=1)

    def over(self, history: History) -> float:
        """Return when the next message of its key may begin; infinity: never."""
        done = min((run.end for run in self.runs if run.ending == "ok"), default=math.inf)
        ends = min(done, self.spent(self.attempts))
        struck = bool(self.runs) and _is_struck(history, self.runs, ends)
        return done if self.stops else min(done, self.spent(1)) if struck else ends

    def spent(self, attempts: int) -> float:
        """Return when it had failed, or been tried in vain, as often as ``attempts`` allow; infinity: never."""
        failed = [run.end for run in self.runs if run.ending == "error"][attempts - 1 :]
        vain = [run.end for run in self.runs if attempts > 1 or run.ending not in {"ok", "error"}]
        return min([*failed, *vain[max(attempts, _IN_VAIN) - 1 :]], default=math.inf)


def judge_ordered(history: History) -> Iterator[Finding]:
    """Find messages that overtook one of their key, ran beside one, ran again, or never ran."""
    if history.rough:
        return
    wrong: dict[tuple[str, str], list[Sight | PatternUse]] = defaultdict(list)
    left: dict[str, int] = defaultdict(int)
    held: dict[str, int] = defaultdict(int)
    handled = {sight.item.inbox for sight in history.sights if sight.item}
    for inbox, what, run in _wrongly_told(history):
        wrong[f"inbox {inbox!r}", what].append(run)
    inboxes = _inboxes(history)
    fresh: dict[str, list[MessageRuns]] = defaultdict(list)
    for (inbox, _), messages in inboxes.items():
        fresh[inbox] += _to_idle_keys(history, messages)
    for (inbox, key), messages in inboxes.items():
        for what, shown in _wrong_in(history, messages):
            wrong[f"inbox {inbox!r}", what].append(shown)
        stopped = any(each.stops and each.spent(each.attempts) < each.over(history) for each in messages)
        stopped |= _is_stopped_again(history, inbox, key, messages)
        for each in messages if inbox in handled else ():
            send = each.send
            if send is None or not send.ok or each.over(history) < math.inf:
                continue
            if stopped:
                held[inbox] += 1
            elif not _is_quiet(history, send):
                left[inbox] += not each.runs
            elif each.runs and each.runs[-1].ending == "error":
                wrong[f"inbox {inbox!r}", "failed, and was never tried again"].append(each.runs[-1])
            elif not each.runs:
                wrong[f"inbox {inbox!r}", "was sent, and never handled"].append(send)
        resumed = any(use.of == "resumed inbox" and use.name == inbox for use in history.uses)
        for each in messages if not resumed else ():
            for what, shown in _tries_of(history, each, fresh[inbox], messages):
                wrong[f"inbox {inbox!r}", what].append(shown)
    for name, uses in _outboxes(history).items():
        for what, shown in (*_wrong_of(uses), *_wrongly_numbered(history, uses)):
            wrong[f"outbox {name!r}", what].append(shown)
    for (name, what), examples in sorted(wrong.items()):
        first = min(examples, key=lambda each: each.start)
        where = f"the first on {first.host} at {first.start - history.start:.1f} s, of key {_key(first)!r}"
        yield violation(f"{name}: a message {what}: {count(len(examples), 'time')}, {where}")
    for inbox, number in sorted(left.items()):
        if number:
            yield unproven(f"inbox {inbox!r}: {count(number, 'message')} not handled by the end of the run")
    for inbox, number in sorted(held.items()):
        yield note(f"inbox {inbox!r}: {count(number, 'message')} of keys stopped by on_poison='stop', and not resumed")


def unseen_messages(history: History) -> Iterator[str]:
    """Yield the inboxes of which no handler was seen, and the outboxes, in whose database nobody looks."""
    sent = {use.name for use in history.uses if use.of == "inbox"}
    for inbox in sorted(sent - {sight.item.inbox for sight in history.sights if sight.item}):
        yield f"inbox {inbox!r} was not judged: no handler of its messages was seen"
    for name in sorted(name for name, uses in _outboxes(history).items() if any(use.what != "add" for use in uses)):
        yield f"outbox {name!r} was judged by what its relay sends: which messages were committed is not seen"


def _inboxes(history: History) -> dict[tuple[str, str], list[MessageRuns]]:
    """Return the messages of each inbox and key, in the order of their sends."""
    sends: dict[tuple[str, str], dict[str, list[PatternUse]]] = defaultdict(lambda: defaultdict(list))
    runs: dict[tuple[str, str], dict[str, dict[str, list[Sight]]]] = defaultdict(lambda: defaultdict(dict))
    for use in history.uses:
        if use.of == "inbox":
            sends[use.name, use.key][use.digest].append(use)
    for sight in history.sights:
        if (item := sight.item) is not None:
            runs[item.inbox, item.key][item.digest].setdefault(item.id, []).append(sight)
    found: dict[tuple[str, str], list[MessageRuns]] = {}
    items = [sight.item for sight in history.sights if sight.item]
    stopping = {item.inbox for item in items} - {item.inbox for item in items if not item.stops}
    stopping -= {use.name for use in history.uses if use.of == "resumed inbox"}
    for place in {**sends, **runs}:
        several = [
            MessageRuns(send, known or [], place[0] in stopping and UNSEEN not in history.notes)
            for digest in {**sends[place], **runs[place]}
            # Of two sends of the same, the one that returned first is handled first: the other may still be under way.
            for send, known in zip_longest(sorted(sends[place][digest], key=_returned), runs[place][digest].values())
        ]
        found[place] = sorted(several, key=lambda each: each.send.start if each.send else math.inf)
    return found


def _is_stopped_again(history: History, inbox: str, key: str, messages: list[MessageRuns]) -> bool:
    """Tell whether a message has stopped this key after the app's last call to resume a key of its inbox."""
    resumes = [each for each in history.uses if each.of == "resumed inbox" and each.name == inbox]
    resumed = max((each.start for each in resumes if each.key in {"", key}), default=-math.inf)
    if not resumes:
        return False
    for each in messages:
        failed = [run.end for run in each.runs if run.ending == "error"][each.attempts - 1 :]
        known = bool(each.runs) and all(run.item and run.item.stops for run in each.runs)
        if known and failed and failed[-1] > resumed and not any(run.ending == "ok" for run in each.runs):
            return True
    return False


def _wrong_in(history: History, messages: list[MessageRuns]) -> Iterator[Wrong]:
    """Yield what is wrong with the messages of one key of an inbox."""
    sent = [(each.send.end, each.over(history), each) for each in messages if each.send and each.send.ok]
    returned = sorted(sent, key=itemgetter(0), reverse=True)
    latest = -math.inf  # when the messages whose sends had returned were over
    failed = ""  # what follows, if the last of these failed
    for each in messages:
        while each.send and returned and returned[-1][0] <= each.send.start:
            _, over, earlier = returned.pop()
            if over > latest:
                most = earlier.attempts * any(run.ending == "error" for run in earlier.runs)
                then = "stops its key" if earlier.stops else f"is tried {most} times"
                latest, failed = over, f", which failed and {then}," if most > (not earlier.stops) else ""
        if each.send and each.runs and each.runs[0].start < latest:
            yield f"ran before an earlier one of its key{failed} was over", each.runs[0]
    known = {each.send.digest for each in messages if each.send}
    yield from (
        ("ran more often than sent", each.runs[0])
        for each in messages
        if each.send is None and each.runs[0].item and each.runs[0].item.digest in known
    )
    if history.operated or any(fault.kind == "break" for fault in history.faults):
        return  # then two consumers may have a key at once
    runs = sorted((run for each in messages for run in each.runs), key=lambda run: run.start)
    for each in messages:
        for before, after in zip(each.runs, each.runs[1:], strict=False):
            if before.ending == "ok" and before.end <= after.start and _was_kept(history, before, runs):
                yield "ran again after it was done", after
    last: Sight | None = None
    for run in runs:
        if last is not None and run.start < last.end and not _troubled(history, last, run.start):
            yield "ran beside another one of its key", run
        last = run if last is None or run.end > last.end else last


def _to_idle_keys(history: History, messages: list[MessageRuns]) -> Iterator[MessageRuns]:
    """Yield the handled messages of a key that were sent when the key had no others: each had a bell of its own."""
    over = -math.inf
    for each in messages:
        if each.send and each.send.ok and each.runs and over <= each.send.start:
            yield each
        over = max(over, each.over(history))


def _tries_of(
    history: History, message: MessageRuns, fresh: list[MessageRuns], of_key: list[MessageRuns]
) -> Iterator[Wrong]:
    """Yield what is wrong with the tries of a message that failed: too many, too early, too late; and its end.

    ``fresh``: messages of its inbox that were sent to idle keys. ``of_key``: the messages of its key.
    """
    most = [run.item.attempts for run in message.runs if run.item and run.item.attempts]
    again = [history.function(run.function).decorated for run in message.runs]  # a decorator may try again by itself
    if len(most) < len(message.runs) or not most or any(again):
        return
    slow = (history.slowness.late(run.host, STORAGE, start=run.start, end=run.end + _LEASE) for run in message.runs)
    if _is_struck(history, message.runs, message.runs[-1].start) or max(slow) >= _LEASE / 3:
        return
    failed = [run for run in message.runs if run.ending == "error"]
    for number, run in enumerate(message.runs):
        if run.item and run.item.attempt not in {-1, number + 1} and failed[:number] == message.runs[:number]:
            yield "was told another number of its attempt than its own", run
    if len(failed) > max(most):
        yield f"was tried more often than the {max(most)} times that the app allows", failed[max(most)]
    for number, (before, after) in enumerate(pairwise(message.runs), 1):
        pause = min(_FIRST_PAUSE * 2.0 ** (number - 1), _LONGEST_PAUSE)
        early = after.start - before.end < pause - _SLACK
        if early and number < min(most) and failed[:number] == message.runs[:number]:
            yield f"was tried again before the {pause:g} s that follow its failure {number}", after
    if failed == message.runs and all(run.function in history.functions for run in failed):
        yield from _passed_over(history, message, fresh)
        if len(failed) >= max(most):
            yield from _not_put_aside(history, message, of_key)


def _passed_over(history: History, message: MessageRuns, fresh: list[MessageRuns]) -> Iterator[Wrong]:
    """Yield a failure after which consumers handled messages that were sent long after the next try was due.

    A bell that a host has received may wait there for a free thread.
    """
    for number, run in enumerate(message.runs[: message.attempts - 1], 1):
        again = min((each.start for each in message.runs[number:]), default=math.inf)
        late = history.slowness.late(*history.hosts, STORAGE, start=run.end, end=min(again, history.end))
        due = run.end + min(_FIRST_PAUSE * 2.0 ** (number - 1), _LONGEST_PAUSE) + _LATE + late
        later = sorted(each.runs[0].start for each in fresh if each.send and each.send.start > due)
        later = [t for t in later if t < again and not _waits(history, run, t)]
        if len(later) >= _PASSED and not _is_struck(history, message.runs, later[_PASSED - 1]):
            yield f"was not tried again when it was due after failure {number}", run


def _waits(history: History, run: Sight, t: float) -> bool:
    """Tell whether an invocation of the handler of this run was under way at a time, and had not begun a run."""
    begun = {(each.host, each.invocation) for each in history.sights if each.start <= t}
    return any(
        call.function == run.function and call.start < t < call.end and (call.host, call.id) not in begun
        for call in history.invocations
    )


def _not_put_aside(history: History, message: MessageRuns, of_key: list[MessageRuns]) -> Iterator[Wrong]:
    """Yield the last failure of a message of which no blob was made, though its key went on."""
    last = message.runs[-1]
    item = last.item
    if item is None or item.stops or not history.made:
        return
    went_on = [each.runs[0].start for each in of_key if each.runs and each.runs[0].start > last.end]
    went_on += [
        each.end
        for each in history.invocations
        if (each.host, each.id, each.ending) == (last.host, last.invocation, "ok")
    ]
    until = min(went_on, default=math.inf)
    aside = f"/inbox/{_queue(item.inbox)}/aside/"
    put = {blob for _, blob in history.made if aside in blob and blob.endswith(f"/{item.id}")}
    if until < math.inf and not put and not _is_struck(history, message.runs, until):
        yield "failed for the last time, and was not put aside", last
    sends = (use for use in history.uses if (use.of, use.key, use.digest) == ("inbox", item.key, item.digest))
    again = any(use.end >= last.start for use in sends)  # by the app, which deletes what was put aside
    if not again and any(request.action == "delete" and request.blob in put for request in history.requests):
        yield "was put aside, and deleted by nobody's order", last


def _wrongly_told(history: History) -> Iterator[tuple[str, str, Sight]]:
    """Yield runs whose message is not the sent one, or has another token than the hold in which the witness saw it."""
    closed = history.setup.get("fresh") and UNSEEN not in history.notes
    sent = {(_queue(use.name), use.key, use.digest) for use in history.uses if use.of == "inbox" and closed}
    ours = {name for name, *_ in sent}
    first: dict[tuple[str, str], tuple[str, str]] = {}
    for run in history.sights:
        if (item := run.item) is None or not _is_told(history, run):
            continue
        content, name = (item.key, item.digest), _queue(item.inbox)
        if item.token != run.hold[1]:
            yield item.inbox, "was told another token than its hold's", run
        if first.setdefault((item.inbox, item.id), content) != content:
            yield item.inbox, "had the id of another one", run
        if name in ours and item.digest != UNREADABLE and not {(name, *content), (name, item.key, UNREADABLE)} & sent:
            yield item.inbox, "was handled that nobody had sent with this key and body", run


def _returned(send: PatternUse) -> float:
    return send.end if send.ok else math.inf


def _queue(inbox: str) -> str:
    """Return an inbox's own name, which may be in one account by two connections."""
    return inbox.partition(" ")[0]


def _is_told(history: History, run: Sight) -> bool:
    """Tell whether a handler's message came from its inbox, and not from code of the app's that called the handler."""
    known = run.item is not None and run.item.attempt != -1
    return known and run.hold[0].startswith(OF_INBOXES) and not history.function(run.function).decorated


def _was_kept(history: History, run: Sight, runs: Iterable[Sight]) -> bool:
    """Tell whether a consumer went on after a run, or ended well: it has kept that the message is done."""
    if not run.invocation:
        return not _troubled(history, run, math.inf)
    whose = (run.host, run.invocation)
    went_on = any(
        (each.host, each.invocation) == whose and each.start >= run.end and each.item != run.item for each in runs
    )
    return went_on or any((call.host, call.id) == whose and call.ending == "ok" for call in history.invocations)


def _troubled(history: History, run: Sight, until: float) -> bool:
    """Tell whether something happened to a host by which it may have lost the lock of a key."""
    since = run.start - _LEASE
    ended = {*history.deaths, *(end.host for end in history.worker_ends), *(drain.host for drain in history.drains)}
    troubled = run.host in ended or history.paused(run.host, run.start, until)
    stood = history.stood(run.host, run.worker, since, until) >= _LEASE / 3
    return troubled or stood or bool(hindering(history, run.host, since, until))


def _is_struck(history: History, runs: list[Sight], until: float) -> bool:
    """Tell whether something from outside came between the first run of a message and this time."""
    since = runs[0].start - _LEASE
    at = [*history.deaths.values(), *(t for t, _ in history.operated)]
    at += [each.t for each in history.worker_ends] + [each.t for each in history.drains]
    spans = [(t, t) for t in at] + [(pause.start, pause.end) for pause in history.pauses]
    spans += [(fault.start, fault.end) for fault in (*history.faults, *history.outside)]
    came = any(start <= until and end >= since for start, end in spans)
    return came or any(_troubled(history, run, until) for run in runs)


def _is_quiet(history: History, send: PatternUse) -> bool:
    """Tell whether all that could set off the handling of a message is over, and nothing went wrong in the run."""
    struck = history.faults or history.pauses or history.deaths or history.worker_ends or history.interrupted
    return not struck and history.ready_left.get(send.queue) == set() and not history.invisible_left.get(send.queue)


def _outboxes(history: History) -> dict[str, list[PatternUse]]:
    found: dict[str, list[PatternUse]] = defaultdict(list)
    for use in history.uses:
        if use.of == "outbox":
            found[use.name].append(use)
    return found


def _wrong_of(uses: list[PatternUse]) -> Iterator[Wrong]:
    """Yield what is wrong with what relays of one outbox have sent and noted."""
    added: dict[str, list[PatternUse]] = defaultdict(list)
    for use in uses:
        added[use.id].extend([use] * (use.what == "add"))
    uses = [use for use in uses if use.what != "add"]
    for use in uses:
        if use.what == "send" and added[use.id] and not any(_same_message(use, each) for each in added[use.id]):
            yield "was sent with another key, destination or body than was added", use
    over: dict[str, float] = {}  # by id, when a message was sent, or given up
    noted: dict[str, float] = {}
    left: dict[str, int] = {}  # by id, the tries after the last send
    for use in sorted((each for each in uses if each.ok), key=lambda each: each.end):
        if use.what == "sent":
            noted.setdefault(use.id, use.end)
            if over.get(use.id, math.inf) > use.start:
                yield "was noted as sent before it was sent", use
        elif use.what in {"send", *_GIVEN_UP}:
            over.setdefault(use.id, use.end)
    for use in sorted(uses, key=lambda each: each.start):
        if use.what == "send":
            left[use.id] = use.left
        elif use.what in _GIVEN_UP and left.get(use.id, 0) > 0:
            yield "was given up before its attempts were used up", use
    places = {use.id: (use.key, use.place) for use in uses if use.key}
    for use in (each for each in uses if each.what == "send"):
        if noted.get(use.id, math.inf) < use.start:
            yield "was sent again after it was noted as sent", use
        earlier = (id_ for id_, (key, place) in places.items() if key == use.key and place < use.place)
        if any(over.get(id_, math.inf) > use.start for id_ in earlier):
            yield "was sent before an earlier one of its key", use
    yield from _sent_behind_a_stop(uses)


def _sent_behind_a_stop(uses: list[PatternUse]) -> Iterator[Wrong]:
    """Yield sends of a key that a message stops which was given up, unless the app has put that aside, or back."""
    resumed = [use for use in uses if use.what == "resume"]
    for stop in (use for use in uses if use.what == "stopped" and use.ok and use.key):
        since = min((use.start for use in resumed if use.id == stop.id and use.end > stop.start), default=math.inf)
        for use in uses:
            behind = (use.what, use.key) == ("send", stop.key) and use.place > stop.place
            if behind and stop.end < use.start < since:
                yield "was sent behind one that was given up and stops its key", use


def _wrongly_numbered(history: History, uses: list[PatternUse]) -> Iterator[Wrong]:
    """Yield sends whose message tells a wrong number of its attempt, or no token of a hold that its process had.

    A process may end between the count of an attempt and the send. Who is put back after the last attempt begins anew.
    """
    added, last = {use.id for use in uses if use.what == "add"}, dict[str, int]()
    whole = not (history.faults or history.pauses or history.deaths or history.worker_ends or history.losses)
    ends = min(history.stopping.values(), default=history.end)
    for use in sorted((each for each in uses if each.id in added), key=lambda each: each.start):
        if use.what == "send" and use.attempt:
            before = last.get(use.id, 0)
            if use.attempt <= before or (whole and use.start < ends and use.attempt > before + 1):
                yield "was told another number of its attempt than its own", use
            last[use.id] = use.attempt
            theirs = {got.token for got in history.acquisitions if got.host == use.host and got.t <= use.start}
            if use.token and use.token not in theirs:
                yield "was told another token than its relay's hold has", use
        elif use.what in _GIVEN_UP:
            last.pop(use.id, None)


def _same_message(sent: PatternUse, added: PatternUse) -> bool:
    same = sent.digest == added.digest or UNREADABLE in {sent.digest, added.digest}
    return same and (sent.key, sent.where) == (added.key, added.where)


def _key(shown: Sight | PatternUse) -> str:
    item = getattr(shown, "item", None)
    return item.key if item else getattr(shown, "key", "")
