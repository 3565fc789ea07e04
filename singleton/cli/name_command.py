"""``name``: make the name of a function's lock, or read one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from singleton.cli.output import plain, say, write_json
from singleton.cli.session import Session, in_a_session
from singleton.locking.semaphore import slot_name
from singleton.operating.lock_names import dequeueable_name, may_be_dequeueable, name_in
from singleton.operating.locks import lock_of_seat, parts_of

if TYPE_CHECKING:
    from singleton.base.kinds import Level


@click.command()
@click.argument("name", required=False)
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
@click.option(
    "--layout",
    type=click.Choice(["dequeueable"]),
    help="The function has this layout. The others are known by the container.",
)
@in_a_session
def name(
    session: Session,
    name: str | None,
    function: str | None,
    scopes: tuple[str, ...],
    level: Level,
    layout: str | None,
    limit: int | None,
    *,
    listener: bool,
    hashed: bool,
) -> int:
    """Make the name of a function's lock, or read a lock's NAME."""
    if (name is None) == (function is None and not scopes):
        raise click.UsageError("give either the NAME of a lock to read, or --function and --scope to make a name")
    if name is not None:
        return _read(session, name)
    if layout is not None:
        if listener or hashed or level == "host" or limit is not None:
            raise click.UsageError(
                f"--layout {layout} can't be used with --level, --listener, --hashed or --limit: there the scope is "
                "the name"
            )
        return _write(session, dequeueable_name(scopes), None)
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
    return _write(session, found, session.app_id, limit)


def _write(session: Session, name: str, app: str | None, limit: int | None = None) -> int:
    slots = [slot_name(name, number) for number in range(limit or 0)]
    if session.as_json:
        told = {"name": name, "container": session.container, "host_id": app}
        write_json({**told, "slots": slots} if slots else told)
    else:
        for each in slots or [name]:
            click.echo(each)
    return 0


def _read(session: Session, name: str) -> int:
    seated = lock_of_seat(name, session.container)
    parts = parts_of(seated or name, session.container)
    plainly = parts is None and may_be_dequeueable(name)
    if session.as_json:
        read = parts and {
            "app": parts.app,
            "function": parts.function,
            "scope": list(parts.scopes),
            "level": parts.level,
            "listener": parts.listener,
            "slot": parts.slot,
            "cut": parts.cut,
            "seat": seated is not None,
        }
        write_json({"name": name, "read": read, "may_be_dequeueable": plainly})
    elif plainly:
        say(
            f"{plain(name)}: a name that somebody chose, or the scope of a function with layout='dequeueable', where "
            "the scope is the whole name"
        )
    elif parts is None:
        say(f"{plain(name)}: no function's lock has such a name: somebody chose it")
    else:
        facts = {
            "app": plain(parts.app),
            "function": plain(parts.function or ""),
            "scope": ", ".join(plain(value) for value in parts.scopes) + ("…" if parts.cut else ""),
            "level": parts.level or "",
            "mode": "listener" if parts.listener else "",
            "slot": "" if parts.slot is None else str(parts.slot),
            "seat": "" if seated is None else f"of {plain(seated)}",
        }
        for key, value in facts.items():
            if value:
                say(value, first=f"{key:<9} ", indent=10)
    return 1 if parts is None else 0
