"""What a submit is refused for: as a run is, before anything is held, and a few things of its own (R-32)."""

from collections.abc import Iterator
from typing import Any, Final

import httpx
import pytest

from api.legs import INLINE, NATIVE
from api.queues import BACKLOG, Client, NewClient, is_refused
from cases import for_each
from fake_partner import FakePartner, hang, reply
from servers import wait_until

pytestmark = pytest.mark.req("R-32")

_KEYED: Final = {"Idempotency-Key": "once"}
_PROMPT: Final = {"prompt": "a"}


def _nothing_was_begun(client: Client, partner: FakePartner) -> None:
    assert client.server.ledger(client.workspace) == []
    assert partner.requests() == []


@pytest.mark.req("R-21")
@pytest.mark.parametrize(
    ("body", "loc"),
    [
        ({}, ["body", "prompt"]),
        ({"prompt": 5}, ["body", "prompt"]),
        ({"prompt": "a", "n": 9}, ["body", "n"]),
        ({"prompt": "a", "model": "fake/other-1"}, ["body", "model"]),
    ],
)
def test_malformed_body_is_refused_at_the_submit(
    client: Client, partner: FakePartner, body: Any, loc: list[str]
) -> None:
    """What the model's schema rejects is a 422 at the submit, with the failing field."""
    answer = client.submit("fake/many-1", body, headers=_KEYED)
    assert (answer.status_code, answer.headers["x-service-error-type"]) == (422, "invalid_input")
    assert answer.json()["detail"][0]["loc"] == loc
    _nothing_was_begun(client, partner)
    assert client.submit("fake/many-1", _PROMPT, headers=_KEYED).status_code == 201  # the key is still free


def test_body_for_a_named_provider_is_validated(client: Client) -> None:
    """A body that is to be translated is native, and validated as such."""
    assert client.submit("fake/many-1", {}, params={"model_provider": "fal"}).status_code == 422


@for_each(
    ("options", "status", "bucket"),
    [
        ({"content": b"{"}, 400, "invalid_input"),
        ({"content": b"[]"}, 400, "invalid_input"),
        ({"content": b'{"a":1,"a":2}'}, 400, "invalid_input"),
        ({"content": b"a=1", "headers": {"Content-Type": "text/plain"}}, 400, "invalid_input"),
        ({"params": {"strict_mode": "yes"}}, 400, "invalid_input"),
        ({"params": {"reject_unknown_fields": ""}}, 400, "invalid_input"),
        ({"params": {"fallback_provider": "false"}}, 400, "invalid_input"),
        ({"params": {"fallback_provider": "true"}}, 400, "invalid_input"),
        ({"params": {"model_provider": "nobody"}}, 400, "invalid_input"),
        ({"params": {"model_provider": "fal"}}, 400, "invalid_input"),
        ({"headers": {"Idempotency-Key": ""}}, 400, "invalid_input"),
        ({"headers": {"Idempotency-Key": "k" * 256}}, 400, "invalid_input"),
        ({"model": "fake/none-1"}, 404, "model_not_found"),
        ({"model": "Fake/json-1"}, 404, "model_not_found"),
        ({"model": "lockbox/json-1"}, 503, "service_unavailable"),
        ({"headers": {"X-API-Key": "nobody's"}}, 401, "unauthorized"),
    ],
)
def test_malformed_call_is_refused_at_the_submit(
    client: Client, partner: FakePartner, options: dict[str, Any], status: int, bucket: str
) -> None:
    """A call that no run would be made of is refused with the status and the bucket that a run gets."""
    answer = client.submit(**options)
    is_refused(answer, status, bucket)
    assert "retry-after" not in answer.headers
    _nothing_was_begun(client, partner)


@pytest.mark.req("R-26")
def test_body_beyond_the_cap_is_413(client: Client, partner: FakePartner) -> None:
    """The cap on bodies is that of runs: up to it a body is kept, beyond it there is 413."""
    largest = b'{"a":"' + b"x" * (1024 * 1024 - 8) + b'"}'
    is_refused(client.submit(content=largest + b" "), 413, "invalid_input")
    _nothing_was_begun(client, partner)
    request_id = client.queue(content=largest)
    client.wait_for_completion(request_id)
    assert partner.requests()[0].body == largest


@pytest.mark.req("R-38")
@pytest.mark.parametrize(
    ("options", "bucket"),
    [
        (("--gate", "router=off"), "not_enabled"),
        (("--models", "none"), "forbidden"),
        (("--providers", "fal"), "forbidden"),
        (("--gate", "provider:fake=off"), "not_enabled"),
        (("--in-flight-limit", "0"), "forbidden"),
    ],
)
def test_queue_refuses_what_the_workspace_may_not_run(
    new_client: NewClient, partner: FakePartner, options: tuple[str, ...], bucket: str
) -> None:
    """Gates, entitlement, the policy on providers and the block of a workspace hold for its queue as well."""
    client = new_client(*options)
    is_refused(client.submit(), 403, bucket)
    _nothing_was_begun(client, partner)


def test_model_that_answers_with_bytes_is_not_queued(client: Client, partner: FakePartner) -> None:
    """A model whose partner answers with bytes is 403 `not_enabled`; synchronously it runs."""
    answer = client.submit("fake/bytes-1")
    is_refused(answer, 403, "not_enabled")
    assert "synchronously" in answer.json()["detail"]
    _nothing_was_begun(client, partner)
    partner.script("/bytes", reply(200, b"\x89PNG", "image/png"))
    assert client.run("fake/bytes-1").content == b"\x89PNG"


@pytest.mark.req("R-15")
@pytest.mark.parametrize(
    ("model", "status"), [("undeclared-1", 422), ("closed-1", 422), ("open-1", 201), ("unauthored-1", 201)]
)
def test_unknown_field_is_refused_on_request(client: Client, model: str, status: int) -> None:
    """`reject_unknown_fields` looks at the top level of authored, closed schemas only."""
    answer = client.submit(f"fake/{model}", {"strange": 1}, params={"reject_unknown_fields": "true"})
    assert answer.status_code == status
    if status == 422:
        assert answer.json()["detail"][0]["loc"] == ["body", "strange"]


@pytest.mark.req("R-11", "R-17")
@pytest.mark.parametrize("provider", ["fal", "higgsfield"])
def test_named_provider_conflicts_with_a_stored_key(client: Client, partner: FakePartner, provider: str) -> None:
    """An explicit provider beside a stored key is 409 with the words callers know it by."""
    client.store_key()
    answer = client.submit("fake/many-1", _PROMPT, params={"model_provider": provider})
    is_refused(answer, 409, "invalid_input")
    assert answer.json()["detail"].startswith("this request resolved a BYOK credential")
    assert "retry-after" not in answer.headers
    _nothing_was_begun(client, partner)


@pytest.mark.req("R-11")
def test_edit_at_a_provider_that_cannot_is_409(client: Client, partner: FakePartner) -> None:
    """An edit at a provider whose translation carries no picture is 409 with its words."""
    answer = client.submit("fake/many-1", {"prompt": "a", "image": INLINE}, params={"model_provider": "fal"})
    is_refused(answer, 409, "invalid_input")
    assert answer.json()["detail"].startswith("this request's image selects the edit operation")
    _nothing_was_begun(client, partner)


@pytest.mark.req("R-11", "R-38")
def test_gated_provider_is_refused_at_the_submit(new_client: NewClient) -> None:
    """The gate of a named provider and the policy of the workspace are read at the submit."""
    gated, ruled = new_client("--gate", "provider:fal=off"), new_client("--providers", "fake")
    is_refused(gated.submit("fake/many-1", _PROMPT, params={"model_provider": "fal"}), 403, "not_enabled")
    is_refused(ruled.submit("fake/many-1", _PROMPT, params={"model_provider": "fal"}), 403, "forbidden")


@pytest.mark.req("R-29")
def test_parked_runs_hold_money(new_client: NewClient, partner: FakePartner) -> None:
    """What waits is held for: a run the rest of the balance cannot pay is 402, until one that waits is cancelled."""
    client = new_client("--billing", "prepaid", "--in-flight-limit", "1", credit="0.03")
    partner.script(NATIVE, partner.hold(reply(200, b"{}")))
    ids = [client.queue() for _ in range(3)]
    assert (client.figure("held"), client.figure("in_flight")) == ("0.03", 1)
    is_refused(client.submit(), 402, "insufficient_credits")
    assert client.cancel(ids[-1]).status_code == 202
    assert client.figure("held") == "0.02"
    assert client.submit().status_code == 201


def test_empty_workspace_is_402_before_validation(new_client: NewClient) -> None:
    """With nothing left it is 402 whatever the body is."""
    client = new_client("--billing", "prepaid")
    is_refused(client.submit(content=b"no JSON"), 402, "insufficient_credits")


@pytest.mark.req("R-19")
def test_backlog_is_bounded(new_client: NewClient, partner: FakePartner) -> None:
    """A bounded number may wait; the next is 429 `queue_backlog_full` and holds nothing; a claim makes room."""
    client = new_client("--in-flight-limit", "1")
    partner.script(NATIVE, partner.hold(reply(200, b"{}")))
    first = client.queue()
    client.in_progress(first)
    ids = [client.queue() for _ in range(BACKLOG)]
    before = client.figure("held")
    full = client.submit(headers=_KEYED)
    is_refused(full, 429, "queue_backlog_full")
    assert str(BACKLOG) in full.json()["detail"]
    assert client.figure("held") == before
    assert new_client().submit().status_code == 201
    client.cancel(ids[3])
    assert client.submit(headers=_KEYED).status_code == 201


@pytest.mark.req("R-23")
def test_run_that_can_never_begin_is_refused(new_client: NewClient, partner: FakePartner) -> None:
    """One that is held for more than all runs in flight may be together is refused at once, with the three figures."""
    client = new_client("--commitment-limit", "0.99")
    answer = client.submit("fake/dearer-1")
    is_refused(answer, 429, "concurrency_limit_exceeded")
    figures = [answer.headers[f"x-committed-spend-{name}"] for name in ("limit", "current", "remaining")]
    assert figures == ["99", "0", "99"]
    _nothing_was_begun(client, partner)


def _half_a_body() -> Iterator[bytes]:
    """Half of what was promised, and then the line is dead."""
    yield b'{"a":'
    raise httpx.WriteError("gone")


@pytest.mark.req("R-19", "R-25")
def test_half_a_body_is_not_queued(client: Client, partner: FakePartner) -> None:
    """A caller who leaves while sending has asked for nothing."""
    with pytest.raises(httpx.HTTPError):
        client.submit(content=_half_a_body(), headers={"Content-Length": "10"})
    _nothing_was_begun(client, partner)


def test_slow_partner_does_not_delay_a_submit(client: Client, partner: FakePartner) -> None:
    """A submit never waits for anybody: it is answered while the partner says nothing at all."""
    partner.script(NATIVE, hang())
    request_id = client.queue()
    client.in_progress(request_id)
    wait_until(lambda: partner.requests(NATIVE), "the partner has the call")
    partner.reset()  # hangs up
    assert client.wait_for_completion(request_id)["error_type"] == "provider_error"
