"""The pages about triggers and Durable Functions do what they say: their code is loaded, indexed and called."""

from __future__ import annotations

import asyncio
import re
import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from singleton.functions.message_properties import _NAMES
from tests.support import deliveries as given
from tests.support.lock_thread import Context, LockThread, an_app

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCS = Path(__file__).resolve().parents[3] / "docs"


@pytest.fixture(autouse=True)
def _app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    an_app(tmp_path, monkeypatch)


@pytest.fixture
def app(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """Load a page's code as one module, as a worker loads function_app.py; yield its user functions by name."""
    page = (DOCS / request.param).read_text(encoding="utf-8")
    module = ModuleType("page")
    sys.modules["page"] = module
    try:
        with warnings.catch_warnings(action="ignore"):
            for code in re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
                exec(compile(code, request.param, "exec"), vars(module))  # noqa: S102 - our own page
        yield {each.get_function_name(): each.get_user_function() for each in vars(module)["app"].get_functions()}
    finally:
        del sys.modules["page"]


def lock_of(function: Any, **arguments: Any) -> str:
    with LockThread() as locks:
        result = function(**arguments, context=Context("inv", function.__name__))
        if asyncio.iscoroutine(result):
            asyncio.run(result)
        (lock,) = {event.lock for event in locks.events}
    return lock


@pytest.mark.parametrize("app", ["durable.md"], indirect=True)
def test_the_activities_of_the_page_are_guarded_as_it_says(app: dict[str, Any]) -> None:
    order = given.activity_input({"Customer": {"Id": "c-1"}})
    assert lock_of(app["book"], order=order) == "locks/app/book.c-1"
    assert lock_of(app["notify"], customer=given.activity_input("c-1")) == "locks/app/notify.c-1"


@pytest.mark.parametrize("app", ["durable.md"], indirect=True)
@pytest.mark.parametrize(("status", "answer"), [(None, 202), ("Running", 409), ("Suspended", 409), ("Completed", 202)])
def test_the_starter_of_the_page_answers_as_it_says(
    app: dict[str, Any], status: str | None, answer: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from azure.durable_functions import DurableOrchestrationClient

    told = {"runtimeStatus": status, "createdTime": given.WHEN} if status else ""
    started: list[str] = []

    async def get(*_: object) -> list[Any]:
        return [202, {"runtimeStatus": "Pending", "createdTime": given.WHEN} if started else told]

    async def start(_: object, __: str, instance: str, ___: object) -> str:
        started.append(instance)
        return instance

    def respond(_: object, __: object, ___: str) -> Any:
        import azure.functions as func

        return func.HttpResponse(status_code=202)

    def made(self: Any, *_: object) -> None:
        self._get_async_request, self._orchestration_bindings = get, type("B", (), {"rpc_base_url": "http://h/"})

    monkeypatch.setattr(DurableOrchestrationClient, "__init__", made)
    monkeypatch.setattr(DurableOrchestrationClient, "start_new", start)
    monkeypatch.setattr(DurableOrchestrationClient, "create_check_status_response", respond)
    with LockThread():
        request = given.http_request(b"{}", route={"id": "order-7"})
        response = asyncio.run(app["start_import"](req=request, client="{}"))
    assert (response.status_code, len(started)) == (answer, int(answer == 202))


@pytest.mark.parametrize("app", ["triggers.md"], indirect=True)
def test_the_request_of_the_page_is_answered_409_while_another_has_the_lock(app: dict[str, Any]) -> None:
    request = given.http_request(route={"id": "7"})
    with LockThread() as locks:
        assert asyncio.run(app["ship"](req=request)).status_code == 200
        locks.taken_by_another_process("orders/7")
        assert asyncio.run(app["ship"](req=request)).status_code == 409


def test_the_names_in_the_table_are_those_that_the_code_knows() -> None:
    page = (DOCS / "triggers.md").read_text(encoding="utf-8")
    rows = {line.split(" | ")[0].removeprefix("| "): line for line in page.splitlines() if line.startswith("| ")}
    for trigger in ("storage queue", "Service Bus"):
        known = set(re.findall(r"`([A-Z]\w+)", rows[trigger].split(" | ")[2])) - {"QueueTrigger"}
        assert known <= set(_NAMES)
