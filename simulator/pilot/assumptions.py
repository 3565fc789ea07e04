"""Tries what locks assume about the service: each request on each state of a lease, and the scenarios of stores."""

from __future__ import annotations

import asyncio
import contextlib
import traceback
from contextlib import aclosing
from typing import TYPE_CHECKING, Final, TypeAlias

from simulator.checks.findings import count, note, unproven, violation
from simulator.checks.reports import CheckResult
from simulator.pilot.assumed.histories import DIVERGENCES
from simulator.pilot.assumed.lease_table import TABLE, OtherLeaseError
from simulator.pilot.assumed.scenarios import QUICK, SLOW, Fixture, on_state
from simulator.pilot.pilot_time import PilotOverError
from simulator.pilot.traffic import LAST
from singleton.base.errors import StorageError
from singleton.operating.checks import examine
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from typing import Any

    from simulator.checks.findings import Finding
    from simulator.pilot.assumed.lease_table import LeaseRow
    from simulator.pilot.pilot_time import PilotTime
    from simulator.pilot.traffic import StoreWay
    from singleton.stores.lock_keeping import BlobStore

    Trial: TypeAlias = Callable[[Fixture], Coroutine[Any, Any, None]]

AT_ONCE: Final = 8
TRIES: Final = 3
PATIENCE: Final = 90.0
SHOWN: Final = 6
PAUSE: Final = 1.0


async def try_assumptions(
    open_store: Callable[[], BlobStore], way: StoreWay, time: PilotTime, *, slow: bool
) -> CheckResult:
    """Try all assumptions by one way to the service; ``slow``: also those that wait for the end of a lease."""
    line = asyncio.Semaphore(AT_ONCE)
    store, other = open_store(), open_store()
    async with aclosing(store), aclosing(other):

        async def one(name: str, trial: Trial, known: str, *, waits: bool) -> list[Finding] | None:
            fixture = Fixture(store=store, other=other, name=f"{way}/{name.replace(' ', '-')}", wait=asyncio.sleep)
            async with contextlib.nullcontext() if waits else line:
                with contextlib.suppress(PilotOverError):
                    return await time.run(tried(name, trial, fixture, known))
            return None

        trials = [one(*each, waits=False) for each in _quick()]
        if slow:
            trials += [one(*each, waits=True) for each in _slow()]
        found = await asyncio.gather(*trials)
    promise = "The service answers each request on each state of a lease as its documentation says."
    seen = [few for few in found if few is not None]
    unseen = count(len(trials) - len(seen), "assumption")
    unknown = [] if len(seen) == len(trials) else [unproven(f"{unseen} not seen: {time.cut}")]
    looked_at = {"assumptions": len(seen), "left out, as a lease takes 15 s to end": 0 if slow else len([*_slow()])}
    looked_at = {what: number for what, number in looked_at.items() if number}
    findings = (*unknown, *(each for few in seen for each in few))
    return CheckResult(name=f"assumptions, {way}", promise=promise, looked_at=looked_at, findings=findings)


def _quick() -> Iterator[tuple[str, Trial, str]]:
    yield from (_of_row(row) for row in TABLE if row.start != "expired")
    yield from ((_words(each), each, "") for each in QUICK)


def _slow() -> Iterator[tuple[str, Trial, str]]:
    yield from (_of_row(row) for row in TABLE if row.start == "expired")
    yield from ((_words(each), each, "") for each in SLOW)


def all_trials() -> Iterator[tuple[str, Trial, str]]:
    """Yield each assumption in words, how it is tried, and the name of a known difference."""
    yield from _quick()
    yield from _slow()


def _of_row(row: LeaseRow) -> tuple[str, Trial, str]:
    return str(row), lambda fixture: on_state(row, fixture), row.divergence


def _words(scenario: Trial) -> str:
    return scenario.__name__.replace("_", " ")


async def tried(name: str, trial: Trial, fixture: Fixture, known: str) -> list[Finding]:
    """Try an assumption; again if no usable answer came. ``known``: the name of a known difference from it."""
    why = ""
    for number in range(TRIES):
        last: list[tuple[str, StoreFailure | None]] = []
        LAST.set(last)
        try:
            async with asyncio.timeout(PATIENCE):
                await trial(fixture.beside(f"{fixture.name}-{number}"))
        except Exception as error:  # noqa: BLE001 - whatever it is, the assumption was not seen to hold
            why = _why(error)
            failures = [failure for _, failure in last if failure is not None]
            unanswered = [each for each in failures if each.meaning == "transient"]
            if denied := [each for each in failures if each.meaning == "denied"]:
                return [unproven(f"{name}: not allowed to this connection ({denied[0]})")]
            if not isinstance(error, TimeoutError) and not unanswered:
                if known and isinstance(error, OtherLeaseError):
                    return [note(f"{name}: {known}: {DIVERGENCES[known]}")]
                return [violation(f"{name}: {why}. The last requests: {_shown(last)}")]
            why = str(unanswered[-1]) if unanswered else f"no end within {PATIENCE:g} s"
        else:
            return []
        await asyncio.sleep(PAUSE)
    return [unproven(f"{name}: no usable answer in {TRIES} tries: {why}")]


def _why(error: Exception) -> str:
    """Say what was wrong: of a bare assertion its line."""
    if isinstance(error, AssertionError):
        said = " ".join(str(error).split())[:200]
        return said or f"not so: {traceback.extract_tb(error.__traceback__)[-1].line}"
    return f"{type(error).__name__}: {error}" if not isinstance(error, StoreFailure) else f"refused: {error}"


def _shown(last: list[tuple[str, StoreFailure | None]]) -> str:
    return ", ".join(f"{name} {'ok' if failed is None else failed}" for name, failed in last[-SHOWN:])


async def examine_account(store: BlobStore, time: PilotTime) -> CheckResult:
    """Make the checks of ``singleton-locks doctor``: rights, clock, namespace, versions, soft delete."""
    kinds = {"ok": note, "note": note, "failed": violation, "unknown": unproven}
    findings, many = [], 0
    async with aclosing(store):
        try:
            for found in await time.run(examine(store, "doctor/")):
                many += 1
                findings.append(kinds[found.outcome](f"{found.check}: {found.said}"))
        except (StorageError, PilotOverError) as error:
            findings.append(unproven(f"the checks ended early: {error}"))
    promise = "The account allows what locks need, and has nothing that locks can't live with."
    return CheckResult(name="account", promise=promise, looked_at={"checks": many}, findings=tuple(findings))
