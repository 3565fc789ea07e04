"""The life of one fake host: start, listen, stop. Two halves in one process, as the real host and worker are two.

The main thread is the worker: it imports the app and runs its bodies. The *host thread* has a loop of its own, with the
listeners and the renewal of messages: a body that blocks the worker's loop hurts the app's other bodies and nothing
else.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from contextlib import AsyncExitStack
from dataclasses import asdict
from random import Random
from typing import TYPE_CHECKING, Final

from simulator.host.app.errors import HostError
from simulator.host.listeners import make_listeners
from simulator.host.runner import Runner
from simulator.host.startup import Prepared, prepare_app
from simulator.host.triggers.azure_queue import AzureQueues
from simulator.host.triggers.outputs import Outputs
from simulator.host.worker import Worker
from singleton.base.events import LockEvent, subscribe
from singleton.process.current import shutdown

if TYPE_CHECKING:
    from simulator.history.journal import Journal
    from simulator.host.app.config import HostConfig
    from simulator.host.platform_lock import Listener

STOPPED: Final = 0
FAILED: Final = 1
REFUSED: Final = 3
_log = logging.getLogger(__name__)


class Host:
    """One fake host. `run` occupies the main thread until the host was told to stop and has stopped."""

    def __init__(self, config: HostConfig, journal: Journal) -> None:
        self._config = config
        self._write = journal.write
        self._stop_asked = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._code = FAILED

    def run(self) -> int:
        """Run the host; return the process's exit code."""
        self._write("host_started", pid=os.getpid())
        try:
            prepared = prepare_app(self._config)
        except HostError as error:
            return self._refuse(error)
        for plan in prepared.plans:
            self._write("function", **plan.to_json())
        for note in prepared.notes:
            self._write("note", message=note)
            _log.warning("%s", note)
        unsubscribe = subscribe(self._on_lock_event)
        worker = Worker(os.environ)
        thread = threading.Thread(target=self._host_thread, args=(prepared, worker), name="host", daemon=True)
        thread.start()
        worker.run()
        thread.join()
        shutdown()  # what this process is the listener of is given back, and the journal says so
        unsubscribe()
        self._write("host_stopped", code=self._code)
        return self._code

    def stop(self) -> None:
        """Ask for a graceful stop, from any thread or a signal handler; ask again to end at once."""
        if self._stop_asked:
            self._write("host_stopped", code=FAILED, reason="asked twice")
            os._exit(FAILED)
        self._stop_asked = True
        self._write("host_stopping")
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)

    def _refuse(self, error: HostError) -> int:
        self._write("host_error", message=str(error))
        _log.error("%s", error)
        return REFUSED

    def _on_lock_event(self, event: LockEvent) -> None:
        self._write("lock", **asdict(event))

    def _host_thread(self, prepared: Prepared, worker: Worker) -> None:
        try:
            self._code = asyncio.run(self._listen(prepared, worker))
        except Exception as error:  # noqa: BLE001 - told, and the process ends
            _log.exception("the host failed")
            self._write("host_error", message=f"the host failed: {type(error).__name__}: {error}")
        finally:
            worker.stop()

    async def _listen(self, prepared: Prepared, worker: Worker) -> int:
        try:
            queues = AzureQueues(self._config.storage)
        except ValueError as error:
            return self._refuse(HostError(f"the storage's connection string can't be used: {error}"))
        random = Random(f"{self._config.seed}/{self._config.name}")
        encoding = prepared.queue_options.message_encoding
        outputs = Outputs(encoding=encoding, settings=os.environ, write=self._write)
        runner = Runner(worker=worker, queues=queues, outputs=outputs, write=self._write, random=random)
        async with AsyncExitStack() as closing:
            closing.push_async_callback(queues.close)
            listeners = make_listeners(
                prepared.plans,
                queue_options=prepared.queue_options,
                options=prepared.options,
                config=self._config,
                service=queues,
                runner=runner,
                write=self._write,
                random=random,
                closing=closing,
            )
            await self._run_listeners(list(listeners), runner)
        return STOPPED

    async def _run_listeners(self, listeners: list[Listener], runner: Runner) -> None:
        running = [asyncio.create_task(listener.run()) for listener in listeners]
        # From here on a signal reaches this loop; one that came before has left its mark.
        self._loop = asyncio.get_running_loop()
        if self._stop_asked:
            self._stop.set()
        self._write("host_ready")
        stopped = asyncio.create_task(self._stop.wait())
        await asyncio.wait({stopped, *running}, return_when=asyncio.FIRST_COMPLETED)
        # No new polls and no new runs; everything that runs is awaited (H-46, H-71).
        runner.stop()
        for listener in listeners:
            listener.stop()
        stopped.cancel()
        await asyncio.wait({stopped, *running})
        for task in running:
            task.result()
