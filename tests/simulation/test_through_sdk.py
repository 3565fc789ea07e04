"""The shipped store and the real Azure SDK in virtual worlds, under the same faults and the same oracle."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest
from click.testing import CliRunner

from simulator.explore_cli import explore
from simulator.virtual.faults import KINDS
from simulator.virtual.http.blob_api import Containers
from simulator.virtual.search.world_scenario import WorldScenario
from simulator.virtual.worlds.sdk import open_store, read_request
from simulator.virtual.worlds.world import World
from singleton.settings.accounts import LockContainer
from singleton.settings.connection import StorageAccount
from singleton.stores.protocol import StoreFailure
from tests.support.mutants import Mutant, applied

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from simulator.virtual.storage.network import NetworkRequest, Passage
    from simulator.virtual.time.loop import VirtualLoop
    from simulator.virtual.worlds.outcome import Run
    from singleton.stores.protocol import LeaseStore

A, B = (f"00000000-0000-4000-8000-00000000000{digit}" for digit in "ab")
STORE: Final = "stores.azure_blob"
STRANGE: Final = ("strange error", "failing credentials", "queue request")
"""Faults that may make a request refused as senseless, too."""
REFUSED: Final = "invocation: StorageError"
"""The service refused a request as senseless: no fault does that, so it is the store's."""

MUTANTS: Final = [
    Mutant("a release is never sent", STORE, "await self.judged(lease.release())", "return"),
    Mutant(
        "a release breaks whoever has the lease",
        STORE,
        "lease.release()",
        "self._lease(name, None).break_lease(lease_break_period=0)",
    ),
    Mutant("error codes are not read", STORE, 'str(getattr(code, "value", code)) if code else None', "None"),
    Mutant("leases last a minute", STORE, "lease_duration=duration", "lease_duration=60"),
    Mutant("the ETag of an acquire is not returned", STORE, "return _etag(lease.etag)", 'return ""'),
    Mutant(
        "the SDK's errors come through",
        STORE,
        'failure = self._failure(error, "unsent" if unsent else "unknown")\n',
        "raise\n",
    ),
    Mutant("writes are sent without the lease", STORE, "dict(metadata), lease=lease_id,", "dict(metadata),"),
    Mutant("metadata is not written", STORE, "dict(metadata), lease=lease_id,", "{}, lease=lease_id,"),
    Mutant(
        "the SDK makes up the lease id",
        STORE,
        "lease = self._lease(name, lease_id)\n        await self.judged(lease.acquire",
        "lease = self._lease(name, None)\n        await self.judged(lease.acquire",
    ),
    Mutant("a blob that is there is an error", STORE, '("BlobAlreadyExists", "LeaseIdMissing")', '("LeaseIdMissing",)'),
    Mutant("a container that is there is an error", STORE, '"ContainerAlreadyExists"', '"NeverMind"'),
]


def scenario(seed: int) -> WorldScenario:
    drawn = WorldScenario.draw(seed, hosts=4, kinds=tuple(kind for kind in KINDS if kind not in STRANGE))
    return replace(drawn, sdk=True)


def broken(run: Run) -> list[str]:
    checks = [violation.check for violation in run.violations]
    return [*checks, REFUSED] if run.reached[REFUSED] else checks


def test_scenarios_through_the_sdk_keep_every_promise() -> None:
    faults: set[str] = set()
    bodies = 0
    for seed in range(15):
        run = scenario(seed).run()
        assert not broken(run), f"seed {seed}: {run.violations or REFUSED}"
        faults.update(name for name in run.reached if name.startswith("fault: "))
        bodies += run.reached["bodies"]
    assert len(faults) >= 10, "the worlds had few kinds of faults"
    assert bodies > 150


def test_a_world_through_the_sdk_is_the_same_each_time_and_survives_a_file() -> None:
    for seed in (1, 3, 9):
        first = scenario(seed)
        again = WorldScenario.from_dict(first.to_dict())
        assert again == first
        assert again.run().history == first.run().history


@pytest.mark.planted
@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_worlds_through_the_sdk_find_each_mutant_of_the_store(mutant: Mutant) -> None:
    with applied(mutant):
        assert any(broken(scenario(seed).run()) for seed in range(60))


# --- the transport itself -------------------------------------------------------------------------------------------


class Wire:
    """One machine's shipped store on the transport, with a network that does what it is told."""

    def __init__(self) -> None:
        world = World(1, 1, (), sdk=True)
        self.loop: VirtualLoop = world.loop
        self.sent: list[str] = []
        self.passage: Callable[[Passage], None] = lambda _: None
        self.service = world.service
        self._machine = world.machines[0]
        world.network.rules.append(self._rule)
        self.store: LeaseStore = open_store(
            world.network,
            Containers(world.service.execute),
            self._machine,
            LockContainer(StorageAccount(), "webjobshost"),
        )

    def _rule(self, request: NetworkRequest, passage: Passage) -> None:
        self.sent.append(request.call)
        self.passage(passage)

    def run(self, request: Coroutine[Any, Any, Any]) -> Any:
        """Make one request, in the machine's context."""

        async def main() -> Any:
            return await self.loop.create_task(request, context=self._machine.context())

        return self.loop.run_until_complete(main())

    def failure(self, request: Coroutine[Any, Any, Any]) -> StoreFailure:
        """Make one request that fails."""
        with pytest.raises(StoreFailure) as caught:
            self.run(request)
        return caught.value


def test_requests_come_out_of_the_sdk_as_they_went_in() -> None:
    wire = Wire()
    store = wire.store
    assert wire.failure(store.acquire("locks/a b~%2e/ä", A, 15)).code == "ContainerNotFound"
    wire.run(store.create("locks/a b~%2e/ä"))
    assert wire.service.names() == ["locks/a b~%2e/ä"]
    etag = wire.run(store.acquire("locks/a b~%2e/ä", A, 15))
    assert wire.run(store.read("locks/a b~%2e/ä")).etag == etag
    assert wire.run(store.renew("locks/a b~%2e/ä", A)) == A
    written = wire.run(store.write("locks/a b~%2e/ä", A, {"SingletonEpoch": "7", "Team": "x"}, etag))
    state = wire.run(store.read("locks/a b~%2e/ä"))
    assert (state.etag, state.lease, dict(state.metadata)) == (written, "leased", {"SingletonEpoch": "7", "Team": "x"})
    wire.run(store.break_("locks/a b~%2e/ä"))
    assert wire.run(store.read("locks/a b~%2e/ä")).lease == "broken"
    wire.run(store.release("locks/a b~%2e/ä", A))
    wire.run(store.create("locks/a b~%2e/ä"))


def test_conflicts_arrive_with_the_service_s_error_codes() -> None:
    wire = Wire()
    store = wire.store
    wire.run(store.create("job"))
    etag = wire.run(store.acquire("job", A, 15))
    for request, code in (
        (store.acquire("job", B, 15), "LeaseAlreadyPresent"),
        (store.renew("job", B), "LeaseIdMismatchWithLeaseOperation"),
        (store.release("job", B), "LeaseIdMismatchWithLeaseOperation"),
        (store.write("job", B, {}, etag), "LeaseIdMismatchWithBlobOperation"),
        (store.write("job", A, {}, '"0x0"'), "ConditionNotMet"),
        (store.acquire("job", A, 14), "InvalidHeaderValue"),
        (store.read("gone"), "BlobNotFound"),
    ):
        assert wire.failure(request).code == code


@pytest.mark.parametrize(
    ("answer", "meaning"),
    [
        (StoreFailure(503, None, "busy", 7.0), "transient"),
        (StoreFailure(500, None), "transient"),
        (StoreFailure(429, None, "", 3.0), "transient"),
        (StoreFailure(408, None), "transient"),
        (StoreFailure(403, None), "denied"),
        (StoreFailure(404, None), "transient"),
        (StoreFailure(409, None), "transient"),
        (StoreFailure(404, "ContainerNotFound"), "missing"),
        (StoreFailure(409, "ContainerBeingDeleted"), "deleting"),
        (StoreFailure(detail="connection reset"), "transient"),
    ],
    ids=str,
)
def test_each_failure_means_the_same_through_the_sdk_and_costs_one_request(answer: StoreFailure, meaning: str) -> None:
    wire = Wire()
    wire.run(wire.store.create("job"))
    wire.run(wire.store.acquire("job", A, 15))
    wire.sent.clear()
    wire.passage = lambda passage: setattr(passage, "answer", answer)
    calls: list[Callable[[], Coroutine[Any, Any, Any]]] = [
        lambda: wire.store.renew("job", A),
        lambda: wire.store.read("job"),
        lambda: wire.store.write("job", A, {}, '"0x0"'),
        lambda: wire.store.release("job", A),
        lambda: wire.store.acquire("job", A, 15),
    ]
    for call in calls:
        failure = wire.failure(call())
        assert (failure.status, failure.meaning, failure.retry_after) == (answer.status, meaning, answer.retry_after)
        assert failure.code == answer.code or answer.code is None
    assert wire.sent == ["renew", "read", "write", "release", "acquire"], "the SDK's own retries are off"


def test_requests_that_a_lock_never_makes_are_no_part_of_the_transport() -> None:
    from azure.core.pipeline.transport import HttpRequest

    with pytest.raises(StoreFailure, match="InvalidUri"):
        read_request(HttpRequest("GET", "https://explored.blob.localhost/webjobshost/job?comp=tags"))


def test_content_goes_through_the_sdk_and_comes_back_with_the_services_clock() -> None:
    wire = Wire()
    store: Any = wire.store
    wire.run(store.create("job"))
    etag = wire.run(store.acquire("job", A, 15))
    for body in (b"", b"{}", bytes(range(256))):
        etag = wire.run(store.put("job", A, {"Length": str(len(body))}, etag, body))
        for lease_id in (A, None):
            blob, read, at = wire.run(store.get("job", lease_id, 1_000))
            assert (blob.etag, dict(blob.metadata), read) == (etag, {"Length": str(len(body))}, body)
            assert at is not None
            assert 0 <= at <= 60
    failure = wire.failure(store.get("gone", None, 1_000))
    assert (failure.meaning, failure.at is None) == ("missing", False)


def test_the_command_line_sends_all_requests_through_the_sdk_on_request(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: list[bool] = []
    run = WorldScenario.run

    def watched(planned: WorldScenario) -> Run:
        seen.append(planned.sdk)
        return run(planned)

    monkeypatch.setattr(WorldScenario, "run", watched)
    arguments = ["--scenarios", "3", "--hosts", "3", "--jobs", "1", "--story", str(tmp_path / "story.json")]
    for option in ([], ["--through-sdk"]):
        result = CliRunner().invoke(explore, [*arguments, *option], standalone_mode=False)
        assert result.return_value == 0, result.output
    assert seen == [False] * 3 + [True] * 3
