"""Whatever a credential, a reply, or what is to be sent is like: who asks has an answer or a ``StoreFailure``."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing, suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from hypothesis import example, given
from hypothesis import strategies as st

from singleton.runtime.accounts.stores import way_to
from singleton.settings.accounts import GivenAccount
from singleton.settings.connection import StorageAccount
from singleton.stores.direct_blob import DirectBlobStore
from singleton.stores.listing_page import read_page
from singleton.stores.protocol import StoreFailure
from singleton.stores.wire import _refusal
from tests.support.scripted_server import LEASED, Answer, ScriptedServer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

MINE = LEASED["x-ms-lease-id"]
NOBODY = "http://127.0.0.1:1/made"


def opened(endpoint: str, credential: object) -> DirectBlobStore:
    return DirectBlobStore(way_to(GivenAccount(endpoint, credential)), "locks")


async def failure_of(asking: Awaitable[object]) -> StoreFailure:
    with pytest.raises(StoreFailure) as caught:
        await asking
    return caught.value


class Credential:
    def __init__(self, act: Callable[[], object]) -> None:
        self._act = act

    async def get_token(self, *_: str, **__: Any) -> object:
        return self._act()


def credentials() -> list[object]:
    token = Credential(lambda: SimpleNamespace(token="t", expires_on=time.time() + 3600))
    return [AzureNamedKeyCredential("made", "a2V5"), AzureSasCredential("sv=1&sig=x"), token]


# --- what is to be sent -----------------------------------------------------------------------------------------------

UNSENDABLE = ["\udce9", "a\nb", "a\r\nx-ms-lease-id: b", "\0", "\x7f"]


@pytest.mark.parametrize("value", UNSENDABLE)
@pytest.mark.parametrize("credential", credentials(), ids=["key", "signature", "token"])
async def test_metadata_that_can_not_be_sent_is_refused_and_not_sent_in_part(credential: object, value: str) -> None:
    """aiohttp leaves half a surrogate pair out: the blob would have something else, or the signature would be wrong."""
    async with ScriptedServer(Answer(201, LEASED)) as server:
        endpoint = StorageAccount(server.connection_string).endpoint
        async with aclosing(opened(endpoint, credential)) as store:
            for asking in (
                store.write("job", MINE, {"Kept": value}, '"0x1"'),
                store.create("job", {"Kept": value}),
                store.note("job", {"Kept": value}),
            ):
                failure = await failure_of(asking)
                assert failure.meaning == "refused"
                assert "metadata 'Kept' can't be sent" in str(failure)
        assert server.requests == []


@pytest.mark.parametrize("credential", credentials(), ids=["key", "signature", "token"])
async def test_metadata_that_is_no_utf_8_can_be_read_but_not_written_back(credential: object) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = "HTTP/1.1 200 X\r\nContent-Length: 0\r\nx-ms-lease-state: available\r\nx-ms-meta-Kept: caf\xe9\r\n"
        fields = "".join(f"{name}: {value}\r\n" for name, value in LEASED.items())
        with suppress(asyncio.IncompleteReadError):
            while True:
                asked.append(await reader.readuntil(b"\r\n\r\n"))
                writer.write(f"{head}{fields}\r\n".encode("latin-1"))
        writer.close()
        ended.set()

    asked: list[bytes] = []
    ended = asyncio.Event()
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with aclosing(opened(f"http://127.0.0.1:{port}/made", credential)) as store:
        state = await store.read("job")
        failure = await failure_of(store.write("job", MINE, state.metadata, state.etag))
    server.close()
    await ended.wait()
    assert state.metadata == {"Kept": "caf\udce9"}
    assert failure.meaning == "refused"
    assert len(asked) == 1


@pytest.mark.parametrize("etag", ["\udce9", "\xe9"])
async def test_an_etag_that_could_not_be_sent_back_is_not_the_service_s(etag: str) -> None:
    wire: Any = Replying({**LEASED, "ETag": etag})
    failure = await failure_of(DirectBlobStore(wire, "locks").acquire("job", MINE, 15))
    assert (failure.meaning, "without ETag" in str(failure)) == ("transient", True)


@pytest.mark.parametrize("credential", credentials(), ids=["key", "signature", "token"])
async def test_an_id_that_can_not_be_sent_is_a_failure(credential: object) -> None:
    async with ScriptedServer(Answer(201, LEASED)) as server:
        endpoint = StorageAccount(server.connection_string).endpoint
        async with aclosing(opened(endpoint, credential)) as store:
            assert (await failure_of(store.release("job", "a\nb"))).meaning == "transient"
            assert server.requests == []


async def test_a_name_that_is_no_text_is_refused() -> None:
    async with aclosing(opened(NOBODY, "a2V5")) as store:
        for asking in (store.acquire("job\udce9", MINE, 15), store.page("job\udce9"), store.page("job", "\ud800")):
            assert (await failure_of(asking)).meaning == "refused"


# --- credentials ------------------------------------------------------------------------------------------------------


def failing(error: BaseException) -> Callable[..., Any]:
    def act(*_: object, **__: object) -> object:
        raise error

    return act


TOKENS: dict[str, tuple[Callable[[], object], str]] = {
    "nothing": (lambda: None, "denied"),
    "a text": (lambda: "token", "denied"),
    "no end": (lambda: SimpleNamespace(token="t"), "denied"),
    "an end that is none": (lambda: SimpleNamespace(token="t", expires_on="soon"), "denied"),
    "an error of its own": (failing(KeyError("token")), "transient"),
    "its own time-out": (failing(TimeoutError()), "transient"),
    "a cancellation": (failing(asyncio.CancelledError()), "transient"),
    "an unsendable token": (lambda: SimpleNamespace(token="a\nb", expires_on=time.time() + 3600), "transient"),
}


@pytest.mark.parametrize("case", TOKENS)
async def test_a_credential_that_gives_no_token_is_a_failure(case: str) -> None:
    act, meaning = TOKENS[case]
    async with aclosing(opened(NOBODY, Credential(act))) as store:
        for _ in range(2):
            failure = await failure_of(store.acquire("job", MINE, 15))
            assert failure.meaning == meaning
            assert "the credential gave" in str(failure) or case == "a cancellation" or "unsendable" in case


@pytest.mark.parametrize(
    "credential",
    [
        SimpleNamespace(get_token=failing(RuntimeError())),
        SimpleNamespace(get_token=lambda *_: SimpleNamespace(token="t", expires_on=time.time() + 3600)),
    ],
    ids=["raises at once", "not for asyncio"],
)
async def test_a_credential_that_is_no_coroutine_s_is_a_failure(credential: object) -> None:
    async with aclosing(opened(NOBODY, credential)) as store:
        assert (await failure_of(store.acquire("job", MINE, 15))).meaning == "transient"


class Vault:
    """A key that can be had until it is ``gone``."""

    gone: BaseException | None = None

    @property
    def named_key(self) -> object:
        if self.gone is not None:
            raise self.gone
        return SimpleNamespace(name="made", key="a2V5")


async def test_a_key_that_can_not_be_had_is_a_failure() -> None:
    vault = Vault()
    async with aclosing(opened(NOBODY, vault)) as store:
        vault.gone = LookupError("the vault's")
        failure = await failure_of(store.acquire("job", MINE, 15))
    assert (failure.meaning, str(failure)) == ("transient", "LookupError from the account's credential")


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, asyncio.CancelledError, GeneratorExit])
@pytest.mark.parametrize("way", ["key", "token"])
async def test_a_credential_that_would_end_a_loop_or_a_task_fails_its_request_only(
    way: str, stop: type[BaseException]
) -> None:
    """It runs on the thread that all locks of the process rely on."""
    vault = Vault()
    async with aclosing(opened(NOBODY, vault if way == "key" else Credential(failing(stop())))) as store:
        vault.gone = stop()
        failure = await failure_of(store.acquire("job", MINE, 15))
        assert failure.meaning == "transient"
        assert stop.__name__ in str(failure)


async def test_a_cancellation_while_a_token_is_waited_for_passes() -> None:
    class Slow:
        async def get_token(self, *_: str) -> object:
            return await asyncio.Event().wait()

    async with aclosing(opened(NOBODY, Slow())) as store:
        task = asyncio.create_task(store.acquire("job", MINE, 15))
        await asyncio.wait({task}, timeout=0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


# --- replies ----------------------------------------------------------------------------------------------------------

NAMES = ("Date", "Last-Modified", "ETag", "Retry-After", "x-ms-error-code", "x-ms-lease-state", "x-ms-lease-time")
TIMES = (
    "Mon, 01 Jan 99999999999999999999 00:00:00 GMT",
    "Mon, 01 Jan 2026 00:00:00 -99999999999999999999",
    "Mon, 01 Jan 0001 00:00:00 +2359",
    "Mon, 01 Jan 0001 00:00:00 -0000",
    "Fri, 31 Dec 9999 23:59:59 -2359",
)
REPLIES = st.dictionaries(
    st.sampled_from((*NAMES, "x-ms-meta-a", "x-ms-meta-\udce9")),
    st.text(st.characters(), max_size=20) | st.sampled_from((*TIMES, LEASED["Last-Modified"], '"0x1"', "9" * 5000)),
)


class Told(dict[str, str]):
    """Headers with whatever names and values."""

    @property
    def lowered(self) -> dict[str, str]:
        return {name.lower(): value for name, value in self.items()}


class Replying:
    """In the place of the wire: each request has the same answer."""

    root = "/made"

    def __init__(self, headers: dict[str, str]) -> None:
        self._headers = headers

    async def ask(self, *_: object, **__: object) -> SimpleNamespace:
        return SimpleNamespace(headers=Told(self._headers), body=b"")


@example(headers={"ETag": "1", "Last-Modified": TIMES[0]})
@example(headers={"ETag": "1", "Last-Modified": LEASED["Last-Modified"], "x-ms-lease-time": "9" * 5000})
@given(headers=REPLIES)
async def test_whatever_a_reply_says_it_is_an_answer_or_a_failure(headers: dict[str, str]) -> None:
    wire: Any = Replying(headers)
    store = DirectBlobStore(wire, "locks")
    for asking in (
        store.acquire("job", MINE, 15),
        store.renew("job", MINE),
        store.create("job"),
        store.read("job"),
        store.noted("job"),
        store.break_("job", None, 10),
        store.page("job"),
    ):
        with suppress(StoreFailure):
            await asking


@example(headers={"Date": TIMES[0], "Retry-After": "9" * 5000}, body=b"")
@given(headers=REPLIES, body=st.binary(max_size=30).map(lambda noise: b"<Code>" + noise + b"</Code>"))
def test_whatever_a_refusal_says_it_is_a_failure(headers: dict[str, str], body: bytes) -> None:
    for status in (403, 409, 503):
        assert _refusal(status, headers, body).status == status


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff\xfe",
        b"<a/>",
        b"<?xml version='1.0' encoding='klingon'?><a/>",
        b"<?xml version='1.0' encoding='hex'?><a/>",
        b"<?xml version='1.0' encoding='utf-7'?><a/>",
        b"<EnumerationResults><Blobs><Blob/></Blobs></EnumerationResults>",
        b"<EnumerationResults><Blobs><Blob><Name>a</Name><Properties><Last-Modified>"
        + TIMES[0].encode()
        + b"</Last-Modified></Properties></Blob></Blobs></EnumerationResults>",
    ],
)
def test_a_listing_that_is_none_is_a_failure(body: bytes) -> None:
    with pytest.raises(StoreFailure, match="no listing"):
        read_page(body, {})
