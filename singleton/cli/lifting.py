"""``lift-epochs``: after the storage went back in time, make later tokens greater than all earlier ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from singleton.cli.going import go_through
from singleton.cli.mistyped import no_such_function
from singleton.cli.session import Session, in_a_session
from singleton.operating.epoch_lift import Lift

if TYPE_CHECKING:
    from singleton.stores.protocol import LeaseStore

_OTHERS: Final = {
    "held": "somebody has the lock: run this again when it is free",
    "gone": "deleted by somebody else",
    "kept": "not a lock with tokens, or a lock with a name of your own that lost its epoch",
}
_NOT_ASKED_FOR: Final = "not a lock of that function with tokens"


@click.command("lift-epochs")
@click.option("--function", metavar="NAME", help="Only locks of this function.")
@click.option("--dry-run", is_flag=True, help="Write nothing; show what would be written.")
@in_a_session
def lift_epochs(session: Session, function: str | None, *, dry_run: bool) -> int:
    """Make all later tokens greater than any that was ever given.

    For a storage account that went back in time, by a failover or a restore: its locks may have older numbers than were
    given out, and tokens would repeat. Stop the app first. A lock that somebody has stays as it is; then the exit code
    is 1, and you run the command again.
    """

    def begin(store: LeaseStore) -> Lift:
        return Lift(store, session.container, function=function, dry_run=dry_run)

    def mistake(lift: Lift) -> str | None:
        if function is None or function in lift.functions or not lift.functions:
            return None
        return no_such_function(session, function, lift.functions)

    others = _OTHERS if function is None else {**_OTHERS, "kept": _NOT_ASKED_FOR}
    result = go_through(session, begin, "lifted", others, dry_run=dry_run, mistake=mistake)
    return 1 if result.held else 0
