"""A refusal says what was denied, where, and what helps: by its code, and without a secret."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import pytest
from azure.core.credentials import AzureSasCredential
from azure.core.exceptions import ClientAuthenticationError, HttpResponseError
from azure.storage.blob.aio import ContainerClient

from singleton import AsyncLockClient, SingletonOptions, StorageDenied, StorageError, StorageUnavailable
from singleton.base.errors import ConfigurationError
from singleton.defer.deferral import _error
from singleton.locking.acquisition import storage_error
from singleton.runtime.accounts.stores import open_container, open_queue, open_through_sdk, way_to
from singleton.settings.accounts import GivenAccount, GivenClients, given
from singleton.settings.connection import StorageAccount, resolve_blob_account
from singleton.stores.direct_blob import DirectBlobStore
from singleton.stores.http import connections
from singleton.stores.protocol import StoreFailure, within
from singleton.stores.refusals import REMEDIES, Destination, reason
from tests.support.scripted_server import LEASED, Answer, ScriptedServer, error

if TYPE_CHECKING:
    from collections.abc import Callable

MINE: Final = LEASED["x-ms-lease-id"]
SECRET: Final = "aHVzaC1odXNoaHVzaC1odXNoaHVzaC1odXNoaHVzaA%3D%3D"
DENIED: Final = error(403, "AuthenticationFailed")


def opened(account: Any, http: str, container: str = "locks") -> Any:
    return (open_container if http == "direct" else open_through_sdk)(account, container)


async def failure_of(account: Any, http: str = "direct") -> StoreFailure:
    async with aclosing(opened(account, http)) as store:
        with pytest.raises(StoreFailure) as caught:
            await store.acquire("job", MINE, 15)
    return caught.value


def signed(endpoint: str, start: float, expiry: float) -> StorageAccount:
    """Return an account with a SAS that is valid between these times, in seconds from now."""
    first, last = (
        f"{datetime.fromtimestamp(time.time() + off, UTC):%Y-%m-%dT%H%%3A%M%%3A%SZ}" for off in (start, expiry)
    )
    return StorageAccount(account_url=f"{endpoint}?sv=2021-12-02&st={first}&se={last}&sig={SECRET}")


# --- what helps, and where --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("http", ["direct", "sdk"])
@pytest.mark.parametrize(
    ("code", "help"),
    [
        ("AuthorizationFailure", "private endpoint"),
        ("AuthorizationFailure", "network rules"),
        ("KeyBasedAuthenticationNotPermitted", "use an identity"),
        ("AuthorizationPermissionMismatch", "Storage Blob Data Contributor"),
        ("AccountIsDisabled", "enable the account"),
        ("AuthenticationFailed", "still valid"),
        ("SomethingNew", "check the connection's key, SAS or role assignments"),
    ],
)
async def test_a_denial_has_the_remedy_of_its_code_and_names_setting_account_and_container(
    http: str,
    code: str,
    help: str,  # noqa: A002
) -> None:
    async with ScriptedServer(error(403, code)) as server:
        account = resolve_blob_account("Orders", {"Orders": server.connection_string})
        failure = await failure_of(account, http)
    told = storage_error("locks/a", failure)
    assert isinstance(told, StorageDenied)
    assert (told.status, told.code) == (403, code)
    for part in ("the storage denies access: ", help, f"403 {code}", account.endpoint, "'locks'", "setting Orders"):
        assert part in str(told)


@pytest.mark.parametrize("http", ["direct", "sdk"])
@pytest.mark.parametrize("minutes", [20, -20, 2])
async def test_a_clock_that_is_far_off_is_named_before_the_key(http: str, minutes: int) -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(minutes=minutes), usegmt=True)
    async with ScriptedServer(error(403, "AuthenticationFailed", Date=date)) as server:
        told = str(storage_error("a", await failure_of(StorageAccount(server.connection_string), http)))
    first = "the storage denies access: correct this machine's clock first; then check the connection's key"
    assert (first in told) == (abs(minutes) > 15)
    assert ("20 minutes" in told) == (abs(minutes) > 15)


def test_each_code_has_a_remedy_of_its_own() -> None:
    assert len({*REMEDIES.values()}) == len(REMEDIES)


async def test_a_denial_of_a_queue_names_the_queue_and_its_setting() -> None:
    async with ScriptedServer(error(403, "KeyBasedAuthenticationNotPermitted")) as server:
        text = server.connection_string.replace("BlobEndpoint", "QueueEndpoint")
        async with aclosing(open_queue(StorageAccount(text, setting="Orders"), "orders")) as queue:
            with pytest.raises(StoreFailure) as caught:
                await queue.delete("m-1", "receipt")
    told = str(_error(caught.value, "message m-1"))
    for part in ("the queue denies access: ", "use an identity", "queue 'orders'", "/made", "setting Orders"):
        assert part in told


def test_equal_accounts_are_equal_whatever_their_setting_is() -> None:
    assert StorageAccount(account_url="https://a", setting="A") == StorageAccount(account_url="https://a", setting="B")


@pytest.mark.parametrize("http", ["direct", "sdk"])
async def test_a_403_page_of_something_in_between_is_not_told_as_the_storages(http: str) -> None:
    async with ScriptedServer(Answer(403, {"Content-Type": "text/html"}, "<html>Forbidden</html>")) as server:
        told = str(storage_error("locks/a", await failure_of(StorageAccount(server.connection_string), http)))
    assert "the storage denies" not in told
    assert "access is denied between this process and the storage" in told


@pytest.mark.parametrize("http", ["direct", "sdk"])
async def test_a_400_for_an_emulators_address_without_the_account_says_so(http: str) -> None:
    async with ScriptedServer(Answer(400)) as server:
        account = StorageAccount(server.connection_string.replace("/made;", ";"))
        told = str(await failure_of(account, http))
        assert f"the address {account.endpoint} has no account in its path" in told
        assert f"{account.endpoint}/devstoreaccount1" in told
        assert "no account" not in str(await failure_of(StorageAccount(server.connection_string), http))


@pytest.mark.parametrize("code", [None, "ContainerNotFound"])
@pytest.mark.parametrize("http", ["direct", "sdk"])
async def test_a_404_says_so_only_without_a_code_of_the_service(http: str, code: str | None) -> None:
    async with ScriptedServer(Answer(404) if code is None else error(404, code)) as server:
        failure = await failure_of(StorageAccount(server.connection_string.replace("/made;", ";")), http)
    assert ("no account in its path" in str(failure)) is (code is None)


@pytest.mark.parametrize(
    ("url", "doubted"),
    [
        *[
            (f"http://{host}", True)
            for host in ("127.0.0.1:23110", "10.0.0.7", "[::1]:10000", "localhost", "azurite:1/")
        ],
        *[(f"HTTP://{host}", True) for host in ("azurite.invalid:10000", "queues.internal:10001/")],
        *[(f"http://{host}/acct", False) for host in ("127.0.0.1:10000", "azurite", "azurite.invalid:10000")],
        *[(f"{scheme}://storage.contoso.com", False) for scheme in ("http", "https")],
        ("http://vm7.internal.contoso.com:8080", False),
        ("https://orders.dfs.core.windows.net", False),
        ("https://10.0.0.7", False),
        ("http://devstoreaccount1.blob.localhost:10000", False),
        ("http://orders.queue.core.windows.net", False),
        ("", False),
    ],
)
def test_the_account_is_missed_in_an_emulators_address_alone(url: str, doubted: bool) -> None:
    assert bool(Destination.of("container 'locks'", f"{url}?sig={SECRET}", "").doubt) is doubted


# --- the service's reason ---------------------------------------------------------------------------------------------

REASONS: Final = {
    f"The MAC signature found in the HTTP request '{SECRET}' is not the same as any computed signature. Server used "
    f"following string to sign: 'PUT\n\n\n{SECRET}'.": "is not the same as any computed signature",
    f"Signature did not match. String to sign used was rw\n{SECRET}\n": "Signature did not match.",
    "Signature not valid in the specified time frame: Start [Fri, 27 Nov 2026 10:00:00 GMT] - Expiry [Fri, 27 Nov 2026 "
    "11:00:00 GMT]": "Expiry [Fri, 27 Nov 2026 11:00:00 GMT]",
    "Lifetime validation failed. The token is expired.": "The token is expired.",
    f"Odd: sig={SECRET} or {SECRET[:30]}\x1b[31m": "",
}


@pytest.mark.parametrize("http", ["direct", "sdk"])
@pytest.mark.parametrize("detail", REASONS)
async def test_the_services_reason_is_told_without_what_was_signed(http: str, detail: str) -> None:
    body = (
        "<?xml version='1.0' encoding='utf-8'?><Error><Code>AuthenticationFailed</Code><Message>It failed.</Message>"
        f"<AuthenticationErrorDetail>{detail}</AuthenticationErrorDetail></Error>"
    )
    answer = Answer(403, {"x-ms-error-code": "AuthenticationFailed", "Content-Type": "application/xml"}, body)
    async with ScriptedServer(answer) as server:
        failure = await failure_of(StorageAccount(server.connection_string), http)
    assert REASONS[detail] in str(failure)
    for told in (str(failure), repr(failure.__cause__), str(failure.__cause__)):
        assert SECRET[:30] not in told
        assert "to sign" not in told
        assert "\x1b" not in told


@pytest.mark.parametrize(
    ("detail", "told"),
    [
        ("It failed: 'hush' is wrong", "It failed: … is wrong"),
        ('It failed: "hush" is wrong', "It failed: … is wrong"),
        ("It failed: &apos;hush&apos; or &quot;hush&quot;", "It failed: … or …"),
        (f"It failed: {'hush' * 6} is wrong", "It failed: … is wrong"),
        *[(f"It failed: ?sp=r&amp;{sig} is wrong", "It failed: ?sp=r&… is wrong") for sig in ("sig=hush", "SIG=hush")],
        *[
            (f"It failed: {sig} is wrong", "It failed: … is wrong")
            for sig in ("sig = hush", "sig%3Dhush", "sig%3dhush")
        ],
        *[
            (f"It failed. {signed} used was hush\nhush", "It failed.")
            for signed in (
                "String to sign",
                "string-to-sign",
                "stringtosign",
                "StringToSign",
                "String&#32;to&#x20;sign",
            )
        ],
        ("It failed. Server used: hush", "It failed."),
        ("It failed. Server&#32;used: hush", "It failed."),
        ("It failed. Canonicalized resource: hush", "It failed."),
        ("It failed: hush\x1b[31m", ""),
    ],
)
def test_each_way_to_write_a_secret_is_left_out_of_a_reason(detail: str, told: str) -> None:
    assert reason(detail) == told


def test_a_long_reason_is_cut() -> None:
    assert len(reason("It was refused. " * 1000)) <= 300


# --- before anything is sent ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("http", ["direct", "sdk"])
@pytest.mark.parametrize(
    ("start", "expiry", "told"),
    [(-7200, -3600, "the SAS has expired at "), (3600, 7200, "the SAS is not valid before ")],
)
async def test_a_sas_of_another_time_is_told_with_the_times_and_not_sent(
    http: str, start: float, expiry: float, told: str
) -> None:
    async with ScriptedServer(DENIED) as server:
        account = signed(StorageAccount(server.connection_string).endpoint, start, expiry)
        failure = await failure_of(account, http)
        assert server.requests == []
    text = str(storage_error("locks/a", failure))
    year = f"{datetime.now(UTC):%Y-}"
    assert told + year in text
    assert f"and it is {year}" in text
    assert "by this machine's clock, for container 'locks'" in text
    assert "the storage denies" not in text
    assert SECRET not in text
    assert (failure.meaning, failure.source) == ("denied", "unsent")


@pytest.mark.parametrize("http", ["direct", "sdk"])
@pytest.mark.parametrize(("start", "expiry"), [(-7200, -300), (300, 7200)])
async def test_a_sas_just_out_of_its_time_is_left_to_the_services_clock(http: str, start: float, expiry: float) -> None:
    async with ScriptedServer(DENIED) as server:
        account = signed(StorageAccount(server.connection_string).endpoint, start, expiry)
        failure = await failure_of(account, http)
        assert len(server.requests) == 1
    assert "403 AuthenticationFailed" in str(failure)
    assert "the SAS " in str(failure)


BEYOND: Final = ("st=9999-12-31T23%3A59%3A59-01%3A00", "se=0001-01-01T00%3A00%3A00%2B01%3A00")
"""Times that no calendar has in UTC."""


@pytest.mark.parametrize(
    "fields", ["se=2999-01-01", "st=2020-01-01T00:00Z", "se=soon", "si=policy", "st=&se=", *BEYOND]
)
async def test_a_sas_without_a_time_that_has_passed_is_sent(fields: str) -> None:
    async with ScriptedServer(Answer(201, LEASED)) as server:
        endpoint = StorageAccount(server.connection_string).endpoint
        store = opened(StorageAccount(account_url=f"{endpoint}?{fields}&sig={SECRET}"), "direct")
        async with aclosing(store):
            await store.acquire("job", MINE, 15)


@pytest.mark.parametrize("text", [f"sv=1&sig={SECRET}\n", f"  ?sv=1&sig={SECRET}\r\n"])
async def test_white_space_around_a_sas_is_left_out(text: str) -> None:
    async with ScriptedServer(Answer(201, LEASED)) as server:
        url = StorageAccount(server.connection_string).endpoint
        configured = resolve_blob_account(f"BlobEndpoint={url};SharedAccessSignature={text}", {})
        for account in (given(f"{url}\n", text), configured):
            for http in ("direct", "sdk"):
                async with aclosing(opened(account, http)) as store:
                    await store.acquire("job", MINE, 15)
        assert len(server.targets) == 4
        assert all(target.endswith(f"&sig={SECRET}") for target in server.targets)


@pytest.mark.parametrize("text", [f"sv=1&sig={SECRET[:9]}\n{SECRET[9:]}", f"sv=1 &sig={SECRET}"])
def test_white_space_inside_a_sas_is_refused_at_once(text: str) -> None:
    url = "https://made.blob.core.windows.net"
    for refused in (
        lambda: given(url, text),
        lambda: given(url, AzureSasCredential(text)),
        lambda: resolve_blob_account(f"BlobEndpoint={url};SharedAccessSignature={text}", {}),
        lambda: resolve_blob_account(f"BlobEndpoint={url}?{text}", {}),
        lambda: resolve_blob_account("Orders", {"Orders__blobServiceUri": f"{url}?{text}"}),
    ):
        with pytest.raises(ConfigurationError, match="white space") as caught:
            refused()
        assert SECRET[:9] not in str(caught.value)


class NoToken:
    """Fails to give a token; through the SDK as directly."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def get_token(self, *_: str, **__: Any) -> object:
        raise self._error

    async def close(self) -> None: ...


def of_token_service(status: int) -> Any:
    """Return an answer of the service that gives tokens."""
    asked = SimpleNamespace(url="https://login.example/token", method="POST")
    return SimpleNamespace(
        status_code=status, reason="", headers={}, request=asked, content_type="text/html", text=str, body=bytes
    )


TOKENS: Final[dict[str, tuple[Callable[[], Exception], type[StorageError]]]] = {
    "none is there": (lambda: ClientAuthenticationError("no identity"), StorageDenied),
    "refused by Entra": (
        lambda: ClientAuthenticationError("invalid client", response=of_token_service(400)),
        StorageDenied,
    ),
    "refused in between": (lambda: HttpResponseError("no", response=of_token_service(401)), StorageDenied),
    "Entra has trouble": (lambda: HttpResponseError("later", response=of_token_service(503)), StorageUnavailable),
    "a fault of the credential": (lambda: RuntimeError("no"), StorageUnavailable),
    "another": (lambda: ValueError("no"), StorageUnavailable),
}


@pytest.mark.parametrize("http", ["direct", "sdk", "client"])
@pytest.mark.parametrize("case", TOKENS)
async def test_an_identity_without_a_token_is_not_denied_by_the_storage(http: str, case: str) -> None:
    make_error, kind = TOKENS[case]
    url, error = "https://made.blob.core.windows.net", make_error()
    credential: Any = NoToken(error)
    if http == "client":
        store: Any = open_container(
            GivenClients(lambda name: ContainerClient(url, name, credential=credential, retry_total=0)), "locks"
        )
    else:
        store = opened(GivenAccount(url, credential), http)
    async with aclosing(store):
        with pytest.raises(StoreFailure) as caught:
            await store.acquire("job", MINE, 15)
    told = storage_error("locks/a", caught.value)
    assert type(told) is kind
    assert "the storage denies" not in str(told)
    assert ("no request was sent" in str(told)) is (kind is StorageDenied)
    named = f"(the credential gave no token: {type(error).__name__}, for container 'locks' at {url}"
    assert named in str(told)
    assert (caught.value.source, caught.value.leaves_doubt) == ("unsent", False)


# --- what never left is not in doubt ----------------------------------------------------------------------------------


async def test_a_time_out_says_whether_the_request_was_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ScriptedServer(Answer(instead="hang")) as server:
        store = DirectBlobStore(way_to(StorageAccount(server.connection_string)), "locks")
        async with aclosing(store):
            for hangs in (False, True):
                if hangs:
                    monkeypatch.setattr(connections.Connections, "_connected", lambda _: asyncio.Event().wait())
                with pytest.raises(StoreFailure) as caught:
                    await within(0.05, store.acquire("job", MINE, 15))
                assert caught.value.source == ("unsent" if hangs else "unknown")


@pytest.mark.parametrize("case", ["a proxy", "TLS", "the storage"])
async def test_through_the_sdk_a_time_out_while_connecting_says_that_nothing_was_sent(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_PROXY", raising=False)
    async with ScriptedServer(Answer(instead="hang")) as server:
        text = server.connection_string
        if case == "a proxy":
            monkeypatch.setenv("https_proxy", text.partition("BlobEndpoint=")[2].partition("/made")[0])
            text = text.replace("http://127.0.0.1", "https://made.example")
        elif case == "TLS":
            text = text.replace("=http://", "=https://")
        async with aclosing(open_through_sdk(StorageAccount(text), "locks")) as store:
            for _ in range(2):
                with pytest.raises(StoreFailure) as caught:
                    await within(0.3, store.acquire("job", MINE, 15))
                assert caught.value.source == ("unknown" if case == "the storage" else "unsent")


@pytest.mark.parametrize("http", ["direct", "sdk"])
async def test_a_lock_that_was_never_asked_for_is_not_told_as_not_released(
    http: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("singleton.locking.line._TRY_ONCE", 0.3)
    async with ScriptedServer(Answer()) as server:
        text = server.connection_string  # nobody listens there any more
    caplog.set_level(logging.WARNING)
    async with AsyncLockClient(text, options=SingletonOptions(http=http)) as locks:
        with pytest.raises(StorageUnavailable):
            async with locks.try_lock("job"):
                pass
    assert "not released" not in caplog.text
