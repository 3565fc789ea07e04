"""Run invocations: give them to a worker, repeat them by their retry policy, send their outputs, say how they ended."""

from __future__ import annotations

import asyncio
import time
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from simulator.host.app.hostjson import NO_RETRY, RetryPolicy
from simulator.host.triggers.queues import Backoff
from simulator.host.web.site import FAILED, NOTHING
from simulator.host.worker import RetryContext, WorkerAnswer, WorkerCall
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    from collections.abc import Mapping
    from random import Random

    from simulator.history.journal import Write
    from simulator.host.app.app_model import IndexedFunction
    from simulator.host.triggers.delivery import Delivery
    from simulator.host.triggers.queues import HostQueues, QueueMessage
    from simulator.host.triggers.timer import Tick
    from simulator.host.web.site import HttpRequest, HttpResponse

LAST_WORDS: Final = 0.2
"""Seconds for what the host does after a body's end, such as writing a timer's status."""


class Callee(Protocol):
    """Who runs functions: the workers."""

    async def invoke(self, call: WorkerCall, limit: float | None) -> WorkerAnswer:
        """Run a function; return its answer, or what happened to it."""


class Runner:
    """Runs the functions of one host; lives on the host's loop."""

    def __init__(
        self,
        *,
        workers: Callee,
        queues: HostQueues,
        retries: Mapping[str, RetryPolicy],
        limit: float | None,
        write: Write,
        random: Random,
    ) -> None:
        self._workers = workers
        self._queues = queues
        self._retries = retries
        self._limit = limit
        self._write = write
        self._random = random
        self._stopping = False
        self._running: set[asyncio.Future[Any]] = set()

    async def drain(self, seconds: float) -> None:
        """Start nothing more, and give what runs so many seconds to end (H-89)."""
        self._stopping = True
        if self._running:
            await asyncio.wait(self._running, timeout=seconds)
            await asyncio.sleep(LAST_WORDS)

    async def on_message(self, function: IndexedFunction, message: QueueMessage) -> bool:
        """Run a queue-triggered function on a message; tell whether it succeeded."""
        return await self._on_received(function, message)

    async def on_delivery(self, function: IndexedFunction, delivery: Delivery) -> bool:
        """Run a function on a message, event, blob or document; tell whether it succeeded."""
        return await self._on_received(function, delivery)

    async def on_request(self, function: IndexedFunction, request: HttpRequest) -> HttpResponse:
        """Run an HTTP function; return what its caller gets."""
        self._run_to_the_end()
        answer = await self._tries(function, request, shown=0, told={"request": request.id})
        return FAILED if answer.error is not None else answer.response or NOTHING

    async def _on_received(self, function: IndexedFunction, message: QueueMessage | Delivery) -> bool:
        await self._unless_stopping()
        self._run_to_the_end()
        answer = await self._tries(function, message, shown=0, told={"message": message.id})
        return answer.error is None

    def _run_to_the_end(self) -> None:
        """Let a drain wait for the task that runs this, also until it has told how it ended."""
        task = asyncio.current_task()
        if task is not None:
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def on_tick(self, function: IndexedFunction, tick: Tick) -> None:
        """Run a timer-triggered function."""
        await self._unless_stopping()
        running: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._running.add(running)
        try:
            self._write(
                "tick", function=function.name, due=round(tick.due, 3), now=round(time.time(), 3), why=tick.reason
            )
            await self._tries(function, tick, shown=self._policy(function).most, told={})
        finally:
            running.set_result(None)
            self._running.discard(running)

    async def _unless_stopping(self) -> None:
        """Hold up for ever what a host fetches after it was told to stop: it does not run, and stays invisible."""
        if self._stopping:
            await asyncio.Event().wait()

    def _policy(self, function: IndexedFunction) -> RetryPolicy:
        return self._retries.get(function.name, NO_RETRY)

    async def _tries(
        self,
        function: IndexedFunction,
        cause: QueueMessage | Tick | Delivery | HttpRequest,
        *,
        shown: int,
        told: dict[str, object],
    ) -> WorkerAnswer:
        """Run it until it succeeds or its policy ends: one invocation, and one failure in the end (H-82)."""
        policy = self._policy(function)
        growing = Backoff(policy.longest, self._random, policy.least)
        invocation = str(uuid.uuid4())
        count = 0
        while True:
            call = WorkerCall(
                function=function.name, invocation=invocation, cause=cause, retry=RetryContext(count, shown)
            )
            answer = await self._invoke(call, told)
            if answer.error is None or not policy.allows(count):
                return answer
            await asyncio.sleep(growing.next() if policy.fixed is None else policy.fixed)
            count += 1

    async def _invoke(self, call: WorkerCall, more: dict[str, object]) -> WorkerAnswer:
        told: dict[str, object] = {"function": call.function, "invocation": call.invocation, **more}
        self._write("invocation_started", **told)
        answer = await self._workers.invoke(call, self._limit)
        error = answer.error
        try:
            for queue, text in answer.messages:
                sent = await self._queues.send(queue, text)
                self._write("message_sent", queue=queue, id=sent, function=call.function)
        except StoreFailure as failure:
            error = f"OutputError: {type(failure).__name__}: {failure}"
        if error is None:
            self._write("invocation_ended", **told, outcome="ok")
        else:
            self._write("invocation_ended", **told, outcome="error", error=error, blames=answer.blames)
        return replace(answer, error=error)
