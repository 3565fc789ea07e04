"""Make the listeners of a host from its plans."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING

from simulator.host.platform_lock import Listener, LockedListener
from simulator.host.triggers.monitor import BlobStatusStore
from simulator.host.triggers.queue import QueueListener
from simulator.host.triggers.timer import TimerListener

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from random import Random

    from simulator.history.journal import Write
    from simulator.host.app.config import HostConfig
    from simulator.host.app.hostjson import QueueOptions
    from simulator.host.app.model import IndexedFunction
    from simulator.host.plan import Plan
    from simulator.host.runner import Runner
    from simulator.host.triggers.messages import HostQueues
    from simulator.host.triggers.schedule import Schedule
    from singleton.settings.options import SingletonOptions


class Wakers:
    """Tells the listeners of this host that one of its own functions has put a message into their queue (H-44)."""

    def __init__(self) -> None:
        self._listeners: dict[str, list[Callable[[], None]]] = defaultdict(list)

    def add(self, listener: QueueListener) -> None:
        """Tell this listener from now on."""
        self._listeners[listener.queue].append(listener.wake)

    def wake(self, queue: str) -> None:
        """Let the listeners of the queue poll at once."""
        for wake in self._listeners[queue]:
            wake()


class Listeners:
    """The listeners of one host, and what they keep open."""

    def __init__(
        self,
        *,
        config: HostConfig,
        queue_options: QueueOptions,
        options: SingletonOptions,
        service: HostQueues,
        runner: Runner,
        wakers: Wakers,
        write: Write,
        random: Random,
    ) -> None:
        self._config = config
        self._queue_options = queue_options
        self._options = options
        self._service = service
        self._runner = runner
        self._wakers = wakers
        self._write = write
        self._random = random
        self._stores: list[BlobStatusStore] = []

    def make(self, plans: Iterable[Plan]) -> list[Listener]:
        """Make a listener for each function that is to be run."""
        listeners: list[Listener] = []
        for plan in plans:
            if plan.idle is not None:
                continue
            if plan.queue is not None:
                listeners.append(self._queue(plan.function, plan.queue))
            elif plan.schedule is not None:
                listeners.append(self._timer(plan, plan.schedule))
        return listeners

    async def close(self) -> None:
        """Close what the listeners kept open."""
        for store in self._stores:
            await store.close()

    def _queue(self, function: IndexedFunction, queue: str) -> QueueListener:
        listener = QueueListener(
            function=function.name,
            queue=queue,
            service=self._service,
            options=self._queue_options,
            visibility=self._config.visibility,
            run=partial(self._runner.on_message, function),
            write=self._write,
            wake=self._wakers.wake,
            random=self._random,
        )
        self._wakers.add(listener)
        return listener

    def _timer(self, plan: Plan, schedule: Schedule) -> Listener:
        config, function = self._config, plan.function
        store = BlobStatusStore(config.storage, config.host_id, function.name) if plan.monitored else None
        if store is not None:
            self._stores.append(store)

        def listener() -> TimerListener:
            return TimerListener(
                function=function.name,
                schedule=schedule,
                run=partial(self._runner.on_tick, function),
                run_on_startup=plan.run_on_startup,
                store=store,
            )

        if not config.same_app:
            return listener()
        return LockedListener(
            function=function.name,
            make=listener,
            storage=config.storage,
            host_id=config.host_id,
            host=config.name,
            options=self._options,
            write=self._write,
        )
