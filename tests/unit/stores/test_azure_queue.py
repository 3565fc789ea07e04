"""The queue store: what it asks of the SDK, and what it makes of the answers, without a network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from azure.core.exceptions import HttpResponseError

from singleton.runtime.accounts.stores import open_queue
from singleton.settings.connection import StorageAccount
from singleton.stores.protocol import StoreFailure
from tests.support.transport import NoTransport

if TYPE_CHECKING:
    from collections.abc import Callable

STRING = "DefaultEndpointsProtocol=http;AccountName=a;AccountKey=c2VjcmV0;QueueEndpoint=http://127.0.0.1:1/a"


class Wire(NoTransport):
    """Keeps the request, and fails."""

    def __init__(self, error: Exception) -> None:
        self.requests: list[Any] = []
        self._error = error

    async def send(self, request: Any, **_: Any) -> Any:
        self.requests.append(request)
        raise self._error


class Client:
    """A ``QueueClient`` of which every request is answered with an error."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __getattr__(self, name: str) -> Callable[..., Any]:
        async def fail(*_: Any, **__: Any) -> None:
            raise self._error

        return fail


async def test_each_request_is_made_once_and_no_answer_says_so() -> None:
    wire = Wire(OSError("connection reset"))
    store = open_queue(StorageAccount(STRING), "orders", transport=wire)
    for request in (
        store.create,
        lambda: store.hide("m-1", "r", 60),
        lambda: store.send("text", delay=10, life=100),
        lambda: store.delete("m-1", "r"),
    ):
        with pytest.raises(StoreFailure) as caught:
            await request()
        assert (caught.value.status, caught.value.meaning) == (None, "transient")
    assert [request.method for request in wire.requests] == ["PUT", "PUT", "POST", "DELETE"]
    await store.aclose()


@pytest.mark.parametrize(("life", "shown"), [(100, "messagettl=100"), (None, "messagettl=-1")])
async def test_a_message_without_an_end_is_sent_without_one(life: int | None, shown: str) -> None:
    wire = Wire(OSError())
    store = open_queue(StorageAccount(STRING), "orders", transport=wire)
    with pytest.raises(StoreFailure):
        await store.send("text", delay=10, life=life)
    assert shown in wire.requests[0].url
    assert "visibilitytimeout=10" in wire.requests[0].url
    await store.aclose()


async def test_carriage_returns_are_escaped_as_xml_would_drop_them() -> None:
    wire = Wire(OSError())
    store = open_queue(StorageAccount(STRING), "orders", transport=wire)
    with pytest.raises(StoreFailure):
        await store.send("a\r\nb", delay=0, life=None)
    (request,) = wire.requests
    assert b"<MessageText>a&#13;\nb</MessageText>" in request.data
    assert int(request.headers["Content-Length"]) == len(request.data)
    await store.aclose()


async def test_the_services_clock_comes_with_its_refusal() -> None:
    from singleton.stores.azure_queue import AzureMessageStore

    headers = {"Date": "Sat, 21 Nov 2026 20:00:00 GMT", "x-ms-error-code": "MessageNotFound"}
    error = HttpResponseError("no")
    error.status_code = 404
    error.error_code = "MessageNotFound"  # type: ignore[attr-defined]
    error.response = type("Response", (), {"headers": headers})()
    store = AzureMessageStore(Client(error))  # type: ignore[arg-type]
    with pytest.raises(StoreFailure) as caught:
        await store.hide("m-1", "r", 60)
    assert (caught.value.code, caught.value.at) == ("MessageNotFound", 1795291200.0)
