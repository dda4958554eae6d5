"""Workspaces' webhook secrets: the first is derived from the server's master secret, later ones are stored sealed.

Later ones are random, so a rotation helps even if the master secret has leaked.
"""

import base64
import secrets as randomness
from collections.abc import Awaitable, Sequence
from functools import partial
from typing import Final, TypeVar

import msgspec

from fairlead.clock import Clock
from fairlead.domain.accounts.rights import SERVER, Actor
from fairlead.domain.faults import FaultError, ServiceUnavailable
from fairlead.domain.runs.webhooks import DueDelivery, KeptSecrets, secret_text, signing_numbers
from fairlead.identity.master_secret import MasterSecret, Secrets
from fairlead.identity.sealing import CannotOpenError, Sealer
from fairlead.storage.accounts.audit_log import Act, with_entry
from fairlead.storage.db.database import Database, DatabaseUnavailableError
from fairlead.storage.runs import webhooks

T = TypeVar("T")

_SECRET_BYTES: Final = 32


class WorkspaceSecret(msgspec.Struct, frozen=True):
    """The secret that signs a workspace's webhooks, in the form for receivers, and when it was last rotated (ms)."""

    text: str
    rotated_at: int | None


class WebhookSecrets:
    """Shows and rotates workspaces' webhook secrets, and gives those that sign."""

    def __init__(self, database: Database, secrets: Secrets, clock: Clock) -> None:
        self._database = database
        self._secrets = secrets
        self._sealer = Sealer(secrets)
        self._clock = clock

    async def show(self, workspace_id: str) -> WorkspaceSecret:
        """The secret of a workspace; FaultError(ServiceUnavailable)."""
        (number, rotated_at), kept = await available(
            self._database.read(lambda c: webhooks.kept_secrets(c, workspace_id))
        )
        return WorkspaceSecret(secret_text(self._material(workspace_id, number, kept)), rotated_at)

    async def rotate(self, workspace_id: str, by: Actor = SERVER) -> WorkspaceSecret:
        """Sign with a new secret from now on, and for a day with the old one too; FaultError(ServiceUnavailable)."""
        now, text = self._clock.now_ms(), base64.b64encode(randomness.token_bytes(_SECRET_BYTES)).decode()

        def seal(number: int) -> bytes:
            return self._sealer.seal(workspace_id, name_of(number), text)

        replace = partial(webhooks.replace_secret, workspace_id=workspace_id, now=now, seal=seal)
        act = Act("webhook_secret.rotated", workspace_id)
        await available(self._database.write(with_entry(replace, by, lambda _: act, now)))
        return await self.show(workspace_id)

    def signing(self, due: DueDelivery, now: int) -> Sequence[bytes]:
        """The secrets that sign a delivery now, the newest first."""
        numbers = signing_numbers(due.secret, due.rotated_at, now)
        return [self._material(due.workspace_id, number, due.kept) for number in numbers]

    async def signing_of(self, workspace_id: str, now: int) -> Sequence[bytes]:
        """The secrets that sign a message of a workspace now, the newest first; DatabaseUnavailableError."""
        (newest, rotated_at), kept = await self._database.read(lambda c: webhooks.kept_secrets(c, workspace_id))
        return [self._material(workspace_id, number, kept) for number in signing_numbers(newest, rotated_at, now)]

    def _material(self, workspace_id: str, number: int, kept: KeptSecrets) -> bytes:
        """A secret, stored or derived; one that cannot be opened any more is replaced."""
        sealed = kept.sealed.get(number)
        if sealed is not None:
            try:
                return base64.b64decode(self._sealer.open(workspace_id, name_of(number), sealed))
            except CannotOpenError:
                return derived_secret(self._secrets.list_all()[0], workspace_id, number)
        return derived_secret(origin_of(self._secrets, kept.origin), workspace_id, number)


def origin_of(secrets: Secrets, name: str | None) -> MasterSecret:
    """The master secret from which webhook secrets without a row derive; the current one if that is unknown."""
    known = secrets.list_all()
    return next((secret for secret in known if secret.id.hex() == name), known[0])


def name_of(number: int) -> str:
    """The name under which a webhook secret is sealed."""
    return f"webhook secret {number}"


def derived_secret(master: MasterSecret, workspace_id: str, number: int) -> bytes:
    """A webhook secret, derived from a master secret."""
    return master.derive(f"webhooks of {workspace_id}: secret {number}")


async def available(work: Awaitable[T]) -> T:
    """The result of database work; FaultError(ServiceUnavailable) if the database is unavailable."""
    try:
        return await work
    except DatabaseUnavailableError as error:
        raise FaultError(ServiceUnavailable("Webhooks cannot be read or changed right now.")) from error
