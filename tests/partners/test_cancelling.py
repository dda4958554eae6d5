"""Cancelling at the built-in partner, as its provider file says it is done."""

import asyncio
from typing import Any, Final

import pytest

from document_reading import answer_reader
from fairlead.domain.faults import Cancelled
from fairlead.domain.runs.outcomes import Completed, Failed, Outcome, Reached, Work
from fairlead.http_client.transport import Transport
from fairlead.providers.answers import Accepted
from fairlead.providers.credentials import Credentials, Secret
from fairlead.providers.exchange import Exchange, Order
from fairlead.providers.spec_files import SPECS, load_providers

_LONG: Final = b'{"prompt": "nebula", "duration_seconds": 10, "width": 512, "height": 512}'
_SHORT: Final = b'{"prompt": "aurora", "duration_seconds": 0.5, "width": 64, "height": 64, "fps": 12}'


@pytest.mark.req("R-35")
@pytest.mark.parametrize(("body", "too_late"), [(_LONG, False), (_SHORT, True)])
def test_cancelled_video_ends_as_cancelled(vendor: Any, body: bytes, *, too_late: bool) -> None:
    """A video that is cancelled ends as cancelled, and one that was done keeps its result."""
    agreed, outcome = asyncio.run(_cancel(vendor.url, body, after_the_end=too_late))
    assert agreed
    if too_late:
        assert isinstance(outcome, Completed), outcome
    else:
        assert outcome == Failed(Cancelled(), 200, Reached.ACCEPTED)


async def _cancel(url: str, body: bytes, *, after_the_end: bool) -> tuple[bool, Outcome]:
    providers = {"local": load_providers(SPECS)["local"].at(url)}
    transport = Transport(trusted=[url])
    credentials = Credentials(providers, {"local": [Secret("any")]})
    async with answer_reader() as answers:
        exchange = Exchange(providers, transport, credentials, answers)
        order = Order("local", "video", "procedural", body, f"cancelling-{len(body)}")
        try:
            reading = await exchange.send(order, credentials.all("local")[0])
            assert isinstance(reading, Accepted), reading
            if after_the_end:
                await exchange.follow(order, Work(reading.handle, reading.credential))
            agreed = await exchange.cancel(order, Work(reading.handle, reading.credential))
            return agreed, await exchange.follow(order, Work(reading.handle, reading.credential))
        finally:
            await transport.close()
