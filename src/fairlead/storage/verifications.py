"""When each model was last tried at its vendor: one row for each model and provider, of the last trial that went well.

Imports nothing of storage but the tables.
"""

from collections.abc import Sequence

import msgspec
from sqlalchemy import Connection, delete, insert, select

from fairlead.storage.db.schema import model_verifications


class Verification(msgspec.Struct, frozen=True):
    """A model did at a provider what its files say, at a time (ms since 1970), by a version of the program.

    `address` is that of the provider's API; the `charge` of the run `run_id` is in 10^-8 dollars.
    """

    model_id: str
    provider: str
    verified_at: int
    version: str
    address: str
    run_id: str
    charge: int


def write_verification(connection: Connection, verification: Verification) -> None:
    """Record a trial in place of the one before."""
    row = model_verifications.c
    of_it = (row.model_id == verification.model_id, row.provider == verification.provider)
    connection.execute(delete(model_verifications).where(*of_it))
    connection.execute(insert(model_verifications).values(msgspec.structs.asdict(verification)))


def read_verifications(connection: Connection, model_id: str | None = None) -> Sequence[Verification]:
    """All that are recorded, or those of a model, by model and provider."""
    row = model_verifications.c
    found = select(model_verifications).order_by(row.model_id, row.provider)
    if model_id is not None:
        found = found.where(row.model_id == model_id)
    return [Verification(*one) for one in connection.execute(found)]
