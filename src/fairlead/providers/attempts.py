"""Sends an order despite short problems of a partner: with the next credential, or after a pause.

Only what the partner has certainly not taken is sent again (domain/runs/retries.py). A credential that fails
repeatedly cools down (health.py); a call that finds none it may use fails at once, so that another leg serves it.
"""

import asyncio
import math
import random
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Final

from fairlead.domain.faults import ServiceUnavailable
from fairlead.domain.runs.outcomes import Failed, Outcome, Reached
from fairlead.domain.runs.retries import is_about_the_credential, may_go_again, tells_of_the_partner
from fairlead.providers.answers import Accepted
from fairlead.providers.credentials import Credential, Credentials
from fairlead.providers.exchange import Exchange, Order
from fairlead.providers.health import WORKSPACES_MAX, Healths
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
        number, healths, failing = 0, self._healths, self._healths.failing
        failures: dict[str, Failed] = {}
        failed: Failed | None = None
        while True:
            is_well = not (failures or failing)  # the usual case, for which every run checks
            credential = order.credential or (
                self._credentials.next(order.provider) if is_well else self._next(order, failures)
            )
            if credential is None:
                self._note(order, provider, failures)
                return failed or self._none(order)
            ref = (order.provider, credential.label)
            if ref in failing:
                healths.begins(ref, order.owner_id, provider.cooldown)
            reading = await self._exchange.send(order, credential)
            if type(reading) is not Failed:
                if failures or ref in failing or len(healths.answered[ref]) >= WORKSPACES_MAX:
                    self._note(order, provider, failures, credential)
                elif order.credential is None:  # every run passes here
                    healths.answered[ref][order.owner_id] = healths.now()
                return reading
            is_in_doubt = failed is not None and failed.reached is Reached.UNKNOWN
            answered = None if failed is None else failed.upstream_status
            failed = (reading.in_doubt() if is_in_doubt else reading).after(answered)
            failures[credential.label] = reading
            pause = self._before_next(provider, order, reading, number, failures)
            if pause is None:
                self._note(order, provider, failures)
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
        if order.credential is None and is_about_the_credential(failed) and self._has_other(order, spent):
            return 0.0
        repeats_safely = provider.idempotency_header is not None
        if number >= provider.retry.times or not may_go_again(failed, repeats_safely=repeats_safely):
            return None
        return _pause(provider.retry, number, failed)

    def _next(self, order: Order, spent: Collection[str]) -> Credential | None:
        """The next credential in turn, preferably one that has not failed for this order."""
        may, take = partial(self._may, order), partial(self._credentials.next, order.provider)
        return (take(lambda one: one.label not in spent and may(one)) if spent else None) or take(may)

    def _has_other(self, order: Order, spent: Collection[str]) -> bool:
        return any(one.label not in spent and self._may(order, one) for one in self._credentials.all(order.provider))

    def _note(
        self, order: Order, provider: Provider, failures: Mapping[str, Failed], served: Credential | None = None
    ) -> None:
        """Record once, at the end of a run's tries, what each credential's last one says about the partner's health.

        A caller's own credential says nothing of the partner's health for ours.
        """
        if order.credential is not None:
            return
        last: dict[str, Failed | None] = {**failures} if served is None else {**failures, served.label: None}
        for label, failed in last.items():
            ref = order.provider, label
            if failed is not None and tells_of_the_partner(failed):
                self._healths.note_failure(ref, order.owner_id, provider.cooldown, failed.summary)
            else:
                self._healths.note_success(ref, order.owner_id)

    def _may(self, order: Order, credential: Credential) -> bool:
        return self._healths.may_call((order.provider, credential.label), order.owner_id)

    def _none(self, order: Order) -> Failed:
        """Why there is no usable credential: none exists, or all of them cool down."""
        known = self._credentials.all(order.provider)
        if not known:
            fault = ServiceUnavailable(f"The provider {order.provider} is not configured on this server.")
        else:
            left = min(self._healths.seconds_left((order.provider, one.label), order.owner_id) for one in known)
            detail = f"The provider {order.provider} has failed too often and is cooling down."
            fault = ServiceUnavailable(detail, max(1, math.ceil(left)))
        return Failed(fault, None, Reached.NOTHING)


def _pause(again: Retry, number: int, failed: Failed) -> float | None:
    """How long to wait before the next attempt; None when the partner asks for a longer wait than is allowed."""
    asked = failed.fault.retry_after if isinstance(failed.fault, ServiceUnavailable) else None
    if asked is not None and asked > again.at_most:
        return None
    return max(float(asked or 0), backoff(again, number))


def backoff(again: Retry, number: int) -> float:
    """The pause (seconds) before a further attempt, counted from 0.

    With full jitter many retries could still come at once; with half of it there is a minimum pause.
    """
    longest = min(again.first * 2.0**number, again.at_most)
    return longest * random.uniform(1 - _JITTER, 1)  # noqa: S311 -- spreads load, hides nothing
