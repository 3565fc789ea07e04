"""Locks and names beside one another: functions with one lock by accident, and names that are one to the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from simulator.appcheck.lock_places import LockPlace, lock_of
from simulator.appcheck.rules import RULES
from singleton.base.errors import ConfigurationError, ScopeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from simulator.appcheck.checked_app import Subject
    from simulator.appcheck.finding import Finding
    from singleton.functions.guard import Guard


class Named(NamedTuple):
    """A guard of a function, its lock, and the lock's old name; None where there is none."""

    subject: Subject
    guard: Guard
    lock: LockPlace | None
    also: LockPlace | None = None


def named_locks(subjects: Iterable[Subject]) -> tuple[list[Named], list[Finding]]:
    """Return the lock of each guard, and what is wrong with those that name none."""
    named: list[Named] = []
    findings: list[Finding] = []
    for subject in subjects:
        for guard in subject.guards:
            try:
                lock = lock_of(guard, subject)
                also = None if guard.also is None else lock_of(guard.also, subject)
                named.append(Named(subject, guard, lock, also))
                if also == lock:
                    findings.append(_same_as_before(subject, guard, lock))
            except (ConfigurationError, ScopeError) as error:
                named.append(Named(subject, guard, None))
                if "there is no app setting" not in str(error):  # a finding of its own
                    findings.append(_unnamed(subject, guard, str(error)))
    return named, findings


def check_sharing(named: Sequence[Named]) -> Iterator[Finding]:
    """Yield the functions that have one lock and were not declared so, and those that only seem to share one."""
    groups: dict[tuple[str, str, str], list[Named]] = {}
    for each in named:
        if each.lock is not None and not each.guard.layout.foreign | (each.guard.mode == "listener"):
            groups.setdefault((each.lock.connection, each.lock.container, each.lock.marked), []).append(each)
    yield from _differ_by_case(groups)
    for group in groups.values():
        first = group[0]
        for later in group[1:]:
            assert later.lock is not None
            if later.subject.name == first.subject.name:
                continue
            place, both = later.subject.place_of(later.guard), f"{first.subject.name} and {later.subject.name}"
            if (first.guard.limit is None) != (later.guard.limit is None):
                yield RULES["limits-differ"].broken(
                    f"{both} name the lock {later.lock.blob}, and only one of them has a limit: so their locks differ, "
                    "and they don't exclude one another. Give both the same limit",
                    later.subject.name,
                    place,
                )
            elif first.guard.limit != later.guard.limit:
                yield RULES["limits-differ"].broken(
                    f"{both} share the semaphore {later.lock.blob}, with limit={first.guard.limit} and "
                    f"limit={later.guard.limit}: as many run as the greater one allows. Give both the same limit",
                    later.subject.name,
                    place,
                )
            elif not first.guard.level == later.guard.level == "host":
                yield RULES["same-lock"].broken(
                    f"{both} have the same lock, {later.lock}, and exclude one another. Give each a name of its own; "
                    "if they are to share it, say so with level='host'",
                    later.subject.name,
                    place,
                )
            else:
                yield RULES["shared-lock"].broken(
                    f"{both} share the lock {later.lock} by level='host': they exclude one another",
                    later.subject.name,
                    place,
                )


def _differ_by_case(groups: Mapping[tuple[str, str, str], Sequence[Named]]) -> Iterator[Finding]:
    seen: dict[tuple[str, ...], Named] = {}
    for key, (first, *_) in groups.items():
        other = seen.setdefault(tuple(part.casefold() for part in key), first)
        if other is not first and other.subject.name.casefold() != first.subject.name.casefold():
            yield RULES["locks-differ-by-case"].broken(
                f"the locks of {other.subject.name} and {first.subject.name} differ by case only, {other.lock} and "
                f"{first.lock}: they don't exclude one another. Write both alike if they are to",
                first.subject.name,
                first.subject.place_of(first.guard),
            )


def check_names(subjects: Sequence[Subject]) -> Iterator[Finding]:
    """Yield the functions whose names are the same to the Functions host (H-86)."""
    seen: dict[str, str] = {}
    for subject in subjects:
        other = seen.setdefault(subject.name.casefold(), subject.name)
        twice = subject.name == other and any(each.name == other and each is not subject for each in subjects)
        if other != subject.name:
            yield RULES["names-differ-by-case"].broken(
                f"{other!r} and {subject.name!r} differ by case only: the host does not start. Rename one of them",
                subject.name,
                subject.place,
            )
        elif twice and subject is not next(each for each in subjects if each.name == other):
            yield RULES["names-differ-by-case"].broken(
                f"two functions are called {other!r}: the app is not loaded. Rename one of them",
                subject.name,
                subject.place,
            )


def _same_as_before(subject: Subject, guard: Guard, lock: LockPlace) -> Finding:
    return RULES["old-lock-is-the-same"].broken(
        f"also= names the lock that the function has anyway, {lock}. Say what was different before, or leave also= out",
        subject.name,
        subject.place_of(guard),
    )


def _unnamed(subject: Subject, guard: Guard, why: str) -> Finding:
    return RULES["lock-name-refused"].broken(why, subject.name, subject.place_of(guard))
