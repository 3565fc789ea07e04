"""``state``: what is kept with a lock, shown or removed."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, Final

import click

from singleton.base.errors import LockNotAcquired, StorageError
from singleton.base.state import MOST_STATE, NOT_UNDERSTOOD, STATE_KEY, Kept, read_as
from singleton.cli.output import counted, holder_dict, say, span_of, write_json
from singleton.cli.session import Session, in_a_session
from singleton.cli.view_commands import lock_named
from singleton.locking.acquisition import storage_error
from singleton.locking.holder import answered
from singleton.stores.protocol import ContentStore, StoreFailure
from singleton.stores.stamps import metadata_value

if TYPE_CHECKING:
    from singleton.base.hold import Hold
    from singleton.stores.protocol import LeaseStore

_CALL: Final = 20.0
"""Seconds for a request: there may be some MB to read."""
_OWNER: Final = "operator: removes the state"
_NOTHING: Final = object()


@click.command()
@click.argument("name")
@click.option("--remove", is_flag=True, help="Remove the state. The command takes the lock for this.")
@click.option(
    "--timeout", type=span_of(), default="0s", metavar="SPAN", help="How long to wait for the lock. Default: 0s."
)
@in_a_session
def state(session: Session, name: str, timeout: float, *, remove: bool) -> int:
    """Show the state that is kept with the lock NAME, or remove it.

    It is shown as it is now, also while somebody has the lock. Removing it takes the lock, so that no holder uses it
    meanwhile; the next holder finds none.
    """
    lock_named(session, name)
    if remove:
        return _remove(session, name, timeout)
    kept = session.on_store(lambda store: _read(store, name))
    value = read_as(name, kept, _NOTHING)
    if session.as_json:
        write_json(_as_dict(name, kept, value))
    elif value is _NOTHING:
        say(f"nothing is kept with lock {name}")
    elif isinstance(value, bytes):
        say(f"{counted(len(value), 'byte')}. To see them as base64, use --json")
    else:
        say(json.dumps(value, indent=2, ensure_ascii=False))
    return 0


def _remove(session: Session, name: str, timeout: float) -> int:
    try:
        hold = session.acquire(name, timeout=timeout, owner=_OWNER)
    except LockNotAcquired as error:
        if session.as_json:
            write_json({"lock": name, "removed": False, "holder": error.holder and holder_dict(error.holder)})
        else:
            say(f"nothing was removed: {error}", err=True)
        return 1
    try:
        there = _is_there(hold)
        if there:
            hold.state.remove()
    finally:
        session.release(hold)
    if session.as_json:
        write_json({"lock": name, "removed": there})
    else:
        say(f"removed what was kept with lock {name}" if there else f"nothing is kept with lock {name}")
    return 0


def _is_there(hold: Hold) -> bool:
    """Tell whether something is kept, also what nobody understands."""
    try:
        return hold.state.read(_NOTHING) is not _NOTHING
    except StorageError as error:
        if error.reason != NOT_UNDERSTOOD:
            raise
        return True


def _as_dict(name: str, kept: Kept, value: Any) -> dict[str, Any]:
    if value is _NOTHING:
        return {"lock": name, "kind": None}
    if isinstance(value, bytes):
        return {"lock": name, "kind": "bytes", "size": len(value), "base64": base64.b64encode(value).decode()}
    return {"lock": name, "kind": "json", "size": len(kept.body), "value": value}


async def _read(store: LeaseStore, name: str) -> Kept:
    assert isinstance(store, ContentStore)
    try:
        blob, body, _ = await answered(lambda: store.get(name, None, MOST_STATE), call=_CALL, answer=2 * _CALL)
    except StoreFailure as failure:
        raise storage_error(name, failure) from None
    kind = metadata_value(blob, STATE_KEY)
    return Kept(body, {} if kind is None else {STATE_KEY: kind})
