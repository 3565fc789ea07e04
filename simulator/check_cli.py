"""``singleton-sim check``: finds, in seconds and without storage, what would fail at run time only."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any, Final

import click

from simulator.appcheck.command.child import CheckFailed, Unchecked, report_on
from simulator.appcheck.command.comparison import renamed
from simulator.appcheck.command.neighbours import timers_of_each
from simulator.appcheck.command.sarif import sarif
from simulator.appcheck.command.text_report import lines
from simulator.appcheck.finding import SEVERITIES
from simulator.appcheck.rules import RULES
from simulator.program import ENVIRONMENT, USAGE, complain, version
from singleton.base.words import did_you_mean, quoted

FOUND: Final = 1
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_PATH: Final = click.Path(path_type=Path)


@click.command(
    context_settings={"show_default": True, "max_content_width": 100},
    epilog="Exit codes: 0 no error, 1 an error, 2 a wrong option or app, 3 the check failed.",
)
@click.option("--app", type=_PATH, metavar="DIR", default=".", help="The app's folder.")
@click.option(
    "--settings",
    type=_PATH,
    metavar="FILE",
    help="A JSON file with the app settings. Default: local.settings.json and the environment.",
)
@click.option("--strict", is_flag=True, help="Exit with 1 also if there are warnings.")
@click.option("--ignore", multiple=True, metavar="ID", help="Leave out the findings with this id. May be repeated.")
@click.option("--against", type=_PATH, metavar="DIR", help="Another version of the app: name the locks that differ.")
@click.option("--json", "as_json", is_flag=True, help="Write the report as JSON.")
@click.option("--sarif", "sarif_file", metavar="FILE", help="Write the findings as SARIF 2.1.0 to a file; -: here.")
@click.option("--verbose", "-v", is_flag=True, help="Show the options that are defaults, too.")
@click.option("--patience", default=60.0, metavar="SECONDS", help="How long the app's import may last.")
@click.pass_context
def check(
    context: click.Context,
    /,
    *,
    app: Path,
    settings: Path | None,
    strict: bool,
    ignore: tuple[str, ...],
    against: Path | None,
    as_json: bool,
    sarif_file: str | None,
    verbose: bool,
    patience: float,
) -> None:
    """Say for each function what guards it and which lock it takes, and find what would fail at run time only.

    The app is imported, in a process of its own. Nothing of it is run, and nothing is connected to.
    """
    if os.environ.get("NO_COLOR"):  # https://no-color.org
        context.color = False
    _refuse(ignore, patience, as_json=as_json, sarif_file=sarif_file)
    _look_for(app=app, against=against, settings=settings)
    try:
        report = report_on(app, settings, patience)
        if against is not None:
            report["findings"] += renamed(report_on(against, settings, patience), report)
        report["findings"] += timers_of_each(report, app, against)
    except Unchecked as error:
        context.exit(complain(str(error), USAGE))
    except CheckFailed as error:
        context.exit(complain(str(error), ENVIRONMENT))
    _settle(report, ignore)
    if sarif_file is not None:
        _write(sarif_file, json.dumps(sarif(report, app, Path.cwd(), version()), indent=2), context)
    if as_json:
        _show(json.dumps({"app": str(app), **report}, indent=2), context)
    elif sarif_file != "-":
        _show("\n".join(lines(report, str(app), verbose=verbose)), context)
    counts = report["counts"]
    context.exit(FOUND if counts["errors"] or (strict and counts["warnings"]) else 0)


def _refuse(ignore: tuple[str, ...], patience: float, *, as_json: bool, sarif_file: str | None) -> None:
    unknown = next((each for each in ignore if each not in RULES), None)
    if unknown is not None:
        hint = did_you_mean(unknown, RULES) or f". The ids are {', '.join(RULES)}"
        raise click.UsageError(f"--ignore {unknown}: there is no finding with the id {quoted(unknown)}{hint}")
    if not 0 < patience <= 3600:
        raise click.UsageError(f"--patience {patience:g}: give more than 0 seconds, and at most 3600")
    if as_json and sarif_file == "-":
        raise click.UsageError("--json and --sarif - both write here: give --sarif a file")


def _look_for(app: Path, against: Path | None, settings: Path | None) -> None:
    for option, folder in (("--app", app), ("--against", against)):
        if folder is not None and not folder.is_dir():
            raise click.UsageError(f"{option} {folder}: it is not a folder. Give one that has a function_app.py")
    if settings is not None and not settings.is_file():
        raise click.UsageError(f"--settings {settings}: there is no such file")


def _settle(report: dict[str, Any], ignore: tuple[str, ...]) -> None:
    """Leave out what is ignored; sort and count the rest."""
    kept = [each for each in report["findings"] if each["id"] not in ignore]
    kept.sort(key=lambda each: (SEVERITIES.index(each["severity"]), each["file"] or "", each["line"] or 0, each["id"]))
    counted = Counter(each["severity"] for each in kept)
    report["findings"] = kept
    report["counts"] = {f"{kind}s": counted[kind] for kind in SEVERITIES}
    report["ok"] = not counted["error"]


def _write(file: str, text: str, context: click.Context) -> None:
    if file == "-":
        _show(text, context)
        return
    try:
        Path(file).write_text(f"{text}\n", "utf-8")
    except OSError as error:
        if error.errno not in _FULL:
            context.exit(complain(f"--sarif {file}: it can't be written: {error.strerror}", USAGE))
        with contextlib.suppress(OSError):
            if Path(file).is_file():  # never a device
                Path(file).unlink()  # half a file is no JSON
        told = f"--sarif {file}: it was not written, as the disk is full ({error.strerror}). Make room, or name a file"
        context.exit(complain(f"{told} on another disk", ENVIRONMENT))


def _show(text: str, context: click.Context) -> None:
    try:
        click.echo(text)
    except OSError as error:
        if error.errno not in _FULL:
            raise
        told = f"the report is incomplete, as the disk of the output is full ({error.strerror}). Make room"
        context.exit(complain(f"{told}, and check again", ENVIRONMENT))
