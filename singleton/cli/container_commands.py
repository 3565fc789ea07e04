"""``sweep``, ``lift-epochs`` and ``doctor``: the commands for a whole container, or for the account."""

from __future__ import annotations

import contextlib
import secrets
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from singleton.base.errors import StorageDenied
from singleton.cli.output import Progress, counted, rate, say, span_of, write_json
from singleton.cli.session import Session, in_a_session, no_such_prefix
from singleton.cli.silence import READING, silence_told
from singleton.operating.checks import MAY_BE_HIDDEN, Finding, Forbidden, clean_up, examine, prepare
from singleton.operating.container import next_page
from singleton.operating.container_pass import YOUNGEST, Lift, Sweep
from singleton.runtime.lock_thread import runtime
from singleton.settings.accounts import LockContainer
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from singleton.cli.session import Session
    from singleton.operating.container_pass import ContainerPass
    from singleton.stores.lock_keeping import BlobStore

_PassT = TypeVar("_PassT", bound="ContainerPass[Any]")


def _go_through(
    session: Session,
    begin: Callable[[BlobStore], _PassT],
    did: str,
    others: Mapping[str, str],
    *,
    dry_run: bool,
    prefix: str = "",
) -> Any:
    """Pass over the container and report the outcomes, also after an early end; return the outcomes.

    Args:
        did: the work on a blob in words: "deleted".
        others: reason for each other outcome, by the field of this outcome.
    """
    progress = Progress("blobs seen")
    running: list[_PassT] = []

    async def go_on(store: BlobStore) -> bool:
        if not running:
            running.append(begin(store))
        return await running[0].go_on()

    page = session.ask(lambda store: next_page(store, session.container, prefix, None, 1, answer=READING))
    if prefix and not page.entries and (wrong := no_such_prefix(session, prefix)) is not None:
        raise click.UsageError(wrong)
    ended = False
    try:
        while session.ask(go_on):
            progress.show(running[0].result.seen, f", {running[0].done:,} {did}")
        ended = True
    finally:
        progress.end()
        if running:
            _tell(session, running[0], progress.seconds, did, others, dry_run=dry_run, ended=ended)
    return running[0].result


def _tell(
    session: Session,
    done_pass: ContainerPass[Any],
    seconds: float,
    did: str,
    others: Mapping[str, str],
    *,
    dry_run: bool,
    ended: bool,
) -> None:
    result, left = done_pass.result, done_pass.left
    seen = result.seen + left
    if session.as_json:
        counts = {**asdict(result), "left": left, "seen": seen, "seconds": round(seconds, 3)}
        write_json({**counts, "dry_run": dry_run, "complete": ended})
        return
    done = f"would be {did}" if dry_run else did
    end = "" if ended else "; ended early, there may be more"
    speed = rate(result.seen, seconds)
    click.echo(f"{done_pass.done:,} of {counted(seen, 'blob')} {done}, in {seconds:.1f} s ({speed}){end}")
    for many, why in ((left, "not worked on yet"), *((getattr(result, field), why) for field, why in others.items())):
        if many:
            click.echo(f"  {many:>9,}  {why}")


_NOT_SWEPT: Final = {
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

    def begin(store: BlobStore) -> Sweep:
        return Sweep(store, session.container, older_than=older_than, prefix=prefix, dry_run=dry_run, fast=fast)

    _go_through(session, begin, "deleted", _NOT_SWEPT, dry_run=dry_run, prefix=prefix)
    return 0


_NOT_LIFTED: Final = {
    "held": "somebody has the lock: run this again when it is free",
    "gone": "deleted by somebody else",
    "kept": "not a lock with tokens, or a lock with a name of your own that lost its epoch",
}


@click.command("lift-epochs")
@click.option("--dry-run", is_flag=True, help="Write nothing; show what would be written.")
@in_a_session
def lift_epochs(session: Session, *, dry_run: bool) -> int:
    """Make all later tokens greater than any that was ever given.

    For a storage account that went back in time, by a failover or a restore: its locks may have older numbers than were
    given out, and tokens would repeat. Stop the app first. A lock that somebody has stays as it is; then the exit code
    is 1, and you run the command again.
    """

    def begin(store: BlobStore) -> Lift:
        return Lift(store, session.container, dry_run=dry_run)

    result = _go_through(session, begin, "lifted", _NOT_LIFTED, dry_run=dry_run)
    return 1 if result.held else 0


_T = TypeVar("_T")
_SAID: Final = 31
"""Columns before the result of a check."""
_MARKS: Final = {"ok": "ok", "note": "note", "failed": "FAILED", "unknown": "?"}


@click.command()
@click.option(
    "--scratch", metavar="NAME", help="A container that exists. Default: one is made, and deleted afterwards."
)
@in_a_session
def doctor(session: Session, scratch: str | None) -> int:
    """Examine the storage account: is a right missing?

    It makes a container of its own there, sends each request that locks send, and deletes it. singleton-sim pilot tries
    whether the service does what locks rely on.
    """
    mark = f"singleton-doctor-{secrets.token_hex(4)}"
    # Some checks send requests that only the SDK sends.
    place = LockContainer(session.place.account, scratch or mark, "sdk")
    if not session.as_json:
        own = "" if scratch else ", made for this and deleted again"
        say(f"{place.account.endpoint}, container {place.container}{own}")
    findings = _examined(place, f"{mark}/", own=scratch is None)
    failed = sum(finding.outcome == "failed" for finding in findings)
    untried = sum(finding.outcome == "unknown" and finding.check not in MAY_BE_HIDDEN for finding in findings)
    if session.as_json:
        found = [asdict(each) for each in findings]
        write_json({"account": place.account.endpoint, "healthy": not failed, "findings": found})
        return 1 if failed else 0
    for finding in findings:
        say(finding.said, first=f"  {_MARKS[finding.outcome]:<7} {finding.check:<20} ", indent=_SAID)
    more = f" {counted(untried, 'check')} could not be made." if untried else ""
    say((f"{counted(failed, 'check')} failed." if failed else "Locks can use this account.") + more)
    return 1 if failed else 0


def _examined(place: LockContainer, prefix: str, *, own: bool) -> list[Finding]:
    """Examine an account with scratch blobs in a container; ``own``: the container is made for this.

    ``StorageError``: the container does not exist, or the storage does not answer.
    """

    def ask(work: Callable[[BlobStore], Coroutine[Any, Any, _T]]) -> _T:
        with silence_told(place.account.endpoint):
            return runtime().call(lambda registry: work(registry.store(place)))

    if own:
        try:
            ask(lambda store: prepare(store, READING))
        except Forbidden as forbidden:
            said = f"{forbidden}. Name a container that exists: --scratch NAME"
            return [Finding(check="rights", outcome="failed", said=said)]
    else:
        with contextlib.suppress(StorageDenied):  # the right to list may be missing: the examination tells
            ask(lambda store: next_page(store, place.container, prefix, None, 1, answer=READING))
    try:
        return ask(lambda store: examine(store, prefix))
    finally:
        try:
            ask(lambda store: clean_up(store, prefix, container=own))
        except StoreFailure as failure:
            left = f"container {place.container}" if own else f"blobs beneath {prefix} in container {place.container}"
            say(f"could not be deleted: {left} ({failure}). Delete it by hand", err=True)
