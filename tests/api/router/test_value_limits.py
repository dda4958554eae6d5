"""Documents of very many values: refused before anything is made of them, within a bounded answer (S-02)."""

import json
import socket
from typing import Any, Final
from urllib.parse import urlsplit

import pytest

from fairlead.documents.fitting import ERROR_BYTES
from fake_partner import FakePartner, reply
from servers import Server

_RUN: Final = "/v2/models/fake/json-1"
_CLOSED: Final = "/v2/models/fake/closed-1"
_VALUES: Final = 20_000


def nest(values: int) -> bytes:
    """A body of so many values, its own object among them."""
    return b'{"a":[' + b",".join([b"{}"] * (values - 2)) + b"]}"


@pytest.mark.req("S-02")
@pytest.mark.parametrize("path", [_RUN, f"{_RUN}/estimate", f"{_RUN}/requests"])
def test_body_of_too_many_values_is_refused(router: Server, partner: FakePartner, path: str) -> None:
    """Runs, estimates and queued runs answer 413 with the limit; no partner hears of it."""
    response = router.client.post(path, content=nest(_VALUES + 1), headers={"Content-Type": "application/json"})
    assert response.status_code == 413
    assert response.json() == {
        "detail": "The request body holds more than 20000 values.",
        "error_type": "invalid_input",
    }
    assert partner.requests() == []


@pytest.mark.req("S-02")
def test_body_of_too_many_values_is_refused_before_it_has_arrived(router: Server) -> None:
    """Nothing more of it is waited for, or kept: the answer comes while the caller still sends."""
    address = urlsplit(str(router.client.base_url))
    head = f"POST {_RUN} HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {router.key}\r\nContent-Length: 60000000\r\n\r\n"
    with socket.create_connection((address.hostname, address.port), timeout=60) as connection:
        connection.sendall(head.encode() + nest(_VALUES + 1))
        assert connection.recv(4096).startswith(b"HTTP/1.1 413 ")


@pytest.mark.req("S-02")
def test_body_at_the_limit_is_run(router: Server, partner: FakePartner) -> None:
    """As many values as the limit says are let through, and go to the partner as they came."""
    content = nest(_VALUES)
    assert router.client.post(_RUN, content=content).status_code == 200
    assert partner.requests()[-1].body == content


@pytest.mark.req("S-02")
def test_text_full_of_commas_and_brackets_is_one_value(router: Server) -> None:
    """What stands in texts is not counted, escapes and all."""
    body = {"prompt": '[{,}]"\\' * 20_000, "\\,[": "\\" * 999}
    assert router.client.post(_RUN, json=body).status_code == 200


@pytest.mark.req("S-02")
def test_answer_of_too_many_values_is_no_result(router: Server, partner: FakePartner) -> None:
    """A partner's answer that holds more than it may cannot be read, and is not paid for."""
    partner.script("/json", reply(200, b'{"made":[' + b",".join([b"[]"] * 50_000) + b"]}"))
    before = router.workspace()["balance"]
    response = router.client.post(_RUN, json={})
    assert (response.status_code, response.json()["error_type"]) == (502, "provider_error")
    assert router.workspace()["balance"] == before


@pytest.mark.req("S-02")
@pytest.mark.parametrize(
    "body",
    [
        {"prompt": ["x" * 2_000_000]},
        {"prompt": "x" * 2_000_000, "width": "9" * 2_000_000},
        {f"{'n' * 3000}{number}": 1 for number in range(500)},
        {"prompt": "ok", "width": int("9" * 4000)},
    ],
    ids=["a long value", "two long values", "long names", "a long number"],
)
def test_error_is_small_whatever_the_body_holds(router: Server, body: Any) -> None:
    """A refusal of large values, names and numbers repeats none of them whole."""
    response = router.client.post(_CLOSED, json=body)
    assert response.status_code == 422
    assert len(response.content) <= ERROR_BYTES
    assert json.loads(response.content)["detail"]
