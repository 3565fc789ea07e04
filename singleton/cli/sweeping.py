"""``sweep``: lock blobs that nobody uses are deleted, while others lock."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from singleton.cli.session import Session, in_a_session
from singleton.cli.words import Progress, span_of, write_json
from singleton.operating.sweeping import YOUNGEST, Sweep

if TYPE_CHECKING:
    from singleton.operating.sweeping import Swept
    from singleton.stores.keeping import LockKeeping


@click.command()
@click.option(
    "--older-than",
    type=span_of(YOUNGEST),
    required=True,
    metavar="SPAN",
    help="Modified so long ago: 7d, 12h, 30m.",
)
@click.option("--prefix", default="", metavar="TEXT", help="Only names that begin so.")
@click.option("--dry-run", is_flag=True, help="Delete nothing; say what would be.")
@in_a_session
def sweep(session: Session, older_than: float, prefix: str, *, dry_run: bool) -> int:
    """Delete the blobs of locks that were not written for so long.

    Only those that are empty, without state, and ours; each by a request that the service refuses while anybody has the
    lease or has written since. Last-Modified is no sign of use: leases don't change it. A lock that is in daily use may
    be swept; its next user makes it again, and notices nothing.
    """
    progress = Progress("blobs seen")
    running: list[Sweep] = []

    async def next_page(keeping: LockKeeping) -> bool:
        if not running:
            running.append(Sweep(keeping, session.container, older_than=older_than, prefix=prefix, dry_run=dry_run))
        return await running[0].go_on()

    try:
        while session.ask(next_page):
            progress.show(running[0].result.seen, f", {running[0].result.swept:,} deleted")
    finally:
        progress.end()
        if running:
            _tell(session, running[0].result, progress.seconds, dry_run=dry_run)
    return 0


def _tell(session: Session, result: Swept, seconds: float, *, dry_run: bool) -> None:
    if session.as_json:
        write_json({**asdict(result), "seen": result.seen, "seconds": round(seconds, 3), "dry_run": dry_run})
        return
    rate = f"{result.seen / max(seconds, 1e-9):,.0f} a second"
    done = "would be deleted" if dry_run else "deleted"
    click.echo(f"{result.swept:,} of {result.seen:,} blobs {done}, in {seconds:.1f} s ({rate})")
    left = {
        "somebody has the lease": result.in_use,
        "written since they were listed": result.changed,
        "deleted by somebody else": result.gone,
        "modified too short a time ago": result.young,
        "not empty, with state, or not ours": result.kept,
    }
    for why, many in left.items():
        if many:
            click.echo(f"  {many:>9,}  {why}")
