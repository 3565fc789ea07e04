"""Tools of MCP: their arguments are the payload; and a ``def`` that waits on the event loop is refused."""

from __future__ import annotations

import asyncio
import json
import types
from typing import TYPE_CHECKING, Any

import azure.functions as func
import pytest

from singleton import ConfigurationError, LockNotAcquired, ScopeError, singleton
from singleton.functions import triggers
from singleton.functions.triggers import user_function
from tests.support import deliveries as given
from tests.support.lock_thread import LockThread, an_app, outcome

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(not hasattr(func.FunctionApp, "mcp_tool"), reason="azure-functions before 1.25")

HEAD = """import functools
import json
import azure.functions as func
from singleton import once, singleton

app = func.FunctionApp()
"""


@pytest.fixture(autouse=True)
def thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LockThread]:
    an_app(tmp_path, monkeypatch)
    with LockThread() as running:
        yield running


def imported(folder: Path, code: str) -> types.ModuleType:
    script = folder / "function_app.py"
    script.write_text(HEAD + code)
    module = types.ModuleType("tools_of_a_test")
    exec(compile(script.read_text(), script, "exec", dont_inherit=True), vars(module))  # noqa: S102 - as a worker imports it
    return module


def called(builder: Any, **arguments: Any) -> Any:
    return asyncio.run(user_function(builder)(context=json.dumps({"arguments": arguments})))


def test_a_function_for_the_key_gets_the_call_of_a_tool_or_its_text(tmp_path: Path) -> None:
    code = """
@app.mcp_tool()
@once(key=lambda call: call["arguments"]["order"])
async def below(order: str) -> str: return order

@once(key=lambda call: json.loads(call)["arguments"]["order"])
@app.mcp_tool()
async def above(order: str) -> str: return order
"""
    for function in map(vars(imported(tmp_path, code)).get, ("below", "above")):
        assert "7" in called(function, order="7")


@pytest.mark.parametrize(
    "guard",
    [
        "@singleton",
        "@singleton(scope_id='a', timeout=5)",
        "@singleton(on_contention='skip', timeout=5)",
        "@singleton(limit=2)",
        "@singleton(max_waiting=3)",
        "@once(key='{name}')",
        '@app.mcp_tool_property(arg_name="name", description="who")\n@singleton()',
    ],
)
def test_a_def_that_waits_is_refused_when_the_functions_are_listed(tmp_path: Path, guard: str) -> None:
    module = imported(tmp_path, f"@app.mcp_tool()\n{guard}\ndef greet(name: str) -> str:\n    return name\n")
    with pytest.raises(ConfigurationError, match="Write `async def`") as told:
        module.app.get_functions()
    assert told.value.reason == "blocks-event-loop"


def test_in_a_worker_each_call_of_the_function_fails_and_the_app_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "azure_functions_worker", types.ModuleType("azure_functions_worker"))
    monkeypatch.setenv("AzureFunctionsJobHost__singleton__failFast", "false")
    module = imported(tmp_path, "@app.mcp_tool()\n@singleton\ndef greet(name: str) -> str:\n    return name\n")
    module.app.get_functions()
    with pytest.raises(ConfigurationError, match="Write `async def`"):
        called(module.greet, name="Ann")


@pytest.mark.parametrize(
    "code",
    [
        "@app.mcp_tool()\n@singleton\nasync def greet(name: str) -> str:\n    return name\n",
        "@app.mcp_tool()\n@singleton(on_contention='raise')\ndef greet(name: str) -> str:\n    return name\n",
        "@app.mcp_tool()\n@singleton(on_contention='skip')\ndef greet(name: str) -> str:\n    return name\n",
        "@singleton\n@app.mcp_tool()\ndef greet(name: str) -> str:\n    return name\n",
        "@once(key='{arguments.name}')\n@app.mcp_tool()\ndef greet(name: str) -> str:\n    return name\n",
    ],
)
def test_what_does_not_wait_on_the_loop_is_allowed(tmp_path: Path, code: str) -> None:
    module = imported(tmp_path, code)
    module.app.get_functions()
    assert called(module.greet, name="Ann") == "Ann"


def test_a_plain_trigger_of_a_tool_runs_on_a_thread(tmp_path: Path) -> None:
    code = "@app.mcp_tool_trigger(arg_name='context', tool_name='greet')\n@singleton\ndef greet(context: str) -> str:\n"
    builder = imported(tmp_path, code + "    return context\n").greet
    assert user_function(builder)(context="{}") == "{}"


def test_a_decorator_that_calls_on_a_thread_is_allowed(tmp_path: Path) -> None:
    code = (
        "import asyncio\n\n\ndef on_a_thread(function):\n"
        "    @functools.wraps(function)\n    async def call(**named):\n"
        "        return await asyncio.to_thread(function, **named)\n    return call\n\n\n"
        "@app.mcp_tool()\n@on_a_thread\n@singleton\ndef greet(name: str) -> str:\n    return name\n"
    )
    assert called(imported(tmp_path, code).greet, name="Ann") == "Ann"


# --- arguments and scopes ---------------------------------------------------------------------------------------------

PLAIN = "async def ship(order: str, region: str = 'eu') -> str:\n    return f'{order} {region}'\n"
TAKES = {
    "below mcp_tool": f"@app.mcp_tool()\nGUARD\n{PLAIN}",
    "above mcp_tool": f"GUARD\n@app.mcp_tool()\n{PLAIN}",
    "below another guard": f"@app.mcp_tool()\n@once(key='x-{{order}}')\nGUARD\n{PLAIN}",
    "with the call": """@app.mcp_tool()
GUARD
async def ship(call: func.MCPToolContext, order: str, region: str = 'eu') -> str:
    return f"{call['sessionid'] and order} {region}"
""",
    "with the call as context": """@app.mcp_tool()
GUARD
async def ship(context: func.MCPToolContext, order: str, region: str = 'eu') -> str:
    return f"{context['sessionid'] and order} {region}"
""",
    "with an argument called context": """@app.mcp_tool()
GUARD
async def ship(order: str, context: str = '', region: str = 'eu') -> str:
    return f"{order} {region}"
""",
    "mcp_tool_trigger": """@app.mcp_tool_trigger(arg_name='call', tool_name='ship')
GUARD
def ship(call: str) -> str:
    arguments = json.loads(call)['arguments']
    return f"{arguments['order']} {arguments.get('region', 'eu')}"
""",
    "generic_trigger": """@app.generic_trigger(arg_name='context', type='mcpToolTrigger', toolName='ship')
GUARD
async def ship(context: str) -> str:
    arguments = json.loads(context)['arguments']
    return f"{arguments['order']} {arguments.get('region', 'eu')}"
""",
}
SPREAD = [way for way in TAKES if not way.endswith("_trigger")]


def tool(folder: Path, way: str, guard: str) -> Any:
    return imported(folder, TAKES[way].replace("GUARD", guard)).ship


def answered(builder: Any, **arguments: object) -> Any:
    """Call a tool as the worker does: the call is the argument of the trigger's parameter."""
    parameter = builder._function.get_trigger().name
    return outcome(user_function(builder)(**{parameter: given.tool_call(**arguments)}))


def scopes(thread: LockThread) -> list[str]:
    return [event.lock.removeprefix("locks/app/ship.") for event in thread.events if event.kind == "acquired"]


def unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the app, by which a guard below a trigger's decorator finds the trigger."""
    monkeypatch.setattr(triggers, "_builders_in", lambda *_: iter(()))


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("declared", ["scope='order'", "scope_id='{order}'", "scope_id='{Order}'"])
@pytest.mark.parametrize("way", TAKES)
def test_the_arguments_of_a_tool_are_its_payload(
    tmp_path: Path, thread: LockThread, monkeypatch: pytest.MonkeyPatch, way: str, declared: str, known: bool
) -> None:
    builder = tool(tmp_path, way, f"@singleton({declared})")
    if not known:
        if way not in SPREAD or "called context" in way:
            pytest.skip("the trigger alone tells what the arguments are")
        unknown(monkeypatch)
    assert answered(builder, order="7") == "7 eu"
    assert [name for name in scopes(thread) if "once" not in name] == ["7"]


@pytest.mark.parametrize("way", TAKES)
def test_a_path_and_a_name_through_the_whole_call_lead_there_too(
    tmp_path: Path, thread: LockThread, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    if way == "with an argument called context":
        pytest.skip("the call is not handed over")
    builder = tool(tmp_path, way, "@singleton(scope='arguments:order', scope_id='{sessionid}-{arguments.order}')")
    assert answered(builder, order="7") == "7 eu"
    assert "s-1-7.7" in scopes(thread)


@pytest.mark.parametrize("way", SPREAD)
def test_an_argument_that_is_left_out_has_its_default(
    tmp_path: Path, thread: LockThread, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    builder = tool(tmp_path, way, "@singleton(scope='region')")
    assert answered(builder, order="7") == "7 eu"
    assert answered(builder, order="8", region="us") == "8 us"
    assert [name for name in scopes(thread) if name in ("eu", "us")] == ["eu", "us"]


@pytest.mark.parametrize("way", TAKES)
def test_an_argument_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    said = r"scope='ordr': the tool ship has no argument ordr; it has .*order|no property 'ordr'; it has .*'order'"
    with pytest.raises((ConfigurationError, ScopeError), match=said):
        answered(tool(tmp_path, way, "@singleton(scope='ordr')"), order="7")


def test_an_argument_called_context_is_never_taken_for_the_call(
    tmp_path: Path, thread: LockThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = tool(tmp_path, "with an argument called context", "@singleton(scope='order')")
    assert answered(builder, order="7", context=given.tool_call(order="8")) == "7 eu"
    assert scopes(thread) == ["7"]


@pytest.mark.parametrize("way", TAKES)
def test_an_operation_is_done_once_for_an_argument(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    builder = tool(tmp_path, way, "@once(key='order')" if "another" not in way else "@singleton(scope='order')")
    assert [answered(builder, order="7"), answered(builder, order="7", region="us")] == ["7 eu", "7 eu"]
    assert answered(builder, order="8") == "8 eu"


@pytest.mark.parametrize("way", TAKES)
def test_another_call_skips_or_fails_or_is_chosen_for(
    tmp_path: Path, thread: LockThread, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    thread.taken_by_another_process("locks/app/ship.7")
    skipping = tool(tmp_path, way, "@singleton(scope='order', on_contention='skip')")
    assert answered(skipping, order="7") in (None, "")
    for policy in ("'raise'", "lambda contention: 'raise'"):
        failing = tool(tmp_path, way, f"@singleton(scope='order', on_contention={policy})")
        with pytest.raises(LockNotAcquired):
            answered(failing, order="7")


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("way", TAKES)
def test_a_tool_fails_in_a_process_that_does_not_listen(
    tmp_path: Path, thread: LockThread, monkeypatch: pytest.MonkeyPatch, way: str, known: bool
) -> None:
    thread.taken_by_another_process("locks/app/ship~listener")
    builder = tool(tmp_path, way, "@singleton(mode='listener')")
    if not known:
        unknown(monkeypatch)
    with pytest.raises(LockNotAcquired):
        answered(builder, order="7")


@pytest.mark.parametrize(
    "guard", ["@singleton", "@once(key='order')", "@singleton(on_contention='raise')\n@once(key='order')"]
)
@pytest.mark.parametrize("way", [way for way in SPREAD if way != "with an argument called context"])
def test_a_tool_publishes_the_arguments_of_its_function_and_no_other(tmp_path: Path, way: str, guard: str) -> None:
    if way == "below another guard" and "once" in guard:
        guard = "@singleton"
    published = json.loads(tool(tmp_path, way, guard)._function.get_trigger().tool_properties)
    assert [each["propertyName"] for each in published] == ["order", "region"]
    assert [each["isRequired"] for each in published] == [True, False]


@pytest.mark.parametrize("given_as", ["x", [1]])
def test_arguments_that_are_no_object_have_no_properties(thread: LockThread, given_as: object) -> None:
    app, published = func.FunctionApp(), '[{"propertyName": "id"}]'

    @singleton(scope="id")
    @app.generic_trigger(arg_name="context", type="mcpToolTrigger", toolName="t", toolProperties=published)
    def ship(context: str) -> str:
        return "done"

    with pytest.raises(ScopeError, match="the body has no property 'id'; it has 'arguments'"):
        user_function(ship)(context=json.dumps({"arguments": given_as}))


def test_the_arguments_of_a_prompt_are_its_payload(thread: LockThread) -> None:
    @singleton(scope="customer", scope_id="{name}-{arguments.customer}")
    def ship(call: Any) -> str:
        return "done"

    assert ship(given.prompt(customer="north")) == "done"
    assert scopes(thread) == ["greet-north.north"]
