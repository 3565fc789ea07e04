"""Bounds by the options in force: each row of the table of bounds in docs/guarantees.md that a real run can reach.

A `Row` says what starts the clock, what ends the clock, and the bound, from the options of the function concerned. One
function judges every row. A deadline leaves out the time in which the host could do nothing (`by_when`).

Take-overs after a kill have rows of the table, too: `simulator.checks.failover` measures the take-overs. A holder whose
lease was broken is told in time: see `untold` of `simulator.checks.excuses`.
"""

from __future__ import annotations

import functools
import math
from collections import Counter, defaultdict
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Final

from simulator.checks.accounts import leased_since, taken
from simulator.checks.coalesced import LEFT
from simulator.checks.deadlines import SLACK, Measured, Row, slack, timing, too_slow
from simulator.checks.exclusion import most_at_once
from simulator.checks.excuses import CALL, TRY_ONCE, broken_by, by_when, disturbed
from simulator.checks.failover import TURN
from simulator.checks.findings import Finding, label, violation
from simulator.checks.releases import RELEASES, bodies_ended
from simulator.history.deeds import outside, patience_told
from simulator.history.leases import DEADLINE
from simulator.history.outages import covered
from simulator.history.slowness import STORAGE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.checks.accounts import TakenSpan
    from simulator.checks.deadlines import Timing
    from simulator.history.facts import Acquisition, History, Wait


def judge_bounds(history: History) -> Iterator[Finding]:
    """Find what took longer than its bound, in a run with locks: for each row and lock or function the worst.

    If any fault may happen, only the oracle, which knows the faults, can tell how long something may take.
    """
    for row in () if history.rough else _ROWS:
        yield from _judge(history, row)


def judge_renewals(history: History) -> Iterator[Finding]:
    """Find holds that were not renewed in time, or too often, in a run with locks.

    A hold is renewed once in its interval. Failed renewals explain twice as many, and a few more. A failed renewal
    counts as a renewal: other checks find that the renewal did not help. Virtual worlds have no real network: in a
    world the oracle knows what the service knows.
    """
    yield from _judge(history, _RENEWALS)
    for got, due, until in () if history.rough else _renewed(history):
        number = sum(got.t < t <= until for t in got.granted)
        if number > 2 * (until - got.t) / due + _MORE:
            yield violation(
                f"a hold of {got.function!r} on {got.host} was renewed {number} times in {until - got.t:.1f} s, from "
                f"second {got.t - history.start:.1f} on: one renewal in {due:g} s is declared"
            )
            return


def _judge(history: History, row: Row) -> Iterator[Finding]:
    worst: dict[tuple[str, bool], tuple[float, float, Measured]] = {}
    for each in row.clocks(history):
        if each.end - each.start <= each.bound + slack(history, each.slack):
            continue
        if each.deed.lock in history.twofold and row.clocks in (_left_free, _turns, _entries, _expiries):
            continue  # nobody tells who wants, or has already, one of the two locks
        about = each.deed.function if "{function" in row.says else each.deed.lock
        seconds, timed = _timed(history, each)
        key = about, timed == "not judged"
        if timed != "in time" and seconds - each.bound > worst.get(key, (0.0,))[0]:
            worst[key] = seconds - each.bound, seconds, each
    for (about, unjudged), (_, seconds, each) in sorted(worst.items()):
        deed = each.deed
        told = {"lock": label(deed.lock), "function": deed.function, "host": deed.host, "what": each.what}
        text = row.says.format(**told, seconds=seconds)
        rule = row.rule or f"{each.bound:.1f} s and a request are allowed"
        if not unjudged:
            yield violation(f"{text} (from second {each.start - history.start:.1f} on; {rule})")
        elif (about, False) not in worst:
            yield too_slow(history, text, _delays_from(history, each), each.end)


def _timed(history: History, each: Measured) -> tuple[float, Timing]:
    """Return for how long a clock ran while its host could work, and whether that was in time.

    A clock has its bound while the storage answers, and another one for whether it answers or not.
    """
    host, worker, ran = each.deed.host, each.deed.worker or 1, each.end - each.start
    if history.paused(host, each.start, each.end):
        return 0.0, "in time"
    stood, spare = history.stood(host, worker, each.start, each.end), slack(history, each.slack)
    idle = by_when(history, host, each.start, each.bound + spare + stood) - each.start - each.bound - spare
    both = [(ran - stood, each.most), (ran - idle, each.bound)]
    timed = [(seconds, _timing(history, each, seconds - bound - spare)) for seconds, bound in both]
    if timed[1][1] == "late" and each.end <= _delayed(history, each):
        timed[1] = timed[1][0], "not judged"
    return max(timed, key=lambda told: _GRAVER.index(told[1]))


_GRAVER: Final = ("in time", "not judged", "late")


def _timing(history: History, each: Measured, over: float) -> Timing:
    """Tell whether a clock was late that ended so many seconds past its bound."""
    if not each.slows:
        return "late" if over > 0 else "in time"
    poll = history.function(each.deed.function).poll_in(each.deed.mode)
    return timing(history, over, *_hosts(each), start=_delays_from(history, each), end=each.end, most=poll)


def _hosts(each: Measured) -> set[str]:
    return {each.deed.host, each.other or each.deed.host}


def _delayed(history: History, each: Measured) -> float:
    """Return until when a slow machine explains a delay, with the faults that struck meanwhile."""
    start, allowed = _delays_from(history, each), each.bound + slack(history, each.slack)
    until, later = each.start, each.start + allowed
    while until + 0.01 < later and until < each.end:  # nearer by a hundredth is near enough
        until = later
        late = history.slowness.late(*_hosts(each), STORAGE, start=start, end=until)
        later = by_when(history, each.deed.host, each.start, allowed + late)
    return until


def _delays_from(history: History, each: Measured) -> float:
    poll = history.function(each.deed.function).poll_in(each.deed.mode)
    return max(each.start, each.start + each.bound - poll * each.polls)


_AT_ONCE: Final = 32
"""Slots of a semaphore that a waiter asks for in one poll."""
_FREE: Final = 2 / 3
"""Share of a run in which a lock was free, so that the polls of others found it free (0.75), and some for requests."""


def _left_free(history: History) -> Iterator[Measured]:
    """A waiter acquires a lock, or a slot, that nobody has within a poll.

    A body that goes on though its lease has ended keeps the waiters of its own process out.
    """
    most, held, outlived = most_at_once(history), taken(history), _outlived(history)

    @functools.cache
    def free(lock: str, host: str, worker: int) -> list[tuple[float, float]]:
        return list(_gaps([*held.get(lock, ()), *outlived[lock, host, worker]], most[lock]))

    takers = {(got.lock, since): got.host for got, since in leased_since(history)}
    for wait in history.waits:
        function = history.function(wait.function)
        if function.merges or wait.ending in {"killed", "crashed"}:
            continue
        bound = function.poll_in(wait.mode) * math.ceil(function.at_once / _AT_ONCE)
        if function.on_contention == LEFT:  # who comes again first waits for the seat, which a dead waiter may have
            bound += function.lease + function.poll
        what = "a slot of " if function.at_once > 1 else ""
        for start, end in free(wait.lock, wait.host, wait.worker):
            since, until = max(start, wait.start), min(end, wait.end, history.end)
            if until > since:
                other = takers.get((wait.lock, until), "")
                yield Measured(deed=wait, start=since, end=until, bound=bound, what=what, other=other)


def _outlived(history: History) -> dict[tuple[str, str, int], list[TakenSpan]]:
    """Return, by lock and process, from when to when bodies went on after they were told that their lease is lost."""
    spans: dict[tuple[str, str, int], list[TakenSpan]] = defaultdict(list)
    for body in history.sections:
        if body.told is not None:
            spans[body.lock, body.host, body.worker].append((body.told, body.end, ""))
    return spans


def _gaps(spans: list[TakenSpan], most: int) -> Iterator[tuple[float, float]]:
    """Yield the times in which fewer than ``most`` of the spans last."""
    steps = sorted([(start, 1) for start, _, _ in spans] + [(end, -1) for _, end, _ in spans])
    number, since = 0, -math.inf
    for t, step in steps:
        if number < most <= number + step:
            yield since, t
        elif number + step < most <= number:
            since = t
        number += step
    yield since, math.inf


def _turns(history: History) -> Iterator[Measured]:
    """A waiter gets a chance while another process has one section after the other.

    A lock that is free most of the time is found free by somebody's poll, sooner or later: that has no bound.
    """
    waits: dict[str, list[Wait]] = defaultdict(list)
    for wait in history.waits:
        if wait.mode == "function" and wait.ending not in {"killed", "crashed"}:
            waits[wait.lock].append(wait)
    for lock, run in _runs(history):
        functions = [history.function(got.function) for got in run]
        window, poll = max(each.window for each in functions), functions[0].poll
        lasting = [
            (got.t, max(min(got.until, history.end), got.t + each.at_least))
            for got, each in zip(run, functions, strict=True)
        ]
        longest = max(until - since for since, until in lasting)
        bound = window + longest + TURN * poll
        for wait in waits[lock]:
            own = history.function(wait.function)
            start, end = max(wait.start, run[0].t), min(wait.end, lasting[-1][1], history.end)
            polls = {each.poll for each in (*functions, own)}
            if (
                end - start <= bound
                or (wait.host, wait.worker) == (run[0].host, run[0].worker)
                or len(polls) > 1
                or own.at_once > _AT_ONCE
            ):
                continue
            kept = covered(lasting, start, end) >= (1 - _FREE) * (end - start)
            if kept and not disturbed(history, run[0].host, start, end):
                yield Measured(deed=wait, start=start, end=end, bound=bound, what=run[0].host)


def _runs(history: History) -> Iterator[tuple[str, list[Acquisition]]]:
    """Yield the holds of each lock that one process had without another's in between, and gave back itself."""
    holds: dict[str, list[Acquisition]] = defaultdict(list)
    for got in history.acquisitions:
        if got.mode == "function":
            holds[got.lock].append(got)
    for lock, several in holds.items():
        for (*_, gave_back), run in groupby(
            sorted(several, key=lambda got: got.t), lambda got: (got.host, got.worker, got.ending in {"ok", "open"})
        ):
            if gave_back and len(whole := list(run)) > 1:
                yield lock, whole


_READ: Final = 1.0
"""Seconds for which a single attempt waits for the read of the holder."""


def _attempts(history: History) -> Iterator[Measured]:
    """A caller skips, raises or answers as soon as another has the lock; a timeout, or functionTimeout, ends a wait."""
    answers, patience = _answers(history), patience_told(history)
    called, asked = defaultdict[tuple[str, str], list[float]](list), defaultdict[tuple[str, str], list[float]](list)
    for call in history.invocations:
        called[call.host, call.id].append(call.start)
    for wait in history.waits:
        asked[wait.host, outside(wait.owner)].append(wait.start)
    for wait in history.waits:
        function = history.function(wait.function)
        limit = function.timeout if function.on_contention in {"wait", LEFT} else function.timeout or 0.0
        start = wait.start
        if function.on_contention == "custom":
            answer = patience.get((wait.host, wait.owner))
            start, limit = (start, None) if answer is None else (answer.t, answer.get("patience"))
        policy = f"on_contention={function.on_contention!r}"
        policy += f", timeout={limit:g}" if limit else ""
        whose = wait.host, outside(wait.owner)
        call_began = max((t for t in called[whose] if t <= start), default=math.inf)
        first = min((t for t in asked[whose] if t >= call_began), default=math.inf)  # its worker may have been busy
        cut = first + function.cut_after - start if wait.function in history.functions else math.inf
        if function.on_contention in {"wait", LEFT} and cut < (math.inf if limit is None else limit):
            limit = max(cut, 0.0)
            policy = f"functionTimeout={function.limit:g}, which ends a wait {function.cut_after:g} s after the call"
        if limit is None or wait.mode == "listener":
            continue
        told = min(wait.end, history.end)
        end = answers.get((wait.host, wait.owner), told) if wait.ending == "contended" else told
        policy += f", and its answer came {end - told:.1f} s after its refusal" if end - told > _READ else ""
        most = TRY_ONCE + _READ if not limit and function.at_once == 1 else math.inf
        yield Measured(deed=wait, start=start, end=end, bound=limit + _READ, slack=CALL / 2, most=most, what=policy)


def _answers(history: History) -> dict[tuple[str, str], float]:
    """Return when invocations ended, if these had nothing to do after a refusal but to answer.

    So there was one guard with nothing around, and no message was put back. Of several tries the first counts.
    """
    asked = Counter((wait.host, outside(wait.owner)) for wait in history.waits)
    put_back = {(each.host, each.owner) for each in history.refusals if each.reason == "defer"}
    plain = {each.name for each in history.functions.values() if not (each.decorated or each.once or each.ordered)}
    return {
        (call.host, call.id): call.end
        for call in reversed(history.invocations)
        if call.function in plain and asked[call.host, call.id] == 1 and call.ending in {"ok", "error"}
        if (call.host, call.id) not in put_back
    }


def _entries(history: History) -> Iterator[Measured]:
    """A body begins when its process has its lock, and nobody else there has it, if its guard is right around it."""
    asked = {(wait.host, wait.lock, wait.owner, wait.end): wait.start for wait in history.waits}
    entered: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for sight in history.sights:
        if not sight.inner:
            entered[sight.host, sight.function, sight.invocation].append(sight.start)
    for got, since in leased_since(history):
        function = history.functions.get(got.function)
        began = [t for t in entered[got.host, got.function, got.owner] if since <= t <= got.until]
        if function is None or not function.direct or got.mode == "listener" or not began:
            continue
        start = max(since, asked.get((got.host, got.lock, got.owner, got.t), got.t))
        if min(began) - start > _ENTRY and any(  # then it may have waited for a further lock, of an older layout
            (each.host, each.worker, each.action, each.granted) == (got.host, got.worker, "acquire", False)
            and start <= each.sent
            and each.t <= got.t
            for each in history.requests
        ):
            start = got.t
        yield Measured(deed=got, start=start, end=min(began), bound=0.0, slack=_ENTRY + SLACK)


_ENTRY: Final = 2.0
"""Seconds from the grant of a lock to the first line of its body, on a busy machine."""


def _expiries(history: History) -> Iterator[Measured]:
    """If all renewals fail, a hold lasts until the deadline. With failover its touches have a deadline of their own.

    The clock of this row runs from the loss to the deadline. The deadline counts from when the last granted request was
    sent. If the journal tells only of the answer, the request may have taken as long as its host was hindered.
    """
    for got in history.acquisitions:
        function = history.function(got.function)
        if got.why != "expired" or not got.granted or function.failover:
            continue
        if broken_by(history, got, got.until):  # the storage may say so of a lease that was broken
            continue
        asked, took = got.granted[-1], 0.0
        if not got.timed:
            took = by_when(history, got.host, asked - SLACK, SLACK) - asked
            took += history.slowness.late(got.host, STORAGE, start=asked - CALL, end=asked)
        deadline = asked + function.lease_in(got.mode) * DEADLINE
        yield Measured(deed=got, start=got.until, end=deadline, bound=0.0, slack=SLACK + took, most=0.0, slows=False)


def _told(history: History) -> Iterator[Measured]:
    """If the storage answers that a lease is gone, its holder is told at once, while its body runs."""
    ended = bodies_ended(history)
    for got in history.acquisitions:
        end = min(got.until, ended.get((got.host, got.lock, got.owner), math.inf), history.end)
        yield Measured(deed=got, start=got.gone, end=end, bound=0.0, most=0.0, polls=False)


def _renewals(history: History) -> Iterator[Measured]:
    for got, due, until in _renewed(history):
        for start, end in pairwise((got.t, *got.asked, until)):
            yield Measured(deed=got, start=start, end=end, bound=due, slack=_LATE_RENEWAL, polls=False)


def _renewed(history: History) -> Iterator[tuple[Acquisition, float, float]]:
    """Yield each hold whose renewals are known, the declared interval of these, and the end of the hold."""
    # Something that is guarded, but is no function of the host, has no invocation id: its holds can't be told apart.
    for got in history.acquisitions:
        known = got.function in history.functions or history.function(got.function).blob
        if got.seen and known and (got.owner or got.mode == "listener"):
            end = history.stopping.get(got.host, math.inf) if got.ending == "open" else got.until  # nobody told the end
            yield got, history.function(got.function).renewal_in(got.mode), min(end, got.until, history.end)


_BEFORE: Final = 1.0
"""Seconds by which a waiter must have come before another of its process, so that their order in line is sure."""


def _overtaken(history: History) -> Iterator[Measured]:
    """Among the waiters of one process the first to come is the first to get the lock.

    The clock runs from when a waiter who came later got the lock, or a slot. Not judged: who asked for a lock more than
    once, since the journal can't tell the waits apart, and who may stand in line a second time without telling; nor
    who may wait for a seat before that line (``coalesce``).
    """
    lines: dict[tuple[str, str, int, str], dict[str, list[Wait]]] = defaultdict(lambda: defaultdict(list))
    for wait in history.waits:
        function = history.function(wait.function)
        known = wait.function in history.functions or (function.blob and not function.several)
        if wait.mode != "function" or not known or function.merges:
            continue
        if function.max_waiting is None and function.on_contention not in {"custom", LEFT}:
            lines[wait.lock, wait.host, wait.worker, wait.function][wait.owner].append(wait)
    for (_, host, worker, _), waits in lines.items():
        line = [wait for wait, *more in waits.values() if wait.ending == "acquired" and not more]
        latest: Wait | None = None
        for wait in sorted(line, key=lambda wait: wait.end):
            if latest and history.worked(host, worker or 1, wait.start, latest.start) > _BEFORE:
                what = f"{latest.start - wait.start:.1f} s"
                yield Measured(deed=wait, start=latest.end, end=wait.end, bound=0.0, what=what)
            latest = wait if latest is None or wait.start > latest.start else latest


def _quiet(history: History) -> Iterator[Measured]:
    """A worker or a candidate of a lock client asks for its lock at each tick, until somebody ends it.

    In between its process may have the lease, which it renews or gives back. A worker may be refused by what another
    caller of its process has heard, a poll ago at most. With ``failover`` it reads the lock first, and need not ask:
    then the counts of requests tell, which come up to a second later.
    """
    for asker in history.askers:
        function, who = history.function(asker.function), (asker.host, asker.worker)
        if not any((each.host, each.worker) == who for each in history.requests):
            continue
        every = function.tick + (function.poll if function.trigger == "periodic" else 0.0)
        keeps = max(every, function.lease, function.at_least)
        seen = [
            (each.sent, each.t, keeps if each.granted and each.action != "release" else every)
            for each in history.requests
            if (each.host, each.worker) == who and each.blob.endswith(f"/{function.blob}") and each.t >= asker.start
        ]
        if function.failover:
            seen = sorted(
                (t, t, max(every, function.failover) + _COUNTED)
                for (*process, path), counts in history.blob_calls.items()
                if (*process[:2],) == who and path.endswith(f"/{function.blob}")
                for t, _ in counts
                if t >= asker.start
            )
        stops = min(asker.end, history.stopping.get(asker.host, math.inf), history.end)
        ends = [*(sent for sent, _, _ in seen), stops]
        for (_, start, bound), end in zip([(0.0, asker.start, every + _COUNTED), *seen], ends, strict=True):
            yield Measured(deed=asker, start=start, end=min(end, stops), bound=bound, polls=False)


_COUNTED: Final = 1.0
"""Seconds for which the count of a request may be told late, and for which a worker or a candidate may begin."""
_MORE: Final = 3
"""Renewals of a hold beyond twice those of its interval: about its beginning, its end and a wake-up."""
_LATE_RENEWAL: Final = 2.0
"""Seconds by which a renewal may be late on a busy machine."""
_RENEWALS: Final = Row(
    clocks=_renewals,
    says="a hold of {function!r} was not renewed in time: no request for it left {host} for {seconds:.1f} s",
)
_ROWS: Final = (
    Row(clocks=_left_free, says="{what}{lock} was free for {seconds:.1f} s while {host} waited for it"),
    Row(
        clocks=_turns,
        says="{lock} was kept by {what} for {seconds:.1f} s, one section after another, while {host} waited for it",
    ),
    Row(clocks=_attempts, says="an invocation of {function!r} waited for {seconds:.1f} s for its lock, despite {what}"),
    Row(
        clocks=_overtaken,
        says="an invocation of {function!r} on {host} got its lock {seconds:.1f} s after another that had asked {what} "
        "later",
        rule="among the waiters of one process the first to come is the first to get the lock",
    ),
    Row(
        clocks=_quiet,
        says="{function!r} on {host} sent no request for its lock for {seconds:.1f} s, and nobody had ended it",
        rule="it asks at each tick",
    ),
    *RELEASES,
    Row(
        clocks=_entries,
        says="a body of {function!r} began {seconds:.1f} s after {host} had {lock} for it",
        rule=f"{_ENTRY:.1f} s and a request are allowed",
    ),
    Row(
        clocks=_expiries,
        says="{host} was told that the lease of {lock} had expired, {seconds:.1f} s before its deadline",
        rule="14/15 of a lease are promised from its last granted request on",
    ),
    Row(
        clocks=_told,
        says="{host} was told of the loss {seconds:.1f} s after the storage had answered that its lease of {lock} was "
        "gone",
        rule="such an answer ends a hold at once",
    ),
)
