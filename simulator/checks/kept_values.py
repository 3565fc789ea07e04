"""The next holder reads the value that a holder has kept: ``hold.state``, and the results of ``once``.

Each place of what is kept is a register. A read returns what the last write before it wrote, or what a write beside it
writes. Whether a write without an answer happened nobody knows, until somebody reads: then both values are allowed.

A body of ``@once`` that begins has read that its operation is not done. A success with a body has written the result
of the body; a success without a body has read that result. So a second body after a kept result is a read of nothing.
Each output that a body sets is a register of its own.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias

from simulator.checks.endings import tries
from simulator.checks.findings import Finding, count, label, note, unproven, violation
from simulator.history.deeds import once_of, outside
from simulator.history.facts import PatternUse
from simulator.history.journal import UNSEEN
from simulator.history.value_digest import NOT_UNDERSTOOD, NOTHING, UNREADABLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from simulator.history.facts import History

_STOOD: Final = 0.5
"""Seconds for which a host must stand still for its look at what is kept to count as old."""
_STRANGE: Final = "a value was read that nobody had written"
_ROUNDED: Final = 1.0
"""Seconds by which the service's clock may end a result sooner."""
_ENDS: Final = 3.0
"""Seconds by which a result may end later: two clocks of whole seconds, and a request."""
_SAME_END: Final = 1.0
"""Seconds by which one end differs when it is read twice: it is rounded, and told by the clock of the reader."""
Register: TypeAlias = tuple[str, ...]


def accesses(history: History) -> dict[Register, list[PatternUse]]:
    """Return the reads and writes of each place, in order."""
    found: dict[Register, list[PatternUse]] = defaultdict(list)
    for use in history.uses:
        if use.of in {"hold.state", "once"} and (use.what == "write" or use.ok):
            # Under the lock, and after the look: unless the host stood still in between.
            finds_nothing = use.of == "once" and use.what == "read" and use.digest == NOTHING
            start = _looked(history, use.host, use.start, use.end) if finds_nothing else use.start
            found[use.register].append(replace(use, start=start))
    for use in _of_once(history):
        found[use.register].append(use)
    return {place: sorted(several, key=lambda each: (each.start, each.end)) for place, several in found.items()}


def _values(use: PatternUse) -> frozenset[str]:
    """Return the digests that were read, of which one is true, or the digest that was written."""
    return frozenset({use.digest, NOTHING} if use.default == use.digest else {use.digest})


def judge_kept(history: History) -> Iterator[Finding]:
    """Find reads of what was not the last to be written, and results that are kept for another time than declared."""
    if history.rough:
        return
    yield from _ends(history)
    yield from _of_others(history)
    kept = accesses(history)
    writers = {
        (place[0], _output(place), each.digest): place
        for place, several in kept.items()
        for each in several
        if each.what == "write"
    }
    wrong: dict[tuple[str, str], list[str]] = defaultdict(list)
    unknown = 0
    for place, several in kept.items():
        for read in several:
            if read.what == "write":
                continue
            possible, values = _possible(history, several, read), _values(read)
            possible |= {NOTHING} if _may_be_deleted(history, place, several, read) else set()
            if UNREADABLE in possible | values or possible & values:
                continue
            if None in possible:
                unknown += 1
                continue
            said = _wrong(history, place, several, read, writers)
            wrong[_named(place, several), said[0]].append(said[1])
    for (name, what), examples in sorted(wrong.items()):
        times = f"{count(len(examples), 'time')}, the first: " if len(examples) > 1 else ""
        text = f"{name}: {what}: {times}{examples[0]}"
        unseen = what == _STRANGE and UNSEEN in history.notes
        yield unproven(f"{text}: not judged, as {UNSEEN}") if unseen else violation(text)
    if unknown:
        yield note(
            f"{count(unknown, 'value was', 'values were')} in the storage before this run, as it seems: whether the "
            "first reads were right was not judged"
        )


def _of_others(history: History) -> Iterator[Finding]:
    """A body uses the state that is kept with its own lock, unless the app hands a hold on."""
    others = Counter(
        use.caller
        for use in history.uses
        if use.of == "hold.state" and use.ok and use.invocation and use.hold and outside(use.hold.owner)
        if outside(use.hold.owner) != use.invocation
    )
    for name, number in sorted(others.items()):
        yield unproven(
            f"{count(number, 'use')} of hold.state by {name!r} went to the lock of another invocation: not judged, as "
            "the app may hand a hold on"
        )


def _ends(history: History) -> Iterator[Finding]:
    """A result of ``@once`` is written with its end: ``keep`` after its body. Who stamps the blob leaves an old end."""
    ends: dict[str, list[float]] = defaultdict(list)
    began = {(call.host, call.id): call.start for call in history.invocations}
    wrong: dict[str, list[str]] = defaultdict(list)
    for use in history.uses:
        start, function = (
            began.get((use.host, use.invocation)),
            history.function(use.function.removesuffix(once_of(""))),
        )
        if use.what != "end":
            continue
        end = use.start + use.keep
        is_old = any(abs(end - other) < _SAME_END for other in ends[use.name])
        ends[use.name].append(end)
        if start is None or not function.once or is_old:
            continue
        if abs(use.keep - function.keep) > _ENDS + use.start - start:
            wrong[function.name].append(f"{use.host} wrote one for {use.keep:g} s at {use.start - history.start:.1f} s")
    for name, (first, *more) in sorted(wrong.items()):
        yield violation(
            f"@once of {name!r}: {count(1 + len(more), 'result')} written to end at another time than after "
            f"keep={history.function(name).keep:g} s: the first: {first}"
        )


def unjudged(history: History) -> Iterator[str]:
    """Yield what user code keeps with locks, and what nobody has read again."""
    shown, written = set[str](), set[str]()
    for place, several in accesses(history).items():
        name = _named(place, several)
        done = [each for each in several if each.what == "write" and each.ok]
        written |= {name} if done else set()
        shown |= (
            {name} if any(_reads_again(each, done[0]) for each in several if each.what == "read" and done) else set()
        )
    for name in sorted(written - shown):
        yield f"{name} was not judged: nothing was read after a write"
    for name, function in sorted(history.functions.items()):
        calls = [call for call in history.invocations if call.function == name]
        if function.once and calls and not any(call.operation for call in calls):
            yield f"@once of {name!r} was not judged: its key is not read here"


def _reads_again(read: PatternUse, write: PatternUse) -> bool:
    """Tell whether a read shows what became of a write; a reader that waited for the writer has asked before."""
    waited = read.end >= write.end and (read.host, read.invocation) != (write.host, write.invocation)
    return read.start >= write.end or (waited and NOTHING not in _values(read))


def _possible(history: History, several: Iterable[PatternUse], read: PatternUse) -> frozenset[str | None]:
    """Return the digests that a read may return; None stands for what was there before the run, and is not known."""
    before = [each for each in several if each is not read and each.start <= read.end]
    settled = [each for each in before if each.ok and each.end <= read.start]
    # What was read settles a write that nobody knew of, but only for who asks later.
    values: set[str | None] = set()
    for each in before:
        later = (other for other in settled if other.start >= each.end and other is not each)
        if any(each.ok or not each.invocation or other.invocation != each.invocation for other in later):
            continue
        values |= _values(each)
    written = [each for each in before if each.what == "write"]
    if any(read.end >= each.start + each.keep - _ROUNDED for each in written):
        values.add(NOTHING)
    values -= {each.digest for each in written if _over(each, read)} - {
        each.digest for each in written if not _over(each, read)
    }
    fresh = history.setup.get("fresh")
    if not settled and not (fresh and _output(read.register)):  # whoever waited for the body gets its outputs, too
        values.add(NOTHING if fresh else None)
    return frozenset(values)


def _over(write: PatternUse, read: PatternUse) -> bool:
    """Tell whether the time for which a written value is kept was over before somebody asked for the value."""
    return read.start > write.end + write.keep + _ENDS


def _may_be_deleted(history: History, place: Register, several: list[PatternUse], read: PatternUse) -> bool:
    """Tell whether somebody may have deleted the blob, and nothing was written since when something was read."""
    since = max(
        (each.start for each in several if each.what == "write" and each.ok and each.end <= read.start), default=0.0
    )
    deleted = [*history.deleted, *((each.start, each.lock) for each in history.outside)]
    names = {lock for t, lock in deleted if since <= t <= read.end}
    if place[0] != "@once":
        return place[1] in names
    theirs = {(each.host, each.invocation) for each in several}
    return any(wait.lock in names and (wait.host, outside(wait.owner)) in theirs for wait in history.waits)


def _wrong(
    history: History,
    place: Register,
    several: list[PatternUse],
    read: PatternUse,
    writers: Mapping[tuple[str, str, str], Register],
) -> tuple[str, str]:
    """Say what is wrong about a read, in general and in this case."""
    written = [each for each in several if each.what == "write" and each.start <= read.end]
    last = max(
        (each for each in written if each.ok and each.end <= read.start), key=lambda each: each.end, default=None
    )
    now = f"{read.host} at {read.end - history.start:.1f} s"
    did = "removed it" if last is not None and last.digest == NOTHING else "written another"
    then = "" if last is None else f", though {last.host} had {did} at {last.end - history.start:.1f} s"
    theirs = next((each for each in reversed(written) if each.digest in _values(read)), None)
    others = (writers.get((place[0], _output(place), each)) for each in _values(read))
    elsewhere = next((each for each in others if each is not None), None)
    if NOTHING in _values(read):
        again = "once" in place[0] and not _output(place)
        began = "a body ran again after its result was kept" if again else "a value that was kept is gone"
        return began, f"{now}{then.replace('another', 'one')}"
    if theirs is not None and _over(theirs, read):
        return (
            "a result was still there after its end",
            f"{now} got what {theirs.host} had kept at {theirs.end - history.start:.1f} s for {theirs.keep:g} s",
        )
    if theirs is not None:
        return (
            "an older value was read",
            f"{now} read the value that {theirs.host} had written at {theirs.end - history.start:.1f} s{then}",
        )
    if elsewhere is not None:
        return "a value of another key was read", f"{now} read, for {_key(place)}, what was kept for {_key(elsewhere)}"
    what = "what was kept can't be read" if read.digest == NOT_UNDERSTOOD else _STRANGE
    return what, f"{now}, for {_key(place)}{then}"


def _named(place: Register, several: Iterable[PatternUse]) -> str:
    of, name, *_ = place
    of = f"output {_output(place)!r} of {of}" if _output(place) else of
    function = next((each.function for each in several if each.function), "")
    if of == "once" and function:
        return f"a block of once in {function!r}"
    return f"{of} of {function!r}" if function else f"{of} of {label(name)!r}"


def _output(place: Register) -> str:
    """Return the output of a function under ``@once`` whose value this is; empty: it is the result."""
    return place[-1] if place[0] == "@once" else ""


def _key(place: Register) -> str:
    of, name, key, *_ = place
    return repr(json.loads(key)[-1] if of == "@once" else key if of == "once" else label(name))


def _looked(history: History, host: str, start: float, end: float) -> float:
    """Return from when on a look at what is kept may be, after which something began at ``end``."""
    slept = any(pause.host == host and pause.start <= end and pause.end >= start for pause in history.pauses)
    slept |= any(each.host == host and start <= each.end and end - each.start > _STOOD for each in history.standstills)
    return start if slept else end


def _of_once(history: History) -> Iterator[PatternUse]:
    """Yield the reads and writes of ``@once``, for each try of an invocation with a known operation and no refusal."""
    refused = {(refusal.host, outside(refusal.owner)) for refusal in history.refusals}
    released: dict[tuple[str, str], float] = {}  # a result is written under the lock
    for got in history.acquisitions:
        owner = got.host, outside(got.owner)
        released[owner] = max(released.get(owner, got.until), got.until)
    for call, bodies in tries(history):
        function = call.function
        if not call.operation or (call.host, call.id) in refused:
            continue
        about = PatternUse(
            of="@once", what="read", name=function, key=call.operation, host=call.host, invocation=call.id,
            caller=function, start=call.start, end=call.end, ok=True, keep=history.function(function).keep,
        )  # fmt: skip
        last = next((body for body in reversed(bodies) if body.function == function), None)
        given, answer = call.once.get("once_kept"), call.once.get("once_answered")
        if last is not None:
            yield replace(about, start=_looked(history, call.host, call.start, last.start), end=last.start)
            if last.ending != "error" or given is not None:
                written = {"": UNREADABLE if last.digest is None else last.digest} if given is None else given
                done = call.ending == "ok" and (last.ending == "ok" if given is None else answer is not None)
                for output, value in written.items():
                    end = min(call.end, max(last.end, released.get((call.host, call.id), call.end)))
                    yield replace(about, what="write", digest=value, start=last.start, end=end, ok=done, where=output)
        if call.ending == "ok" and answer is not None and (last is None or last.ending == "ok" or given is not None):
            for output, value in answer.items():
                yield replace(about, digest=value, where=output)
