"""Scripted faults: by words in a body, and ordered for the next calls."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import httpx
import pytest

from servers import wait_until

IMAGE = "/openai/v1/images/generations"
SUBMIT = "/bfl/v1/flux-2-pro"


def prompt(words: str) -> dict[str, Any]:
    """Make a body for OpenAI's images and BFL's both."""
    return {"model": "gpt-image-2", "prompt": f"a lighthouse {words}", "size": "64x64"}


def poll_to_end(simulator: Any, submitted: Any) -> Any:
    """Poll a BFL task until it ended."""
    return simulator.until(
        lambda: simulator.get(submitted["polling_url"]), lambda document: document["status"] != "Pending"
    )[0]


def test_latency_delays_the_answer(simulator: Any) -> None:
    """The seconds are the argument."""
    began = time.monotonic()
    assert simulator.post(IMAGE, prompt("[[fault:latency:0.4]]")).status_code == 200
    assert time.monotonic() - began >= 0.4


def test_hang_never_answers(simulator: Any) -> None:
    """The caller's own timeout is what ends it."""
    with pytest.raises(httpx.ReadTimeout):
        simulator.client.post(IMAGE, json=prompt("[[fault:hang]]"), headers=dict(simulator.keys("openai")), timeout=0.5)


def test_rate_limited_has_the_vendors_body_and_retry_after(simulator: Any) -> None:
    """429, in the vendor's words, with the seconds that were asked for."""
    answer = simulator.post(IMAGE, prompt("[[fault:rate-limited:7]]"))
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "7")
    assert answer.json()["error"]["code"] == "rate_limit_exceeded"


@pytest.mark.parametrize(("argument", "status"), [("", 500), (":503", 503), (":529", 529), (":404", 500)])
def test_server_error_has_the_status_asked_for(simulator: Any, argument: str, status: int) -> None:
    """A 5xx status is taken from the argument; anything else is 500."""
    answer = simulator.post(IMAGE, prompt(f"[[fault:server-error{argument}]]"))
    assert answer.status_code == status
    assert answer.json()["error"]["type"] == "server_error"


def test_half_a_body_breaks_off(simulator: Any) -> None:
    """The length declared is not the length sent."""
    with pytest.raises(httpx.RemoteProtocolError):
        simulator.post(IMAGE, prompt("[[fault:half-body]]"))


def test_malformed_is_200_and_no_json(simulator: Any) -> None:
    """JSON that ends in the middle, said to be JSON."""
    answer = simulator.post(IMAGE, prompt("[[fault:malformed]]"))
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    with pytest.raises(json.JSONDecodeError):
        answer.json()


def test_html_is_a_page_with_200(simulator: Any) -> None:
    """What a proxy in the way would say."""
    answer = simulator.post(IMAGE, prompt("[[fault:html]]"))
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")


def test_unauthorized_and_invalid_are_the_vendors_own(simulator: Any) -> None:
    """Both come without a bad key or a bad field."""
    answer = simulator.post(IMAGE, prompt("[[fault:unauthorized]]"))
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "invalid_api_key")
    answer = simulator.post(IMAGE, prompt("[[fault:invalid]]"))
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "prompt")


def test_stuck_task_never_ends(simulator: Any) -> None:
    """Long after its time it is still running."""
    submitted = simulator.post(SUBMIT, prompt("[[fault:stuck]]")).json()
    time.sleep(0.5)
    assert simulator.get(submitted["polling_url"]).json()["status"] == "Pending"


@pytest.mark.parametrize(("argument", "status"), [("", 403), (":404", 404)])
def test_expired_link_no_longer_answers(simulator: Any, argument: str, status: int) -> None:
    """The task ends well, and its link is of no use."""
    done = poll_to_end(simulator, simulator.post(SUBMIT, prompt(f"[[fault:expired-link{argument}]]")).json())
    assert done["status"] == "Ready"
    assert httpx.get(done["result"]["sample"]).status_code == status


def test_words_meet_only_the_call_that_has_them(simulator: Any) -> None:
    """The call before, the poll and the call after are none the worse."""
    failing = simulator.post(SUBMIT, prompt("[[fault:failed]]")).json()
    sound = simulator.post(SUBMIT, prompt("")).json()
    assert poll_to_end(simulator, failing)["status"] == "Error"
    assert poll_to_end(simulator, sound)["status"] == "Ready"


def test_words_of_no_fault_are_words(simulator: Any) -> None:
    """A name nobody knows is part of the prompt."""
    assert simulator.post(IMAGE, prompt("[[fault:moonlight]]")).status_code == 200


def test_two_faults_meet_one_call(simulator: Any) -> None:
    """Latency and another fault go together."""
    began = time.monotonic()
    answer = simulator.post(IMAGE, prompt("[[fault:latency:0.2]] [[fault:server-error:502]]"))
    assert answer.status_code == 502
    assert time.monotonic() - began >= 0.2


def test_ordered_fault_meets_the_next_calls_and_no_more(own_simulator: Any) -> None:
    """Two calls are limited, the third is served, and other providers never notice."""
    own_simulator.order("openai", "rate-limited", argument=3, times=2)
    assert own_simulator.post(SUBMIT, prompt("")).status_code == 200
    assert [own_simulator.post(IMAGE, prompt("")).status_code for _ in range(3)] == [429, 429, 200]


def test_ordered_fault_may_wait_for_a_path(own_simulator: Any) -> None:
    """The submission passes and the poll fails."""
    own_simulator.order("bfl", "server-error", argument=502, path="get_result")
    submitted = own_simulator.post(SUBMIT, prompt("")).json()
    assert own_simulator.get(submitted["polling_url"]).status_code == 502
    assert poll_to_end(own_simulator, submitted)["status"] == "Ready"


def test_ordered_fault_of_work_waits_for_work(own_simulator: Any) -> None:
    """A poll does not use up a refusal."""
    submitted = own_simulator.post(SUBMIT, prompt("")).json()
    own_simulator.order("bfl", "refused")
    assert poll_to_end(own_simulator, submitted)["status"] == "Ready"
    refused = own_simulator.post(SUBMIT, prompt("")).json()
    assert poll_to_end(own_simulator, refused)["status"] == "Request Moderated"


def test_orders_can_be_listed_and_cleared(own_simulator: Any) -> None:
    """GET shows what is left; DELETE forgets it."""
    own_simulator.order("bfl", "hang", times=5)
    own_simulator.order("openai", "html")
    assert len(own_simulator.client.get("/_simulator/faults").json()["faults"]) == 2
    own_simulator.client.delete("/_simulator/faults", params={"provider": "bfl"})
    assert [left["provider"] for left in own_simulator.client.get("/_simulator/faults").json()["faults"]] == ["openai"]


class _Receiver(BaseHTTPRequestHandler):
    """Keeps what is posted."""

    def do_POST(self) -> None:
        """Keep the body and say thanks."""
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.received.append(body)  # type: ignore[attr-defined]
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_arguments: Any) -> None:
        """Say nothing."""


@pytest.mark.parametrize(("words", "count"), [("", 1), ("[[fault:duplicate-webhook]]", 2)])
def test_webhook_is_posted_once_or_twice(simulator: Any, words: str, count: int) -> None:
    """The completion is posted at the end, and doubled on request."""
    with HTTPServer(("127.0.0.1", 0), _Receiver) as server:
        server.received = []  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/done"
        submitted = simulator.post(SUBMIT, {**prompt(words), "webhook_url": address}).json()
        received = server.received  # type: ignore[attr-defined]
        wait_until(lambda: len(received) >= count, "the webhooks")
        time.sleep(0.3)  # no other follows
        server.shutdown()
    assert [(body["id"], body["status"]) for body in received] == [(submitted["id"], "Ready")] * count
