"""Sends an order despite short problems of a partner: with the next credential, or after a pause.

Only what the partner has certainly not taken is sent again (domain/runs/retries.py). A credential that fails
repeatedly cools down (health.py); a call that finds none it may use fails at once, so that another leg serves it.
"""

import asyncio
import math
import random
from collections.abc import Callable, Collection
from functools import partial
from typing import Final

from fairlead.domain.faults import ServiceUnavailable
from fairlead.domain.runs.outcomes import Failed, Outcome, Reached
from fairlead.domain.runs.retries import is_about_the_credential, may_go_again, tells_of_the_partner
from fairlead.providers.answers import Accepted
from fairlead.providers.credentials import Credential, Credentials
from fairlead.providers.exchange import Exchange, Order
from fairlead.providers.health import CredentialRef, Healths
from fairlead.providers.spec import Provider, Retry

_JITTER: Final = 0.5


class Attempts:
    """Sends orders over one exchange."""

    def __init__(self, exchange: Exchange, credentials: Credentials, healths: Healths) -> None:
        self._exchange = exchange
        self._credentials = credentials
        self._healths = healths

    async def send(self, order: Order, tell_again: Callable[[int, float], None]) -> Outcome | Accepted:
        """Send an order until it is answered, or may not be sent again.

        `tell_again` is called with each further attempt: its number, and the seconds waited before it. Where one
        attempt may have been taken, no later failure proves that the work was not.
        """
        provider = self._exchange.providers[order.provider]
        is_ours = order.credential is None
        number, failing = 0, self._healths.failing
        spent: set[str] = set()
        failed: Failed | None = None
        while True:
            is_well = not (spent or failing)  # the usual case, for which every run checks
            credential = order.credential or (
                self._credentials.next(order.provider) if is_well else self._next(order.provider, spent)
            )
            if credential is None:
                return failed or self._none(order.provider)
            ref = (order.provider, credential.label)
            if ref in failing:
                self._healths.begins(ref, provider.cooldown)
            reading = await self._exchange.send(order, credential)
            if type(reading) is not Failed:
                if is_ours and ref in failing:
                    self._healths.note_success(ref)
                return reading
            if is_ours:  # a caller's own credential says nothing of the partner's health for ours
                self._note(ref, provider, reading)
            is_in_doubt = failed is not None and failed.reached is Reached.UNKNOWN
            answered = None if failed is None else failed.upstream_status
            failed = (reading.in_doubt() if is_in_doubt else reading).after(answered)
            spent.add(credential.label)
            pause = self._before_next(provider, order, reading, number, spent)
            if pause is None:
                return failed
            number += 1
            tell_again(number, pause)
            await asyncio.sleep(pause)

    def _before_next(
        self, provider: Provider, order: Order, failed: Failed, number: int, spent: Collection[str]
    ) -> float | None:
        """How long to wait before the next try, None where there is none; `spent` are the credentials that failed.

        A partner's refusal of one credential says nothing about another: that one is tried at once.
        """
        if order.credential is None and is_about_the_credential(failed) and self._has_other(order.provider, spent):
            return 0.0
        repeats_safely = provider.idempotency_header is not None
        if number >= provider.retry.times or not may_go_again(failed, repeats_safely=repeats_safely):
            return None
        return _pause(provider.retry, number, failed)

    def _next(self, provider: str, spent: Collection[str]) -> Credential | None:
        """The next credential in turn, preferably one that has not failed for this order."""
        may = partial(self._may, provider)
        fresh = self._credentials.next(provider, lambda one: one.label not in spent and may(one)) if spent else None
        return fresh or self._credentials.next(provider, may)

    def _has_other(self, provider: str, spent: Collection[str]) -> bool:
        return any(one.label not in spent and self._may(provider, one) for one in self._credentials.all(provider))

    def _note(self, ref: CredentialRef, provider: Provider, failed: Failed) -> None:
        """Record what a failed attempt says about the partner's health."""
        if tells_of_the_partner(failed):
            self._healths.note_failure(ref, provider.cooldown)
        else:
            self._healths.note_success(ref)

    def _may(self, provider: str, credential: Credential) -> bool:
        return self._healths.may_call((provider, credential.label))

    def _none(self, provider: str) -> Failed:
        """Why there is no usable credential: none exists, or all of them cool down."""
        known = self._credentials.all(provider)
        if not known:
            fault = ServiceUnavailable(f"The provider {provider} is not configured on this server.")
        else:
            left = min(self._healths.seconds_left((provider, one.label)) for one in known)
            detail = f"The provider {provider} has failed too often and is cooling down."
            fault = ServiceUnavailable(detail, max(1, math.ceil(left)))
        return Failed(fault, None, Reached.NOTHING)


def _pause(again: Retry, number: int, failed: Failed) -> float | None:
    """How long to wait before the next attempt; None when the partner asks for a longer wait than is allowed.

    With full jitter many retries could still come at once; with half of it there is a minimum pause.
    """
    asked = failed.fault.retry_after if isinstance(failed.fault, ServiceUnavailable) else None
    if asked is not None and asked > again.at_most:
        return None
    backoff = min(again.first * 2.0**number, again.at_most)
    return max(float(asked or 0), backoff * random.uniform(1 - _JITTER, 1))  # noqa: S311 -- spreads load, hides nothing
