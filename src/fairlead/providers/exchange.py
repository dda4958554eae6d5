"""One exchange for every partner: send, wait, poll, and read the answer. No code per partner."""

import asyncio
import time
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

import msgspec

from fairlead.domain.faults import ProviderError, ProviderTimeout, ServiceUnavailable
from fairlead.domain.runs.outcomes import Completed, Failed, Outcome
from fairlead.providers.classify import Accepted, Pending, Reply, classify_answer, classify_poll
from fairlead.providers.spec import Call, Polling, Provider
from fairlead.providers.transport import TooSlowError, Transport, TransportError, UnreachableError

_JSON: Final = "application/json"
_POLL_ANSWER_SECONDS: Final = 30.0
_TRANSIENT: Final = frozenset({408, 425, 429, 500, 502, 503, 504})


class Order(msgspec.Struct, frozen=True):
    """Work for a partner: which call, with which body, under which idempotency key (the run's id)."""

    provider: str
    call: str
    body: bytes
    key: str


class Exchange:
    """Speaks to every partner that has a file. `keys` holds our credential for each, by provider name."""

    def __init__(self, providers: Mapping[str, Provider], transport: Transport, keys: Mapping[str, str]) -> None:
        self._providers = providers
        self._transport = transport
        self._headers = {name: _headers(provider, keys.get(name)) for name, provider in providers.items()}

    def is_configured(self, provider: str) -> bool:
        """Whether we have what a partner wants to be called with."""
        return self._headers.get(provider) is not None

    def repeats_safely(self, provider: str) -> bool:
        """Whether a partner honours an idempotency key, so that the same order may be sent again after a crash."""
        found = self._providers.get(provider)
        return found is not None and found.idempotency_header is not None

    async def send(self, order: Order) -> Outcome | Accepted:
        """Send an order and bring back what it ends in, or the handle under which the partner goes on with it.

        A handle must be made durable before it is followed.
        """
        provider = self._providers[order.provider]
        call = provider.calls[order.call]
        headers = self._headers[order.provider]
        if headers is None:
            return _not_configured(provider)
        if provider.idempotency_header is not None:
            headers = {**headers, provider.idempotency_header: order.key}
        try:
            reply = await self._transport.send(
                "POST",
                provider.base_url + call.path,
                headers,
                order.body,
                seconds=call.timeout,
                limit=call.answer_limit,
            )
        except TransportError as error:
            return _failed(error)
        return classify_answer(provider, call, reply)

    async def follow(self, order: Order, handle: str) -> Outcome:
        """Poll submitted work until it ends, or until the provider file says to give up."""
        provider = self._providers[order.provider]
        call = provider.calls[order.call]
        headers = self._headers[order.provider]
        if headers is None:
            return _not_configured(provider)
        if call.polling is None:
            return Failed(ProviderError())
        return await self._poll(provider, call, call.polling, headers, handle)

    async def _poll(
        self, provider: Provider, call: Call, polling: Polling, headers: Mapping[str, str], handle: str
    ) -> Outcome:
        url = provider.base_url + polling.path.replace("{handle}", quote(handle, safe=""))
        give_up_at = time.monotonic() + polling.give_up_after
        pause, misses = polling.every, 0
        while time.monotonic() < give_up_at:
            await asyncio.sleep(pause)
            pause = min(pause * polling.slower_by, polling.at_most_every)
            reading = await self._ask(provider, call, polling, headers, url)
            if isinstance(reading, Completed | Failed):
                misses += 1
                if isinstance(reading, Completed) or not _may_pass(reading) or misses > polling.patience:
                    return reading
            else:
                misses = 0
        return Failed(ProviderTimeout())

    async def _ask(
        self, provider: Provider, call: Call, polling: Polling, headers: Mapping[str, str], url: str
    ) -> Completed | Failed | Pending:
        try:
            reply: Reply = await self._transport.send(
                "GET", url, headers, None, seconds=_POLL_ANSWER_SECONDS, limit=call.answer_limit
            )
        except TransportError as error:
            return _failed(error)
        return classify_poll(provider, call, polling, reply)


def _headers(provider: Provider, secret: str | None) -> dict[str, str] | None:
    """The headers of every request to a partner; None when it wants a credential and we have none."""
    headers = {"Content-Type": _JSON, **provider.headers}
    if provider.auth_header is None:
        return headers
    return None if secret is None else {**headers, provider.auth_header: provider.auth_format + secret}


def _not_configured(provider: Provider) -> Failed:
    return Failed(ServiceUnavailable(f"The provider {provider.name} is not configured on this server."))


def _failed(error: TransportError) -> Failed:
    """What a request without an answer means to the caller (R-24, R-26)."""
    match error:
        case TooSlowError():
            return Failed(ProviderTimeout())
        case UnreachableError():
            return Failed(ProviderError("The provider could not be reached."))
        case _:
            return Failed(ProviderError("The connection to the provider broke off before its answer was complete."))


def _may_pass(failed: Failed) -> bool:
    """Whether a failed poll says nothing about the task: the next one may succeed."""
    return failed.upstream_status is None or failed.upstream_status in _TRANSIENT
