"""Run scenario after scenario, on several processes, until a scenario breaks a promise or the last is done.

And shrink a scenario that breaks a promise, to the smallest scenario that still breaks a promise.
"""

from __future__ import annotations

import json
import multiprocessing
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Final

from simulator.virtual.faults import Lasting
from simulator.virtual.oracle.evidence import MOMENTS
from simulator.virtual.search.app_bodies import merge
from simulator.virtual.search.world_scenario import WorldScenario
from simulator.virtual.worlds import registry
from simulator.virtual.worlds.runtime import prepare_process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from rich.console import Console

    from simulator.virtual.oracle.evidence import Violation
    from simulator.virtual.worlds.outcome import Account, Run


_CHUNK: Final = 10
"""Scenarios that a process gets at a time: at the end no process waits longer than for so many scenarios."""
_SEEDS: Final = 1_000_000
FORMAT: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Exploration:
    """The plan of an exploration: scenario ``i`` of seed ``s`` is the same in every run.

    ``modules`` register the workloads: a process that runs scenarios imports the modules first. ``start``: how many
    scenarios have been run before, in so many ``virtual_seconds``. ``wire``: whether all scenarios run over the virtual
    wire; None: one of three, or none with ``sdk``.
    """

    unit: ClassVar[str] = "scenario"
    scenarios: int
    hosts: int
    kinds: tuple[str, ...]
    workloads: tuple[str, ...]
    seed: int = 1
    jobs: int = 1
    app: str = ""
    messages: tuple[tuple[str, str], ...] = ()
    sdk: bool = False
    start: int = 0
    virtual_seconds: float = 0.0
    wire: bool | None = None
    modules: tuple[str, ...] = field(default_factory=registry.modules)

    def scenario(self, index: int) -> WorldScenario:
        """Return scenario number ``index``."""
        seed = self.seed * _SEEDS + index
        wire = False if self.sdk else self.wire
        drawn = WorldScenario.draw(
            seed, hosts=self.hosts, kinds=self.kinds, workloads=self.workloads, app=self.app, wire=wire
        )
        return replace(drawn, messages=self.messages, sdk=self.sdk)

    def chunks(self) -> Iterator[tuple[Exploration, int, int]]:
        """Yield the pieces that are handed out: scenarios from one number to before another."""
        for start in range(self.start, self.scenarios, _CHUNK):
            yield self, start, min(start + _CHUNK, self.scenarios)

    def size(self, summary: Summary) -> str:
        """Say in words how much was explored."""
        return f"{summary.scenarios:,} scenarios of seed {self.seed}"

    def keep(self, summary: Summary) -> None:
        """Write down how far it has come."""


@dataclass(slots=True)
class Summary:
    """The results so far; ``broken`` is the number of the scenario with the ``violation``."""

    scenarios: int = 0
    virtual_seconds: float = 0.0
    elapsed: float = 0.0
    reached: Counter[str] = field(default_factory=Counter)
    accounts: dict[str, Account] = field(default_factory=dict)
    broken: int | None = None
    violation: Violation | None = None


def explore(
    plan: Exploration,
    progress: Callable[[Summary], None],
    parts: Callable[[Exploration], Iterable[Summary]] | None = None,
) -> Summary:
    """Run the plan's scenarios; stop at the first that breaks a promise (by number, not by time).

    ``parts`` runs them chunk by chunk; by default processes of this machine do, ``plan.jobs`` of them.
    """
    summary = Summary(scenarios=plan.start, virtual_seconds=plan.virtual_seconds)
    started = time.monotonic()
    for part in (parts or _parts)(plan):
        summary.scenarios += part.scenarios
        summary.virtual_seconds += part.virtual_seconds
        summary.reached.update(part.reached)
        summary.elapsed = time.monotonic() - started
        merge(summary.accounts, part.accounts)
        summary.broken, summary.violation = part.broken, part.violation
        plan.keep(summary)
        progress(summary)
        if part.broken is not None:
            break
    return summary


def find(plan: Exploration, index: int) -> tuple[WorldScenario, Run]:
    """Run a scenario that broke a promise again, and shrink it. If it breaks none now, return that run."""
    prepare_process()
    scenario = plan.scenario(index)
    return shrink(scenario, scenario.run())


def _parts(plan: Exploration) -> Iterator[Summary]:
    if plan.jobs == 1:
        yield from map(run_chunk, plan.chunks())
        return
    deaf = (signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    with multiprocessing.get_context("spawn").Pool(plan.jobs, signal.signal, deaf) as pool:
        yield from pool.imap(run_chunk, plan.chunks())


def run_chunk(chunk: tuple[Exploration, int, int]) -> Summary:
    """Run its scenarios, to the first that breaks a promise."""
    plan, start, end = chunk
    for module in plan.modules:  # a module registers its workloads
        import_module(module)
    prepare_process()
    part = Summary()
    for index in range(start, end):
        run = plan.scenario(index).run()
        part.scenarios += 1
        part.virtual_seconds += run.seconds
        part.reached.update(run.reached)
        merge(part.accounts, run.accounts)
        if run.violations:
            part.broken, part.violation = index, run.violations[0]
            break
    return part


def save_story(path: Path, scenario: WorldScenario, run: Run) -> None:
    """Write a scenario to a file that ``replay`` reads."""
    data = {
        "format": FORMAT,
        **scenario.to_dict(),
        "python": _python(),
        "history": run.history,
        "broken": [violation.check for violation in run.violations],
    }
    path.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")


@dataclass(frozen=True, slots=True)
class SavedStory:
    """What a file of ``save_story`` holds. ``history`` is None where another Python wrote it: its loop differs."""

    scenario: WorldScenario
    history: str | None


def load_story(path: Path) -> SavedStory:
    """Read a file of ``save_story``.

    Raises:
        ValueError: it is none; the message says why.
    """
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ValueError(f"{path} is no story of singleton-sim explore (format {FORMAT})")
    try:
        scenario = WorldScenario.from_dict(data)
    except registry.UnknownWorkload as error:
        own = f'make explore ARGS="replay {path}"'
        raise ValueError(f"{path}: {error}. A workload of this project's own tests: {own}, in its repository") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    history = data.get("history") if data.get("python") == _python() else None
    return SavedStory(scenario, history if isinstance(history, str) else None)


def kinds_named(names: Sequence[str], known: Sequence[str], more: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the kinds that an option names: ``none``, or a list, in which ``all`` stands for those ``known``.

    Those of ``more`` are not in ``all``.

    Raises:
        ValueError: a name is unknown.
    """
    if list(names) == ["none"]:
        return ()
    for name in names:
        if name not in ("all", *known, *more):
            raise ValueError(f"{name!r} is unknown: give all, none, or some of: {', '.join([*known, *more])}")
    named = [each for name in names for each in (known if name == "all" else (name,))]
    return tuple(dict.fromkeys(named))


def _python() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


STATES: Final = (
    "bodies",
    "leases",
    "messages done",
    "acquire applied, reply lost",
    "renew applied, reply lost",
    "release applied, reply lost",
    "write applied, reply lost",
    "paused past the lease inside a body",
    "entered while the old holder was paused or dead",
    "entered while a sync body that was told lingers",
    "entered after an operator ended a lease",
    "leases of dead hosts that expired",
    "writes after a loss",
    "stale holder refused",
)


def print_summary(console: Console, plan: Exploration, summary: Summary) -> None:
    """Print the size, faults, invocations and reached states of an exploration."""
    hours = summary.virtual_seconds / 3600
    rate = (summary.scenarios - plan.start) / max(summary.elapsed, 1e-9)
    console.print(
        f"{plan.size(summary)}, {hours:,.1f} virtual hours, in {summary.elapsed:.1f} s ({rate:.0f} a second)",
        highlight=False,
    )
    for title, prefix in (("Faults", "fault: "), ("Invocations", "invocation: ")):
        counts = {name: many for name, many in summary.reached.items() if name.startswith(prefix)}
        _print_counts(console, title, {name.removeprefix(prefix): many for name, many in counts.items()})
    _print_counts(console, "States reached", {name: summary.reached[name] for name in (*STATES, *MOMENTS)})


def _print_counts(console: Console, title: str, counts: dict[str, int]) -> None:
    if counts:
        console.print(f"{title}:", highlight=False)
        for name, many in sorted(counts.items(), key=lambda item: -item[1]):
            console.print(f"  {many:>10,}  {name}", highlight=False)


MOST_RUNS: Final = 150
_MOST_SECONDS: Final = 30.0
"""Seconds of a processor for all runs together: worlds that get stuck take long."""


def shrink(scenario: WorldScenario, run: Run) -> tuple[WorldScenario, Run]:
    """Drop faults and hosts, then shorten and round what is left, as long as the same check finds something.

    A run that breaks no promise is as small as can be.
    """
    if not run.violations:
        return scenario, run
    check = run.violations[0].check
    ends = time.process_time() + _MOST_SECONDS
    steps = iter(_simpler(scenario))
    for _ in range(MOST_RUNS):
        smaller = next(steps, None)
        if smaller is None or time.process_time() >= ends:
            break
        outcome = smaller.run()
        if any(violation.check == check for violation in outcome.violations):
            scenario, run, steps = smaller, outcome, iter(_simpler(smaller))
    return scenario, run


def _simpler(scenario: WorldScenario) -> list[WorldScenario]:
    """Return the scenarios one step simpler, the boldest steps first."""
    steps = [replace(scenario, faults=())] if len(scenario.faults) > 1 else []
    steps += [scenario.without(index) for index in range(len(scenario.faults))]
    if any(fault.comes_to_a_point for fault in scenario.faults):
        return steps  # in another world the numbers mean other points
    if scenario.hosts > 1 and all(fault.host < scenario.hosts - 1 for fault in scenario.faults):
        steps.append(replace(scenario, hosts=scenario.hosts - 1))
    for index, fault in enumerate(scenario.faults):
        if isinstance(fault, Lasting) and fault.seconds > 1:
            steps.append(scenario.without(index, replace(fault, seconds=round(fault.seconds / 2, 1))))
        if fault.at != round(fault.at):
            steps.append(scenario.without(index, replace(fault, at=float(round(fault.at)))))
    return steps
