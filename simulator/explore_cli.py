"""``singleton-sim explore`` and ``singleton-sim replay``: virtual time on the command line."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from simulator.program import called_as
from singleton.base.errors import SingletonError

if TYPE_CHECKING:
    from simulator.virtual.search.explore import Plan, Summary

_MOST_HOSTS: Final = 50
_BETWEEN_LINES: Final = 5.0
"""Seconds between two lines of progress, where there is no terminal."""
_STATES: Final = (
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
    "stale holder refused",
)


@click.command()
@click.option("--scenarios", type=int, default=1000, show_default=True, help="How many worlds.")
@click.option("--hosts", type=int, default=5, show_default=True, help="At most so many hosts in each.")
@click.option("--faults", default="all", show_default=True, metavar="KINDS", help="all, none, or names with commas.")
@click.option("--workload", default="all", show_default=True, metavar="NAMES", help="all, or names with commas.")
@click.option("--seed", type=int, default=1, show_default=True, help="Which worlds: the same seed, the same worlds.")
@click.option("--jobs", type=int, default=os.cpu_count() or 1, show_default=True, help="Processes to run them on.")
@click.option(
    "--app",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="The app whose functions the hosts run. Default: workloads of our own.",
)
@click.option("--through-sdk", is_flag=True, help="Send all requests through the real Azure SDK: slower.")
@click.option(
    "--story",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("singleton-story.json"),
    show_default=True,
    help="Where the shrunk story goes if a promise is broken.",
)
def explore(
    scenarios: int,
    hosts: int,
    faults: str,
    workload: str,
    seed: int,
    jobs: int,
    app: Path | None,
    story: Path,
    *,
    through_sdk: bool,
) -> int:
    """Run the shipped lock in thousands of virtual worlds full of faults, and look for a broken promise.

    Each world is some hosts in one process under virtual time, with a network that delays, loses and doubles, hosts
    that stop, crash and drift, a service that throttles and fails, and operators that break leases. An oracle knows
    what the service knows. A seed gives the same worlds every time.
    """
    from simulator.virtual.faults import KINDS
    from simulator.virtual.search.explore import Plan, find, kinds_named, save_story
    from simulator.virtual.search.explore import explore as run_plan
    from simulator.virtual.search.story import tell
    from simulator.virtual.workloads.workloads import WORKLOADS

    _check("--scenarios", scenarios, 1, 100_000_000)
    _check("--hosts", hosts, 1, _MOST_HOSTS)
    _check("--jobs", jobs, 1, 256)
    _check("--seed", seed, 0, 2**40)
    try:
        plan = Plan(
            scenarios=scenarios,
            hosts=hosts,
            kinds=kinds_named(_names(faults), list(KINDS)),
            workloads=kinds_named(_names(workload), WORKLOADS),
            seed=seed,
            jobs=jobs,
            app="" if app is None else str(app.resolve()),
            sdk=through_sdk,
        )
    except ValueError as error:
        raise click.UsageError(f"--faults or --workload: {error}") from None
    if not plan.workloads:
        raise click.UsageError(f"--workload is {workload!r}: give all, or some of: {', '.join(WORKLOADS)}")
    if plan.app:
        _check_app(plan.app)
    if not story.resolve().parent.is_dir():
        raise click.UsageError(f"--story {story}: there is no such folder")
    console = Console()
    summary = _with_progress(console, plan, run_plan)
    _print_summary(console, plan, summary)
    if summary.broken is None:
        console.print("[bold green]No promise was broken.[/]")
        return 0
    console.print(f"[bold red]Scenario {summary.broken} breaks a promise.[/] Looking for the smallest such story …")
    scenario, run = find(plan, summary.broken)
    for line in tell(scenario, run):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    save_story(story, scenario, run)
    console.print(f"Replay it:  {called_as()} replay {story}", markup=False, highlight=False, soft_wrap=True)
    return 1


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--app",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Where the story's app is now, if it is not where it was.",
)
def replay(file: Path, app: Path | None) -> int:
    """Run a story that `explore` found again: the same events, to the bit, on the same Python minor version."""
    from simulator.virtual.search.explore import load_story
    from simulator.virtual.search.story import tell
    from simulator.virtual.worlds.runtime import prepare_process

    try:
        story = load_story(file)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    scenario = story.scenario
    if app is not None:
        if not scenario.app:
            raise click.UsageError(f"--app: the story in {file} is one of our own workloads, without an app")
        scenario = replace(scenario, app=str(app.resolve()))
    if scenario.app:
        _check_app(scenario.app)
    prepare_process()
    run = scenario.run()
    for line in tell(scenario, run):
        click.echo(line)
    if story.history is not None:
        same = "the same as recorded" if run.history == story.history else f"not the recorded {story.history}"
        click.echo(f"History {run.history}: {same}.")
    else:
        click.echo(f"History {run.history}; it was recorded by another Python, whose order of events differs.")
    return 1 if run.violations else 0


def _check_app(app: str) -> None:
    from simulator.host.app.errors import HostError
    from simulator.virtual.search.userapp import load

    try:
        plans = load(app)
    except (HostError, SingletonError) as error:
        raise click.UsageError(f"--app: {error}") from None
    if not any(plan.guard for plan in plans):
        raise click.UsageError(f"--app {app}: none of its queue and timer functions is guarded by @singleton")


def _with_progress(console: Console, plan: Plan, run_plan: object) -> Summary:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    if not console.is_terminal:
        return _with_lines(plan, run_plan)
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("exploring", total=plan.scenarios)

        def show(summary: Summary) -> None:
            hours = summary.virtual_seconds / 3600
            bar.update(task, completed=summary.scenarios, description=f"exploring, {hours:,.1f} virtual hours")

        return run_plan(plan, show)  # type: ignore[operator, no-any-return]


def _with_lines(plan: Plan, run_plan: object) -> Summary:
    last = 0.0

    def show(summary: Summary) -> None:
        nonlocal last
        if summary.elapsed - last >= _BETWEEN_LINES:
            last = summary.elapsed
            rate = summary.scenarios / summary.elapsed
            left = (plan.scenarios - summary.scenarios) / rate
            click.echo(f"{summary.scenarios:,} of {plan.scenarios:,} scenarios, {rate:.0f} a second, {left:.0f} s left")

    return run_plan(plan, show)  # type: ignore[operator, no-any-return]


def _print_summary(console: Console, plan: Plan, summary: Summary) -> None:
    from simulator.virtual.oracle.moments import MOMENTS

    hours = summary.virtual_seconds / 3600
    rate = summary.scenarios / max(summary.elapsed, 1e-9)
    console.print(
        f"{summary.scenarios:,} scenarios of seed {plan.seed}, {hours:,.1f} virtual hours, in {summary.elapsed:.1f} s "
        f"({rate:.0f} a second)",
        highlight=False,
    )
    faults = {name: many for name, many in summary.reached.items() if name.startswith("fault: ")}
    outcomes = {name: many for name, many in summary.reached.items() if name.startswith("invocation: ")}
    _print_counts(console, "Faults", {name.removeprefix("fault: "): many for name, many in faults.items()})
    _print_counts(console, "Invocations", {name.removeprefix("invocation: "): many for name, many in outcomes.items()})
    _print_counts(console, "States reached", {name: summary.reached[name] for name in (*_STATES, *MOMENTS)})


def _print_counts(console: Console, title: str, counts: dict[str, int]) -> None:
    if counts:
        console.print(f"{title}:", highlight=False)
        for name, many in sorted(counts.items(), key=lambda item: -item[1]):
            console.print(f"  {many:>10,}  {name}", highlight=False)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _check(option: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise click.UsageError(f"{option} is {value}: it must be from {least:,} to {most:,}")
