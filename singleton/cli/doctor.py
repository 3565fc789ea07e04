"""``doctor``: does the account do what our locks rely on?"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from singleton.cli.session import Session, in_a_session
from singleton.cli.words import counted, write_json
from singleton.operating.doctor import clean_up, examine
from singleton.operating.keeping import keeping_of
from singleton.operating.listing import next_page
from singleton.process.current import runtime
from singleton.settings.place import Place
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from singleton.operating.doctor import Finding
    from singleton.stores.protocol import LeaseStore

_T = TypeVar("_T")
_MARKS: Final = {"ok": "ok", "note": "note", "failed": "FAILED", "unknown": "?"}


@click.command()
@click.option("--scratch", metavar="NAME", help="A container that is there. Default: one is made and deleted again.")
@click.option("--quick", is_flag=True, help="Leave out what waits for the end of a lease, 15 s.")
@in_a_session
def doctor(session: Session, scratch: str | None, *, quick: bool) -> int:
    """Examine the storage account: does it do what locks rely on?

    It makes a container of its own there, tries each request that locks make, with its conditions, and deletes it.
    """
    own = scratch is None
    mark = f"singleton-doctor-{secrets.token_hex(4)}"
    place = Place(session.place.account, scratch or mark, "sdk")  # it also looks at what only the SDK asks for
    prefix = f"{mark}/"

    def ask(work: Callable[[LeaseStore], Coroutine[Any, Any, _T]]) -> _T:
        return runtime().call(lambda registry: work(registry.store(place)))

    async def begin(store: LeaseStore) -> AsyncIterator[Finding]:
        return examine(store, prefix, quick=quick)

    if not own:
        ask(lambda store: next_page(keeping_of(store), place.container, prefix, None, 1))
    findings: list[Finding] = []
    if not session.as_json:
        where = f"container {place.container}" + (", made for this and deleted again" if own else "")
        click.echo(f"{session.place.account.endpoint}, {where}{'' if quick else '; this takes about 20 s'}")
    try:
        found = ask(begin)
        while (finding := ask(lambda _: anext(found, None))) is not None:
            findings.append(finding)
            if not session.as_json:
                click.echo(f"  {_MARKS[finding.outcome]:<7} {finding.check:<20} {finding.said}")
    finally:
        try:
            ask(lambda store: clean_up(store, prefix, container=own))
        except StoreFailure as failure:
            left = f"container {mark}" if own else f"blobs beneath {prefix} in container {place.container}"
            click.echo(f"{left} may be left behind: {failure}", err=True)
    failed = sum(finding.outcome == "failed" for finding in findings)
    if session.as_json:
        write_json(
            {
                "account": session.place.account.endpoint,
                "healthy": not failed,
                "findings": [{"check": each.check, "outcome": each.outcome, "said": each.said} for each in findings],
            }
        )
    else:
        click.echo(f"{counted(failed, 'check')} failed." if failed else "Locks can rely on this account.")
    return 1 if failed else 0
