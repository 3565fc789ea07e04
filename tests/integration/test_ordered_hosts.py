"""``@ordered`` in real host processes on a real emulator: one is killed, a message fails, and the order is kept."""

from __future__ import annotations

import signal
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from singleton import Inbox
from tests.integration.hosts import Queue, hosts, seen, wait_until, write_app

if TYPE_CHECKING:
    from pathlib import Path

KEYS, COUNT = 4, 12


@pytest.mark.process
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_killed_hosts_keys_go_on_in_order_and_no_bell_is_poison(
    kind: str, tmp_path: Path, connection_string: str
) -> None:
    name = f"inbox-{uuid.uuid4().hex[:12]}"
    nap, prefix = ("await asyncio.sleep(0.1)", "async ") if kind == "async" else ("time.sleep(0.1)", "")
    code = f"""
    from singleton import Inbox, InboxMessage, ordered

    @app.queue_trigger(arg_name="message", queue_name="{name}", connection="AzureWebJobsStorage")
    @ordered(Inbox("{name}"), attempts=3)
    {prefix}def ship(message: InboxMessage) -> None:
        seen(message.key, message.body, message.attempt, os.getpid())
        {nap}
        if message.key == "key-0" and message.body == 2:
            raise ValueError("no such order")
        seen(message.key, message.body, "done", os.getpid())
    """
    app = write_app(tmp_path / "app", code)
    inbox = Inbox(name, connection_string)
    for number in range(COUNT):
        for key in range(KEYS):
            inbox.send(f"key-{key}", number)

    def done() -> set[tuple[str, int]]:
        return {(key, body) for key, body, what, _ in seen(app) if what == "done"}

    def all_done() -> bool:
        return len(done()) == KEYS * COUNT - 1

    with (
        hosts(app, connection_string, tmp_path, count=3, visibility=10.0) as there,
        Queue(connection_string, f"{name}-poison") as poison,
    ):
        wait_until(lambda: len(done()) >= 6)
        there[0].signal(signal.SIGKILL)
        wait_until(all_done)
        assert poison.peek() == []
        failed = [record for host in there[1:] for record in host.records("invocation_ended", error="ValueError")]
        assert len(failed) <= 2
    (kept,) = inbox.aside()
    assert (kept.key, kept.body) == ("key-0", 2)
    for key in range(KEYS):
        begun: list[Any] = [body for each, body, what, _ in seen(app) if each == f"key-{key}" and what != "done"]
        assert begun == sorted(begun), begun
        again = len(begun) - len({*begun})
        assert again <= 1 + (2 if key == 0 else 0), begun
