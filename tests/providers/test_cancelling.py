"""Cancelling at a partner: how the request to stop is read, what is sent, and that it never decides how work ends."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

import pytest
from msgspec.structs import replace

from fairlead.domain.faults import Cancelled, InvalidInput, ProviderError, Upstream
from fairlead.domain.runs.outcomes import Completed, Failed, Outcome, Reached, Work
from fairlead.http_client.outcomes import Reply
from fairlead.providers import exchange
from fairlead.providers.answers import Accepted, classify_answer, classify_poll, classify_result, read_here
from fairlead.providers.credentials import Secret
from fairlead.providers.exchange import Order
from fairlead.providers.spec import Auth, Provider, Scheme
from fairlead.providers.spec_files import load_provider
from fake_partner import SECRET, Behaviour, FakePartner, drop, half, hang, redirect, reply, reply_json
from providers.conftest import OURS, PartnerClient, partner_client

_FILE: Final = """\
provider = "kind"
title = "A partner that can be stopped"
base_url = "{url}/base"
hosts = ["127.0.0.1"]

[auth]
scheme = "bearer"

[headers]
X-Fixed = "always"

[calls.sound]
protocol = "sync-bytes"
path = "/sound"
media_types = ["audio/wav"]

[calls.posted]
protocol = "submit-and-poll"
path = "/posted"
handle = "/id"
accept = "application/json"

[calls.posted.poll]
path = "/tasks/{{handle}}"
every = 0.01
status = "/state"
pending = ["running"]
succeeded = ["done"]
failed = ["failed"]
cancelled = ["stopped", "gone"]

[calls.posted.cancel]
path = "/{{model}}/{{handle}}/stop"

[calls.told]
protocol = "submit-and-poll"
path = "/told"
handle = {{ id = "/id", url = "/url" }}

[calls.told.poll]
path = "{{url}}"
every = 0.01
status = "/state"
pending = ["running"]
succeeded = ["done"]
result = {{ path = "{{url}}/result" }}

[calls.told.cancel]
path = "{{url}}/cancel"
method = "PUT"
body = {{ task = "{{id}}" }}

[calls.deleted]
protocol = "submit-and-poll"
path = "/deleted"
handle = "/id"

[calls.deleted.poll]
path = "/things/{{handle}}"
every = 0.01
status = "/state"
pending = ["running"]
succeeded = ["done"]
failed = ["failed"]

[calls.deleted.cancel]
path = "/things/{{handle}}"
method = "DELETE"

[calls.steadfast]
protocol = "submit-and-poll"
path = "/steadfast"
handle = "/id"

[calls.steadfast.poll]
path = "/steadfast/{{handle}}"
status = "/state"
succeeded = ["done"]

[[signs]]
means = "cancelled"
status = [404]
when = [{{ at = "/message", contains = ["no such task"] }}]

[[signs]]
means = "invalid"
status = [404]
reason = "/message"
"""
_RUNNING: Final = reply_json({"state": "running"})


@pytest.fixture
def kind(partner: FakePartner) -> Provider:
    """Return the partner that can be stopped."""
    return load_provider(_FILE.format(url=partner.url), "kind.toml")


def _with_exchange(
    provider: Provider,
    ask: Callable[[PartnerClient], Any],
    secrets: Sequence[Secret] = OURS,
    trusted: Sequence[str] = (),
) -> Any:
    async def run() -> Any:
        async with partner_client(provider, secrets, trusted=trusted) as our:
            found = ask(our)
            return await found if asyncio.iscoroutine(found) else found

    return asyncio.run(run())


def _cancel(provider: Provider, call: str, handle: str = "t1", **options: Any) -> bool:
    """Cancel work of a call, and tell whether it was agreed to."""

    def cancel(our: PartnerClient) -> Any:
        return our.exchange.cancel(our.order(call), Work(handle))

    agreed = _with_exchange(provider, cancel, **options)
    assert isinstance(agreed, bool)
    return agreed


def test_only_calls_whose_file_says_so_can_be_cancelled(kind: Provider) -> None:
    """Only a call whose file says so can be cancelled; nobody asks a stranger."""

    def is_cancellable(our: PartnerClient) -> list[tuple[bool, bool]]:
        pairs = [("kind", call) for call in kind.calls] + [("kind", "other"), ("gone", "posted")]
        return [(our.exchange.can_cancel(*pair), our.exchange.answers_bytes(*pair)) for pair in pairs]

    assert _with_exchange(kind, is_cancellable) == [
        *[(False, True), (True, False), (True, False), (True, False), (False, False)],
        *[(False, False), (False, False)],
    ]


@pytest.mark.req("R-35")
def test_cancellation_is_passed_on_once(kind: Provider, partner: FakePartner) -> None:
    """The partner is asked once, with our credential and fixed headers, and with no body there is no type of one."""
    partner.script("/base/a-model/a%2Fb/stop", reply(204, b""))
    assert _cancel(kind, "posted", "a/b")
    (request,) = partner.requests()
    headers = request.headers
    assert (request.method, request.body, headers["content-length"]) == ("POST", b"", "0")
    assert (headers["authorization"], headers["x-fixed"]) == (f"Bearer {SECRET}", "always")
    assert headers["accept"] == "application/json"
    assert "content-type" not in headers
    assert "idempotency-key" not in headers


def test_cancellation_follows_the_partners_address(kind: Provider, partner: FakePartner) -> None:
    """A path may go on behind an address the partner gave, and a body is filled in like that of a poll."""
    partner.script("/t/1/cancel", reply_json({"status": "requested"}, 202))
    handle = f'{{"id":"a\\"b","url":"{partner.url}/t/1"}}'
    assert _cancel(kind, "told", handle, trusted=[partner.url])
    (request,) = partner.requests()
    assert (request.method, request.target, request.body) == ("PUT", "/t/1/cancel", b'{"task":"a\\"b"}')
    assert request.headers["content-type"] == "application/json"


def test_cancellation_never_shows_our_credential_to_a_stranger(kind: Provider, partner: FakePartner) -> None:
    """An address outside the hosts of the file is not gone to."""
    assert not _cancel(kind, "told", '{"id":"a","url":"https://evil.example/t"}')
    assert partner.requests() == []


@pytest.mark.parametrize(
    "answer",
    [
        *[pytest.param(reply(status), id=str(status)) for status in (400, 401, 404, 409, 429, 500, 503)],
        pytest.param(redirect("/base/elsewhere"), id="redirect"),
        pytest.param(drop(), id="drop"),
        pytest.param(half(b"{", 9), id="half"),
    ],
)
def test_refused_cancellation_is_no_agreement(kind: Provider, partner: FakePartner, answer: Behaviour) -> None:
    """What is not a 2xx is no agreement, nothing is raised, and the partner is not pestered."""
    partner.script("/base/a-model/t1/stop", answer)
    assert not _cancel(kind, "posted")
    assert len(partner.requests()) == 1


def test_unreachable_partner_agrees_to_nothing(kind: Provider) -> None:
    """A partner nobody can reach agrees to nothing, and that is all."""
    assert not _cancel(kind.at("http://127.0.0.1:1"), "posted")
    assert not _cancel(kind.at("http://127.0.0.1:1"), "deleted")


def test_wait_for_a_cancellation_is_bounded(
    kind: Provider, partner: FakePartner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer is waited for no longer than that of a poll."""
    monkeypatch.setattr(exchange, "_POLL_ANSWER_SECONDS", 0.05)
    partner.script("/base/a-model/t1/stop", hang())
    assert not _cancel(kind, "posted")


@pytest.mark.parametrize(("call", "handle"), [("sound", "t1"), ("steadfast", "t1"), ("told", "t1"), ("told", "{}")])
def test_call_that_cannot_be_cancelled_is_not_asked_about(
    kind: Provider, partner: FakePartner, call: str, handle: str
) -> None:
    """A call without a word for it, or a handle that cannot be read, leads to no request at all."""
    assert not _cancel(kind, call, handle)
    assert partner.requests() == []


@pytest.mark.req("R-17")
def test_work_is_cancelled_under_its_own_credential(kind: Provider, partner: FakePartner) -> None:
    """The credential is the one the work was taken under, or the caller's own; without one nothing is sent."""
    partner.script("/base/a-model/t1/stop", reply())
    pair = [Secret("first"), Secret("second")]

    async def cancel(our: PartnerClient) -> None:
        own = our.credentials.own("kind", "theirs")
        second = our.credentials.all("kind")[1].label
        for order, label in (
            (our.order("posted"), second),
            (our.order("posted"), "unknown"),
            (Order("kind", "posted", "a-model", b"", "k", own), second),
        ):
            assert await our.exchange.cancel(order, Work("t1", label))

    _with_exchange(kind, cancel, secrets=pair)
    assert [request.headers["authorization"] for request in partner.requests()] == [
        "Bearer second",
        "Bearer first",
        "Bearer theirs",
    ]
    assert not _cancel(kind, "posted", secrets=())
    assert len(partner.requests()) == 3


def test_malformed_credential_cancels_nothing(kind: Provider, partner: FakePartner) -> None:
    """Where our credential cannot be shown nothing is sent, and nothing is raised."""
    paired = replace(kind, auth=Auth(Scheme.PAIR, ("X-Id", "X-Secret")))
    assert not _cancel(paired, "posted", secrets=[Secret("no-colon")])
    assert not _cancel(paired, "deleted", secrets=[Secret("no-colon")])
    assert partner.requests() == []


def test_work_is_looked_at_before_it_is_deleted(kind: Provider, partner: FakePartner) -> None:
    """Where cancelling is a DELETE, the work is looked at first, and deleted while it goes on."""
    partner.script("/base/things/t1", _RUNNING, reply(204, b""))
    assert _cancel(kind, "deleted")
    assert [request.method for request in partner.requests("/base/things/t1")] == ["GET", "DELETE"]


@pytest.mark.req("R-35")
@pytest.mark.parametrize(
    "seen",
    [
        pytest.param(reply_json({"state": "done"}), id="done"),
        pytest.param(reply_json({"state": "failed"}), id="failed"),
        pytest.param(reply_json({"message": "No such task."}, 404), id="cancelled"),
    ],
)
def test_late_cancellation_leaves_the_result(kind: Provider, partner: FakePartner, seen: Behaviour) -> None:
    """Work that has ended is left as it is: its result is to be paid, and to be had."""
    partner.script("/base/things/t1", seen)
    assert _cancel(kind, "deleted")
    assert [request.method for request in partner.requests()] == ["GET"]


@pytest.mark.parametrize("seen", [reply(503), drop()])
def test_work_that_cannot_be_seen_is_not_deleted(kind: Provider, partner: FakePartner, seen: Behaviour) -> None:
    """A look that says nothing of the work is no reason to delete it; the request may be passed on again."""
    partner.script("/base/things/t1", seen)
    assert not _cancel(kind, "deleted")
    assert {request.method for request in partner.requests()} == {"GET"}


@pytest.mark.req("R-35")
@pytest.mark.parametrize("state", ["stopped", "gone"])
def test_cancelled_work_ends_as_cancelled(kind: Provider, partner: FakePartner, state: str) -> None:
    """Work that was cancelled ends as cancelled, with the status of the poll that said so."""
    partner.script("/base/a-model/t1/stop", reply())
    partner.script("/base/tasks/t1", _RUNNING, _RUNNING, reply_json({"state": state}))
    assert _follow(kind, "posted") == Failed(Cancelled(), 200, Reached.ACCEPTED)


@pytest.mark.req("R-35")
def test_finished_work_survives_a_cancellation(kind: Provider, partner: FakePartner) -> None:
    """A partner that agreed to stop and finished all the same has finished."""
    partner.script("/base/a-model/t1/stop", reply())
    partner.script("/base/tasks/t1", _RUNNING, _RUNNING, reply_json({"state": "done"}))
    assert isinstance(_follow(kind, "posted"), Completed)


def _follow(provider: Provider, call: str) -> Outcome:
    """Follow work that is cancelled meanwhile."""

    async def follow(our: PartnerClient) -> Outcome:
        order = our.order(call)
        followed = asyncio.create_task(our.exchange.follow(order, Work("t1")))
        assert await our.exchange.cancel(order, Work("t1"))
        return await followed

    outcome = _with_exchange(provider, follow)
    assert isinstance(outcome, Completed | Failed)
    return outcome


@pytest.mark.req("R-35")
def test_deleted_work_is_cancelled_where_the_file_says_so(kind: Provider) -> None:
    """A partner that does not know the work any more has deleted it, where its file says so."""
    gone = read_here(Reply(404, {"content-type": "application/json"}, b'{"message": "There is no such task."}'))
    call = kind.calls["deleted"]
    assert call.polling is not None
    cancelled = Failed(Cancelled(), 404, Reached.ACCEPTED, "There is no such task.")
    assert classify_poll(kind, call, call.polling, gone) == cancelled
    assert classify_result(kind, call, gone) == cancelled
    other = read_here(Reply(404, {"content-type": "text/html"}, b"<html></html>"))
    failed = Failed(ProviderError(upstream=Upstream(404)), 404, Reached.ACCEPTED)
    assert classify_poll(kind, call, call.polling, other) == failed


def test_cancellation_in_the_first_answer_is_a_refusal(kind: Provider) -> None:
    """What means a cancellation in a poll means what it always did in the answer to the call itself."""
    gone = read_here(Reply(404, {"content-type": "application/json"}, b'{"message": "There is no such task."}'))
    reading = classify_answer(kind, kind.calls["deleted"], gone)
    assert not isinstance(reading, Completed | Accepted)
    assert reading.fault == InvalidInput("There is no such task.", Upstream(404, "There is no such task."))
    assert reading.reached is Reached.REFUSED
