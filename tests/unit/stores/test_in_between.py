"""An answer without an error code is not the service's: something in between answered, and knows nothing of a lock."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

import pytest

from singleton.runtime.accounts.stores import open_container, open_queue, open_through_sdk
from singleton.settings.connection import StorageAccount
from singleton.stores.protocol import Meaning, StoreFailure
from tests.support.scripted_server import LEASED, Answer, ScriptedServer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Ask = Callable[[Any], Awaitable[object]]

MINE: Final = LEASED["x-ms-lease-id"]
OF_BLOBS: Final[dict[str, Ask]] = {
    "acquire": lambda store: store.acquire("job", MINE, 15),
    "renew": lambda store: store.renew("job", MINE),
    "release": lambda store: store.release("job", MINE),
    "evict": lambda store: store.evict("job", MINE, '"0x1"'),
    "break": lambda store: store.break_("job"),
    "create": lambda store: store.create("job"),
    "read": lambda store: store.read("job"),
    "write": lambda store: store.write("job", MINE, {}, '"0x1"'),
    "put": lambda store: store.put("job", MINE, {}, '"0x1"', b"state"),
    "get": lambda store: store.get("job", MINE, 100),
    "start_log": lambda store: store.start_log("log", {}),
    "append": lambda store: store.append("log", b"1"),
    "tail": lambda store: store.tail("log", 0, 100),
    "label": lambda store: store.label("log", {}, '"0x1"'),
    "drop": lambda store: store.drop("log", '"0x1"'),
    "note": lambda store: store.note("note", {}),
    "noted": lambda store: store.noted("note"),
    "remove": lambda store: store.remove("note"),
}
OF_QUEUES: Final[dict[str, Ask]] = {
    "queue create": lambda queue: queue.create(),
    "queue now": lambda queue: queue.now(),
    "queue hide": lambda queue: queue.hide("m-1", "receipt", 60),
    "queue send": lambda queue: queue.send("text", delay=10, life=100),
    "queue delete": lambda queue: queue.delete("m-1", "receipt"),
    "queue take": lambda queue: queue.take(1, 60),
}
ASKS: Final = [
    *((http, call) for http in ("direct", "sdk") for call in OF_BLOBS),
    *(("sdk", call) for call in OF_QUEUES),
]
OF_PAGES: Final[dict[int, Meaning]] = {
    400: "refused",
    401: "denied",
    403: "denied",
    404: "transient",
    409: "transient",
    502: "transient",
}
"""What a page means. Nobody's word ends a hold, is contention, or makes a blob or a queue missing."""
OF_SERVICE: Final[dict[int, Meaning]] = OF_PAGES | {404: "missing", 409: "held"}
HTML: Final = {"Content-Type": "text/html"}
MARKS: Final = {"x-ms-request-id": "c0ffee", "x-ms-version": "2021-12-02"}


def page(status: int, **headers: str) -> Answer:
    return Answer(status, {**HTML, **headers}, f"<html><body>default backend - {status}</body></html>")


async def failure_of(http: str, call: str, answer: Answer) -> StoreFailure:
    """Return what a request makes of an answer, which is the only one."""
    async with ScriptedServer(answer) as server:
        blobs = server.connection_string
        account = StorageAccount(
            blobs + blobs.partition("Blob")[1].replace("Blob", "Queue") + blobs.partition("Blob")[2]
        )
        store: Any
        if call in OF_QUEUES:
            store = open_queue(account, "orders")
        else:
            store = (open_container if http == "direct" else open_through_sdk)(account, "locks")
        async with aclosing(store):
            with pytest.raises(StoreFailure) as caught:
                await (OF_BLOBS | OF_QUEUES)[call](store)
        assert len(server.requests) == 1
    return caught.value


@pytest.mark.parametrize("status", OF_PAGES)
@pytest.mark.parametrize(("http", "call"), ASKS)
async def test_a_page_without_an_error_code_says_nothing_of_a_lock_or_a_queue(
    http: str, call: str, status: int
) -> None:
    failure = await failure_of(http, call, page(status))
    assert (failure.status, failure.code, failure.meaning, failure.loss) == (status, None, OF_PAGES[status], None)
    assert "something in between answered" in str(failure)


@pytest.mark.parametrize("status", [200, 201, 204])
@pytest.mark.parametrize("call", OF_QUEUES)
async def test_a_page_that_tells_of_a_success_has_done_nothing_to_a_queue(call: str, status: int) -> None:
    answer = page(status) if status != 204 else Answer(204, HTML)
    failure = await failure_of("sdk", call, answer)
    assert (failure.code, failure.meaning) == (None, "transient")
    assert failure.source != "service"


@pytest.mark.parametrize("mark", MARKS)
async def test_one_of_the_services_two_headers_is_not_enough(mark: str) -> None:
    failure = await failure_of("direct", "renew", page(404, **{mark: MARKS[mark]}))
    assert failure.meaning == "transient"


@pytest.mark.parametrize("status", OF_SERVICE)
@pytest.mark.parametrize(("http", "call"), ASKS)
async def test_without_an_error_code_both_headers_make_an_answer_the_services(
    http: str, call: str, status: int
) -> None:
    failure = await failure_of(http, call, Answer(status, MARKS))
    assert (failure.status, failure.code, failure.meaning) == (status, None, OF_SERVICE[status])
    assert "in between" not in str(failure)


@pytest.mark.parametrize("kind", ["text/html", "application/xml"])
@pytest.mark.parametrize("http", ["direct", "sdk"])
async def test_a_code_in_the_body_counts_in_an_answer_of_the_service_only(http: str, kind: str) -> None:
    """Other object stores have error codes too, and a page may show what it likes."""
    for code in ("LeaseAlreadyPresent", "NoSuchBucket", "BlobNotFound"):
        body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>So it is.</Message></Error>"
        failure = await failure_of(http, "acquire", Answer(409, {"Content-Type": kind}, body))
        assert (failure.code, failure.meaning, failure.source) == (None, "transient", "between")
        if kind == "application/xml":
            failure = await failure_of(http, "acquire", Answer(409, MARKS | {"Content-Type": kind}, body))
            assert (failure.code, failure.source) == (code, "service")


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 412])
@pytest.mark.parametrize("http", ["direct", "sdk"])
async def test_a_page_leaves_in_doubt_whether_the_request_was_carried_out(http: str, status: int) -> None:
    assert (await failure_of(http, "put", page(status))).leaves_doubt
    assert not (await failure_of(http, "put", Answer(status, MARKS))).leaves_doubt


CHECKED: Final = ("acquire", "renew", "release", "create", "read", "write", "put")
"""Requests whose success a lock believes."""


@pytest.mark.parametrize("status", [200, 201])
@pytest.mark.parametrize("call", CHECKED)
@pytest.mark.parametrize("http", ["direct", "sdk"])
async def test_a_page_with_the_status_of_a_success_is_no_success(http: str, call: str, status: int) -> None:
    """A sign-in page for every request, for instance. A renewal does not find another lease id in the page."""
    failure = await failure_of(http, call, page(status))
    assert failure.meaning == "transient"
