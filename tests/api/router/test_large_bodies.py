"""Large bodies and answers over HTTP: read by processes, and sent, priced and refused as any other (S-02)."""

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import httpx
import psutil
import pytest

from api.conftest import SETTINGS
from fake_partner import FakePartner, reply
from servers import Server, serving, wait_until

_RUN: Final = "/v2/models/fake/json-1"
_CLOSED: Final = "/v2/models/fake/closed-1"
_LARGE: Final = 2_000_000
_PROGRAM: Final = "fairlead.documents.program"


def readers(server: Server) -> list[psutil.Process]:
    """The processes of a server that read bodies."""
    found = []
    for child in psutil.Process(server.process.pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if _PROGRAM in child.cmdline():
                found.append(child)
    return found


@pytest.mark.req("S-02", "R-10")
@pytest.mark.parametrize(
    "body",
    [
        {"prompt": "x" * _LARGE},
        {"prompt": 'é\\"\n😀' * (_LARGE // 10), "b": ["y" * 9000, {"c": None}]},
        {"prompt": ["word"] * 15_000, "b": "z" * _LARGE},
    ],
    ids=["plain", "escaped", "many values"],
)
@pytest.mark.parametrize("indent", [None, 2])
def test_large_body_reaches_the_partner_byte_by_byte(
    router: Server, partner: FakePartner, body: Any, indent: int | None
) -> None:
    """Whatever its texts hold, a large body comes to the partner as it was sent."""
    content = json.dumps(body, indent=indent).encode()
    response = router.client.post(_RUN, content=content, headers={"Content-Type": "application/json"})
    assert response.status_code == 200
    assert partner.requests()[-1].body == content
    assert readers(router)


@pytest.mark.req("S-02", "R-21")
def test_large_body_is_held_against_the_schema(router: Server, partner: FakePartner) -> None:
    """Violations are those of any body, by field, and nothing is sent."""
    response = router.client.post(_CLOSED, json={"prompt": 7, "extra": "x" * _LARGE})
    assert response.status_code == 422
    assert {tuple(found["loc"]) for found in response.json()["detail"]} >= {("body", "extra")}
    assert partner.requests() == []


@pytest.mark.req("S-02", "R-19")
@pytest.mark.parametrize("path", [_RUN, f"{_RUN}/requests"])
@pytest.mark.parametrize("content", [b'{"a":"' + b"x" * _LARGE, b'{"a":"' + b"x" * _LARGE + b'","a":1}'])
def test_large_body_that_is_no_json_is_refused(router: Server, path: str, content: bytes) -> None:
    """A document that breaks off, or says a thing twice, is refused in the usual words."""
    response = router.client.post(path, content=content, headers={"Content-Type": "application/json"})
    assert (response.status_code, response.json()["error_type"]) == (400, "invalid_input")
    assert response.json()["detail"].startswith("The request body is not valid JSON")


@pytest.mark.req("S-02", "R-18")
def test_large_body_is_known_again_by_its_key(router: Server, partner: FakePartner) -> None:
    """The same large body under the same key is answered from what is kept; another one is a conflict."""
    partner.script("/json", reply(200, b'{"made":1}'))
    key = {"Idempotency-Key": "large-body-key"}
    bodies = [{"prompt": "x" * _LARGE}, {"prompt": "x" * _LARGE}, {"prompt": "y" * _LARGE}]
    found = [router.client.post(_RUN, json=body, headers=key).status_code for body in bodies]
    assert found == [200, 200, 409]
    assert len(partner.requests()) == 1


@pytest.mark.req("S-02", "R-10")
@pytest.mark.parametrize("indent", [None, 1])
def test_large_answer_reaches_the_caller_byte_by_byte(router: Server, partner: FakePartner, indent: int | None) -> None:
    """Whatever its texts hold, a large answer comes to the caller as the partner sent it, and again under its key."""
    content = json.dumps({"made": 'é\\"\n😀' * 20_000, "b": ["y" * 9000, {"c": None}]}, indent=indent).encode()
    partner.script("/json", reply(200, content))
    key = {"Idempotency-Key": f"large-answer-{indent}"}
    answers = [router.client.post(_RUN, json={"prompt": "a"}, headers=key) for _ in range(2)]
    assert [(answer.status_code, answer.content == content) for answer in answers] == [(200, True)] * 2
    assert len(partner.requests()) == 1


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Server]:
    """Return a server of this test."""
    with serving(tmp_path / "data", env=SETTINGS, arguments=("--no-local-partner",)) as server:
        yield server


@pytest.mark.req("S-02")
def test_reader_that_is_killed_is_replaced(alone: Server) -> None:
    """A process that has died takes no body with it but the one it had; the next is read by a new one, and all end."""
    path, body = "/v2/models/local/procedural-image-1/estimate", {"prompt": "x" * _LARGE}
    first = alone.client.post(path, json=body)
    [reader] = readers(alone)
    reader.send_signal(signal.SIGKILL)
    psutil.wait_procs([reader], 30)
    assert alone.client.post(path, json=body).status_code == first.status_code
    [other] = readers(alone)
    assert other.pid != reader.pid
    alone.stop()
    assert not psutil.pid_exists(other.pid) or other.status() == psutil.STATUS_ZOMBIE


@pytest.mark.req("S-02")
def test_body_that_ends_its_reader_is_refused_once(alone: Server) -> None:
    """A body whose process ends while it is read is refused, and is not tried again."""
    path, body = "/v2/models/local/procedural-image-1/estimate", {"prompt": "x" * _LARGE}
    alone.client.post(path, json=body)
    [reader] = readers(alone)
    os.kill(reader.pid, signal.SIGSTOP)
    answers: list[httpx.Response] = []
    asking = threading.Thread(target=lambda: answers.append(alone.client.post(path, json=body)))
    asking.start()
    time.sleep(4)  # more than it takes until the process has been given the body, which nothing tells
    os.kill(reader.pid, signal.SIGKILL)
    asking.join(30)
    assert [answer.status_code for answer in answers] == [400]
    assert "cannot be read" in answers[0].json()["detail"]
    wait_until(lambda: readers(alone) == [], "no other process had it")
    wait_until(lambda: len(alone.logged_events("BodyReaderFailed")) == 1, "the end of the process is told")
