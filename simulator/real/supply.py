"""Where the work of a run goes: into storage queues, into the run's own broker, or by HTTP to one of the hosts.

As behind a load balancer, an HTTP request goes to any host. The callers are tasks of one thread. The status that a
caller sees, and how long it took, go into the fleet's journal.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
import uuid
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from simulator.bus import MOST_DELIVERIES, Broker, BusServer, Entity
from simulator.host.web.site import HOST, REQUEST_ID

if TYPE_CHECKING:
    import aiohttp

    from simulator.bus import Item
    from simulator.history.journal import Write
    from simulator.real.fleet import Fleet
    from simulator.real.storage import Storage
    from simulator.work.apps import App
    from simulator.work.own import Outgoing
    from simulator.work.request_specs import RequestSpec
    from simulator.work.scenario import Scenario


PATIENCE: Final = 230.0
"""Seconds after which Azure's load balancer gives a request up:
https://learn.microsoft.com/azure/azure-functions/functions-bindings-http-webhook-trigger (limits)."""


class Callers:
    """Sends requests: `start`, `call`, and `stop`. A caller that still waits at `stop` gets no answer."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="callers", daemon=True)
        self._session: aiohttp.ClientSession | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def call(self, name: str, host: str, port: int, request: RequestSpec) -> None:
        """Send a request to a host; ``name`` is its id."""
        asyncio.run_coroutine_threadsafe(self._ask(name, host, port, request), self._loop)

    def stop(self) -> None:
        """End all calls, and the thread."""
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    async def _close(self) -> None:
        waiting = asyncio.all_tasks() - {asyncio.current_task()}
        for task in waiting:
            task.cancel()
        if waiting:
            await asyncio.wait(waiting)
        if self._session is not None:
            await self._session.close()

    async def _ask(self, name: str, host: str, port: int, request: RequestSpec) -> None:
        import aiohttp  # a third of a second, and only apps with HTTP functions need it

        if self._session is None:
            # A connection for each request: a host that is killed cuts its own ones only.
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, force_close=True),
                timeout=aiohttp.ClientTimeout(total=PATIENCE),
            )
        url = f"http://{HOST}:{port}{request.path}" + (f"?{urlencode(request.query)}" if request.query else "")
        headers = {**request.headers, REQUEST_ID: name}
        began = time.monotonic()
        try:
            async with self._session.request(
                request.method, url, data=request.body.encode() or None, headers=headers, allow_redirects=False
            ) as answer:
                await answer.read()
                seconds = round(time.monotonic() - began, 6)
                self._write("request_answered", host=host, request=name, status=answer.status, seconds=seconds)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            seconds = round(time.monotonic() - began, 6)
            why = f"{type(error).__name__}: {error}"
            self._write("request_failed", host=host, request=name, error=why, seconds=seconds)


MOST_ELSEWHERE: Final = 5
"""How often what is only delivered is delivered: as often as the blob trigger tries a blob."""


class Supply:
    """Sends the run's work, and knows the rest of the work. Call `start` before the hosts, `stop` after their end."""

    def __init__(self, app: App, storage: Storage, scenario: Scenario) -> None:
        self._app = app
        self._storage = storage
        self._random = random.Random(f"callers {scenario.seed}")
        self._lock = scenario.visibility
        self._bus = BusServer(time.time, self._gave_up) if app.entities else None
        self._callers: Callers | None = None
        self._held: dict[str, Outgoing] = {}
        self._fleet: Fleet  # from `serve` on
        self._ordered: set[str] = set()

    @property
    def url(self) -> str:
        """The broker's; empty if no function needs one."""
        return self._bus.url if self._bus is not None else ""

    def start(self) -> None:
        """Open the broker with all its entities, if a function needs one."""
        if self._bus is None:
            return
        self._bus.start()
        for function in self._app.entities:
            most = MOST_DELIVERIES if function.trigger == "serviceBus" else MOST_ELSEWHERE
            sessions = any(each.sessions for each in self._app.of(function.source))
            self._ordered |= {function.source} if sessions else set()
            entity = Entity(name=function.source, lock=self._lock, most=most, sessions=sessions)
            self._bus.ask(partial(Broker.open, entity=entity))

    def serve(self, fleet: Fleet) -> None:
        """Send to the hosts of this fleet, and write into its journal."""
        self._fleet = fleet
        if any(function.route is not None and not function.idle for function in self._app.functions):
            self._callers = Callers(fleet.journal.write)
            self._callers.start()

    def stop(self) -> None:
        """End the calls that wait, and close the broker."""
        if self._callers is not None:
            self._callers.stop()
        if self._bus is not None:
            self._bus.stop()

    def send(self, message: Outgoing) -> None:
        """Send one message or request, and journal it."""
        if message.request is not None:
            self._call(message)
            return
        about: dict[str, Any] = {"queue": message.queue, "key": message.key}
        if message.queue in self._app.queues:
            name = self._storage.send(message.queue, message.body)
            self._fleet.journal.write("message_sent", id=name, **about)
        elif self._bus is not None:
            # Written before it is sent: its receiver may be quicker than this thread.
            name = str(uuid.uuid4())
            if message.queue in self._ordered:
                about["session"] = str(message.metadata.get("SessionId") or "")
            self._fleet.journal.write("message_sent", id=name, **about)
            self._bus.ask(lambda broker: broker.send(message.queue, message.body, message.metadata, name))

    def send_held(self) -> None:
        """Send the user's requests for which no host was up, if one is up now."""
        for name, message in [*self._held.items()]:
            self._call(message, name)

    def queued(self) -> int:
        """Return how many messages are left, also those that are being processed."""
        return self._storage.queued() + (self._bus.ask(Broker.waiting) if self._bus is not None else 0)

    def requests(self) -> int:
        """Return how many callers wait for an answer, or for a host that they can ask."""
        asked = self._fleet.board.history.traffic.requests.values()
        return sum(each.open for each in asked) + len(self._held)

    def write_what_is_left(self) -> None:
        """Journal which messages are left at the end."""
        write = self._fleet.journal.write
        for queue in self._app.queues:
            ids, invisible = self._storage.left(queue)
            write("queue_left", queue=queue, ready=len(ids), invisible=invisible, ids=ids)
            if (digests := self._storage.poison(queue)) is not None:
                write("poison", queue=queue, digests=digests)
        for function in self._app.entities:
            if self._bus is not None:
                ids, invisible = self._bus.ask(partial(Broker.left, entity=function.source))
                write("queue_left", queue=function.source, ready=len(ids), invisible=invisible, ids=ids)

    def _call(self, message: Outgoing, name: str = "") -> None:
        """Send a request to a host. If none is up, a made one is dropped, and one of the user's is kept until then."""
        board, request = self._fleet.board, message.request
        if request is None or self._callers is None:
            return
        traffic = board.history.traffic
        ports, served = traffic.ports, traffic.served
        hosts = [
            host for host in board.alive() if host in ports and request.function in (served[host] or [request.function])
        ]
        about = {"function": request.function, "source": message.queue, "key": message.key}
        asked = {"method": request.method, "path": request.path}
        if not hosts:
            if message.own and not name:  # of made ones the next comes soon
                name = str(uuid.uuid4())
                self._held[name] = message
                self._fleet.journal.write("request_held", request=name, **about, **asked)
            return
        self._held.pop(name, None)
        host, name = self._random.choice(hosts), name or str(uuid.uuid4())
        self._fleet.journal.write("request_sent", host=host, request=name, **about, **asked)
        self._callers.call(name, host, ports[host], request)

    def _gave_up(self, item: Item) -> None:
        dead, why = f"{item.entity}/$deadletterqueue", f"its lock expired after {item.count} deliveries"
        self._fleet.journal.write("message_poisoned", queue=item.entity, id=item.id, poison=dead, reason=why)
