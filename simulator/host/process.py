"""The life of a fake host: start, make the listeners from the plans, listen, stop.

As in reality a host is a process of its own, which listens, renews messages and keeps the platform's locks. The app
runs in the workers (`simulator.host.workers`). No code of the app ever runs in the process of the host.

The host also runs invocations: passes an invocation to a worker, repeats it by the retry policy, sends the outputs, and
records the end.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from simulator.bus import Bus
from simulator.host.app.app_model import FAILED, NO_TICKS, REFUSED, STOPPED, HostError
from simulator.host.app.hostjson import NO_RETRY, RetryPolicy
from simulator.host.machine_measure import MachineMeasure
from simulator.host.platform_lock import LockedListener
from simulator.host.startup import Prepared, set_up_logging
from simulator.host.triggers.peeklock import PeekLockListener
from simulator.host.triggers.queue import AzureQueues, Backoff, QueueListener
from simulator.host.triggers.timer import BlobStatusStore, TimerListener
from simulator.host.web.routes import Route
from simulator.host.web.site import FAILED as FAILED_RESPONSE
from simulator.host.web.site import NOTHING, Site
from simulator.host.worker import RetryContext, WorkerCall
from simulator.host.workers import Workers
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from simulator.history.journal import Journal, Write
    from simulator.host.app.app_model import HostConfig, IndexedFunction
    from simulator.host.function_plan import Plan
    from simulator.host.triggers.delivery import Delivery
    from simulator.host.triggers.queue import HostQueues, QueueMessage
    from simulator.host.triggers.schedule import Schedule
    from simulator.host.triggers.timer import Tick
    from simulator.host.web.site import HttpRequest, HttpResponse
    from simulator.host.worker import WorkerAnswer


Listener: TypeAlias = QueueListener | TimerListener | LockedListener | PeekLockListener


def make_listeners(
    prepared: Prepared, config: HostConfig, queues: HostQueues, runner: Runner, write: Write, random: Random
) -> Iterator[Listener]:
    """Make a listener for each function that will run."""

    def timer(plan: Plan, schedule: Schedule) -> Listener:
        function = plan.function
        make = partial(
            TimerListener,
            function=function.name,
            schedule=schedule,
            body=partial(runner.on_tick, function),
            run_on_startup=plan.run_on_startup,
            store=BlobStatusStore(config.storage, config.host_id, function.name) if plan.monitored else None,
        )
        if not config.same_app:
            return make()
        return LockedListener(function=function.name, make=make, config=config, options=prepared.options, write=write)

    bus = Bus(config.bus)
    for plan in prepared.plans:
        if plan.idle is not None:
            continue
        if plan.queue is not None:
            yield QueueListener(
                function=plan.function.name,
                queue=plan.queue,
                service=queues,
                options=prepared.queue_options,
                visibility=config.visibility,
                body=partial(runner.on_received, plan.function),
                write=write,
                random=random,
            )
        elif plan.schedule is not None:
            yield timer(plan, plan.schedule)
        elif plan.source is not None and not plan.source.is_http:
            yield PeekLockListener(
                function=plan.function.name,
                source=plan.source.name,
                receiver=bus,
                options=prepared.bus_options,
                lock=config.visibility,
                body=partial(runner.on_received, plan.function),
                write=write,
            )


def make_site(plans: Iterable[Plan], prefix: str, runner: Runner, write: Write) -> Site | None:
    """Make the port of the HTTP functions that will run; None: there are none."""
    functions = {
        plan.function.name: (plan.function, plan.source)
        for plan in plans
        if plan.idle is None and plan.source is not None and plan.source.is_http
    }
    served = [
        (Route.parse(source.route or ""), frozenset(source.methods), name) for name, (_, source) in functions.items()
    ]

    async def run(name: str, request: HttpRequest) -> HttpResponse:
        return await runner.on_request(functions[name][0], request)

    return Site(served, prefix, run, write) if served else None


DRAIN: Final = 10.0
"""Seconds that bodies get when the host is told to stop (H-89)."""
STOPS: Final = (signal.SIGTERM, signal.SIGINT)
"""Signals that tell a host to stop."""
_log = logging.getLogger(__name__)


class FakeHost:
    """One fake host. After `start`, `run` lasts until the host was told to stop and has stopped."""

    def __init__(self, config: HostConfig, journal: Journal) -> None:
        self._config = config
        self._write = journal.write
        self._workers = Workers(config, journal.write)
        self._measure = MachineMeasure(journal.write, self._workers.pids)
        self._loop = asyncio.new_event_loop()
        self._stop_asked = asyncio.Event()
        self._ready = False

    def start(self) -> None:
        """Start the first worker; call it while the process has one thread."""
        set_up_logging()
        self._write("host_started", pid=os.getpid(), witness=True, measures=True)
        self._workers.start()
        self._measure.start()

    def run(self) -> int:
        """Run the host; return the exit code with which the process is to end at once.

        Nothing is closed. After a graceful stop the platform's locks are free (H-89).
        """
        asyncio.set_event_loop(self._loop)
        code = FAILED
        try:
            code = self._loop.run_until_complete(self._live())
        except Exception as error:  # noqa: BLE001 - told, and the process ends
            _log.exception("the host failed")
            self._write("host_error", message=f"the host failed: {type(error).__name__}: {error}")
        finally:
            self._measure.close()
            self._workers.end()
        if self._ready:
            self._write("host_stopped", code=code)
        return code

    def stop(self) -> None:
        """Ask for a graceful stop, from any thread or a signal handler. A second call changes nothing."""
        self._loop.call_soon_threadsafe(self._ask)

    def _ask(self) -> None:
        if not self._stop_asked.is_set():
            self._write("host_stopping")
            self._stop_asked.set()

    async def _live(self) -> int:
        # Signals must wake the loop: a signal that comes as the loop goes to sleep, or to another thread, would wait.
        with suppress(NotImplementedError):  # on Windows; signals wake a Windows loop without a handler
            for number in STOPS:
                self._loop.add_signal_handler(number, self._ask)
        preparing = asyncio.create_task(self._workers.prepared())
        stopped = asyncio.create_task(self._stop_asked.wait())
        await asyncio.wait({preparing, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if not preparing.done():
            return STOPPED
        queues = AzureQueues(self._config.storage)
        try:
            prepared = await preparing
            if prepared.queues:
                queues.open()
        except HostError as error:
            self._write("host_error", message=str(error))
            _log.error("%s", error)
            return REFUSED
        if prepared.zone is not None:  # schedules are read in the time zone that the app's settings name
            os.environ["TZ"] = prepared.zone
            if hasattr(time, "tzset"):
                time.tzset()
        for note in prepared.notes:
            self._write("note", message=note)
            _log.warning("%s", note)
        random = Random(f"{self._config.seed}/{self._config.name}")
        runner = Runner(
            workers=self._workers,
            queues=queues,
            retries=prepared.retries,
            limit=prepared.time_limit,
            write=self._write,
            random=random,
            no_ticks=self._config.journal.with_name(NO_TICKS),
        )
        return await self._listen(prepared, queues, runner, random)

    async def _listen(self, prepared: Prepared, queues: AzureQueues, runner: Runner, random: Random) -> int:
        site = make_site(prepared.plans, prepared.route_prefix, runner, self._write)
        if site is not None:
            await site.open()
        listeners = [*make_listeners(prepared, self._config, queues, runner, self._write, random)]
        running = [asyncio.create_task(listener.run()) for listener in listeners]
        self._ready = True
        self._write("host_ready")
        stopped = asyncio.create_task(self._stop_asked.wait())
        failed = asyncio.create_task(self._workers.failed())
        await asyncio.wait({stopped, failed, *running}, return_when=asyncio.FIRST_COMPLETED)
        if failed.done():
            self._write("host_error", message=failed.result())
            _log.error("%s", failed.result())
            return FAILED
        for task in running:
            if task.done():
                task.result()
        fetching = []
        for listener, task in zip(listeners, running, strict=True):
            if isinstance(listener, PeekLockListener):
                listener.stop()
            elif isinstance(listener, QueueListener):
                listener.stop()
                fetching.append(task)
        if site is not None:
            await site.close()
        await asyncio.gather(runner.drain(DRAIN), *([asyncio.wait(fetching, timeout=DRAIN)] if fetching else []))
        locked = [
            task for listener, task in zip(listeners, running, strict=True) if isinstance(listener, LockedListener)
        ]
        for task in locked:
            task.cancel()  # which releases the lock
        if locked:
            await asyncio.wait(locked, timeout=RELEASE)
        return STOPPED


RELEASE: Final = 2.0
"""Seconds for the requests that give the platform's locks back."""
LAST_WORDS: Final = 0.2
"""Seconds for what the host does after a body's end, such as writing a timer's status."""


@dataclass(kw_only=True, eq=False)
class Runner:
    """Runs the functions of one host; lives on the host's loop."""

    workers: Workers
    queues: HostQueues
    retries: Mapping[str, RetryPolicy]
    limit: float | None
    write: Write
    random: Random
    no_ticks: Path
    _stopping: bool = field(default=False, init=False)
    _running: set[asyncio.Future[Any]] = field(default_factory=set, init=False)

    async def drain(self, seconds: float) -> None:
        """Start nothing more, and give what runs so many seconds to end (H-89)."""
        self._stopping = True
        if self._running:
            await asyncio.wait(self._running, timeout=seconds)
            await asyncio.sleep(LAST_WORDS)

    async def on_received(self, function: IndexedFunction, message: QueueMessage | Delivery) -> bool:
        """Run a function on a message, event, blob or document; tell whether it succeeded."""
        await self._unless_stopping()
        self._run_to_the_end()
        answer = await self._tries(function, message, told={"message": message.id})
        return answer.error is None

    async def on_request(self, function: IndexedFunction, request: HttpRequest) -> HttpResponse:
        """Run an HTTP function; return the response for the caller."""
        self._run_to_the_end()
        answer = await self._tries(function, request, told={"request": request.id})
        return FAILED_RESPONSE if answer.error is not None else answer.response or NOTHING

    def _run_to_the_end(self) -> None:
        """Let a drain wait for the task that runs this, also until it has told how it ended."""
        task = asyncio.current_task()
        if task is not None:
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def on_tick(self, function: IndexedFunction, tick: Tick) -> None:
        """Run a timer-triggered function, unless the load has ended."""
        await self._unless_stopping(quiet=self.no_ticks.exists())
        running: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._running.add(running)
        try:
            self.write(
                "tick", function=function.name, due=round(tick.due, 3), now=round(time.time(), 3), why=tick.reason
            )
            await self._tries(function, tick, told={})
        finally:
            running.set_result(None)
            self._running.discard(running)

    async def _unless_stopping(self, *, quiet: bool = False) -> None:
        """Hold up for ever what a host fetches after it was told to stop: it does not run, and stays invisible."""
        if self._stopping or quiet:
            await asyncio.Event().wait()

    def _policy(self, function: IndexedFunction) -> RetryPolicy:
        return self.retries.get(function.name, NO_RETRY)

    async def _tries(
        self,
        function: IndexedFunction,
        cause: QueueMessage | Tick | Delivery | HttpRequest,
        *,
        told: dict[str, object],
    ) -> WorkerAnswer:
        """Run until success or the end of the policy: one invocation, and at most one failure in the end (H-82)."""
        policy = self._policy(function)
        growing = Backoff(policy.longest, self.random, policy.least)
        invocation = str(uuid.uuid4())
        count = 0
        while True:
            retry = RetryContext(count, policy.most)
            call = WorkerCall(function=function.name, invocation=invocation, cause=cause, retry=retry)
            answer = await self._invoke(call, told)
            if answer.error is None or not policy.allows(count):
                return answer
            await asyncio.sleep(growing.next() if policy.fixed is None else policy.fixed)
            count += 1

    async def _invoke(self, call: WorkerCall, more: dict[str, object]) -> WorkerAnswer:
        told: dict[str, object] = {"function": call.function, "invocation": call.invocation, **more}
        self.write("invocation_started", **told)
        answer = await self.workers.invoke(call, self.limit)
        error = answer.error
        try:
            for queue, text in answer.messages:
                sent = await self.queues.send(queue, text)
                self.write("message_sent", queue=queue, id=sent, function=call.function)
        except StoreFailure as failure:
            error = f"OutputError: {type(failure).__name__}: {failure}"
        if error is None:
            self.write("invocation_ended", **told, outcome="ok")
        else:
            self.write("invocation_ended", **told, outcome="error", error=error, blames=answer.blames)
        return replace(answer, error=error)
