"""Make the listeners of a host from its plans."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from simulator.host.platform_lock import Listener, LockedListener
from simulator.host.triggers.peeklock import PeekLockListener
from simulator.host.triggers.queue import QueueListener
from simulator.host.triggers.timer import BlobStatusStore, TimerListener
from simulator.host.web.routes import Route
from simulator.host.web.site import Site

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from contextlib import AsyncExitStack
    from random import Random

    from simulator.bus.client import Bus
    from simulator.history.journal import Write
    from simulator.host.app.hostjson import BusOptions, QueueOptions
    from simulator.host.app.model import HostConfig
    from simulator.host.plan import Plan
    from simulator.host.runner import Runner
    from simulator.host.triggers.queues import HostQueues
    from simulator.host.triggers.schedule import Schedule
    from simulator.host.web.request import Request, Response
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

    async def run(name: str, request: Request) -> Response:
        return await runner.on_request(functions[name][0], request)

    return Site(served, prefix, run, write) if served else None
