"""Addresses and heads of requests: nothing gets in that could end a line or say what is ours to say."""

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import for_each
from fairlead.http_client.outcomes import UnreachableError
from fairlead.http_client.targets import read_target
from fairlead.http_client.transport import write_head

_TARGET = read_target("POST", "http://partner.example/x")


@pytest.mark.parametrize(
    ("url", "origin", "line", "host"),
    [
        ("http://a.example", (False, "a.example", 80), "/", "a.example"),
        ("https://A.Example:443/b?c=%20d#e", (True, "a.example", 443), "/b?c=%20d", "a.example"),
        ("https://a.example:80/%2F//..", (True, "a.example", 80), "/%2F//..", "a.example:80"),
        ("http://[2001:DB8::1]:8080/?q", (False, "2001:db8::1", 8080), "/?q", "[2001:db8::1]:8080"),
        ("http://a.example?q=1", (False, "a.example", 80), "/?q=1", "a.example"),
    ],
)
def test_address_is_sent_as_it_is(url: str, origin: tuple[bool, str, int], line: str, host: str) -> None:
    """Path and query go out as they are; default ports are not named; fragments stay here."""
    target = read_target("GET", url)
    assert (target.is_secure, target.host, target.port) == origin
    assert target.opening.split("\r\n")[:2] == [f"GET {line} HTTP/1.1", f"Host: {host}"]


@for_each(
    "url",
    [
        "", "x", "/x", "//a.example/x", "ftp://a.example/x", "file:///etc/passwd", "http:///x", "http://user@a.example/x",
        "http://user:word@a.example/x", "http://a.example@b.example/", "http://a.example:0/", "http://a.example:99999/",
        "http://a.example:x/", "http://a.example/\r\nX: y", "http://a.example/ HTTP/1.1", "http://a.example/\n",
        "http://a.example/\t", "http://a.example/\0", "http://a\r\n.example/", "http://\u00e9.example/",
        "http://a.example/\u00e9", "http://a.example\\@b.example/", "http://a%2eexample/", "http://[::1", "http://[::1%25lo]/",
        "http://-a.example/", "http://a_,b/", "http://" + "a" * 300 + ".example/", "http://a.example/" + "x" * 16_384,
    ],
)  # fmt: skip
def test_ambiguous_address_is_refused(url: str) -> None:
    """Where two readers might see two hosts, or a line might end early, nothing is sent."""
    with pytest.raises(UnreachableError):
        read_target("GET", url)


@pytest.mark.parametrize("method", ["CONNECT", "get", "GET /\r\n", "", "TRACE"])
def test_unknown_method_is_refused(method: str) -> None:
    """Methods are a closed list."""
    with pytest.raises(UnreachableError):
        read_target(method, "http://a.example/")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("X-A\r\nX-B", "1"), ("X A", "1"), ("X:", "1"), ("", "1"), ("X\0", "1"), ("X\u00e9", "1"),
        ("X", "1\r\nY: 2"), ("X", "1\n"), ("X", "1\r"), ("X", "1\0"), ("X", "\u00e9"), ("X", "\x7f"),
        ("X", "x" * 66_000),
        ("Host", "b.example"), ("content-length", "0"), ("Transfer-Encoding", "chunked"), ("Connection", "close"),
        ("Accept-Encoding", "gzip"), ("Expect", "100-continue"), ("Upgrade", "h2c"), ("TE", "trailers"),
    ],
)  # fmt: skip
def test_header_that_ends_a_line_is_refused(name: str, value: str) -> None:
    """Nothing is sent, and the error does not show the value."""
    with pytest.raises(UnreachableError) as caught:
        write_head(_TARGET, {name: value}, b"")
    assert value not in str(caught.value) or len(value) <= 1


@given(st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=4))
def test_head_has_only_the_lines_it_was_given(headers: dict[str, str]) -> None:
    """Any names and values are refused, or each is one line of the head."""
    try:
        head = write_head(_TARGET, headers, None)
    except UnreachableError:
        return
    lines = head.decode("ascii").split("\r\n")
    assert lines[-2:] == ["", ""]
    expected = {f"{name}: {value}" for name, value in headers.items()}
    assert expected <= set(lines)
    assert "\n" not in "".join(chain(lines))
    assert len(lines) == 3 + len(headers) + 2 + (not any(name.lower() == "user-agent" for name in headers))


def test_user_agent_can_be_replaced() -> None:
    """A provider file may say who we are; it is then said once."""
    head = write_head(_TARGET, {"user-agent": "another"}, b"abc").lower()
    assert head.count(b"user-agent") == 1
    assert head.endswith(b"user-agent: another\r\ncontent-length: 3\r\n\r\n")
