"""Apps with one mistake each in a body, or in the schedule of a timer, and the rule that must find it."""

from __future__ import annotations

from typing import Final

from tests.unit.simulator.appcheck.planted_mistakes import Planted, queue, timer

_ASYNC: Final = "async def ship(msg: func.QueueMessage) -> None:\n"
IMPORTS: Final = "import asyncio, time\nfrom singleton import Inbox, LockClient, current_hold\n"

BODIES: Final = (
    Planted(
        name="time.sleep in an async def",
        finds=("blocking-call",),
        code=f"{IMPORTS}{queue('', _ASYNC + '    if msg: time.sleep(1)')}",
        says="Await asyncio.sleep()",
        line="time.sleep(1)",
    ),
    Planted(
        name="time.sleep under a name of its own, imported in the body",
        finds=("blocking-call",),
        code=queue("", _ASYNC + "    from time import sleep as rest\n    rest(1)"),
        line="rest(1)",
    ),
    Planted(
        name="a plain helper of an async def that sleeps",
        finds=("blocking-call",),
        code=f"""{IMPORTS}
def pause(): time.sleep(1)
async def slowly(): pause()
{queue("", _ASYNC + "    await slowly()")}""",
        line="def pause",
    ),
    Planted(
        name="a sync HTTP client in an async def",
        finds=("blocking-call",),
        code=f"""import requests
@queue()
{_ASYNC}
    with requests.Session() as web:
        web.get("https://orders.example")
""",
        says="Use an async HTTP client",
        line="web.get",
    ),
    Planted(
        name="a sync client of an SDK in an async def",
        finds=("blocking-call",),
        code=f"""
from azure.storage.blob import BlobServiceClient
service = BlobServiceClient.from_connection_string("UseDevelopmentStorage=true")
@queue()
{_ASYNC}
    blob = service.get_blob_client("in", "a")
    blob.upload_blob(b"")
""",
        says="the SDK's module aio",
        line="blob.upload_blob",
    ),
    Planted(
        name="a function of a sync HTTP client in an async def",
        finds=("blocking-call",),
        code=f"import requests\n{queue('', _ASYNC + '    requests.get(msg.id)')}",
        line="requests.get",
    ),
    *(
        Planted(
            name=f"what from_connection_string of an SDK makes, {how}",
            finds=("blocking-call",),
            code=f"""
from azure.storage.blob import BlobClient
text = "UseDevelopmentStorage=true"
@queue()
{_ASYNC}
{body}
""",
            says="the SDK's module aio",
            line="upload_blob",
        )
        for how, body in (
            ("direct", "    BlobClient.from_connection_string(text, 'in', 'a').upload_blob(b'')"),
            ("assigned", "    blob = BlobClient.from_connection_string(text, 'in', 'a')\n    blob.upload_blob(b'')"),
            ("entered", "    with BlobClient.from_connection_string(text, 'in', 'a') as it: it.upload_blob(b'')"),
        )
    ),
    Planted(
        name="a sync lock client in an async def",
        finds=("blocking-call",),
        code=f"""{IMPORTS}
locks = LockClient("AzureWebJobsStorage")
{queue("", _ASYNC + "    with locks.lock('ledger'): ...")}""",
        says="locks.lock() blocks the event loop of the worker",
        line="with locks.lock",
    ),
    Planted(
        name="a sync lock client, made in an async def without a guard",
        finds=("blocking-call",),
        code=f"""{IMPORTS}
@queue()
{_ASYNC}
    with LockClient("AzureWebJobsStorage") as locks:
        locks.acquire("ledger")
""",
        line="locks.acquire",
    ),
    Planted(
        name="a sync operation of once in an async def",
        finds=("blocking-call",),
        code=f"""{IMPORTS}
locks = LockClient("AzureWebJobsStorage")
{queue("", _ASYNC + "    with once(locks, msg.id) as operation: operation.finish(1)")}""",
        line="with once",
    ),
    Planted(
        name="the state of a hold is read by a method that blocks",
        finds=("blocking-call",),
        code=f"{IMPORTS}{queue('', _ASYNC + '    hold = current_hold()' + chr(10) + '    hold.state.read()')}",
        says="Await aread()",
    ),
    Planted(
        name="an inbox that is sent to by a method that blocks",
        finds=("blocking-call",),
        code=f"""{IMPORTS}
inbox = Inbox("orders")
@app.route(route="orders")
async def receive(req: func.HttpRequest) -> str:
    inbox.send("a", {{}})
    return "ok"
""",
        says="Await asend()",
    ),
    Planted(
        name="a guarded def that an async def calls",
        finds=("blocking-call",),
        code="""
@queue()
@singleton(scope="Id")
def ship(msg: func.QueueMessage) -> None: ...

@app.route(route="ship")
async def ship_now(req: func.HttpRequest) -> str:
    ship(req)
    return "ok"
""",
        says="it waits for its lock",
    ),
    Planted(
        name="a coroutine that a plain def returns",
        finds=("coroutine-not-awaited",),
        code=f"async def work(msg): ...\n{queue('', 'def ship(msg: func.QueueMessage) -> None: return work(msg)')}",
        says="work() makes a coroutine, and the function returns it",
        line="return work",
    ),
    Planted(
        name="a coroutine that an async def returns",
        finds=("coroutine-not-awaited",),
        code=f"async def work(msg): ...\n{queue('', _ASYNC + '    return work(msg)')}",
    ),
    Planted(
        name="a future that a plain def returns",
        finds=("coroutine-not-awaited",),
        code=f"""{IMPORTS}
async def work(msg): ...
{queue("", "def ship(msg: func.QueueMessage) -> None: return asyncio.gather(work(msg))")}""",
        says="asyncio.gather() makes a future, and the function returns it",
        line="return asyncio.gather",
    ),
    Planted(
        name="a coroutine that a name has until a plain def returns it",
        finds=("coroutine-not-awaited",),
        code="""
async def work(msg): ...
@queue()
@singleton
def ship(msg: func.QueueMessage) -> None:
    coro = work(msg)
    return coro
""",
        says="work() makes a coroutine, and the function returns it",
        line="return coro",
    ),
    Planted(
        name="a coroutine that nobody awaits",
        finds=("coroutine-not-awaited",),
        code=f"{IMPORTS}{queue('', _ASYNC + '    asyncio.sleep(1)')}",
        says="its work is not done",
        line="asyncio.sleep",
    ),
    Planted(
        name="the current hold where no guard is",
        finds=("hold-without-guard",),
        code=f"{IMPORTS}@queue()\ndef ship(msg: func.QueueMessage) -> None:\n    current_hold().raise_if_lost()\n",
        line="current_hold()",
    ),
    Planted(
        name="the current hold in a helper of a function without a guard",
        finds=("hold-without-guard",),
        code=f"""{IMPORTS}
import singleton as s
def token(): return s.current_hold().token
@queue()
def ship(msg: func.QueueMessage) -> None:
    print(token())
""",
        line="def token",
    ),
    Planted(
        name="a timer that runs when an instance starts",
        finds=("run-on-startup",),
        code=timer('on_contention="skip"', "0 0 1 * * *", run_on_startup="True"),
        says="not from doing the work again",
    ),
    Planted(
        name="a timer that ticks each second of every 15th minute",
        finds=("timer-ticks-often",),
        code=timer('on_contention="skip"', "* */15 * * * *"),
        says="Write 0 for the seconds",
    ),
    Planted(
        name="a timer that ticks each minute of every second hour",
        finds=("timer-ticks-often",),
        code=timer('on_contention="skip"', "%WHEN%"),
        settings={"WHEN": "* */2 * * *"},
        says="the schedule '* */2 * * *' has * for the minutes",
    ),
    Planted(
        name="a guarded warmup trigger",
        finds=("guarded-warm-up",),
        code="@app.warm_up_trigger('context')\n@singleton(on_contention='skip')\ndef warm(context) -> None: ...\n",
        line="@singleton",
    ),
)
