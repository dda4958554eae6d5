"""Sealing stored texts again with another master secret.

Each batch is a transaction that replaces only what is unchanged since it was read. So this can be stopped anywhere,
begun again, and run while servers run.
"""

import base64
from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from fairlead.identity.master_secret import MasterSecret, Secrets
from fairlead.identity.sealing import PREFIX_BYTES, CannotOpenError, Sealer
from fairlead.operations.accounts.webhook_secrets import derived_secret, name_of, origin_of
from fairlead.storage.accounts import sealed_rows
from fairlead.storage.accounts.sealed_rows import SEALED, SealedRow, SealedTable
from fairlead.storage.db.database import Database

BATCH: Final = 200


class Resealed(msgspec.Struct, frozen=True):
    """How many texts were sealed again, and how many no known secret opens."""

    done: int
    unreadable: int


async def note_first_secret(database: Database, secrets: Secrets) -> None:
    """Record the secret with which this installation began: webhook secrets without a row derive from it."""
    if await database.read(sealed_rows.find_origin) is None:
        name = secrets.list_all()[0].id.hex()
        await database.write(lambda c: sealed_rows.note_origin(c, name))


async def reseal(database: Database, secrets: Secrets, tell: Callable[[int], None] = lambda _: None) -> Resealed:
    """Seal with the current secret what others have sealed.

    `tell` is called after each batch with how many are done.
    """
    sealer, done, unreadable = Sealer(secrets), 0, 0
    for table in SEALED:
        last: SealedRow | None = None
        while rows := await database.read(
            partial(sealed_rows.outdated_rows, sealed=table, prefix=sealer.prefix, after=last, limit=BATCH)
        ):
            changes = [(row, fresh) for row in rows if (fresh := _reseal_row(sealer, table, row)) is not None]
            done += await database.write(partial(sealed_rows.replace_sealed, sealed=table, changes=changes))
            unreadable += len(rows) - len(changes)
            last = rows[-1]
            tell(done)
    return Resealed(done, unreadable)


async def keep_derived(database: Database, secrets: Secrets) -> int:
    """Store every webhook secret that is still derived, so that no former secret is needed for it; returns how many.

    From then on the webhook secrets of new workspaces derive from the current secret.
    """
    sealer, current, after, kept = Sealer(secrets), secrets.list_all()[0], "", 0
    origin = origin_of(secrets, await database.read(sealed_rows.find_origin))
    while origin is not current and (
        found := await database.read(partial(sealed_rows.derived_webhook_secrets, after=after, limit=BATCH))
    ):
        rows = [
            (workspace_id, number, sealer.seal(workspace_id, name_of(number), _text(origin, workspace_id, number)))
            for workspace_id, newest in found
            for number in range(max(newest - 1, 0), newest + 1)
        ]
        await database.write(partial(sealed_rows.keep_webhook_secrets, rows=rows))
        kept, after = kept + len(rows), found[-1][0]
    await database.write(lambda c: sealed_rows.change_origin(c, current.id.hex()))
    return kept


async def uses(database: Database, secrets: Secrets) -> dict[str, int]:
    """How many sealed texts need each secret, by its name; texts sealed before secrets had names are under ''."""
    counted = await database.read(lambda c: sealed_rows.count_by_prefix(c, PREFIX_BYTES))
    found = {secret.id.hex(): 0 for secret in secrets.list_all()}
    for prefix, count in counted.items():
        name = prefix[1:].hex() if prefix[:1] == b"\x02" else ""
        found[name] = found.get(name, 0) + count
    return found


def _reseal_row(sealer: Sealer, table: SealedTable, row: SealedRow) -> bytes | None:
    what = table.what_of(row)
    try:
        return sealer.seal(row.workspace_id, what, sealer.open(row.workspace_id, what, row.sealed))
    except CannotOpenError:
        return None


def _text(origin: MasterSecret, workspace_id: str, number: int) -> str:
    return base64.b64encode(derived_secret(origin, workspace_id, number)).decode()
