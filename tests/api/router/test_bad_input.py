"""Bad input over HTTP: each is refused for what it is, and no partner hears of it (R-01, R-19, R-21, R-26)."""

import json
import socket
from collections.abc import Iterator
from typing import Any, Final

import pytest

from cases import for_each
from fake_partner import FakePartner, port_of
from servers import Server

_OPEN: Final = "/v2/models/fake/json-1"
_CLOSED: Final = "/v2/models/fake/closed-1"
_MIB: Final = 1024 * 1024


@pytest.fixture(autouse=True)
def _unheard(router: Server, partner: FakePartner) -> Iterator[None]:
    """Prove that nothing refused here was ever sent to the partner, and that nothing was held for it."""
    before = len(router.ledger())
    yield
    assert partner.requests() == []
    assert len(router.ledger()) == before


@pytest.mark.req("R-19")
@for_each(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b" ", id="a space"),
        pytest.param(b"{", id="cut"),
        pytest.param(b"{}{}", id="two"),
        pytest.param(b"{} x", id="more behind it"),
        pytest.param(b"prompt=a", id="a form"),
        pytest.param(b"[]", id="an array"),
        pytest.param(b"null", id="null"),
        pytest.param(b'"text"', id="a text"),
        pytest.param(b"7", id="a number"),
        pytest.param(b"{'a':1}", id="single quotes"),
        pytest.param(b'{"a":1,}', id="a comma too many"),
        pytest.param(b'{"a":1,"a":1}', id="a name twice"),
        pytest.param(b'{"a":{"b":1,"b":2}}', id="a name twice, inside"),
        pytest.param(b'{"a":1,"\\u0061":2}', id="a name twice, escaped"),
        pytest.param(b'{"a":NaN}', id="NaN"),
        pytest.param(b'{"a":Infinity}', id="infinity"),
        pytest.param(b'{"a":-Infinity}', id="minus infinity"),
        pytest.param(b'{"a":1e999}', id="a number beyond doubles"),
        pytest.param(b'{"a":01}', id="a leading zero"),
        pytest.param(b'{"a":"\xff"}', id="bad UTF-8"),
        pytest.param(b'{"a":"\xed\xa0\x80"}', id="a surrogate"),
        pytest.param(b'{"a":"\\ud800"}', id="half a surrogate pair"),
        pytest.param(b'\xef\xbb\xbf{"a":1}', id="a byte order mark"),
        pytest.param('{"a":1}'.encode("utf-16"), id="UTF-16"),
        pytest.param(b'{"a":"\n"}', id="a raw line's end"),
        pytest.param(b'{"a":' * 300 + b"1" + b"}" * 300, id="deep objects"),
        pytest.param(b'{"a":' + b"[" * 19_000, id="very deep arrays"),
        pytest.param(b'{"a":' + b"9" * 10_000 + b"}", id="a number without end"),
    ],
)
def test_body_that_is_no_json_object_is_400(router: Server, body: bytes) -> None:
    """One clean JSON object or 400 `invalid_input`: partner and router must read the same thing."""
    response = router.client.post(_OPEN, content=body, headers={"Content-Type": "application/json"})
    assert (response.status_code, response.json()["error_type"]) == (400, "invalid_input")
    assert len(response.json()["detail"]) < 500


@pytest.mark.req("R-19")
@pytest.mark.parametrize(
    "content_type", ["text/plain", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded", "json", ""]
)
def test_other_content_type_is_400(router: Server, content_type: str) -> None:
    """JSON under the name of something else was meant for somebody else."""
    response = router.client.post(_OPEN, content=b"{}", headers={"Content-Type": content_type})
    assert (response.status_code, response.json()["error_type"]) == (400, "invalid_input")


@pytest.mark.req("R-21")
@pytest.mark.parametrize(
    ("body", "loc", "kind", "ctx", "echo"),
    [
        ({}, ["body", "prompt"], "missing", None, None),
        ({"prompt": "a", "extra": 1}, ["body", "extra"], "extra_forbidden", None, None),
        ({"prompt": ""}, ["body", "prompt"], "string_too_short", {"min_length": 1}, ""),
        ({"prompt": "x" * 21}, ["body", "prompt"], "string_too_long", {"max_length": 20}, "x" * 21),
        ({"prompt": "a", "count": 5}, ["body", "count"], "less_than_equal", {"le": 4}, 5),
        ({"prompt": "a", "count": 0}, ["body", "count"], "greater_than_equal", {"ge": 1}, 0),
        (
            {"prompt": "a", "layers": [{"kind": "sky"}, {"kind": "fog"}]},
            ["body", "layers", 1, "kind"],
            "enum",
            {"expected": ["sky", "sea"]},
            "fog",
        ),
        ({"prompt": "a", "layers": [{"alpha": 1}]}, ["body", "layers", 0, "kind"], "missing", None, None),
        (
            {"prompt": "a", "layers": [{"kind": "sea"}, {"kind": "sea", "alpha": 2}]},
            ["body", "layers", 1, "alpha"],
            "less_than_equal",
            {"le": 1},
            2,
        ),
        (
            {"prompt": "a", "model": "fake/other-1"},
            ["body", "model"],
            "model_mismatch",
            {"expected": "closed-1"},
            "fake/other-1",
        ),
    ],
)
def test_every_violation_is_located(router: Server, body: Any, loc: Any, kind: str, ctx: Any, echo: Any) -> None:
    """A 422 names each failing field: where, what kind, its bound and the value, and has no other fields."""
    response = router.client.post(_CLOSED, json=body)
    assert (response.status_code, response.headers["x-service-error-type"]) == (422, "invalid_input")
    assert list(response.json()) == ["detail"]
    (entry,) = response.json()["detail"]
    assert (entry["loc"], entry["type"], entry.get("ctx")) == (loc, kind, ctx)
    assert entry["msg"]
    assert entry.get("input") == echo


@pytest.mark.req("R-21")
def test_up_to_fifty_violations_are_told(router: Server) -> None:
    """Every failing field has its entry, up to fifty."""
    body = {"count": 9, "layers": [{"kind": "x"}] * 100, "more": 1}
    entries = router.client.post(_CLOSED, json=body).json()["detail"]
    assert 3 < len(entries) <= 50


@pytest.mark.req("R-21")
def test_large_value_is_not_echoed(router: Server) -> None:
    """An answer to nonsense is not as large as the nonsense."""
    response = router.client.post(_CLOSED, json={"prompt": "x" * 1_000_000, "extra": "y" * 1_000_000})
    assert response.status_code == 422
    assert len(response.content) < 5000


@pytest.mark.req("R-19")
@pytest.mark.parametrize(
    "query",
    [
        "strict_mode=yes",
        "strict_mode=",
        "strict_mode=True",
        "reject_unknown_fields=1",
        "reject_unknown_fields=TRUE",
        "model_provider=",
        "model_provider=Default",
        "model_provider=fake",
        "model_provider=nobody",
        "model_provider=%ff",
        "&".join(["a=1"] * 40),
    ],
)
def test_unknown_value_of_a_parameter_is_400(router: Server, query: str) -> None:
    """The run's parameters take the values they know; anything else is 400 `invalid_input`."""
    response = router.client.post(f"{_OPEN}?{query}", json={})
    assert (response.status_code, response.json()["error_type"]) == (400, "invalid_input")


@pytest.mark.req("R-19")
def test_earlier_check_answers_first(router: Server) -> None:
    """Credential, model, query, content type, body: an earlier refusal answers whatever else is wrong."""
    wrong: dict[str, Any] = {"content": b"no JSON", "headers": {"Content-Type": "text/plain", "X-API-Key": "wrong"}}
    statuses = [router.client.post("/v2/models/fake/none-1?strict_mode=x", **wrong).status_code]
    wrong["headers"]["X-API-Key"] = router.key
    statuses.append(router.client.post("/v2/models/fake/none-1?strict_mode=x", **wrong).status_code)
    details = [router.client.post(f"{_CLOSED}?strict_mode=x", **wrong).json()["detail"]]
    details.append(router.client.post(_CLOSED, **wrong).json()["detail"])
    wrong["headers"]["Content-Type"] = "application/json"
    details.append(router.client.post(_CLOSED, **wrong).json()["detail"])
    assert statuses == [401, 404]
    assert [detail.partition(" ")[0] for detail in details] == ["strict_mode", "Send", "The"]


class _Raw:
    """A connection on which a test writes what it likes."""

    def __init__(self, server: Server) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port_of(server.url)), timeout=60)
        self._key = server.key

    def head(self, *lines: str, path: str = _OPEN) -> None:
        """Begin a run with some header lines."""
        head = [f"POST {path} HTTP/1.1", "Host: x", f"X-API-Key: {self._key}", "Content-Type: application/json", *lines]
        self.socket.sendall("\r\n".join([*head, "", ""]).encode())

    def answer(self) -> tuple[int, Any]:
        """Read the answer: its status and its JSON."""
        received = b""
        while b"\r\n\r\n" not in received or not received.endswith(b"}"):
            piece = self.socket.recv(65536)
            assert piece, received
            received += piece
        head, _, body = received.partition(b"\r\n\r\n")
        return int(head.split(b" ")[1]), json.loads(body)


@pytest.fixture
def connection(router: Server) -> Iterator[_Raw]:
    """Return a connection to the server, closed afterwards."""
    opened = _Raw(router)
    yield opened
    opened.socket.close()


@pytest.mark.req("R-26")
def test_body_declared_too_large_is_not_read(connection: _Raw) -> None:
    """A `Content-Length` beyond the cap is 413 at once: not one byte of the body has been sent yet."""
    connection.head(f"Content-Length: {65 * _MIB}")
    status, body = connection.answer()
    assert (status, body["error_type"]) == (413, "invalid_input")
    assert body["detail"] == f"The request body is larger than {64 * _MIB} bytes."


@pytest.mark.req("R-26")
def test_body_that_grows_too_large_is_cut_off(connection: _Raw) -> None:
    """A chunked body is 413 when it passes the cap: its end is never sent."""
    connection.head("Transfer-Encoding: chunked")
    chunk = b"%x\r\n%b\r\n" % (_MIB, b" " * _MIB)
    for _ in range(65):
        connection.socket.sendall(chunk)
    status, body = connection.answer()
    assert (status, body["error_type"]) == (413, "invalid_input")


@pytest.mark.req("R-26")
def test_sender_is_checked_before_the_body_is_read(connection: _Raw) -> None:
    """Anyone who may not run the model is told so before a byte of the body is sent."""
    connection.head("Content-Length: 1000", path="/v2/models/fake/none-1")
    assert connection.answer()[0] == 404


@pytest.mark.req("R-25")
def test_body_cut_short_is_not_run(router: Server, connection: _Raw) -> None:
    """A caller that leaves in the middle of its body has asked for nothing."""
    connection.head("Content-Length: 1000")
    connection.socket.sendall(b'{"a":1}')
    connection.socket.close()
    router.idle()
    assert router.client.get("/healthz").status_code == 200


def test_garbage_on_a_connection_leaves_the_server_alive(router: Server, connection: _Raw) -> None:
    """Nonsense on a connection costs that connection."""
    connection.socket.sendall(b"\x16\x03\x01 nonsense\r\n\r\n")
    received = connection.socket.recv(4096)
    assert received == b"" or b" 400 " in received
    assert router.client.get("/healthz").status_code == 200
