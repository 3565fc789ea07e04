"""Apps that the real Python worker takes or refuses, and what the Functions host runs of them: a table for both hosts.

The worker's column is held to the real worker (``tests/integration/test_worker_indexing.py``), the whole row to the
fake host (``tests/unit/simulator/host/test_host_refusals.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import dedent
from typing import Final

HEAD: Final = """
import azure.functions as func
from singleton import singleton
app = func.FunctionApp()

@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
def good(msg: func.QueueMessage) -> None: ...
"""
BASE: Final = "azurefunctions.extensions.base"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """An app that has the function ``good`` and another, or something else that may lose them.

    Attributes:
        code: what follows after ``good``.
        indexed: the functions beside ``good`` that the worker indexes; None: it refuses the whole app.
        runs: those of them that the host runs.
        idle: words of the reason why the other one is not run.
        needs: a package without which the app can't be imported.
    """

    name: str
    code: str
    indexed: tuple[str, ...] | None = ("other",)
    runs: tuple[str, ...] = ()
    idle: str = ""
    needs: str = "azure.functions"

    @property
    def source(self) -> str:
        """The app's ``function_app.py``."""
        return HEAD + dedent(self.code)


def queue(
    name: str = "other", parameters: str = "msg: func.QueueMessage", returns: str = "None", **binding: str
) -> str:
    """Return the source of a queue function."""
    given = {"arg_name": "msg", "queue_name": "others", "connection": "AzureWebJobsStorage", **binding}
    settings = ", ".join(f"{key}={value!r}" for key, value in given.items())
    return f"@app.queue_trigger({settings})\ndef {name}({parameters}) -> {returns}: ...\n"


def named(name: str) -> str:
    """Return the source of a queue function with a name of its own."""
    return f"@app.function_name({name!r})\n{queue()}"


def timer(schedule: str) -> str:
    """Return the source of a timer function."""
    trigger = f"@app.timer_trigger(arg_name='timer', schedule={schedule!r})"
    return f"{trigger}\ndef other(timer: func.TimerRequest) -> None: ...\n"


HTTP_V2: Final = """
import azurefunctions.extensions.base as base

class Request: ...
class Response: ...
class Sync(base.RequestSynchronizer):
    def sync_route_params(self, request, path_params): ...
class Requests(metaclass=base.RequestTrackerMeta):
    request_type = Request
    synchronizer = Sync()
class Responses(metaclass=base.ResponseTrackerMeta):
    label = "standard"
    response_type = Response
class WebApp(base.WebApp):
    def route(self, func): ...
    def get_app(self): ...
class WebServer(base.WebServer):
    async def serve(self): ...

@app.route(route="x")
async def other(req: %s) -> %s: ...
"""
SETTLING: Final = """
import azurefunctions.extensions.base as base
class Actions(base.GrpcClientType): ...

@app.%s
def other(msg: %s, actions: Actions) -> None: ...
"""
SERVICE_BUS: Final = 'service_bus_queue_trigger(arg_name="msg", queue_name="q", connection="Bus")'
STORAGE_QUEUE: Final = 'queue_trigger(arg_name="msg", queue_name="others", connection="")'

SHAPES: Final = (
    # What is right.
    Shape(name="plain", code=queue(), runs=("other",)),
    Shape(name="context", code=queue(parameters="msg: str, context"), runs=("other",)),
    Shape(
        name="a binding called context",
        code=queue(parameters="context: func.QueueMessage", arg_name="context"),
        runs=("other",),
    ),
    Shape(name="snake case", code=queue(parameters="my_msg: str", arg_name="my_msg"), runs=("other",)),
    Shape(name="cron", code=timer("0 */5 * * * *"), runs=("other",)),
    Shape(name="days", code=timer("2"), runs=("other",)),
    Shape(name="dashes", code=named("An-Other_1"), indexed=("An-Other_1",), runs=("An-Other_1",)),
    # What the worker refuses loses all functions.
    Shape(name="a parameter without a binding", code=queue(parameters="msg: str, limit: int"), indexed=None),
    Shape(name="a binding without a parameter", code=queue(parameters=""), indexed=None),
    Shape(name="an annotation that does not fit", code=queue(parameters="msg: int"), indexed=None),
    Shape(name="an annotation that is no type", code=queue(parameters="msg: str | None"), indexed=None),
    Shape(name="a context that is none", code=queue(parameters="msg: str, context: str"), indexed=None),
    Shape(
        name="a return value that does not fit",
        code="@app.queue_output(arg_name='$return', queue_name='next', connection='')\n" + queue(returns="int"),
        indexed=None,
    ),
    Shape(name="the same name twice", code=named("good"), indexed=None),
    Shape(name="two apps", code="second = func.FunctionApp()\n", indexed=None),
    Shape(
        name="a binding that is no JSON",
        code="@app.generic_trigger(arg_name='msg', type='queueTrigger', queueName='others', extra=object())\n"
        "def other(msg: str) -> None: ...\n",
        indexed=None,
    ),
    # What the host refuses loses its function.
    Shape(name="a bad schedule", code=timer("every day"), idle="its schedule is wrong"),
    Shape(name="a schedule without a setting", code=timer("%NONE%"), idle="%NONE% does not resolve"),
    Shape(name="a bad queue name", code=queue(queue_name="No_Queue"), idle="'no_queue' is no queue name"),
    Shape(name="a queue name without a setting", code=queue(queue_name="%NONE%"), idle="%NONE% does not resolve"),
    Shape(name="a connection without a setting", code=queue(connection="Nowhere"), idle="connection 'Nowhere'"),
    Shape(
        name="an output's connection without a setting",
        code="@app.queue_output(arg_name='$return', queue_name='next', connection='Nowhere')\n" + queue(returns="str"),
        runs=("other",),
    ),
    Shape(
        name="a connection string as connection",
        code=queue(connection="UseDevelopmentStorage=true"),
        idle="a connection string in place of the name",
    ),
    Shape(name="no name", code=f"@app.function_name(None)\n{queue()}", indexed=None),
    Shape(name="a number as a name", code=f"@app.function_name(5)\n{queue()}", indexed=None),
    Shape(
        name="a wait that grows, without its intervals",
        code="@app.retry(strategy='exponential_backoff', max_retry_count='2')\n" + queue(),
        indexed=None,
    ),
    Shape(name="a name with a blank", code=named("an other"), indexed=("an other",), idle="its name must be"),
    Shape(name="a name with an umlaut", code=named("ändern"), indexed=("ändern",), idle="its name must be"),
    Shape(name="a name with a digit first", code=named("1st"), indexed=("1st",), idle="its name must be"),
    Shape(name="the name host", code=named("Host"), indexed=("Host",), idle="no function of this name"),
    Shape(
        name="two underscores",
        code=queue(parameters="my__msg: str", arg_name="my__msg"),
        idle="no binding called 'my__msg'",
    ),
    Shape(
        name="another trigger",
        code="@app.route(route='x')\ndef other(req: func.HttpRequest) -> str: ...\n",
        runs=("other",),
    ),
    # What extensions of the worker bring.
    Shape(name="http v2", code=HTTP_V2 % ("Request", "Response"), needs=BASE, idle="an SDK type"),
    Shape(name="http v2 with v1's types", code=HTTP_V2 % ("func.HttpRequest", "Response"), needs=BASE, indexed=None),
    Shape(name="settlement", code=SETTLING % (SERVICE_BUS, "func.ServiceBusMessage"), needs=BASE, idle="settles"),
    Shape(name="settlement of a queue", code=SETTLING % (STORAGE_QUEUE, "str"), needs=BASE, idle="settles"),
)
