"""``list``, ``show``, ``watch``: who has which lock; ``ahead``: tokens of two names; ``state``: what a lock keeps."""

from __future__ import annotations

import base64
import itertools
import json
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from singleton.base.errors import LockNotAcquired, StorageDenied, StorageError, StorageUnavailable
from singleton.base.state import MOST_STATE, NOT_UNDERSTOOD, STATE_KEY, Kept, read_as
from singleton.cli.output import (
    Progress,
    Table,
    as_dict,
    block,
    counted,
    holder_dict,
    iso,
    moment,
    plain,
    say,
    span,
    span_of,
    terminal_width,
    who,
    who_within,
    write_json,
)
from singleton.cli.session import Session, in_a_session, no_such_lock, no_such_prefix, tell_of_slots
from singleton.cli.silence import READING, Outage
from singleton.locking.acquisition import storage_error
from singleton.locking.holder import answered, recorded
from singleton.locking.seat import seat_name
from singleton.operating.container import find, next_page
from singleton.operating.lock_names import is_slot, nothing_listed
from singleton.operating.locks import Met, Waiting, Wanted, Watch, lock_info, lock_of_seat, seat_of, waiting_in
from singleton.operating.name_parts import key_behind
from singleton.stores.protocol import ContentStore, StoreFailure
from singleton.stores.stamps import is_ahead, metadata_value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from singleton.base.hold import Hold
    from singleton.operating.locks import LockInfo, Sight
    from singleton.stores.lock_keeping import Listed, Page

_INDENT: Final = 4
_FIRST: Final = 200
"""Lines by which the width of the columns is found."""
_WORDS: Final = {
    "holds": "has it",
    "got": "got it",
    "passed": "had it",
    "breaking": "loses it: its lease was broken",
    "free": "is free",
}


@click.command("list")
@click.option("--function", metavar="NAME", help="Only locks of this function.")
@click.option("--held", is_flag=True, help="Only locks that somebody has.")
@click.option(
    "--older-than",
    type=span_of(),
    metavar="SPAN",
    help="Only locks that are held for longer, or free and not written for longer: 10m, 2h, 7d.",
)
@click.option(
    "--prefix", default="", metavar="TEXT", help="Only names that begin with this text. Fast: the service selects them."
)
@in_a_session
def list_(session: Session, function: str | None, older_than: float | None, prefix: str, *, held: bool) -> int:
    """List the locks, and who has them."""
    wanted = Wanted(function=function, held=held, older_than=older_than, seats=True)
    met = Met()
    progress = Progress("blobs read")
    seen = shown = having = waits = 0
    table: Table | None = None
    waiting: list[tuple[LockInfo, float]] = []
    try:
        for page in _pages(session, prefix):
            for lock in wanted.among(page, session.container, met):
                shown, having, waits = shown + 1, having + lock.held, waits + isinstance(lock, Waiting)
                progress.end()  # clear the progress: the lock's line stands there
                if session.as_json:
                    click.echo("," if shown > 1 else "[")
                    write_json(as_dict(lock), end="")
                elif table is None:
                    waiting.append((lock, page.at))
                    if len(waiting) == _FIRST:
                        table = Table(waiting)
                else:
                    table.write(lock, page.at)
            seen += len(page.entries)
            progress.show(seen)
    finally:
        progress.end()
        if session.as_json and shown:
            click.echo("\n]")
    if (mistake := _mistake(session, met, function, prefix)) is not None:
        raise click.UsageError(mistake)
    if met.ageless:
        say(f"{counted(met.ageless, 'held lock')} left out: their holders don't record since when", err=True)
    if met.unsure:
        unsure = f"{counted(met.unsure, 'held lock')} left out: their function is not certain yet"
        say(f"{unsure}. Without --function all are shown", err=True)
    if session.as_json:
        if not shown:
            write_json([])
        return 0
    if table is None and waiting:
        Table(waiting)
    having_it = f"{having:,} held" + (f", {waits:,} waited for" if waits else "")
    total = f"{counted(shown - waits, 'lock')}, {having_it}; {counted(seen, 'blob')} read in {progress.seconds:.1f} s"
    say(total, err=True)
    return 0


def _mistake(session: Session, met: Met, function: str | None, prefix: str) -> str | None:
    return session.ask(lambda store: nothing_listed(store, session.container, met, function, prefix, answer=READING))


def _pages(session: Session, prefix: str) -> Iterator[Page]:
    marker: str | None = None
    while True:
        behind = marker
        page = session.ask(
            lambda store: next_page(store, session.container, prefix, behind, answer=READING)  # noqa: B023 - used at once
        )
        yield page
        marker = page.marker
        if marker is None:
            return


@click.command()
@click.argument("old")
@click.argument("new")
@click.option("--old-container", metavar="NAME", help="The container of OLD. Default: that of NEW.")
@click.option("--hashed/--plain", default=None, help="NEW has scope_hash=True and OLD has not, or the other way round.")
@in_a_session
def ahead(session: Session, old: str, new: str, old_container: str | None, *, hashed: bool | None) -> int:
    """List the keys whose tokens are ahead under the name OLD.

    Look before also= goes: a key that is listed would get smaller tokens then, and the exit code is 1. OLD and NEW are
    names without the scope: locks/myapp/send and locks/myapp/ship. For all locks of an app: locks/shop.
    """
    there = session.in_container(old_container or session.container)
    old, new = old.rstrip("./"), new.rstrip("./")
    if (old, there.container, hashed) == (new, session.container, None):
        raise click.UsageError("OLD and NEW are the same: say what differs, by --hashed, --plain or --old-container")
    before, after = _keys(there, old, hashed=hashed is True), _keys(session, new, hashed=hashed is False)
    some = before and after
    before.pop(None, None)
    both = [(blob, after[key]) for key, blob in before.items() if key in after]
    found = [(recorded(was.name, was), recorded(now.name, now)) for was, now in both if is_ahead(was, now)]
    alone = (lock_info(blob, there.container) for key, blob in before.items() if key not in after)
    cut = sum(lock is not None and lock.cut for lock in alone)
    if some and not both and not cut:
        raise click.UsageError(
            "nothing was compared: no key has a lock with both names. Give both without the scope, as in "
            "locks/myapp/send, and --hashed or --plain where scope_hash differs. If they are right, no invocation with "
            "also= has run yet"
        )
    if session.as_json:
        keys = [{"old": was.lock, "token": was.token, "new": now.lock, "new_token": now.token} for was, now in found]
        write_json({"ahead": keys, "compared": len(both), "cut": cut})
    else:
        for was, now in found:
            say(f"{plain(was.lock)}: token {was.token}, ahead of {now.token} of {plain(now.lock)}")
    say(f"{counted(len(both), 'key')} with both names, {len(found):,} ahead", err=True)
    if cut:
        say(f"{counted(cut, 'lock')} not compared: a name that was too long has another end under NEW", err=True)
    return 1 if found or cut else 0


def _keys(session: Session, beginning: str, *, hashed: bool) -> dict[str | None, Listed]:
    """Return the locks whose names begin so, by what follows; under None one of those with no key of this lock."""
    pages = _pages(session, beginning)
    blobs = [blob for page in pages for blob in page.entries if seat_of(blob, session.container) is None]
    if not blobs and (wrong := no_such_prefix(session, beginning)) is not None:
        raise click.UsageError(wrong)
    return {key_behind(beginning, blob.name, hashed=hashed): blob for blob in blobs}


@click.command()
@click.argument("name")
@in_a_session
def show(session: Session, name: str) -> int:
    """Show all that is known of the lock NAME."""
    lock, at = lock_named(session, name)
    tell_of_slots(session, name)
    seat, _ = session.ask(lambda store: find(store, session.container, seat_name(name), answer=READING))
    waiting = None if seat is None else waiting_in(seat, session.container)
    if session.as_json:
        write_json({**as_dict(lock), "waiter": waiting and waiting.holder and holder_dict(waiting.holder)})
    else:
        block(lock, waiting, at, session.place.break_command)
    return 0


def lock_named(session: Session, name: str, *, endless: bool = False) -> tuple[LockInfo, float]:
    """Return the lock and the service's clock. ``UsageError``: no lock has the name; similar names are suggested.

    ``endless``: or the seat of a lock, if its lease has no end.
    """
    if (seated := lock_of_seat(name, session.container)) is not None:
        seat, at = session.ask(lambda store: find(store, session.container, name, answer=READING))
        if endless and seat is not None and seat.endless and (info := waiting_in(seat, session.container)) is not None:
            return info, at
        raise click.UsageError(
            f"{name!r} is the seat of lock {seated!r}, and no lock: the invocation that waits for the lock has the "
            f"seat. Name the lock; show {plain(seated)} says who waits"
        )
    blob, at = session.ask(lambda store: find(store, session.container, name, answer=READING))
    lock = None if blob is None else lock_info(blob, session.container)
    if lock is not None:
        return lock, at
    if blob is not None:
        raise click.UsageError(f"blob {name!r} exists, but it is not a lock: nothing on it says so")
    raise click.UsageError(no_such_lock(session, name))


@click.command()
@click.argument("name", required=False)
@click.option("--function", metavar="NAME", help="Only locks of this function.")
@click.option("--prefix", default="", metavar="TEXT", help="Only names that begin with this text.")
@click.option("--every", type=span_of(0.1), default="2s", metavar="SPAN", help="How often to look.")
@click.option("--for", "length", type=span_of(), metavar="SPAN", help="How long to watch. Default: until Ctrl-C.")
@in_a_session
def watch(
    session: Session, name: str | None, function: str | None, prefix: str, every: float, length: float | None
) -> int:
    """Show live who gets which lock: the lock NAME, or all.

    It looks every few seconds. A lock that changed hands between two looks is shown with its last holder. A lock that
    does not exist yet is shown as soon as it does.
    """
    watching = _Watching(session, name, function, prefix)
    ends = None if length is None else time.monotonic() + length
    say(f"watching {plain(name or session.container)}, every {span(every)}; Ctrl-C ends it", err=True)
    outage = Outage(session.answers)
    answered = False
    while True:
        began = time.monotonic()
        try:
            watching.look()
        except StorageDenied as error:
            if not answered:
                raise
            outage.goes_on(error)
        except StorageUnavailable as error:
            outage.goes_on(error)
        else:
            answered = True
            outage.is_over()
        pause = max(0.0, every - (time.monotonic() - began))
        if ends is not None and time.monotonic() + pause >= ends:
            return 0
        time.sleep(pause)


class _Watching:
    def __init__(self, session: Session, name: str | None, function: str | None, prefix: str) -> None:
        self._session = session
        self._name = name
        self._wanted = Wanted(function=function)
        self._prefix = prefix
        self._seen = Watch()
        self._first = True

    def look(self) -> None:
        met = Met()
        found = 0
        pages = _pages(self._session, self._name or self._prefix)
        first = next(pages)

        def locks() -> Iterator[LockInfo]:
            nonlocal found
            for page in itertools.chain([first], pages):
                for lock in self._wanted.among(page, self._session.container, met):
                    if self._name in (None, lock.name) or is_slot(lock, self._name or ""):
                        found += 1
                        yield lock

        for sight in self._seen.look(locks(), first.at):
            _tell(self._session, sight, first.at)
        if self._first and not found:
            self._tell_of_nothing(met, first.at)
        self._first = False

    def _tell_of_nothing(self, met: Met, at: float) -> None:
        if self._name is not None and not self._wanted.function:
            said: str | None = no_such_lock(self._session, self._name)
        else:
            said = _mistake(self._session, met, self._wanted.function, self._name or self._prefix)
        if said is None:
            return
        say(f"{said}{'' if said.endswith('?') else '.'} Waiting for it", err=True)
        if self._session.as_json:
            write_json({"seen": "missing", "at": iso(at), "lock": None, "said": said}, streamed=True)


def _tell(session: Session, sight: Sight, at: float) -> None:
    lock = sight.lock
    if session.as_json:
        write_json({"seen": sight.what, "at": iso(at), "lock": as_dict(lock)}, streamed=True)
        return
    since, lasted = lock.last.since, ""
    if since and sight.what in ("holds", "free"):
        lasted = f" ({'was held ' if sight.what == 'free' else ''}for {span(at - since.timestamp())})"
    when = moment(datetime.fromtimestamp(at, UTC))
    before, after = f"{when}  {plain(lock.name)}", f" {_WORDS[sight.what]}{lasted}"
    if sight.what == "free":
        say(before + after)
        return
    line = f"{before}: {who(lock.last)}{after}"
    width = terminal_width()
    if width is None or len(line) <= width:
        click.echo(line)
        return
    say(f"{before}:")
    say(who_within(lock.last, width - _INDENT) + after, first=" " * _INDENT)


_CALL: Final = 20.0
"""Seconds for a request: an answer may have some MB."""
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
    kept = session.ask(lambda store: _read(store, name))
    value = read_as(name, kept, _NOTHING)
    if session.as_json:
        write_json(_as_dict(name, kept, value))
    elif value is _NOTHING:
        say(f"nothing is kept with lock {name}")
    elif isinstance(value, bytes):
        say(f"{counted(len(value), 'byte')}. To see them as base64, use --json")
    else:
        text = json.dumps(value, indent=2, ensure_ascii=False)
        click.echo("".join(char if char.isprintable() or char == "\n" else json.dumps(char)[1:-1] for char in text))
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


async def _read(store: ContentStore, name: str) -> Kept:
    try:
        blob, body, _ = await answered(lambda: store.get(name, None, MOST_STATE), call=_CALL, answer=2 * _CALL)
    except StoreFailure as failure:
        raise storage_error(name, failure) from None
    kind = metadata_value(blob, STATE_KEY)
    return Kept(body, {} if kind is None else {STATE_KEY: kind})
