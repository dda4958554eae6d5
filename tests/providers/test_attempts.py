"""Further tries: what is sent again and what is not, under which credential, and when a partner is left in peace."""

import asyncio

import pytest
from msgspec.structs import replace

from fairlead.domain.faults import Fault, InvalidInput, ProviderError, ProviderTimeout, ServiceUnavailable, Upstream
from fairlead.domain.runs.outcomes import Completed, Failed, Outcome, Reached
from fairlead.providers.answers import Accepted
from fairlead.providers.credentials import OWN, Credential, Secret
from fairlead.providers.exchange import Order
from fairlead.providers.health import Health
from fairlead.providers.spec import Cooldown, Provider, Retry
from fairlead.providers.spec_files import load_provider
from fake_partner import SECRET, Behaviour, FakePartner, drop, half, hang, provider_text, reply, reply_json
from providers.conftest import PartnerClient, partner_client

_TWICE = (Secret("first"), Secret("second"))
_SOON = Retry(times=2, first=0.001, at_most=1.0)


@pytest.fixture
def patient(provider: Provider) -> Provider:
    """Return the partner, asked up to three times, and one that honours idempotency keys."""
    return replace(provider, retry=_SOON)


@pytest.fixture
def plain(partner: FakePartner) -> Provider:
    """Return the partner, asked up to three times, and one that knows no idempotency keys."""
    return replace(load_provider(provider_text(partner.url, repeats_safely=False), "fake.toml"), retry=_SOON)


def send_order(provider: Provider, call: str = "json", *secrets: Secret) -> tuple[Outcome | Accepted, list[float]]:
    """Send one order on the whole way; what became of it, and the pauses before further tries."""

    async def send() -> tuple[Outcome | Accepted, list[float]]:
        async with partner_client(provider, secrets or (Secret(SECRET),)) as our:
            return await our.send(our.order(call)), [pause for _, pause in our.told]

    return asyncio.run(send())


def failure(reading: Outcome | Accepted) -> Failed:
    """The failure an order ended in."""
    assert isinstance(reading, Failed), reading
    return reading


@pytest.mark.parametrize("status", [425, 429, 500, 502, 503])
def test_transient_refusal_is_tried_again(plain: Provider, partner: FakePartner, status: int) -> None:
    """What the partner says no to for a moment is sent again, with the same bytes and no more than told."""
    partner.script("/json", reply(status), reply(status), reply(200, b'{"a":1}'))
    reading, pauses = send_order(plain)
    assert isinstance(reading, Completed)
    assert (len(pauses), [request.body for request in partner.requests("/json")]) == (2, [b"{}"] * 3)


def test_number_of_tries_is_bounded(plain: Provider, partner: FakePartner) -> None:
    """After the tries of the provider file the last failure stands."""
    partner.script("/json", reply(503))
    reading, pauses = send_order(plain)
    assert reading == Failed(ProviderError(upstream=Upstream(503)), 503, Reached.REFUSED)
    assert (len(pauses), len(partner.requests())) == (2, 3)


@pytest.mark.req("R-14", "R-29")
@pytest.mark.parametrize("call", ["json", "hasty"])
@pytest.mark.parametrize(
    "behaviour",
    [reply(400), reply(401), reply(404), reply(408), reply(422), reply(501), reply(504), half(b"{", 9), drop(), hang()],
    ids=["400", "401", "404", "408", "422", "501", "504", "half", "drop", "hang"],
)
def test_work_that_may_have_been_done_is_not_sent_again(
    plain: Provider, partner: FakePartner, call: str, behaviour: Behaviour
) -> None:
    """What will not change, and what the partner may have worked on, is sent once."""
    hasty = replace(plain.calls[call], timeout=1.0)
    partner.script(f"/{call}", behaviour)
    reading, pauses = send_order(replace(plain, calls={call: hasty}), call)
    assert isinstance(reading, Failed)
    assert (pauses, len(partner.requests())) == ([], 1)


def test_failed_connection_is_tried_again(plain: Provider) -> None:
    """A connection that could not be made may be tried again: nothing was sent."""
    reading, pauses = send_order(plain.at("http://127.0.0.1:1"))
    assert (failure(reading).reached, len(pauses)) == (Reached.NOTHING, 2)


def test_broken_connection_is_tried_again_under_an_idempotency_key(patient: Provider, partner: FakePartner) -> None:
    """Under its idempotency key an order may go again even where it may have been taken."""
    partner.script("/json", drop(), half(b"{", 9), reply(200, b'{"a":1}'))
    reading, _ = send_order(patient)
    assert isinstance(reading, Completed)
    assert [request.headers["idempotency-key"] for request in partner.requests()] == ["the-key"] * 3


@pytest.mark.req("R-14", "R-29")
@pytest.mark.parametrize("then", [reply(503), reply(429), reply(401)], ids=["503", "429", "401"])
def test_later_refusal_leaves_an_earlier_try_unknown(patient: Provider, partner: FakePartner, then: Behaviour) -> None:
    """Where one try may have been taken, nothing is certain any more: no other provider may be asked."""
    partner.script("/json", drop(), then)
    assert failure(send_order(patient)[0]).reached is Reached.UNKNOWN


@pytest.mark.req("R-24")
def test_timeout_is_not_repeated(patient: Provider, partner: FakePartner) -> None:
    """A caller waits for one time-out, not for three."""
    partner.script("/hasty", hang())
    assert send_order(patient, "hasty") == (Failed(ProviderTimeout(), None, Reached.UNKNOWN), [])


@pytest.mark.parametrize(("told", "at_least"), [("1", 1.0), ("0", 1.0)])
def test_retry_after_is_honoured(plain: Provider, partner: FakePartner, told: str, at_least: float) -> None:
    """`Retry-After` is honoured where there is patience for it."""
    partner.script("/json", reply(429, Retry_After=told), reply())
    reading, pauses = send_order(plain)
    assert isinstance(reading, Completed)
    assert pauses == [at_least]


def test_wait_beyond_our_patience_ends_the_call(plain: Provider, partner: FakePartner) -> None:
    """A partner that wants more patience than there is is not asked again: its words go to the caller."""
    partner.script("/json", reply(429, Retry_After="2"))
    full = ServiceUnavailable("The provider is at capacity.", 2, Upstream(429))
    assert send_order(plain) == (Failed(full, 429, Reached.REFUSED), [])


def test_pauses_grow_to_their_bound(plain: Provider, partner: FakePartner) -> None:
    """Each pause is at most twice the one before, at least half of that, and never above the bound."""
    partner.script("/json", reply(503))
    _, pauses = send_order(replace(plain, retry=Retry(times=5, first=0.01, at_most=0.04)))
    for pause, most in zip(pauses, [0.01, 0.02, 0.04, 0.04, 0.04], strict=True):
        assert most / 2 <= pause <= most


def test_other_credential_serves_during_a_cooldown(plain: Provider, partner: FakePartner) -> None:
    """When one of our credentials cools down, the other serves; when both do, nothing is sent."""
    partner.script("/json", reply(503))

    async def run() -> tuple[list[Outcome | Accepted], PartnerClient]:
        tired = replace(plain, retry=Retry(times=0), cooldown=Cooldown(after=1, seconds=60))
        async with partner_client(tired, _TWICE) as our:
            return [await our.send(our.order("json")) for _ in range(3)], our

    readings, our = asyncio.run(run())
    shown = [request.headers["authorization"] for request in partner.requests()]
    assert sorted(shown) == ["Bearer first", "Bearer second"]
    cooling = failure(readings[2])
    assert isinstance(cooling.fault, ServiceUnavailable)
    assert cooling.reached is Reached.NOTHING
    assert 0 < (cooling.fault.retry_after or 0) <= 60
    assert [health for _, health in our.changes] == [Health.COOLING_DOWN] * 2


def test_further_try_takes_the_next_credential(plain: Provider, partner: FakePartner) -> None:
    """A further try takes the next credential in turn."""
    partner.script("/json", reply(503), reply())
    assert isinstance(send_order(plain, "json", *_TWICE)[0], Completed)
    assert {request.headers["authorization"] for request in partner.requests()} == {"Bearer first", "Bearer second"}


@pytest.mark.parametrize("behaviour", [reply(401), reply(403), reply(429, retry_after="600")])
def test_refused_credential_is_replaced_by_the_next(
    plain: Provider, partner: FakePartner, behaviour: Behaviour
) -> None:
    """A partner that does not want one of our credentials, or not now, is shown the next one at once."""
    partner.script("/json", behaviour, reply(200, b'{"a":1}'))
    reading, pauses = send_order(plain, "json", *_TWICE)
    assert isinstance(reading, Completed)
    assert pauses == [0.0]
    assert len({request.headers["authorization"] for request in partner.requests("/json")}) == 2


@pytest.mark.parametrize("status", [401, 403])
def test_refused_credentials_end_the_call(plain: Provider, partner: FakePartner, status: int) -> None:
    """When every credential was refused, the call has failed: nothing changes by asking again."""
    partner.script("/json", reply(status))
    reading, pauses = send_order(plain, "json", *_TWICE)
    assert (failure(reading).upstream_status, pauses, len(partner.requests())) == (status, [0.0], 2)


def test_cooldown_between_tries_keeps_the_partners_answer(plain: Provider, partner: FakePartner) -> None:
    """A credential that begins to cool down between two tries does not change what the caller is told."""
    partner.script("/json", reply(503))

    async def run() -> Outcome | Accepted:
        wary = replace(plain, cooldown=Cooldown(after=1, seconds=60))
        async with partner_client(wary) as our:
            ref = "fake", our.credentials.all("fake")[0].label
            return await our.attempts.send(
                our.order("json"), lambda *_: our.healths.note_failure(ref, "", wary.cooldown, "answered 503")
            )

    assert asyncio.run(run()) == Failed(ProviderError(upstream=Upstream(503)), 503, Reached.REFUSED)
    assert len(partner.requests()) == 1


def test_probe_that_fails_is_tried_once_and_begins_the_next_cooldown(plain: Provider, partner: FakePartner) -> None:
    """A run that probes a credential after its cooldown keeps others away until it has ended, and itself then."""
    partner.script("/json", reply(503))
    now = [1000.0]

    async def run() -> tuple[Outcome | Accepted, PartnerClient]:
        wary = replace(plain, cooldown=Cooldown(after=1, seconds=60))
        async with partner_client(wary, clock=lambda: now[0]) as our:
            await our.send(our.order("json"))
            now[0] += 60
            return await our.send(our.order("json")), our

    reading, our = asyncio.run(run())
    assert failure(reading).upstream_status == 503
    assert len(partner.requests()) == 3 + 1
    assert [health for _, health in our.changes] == [Health.COOLING_DOWN, Health.PROBING, Health.COOLING_DOWN]


@pytest.mark.req("T-02")
def test_run_counts_once_towards_a_cooldown(plain: Provider, partner: FakePartner) -> None:
    """The tries of one run are one failure; one that is answered at last is none."""
    partner.script("/json", *[reply(503)] * 3, reply(503), reply(503), reply(), *[reply(503)] * 6)

    async def run() -> tuple[int, PartnerClient]:
        async with partner_client(replace(plain, cooldown=Cooldown(after=2, seconds=60))) as our:
            for _ in range(3):
                await our.send(our.order("json"))
            before = len(our.changes)
            await our.send(our.order("json"))
            return before, our

    before, our = asyncio.run(run())
    assert (before, [health for _, health in our.changes]) == (0, [Health.COOLING_DOWN])
    assert len(partner.requests()) == 12


@pytest.mark.parametrize("fault", [InvalidInput, None])
def test_callers_mistake_starts_no_cooldown(plain: Provider, partner: FakePartner, fault: type[Fault] | None) -> None:
    """What a partner answers in good health says that it is there, and ends the count of its failures."""
    healthy = reply(200) if fault is None else reply(404)
    partner.script("/json", *[reply(500), healthy] * 3, reply())

    async def run() -> PartnerClient:
        wary = replace(plain, retry=Retry(times=0), cooldown=Cooldown(after=2, seconds=60))
        async with partner_client(wary) as our:
            for _ in range(6):
                await our.send(our.order("json"))
            return our

    assert asyncio.run(run()).changes == []
    assert len(partner.requests()) == 6


@pytest.mark.req("R-17")
def test_callers_key_and_ours_cool_down_apart(plain: Provider, partner: FakePartner) -> None:
    """What becomes of a caller's own credential says nothing of ours, and our cooldown says nothing of theirs."""
    partner.script("/json", reply(401))

    async def run() -> tuple[list[Outcome | Accepted], PartnerClient]:
        tired = replace(plain, retry=Retry(times=0), cooldown=Cooldown(after=1, seconds=60))
        async with partner_client(tired) as our:
            own = order_with(our, "own-key")
            readings = [await our.send(own) for _ in range(3)]
            readings.append(await our.send(our.order("json")))
            readings.append(await our.send(our.order("json")))
            readings.append(await our.send(own))
            return readings, our

    readings, our = asyncio.run(run())
    shown = [request.headers["authorization"] for request in partner.requests()]
    assert shown == [*["Bearer own-key"] * 3, f"Bearer {SECRET}", "Bearer own-key"]
    assert failure(readings[4]).reached is Reached.NOTHING
    assert [ref[1] for ref, _ in our.changes] != [OWN]
    assert len(our.changes) == 1


def order_with(our: PartnerClient, text: str) -> Order:
    """An order with a caller's own credential."""
    order = our.order("json")
    credential: Credential = our.credentials.own("fake", text)
    return Order(order.provider, order.call, order.model, order.body, order.key, credential)


def test_accepted_task_is_not_submitted_again(plain: Provider, partner: FakePartner) -> None:
    """A handle ends the tries, and tells which credential the work was taken under."""
    partner.script("/tasks", reply(503), reply_json({"id": "t1"}))
    reading, pauses = send_order(plain, "task", Secret("first"))
    assert isinstance(reading, Accepted)
    assert (reading.handle, len(pauses)) == ("t1", 1)
    assert len(reading.credential) == 12
