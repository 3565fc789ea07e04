"""Locks and names beside one another: functions with one lock by accident, and names that are one to the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from simulator.appcheck.lock_places import LockPlace, lock_of
from simulator.appcheck.rules import RULES
from singleton.base.errors import ConfigurationError, ScopeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from simulator.appcheck.checked_app import Subject
    from simulator.appcheck.finding import Finding, Place
    from singleton.functions.guard import Guard


class Named(NamedTuple):
    """A guard of a function, its lock (None: without a lock), and the lock's old name (None: without an old name)."""

    subject: Subject
    guard: Guard
    lock: LockPlace | None
    also: LockPlace | None = None

    @property
    def place(self) -> Place:
        """The line of the guard."""
        return self.subject.place_of(self.guard)


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
                    told = (
                        f"also= names the lock that the function has anyway, {lock}. Say what was different before, or "
                        "leave also= out"
                    )
                    findings.append(RULES["old-lock-is-the-same"].broken(told, subject.name, named[-1].place))
            except (ConfigurationError, ScopeError) as error:
                named.append(Named(subject, guard, None))
                if "there is no app setting" not in str(error):  # a finding of its own
                    findings.append(RULES["lock-name-refused"].broken(str(error), subject.name, named[-1].place))
    return named, findings


def check_sharing(named: Sequence[Named]) -> Iterator[Finding]:
    """Yield the functions that share a lock without a declaration to share, and functions that only seem to share."""
    groups: dict[tuple[str, str, str], list[Named]] = {}
    coalesce = [each for each in named if each.guard.on_contention == "coalesce"]
    older = [each._replace(lock=each.also) for each in coalesce if each.also is not None]  # with a seat of its own
    for each in (*named, *older):
        if each.lock is not None and not each.guard.layout.foreign | (each.guard.mode == "listener"):
            groups.setdefault((each.lock.connection, each.lock.container, each.lock.marked), []).append(each)
    yield from _differ_by_case(groups)
    for group in groups.values():
        first = group[0]
        for later in group[1:]:
            if later.subject.name != first.subject.name:
                yield _shared(first, later).at(later.subject.name, later.place)


def _shared(first: Named, later: Named) -> Finding:
    """Return the finding on two functions with one lock."""
    assert later.lock is not None
    both, limits = f"{first.subject.name} and {later.subject.name}", (first.guard.limit, later.guard.limit)
    if limits[0] != limits[1] and None in limits:
        return RULES["limits-differ"].broken(
            f"{both} name the lock {later.lock.blob}, and only one of them has a limit: so their locks differ, and "
            "they don't exclude one another. Give both the same limit"
        )
    if limits[0] != limits[1]:
        return RULES["limits-differ"].broken(
            f"{both} share the semaphore {later.lock.blob}, with limit={limits[0]} and limit={limits[1]}: as many run "
            "as the greater one allows. Give both the same limit"
        )
    if "coalesce" in (first.guard.on_contention, later.guard.on_contention):
        return RULES["coalesce-shared"].broken(
            f"{both} have the same lock, {later.lock}, and on_contention='coalesce': one would leave while "
            "the other waits. Give each a name of its own"
        )
    if not first.guard.level == later.guard.level == "host":
        return RULES["same-lock"].broken(
            f"{both} have the same lock, {later.lock}, and exclude one another. Give each a name of its own; if they "
            "are to share it, say so with level='host'"
        )
    return RULES["shared-lock"].broken(f"{both} share the lock {later.lock} by level='host': they exclude one another")


def _differ_by_case(groups: Mapping[tuple[str, str, str], Sequence[Named]]) -> Iterator[Finding]:
    seen: dict[tuple[str, ...], Named] = {}
    for key, (first, *_) in groups.items():
        other = seen.setdefault(tuple(part.casefold() for part in key), first)
        if other is not first and other.subject.name.casefold() != first.subject.name.casefold():
            yield RULES["locks-differ-by-case"].broken(
                f"the locks of {other.subject.name} and {first.subject.name} differ by case only, {other.lock} and "
                f"{first.lock}: they don't exclude one another. Write both alike if they are to",
                first.subject.name,
                first.place,
            )


def check_names(subjects: Sequence[Subject]) -> Iterator[Finding]:
    """Yield the functions whose names are the same to the Functions host (H-86)."""
    seen: dict[str, str] = {}
    for subject in subjects:
        other = seen.setdefault(subject.name.casefold(), subject.name)
        if other != subject.name:
            told = f"{other!r} and {subject.name!r} differ by case only: the host does not start. Rename one of them"
        elif subject is not next(each for each in subjects if each.name == other):
            told = f"two functions are called {other!r}: the app is not loaded. Rename one of them"
        else:
            continue
        yield RULES["names-differ-by-case"].broken(told, subject.name, subject.place)
