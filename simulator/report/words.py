"""A verdict in plain words, for people who know nothing of the run yet.

A reporter shows a run while it runs, and its result. The plain one writes lines for files, pipes and build logs.

Each event is written at once. After a silence, a line tells the state of the run.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, Final, Literal, TextIO

from simulator.checks.findings import count, fleet_of, label
from simulator.history.journal import clock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.checks.failover import TakeOver
    from simulator.checks.verdict import Verdict
    from simulator.report.board import Board


LineMark = Literal["good", "bad", "open", "note"]
OVERLAPS_SHOWN: Final = 5
TROUBLES_SHOWN: Final = 5
EXCUSED_SHOWN: Final = 5
NAMED: Final = 2
LONGEST: Final = 100
UNTRIED_SHOWN: Final = 5
UNJUDGED_SHOWN: Final = 5
SHARED: Final = "one lock id for all hosts (in Azure, set hostId for slots, regions and other apps)"


@dataclass(frozen=True, slots=True)
class Line:
    """One sentence, and whether it is good news."""

    mark: LineMark
    text: str


def headline(verdict: Verdict) -> Line:
    """Say the result in a few words."""
    line = _result(verdict)
    if verdict.too_slow:
        when = " and ".join(f"from {start:.1f} s to {end:.1f} s" for start, end in verdict.too_slow[:NAMED])
        more = len(verdict.too_slow) - NAMED
        when += f" and {count(more, 'more time')}" if more > 0 else ""
        return Line(line.mark, f"{line.text.removesuffix('.')}; not judged: this machine was too slow {when}.")
    return line


def _result(verdict: Verdict) -> Line:
    if verdict.verdict == "holds":
        return _holds(verdict)
    if verdict.verdict == "violated":
        apart = any(check.name == "sites" and check.violated for check in verdict.checks)
        what = "two were inside at once" if verdict.overlaps or apart else "a promise was broken"
        return Line(
            "bad", f"VIOLATED: {what}{', as their apps have different host ids' * (apart and not verdict.overlaps)}."
        )
    if verdict.interrupted:
        return Line("open", "BROKEN OFF: no promise was broken so far, and none is proven.")
    return Line("open", "UNPROVEN: nothing was broken, but the run did not show all that it should.")


def _holds(verdict: Verdict) -> Line:
    missing = [function.name for function in verdict.functions if not function.exercised]
    delivered = [function.name for function in verdict.functions if function.how == "delivered"]
    untried = [what for what in verdict.untried if not (missing and what.endswith(" never ran"))]
    if len(untried) > UNTRIED_SHOWN:
        untried = [*untried[:UNTRIED_SHOWN], f"and {len(untried) - UNTRIED_SHOWN} more"]
    struck = [_number_of(verdict)] if verdict.faults else []
    rest = [f"delivered, not simulated: {', '.join(delivered)}"] if delivered else []
    rest += [SHARED] if verdict.shared_id and verdict.singleton and verdict.locks and len(verdict.hosts) > 1 else []
    if missing:
        ran = f"{len(verdict.functions) - len(missing)} of {count(len(verdict.functions), 'function')}"
        rest = [f"HOLDS for {ran}", *struck, f"not exercised: {', '.join(missing)}", *rest]
        rest += [f"not tried: {', '.join(untried)}"] if untried else []
        return Line("open", f"{'; '.join(rest)}.")
    if untried:
        return Line("open", f"HOLDS, as far as it was tried: {'; '.join([*untried, *struck, *rest])}.")
    taken = " and failover was in time" if verdict.kills else ""
    return Line("good", f"HOLDS: {'; '.join([f'never two at once{taken}', *struck, *rest])}.")


def summary(verdict: Verdict) -> list[Line]:
    """Tell what happened, line by line."""
    return [
        Line("note", _fleet(verdict)),
        *_exclusion(verdict),
        *_faults(verdict),
        *_pauses(verdict),
        *_failovers(verdict),
        *_messages(verdict),
        *_sessions(verdict),
        *_requests(verdict),
        *_tokens(verdict),
        *_exercised(verdict),
        *_unexercised(verdict),
        *_other_reasons(verdict),
        *(Line("note", note) for note in verdict.notes),
    ]


def _fleet(verdict: Verdict) -> str:
    again = sum(bool(host.after) for host in verdict.hosts)
    fleet = fleet_of(len(verdict.hosts) - again, same_app=verdict.same_app, apps=verdict.apps)
    return f"{fleet}; started again {count(again, 'time')}" if again else fleet


def _exclusion(verdict: Verdict) -> Iterator[Line]:
    bodies = count(verdict.sections, "guarded body", "guarded bodies")
    locks = count(verdict.locks, "lock")
    looked_at = next((check.looked_at for check in verdict.checks if check.name == "overlaps"), {})
    if under := looked_at.get("of them under locks of lock clients"):
        locks += f", {under:,} of them under locks of lock clients"
    if not verdict.overlaps:
        if verdict.sections:
            yield Line("good", f"{bodies} ran on {locks}: 0 overlaps")
        return
    leaders = " of two leaders" * (verdict.overlaps[0].first.mode == verdict.overlaps[0].second.mode == "listener")
    yield Line("bad", f"{bodies} ran on {locks}: {count(len(verdict.overlaps), 'overlap')}{leaders}; the longest:")
    for overlap in verdict.overlaps[:OVERLAPS_SHOWN]:
        pair = f"{overlap.first.host} and {overlap.second.host}"
        yield Line(
            "bad", f"  {label(overlap.lock)}: {pair} both inside for {overlap.seconds:.2f} s at {overlap.at:.1f} s"
        )


def _number_of(verdict: Verdict) -> str:
    kinds = {fault.kind for fault in verdict.faults}
    return f"{count(len(verdict.faults), 'fault')} of {count(len(kinds), 'kind')}"


def _faults(verdict: Verdict) -> Iterator[Line]:
    if not verdict.faults:
        return
    kinds = Counter(fault.kind for fault in verdict.faults)
    each = ", ".join(f"{number:,} {kind}" for kind, number in kinds.most_common())
    hits = count(sum(fault.hits for fault in verdict.faults), "request")
    yield Line("good", f"{_number_of(verdict)}: {each}; {hits} hit")
    excused = [fault for fault in verdict.faults if fault.excused]
    if excused:
        shown = "" if len(excused) <= EXCUSED_SHOWN else f"; the first {EXCUSED_SHOWN}"
        explain = "explains" if len(excused) == 1 else "explain"
        yield Line("note", f"{len(excused):,} of them {explain} what went wrong{shown}:")
    for fault in excused[:EXCUSED_SHOWN]:
        hosts = " and ".join(fault.hosts) if len(fault.hosts) <= NAMED else f"{len(fault.hosts)} hosts"
        whom = label(fault.lock) if fault.kind == "break" else hosts
        yield Line("note", _cut(f"  {fault.kind} of {whom} at {fault.at:.0f} s: {fault.excused}"))


def _pauses(verdict: Verdict) -> Iterator[Line]:
    if not verdict.pauses or verdict.faults:
        return
    late = {(overlap.first.host, overlap.first.owner) for overlap in verdict.caught}
    woke = (
        f"{count(len(late), 'body', 'bodies')} woke with another one inside, and ended as lost"
        if late
        else "nobody else was inside when they woke"
    )
    yield Line("good", f"{count(verdict.pauses, 'pause')} past the lease while a lock was held: {woke}")


def _failovers(verdict: Verdict) -> Iterator[Line]:
    for failover in verdict.failovers:
        over = failover.main
        killed = f"{failover.host} (pid {failover.pid}) was killed at {failover.at:.1f} s"
        if over is None:
            yield Line("open", f"{killed}, holding nothing")
        else:
            yield Line(_mark(over), f"{killed} while it held {label(over.lock)}; {_taken(over)}")
        for over in failover.overs[1:]:
            if over.state != "unwanted":
                yield Line(_mark(over), f"  it also held {label(over.lock)}; {_taken(over)}")
    if verdict.kills and not verdict.singleton:
        yield Line("note", f"{count(verdict.kills, 'host')} killed; without locks nothing had to be taken over")


def _taken(over: TakeOver) -> str:
    bound = "" if over.bound is None else f" ({_bound(over)})"
    match over.state:
        case "in time" | "late":
            late = ", too late" if over.state == "late" else ""
            return f"{over.by} took it over after {over.seconds:.1f} s{late}{bound}"
        case "never":
            return f"nobody took it over{bound}"
        case "not judged":
            return f"not judged, as this machine was too slow{bound}"
        case "cut short":
            return "the run ended before anybody could take it over"
        case _:
            return "nobody asked for it again"


def _bound(over: TakeOver) -> str:
    wanted = ""
    if over.bound == over.seconds:
        return "asked for only then"
    if over.wanted is not None and over.wanted > over.lease:
        wanted = f", first asked for after {over.wanted:.1f} s"
    return f"bound {over.bound:.1f} s{wanted}"


def _mark(over: TakeOver) -> LineMark:
    return "good" if over.ok else "bad" if over.state in {"late", "never"} else "open"


def _messages(verdict: Verdict) -> Iterator[Line]:
    messages = verdict.messages
    if not messages.sent:
        return
    parts = [f"{messages.completed:,} processed"]
    if messages.skipped:
        parts.append(f"{messages.skipped:,} skipped")
    if messages.coalesced:
        parts.append(f"{messages.coalesced:,} coalesced")
    if messages.open:
        parts.append(f"{messages.open:,} not through yet")
    ends = ((messages.poisoned, "poisoned"), (messages.stuck, "stuck"), (messages.lost, "lost"))
    parts += [f"{number:,} {what}" for number, what in ends if number]
    if not (messages.lost or messages.stuck or messages.open):
        parts.append("none lost" if messages.poisoned else "none lost or poisoned")
    bad = messages.lost or messages.stuck or messages.poisoned or messages.troubles
    mark: LineMark = "bad" if bad and not verdict.holds else "open" if bad or messages.open else "good"
    yield Line(mark, f"{count(messages.sent, 'message')} sent: {', '.join(parts)}")
    if messages.deferred:
        times = count(messages.deferrals, "time")
        yield Line("note", f"{count(messages.deferred, 'message')} put back for later, {times} in all")
    if messages.duplicated and (verdict.kills or verdict.faults):
        after = "after a fault" if verdict.faults else "after the kill" if verdict.kills == 1 else "after a kill"
        yield Line("note", f"{count(messages.duplicated, 'message')} ran again {after}: queues deliver at least once")
    alike = Counter((trouble.queue, _cut(trouble.what)) for trouble in messages.troubles)
    for (queue, what), number in alike.most_common(TROUBLES_SHOWN):
        yield Line(mark, f"  {count(number, 'message')} of {queue}: {what}")


def _sessions(verdict: Verdict) -> Iterator[Line]:
    """Say that the messages of each session kept their order; if not, another line says so."""
    check = next((check for check in verdict.checks if check.name == "sessions"), None)
    if check is not None and check.looked_at["sessions"] and not check.findings:
        messages, sessions = (count(check.looked_at[name], name[:-1]) for name in ("messages", "sessions"))
        yield Line("good", f"{messages} of {sessions}: in the order sent, one at a time")


def _requests(verdict: Verdict) -> Iterator[Line]:
    requests = verdict.requests
    if not requests.sent and not requests.unsent:
        return
    parts = [f"{number:,} with {status}" for status, number in requests.statuses.items()]
    ends = ((requests.cut, "cut off with their host"), (requests.unanswered, "without an answer"))
    parts += [
        f"{number:,} {what}"
        for number, what in (*ends, (requests.open, "not answered yet"), (requests.unsent, "never sent"))
        if number
    ]
    slowest = f"; the slowest took {requests.longest:.1f} s" if requests.answered else ""
    mark: LineMark = (
        "bad"
        if requests.unanswered
        else "open"
        if requests.open or requests.unsent
        else "note"
        if requests.failed
        else "good"
    )
    yield Line(mark, f"{count(requests.sent + requests.unsent, 'request')} by HTTP: {', '.join(parts)}{slowest}")


def _unexercised(verdict: Verdict) -> Iterator[Line]:
    """Say of each function that was not exercised why, and which ones nothing was shown of."""
    for function in verdict.functions:
        if not function.exercised:
            yield Line("open", f"not exercised: {function.name} ({function.trigger}): {function.why}")
    bare = [each.name for each in verdict.functions if each.exercised and not each.judged]
    within = [f"{name} ({', '.join(verdict.inside[name])})" for name in bare if name in verdict.inside]
    if within:
        yield Line("note", f"without @singleton, and judged by the guards within: {', '.join(within)}")
    if verdict.sections and (bare := [name for name in bare if name not in verdict.inside]):
        yield Line("note", f"without @singleton, and not judged: {', '.join(bare)}")


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _tokens(verdict: Verdict) -> Iterator[Line]:
    tokens = verdict.tokens
    issued = f"{count(tokens.issued, 'fencing token')} on {count(tokens.locks, 'lock')}"
    if not tokens.increasing:
        yield Line("bad", f"{issued}, {len(tokens.regressions):,} out of order")
    elif tokens.issued:
        yield Line("good", f"{issued}: strictly increasing on each")


def _exercised(verdict: Verdict) -> Iterator[Line]:
    seen = verdict.exercised
    if not (verdict.singleton and verdict.sections):
        return
    numbers = (
        count(seen.renewals, "renewal"),
        count(seen.waits, "wait"),
        count(seen.refusals, "refusal"),
        f"{count(seen.handed_between, 'hand-over')} between hosts, {seen.handed_within:,} within one",
    )
    yield Line("note", f"exercised: {', '.join(numbers)}")


_UNSAID: Final = ("poisoned from", "dead-lettered from", "in all its deliveries")
"""Words of reasons about messages, which the lines above do not tell."""


def _other_reasons(verdict: Verdict) -> Iterator[Line]:
    counted = ("overlaps", "messages", "tokens")
    told = {finding.text for check in verdict.checks if check.name in counted for finding in check.findings}
    slow = [finding.text for check in verdict.checks for finding in check.findings if finding.too_slow]
    for reason in verdict.reasons:
        unsaid = any(text in reason for text in _UNSAID)
        if (reason not in told or unsaid) and "it was killed" not in reason and reason not in slow[UNJUDGED_SHOWN:]:
            yield Line("bad" if reason in verdict.violations else "open", reason)
    if len(slow) > UNJUDGED_SHOWN:
        yield Line("open", f"and {len(slow) - UNJUDGED_SHOWN:,} more not judged: this machine was too slow")


def fine_print(verdict: Verdict) -> str:
    """Say what the numbers rest on."""
    late = "; a take-over may pass its bound by as much as this machine was slow, up to a poll"
    bound = late if verdict.failovers else ""
    return f"seed {verdict.seed}, {verdict.duration:.0f} s{bound}"


Phase = Literal["starting", "working", "settling", "stopping"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of a run."""

    phase: Phase
    now: float  # by the journals' clock
    elapsed: float  # seconds since the hosts were ready
    duration: float  # seconds for which work is offered
    waits: tuple[str, ...] = ()  # the outstanding work, in words


class Reporter:
    """Shows a run while it runs, and its result.

    `stays`: somebody looks at the result on a terminal, and wants to know more than fits there.
    """

    stays: ClassVar[bool] = False

    def step(self, text: str) -> None:
        """Say what is being prepared."""

    def show(self, board: Board, progress: Progress) -> None:
        """Show the fleet as it is now; called many times a second."""

    def finish(self, verdict: Verdict, hints: list[str]) -> None:
        """Show the result, and what might be tried next."""

    def close(self) -> None:
        """Restore the terminal; called also after a failure, and perhaps twice."""


PULSE: Final = 2.0
SHOWN: Final = 3
MARKS: Final = {"good": "[ok] ", "bad": "[!!] ", "open": "[??] ", "note": "     "}


class ReaderGone(BrokenPipeError):
    """Whoever read the lines has gone, such as `head`: nobody is left to tell."""


class PlainReporter(Reporter):
    """Writes lines to a stream."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._told = 0
        self._spoke = 0.0

    def step(self, text: str) -> None:
        """Say what is being prepared."""
        self._say(text)

    def show(self, board: Board, progress: Progress) -> None:
        """Write what is new, or, after a silence, how things are."""
        new = board.told - self._told
        self._told = board.told
        for event in islice(board.events, max(len(board.events) - new, 0), None):
            self._say(f"{max(event.t - board.history.start, 0):6.1f} s  {event.text}")
        if clock() - self._spoke >= PULSE:
            self._say(pulse(board, progress))

    def finish(self, verdict: Verdict, hints: list[str]) -> None:
        """Write the result."""
        self._say("")
        for line in (headline(verdict), *summary(verdict)):
            self._say(MARKS[line.mark] + line.text)
        self._say(MARKS["note"] + fine_print(verdict))
        for hint in hints:
            self._say(hint)

    def _say(self, text: str) -> None:
        self._spoke = clock()
        encoding = self._stream.encoding or "utf-8"
        try:
            self._stream.write(text.encode(encoding, "replace").decode(encoding) + "\n")
            self._stream.flush()
        except BrokenPipeError as error:
            raise ReaderGone from error


def pulse(board: Board, progress: Progress) -> str:
    """Say in one line how things are."""
    at = f"{max(progress.now - board.history.start, 0):6.1f} s  "
    if progress.phase == "starting":
        return f"{at}{len(board.alive())} of {count(len(board.hosts), 'host')} ready"
    inside = [f"{body.host} in {label(body.lock)}" for body in board.inside()]
    more = f" and {len(inside) - SHOWN} more" if len(inside) > SHOWN else ""
    who = ", ".join(inside[:SHOWN]) + more if inside else "nobody inside"
    sent = board.sent()
    done = sum(bool(message.completed) for message in sent)
    messages = f"; {done:,} of {count(len(sent), 'message')} done" if sent else ""
    asked = board.history.traffic.requests.values()
    ended = sum(not request.open for request in asked)
    messages += f"; {ended:,} of {count(len(asked), 'request')} answered" if asked else ""
    text = f"{at}{who}; {len(board.waiting())} waiting{messages}"
    if progress.phase == "stopping":
        return f"{at}stopping the hosts"
    return text + (f"; waiting for {', '.join(progress.waits)}" if progress.waits else "")
