"""``sweep``: delete lock blobs that nobody uses, while the app runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from singleton.cli.going import go_through
from singleton.cli.session import Session, in_a_session
from singleton.cli.words import span_of
from singleton.operating.container import keeping_of
from singleton.operating.sweep import YOUNGEST, Sweep

if TYPE_CHECKING:
    from singleton.stores.protocol import LeaseStore

_OTHERS: Final = {
    "in_use": "somebody has the lease",
    "changed": "written since they were listed",
    "gone": "deleted by somebody else",
    "young": "modified too recently",
    "kept": "not empty, with state, or not a lock of this library",
}


@click.command()
@click.option(
    "--older-than",
    type=span_of(YOUNGEST),
    required=True,
    metavar="SPAN",
    help="Only blobs that were modified longer ago: 7d, 12h, 30m.",
)
@click.option("--prefix", default="", metavar="TEXT", help="Only names that begin with this text.")
@click.option("--dry-run", is_flag=True, help="Delete nothing; show what would be deleted.")
@click.option("--fast", is_flag=True, help="Without pauses: for a time at which nobody uses locks.")
@in_a_session
def sweep(session: Session, older_than: float, prefix: str, *, dry_run: bool, fast: bool) -> int:
    """Delete the blobs of locks that were not written for a time.

    Only blobs of this library that are empty, or whose state has expired. The service refuses each request while
    somebody has the lease, or if the blob was written meanwhile. Last-Modified is no sign of use: leases don't change
    it. So a lock in daily use may be deleted; its next user makes it again, and notices nothing.
    """

    def begin(store: LeaseStore) -> Sweep:
        keeping = keeping_of(store)
        return Sweep(keeping, session.container, older_than=older_than, prefix=prefix, dry_run=dry_run, fast=fast)

    go_through(session, begin, "deleted", _OTHERS, dry_run=dry_run, prefix=prefix)
    return 0
