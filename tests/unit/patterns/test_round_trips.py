"""What a pattern keeps or sends comes back equal and of the same type, or is refused before anything is stored."""

from __future__ import annotations

import asyncio
import base64
import math
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, cast

import azure.functions as func
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sqlalchemy import JSON, Column, LargeBinary, MetaData, String, Table, create_engine, insert
from sqlalchemy.pool import StaticPool

from simulator.host.app.app_model import Parameter
from simulator.host.triggers.bindings import queue_input
from simulator.host.triggers.queue import decode
from simulator.virtual.hosts.queue_service import Queues
from singleton import Inbox, LockClient, ResultNotKept, once
from singleton.base.state import Kept
from singleton.defer.deferral import Received
from singleton.functions.message_properties import received
from singleton.functions.triggers import QUEUE, Trigger
from singleton.patterns.once.results import kept_as, outcome_in
from singleton.patterns.sql import RowStates, SqlOutbox, outbox_table, state_columns
from singleton.testing import memory_locks, virtual_time
from tests.support.empty_values import EMPTY
from tests.support.lock_thread import Context, outcome
from tests.support.patterns import column
from tests.support.responses import Out

if TYPE_CHECKING:
    from singleton import InboxMessage

HALF: Final = "\ud83d"
TEXT: Final = st.text(max_size=6)
PLAIN: Final = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
VALUES: Final = (
    st.sampled_from(EMPTY)
    | st.binary(max_size=20)
    | st.recursive(PLAIN, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner), max_leaves=8)
    | st.integers(2, 2000).map(lambda size: ["x" * 1000] * size)  # up to two megabytes
)
NOT_JSON: Final[tuple[Any, ...]] = (HALF, HALF + "\ude00", {HALF: 0}, [HALF], 10**5000, {1: 0}, float("nan"))
LATIN: Final = st.text(st.characters(min_codepoint=32, max_codepoint=255), max_size=6)
NAMES: Final = st.text(min_size=1, max_size=255)
KEYS: Final = NAMES.filter(str.strip)
few = settings(max_examples=20)


def shape(value: Any) -> str:
    """Return a text that tells 0 from False, and 0.0 from -0.0."""
    return repr(value)


@few
@given(value=VALUES, keyword=TEXT)
def test_state_results_and_outputs_are_read_back(value: Any, keyword: str) -> None:
    @once(key=lambda _: "k")
    def function(msg: str, out: Any) -> Any:
        out.set(value)
        return value

    with memory_locks(), LockClient() as locks:
        with locks.lock("job") as hold:
            hold.state.write(value)
        with locks.lock("job") as hold:
            assert shape(hold.state.read("nothing")) == shape(value)
        for again in (value, keyword):
            assert shape(once(locks, "k").run(lambda again=again: again)) == shape(value)
        for _ in range(2):
            out = Out()
            assert shape(outcome(cast("Any", function)(msg="", out=out, context=Context("inv")))) == shape(value)
            assert shape(out.get()) == shape(value)


@pytest.mark.parametrize("value", NOT_JSON, ids=range(len(NOT_JSON)))
def test_what_json_would_change_is_kept_and_sent_by_nobody(value: Any) -> None:
    inbox = Inbox("orders")
    with memory_locks(), LockClient() as locks:
        with locks.lock("job") as hold, pytest.raises((TypeError, ValueError)):
            hold.state.write(value)
        with pytest.raises((TypeError, ValueError)):
            inbox.send("k", value)
        with pytest.raises(ResultNotKept):
            once(locks, "k").run(lambda: value)
        assert inbox.look() == 0


@few
@given(
    body=st.none() | st.binary(max_size=20) | TEXT,
    status=st.integers(200, 599),
    headers=st.lists(st.tuples(st.sampled_from(["A", "a", "Set-Cookie"]), LATIN), max_size=4),
    kind=st.sampled_from([None, "", "application/json"]),
    charset=st.sampled_from([None, "utf-8", "utf-16"]),
)
def test_an_answer_is_read_back(
    body: Any, status: int, headers: list[tuple[str, str]], kind: Any, charset: Any
) -> None:
    answer = func.HttpResponse(body, status_code=status, mimetype=kind, charset=charset)
    for name, text in headers:
        answer.headers.add_header(name, text)
    kept, given_now = kept_as(answer, {"out": answer}, 1.0)
    again = outcome_in("job", Kept(kept.body, kept.marks), 0.0)
    assert again is not None
    for each in (given_now.result, again.result, again.outputs["out"]):
        assert (each.status_code, each.get_body(), each.mimetype) == (status, answer.get_body(), answer.mimetype)
        assert (each.charset, [*each.headers.items()]) == (answer.charset, [*answer.headers.items()])


@few
@given(sent=st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=8))
@virtual_time
async def test_messages_of_an_inbox_are_read_back_after_failures_too(sent: list[tuple[str, Any]]) -> None:
    inbox, failed, seen = Inbox("orders"), list[Any](), list[Any]()
    for key, body in sent:
        await inbox.asend(key, body)

    async def fail(message: InboxMessage) -> None:
        failed.append((message.key, shape(message.body)))
        raise ArithmeticError

    async def handle(message: InboxMessage) -> None:
        seen.append((message.key, shape(message.body)))

    async with inbox.worker(fail, attempts=1):
        await asyncio.sleep(60)
    aside = await inbox.aaside()
    for message in aside:
        await inbox.aresend(message)
    async with inbox.worker(handle):
        await asyncio.sleep(60)
    expected = [(key, shape(body)) for key, body in sent]
    assert sorted(failed) == sorted((each.key, shape(each.body)) for each in aside) == sorted(seen) == sorted(expected)
    for key in {key for key, _ in sent}:
        assert [each for each in failed if each[0] == key] == [each for each in expected if each[0] == key]
    assert await inbox.aaside() == []


@few
@given(body=VALUES, key=NAMES, place=NAMES, mark=TEXT)
def test_rows_are_read_back(body: Any, key: str, place: str, mark: str) -> None:
    engine = create_engine("sqlite://", poolclass=StaticPool)
    if isinstance(body, int | float):
        body = [body]  # SQLite takes a bare number of JSON for one of its own, and 0.0 for 0
    metadata = MetaData()
    kind = LargeBinary() if isinstance(body, bytes) else JSON()
    outbox = SqlOutbox(engine, outbox_table(metadata, body=kind))
    work = Table("work", metadata, Column("id", String(255), primary_key=True), Column("body", kind), *state_columns())
    metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(insert(work).values(id=key, body=body))
        if body is not None:
            outbox.add(connection, body, key=key, destination=place, id=place)
    rows = RowStates(engine, work, stuck_after=1)
    (claim,) = rows.claim()
    assert (claim.key, claim.row["id"], shape(claim.row["body"])) == ({"id": key}, key, shape(body))
    rows.failed(claim, mark)
    assert column(engine, work, "error") == [mark.replace("\0", "?")]
    messages = outbox.claim(1, 10)
    sent = [(each.id, each.key, each.destination, shape(each.body)) for each in messages]
    assert sent == [(place, key, place, shape(body))] * (body is not None)
    engine.dispose()


@few
@given(
    body=st.binary(max_size=20) | st.sampled_from(["", " ", "\r\n", "\ufeff{}", '{"Id": 1}', "0"]).map(str.encode),
    encoding=st.sampled_from(["base64", "none"]),
    life=st.none() | st.integers(60, 10**7),
)
@virtual_time
async def test_a_message_that_is_put_back_is_as_it_was(body: bytes, encoding: Any, life: int | None) -> None:
    assume(encoding == "base64" or body.isascii() or body.startswith(b"\xef\xbb\xbf"))
    queues = Queues(cast("Any", SimpleNamespace(now=1_000.0)))
    text = base64.b64encode(body).decode() if encoding == "base64" else body.decode()
    sent = queues.send("orders", text, life=life)
    (message,) = queues.receive("orders", 1, 30, cast("Any", None))
    message.body = decode(message.text, encoding)
    binary = Parameter(name="msg", binding="queueTrigger", converter="queueTrigger", data_type=2)
    trigger = Trigger(QUEUE, "msg", {"dataType": func.DataType.BINARY})
    given_to_body = received("job", trigger, queue_input(binary, message), encoding)
    assert given_to_body == Received(
        id=sent.id,
        receipt=message.pop_receipt,
        text=text,
        invisible_until=1_030.0,
        expires=math.inf if life is None else sent.expires,
        inserted=1_000.0,
    )
