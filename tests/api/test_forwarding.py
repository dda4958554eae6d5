"""Absolute links begin with how the caller reached us: who is believed about that, and what gets into a link."""

import asyncio
import re
from collections.abc import Coroutine
from ipaddress import ip_network
from typing import Any, Final, cast

import httpx
import pytest
import uvicorn
from hypothesis import given
from hypothesis import strategies as st

from cases import for_each
from fairlead.api.http.asgi import HOST_MAX, Receive, Scope, Send, answer, is_host
from fairlead.api.http.forwarding import BASE_URL_MAX, PREFIX_MAX, BaseUrls
from fairlead.server.settings import BadSettingError, read_settings
from servers import wait_until_async

PLAIN: Final = "http://router.example"
PROXY: Final = "10.0.0.7"
BEHIND: Final = BaseUrls(trusted=(ip_network("10.0.0.0/8"), ip_network("fd00::/8")))
LONG_NAME: Final = ".".join(["a" * 61] * 4) + ".abcde"
LINK: Final = re.compile(r"https?://(?:[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]+)?(?:/[A-Za-z0-9._~-]+)*")
PROTO: Final = b"x-forwarded-proto"
HOST: Final = b"x-forwarded-host"
PREFIX: Final = b"x-forwarded-prefix"
FOR: Final = b"x-forwarded-for"


def _scope(
    *headers: tuple[bytes, str],
    client: tuple[str, int] | None = (PROXY, 40_000),
    server: tuple[str, int | None] | None = ("10.0.0.1", 8080),
    host: str | None = "router.example",
) -> Scope:
    named = [] if host is None else [(b"host", host.encode("latin-1"))]
    sent = [(name, value.encode("latin-1")) for name, value in headers]
    return {"type": "http", "scheme": "http", "headers": [*named, *sent], "client": client, "server": server}


_CLAIMS: Final = ((PROTO, "https"), (HOST, "evil.example"), (PREFIX, "/evil"))
_FORWARDED: Final = (b"forwarded", "proto=https;host=evil.example")


def test_public_base_url_wins() -> None:
    """What the operator says wins over whatever a proxy or a caller says."""
    urls = BaseUrls("https://api.example/fairlead", BEHIND.trusted)
    assert urls.of(_scope(*_CLAIMS, _FORWARDED)) == "https://api.example/fairlead"


@pytest.mark.parametrize("client", [("192.0.2.1", 1), ("::1", 1), ("fe80::1%eth0", 1), ("testclient", 1), None])
@pytest.mark.parametrize("headers", [_CLAIMS, (_FORWARDED,)])
def test_forwarded_headers_of_strangers_are_ignored(client: Any, headers: Any) -> None:
    """Forwarded headers of a peer who is not trusted, or has no address, change nothing."""
    assert BEHIND.of(_scope(*headers, client=client)) == PLAIN


def test_no_peer_is_trusted_by_default() -> None:
    """By default no peer is believed, not even this machine."""
    assert BaseUrls().of(_scope(*_CLAIMS, _FORWARDED, client=("127.0.0.1", 1))) == PLAIN


@pytest.mark.parametrize("client", ["10.0.0.7", "::ffff:10.0.0.7", "fd00::1"])
def test_trusted_proxy_is_believed(client: str) -> None:
    """A peer in one of the networks is, also by its IPv4 address on an IPv6 socket."""
    scope = _scope((PROTO, "https"), (HOST, "api.example"), client=(client, 1))
    assert BEHIND.of(scope) == "https://api.example"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("proto=https;host=api.example", "https://api.example"),
        ('for="[2001:db8::1]:1234";PROTO=HTTPS; Host="api.example:8443";by=_x', "https://api.example:8443"),
        ("proto=https;host=api.example, proto=http;host=inner.example", "https://api.example"),
        ("for=192.0.2.1 ; proto=https , for=10.0.0.9", "https://router.example"),
        ("host=api.example:8443", "http://api.example:8443"),
        ('host="[2001:db8::1]:8443"', "http://[2001:db8::1]:8443"),
        (r'host="a\pi.example"', "http://api.example"),
        ('for="a,b;c\\"d";host=api.example', "http://api.example"),
        ('host="evil example";proto=https', "https://router.example"),
        ("host=evil.example;host=api.example", PLAIN),
        ("proto=https;host=api.example;", PLAIN),
        ("proto = https", PLAIN),
        ('proto="https', PLAIN),
        ("proto=https host=evil.example", PLAIN),
        ("proto=javascript", PLAIN),
        ('host="evil.example/path"', PLAIN),
        ('host="user@evil.example"', PLAIN),
        ("for=unknown", PLAIN),
        (",host=evil.example", PLAIN),
        ("", PLAIN),
        ("proto=https;for=" + "x" * 3000, PLAIN),
    ],
)
def test_forwarded_is_read_as_rfc_7239_says(value: str, expected: str) -> None:
    """The first element counts, quoted or not; one that is not well-formed, or says something odd, is ignored."""
    assert BEHIND.of(_scope((b"forwarded", value))) == expected


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([(PROTO, "https")], "https://router.example"),
        ([(HOST, "api.example")], "http://api.example"),
        ([(PROTO, "HTTPS , http"), (HOST, " api.example:8443, inner")], "https://api.example:8443"),
        ([(PREFIX, "/fairlead/v2/")], PLAIN + "/fairlead/v2"),
        ([(PREFIX, "/")], PLAIN),
        ([(PROTO, "wss"), (HOST, "evil/"), (PREFIX, "evil")], PLAIN),
        ([(PROTO, "https"), (PROTO, "http")], "https://router.example"),
    ],
)
def test_usual_proxy_headers_are_understood(headers: Any, expected: str) -> None:
    """Scheme, host and prefix count each by itself, the first of several values, and none that is odd."""
    assert BEHIND.of(_scope(*headers)) == expected


def test_two_kinds_of_forwarding_headers_are_never_mixed() -> None:
    """Where `Forwarded` says a scheme or a host, the others are not read; where it says neither, they are."""
    others = ((HOST, "other.example"), (PREFIX, "/other"))
    assert BEHIND.of(_scope((b"forwarded", "proto=https"), *others)) == "https://router.example"
    assert BEHIND.of(_scope((b"forwarded", "for=192.0.2.1"), *others)) == "http://other.example/other"


@pytest.mark.parametrize(
    "prefix",
    ["//evil.example", "/a//b", "/a b", "/../b", "/a/..", "/.", "/a?b", "/a#b", "/a%2fb", "/a\\b", "/\xe9", "a/b",
     "/a\n", "/" + "a" * PREFIX_MAX, "https://evil.example"],
)  # fmt: skip
def test_malformed_prefix_never_gets_into_a_link(prefix: str) -> None:
    """Plain segments only, none that is empty or climbs, and not too many of them."""
    assert BEHIND.of(_scope((PREFIX, prefix))) == PLAIN


@pytest.mark.parametrize(
    "host",
    ["a", "api.example", "api.example.", "my_service:8080", "127.0.0.1:80", "[::1]", "[2001:db8::7.8.9.10]:65535",
     "xn--bcher-kva.example", LONG_NAME, LONG_NAME + ":65535"],
)  # fmt: skip
def test_valid_host_is_taken(host: str) -> None:
    """Names, addresses, ports; as long as a name can be."""
    assert is_host(host)
    assert BaseUrls().of(_scope(host=host)) == f"http://{host}"


@for_each(
    "host",
    ["", ".", "a..b", "-a.example", "a-.example", "a" * 64, "a.example:", "a.example:0", "a.example:080",
     "a.example:65536", "a.example:1x", "a.example:\u00b2", "user@a.example", "a.example/", "a.example/b",
     "a.example?b", "a.example#b", "a.example\\b", "a.example b", "a.example\t", "a.example\r\nX: y", "::1", "[::1",
     "[::1]x", "[1]", "[fe80::1%25eth0]", "[v1.a]", "b\xfccher.example", "a%2eexample", '"a"', "<a>",
     LONG_NAME + "a" * 7, "a." * 200],
)  # fmt: skip
def test_malformed_host_never_gets_into_a_link(host: str) -> None:
    """What is not a host is as if it had not been sent: the link names the address the caller is connected to."""
    assert not is_host(host)
    assert BaseUrls().of(_scope(host=host)) == "http://10.0.0.1:8080"
    assert BEHIND.of(_scope((HOST, f"{host}/, a.example"))) == PLAIN
    assert BEHIND.of(_scope((b"forwarded", f'host="{host}/"'))) == PLAIN


@pytest.mark.parametrize(
    ("server", "expected"),
    [(("127.0.0.1", 8080), "127.0.0.1:8080"), (("::1", 8080), "[::1]:8080"), (("/a.sock", None), "localhost"),
     (None, "localhost")],
)  # fmt: skip
def test_caller_without_a_host_gets_links_to_our_address(server: Any, expected: str) -> None:
    """HTTP/1.0 names none; ours is in brackets where it needs them, and a path is never a host."""
    assert BaseUrls().of(_scope(host=None, server=server)) == f"http://{expected}"


_ODD: Final = st.text(st.characters(max_codepoint=255), max_size=40) | st.text(
    alphabet='ab.:[]/"\\;,= \t@%-_1', max_size=40
)
_FORMED: Final = st.from_regex(r'\A(proto|host|for)=("[a-z:/. ]*"|[a-z.]+)(;(proto|host)="?[a-z:/.]*"?)?\Z')


@given(host=_ODD, forwarded=_ODD | _FORMED, proto=_ODD, named=_ODD, prefix=_ODD | _ODD.map("/".__add__))
def test_links_are_well_formed_whatever_is_sent(host: str, forwarded: str, proto: str, named: str, prefix: str) -> None:
    """Whatever is sent, and by whom it may be, a link begins with a scheme, a host and a path."""
    headers = [(b"forwarded", forwarded), (PROTO, proto), (HOST, named), (PREFIX, prefix)]
    for client in (PROXY, "192.0.2.1"):
        made = BEHIND.of(_scope(*headers, client=(client, 1), host=host))
        assert LINK.fullmatch(made), made
        assert len(made) <= BASE_URL_MAX


@for_each(
    "header, address",
    [
        ((FOR, "1.1.1.1, 198.51.100.7"), "198.51.100.7"),
        ((FOR, "1.1.1.1, 198.51.100.7, 10.0.0.9"), "198.51.100.7"),
        ((FOR, "1.1.1.1, somebody"), None),
        ((b"forwarded", "for=1.1.1.1, for=198.51.100.7;proto=https"), "198.51.100.7"),
        ((b"forwarded", 'for="198.51.100.7:4711"'), "198.51.100.7"),
        ((b"forwarded", 'for=1.1.1.1, for="[2001:db8::7]:4711"'), "2001:db8::7"),
        ((b"forwarded", "for=1.1.1.1, for=_hidden"), None),
        ((b"forwarded", "for=1.1.1.1, proto=https"), None),
        ((b"forwarded", "for=1.1.1.1, for=198.51.100.7, ="), None),
    ],
)
def test_caller_is_the_last_that_is_no_proxy(header: tuple[bytes, str], address: str | None) -> None:
    """What a caller writes before it changes nothing: neither who is counted at logins, nor what the audit log has."""
    found = BEHIND.caller_of(_scope(header))
    assert (None if found is None else str(found)) == address


def test_caller_of_a_stranger_is_the_stranger() -> None:
    """A peer that is not trusted is the caller, whatever it says."""
    told = ((FOR, "1.1.1.1"), (b"forwarded", "for=1.1.1.1"))
    assert str(BEHIND.caller_of(_scope(*told, client=("192.0.2.1", 1)))) == "192.0.2.1"


def test_longest_link_is_within_its_bound() -> None:
    """The longest of each makes the longest base URL."""
    headers = ((PROTO, "https"), (HOST, LONG_NAME + ":65535"), (PREFIX, "/" + "a" * (PREFIX_MAX - 1)))
    assert len(LONG_NAME) + len(":65535") == HOST_MAX
    assert len(BEHIND.of(_scope(*headers))) == BASE_URL_MAX


def test_peer_of_a_real_connection_is_who_is_connected() -> None:
    """Over a socket, the peer is who is connected: trusted or not, and whatever it says of itself."""
    claims = {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "api.example", "X-Forwarded-For": "127.0.0.1"}
    near = BaseUrls(trusted=read_settings({"FAIRLEAD_TRUSTED_PROXIES": "127.0.0.0/8"}).trusted_proxies)
    assert asyncio.run(_ask(near, claims)) == "https://api.example"
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+", asyncio.run(_ask(BEHIND, claims)))


async def _ask(urls: BaseUrls, headers: dict[str, str]) -> str:
    """Ask a server of its own, started as ours is, what its links begin with."""

    async def application(scope: Scope, _: Receive, send: Send) -> None:
        await answer(scope, send, 200, [], urls.of(scope).encode())

    config = uvicorn.Config(cast("Any", application), port=0, log_level="warning", lifespan="off", proxy_headers=False)
    server = uvicorn.Server(config)
    serving: Coroutine[Any, Any, None] = server.serve()
    async with asyncio.TaskGroup() as tasks, asyncio.timeout(20):
        tasks.create_task(serving)
        await wait_until_async(lambda: server.started, "the server")
        port = server.servers[0].sockets[0].getsockname()[1]
        async with httpx.AsyncClient() as client:
            text = (await client.get(f"http://127.0.0.1:{port}/", headers=headers)).text
        server.should_exit = True
    return text


def test_trusted_proxies_are_addresses_and_networks() -> None:
    """Addresses and networks of both families, with commas between them; nobody where nothing is said."""
    named = read_settings({"FAIRLEAD_TRUSTED_PROXIES": "127.0.0.1, 10.0.0.0/8,::1,fd00::/8"}).trusted_proxies
    assert named == tuple(map(ip_network, ("127.0.0.1/32", "10.0.0.0/8", "::1/128", "fd00::/8")))
    assert read_settings({}).trusted_proxies == read_settings({"FAIRLEAD_TRUSTED_PROXIES": ""}).trusted_proxies == ()


@pytest.mark.parametrize(
    "text", ["*", "proxy.example", "10.0.0.1/8", "10.0.0.0/33", "10.0.0.0/8,", " ", "1," * 100 + "1"]
)
def test_malformed_trusted_proxy_stops_the_start(text: str) -> None:
    """Whatever is not a list of at most a hundred networks stops the start, with a line that names the variable."""
    with pytest.raises(BadSettingError, match=r"^FAIRLEAD_TRUSTED_PROXIES: "):
        read_settings({"FAIRLEAD_TRUSTED_PROXIES": text})


def test_public_base_url_is_bounded() -> None:
    """It is stored with every queued run."""
    with pytest.raises(BadSettingError, match=r"^FAIRLEAD_PUBLIC_BASE_URL: .*at most 1000"):
        read_settings({"FAIRLEAD_PUBLIC_BASE_URL": "https://" + "a" * 1000})
