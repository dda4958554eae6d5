"""A fake partner at the socket, its provider file as loaded, and a transport to reach it."""

import asyncio
from collections.abc import Callable, Iterator
from typing import TypeAlias

import pytest

from fairlead.domain.runs.outcomes import Outcome
from fairlead.providers.classify import Accepted
from fairlead.providers.exchange import Exchange, Order
from fairlead.providers.spec import Provider, load_provider
from fairlead.providers.transport import Transport
from fake_partner import SECRET, FakePartner, provider_text, running_partner

Ask: TypeAlias = Callable[..., Outcome]


@pytest.fixture(scope="session")
def shared_partner() -> Iterator[FakePartner]:
    """Return the partner all tests of this folder share."""
    with running_partner() as running:
        yield running


@pytest.fixture
def partner(shared_partner: FakePartner) -> Iterator[FakePartner]:
    """Return the partner with nothing scripted and nothing remembered."""
    yield shared_partner
    shared_partner.reset()


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
    """Return a function that sends an order through the exchange and returns the outcome."""

    def ask_once(call: str, body: bytes = b"{}", *, keys: dict[str, str] | None = None) -> Outcome:
        return asyncio.run(_ask(provider, call, body, {"fake": SECRET} if keys is None else keys, handles))

    return ask_once


async def _ask(provider: Provider, call: str, body: bytes, keys: dict[str, str], handles: list[str]) -> Outcome:
    transport = Transport()
    try:
        exchange = Exchange({provider.name: provider}, transport, keys)
        order = Order(provider.name, call, body, "the-key")
        reading = await exchange.send(order)
        if not isinstance(reading, Accepted):
            return reading
        handles.append(reading.handle)
        return await exchange.follow(order, reading.handle)
    finally:
        await transport.close()
