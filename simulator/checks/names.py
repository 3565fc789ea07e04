"""The names that the app gets from the product: different texts get different ones, and a guard's lock its own."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from simulator.checks.findings import Finding, count, label, note, violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.history.facts import History


def judge_names(history: History) -> Iterator[Finding]:
    """Find names of locks that exclude others than they must."""
    texts: dict[str, set[str]] = defaultdict(set)
    for record in history.named:
        if record.event == "named":
            texts[record.text("name")].add(record.text("text"))
    for name, several in sorted(texts.items()):
        if len(several) > 1:
            yield violation(f"safe_name gave {count(len(several), 'text')} one name, {name!r}: they share a lock")
    guards = {name for each in history.functions.values() for name in (each.name, *each.declared)} | {*history.inner}
    locks: dict[str, set[str]] = defaultdict(set)
    for call in history.invocations:
        locks[call.function] |= {blob.partition("/")[2] for blob in call.blobs.values()}
    taken = {each.blob.partition("/")[2] for each in history.inner.values()}
    shared = {name for several in locks.values() for name in several}
    named = {(each.text("function"), each.text("name"), each.text("expected")) for each in history.named}
    for function, name, expected in sorted(each for each in named if each[2]):
        whose, asked = (repr(function), locks[function]) if function else ("level='host'", shared)
        if name != expected:
            yield violation(
                f"lock_name gave {name!r} for {whose}, and the guard's lock is {expected!r}: they exclude nobody"
            )
        elif function and function not in guards:
            yield note(f"lock_name was asked for {function!r}, and no function of this app has that name")
        elif asked and name not in asked and name in taken:
            yield note(f"a lock client had {label(name)} by lock_name, and no invocation of {whose} asked for it")
