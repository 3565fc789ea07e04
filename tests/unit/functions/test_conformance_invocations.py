"""Around an invocation: whose lock, where, one at a time, and what can be seen of it (W-34, W-47 to W-98)."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from singleton import ConfigurationError, LockClient, LockLost, SingletonOptions, current_hold, singleton
from singleton.decorator import guards_of
from singleton.functions import declaration
from tests.support.lock_thread import Context, LockThread, a_job, an_app, call, outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from singleton import Hold

both_kinds = pytest.mark.parametrize("kind", ["sync", "async"])
KEY = "bm8ga2V5"  # none


@pytest.fixture(autouse=True)
def thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LockThread]:
    an_app(tmp_path, monkeypatch, '{"singleton": {"lockAcquisitionMinPollingInterval": "00:00:00.01"}}')
    with LockThread() as running:
        yield running


class Inside:
    """Who is inside bodies, by key: more than one of a key fails."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._keys: list[str] = []
        self.runs: list[str] = []
        self.together = 0

    def body(self, key: str) -> None:
        with self._guard:
            assert key not in self._keys
            self._keys.append(key)
            self.together = max(self.together, len(self._keys))
        time.sleep(0.01)
        with self._guard:
            self._keys.remove(key)
            self.runs.append(key)

    async def async_body(self, key: str) -> None:
        assert key not in self._keys
        self._keys.append(key)
        self.together = max(self.together, len(self._keys))
        await asyncio.sleep(0.01)
        self._keys.remove(key)
        self.runs.append(key)


def all_at_once(jobs: list[Callable[[], Any]]) -> None:
    with ThreadPoolExecutor(len(jobs)) as pool:
        for done in [pool.submit(lambda job=job: outcome(job())) for job in jobs]:  # type: ignore[misc]
            done.result(60)


# --- whose lock, and where ----------------------------------------------------------------------------------------


def test_the_host_id_is_worked_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """W-34."""
    asked = []

    def host_id(*arguments: Any) -> str:
        asked.append(arguments)
        return "myapp"

    monkeypatch.setattr(declaration, "host_id", host_id)
    job = a_job("sync")
    for _ in range(3):
        call(job)
    assert len(asked) == 1
    (guard,) = guards_of(job)
    assert guard.call({}, None).lock == "locks/myapp/job"


@both_kinds
def test_a_connection_names_the_account_and_nothing_happens_in_another(
    thread: LockThread, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """W-47, W-48: the default account is not even opened."""
    monkeypatch.setenv("Secondary", f"AccountName=secondary;AccountKey={KEY}")
    call(a_job(kind, connection="Secondary"))
    (place,) = thread.places
    assert (place.account.endpoint, place.container) == ("https://secondary.blob.core.windows.net", "webjobshost")
    call(a_job(kind))
    assert "127.0.0.1:10000" in thread.places[1].account.endpoint
    assert thread.places[1].container == "webjobshost"


def test_one_store_serves_all_who_name_the_account_in_whichever_way(
    thread: LockThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W-49: case is ignored, and a blank name is the default one."""
    monkeypatch.setenv("AzureWebJobsOrders", f"AccountName=orders;AccountKey={KEY}")
    for name in ("Orders", "orders", "ORDERS", "AzureWebJobsOrders"):
        call(a_job("sync", connection=name))
    assert len(thread.places) == 1
    for client in (LockClient(), LockClient("storage"), LockClient(""), LockClient("AZUREWEBJOBSSTORAGE")):
        with client.lock("job"):
            pass
    call(a_job("sync"))
    assert len(thread.places) == 2


@both_kinds
def test_a_connection_that_can_not_be_made_fails_the_first_attempt_and_not_the_declaration(kind: str) -> None:
    """W-50."""
    job = a_job(kind, connection="Nowhere")
    with pytest.raises(ConfigurationError, match="connection 'Nowhere': there is no app setting"):
        call(job)


def test_the_polling_interval_is_the_apps_unless_a_declaration_has_its_own() -> None:
    """W-27: WebJobs has none for a declaration."""
    (apps,) = guards_of(a_job("sync", pytest.fail))
    assert apps.poll == SingletonOptions().lock_acquisition_polling_interval
    (own,) = guards_of(a_job("sync", pytest.fail, lock_acquisition_polling_interval=1))
    assert own.poll == 1


# --- one at a time --------------------------------------------------------------------------------------------------


@both_kinds
def test_five_calls_each_of_two_functions_that_share_a_scope_never_overlap(thread: LockThread, kind: str) -> None:
    """W-88: ten runs in all, and the lock is free afterwards."""
    inside = Inside()
    guarded = singleton(level="host", scope_id="shared")

    def first(msg: str = "") -> None:
        inside.body("shared")

    def second(msg: str = "") -> None:
        inside.body("shared")

    async def async_first(msg: str = "") -> None:
        await inside.async_body("shared")

    async def async_second(msg: str = "") -> None:
        await inside.async_body("shared")

    if kind == "sync":
        jobs = [guarded(first), guarded(second)]
        all_at_once([lambda job=job: job(msg="") for job in jobs for _ in range(5)])  # type: ignore[misc]
    else:
        async_jobs = [guarded(async_first), guarded(async_second)]

        async def run() -> None:
            await asyncio.gather(*(job(msg="") for job in async_jobs for _ in range(5)))

        asyncio.run(run())
    assert inside.runs == ["shared"] * 10
    assert thread.leased() == set()
    assert thread.memory.names() == ["locks/app/~shared"]


@both_kinds
def test_of_twenty_messages_over_three_zones_those_of_one_zone_never_overlap(thread: LockThread, kind: str) -> None:
    """W-89: others do; one blob for each zone remains, all of them free."""
    inside = Inside()
    messages = [json.dumps({"Region": "testregion", "Zone": number % 3}) for number in range(20)]
    guarded = singleton(scope_id="{Region}-{Zone}")

    def sync_job(msg: str) -> None:
        inside.body(str(json.loads(msg)["Zone"]))

    async def async_job(msg: str) -> None:
        await inside.async_body(str(json.loads(msg)["Zone"]))

    if kind == "sync":
        job = guarded(sync_job)
        all_at_once([lambda text=text: job(msg=text) for text in messages])  # type: ignore[misc]
    else:
        other = guarded(async_job)

        async def run() -> None:
            await asyncio.gather(*(other(msg=text) for text in messages))

        asyncio.run(run())
    assert sorted(inside.runs) == sorted(str(number % 3) for number in range(20))
    assert inside.together > 1
    name = f"locks/app/{kind}_job.testregion-"
    assert sorted(thread.memory.names()) == [f"{name}{zone}" for zone in range(3)]
    assert thread.leased() == set()


@both_kinds
def test_two_messages_of_one_scope_run_one_after_the_other_and_both_succeed(kind: str) -> None:
    """D-39."""
    order: list[str] = []

    def body() -> None:
        order.append("in")
        order.append("out")

    job = a_job(kind, body, scope="Id")
    all_at_once([lambda: call(job, msg='{"Id": 7}')] * 2)
    assert order == ["in", "out"] * 2


# --- what can be seen of it -----------------------------------------------------------------------------------------


@both_kinds
def test_the_body_has_its_lock_as_an_object_with_a_text(kind: str) -> None:
    """W-92, W-93: `current_hold()` is what WebJobs shows as the parameter `(singleton)`."""
    seen: list[tuple[Hold, str]] = []
    call(a_job(kind, lambda: seen.append((current_hold(), repr(current_hold()))), scope="Id"), msg='{"Id": "north"}')
    ((hold, text),) = seen
    assert (hold.lock, hold.owner) == ("locks/app/job.north", "inv-1")
    assert text == f"<Hold 'locks/app/job.north' token {hold.token} held>"
    assert not hold.lost.is_set()


@both_kinds
def test_what_happens_to_a_lock_can_be_followed_from_outside(thread: LockThread, kind: str) -> None:
    """W-93, W-96 to W-98: waiting, held and released are events; how long each took is between them."""
    thread.taken_by_another_process("locks/app/job")
    job = a_job(kind)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(call, job, owner="inv-9")
        end = time.monotonic() + 60
        while not thread.events and time.monotonic() < end:
            time.sleep(0.005)
        assert thread.kinds() == ["waiting"]
        thread.given_back_by_the_other("locks/app/job")
        running.result(60)
    assert thread.kinds() == ["waiting", "acquired", "body_started", "body_ended:ok", "released"]
    assert {(event.lock, event.owner) for event in thread.events} == {("locks/app/job", "inv-9")}


def test_the_owner_of_a_functions_lock_is_its_invocation() -> None:
    """W-58, W-81, W-95."""
    locks = LockClient()
    owners: list[Any] = []

    def look() -> None:
        holder = locks.holder("locks/app/job")
        owners.append(holder and holder.owner)

    call(a_job("sync", look), owner="inv-42")
    look()
    assert owners == ["inv-42", None]  # stale metadata is nobody's
    assert locks.holder("locks/app/nothing") is None


@both_kinds
def test_a_hold_that_was_lost_is_not_held_any_more(thread: LockThread, kind: str) -> None:
    """W-93: IsHeld."""
    held: list[bool] = []

    def body() -> None:
        hold = current_hold()
        held.append(not hold.lost.is_set())
        thread.deleted(hold.lock)
        assert hold.lost.wait(60)
        held.append(not hold.lost.is_set())

    with pytest.raises(LockLost):
        call(a_job(kind, body))
    assert held == [True, False]


def test_an_invocation_is_told_from_another_by_the_context_of_the_worker() -> None:
    """W-58: not by anything of ours."""
    owners: list[str] = []
    job = a_job("sync", lambda: owners.append(current_hold().owner))
    for invocation in ("a", "b"):
        job(msg="", context=Context(invocation))
    job(msg="")
    assert owners == ["a", "b", ""]
