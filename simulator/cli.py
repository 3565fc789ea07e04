"""``singleton-sim``: the command line.

Exit codes: 0 the verdict holds; 1 it does not; 2 an option or the app is wrong; 3 storage, processes or installation
failed; 128 + n when signal n ended the run.
"""

from __future__ import annotations

import contextlib
import os
import random
import sys
import tempfile
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from simulator.check_cli import check
from simulator.explore_cli import explore, replay
from simulator.faults.real import ALL
from simulator.pilot_cli import pilot
from simulator.program import ENVIRONMENT, PROGRAM, USAGE, called_as, complain, version
from simulator.real.run import RunOutcome, RunTrouble, run
from simulator.real.settle import Interrupt, Signals
from simulator.report.files import TRACE, OutFile, OutFileError, apart, opened_with, report_option, write_json
from simulator.report.html.html_report import as_page, of_run
from simulator.report.trace import write_trace
from simulator.report.words import PlainReporter, Reporter
from simulator.storage_cli import storage
from simulator.work.scenario import EVERY, LEAST_HOSTS, LOAD, Scenario, ScenarioError, default_app, in_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

HOLDS: Final = 0
VIOLATED: Final = 1
_PATH: Final = click.Path(path_type=Path)


class _Seconds(click.ParamType):  # type: ignore[type-arg] # generic in some versions of click only
    """Seconds: 30, 30s, 2m."""

    name = "seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return value if isinstance(value, float) else in_seconds(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


_SECONDS: Final = _Seconds()

HELP: Final = """Run your app on several fake Functions hosts, kill some of them, and check that @singleton holds.

Each host is a process that imports your function_app.py unchanged. It runs timers, queues, HTTP and Service Bus the
way the Functions host does, and delivers --messages to all other triggers. Azurite is installed and started for the
run. The verdict comes from what the hosts wrote down: never two inside one lock, no message lost, every lock of a
killed host taken over in time.

\b
  singleton-sim --hosts 5 --kill 1
  singleton-sim --hosts 5 --no-singleton
"""


class _Group(click.Group):
    """A group that has the options of a run itself, so that a run needs no subcommand."""

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_usage(ctx.command_path, "[OPTIONS]")

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self.commands:
            super().format_commands(ctx, formatter)


@click.group(
    cls=_Group,
    help=HELP,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100, "show_default": True},
    epilog="Exit codes: 0 the verdict holds, 1 it does not, 2 a wrong option or app, 3 storage or processes failed.",
)
@click.option("--hosts", default=5, help="How many fake hosts run the app.")
@click.option("--kill", default=0, help="How many hosts to kill (SIGKILL), each while it holds a lock.")
@click.option(
    "--pause", default=0, help="How many hosts to stop, inside a body, for longer than their lease. Then they go on."
)
@click.option(
    "--app",
    "apps",
    type=_PATH,
    multiple=True,
    metavar="DIR",
    help="The app's folder. Default: the current one, or else the sample. Given several times, each folder is an app "
    "of its own, with the host id that Azure would give it.",
)
@click.option(
    "--site",
    "sites",
    multiple=True,
    metavar="NAME",
    help="Given several times: the app is deployed under these names (regions, slots), with the host ids that Azure "
    "would give them.",
)
@click.option("--duration", default=LOAD, type=_SECONDS, metavar="SECONDS", help="For how long there is new work.")
@click.option(
    "--messages", type=_PATH, metavar="FILE", help="A JSON file with your own messages, deliveries and requests."
)
@click.option(
    "--no-singleton",
    "singleton",
    flag_value=False,
    default=True,
    show_default=False,
    help="Run without the lock, to see the difference.",
)
@click.option("--same-app", is_flag=True, help="The hosts are instances of one app: one of them fires a timer.")
@click.option(
    "--timer-every",
    default=5.0,
    type=_SECONDS,
    metavar="SECONDS",
    help="Slower timers tick this often. 0: as the app says.",
)
@click.option(
    "--visibility",
    default=20.0,
    type=_SECONDS,
    metavar="SECONDS",
    help="After how long a dead host's messages come back.",
)
@click.option(
    "--faults",
    default="",
    metavar="KINDS",
    show_default=False,
    help=f"What goes wrong all the time: {', '.join(ALL)}; or all.",
)
@click.option(
    "--fault-every", default=EVERY, type=_SECONDS, metavar="SECONDS", help="How often a fault strikes, on average."
)
@click.option("--fault-plan", type=_PATH, metavar="FILE", help="A JSON file that says which fault strikes when.")
@click.option("--seed", type=int, metavar="N", help="Repeat the choices of an earlier run: keys, faults, killed hosts.")
@click.option("--strict", is_flag=True, help="Exit with 1 also if the run did not try everything.")
@click.option("--json", "as_json", is_flag=True, help="Write the verdict as JSON.")
@report_option("Write the run as one HTML file, with its timeline.")
@TRACE
@click.option("--keep", is_flag=True, help="Keep the journals, and show where they are.")
@click.option(
    "--storage",
    metavar="CONNECTION",
    envvar="SINGLETON_SIM_STORAGE",
    show_envvar=True,
    help="Connection string of a running Azurite. Default: an Azurite is started.",
)
@click.option("--allow-cloud", "cloud", is_flag=True, help="Allow an account in the cloud as --storage.")
@click.version_option(version(), prog_name=PROGRAM)
@click.pass_context
def cli(context: click.Context, /, **options: Any) -> None:
    """Run the options' scenario, unless a subcommand is asked for."""
    if context.invoked_subcommand is None:
        context.exit(_simulate(**options))


cli.add_command(check)
cli.add_command(explore)
cli.add_command(pilot)
cli.add_command(replay)
cli.add_command(storage)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, and leave with its exit code; say what is wrong in one line, never in a traceback."""
    try:
        code = cli.main(args=None if arguments is None else list(arguments), prog_name=PROGRAM, standalone_mode=False)
    except click.ClickException as error:
        code = complain(error.format_message(), USAGE)
    except OutFileError as error:
        code = complain(str(error), USAGE)
    except (click.Abort, KeyboardInterrupt):
        code = complain("interrupted", 130)
    except BrokenPipeError:
        # The reader of the output has gone: nobody is left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        code = 141
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told in one line
        with tempfile.NamedTemporaryFile("w", prefix="singleton-sim-", suffix=".log", delete=False) as log:
            traceback.print_exc(file=log)
        code = complain(f"unexpected {type(error).__name__}: {error}; the traceback is in {log.name}", ENVIRONMENT)
    sys.exit(code)


def _simulate(
    *, as_json: bool, strict: bool, report: OutFile | None, trace: OutFile | None, seed: int | None, **options: Any
) -> int:
    apart(messages=options["messages"], fault_plan=options["fault_plan"])
    seed = random.SystemRandom().randrange(2**32) if seed is None else seed
    reporter = _reporter(as_json=as_json)
    page = report
    if page is None and reporter.stays and not as_json:
        page = _place(seed)
    outcome: RunOutcome | None = None
    unwritten = ""
    with Signals() as signals, contextlib.closing(reporter):
        try:
            app, *more = (folder.resolve() for folder in options.pop("apps") or [default_app(Path.cwd())])
            scenario = Scenario(app=app, more=tuple(more), seed=seed, **options)
            outcome = run(scenario, reporter, signals)
            if outcome.verdict is not None:
                written, unwritten = _write(page, trace, scenario, outcome)
                if as_json:
                    places = {name: file.given for name, file in written.items()}
                    write_json(outcome.verdict, {"journals": outcome.journals, **places}, sys.stdout)
                else:
                    reporter.finish(outcome.verdict, _hints(scenario, outcome, written))
        except ScenarioError as error:
            reporter.close()
            return complain(str(error), USAGE)
        except RunTrouble as error:
            reporter.close()
            return complain(str(error), ENVIRONMENT)
        except Interrupt:
            pass
        reporter.close()
        if signals.received:
            kept_page = page.given if page and outcome and outcome.verdict else None
            left = [("journals", outcome.journals), ("report", kept_page)] if outcome else []
            kept = " and ".join(f"the {what} in {where}" for what, where in left if where)
            return complain(f"interrupted; nothing is left behind{kept and ', but ' + kept}", signals.exit_code)
    assert outcome is not None
    if unwritten:
        return complain(unwritten, ENVIRONMENT)
    verdict = outcome.verdict
    shown = verdict is not None and verdict.holds and not (strict and verdict.untried)
    return HOLDS if shown else VIOLATED


def _place(seed: int) -> OutFile | None:
    """Return where the report of an interactive run stays; None if nothing can be written there."""
    from simulator.report.files import place_for_report

    try:
        return OutFile("--report", place_for_report(datetime.now(UTC).astimezone(), seed))
    except (OSError, OutFileError):
        return None


def _reporter(*, as_json: bool) -> Reporter:
    stream = sys.stderr if as_json else sys.stdout
    if not stream.isatty():
        return Reporter() if as_json else PlainReporter(stream)
    from simulator.report.terminal import TerminalReporter, draws

    return TerminalReporter(stream) if draws(stream, os.environ) else PlainReporter(stream)


def _write(
    page: OutFile | None, trace: OutFile | None, scenario: Scenario, outcome: RunOutcome
) -> tuple[dict[str, OutFile], str]:
    """Write the report and the trace. Return what was written, and what could not be: the verdict is shown anyway."""
    assert outcome.verdict is not None
    written, unwritten = {}, ""
    try:
        if page is not None:
            page.write(as_page(of_run(outcome.records, outcome.verdict, f"{PROGRAM} {scenario.options()}")))
            written["report"] = page
        if trace is not None:
            write_trace(trace, outcome.records, outcome.verdict)
            written["trace"] = trace
    except OutFileError as error:
        unwritten = str(error)
    return written, unwritten


def _hints(scenario: Scenario, outcome: RunOutcome, written: dict[str, OutFile]) -> list[str]:
    """Say what might be tried next, and at the end where the report is."""
    again = f"{called_as()} {scenario.options()}"
    hints = []
    if not scenario.singleton:
        hints.append(f"With the lock:      {again.replace(' --no-singleton', '')}")
    elif scenario.runs_without_locks():
        hints.append(f"Without the lock:   {again.replace('--seed', '--no-singleton --seed')}")
    if not (scenario.kill or scenario.struck) and scenario.hosts > 1 and scenario.singleton:
        hints.append(f"Kill a holder:      {again} --kill 1")
    if not (scenario.kill or scenario.pause or scenario.struck) and scenario.hosts >= LEAST_HOSTS:
        hints.append(f"With more faults:   {again} --faults all")
    hints.append(f"For machines:       {again} --json")
    if outcome.journals is not None:
        hints.append(f"The journals are in {outcome.journals}")
    if "trace" in written:
        hints.append(opened_with(written["trace"]))
    if "report" in written:
        hints.append(f"The report is in {written['report'].given}")
    return hints


if __name__ == "__main__":
    main()
