"""``list``, ``show`` and ``watch``: who has which lock."""

from __future__ import annotations

import itertools
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import click

from singleton.base.errors import StorageDenied, StorageUnavailable
from singleton.base.words import did_you_mean, listed
from singleton.cli.session import Session, in_a_session
from singleton.cli.table import Table, terminal_width, who_within
from singleton.cli.trouble import READING, Outage
from singleton.cli.words import (
    Progress,
    as_dict,
    block,
    counted,
    moment,
    plain,
    span,
    span_of,
    who,
    write_json,
)
from singleton.operating.listing import Wanted, find, names_like, next_page
from singleton.operating.locks import lock_info
from singleton.operating.watching import Watch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from singleton.operating.locks import LockInfo
    from singleton.operating.watching import Sight
    from singleton.stores.keeping import Page

_FIRST: Final = 200
"""Lines by which the width of the columns is found."""
_WORDS: Final = {"holds": "has it", "got": "got it", "passed": "had it", "free": "is free"}


@click.command("list")
@click.option("--function", metavar="NAME", help="Only locks of this function.")
@click.option("--held", is_flag=True, help="Only locks that somebody has.")
@click.option("--older-than", type=span_of(), metavar="SPAN", help="Only those stamped so long ago: 10m, 2h, 7d.")
@click.option("--prefix", default="", metavar="TEXT", help="Only names that begin so; the service looks for them.")
@in_a_session
def list_(session: Session, function: str | None, older_than: float | None, prefix: str, *, held: bool) -> int:
    """List the locks, and who has them."""
    wanted = Wanted(function=function, held=held, older_than=older_than)
    functions: set[str] = set()
    progress = Progress("blobs read")
    seen = shown = having = 0
    table: Table | None = None
    waiting: list[tuple[LockInfo, float]] = []
    try:
        for page in _pages(session, prefix):
            for lock in wanted.among(page, session.container, functions):
                shown, having = shown + 1, having + lock.held
                progress.end()  # where it would stand in the line
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
    if function is not None and function not in functions:
        hint = did_you_mean(function, functions)
        raise click.UsageError(f"there is no lock of function {function!r} in container {session.container!r}{hint}")
    if session.as_json:
        if not shown:
            write_json([])
        return 0
    if table is None and waiting:
        Table(waiting)
    total = f"{counted(shown, 'lock')}, {having:,} held; {counted(seen, 'blob')} read in {progress.seconds:.1f} s"
    click.echo(total, err=True)
    return 0


def _pages(session: Session, prefix: str) -> Iterator[Page]:
    marker: str | None = None
    while True:
        behind = marker
        page = session.ask(
            lambda keeping: next_page(keeping, session.container, prefix, behind, answer=READING)  # noqa: B023 - used at once
        )
        yield page
        marker = page.marker
        if marker is None:
            return


@click.command()
@click.argument("name")
@in_a_session
def show(session: Session, name: str) -> int:
    """Show all that is known of the lock NAME."""
    lock, at = lock_named(session, name)
    if session.as_json:
        write_json(as_dict(lock))
    else:
        block(lock, at)
    return 0


def lock_named(session: Session, name: str) -> tuple[LockInfo, float]:
    """Return the lock of this name and the service's clock, or say which names there are like it.

    Raises:
        UsageError: there is no such lock.
    """
    blob, at = session.ask(lambda keeping: find(keeping, session.container, name, answer=READING))
    lock = None if blob is None else lock_info(blob, session.container)
    if lock is not None:
        return lock, at
    if blob is not None:
        raise click.UsageError(f"blob {name!r} is there, but nothing says that it is a lock")
    like = session.ask(lambda keeping: names_like(keeping, session.container, name, answer=READING))
    hint = f". Did you mean {listed(like)}?" if like else ""
    raise click.UsageError(
        f"there is no lock {name!r} in container {session.container!r}: it is mistyped, or was never taken, or was "
        f"swept{hint}"
    )


@click.command()
@click.argument("name", required=False)
@click.option("--function", metavar="NAME", help="Only locks of this function.")
@click.option("--prefix", default="", metavar="TEXT", help="Only names that begin so.")
@click.option("--every", type=span_of(0.1), default="2s", metavar="SPAN", help="How often to look.")
@click.option("--for", "length", type=span_of(), metavar="SPAN", help="End after so long. Default: at Ctrl-C.")
@in_a_session
def watch(
    session: Session, name: str | None, function: str | None, prefix: str, every: float, length: float | None
) -> int:
    """Tell who gets which lock, live: the lock NAME, or all.

    It looks every few seconds. A lock that went from hand to hand between two looks is told by its last stamp.
    """
    wanted = Wanted(function=function)
    seen = Watch()
    ends = None if length is None else time.monotonic() + length
    click.echo(f"watching {plain(name or session.container)}, every {span(every)}; Ctrl-C ends it", err=True)
    outage = Outage()
    answered = False
    while True:
        began = time.monotonic()
        try:
            _look(session, name, prefix, wanted, seen)
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


def _look(session: Session, name: str | None, prefix: str, wanted: Wanted, seen: Watch) -> None:
    """Look at the container once, and tell what is different."""
    pages = _pages(session, name or prefix)
    first = next(pages)
    found = (lock for page in itertools.chain([first], pages) for lock in wanted.among(page, session.container))
    for sight in seen.look((lock for lock in found if name in (None, lock.name)), first.at):
        _tell(session, sight, first.at)


def _tell(session: Session, sight: Sight, at: float) -> None:
    lock = sight.lock
    if session.as_json:
        write_json({"seen": sight.what, "at": at, "lock": as_dict(lock)}, streamed=True)
        return
    since = lock.last.since
    held = f" (for {span(at - since.timestamp())})" if since and sight.what in ("holds", "free") else ""
    when = moment(datetime.fromtimestamp(at, UTC))
    before, after = f"{when}  {plain(lock.name)}", f" {_WORDS[sight.what]}{held}"
    if sight.what == "free":
        click.echo(before + after)
        return
    width = terminal_width()
    by = who(lock.last) if width is None else who_within(lock.last, width - len(before) - len(after) - 2)
    click.echo(f"{before}: {by}{after}")
