"""The exchange: what is sent to a partner, and how submitted work is followed to its end."""

import asyncio

import msgspec
import pytest
from msgspec.structs import replace

from fairlead.domain.faults import ProviderError, ProviderTimeout, ServiceUnavailable, Upstream
from fairlead.domain.runs.outcomes import Completed, Failed, Reached, Work
from fairlead.providers.credentials import Secret
from fairlead.providers.spec import Provider
from fairlead.providers.spec_files import load_provider
from fake_partner import SECRET, FakePartner, drop, half, hang, provider_text, reply, reply_json
from providers.conftest import Ask, partner_client

_NOT_CONFIGURED = ServiceUnavailable("The provider fake is not configured on this server.")
_BROKEN_OFF = "The connection to the provider broke off before its answer was complete."


def test_call_carries_key_credential_headers_and_body(partner: FakePartner, ask: Ask) -> None:
    """A call carries our credential, the run's idempotency key, the fixed headers, and the body as it is."""
    partner.script("/json", reply())
    ask("json", b'{"a" : 1}')
    (request,) = partner.requests("/json")
    sent = {name: request.headers[name] for name in ("authorization", "idempotency-key", "x-fixed", "content-type")}
    assert sent == {
        "authorization": f"Bearer {SECRET}",
        "idempotency-key": "the-key",
        "x-fixed": "always",
        "content-type": "application/json",
    }
    assert (request.method, request.body) == ("POST", b'{"a" : 1}')


def test_partner_without_idempotency_is_sent_no_key(partner: FakePartner) -> None:
    """A key means nothing to a partner that does not know them, and a repeat is then never safe."""
    provider = load_provider(provider_text(partner.url, repeats_safely=False), "fake.toml")
    partner.script("/json", reply())

    async def run() -> bool:
        async with partner_client(provider) as our:
            await our.once("json")
            return our.exchange.repeats_safely("fake")

    assert asyncio.run(run()) is False
    assert "idempotency-key" not in partner.requests("/json")[0].headers


def test_repeat_is_safe_only_where_the_file_says_so(provider: Provider) -> None:
    """Only a partner whose file says so may be asked twice."""

    async def run() -> tuple[bool, bool]:
        async with partner_client(provider) as our:
            return our.exchange.repeats_safely("fake"), our.exchange.repeats_safely("gone")

    assert asyncio.run(run()) == (True, False)


@pytest.mark.req("R-38")
def test_nothing_is_sent_without_our_credential(partner: FakePartner, ask: Ask) -> None:
    """Where our credential is missing nothing is sent, and the caller learns that the server lacks it."""
    assert ask("json", secrets=()) == Failed(_NOT_CONFIGURED, None, Reached.NOTHING)
    assert partner.requests() == []


@pytest.mark.req("R-24")
def test_slow_partner_times_out(partner: FakePartner, ask: Ask) -> None:
    """A partner that passes its own bound is `provider_timeout`, without a status it never gave."""
    partner.script("/hasty", hang())
    assert ask("hasty") == Failed(ProviderTimeout())


@pytest.mark.req("R-26")
def test_cut_answer_is_a_failure(partner: FakePartner, ask: Ask) -> None:
    """Half an answer is none."""
    partner.script("/json", half(b'{"a":', 100))
    assert ask("json") == Failed(ProviderError(_BROKEN_OFF, Upstream(200)))


def test_absent_partner_is_a_failure_that_took_nothing(provider: Provider, ask: Ask) -> None:
    """A partner nobody can reach is the partner's failure, and certainly has not begun."""
    outcome = ask("json", of=provider.at("http://127.0.0.1:1"))
    assert outcome == Failed(ProviderError("The provider could not be reached."), None, Reached.NOTHING)


def test_handle_is_reported_once_before_it_is_used(partner: FakePartner, ask: Ask, handles: list[str]) -> None:
    """Work that was accepted is named once, then followed to its result; submission carries the key, polls do not."""
    partner.script("/tasks", reply_json({"id": "t1"}, 202))
    partner.script("/tasks/t1", reply_json({"state": "queued"}), reply(200, b'{"state":"done"  }'))
    outcome = ask("task")
    assert isinstance(outcome, Completed)
    assert (handles, outcome.content) == (["t1"], b'{"state":"done"  }')
    polls = partner.requests("/tasks/t1")
    assert [(poll.method, poll.body) for poll in polls] == [("GET", b"")] * 2
    assert [poll.headers.get("idempotency-key") for poll in polls] == [None, None]
    assert {poll.headers["authorization"] for poll in polls} == {f"Bearer {SECRET}"}
    assert len(partner.requests("/tasks")) == 1


@pytest.mark.req("R-28")
def test_figures_told_before_the_result_are_kept_with_it(partner: FakePartner, ask: Ask, handles: list[str]) -> None:
    """What a submit tells of the price is stored with the handle, a poll may tell more; a word is no figure."""
    told = 'handle = { handle = "/id", owner = "/owner" }\ntold = { cost = "/cost", size = "/size", area = "/area" }'
    provider = load_provider(provider_text(partner.url).replace('handle = "/id"', told, 1), "fake.toml")
    partner.script("/tasks", reply_json({"id": "t1", "owner": "o", "cost": 4.5, "area": "large"}, 202))
    partner.script("/tasks/t1", reply_json({"state": "queued", "size": 2}), reply_json({"state": "done"}))
    outcome = ask("task", of=provider)
    assert isinstance(outcome, Completed)
    assert outcome.told == {"cost": "4.5", "size": "2"}
    assert [msgspec.json.decode(one) for one in handles] == [{"handle": "t1", "owner": "o", "cost": "4.5"}]


def test_handle_is_one_segment_of_the_path(partner: FakePartner, ask: Ask) -> None:
    """A handle is one segment of the poll's path, whatever characters it is made of."""
    handle = "../a b?c#d/é%2e"
    quoted = "/tasks/..%2Fa%20b%3Fc%23d%2F%C3%A9%252e"
    partner.script("/tasks", reply_json({"id": handle}))
    partner.script(quoted, reply_json({"state": "done"}))
    assert isinstance(ask("task"), Completed)
    assert [request.target for request in partner.requests(method="GET")] == [quoted]


def test_transient_trouble_does_not_end_a_task(partner: FakePartner, ask: Ask) -> None:
    """A poll that fails says nothing of the task: the next may succeed, and patience starts again with each answer."""
    partner.script("/tasks", reply_json({"id": "t1"}))
    partner.script(
        "/tasks/t1",
        *[reply(503), drop()],
        reply_json({"state": "running"}),
        *[reply(429), half(b"{", 9)],
        reply_json({"state": "done"}),
    )
    assert isinstance(ask("task"), Completed)
    assert len(partner.requests("/tasks/t1")) >= 6


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_patience_with_a_task_is_bounded(partner: FakePartner, ask: Ask, status: int) -> None:
    """More misses in a row than the file's patience (2) end the run with the last of them."""
    partner.script("/tasks", reply_json({"id": "t1"}))
    partner.script("/tasks/t1", reply(status))
    outcome = ask("task")
    assert isinstance(outcome, Failed)
    assert outcome.upstream_status == status
    assert len(partner.requests("/tasks/t1")) == 3


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 422, 501])
def test_lost_task_ends_the_run_at_once(partner: FakePartner, ask: Ask, status: int) -> None:
    """An answer that will not change ends the run at once, and is never the caller's fault."""
    partner.script("/tasks", reply_json({"id": "t1"}))
    partner.script("/tasks/t1", reply(status))
    assert ask("task") == Failed(ProviderError(upstream=Upstream(status)), status, Reached.ACCEPTED)
    assert len(partner.requests("/tasks/t1")) == 1


def test_failed_task_is_not_asked_about_again(partner: FakePartner, ask: Ask) -> None:
    """A task that failed has failed: the patience for failed polls is not spent on it."""
    partner.script("/tasks", reply_json({"id": "t1"}))
    partner.script("/tasks/t1", reply_json({"state": "failed"}))
    assert ask("task") == Failed(ProviderError(upstream=Upstream(200)), 200, Reached.ACCEPTED)
    assert len(partner.requests("/tasks/t1")) == 1


@pytest.mark.req("R-24")
def test_task_that_never_ends_times_out(provider: Provider, partner: FakePartner) -> None:
    """A task still pending when the file gives up is the partner's time-out; the pauses grow to their bound."""
    partner.script("/tasks/t1", reply_json({"state": "running"}))
    outcome, pauses = asyncio.run(_follow(provider, every=0.01, slower_by=2.0, at_most_every=0.04, give_up=0.5))
    assert outcome == Failed(ProviderTimeout(Upstream(200)), 200, Reached.UNDECIDED)
    assert [round(pause, 6) for pause in pauses[:5]] == [0.01, 0.02, 0.04, 0.04, 0.04]
    assert len(pauses) == len(partner.requests("/tasks/t1"))


def test_work_that_cannot_be_followed_is_an_error(provider: Provider) -> None:
    """A call without polling, or a partner whose credential is gone, cannot be followed."""

    async def follow(call: str, *secrets: Secret) -> object:
        async with partner_client(provider, secrets) as our:
            return await our.exchange.follow(our.order(call), Work("t1"))

    assert asyncio.run(follow("json", Secret(SECRET))) == Failed(ProviderError(), None, Reached.ACCEPTED)
    assert asyncio.run(follow("task")) == Failed(_NOT_CONFIGURED, None, Reached.ACCEPTED)


async def _follow(
    provider: Provider, *, every: float, slower_by: float, at_most_every: float, give_up: float
) -> tuple[object, list[float]]:
    """Follow a task with other pauses, and tell how long the loop was asked to pause each time."""
    call = provider.calls["task"]
    assert call.polling is not None
    polling = replace(
        call.polling, every=every, slower_by=slower_by, at_most_every=at_most_every, give_up_after=give_up
    )
    patient = replace(provider, calls={"task": replace(call, polling=polling)})
    pauses: list[float] = []
    loop = asyncio.get_running_loop()
    call_later = loop.call_later

    def note(delay: float, callback: object, *args: object, **options: object) -> object:
        if getattr(callback, "__name__", "") == "_set_result_unless_cancelled":  # what asyncio.sleep schedules
            pauses.append(delay)
        return call_later(delay, callback, *args, **options)  # type: ignore[arg-type]

    loop.call_later = note  # type: ignore[assignment,method-assign]
    async with partner_client(patient) as our:
        outcome = await our.exchange.follow(our.order("task"), Work("t1"))
    return outcome, pauses
