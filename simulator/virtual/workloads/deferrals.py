"""The workload ``defer``: messages of some customers, put back while their customer's lock is busy.

Functions of several shapes, of one app or two, on one queue or two. Some bodies fail once, or always; some hide their
message's own names, as the host has the body's in their place: these go back without them (H-80); some messages have
a short life; and some invocations are cancelled, at whatever they wait for. In some worlds each delivery has further
tries, by a retry policy.

And the functions whose messages go back: every shape that a declaration with ``"defer"`` may have.

Each is declared in two apps, with the options of one host.json each, and on two queues.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

import azure.functions as func

from simulator.host.app.app_model import Parameter
from simulator.host.app.hostjson import QueueOptions, RetryPolicy
from simulator.host.triggers.bindings import queue_input
from simulator.host.triggers.queue import decode, encode
from simulator.virtual.hosts.jobs import InvocationContext, Job, Tries, some_jobs, under_way, without_options
from simulator.virtual.hosts.queue_host import Feed, QueueWorld, cancel, declare, invoke, run_function
from simulator.virtual.hosts.queue_service import WEEK
from simulator.virtual.storage.network import both
from simulator.virtual.workloads.ledger import Ledger
from singleton import singleton

if TYPE_CHECKING:
    from collections.abc import Callable

    from simulator.host.triggers.queue import QueueMessage
    from simulator.virtual.storage.network import NetworkRequest, Passage
    from simulator.virtual.time.machine import Machine
    from simulator.virtual.worlds.world import World
    from singleton.base.kinds import Policy
    from singleton.functions.contention import Contention


_ROOT: Final = "AzureWebJobsScriptRoot"
_ANSWERS: Final[tuple[Policy, ...]] = ("defer", "defer", "defer", "wait", "raise", "skip")


@dataclass(frozen=True, slots=True)
class DeferApp:
    """An app's host.json: the name of the app's folder, the ``deferDelay``, and the options of queues.

    With an empty name there is no folder, and all options have their defaults.
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
    """A guarded function that a queue triggers, and the parameter that the host fills.

    ``keyed``: the lock is the lock of the customer in the message, and all functions of the app share the lock.
    ``asks``: the policy is a function.
    """

    run: Callable[..., Any]
    parameter: Parameter
    keyed: bool = True
    is_async: bool = True
    asks: bool = False


def answer(contention: Contention) -> Policy:
    """Answer as a user's policy function: at random, but for one invocation always the same."""
    return _answer_to(contention.owner)


def _answer_to(invocation: str) -> Policy:
    return _ANSWERS[crc32(invocation.encode()) % len(_ANSWERS)]


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
    with without_options({_ROOT: str(app.folder)}):
        return {name: _shape(functions, name, queue) for name in KINDS}


def _shape(app: func.FunctionApp, kind: str, queue: str) -> Shape:
    is_async, binary = kind != "put_off_sync", kind == BYTES
    function = _body(is_async=is_async)
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
    return Shape(run, parameter, keyed, is_async, asks=kind == "put_off_sometimes")


def name_of(kind: str, queue: str) -> str:
    """Return the name of the function of this kind for a queue."""
    return f"{kind}_of_{queue.replace('-', '_')}"


def _body(*, is_async: bool) -> Callable[..., Any]:
    async def put_off(msg: func.QueueMessage, job: Job, ran: list[int]) -> str:  # noqa: ARG001 - the scope is in it
        ran.append(1)
        await job.run()
        return "done"

    def put_off_sync(msg: func.QueueMessage, job: Job, ran: list[int]) -> str:  # noqa: ARG001
        ran.append(1)
        job.run_sync()
        return "done"

    return put_off if is_async else put_off_sync


_QUEUES: Final = ("deferred-orders", "deferred-parcels")
_ALWAYS: Final = 99
_RETRIES: Final = (0, 0, 1, 2)
_PAUSES: Final = (0.0, 1.0, 4.0)
"""Of retry policies: how many tries follow a failure, and the seconds before each."""
_FAILURES: Final = (*[0] * 5, 1, 2, _ALWAYS, _ALWAYS)
_BY_REQUEST: Final = 0.7
_HIDING: Final[tuple[dict[str, Any], ...]] = (
    *({},) * 6,
    *({"iD": "k"}, {"Id": ".."}, {"id": ""}, {"ID": 7}, {"Id": {}}, {"Id": None}, {"id": ["m1"]}),
    *(
        {"PopReceipt": "p"},
        {"DequeueCount": 7},
        {"dequeueCount": 0, "Id": "k"},
        {"text": "Gr\u00fc\u00dfe\r\n <&>\u2028"},
    ),
)
"""What bodies have beside the order."""


def start_deferrals(world: World) -> None:
    """Let all hosts listen to one queue or two, with more messages of a customer than can run."""
    rng = world.rng_work
    app = rng.choice(APPS)
    queues = _QUEUES[: rng.choice([1, 1, 1, 2])]
    kinds = rng.sample(KINDS, rng.choice([1, 1, 2, 3]))
    if BYTES in kinds:  # functions of one queue must agree on the names of a message: its failures are counted by them
        kinds = [BYTES]
    hosting, ledger = queues_of(world, app)
    jobs = some_jobs(world, rng.randint(2, 7))
    orders = [Order(number, job, rng.choice(_FAILURES)) for number, job in enumerate(jobs)]
    tries = app.options.max_dequeue_count
    runner = DeferralRunner(world, ledger, orders, tries, rng.choice([0.0, 0.0, 0.2, 0.5]), rng.random())
    for queue in queues:
        declare(world, {name_of(kind, queue): shapes(app, queue)[kind].run for kind in kinds}, queue=queue)
        for machine in world.machines:
            for kind in rng.sample(kinds, rng.choice([1, 1, 1, len(kinds)])):
                shape = shapes(app, queue)[kind]
                name = name_of(kind, queue)
                hosting.listen(machine, name, queue, partial(runner.deliver, machine, name, shape))
    work = sum(job.steps * job.pause + 13.0 for job in jobs) * (1 + runner.policy.most)
    feeds = sorted((_feed(rng, app, queues, order) for order in orders), key=lambda feed: feed.at)
    hosting.feed(feeds, seconds=work + 300.0)


def queues_of(world: World, app: DeferApp) -> tuple[QueueWorld, Ledger]:
    """Return the queues of an app, and the ledger that watches them."""
    hosting = QueueWorld(world, app.options)
    ledger = Ledger(world, delay=app.delay, most=app.options.max_dequeue_count)
    hosting.queues.watcher = ledger
    hosting.on_feed = lambda feed, stored: ledger.fed(_number(feed), feed.queue, stored)
    return hosting, ledger


@dataclass(slots=True)
class Order:
    """What a message asks for: the job of its number, which fails so many times before it works."""

    number: int
    job: Job
    fails: int
    runs: int = 0


def _feed(rng: random.Random, app: DeferApp, queues: tuple[str, ...], order: Order) -> Feed:
    body = {"Order": {"Id": f"key-{rng.randrange(2)}"}, "Number": order.number} | rng.choice(_HIDING)
    text = encode(json.dumps(body, ensure_ascii=False).encode(), app.options.message_encoding)
    life = rng.choice([*[float(WEEK)] * 6, None, rng.uniform(5.0, 120.0)])
    return Feed(rng.uniform(0, 30.0), rng.choice(queues), text, life)


def _number(feed: Feed) -> int:
    return int(json.loads(decode(feed.text, "none" if feed.text.startswith("{") else "base64"))["Number"])


@dataclass(slots=True)
class DeferralRunner:
    """Runs deliveries as the worker does, so many ``tries`` a message; ``cancels`` is the share that is cancelled."""

    world: World
    ledger: Ledger
    orders: list[Order]
    tries: int
    cancels: float
    salt: float
    policy: RetryPolicy = field(init=False)
    _sent: Counter[Machine] = field(default_factory=Counter)
    _awaited: dict[Machine, list[tuple[int, asyncio.Future[None]]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rng = random.Random(f"{self.salt}/retries")
        self.policy = RetryPolicy(most=rng.choice(_RETRIES), fixed=rng.choice(_PAUSES))
        self.world.network.on_send = both(self.world.network.on_send, self._count)

    async def deliver(self, machine: Machine, name: str, shape: Shape, received: QueueMessage) -> bool:
        """Run one invocation; tell whether it succeeded."""
        invocation = f"{machine.name}/{received.id}/{received.dequeue_count}"
        rng = random.Random(f"{self.salt}/{invocation}")
        invoked = asyncio.create_task(self._tries(machine, name, shape, invocation, received), name=invocation)
        with under_way(invoked):
            if shape.is_async and rng.random() < self.cancels:
                await self._cancel(machine, invoked, invocation, rng)
            await asyncio.wait({invoked})
        if invoked.cancelled():
            hidden = "DequeueCount" in json.loads(received.body)
            self.ledger.cancelled(received.id, last=self._is_last(received), hidden=hidden)
            return False
        return invoked.result()

    def _is_last(self, received: QueueMessage) -> bool:
        return received.dequeue_count >= self.tries

    async def _cancel(self, machine: Machine, invoked: asyncio.Task[bool], invocation: str, rng: random.Random) -> None:
        """Cancel an invocation some steps after a request that its machine sends from now on, or after some seconds."""
        asked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if rng.random() < _BY_REQUEST:
            self._awaited.setdefault(machine, []).append((self._sent[machine] + rng.randint(1, 8), asked))
        until: set[asyncio.Future[Any]] = {invoked, asked}
        await asyncio.wait(until, timeout=rng.uniform(0.0, 25.0), return_when=asyncio.FIRST_COMPLETED)
        for _ in range(rng.randrange(12)):
            await asyncio.sleep(0)
        await cancel(self.world, invoked, invocation)

    def _count(self, request: NetworkRequest, _: Passage) -> None:
        machine = request.machine
        self._sent[machine] += 1
        waiting = self._awaited.get(machine, [])
        for number, asked in [*waiting]:
            if number <= self._sent[machine]:
                waiting.remove((number, asked))
                if not asked.done():
                    machine.context().run(asked.set_result, None)

    async def _tries(self, machine: Machine, name: str, shape: Shape, invocation: str, received: QueueMessage) -> bool:
        """Try one delivery as often as the retry policy says: one invocation, and one failure in the end (H-82)."""
        retry, own = Tries(max_retry_count=self.policy.most), False
        while True:
            outcome, ran, value = await self._invoke(machine, name, shape, invocation, received, retry)
            own |= outcome == "failed"
            if outcome == "ok" or not self.policy.allows(retry.retry_count):
                break
            await asyncio.sleep(self.policy.fixed or 0.0)
            retry = replace(retry, retry_count=retry.retry_count + 1)
        put_back = outcome == "ok" and not ran
        if outcome == "ok":
            skipped = shape.asks and _answer_to(invocation) == "skip"
            self.ledger.succeeded(received.id, ran=ran, dropped=skipped, value=value, tried=retry.retry_count, own=own)
        else:
            self.ledger.failed(received.id, own=own, last=self._is_last(received))
        reached = f"{'put back' if put_back else outcome}{' at a later try' if retry.retry_count else ''}"
        self.world.oracle.reached[f"invocation: {reached}"] += 1
        return outcome == "ok"

    async def _invoke(
        self, machine: Machine, name: str, shape: Shape, invocation: str, received: QueueMessage, retry: Tries
    ) -> tuple[str, bool, object]:
        """Try once; return the outcome, whether the body ran, and what the function returned."""
        body = json.loads(received.body)
        order, ran, values = self.orders[body["Number"]], list[int](), list[object]()
        job = replace(order.job, fails=order.runs < order.fails)

        async def work() -> None:
            context = InvocationContext(name, invocation, retry)
            given = {"msg": queue_input(shape.parameter, received), "job": job, "ran": ran, "context": context}
            try:
                values.append(await run_function(shape.run, given))
            finally:
                order.runs += len(ran)

        outcome = await invoke(
            self.world,
            machine,
            name,
            invocation,
            work,
            message=received.id,
            keys={"function": body["Order"]["Id"]} if shape.keyed else None,
            failures=(RuntimeError,),
            attempt=retry.retry_count,
        )
        return outcome, bool(ran), values[0] if values else None
