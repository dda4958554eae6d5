"""Providers as operators see them: which can be called, and which of our credentials cool down."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from fairlead.clock import Clock
from fairlead.domain.accounts.rights import Actor
from fairlead.operations.accounts.audit_log import Act, record_act
from fairlead.operations.catalog import CatalogKeeper
from fairlead.providers.credentials import Credentials
from fairlead.providers.exchange import Exchange
from fairlead.providers.health import CoolingWorkspace, CredentialRef, Health, Healths
from fairlead.storage.accounts.workspaces import names_of
from fairlead.storage.db.database import Database

NOT_CONFIGURED: Final = "not_configured"
_WORKSPACES_SHOWN: Final = 100


class UnknownProviderError(Exception):
    """There is no such provider."""


class CoolingFor(msgspec.Struct, frozen=True):
    """A workspace for which a credential cools down, until when (ms since 1970; None while a run may try), and why."""

    workspace: str
    until: int | None
    reason: str


class CredentialState(msgspec.Struct, frozen=True):
    """One of our credentials at a provider: its label, its health for all, and when that cooldown ends (ms since 1970).

    `workspaces` are those for which it cools down by their own runs; of many, some.
    """

    label: str
    state: str
    cooldown_until: int | None
    workspaces: Sequence[CoolingFor]


class PartnerState(msgspec.Struct, frozen=True):
    """A provider: whether it can be called, which settings are missing, and how many models it serves.

    `state` is the best of its credentials; a server knows only the results of its own calls.
    """

    name: str
    title: str
    is_configured: bool
    missing_settings: Sequence[str]
    state: str
    cooldown_until: int | None
    credentials: Sequence[CredentialState]
    models: int


class Partners(msgspec.Struct, frozen=True):
    """The states of all providers."""

    catalog: CatalogKeeper
    exchange: Exchange
    credentials: Credentials
    healths: Healths
    database: Database
    clock: Clock

    async def states(self) -> list[PartnerState]:
        """Every provider, by name; FaultError if `database` raises it."""
        served = Counter(leg.provider for model in self.catalog.current.models.values() for leg in model.legs)
        cooling = {one.workspace_id for ref in self.healths.failing for one in self._cooling(ref)}
        names = await self.database.read(lambda c: names_of(c, cooling)) if cooling else {}
        return [self._state(name, served[name], names) for name in sorted(self.exchange.providers)]

    async def end_cooldowns(self, name: str, by: Actor) -> PartnerState:
        """End the cooldowns of all credentials of a provider on this server; UnknownProviderError.

        Cooldowns are in the memory of a server, so this is in the audit log before it takes effect.
        """
        if name not in self.exchange.providers:
            raise UnknownProviderError(name)
        known = self.credentials.all(name) if name in self.exchange.configured else ()
        cooling = [one.label for one in known if self.healths.is_cooling((name, one.label))]
        act = Act("provider.cooldowns_ended", None, name, {"credentials": cooling})
        await record_act(self.database, by, act, self.clock)
        for one in known:
            self.healths.end_cooldown((name, one.label))
        return next(one for one in await self.states() if one.name == name)

    def _state(self, name: str, models: int, names: Mapping[str, str]) -> PartnerState:
        is_configured = name in self.exchange.configured
        refs = [(name, one.label) for one in self.credentials.all(name)] if is_configured else []
        known = [self._credential(ref, names) for ref in refs]
        ready = next((one for one in known if one.state != Health.COOLING_DOWN.value), None)
        waits = [one.cooldown_until for one in known if one.cooldown_until is not None]
        otherwise = Health.COOLING_DOWN.value if known else NOT_CONFIGURED
        return PartnerState(
            name=name,
            title=self.exchange.providers[name].title,
            is_configured=is_configured,
            missing_settings=() if is_configured else self.exchange.missing_settings(name),
            state=otherwise if ready is None else ready.state,
            cooldown_until=min(waits) if ready is None and waits else None,
            credentials=known,
            models=models,
        )

    def _credential(self, ref: CredentialRef, names: Mapping[str, str]) -> CredentialState:
        cooling = [
            CoolingFor(names.get(one.workspace_id, one.workspace_id), self._time_in(one.seconds_left), one.reason)
            for one in self._cooling(ref)
        ]
        left = self.healths.seconds_left(ref)
        return CredentialState(ref[1], self.healths.of(ref).value, self._time_in(left), cooling)

    def _cooling(self, ref: CredentialRef) -> Sequence[CoolingWorkspace]:
        return sorted(self.healths.cooling(ref), key=lambda one: -one.seconds_left)[:_WORKSPACES_SHOWN]

    def _time_in(self, seconds: float) -> int | None:
        return self.clock.now_ms() + round(seconds * 1000) if seconds else None
