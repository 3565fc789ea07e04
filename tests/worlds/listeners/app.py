"""The app of the workload ``listener``: listeners and ordinary guarded functions in one host, with options drawn.

The bodies are the same in all of its variants; a variant has its own declarations around them, for options are read
when a function is declared.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

from simulator.virtual.hosts.jobs import without_options
from singleton import current_hold, singleton
from singleton.base.timespan import FOREVER, host_json_timespan
from singleton.decorator import guards_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from simulator.virtual.hosts.jobs import Job
    from singleton.base.hold import Hold
    from singleton.base.kinds import Policy
    from singleton.functions.contention import Contention

QUEUE: Final = "listened-orders"
LIMIT: Final = 20.0
"""The ``functionTimeout`` of the app, in seconds."""
WAITS_UNTIL: Final = 15.0
"""Seconds after which an invocation stops waiting under that limit."""
PATIENCE: Final = 15.0
"""Seconds for which ``ask`` waits if its policy says so."""


class PanicError(BaseException):
    """An error like that of a Rust library (PyO3), which is no ``Exception``."""


@dataclass(frozen=True, slots=True)
class Variant:
    """Options of the app: seconds of a listener's lease, and of its recovery interval or, without one, its time-out."""

    period: float
    recovery: float | None = 15.0
    timeout: float | None = None


VARIANTS: Final = (
    Variant(15),
    Variant(15),
    Variant(20, 15),
    Variant(30, 20),
    Variant(60, 15),
    Variant(15, None),
    Variant(15, None, timeout=12),
)
WITHOUT_END: Final = Variant(15, None)
"""Functions without a listener wait as long as they may."""


@dataclass(slots=True)
class Work:
    """Script and record of a body: its ``job``, its end, and its outcome.

    Attributes:
        job: what it does.
        now: the true time.
        ends: how it ends: ``well``, or with what no worker would answer (``cancelled``, ``exit``, ``stop``, ``panic``).
        gives: what it returns: ``nothing``, a ``text``, or ``items`` that are made one by one.
        policy: answer of its policy function, if declared.
        ran: how often it ran.
        gave: what it returned.
        hold: the hold under which it ran.
        began: when it began, in true time.
        asked: what its policy function was told, and when.
        unlocked: how many items were made without the lock.
    """

    job: Job
    now: Callable[[], float]
    ends: str = "well"
    gives: str = "nothing"
    policy: Policy = "wait"
    ran: int = 0
    gave: object = None
    hold: Hold | None = None
    began: float = 0.0
    asked: list[tuple[float, Contention]] = field(default_factory=list)
    unlocked: int = 0

    async def run(self) -> object:
        """Work, as a coroutine."""
        self._begin()
        await self.job.run()
        return self._end()

    def run_sync(self) -> object:
        """Work, on a thread."""
        self._begin()
        self.job.run_sync()
        return self._end()

    def _begin(self) -> None:
        self.ran += 1
        self.began = self.now()
        self.hold = current_hold()

    def _end(self) -> object:
        match self.ends:
            case "cancelled":
                raise asyncio.CancelledError
            case "exit":
                raise SystemExit(3)
            case "stop":
                raise StopIteration
            case "panic":
                raise PanicError
        if self.gives != "nothing":
            self.gave = self._items() if self.gives == "items" else f"done {id(self)}"
        return self.gave

    def _items(self) -> Iterator[str]:
        for number in range(2):
            try:
                self.unlocked += current_hold() is not self.hold
            except RuntimeError:
                self.unlocked += 1
            yield f"item {number}"


UNDER_WAY: dict[str, Work] = {}
"""What the invocations of the world do, by their ids, for their policy function."""


def ask_policy(contention: Contention) -> Policy:
    """Decide as the invocation's work says."""
    work = UNDER_WAY[contention.owner]
    work.asked.append((work.now(), contention))
    return work.policy


# --- the bodies -------------------------------------------------------------------------------------------------------


async def _on_timer(timer: object, work: Work) -> object:
    return await work.run()


def _on_timer_sync(timer: object, work: Work) -> object:
    return work.run_sync()


async def _on_message(msg: Any, work: Work) -> object:
    return await work.run()


def _on_message_sync(msg: Any, work: Work) -> object:
    return work.run_sync()


@cache
def listening_app(variant: Variant) -> dict[str, Callable[..., Any]]:
    """Declare the functions with these options."""
    import azure.functions as func

    app = func.FunctionApp()

    tick = app.timer_trigger(arg_name="timer", schedule="*/5 * * * * *", use_monitor=False)
    received = app.queue_trigger(arg_name="msg", queue_name=QUEUE, connection="AzureWebJobsStorage")

    def timer(name: str, body: Any) -> Any:
        return app.function_name(name)(tick(body))

    def queue(name: str, body: Any) -> Any:
        return app.function_name(name)(received(body))

    returned = app.queue_output(arg_name="$return", queue_name="answers", connection="AzureWebJobsStorage")
    off: dict[str, Any] = {} if variant.timeout is None else {"timeout": variant.timeout}

    def listener(**arguments: Any) -> Any:
        return singleton(mode="listener", **off, **arguments)

    customer = partial(singleton, scope="Order:Id", level="host")
    with without_options(_options(variant)):
        declared: dict[str, Any] = {
            "sweep": listener()(timer("sweep", _on_timer)),
            "sweep_sync": listener()(timer("sweep_sync", _on_timer_sync)),
            "tally": listener(on_contention="raise")(returned(timer("tally", _on_timer))),
            "pull": listener()(queue("pull", _on_message)),
            "pull_sync": listener()(queue("pull_sync", _on_message_sync)),
            "answer": listener()(_on_message),
            "answer_sync": listener()(_on_message_sync),
            "idle": listener()(_on_timer),
            # Sync: the release of its inner lock, after a loss, counts as a part of its listener's body.
            "both": listener()(singleton(scope="Order:Id")(_on_message_sync)),
            "twice": listener()(singleton(scope="Order:Id")(_on_message_sync)),
            "ship": customer()(_on_message),
            "ship_sync": customer(timeout=20)(_on_message_sync),
            "ask": customer(on_contention=ask_policy, timeout=PATIENCE)(_on_message),
            "ask_pull": customer(on_contention=ask_policy)(queue("ask_pull", _on_message)),
            "ask_sync": customer(on_contention=ask_policy)(_on_message_sync),
            "nightly": singleton(on_contention="skip")(timer("nightly", _on_timer)),
            "report": customer()(returned(queue("report", _on_message))),
            "report_sync": customer()(returned(queue("report_sync", _on_message_sync))),
            "attempt": singleton(scope="Order:Id", layout="dequeueable")(_on_message),
            "limited": customer()(_on_message),
        }
        functions = {name: _function(each) for name, each in declared.items()}
        _limit_wait(functions["limited"])
        _limit_wait(functions["twice"])
    return functions


def _function(declared: Any) -> Callable[..., Any]:
    builder = getattr(declared, "_function", None)
    function: Callable[..., Any] = declared if builder is None else builder.get_user_function()
    return function


def _limit_wait(function: Callable[..., Any]) -> None:
    """Let a function's waits end before the functionTimeout: it is read at the first invocation, and kept."""
    with without_options({"AzureFunctionsJobHost__functionTimeout": host_json_timespan(LIMIT)}):
        for guard in guards_of(function):
            assert guard._limit.timeout is not None


def _options(variant: Variant) -> dict[str, str]:
    section = "AzureFunctionsJobHost__singleton__"
    return {
        f"{section}lockPeriod": "00:00:15",
        f"{section}lockAcquisitionPollingInterval": "00:00:05",
        f"{section}listenerLockPeriod": host_json_timespan(variant.period),
        f"{section}listenerLockRecoveryPollingInterval": host_json_timespan(
            FOREVER if variant.recovery is None else variant.recovery
        ),
        f"{section}deferDelay": "00:00:02",
        "Dequeueable__Singleton__LeaseDurationInSeconds": "15",
        "Dequeueable__Singleton__MinimumPollingIntervalInSeconds": "1",
        "Dequeueable__Singleton__MaximumPollingIntervalInSeconds": "5",
        "Dequeueable__Singleton__MaxRetries": "4",
    }
