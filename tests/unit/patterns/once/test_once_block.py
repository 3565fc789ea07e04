"""``once`` with lock clients: the first does it, a repeat gets what is kept, and what that costs."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from singleton import (
    AsyncLockClient,
    ConfigurationError,
    LockClient,
    LockLost,
    LockNotAcquired,
    Operation,
    ResultNotKept,
    ScopeError,
    StorageDenied,
    StorageError,
    StorageUnavailable,
    once,
)
from singleton.base.state import STATE_KEY, UNTIL_KEY
from singleton.patterns.once.block import BaseOperation
from singleton.patterns.once.keys import once_name
from singleton.testing import lose, memory_locks, virtual_time
from tests.support.lock_thread import LockThread, an_app
from tests.support.network import FINE, LOST_REPLY, LOST_REQUEST, Fate, answered
from tests.support.once_hosts import hosts
from tests.support.world import until, virtual

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from singleton import Hold
    from singleton.base.state import Kept

DAY = 86_400.0


class Work:
    """Counts how often it was done; each time has another result."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.done = 0
        self.seconds = seconds

    async def __call__(self, *_: object) -> Any:
        await asyncio.sleep(self.seconds)
        self.done += 1
        return {"receipt": self.done}


@pytest.fixture
def thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LockThread]:
    an_app(tmp_path, monkeypatch)
    with LockThread() as running:
        yield running


# --- one effect, one result -------------------------------------------------------------------------------------------


@virtual
async def test_a_repeat_gets_the_result_without_doing_it_and_costs_one_request() -> None:
    work = Work()
    async with hosts(3) as (first, second, third):
        await first.run(
            lambda locks: once(locks, "41", name="charge").run(lambda: None)
        )  # such names are new, it learns
        first.network.requests.clear()
        assert await first.run(lambda locks: once(locks, "42", name="charge").run(work)) == {"receipt": 1}
        assert first.network.calls() == ["get", "create", "acquire", "put", "release"]
        for host in (second, third, first):
            host.network.requests.clear()
            assert await host.run(lambda locks: once(locks, "42", name="charge").run(work)) == {"receipt": 1}
            assert host.network.calls() == ["get"]
        assert first.network.service.names() == ["once/charge/41", "once/charge/42"]
    assert work.done == 1


@virtual
async def test_one_that_comes_meanwhile_waits_and_gets_the_result() -> None:
    work = Work(seconds=20)
    async with hosts() as (first, second):
        running = first.start(lambda locks: once(locks, "42").run(work))
        await until(1)
        assert await second.run(lambda locks: once(locks, "42").run(work)) == {"receipt": 1}
        assert await running == {"receipt": 1}
        polls = len(second.network.sent("acquire"))
        rest = [call for call in second.network.calls() if call != "acquire"]
        assert (polls > 2, rest) == (True, ["get", "read", "write", "get", "release"])
    assert work.done == 1


@virtual
async def test_one_that_comes_meanwhile_may_be_refused_after_two_requests() -> None:
    work = Work(seconds=20)
    async with hosts() as (first, second):
        running = first.start(lambda locks: once(locks, "42").run(work))
        await until(1)
        with pytest.raises(LockNotAcquired):
            await second.run(lambda locks: once(locks, "42", timeout=0).run(work))
        assert second.network.calls()[:2] == ["get", "acquire"]
        await running
    assert work.done == 1


@virtual
async def test_many_of_one_process_share_one_effect() -> None:
    work = Work(seconds=1)
    async with hosts(1) as (host,):
        tasks = [host.start(lambda locks: once(locks, "42").run(work)) for _ in range(20)]
        assert await asyncio.gather(*tasks) == [{"receipt": 1}] * 20
    assert work.done == 1


@virtual
async def test_other_keys_and_other_names_are_other_operations() -> None:
    work = Work()
    async with hosts(1) as (host,):
        got = [
            await host.run(lambda locks, key=key, name=name: once(locks, key, name=name).run(work))  # type: ignore[misc]
            for key, name in [("1", ""), ("2", ""), ("1", "charge"), ("charge/1", ""), (1, "")]
        ]
    assert [result["receipt"] for result in got] == [1, 2, 3, 4, 1]


@virtual
async def test_a_body_that_raises_has_not_done_it() -> None:
    async with hosts() as (first, second):

        async def fail(locks: AsyncLockClient) -> None:
            async with once(locks, "42") as operation:
                raise ArithmeticError(operation.key)

        with pytest.raises(ArithmeticError):
            await first.run(fail)
        assert await second.run(lambda locks: once(locks, "42").run(Work())) == {"receipt": 1}


@virtual
async def test_a_block_that_ends_without_finish_is_done_and_has_no_result() -> None:
    async with hosts() as (first, second):

        async def forget(locks: AsyncLockClient) -> tuple[bool, Any, bool]:
            async with once(locks, "42") as operation:
                before = operation.done
            return before, operation.result, operation.token is None

        assert await first.run(forget) == (False, None, False)
        assert await second.run(forget) == (True, None, True)


@virtual
async def test_a_process_that_dies_at_it_is_taken_over_after_its_lease_with_a_greater_token() -> None:
    tokens: list[int] = []
    async with hosts() as (first, second):

        async def work(locks: AsyncLockClient, seconds: float) -> None:
            async with once(locks, "42") as operation:
                assert operation.token is not None
                tokens.append(operation.token)
                await asyncio.sleep(seconds)
                await operation.finish("done")

        dying = first.start(lambda locks: work(locks, 1_000))
        await until(1)
        first.network.fail_all(LOST_REQUEST)
        began = asyncio.get_running_loop().time()
        await second.run(lambda locks: work(locks, 1))
        assert asyncio.get_running_loop().time() - began < 15 + 5 + 2
        assert tokens == sorted(set(tokens))
        dying.cancel()


# --- until when -------------------------------------------------------------------------------------------------------


@virtual
async def test_a_result_is_kept_for_so_long_by_the_services_clock_and_then_is_as_if_it_never_was() -> None:
    work = Work()
    async with hosts() as (first, second):
        for host in (first, second):
            await host.run(lambda locks: once(locks, "42", keep=timedelta(days=1)).run(work))
        await until(DAY - 10)
        assert await second.run(lambda locks: once(locks, "42").run(work)) == {"receipt": 1}
        await until(DAY + 10)
        assert await second.run(lambda locks: once(locks, "42", keep=DAY).run(work)) == {"receipt": 2}
        await until(2 * DAY)
        assert await first.run(lambda locks: once(locks, "42").run(work)) == {"receipt": 2}


@virtual
async def test_one_that_fails_after_a_result_has_expired_does_not_bring_it_back() -> None:
    async with hosts() as (first, second):
        await first.run(lambda locks: once(locks, "42", keep=60).run(Work()))
        await until(100)
        with pytest.raises(ZeroDivisionError):
            await second.run(lambda locks: once(locks, "42").run(lambda: 1 / 0))
        assert await first.run(lambda locks: once(locks, "42").run(lambda: "new")) == "new"


@virtual
async def test_until_when_counts_the_time_that_the_work_took() -> None:
    async with hosts(1) as (host,):
        await host.run(lambda locks: once(locks, "42", keep=60).run(Work(seconds=500)))
        (blob,) = (await host.network.service.page("", None)).entries
        assert 560 <= int(blob.metadata[UNTIL_KEY]) <= 562
        assert blob.metadata[STATE_KEY] == "once"


# --- results ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("result", "read"),
    [
        (b"\x00\xff", b"\x00\xff"),
        ({"a": [1, 2.5, None, "ä"]}, {"a": [1, 2.5, None, "ä"]}),
        ((1, 2), [1, 2]),
    ],
    ids=repr,
)
def test_the_first_gets_what_a_repeat_will_get(thread: LockThread, result: object, read: object) -> None:
    with LockClient() as locks:
        for given in (once(locks, "42").run(lambda: result), once(locks, "42").run(lambda: "another")):
            assert (type(given), given) == (type(read), read)


def test_work_is_given_by_place_or_by_name_and_may_have_an_argument_of_that_name(thread: LockThread) -> None:
    def charge(work: str, self: str = "") -> str:
        return work + self

    async def charge_async(work: str, self: str = "") -> str:
        return charge(work, self)

    async def main() -> list[str]:
        async with AsyncLockClient() as locks:
            one = await once(locks, "1").run(charge_async, work="a", self="b")
            return [one, await once(locks, "2").run(work=lambda: "c")]

    with LockClient() as locks:
        assert once(locks, "3").run(charge, work="a", self="b") == "ab"
        assert once(locks, "4").run(work=lambda: "c") == "c"
        with pytest.raises(TypeError, match="no argument work: give the function"):
            once(locks, "5").run()
    assert asyncio.run(main()) == ["ab", "c"]


@pytest.mark.parametrize(
    "result",
    [object(), float("nan"), {"a": {1, 2}}, "x" * 9_000_000, {1: "one", "1": "text"}, [({None: 0},)]],
    ids=lambda _: "",
)
def test_a_result_that_cant_be_kept_is_an_error_for_all_and_it_is_done_all_the_same(
    thread: LockThread, result: object
) -> None:
    with LockClient() as locks:
        with pytest.raises(ResultNotKept, match="is done, and will not be done again") as told:
            once(locks, "42").run(lambda: result)
        assert told.value.lock == "once/42"
        with once(locks, "42") as operation:
            assert operation.done
            with pytest.raises(ResultNotKept, match="its result could not be kept: "):
                _ = operation.result


def test_a_result_is_never_replaced(thread: LockThread) -> None:
    with LockClient() as locks, once(locks, "42") as operation:
        with pytest.raises(RuntimeError, match="not done yet"):
            _ = operation.result
        operation.raise_if_lost()
        operation.finish("first")
        with pytest.raises(RuntimeError, match="is finished"):
            operation.finish("second")
        assert (operation.done, operation.result) == (True, "first")
        assert "done" in repr(operation)


def test_finish_says_at_once_that_a_result_cant_be_kept(thread: LockThread) -> None:
    with LockClient() as locks, once(locks, "42") as operation:
        with pytest.raises(ResultNotKept):
            operation.finish(object())
        assert operation.done


@virtual
async def test_of_two_results_at_a_time_one_is_refused() -> None:
    async with hosts(1) as (host,):

        async def twice(locks: AsyncLockClient) -> Any:
            async with once(locks, "42") as operation:
                finishing = operation.finish("first"), operation.finish("second")
                first, second = await asyncio.gather(*finishing, return_exceptions=True)
                assert first is None
                assert isinstance(second, RuntimeError)
            return operation.result

        assert await host.run(twice) == "first"
        assert await host.run(lambda locks: once(locks, "42").run(Work())) == "first"


def test_something_else_in_the_locks_blob_is_an_error_and_stays_there(thread: LockThread) -> None:
    with LockClient() as locks:
        with locks.lock("once/42") as hold:
            hold.state.write({"cursor": 7})
        with pytest.raises(StorageError, match="which is not known here"):
            once(locks, "42").run(lambda: "mine")
        with locks.lock("once/42") as hold:
            assert hold.state.read() == {"cursor": 7}


def test_an_operator_may_read_what_is_kept_and_remove_it(thread: LockThread) -> None:
    with LockClient() as locks:
        once(locks, "42").run(lambda: "first")
        with locks.lock("once/42") as hold:
            assert hold.state.read()["result"] == {"json": "first"}
            hold.state.remove()
        assert once(locks, "42").run(lambda: "second") == "second"


def test_a_plain_client_refuses_coroutines_and_has_done_nothing(thread: LockThread) -> None:
    async def work() -> None: ...

    with LockClient() as locks:
        for each in (work, lambda _=None: work()):
            with pytest.raises(TypeError, match="AsyncLockClient"):
                once(locks, "42").run(each)
        assert once(locks, "42").run(lambda: "done") == "done"


def test_a_block_on_a_thread_is_the_same(thread: LockThread) -> None:
    def ship(locks: LockClient) -> Any:
        with once(locks, "42", name="ship", owner="me") as operation:
            assert isinstance(operation, Operation)
            if operation.done:
                return operation.result
            operation.finish("shipped")
        return operation.result

    with LockClient() as locks:
        assert (ship(locks), ship(locks)) == ("shipped", "shipped")
        assert thread.leased() == set()
        block = once(locks, "new")
        with block:
            pass
        with pytest.raises(RuntimeError, match="entered before"), block:
            pass


# --- a lock that is lost ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("finishes", [True, False])
def test_a_loss_before_the_result_is_raised_once_and_the_result_is_not_kept(*, finishes: bool) -> None:
    def work(locks: LockClient) -> None:
        with once(locks, "42") as operation:
            assert operation._hold is not None
            lose(operation._hold)
            if finishes:
                operation.finish("too late")

    with memory_locks(), LockClient() as locks:
        with pytest.raises(LockLost) as caught:
            work(locks)
        assert not hasattr(caught.value, "__notes__")
        assert once(locks, "42").run(lambda: "done") == "done"


def test_an_operation_does_not_begin_when_the_lock_was_lost_during_the_look(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = BaseOperation._begin

    def slowly(operation: BaseOperation, hold: Hold, kept: Kept) -> bool:
        lose(hold)
        return looked(operation, hold, kept)

    with memory_locks(), LockClient() as locks:
        with monkeypatch.context() as patch:
            patch.setattr(BaseOperation, "_begin", slowly)
            with pytest.raises(LockLost) as caught:
                once(locks, "42").run(pytest.fail, "it began")
            assert not hasattr(caught.value, "__notes__")
        assert once(locks, "42").run(lambda: "done") == "done"


@virtual_time
async def test_a_coroutine_does_not_begin_when_the_lock_was_lost_during_the_look() -> None:
    looked, locks = BaseOperation._begin, AsyncLockClient()

    def slowly(operation: BaseOperation, hold: Hold, kept: Kept) -> bool:
        lose(hold)
        return looked(operation, hold, kept)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BaseOperation, "_begin", slowly)
        with pytest.raises(LockLost):
            await once(locks, "42").run(pytest.fail, "it began")
    assert await once(locks, "42").run(lambda: "done") == "done"


def test_a_loss_after_the_result_changes_nothing() -> None:
    def work(locks: LockClient) -> Any:
        with once(locks, "42") as operation:
            operation.finish("kept")
            assert operation._hold is not None
            lose(operation._hold)
        return operation.result

    with memory_locks(), LockClient() as locks:
        assert work(locks) == "kept"
        assert once(locks, "42").run(lambda: "again") == "kept"


@virtual_time
async def test_a_coroutine_has_no_result_after_a_loss() -> None:
    locks = AsyncLockClient()

    async def work() -> None:
        async with once(locks, "42") as operation:
            assert operation._hold is not None
            lose(operation._hold)
            await asyncio.sleep(30)

    with pytest.raises(LockLost) as caught:
        await work()
    assert not hasattr(caught.value, "__notes__")
    assert await once(locks, "42").run(lambda: "done") == "done"


@virtual_time
async def test_a_coroutine_that_has_its_result_is_no_failure_after_a_loss() -> None:
    locks = AsyncLockClient()
    async with once(locks, "42") as operation:
        await operation.finish("kept")
        assert operation._hold is not None
        lose(operation._hold)
    assert await once(locks, "42").run(lambda: "again") == "kept"


# --- trouble ----------------------------------------------------------------------------------------------------------


@virtual
async def test_storage_that_fails_is_an_error_before_anything_is_done() -> None:
    work = Work()
    async with hosts(1) as (host,):
        host.network.always("get", answered(503, "ServerBusy"))
        with pytest.raises(StorageUnavailable):
            await host.run(lambda locks: once(locks, "42").run(work))
        host.network.heal()
        host.network.plan("get", answered(503, "ServerBusy"))
        assert await host.run(lambda locks: once(locks, "42").run(work)) == {"receipt": 1}


@virtual
async def test_who_may_not_read_what_is_kept_does_nothing() -> None:
    work = Work()
    async with hosts(1) as (host,):
        host.network.plan("get", answered(403, "AuthorizationPermissionMismatch"))
        with pytest.raises(StorageDenied):
            await host.run(lambda locks: once(locks, "42").run(work))
    assert work.done == 0


@virtual
async def test_a_lost_reply_to_the_result_is_asked_for_again_and_changes_nothing() -> None:
    work = Work()
    async with hosts() as (first, second):
        first.network.plan("put", LOST_REPLY)
        assert await first.run(lambda locks: once(locks, "42").run(work)) == {"receipt": 1}
        assert await second.run(lambda locks: once(locks, "42").run(work)) == {"receipt": 1}
    assert work.done == 1


@virtual
async def test_a_result_of_which_nobody_knows_whether_it_was_kept_is_not_returned_and_not_replaced() -> None:
    work = Work()
    async with hosts() as (first, second):
        first.network.always("put", LOST_REPLY)

        async def stubborn(locks: AsyncLockClient) -> None:
            async with once(locks, "42") as operation:
                with pytest.raises(StorageUnavailable):
                    await operation.finish(await work())
                first.network.heal()
                with pytest.raises(RuntimeError, match="is finished"):
                    await operation.finish("another")

        with pytest.raises(StorageUnavailable):
            await first.run(stubborn)
        assert await second.run(lambda locks: once(locks, "42").run(work)) == {"receipt": 1}
    assert work.done == 1


@pytest.mark.parametrize("fate", [LOST_REPLY, LOST_REQUEST], ids=["kept", "not kept"])
@virtual
async def test_a_result_without_an_answer_before_the_loss_may_count_and_a_repeat_finds_out(fate: Fate) -> None:
    work = Work()
    async with hosts() as (first, second):

        async def do(locks: AsyncLockClient) -> None:
            async with once(locks, "42") as operation:
                result = await work()
                first.network.fail_all(fate)
                await operation.finish(result)

        with pytest.raises(StorageUnavailable, match="it is not known whether this was written"):
            await first.run(do)
        kept = fate is LOST_REPLY
        assert await second.run(lambda locks: once(locks, "42").run(work)) == {"receipt": 1 if kept else 2}


@virtual
async def test_who_lost_the_lock_before_is_told_that_the_result_does_not_count() -> None:
    work = Work()
    async with hosts() as (first, second):

        async def do(locks: AsyncLockClient) -> None:
            async with once(locks, "42") as operation:
                await operation.finish(await work())

        first.network.decide = lambda request: LOST_REQUEST if request.call == "renew" else FINE
        work.seconds = 20
        with pytest.raises(LockLost):
            await first.run(do)
        assert await second.run(lambda locks: once(locks, "42").run(work)) == {"receipt": 2}


@virtual
async def test_of_a_finish_that_its_caller_gave_up_nobody_knows() -> None:
    async with hosts() as (first, second):

        async def impatient(locks: AsyncLockClient) -> None:
            async with once(locks, "42") as operation:
                first.network.plan("put", Fate(down=3.0))
                with suppress(TimeoutError):
                    async with asyncio.timeout(1):
                        await operation.finish("first")

        with pytest.raises(StorageUnavailable, match="not known whether the result was kept") as told:
            await first.run(impatient)
        assert told.value.reason == "interrupted"
        assert await second.run(lambda locks: once(locks, "42").run(lambda: "second")) == "first"


# --- what is asked for ------------------------------------------------------------------------------------------------


@virtual_time
async def test_keys_that_are_none_are_refused() -> None:
    locks = AsyncLockClient("UseDevelopmentStorage=true")
    for key, why in [(None, "null"), ("", "empty"), ("  ", "blank"), ({}, "an object"), (object(), "type object")]:
        with pytest.raises((ScopeError, ConfigurationError), match=why if key is not None else "None"):
            once(locks, key)  # type: ignore[call-overload]


@virtual_time
async def test_arguments_that_go_with_the_other_form_are_refused() -> None:
    locks = AsyncLockClient("UseDevelopmentStorage=true")
    wrong: list[Any] = [
        lambda: once(locks),  # type: ignore[call-overload]
        lambda: once(object(), "42"),  # type: ignore[call-overload]
        lambda: once(lambda: None),  # type: ignore[call-overload]
        lambda: once(locks, "42", on_contention="raise"),  # type: ignore[call-overload]
        lambda: once(locks, "42", name=7),  # type: ignore[call-overload]
        lambda: once(locks, "42", keep=0),
        lambda: once(locks, "42", timeout=-1),
        lambda: once(key="Id", name="charge"),  # type: ignore[call-overload]
    ]
    for each in wrong:
        with pytest.raises(ConfigurationError):
            each()


@pytest.mark.parametrize(
    ("parts", "name"),
    [
        (("42",), "once/42"),
        (("app", "charge", "a/b"), "once/app/charge/a%2Fb"),
        (("..", "~x"), "once/%2E%2E/%7Ex"),
        (("charge", "\ud800"), "once/charge/%ED%A0%80"),
    ],
)
def test_names_are_safe(parts: tuple[str, ...], name: str) -> None:
    assert once_name(*parts) == name


def test_long_keys_have_names_of_their_own() -> None:
    names = {once_name("charge", "k" * 300 + str(number)) for number in range(10)}
    assert len(names) == 10
    assert max(map(len, names)) <= 250
