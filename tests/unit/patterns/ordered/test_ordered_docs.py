"""The examples of docs/how-to/in-order.md run, as a reader would type them."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING

import azure.functions as func
import pytest

from singleton.patterns.ordered.bells import Bell
from singleton.testing import memory_locks
from tests.support.lock_thread import Context, an_app
from tests.unit.patterns.test_patterns_docs import Page

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    an_app(tmp_path, monkeypatch)
    with memory_locks():
        yield


def test_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    page = Page("in-order.md")
    page.run()
    receive, ship, look = (each.get_user_function() for each in page.app.get_functions())
    for number in (1, 2):
        request = func.HttpRequest(
            "POST",
            "http://host/api/orders/c7",
            body=json.dumps({"order": number}).encode(),
            route_params={"customer": "c7"},
        )
        assert asyncio.run(receive(request)).status_code == 202
    look(timer=None, context=Context(function_name="look"))
    assert page.inbox.look() == 1
    bell = func.QueueMessage(id="m", body=Bell("orders", "c7").text("none").encode(), pop_receipt="r")
    ship(message=bell, context=Context(function_name="ship"))
    assert capsys.readouterr().out == "c7 {'order': 1}\nc7 {'order': 2}\n"
    assert page.inbox.look() == 0

    page.run()
    page.inbox.send("c7", 3)
    shown = ""

    def serve() -> None:
        nonlocal shown
        end = time.monotonic() + 60
        while not shown and time.monotonic() < end:
            time.sleep(0.01)
            shown = capsys.readouterr().out

    page.main(serve)
    assert shown == "c7 3\n"
