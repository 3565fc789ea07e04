"""The functions whose messages go back: every shape that a declaration with ``"defer"`` may have.

Each is declared in two apps, with the options of one host.json each, and on two queues.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

import azure.functions as func

from simulator.host.app.app_model import Parameter
from simulator.host.app.hostjson import QueueOptions
from simulator.virtual.hosts.jobs import Job, without_options
from singleton import singleton

if TYPE_CHECKING:
    from collections.abc import Callable

    from singleton.functions.contention import Contention, Policy

_ROOT: Final = "AzureWebJobsScriptRoot"
_ANSWERS: Final[tuple[Policy, ...]] = ("defer", "defer", "defer", "wait", "raise", "skip")


@dataclass(frozen=True, slots=True)
class DeferApp:
    """An app's host.json, as far as the workload must know it.

    Attributes:
        name: the name of the folder; empty: no folder, and all options have their defaults.
        delay: the ``deferDelay``.
        options: the options of queues that the host reads.
    """

    name: str
    delay: float
    options: QueueOptions

    @property
    def folder(self) -> Path:
        """Where its host.json is."""
        here = Path(__file__).parent
        return here / "apps" / self.name if self.name else here.parent


def _options(**more: Any) -> QueueOptions:
    return QueueOptions(max_polling_interval=5.0, visibility_timeout=4.0, **more)


APPS: Final = (
    DeferApp("", 10.0, _options()),
    DeferApp("plain", 6.0, _options(message_encoding="none", max_dequeue_count=3)),
)


@dataclass(frozen=True, slots=True)
class Shape:
    """A function that a queue triggers.

    Attributes:
        run: it, guarded.
        parameter: the parameter of the trigger, which the host fills.
        keyed: whether the lock is that of the customer in the message: all functions of the app share the lock.
        is_async: whether it can be cancelled.
        skips: tells by the id of an invocation whether the policy skips the invocation.
    """

    run: Callable[..., Any]
    parameter: Parameter
    keyed: bool = True
    is_async: bool = True
    skips: Callable[[str], bool] = lambda _: False


def answer(contention: Contention) -> Policy:
    """Answer as a user's policy function: at random, but for one invocation always the same."""
    return _answer_to(contention.owner)


def _answer_to(invocation: str) -> Policy:
    return _ANSWERS[crc32(invocation.encode()) % len(_ANSWERS)]


def _skips(invocation: str) -> bool:
    return _answer_to(invocation) == "skip"


BYTES: Final = "put_off_bytes"
_GUARDS: Final[dict[str, dict[str, Any]]] = {
    "put_off": {"on_contention": "defer"},
    "put_off_sync": {"on_contention": "defer"},
    "put_off_soon": {"on_contention": "defer", "timeout": 4},
    # The host renews the message meanwhile, so its first receipt is invalid.
    "put_off_late": {"on_contention": "defer", "timeout": 20},
    BYTES: {"on_contention": "defer"},
    "put_off_for_an_output": {"on_contention": "defer"},
    "put_off_sometimes": {"on_contention": answer},
    "put_off_elsewhere": {"mode": "listener"},
}
KINDS: Final = tuple(_GUARDS)


@cache
def shapes(app: DeferApp, queue: str) -> dict[str, Shape]:
    """Declare all functions of an app for a queue.

    Their messages can be put back only if the trigger names the queue.
    """
    functions = func.FunctionApp()
    with without_options():
        os.environ[_ROOT] = str(app.folder)
        try:
            return {name: _shape(functions, name, queue) for name in KINDS}
        finally:
            del os.environ[_ROOT]


def _shape(app: func.FunctionApp, kind: str, queue: str) -> Shape:
    is_async, binary = kind != "put_off_sync", kind == BYTES
    function = _async_body() if is_async else _sync_body()
    function.__name__ = function.__qualname__ = name_of(kind, queue)
    keyed = _GUARDS[kind].get("mode") is None
    arguments: dict[str, Any] = _GUARDS[kind] | ({"scope": "Order:Id", "level": "host"} if keyed else {})
    guarded = singleton(**arguments)
    triggered = app.queue_trigger(
        arg_name="msg",
        queue_name=queue,
        connection="AzureWebJobsStorage",
        **({"data_type": func.DataType.BINARY} if binary else {}),
    )
    builder: Any = triggered(function)
    if kind == "put_off_for_an_output":
        output = app.table_output(arg_name="$return", table_name="done", connection="AzureWebJobsStorage")
        builder = output(builder)
    run = guarded(builder)._function.get_user_function()  # noqa: SLF001 - no public way
    parameter = Parameter(name="msg", binding="queueTrigger", converter="queueTrigger", data_type=2 if binary else None)
    skips = _skips if kind == "put_off_sometimes" else (lambda _: False)
    return Shape(run, parameter, keyed, is_async, skips)


def name_of(kind: str, queue: str) -> str:
    """Return the name of the function of this kind for a queue."""
    return f"{kind}_of_{queue.replace('-', '_')}"


def _async_body() -> Callable[..., Any]:
    async def put_off(msg: func.QueueMessage, job: Job, ran: list[int]) -> str:  # noqa: ARG001 - the scope is in it
        ran.append(1)
        await job.run()
        return "done"

    return put_off


def _sync_body() -> Callable[..., Any]:
    def put_off_sync(msg: func.QueueMessage, job: Job, ran: list[int]) -> str:  # noqa: ARG001
        ran.append(1)
        job.run_sync()
        return "done"

    return put_off_sync
