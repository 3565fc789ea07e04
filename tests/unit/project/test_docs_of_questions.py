"""The pages for the questions that people ask first are complete, and what they show does what they say."""

from __future__ import annotations

import re
import sys
import warnings
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tests.support import deliveries as given
from tests.support.lock_thread import Context, LockThread, an_app

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCS = Path(__file__).resolve().parents[3] / "docs"
PAGES = sorted((DOCS / "why").glob("*.md"))
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True)
def _app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    an_app(tmp_path, monkeypatch)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def page(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    """Load a page's code as one module, as a worker loads function_app.py."""
    module = ModuleType("page")
    sys.modules["page"] = module
    try:
        with warnings.catch_warnings(action="ignore"):
            for code in BLOCK.findall((DOCS / "why" / request.param).read_text("utf-8")):
                exec(compile(code, request.param, "exec"), vars(module))  # noqa: S102 - our own page
        yield module
    finally:
        del sys.modules["page"]


def functions(page: ModuleType) -> dict[str, Any]:
    return {each.get_function_name(): each.get_user_function() for each in page.app.get_functions()}


def lock_of(function: Any, message: object) -> str:
    with LockThread() as locks:
        function(msg=message, context=Context("inv", function.__name__))
        (lock,) = {event.lock for event in locks.events}
    return lock


def test_the_list_of_questions_has_each_page_once() -> None:
    listed = re.findall(r"\]\(why/([\w-]+\.md)\) \|", (DOCS / "faq.md").read_text("utf-8"))
    assert sorted(listed) == [page.name for page in PAGES]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_each_page_answers_first_and_shows_what_to_write(path: Path) -> None:
    text = path.read_text("utf-8")
    title, rest = text.split("\n\n", 1)
    assert title.startswith("# ")
    assert title.endswith("?")
    assert "**Short answer.**" in rest.split("\n## ")[0]
    assert BLOCK.search(text)


def test_the_costs_are_those_that_were_measured() -> None:
    measured = dict(
        re.findall(r"^\| (.+?) \| .* \| ([\d.]+) \|$", (DOCS / "performance.md").read_text("utf-8"), re.MULTILINE)
    )
    told = re.findall(r"^\| (.+?) \| ([\d.]+) \|$", (DOCS / "why" / "cost.md").read_text("utf-8"), re.MULTILINE)
    assert len(told) > 5
    assert [(row, cost) for row, cost in told if measured.get(row) != cost] == []


@pytest.mark.parametrize("page", ["service-bus-sessions.md"], indirect=True)
def test_a_session_and_a_queue_message_of_one_customer_have_one_lock(page: ModuleType) -> None:
    bodies = functions(page)
    shipped = lock_of(bodies["ship"], given.service_bus_message())
    assert shipped == lock_of(bodies["correct"], given.queue_message(b'{"CustomerId": "tenant-7"}'))


@pytest.mark.parametrize("page", ["scale-out-limit.md"], indirect=True)
def test_a_payment_and_a_refund_of_one_account_have_one_lock(page: ModuleType) -> None:
    bodies = functions(page)
    first, second = (lock_of(bodies[name], given.queue_message(b'{"AccountId": 7}')) for name in ("pay", "refund"))
    assert first == second


@pytest.mark.parametrize("page", ["exactly-once.md"], indirect=True)
def test_a_message_that_comes_twice_is_charged_once(page: ModuleType) -> None:
    charged: list[str] = []
    vars(page)["charge_card"] = lambda _order, key, **_: charged.append(key)
    charge = functions(page)["charge"]
    with LockThread():
        for _ in range(2):
            charge(msg=given.queue_message(b'{"Order": {"Id": "o-1"}}'), context=Context("inv", "charge"))
    assert charged == ["o-1"]


@pytest.mark.parametrize("page", ["database-lock.md"], indirect=True)
def test_the_database_of_the_page_refuses_a_holder_that_comes_late(page: ModuleType) -> None:
    page.metadata.create_all(page.engine)
    with page.engine.begin() as connection:
        connection.execute(page.accounts.insert(), [{"id": 7, "balance": 0}])
    with LockThread():
        page.set_balance(7, 5)
    with page.engine.begin() as connection:
        assert connection.execute(page.accounts.select()).one()[:2] == (7, 5)
        connection.execute(page.accounts.update().values(token=2**62))
    with LockThread(), pytest.raises(RuntimeError, match="a later holder"):
        page.set_balance(7, 6)
    page.engine.dispose()


@pytest.mark.parametrize("page", ["storage-down.md"], indirect=True)
def test_the_two_cases_of_the_page_are_told_apart(page: ModuleType, caplog: pytest.LogCaptureFixture) -> None:
    refresh, asked = functions(page)["refresh"], page.locks.lock
    with caplog.at_level("INFO", "root"), LockThread() as locks:
        refresh(timer=None)
        locks.taken_by_another_process("refresh")
        vars(page)["locks"] = SimpleNamespace(lock=lambda name, **_: asked(name, timeout=0))
        refresh(timer=None)
    assert [line.message for line in caplog.records if line.pathname == "storage-down.md"] == [
        "refreshed",
        "another process refreshes",
    ]


@pytest.mark.parametrize("page", ["durable-singletons.md"], indirect=True)
def test_an_activity_is_guarded_by_the_customer_in_its_input(page: ModuleType) -> None:
    order = given.activity_input({"CustomerId": "c-1"})
    with LockThread() as locks:
        assert functions(page)["book"](order=order, context=Context("inv", "book")) == "booked"
        assert {event.lock for event in locks.events} == {"locks/app/book.c-1"}
