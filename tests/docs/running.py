"""Run the blocks of a page as a reader would who types them: one after the other, with locks in memory."""

from __future__ import annotations

import ast
import asyncio
import importlib
import inspect
import json
import sys
import threading
from types import CodeType, FrameType, ModuleType
from typing import TYPE_CHECKING, Any

import azure.functions as func

from tests.docs.pages import blocks, has_prelude, named, prelude
from tests.support import deliveries as given
from tests.support.lock_thread import Context

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from tests.docs.pages import Block

PAYLOAD = {
    "Id": "42",
    "TenantId": "north",
    "CustomerId": "c-1",
    "AccountId": 7,
    "Customer": {"Id": "c-1", "TenantId": "north"},
    "Order": {"Id": "42", "Customer": {"Id": "c-1"}},
}
"""Has a value for each scope that a page shows."""
PATIENCE = 200.0
"""Seconds for a block that awaits: a periodic worker may miss its first tick, and the next one comes after a minute."""
_main: asyncio.Task[Any] | None = None


class EndOfBlock(BaseException):
    """Ends a block that would go on for ever."""


def end_of_block() -> None:
    """End the block that runs: what a page shows with "for ever" ends when the test has seen enough."""
    if _main is None or _is_here(_main):
        raise EndOfBlock
    _main.get_loop().call_soon_threadsafe(_main.cancel)


def _is_here(task: asyncio.Task[Any]) -> bool:
    try:
        return asyncio.current_task() is task
    except RuntimeError:
        return False


class Shown:
    """A page whose blocks were run. Its names are attributes."""

    def __init__(self, page: Path) -> None:
        self._page = page
        self._module = ModuleType("shown")
        self._apps: list[Any] = []
        self._ran: set[CodeType] = set()
        self._defined: dict[CodeType, Block] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)

    def set(self, name: str, value: object) -> None:
        """Replace a name of the page."""
        setattr(self._module, name, value)

    def run(self) -> None:
        """Run all Python of the page, then each function of its apps, as the worker calls it."""
        names = vars(self._module)
        around = vars(importlib.import_module(prelude(self._page))) if has_prelude(self._page) else {}
        around.get("beforehand", lambda: None)()
        sys.modules["shown"] = self._module
        names["__name__"] = "shown"
        try:
            with _Profile(self._ran):
                for block in blocks(self._page):
                    if block.language == "python":
                        self._run(block)
                for app in self._apps:
                    for function in app.get_functions():
                        _call(function)
                around.get("afterwards", lambda _: None)(self)
                self._call_the_others()
        finally:
            del sys.modules["shown"]
            for end in ("unsubscribe",):
                names.get(end, lambda: None)()
            if "observe" in names:
                names["observe"]()()

    def _call_the_others(self) -> None:
        """Call the functions that nobody called and that need no argument."""
        for function in [value for value in vars(self._module).values() if inspect.isfunction(value)]:
            needs = (each for each in inspect.signature(function).parameters.values() if each.default is each.empty)
            if function.__code__ in set(self._defined) - self._ran and not any(needs):
                result = function()
                if inspect.isasyncgen(result):
                    result = _drained(result)
                if inspect.iscoroutine(result):
                    asyncio.run(result)

    def never_ran(self) -> dict[str, list[str]]:
        """Return the functions of the page that nobody called, but for those that are only `...`, by first lines."""
        found: dict[str, list[str]] = {}
        for code, block in self._defined.items():
            if code not in self._ran:
                found.setdefault(block.code.partition("\n")[0], []).append(code.co_name)
        return found

    def _run(self, block: Block) -> None:
        global _main  # noqa: PLW0603 - a function that ends a block has no other way to it
        names = vars(self._module)
        code = compile(block.code, str(block), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        self._defined |= dict.fromkeys(_functions(code, block), block)
        try:
            if not block.awaits:
                exec(code, names)  # noqa: S102 - our own page
            else:

                async def run() -> None:
                    global _main  # noqa: PLW0603
                    _main = asyncio.current_task()
                    await eval(code, names)  # noqa: S307 - our own page

                asyncio.run(asyncio.wait_for(run(), PATIENCE))
        except (EndOfBlock, asyncio.CancelledError):
            pass
        except Exception as error:
            # A last line may show an error: "# raises LockLost".
            if f"raises {type(error).__name__}" not in block.code.rstrip().rpartition("\n")[2]:
                raise
        finally:
            _main = None
        app = names.get("app")
        if hasattr(app, "get_functions") and all(app is not known for known in self._apps):
            self._apps.append(app)


class _Profile:
    """Notes which code objects are run, on all threads that start meanwhile."""

    def __init__(self, ran: set[CodeType]) -> None:
        self._ran = ran

    def __enter__(self) -> None:
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.rpartition("-")[0].endswith(".md"):
            self._ran.add(frame.f_code)


async def _drained(items: AsyncIterator[object]) -> None:
    async for _ in items:
        pass


def _functions(code: CodeType, block: Block) -> list[CodeType]:
    """Return the code of all functions of a block that have a body."""
    empty = {
        node.name
        for node in ast.walk(block.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and all(isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant) for each in node.body)
    }
    found = []
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            found += _functions(inner, block)
            if inner.co_flags & inspect.CO_NEWLOCALS and inner.co_name not in empty and inner.co_name[0] != "<":
                found.append(inner)
    return found


def _call(function: Any) -> None:
    """Call a function of an app with what its trigger brings."""
    trigger = function.get_trigger()
    if "durable" in str([binding.get_binding_name() for binding in function.get_bindings()]).lower():
        return  # its client is the Durable host's
    made = _PAYLOADS.get(trigger.get_binding_name())
    assert made is not None, f"{function.get_function_name()} has a trigger for which the tests have no payload"
    arguments = {trigger.name: made()}
    body = function.get_user_function()
    if "context" in inspect.signature(body).parameters:
        arguments.setdefault("context", Context("inv-1", function.get_function_name()))
    result = body(**arguments)
    if inspect.iscoroutine(result):
        asyncio.run(result)


def _request() -> func.HttpRequest:
    return func.HttpRequest(
        "POST",
        "http://host/api/x",
        headers={"Idempotency-Key": "key-1"},
        route_params={"id": "42", "customer": "c-1", "tenant": "north"},
        body=json.dumps(PAYLOAD).encode(),
    )


_PAYLOADS: dict[str, Callable[[], object]] = {
    "timerTrigger": lambda: None,
    "queueTrigger": lambda: func.QueueMessage(id="m-1", body=json.dumps(PAYLOAD).encode(), pop_receipt="r"),
    "httpTrigger": _request,
    "serviceBusTrigger": lambda: given.service_bus_message(json.dumps(PAYLOAD).encode()),
    "activityTrigger": lambda: given.activity_input(PAYLOAD),
    "mcpToolTrigger": lambda: given.tool_call(order="42"),
}


def shown(page: Path) -> Shown:
    """Run a page; return what it made."""
    found = Shown(page)
    found.run()
    return found


__all__ = ["EndOfBlock", "Shown", "end_of_block", "named", "shown"]
