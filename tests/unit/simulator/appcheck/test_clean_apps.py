"""Right apps get neither an error nor a warning: all triggers with all that may be declared on them."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from simulator.appcheck.checked_app import AppSettings
from simulator.appcheck.engine import check
from tests.cli.apps import MIXED, SMALL
from tests.support.checked import checked

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT: Final = Path(__file__).resolve().parents[4]

POLICY: Final = "def policy(contention): return 'raise'\n"
TRIGGERS: Final = {
    "queue": ("@queue()", "msg: func.QueueMessage"),
    "timer": ("@timer(schedule='0 */5 * * * *')", "clock: func.TimerRequest"),
    "http": ("@app.route(route='orders/{id}', methods=['POST'])", "req: func.HttpRequest"),
    "bus": ("@bus()", "msg: func.ServiceBusMessage"),
    "hub": ("@hub(cardinality='one')", "event: func.EventHubEvent"),
    "grid": ("@app.event_grid_trigger(arg_name='event')", "event: func.EventGridEvent"),
    "blob": (
        "@app.blob_trigger(arg_name='blob', path='in/{name}', connection='AzureWebJobsStorage')",
        "blob: func.InputStream",
    ),
    "cosmos": (
        (
            "@app.cosmos_db_trigger(arg_name='docs', container_name='c', database_name='d', connection='Cosmos',"
            " max_items_per_invocation=1)"
        ),
        "docs: func.DocumentList",
    ),
    "activity": ("@app.generic_trigger(arg_name='work', type='activityTrigger')", "work: str"),
}
SCOPES: Final = ("", "scope='Id'", "scope='Order:Id'", "scope_id='{Id}-%REGION%'", "scope='Id', scope_hash=True")
MESSAGES: Final = tuple(name for name in TRIGGERS if name != "timer")
QUEUE_ONLY: Final = (
    "on_contention='defer'",
    "on_contention='defer', timeout=60, defer_delay=30",
    "max_waiting=4, when_full='defer'",
    "mode='listener'",
    "mode='listener', scope_id='%REGION%'",
    "scope='Id', layout='dequeueable'",
    "scope='Id', layout='dequeueable', on_contention='skip'",
    "scope_id='{Id}', layout='webjobs', dotnet_name='Contoso.Shop.Orders.Ship'",
    "scope='Id', limit=5",
    "scope='Id', max_waiting=10, timeout=120",
    "scope='Id', also=OldLock(name='send')",
    "on_contention=policy",
    "name='ship_order'",
    "scope_id='imports', level='host', limit=3",
    "connection='Bus2'",
)
TIMER_ONLY: Final = (
    "",
    "on_contention='skip'",
    "on_contention='raise'",
    "on_contention='skip', at_least=50",
    "max_hold=600",
    "mode='listener'",
    "mode='listener', on_contention='raise', listener_lock_period=15",
    "scope_id='%REGION%'",
    "scope_id='nightly', level='host', on_contention='skip'",
    "layout='webjobs'",
    "timeout=60, lock_period=30",
    "failover=5",
)
POLICIES: Final = ("", "timeout=20", "on_contention='raise'", "at_least=5", "max_hold=120, lock_period=60")
HOSTS: Final[tuple[Mapping[str, Any], ...]] = (
    {},
    {"singleton": {"lockPeriod": "00:00:30", "lockAcquisitionTimeout": "00:02:00"}, "functionTimeout": "00:10:00"},
    {"functionTimeout": "-1", "extensions": {"queues": {"batchSize": 1, "newBatchThreshold": 0}}},
)
SETTINGS: Final = {"REGION": "north", "Bus2": "AccountName=locks;AccountKey=c2VjcmV0"}


def _function(trigger: str, arguments: str, *, above: bool = False, is_async: bool = False) -> str:
    decorator, parameter = TRIGGERS[trigger]
    guard = f"@singleton({arguments})"
    returns = "str" if trigger in ("http", "activity") else "None"
    order = f"{guard}\n{decorator}" if above else f"{decorator}\n{guard}"
    return f"{POLICY}{order}\n{'async ' * is_async}def work_of_it({parameter}) -> {returns}: ...\n"


def _apps() -> list[tuple[str, str, Mapping[str, Any]]]:
    found = []
    for number, (trigger, scope, policy) in enumerate(product(MESSAGES, SCOPES, POLICIES)):
        if number % 3 == 0 and (trigger, policy) != ("blob", "on_contention='raise'"):  # an error
            given = ", ".join(filter(None, [scope, policy]))
            if trigger == "grid":  # {Id} is the event's own there, and each has another one
                given = given.replace("{Id}", "{data.Id}")
            code = _function(trigger, given, above=number % 2 == 0, is_async=number % 4 < 2)
            found.append((f"{trigger}: {given}", code, HOSTS[number % len(HOSTS)]))
    for trigger, several in (("queue", QUEUE_ONLY), ("timer", TIMER_ONLY)):
        for number, given in enumerate(several):
            code = _function(trigger, given, above=number % 2 == 1, is_async=number % 3 == 0)
            found.append((f"{trigger}: {given}", code, HOSTS[number % 2]))
    return found


APPS: Final = _apps()


def test_there_are_a_hundred_of_them() -> None:
    assert len(APPS) >= 90


@pytest.mark.parametrize("name", [name for name, _, _ in APPS])
def test_a_right_app_gets_neither_an_error_nor_a_warning(name: str, tmp_path: Path) -> None:
    _, code, host = next(app for app in APPS if app[0] == name)
    report = checked(tmp_path, code, host, SETTINGS)
    report.assert_ok(strict=True)
    assert report.functions[0].guards[0].lock is not None


@pytest.mark.parametrize("code", [SMALL, MIXED], ids=["small", "mixed"])
def test_the_apps_of_the_runs_are_right(code: str, tmp_path: Path) -> None:
    settings = {"REGION": "north", "Billing": "UseDevelopmentStorage=true"}
    checked(tmp_path, code, settings=settings).assert_ok(strict=True)


def test_the_sample_is_right() -> None:
    import function_app

    settings = {"AzureWebJobsStorage": "UseDevelopmentStorage=true", "IMPORT_SCHEDULE": "*/15 * * * * *"}
    report = check(function_app.app, AppSettings(folder=ROOT, values=settings, known=True))
    report.assert_ok(strict=True)
    assert report.lock("ship_order") == "webjobshost/locks/<hostId>/ship_order.{Customer}"


def test_functions_that_share_a_lock_on_purpose_are_right(tmp_path: Path) -> None:
    code = """
    @queue()
    @singleton(scope_id="imports", level="host")
    def one(msg: func.QueueMessage) -> None: ...

    @timer(schedule="0 0 3 * * *")
    @singleton(scope_id="imports", level="host", on_contention="skip")
    def other(clock: func.TimerRequest) -> None: ...

    @queue()
    @singleton(scope="Id", layout="dequeueable")
    def third(msg: func.QueueMessage) -> None: ...

    @queue()
    @singleton(scope="Id", layout="dequeueable")
    def fourth(msg: func.QueueMessage) -> None: ...

    @queue()
    @singleton(scope="Id")
    @singleton(mode="listener")
    def fifth(msg: func.QueueMessage) -> None: ...
    """
    report = checked(tmp_path, code)
    report.assert_ok(strict=True)
    assert [guard.mode for guard in report.functions[-1].guards] == ["listener", "function"]


def test_generators_that_are_run_under_the_lock_are_right(tmp_path: Path) -> None:
    code = """
    def listed(inner):
        @functools.wraps(inner)
        def call(msg):
            return print(list(inner(msg)))
        return call

    @queue()
    @app.queue_output(arg_name="$return", queue_name="done", connection="AzureWebJobsStorage")
    @singleton(scope="Id")
    def split(msg: func.QueueMessage):
        yield "a"

    @queue()
    @singleton(scope="Id")
    @listed
    def ship(msg: func.QueueMessage):
        yield "a"
    """
    checked(tmp_path, code).assert_ok(strict=True)


def test_plain_responses_and_streams_that_take_the_lock_are_right(tmp_path: Path) -> None:
    code = """
    from singleton import AsyncLockClient

    locks = AsyncLockClient("AzureWebJobsStorage")

    class JSONResponse:
        __module__ = "starlette.responses"
        def __init__(self, content, background=None): ...

    class StreamingResponse(JSONResponse):
        __module__ = "starlette.responses"

    class Chart:
        class StreamingResponse:
            def __init__(self, text): self.text = text

        class ChartResponse(StreamingResponse):
            def __init__(self, text, background): self.text = text

    @app.route(route="plain")
    @singleton
    async def plain(req: func.HttpRequest) -> JSONResponse:
        return JSONResponse({}, background=None)

    @app.route(route="chart")
    @singleton
    def chart(req: func.HttpRequest) -> str:
        if req.params:
            return Chart.StreamingResponse("x").text
        return Chart.ChartResponse("x", background="white")

    @app.route(route="collected")
    @singleton
    async def collected(req: func.HttpRequest):
        rows = StreamingResponse([])
        return JSONResponse([each async for each in rows.body_iterator])

    @app.route(route="overwritten")
    @singleton
    async def overwritten(req: func.HttpRequest):
        answer = JSONResponse({}, background=print)
        answer.background = None
        if req.params:
            other = StreamingResponse([])
            return JSONResponse(repr(other))
        other = StreamingResponse([])
        if req.headers:
            other = answer
        else:
            other = JSONResponse({})
        return other

    @app.route(route="streams")
    async def streams(req: func.HttpRequest) -> StreamingResponse:
        async def rows():
            async with locks.lock("export"):
                yield b"row"
        return StreamingResponse(rows())

    @locks.lock("export")
    async def make():
        def later(): return StreamingResponse([])
        return JSONResponse(repr(later))
    """
    report = checked(tmp_path, code)
    assert [*report.errors, *report.warnings] == []


@pytest.mark.parametrize(
    ("host", "settings"),
    [
        ({}, {"MySql_Trigger_MaxBatchSize": "1"}),
        ({}, {"MySql_Trigger_BatchSize": "1"}),
        ({"extensions": {"mysql": {"MaxBatchSize": 1}}}, {}),
        ({}, {"AzureFunctionsJobHost__extensions__mysql__maxBatchSize": "1"}),
    ],
)
def test_rows_that_come_one_by_one_have_a_scope(
    host: Mapping[str, Any], settings: Mapping[str, str], tmp_path: Path
) -> None:
    code = """
    @app.mysql_trigger(arg_name="rows", table_name="t", connection_string_setting="Bus")
    @singleton(scope="Item:Id")
    def changed(rows: str) -> None: ...
    """
    checked(tmp_path, code, host, settings).assert_ok(strict=True)


def test_few_threads_are_enough_where_few_wait(tmp_path: Path) -> None:
    code = """
    @timer(schedule="0 */5 * * * *")
    @singleton
    def tidy(clock: func.TimerRequest) -> None: ...

    @queue()
    @singleton(max_waiting=2)
    def ship(msg: func.QueueMessage) -> None: ...

    @bus()
    @singleton
    async def read(msg: func.ServiceBusMessage) -> None: ...
    """
    checked(tmp_path, code, settings={"PYTHON_THREADPOOL_THREAD_COUNT": "4"}).assert_ok(strict=True)


def test_a_function_or_a_lock_that_is_switched_off_needs_no_setting(tmp_path: Path) -> None:
    code = (
        "@queue(connection='Orders')\n@singleton(connection='Locks', scope_id='%NONE%')\n"
        "def ship(msg: func.QueueMessage) -> None: ...\n"
    )
    report = checked(tmp_path, code, settings={"AzureWebJobs.ship.Disabled": "true"})
    report.assert_ok(strict=True)
    assert {each.id for each in report.findings} == {"connection-unset", "setting-unset"}
    code = "@queue()\n@singleton(connection='Locks')\ndef ship(msg: func.QueueMessage) -> None: ...\n"
    checked(tmp_path, code, {"singleton": {"enabled": False}}).assert_ok()


def test_a_connection_that_is_left_empty_has_its_default(tmp_path: Path) -> None:
    code = """
    @app.service_bus_queue_trigger(arg_name="msg", queue_name="q", connection="")
    @singleton(scope_id="{SessionId}")
    def read(msg: func.ServiceBusMessage) -> None: ...

    @app.queue_trigger(arg_name="msg", queue_name="q", connection="")
    @singleton(scope="Id")
    def ship(msg: func.QueueMessage) -> None: ...
    """
    checked(tmp_path, code, settings={"AzureWebJobsServiceBus": "Endpoint=sb://a/"}).assert_ok(strict=True)


def test_a_request_is_never_another_input_and_names_of_a_streamed_one_are_right(tmp_path: Path) -> None:
    code = """
    class Request:
        path_params = query_params = headers = property(lambda self: {})

    def logged(inner):
        def call(table, req):
            return inner(table, req)
        return call

    @app.route(route="a/{id:int}")
    @app.table_input(arg_name="table", table_name="t", partition_key="a", connection="AzureWebJobsStorage")
    @logged
    @once(key=lambda req: req.params["k"], timeout=5)
    def read(table: str, req: func.HttpRequest) -> str: return "ok"

    @app.route(route="b/{id:int}")
    @singleton(scope_id="{Id}/{query.part}/{headers.region}", timeout=5)
    async def streamed(req: Request) -> str: return "ok"
    """
    report = checked(tmp_path, code)
    assert {each.id for each in (*report.errors, *report.warnings)} <= {"hidden-by-decorator", "input-before-lock"}


def test_names_of_a_tools_arguments_and_of_its_call_are_right(tmp_path: Path) -> None:
    code = """
    @app.mcp_tool()
    @singleton(scope="order", scope_id="{Region}-{sessionid}", timeout=20)
    async def ship(order: str, region: str = "eu") -> str: return order

    @singleton(scope="arguments:order", scope_id="{arguments.region}", on_contention="raise")
    @app.mcp_tool()
    async def bill(order: str, region: str) -> str: return order

    @app.mcp_tool()
    @once(key="{order}/{name}")
    async def refund(order: str) -> str: return order

    @app.mcp_tool_trigger(arg_name="call", tool_name="file")
    @singleton(scope="folder")
    def file(call: str) -> str: return call
    """
    checked(tmp_path, code).assert_ok(strict=True)
