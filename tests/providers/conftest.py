"""A fake partner at the socket, its provider file as loaded, and everything that speaks to it, wired as in `server`."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

import pytest

from document_reading import answer_reader
from fairlead.domain.runs.outcomes import Outcome, Work
from fairlead.http_client.transport import Transport
from fairlead.providers.answers import Accepted
from fairlead.providers.attempts import Attempts
from fairlead.providers.credentials import Credentials, Secret
from fairlead.providers.exchange import Exchange, Order
from fairlead.providers.health import CredentialRef, Health, Healths
from fairlead.providers.spec import Provider
from fairlead.providers.spec_files import load_provider
from fake_partner import SECRET, FakePartner, provider_text

Ask: TypeAlias = Callable[..., Outcome]
OURS = (Secret(SECRET),)


@dataclass(frozen=True, slots=True)
class PartnerClient:
    """What speaks to one partner: `told` are further tries (number, pause), `changes` those of health."""

    provider: Provider
    transport: Transport
    credentials: Credentials
    exchange: Exchange
    attempts: Attempts
    healths: Healths
    told: list[tuple[int, float]] = field(default_factory=list)
    changes: list[tuple[CredentialRef, Health]] = field(default_factory=list)

    def order(self, call: str, body: bytes = b"{}", model: str = "a-model") -> Order:
        """An order for this partner."""
        return Order(self.provider.name, call, model, body, "the-key")

    async def send(self, order: Order) -> Outcome | Accepted:
        """Send an order as often as it may be."""
        return await self.attempts.send(order, lambda number, pause: self.told.append((number, pause)))

    async def once(self, call: str, body: bytes = b"{}", model: str = "a-model") -> Outcome | Accepted:
        """Send one order once, under our first credential."""
        return await self.exchange.send(self.order(call, body, model), self.credentials.all(self.provider.name)[0])


@asynccontextmanager
async def partner_client(
    provider: Provider,
    secrets: Sequence[Secret] = OURS,
    *,
    trusted: Sequence[str] = (),
    clock: Callable[[], float] | None = None,
) -> AsyncIterator[PartnerClient]:
    """Wire what speaks to a partner; `clock` is what its health goes by, `trusted` further addresses of an operator."""
    transport = Transport(trusted=[provider.base_url, *trusted])
    providers: Mapping[str, Provider] = {provider.name: provider}
    credentials = Credentials(providers, {provider.name: secrets})
    async with answer_reader() as answers:
        exchange = Exchange(providers, transport, credentials, answers)
        changes: list[tuple[CredentialRef, Health]] = []

        def hear(ref: CredentialRef, health: Health, _workspaces: int, _reason: str) -> None:
            changes.append((ref, health))

        healths = Healths(hear) if clock is None else Healths(hear, clock)
        attempts = Attempts(exchange, credentials, healths)
        try:
            yield PartnerClient(provider, transport, credentials, exchange, attempts, healths, changes=changes)
        finally:
            await transport.close()


@pytest.fixture
def provider(partner: FakePartner) -> Provider:
    """Return the provider file of the partner, as loaded."""
    return load_provider(provider_text(partner.url), "fake.toml")


@pytest.fixture
def handles() -> list[str]:
    """Return the handles an exchange has reported, in order."""
    return []


@pytest.fixture
def ask(provider: Provider, handles: list[str]) -> Ask:
    """Return a function that sends an order on the whole way and returns the outcome; `secrets` are ours."""

    def ask_once(
        call: str, body: bytes = b"{}", *, secrets: Sequence[Secret] = OURS, of: Provider = provider
    ) -> Outcome:
        return asyncio.run(_ask(of, call, body, secrets, handles))

    return ask_once


async def _ask(provider: Provider, call: str, body: bytes, secrets: Sequence[Secret], handles: list[str]) -> Outcome:
    async with partner_client(provider, secrets) as our:
        order = our.order(call, body)
        reading = await our.send(order)
        if not isinstance(reading, Accepted):
            return reading
        handles.append(reading.handle)
        return await our.exchange.follow(order, Work(reading.handle, reading.credential))
