"""Ways in: what is signed, which token goes with a request, and when another is asked for."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from azure.core.credentials import AccessToken, AzureNamedKeyCredential, AzureSasCredential
from azure.core.exceptions import ClientAuthenticationError, ServiceRequestError
from azure.storage.blob._shared.authentication import SharedKeyCredentialPolicy
from hypothesis import example, given
from hypothesis import strategies as st

from singleton.base.errors import ConfigurationError
from singleton.runtime.accounts.stores import account_in, way_to
from singleton.settings.accounts import GivenAccount
from singleton.settings.connection import StorageAccount
from singleton.stores import access, bearer_token
from singleton.stores.access import AccountKey, Request, SharedAccessSignature, text_to_sign
from singleton.stores.bearer_token import SCOPE, Token
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    from collections.abc import Callable


KEY = "bm90IGEgc2VjcmV0"


NAMES = st.text("abcXYZ019_", min_size=1, max_size=6).filter(lambda name: not name[0].isdigit())


class Credential:
    """A user's own. It gives one token after the other; an error instead is raised."""

    def __init__(self, *answers: float | Exception, slow: bool = False) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, ...]] = []
        self.closed = False
        self.go = asyncio.Event()
        if not slow:
            self.go.set()

    async def get_token(self, *scopes: str, **_: Any) -> AccessToken:
        self.asked.append(scopes)
        await self.go.wait()
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return AccessToken(f"token {len(self.asked)}", int(answer))

    async def close(self) -> None:
        self.closed = True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Return a way to let time pass."""
    now = [time.time()]
    for module in (access, bearer_token):
        monkeypatch.setattr(module, "time", SimpleNamespace(time=lambda: now[0]))

    def passes(seconds: float) -> None:
        now[0] += seconds

    return passes


def request(query: str = "comp=lease") -> Request:
    return Request("PUT", "/locks/job", query, {})


async def bearer(token: Token) -> str:
    asked = request()
    await token.grant(asked)
    return asked.headers["Authorization"]


# --- the account's key ------------------------------------------------------------------------------------------------


@example(metadata={"X0": "", "X_": ""}, query="", conditions={})
@given(
    metadata=st.dictionaries(NAMES, st.text("ab 1", max_size=4), max_size=6),
    query=st.sampled_from(["", "comp=lease", "restype=container&comp=list&prefix=a%2Fb%20c&marker=x%21"]),
    conditions=st.sampled_from([{}, {"If-Match": '"0x1"'}, {"If-None-Match": "*"}]),
)
async def test_what_is_signed_is_what_the_sdk_signs(
    metadata: dict[str, str], query: str, conditions: dict[str, str]
) -> None:
    unique = {name.lower(): value for name, value in metadata.items()}
    headers = {f"x-ms-meta-{name}": value for name, value in unique.items()}
    asked = Request("PUT", "/made/locks/a%20b%25/c", query, {"x-ms-version": "1", **conditions, **headers})
    await AccountKey(lambda: ("made", KEY)).grant(asked)
    signature = asked.headers.pop("Authorization")
    theirs = _sdk_signature(asked)
    assert text_to_sign(asked, "made").split("\n")[0] == "PUT"
    assert signature == theirs


def _sdk_signature(asked: Request) -> str:
    query = dict(part.partition("=")[::2] for part in asked.query.split("&") if part)
    http = SimpleNamespace(
        method=asked.method, url=f"http://h{asked.path}?{asked.query}", query=query, headers=dict(asked.headers)
    )
    context = SimpleNamespace(transport=None)
    policy: Any = SharedKeyCredentialPolicy
    policy("made", KEY).on_request(SimpleNamespace(http_request=http, context=context))
    return str(http.headers["Authorization"])


async def test_a_key_that_is_replaced_signs_the_next_request() -> None:
    credential = AzureNamedKeyCredential("made", KEY)
    wire = way_to(GivenAccount("https://made.blob.core.windows.net", credential))
    before, after = request(), request()
    await wire._access.grant(before)
    credential.update("made", "YW5vdGhlcg==")
    await wire._access.grant(after)
    assert before.headers["Authorization"] != after.headers["Authorization"]


@pytest.mark.parametrize("key", ["not base64!", "abc"])
def test_a_key_that_is_none_is_said_without_showing_it(key: str) -> None:
    with pytest.raises(ConfigurationError, match="key is not base64") as caught:
        way_to(GivenAccount("https://made.blob.core.windows.net", key))
    assert key not in str(caught.value)


# --- a shared access signature ----------------------------------------------------------------------------------------


async def test_a_signature_goes_with_the_query_and_its_newest_value_counts() -> None:
    credential = AzureSasCredential("?sv=1&sig=a%2B")
    way = SharedAccessSignature(lambda: credential.signature)
    asked, bare = request(), request("")
    await way.grant(asked)
    credential.update("sv=2&sig=b")
    await way.grant(bare)
    assert (asked.query, bare.query) == ("comp=lease&sv=1&sig=a%2B", "sv=2&sig=b")


@pytest.mark.parametrize(
    "account",
    [
        StorageAccount(account_url="https://made.blob.core.windows.net/?sv=1&sig=x"),
        StorageAccount("AccountName=made;SharedAccessSignature=sv=1&sig=x"),
        StorageAccount("BlobEndpoint=https://own.example/?sv=1&sig=x"),
        GivenAccount("https://made.blob.core.windows.net", "?sv=1&sig=x"),
        GivenAccount("https://made.blob.core.windows.net", AzureSasCredential("sv=1&sig=x")),
    ],
)
async def test_a_signature_is_found_wherever_it_may_stand(account: StorageAccount | GivenAccount) -> None:
    wire = way_to(account)
    asked = request("")
    await wire._access.grant(asked)
    assert asked.query == "sv=1&sig=x"
    assert "sig" not in wire._host + wire.root


# --- a token ----------------------------------------------------------------------------------------------------------


async def test_a_token_is_asked_for_once_however_many_wait() -> None:
    credential = Credential(time.time() + 3600, slow=True)
    token = Token(credential)
    waiting = [asyncio.create_task(bearer(token)) for _ in range(5)]
    await asyncio.sleep(0)
    credential.go.set()
    assert await asyncio.gather(*waiting) == ["Bearer token 1"] * 5
    assert credential.asked == [(SCOPE,)]


async def test_a_token_is_replaced_in_time_while_requests_go_on_with_the_old_one(
    clock: Callable[[float], None],
) -> None:
    credential = Credential(time.time() + 3600, time.time() + 7200)
    token = Token(credential)
    await bearer(token)
    clock(3600 - 310)
    assert await bearer(token) == "Bearer token 1"
    assert len(credential.asked) == 1
    clock(20)
    assert await bearer(token) == "Bearer token 1"
    await asyncio.sleep(0.01)
    assert await bearer(token) == "Bearer token 2"
    assert len(credential.asked) == 2


async def test_a_token_that_is_over_is_waited_for(clock: Callable[[float], None]) -> None:
    token = Token(Credential(time.time() + 3600, time.time() + 7200))
    await bearer(token)
    clock(3601)
    assert await bearer(token) == "Bearer token 2"


async def test_a_token_that_can_not_be_replaced_is_used_to_its_end(clock: Callable[[float], None]) -> None:
    credential = Credential(time.time() + 3600, ServiceRequestError("gone"), time.time() + 7200)
    token = Token(credential)
    await bearer(token)
    clock(3600 - 200)
    for _ in range(3):
        assert await bearer(token) == "Bearer token 1"
        await asyncio.sleep(0.01)
    assert len(credential.asked) == 2, "it is not asked for with each request"
    clock(31)
    await bearer(token)
    await asyncio.sleep(0.01)
    assert await bearer(token) == "Bearer token 3"


async def test_after_a_401_the_next_request_asks_for_another_token() -> None:
    token = Token(Credential(time.time() + 3600, time.time() + 3600))
    await bearer(token)
    token.refused()
    assert await bearer(token) == "Bearer token 2"


@pytest.mark.parametrize(
    ("error", "meaning"),
    [
        (ClientAuthenticationError("no identity here"), "denied"),
        (ServiceRequestError("nobody there"), "transient"),
        (OSError(), "transient"),
    ],
)
async def test_a_token_that_is_not_given_means_what_it_means_through_the_sdk(error: Exception, meaning: str) -> None:
    credential = Credential(error, time.time() + 3600)
    token = Token(credential)
    with pytest.raises(StoreFailure) as caught:
        await bearer(token)
    assert caught.value.meaning == meaning
    assert await bearer(token) == "Bearer token 2", "the next request asks again"


async def test_who_gives_up_leaves_the_token_to_the_others() -> None:
    """A first token may take longer than a lock gives a request: else no request would ever get one."""
    credential = Credential(time.time() + 3600, slow=True)
    token = Token(credential)
    for _ in range(3):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await bearer(token)
    credential.go.set()
    assert await bearer(token) == "Bearer token 1"
    assert len(credential.asked) == 1


async def test_a_token_that_never_comes_is_asked_for_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bearer_token, "_PATIENCE", 0.01)
    credential = Credential(time.time() + 3600, slow=True)
    token = Token(credential)
    with pytest.raises(StoreFailure, match="no answer within"):
        await bearer(token)
    credential.go.set()
    assert await bearer(token) == "Bearer token 2"


@pytest.mark.parametrize("ours", [True, False])
async def test_closing_ends_what_is_under_way_and_closes_a_credential_of_ours(ours: bool) -> None:
    credential = Credential(time.time() + 3600, slow=True)
    token = Token(credential, close=ours)
    waiting = asyncio.create_task(bearer(token))
    await asyncio.sleep(0)
    await token.aclose()
    with pytest.raises(StoreFailure, match="closed"):
        await waiting
    assert credential.closed is ours


# --- whose key --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("endpoint", "account"),
    [
        ("https://orders.blob.core.windows.net", "orders"),
        ("https://orders.blob.core.chinacloudapi.cn", "orders"),
        ("https://orders.privatelink.blob.core.windows.net", "orders"),
        ("https://orders-secondary.blob.core.windows.net", "orders"),
        ("https://orders.z01.blob.storage.azure.net", "orders"),
        ("http://127.0.0.1:10000/devstoreaccount1", "devstoreaccount1"),
        ("http://azurite:10000/devstoreaccount1/", "devstoreaccount1"),
    ],
)
def test_an_account_is_read_in_its_url(endpoint: str, account: str) -> None:
    assert account_in(endpoint) == account


def test_of_a_domain_of_one_s_own_the_account_must_be_told() -> None:
    with pytest.raises(ConfigurationError, match="give an AzureNamedKeyCredential"):
        way_to(GivenAccount("https://locks.example", KEY))
