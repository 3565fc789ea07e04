"""The host sees the lease requests that go over the network, and nothing else of them."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from azure.core.pipeline.transport import AioHttpTransport, HttpRequest

from simulator.witness.tap import tap_leases

if TYPE_CHECKING:
    from collections.abc import Callable

URL = "http://127.0.0.1:10000/account/container/locks/h/ship.a%252Db?comp=lease&sig=secret"


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[dict[str, Any]]]:
    """Send a request through the tap, and return what was told of it."""

    async def answer(_: object, __: object, **more: Any) -> Any:
        await asyncio.sleep(0)
        if more["status"] is None:
            raise ConnectionError
        return SimpleNamespace(status_code=more["status"])

    monkeypatch.setattr(AioHttpTransport, "send", answer)
    told: list[dict[str, Any]] = []
    tap_leases(lambda event, /, **fields: told.append({"event": event, **fields}))

    def send(action: str, url: str = URL, status: int | None = 200) -> list[dict[str, Any]]:
        headers = {"x-ms-lease-action": action, "x-ms-lease-id": "secret"} if action else {}
        request = HttpRequest("PUT", url, headers=headers)
        sending = AioHttpTransport.send(SimpleNamespace(), request, status=status)
        try:
            assert asyncio.run(sending).status_code == status
        except ConnectionError:
            assert status is None
        return told

    return send


@pytest.mark.parametrize("status", [200, 409, None])
@pytest.mark.parametrize("action", ["acquire", "renew"])
def test_a_request_for_a_lease_is_told_with_its_blob_and_its_answer(
    sent: Callable[..., list[dict[str, Any]]], action: str, status: int | None
) -> None:
    told = {"event": "lease_request", "action": action, "blob": "/account/container/locks/h/ship.a%2Db"}
    assert sent(action, status=status) == [{**told, "status": status}]


@pytest.mark.parametrize(("action", "url"), [("release", URL), ("", URL), ("renew", "http://h/container/blob")])
def test_other_requests_pass_unseen(sent: Callable[..., list[dict[str, Any]]], action: str, url: str) -> None:
    assert sent(action, url) == []
