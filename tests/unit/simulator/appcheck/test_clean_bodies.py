"""Bodies, timers and helpers that only look like mistakes get neither an error nor a warning."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.checked import beside, checked

if TYPE_CHECKING:
    from pathlib import Path


def test_what_only_looks_like_a_mistake_in_a_body_is_right(tmp_path: Path) -> None:
    code = """
    import asyncio, contextlib, time
    from singleton import AsyncLockClient, Inbox, LockClient, current_hold

    class Proxy:
        def __getattr__(self, name): raise RuntimeError("outside of a request")

    import requests
    from azure.storage.blob import BlobServiceClient, aio
    web = requests.Session()
    service = BlobServiceClient.from_connection_string("UseDevelopmentStorage=true")
    aservice = aio.BlobServiceClient.from_connection_string("UseDevelopmentStorage=true")
    request = Proxy()

    locks, alocks, inbox = LockClient("AzureWebJobsStorage"), AsyncLockClient("AzureWebJobsStorage"), Inbox("orders")

    async def work(): ...
    def worked(): return work()
    def pause(): time.sleep(1)
    def token(guarded=True): return current_hold().token if guarded else None

    def in_a_thread(inner):
        @functools.wraps(inner)
        async def call(msg): await asyncio.to_thread(inner, msg)
        return call

    def awaited(inner):
        @functools.wraps(inner)
        async def call(msg): await inner(msg)
        return call

    def again(left=3): return again(left - 1) if left else token(False)

    def with_a_lock(inner):
        @functools.wraps(inner)
        def call(msg):
            with locks.lock("ledger"): return inner(msg)
        return call

    @queue()
    @singleton
    async def ship(msg: func.QueueMessage) -> None:
        def later(): time.sleep(1)
        await asyncio.to_thread(time.sleep, 1)
        await asyncio.to_thread(later)
        await asyncio.to_thread(lambda: time.sleep(1))
        await asyncio.get_running_loop().run_in_executor(None, pause)
        await work()
        await worked()
        task = asyncio.create_task(work())
        await asyncio.gather(task, work())
        answer = await work()
        return answer
        async with alocks.lock("ledger") as hold:
            await hold.state.aread()
        await current_hold().state.awrite({})
        await inbox.asend("a", {})
        locks.lock_name("ledger")
        token()
        web.headers.get("a")
        service.get_blob_client("in", "a")
        async with aservice.get_blob_client("in", "a") as blob:
            await blob.upload_blob(b"")
        request()
        asked = request()
        request.args.get("a")

    @queue()
    @singleton
    def tidy(msg: func.QueueMessage) -> None:
        time.sleep(1)
        coro = work()
        asyncio.run(coro)
        with locks.lock("ledger"): token()

    @queue()
    @singleton
    @in_a_thread
    def read(msg: func.QueueMessage) -> None: time.sleep(1)

    @queue()
    @singleton
    @awaited
    def later(msg: func.QueueMessage) -> None: return work()

    @queue()
    @with_a_lock
    def book(msg: func.QueueMessage) -> None: time.sleep(1)

    @queue()
    @locks.lock("ledger")
    def last(msg: func.QueueMessage) -> None: current_hold().raise_if_lost()

    @queue()
    def free(msg: func.QueueMessage) -> None:
        token(guarded=False)
        again()
        with contextlib.suppress(RuntimeError): current_hold().raise_if_lost()
        try:
            current_hold().raise_if_lost()
        except RuntimeError:
            print("not guarded")
        locks.lock("ledger")(token)()
    """
    checked(tmp_path, code).assert_ok(strict=True)


def test_timers_that_start_as_they_should_are_right(tmp_path: Path) -> None:
    code = """
    @timer(schedule="0 0 1 * * *", run_on_startup=False)
    @singleton
    def tidy(clock: func.TimerRequest) -> None: ...

    @timer(schedule="0 0 1 * * *", run_on_startup=True)
    @singleton(mode="listener")
    def read(clock: func.TimerRequest) -> None: ...

    @timer(schedule="0 0 1 * * *", run_on_startup=True)
    def warm(clock: func.TimerRequest) -> None: ...
    """
    checked(tmp_path, code).assert_ok(strict=True)


def test_a_guarded_function_that_functions_of_the_app_call_is_right(tmp_path: Path) -> None:
    jobs = """
    from singleton import once, singleton

    @singleton
    def job(why: str) -> None: ...

    class Ledger:
        @singleton(scope_id="{entry}")
        def write(self, entry: str) -> None: ...

    @once(key="{order}")
    async def pay(order: str) -> None: ...
    """
    code = """
    import jobs as work
    from jobs import pay

    ledger = work.Ledger()

    @timer(schedule="0 0 3 * * *")
    def nightly(clock: func.TimerRequest) -> None: work.job("timer")

    @queue()
    async def ship(msg: func.QueueMessage) -> None: await pay(order="7")

    @queue()
    def book(msg: func.QueueMessage) -> None: ledger.write("shipped")
    """
    with beside(tmp_path, jobs=jobs):
        report = checked(tmp_path, code)
    assert report.findings == ()
