"""The tables of archives (docs/money.md): a record for each, and what the part of each workspace adds up to."""

from typing import Final

from sqlalchemy import BigInteger, Column, ForeignKey, Integer, String, Table, text

from fairlead.storage.db.tables import metadata

_UUID: Final = String(36)
_INT: Final = BigInteger().with_variant(Integer(), "sqlite")
_ZERO: Final = text("0")

archives = Table(
    "archives",
    metadata,
    Column("number", _INT, primary_key=True, autoincrement=False, comment="counts archives from 1"),
    Column("before", _INT, nullable=False, comment="its runs ended before this time, the beginning of a day"),
    Column("first_run", _UUID, nullable=False),
    Column("last_run", _UUID, nullable=False),
    Column("runs", _INT, nullable=False),
    Column("entries", _INT, nullable=False),
    Column("events", _INT, nullable=False),
    Column("file", String(200), nullable=False, comment="the name of its file, without the folder"),
    Column("size", _INT, nullable=False, comment="of the file, in bytes"),
    Column("digest", String(64), nullable=False, comment="SHA-256 of the file"),
    Column("previous", String(64), nullable=False, comment="the checksum of the archive before it"),
    Column("checksum", String(64), nullable=False, comment="SHA-256 of this record, its sums and `previous`"),
    Column("created_at", _INT, nullable=False),
    Column("finished_at", _INT, comment="when the last of its rows was deleted; null before"),
)

archive_sums = Table(
    "archive_sums",
    metadata,
    Column("archive", _INT, ForeignKey("archives.number"), primary_key=True, autoincrement=False),
    Column("workspace_id", _UUID, ForeignKey("workspaces.id"), primary_key=True),
    Column("entries", _INT, nullable=False, server_default=_ZERO),
    Column("balance_change", _INT, nullable=False, server_default=_ZERO),
    Column("held_change", _INT, nullable=False, server_default=_ZERO),
    Column("runs", _INT, nullable=False, server_default=_ZERO),
    Column("succeeded", _INT, nullable=False, server_default=_ZERO),
    Column("charge", _INT, nullable=False, server_default=_ZERO),
)
