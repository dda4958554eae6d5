"""Collecting what a queued run ended in: byte by byte what the synchronous call is answered with (R-34)."""

import json
from typing import Any, Final

import httpx
import pytest
from blake3 import blake3

from api.legs import FAL, NATIVE, PICTURE, images
from api.queues import Client, NewClient, is_refused
from damage import blob_file, flip
from fake_partner import Behaviour, FakePartner, drop, hang, reply, reply_json
from servers import wait_until

pytestmark = pytest.mark.req("R-34")

_OF_THE_RESULT: Final = ("content-type", "content-length", "x-content-type-options", "x-service-credits-used")
_DROPPED: Final = "x-service-router-dropped-params"
_LARGE: Final = b'{"data": "' + b"0123456789abcdef" * 8 * 1024 + b'"}'


def _collect(client: Client, model: str = "fake/json-1", body: Any = None, **options: Any) -> httpx.Response:
    """Queue a run and collect it when it has ended."""
    request_id = client.queue(model, body, **options)
    client.wait_for_completion(request_id, model)
    return client.collect(request_id, model)


def _is_the_same(collected: httpx.Response, synchronous: httpx.Response) -> None:
    """Assert that two answers are the same to anyone who asked for the result, byte by byte."""
    assert (collected.status_code, collected.content) == (synchronous.status_code, synchronous.content)
    for name in (*_OF_THE_RESULT, _DROPPED, "x-service-error-type", "x-service-upstream-status"):
        assert collected.headers.get(name) == synchronous.headers.get(name), name
    assert collected.headers["x-service-request-id"] != synchronous.headers["x-service-request-id"]


@pytest.mark.req("R-10", "R-28")
@pytest.mark.parametrize(
    ("content", "content_type"),
    [
        (b' {"made" : true,\n\t"n":1.0e0 }\n', "application/json"),
        ('{"é":"\\u00e9 🜁"}'.encode(), "application/json; charset=UTF-8"),
        (b'{"n":[1,2.50,null]}', "application/vnd.partner+json"),
        (b"{}", "application/json"),
        (_LARGE, "application/json"),
        (_LARGE[: 64 * 1024 - 2] + b'"}', "application/json"),
        (_LARGE[: 64 * 1024 - 1] + b'"}', "application/json"),
    ],
    ids=["spaces", "letters", "type", "empty", "large", "64 KiB", "a byte more"],
)
def test_collected_result_is_the_synchronous_one(
    client: Client, partner: FakePartner, content: bytes, content_type: str
) -> None:
    """The same bytes, media type, `nosniff` and credits, in the database or as a blob, as often as it is collected."""
    partner.script(NATIVE, reply(200, content, content_type))
    request_id = client.queue()
    client.wait_for_completion(request_id)
    synchronous = client.run()
    for _ in range(2):
        collected = client.collect(request_id)
        _is_the_same(collected, synchronous)
        assert collected.content == content
        assert (collected.headers["content-type"], collected.headers["x-content-type-options"]) == (
            "application/json",
            "nosniff",
        )
    assert client.charges(request_id) == ["0.01"]


@pytest.mark.req("R-12")
def test_dropped_parameters_are_told_to_collectors(client: Client, partner: FakePartner) -> None:
    """What a translation left out is told with the result that was translated back."""
    partner.script(FAL, images())
    body = {"prompt": "a", "user": "é, me", "n": 2}
    params = {"model_provider": "fal"}
    collected = _collect(client, "fake/many-1", body, params=params)
    assert len(json.loads(collected.headers[_DROPPED])) == 2
    _is_the_same(collected, client.run("fake/many-1", body, params=params))


@pytest.mark.req("R-13")
def test_strict_result_is_collected_as_it_came(client: Client, partner: FakePartner) -> None:
    """An alternate's own answer to its own body is collected as it came."""
    partner.script(FAL, reply(200, b'{"raw" : [ ]}', "application/json;v=1"))
    params = {"model_provider": "fal", "strict_mode": "true"}
    collected = _collect(client, "fake/many-1", {"text": "a"}, params=params)
    _is_the_same(collected, client.run("fake/many-1", {"text": "a"}, params=params))
    assert (collected.content, collected.headers["content-type"]) == (b'{"raw" : [ ]}', "application/json")


def test_polled_task_is_collected_as_it_is_answered(client: Client, partner: FakePartner) -> None:
    """What is submitted and polled at the partner is the same to a collector, too."""
    partner.script("/tasks", reply_json({"id": "t-1"}, 202))
    done = reply(200, b'{"state":"done",  "video":"https://cdn.example/v.mp4"}')
    partner.script("/tasks/t-1", reply_json({"state": "running"}), done)
    collected = _collect(client, "fake/task-1")
    _is_the_same(collected, client.run("fake/task-1"))


@pytest.mark.req("R-36")
def test_collected_result_links_to_our_copies(client: Client, partner: FakePartner) -> None:
    """The links of a collected result are to our copies, as those of a synchronous one, and open."""
    partner.script(NATIVE, reply_json({"data": [{"url": f"{partner.url}/p.png"}]}))
    partner.script("/p.png", reply(200, PICTURE, "image/png"))
    collected = _collect(client, "fake/many-1", {"prompt": "a"})
    synchronous = client.run("fake/many-1", {"prompt": "a"})
    links = [answer.json()["data"][0]["url"] for answer in (collected, synchronous)]
    for link in links:
        assert link.startswith(f"{client.server.url}/assets/")
        assert httpx.get(link, timeout=60).content == PICTURE
    assert collected.text.replace(links[0], "") == synchronous.text.replace(links[1], "")


def test_run_that_goes_on_is_202(new_client: NewClient, partner: FakePartner) -> None:
    """While it waits or is under way a collector gets 202 with its status, and when to come back."""
    client = new_client("--in-flight-limit", "1")
    partner.script(NATIVE, partner.hold(reply(200, b"{}")))
    first, second = client.queue(), client.queue()
    client.in_progress(first)
    for request_id, status in ((first, "IN_PROGRESS"), (second, "IN_QUEUE")):
        collected, told = client.collect(request_id), client.status(request_id)
        assert (collected.status_code, collected.json()["status"]) == (202, status)
        assert collected.content == told.content
        assert int(collected.headers["retry-after"]) > 0
        assert collected.headers["content-type"] == "application/json"
        assert "x-service-credits-used" not in collected.headers
    partner.release()
    client.wait_for_completion(second)
    assert (client.collect(first).content, client.collect(second).content) == (b"{}", b"{}")


_FAILURES: Final[dict[str, tuple[Behaviour, int, str]]] = {
    "fields": (reply_json({"error": {"message": "no", "param": "a.0", "kind": "odd"}}, 422), 422, "invalid_input"),
    "input": (reply_json({"error": {"message": "an odd seed"}}, 400), 400, "invalid_input"),
    "refused": (reply_json({"error": {"code": "refused", "side": "prompt"}}, 400), 400, "content_policy_violation"),
    "broken": (reply(500, b"{}"), 502, "provider_error"),
    "garbage": (reply(200, b"<html>", "text/html"), 502, "provider_error"),
    "gone": (drop(), 502, "provider_error"),
    "busy": (reply(429, b"{}", Retry_After="7"), 503, "service_unavailable"),
    "late": (reply_json({"error": {"code": "late"}}, 500), 504, "provider_timeout"),
}


@pytest.mark.req("R-19", "R-20", "R-21", "R-22")
@pytest.mark.parametrize("name", _FAILURES)
def test_failure_is_collected_as_it_is_answered(client: Client, partner: FakePartner, name: str) -> None:
    """A failure has the status, the bucket, the words and the headers that the synchronous call gets, each time."""
    answer, status, bucket = _FAILURES[name]
    partner.script(NATIVE, answer)
    request_id = client.queue()
    assert client.wait_for_completion(request_id) == {"status": "COMPLETED", "error_type": bucket}
    for _ in range(2):
        collected = client.collect(request_id)
        assert (collected.status_code, collected.headers["x-service-error-type"]) == (status, bucket)
        _is_the_same(collected, client.run())
        assert "x-service-credits-used" not in collected.headers
    assert client.kinds(request_id) == ["hold", "void"]
    assert client.charges(request_id) == []


@pytest.mark.req("R-21")
def test_partners_violations_are_collected(client: Client, partner: FakePartner) -> None:
    """What a partner says of a field is told to a collector, whose only bucket is the header."""
    partner.script(NATIVE, _FAILURES["fields"][0])
    collected = _collect(client)
    assert collected.status_code == 422
    assert collected.json() == {"detail": [{"loc": ["body", "a", 0], "msg": "no", "type": "odd"}]}


@pytest.mark.req("R-24")
def test_silent_partner_is_504_without_a_retry(client: Client, partner: FakePartner) -> None:
    """A partner that does not answer in its time is 504, and nothing is to be come back for: that is the end."""
    partner.script("/hasty", hang())
    collected = _collect(client, "fake/hasty-1")
    is_refused(collected, 504, "provider_timeout")
    assert "retry-after" not in collected.headers
    _is_the_same(collected, client.run("fake/hasty-1", params={"fallback_provider": "false"}))


@pytest.mark.req("R-27")
def test_billed_refusal_is_charged(client: Client, partner: FakePartner) -> None:
    """Where the model bills refusals, one is charged: it is collected as a failure, and tells no credits."""
    partner.script(NATIVE, _FAILURES["refused"][0])
    request_id = client.queue("fake/refusing-1")
    assert client.wait_for_completion(request_id, "fake/refusing-1")["error_type"] == "content_policy_violation"
    collected = client.collect(request_id, "fake/refusing-1")
    is_refused(collected, 400, "content_policy_violation")
    assert collected.json()["refusal_subject"] == collected.headers["x-service-refusal-subject"] == "input_text"
    assert "x-service-credits-used" not in collected.headers
    assert client.charges(request_id) == ["0.01"]


@pytest.mark.req("R-28")
def test_measured_price_is_the_charge(client: Client, partner: FakePartner) -> None:
    """What the partner reports is what is charged and told, within what was held."""
    partner.script(NATIVE, reply_json({"usage": {"units": 6}}))
    request_id = client.queue("fake/metered-1", {"units": 8})
    client.wait_for_completion(request_id, "fake/metered-1")
    assert client.charges(request_id) == ["0.03"]
    assert client.collect(request_id, "fake/metered-1").headers["x-service-credits-used"] == "6.33"


def test_head_tells_what_collecting_would(client: Client) -> None:
    """HEAD tells what GET would, without the result."""
    request_id = client.queue()
    client.wait_for_completion(request_id)
    answer = client.request("HEAD", f"/v2/models/fake/json-1/requests/{request_id}")
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-length"] == str(len(b'{"made":true}'))


@pytest.mark.req("R-25")
def test_run_goes_on_when_its_submitter_leaves(client: Client, partner: FakePartner) -> None:
    """The run is nobody's connection: who submitted it may be gone, and another key of the workspace collects it."""
    partner.script(NATIVE, partner.hold(reply(200, b'{"late":1}')))
    request_id = client.queue()
    client.in_progress(request_id)
    partner.release()
    client.wait_for_completion(request_id)
    other = Client(
        client.server, client.workspace, client.server.cli("keys", "create", client.workspace, "--json")["key"]
    )
    assert other.collect(request_id).content == b'{"late":1}'
    ended = wait_until(
        lambda: [run for run in client.server.logged_events("RunEnded") if run["workspace"] == client.workspace],
        "the log",
    )
    assert [(run["result"], run["caller_left"]) for run in ended] == [("success", False)]


@pytest.mark.req("S-08", "R-33")
@pytest.mark.parametrize(
    ("lost", "status", "bucket"), [("damaged", 500, "internal_error"), ("missing", 410, "request_not_found")]
)
def test_lost_result_is_an_error_and_its_status_says_which(
    client: Client, partner: FakePartner, lost: str, status: int, bucket: str
) -> None:
    """Damaged or lost bytes are not a result: status, events and collecting agree, and the operator is told."""
    content = b'{"data": "' + lost.encode() * 16 * 1024 + b'"}'
    partner.script(NATIVE, reply(200, content))
    request_id = client.queue()
    assert "error_type" not in client.wait_for_completion(request_id)
    path = blob_file(client.server.data / "blobs", blake3(content).hexdigest())
    kind = f"Blob{lost.capitalize()}"
    before = client.server.metric("fairlead_events_total", kind=kind)
    if lost == "damaged":
        flip(path, 5_000)
    else:
        path.unlink()
    is_refused(client.collect(request_id), status, bucket)
    stands = client.stands(request_id)
    assert (stands["status"], stands["error_type"]) == ("COMPLETED", bucket)
    events = client.request("GET", f"/v2/models/fake/json-1/requests/{request_id}/events").text
    assert f'"error_type":"{bucket}"' in events
    assert client.server.metric("fairlead_events_total", kind=kind) == before + 3
    assert client.charges(request_id) == ["0.01"]
    path.write_bytes(content)
    assert client.collect(request_id).content == content
    assert "error_type" not in client.stands(request_id)
