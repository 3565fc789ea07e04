"""The life of a fake host: start, make the listeners from the plans, listen, stop.

As in reality a host is a process of its own, which listens, renews messages and keeps the platform's locks. The app
runs in the workers (`simulator.host.workers`). No code of the app ever runs in the process of the host.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from contextlib import AsyncExitStack, suppress
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Final

from simulator.bus.bus_server import Bus
from simulator.host.app.app_model import FAILED, REFUSED, STOPPED, HostError
from simulator.host.runner import Runner
from simulator.host.startup import Prepared, set_up_logging
from simulator.host.triggers.peeklock import PeekLockListener
from simulator.host.triggers.queue import QueueListener
from simulator.host.triggers.queues import AzureQueues
from simulator.host.triggers.timer import BlobStatusStore, Listener, LockedListener, TimerListener
from simulator.host.web.routes import Route
from simulator.host.web.site import Site
from simulator.host.workers import Workers

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from simulator.history.journal import Journal, Write
    from simulator.host.app.app_model import HostConfig
    from simulator.host.app.hostjson import BusOptions, QueueOptions
    from simulator.host.function_plan import Plan
    from simulator.host.triggers.queues import HostQueues
    from simulator.host.triggers.schedule import Schedule
    from simulator.host.web.site import HttpRequest, HttpResponse
    from singleton.settings.options import SingletonOptions


def make_listeners(
    plans: Iterable[Plan],
    *,
    queue_options: QueueOptions,
    bus_options: BusOptions,
    options: SingletonOptions,
    config: HostConfig,
    service: HostQueues,
    bus: Bus,
    runner: Runner,
    write: Write,
    random: Random,
    closing: AsyncExitStack,
) -> Iterator[Listener]:
    """Make a listener for each function that will run; ``closing`` closes what they keep open."""

    def timer(plan: Plan, schedule: Schedule) -> Listener:
        function = plan.function
        store = BlobStatusStore(config.storage, config.host_id, function.name) if plan.monitored else None
        if store is not None:
            closing.push_async_callback(store.close)
        make = partial(
            TimerListener,
            function=function.name,
            schedule=schedule,
            run=partial(runner.on_tick, function),
            run_on_startup=plan.run_on_startup,
            store=store,
        )
        if not config.same_app:
            return make()
        return LockedListener(function=function.name, make=make, config=config, options=options, write=write)

    for plan in plans:
        if plan.idle is not None:
            continue
        if plan.queue is not None:
            yield QueueListener(
                function=plan.function.name,
                queue=plan.queue,
                service=service,
                options=queue_options,
                visibility=config.visibility,
                run=partial(runner.on_message, plan.function),
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
                options=bus_options,
                lock=config.visibility,
                run=partial(runner.on_delivery, plan.function),
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
        self._loop = asyncio.new_event_loop()
        self._stop_asked = asyncio.Event()
        self._ready = False

    def start(self) -> None:
        """Start the first worker; call it while the process has one thread."""
        set_up_logging()
        self._write("host_started", pid=os.getpid(), witness=True)
        self._workers.start()

    def run(self) -> int:
        """Run the host; return the exit code with which the process is to end at once.

        Nothing is released or closed: the platform's locks stay leased (H-89).
        """
        asyncio.set_event_loop(self._loop)
        code = FAILED
        try:
            code = self._loop.run_until_complete(self._live())
        except Exception as error:  # noqa: BLE001 - told, and the process ends
            _log.exception("the host failed")
            self._write("host_error", message=f"the host failed: {type(error).__name__}: {error}")
        finally:
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

    def _hear_signals(self) -> None:
        """Have signals wake the loop: one that comes as it goes to sleep, or to another thread, would wait for it."""
        with suppress(NotImplementedError):  # on Windows; there they wake it up as it is
            for number in STOPS:
                self._loop.add_signal_handler(number, self._ask)

    async def _live(self) -> int:
        self._hear_signals()
        preparing = asyncio.create_task(self._workers.prepared())
        stopped = asyncio.create_task(self._stop_asked.wait())
        await asyncio.wait({preparing, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if not preparing.done():
            return STOPPED
        try:
            prepared = await preparing
            _apply_zone(prepared.zone)
            queues = _queues(self._config.storage, used=prepared.queues)
        except HostError as error:
            self._write("host_error", message=str(error))
            _log.error("%s", error)
            return REFUSED
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
        )
        return await self._listen(prepared, queues, runner, random)

    async def _listen(self, prepared: Prepared, queues: AzureQueues, runner: Runner, random: Random) -> int:
        site = make_site(prepared.plans, prepared.route_prefix, runner, self._write)
        if site is not None:
            await site.open()
        listeners = [
            *make_listeners(
                prepared.plans,
                queue_options=prepared.queue_options,
                bus_options=prepared.bus_options,
                options=prepared.options,
                config=self._config,
                service=queues,
                bus=Bus(self._config.bus),
                runner=runner,
                write=self._write,
                random=random,
                closing=AsyncExitStack(),
            )
        ]
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
        for listener in listeners:
            if isinstance(listener, PeekLockListener):
                listener.stop()
        if site is not None:
            await site.close()
        await runner.drain(DRAIN)
        return STOPPED


def _queues(storage: str, *, used: bool) -> AzureQueues:
    queues = AzureQueues(storage)
    if used:
        try:
            queues.open()
        except ValueError as error:
            raise HostError(f"the storage's connection string can't be used: {error}") from error
    return queues


def _apply_zone(zone: str | None) -> None:
    """Read schedules in the time zone that the app's settings name, as its worker does."""
    if zone is not None:
        os.environ["TZ"] = zone
        if hasattr(time, "tzset"):
            time.tzset()
