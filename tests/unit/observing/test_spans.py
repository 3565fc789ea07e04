"""Spans: one for waiting and one for holding, children of the span that is current where the lock is asked for."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from singleton import (
    AsyncLockClient,
    LockClient,
    LockNotAcquired,
    StorageDenied,
    current_hold,
    holds,
    observe,
    once,
    singleton,
    subscribe,
)
from singleton.stores.protocol import StoreFailure
from singleton.testing import held_elsewhere, lose, virtual_time
from singleton.testing.storage.memory_store import MemoryLeaseStore
from tests.support.lock_thread import Context, LockThread, a_job, an_app, call

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from opentelemetry.sdk.trace import ReadableSpan

    from singleton import LockEvent


class Traces:
    """The spans that have ended."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = self.provider.get_tracer("app")

    def named(self, words: str) -> list[ReadableSpan]:
        spans = [span for span in self.exporter.get_finished_spans() if span.name.startswith(words)]
        return sorted(spans, key=lambda span: span.start_time or 0)

    def one(self, words: str) -> ReadableSpan:
        (span,) = self.named(words)
        return span


def parent(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


def told(span: ReadableSpan) -> dict[str, Any]:
    return {name.removeprefix("singleton."): value for name, value in (span.attributes or {}).items()}


@pytest.fixture(autouse=True)
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    an_app(tmp_path, monkeypatch)


@pytest.fixture
def traces() -> Iterator[Traces]:
    known = Traces()
    end = observe(tracer_provider=known.provider)
    yield known
    end()


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_an_invocation_has_a_wait_and_a_hold_as_children(kind: str, traces: Traces) -> None:
    job = a_job(kind)
    with LockThread(), traces.tracer.start_as_current_span("invocation") as invocation:
        call(job, owner="inv-1")
    mine = invocation.get_span_context().span_id
    wait, hold = traces.one("singleton wait"), traces.one("singleton hold")
    assert (wait.name, hold.name) == ("singleton wait job", "singleton hold job")
    assert [parent(wait), parent(hold)] == [mine, mine]
    assert told(wait) == {"mode": "function", "function": "job", "owner": "inv-1", "outcome": "acquired"}
    assert told(hold)["token"] > 0
    assert (wait.end_time or 0) <= (hold.start_time or 0) + 1_000_000


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_where_the_worker_attaches_no_span_wait_and_hold_are_one_trace(kind: str, traces: Traces) -> None:
    job = a_job(kind)
    with LockThread():
        for _ in range(2):
            call(job, owner="inv-1")
    waits, holds = traces.named("singleton wait"), traces.named("singleton hold")
    assert [parent(wait) for wait in waits] == [None, None]
    assert [parent(hold) for hold in holds] == [wait.context.span_id for wait in waits]
    assert len({span.context.trace_id for span in (*waits, *holds)}) == 2


@pytest.mark.parametrize("kind", [LockClient, AsyncLockClient])
def test_a_client_has_them_too_though_its_locks_live_on_another_thread(kind: Any, traces: Traces) -> None:
    async def held() -> None:
        async with AsyncLockClient().lock("a", owner="me"):
            pass

    with LockThread(), traces.tracer.start_as_current_span("mine") as mine:
        if kind is AsyncLockClient:
            asyncio.run(held())
        else:
            with LockClient().lock("a", owner="me"):
                assert threading.current_thread() is threading.main_thread()
    for span in (traces.one("singleton wait"), traces.one("singleton hold")):
        assert parent(span) == mine.get_span_context().span_id
        assert told(span)["mode"] == "lock"


@virtual_time
async def test_a_hold_is_linked_to_the_one_before_it(traces: Traces) -> None:
    locks = AsyncLockClient()
    for _ in range(3):
        async with locks.lock("a"):
            pass
    async with locks.lock("b"):
        pass
    first, second, third, other = traces.named("singleton hold")
    assert [len(span.links) for span in (first, second, third, other)] == [0, 1, 1, 0]
    assert second.links[0].context == first.context
    assert third.links[0].context == second.context


@virtual_time
async def test_a_long_wait_is_one_span_however_often_it_polls(traces: Traces) -> None:
    locks = AsyncLockClient()
    with held_elsewhere("a"), pytest.raises(LockNotAcquired):
        await locks.acquire("a", timeout=300)
    assert told(traces.one("singleton")) == {"mode": "lock", "outcome": "contended", "policy": "wait"}


def test_a_wait_that_fails_says_so(traces: Traces, monkeypatch: pytest.MonkeyPatch) -> None:
    async def denied(*_: object) -> str:
        raise StoreFailure(403, "AuthorizationFailure")

    with LockThread() as thread:
        monkeypatch.setattr(thread.memory, "acquire", denied)
        with pytest.raises(StorageDenied):
            call(a_job("sync"))
    wait = traces.one("singleton")
    assert wait.status.status_code is StatusCode.ERROR
    assert told(wait)["error.type"] == "StorageDenied"


@virtual_time
async def test_a_loss_is_an_event_of_its_hold(traces: Traces) -> None:
    async def lost() -> None:
        await asyncio.to_thread(lose, current_hold(), "broken")
        await asyncio.sleep(100.0)

    with pytest.raises(Exception, match="broken"):
        await a_job("async", lost)(context=Context())
    hold = traces.one("singleton hold")
    assert [event.name for event in hold.events] == ["lost"]
    assert hold.status.description == "the lock was lost: broken"


@contextmanager
def tells_of(listener: Callable[[LockEvent], None]) -> Iterator[None]:
    unsubscribe = subscribe(listener)
    yield
    unsubscribe()


class SlowRelease(MemoryLeaseStore):
    """A store that gives a lease back when ``go`` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.go = asyncio.Event()

    async def release(self, name: str, lease_id: str) -> None:
        await self.go.wait()
        await super().release(name, lease_id)

    async def let_go(self) -> None:
        self.go.set()


@pytest.mark.parametrize("of_once", [False, True])
def test_the_span_of_a_hold_ends_although_its_invocation_was_cancelled_during_the_release(
    traces: Traces, of_once: bool
) -> None:
    async def job(msg: str = "", context: Any = None) -> None: ...

    guarded = once(key="Id")(job) if of_once else singleton(job)

    async def main() -> None:
        ended = asyncio.Event()
        with tells_of(lambda event: ended.set() if event.kind == "body_ended" else None):
            invocation = asyncio.create_task(guarded(msg='{"Id": 1}', context=Context("inv-1")))
            await ended.wait()
        invocation.cancel()
        await asyncio.wait({invocation})
        assert invocation.cancelled()

    store = SlowRelease()
    with LockThread(store) as thread:
        asyncio.run(main())
        assert len(holds().held) == 1, "the lease is not yet released"
        thread.do(store.let_go)
        while holds().held:
            thread.do(store.let_go)
        assert thread.kinds()[-2:] == ["body_ended:ok", "released"]
    assert traces.one("singleton hold").name == "singleton hold job"


@virtual_time
async def test_a_listener_has_none_for_it_lasts_as_long_as_its_process(traces: Traces) -> None:
    await a_job("async", mode="listener")(context=Context())
    async with AsyncLockClient().leadership("poller") as leadership:
        await leadership
    assert not traces.named("singleton")


@virtual_time
async def test_no_span_has_the_lock_unless_asked_for(traces: Traces) -> None:
    locks = AsyncLockClient()
    async with locks.lock("orders/7"):
        pass
    assert all("lock" not in told(span) for span in traces.named("singleton"))
    end = observe(scopes=True, tracer_provider=traces.provider)
    async with locks.lock("orders/8"):
        pass
    end()
    assert told(traces.named("singleton hold")[-1])["lock"] == "orders/8"


@virtual_time
async def test_the_locks_that_are_remembered_for_links_are_bounded(traces: Traces) -> None:
    from singleton.base.events import LockEvent
    from singleton.observing.metrics import Spans

    spans = Spans(traces.tracer, scopes=False)
    for number in range(3000):
        for kind in ("waiting", "acquired", "released"):
            spans.take(LockEvent(kind=kind, lock=f"a{number}", use=number))
    assert len(spans._before) <= 1024
    assert not spans._waits
    assert not spans._holds
