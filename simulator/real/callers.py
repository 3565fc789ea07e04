"""The callers of HTTP functions: as behind a load balancer each request goes to any host, and waits for its answer.

They are tasks of one thread. What each of them sees goes into the fleet's journal: the status, and how long it took.
"""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from simulator.host.web.request import HOST, REQUEST_ID

if TYPE_CHECKING:
    import aiohttp

    from simulator.history.journal import Write
    from simulator.work.requests import Request

PATIENCE: Final = 230.0
"""Seconds after which Azure's load balancer gives a request up:
https://learn.microsoft.com/azure/azure-functions/functions-bindings-http-webhook-trigger (limits)."""


class Callers:
    """Sends requests. `start` it, `call`, and `stop` it: who still waits then gets no answer."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="callers", daemon=True)
        self._session: aiohttp.ClientSession | None = None
        self._waiting: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def call(self, name: str, host: str, port: int, request: Request) -> None:
        """Send a request to a host; ``name`` is its id."""
        self._loop.call_soon_threadsafe(self._begin, name, host, port, request)

    def stop(self) -> None:
        """End all calls, and the thread."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.run_until_complete(self._close())
        self._loop.close()

    async def _close(self) -> None:
        for task in self._waiting:
            task.cancel()
        if self._waiting:
            await asyncio.wait(self._waiting)
        if self._session is not None:
            await self._session.close()

    def _begin(self, name: str, host: str, port: int, request: Request) -> None:
        task = self._loop.create_task(self._ask(name, host, port, request))
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)

    async def _ask(self, name: str, host: str, port: int, request: Request) -> None:
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
