"""What the commands that go through a whole container share: progress, and the result."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar

import click

from singleton.cli.mistyped import no_such_prefix
from singleton.cli.trouble import READING
from singleton.cli.words import Progress, counted, rate, write_json
from singleton.operating.container import next_page as first_page

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from singleton.cli.session import Session
    from singleton.operating.container_pass import ContainerPass
    from singleton.stores.protocol import LeaseStore


_GoingT = TypeVar("_GoingT", bound="ContainerPass[Any]")


def go_through(
    session: Session,
    begin: Callable[[LeaseStore], _GoingT],
    did: str,
    others: Mapping[str, str],
    *,
    dry_run: bool,
    prefix: str = "",
    mistake: Callable[[_GoingT], str | None] = lambda _: None,
) -> Any:
    """Go through the container and report it, also if it ends early; return what became of all.

    Args:
        session: the container.
        begin: makes what goes through it.
        did: what is done to a blob: "deleted".
        others: why the others were left, by the field that counts them.
        dry_run: whether nothing is done.
        prefix: with which the names begin.
        mistake: says what was asked for and is not there, once all was seen: that is the user's mistake.

    Raises:
        UsageError: there are locks, and none that was asked for.
    """
    progress = Progress("blobs seen")
    running: list[_GoingT] = []

    async def next_page(store: LeaseStore) -> bool:
        if not running:
            running.append(begin(store))
        return await running[0].go_on()

    page = session.ask(lambda keeping: first_page(keeping, session.container, prefix, None, 1, answer=READING))
    if prefix and not page.entries and (wrong := no_such_prefix(session, prefix)) is not None:
        raise click.UsageError(wrong)
    ended, wrong = False, None
    try:
        while session.on_store(next_page):
            progress.show(running[0].result.seen, f", {running[0].done:,} {did}")
        ended, wrong = True, mistake(running[0])
    finally:
        progress.end()
        if running and wrong is None:
            _tell(session, running[0], progress.seconds, did, others, dry_run=dry_run, ended=ended)
    if wrong is not None:
        raise click.UsageError(wrong)
    return running[0].result


def _tell(
    session: Session,
    going: ContainerPass[Any],
    seconds: float,
    did: str,
    others: Mapping[str, str],
    *,
    dry_run: bool,
    ended: bool,
) -> None:
    result, left = going.result, going.left
    seen = result.seen + left
    if session.as_json:
        counts = {**asdict(result), "left": left, "seen": seen, "seconds": round(seconds, 3)}
        write_json({**counts, "dry_run": dry_run, "complete": ended})
        return
    done = f"would be {did}" if dry_run else did
    end = "" if ended else "; ended early, there may be more"
    speed = rate(result.seen, seconds)
    click.echo(f"{going.done:,} of {counted(seen, 'blob')} {done}, in {seconds:.1f} s ({speed}){end}")
    for many, why in ((left, "not worked on yet"), *((getattr(result, field), why) for field, why in others.items())):
        if many:
            click.echo(f"  {many:>9,}  {why}")
