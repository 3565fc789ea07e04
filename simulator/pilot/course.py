"""The course of a pilot: the container, all that is tried in it, and its end."""

from __future__ import annotations

import asyncio
import contextlib
import random
import secrets
import time
import uuid
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, TypeVar

from simulator.checks.findings import unproven
from simulator.checks.reports import CheckResult
from simulator.pilot.assumptions import examine_account, try_assumptions
from simulator.pilot.both_ways import compare_both_ways, live_both_ways
from simulator.pilot.container import PREFIX, answers, delete_container, make_container
from simulator.pilot.idle import watch_idle
from simulator.pilot.pilot_report import PilotResult
from simulator.pilot.pilot_time import PilotOverError, PilotTime
from simulator.pilot.storm import DIED, storm, without_storage
from simulator.pilot.traffic import WAYS, PilotRequests, StoreWay
from simulator.real.settle import Interrupt, Signals
from simulator.report.timeline.build import count_calls
from singleton.runtime.accounts.stores import open_container, open_through_sdk
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from simulator.pilot.both_ways import Lived
    from simulator.pilot.pilot_plan import PilotPlan
    from simulator.real.run import RunOutcome
    from simulator.real.storage import GivenStorage
    from simulator.report.words import Reporter
    from singleton.settings.connection import StorageAccount
    from singleton.stores.azure_blob import AzureBlobLeaseStore
    from singleton.stores.direct_blob import DirectBlobStore

_T = TypeVar("_T")

CYCLES: Final = 25
HISTORIES: Final = 30
TIMED: Final = 20
LATER: Final = 2 * 3600.0
"""Seconds beyond its time after which a pilot has ended, whatever it waited for."""
_LOOK_EVERY: Final = 0.2


class _Aside(Thread):
    """Runs a coroutine on a loop of its own, so that signals find the main thread."""

    def __init__(self, work: Coroutine[Any, Any, Any]) -> None:
        super().__init__(name="pilot", daemon=True)
        self._work = work
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._loop = self._runner.get_loop()
        self.result: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        """Do the work."""
        try:
            with self._runner:
                self.result = self._runner.run(self._work)
        except BaseException as error:  # noqa: BLE001 - it is raised in the main thread
            self.error = error

    def wait(self) -> Any:
        """Wait for the end, and return the result; an interrupt comes through."""
        while self.is_alive():
            self.join(_LOOK_EVERY)
        if self.error is not None:
            raise self.error
        return self.result

    def stop(self) -> None:
        """Cancel the work, and wait for its end."""
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(lambda: [task.cancel() for task in asyncio.all_tasks(self._loop)])
        self.join()


class ContainerLeftError(Exception):
    """The container of the pilot could not be deleted; the message says what to do."""


@dataclass(kw_only=True)
class Pilot:
    """One pilot on an account. ``container``: its name, which nobody else uses."""

    account: StorageAccount
    storage: GivenStorage
    plan: PilotPlan
    reporter: Reporter
    signals: Signals
    container: str

    def run(self) -> PilotResult:
        """Try everything, and delete the container, whatever happens.

        Raises:
            StoreFailure: the container can't be made.
            ContainerLeftError: it failed, and the container can't be deleted either.
            Interrupt: a signal ended the pilot.
        """
        perhaps_made = True
        try:
            with self.signals.held():
                ends = time.time() + self.plan.seconds + LATER
                try:
                    self._aside(make_container(self.account, self.container, ends)).wait()
                except StoreFailure as failure:
                    perhaps_made = failure.leaves_doubt
                    raise
            result = self._try_all()
        except BaseException:
            if perhaps_made and (left := self._deleted()):
                raise ContainerLeftError(left) from None
            raise
        return replace(result, left_behind=self._deleted())

    def _deleted(self) -> str:
        """Delete the container; return what the user has to do if that fails."""
        self.signals.close()
        self.reporter.step("Deleting the container")
        try:
            self._aside(delete_container(self.account, self.container)).wait()
        except StoreFailure as failure:
            return f"the container {self.container} could not be deleted ({failure}): delete it by hand"
        return ""

    def _try_all(self) -> PilotResult:
        began, plan, run = time.monotonic(), self.plan, None
        limit = PilotTime(plan.seconds)
        traffic = PilotRequests(limit)
        with contextlib.ExitStack() as ends:
            self.reporter.step("Measuring latencies")
            with contextlib.suppress(PilotOverError):
                self._aside(limit.run(self._latencies(traffic)), ends).wait()
            traffic.timing = False
            idle = self._aside(limit.run(watch_idle(self.account, self.container, plan.idle)), ends)
            self.reporter.step("Trying what locks assume about the service")
            trying = self._aside(self._assumptions(traffic, limit), ends)
            parts, lived, unseen = trying.wait()
            parts += compare_both_ways(lived, unseen)
            if plan.storm:
                part, run = (not_tried("storm", limit.cut), None) if limit.over() else self._storm(limit)
                parts.append(part)
            if plan.idle:
                self.reporter.step("Waiting for the idle connections")
                try:
                    parts.append(idle.wait())
                except PilotOverError as over:
                    parts.append(not_tried("idle connections", str(over)))
        parts.append(traffic.throttling())
        return PilotResult(
            parts=parts,
            latencies=traffic.latencies(),
            left_out=plan.left_out(),
            requests=traffic.requests + _requests_of(run),
            seconds=time.monotonic() - began,
            run=run,
            cut=limit.cut,
        )

    def _aside(self, work: Coroutine[Any, Any, _T], ends: contextlib.ExitStack | None = None) -> _Aside:
        with self.signals.held():
            aside = _Aside(work)
            aside.start()
            if ends is not None:
                ends.callback(aside.stop)
        return aside

    def _open(self, traffic: PilotRequests, way: StoreWay) -> DirectBlobStore | AzureBlobLeaseStore:
        return traffic.watch(open_container(self.account, self.container, way), way)

    def _operator(self) -> AzureBlobLeaseStore:
        return open_through_sdk(self.account, self.container)

    async def _latencies(self, traffic: PilotRequests) -> None:
        """Send the requests of a lock one at a time, while nothing else is sent."""
        lease_id = str(uuid.uuid4())
        for way in WAYS:
            async with aclosing(self._open(traffic, way)) as store:
                for _ in range(CYCLES):
                    with contextlib.suppress(StoreFailure):  # the parts that follow say what is refused
                        await store.create(f"latencies/{way}")
                        etag = await store.acquire(f"latencies/{way}", lease_id, 15)
                        await store.write(f"latencies/{way}", lease_id, {"SingletonEpoch": "1"}, etag)
                        await store.renew(f"latencies/{way}", lease_id)
                        await store.release(f"latencies/{way}", lease_id)

    async def _assumptions(
        self, traffic: PilotRequests, limit: PilotTime
    ) -> tuple[list[CheckResult], list[Lived], int]:
        slow = self.plan.slow
        timed = TIMED if self.plan.timed else 0
        opened = partial(self._open, traffic)
        parts = [try_assumptions(partial(opened, way), way, limit, slow=slow) for way in WAYS]
        seed = random.getrandbits(32)
        lives = live_both_ways(opened, self._operator(), limit, many=HISTORIES, timed=timed, seed=seed)
        account = examine_account(self._operator(), limit)
        found, (lived, unseen) = await asyncio.gather(asyncio.gather(account, *parts), lives)
        return found, lived, unseen

    def _storm(self, limit: PilotTime) -> tuple[CheckResult, RunOutcome | None]:
        with Signals() as signals:
            found = storm(
                self.storage,
                self.container,
                self.reporter,
                signals,
                seconds=self.plan.storm,
                seed=random.getrandbits(32),
            )
        if signals.received:
            self.signals.received += signals.received
            raise Interrupt
        part, run = found
        if run is None or self._aside(answers(self.account, self.container)).wait():
            return found
        limit.cut = limit.cut or DIED
        return without_storage(part, run)


def not_tried(part: str, why: str) -> CheckResult:
    """Return a part of which nothing is known."""
    promise = "What a pilot could not see is unknown, and never counted as fine."
    return CheckResult(name=part, promise=promise, looked_at={}, findings=(unproven(f"not seen: {why}"),))


def _requests_of(run: RunOutcome | None) -> int:
    """Return how many requests the hosts of a storm have sent."""
    return 0 if run is None else sum(sum(calls.values()) for calls in count_calls(run.records).values())


def new_name() -> str:
    """Return a name for the container of a pilot."""
    return f"{PREFIX}{secrets.token_hex(8)}"
