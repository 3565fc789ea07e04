"""Assumptions about the service: each is seen to fail, and what could not be seen is unknown."""

from __future__ import annotations

import asyncio
import functools
import inspect
from typing import TYPE_CHECKING, Any

import pytest

from simulator.pilot import assumptions
from simulator.pilot.assumed.lease_table import A, B
from simulator.pilot.assumed.scenarios import Fixture
from simulator.pilot.assumptions import all_trials, examine_account, tried, try_assumptions
from simulator.pilot.pilot_time import PilotTime
from simulator.pilot.traffic import PilotRequests
from simulator.virtual.time.loop import VirtualLoop
from singleton.stores.protocol import StoreFailure
from singleton.testing.storage.memory_store import MemoryLeaseStore
from tests.conformance.test_store_suite import BROKEN

if TYPE_CHECKING:
    from collections.abc import Callable

    from simulator.checks.findings import Finding

TRIALS = {name: (trial, known) for name, trial, known in all_trials()}
DENIED = StoreFailure(403, "AuthorizationPermissionMismatch")
BUSY = StoreFailure(503, "ServerBusy", retry_after=2.0)


def changed(change: Callable[[int, str, Any], Any]) -> tuple[MemoryLeaseStore, list[str]]:
    """Return the model, whose answers are changed by their number and operation, and a list of its requests."""
    store, calls, traffic = MemoryLeaseStore(), list[str](), PilotRequests(PilotTime(60.0))

    async def answered(name: str, send: Callable[..., Any], *asked: Any, **more: Any) -> Any:
        number = len(calls)
        calls.append(name)
        try:
            answer = await send(*asked, **more)
        except StoreFailure as failure:
            answer = failure
        answer = change(number, name, answer)
        if isinstance(answer, StoreFailure):
            raise answer
        return answer

    for name, method in inspect.getmembers(MemoryLeaseStore, inspect.iscoroutinefunction):
        if not name.startswith("_") and name != "aclose":
            setattr(store, name, functools.partial(answered, name, functools.partial(method, store)))
    for name, asking in [(name, each) for name, each in vars(store).items() if isinstance(each, functools.partial)]:
        setattr(store, name, functools.partial(traffic._timed, "direct", name, asking))
    return store, calls


def found(name: str, store: MemoryLeaseStore, known: str = "") -> list[Finding]:
    async def main() -> list[Finding]:
        fixture = Fixture(store=store, other=store, name="job", wait=asyncio.sleep)
        return await tried(name, TRIALS[name][0], fixture, known)

    return VirtualLoop(0.0).run_until_complete(main())  # type: ignore[abstract]


@pytest.mark.parametrize("name", TRIALS)
def test_an_assumption_holds_on_the_model_and_is_seen_to_fail_when_one_answer_is_another(name: str) -> None:
    store, calls = changed(lambda _number, _name, answer: answer)
    assert found(name, store) == []
    last = range(len(calls))[-2:]

    def wrong(at: int) -> MemoryLeaseStore:
        refusal = StoreFailure(400, "InvalidInput")
        return changed(lambda number, _, told: _other(told, refusal) if number == at else told)[0]

    kinds = {finding.kind for at in last for finding in found(name, wrong(at))}
    assert kinds == {"violation"}


def _renewed_for(whom: str, _number: int, name: str, answer: Any) -> Any:
    return whom if name == "renew" else answer


def _other(answer: Any, refusal: StoreFailure) -> Any:
    return None if isinstance(answer, StoreFailure) else refusal


@pytest.mark.parametrize(("kind", "found_by"), BROKEN)
def test_a_broken_service_is_told_with_its_last_requests(kind: type[MemoryLeaseStore], found_by: str) -> None:
    del found_by
    service = kind()
    result = VirtualLoop(0.0).run_until_complete(  # type: ignore[abstract]
        try_assumptions(lambda: service, "direct", PilotTime(60.0), slow=True)
    )
    failed = [finding for finding in result.findings if finding.kind == "violation"]
    assert all("The last requests:" in finding.text for finding in failed)
    assert result.findings
    assert failed or kind.__name__ == "_RenewsForAnybody"  # which is the difference A-1


def test_what_a_right_is_missing_for_is_unknown() -> None:
    store, _ = changed(lambda _, name, answer: DENIED if name == "renew" else answer)
    (finding,) = found("renew-mine-on-leased", store)
    assert (finding.kind, str(DENIED.code) in finding.text) == ("unproven", True)
    assert found("acquire-mine-on-leased", store) == []


def test_an_assumption_is_tried_again_when_the_service_throttles_and_unknown_when_it_goes_on() -> None:
    assert found("renew-mine-on-leased", changed(lambda number, _, answer: BUSY if number == 2 else answer)[0]) == []
    (finding,) = found("renew-mine-on-leased", changed(lambda *_: BUSY)[0])
    assert (finding.kind, "ServerBusy" in finding.text) == ("unproven", True)


def test_a_service_that_never_answers_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent(MemoryLeaseStore):
        async def renew(self, name: str, lease_id: str) -> str:
            del name, lease_id
            await asyncio.Event().wait()
            raise AssertionError

    monkeypatch.setattr(assumptions, "PATIENCE", 1.0)
    (finding,) = found("renew-mine-on-leased", Silent())
    assert finding.kind == "unproven"


def test_a_known_difference_of_the_emulator_is_a_note_and_a_renewal_under_the_id_of_another_is_none() -> None:
    for replied, kind in ((A, "note"), (B, "violation")):
        store, _ = changed(functools.partial(_renewed_for, replied))
        (finding,) = found("renew-other-on-expired", store, "A-1")
        assert (finding.kind, "Azurite#2352" in finding.text) == (kind, kind == "note")


def test_the_checks_of_doctor_are_findings_and_an_account_that_is_hidden_is_unknown() -> None:
    looked = examine_account(MemoryLeaseStore(), PilotTime(60.0))
    result = VirtualLoop(0.0).run_until_complete(looked)  # type: ignore[abstract]
    unknown = [finding.text.partition(":")[0] for finding in result.findings if finding.kind == "unproven"]
    assert unknown == ["hierarchy", "versions", "soft delete"]


def test_throttling_is_told_with_the_longest_wait_that_was_asked_for() -> None:
    traffic = PilotRequests(PilotTime(60.0))

    class Busy(MemoryLeaseStore):
        async def create(self, name: str, metadata: Any = None) -> None:
            del name, metadata
            raise BUSY

    async def main() -> None:
        with pytest.raises(StoreFailure):
            await traffic.watch(Busy(), "direct").create("job")

    asyncio.run(main())
    assert [finding.text for finding in traffic.throttling().findings] == [
        "1 request throttled (ServerBusy); 1 were asked to wait, for up to 2 s"
    ]
