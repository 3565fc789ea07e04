"""Retries, the drain at a stop, and what of a policy or time limit keeps an app from being run; in virtual time."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, cast

import pytest

from simulator.host.app.app_model import AppError, IndexedFunction, Parameter
from simulator.host.app.hostjson import RetryPolicy, declared_policy, function_timeout, host_policy
from simulator.host.process import Runner
from simulator.host.triggers.queue import QueueMessage
from simulator.host.triggers.timer import Tick
from simulator.host.web.site import HttpRequest
from simulator.host.worker import WorkerAnswer, WorkerCall
from singleton.base.errors import ConfigurationError
from tests.support.memory_queues import MemoryQueues
from tests.support.virtual import run_virtual

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from simulator.host.workers import Workers

MESSAGE = QueueMessage(id="m-1", text="", dequeue_count=1, pop_receipt="r")


def function(name: str = "ship") -> IndexedFunction:
    return IndexedFunction(
        name=name,
        call=lambda: None,
        place="",
        directory="",
        is_async=True,
        wants_context=False,
        trigger=Parameter(name="msg", binding="queueTrigger", converter="generic"),
    )


class Given:
    """A runner whose workers answer each call with the next error, after so many seconds.

    ``no_ticks``: the file by which the ticks end; a file that there is not.
    """

    def __init__(
        self, *errors: str | None, takes: float = 0.0, no_ticks: Path = Path("no-ticks"), **policy: Any
    ) -> None:
        self.errors = list(errors)
        self.takes = takes
        self.calls: list[tuple[float, WorkerCall]] = []
        self.events: list[tuple[str, dict[str, object]]] = []
        self.runner = Runner(
            workers=cast("Workers", self),
            queues=MemoryQueues(),
            retries={"ship": RetryPolicy(**policy)} if policy else {},
            limit=None,
            write=lambda event, /, **fields: self.events.append((event, fields)),
            random=Random(1),
            no_ticks=no_ticks,
        )

    async def invoke(self, call: WorkerCall, limit: float | None) -> WorkerAnswer:
        assert limit is None
        self.calls.append((asyncio.get_running_loop().time(), call))
        await asyncio.sleep(self.takes)
        return WorkerAnswer(invocation=call.invocation, error=self.errors.pop(0) if self.errors else None)

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return run_virtual(work)


def test_a_message_is_tried_again_within_its_delivery_under_one_invocation_id_and_fails_once() -> None:
    given = Given(*["ValueError"] * 9, most=2, fixed=5.0)
    assert given.run(given.runner.on_received(function(), MESSAGE)) is False
    assert [at for at, _ in given.calls] == [0.0, 5.0, 10.0]
    assert [call.retry.retry_count for _, call in given.calls] == [0, 1, 2]
    assert {call.retry.max_retry_count for _, call in given.calls} == {2}
    assert len({call.invocation for _, call in given.calls}) == 1


def test_a_try_that_succeeds_is_the_last() -> None:
    given = Given("ValueError", None, most=-1, fixed=0.0)
    assert given.run(given.runner.on_received(function(), MESSAGE)) is True
    assert len(given.calls) == 2


def test_a_timer_is_told_how_often_it_may_be_tried() -> None:
    given = Given("ValueError", most=1, fixed=0.0)
    given.run(given.runner.on_tick(function(), Tick(due=0)))
    assert [(call.retry.retry_count, call.retry.max_retry_count) for _, call in given.calls] == [(0, 1), (1, 1)]


def test_without_a_policy_nothing_is_tried_again() -> None:
    given = Given("ValueError")
    assert given.run(given.runner.on_received(function(), MESSAGE)) is False
    assert len(given.calls) == 1


def test_the_drain_waits_for_what_runs_and_starts_nothing() -> None:
    given = Given(takes=6.0)

    async def main() -> None:
        body = asyncio.create_task(given.runner.on_received(function(), MESSAGE))
        await asyncio.sleep(1)
        draining = asyncio.create_task(given.runner.drain(10.0))
        await asyncio.sleep(1)
        late = [
            asyncio.create_task(given.runner.on_received(function(), MESSAGE)),
            asyncio.create_task(given.runner.on_tick(function(), Tick(due=0))),
        ]
        await draining
        assert asyncio.get_running_loop().time() == pytest.approx(6.2)
        assert body.result() is True
        assert len(given.calls) == 1
        assert not any(task.done() for task in late)
        for task in late:
            task.cancel()
        await asyncio.wait(late)

    given.run(main())


def test_as_the_load_ends_no_timer_ticks_any_more_and_the_tick_under_way_ends(tmp_path: Path) -> None:
    given = Given(takes=6.0, no_ticks=tmp_path / "no-ticks")

    async def main() -> None:
        under_way = asyncio.create_task(given.runner.on_tick(function(), Tick(due=0)))
        await asyncio.sleep(1)
        (tmp_path / "no-ticks").touch()
        late = asyncio.create_task(given.runner.on_tick(function(), Tick(due=1)))
        assert await given.runner.on_received(function(), MESSAGE)
        assert under_way.done()
        assert not late.done()
        assert len(given.calls) == 2
        late.cancel()
        await asyncio.wait({late})

    given.run(main())
    assert [event for event, _ in given.events].count("tick") == 1


def test_the_drain_ends_after_its_time() -> None:
    given = Given(takes=60.0)

    async def main() -> None:
        body = asyncio.create_task(given.runner.on_received(function(), MESSAGE))
        await asyncio.sleep(0)
        await given.runner.drain(10.0)
        assert asyncio.get_running_loop().time() == pytest.approx(10.2)
        assert not body.done()
        body.cancel()
        await asyncio.wait({body})

    given.run(main())


@pytest.mark.parametrize(
    "declared",
    [
        {"strategy": "fixed_delay", "max_retry_count": "2"},
        {"strategy": "fixed_delay", "max_retry_count": "2", "delay_interval": "5"},
        {"strategy": "fixed_delay", "max_retry_count": "2", "delay_interval": "24:00:00"},
        {"strategy": "sometimes", "max_retry_count": "2", "delay_interval": "00:00:05"},
        {"strategy": "fixed_delay", "max_retry_count": None, "delay_interval": "00:00:05"},
        {"strategy": "exponential_backoff", "max_retry_count": "2", "minimum_interval": "1"},
    ],
)
def test_a_malformed_policy_leaves_the_app_without_functions(declared: dict[str, Any]) -> None:
    with pytest.raises(AppError, match=r"^function 'ship': "):
        declared_policy(declared, "function 'ship'")


def test_policies_are_read_as_the_worker_and_the_host_read_them(tmp_path: Path) -> None:
    declared = {"strategy": "fixed_delay", "max_retry_count": "2", "delay_interval": "00:01:05"}
    assert declared_policy(declared, "") == RetryPolicy(most=2, fixed=65.0)
    assert host_policy(tmp_path) is None
    policy = {"strategy": "exponentialBackoff", "maxRetryCount": 3, "minimumInterval": "00:00:02"}
    write(tmp_path, retry={**policy, "maximumInterval": "00:01:00"})
    assert host_policy(tmp_path) == RetryPolicy(most=3, fixed=None, least=2.0, longest=60.0)
    for nothing in ("null", "{}", "[]", "5", '"fixedDelay"'):
        write(tmp_path, retry=json.loads(nothing))
        assert host_policy(tmp_path) is None


@pytest.mark.parametrize(
    ("retry", "wrong"),
    [
        ({"strategy": "fixedDelay", "maxRetryCount": 3, "delayInterval": 5}, "delay_interval"),
        ({"strategy": "fixedDelay", "maxRetryCount": 3, "delayInterval": None}, "delay_interval"),
        ({"strategy": "fixedDelay", "maxRetryCount": None, "delayInterval": "00:00:05"}, "the number of retries"),
        ({"strategy": "exponentialBackoff", "maxRetryCount": 3}, "minimum_interval"),
        ({"strategy": "exponentialBackoff", "maxRetryCount": 3, "minimumInterval": "00:00:02"}, "maximum_interval"),
        (["fixedDelay"], "the number of retries"),
    ],
)
def test_a_policy_of_host_json_with_which_the_host_does_not_start_is_refused(
    tmp_path: Path, retry: object, wrong: str
) -> None:
    write(tmp_path, retry=retry)
    with pytest.raises(AppError, match=rf"^host\.json: {wrong}"):
        host_policy(tmp_path)


def write(folder: Path, **content: Any) -> None:
    (folder / "host.json").write_text(json.dumps({"version": "2.0", **content}))


@pytest.mark.parametrize(("value", "seconds"), [("00:00:03", 3.0), ("00:10:00", 600.0), ("-1", None), (-1, None)])
def test_the_time_limit_is_that_of_host_json(tmp_path: Path, value: object, seconds: float | None) -> None:
    write(tmp_path, functionTimeout=value)
    assert function_timeout(tmp_path, {}) == seconds
    assert function_timeout(tmp_path, {"AzureFunctionsJobHost__functionTimeout": "00:00:07"}) == 7.0


def test_without_a_word_the_time_limit_is_that_of_the_plan(tmp_path: Path) -> None:
    for nothing in ("null", '""', "[]", "{}"):
        write(tmp_path, functionTimeout=json.loads(nothing))
        assert function_timeout(tmp_path, {}) == 1800.0
        assert function_timeout(tmp_path, {"WEBSITE_SKU": "Dynamic"}) == 300.0


@pytest.mark.parametrize("value", ["00:00:00", "-00:00:05", "soon", 5, "5", "00:00:00.5", True])
def test_a_time_limit_with_which_the_real_host_does_not_start_is_refused(tmp_path: Path, value: object) -> None:
    write(tmp_path, functionTimeout=value)
    with pytest.raises(ConfigurationError, match=r"^host\.json: functionTimeout is "):
        function_timeout(tmp_path, {})


def test_consumption_allows_ten_minutes_at_most(tmp_path: Path) -> None:
    for value in ("00:10:01", "-1"):
        write(tmp_path, functionTimeout=value)
        with pytest.raises(ConfigurationError, match="1 second to 10 minutes"):
            function_timeout(tmp_path, {"WEBSITE_SKU": "Dynamic"})


ASKED = HttpRequest(id="r-1", method="GET", url="http://a/api/ship", headers={}, query={}, route={})


def test_a_request_is_run_once_and_answered_also_if_it_failed_or_gave_nothing() -> None:
    given = Given("ValueError: no", None)

    async def ask() -> list[int]:
        return [(await given.runner.on_request(function(), ASKED)).status for _ in range(2)]

    assert given.run(ask()) == [500, 204]
    assert len(given.calls) == 2
    assert {fields.get("request") for _, fields in given.events} == {"r-1"}


def test_a_drain_waits_for_the_answer_of_a_request() -> None:
    given = Given(None, takes=3.0)

    async def stop_meanwhile() -> float:
        answering = asyncio.create_task(given.runner.on_request(function(), ASKED))
        await asyncio.sleep(1)
        await given.runner.drain(10.0)
        assert answering.done()
        return asyncio.get_running_loop().time()

    assert 3.0 <= given.run(stop_meanwhile()) < 4.0
