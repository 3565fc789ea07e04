"""``lift-epochs``: after the storage went back in time, tokens go on above all that were ever given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from singleton.cli.going import go_through
from singleton.cli.mistyped import no_such_function
from singleton.cli.session import Session, in_a_session
from singleton.operating.lifting import Lift

if TYPE_CHECKING:
    from singleton.stores.protocol import LeaseStore

_OTHERS: Final = {
    "held": "somebody has the lock: run this again when it is free",
    "gone": "deleted by somebody else",
    "kept": "no lock with tokens; or a lock of your own name that lost its epoch",
}
_NOT_ASKED_FOR: Final = "not a lock of that function with tokens"


@click.command("lift-epochs")
@click.option("--function", metavar="NAME", help="Only locks of this function.")
@click.option("--dry-run", is_flag=True, help="Write nothing; say what would be.")
@in_a_session
def lift_epochs(session: Session, function: str | None, *, dry_run: bool) -> int:
    """Let all tokens go on above those that were ever given.

    For a storage account that went back in time, by a failover or a restore: what stands on the locks may be older than
    what was given out, and tokens would repeat. Stop the app before. A lock that somebody has stays as it is; the exit
    code is 1 then, and the command is to be run again.
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
