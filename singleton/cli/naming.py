"""``name``: the name of a function's lock, and what a name says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from singleton.cli.lines import say
from singleton.cli.session import Session, in_a_session
from singleton.cli.words import plain, write_json
from singleton.operating.locks import parts_of
from singleton.operating.naming import dequeueable_name, may_be_dequeueable, name_in

if TYPE_CHECKING:
    from singleton.base.kinds import Level


@click.command()
@click.argument("name", required=False)
@click.option("--function", metavar="NAME", help="The function's name.")
@click.option(
    "--scope", "scopes", multiple=True, metavar="VALUE", help="A value of its scope; of two, scope_id's first."
)
@click.option("--level", type=click.Choice(["function", "host"]), default="function", help="Whose lock it is.")
@click.option("--listener", is_flag=True, help="The lock of mode='listener'.")
@click.option("--hashed", is_flag=True, help="The function has scope_hash=True.")
@click.option(
    "--layout",
    type=click.Choice(["dequeueable"]),
    help="The function has that layout; of the others the container tells.",
)
@in_a_session
def name(
    session: Session,
    name: str | None,
    function: str | None,
    scopes: tuple[str, ...],
    level: Level,
    layout: str | None,
    *,
    listener: bool,
    hashed: bool,
) -> int:
    """Make the name of a function's lock, or read a lock's NAME."""
    if (name is None) == (function is None and not scopes):
        raise click.UsageError("give the NAME of a lock to read it, or --function and --scope to make one")
    if name is not None:
        return _read(session, name)
    if layout is not None:
        if listener or hashed or level == "host":
            raise click.UsageError(f"--layout {layout} takes no --level, --listener or --hashed: the scope is the name")
        return _write(session, dequeueable_name(scopes), None)
    if level == "host" and function is not None:
        raise click.UsageError("--level host and --function are both given: functions share that lock by its scope")
    found = name_in(
        session.container, session.app_id, function or "", scopes, level, listener=listener, scope_hash=hashed
    )
    if (doubt := session.app_id_doubt) is not None:
        say(doubt, err=True)
    return _write(session, found, session.app_id)


def _write(session: Session, name: str, app: str | None) -> int:
    if session.as_json:
        write_json({"name": name, "container": session.container, "host_id": app})
    else:
        click.echo(name)
    return 0


def _read(session: Session, name: str) -> int:
    parts = parts_of(name, session.container)
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
        }
        write_json({"name": name, "read": read, "may_be_dequeueable": plainly})
    elif plainly:
        say(
            f"{plain(name)}: a name that somebody chose, or the scope of a function with layout='dequeueable': that "
            "layout's names have nothing else in them, so nobody can tell"
        )
    elif parts is None:
        say(f"{plain(name)}: no layout makes this name; somebody chose it")
    else:
        facts = {
            "app": plain(parts.app),
            "function": plain(parts.function or ""),
            "scope": ", ".join(plain(value) for value in parts.scopes) + ("…" if parts.cut else ""),
            "level": parts.level or "",
            "mode": "listener" if parts.listener else "",
            "slot": "" if parts.slot is None else str(parts.slot),
        }
        for key, value in facts.items():
            if value:
                say(value, first=f"{key:<9} ", indent=10)
    return 1 if parts is None else 0
