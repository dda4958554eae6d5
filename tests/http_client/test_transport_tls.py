"""TLS over real sockets: a certificate must be trusted and name the host that was asked for."""

import asyncio
import datetime
import ipaddress
import ssl
from collections.abc import Sequence
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from fairlead.http_client.transport import BrokenOffError, Transport, UnreachableError
from http_client.plain_server import OK, answering, request_of, run_on, serving
from waiting import until

LOOPS = pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
_NAME = "partner.example"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a certificate for `partner.example` and 127.0.0.1 that signs itself, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _NAME)])
    now = datetime.datetime.now(datetime.UTC)
    names = [x509.DNSName(_NAME), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "partner.pem"
    path.write_bytes(
        made.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return path


def _server_side(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    context.set_alpn_protocols(["http/1.1"])
    return context


async def _resolver(_: str, __: int) -> Sequence[str]:
    return ["127.0.0.1"]


def _transport(certificate: Path) -> Transport:
    return Transport(resolver=_resolver, trust=lambda: ssl.create_default_context(cafile=certificate))


async def _post(transport: Transport, url: str, content: bytes = b"{}", seconds: float = 60) -> bytes:
    reply = await transport.send("POST", url, {}, content, seconds=seconds, limit=1 << 24)
    return reply.content


@LOOPS
def test_trusted_partner_is_connected_to(loop: str, certificate: Path) -> None:
    """The name goes into the handshake with the one protocol we speak, and the connection is used again."""
    named: list[str | None] = []
    context = _server_side(certificate)
    context.sni_callback = lambda _, name, __: named.append(name)
    protocols: list[str | None] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        protocols.append(writer.get_extra_info("ssl_object").selected_alpn_protocol())
        await answering(OK)(reader, writer)

    async def work() -> None:
        async with serving(handle, context=context) as server:
            transport = _transport(certificate)
            for _ in range(3):
                assert await _post(transport, f"https://{_NAME}:{server.port}/x") == b"{}"
            assert (named, protocols, server.accepted) == ([_NAME], ["http/1.1"], 1)
            assert await _post(transport, f"https://127.0.0.1:{server.port}/x") == b"{}"
            await transport.close()

    run_on(loop, work())


@LOOPS
@pytest.mark.parametrize("trusted", [True, False], ids=["wrong name", "untrusted"])
def test_false_certificate_is_refused(loop: str, certificate: Path, *, trusted: bool) -> None:
    """A certificate for another name, or signed by nobody we trust, ends it before a byte of ours is sent."""
    seen: list[bytes] = []

    async def handle(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        seen.append(await reader.read(1))

    async def work() -> None:
        async with serving(handle, context=_server_side(certificate)) as server:
            transport = _transport(certificate) if trusted else Transport(resolver=_resolver)
            host = "other.example" if trusted else _NAME
            with pytest.raises(UnreachableError, match=r"(?i)certificate"):
                await _post(transport, f"https://{host}:{server.port}/x")
            await until(lambda: server.open == 0)
            assert seen in ([], [b""])
            await transport.close()

    run_on(loop, work())


@LOOPS
def test_plain_server_is_unreachable_over_tls(loop: str, certificate: Path) -> None:
    """Where no TLS is spoken nothing is sent; and a server that is silent is not waited for."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")

    async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    async def work() -> None:
        transport = _transport(certificate)
        async with serving(handle) as server, serving(silent) as mute:
            with pytest.raises(UnreachableError):
                await _post(transport, f"https://{_NAME}:{server.port}/x")
            with pytest.raises(UnreachableError, match="no connection within"):
                await _post(transport, f"https://{_NAME}:{mute.port}/x", seconds=0.2)
        await transport.close()

    run_on(loop, work())


@LOOPS
def test_large_body_arrives_unchanged_over_tls(loop: str, certificate: Path) -> None:
    """Megabytes in both directions arrive whole."""
    body = bytes(range(256)) * 16_384

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        content = (await request_of(reader)).partition(b"\r\n\r\n")[2]
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(content) + content)
        await writer.drain()
        await reader.read()

    async def work() -> None:
        async with serving(handle, context=_server_side(certificate)) as server:
            transport = _transport(certificate)
            assert await _post(transport, f"https://{_NAME}:{server.port}/x", body) == body
            await transport.close()

    run_on(loop, work())


@LOOPS
@pytest.mark.parametrize("signed", [True, False])
def test_cut_tls_body_is_broken_off(loop: str, certificate: Path, *, signed: bool) -> None:
    """Without a length only a signed end is one: anybody on the way can end a connection."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_of(reader)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nwhole")
        await writer.drain()
        await asyncio.sleep(0.05)
        if not signed:
            writer.transport.abort()

    async def work() -> None:
        async with serving(handle, context=_server_side(certificate)) as server:
            transport = _transport(certificate)
            if signed:
                assert await _post(transport, f"https://{_NAME}:{server.port}/x") == b"whole"
            else:
                with pytest.raises(BrokenOffError):
                    await _post(transport, f"https://{_NAME}:{server.port}/x")
            await transport.close()

    run_on(loop, work())
