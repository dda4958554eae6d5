"""Guarded requests: they reach public addresses and what an operator wrote, and nothing else, by whatever name."""

import asyncio
import ipaddress
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import for_each
from fairlead.http_client.addresses import IPAddress, Resolver, is_public
from fairlead.http_client.transport import BrokenOffError, Transport, UnreachableError
from http_client.plain_server import OK, answering, run_on, serving

_PUBLIC = "93.184.216.34"
_ANY = "0.0.0.0"  # noqa: S104 -- nothing is bound to it: a connection to it reaches this machine


def _knows(*answers: Sequence[str]) -> tuple[Resolver, list[str]]:
    """A resolver that gives each answer once, and the last forever; and the names it was asked for."""
    asked: list[str] = []

    async def resolver(host: str, _: int) -> Sequence[str]:
        asked.append(host)
        await asyncio.sleep(0.01)
        return answers[min(len(asked), len(answers)) - 1]

    return resolver, asked


async def _get(transport: Transport, url: str, *, guarded: bool = True) -> int:
    reply = await transport.send("GET", url, {}, None, seconds=60, limit=1000, guarded=guarded)
    return reply.status


@for_each(
    "address",
    [
        _ANY, "10.1.2.3", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.255.255.254", "169.254.169.254",
        "168.63.129.16", "172.16.0.1", "192.0.2.1", "192.168.1.1", "198.18.0.1", "224.0.0.1", "239.1.1.1", "240.0.0.1",
        "255.255.255.255", "::", "::1", "::7f00:1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254",
        "64:ff9b::7f00:1", "64:ff9b::a00:1", "64:ff9b:1::1", "2002:7f00:1::", "2002:a00:1::", "2001:0:4136:e378::1",
        "2001:db8::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fec0::1", "ff02::1", "100::1",
        "192.0.0.8", "192.0.0.192", "192.88.99.1", "203.0.113.77", "3fff::1", "3fff:fff:ffff::1", "5f00::1",
        "100:0:0:1::1", "2001:2::1", "2001:20::1", "4000::1", "::ffff:192.0.0.192", "2002:c000:c0::1",
    ],
)  # fmt: skip
def test_address_of_ours_is_not_public(address: str) -> None:
    """Loopback, private, link-local, shared, multicast, reserved, and every IPv6 way to write or reach one of them."""
    assert not is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize(
    "address", [_PUBLIC, "8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1"]
)
def test_address_of_the_internet_is_public(address: str) -> None:
    """Public addresses pass, also behind a mapping."""
    assert is_public(ipaddress.ip_address(address))


@given(st.ip_addresses(v=4))
def test_disguised_address_is_as_public_as_the_address_it_leads_to(address: ipaddress.IPv4Address) -> None:
    """An IPv4 address is as public as each IPv6 address that leads to it."""
    number = int(address)
    for disguise in ((0xFFFF << 32) + number, (0x64FF9B << 96) + number, (0x2002 << 112) + (number << 80)):
        assert is_public(ipaddress.IPv6Address(disguise)) is is_public(address)


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", _ANY, "localhost", "127.1", "2130706433", "0x7f.1"]
)
def test_guarded_request_never_reaches_this_machine(host: str) -> None:
    """Whatever a loopback address is called, nothing connects to it."""

    async def work() -> None:
        async with serving(answering(OK)) as server:
            transport = Transport()
            with pytest.raises(UnreachableError, match="refused address"):
                await _get(transport, f"http://{host}:{server.port}/x")
            with pytest.raises(UnreachableError, match="refused address"):
                await transport.fetch(
                    f"http://{host}:{server.port}/x", {}, seconds=60, limit=10, sink=lambda _: None, guarded=True
                )
            assert server.accepted == 0
            await transport.close()

    run_on("asyncio", work())


@pytest.mark.parametrize(
    "answer", [(_PUBLIC, "10.0.0.1"), ("10.0.0.1", _PUBLIC), (_PUBLIC, "::1"), (_PUBLIC,) * 9 + ("127.0.0.1",)]
)
def test_one_private_address_is_enough_to_refuse(answer: tuple[str, ...]) -> None:
    """A name with one private address among public ones is refused: the next connection might go there."""
    resolver, _ = _knows(answer)

    async def work() -> None:
        transport = Transport(resolver=resolver)
        with pytest.raises(UnreachableError, match=r"refused address: asset\.example is"):
            await _get(transport, "http://asset.example/x")

    run_on("asyncio", work())


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_checked_address_is_the_one_connected_to(loop: str) -> None:
    """The connection goes to the address that was checked, though the name has changed by then."""

    def allows(address: IPAddress) -> bool:
        return str(address) == "127.0.0.2"

    resolver, asked = _knows(["127.0.0.2"], ["127.0.0.1"])

    async def work() -> None:
        async with serving(answering(OK), "127.0.0.2") as server:
            transport = Transport(resolver=resolver, allows=allows)
            assert await _get(transport, f"http://asset.example:{server.port}/x") == 200
            assert (server.accepted, asked) == (1, ["asset.example"])
            await transport.close()

    run_on(loop, work())


def test_guarded_request_uses_no_unguarded_connection() -> None:
    """A connection that was made without a check is no way around it."""

    async def work() -> None:
        async with serving(answering(OK)) as server:
            transport = Transport()
            assert await _get(transport, server.url, guarded=False) == 200
            with pytest.raises(UnreachableError, match="refused address"):
                await _get(transport, server.url)
            await transport.close()

    run_on("asyncio", work())


def test_trusted_origin_may_be_private() -> None:
    """A base address an operator wrote may be private; another port of the same host is not meant."""

    async def work() -> None:
        async with serving(answering(OK)) as server, serving(answering(OK)) as other:
            transport = Transport(trusted=[f"http://127.0.0.1:{server.port}/v1"])
            assert await _get(transport, server.url) == 200
            with pytest.raises(UnreachableError, match="refused address"):
                await _get(transport, other.url)
            await transport.close()

    run_on("asyncio", work())


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_next_address_is_tried_when_the_first_does_not_answer(loop: str) -> None:
    """Where nobody listens at one address of a name, the next is tried, and the name is asked once for many."""
    resolver, asked = _knows(["127.0.0.3", "::1", "127.0.0.1"])

    async def work() -> None:
        async with serving(answering(OK)) as server:
            transport = Transport(resolver=resolver)
            url = f"http://partner.example:{server.port}/x"
            await asyncio.gather(*(_get(transport, url, guarded=False) for _ in range(5)))
            assert (server.accepted, asked) == (5, ["partner.example"])
            await transport.close()

    run_on(loop, work())


@pytest.mark.parametrize("answers", [([],), (["nonsense"],)])
def test_name_without_an_address_is_unreachable(answers: tuple[list[str], ...]) -> None:
    """A name without an address, or with one that is none, cannot be reached; and that is not remembered."""
    resolver, asked = _knows(*answers)

    async def work() -> None:
        transport = Transport(resolver=resolver)
        for _ in range(2):
            with pytest.raises(UnreachableError):
                await _get(transport, "http://partner.example/x")

    run_on("asyncio", work())
    assert asked


def test_silent_resolver_is_given_up() -> None:
    """A name that takes too long to resolve is a connection that takes too long."""

    async def resolver(_: str, __: int) -> Sequence[str]:
        await asyncio.Event().wait()
        return []

    async def work() -> None:
        transport = Transport(resolver=resolver)
        with pytest.raises(UnreachableError, match="no connection within"):
            await transport.send("GET", "http://a.example/", {}, None, seconds=0.1, limit=10)

    run_on("asyncio", work())


def test_malformed_header_is_refused_before_connecting() -> None:
    """A header that would end its line is refused before anything connects."""

    async def work() -> None:
        async with serving(answering(OK)) as server:
            transport = Transport()
            for headers in ({"X": "a\r\nY: b"}, {"X\r\nY": "b"}, {"Content-Length": "0"}):
                with pytest.raises(UnreachableError):
                    await transport.send("POST", server.url, headers, b"", seconds=60, limit=10)
            with pytest.raises(UnreachableError):
                await transport.send("POST", server.url + "\r\nX: y", {}, b"", seconds=60, limit=10)
            assert server.accepted == 0
            assert not issubclass(UnreachableError, BrokenOffError)

    run_on("asyncio", work())
