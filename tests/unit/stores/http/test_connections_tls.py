"""Connections over TLS, with a certificate authority of the test's own."""

from __future__ import annotations

import asyncio
import datetime as dt
import ipaddress
import ssl
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from singleton.stores.http import connections
from singleton.stores.http.connections import Connections, Unanswered
from tests.support.raw_server import OK, Peer, RawServer
from tests.unit.stores.http.test_connections import ask, saying, settled

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

HOST = "blob.example"
USAGES = (
    *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement"),
    *("key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
)


def certificate(
    name: str, key: ec.EllipticCurvePrivateKey, issuer: x509.Certificate | None, signer: ec.EllipticCurvePrivateKey
) -> x509.Certificate:
    """Return a certificate of this host or address; without an issuer, of an authority."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        # Python 3.13 asks for all that the standard does.
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )
    if issuer is None:
        signs = dict.fromkeys(USAGES, False) | {"key_cert_sign": True}
        builder = builder.add_extension(x509.KeyUsage(**signs), critical=True)
    if issuer is not None:
        numeric = name[0].isdigit()
        named = x509.IPAddress(ipaddress.ip_address(name)) if numeric else x509.DNSName(name)
        builder = builder.add_extension(x509.SubjectAlternativeName([named]), critical=False)
    return builder.sign(signer, hashes.SHA256())


class Authority:
    """Signs certificates; its own is in ``file``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._own = certificate("An authority", self._key, None, self._key)
        self.file = folder / "authority.pem"
        self.file.write_bytes(self._own.public_bytes(serialization.Encoding.PEM))

    def server(self, name: str) -> ssl.SSLContext:
        """Return what a server of this name needs."""
        key = ec.generate_private_key(ec.SECP256R1())
        file = self._folder / f"{name}.pem"
        file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
            + certificate(name, key, self._own, self._key).public_bytes(serialization.Encoding.PEM)
        )
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(file)
        context.set_alpn_protocols(["h2", "http/1.1"])
        return context


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def trusted(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> Iterator[Authority]:
    """Have this machine trust the authority."""
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    connections._tls.cache_clear()
    yield authority
    connections._tls.cache_clear()


@asynccontextmanager
async def served(
    context: ssl.SSLContext, *scripts: Any, host: str = HOST
) -> AsyncIterator[tuple[Connections, RawServer]]:
    loop: Any = asyncio.get_running_loop()
    look_up = loop.getaddrinfo

    async def addresses(_: str, *more: Any, **options: Any) -> Any:
        return await look_up("127.0.0.1", *more, **options)

    loop.getaddrinfo = addresses
    async with (
        RawServer(*scripts, tls=context) as server,
        aclosing(Connections("https", f"{host}:{server.port}")) as client,
    ):
        yield client, server


async def test_a_server_is_asked_by_its_name_and_a_connection_used_again(trusted: Authority) -> None:
    names: list[str | None] = []
    context = trusted.server(HOST)
    context.sni_callback = lambda _, name, __: names.append(name)
    async with served(context, Peer.serve) as (client, server):
        for size in (0, 3_000_000):
            assert (await ask(client, body=b"x" * size)).status == 200
        assert names == [HOST]
        assert server.requests[0].startswith(f"PUT /a HTTP/1.1\r\nHost: {HOST}:{server.port}\r\n".encode())
        assert len(server.peers) == 1
        spoken = server.peers[0]._writer.get_extra_info("ssl_object")
        assert spoken.selected_alpn_protocol() == "http/1.1"


async def test_a_trailing_dot_is_no_part_of_its_name(trusted: Authority) -> None:
    async with served(trusted.server(HOST), Peer.serve, host=f"{HOST}.") as (client, _):
        assert (await ask(client)).status == 200


async def test_an_address_may_have_a_certificate(trusted: Authority) -> None:
    async with served(trusted.server("127.0.0.1"), Peer.serve, host="127.0.0.1") as (client, _):
        assert (await ask(client)).status == 200


@pytest.mark.parametrize("name", ["other.example", "127.0.0.1", "example", "a.blob.example"])
async def test_a_server_of_another_name_is_sent_nothing(trusted: Authority, name: str) -> None:
    async with served(trusted.server(name), Peer.serve) as (client, server):
        with pytest.raises(Unanswered, match=r"can't connect .*certificate verify failed: .*ismatch"):
            await ask(client)
        assert server.requests == []


@pytest.mark.usefixtures("trusted")
async def test_nor_is_one_whose_certificate_is_by_somebody_else(tmp_path: Path) -> None:
    async with served(Authority(tmp_path).server(HOST), Peer.serve) as (client, server):
        with pytest.raises(Unanswered, match=r"can't connect .*certificate verify failed"):
            await ask(client)
        assert server.requests == []


async def test_nor_is_one_that_does_not_speak_it(trusted: Authority) -> None:
    del trusted
    async with (
        RawServer(saying(OK)) as server,
        aclosing(Connections("https", f"127.0.0.1:{server.port}")) as client,
    ):
        asking = asyncio.create_task(ask(client))
        await settled()
        await server.peers[0].say(OK)
        with pytest.raises(Unanswered, match=r"can't connect"):
            await asking


async def test_who_speaks_no_tls_to_a_server_that_does_gets_no_answer(trusted: Authority) -> None:
    async with (
        RawServer(Peer.serve, tls=trusted.server(HOST)) as server,
        aclosing(Connections("http", f"127.0.0.1:{server.port}")) as client,
    ):
        with pytest.raises(Unanswered, match=r"no HTTP answer|closed before the answer's end"):
            await ask(client)


async def test_a_connection_that_was_closed_while_it_was_idle_is_not_used(trusted: Authority) -> None:
    async with served(trusted.server(HOST), Peer.serve) as (client, server):
        for how in (Peer.close, lambda peer: peer._writer.transport.abort()):
            await ask(client)
            how(server.peers[-1])
            await asyncio.sleep(0.05)
        await ask(client)
        assert [len(peer.requests) for peer in server.peers] == [1, 1, 1]


async def test_giving_up_at_any_time_leaves_nothing_behind(trusted: Authority) -> None:
    context = trusted.server(HOST)
    async with served(context, Peer.serve) as (_, server):
        for turns in range(16):
            client = Connections("https", f"{HOST}:{server.port}")
            task = asyncio.create_task(ask(client))
            for _ in range(turns):
                await asyncio.sleep(0.0005)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await client.aclose()
            assert client._open == set()


async def test_an_answer_that_came_before_the_request_was_sent_leaves_no_connection_behind(trusted: Authority) -> None:
    """What is encrypted and not sent yet is not in the size that asyncio tells of what is to be written."""

    async def script(peer: Peer) -> None:
        peer._writer.transport.pause_reading()  # type: ignore[attr-defined]
        await asyncio.sleep(0.05)  # the client has connected, and sends
        await peer.say(b"HTTP/1.1 413 X\r\nContent-Length: 0\r\n\r\n")
        await asyncio.Event().wait()

    async with served(trusted.server(HOST), script, Peer.serve) as (client, server):
        assert (await ask(client, body=b"x" * 20_000_000)).status == 413
        assert not client._idle
        assert (await ask(client)).status == 200
        assert len(server.peers) == 2


async def test_of_two_that_connect_at_once_one_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is one that was given up just as it was there left open."""
    go, there = asyncio.Event(), 0
    loop: Any = asyncio.get_running_loop()
    connect = loop.create_connection

    async def addresses(*_: object, **__: object) -> Any:
        return [(2, 1, 6, "", (f"127.0.0.{last}", server.port)) for last in (2, 3)]

    async def together(new: Any, _: str, port: int, **more: Any) -> Any:
        nonlocal there
        made = await connect(new, "127.0.0.1", port, **more)
        there += 1
        if there == 2:
            go.set()
        await go.wait()
        return made

    monkeypatch.setattr(loop, "getaddrinfo", addresses)
    monkeypatch.setattr(loop, "create_connection", together)
    monkeypatch.setattr(connections, "_HEAD_START", 0.01)
    async with RawServer(Peer.serve) as server, aclosing(Connections("http", f"{HOST}:{server.port}")) as client:
        assert (await ask(client)).status == 200
        await settled()
        assert len(client._open) == 1
