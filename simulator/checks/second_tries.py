"""Messages of outboxes, and rows: what failed is tried again when it is due, and no more after its last attempt.

A look of a claimer shows what is due there: a look that found less than it had room for has found everything. A table
that the app changes by itself meanwhile shows nothing. A message of an outbox stays in its table until it is noted as
sent: looks at what is ``left`` show every such message.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from simulator.checks.findings import Finding, count, violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.history.facts import History, PatternUse

_ROUNDED: Final = 1.0
"""Seconds by which a pause may differ by a database's clock."""
_LOOKS: Final = 2
"""Looks that must have missed the work: others may have won the rows of a single one."""
FAILED: Final = ("again", "failed", "stopped")
_UNTIL: Final = "tried again before its pause was over"
_AFTER: Final = "tried again after its last attempt"
_NOT: Final = "not tried again when it was due"


def judge_second_tries(history: History) -> Iterator[Finding]:
    """Find failed work that is tried too early, or too often, or that those who looked for work did not find."""
    looks: dict[tuple[str, str, str], list[PatternUse]] = defaultdict(list)
    for use in history.uses:
        if use.of == "look":
            looks[use.what, use.name, use.where].append(use)
    wrong: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for use in history.uses:
        if use.of in {"outbox", "rows"} and use.what in FAILED and use.ok and use.attempt:
            changed = _changed(history, use)
            theirs = looks[use.of, use.name, use.where if use.of == "rows" else ""]
            found = _wrong(use, changed, [each for each in theirs if each.end > use.end])
            if found:
                what, look = found
                failed = (
                    f"{_work(use)} failed in attempt {use.attempt} on {use.host} at {use.end - history.start:.1f} s"
                )
                wrong[use.of, use.name, what].append(
                    f"{failed}, and {look.host} looked at {look.start - history.start:.1f} s"
                )
    for name in {name for what, name, _ in looks if what == "left"}:
        if lost := _vanished(history, name, looks["left", name, ""]):
            gone = f"{count(len(lost), 'message')} vanished from its table, and nobody had noted it as sent"
            yield violation(f"outbox {name!r}: {gone}: {lost[0]}")
    for (of, name, what), (example, *more) in sorted(wrong.items()):
        work = "message" if of == "outbox" else "row"
        yield violation(f"{of} {name!r}: {count(1 + len(more), work)} that had failed, {what}: the first: {example}")


def _vanished(history: History, name: str, looks: list[PatternUse]) -> list[str]:
    """Say of each message that was in an outbox, and is no more, when it was last seen."""
    theirs = [each for each in history.uses if (each.of, each.name) == ("outbox", name)]
    sent = {each.id: each.start for each in reversed(theirs) if each.what == "sent"}
    table = name.partition(" in ")[0].rpartition(".")[2]
    touched = [each.start for each in history.uses if each.of == "touch" and each.name in {name, table}]
    seen: dict[str, PatternUse] = {}
    found: dict[str, str] = {}
    for look in sorted((each for each in [*looks, *theirs] if each.ok), key=lambda each: each.end):
        if look.of == "outbox":
            seen |= {look.id: look} if look.what in FAILED else {}
            continue
        for id_ in seen.keys() - set(look.found) if look.left > 0 else ():
            last = seen.pop(id_)
            known = any(last.start - _ROUNDED <= t < look.end for t in touched) or sent.get(id_, math.inf) < look.end
            if last.end <= look.start and not known:
                where = f"{last.host} saw it at {last.end - history.start:.1f} s"
                found[id_] = f"{where}, and {look.host} did not at {look.start - history.start:.1f} s"
        seen |= dict.fromkeys(look.found, look)
    return [*found.values()]


def _wrong(use: PatternUse, changed: float, looks: list[PatternUse]) -> tuple[str, PatternUse] | None:
    """Say what is wrong after a failure, up to when somebody ``changed`` the table, and which look shows it."""
    again = min((each for each in looks if _work(use) in each.found), key=lambda each: each.start, default=None)
    if again is not None and use.end <= again.start and again.end < changed:
        if use.left <= 0:
            return _AFTER, again
        if again.end < use.start + use.keep - _ROUNDED < math.inf:
            return _UNTIL, again
    if use.left <= 0:
        return None
    unknown = (each.start for each in looks if not each.ok)  # it may have claimed the work
    until = min([changed, *unknown, math.inf if again is None else again.start])
    missed = [
        each
        for each in looks
        if each.left > 0 and use.end + use.keep + _ROUNDED < each.start and each.end < until
        if not each.token or each.token >= use.token
    ]
    return (_NOT, missed[_LOOKS - 1]) if len(missed) >= _LOOKS else None


def _changed(history: History, failure: PatternUse) -> float:
    """Return when the app itself, or an earlier message of its key, may have changed what follows a failure."""
    since, table = failure.start - _ROUNDED, failure.name.partition(" in ")[0].rpartition(".")[2]
    return min(
        (
            use.start
            for use in history.uses
            if use.end >= since
            if (use.of == "touch" and use.name in {failure.name, table})
            or (use.of == "outbox" == failure.of and use.name == failure.name and _goes_before(use, failure))
        ),
        default=math.inf,
    )


def _goes_before(use: PatternUse, failure: PatternUse) -> bool:
    earlier = use.what in FAILED and use.key == failure.key != "" and use.place < failure.place
    return use.what == "resume" or (earlier and use.start > failure.start)


def _work(use: PatternUse) -> str:
    return use.id if use.of == "outbox" else use.key
