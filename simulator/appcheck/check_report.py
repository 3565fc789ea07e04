"""What a check has to say: each function with its guards and locks, and the findings."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from simulator.appcheck.finding import SEVERITIES
from singleton.base.words import did_you_mean, listed, quoted

if TYPE_CHECKING:
    from simulator.appcheck.finding import Finding, Place, Severity
    from simulator.appcheck.lock_places import LockPlace

SCHEMA: Final = 1
"""The version of the JSON. It changes when a key changes its meaning or goes, not when one is added."""


class OptionReport(NamedTuple):
    """An option that applies to a guard: durations in seconds, None for no limit, and where the value comes from."""

    name: str
    value: object
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardReport:
    """One guard of a function.

    Attributes:
        decorator: ``@singleton``, ``@once`` or ``@ordered``.
        mode: ``function`` or ``listener``.
        lock: where the lock is; None where the declaration names none, which is a finding.
        also: the lock's old name, which is taken as well; None: there is none.
        on_contention: the policy; the name of a function of the user's own; ``order`` for ``@ordered``.
        options: the options of the function, with the source of every value; none for ``@ordered``.
        place: line of the decorator.
    """

    decorator: str
    mode: str
    lock: LockPlace | None
    also: LockPlace | None
    layout: str
    level: str
    on_contention: str
    options: tuple[OptionReport, ...]
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionReport:
    """One function of the app: the trigger's type, the guards, the line of the ``def``.

    ``source``: a hash of the trigger, by which a renamed function is known again. ``refused``: a declaration on the
    function is wrong, so no guard is known.
    """

    name: str
    trigger: str
    source: str
    guards: tuple[GuardReport, ...]
    refused: bool
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """The result of a check.

    Attributes:
        functions: the app's functions, in the order of their declarations.
        findings: errors, warnings, notes, in this order; each kind by file and line.
    """

    functions: tuple[FunctionReport, ...]
    findings: tuple[Finding, ...]

    @property
    def errors(self) -> tuple[Finding, ...]:
        """What will fail, or is surely wrong."""
        return self._of("error")

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """What may be wrong."""
        return self._of("warning")

    @property
    def notes(self) -> tuple[Finding, ...]:
        """What is worth knowing."""
        return self._of("note")

    @property
    def counts(self) -> str:
        """How much was found, in words: ``1 error, 0 warnings, 2 notes``."""
        counted = Counter(each.severity for each in self.findings)
        return ", ".join(f"{counted[kind]} {kind}{'' if counted[kind] == 1 else 's'}" for kind in SEVERITIES)

    def lock(self, function: str, mode: str = "function") -> str:
        """Return the container and blob of a function's lock: ``webjobshost/locks/<hostId>/ship.{Id}``.

        Raises:
            KeyError: there is no such function, or it has no guard of this mode with a lock.
        """
        for each in self.functions:
            for guard in each.guards:
                if each.name == function and guard.mode == mode and guard.lock is not None:
                    return str(guard.lock)
        raise KeyError(self._no_lock(function, mode))

    def _no_lock(self, function: str, mode: str) -> str:
        found = next((each for each in self.functions if each.name == function), None)
        if found is None:
            names = [each.name for each in self.functions]
            hint = did_you_mean(function, names) or f". It has {listed(names)}"
            return f"the app has no function {quoted(function)}{hint}"
        if found.refused:
            return f"the declaration of {function} is refused, so it has no lock: see the report's findings"
        modes = sorted({guard.mode for guard in found.guards})
        if mode in modes:
            return f"the lock of {function} has no name: see the report's findings"
        has = f"only one with mode={quoted(modes[0])}" if modes else "none"
        return f"{function} has no guard with mode={quoted(mode)}: it has {has}"

    def assert_ok(self, *, strict: bool = False) -> None:
        """Fail a test where something was found.

        Args:
            strict: warnings count, too.

        Raises:
            AssertionError: the app has an error, or with ``strict`` a warning. The text has the findings except notes.
        """
        wrong = [*self.errors, *self.warnings]
        if self.errors or (strict and wrong):
            raise AssertionError("\n".join([f"check_app found {self.counts}:", *map(str, wrong)]))

    def to_json(self) -> dict[str, Any]:
        """Return the report as docs/how-to/check.md describes it."""
        return {
            "version": SCHEMA,
            "ok": not self.errors,
            "counts": {f"{kind}s": len(self._of(kind)) for kind in SEVERITIES},
            "functions": [_function(each) for each in self.functions],
            "findings": [each.to_json() for each in self.findings],
        }

    def _of(self, severity: Severity) -> tuple[Finding, ...]:
        return tuple(each for each in self.findings if each.severity == severity)


def _function(function: FunctionReport) -> dict[str, Any]:
    return {
        "name": function.name,
        "trigger": function.trigger,
        "source": function.source,
        "file": function.place.file,
        "line": function.place.line,
        "refused": function.refused,
        "guards": [_guard(each) for each in function.guards],
    }


def _guard(guard: GuardReport) -> dict[str, Any]:
    lock = guard.lock
    return {
        "decorator": guard.decorator,
        "mode": guard.mode,
        "connection": None if lock is None else lock.connection,
        "container": None if lock is None else lock.container,
        "blob": None if lock is None else lock.blobs,
        "also": None if guard.also is None else str(guard.also),
        "identity": None if lock is None else lock.identity,
        "folded_identity": None if lock is None else lock.folded_identity,
        "also_identity": None if guard.also is None else guard.also.identity,
        "also_folded_identity": None if guard.also is None else guard.also.folded_identity,
        "layout": guard.layout,
        "level": guard.level,
        "on_contention": guard.on_contention,
        "options": {each.name: {"value": each.value, "source": each.source} for each in guard.options},
        "file": guard.place.file,
        "line": guard.place.line,
    }
