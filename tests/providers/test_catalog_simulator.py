"""A call of each protocol against the partner simulator, under every kind of fault that it has.

That every call of every provider file is understood is proven elsewhere: `test_catalog_runs.py` has each completed, and
`test_catalog_recordings.py` reads what vendors really answered, which nobody wrote to fit our files.
"""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import httpx
import pytest
from msgspec.structs import replace

from catalog_samples import Sample, plan_call, samples, shipped_catalog, shipped_providers
from document_reading import answer_reader
from fairlead.clock import Clock
from fairlead.domain.catalog.models import Leg
from fairlead.domain.faults import (
    Cancelled,
    ContentPolicyViolation,
    InputRejected,
    InvalidInput,
    ProviderError,
    ProviderTimeout,
    ServiceUnavailable,
)
from fairlead.domain.runs.outcomes import Completed, Failed, Outcome, Reached, Work
from fairlead.http_client.transport import Transport
from fairlead.providers.answers import Accepted
from fairlead.providers.attempts import Attempts
from fairlead.providers.credentials import Credentials
from fairlead.providers.exchange import Exchange, Order
from fairlead.providers.health import Healths
from fairlead.providers.spec import Call, Protocol, Provider, Retry
from fairlead.server.installation import LOCAL, Partners, partners
from fairlead.server.settings import Settings
from servers import kill_at_last

_TASK_SECONDS: Final = "0.02"
_SLOW_SECONDS: Final = "600"
"""Long enough for a task to stay queued while it is cancelled."""
_POLL_SECONDS: Final = 0.01
_HASTY_SECONDS: Final = 0.4
_PATIENCE_SECONDS: Final = 60.0
_PECULIAR: Final = {"fal", "tencent", "veo", "xai"}
"""Those that answer some faults in a way of their own: failures with 200, one word for all, pictures made black."""
_PROVIDERS: Final = shipped_providers()


@dataclass(frozen=True, slots=True)
class Case:
    """A call of a provider, and a sample of a model that reaches it over one of its legs."""

    provider: str
    call: str
    sample: Sample
    leg: Leg

    def __str__(self) -> str:
        return f"{self.provider}.{self.call}"


def _reached() -> Iterator[Case]:
    """One case for each call that a sample reaches."""
    found: set[tuple[str, str]] = set()
    today = Clock().today()
    models = [model for model in shipped_catalog().models.values() if not model.is_retired(today)]
    for sample in chain.from_iterable(samples(model) for model in models):
        for leg in sample.legs():
            reached = leg.provider, leg.calls[sample.operation.name]
            if leg.provider != LOCAL and reached not in found:
                found.add(reached)
                yield Case(*reached, sample, leg)


def _call(case: Case) -> Call:
    return _PROVIDERS[case.provider].calls[case.call]


def _one_of_each(cases: Iterable[Case]) -> list[Case]:
    """The first case of each protocol."""
    found: dict[Protocol, Case] = {}
    for case in cases:
        if case.provider not in _PECULIAR:
            found.setdefault(_call(case).protocol, case)
    return list(found.values())


REACHED: Final = list(_reached())
every_protocol = pytest.mark.parametrize("case", _one_of_each(REACHED), ids=str)
every_task = pytest.mark.parametrize(
    "case", _one_of_each(case for case in REACHED if _call(case).polling is not None), ids=str
)
every_stoppable = pytest.mark.parametrize(
    "case", _one_of_each(case for case in REACHED if _call(case).cancel is not None), ids=str
)


@dataclass(frozen=True, slots=True)
class World:
    """A running simulator, and every provider at it."""

    url: str
    partners: Partners
    control: httpx.Client

    def clear(self) -> None:
        """Forget the faults that nothing met."""
        self.control.delete("/_simulator/faults").raise_for_status()

    def order(self, provider: str, fault: str, argument: str = "") -> None:
        """Order a fault for the next call of a provider."""
        wanted = {"provider": provider, "fault": fault, "argument": argument}
        self.control.post("/_simulator/faults", json=wanted).raise_for_status()

    def ask(self, case: Case, fault: str = "", argument: str = "", **changes: Any) -> Outcome:
        """Send the case's work, which meets a fault, and follow it to its end; `changes` are of the call."""
        if fault:
            self.order(case.provider, fault, argument)
        return asyncio.run(self._ask(case, changes, fault_of_poll=""))

    def ask_with_bad_poll(self, case: Case, fault: str) -> Outcome:
        """Send the case's work, whose first poll meets a fault, and follow it to its end."""
        return asyncio.run(self._ask(case, {}, fault_of_poll=fault))

    def ask_and_cancel(self, case: Case) -> tuple[bool, Outcome]:
        """Send the case's work, cancel it, and follow it to its end; tell whether the vendor agreed."""
        return asyncio.run(self._ask_and_cancel(case))

    async def _ask(self, case: Case, changes: Mapping[str, Any], fault_of_poll: str) -> Outcome:
        async with self._exchange(case, changes) as (exchange, attempts, order):
            reading = await attempts.send(order, lambda *_: None)
            if not isinstance(reading, Accepted):
                return reading
            if fault_of_poll:
                await asyncio.to_thread(self.order, case.provider, fault_of_poll)
            return await exchange.follow(order, Work(reading.handle, reading.credential))

    async def _ask_and_cancel(self, case: Case) -> tuple[bool, Outcome]:
        async with self._exchange(case, {}) as (exchange, attempts, order):
            reading = await attempts.send(order, lambda *_: None)
            assert isinstance(reading, Accepted), reading
            agreed = await exchange.cancel(order, Work(reading.handle, reading.credential))
            async with asyncio.timeout(_PATIENCE_SECONDS):
                return agreed, await exchange.follow(order, Work(reading.handle, reading.credential))

    @asynccontextmanager
    async def _exchange(
        self, case: Case, changes: Mapping[str, Any]
    ) -> AsyncIterator[tuple[Exchange, Attempts, Order]]:
        """What speaks to the case's provider, and the order for its work."""
        providers = {case.provider: _quick(self.partners.providers[case.provider], case.call, changes)}
        transport = Transport(trusted=[self.url])
        credentials = Credentials(providers, self.partners.secrets)
        async with answer_reader() as answers:
            exchange = Exchange(providers, transport, credentials, answers)
            attempts = Attempts(exchange, credentials, Healths(lambda *_: None))
            plan = plan_call(case.sample, case.leg)
            order = Order(plan.provider, plan.call, plan.name, plan.body, "0198f000-0000-7000-8000-000000000001")
            try:
                yield exchange, attempts, order
            finally:
                await transport.close()


def _quick(provider: Provider, name: str, changes: Mapping[str, Any]) -> Provider:
    """A provider that is asked once, and polled without pauses worth speaking of."""
    call = replace(provider.calls[name], **changes)
    if call.polling is not None:
        call = replace(call, polling=replace(call.polling, every=_POLL_SECONDS, at_most_every=_POLL_SECONDS))
    return replace(provider, calls={name: call}, retry=Retry(times=0))


@contextmanager
def _running(task_seconds: str) -> Iterator[World]:
    command = [sys.executable, "-m", "fairlead_partners.simulator", "--task-seconds", task_seconds]
    with subprocess.Popen(command, text=True, stdout=subprocess.PIPE) as process, kill_at_last(process):
        assert process.stdout is not None
        url = process.stdout.readline().removeprefix("listening on ").strip()
        with httpx.Client(base_url=url) as control:
            yield World(url, partners(Settings(), None, url), control)


@pytest.fixture(scope="module")
def shared_world() -> Iterator[World]:
    """Return every provider as `serve --simulate` has them, at a simulator whose work takes no time."""
    with _running(_TASK_SECONDS) as world:
        yield world


@pytest.fixture(scope="module")
def slow_world() -> Iterator[World]:
    """Return the same at a simulator whose work is not done before it is cancelled."""
    with _running(_SLOW_SECONDS) as world:
        yield world


@pytest.fixture
def world(shared_world: World) -> Iterator[World]:
    """Return the world without any faults left over."""
    yield shared_world
    shared_world.clear()


def test_every_call_of_a_provider_file_is_reached_by_a_sample() -> None:
    """So the run of the whole catalog has each call completed, and each protocol has a case here."""
    calls = {(name, call) for name, provider in _PROVIDERS.items() if name != LOCAL for call in provider.calls}
    assert {(case.provider, case.call) for case in REACHED} == calls
    assert {_call(case).protocol for case in _one_of_each(REACHED)} == set(Protocol)


@pytest.mark.req("R-20")
@every_protocol
def test_refused_input_is_a_policy_violation(world: World, case: Case) -> None:
    """What the vendor's moderation refuses is told as a content policy violation, and never as of the output."""
    outcome = world.ask(case, "refused")
    assert isinstance(outcome, Failed), outcome
    assert isinstance(outcome.fault, ContentPolicyViolation), outcome
    assert not (outcome.fault.subject or "").startswith("output"), outcome


@pytest.mark.req("R-20")
@every_protocol
def test_refused_output_is_a_policy_violation(world: World, case: Case) -> None:
    """What the vendor made and then withheld is a content policy violation too."""
    outcome = world.ask(case, "refused-output")
    assert isinstance(outcome, Failed), outcome
    assert isinstance(outcome.fault, ContentPolicyViolation), outcome


@pytest.mark.req("R-21")
@every_protocol
def test_rejected_body_is_the_callers_mistake(world: World, case: Case) -> None:
    """A validation error of the vendor is the caller's to mend, with the vendor's reason."""
    outcome = world.ask(case, "invalid", "The seed is odd")
    assert isinstance(outcome, Failed), outcome
    assert isinstance(outcome.fault, InvalidInput | InputRejected), outcome
    reason = outcome.fault.detail if isinstance(outcome.fault, InvalidInput) else outcome.fault.violations[0].msg
    assert "The seed is odd" in reason, outcome
    assert "The provider rejected" not in reason, outcome


@pytest.mark.req("R-39")
@every_protocol
def test_rate_limit_of_a_vendor_says_when_to_come_back(world: World, case: Case) -> None:
    """A rate limit is unavailability with the vendor's own `Retry-After`, and certainly no work taken."""
    outcome = world.ask(case, "rate-limited", "7")
    assert isinstance(outcome, Failed), outcome
    assert isinstance(outcome.fault, ServiceUnavailable), outcome
    assert (outcome.fault.retry_after, outcome.reached) == (7, Reached.REFUSED), outcome
    assert outcome.upstream_status == 429, outcome


@pytest.mark.parametrize("status", ["500", "502", "503"])
@every_protocol
def test_crash_of_a_vendor_is_its_failure(world: World, case: Case, status: str) -> None:
    """A 5xx in the vendor's words is the vendor's failure, or that it has no room."""
    outcome = world.ask(case, "server-error", status)
    assert isinstance(outcome, Failed), outcome
    assert isinstance(outcome.fault, ProviderError | ServiceUnavailable), outcome
    assert isinstance(outcome.fault, ProviderError) or status == "503", outcome
    assert outcome.upstream_status == int(status)


@every_protocol
def test_refused_key_of_ours_is_the_vendors_failure(world: World, case: Case) -> None:
    """A vendor that does not know our key has failed as far as the caller can tell."""
    outcome = world.ask(case, "unauthorized")
    assert isinstance(outcome, Failed), outcome
    assert isinstance(outcome.fault, ProviderError), outcome


@pytest.mark.req("R-26")
@pytest.mark.parametrize("fault", ["malformed", "html", "half-body"])
@every_protocol
def test_garbled_answer_is_never_a_result(world: World, case: Case, fault: str) -> None:
    """Half an answer, a page or broken JSON is nobody's result."""
    outcome = world.ask(case, fault)
    assert isinstance(outcome, Failed), outcome
    assert isinstance(outcome.fault, ProviderError), outcome


@pytest.mark.req("R-24")
@every_protocol
def test_silent_vendor_times_out(world: World, case: Case) -> None:
    """A vendor that never answers is given up at the call's own bound."""
    outcome = world.ask(case, "hang", timeout=_HASTY_SECONDS)
    while isinstance(outcome, Failed) and outcome.reached is Reached.NOTHING:  # not connected in so short a time
        outcome = world.ask(case, timeout=_HASTY_SECONDS)
    assert outcome == Failed(ProviderTimeout())


@every_protocol
def test_failed_work_is_the_vendors_failure(world: World, case: Case) -> None:
    """Work that the vendor says has failed is the vendor's failure."""
    outcome = world.ask(case, "failed")
    assert isinstance(outcome, Failed), outcome
    assert isinstance(outcome.fault, ProviderError), outcome


@every_protocol
def test_result_with_an_expired_link_completes(world: World, case: Case) -> None:
    """A result whose links answer no more is still a result, with the vendor's links in it."""
    outcome = world.ask(case, "expired-link")
    assert isinstance(outcome, Completed), outcome


@pytest.mark.parametrize("fault", ["server-error", "rate-limited", "half-body"])
@every_task
def test_one_bad_poll_does_not_end_the_work(world: World, case: Case, fault: str) -> None:
    """A poll that fails says nothing of the work, which goes on."""
    outcome = world.ask_with_bad_poll(case, fault)
    assert isinstance(outcome, Completed), outcome


@every_task
def test_stuck_work_times_out(world: World, case: Case) -> None:
    """Work that never ends is given up when the provider file says so, as the vendor's time-out."""
    polling = _polling(world.partners.providers[case.provider].calls[case.call])
    outcome = world.ask(case, "stuck", polling=replace(polling, give_up_after=0.2))
    assert isinstance(outcome, Failed)
    assert (type(outcome.fault), outcome.reached) == (ProviderTimeout, Reached.UNDECIDED)


@pytest.mark.req("R-35")
@every_stoppable
def test_cancelled_work_is_stopped_by_the_vendor(slow_world: World, case: Case) -> None:
    """A vendor that can cancel agrees to it, and the poll that follows says so."""
    agreed, outcome = slow_world.ask_and_cancel(case)
    assert agreed
    assert isinstance(outcome, Failed), outcome
    assert (outcome.fault, outcome.reached) == (Cancelled(), Reached.ACCEPTED), outcome


def _polling(call: Call) -> Any:
    assert call.protocol is Protocol.SUBMIT_AND_POLL
    return call.polling
