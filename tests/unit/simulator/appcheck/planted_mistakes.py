"""Apps with one mistake each, and the rule that must find it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """An app with a mistake.

    Attributes:
        finds: the ids of all rules that must find something, and no others; notes aside.
        says: words of one of the messages.
        line: text of the line that a finding must name.
    """

    name: str
    finds: tuple[str, ...]
    code: str
    host: Mapping[str, Any] | str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    says: str = ""
    line: str = ""


def queue(arguments: str, body: str = "def ship(msg: func.QueueMessage) -> None: ...", **binding: str) -> str:
    given = ", ".join(f"{name}={value}" for name, value in binding.items())
    return f"@queue({given})\n@singleton({arguments})\n{body}\n"


def _ordered(inbox: str, trigger: str = "queue(arg_name='message')") -> str:
    body = "def ship(message: InboxMessage) -> None: ..."
    return f"from singleton import Inbox, InboxMessage, ordered\ninbox = {inbox}\n@{trigger}\n@ordered(inbox)\n{body}\n"


def _blob(arguments: str) -> str:
    return (
        '@app.blob_trigger(arg_name="blob", path="in/{name}", connection="AzureWebJobsStorage")\n'
        f"@singleton({arguments})\ndef read(blob: func.InputStream) -> None: ...\n"
    )


def timer(arguments: str, schedule: str = "0 */5 * * * *", **binding: str) -> str:
    given = "".join(f", {name}={value}" for name, value in binding.items())
    body = "def tidy(clock: func.TimerRequest) -> None: ..."
    return f"@timer(schedule={schedule!r}{given})\n@singleton({arguments})\n{body}\n"


def _http(arguments: str, trigger: str = 'route="orders/{id}"') -> str:
    return f"@app.route({trigger})\n@singleton({arguments})\ndef order(req: func.HttpRequest) -> str: return 'ok'\n"


def _options(**values: Any) -> dict[str, Any]:
    return {"singleton": values}


_DEFER: Final = 'scope="Id", on_contention="defer"'
_OTHERS: Final = "on_contention='skip'"

_RESPONSES: Final = """
        class JSONResponse:
            __module__ = "starlette.responses"
            def __init__(self, content, background=None): ...

        class StreamingResponse(JSONResponse):
            __module__ = "starlette.responses"

        class Csv(StreamingResponse): ...
"""

_STREAM: Final = """
        class Request:
            path_params = query_params = headers = property(lambda self: {})
"""

PLANTED: Final = (
    Planted(
        name="a def that waits below mcp_tool",
        finds=("blocks-event-loop",),
        code="@app.mcp_tool()\n@singleton\ndef greet(name: str) -> str: return name\n",
        says="@app.mcp_tool() calls a plain def on the event loop",
        line="@singleton",
    ),
    Planted(
        name="scopes in the body of a streamed request",
        finds=("scope-in-streamed-body",),
        code=_STREAM
        + """
        @app.route(route="ship")
        @singleton(scope="Id", timeout=5)
        async def ship(req: Request) -> str: return "ok"
        """,
        says="scope='Id' is looked up in the body",
        line="@singleton",
    ),
    Planted(
        name="a key in the body of a streamed request",
        finds=("scope-in-streamed-body",),
        code=_STREAM
        + """
        @app.route(route="ship")
        @once(key="Id")
        async def ship(req: Request) -> str: return "ok"
        """,
        says="such as '{query.id}'",
        line="@once",
    ),
    Planted(
        name="a name that a streamed request has in its query only",
        finds=("scope-in-query",),
        code=_STREAM
        + """
        @app.route(route="ship/{id:int}")
        @singleton(scope_id="{Id}/{query.part}/{region}", timeout=5)
        async def ship(req: Request) -> str: return "ok"
        """,
        says="{region} is no name of the route",
        line="@singleton",
    ),
    Planted(
        name="a scope that is no argument of a tool",
        finds=("scope-not-an-argument",),
        code="@app.mcp_tool()\n@singleton(scope='Name')\nasync def greet(name: str) -> str: return name\n",
        says="scope='Name': the tool greet has no argument Name; it has name",
        line="@singleton",
    ),
    Planted(
        name="a scope that is no argument of a tool, by its path",
        finds=("scope-not-an-argument",),
        code="@app.mcp_tool()\n@once(key='arguments:nam')\nasync def greet(name: str) -> str: return name\n",
        says="the key 'arguments:nam': the tool greet has no argument nam; it has name",
        line="@once",
    ),
    Planted(
        name="a scope that is no argument of a prompt",
        finds=("scope-not-an-argument",),
        code="""
        @app.mcp_prompt_trigger("asked", "greet", prompt_arguments=[func.PromptArgument("name")])
        @singleton(scope_id="{Arguments.nam}/{sessionid}")
        def greet(asked: func.PromptInvocationContext) -> str: return "Hi"
        """,
        says="the prompt greet has no argument nam; it has name",
        line="@singleton",
    ),
    Planted(
        name="a placeholder that is no argument of a tool",
        finds=("scope-not-an-argument",),
        code="@app.mcp_tool()\n@singleton(scope_id='{Name}-{who}')\nasync def greet(name: str) -> str: return name\n",
        says="the tool greet has no argument who",
    ),
    Planted(
        name="a key that is no argument of a tool",
        finds=("scope-not-an-argument",),
        code="@once(key='who:id')\n@app.mcp_tool()\nasync def greet(name: str) -> str: return name\n",
        says="the tool greet has no argument who",
    ),
    Planted(
        name="a def that waits and is made a tool by a call",
        finds=("blocks-event-loop",),
        code="@once(key='{name}')\ndef greet(name: str) -> str: return name\ntool = app.mcp_tool()(greet)\n",
        says="Write `async def`",
    ),
    Planted(
        name="a def that waits below mcp_tool by another name",
        finds=("blocks-event-loop",),
        code="tool = app.mcp_tool()\n\n\n@tool\n@singleton\ndef greet(name: str) -> str: return name\n",
        says="Write `async def`",
    ),
    Planted(
        name="a def that waits below mcp_tool, with a decorator between",
        finds=("blocks-event-loop",),
        code="""
        import functools

        def counted(function):
            @functools.wraps(function)
            def call(**named): return function(**named)
            return call

        @app.mcp_tool()
        @counted
        @singleton
        def greet(name: str) -> str: return name
        """,
        says="Write `async def`",
    ),
    Planted(
        name="a def that waits below mcp_tool, guarded by another name",
        finds=("blocks-event-loop",),
        code="one = singleton\n\n\n@app.mcp_tool()\n@one\ndef greet(name: str) -> str: return name\n",
        says="Write `async def`",
    ),
    Planted(name="skip on HTTP, below", finds=("skip-on-http",), code=_http(_OTHERS), line="@singleton"),
    Planted(
        name="skip on HTTP, above",
        finds=("skip-on-http",),
        code=f"@singleton({_OTHERS})\n@app.route(route='a')\ndef order(req: func.HttpRequest) -> str: return 'ok'\n",
        says="an HTTP trigger must answer",
        line="@singleton",
    ),
    Planted(
        name="conflict on a queue",
        finds=("conflict-without-http",),
        code=queue("on_contention='conflict'"),
        says="answers HTTP requests, and its trigger is a queueTrigger",
        line="@singleton",
    ),
    Planted(
        name="conflict where a parameter is the answer",
        finds=("conflict-without-http",),
        code="""
        @app.generic_trigger(arg_name="req", type="httpTrigger")
        @app.generic_output_binding(arg_name="res", type="http")
        @once(key="{id}", on_contention="conflict")
        def order(req: func.HttpRequest, res: func.Out[str]) -> None: ...
        """,
        says="no output takes what it returns",
        line="@once",
    ),
    Planted(
        name="skip with a return value that is an output",
        finds=("none-for-output",),
        code="""
        @queue()
        @app.queue_output(arg_name="$return", queue_name="done", connection="AzureWebJobsStorage")
        @singleton(scope="Id", on_contention="skip")
        def ship(msg: func.QueueMessage) -> str: return "done"
        """,
        says="'queue' output",
    ),
    Planted(
        name="an output that is sent once, and is a return value",
        finds=("declaration-refused",),
        code="""
        @queue()
        @app.queue_output(arg_name="$return", queue_name="done", connection="AzureWebJobsStorage")
        @once(key="Id", outputs="first")
        def ship(msg: func.QueueMessage) -> str: return "done"
        """,
        says="each repeat would send the result to the 'queue' output",
    ),
    Planted(
        name="a listener with a return value that is an output",
        finds=("none-for-output",),
        code="""
        @queue()
        @app.queue_output(arg_name="$return", queue_name="done", connection="AzureWebJobsStorage")
        @singleton(mode="listener")
        def ship(msg: func.QueueMessage) -> str: return "done"
        """,
    ),
    *(
        Planted(
            name=f"coalesce with {argument}",
            finds=("coalesce-declared",),
            code=queue(f"on_contention='coalesce', {argument}"),
            says=f"does not go with {argument.partition('=')[0]}=",
            line="@singleton",
        )
        for argument in ("limit=2", "max_waiting=3", "mode='listener'", "layout='webjobs'", "level='host', scope='Id'")
    ),
    Planted(
        name="coalesce around a listener",
        finds=("coalesce-declared",),
        code=queue(
            "on_contention='coalesce'", "@singleton(mode='listener')\ndef ship(msg: func.QueueMessage) -> None: ..."
        ),
        says="do not go together",
    ),
    Planted(
        name="coalesce without a wait",
        finds=("declaration-refused",),
        code=queue("on_contention='coalesce', timeout=0"),
    ),
    Planted(
        name="coalesce around messages that are done once",
        finds=("coalesce-declared",),
        code=queue("on_contention='coalesce'", "@once(key='Id')\ndef ship(msg: func.QueueMessage) -> None: ..."),
        says="none may leave",
    ),
    Planted(
        name="messages that are done once around coalesce",
        finds=("coalesce-declared",),
        code=queue("on_contention='coalesce'").replace("@singleton", "@once(key='Id')\n@singleton"),
        says="leave @once out",
    ),
    Planted(
        name="coalesce on HTTP",
        finds=("skip-on-http",),
        code=_http("on_contention='coalesce', timeout=20"),
        says="on_contention='coalesce' ends an invocation without a result",
    ),
    Planted(
        name="coalesce for an output above",
        finds=("none-for-output",),
        code="""
        @singleton(on_contention="coalesce")
        @queue()
        @app.queue_output(arg_name="$return", queue_name="next", connection="AzureWebJobsStorage")
        def ship(msg: func.QueueMessage) -> str: return "next"
        """,
    ),
    Planted(
        name="coalesce for a text",
        finds=("coalesce-without-count",),
        code=queue("on_contention='coalesce'", "def ship(msg: str) -> None: ..."),
        says="Annotate it as func.QueueMessage",
        line="@singleton",
    ),
    Planted(
        name="coalesce for blobs",
        finds=("coalesce-without-count",),
        code=_blob("on_contention='coalesce'"),
        says="the trigger is a blobTrigger",
    ),
    Planted(
        name="coalesce for batches",
        finds=("coalesce-without-count",),
        code="@bus(cardinality='many')\n@singleton(on_contention='coalesce')\ndef ship(msg: list[str]) -> None: ...\n",
        says="Annotate it as func.ServiceBusMessage",
    ),
    Planted(
        name="a waiter that coalesces fails once, and is poison",
        finds=("raise-with-one-dequeue",),
        code=queue("on_contention='coalesce', timeout=100"),
        host={"extensions": {"queues": {"maxDequeueCount": 1}}},
    ),
    Planted(
        name="defer on a timer",
        finds=("defer-on-trigger",),
        code=timer('on_contention="defer"'),
        says="its trigger is a timerTrigger",
    ),
    Planted(
        name="defer on Service Bus",
        finds=("defer-on-trigger",),
        code='@bus()\n@singleton(on_contention="defer")\ndef ship(msg: func.ServiceBusMessage) -> None: ...\n',
    ),
    Planted(
        name="when_full defers on HTTP",
        finds=("defer-on-trigger", "none-for-output"),
        code=_http('max_waiting=3, when_full="defer", timeout=20'),
    ),
    Planted(
        name="defer without the message",
        finds=("defer-without-message",),
        code=queue(_DEFER, "def ship(msg: str) -> None: ..."),
        says="the parameter msg is a str",
    ),
    Planted(
        name="defer below a decorator without wraps",
        finds=("defer-without-trigger", "hidden-by-decorator"),
        code="""
        def logged(inner):
            def call(msg):
                return inner(msg)
            return call

        @queue()
        @logged
        @singleton(scope="Id", on_contention="defer")
        def ship(msg: func.QueueMessage) -> None: ...
        """,
        says="the decorator logged hides ship",
    ),
    Planted(name="scope on a timer", finds=("scope-on-timer",), code=timer('scope="Id"'), says="scope='Id'"),
    Planted(name="placeholder on a timer", finds=("scope-on-timer",), code=timer('scope_id="{Region}"')),
    Planted(
        name="once on a timer",
        finds=("scope-on-timer",),
        code='@timer(schedule="0 0 3 * * *")\n@once(key="Id")\ndef tidy(clock: func.TimerRequest) -> None: ...\n',
        says="the key 'Id'",
    ),
    Planted(
        name="a batch of events",
        finds=("scope-on-batch",),
        code="""
        @hub(cardinality="many")
        @singleton(scope="Id")
        def read(event: func.EventHubEvent) -> None: ...
        """,
    ),
    Planted(
        name="documents in lists",
        finds=("scope-on-batch",),
        code="""
        @app.cosmos_db_trigger(arg_name="docs", container_name="c", database_name="d", connection="Cosmos")
        @singleton(scope="id")
        def changed(docs: func.DocumentList) -> None: ...
        """,
        says="max_items_per_invocation=1",
    ),
    Planted(
        name="an unset setting in a scope",
        finds=("setting-unset",),
        code=queue('scope_id="%REGION%-{Id}"'),
        says="there is no app setting REGION",
    ),
    Planted(
        name="an unset setting in a key",
        finds=("setting-unset",),
        code="@queue()\n@once(key='%REGION%-{Id}')\ndef ship(msg: func.QueueMessage) -> None: ...\n",
        says="key='%REGION%-{Id}': there is no app setting REGION",
    ),
    Planted(
        name="an unset setting in a schedule",
        finds=("setting-unset",),
        code=timer("", "%SCHEDULE%"),
        says="there is no app setting SCHEDULE",
    ),
    Planted(
        name="an unset connection of a lock",
        finds=("connection-unset",),
        code=queue('connection="Locks"'),
        says="there is no app setting Locks",
    ),
    Planted(
        name="a host id of an app in Azure without a name",
        finds=("lock-name-refused",),
        code=queue("scope='Id'"),
        settings={"WEBSITE_INSTANCE_ID": "a1"},
        says="WEBSITE_SITE_NAME is not set",
    ),
    Planted(
        name="an unset connection of a trigger",
        finds=("connection-unset",),
        code=queue("", connection='"Orders"'),
    ),
    Planted(
        name="an unset setting of an output that has another name for it",
        finds=("connection-unset",),
        code='@app.event_grid_output(arg_name="note", topic_endpoint_uri="Uri", topic_key_setting="Key")\n'
        + queue("", "def ship(msg: func.QueueMessage, note: func.Out[str]) -> None: ..."),
        says="there is no app setting Key. Set it to the key of the topic",
    ),
    Planted(
        name="a key in the source of a trigger",
        finds=("connection-string-in-code",),
        code=queue("", connection='"AccountName=orders;AccountKey=c2VjcmV0"'),
        says="The host looks for an app setting of this name",
    ),
    Planted(
        name="a connection that is no connection string",
        finds=("connection-wrong",),
        code=queue('connection="Locks"'),
        settings={"Locks": "AccountName=orders"},
        says="has no key",
    ),
    Planted(
        name="a trigger whose connection has blobs only, so that no message can be put back",
        finds=("connection-wrong",),
        code=queue(_DEFER, connection='"Orders"'),
        settings={
            "Orders__serviceUri": "https://orders.blob.core.windows.net",
            "Orders__credential": "managedidentity",
        },
        says="Set Orders__queueServiceUri to their address",
        line="@singleton",
    ),
    Planted(
        name="a client of the module without its setting",
        finds=("connection-unset",),
        code="from singleton import LockClient\nlocks = LockClient('Orders')\n" + queue(""),
        says="locks: connection 'Orders': there is no app setting AzureWebJobsOrders or Orders",
        line="locks = LockClient",
    ),
    Planted(
        name="a client of the module with a wrong setting",
        finds=("connection-wrong",),
        code="from singleton import AsyncLockClient\nlocks = AsyncLockClient('Orders')\n" + queue(""),
        settings={"Orders": "AccountName=orders"},
        line="locks = AsyncLockClient",
    ),
    Planted(
        name="pods with locks of their own",
        finds=("host-id-of-pod",),
        code=queue('scope="Id"'),
        settings={
            "AzureWebJobsStorage": "AccountName=orders;AccountKey=c2VjcmV0",
            "KUBERNETES_SERVICE_HOST": "10.0.0.1",
        },
        says="Set hostId",
        line="@singleton",
    ),
    Planted(
        name="a key in the source",
        finds=("connection-string-in-code",),
        code=queue('connection="AccountName=orders;AccountKey=c2VjcmV0"'),
    ),
    Planted(
        name="a wait beyond functionTimeout",
        finds=("timeout-beyond-function-timeout",),
        code=queue("timeout=600"),
        host={"functionTimeout": "00:05:00"},
        says="600 seconds",
    ),
    Planted(
        name="a wait of the app beyond the plan's default",
        finds=("timeout-beyond-function-timeout",),
        code=queue('scope="Id"'),
        host=_options(lockAcquisitionTimeout="00:06:00"),
        settings={"WEBSITE_SKU": "Dynamic"},
    ),
    Planted(
        name="max_hold beyond functionTimeout",
        finds=("max-hold-beyond-function-timeout",),
        code=timer("max_hold=900"),
        host={"functionTimeout": "00:10:00"},
    ),
    Planted(
        name="at_least beyond functionTimeout",
        finds=("at-least-beyond-function-timeout",),
        code=queue("at_least=400"),
        host={"functionTimeout": "00:05:00"},
    ),
    Planted(
        name="at_least beyond the timer's period",
        finds=("at-least-beyond-period",),
        code=timer("at_least=400, on_contention='skip'"),
        says="300 seconds",
    ),
    Planted(
        name="a wait beyond the timer's period",
        finds=("timer-wait-beyond-period",),
        code=timer("timeout=60", "*/30 * * * * *"),
    ),
    Planted(name="HTTP waits too long", finds=("http-wait-beyond-230-s",), code=_http("timeout=300")),
    Planted(
        name="a wait beyond the message's lock",
        finds=("wait-beyond-lock-renewal",),
        code="@bus()\n@singleton(timeout=600)\ndef ship(msg: func.ServiceBusMessage) -> None: ...\n",
    ),
    Planted(
        name="raise with one dequeue",
        finds=("raise-with-one-dequeue",),
        code=queue('scope="Id", on_contention="raise"'),
        host={"extensions": {"queues": {"maxDequeueCount": 1}}},
    ),
    Planted(
        name="a lease beyond functionTimeout",
        finds=("lock-period-beyond-function-timeout",),
        code=timer("lock_period=60"),
        host={"functionTimeout": "00:00:30"},
    ),
    Planted(
        name="tries that end before a crashed holder's lease",
        finds=("wait-runs-out",),
        code=queue("timeout=2"),
        says="for 10 seconds in all",
    ),
    Planted(
        name="tries that end before at_least does",
        finds=("wait-runs-out",),
        code=queue("timeout=10, at_least=120"),
        host={"extensions": {"queues": {"visibilityTimeout": "00:00:10"}}},
        says="for 90 seconds in all",
    ),
    Planted(
        name="no extensions for the app's triggers",
        finds=("no-extension-bundle",),
        code=queue(""),
        host='{"version": "2.0"}',
        says="which brings 'queueTrigger'",
    ),
    Planted(
        name="an empty host.json",
        finds=("no-extension-bundle",),
        code=queue(""),
        host="{}",
    ),
    Planted(
        name="a bundle without a version",
        finds=("host-json",),
        code=queue(""),
        host={"extensionBundle": {"id": "Microsoft.Azure.Functions.ExtensionBundle", "version": None}},
        line='"extensionBundle"',
    ),
    Planted(
        name="good blobs that a busy lock poisons",
        finds=("raise-poisons-blobs",),
        code=_blob('scope="name", on_contention="raise"'),
        says="fails 5 times within a second",
    ),
    Planted(
        name="good blobs in a process that is not the listener",
        finds=("raise-poisons-blobs", "listener-on-trigger"),
        code=_blob('mode="listener"'),
        says="not the listener",
    ),
    Planted(
        name="good blobs that are one too many",
        finds=("raise-poisons-blobs",),
        code=_blob('scope="name", max_waiting=3'),
        says="for whose lock max_waiting=3 others wait",
    ),
    Planted(
        name="tries of a blob that end before a crashed holder's lease",
        finds=("wait-runs-out",),
        code=_blob('scope="name", timeout=2'),
        host={"extensions": {"queues": {"visibilityTimeout": "00:10:00"}}},
        says="a blob is tried 5 times, for 10 seconds in all",
    ),
    Planted(
        name="locks that differ by case",
        finds=("locks-differ-by-case",),
        code=queue('scope_id="Imports", level="host"') + timer('scope_id="imports", level="host"'),
    ),
    Planted(
        name="seconds without colons",
        finds=("queue-option-in-days",),
        code=queue(""),
        host={"extensions": {"queues": {"visibilityTimeout": 30}}},
        says='Write "00:00:30" if seconds are meant',
        line='"visibilityTimeout": 30',
    ),
    Planted(
        name="waiters on few threads",
        finds=("waiters-fill-thread-pool",),
        code=queue('scope="Id"'),
        settings={"PYTHON_THREADPOOL_THREAD_COUNT": "8"},
        says="24 invocations at a time",
    ),
    Planted(
        name="waiting requests on one thread",
        finds=("waiters-fill-thread-pool",),
        code=_http("timeout=20"),
        settings={"PYTHON_THREADPOOL_THREAD_COUNT": "1"},
    ),
    Planted(
        name="waiters of two functions on few threads",
        finds=("waiters-fill-thread-pool",),
        code=_http("timeout=20, max_waiting=3")
        + """
@app.blob_trigger(arg_name="blob", path="in/{name}", connection="AzureWebJobsStorage")
@singleton
def read(blob: func.InputStream) -> None: ...
""",
        settings={"PYTHON_THREADPOOL_THREAD_COUNT": "10"},
        says="11 invocations at a time may wait for locks (read 8, order 3)",
        line="@singleton",
    ),
    Planted(
        name="waiting events on few threads",
        finds=("waiters-fill-thread-pool",),
        code="""
        @app.event_grid_trigger(arg_name="event")
        @singleton(scope="Id")
        def happened(event: func.EventGridEvent) -> None: ...
        """,
        settings={"PYTHON_THREADPOOL_THREAD_COUNT": "16"},
    ),
    Planted(
        name="a setting of a layout that is out of its range",
        finds=("option-refused",),
        code=queue('scope="Id", layout="dequeueable"'),
        settings={"Dequeueable__Singleton__MaxRetries": "99"},
    ),
    Planted(
        name="a listener with two worker processes",
        finds=("listener-with-worker-processes",),
        code=timer('mode="listener"'),
        settings={"FUNCTIONS_WORKER_PROCESS_COUNT": "2"},
    ),
    Planted(name="a listener on HTTP", finds=("listener-on-trigger",), code=_http('mode="listener"')),
    Planted(
        name="a listener for the lock of the host's own timer",
        finds=("listener-of-the-host",),
        code=timer('mode="listener", layout="webjobs"'),
    ),
    Planted(
        name="a guard without a trigger",
        finds=("guard-without-function",),
        code=f"@singleton\ndef helper() -> None: ...\n{timer('')}",
        says="helper is guarded",
    ),
    Planted(
        name="a blueprint that is not registered",
        finds=("guard-without-function",),
        code=f"""
blueprint = func.Blueprint()
@blueprint.timer_trigger(arg_name="clock", schedule="0 0 3 * * *")
@singleton
def nightly(clock: func.TimerRequest) -> None: ...
{timer("")}""",
    ),
    Planted(
        name="a plain wrapper around an async function",
        finds=("sync-wrapper-around-async",),
        code="""
        def logged(inner):
            @functools.wraps(inner)
            def call(msg):
                return inner(msg)
            return call

        @queue()
        @singleton(scope="Id")
        @logged
        async def ship(msg: func.QueueMessage) -> None: ...
        """,
    ),
    Planted(
        name="one name for two functions, and coalesce",
        finds=("coalesce-shared",),
        code=queue('name="ship", on_contention="coalesce"') + queue('name="ship"').replace("ship(", "pack("),
        says="would leave while the other waits",
    ),
    Planted(
        name="the old name of one function is the name of another, and coalesce",
        finds=("coalesce-shared",),
        code=queue('name="ship", on_contention="coalesce"')
        + queue('name="pack", on_contention="coalesce", also=OldLock(name="ship")').replace("ship(", "pack("),
        says="would leave while the other waits",
    ),
    Planted(
        name="one name for two functions",
        finds=("same-lock",),
        code=queue('name="ship"') + timer('name="ship"'),
        says="ship and tidy",
    ),
    Planted(
        name="a limit and none",
        finds=("limits-differ",),
        code=queue('scope_id="imports", level="host", limit=3') + timer('scope_id="imports", level="host"'),
    ),
    Planted(
        name="two limits of one semaphore",
        finds=("limits-differ",),
        code=queue('scope_id="x", level="host", limit=3') + timer('scope_id="x", level="host", limit=5'),
        says="as many run as the greater one allows",
    ),
    Planted(
        name="names that differ by case",
        finds=("names-differ-by-case",),
        code=queue("") + "@timer(schedule='0 0 3 * * *')\ndef Ship(clock: func.TimerRequest) -> None: ...\n",
    ),
    Planted(
        name="a key of host.json that is none",
        finds=("option-refused",),
        code=queue(""),
        host=_options(lockPeriode="00:00:30"),
        says="lockPeriod",
        line='"lockPeriode"',
    ),
    Planted(
        name="a wrong option hides no other mistake",
        finds=("option-refused", "skip-on-http"),
        code=_http(_OTHERS),
        host=_options(lockPeriode="00:00:30"),
    ),
    Planted(
        name="an option out of its range",
        finds=("option-refused",),
        code=queue(""),
        host=_options(lockPeriod="00:02:00"),
    ),
    Planted(
        name="the section in the wrong place",
        finds=("option-refused",),
        code=queue(""),
        host={"extensions": _options(lockPeriod="00:00:30")},
    ),
    Planted(
        name="a section with a misspelt name",
        finds=("section-misspelt",),
        code=queue(""),
        host={"extensions": {"queues": {}}, "singelton": {"lockPeriod": "00:00:30"}},
        says="did you mean 'singleton'?",
        line='"singelton"',
    ),
    Planted(
        name="an app setting of a section with a misspelt name",
        finds=("section-misspelt",),
        code=queue(""),
        settings={"AzureFunctionsJobHost__singelton__lockPeriod": "00:00:30"},
        says="did you mean 'AzureFunctionsJobHost__singleton__lockPeriod'?",
    ),
    Planted(
        name="an app setting that is no option",
        finds=("option-refused",),
        code=queue(""),
        settings={"AzureFunctionsJobHost__singleton__lockTime": "00:00:30"},
    ),
    Planted(name="host.json that is no JSON", finds=("host-json",), code=queue(""), host="{\n 'a'"),
    Planted(
        name="host.json without a version",
        finds=("host-json",),
        code=queue(""),
        host='{"singleton": {}, "extensionBundle": {"id": "Any.Bundle", "version": "4"}}',
    ),
    Planted(
        name="functionTimeout as a number",
        finds=("function-timeout-refused",),
        code=queue(""),
        host={"functionTimeout": 300},
        line='"functionTimeout"',
    ),
    Planted(
        name="an option of queues that is null",
        finds=("queue-option-refused",),
        code=queue(""),
        host={"extensions": {"queues": {"batchSize": None}}},
        line='"batchSize": null',
    ),
    Planted(
        name="functionTimeout beyond Consumption",
        finds=("function-timeout-refused",),
        code=queue(""),
        host={"functionTimeout": "00:30:00"},
        settings={"WEBSITE_SKU": "Dynamic"},
    ),
    Planted(
        name="a batch size out of its range",
        finds=("queue-option-refused",),
        code=queue(""),
        host={"extensions": {"eventHubs": {"batchSize": 1}, "queues": {"batchSize": 64}}},
        line='"batchSize": 64',
    ),
    Planted(
        name="a period out of its range",
        finds=("declaration-refused",),
        code=queue("lock_period=90"),
        says="lock_period is 90",
        line="@singleton",
    ),
    Planted(name="an empty segment", finds=("declaration-refused",), code=queue('scope="Order::Id"')),
    Planted(name="dots in a path", finds=("scope-path-with-dots",), code=queue('scope="Order.Id"'), says="'Order:Id'"),
    Planted(name="a template as a path", finds=("scope-is-template",), code=queue('scope="{Id}"')),
    Planted(
        name="a body that GET has not",
        finds=("scope-without-body",),
        code=_http('scope="Id"', 'route="a", methods=["GET"]'),
    ),
    Planted(
        name="the path of a blob that is text",
        finds=("scope-not-in-text",),
        code='@app.blob_trigger(arg_name="b", path="in/{name}.csv", connection="AzureWebJobsStorage")\n'
        '@singleton(scope_id="{Name}")\ndef take(b: str) -> None: ...\n',
        says="is a str, which has only the names of its JSON. Annotate it as func.InputStream",
        line="@singleton",
    ),
    Planted(
        name="the session of a message that is bytes",
        finds=("scope-not-in-text",),
        code='@app.service_bus_queue_trigger(arg_name="m", queue_name="q", connection="AzureWebJobsStorage")\n'
        '@singleton(scope_id="{SessionId}-{Id}")\ndef take(m: bytes) -> None: ...\n',
        says="{SessionId} comes beside the content",
    ),
    Planted(name="a scope of its own", finds=("scope-always-new",), code=queue('scope_id="{PopReceipt}"')),
    Planted(
        name="the message's id of bytes",
        finds=("scope-always-new",),
        code=queue('scope_id="{Id}"', data_type="func.DataType.BINARY"),
    ),
    Planted(name="level host without a scope", finds=("declaration-refused",), code=queue('level="host"')),
    Planted(
        name="a semaphore for .NET",
        finds=("declaration-refused",),
        code=queue('limit=3, layout="webjobs"'),
        says="limit=3 is for layout='default' only",
    ),
    Planted(
        name="two guards of one mode",
        finds=("declaration-refused",),
        code="@queue()\n@singleton(scope='Id')\n@singleton\ndef ship(msg: func.QueueMessage) -> None: ...\n",
    ),
    Planted(
        name="an orchestrator",
        finds=("durable-replay",),
        code="""
        @app.generic_trigger(arg_name="context", type="orchestrationTrigger")
        @singleton
        def orchestrate(context) -> None: ...
        """,
    ),
    Planted(
        name="an orchestrator with a yield",
        finds=("durable-replay",),
        code="""
        @app.generic_trigger(arg_name="context", type="orchestrationTrigger")
        @singleton
        def orchestrate(context):
            yield context
        """,
    ),
    Planted(
        name="an orchestrator of the Durable package",
        finds=("durable-replay",),
        code="""
        import azure.durable_functions as df

        app = df.DFApp()

        @app.orchestration_trigger(context_name="context")
        @singleton
        def orchestrate(context):
            yield context.call_activity("ship", 1)
        """,
        line="@singleton",
    ),
    Planted(
        name="an orchestrator of the Durable package, above its trigger",
        finds=("durable-replay",),
        code="""
        import azure.durable_functions as df

        app = df.DFApp()

        @singleton
        @app.orchestration_trigger(context_name="context")
        def orchestrate(context):
            yield context.call_activity("ship", 1)
        """,
        line="@singleton",
    ),
    Planted(
        name="a generator function that is none",
        finds=("generator-function",),
        code=queue("", "def ship(msg: func.QueueMessage):\n    yield 1"),
        says="ship has a yield",
        line="@singleton",
    ),
    Planted(
        name="a stream by its annotation",
        finds=("late-response",),
        code=_RESPONSES
        + """
        @app.route(route="export")
        @singleton
        async def export(req: func.HttpRequest) -> StreamingResponse: ...
        """,
        says="returns a StreamingResponse, which would run after the lock is released",
        line="@singleton",
    ),
    Planted(
        name="a stream by its source",
        finds=("late-response",),
        code=_RESPONSES
        + """
        @app.route(route="export")
        @once(key="{id}")
        async def export(req: func.HttpRequest):
            async def rows(): yield b"row"
            answer = Csv(rows())
            return answer
        """,
        says="export makes a Csv, which would run after the lock is released",
        line="answer = Csv(rows())",
    ),
    Planted(
        name="a stream in one of two ways",
        finds=("late-response",),
        code=_RESPONSES
        + """
        @app.route(route="export")
        @singleton
        async def export(req: func.HttpRequest):
            answer = JSONResponse({})
            if req.params:
                answer = StreamingResponse([])
            try:
                return answer
            finally:
                print(answer)
        """,
        says="export makes a StreamingResponse",
        line="answer = StreamingResponse([])",
    ),
    Planted(
        name="a background task that is set later",
        finds=("late-response",),
        code=_RESPONSES
        + """
        @app.route(route="import")
        @singleton
        async def take(req: func.HttpRequest):
            answer = JSONResponse({})
            answer.background = print
            return answer
        """,
        says="take makes a JSONResponse with a background task",
        line="answer.background = print",
    ),
    Planted(
        name="a background task below the decorator of a lock client",
        finds=("late-response",),
        code=_RESPONSES
        + """
        from singleton import AsyncLockClient

        locks = AsyncLockClient("AzureWebJobsStorage")

        @app.route(route="import")
        @locks.try_lock("import", timeout=5)
        async def take(req: func.HttpRequest):
            return JSONResponse({}, background=print)

        @app.route(route="tidy")
        @singleton
        async def tidy(req: func.HttpRequest) -> str: return "ok"
        """,
        says="take makes a JSONResponse with a background task",
        line="return JSONResponse",
    ),
    Planted(
        name="the old lock is the new one",
        finds=("old-lock-is-the-same",),
        code=queue('also=OldLock(name="ship")'),
    ),
    Planted(
        name="a lock in the folder of others",
        finds=("lock-name-refused",),
        code=queue('scope_id="locks/x", layout="dequeueable"'),
    ),
    Planted(
        name="a name that the host cuts",
        finds=("host-id-cut",),
        code=queue(""),
        settings={"WEBSITE_SITE_NAME": "contoso-orders-production-westeurope", "WEBSITE_INSTANCE_ID": "1"},
    ),
    Planted(name="locks switched off", finds=("locks-off",), code=queue(""), host=_options(enabled=False)),
    Planted(
        name="rows in lists",
        finds=("scope-on-rows",),
        code="""
        @app.generic_trigger(arg_name="rows", type="sqlTrigger", tableName="t", connectionStringSetting="Bus")
        @singleton(scope="Item:Id")
        def changed(rows: str) -> None: ...
        """,
    ),
    Planted(
        name="rows of MySQL in lists",
        finds=("scope-on-rows",),
        code="""
        @app.mysql_trigger(arg_name="rows", table_name="t", connection_string_setting="Bus")
        @singleton(scope="Item:Id")
        def changed(rows: str) -> None: ...
        """,
        says="Set the app setting MySql_Trigger_MaxBatchSize to 1",
    ),
    Planted(
        name="the id of an event",
        finds=("scope-always-new",),
        code="""
        @app.event_grid_trigger(arg_name="event")
        @singleton(scope_id="{id}")
        def happened(event: func.EventGridEvent) -> None: ...
        """,
        says="another one for each event",
    ),
    Planted(
        name="doubled braces",
        finds=("scope-is-literal",),
        code=queue('scope_id="{{Id}}"'),
        says="Write {Id} with single braces",
        line="@singleton",
    ),
    Planted(
        name="doubled braces in a key",
        finds=("scope-is-literal",),
        code='@queue()\n@once(key="{Zone}-{{ Id }}")\ndef pay(msg: func.QueueMessage) -> None: ...\n',
        says="key='{Zone}-{{ Id }}'",
    ),
    Planted(
        name="an empty connection of Service Bus",
        finds=("connection-unset",),
        code="""
        @app.service_bus_queue_trigger(arg_name="msg", queue_name="q", connection="")
        @singleton
        def ship(msg: func.ServiceBusMessage) -> None: ...
        """,
        says="is empty: the host takes AzureWebJobsServiceBus then",
        line="def ship",
    ),
    Planted(
        name="a blob that is input and output",
        finds=("input-is-output",),
        code="""
        @queue()
        @app.blob_input(arg_name="total", path="state/total.txt", connection="AzureWebJobsStorage")
        @app.blob_output(arg_name="out", path="state/total.txt", connection="AzureWebJobsStorage")
        @singleton
        def add(msg: func.QueueMessage, total: str, out: func.Out[str]) -> None: ...
        """,
        says="blob 'state/total.txt' is the input 'total' and the output 'out': the host reads it before @singleton",
        line="def add",
    ),
    Planted(
        name="an input of what may change",
        finds=("input-before-lock",),
        code="""
        @queue()
        @app.cosmos_db_input(
            arg_name="order", connection="Cosmos", database_name="shop", container_name="orders", id="{Id}"
        )
        @singleton(scope="Id")
        def ship(msg: func.QueueMessage, order: func.DocumentList) -> None: ...
        """,
        says="the host reads cosmosDB 'shop/orders', the input 'order', before @singleton waits",
        line="def ship",
    ),
    Planted(
        name="an inbox on another queue",
        finds=("inbox-on-other-queue",),
        code=_ordered('Inbox("parcels")'),
        says="its trigger has queue 'orders', and inbox 'parcels' has its bells in queue 'parcels'",
        line="@ordered",
    ),
    Planted(
        name="an inbox on the right queue of another account",
        finds=("inbox-on-other-queue",),
        code=_ordered('Inbox("orders", "Bells")'),
        settings={"Bells": "DefaultEndpointsProtocol=https;AccountName=bells;AccountKey=a2V5"},
        says="its trigger has the account of 'AzureWebJobsStorage', and inbox 'orders' has its bells in the account of "
        "'Bells'",
        line="@ordered",
    ),
    Planted(
        name="an inbox whose bells the host can't read",
        finds=("inbox-on-other-queue",),
        code=_ordered('Inbox("orders", encoding="none")'),
        says="its trigger has messageEncoding 'base64', and inbox 'orders' has its bells in encoding 'none'",
        line="@ordered",
    ),
    Planted(
        name="an inbox below a trigger that is no queue's",
        finds=("inbox-on-other-queue",),
        code=_ordered(
            'Inbox("orders")', 'app.service_bus_queue_trigger("message", connection="Bus", queue_name="orders")'
        ),
        settings={"Bus": "Endpoint=sb://bus.example/;SharedAccessKeyName=n;SharedAccessKey=a2V5"},
        says="its trigger is a serviceBusTrigger: use a queueTrigger on the inbox's queue",
        line="@ordered",
    ),
)
