"""The service repeats a request's id in its answer: otherwise ours would be compared with nothing."""

from __future__ import annotations

from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any

from singleton.runtime.accounts.stores import open_container
from singleton.settings.connection import StorageAccount
from singleton.stores.http.connections import Connections
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pytest

    from singleton.stores.http.answers import Answer

MINE = "00000000-0000-4000-8000-000000000001"


async def test_each_success_names_its_request(
    connection_string: str, container_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[tuple[int, str | None]] = []
    send = Connections.send

    async def noted(self: Connections, method: str, target: str, headers: Mapping[str, str], *more: Any) -> Answer:
        answer = await send(self, method, target, headers, *more)
        echo = answer.headers.get("x-ms-client-request-id")
        asked = headers["x-ms-client-request-id"]
        answers.append((answer.status, None if echo is None else "ours" if echo == asked else echo))
        return answer

    monkeypatch.setattr(Connections, "send", noted)
    async with aclosing(open_container(StorageAccount(connection_string), container_name)) as store:
        await store.create("job", {"a": "b"})
        etag = await store.acquire("job", MINE, 15)
        await store.renew("job", MINE)
        await store.write("job", MINE, {"a": "c"}, etag)
        with suppress(StoreFailure):
            await store.acquire("job", "00000000-0000-4000-8000-000000000002", 15)
        await store.release("job", MINE)
        await store.read("job")
        await store.note("note", {"a": "b"})
        await store.noted("note")
        await store.acquire("job", MINE, 15)
        await store.break_("job")
        await store.remove("note")
    assert {echo for status, echo in answers if status < 400} == {"ours"}
    assert {echo for status, echo in answers if status >= 400} <= {"ours", None}
    assert len(answers) == 14
