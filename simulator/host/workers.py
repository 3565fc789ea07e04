"""The workers of a host, as processes: they start, get calls in turn, end if a call takes too long, and start again.

As in the real host, all that runs in a worker fails when the worker ends by itself, and its messages are delivered
again at once. Workers are started again, but not without limit (H-84), and one at a time: the next restart begins ten
seconds later. A call that takes too long fails as its body ends, within two seconds; else its worker is killed, and it
fails at the end of the restart. To the host, what else ran in that worker lasts until its own limit (H-85).

A worker's process: it imports the app, tells the host what is in it, and answers calls until the host has ended.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from itertools import cycle
from multiprocessing import Pipe, get_context
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any, Final

from simulator.history.deeds import ONCE
from simulator.history.journal import Journal
from simulator.history.outages import GRACE
from simulator.host.app.app_model import HostError
from simulator.host.client_tap import blocks_around, tap_clients
from simulator.host.expected_keys import expected_blobs, expected_keys
from simulator.host.function_plan import (
    guarded_functions,
    inner_guards,
    inner_records,
    tell_apart,
    tell_policies,
    users_functions,
)
from simulator.host.pattern_tap import tap_patterns, tap_rows
from simulator.host.startup import Prepared, leave, prepare_app, set_up_logging
from simulator.host.triggers.bindings import binding_data, queue_input, timer_input
from simulator.host.triggers.delivery import Delivery, delivered_input, output_names
from simulator.host.triggers.outputs import Outputs
from simulator.host.triggers.queue import QueueMessage
from simulator.host.web.site import HttpRequest, answered, http_input, request_names
from simulator.host.worker import Worker, WorkerAnswer, WorkerCall, describe
from simulator.witness.standstills import tell_process_standstills
from simulator.witness.tap import tap_leases, tap_user_code
from simulator.witness.witness import Witness, invoked
from singleton.base.events import LockEvent, subscribe
from singleton.base.hold import current_hold
from singleton.base.holds import holds
from singleton.stores.http.connections import Connections

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping
    from multiprocessing.connection import Connection

    from simulator.history.journal import Write
    from simulator.host.app.app_model import HostConfig, IndexedFunction, Parameter
    from simulator.host.triggers.timer import Tick
    from simulator.host.worker import BodyOutcome


ENDED: Final = 1


def work(config: HostConfig, number: int, connection: Connection, host_end: Connection | None) -> None:
    """Be worker ``number`` of the host that ``config`` describes, at the other end of ``connection``.

    ``host_end``: the host's end of the connection, which a fork has left open in the worker.
    """
    if host_end is not None:
        host_end.close()
    # Only the host is told to stop, and it kills its workers at the end (H-89); Ctrl-C reaches them too.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    journal = Journal(config.journal, config.name)
    try:
        _serve(config, number, connection, journal.write)
    except BaseException as error:  # noqa: BLE001 - as in the real worker, an app's SystemExit ends it
        _log.error("worker %s ends with %s", number, describe(error), exc_info=error)
    leave(ENDED)


def _serve(config: HostConfig, number: int, connection: Connection, write: Write) -> None:
    set_up_logging()

    def seen(event: str, /, **fields: object) -> None:
        write(event, worker=number, **fields)

    tap_leases(seen, Connections)
    witness = Witness(seen, current_hold, lambda hold: any(each.lock == hold.lock for each in holds().held))
    tap_patterns(seen, witness)
    tap_clients(seen, config.lock_host_id)
    tell_process_standstills(seen)
    try:
        prepared = prepare_app(config)
    except HostError as error:
        connection.send(HostError(str(error)))
        return

    tap_rows(seen)
    tap_user_code(seen)

    def on_lock_event(event: LockEvent) -> None:
        asks = event.kind == "waiting" and not event.lock.startswith(ONCE)  # a guard of `@once` looks first
        told: dict[str, object] = {"late": witness.guards.asks_late()} if asks else {}
        if (invocation := invoked.get()) not in {"", event.owner}:
            told["invocation"] = invocation
        if around := blocks_around.get():
            told["within"] = around
        write("lock", worker=number, **asdict(event), **told)

    subscribe(on_lock_event)
    inner = inner_guards(prepared.plans)
    tell_apart(inner)
    tell_policies([*inner, *(guard for plan in prepared.plans for guard in plan.guards)], seen, witness.guards.given)
    for plan in prepared.plans:
        queues = prepared.queue_options
        told = {"hides": queues.visibility_timeout, "tries": queues.max_dequeue_count}
        write("function", **plan.to_json(), limit=prepared.time_limit, **told)
    for facts in inner_records(prepared.plans):
        write("guard", **facts, limit=prepared.time_limit)
    witness.watch(users_functions(prepared.plans))
    witness.watch_guards(guarded_functions(prepared.plans))
    worker = Worker(os.environ, witness)
    answering = _Answering(prepared, worker, connection, write, config.lock_host_id)
    connection.send(prepared.bare())
    threading.Thread(target=answering.run, name="host", daemon=True).start()
    worker.run()


class _Answering:
    def __init__(self, prepared: Prepared, worker: Worker, connection: Connection, write: Write, host_id: str) -> None:
        self._plans = {plan.function.name: plan for plan in prepared.plans}
        encoding = prepared.queue_options.message_encoding
        self._outputs = Outputs(encoding=encoding, settings=os.environ, write=write)
        self._worker = worker
        self._host_id = host_id
        self._write = write
        self._connection = connection

    def run(self) -> None:
        """Take calls until the host has ended: then the worker ends at once."""
        with suppress(EOFError, OSError):
            while True:
                self._start(self._connection.recv())
        os._exit(ENDED)

    def _start(self, call: WorkerCall) -> None:
        plan = self._plans[call.function]
        function = plan.function
        if plan.declared or plan.operation:
            keys = expected_keys(plan, call.cause, os.environ, self._host_id)
            self._write("expected", invocation=call.invocation, keys=keys, blobs=expected_blobs(plan, keys))
        self._worker.submit(
            function,
            call.invocation,
            lambda: _value(function, call.cause),
            call.retry,
            partial(self._send, call),
            told=_told(call),
        )

    async def _send(self, call: WorkerCall, outcome: BodyOutcome) -> None:
        if outcome.remark:
            self._write("note", message=outcome.remark)
        trigger, cause = self._plans[call.function].function.trigger, call.cause
        http = [(parameter, value) for parameter, value in outcome.outputs if parameter.binding.lower() == "http"]
        others = [output for output in outcome.outputs if output not in http]
        messages, failed = self._outputs.messages(call.function, others, lambda: _names(trigger, cause))
        answer = WorkerAnswer(
            invocation=call.invocation,
            error=outcome.error or failed,
            blames=outcome.blames,
            messages=messages,
            response=answered(*http[-1][1]) if http else None,
        )
        self._connection.send(answer)


def _told(call: WorkerCall) -> dict[str, object]:
    told: dict[str, object] = {"attempt": call.retry.retry_count}
    match call.cause:
        case QueueMessage():
            told |= {"message": call.cause.id, "dequeue_count": call.cause.dequeue_count}
        case Delivery():
            told |= {"message": call.cause.id, "dequeue_count": call.cause.count}
        case HttpRequest():
            told |= {"request": call.cause.id}
    return told


def _names(trigger: Parameter, cause: QueueMessage | Tick | Delivery | HttpRequest) -> Mapping[str, object]:
    """Return the names that the ``{names}`` of an output may use."""
    match cause:
        case Delivery():
            return output_names(trigger, cause)
        case HttpRequest():
            return request_names(cause)
        case _:
            return binding_data(trigger, cause)


def _value(function: IndexedFunction, cause: QueueMessage | Tick | Delivery | HttpRequest) -> Any:
    match cause:
        case QueueMessage():
            return queue_input(function.trigger, cause)
        case Delivery():
            return delivered_input(function.trigger, cause)
        case HttpRequest():
            return http_input(function.trigger, cause)
    return timer_input(function.trigger, cause.status, past_due=cause.past_due, adjusts=cause.adjusts)


DEATHS_EACH: Final = 3
"""How often the workers may end by themselves, times their number, before the host gives up."""
RESTART: Final = 10.5
"""Seconds for a restart of a worker: the worker starts, and the host waits for ten seconds."""
_log = logging.getLogger(__name__)


class WorkerProcess:
    """One process of a worker, from its start to its end."""

    def __init__(self, config: HostConfig, number: int) -> None:
        # A fork is quick, as all is imported, and correct as long as there is no other thread.
        forks = hasattr(os, "fork") and threading.active_count() == 1
        context: Any = get_context("fork" if forks else "spawn")
        self._ours, theirs = Pipe()
        arguments = (config, number, theirs, self._ours if forks else None)
        self._process = context.Process(target=work, args=arguments, name=f"worker-{number}")
        self._process.start()
        theirs.close()
        self._reaping = threading.Lock()  # of two threads that wait for a process at a time, one gets the exit code
        # A worker that holds the interpreter's lock reads nothing, and must not hold up the host.
        self._sending = ThreadPoolExecutor(1, thread_name_prefix=f"to worker {number}")

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid or 0

    def send(self, call: WorkerCall) -> None:
        """Hand a call over. A worker that has ended does not get it."""

        def hand_over() -> None:
            with suppress(OSError):
                self._ours.send(call)

        self._sending.submit(hand_over)

    async def messages(self) -> AsyncIterator[WorkerAnswer | Prepared | HostError]:
        """Yield what the worker says, until it has ended."""
        loop = asyncio.get_running_loop()
        heard: asyncio.Queue[WorkerAnswer | Prepared | HostError | None] = asyncio.Queue()

        # A process that the app has forked keeps the pipe open when the worker has ended, so wait for the worker's end.
        alive, theirs = Pipe(duplex=False)

        def outlive() -> None:
            with self._reaping:
                self._process.join()
            theirs.close()

        def listen() -> None:
            with suppress(EOFError, OSError):
                while self._ours in wait([self._ours, alive]):
                    loop.call_soon_threadsafe(heard.put_nowait, self._ours.recv())
            with suppress(RuntimeError):  # the loop is over
                loop.call_soon_threadsafe(heard.put_nowait, None)

        for job in (outlive, listen):
            threading.Thread(target=job, name=f"{job.__name__} a worker", daemon=True).start()
        while (message := await heard.get()) is not None:
            yield message

    def kill(self) -> None:
        """End the process, whatever it is doing."""
        self._process.kill()

    def bury(self) -> int:
        """Wait until the process has ended; return its exit code."""
        self._process.kill()
        with self._reaping:
            self._process.join()
        self._sending.shutdown(wait=False)
        return self._process.exitcode or 0


class Slot:
    """A worker's place in the host: one process after another."""

    def __init__(self, number: int, process: WorkerProcess) -> None:
        self.number = number
        self.process = process
        self.ready = asyncio.Event()
        self.calls: dict[str, asyncio.Future[WorkerAnswer]] = {}
        self.late: dict[str, str] = {}
        """Calls that took too long, with their errors: the worker is ended for them."""


class Workers:
    """Gives calls to the workers of one host."""

    def __init__(self, config: HostConfig, write: Write) -> None:
        self._config = config
        self._write = write
        self._slots: list[Slot] = []
        self._turns: Iterator[Slot]
        self._prepared: Prepared | None = None
        self._trouble = ""
        self._known = asyncio.Event()  # the description of the app, or that it can't be used
        self._over = asyncio.Event()
        self._deaths = 0
        self._restarts = asyncio.Lock()
        self._watching: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start the first worker, before any other thread; further workers start when the app is known."""
        self._slots.append(Slot(1, self._opened(1)))

    async def prepared(self) -> Prepared:
        """Return what the first worker found in the app.

        Raises:
            HostError: the app can't be used, or its workers did not live that long.
        """
        self._watch(self._slots[0])
        await self._known.wait()
        prepared = self._prepared
        if prepared is None:
            raise HostError(self._trouble)
        for number in range(2, prepared.workers + 1):
            self._slots.append(Slot(number, self._opened(number)))
            self._watch(self._slots[-1])
        self._turns = cycle(self._slots)
        over = asyncio.create_task(self._over.wait())
        for slot in self._slots:
            ready = asyncio.create_task(slot.ready.wait())
            await asyncio.wait({over, ready}, return_when=asyncio.FIRST_COMPLETED)
            if not ready.done():
                raise HostError(self._trouble)
        return prepared

    def pids(self) -> list[int]:
        """Return the processes' ids."""
        return [slot.process.pid for slot in self._slots]

    async def failed(self) -> str:
        """Wait until the host gives its workers up; return why."""
        await self._over.wait()
        return self._trouble

    async def invoke(self, call: WorkerCall, limit: float | None) -> WorkerAnswer:
        """Let a worker run a function, for ``limit`` seconds at most; return its answer, or an answer about its end."""
        slot = await self._next()
        answer: asyncio.Future[WorkerAnswer] = asyncio.get_running_loop().create_future()
        slot.calls[call.invocation] = answer
        slot.process.send(call)
        await asyncio.wait({answer}, timeout=limit)
        if answer.done():
            return answer.result()
        assert limit is not None
        error = f"FunctionTimeoutException: Timeout value of {_span(limit)} exceeded by function {call.function}"
        await asyncio.wait({answer}, timeout=GRACE)
        if call.invocation in slot.calls:  # it has not ended by now, nor has its worker
            _log.error("%s: its worker is ended, with all that is in it", error)
            slot.late[call.invocation] = error
            slot.ready.clear()
            slot.process.kill()
            await answer
        blames = answer.result().blames if answer.done() else ""  # of a body that has ended since
        return WorkerAnswer(invocation=call.invocation, error=error, blames=blames)

    async def _next(self) -> Slot:
        """Return the worker whose turn it is; a worker that is starting is skipped."""
        while True:
            slot = next(self._turns)
            if not any(each.ready.is_set() for each in self._slots):
                await slot.ready.wait()
            if slot.ready.is_set():
                return slot

    def end(self) -> None:
        """End the workers, also in the middle of work."""
        for task in self._watching:
            task.cancel()
        for slot in self._slots:
            slot.process.bury()

    def _opened(self, number: int) -> WorkerProcess:
        process = WorkerProcess(self._config, number)
        self._write("worker_started", worker=number, pid=process.pid)
        return process

    def _watch(self, slot: Slot) -> None:
        self._watching.append(asyncio.create_task(self._keep(slot)))

    async def _keep(self, slot: Slot) -> None:
        """Listen to a worker, and start it again when it has ended, until the host gives up."""
        while True:
            async for message in slot.process.messages():
                self._take(slot, message)
            code = await asyncio.to_thread(slot.process.bury)
            late = {} if self._over.is_set() else self._end_of(slot, code)
            if self._over.is_set():
                return
            await self._restarts.acquire()
            slot.process = self._opened(slot.number)
            asyncio.get_running_loop().call_later(RESTART, self._restarted, late)

    def _restarted(self, late: Mapping[str, asyncio.Future[WorkerAnswer]]) -> None:
        self._restarts.release()
        for invocation, answer in late.items():
            answer.set_result(WorkerAnswer(invocation=invocation))

    def _take(self, slot: Slot, message: WorkerAnswer | Prepared | HostError) -> None:
        if isinstance(message, WorkerAnswer):
            answer = slot.calls.pop(message.invocation, None)
            if answer is not None and not answer.done():
                answer.set_result(message)
        elif isinstance(message, HostError):
            self._give_up(str(message))
        else:
            self._prepared = self._prepared or message
            self._known.set()
            slot.ready.set()

    def _end_of(self, slot: Slot, code: int) -> Mapping[str, asyncio.Future[WorkerAnswer]]:
        """Record the end of a worker. Fail its invocations, or return those for which it was killed."""
        slot.ready.clear()
        why = next(iter(slot.late.values()), f"it ended by itself with exit code {code}")
        self._write("worker_exited", worker=slot.number, code=code, reason=why, timeout=bool(slot.late))
        self._deaths += not slot.late
        calls, late = dict(slot.calls), dict(slot.late)
        slot.calls.clear()
        slot.late.clear()
        for invocation, answer in ({} if late else calls).items():
            error = f"WorkerProcessExitException: the worker that ran it ended: {why}"
            if not answer.done():
                answer.set_result(WorkerAnswer(invocation=invocation, error=error))
        if not self._known.is_set():
            self._give_up(f"its worker ended with exit code {code} while it read the app")
        elif self._deaths >= DEATHS_EACH * len(self._slots):
            self._give_up(f"its workers ended by themselves {self._deaths} times: it stops, as the real host does")
        return {invocation: calls[invocation] for invocation in late}

    def _give_up(self, why: str) -> None:
        self._trouble = why
        self._over.set()
        self._known.set()


def _span(seconds: float) -> str:
    whole = int(seconds)
    fraction = f".{round((seconds - whole) * 10_000_000):07}" if seconds != whole else ""
    days, rest = divmod(whole, 86400)
    return f"{f'{days}.' if days else ''}{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}{fraction}"
