"""``@app.mcp_tool()`` calls a plain ``def`` on the worker's event loop: a guard that waits there is refused."""

from __future__ import annotations

import asyncio
import json
import types
from typing import TYPE_CHECKING, Any

import azure.functions as func
import pytest

from singleton import ConfigurationError, once, singleton
from singleton.functions.misdeclaration import collecting
from singleton.functions.triggers import user_function
from tests.support.lock_thread import LockThread, an_app

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(not hasattr(func.FunctionApp, "mcp_tool"), reason="azure-functions before 1.25")

HEAD = """import functools
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
    exec(compile(script.read_text(), script, "exec"), vars(module))  # noqa: S102 - as a worker imports it
    return module


def called(builder: Any, **arguments: Any) -> Any:
    return asyncio.run(user_function(builder)(context=json.dumps({"arguments": arguments})))


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
def test_a_def_that_waits_is_refused_at_its_declaration(tmp_path: Path, guard: str) -> None:
    with pytest.raises(ConfigurationError, match="Write `async def`") as told:
        imported(tmp_path, f"@app.mcp_tool()\n{guard}\ndef greet(name: str) -> str:\n    return name\n")
    assert told.value.reason == "blocks-event-loop"


def test_so_is_one_whose_source_is_not_known_at_its_first_call() -> None:
    app: Any = func.FunctionApp()

    def greet(name: str) -> str:
        return name

    for decorator in (singleton, once(key="{name}")):
        builder = app.mcp_tool()(decorator(greet))
        globals()["_apps"] = app  # where a guard looks for its trigger
        with pytest.raises(ConfigurationError, match=r"calls a plain def on the event loop"):
            called(builder, name="Ann")
    del globals()["_apps"]


def test_in_a_worker_each_call_of_the_function_fails_and_the_app_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "azure_functions_worker", types.ModuleType("azure_functions_worker"))
    module = imported(tmp_path, "@app.mcp_tool()\n@singleton\ndef greet(name: str) -> str:\n    return name\n")
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
    assert called(imported(tmp_path, code).greet, name="Ann") == "Ann"


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


def test_a_check_lists_it(tmp_path: Path) -> None:
    with collecting() as found:
        imported(tmp_path, "@app.mcp_tool()\n@singleton\ndef greet(name: str) -> str:\n    return name\n")
    assert [each.error.reason for each in found] == ["blocks-event-loop"]
