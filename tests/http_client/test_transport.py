"""The transport over real sockets: every way a connection can go wrong ends in one of three errors."""

import asyncio
import socket
from collections.abc import Callable
from typing import TypeAlias

import pytest

from fairlead.http_client.outcomes import Reply
from fairlead.http_client.transport import BrokenOffError, TooSlowError, Transport, TransportError, UnreachableError
from fake_partner import (
    Behaviour,
    FakePartner,
    cut_chunks,
    drop,
    echo,
    endless,
    gzip_reply,
    half,
    hang,
    raw,
    redirect,
    reply,
    running_partner,
    trickle,
)

Send: TypeAlias = Callable[..., Reply]
_LIMIT = 100_000


@pytest.fixture
def send(partner: FakePartner) -> Send:
    """Return a function that sends one request to a path of the partner, or to another address."""

    def send_once(
        *, url: str = "", method: str = "POST", content: bytes | None = b"{}", seconds: float = 60, limit: int = _LIMIT
    ) -> Reply:
        return asyncio.run(_send(url or partner.url + "/x", method, content, seconds, limit))

    return send_once


async def _send(url: str, method: str, content: bytes | None, seconds: float, limit: int) -> Reply:
    transport = Transport()
    try:
        headers = {"Authorization": "Bearer s", "Content-Type": "application/json"}
        return await transport.send(method, url, headers, content, seconds=seconds, limit=limit)
    finally:
        await transport.close()


@pytest.mark.req("R-10")
def test_body_is_sent_and_received_unchanged(partner: FakePartner, send: Send) -> None:
    """The bytes of a body arrive as they are and come back as they are."""
    body = b' {"a" :1.0e0,\n"b":"\\u00e9"} '
    partner.script("/x", echo())
    assert send(content=body).content == body
    assert partner.requests("/x")[0].body == body


def test_answer_keeps_its_status_and_headers(partner: FakePartner, send: Send) -> None:
    """Status and headers come with the body, found by lower-case names."""
    partner.script("/x", reply(418, b"tea", "text/plain", X_Usage_Seconds="1.5"))
    answer = send()
    assert (answer.status, answer.content, answer.headers["x-usage-seconds"]) == (418, b"tea", "1.5")


def test_request_says_no_more_than_it_must(partner: FakePartner, send: Send) -> None:
    """A partner learns the headers given, that encodings are declined, and who we are; no cookie, no Accept."""
    partner.script("/x", reply(200, b"{}", Set_Cookie="a=b"))
    send()
    names = set(partner.requests("/x")[0].headers)
    assert names == {"host", "accept-encoding", "user-agent", "authorization", "content-type", "content-length"}
    assert partner.requests("/x")[0].headers["accept-encoding"] == "identity"


def test_cookie_is_never_sent_back(partner: FakePartner) -> None:
    """One partner's cookie would tie the calls of many callers together."""
    partner.script("/x", reply(200, b"{}", Set_Cookie="session=1"))

    async def twice() -> None:
        transport = Transport()
        for _ in range(2):
            await transport.send("GET", partner.url + "/x", {}, None, seconds=20, limit=_LIMIT)
        await transport.close()

    asyncio.run(twice())
    assert [request.headers.get("cookie") for request in partner.requests("/x")] == [None, None]


def test_encoded_path_stays_encoded(partner: FakePartner, send: Send) -> None:
    """What a handle had quoted stays quoted on the wire."""
    partner.script("/t/a%2Fb%3F", reply())
    send(url=partner.url + "/t/a%2Fb%3F", method="GET", content=None)
    assert [request.target for request in partner.requests()] == ["/t/a%2Fb%3F"]


@pytest.mark.req("R-26")
@pytest.mark.parametrize(
    "behaviour",
    [
        pytest.param(drop(), id="closed without a word"),
        pytest.param(half(b'{"a":', 1000), id="half a body"),
        pytest.param(cut_chunks(b'{"a":'), id="cut between chunks"),
        pytest.param(raw(b"HTTP/1.1 200 OK\r\nContent-Le"), id="cut in the headers"),
        pytest.param(raw(b"220 mail.example ESMTP\r\n"), id="another protocol"),
        pytest.param(raw(b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n"), id="a length that is none"),
        pytest.param(raw(b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000 + b"\r\n\r\n"), id="a header without end"),
        pytest.param(
            raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnot hex\r\n"), id="a chunk without a size"
        ),
        pytest.param(endless(), id="a body without end"),
        pytest.param(reply(200, b"x" * (_LIMIT + 1)), id="too large and says so"),
        pytest.param(gzip_reply(b"{}"), id="encoded all the same"),
    ],
)
def test_broken_answer_is_refused(partner: FakePartner, send: Send, behaviour: Behaviour) -> None:
    """Whatever is wrong with an answer, it is not an answer, and nothing but our own error says so."""
    partner.script("/x", behaviour)
    with pytest.raises(BrokenOffError):
        send()


def test_answer_as_large_as_allowed_is_taken(partner: FakePartner, send: Send) -> None:
    """The limit itself is within bounds."""
    partner.script("/x", reply(200, b"x" * _LIMIT))
    assert len(send().content) == _LIMIT


@pytest.mark.req("R-24")
@pytest.mark.parametrize("behaviour", [hang(), trickle(0.01)], ids=["silent", "a byte at a time"])
def test_slow_partner_is_given_up(partner: FakePartner, send: Send, behaviour: Behaviour) -> None:
    """The bound is on the whole answer: a partner that dribbles is as slow as one that is silent."""
    partner.script("/x", behaviour)
    with pytest.raises(TooSlowError, match=r"no answer within 0\.2 s"):
        send(seconds=0.2)


def test_refused_connection_is_unreachable(send: Send) -> None:
    """Where nobody listens, the partner has certainly not begun to work."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(UnreachableError):
        send(url=f"http://127.0.0.1:{port}/x")


@pytest.mark.parametrize("url", ["http://no-such-host.invalid/x", "http:///x", "not a url"])
def test_address_that_leads_nowhere_is_a_transport_error(send: Send, url: str) -> None:
    """An address that cannot be resolved or read is a transport error like any other."""
    with pytest.raises(TransportError):
        send(url=url)


def test_redirect_is_never_followed(partner: FakePartner, send: Send) -> None:
    """A redirect is an answer, never an order: the other address hears nothing of us."""
    with running_partner() as thief:
        thief.script("/loot", reply())
        partner.script("/x", redirect(thief.url + "/loot"))
        assert send().status == 302
        assert thief.requests() == []


def test_post_is_never_sent_again_by_itself(partner: FakePartner, send: Send) -> None:
    """When the connection breaks, only the books may decide to ask a partner twice."""
    partner.script("/x", drop())
    with pytest.raises(BrokenOffError):
        send()
    assert len(partner.requests("/x")) == 1


def test_unused_transport_can_be_closed() -> None:
    """Closing what was never opened does nothing."""
    asyncio.run(Transport().close())
