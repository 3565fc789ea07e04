"""Make the listeners of a host from its plans."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from simulator.host.platform_lock import Listener, LockedListener
from simulator.host.triggers.monitor import BlobStatusStore
from simulator.host.triggers.queue import QueueListener
from simulator.host.triggers.timer import TimerListener

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from contextlib import AsyncExitStack
    from random import Random

    from simulator.history.journal import Write
    from simulator.host.app.config import HostConfig
    from simulator.host.app.hostjson import QueueOptions
    from simulator.host.plan import Plan
    from simulator.host.runner import Runner
    from simulator.host.triggers.messages import HostQueues
    from simulator.host.triggers.schedule import Schedule
    from singleton.settings.options import SingletonOptions


def make_listeners(
    plans: Iterable[Plan],
    *,
    queue_options: QueueOptions,
    options: SingletonOptions,
    config: HostConfig,
    service: HostQueues,
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
