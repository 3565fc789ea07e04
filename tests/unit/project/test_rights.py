"""The roles of `deploy/roles.bicep` allow what the stores really send, and nothing else."""

from __future__ import annotations

from contextlib import aclosing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest

from singleton.runtime.accounts.stores import open_container, open_queue, open_through_sdk
from singleton.settings.connection import StorageAccount
from singleton.stores.http.connections import Connections
from singleton.stores.lock_keeping import BlobStore
from singleton.stores.message_store import MessageStore
from singleton.stores.protocol import LeaseStore, NoteStore, StoreFailure
from tests.support.arm import parsed
from tests.support.transport import NoTransport

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

ROOT = Path(__file__).resolve().parents[3]
ACCOUNT = StorageAccount(
    "DefaultEndpointsProtocol=http;AccountName=a;AccountKey=c2VjcmV0;"
    "BlobEndpoint=http://127.0.0.1:1/a;QueueEndpoint=http://127.0.0.1:1/a"
)
BLOB = "Microsoft.Storage/storageAccounts/blobServices/containers/blobs"
QUEUE = "Microsoft.Storage/storageAccounts/queueServices/queues"
LEASE = "00000000-0000-4000-8000-000000000001"

RIGHTS: Mapping[tuple[str, str, str], str] = {
    # Service, method, what is asked of it: the right that Azure's REST reference demands for this operation.
    ("blob", "PUT", "lease"): f"{BLOB}/write",
    ("blob", "PUT", ""): f"{BLOB}/write",
    ("blob", "PUT", "metadata"): f"{BLOB}/write",
    ("blob", "HEAD", ""): f"{BLOB}/read",
    ("blob", "DELETE", ""): f"{BLOB}/delete",
    ("blob", "GET", "list"): f"{BLOB}/read",
    ("queue", "PUT", ""): f"{QUEUE}/write",
    ("queue", "GET", "metadata"): f"{QUEUE}/read",
    ("messages", "PUT", ""): f"{QUEUE}/messages/write",
    ("messages", "POST", ""): f"{QUEUE}/messages/write",
    ("messages", "DELETE", ""): f"{QUEUE}/messages/delete",
}


class Wire(NoTransport):
    """Keeps what is sent, and answers nothing."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str]] = []

    async def send(self, request: Any, **_: Any) -> Any:
        self.sent.append((request.method, request.url))
        raise OSError


async def rights_of(*requests: Callable[[], Awaitable[object]], wire: Wire, service: str) -> set[str]:
    """Make requests; return the rights that they need."""
    for request in requests:
        with suppress(StoreFailure):
            await request()
    assert len(wire.sent) == len(requests)
    needed = set()
    for method, url in wire.sent:
        parts = urlsplit(url)
        kind = "messages" if "/messages" in parts.path else service
        needed.add(RIGHTS[kind, method, parse_qs(parts.query).get("comp", [""])[0]])
    return needed


def granted(role: str) -> set[str]:
    """Return what a role of the file allows."""
    (body,) = (body for name, _, body in parsed(ROOT / "deploy" / "roles.bicep").resources() if name == role)
    (permissions,) = body["properties"]["permissions"]
    return {*permissions["actions"], *permissions["dataActions"]}


def methods(protocol: type) -> set[str]:
    return {name for name in vars(protocol) if not name.startswith("_")} - {"aclose"}


async def locks(wire: Wire, http: str, *, keeper: bool) -> set[str]:
    store = open_through_sdk(ACCOUNT, "locks", transport=wire) if http == "sdk" else open_container(ACCOUNT, "locks")
    requests: dict[str, Callable[[], Awaitable[object]]] = {
        "acquire": lambda: store.acquire("job", LEASE, 15),
        "renew": lambda: store.renew("job", LEASE),
        "release": lambda: store.release("job", LEASE),
        "evict": lambda: store.evict("job", LEASE, "etag"),
        "break_": lambda: store.break_("job"),
        "create": lambda: store.create("job"),
        "read": lambda: store.read("job"),
        "write": lambda: store.write("job", LEASE, {}, "etag"),
    }
    assert set(requests) == methods(LeaseStore), "a request whose right is not known"
    if keeper:
        failures: dict[str, Callable[[], Awaitable[object]]] = {
            "note": lambda: store.note("deferred/orders/1", {}),
            "noted": lambda: store.noted("deferred/orders/1"),
            "remove": lambda: store.remove("deferred/orders/1"),
        }
        assert set(failures) == methods(NoteStore), "a request whose right is not known"
        asked: dict[str, Callable[[], Awaitable[object]]] = {
            "page": lambda: store.page("locks/"),
        }
        assert set(asked) == methods(BlobStore), "a request whose right is not known"
        requests |= failures | asked | {"drop": lambda: store.drop("job", "etag")}
    async with aclosing(store):
        return await rights_of(*requests.values(), wire=wire, service="blob")


@pytest.mark.parametrize(("role", "keeper"), [("useLocks", False), ("keepLocks", True)])
@pytest.mark.parametrize("http", ["direct", "sdk"])
async def test_the_roles_of_locks_allow_what_is_sent_and_no_more(
    role: str, keeper: bool, http: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = Wire()

    async def sent(_: object, method: str, target: str, *__: object) -> None:
        wire.sent.append((method, target))
        raise OSError

    monkeypatch.setattr(Connections, "send", sent)
    assert await locks(wire, http, keeper=keeper) == granted(role)


async def test_the_role_of_deferring_allows_what_is_sent_and_no_more() -> None:
    wire = Wire()
    queue = open_queue(ACCOUNT, "orders", transport=wire)
    requests: dict[str, Callable[[], Awaitable[object]]] = {
        "create": queue.create,
        "now": queue.now,
        "hide": lambda: queue.hide("1", "receipt", 60),
        "send": lambda: queue.send("text", delay=1, life=10),
        "delete": lambda: queue.delete("1", "receipt"),
    }
    assert set(requests) == methods(MessageStore) - {"take"}, "a request whose right is not known"
    assert await rights_of(*requests.values(), wire=wire, service="queue") == granted("deferMessages")
