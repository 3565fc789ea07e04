"""The verdict: a pure function from the records to the answer whether the lock kept its promises.

    holds      every check passed, and what the run was to show was shown
    violated   a promise was broken: two inside at once, a message lost, a token out of order, a failover late…
    unproven   nothing was broken, but an event that the run was to show did not happen

`judge` looks at nothing but the records: no clock, no process, no file. Whoever keeps the journals
(``singleton-sim --keep``) can have the same verdict again.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from simulator.checks.accounts import judge_accounts
from simulator.checks.answers import judge_answers
from simulator.checks.asking import judge_asking
from simulator.checks.bounds import judge_bounds, judge_renewals
from simulator.checks.client_answers import judge_clients
from simulator.checks.coverage import (
    Exercised,
    ExerciseLevel,
    count_exercised,
    judge_activity,
    judge_witnessed,
    reaches,
    untried,
)
from simulator.checks.deadlines import joined
from simulator.checks.endings import judge_endings
from simulator.checks.exclusion import (
    Overlap,
    Tokens,
    check_tokens,
    find_overlaps,
    judge_given_back,
    judge_guards,
    judge_leaders,
    judge_overlaps,
    judge_tokens,
)
from simulator.checks.failover import (
    Failover,
    TakeOver,
    judge_failovers,
    judge_faults,
    judge_liveness,
    measure_failovers,
    unmeasured,
)
from simulator.checks.findings import natural
from simulator.checks.http_callers import Requests, check_requests
from simulator.checks.kept_values import judge_kept, unjudged
from simulator.checks.losses import judge_losses, judge_spans
from simulator.checks.message_copies import judge_copies
from simulator.checks.messages import Messages, check_messages
from simulator.checks.names import judge_names
from simulator.checks.ordered_messages import judge_ordered, unseen_messages
from simulator.checks.reports import CheckResult, FaultReport, judge_sessions, report_checks, report_faults
from simulator.checks.rows import judge_rows
from simulator.checks.second_tries import judge_second_tries
from simulator.checks.shown_holds import judge_shown
from simulator.checks.sites import judge_sites
from simulator.checks.starts import judge_starts
from simulator.history.deeds import bodies_of, outside
from simulator.history.historian import read_history

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from simulator.history.facts import History
    from simulator.history.journal import Record

SCHEMA: Final = 1
EXAMPLES: Final = 50
INSIDE: Final = ("host", "function", "owner", "token", "start", "end", "ending")

Outcome = Literal["holds", "violated", "unproven"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostReport:
    """One host: what it did, and how it ended (``stopped``, ``killed``, ``drained``, ``crashed``, ``failed``).

    ``after`` names the host that it replaces, if it was started again.
    """

    name: str
    pid: int
    ended: str
    bodies: int
    skipped: int
    after: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionResult:
    """A function of the app: whether guarded, how often run, and how the run exercised the function, or why not."""

    name: str
    trigger: str
    queue: str
    guarded: bool
    on_contention: str
    invocations: int
    bodies: int
    skipped: int
    failed: int
    exercised: bool
    how: ExerciseLevel
    why: str
    judged: bool = False  # whether it has a guard, or what `@once` or `@ordered` promise


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a run showed.

    Attributes:
        verdict: ``holds``, ``violated`` or ``unproven``.
        reasons: why the verdict is not ``holds``, a sentence each.
        violations: the reasons about broken promises.
        untried: what the app declares and the run did not reach, so that nothing was shown about it.
        sections: how many guarded bodies ran, on how many `locks`.
        overlaps: every two bodies of one lock that ran at the same time, the longest first.
        caught: overlaps in which a paused host woke inside its body, was told, and ended it as lost.
        failovers: one entry for each kill, in order.
        faults: one entry for each fault of a nemesis, in order, with what it excused.
        singleton: False for a run with ``--no-singleton``.
        apps: how many apps of several folders or sites the hosts are instances of; 0 for a run of one.
        inside: the guards of helpers, and of hidden functions, that bodies met within each function's invocations.
        shared_id: whether the hosts share the id of their locks only because the simulator made one up.
        interrupted: the run was interrupted. duration: seconds from the first to the last record.
        seed: the number from which the run's choices were made.
        start: when the run began, by the journals' clock.
        too_slow: from when to when the machine was too slow for what happened then to be judged, in seconds of the run.
    """

    verdict: Outcome
    reasons: tuple[str, ...]
    violations: tuple[str, ...]
    notes: tuple[str, ...]
    untried: tuple[str, ...]
    exercised: Exercised
    seed: int
    duration: float
    singleton: bool
    same_app: bool
    apps: int
    shared_id: bool
    inside: Mapping[str, tuple[str, ...]]
    interrupted: bool
    sections: int
    locks: int
    kills: int
    pauses: int
    overlaps: tuple[Overlap, ...]
    caught: tuple[Overlap, ...]
    failovers: tuple[Failover, ...]
    messages: Messages
    requests: Requests
    tokens: Tokens
    hosts: tuple[HostReport, ...]
    functions: tuple[FunctionResult, ...]
    faults: tuple[FaultReport, ...]
    start: float
    too_slow: tuple[tuple[float, float], ...]
    checks: tuple[CheckResult, ...]

    @property
    def holds(self) -> bool:
        """Whether every promise was kept, and the run showed it."""
        return self.verdict == "holds"

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as plain JSON data, the form of ``singleton-sim --json``.

        docs/fake-host.md lists the keys, which are stable for one value of ``schema``.
        """
        data: dict[str, Any] = {"schema": SCHEMA}
        # A run without locks may have tens of thousands of overlaps: only the told overlaps are copied.
        told = replace(self, checks=(), overlaps=self.overlaps[:EXAMPLES], caught=self.caught[:EXAMPLES])
        for name, value in asdict(told).items():
            if name in {"overlaps", "caught"}:
                data[f"{name.removesuffix('s')}_count"] = len(getattr(self, name))
                data[name] = [self._overlap(overlap) for overlap in value]
            elif name == "failovers":
                data[name] = [_failover(failover) for failover in self.failovers]
            elif name not in {"violations", "start", "checks", "apps", "shared_id", "inside"}:
                data[name] = value
        return cast("dict[str, Any]", _plain(data))

    def _overlap(self, overlap: dict[str, Any]) -> dict[str, Any]:
        """Return an overlap and the facts about its bodies. Times count from the run's start."""
        for name in ("first", "second"):
            body = {key: overlap[name][key] for key in INSIDE}
            overlap[name] = {**body, "start": body["start"] - self.start, "end": body["end"] - self.start}
        return overlap


def judge(records: Sequence[Record]) -> Verdict:
    """Judge a run by its records, given in any order."""
    history = read_history(records)
    locked = history.setup.get("singleton", True)
    overlaps, caught = find_overlaps(history)
    failovers = measure_failovers(history)
    tokens = check_tokens(history)
    messages, of_messages = check_messages(history)
    requests, of_requests = check_requests(history)
    exercised = count_exercised(history)
    checks = report_checks(
        history,
        {
            "overlaps": (*judge_overlaps(history, overlaps, caught), *judge_starts(history)),
            "sites": judge_sites(history) if locked else (),
            "spans": judge_spans(history) if locked else (),
            "guards": (
                *(*judge_guards(history), *judge_leaders(history)),
                *(*judge_given_back(history), *(judge_names(history) if locked else ())),
            ),
            "witnessed": judge_witnessed(history),
            "accounts": judge_accounts(history) if locked else (),
            "bounds": judge_bounds(history) if locked else (),
            "asking": judge_asking(history) if locked else (),
            "renewals": judge_renewals(history) if locked else (),
            "losses": (*judge_losses(history), *judge_shown(history)) if locked else (),
            "endings": (*judge_endings(history), *judge_answers(history), *judge_clients(history)) if locked else (),
            "tokens": judge_tokens(tokens),
            "kept": judge_kept(history),
            "ordered": judge_ordered(history),
            "rows": judge_rows(history),
            "tries": judge_second_tries(history),
            "failovers": judge_failovers(history, failovers),
            "messages": of_messages,
            "copies": judge_copies(history),
            "sessions": judge_sessions(history),
            "requests": of_requests,
            "activity": judge_activity(history, messages),
            "liveness": judge_liveness(history),
            "faults": judge_faults(history),
        },
    )
    findings = [finding for check in checks for finding in check.findings]
    reasons = tuple(finding.text for finding in findings if finding.kind != "note")
    violations = tuple(finding.text for finding in findings if finding.kind == "violation")
    return Verdict(
        verdict="violated" if violations else "unproven" if reasons else "holds",
        reasons=reasons,
        violations=violations,
        notes=tuple(finding.text for finding in findings if finding.kind == "note"),
        untried=tuple(_unseen(history, exercised, failovers)),
        exercised=exercised,
        sections=len(bodies_of(history)),
        locks=len({section.lock for section in history.sections}),
        overlaps=tuple(overlaps),
        caught=tuple(caught),
        failovers=tuple(failovers),
        messages=messages,
        requests=requests,
        tokens=tokens,
        kills=len(history.kills),
        pauses=sum(not pause.outside for pause in history.pauses),
        hosts=tuple(_hosts(history)),
        functions=tuple(_functions(history)),
        faults=report_faults(history, caught),
        **_setup(history, history.setup),
        inside=_inside(history),
        too_slow=joined([finding.too_slow for finding in findings if finding.too_slow]),
        checks=checks,
    )


def _unseen(history: History, exercised: Exercised, failovers: list[Failover]) -> Iterator[str]:
    yield from untried(history, exercised)
    yield from unmeasured(history, failovers)
    yield from unjudged(history)
    yield from unseen_messages(history)


def _setup(history: History, setup: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the verdict repeats of a run's setup, and its times."""
    return {
        "interrupted": history.interrupted,
        "duration": history.end - history.start,
        "start": history.start,
        "singleton": bool(setup.get("singleton", True)),
        "same_app": bool(setup.get("same_app", False)),
        "apps": len(setup.get("sites") or ()),
        "shared_id": bool(setup.get("shared_id", False)),
        "seed": setup.get("seed", 0),
    }


def _hosts(history: History) -> Iterator[HostReport]:
    ends = dict.fromkeys((host for host, _ in history.crashes), "crashed")
    ends |= dict.fromkeys((host for host, _ in history.errors), "failed")
    ends |= dict.fromkeys((kill.host for kill in history.kills), "killed")
    ends |= dict.fromkeys((drain.host for drain in history.drains), "drained")
    bodies = Counter(section.host for section in bodies_of(history))
    skipped = Counter(refusal.host for refusal in history.refusals)
    for name in sorted(history.hosts, key=natural):
        ended = ends.get(name, "stopped")
        yield HostReport(
            name=name,
            pid=history.hosts[name],
            ended=ended,
            bodies=bodies[name],
            skipped=skipped[name],
            after=history.restarted.get(name, ""),
        )


def _inside(history: History) -> dict[str, tuple[str, ...]]:
    functions = {(call.host, call.id): call.function for call in history.invocations}
    met: dict[str, dict[str, None]] = {}
    ran = [(each.host, each.owner, each.function) for each in history.sections]
    # A guard which is passed no context does not know its invocation: the host does.
    ran += [(each.host, each.invocation, each.function) for each in history.sights if each.inner]
    for host, owner, function in ran:
        caller = functions.get((host, outside(owner)))
        if caller is not None and outside(owner) != owner:
            known = "locks of lock clients" if history.function(function).blob else function
            met.setdefault(caller, {})[known] = None
    return {caller: tuple(guards) for caller, guards in met.items()}


def _functions(history: History) -> Iterator[FunctionResult]:
    calls = Counter(call.function for call in history.invocations)
    bodies = Counter(section.function for section in bodies_of(history))
    skipped = Counter(refusal.function for refusal in history.refusals)
    failed = Counter(call.function for call in history.invocations if call.ending == "error")
    reach = dict(reaches(history))
    for name, function in sorted(history.functions.items()):
        how, why = reach[name]
        yield FunctionResult(
            name=name,
            trigger=function.trigger,
            queue=function.queue,
            guarded=function.guarded,
            on_contention=function.on_contention if function.guarded else "",
            invocations=calls[name],
            bodies=bodies[name],
            skipped=skipped[name],
            failed=failed[name],
            exercised=how != "not exercised",
            how=how,
            why=why,
            judged=function.guarded or function.once or function.ordered,
        )


def _failover(failover: Failover) -> dict[str, Any]:
    """Return the fields of the main failover and of the kill."""
    main = asdict(failover.main) if failover.main else dict.fromkeys(TakeOver.__slots__)
    kill = {"host": failover.host, "pid": failover.pid, "at": failover.at}
    return {**kill, **main, "ok": failover.ok, "also": [asdict(over) for over in failover.overs[1:]]}


def _plain(value: Any) -> Any:
    """Round times, and turn tuples into lists, at any depth."""
    if isinstance(value, float):
        return round(value, 3)
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
