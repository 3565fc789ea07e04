"""A worker's process: it imports the app, tells the host what is in it, and answers calls until the host has ended."""

from __future__ import annotations

import logging
import os
import signal
import threading
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from simulator.history.journal import Journal
from simulator.host.app.app_model import HostError
from simulator.host.calls import AppRefusal, WorkerAnswer
from simulator.host.expected_keys import expected_keys
from simulator.host.startup import Prepared, leave, prepare_app, set_up_logging
from simulator.host.triggers.bindings import binding_data, queue_input, timer_input
from simulator.host.triggers.delivery import Delivery, delivered_input, output_names
from simulator.host.triggers.outputs import Outputs
from simulator.host.triggers.queues import QueueMessage
from simulator.host.web.site import HttpRequest, answered, http_input, request_names
from simulator.host.worker import Worker, describe
from simulator.witness.tap import tap_leases
from simulator.witness.witness import Witness
from singleton.base.events import LockEvent, subscribe
from singleton.functions.body_context import current_hold
from singleton.stores.http.connections import Connections

if TYPE_CHECKING:
    from collections.abc import Mapping
    from multiprocessing.connection import Connection

    from simulator.history.journal import Write
    from simulator.host.app.app_model import HostConfig, IndexedFunction, Parameter
    from simulator.host.calls import WorkerCall
    from simulator.host.triggers.timer import Tick
    from simulator.host.worker import BodyOutcome

ENDED: Final = 1
_log = logging.getLogger(__name__)


def work(config: HostConfig, number: int, connection: Connection, host_end: Connection | None) -> None:
    """Be worker ``number`` of the host that ``config`` describes, at the other end of ``connection``.

    ``host_end`` is the host's end of it; a fork has left it open here.
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
    try:
        prepared = prepare_app(config)
    except HostError as error:
        connection.send(AppRefusal(str(error)))
        return

    def on_lock_event(event: LockEvent) -> None:
        write("lock", worker=number, **asdict(event))

    subscribe(on_lock_event)
    for plan in prepared.plans:
        write("function", **plan.to_json(), limit=prepared.time_limit)
    witness = Witness(seen, current_hold)
    witness.watch({plan.function.name: plan.function.call for plan in prepared.plans})
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
        if plan.guards:
            keys = expected_keys(plan, call.cause, os.environ, self._host_id)
            self._write("expected", invocation=call.invocation, keys=keys)
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
