"""The proxy between the SDK's clients and Azurite: what it counts, and each way in which it breaks things."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import threading
import time
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from azure.core.exceptions import (
    AzureError,
    HttpResponseError,
    ResourceExistsError,
    ServiceRequestError,
    ServiceResponseError,
)
from azure.storage.blob import BlobClient, BlobLeaseClient, ContainerClient
from azure.storage.blob.aio import BlobClient as AsyncBlobClient
from azure.storage.queue import QueueClient

from simulator.proxy.actions import (
    Answer,
    Delay,
    DelayReply,
    DropReply,
    DropRequest,
    Hang,
    everything,
)
from tests.support.recording_proxy import Drip, ProxyThread, RecordingProxy, Truncate, on

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from simulator.azurite.server import Azurite
    from simulator.proxy.exchange import Exchange

QUICK: dict[str, Any] = {"retry_total": 0, "connection_timeout": 5}
NAME = "locks/a host/Fünktion.x%2Fy"


@pytest.fixture
def proxy(azurite: Azurite) -> Iterator[ProxyThread]:
    with ProxyThread(azurite.blob_port) as running:
        yield running


@pytest.fixture
def direct(azurite: Azurite, container_name: str) -> Iterator[BlobClient]:
    """A client of a blob that is there, past the proxy."""
    with ContainerClient.from_connection_string(azurite.connection_string, container_name) as container:
        container.create_container()
    with BlobClient.from_connection_string(azurite.connection_string, container_name, NAME, **QUICK) as client:
        client.upload_blob(b"")
        yield client


@pytest.fixture
def blob(proxy: ProxyThread, azurite: Azurite, direct: BlobClient) -> Iterator[BlobClient]:
    """A client of the same blob, through the proxy."""
    through = proxy.connection_string(azurite.connection_string)
    with BlobClient.from_connection_string(through, direct.container_name, NAME, **QUICK) as client:
        yield client


def leased(client: BlobClient) -> bool:
    return bool(client.get_blob_properties().lease.state == "leased")


def lease(client: BlobClient) -> tuple[BlobLeaseClient, str]:
    wanted = str(uuid.uuid4())
    return BlobLeaseClient(client, lease_id=wanted), wanted


def test_a_cycle_is_written_down_request_by_request(proxy: ProxyThread, blob: BlobClient) -> None:
    own, wanted = lease(blob)
    own.acquire(15)
    own.renew()
    blob.set_blob_metadata({"a": "b"}, lease=wanted)
    own.release()

    assert proxy.operations() == ["acquire", "renew", "metadata", "release"]
    acquire, renew, metadata, release = proxy.requests
    assert (acquire.method, acquire.query["comp"], acquire.operation) == ("PUT", "lease", "acquire")
    assert acquire.path == f"/devstoreaccount1/{blob.container_name}/{NAME}"
    ids = [(each.proposed_lease_id, each.headers.get("x-ms-lease-id")) for each in (acquire, renew)]
    assert ids == [(wanted, None), (None, wanted)]
    assert metadata.headers["x-ms-meta-a"] == "b"
    assert [request.status for request in proxy.requests] == [201, 200, 200, 200]
    assert [request.number for request in proxy.requests] == [0, 1, 2, 3]
    assert all(r.fault is r.error_code is None and r.server_status == r.status for r in proxy.requests)
    assert all(r.ended is not None and r.ended >= r.started for r in proxy.requests)
    assert release.ended is not None
    assert release.ended <= time.monotonic()


def test_errors_of_the_server_are_passed_on_and_written_down(proxy: ProxyThread, blob: BlobClient) -> None:
    lease(blob)[0].acquire(15)
    with pytest.raises(ResourceExistsError):
        lease(blob)[0].acquire(15)
    assert [request.error_code for request in proxy.requests] == [None, "LeaseAlreadyPresent"]
    assert proxy.requests[1].status == proxy.requests[1].server_status == 409


def test_bodies_of_any_size_and_requests_without_one_pass_unchanged(proxy: ProxyThread, blob: BlobClient) -> None:
    content = bytes(range(256)) * 20_000
    blob.upload_blob(content, overwrite=True)
    assert blob.download_blob().readall() == content
    assert blob.exists()
    blob.delete_blob()
    assert not blob.exists()
    assert {"put", "get", "head", "delete"} <= set(proxy.operations())
    assert proxy.requests[-1].error_code == "BlobNotFound"


def test_one_connection_serves_many_requests(proxy: ProxyThread, blob: BlobClient) -> None:
    for _ in range(20):
        blob.get_blob_properties()
    assert len(proxy._connections) == 1
    assert proxy.count(on("head")) == 20


def test_operations_on_a_container_are_told_from_those_on_blobs(
    proxy: ProxyThread, azurite: Azurite, container_name: str
) -> None:
    through = proxy.connection_string(azurite.connection_string)
    with ContainerClient.from_connection_string(through, container_name, **QUICK) as container:
        container.create_container()
        assert list(container.list_blobs()) == []
        container.delete_container()
    assert proxy.operations() == ["container put", "container list", "container delete"]


def test_queues_go_through_a_proxy_of_their_own(azurite: Azurite, container_name: str) -> None:
    with ProxyThread(azurite.blob_port) as blobs, ProxyThread(azurite.queue_port) as queues:
        through = queues.connection_string(blobs.connection_string(azurite.connection_string))
        with QueueClient.from_connection_string(through, container_name, **QUICK) as queue:
            queue.create_queue()
            queue.send_message("one")
        assert queues.operations() == ["put", "post"]
        assert blobs.requests == ()
        assert f":{blobs.port}/" in through


def test_a_connection_string_without_the_target_is_refused(proxy: ProxyThread) -> None:
    with pytest.raises(ValueError, match=str(proxy.target[1])):
        proxy.connection_string("UseDevelopmentStorage=true")


@pytest.mark.parametrize(
    ("status", "code"), [(500, "InternalError"), (503, "ServerBusy"), (429, ""), (403, "AuthorizationFailure")]
)
def test_an_answer_takes_the_servers_place(
    proxy: ProxyThread, blob: BlobClient, direct: BlobClient, status: int, code: str
) -> None:
    proxy.add(on("acquire"), Answer(status, code, {"Retry-After": "7"}, "no & <never>"))
    with pytest.raises(HttpResponseError) as caught:
        lease(blob)[0].acquire(15)
    assert caught.value.status_code == status
    assert caught.value.response is not None
    headers: Mapping[str, str] = getattr(caught.value.response, "headers", {})
    assert headers["Retry-After"] == "7"
    if code:
        assert getattr(caught.value, "error_code", None) == code
        assert "no & <never>" in str(caught.value)
    [request] = proxy.requests
    assert (request.status, request.error_code, request.fault) == (status, code or None, "Answer")
    assert request.server_status is None
    assert not leased(direct)


def test_a_dropped_request_never_happened(proxy: ProxyThread, blob: BlobClient, direct: BlobClient) -> None:
    proxy.add(on("acquire"), DropRequest())
    with pytest.raises((ServiceRequestError, ServiceResponseError)):
        lease(blob)[0].acquire(15)
    [request] = proxy.requests
    assert (request.fault, request.server_status, request.status) == ("DropRequest", None, None)
    assert not leased(direct)


def test_a_dropped_reply_leaves_what_the_server_did(proxy: ProxyThread, blob: BlobClient, direct: BlobClient) -> None:
    own, _ = lease(blob)
    proxy.add(on("acquire"), DropReply(), uses=1)
    with pytest.raises((ServiceRequestError, ServiceResponseError)):
        own.acquire(15)
    [request] = proxy.requests
    assert (request.server_status, request.status) == (201, None)
    assert leased(direct)
    # The same id again: idempotent, and the rule is used up.
    own.acquire(15)
    assert proxy.requests[-1].status == 201


def test_a_truncated_reply_is_no_reply(proxy: ProxyThread, blob: BlobClient, direct: BlobClient) -> None:
    proxy.add(on("acquire"), Truncate(10))
    with pytest.raises(AzureError):
        lease(blob)[0].acquire(15)
    assert proxy.requests[0].status is None
    assert leased(direct)


def test_a_delay_holds_the_request_back(proxy: ProxyThread, blob: BlobClient) -> None:
    proxy.add(on("head"), Delay(0.3))
    started = time.monotonic()
    blob.get_blob_properties()
    assert time.monotonic() - started >= 0.3


def test_a_delayed_request_arrives_although_the_client_gave_up(
    proxy: ProxyThread, blob: BlobClient, direct: BlobClient
) -> None:
    proxy.add(on("acquire"), Delay(2.0))
    with pytest.raises(ServiceResponseError):
        lease(blob)[0].acquire(15, read_timeout=0.1)
    assert not leased(direct)
    eventually(lambda: leased(direct))


def test_a_delayed_reply_comes_after_the_deed(proxy: ProxyThread, blob: BlobClient, direct: BlobClient) -> None:
    proxy.add(on("acquire"), DelayReply(0.5))
    with pytest.raises(ServiceResponseError):
        lease(blob)[0].acquire(15, read_timeout=0.2)
    eventually(lambda: leased(direct))
    eventually(lambda: proxy.requests[0].server_status == 201)


@pytest.mark.parametrize("forward", [False, True])
def test_a_hanging_request_ends_with_the_clients_patience(
    proxy: ProxyThread, blob: BlobClient, direct: BlobClient, *, forward: bool
) -> None:
    proxy.add(on("acquire"), Hang(forward=forward))
    with pytest.raises(ServiceResponseError):
        lease(blob)[0].acquire(15, read_timeout=0.3)
    eventually(lambda: leased(direct) is forward)
    eventually(lambda: proxy.requests[0].ended is not None)
    assert proxy.requests[0].status is None


def test_a_dripping_reply_outlives_a_read_timeout(proxy: ProxyThread, blob: BlobClient) -> None:
    proxy.add(on("acquire"), Drip(0.25, length=10))
    started = time.monotonic()
    own, wanted = lease(blob)
    own.acquire(15, read_timeout=2.0)
    assert time.monotonic() - started > 2.0
    assert own.id == wanted
    assert proxy.requests[0].status == 201


def test_a_rule_skips_and_is_used_up(proxy: ProxyThread, blob: BlobClient) -> None:
    rule = proxy.add(on("head"), Answer(500), skip=1, uses=2)
    seen = []
    for _ in range(5):
        with contextlib.suppress(HttpResponseError):
            blob.get_blob_properties()
        seen.append(proxy.requests[-1].status)
    assert seen == [200, 500, 500, 200, 200]
    assert rule.matched == 3


def test_the_rule_that_was_added_first_goes_first(proxy: ProxyThread, blob: BlobClient) -> None:
    proxy.add(on("head"), Answer(500), uses=1)
    proxy.add(everything, Answer(503))
    for _ in range(2):
        with pytest.raises(HttpResponseError):
            blob.get_blob_properties()
    assert [request.status for request in proxy.requests] == [500, 503]
    proxy.clear()
    blob.get_blob_properties()


def test_a_fault_lasts_as_long_as_its_block(proxy: ProxyThread, blob: BlobClient) -> None:
    with proxy.fault(everything, DropRequest()), pytest.raises(AzureError):
        blob.get_blob_properties()
    blob.get_blob_properties()


def test_rules_match_by_operation_path_and_lease(proxy: ProxyThread, blob: BlobClient) -> None:
    own, wanted = lease(blob)
    other = str(uuid.uuid4())
    for match in (on("renew"), on(path="elsewhere"), on("acquire", lease_id=other), on("acquire", path="elsewhere")):
        proxy.add(match, Answer(500))
    own.acquire(15)
    assert proxy.count(on("acquire", "renew", path=NAME, lease_id=wanted)) == 1
    proxy.add(on(lease_id=wanted), Answer(503))
    with pytest.raises(HttpResponseError):
        own.release()


def test_an_action_may_be_any_function(proxy: ProxyThread, blob: BlobClient) -> None:
    async def twice(exchange: Exchange) -> None:
        await exchange.forward()
        await exchange.reply(await exchange.forward())

    proxy.add(on("acquire"), twice)
    lease(blob)[0].acquire(15)
    assert (proxy.requests[0].fault, proxy.requests[0].status) == ("twice", 201)


def test_a_server_that_is_gone_resets_the_client(proxy: ProxyThread, blob: BlobClient) -> None:
    proxy.target = ("127.0.0.1", 9)
    with pytest.raises(ServiceResponseError):
        blob.get_blob_properties()
    assert proxy.requests[0].server_status is None


def test_connections_can_be_reset_all_at_once(proxy: ProxyThread, blob: BlobClient) -> None:
    proxy.add(on("head"), Hang(), uses=1)

    def reset() -> None:
        proxy.wait(on("head"))
        proxy.reset_connections()

    thread = threading.Thread(target=reset)
    thread.start()
    with pytest.raises(ServiceResponseError):
        blob.get_blob_properties()
    thread.join()
    blob.get_blob_properties()


def test_forgetting_starts_the_count_anew(proxy: ProxyThread, blob: BlobClient) -> None:
    blob.get_blob_properties()
    proxy.forget()
    assert proxy.requests == ()
    lease(blob)[0].acquire(15)
    assert proxy.operations() == ["acquire"]
    proxy.wait(on("acquire"), count=1, timeout=60)
    with pytest.raises(TimeoutError):
        proxy.wait(on("acquire"), count=2, timeout=0.05)


async def test_it_runs_in_the_callers_loop_too(azurite: Azurite, direct: BlobClient) -> None:
    async with RecordingProxy(azurite.blob_port) as proxy:
        through = proxy.connection_string(azurite.connection_string)
        client = AsyncBlobClient.from_connection_string(through, direct.container_name, NAME, **QUICK)
        async with client:
            proxy.add(on("head"), Delay(0.05))
            waiting = asyncio.create_task(proxy.seen(on("head"), count=2))
            await client.get_blob_properties()
            assert not waiting.done()
            await client.get_blob_properties()
            await asyncio.wait_for(waiting, 60)
            with pytest.raises(TimeoutError):
                await proxy.seen(on("renew"), timeout=0.01)


async def test_closing_ends_requests_that_hang_and_connections_that_idle(azurite: Azurite, direct: BlobClient) -> None:
    async with RecordingProxy(azurite.blob_port) as proxy:
        proxy.add(everything, Hang())
        through = proxy.connection_string(azurite.connection_string)
        idle = await asyncio.open_connection("127.0.0.1", proxy.port)
        async with AsyncBlobClient.from_connection_string(through, direct.container_name, NAME, **QUICK) as client:
            call = asyncio.ensure_future(client.get_blob_properties())
            await proxy.seen(on("head"))
            port = proxy.port
            await proxy.__aexit__()
            await asyncio.wait({call}, timeout=60)
            assert isinstance(call.exception(), AzureError)
        with contextlib.suppress(ConnectionResetError):
            assert await idle[0].read() == b""
        idle[1].close()
        with contextlib.suppress(OSError):
            await idle[1].wait_closed()
        with pytest.raises(OSError, match=r"refused|Connect call failed"):
            await asyncio.open_connection("127.0.0.1", port)


def eventually(condition: Callable[[], bool], *, within: float = 60.0) -> None:
    end = time.monotonic() + within
    while not condition():
        assert time.monotonic() < end, "It did not happen."
        time.sleep(0.02)


@pytest.mark.parametrize("turns", range(5))
async def test_who_connects_as_it_closes_is_cut_off_and_leaves_nothing_open(turns: int) -> None:
    with contextlib.ExitStack() as open_here:
        async with RecordingProxy(1) as proxy:
            for _ in range(5):
                comes = open_here.enter_context(socket.socket())
                comes.setblocking(False)
                comes.connect_ex(("127.0.0.1", proxy.port))
            for _ in range(turns):
                await asyncio.sleep(0)
    gc.collect()  # what was left open is told as it is collected, which is an error
