"""``singleton-sim explore`` and ``singleton-sim replay``: virtual time on the command line."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from simulator.program import called_as
from simulator.report.files import TRACE, OutFile, apart, opened_with, report_option
from singleton.base.errors import SingletonError

if TYPE_CHECKING:
    from collections.abc import Callable

    from simulator.report.html.html_report import ReportContent
    from simulator.virtual.oracle.evidence import Violation
    from simulator.virtual.search.exploration import Exploration, Summary
    from simulator.virtual.search.points import EveryPoint
    from simulator.virtual.search.world_scenario import WorldScenario
    from simulator.virtual.worlds.outcome import Run

_LIMITS: Final = {"scenarios": (1, 100_000_000), "hosts": (1, 50), "jobs": (1, 256), "seed": (0, 2**40)}
_NOT_OF_POINTS: Final = {
    "app": "--app",
    "messages": "--messages",
    "faults": "--faults",
    "scenarios": "--scenarios",
    "hosts": "--hosts",
    "sdk": "--through-sdk",
    "wire": "--wire",
}
_BETWEEN_LINES: Final = 5.0
"""Seconds between two lines of progress, if there is no terminal."""
_APP: Final = click.Path(path_type=Path, file_okay=False)
_FILE: Final = click.Path(path_type=Path, dir_okay=False)


_SIDE_EFFECTS: Final = (
    "The bodies of this app's functions really run, {often}: what they do to files, over the network and with other "
    "processes really happens. Only time, the locks and the app's own queues are simulated."
)


_OF_THE_REPOSITORY: Final = (
    '. The workloads of this project\'s own tests are run in its repository, with make explore ARGS="--workload NAME"'
)
_REPORT: Final = report_option("Write the story as one HTML file, with its timeline.")


@click.command(context_settings={"show_default": True})
@click.option("--scenarios", default=1000, help="How many virtual worlds to run.")
@click.option("--hosts", default=5, help="The largest number of hosts in a world.")
@click.option(
    "--faults", default="all", metavar="KINDS", help="Kinds of faults: all, none, or names with commas between them."
)
@click.option(
    "--workload",
    default="all",
    metavar="NAMES",
    help="Workloads: all, or names with commas between them: mutex, keys, queue, semaphore, leader, defer, coalesce.",
)
@click.option("--seed", default=1, help="The same seed gives the same worlds.")
@click.option("--jobs", default=os.cpu_count() or 1, help="How many processes run them.")
@click.option(
    "--scheduler",
    default="",
    show_default=False,
    metavar="ADDRESS",
    help="Run them on the workers of this Dask scheduler, such as tcp://host:8786, instead of --jobs. Needs [dask].",
)
@click.option(
    "--app",
    type=_APP,
    metavar="DIR",
    help="The folder of an app whose functions the hosts run. Default: built-in workloads.",
)
@click.option("--messages", type=_FILE, metavar="FILE", help="A JSON file with your own queue messages for this app.")
@click.option(
    "--all",
    "every_point",
    is_flag=True,
    help="Strike every point of the small worlds once, in place of drawing worlds: each request with every fate it may "
    "meet, each step with a cancellation, a kill, a pause, a closing. --workload names some of the small worlds.",
)
@click.option(
    "--progress",
    type=_FILE,
    default=Path("singleton-points.json"),
    metavar="FILE",
    help="With --all: where is written how far it came. It goes on from there.",
)
@click.option("--through-sdk", "sdk", is_flag=True, help="Send all requests through the real Azure SDK. Slower.")
@click.option(
    "--wire",
    is_flag=True,
    default=None,
    help="Run every world over the virtual wire: the store, signatures and HTTP of production. Else one of three.",
)
@click.option(
    "--story",
    type=_FILE,
    default=Path("singleton-story.json"),
    help="The file for the smallest story, if a promise is broken.",
)
@_REPORT
@TRACE
def explore(
    *,
    faults: str,
    workload: str,
    scheduler: str,
    app: Path | None,
    messages: Path | None,
    every_point: bool,
    progress: Path,
    story: Path,
    report: OutFile | None,
    trace: OutFile | None,
    **options: Any,
) -> int:
    """Run the shipped lock in thousands of virtual worlds full of faults, and look for a broken promise.

    Each world is some hosts in one process under virtual time, with a network that delays, loses and doubles, hosts
    that stop, crash and drift, a service that throttles and fails, and operators that break leases. An oracle knows
    what the service knows. A seed gives the same worlds every time.
    """
    from simulator.virtual.search.app_bodies import remarks
    from simulator.virtual.search.exploration import print_summary
    from simulator.virtual.search.story_report import of_exploration, outcome

    plan = _points(workload, progress, options) if every_point else _planned(faults, workload, scheduler, app, options)
    file = story.resolve()  # for the app's folder becomes the working directory
    if not file.parent.is_dir():
        raise click.UsageError(f"--story {story}: there is no such folder")
    apart(story=story, messages=messages, progress=progress)
    messages = None if messages is None else messages.resolve()
    notes = _check_app(plan.app) if plan.app else ()
    if messages is not None:
        plan = replace(plan, messages=_own_messages(plan.app, messages))
    console = Console()
    if plan.app:
        console.print(_SIDE_EFFECTS.format(often="thousands of times"), highlight=False, soft_wrap=True)
    summary = _show_progress(console, plan, scheduler)
    print_summary(console, plan, summary)
    for remark in (*notes, *remarks(summary.accounts, own=bool(plan.messages))):
        console.print(f"[bold yellow]About the app:[/] {escape(remark)}", highlight=False, soft_wrap=True)
    if summary.broken is None or summary.violation is None:
        told = outcome(summary)
        style = "bold green" if told.mark == "good" else "bold yellow"
        console.print(told.text, style=style, highlight=False, soft_wrap=True)
        if trace is not None:
            click.echo(f"There is no story to trace: {trace.given} was not written")
        _write(
            report, lambda: of_exploration(plan, summary, [*notes, *remarks(summary.accounts, own=bool(plan.messages))])
        )
        return 0
    return _tell_finding(
        console, plan, summary, summary.broken, summary.violation, story=(story, file), page=report, trace=trace
    )


def _tell_finding(
    console: Console,
    plan: Exploration,
    summary: Summary,
    broken: int,
    violation: Violation,
    *,
    story: tuple[Path, Path],
    page: OutFile | None,
    trace: OutFile | None,
) -> int:
    """Tell a broken promise as the smallest story, and write it; ``story``: its file as given, and in full."""
    from simulator.virtual.search.exploration import find, save_story
    from simulator.virtual.search.story_report import gone, of_exploration, of_story, tell

    breaks = "breaks a promise"
    if violation.of_the_app:
        breaks = "shows a fault of the app, not of the lock"
    console.print(f"[bold red]{plan.unit.capitalize()} {broken} {breaks}.[/] Looking for the smallest such story …")
    scenario, run = find(plan, broken)
    if not run.violations:
        lines = gone(violation, app=bool(plan.app))
        for line in lines:
            console.print(line, markup=False, highlight=False, soft_wrap=True)
        _write(page, lambda: of_exploration(plan, summary, lines[1:], broken=lines[0].strip()))
        return 1
    lines = tell(scenario, run)
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    save_story(story[1], scenario, run)
    again = _replay(scenario, story[0])
    console.print(f"Replay it:  {again}", markup=False, highlight=False, soft_wrap=True)
    _write(page, lambda: of_story(scenario, run, lines, again))
    _write_trace(trace, scenario, run)
    return 1


def _planned(faults: str, workload: str, scheduler: str, app: Path | None, options: dict[str, Any]) -> Exploration:
    """Return the exploration that the options ask for.

    Raises:
        UsageError: a value is out of range or unknown, or two options exclude each other.
    """
    from simulator.virtual.faults import KINDS
    from simulator.virtual.search.exploration import Exploration, kinds_named
    from simulator.virtual.search.world_scenario import OF_APPS
    from simulator.virtual.workloads import builtin  # noqa: F401 - registers the workloads
    from simulator.virtual.worlds import registry

    _within_limits(options)
    known = OF_APPS if app is not None else registry.names(in_all=True)
    more = registry.names(in_all=False)
    plan = Exploration(
        kinds=_named("--faults", lambda: kinds_named(_names(faults), list(KINDS))),
        workloads=_named("--workload", lambda: kinds_named(_names(workload), known, more), _OF_THE_REPOSITORY),
        app="" if app is None else str(app.resolve()),
        **options,
    )
    if not plan.workloads:
        raise click.UsageError(f"--workload is {workload!r}: give all, or some of: {', '.join(known + more)}")
    virtual = () if plan.app else [name for name in plan.workloads if not registry.workload(name).through_sdk]
    if plan.sdk and virtual:
        raise click.UsageError(
            f"--through-sdk can't be used with workload {virtual[0]!r}, whose store is virtual: leave one of them out"
        )
    if plan.sdk and plan.wire:
        raise click.UsageError("--through-sdk and --wire are two ways to the storage: leave one of them out")
    if scheduler and plan.app:
        raise click.UsageError(
            "--scheduler can't be used with --app, because its workers don't have the app's folder: use --jobs"
        )
    return plan


def _within_limits(options: dict[str, Any]) -> None:
    for name, (least, most) in _LIMITS.items():
        if not least <= options[name] <= most:
            raise click.UsageError(f"--{name} is {options[name]}: it must be from {least:,} to {most:,}")


def _points(workload: str, progress: Path, options: dict[str, Any]) -> EveryPoint:
    """Return the plan to strike every point of small worlds, from where an earlier run has come to.

    Raises:
        UsageError: a value is out of range or unknown, or an option means nothing here.
    """
    from simulator.virtual.search.exploration import kinds_named
    from simulator.virtual.search.points import every_point
    from simulator.virtual.workloads import builtin  # noqa: F401 - registers the workloads
    from simulator.virtual.worlds import registry
    from simulator.virtual.worlds.runtime import prepare_process

    _within_limits(options)
    context = click.get_current_context()
    for name, option in _NOT_OF_POINTS.items():
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--all can't be used with {option}: its worlds are fixed, and leave it out")
    names = _named("--workload", lambda: kinds_named(_names(workload), registry.small()))
    if not names:
        raise click.UsageError(f"--workload is {workload!r}: give all, or some of: {', '.join(registry.small())}")
    prepare_process()
    click.echo("Counting the points …")
    plan = every_point(names, seed=options["seed"], jobs=options["jobs"]).taken_up(progress.resolve())
    if plan.start:
        click.echo(f"Taken up at {plan.start:,} of {plan.scenarios:,} points, as {progress} says")
    return plan


def _write(page: OutFile | None, make: Callable[[], ReportContent]) -> None:
    """Write the report, if asked for, and print its place."""
    if page is not None:
        from simulator.report.html.html_report import as_page

        page.write(as_page(make()))
        click.echo(f"The report is in {page.given}")


def _write_trace(file: OutFile | None, scenario: WorldScenario, run: Run) -> None:
    """Write the trace of a world, if asked for, and print its place."""
    if file is not None:
        from simulator.virtual.search.story_report import write_story_trace

        write_story_trace(file, scenario, run)
        click.echo(opened_with(file))


def _replay(scenario: WorldScenario, story: Path) -> str:
    """Return the command that runs a story again."""
    from simulator.virtual.worlds.registry import workload

    template = "" if scenario.app else workload(scenario.workload).replay
    return template.format(file=story) if template else f"{called_as()} replay {story}"


def _named(option: str, kinds: Callable[[], tuple[str, ...]], hint: str = "") -> tuple[str, ...]:
    try:
        return kinds()
    except ValueError as error:
        raise click.UsageError(f"{option}: {error}{hint}") from None


@click.command()
@click.argument("file", type=_FILE)
@click.option("--app", type=_APP, metavar="DIR", help="The app's folder now, if it was moved.")
@_REPORT
@TRACE
def replay(file: Path, app: Path | None, report: OutFile | None, trace: OutFile | None) -> int:
    """Run a story that `explore` found again: the same events, to the bit, on the same Python minor version."""
    from simulator.virtual.search.exploration import load_story
    from simulator.virtual.search.story_report import of_story, tell
    from simulator.virtual.workloads import builtin  # noqa: F401 - registers the workloads
    from simulator.virtual.worlds.runtime import prepare_process

    apart(story=file)
    try:
        story = load_story(file)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    scenario = story.scenario
    if app is not None:
        if not scenario.app:
            raise click.UsageError(
                f"--app: the story in {file} is of a built-in workload and has no app: leave --app out"
            )
        scenario = replace(scenario, app=str(app.resolve()))
    if scenario.app:
        notes = _check_app(scenario.app)
        click.echo(_SIDE_EFFECTS.format(often="once more"))
        for note in notes:
            click.echo(f"About the app: {note}")
    prepare_process()
    run = scenario.run()
    lines = tell(scenario, run)
    for line in lines:
        click.echo(line)
    if story.history is not None:
        same = "the same as recorded" if run.history == story.history else f"not the recorded {story.history}"
        click.echo(f"History {run.history}: {same}.")
    else:
        click.echo(
            f"History {run.history}. It was recorded by another version of Python, where the order of events differs."
        )
    _write(report, lambda: of_story(scenario, run, lines, _replay(scenario, file)))
    _write_trace(trace, scenario, run)
    return 1 if run.violations else 0


def _check_app(app: str) -> tuple[str, ...]:
    """Load the app; return the remarks for its user, first of all the functions that are not run.

    Raises:
        UsageError: the app has nothing to explore; the message says why.
    """
    from simulator.host.app.app_model import HostError
    from simulator.host.worker import describe, unflushed
    from simulator.virtual.search.user_app import load

    stdout = sys.stdout
    try:
        prepared = load(app)
    except (HostError, SingletonError) as error:
        raise click.UsageError(f"--app: {error}") from None
    if (why := unflushed()) is not None:
        sys.stdout = stdout
        raise click.UsageError(
            f"--app {app}: it closes or replaces sys.stdout when it is imported. The worker flushes sys.stdout after "
            f"each invocation, so each of them fails with {describe(why)}, here and in Azure"
        )
    return prepared.notes


def _own_messages(app: str, file: Path) -> tuple[tuple[str, str], ...]:
    from simulator.virtual.search.user_app import own_messages
    from simulator.work.scenario import ScenarioError

    if not app:
        raise click.UsageError("--messages needs --app: the messages are for the functions of an app")
    try:
        return own_messages(app, file)
    except ScenarioError as error:
        raise click.UsageError(str(error)) from None


def _show_progress(console: Console, plan: Exploration, scheduler: str) -> Summary:
    from simulator.virtual.search.cluster import ClusterError, spread
    from simulator.virtual.search.exploration import explore as run_plan

    parts = partial(spread, address=scheduler) if scheduler else None
    last = 0.0

    def line(summary: Summary) -> None:
        nonlocal last
        if summary.elapsed - last >= _BETWEEN_LINES:
            last = summary.elapsed
            rate = (summary.scenarios - plan.start) / summary.elapsed
            left, of_all = (plan.scenarios - summary.scenarios) / rate, f"of {plan.scenarios:,} {plan.unit}s"
            click.echo(f"{summary.scenarios:,} {of_all}, {rate:.0f} a second, {left:.0f} s left")

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
    try:
        if not console.is_terminal:
            return run_plan(plan, line, parts)
        with Progress(TextColumn("{task.description}"), *columns, console=console) as bar:
            task = bar.add_task("exploring", total=plan.scenarios)

            def show(summary: Summary) -> None:
                hours = summary.virtual_seconds / 3600
                bar.update(task, completed=summary.scenarios, description=f"exploring, {hours:,.1f} virtual hours")

            return run_plan(plan, show, parts)
    except ClusterError as error:
        raise click.UsageError(f"--scheduler: {error}") from None


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]
