"""Workspaces' own keys at providers (R-17): stored sealed, shown only as a hint, opened only for a run."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, TypeVar

from fairlead.clock import Clock
from fairlead.domain.accounts.provider_keys import (
    DOCUMENT_BYTES_MAX,
    KEY_MAX,
    StoredKey,
    is_key,
    is_key_document,
    key_hint,
)
from fairlead.domain.accounts.rights import SERVER, Actor
from fairlead.domain.catalog.identifiers import is_provider_segment
from fairlead.domain.faults import FaultError, InvalidInput, ModelNotFound, RequestNotFound, ServiceUnavailable
from fairlead.identity.sealing import CannotOpenError, Sealer
from fairlead.storage.accounts import provider_keys
from fairlead.storage.accounts.audit_log import Act, with_entry
from fairlead.storage.accounts.provider_keys import SealedKey
from fairlead.storage.db.database import Database, DatabaseUnavailableError, Work

T = TypeVar("T")

_BAD_KEY: Final = (
    f"A key is 1 to {KEY_MAX} printable ASCII characters without a space at either end,"
    f" or one JSON object of at most {DOCUMENT_BYTES_MAX} bytes."
)


class ProviderKeys:
    """Keeps workspaces' own keys. Every method may raise FaultError; no fault and no record contains a key.

    `taken` says for every provider that this server knows whether workspaces may store a key for it. `changed` is
    called with the id of every workspace whose keys have changed.
    """

    def __init__(
        self,
        database: Database,
        sealer: Sealer,
        taken: Mapping[str, bool],
        clock: Clock,
        changed: Callable[[str], None],
    ) -> None:
        self._database = database
        self._sealer = sealer
        self._taken = taken
        self._clock = clock
        self._changed = changed

    def check_provider(self, provider: str) -> None:
        """Refuse an unknown provider (ModelNotFound, as specified), or one that takes no keys of workspaces."""
        taken = self._taken.get(provider)
        if taken is None:
            raise FaultError(ModelNotFound(provider, detail=f"There is no provider {provider[:64]}."))
        if not taken:
            raise FaultError(InvalidInput(f"The provider {provider} is not called with a key of yours."))

    async def put(self, workspace_id: str, provider: str, text: str, by: Actor = SERVER) -> tuple[StoredKey, bool]:
        """Store a key, replacing the one before; returns its public description, and whether it is the first one."""
        self.check_provider(provider)
        if not (is_key(text) or is_key_document(text)):
            raise FaultError(InvalidInput(_BAD_KEY))
        told = StoredKey(provider, key_hint(text), self._clock.now_ms())
        new = SealedKey(workspace_id, self._sealer.seal(workspace_id, provider, text), told)
        act = Act("provider_key.stored", workspace_id, provider, {"hint": told.hint})
        work = with_entry(lambda c: provider_keys.put_key(c, new), by, lambda _: act, told.created_at)
        return told, await self._change(workspace_id, work)

    async def list_all(self, workspace_id: str) -> list[StoredKey]:
        """The public descriptions of all keys of a workspace, by provider."""
        return await self._read(lambda c: provider_keys.list_keys(c, workspace_id))

    async def find(self, workspace_id: str, provider: str) -> StoredKey:
        """The public description of one key; FaultError(RequestNotFound) if none is stored."""
        found = next((key for key in await self.list_all(workspace_id) if key.provider == provider), None)
        if found is None:
            raise FaultError(_none_stored(provider))
        return found

    async def delete(self, workspace_id: str, provider: str, by: Actor = SERVER) -> None:
        """Delete a key; FaultError(RequestNotFound) if none is stored. Runs in progress keep the key."""
        delete = partial(provider_keys.delete_key, workspace_id=workspace_id, provider=provider)
        act = Act("provider_key.deleted", workspace_id, provider)
        work = with_entry(delete, by, lambda deleted: act if deleted else None, self._clock.now_ms())
        if not (is_provider_segment(provider) and await self._change(workspace_id, work)):
            raise FaultError(_none_stored(provider))

    async def open(self, workspace_id: str, provider: str) -> str:
        """The key itself, only for a run of its workspace at its provider.

        FaultError: ServiceUnavailable if the database is unavailable or the key was deleted a moment ago, both of which
        pass; InvalidInput if it cannot be opened, which only its owner can repair.
        """
        sealed = await self._read(lambda c: provider_keys.find_sealed(c, workspace_id, provider))
        if sealed is None:
            raise FaultError(ServiceUnavailable(f"The workspace's key for the provider {provider} was just deleted."))
        try:
            return self._sealer.open(workspace_id, provider, sealed)
        except CannotOpenError as error:
            raise FaultError(InvalidInput(_cannot_open(provider))) from error

    async def _change(self, workspace_id: str, work: Work[T]) -> T:
        try:
            return await self._database.write(work)
        except DatabaseUnavailableError as error:
            raise FaultError(ServiceUnavailable("Provider keys cannot be changed right now.")) from error
        finally:
            self._changed(workspace_id)  # even if it is unknown whether the write took effect

    async def _read(self, work: Work[T]) -> T:
        try:
            return await self._database.read(work)
        except DatabaseUnavailableError as error:
            raise FaultError(ServiceUnavailable("Provider keys cannot be read right now.")) from error


def _none_stored(provider: str) -> RequestNotFound:
    return RequestNotFound(detail=f"This workspace has stored no key for the provider {provider[:64]}.")


def _cannot_open(provider: str) -> str:
    return (
        f"The key this workspace stored for the provider {provider} cannot be opened any more,"
        " because the server's secret is another one now. Store it again, or delete it."
    )
