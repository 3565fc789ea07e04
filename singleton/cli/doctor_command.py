"""``doctor``: does the account do what locks rely on?"""

from __future__ import annotations

import contextlib
import secrets
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from singleton.base.errors import StorageDenied
from singleton.cli.output import counted, say, write_json
from singleton.cli.session import Session, in_a_session
from singleton.cli.silence import READING, silence_told
from singleton.operating.checks import MAY_BE_HIDDEN, clean_up, examine, prepare
from singleton.operating.container import keeping_of, next_page
from singleton.operating.scratch import Finding, Forbidden
from singleton.runtime.lock_thread import runtime
from singleton.settings.accounts import LockContainer
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator

    from singleton.stores.protocol import LeaseStore

_T = TypeVar("_T")
_SAID: Final = 31
"""Columns before the result of a check."""
_MARKS: Final = {"ok": "ok", "note": "note", "failed": "FAILED", "unknown": "?"}


@click.command()
@click.option(
    "--scratch", metavar="NAME", help="A container that exists. Default: one is made, and deleted afterwards."
)
@click.option("--quick", is_flag=True, help="Leave out the checks that wait 15 s for a lease to end.")
@in_a_session
def doctor(session: Session, scratch: str | None, *, quick: bool) -> int:
    """Examine the storage account: does it do what locks rely on?

    It makes a container of its own there, tries each request that locks make, with its conditions, and deletes it.
    """
    mark = f"singleton-doctor-{secrets.token_hex(4)}"
    # Some checks send requests that only the SDK sends.
    place = LockContainer(session.place.account, scratch or mark, "sdk")
    visit = _Visit(session=session, place=place, prefix=f"{mark}/", own=scratch is None)
    if not session.as_json:
        where = f"container {visit.place.container}" + (", made for this and deleted again" if visit.own else "")
        say(f"{session.place.account.endpoint}, {where}{'' if quick else '; this takes about 20 s'}")
    missing = visit.begin()
    findings = [_told(session, missing)] if missing else list(visit.findings(quick=quick))
    failed = sum(finding.outcome == "failed" for finding in findings)
    untried = sum(finding.outcome == "unknown" and finding.check not in MAY_BE_HIDDEN for finding in findings)
    if session.as_json:
        found = [asdict(each) for each in findings]
        write_json({"account": session.place.account.endpoint, "healthy": not failed, "findings": found})
    else:
        more = f" {counted(untried, 'check')} could not be made." if untried else ""
        say((f"{counted(failed, 'check')} failed." if failed else "Locks can rely on this account.") + more)
    return 1 if failed else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Visit:
    """One examination of an account, with scratch blobs in a container. ``own``: the container is made for this."""

    session: Session
    place: LockContainer
    prefix: str
    own: bool

    def begin(self) -> Finding | None:
        """Make the container, or see to it that it is there; return a finding where that is not allowed.

        Raises:
            StorageError: there is none, or the storage does not answer.
        """
        container, prefix = self.place.container, self.prefix
        if not self.own:
            with contextlib.suppress(StorageDenied):  # the right to list may be missing: the examination tells
                self._ask(lambda store: next_page(keeping_of(store), container, prefix, None, 1, answer=READING))
            return None
        try:
            self._ask(lambda store: prepare(store, READING))
        except Forbidden as forbidden:
            said = f"{forbidden}. Name a container that exists: --scratch NAME"
            return Finding(check="rights", outcome="failed", said=said)
        return None

    def findings(self, *, quick: bool) -> Iterator[Finding]:
        """Examine the account, tell of each finding, and clean up."""

        async def begin(store: LeaseStore) -> AsyncIterator[Finding]:
            return examine(store, self.prefix, quick=quick)

        try:
            found = self._ask(begin)
            while (finding := runtime().call(lambda _: anext(found, None))) is not None:
                yield _told(self.session, finding)
        finally:
            try:
                self._ask(lambda store: clean_up(store, self.prefix, container=self.own))
            except StoreFailure as failure:
                container = f"container {self.place.container}"
                left = container if self.own else f"blobs beneath {self.prefix} in {container}"
                say(f"could not be deleted: {left} ({failure}). Delete it by hand", err=True)

    def _ask(self, work: Callable[[LeaseStore], Coroutine[Any, Any, _T]]) -> _T:
        with silence_told(self.place.account.endpoint):
            return runtime().call(lambda registry: work(registry.store(self.place)))


def _told(session: Session, finding: Finding) -> Finding:
    """Write the finding, unless the command writes JSON; return the finding."""
    if not session.as_json:
        say(finding.said, first=f"  {_MARKS[finding.outcome]:<7} {finding.check:<20} ", indent=_SAID)
    return finding
