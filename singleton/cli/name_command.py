"""``name``: make the name of a function's lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from singleton.cli.output import say, write_json
from singleton.cli.session import Session, in_a_session
from singleton.locking.semaphore import slot_name
from singleton.operating.lock_names import name_in

if TYPE_CHECKING:
    from singleton.base.kinds import Level


@click.command()
@click.option("--function", metavar="NAME", help="The function's name; with name= in its declaration, that name.")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    metavar="VALUE",
    help="A value of its scope. If there are two, that of scope_id first.",
)
@click.option("--level", type=click.Choice(["function", "host"]), default="function", help="The function's level.")
@click.option("--listener", is_flag=True, help="The lock of mode='listener'.")
@click.option("--hashed", is_flag=True, help="The function has scope_hash=True.")
@click.option("--limit", type=click.IntRange(1, 1000), help="The function has this limit: name the blobs of its slots.")
@in_a_session
def name(
    session: Session,
    function: str | None,
    scopes: tuple[str, ...],
    level: Level,
    limit: int | None,
    *,
    listener: bool,
    hashed: bool,
) -> int:
    """Make the name of a function's lock."""
    if function is None and not scopes:
        raise click.UsageError("give the --function, and the values of its --scope")
    if level == "host" and function is not None:
        raise click.UsageError(
            "--level host and --function are both given: a lock with level host has no function. Leave one out"
        )
    found = name_in(
        *(session.container, session.app_id, function or "", scopes, level),
        listener=listener,
        scope_hash=hashed,
        limit=limit,
    )
    if (doubt := session.app_id_doubt) is not None:
        say(doubt, err=True)
    slots = [slot_name(found, number) for number in range(limit or 0)]
    if session.as_json:
        told = {"name": found, "container": session.container, "host_id": session.app_id}
        write_json({**told, "slots": slots} if slots else told)
    else:
        for each in slots or [found]:
            click.echo(each)
    return 0
