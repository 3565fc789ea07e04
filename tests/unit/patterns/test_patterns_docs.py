"""The examples of the how-to pages of the patterns run, as a reader would type them."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import text

from singleton.patterns.outbox import Message, OutboxRelay
from tests.support.lock_thread import Context, LockThread, an_app
from tests.support.patterns import column

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGES = Path(__file__).resolve().parents[3] / "docs" / "how-to"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True)
def thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    an_app(tmp_path, monkeypatch)
    monkeypatch.chdir(tmp_path)
    with LockThread():
        yield


class Page:
    """A page whose blocks are run one after the other, in one module."""

    def __init__(self, name: str, **known: Any) -> None:
        self._blocks = iter(BLOCK.findall((PAGES / name).read_text("utf-8")))
        self.names: dict[str, Any] = {"__name__": "shown", **known}

    def run(self) -> None:
        exec(compile(next(self._blocks), "docs", "exec", dont_inherit=True), self.names)  # noqa: S102 - ours

    def __getattr__(self, name: str) -> Any:
        return self.names[name]


def test_the_outbox_page(capsys: pytest.CaptureFixture[str]) -> None:
    published: list[tuple[Any, ...]] = []
    sent = threading.Event()

    def publish(message: Message) -> None:
        if "bad" in str(message.body):
            raise OSError("no")
        published.append((message.destination, message.body, message.key))
        sent.set()

    page = Page("outbox.md")
    page.run()
    with page.engine.begin() as connection:
        connection.execute(text("CREATE TABLE orders (id TEXT)"))
    page.place_order("7", "north")
    page.run()
    page.names["relay"] = OutboxRelay(page.outbox, publish)
    page.names["run"](lambda: sent.wait(10))
    assert published == [("orders", '{"placed": "7"}', "north")]
    page.run()
    page.place_order("bad", "south")
    page.names["relay"] = OutboxRelay(page.outbox, publish, attempts=1)
    function = page.app.get_functions()[0].get_user_function()
    function(timer=None, context=Context(function_name="relay_outbox"))
    page.run()
    assert "south 1 OSError: no" in capsys.readouterr().out
    assert page.outbox.poisoned() == []
    page.run()
    page.metadata.create_all(page.engine)
    with page.engine.begin() as connection:
        page.outbox.add(connection, {"a": 1})
    page.engine.dispose()


def test_the_page_of_row_states() -> None:
    page = Page("row-states.md")
    page.run()
    with page.engine.begin() as connection:
        connection.execute(page.invoices.insert(), [{"id": 1}, {"id": 2}])
    page.book_some()
    assert column(page.engine, page.invoices, "status") == ["Done", "Done"]
    with page.engine.begin() as connection:
        assert connection.execute(page.bookings.select()).all() == [(1,), (2,)]
        connection.execute(page.invoices.insert(), [{"id": 3}])
    page.run()
    page.run()
    page.nightly()
    assert column(page.engine, page.invoices, "status") == ["Done"] * 3
    assert column(page.engine, page.invoices, "token")[2] > 1000
    page.engine.dispose()
