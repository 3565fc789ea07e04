"""``start_singleton``: of all that ask at the same time, one starts the orchestration."""

from __future__ import annotations

import asyncio
import enum
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from singleton import (
    ConfigurationError,
    LockLost,
    LockNotAcquired,
    StorageUnavailable,
    start_singleton,
)
from singleton.testing.storage.memory_store import MemoryLeaseStore
from tests.support.inline import InlineHost, on
from tests.support.lock_thread import an_app
from tests.support.network import answered
from tests.support.world import now, occupy, until, virtual

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from singleton.patterns.durable import Started

LOCK = "locks/app/%7Edurable.order-7"


@pytest.fixture(autouse=True)
def _app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    an_app(tmp_path, monkeypatch)


class RuntimeStatus(enum.Enum):
    """As the library's: names, and values that spell them the same."""

    Pending = "Pending"
    Running = "Running"
    ContinuedAsNew = "ContinuedAsNew"
    Suspended = "Suspended"
    Completed = "Completed"
    Failed = "Failed"
    Canceled = "Canceled"
    Terminated = "Terminated"


ALIVE = ["Pending", "Running", "ContinuedAsNew", "Suspended"]


@dataclass
class Durable:
    """The task hub: what was started, and when it shows."""

    unseen_for: float = 0.0
    latency: float = 0.1
    instance: Any = None
    started: list[tuple[float, str, str, object]] = field(default_factory=list)
    looks: int = 0

    def ended(self, status: str, created: float = -1.0) -> None:
        self.instance = SimpleNamespace(runtime_status=RuntimeStatus[status], created_time=created)

    async def get_status(self, _: str) -> Any:
        self.looks += 1
        await asyncio.sleep(self.latency / 2)
        seen = self.instance
        await asyncio.sleep(self.latency / 2)
        return seen or SimpleNamespace(runtime_status=None, created_time=None, message="")

    async def start_new(self, orchestrator: str, instance_id: str, client_input: object = None) -> str:
        await asyncio.sleep(self.latency / 2)
        self.begin(orchestrator, instance_id, client_input)
        await asyncio.sleep(self.latency / 2)
        return instance_id

    def begin(self, orchestrator: str, instance_id: str, client_input: object) -> None:
        self.started.append((now(), orchestrator, instance_id, client_input))
        asyncio.get_running_loop().call_later(self.unseen_for, self.ended, "Pending", now())


@contextmanager
def host(service: MemoryLeaseStore, seed: int = 1) -> Iterator[InlineHost]:
    made = InlineHost(service, seed)
    with on(made):
        yield made


async def import_order(client: Any, **more: Any) -> Started:
    return await start_singleton(client, "import_order", "order-7", {"n": 1}, **more)


async def careless(client: Any) -> bool:
    """Start as one does without a lock."""
    if (await client.get_status("order-7")).runtime_status is not None:
        return False
    await client.start_new("import_order", "order-7", {"n": 1})
    return True


# --- one of many ------------------------------------------------------------------------------------------------------


@virtual
async def test_without_the_lock_both_of_two_starters_start() -> None:
    durable = Durable()
    assert all(await asyncio.gather(careless(durable), careless(durable)))
    assert len(durable.started) == 2


@pytest.mark.parametrize("unseen_for", [0.0, 3.0], ids=["seen at once", "seen late"])
def test_of_many_starters_on_several_hosts_one_starts(unseen_for: float) -> None:
    @virtual
    async def story() -> None:
        service, durable = MemoryLeaseStore(), Durable(unseen_for=unseen_for)
        asked = []
        for number in range(4):
            with host(service, number):
                asked += [asyncio.ensure_future(import_order(durable)) for _ in range(3)]
        answers = await asyncio.gather(*asked)
        assert sorted(answer.started for answer in answers) == [False] * 11 + [True]
        assert {answer.status for answer in answers} == {"Pending"}
        assert [start[1:] for start in durable.started] == [("import_order", "order-7", {"n": 1})]
        await asyncio.sleep(1)
        assert service.leased() == {}

    story()


@virtual
async def test_without_a_look_after_the_start_the_next_would_slip_through_and_it_is_bounded() -> None:
    """An instance that Durable does not show for longer than ten seconds may be started again, and that is logged."""
    service, durable = MemoryLeaseStore(), Durable(unseen_for=60)
    with host(service):
        first = await import_order(durable)
        assert (first.started, first.status) == (True, None)
        assert 9 < now() < 11
        assert (await import_order(durable)).started


@virtual
async def test_instances_do_not_wait_for_one_another() -> None:
    service, durable = MemoryLeaseStore(), Durable(unseen_for=5)
    with host(service):
        await asyncio.gather(*(start_singleton(Durable(), "import_order", f"order-{n}") for n in range(5)))
        assert now() < 1
        assert durable.started == []


# --- what stands in the way -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [*ALIVE, "SomethingNew"])
@pytest.mark.parametrize("form", ["enum", "text"])
def test_an_instance_that_has_not_ended_is_not_replaced_and_the_log_says_why(
    status: str, form: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "singleton")

    @virtual
    async def story() -> None:
        durable = Durable()
        kind = SimpleNamespace(name=status, value=0) if form == "enum" else status
        durable.instance = SimpleNamespace(runtime_status=kind, created_time=1)
        with host(service := MemoryLeaseStore()):
            answer = await import_order(durable)
        assert (answer.instance_id, answer.started, answer.status) == ("order-7", False, status)
        assert durable.started == []
        assert f"orchestration 'order-7' was not started: it is {status}" in caplog.text
        assert service.leased() == {}

    story()


@pytest.mark.parametrize("status", ["Completed", "Failed", "Canceled", "Terminated"])
def test_one_that_has_ended_is_started_again_and_the_old_end_is_not_taken_for_the_new(status: str) -> None:
    @virtual
    async def story() -> None:
        durable = Durable(unseen_for=2)
        durable.ended(status)
        with host(MemoryLeaseStore()):
            answer = await import_order(durable)
        assert (answer.started, answer.status) == (True, "Pending")
        assert now() > 2

    story()


@virtual
async def test_a_new_instance_that_has_ended_already_was_seen() -> None:
    durable = Durable()
    durable.ended("Completed", created=-5)
    durable.begin = lambda *_: durable.ended("Failed", created=now())  # type: ignore[method-assign]
    with host(MemoryLeaseStore()):
        answer = await import_order(durable)
    assert (answer.started, answer.status) == (True, "Failed")
    assert now() < 1


@virtual
async def test_an_error_in_place_of_a_status_is_not_read_as_no_instance() -> None:
    durable = Durable()
    durable.instance = SimpleNamespace(runtime_status=None, created_time=None, ExceptionMessage="no storage")
    with (
        host(service := MemoryLeaseStore()),
        pytest.raises(RuntimeError, match=r"'order-7' can't be read: 'no storage"),
    ):
        await import_order(durable)
    assert durable.started == []
    assert service.leased() == {}


# --- what goes wrong --------------------------------------------------------------------------------------------------


class AnswerLost(Durable):
    """Starts, and the answer does not arrive."""

    async def start_new(self, *what: Any) -> str:
        await super().start_new(*what)
        raise ConnectionResetError("reset")


class Refused(Durable):
    async def start_new(self, *_: Any) -> str:
        raise Exception("the orchestrator function 'import_order' doesn't exist")  # noqa: TRY002 - as the client does


class Unreachable(Durable):
    async def start_new(self, *_: Any) -> str:
        raise ConnectionRefusedError("refused")


@virtual
async def test_a_start_whose_answer_was_lost_is_recognised_by_the_instance() -> None:
    durable = AnswerLost(unseen_for=4)
    with host(MemoryLeaseStore()):
        first, second = await asyncio.gather(import_order(durable), import_order(durable))
    assert (first.started, first.status, second.started, len(durable.started)) == (True, "Pending", False, 1)


ALREADY = {"Message": "wrong", "ExceptionMessage": "An Orchestration instance with the status Running already exists."}


class Guarding(Durable):
    """Refuses, as the extension does by default, to replace an instance that runs."""

    async def start_new(self, *what: Any) -> str:
        if self.instance is not None and self.instance.runtime_status.name in ALIVE:
            raise Exception(ALREADY)  # noqa: TRY002 - as the client does
        return await super().start_new(*what)


@pytest.mark.parametrize("ended", [False, True], ids=["it runs", "it has ended by then"])
def test_a_start_that_durable_refused_is_nobodys_but_the_other_starters(*, ended: bool) -> None:
    """Somebody without the lock starts it between the look and the start."""

    @virtual
    async def story() -> None:
        class Raced(Guarding):
            async def start_new(self, *what: Any) -> str:
                self.begin("other", "order-7", None)
                await asyncio.sleep(0.1)
                try:
                    return await super().start_new(*what)
                finally:
                    if ended:
                        self.ended("Completed", self.instance.created_time)

        with host(service := MemoryLeaseStore()):
            answer = await import_order(durable := Raced())
        assert (answer.started, answer.status) == (False, "Completed" if ended else "Pending")
        assert [name for _, name, *_ in durable.started] == ["other"]
        await asyncio.sleep(1)
        assert service.leased() == {}

    story()


@virtual
async def test_a_starter_that_was_stopped_past_its_lease_just_before_its_start_is_told_that_another_started() -> None:
    service = MemoryLeaseStore()

    class Stopped(Guarding):
        async def start_new(self, *what: Any) -> str:
            if not self.started and not hasattr(self, "asleep"):
                self.asleep = True
                service.delete(LOCK)
                await asyncio.sleep(30)
            return await super().start_new(*what)

    durable = Stopped()
    with host(service, 1):
        first = asyncio.ensure_future(import_order(durable))
    await until(20)
    with host(service, 2):
        second = await import_order(durable)
    late = await first
    assert (second.started, late.started, late.status, len(durable.started)) == (True, False, "Pending", 1)


@virtual
async def test_an_answer_that_was_lost_proves_nothing_when_the_lock_was_lost_too() -> None:
    service = MemoryLeaseStore()

    class Lost(Durable):
        async def start_new(self, *_: Any) -> str:
            service.delete(LOCK)
            await asyncio.sleep(20)
            self.begin("other", "order-7", None)
            raise ConnectionResetError("reset")

    with host(service), pytest.raises(ConnectionResetError):
        await import_order(Lost())


@virtual
async def test_an_answer_that_says_no_is_believed_whoever_started_the_instance_meanwhile() -> None:
    class Both(Refused):
        async def start_new(self, *what: Any) -> str:
            self.begin("other", "order-7", None)
            return await super().start_new(*what)

    with host(MemoryLeaseStore()), pytest.raises(Exception, match="doesn't exist"):
        await import_order(Both())


@virtual
async def test_a_wait_for_other_starters_ends_before_the_hosts_time_out_strikes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AzureFunctionsJobHost__functionTimeout", "00:00:40")
    service = MemoryLeaseStore()
    await occupy(service, LOCK)
    with host(service), pytest.raises(LockNotAcquired, match="functionTimeout") as caught:
        await import_order(Durable())
    assert (now(), caught.value.reason) == (35.0, "functionTimeout")


@virtual
async def test_a_start_that_was_refused_fails_at_once() -> None:
    with host(service := MemoryLeaseStore()), pytest.raises(Exception, match="doesn't exist"):
        await import_order(Refused())
    assert now() < 1
    assert service.leased() == {}


@virtual
async def test_a_start_that_did_not_arrive_fails_when_nothing_came_of_it() -> None:
    with host(service := MemoryLeaseStore()), pytest.raises(ConnectionRefusedError):
        await import_order(Unreachable())
    assert 9 < now() < 12
    assert service.leased() == {}


@virtual
async def test_a_look_that_fails_after_the_start_is_repeated() -> None:
    class Flaky(Durable):
        async def get_status(self, instance_id: str) -> Any:
            if self.looks == 1:
                self.looks += 1
                raise ConnectionResetError
            return await super().get_status(instance_id)

    with host(MemoryLeaseStore()):
        answer = await import_order(durable := Flaky())
    assert (answer.started, answer.status, len(durable.started)) == (True, "Pending", 1)


@virtual
async def test_a_lock_lost_before_the_start_starts_nothing() -> None:
    class Slow(Durable):
        async def get_status(self, instance_id: str) -> Any:
            service.delete(LOCK)
            await asyncio.sleep(20)
            return await super().get_status(instance_id)

    service, durable = MemoryLeaseStore(), Slow()
    with host(service), pytest.raises(LockLost, match="is lost"):
        await import_order(durable)
    assert durable.started == []


@virtual
async def test_a_cancelled_starter_keeps_the_lock_until_it_is_known_what_came_of_its_start() -> None:
    service, durable = MemoryLeaseStore(), Durable(unseen_for=5)
    with host(service):
        first = asyncio.ensure_future(import_order(durable))
        await until(0.25)  # in the middle of its start
        first.cancel()
        second = await import_order(durable)
        assert first.cancelled()
    assert (second.started, len(durable.started)) == (False, 1)
    assert now() > 5


@virtual
async def test_one_that_waits_too_long_is_told_so_and_leaves_nothing() -> None:
    service, durable = MemoryLeaseStore(), Durable()
    await occupy(service, LOCK)
    with host(service), pytest.raises(LockNotAcquired):
        await import_order(durable, timeout=3)
    assert (round(now(), 1), durable.looks) == (3.0, 0)


@virtual
async def test_the_apps_option_says_how_long_to_wait_unless_the_call_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AzureFunctionsJobHost__singleton__lockAcquisitionTimeout", "00:00:05")
    service = MemoryLeaseStore()
    await occupy(service, LOCK)
    with host(service), pytest.raises(LockNotAcquired):
        await import_order(Durable())
    assert now() == pytest.approx(5.0, abs=0.1)


@virtual
async def test_where_locks_are_switched_off_it_starts_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AzureFunctionsJobHost__singleton__enabled", "false")
    service = MemoryLeaseStore()
    await occupy(service, LOCK)
    with host(service):
        assert (await import_order(Durable())).started


def test_a_local_machine_at_the_clouds_locks_is_warned(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("AzureWebJobsStorage", "AccountName=starts;AccountKey=a2V5;DefaultEndpointsProtocol=https")
    monkeypatch.setenv("AzureFunctionsJobHost__singleton__hostId", "shared")

    @virtual
    async def story() -> None:
        with host(MemoryLeaseStore()):
            assert (await import_order(Durable())).started

    story()
    assert "it takes the locks of host id 'shared'" in caplog.text


@virtual
async def test_storage_that_does_not_answer_is_no_reason_to_start() -> None:
    durable = Durable()
    with host(MemoryLeaseStore()) as here:
        here.network.fail_all(answered(503))
        with pytest.raises(StorageUnavailable):
            await import_order(durable)
    assert durable.looks == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"orchestrator": ""}, "orchestrator is ''"),
        ({"instance_id": " "}, "instance_id is ' '"),
        ({"instance_id": None}, "instance_id is None"),
        ({"timeout": 0}, "timeout is 0"),
        ({"connection": "Nope"}, "Nope"),
        ({"connection": 5}, "connection is 5"),
        ({"client": None}, "client has the type NoneType, without get_status and start_new"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_asked(arguments: dict[str, Any], said: str) -> None:
    @virtual
    async def story() -> None:
        durable = Durable()
        given: dict[str, Any] = {
            "client": durable,
            "orchestrator": "import_order",
            "instance_id": "order-7",
            **arguments,
        }
        with host(MemoryLeaseStore()), pytest.raises(ConfigurationError, match=said):
            await start_singleton(**given)
        assert durable.looks == 0

    story()


def test_the_locks_of_instances_can_not_be_those_of_functions_or_scopes() -> None:
    @virtual
    async def story() -> None:
        service = MemoryLeaseStore()
        with host(service):
            for instance in ("order-7", "../~x.y", "order-7.", "ORDER-7"):
                await start_singleton(Durable(), "import_order", instance)
        assert {*service.leased(), *service.names()} == {
            LOCK,
            "locks/app/%7Edurable.%2E%2E%2F%7Ex%2Ey",
            "locks/app/%7Edurable.order-7%2E",
            "locks/app/%7Edurable.ORDER-7",
        }

    story()
