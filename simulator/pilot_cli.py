"""``singleton-sim pilot``: a user's own storage account, tried in a container of its own."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Final

import click

from simulator.pilot.container import Anonymous, delete_container, leftovers
from simulator.pilot.course import ContainerLeftError, Pilot, new_name
from simulator.pilot.pilot_plan import PilotPlan
from simulator.program import ENVIRONMENT, complain
from simulator.real.settle import Interrupt, Signals
from simulator.real.storage import GivenStorage
from simulator.report.files import OutFile, OutFileError, out_file, report_option
from simulator.report.words import MARKS, PlainReporter
from simulator.work.scenario import ScenarioError, in_seconds
from singleton.base.errors import ConfigurationError
from singleton.locking.acquisition import storage_error
from singleton.settings.connection import DEFAULT_CONNECTION, configured, resolve_blob_account
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simulator.pilot.pilot_report import PilotResult
    from singleton.settings.connection import StorageAccount

FAILED: Final = 1
UNKNOWN: Final = 4
_CODES: Final = {"holds": 0, "failed": FAILED, "unknown": UNKNOWN}


@click.command(
    context_settings={"show_default": True, "max_content_width": 100},
    epilog="Exit codes: 0 all was as assumed, 1 something was not, 2 a wrong option or connection, 3 the storage "
    "refuses or does not answer, 4 nothing was wrong, but something is unknown, or you did not say yes; 128 + n ended "
    "by signal n.",
)
@click.option("--connection", required=True, metavar="NAME", help="The app setting of the storage account.")
@click.option("--for", "seconds", default="20m", metavar="TIME", help="How long, from 10s to 4h.")
@click.option("--yes", is_flag=True, show_default=False, help="Do not ask before anything is made.")
@click.option("--json", "as_json", callback=out_file, metavar="FILE", help="Write the result as JSON.")
@report_option("Write the result as one HTML file.")
@click.pass_context
def pilot(
    context: click.Context, connection: str, seconds: str, as_json: OutFile | None, report: OutFile | None, *, yes: bool
) -> None:
    """Try a storage account of yours: does it do what locks rely on?

    The pilot makes a container of its own there, tries each assumption about the service in it, runs hosts that are
    killed and paused, and deletes it. First it says what it makes and about what it costs, and asks.
    """
    if not __debug__:
        raise click.UsageError("python -O leaves assertions out, which the pilot needs: run it without -O")
    try:
        account = resolve_blob_account(connection, os.environ)
        storage = given_storage(connection, account, os.environ)
        plan = PilotPlan(seconds=in_seconds(seconds))
    except (ConfigurationError, ScenarioError) as error:
        raise click.UsageError(str(error)) from None
    except ValueError as error:
        raise click.UsageError(f"--for: {error}") from None
    container = new_name()
    for line in (f"Account: {account.endpoint}", *plan.words(container)):
        click.echo(line)
    try:
        offer_leftovers(account, ask=not yes)
        if not yes and not answered("Go on?"):
            context.exit(complain("nothing was made, as you did not say yes", UNKNOWN))
        reporter = PlainReporter(sys.stdout)
        with Signals() as signals:
            try:
                pilot = Pilot(
                    account=account,
                    storage=storage,
                    plan=plan,
                    reporter=reporter,
                    signals=signals,
                    container=container,
                )
                result = pilot.run()
            except Interrupt:
                context.exit(complain("interrupted; the container is deleted", signals.exit_code))
    except StoreFailure as failure:
        context.exit(complain(str(storage_error(container, failure, what="container")), ENVIRONMENT))
    except ConfigurationError as error:  # of what is read at the first request only, as an identity
        raise click.UsageError(str(error)) from None
    except ContainerLeftError as error:
        context.exit(complain(str(error), ENVIRONMENT))
    context.exit(_tell(result, Anonymous(account), as_json, report))


def given_storage(connection: str, account: StorageAccount, settings: Mapping[str, str]) -> GivenStorage:
    """Return the account for the hosts of the storm, with the settings of the connection."""
    if account.connection_string is not None:
        return GivenStorage({"": account.connection_string}, account.endpoint)
    keys = configured(connection.strip() or DEFAULT_CONNECTION, settings).keys
    return GivenStorage({f"__{key}": text for key, text in keys.items()}, account.endpoint)


def answered(question: str) -> bool:
    """Ask; the end of the input is a no. ``UsageError``: nobody can answer."""
    if not sys.stdin.isatty():
        raise click.UsageError("there is no terminal to ask on: read the lines above, and add --yes")
    try:
        return click.confirm(question)
    except click.Abort as error:
        if not isinstance(error.__context__, EOFError):
            raise
        click.echo()
        return False


def offer_leftovers(account: StorageAccount, *, ask: bool) -> None:
    """Offer to delete the containers of pilots that were killed. Without a question they stay."""
    try:
        left = asyncio.run(leftovers(account))
    except StoreFailure as failure:
        if failure.meaning != "denied":
            raise
        click.echo("This connection may not list containers, so leftovers of earlier pilots can't be found.")
        return
    for name in left:
        said = f"The container {name} was left by a pilot that was killed."
        if not ask:
            click.echo(f"{said} Without --yes, its deletion is offered.")
        elif answered(f"{said} Delete it?"):
            asyncio.run(delete_container(account, name))


def _tell(result: PilotResult, anonymous: Anonymous, as_json: OutFile | None, report: OutFile | None) -> int:
    for line in result.lines():
        click.echo(f"{MARKS[line.mark]}{line.text}")
    for row in result.table():
        click.echo(f"{MARKS['note']}{row}")
    click.echo(f"{MARKS[result.headline().mark]}{result.headline().text}")
    try:
        for file, text in ((as_json, result.as_json), (report, result.as_html)):
            if file is not None:
                file.write(text(anonymous))
                click.echo(f"Written without the account's name: {file.given}")
    except OutFileError as error:
        return complain(str(error), ENVIRONMENT)
    if result.left_behind:
        return complain(result.left_behind, ENVIRONMENT)
    return _CODES[result.outcome]
