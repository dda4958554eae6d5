"""The tables of the registry: publishers, their nodes and versions, and who did what to them; as in `tables.py`."""

from typing import Final

from sqlalchemy import BigInteger, Column, ForeignKey, Integer, String, Table, Text, text

from fairlead.storage.db.tables import metadata, partial_index

_UUID: Final = String(36)
_INT: Final = BigInteger().with_variant(Integer(), "sqlite")

publishers = Table(
    "publishers",
    metadata,
    Column("id", String(100), primary_key=True, comment="chosen by its owner"),
    Column("workspace_id", _UUID, ForeignKey("workspaces.id"), nullable=False, index=True, comment="the owner"),
    Column("document", Text, nullable=False, comment="JSON object of what it says of itself"),
    Column("banned_at", _INT),
    Column("deleted_at", _INT, comment="its id stays reserved"),
    Column("created_at", _INT, nullable=False),
    Column("changed_at", _INT, nullable=False),
)

published_nodes = Table(
    "published_nodes",
    metadata,
    Column("id", String(100), primary_key=True, comment="chosen by its publisher"),
    Column("publisher_id", String(100), ForeignKey("publishers.id"), nullable=False, index=True),
    Column("document", Text, nullable=False, comment="JSON object of what it says of itself"),
    Column("search_text", Text, nullable=False, comment="what it is found by, in lower case"),
    Column("banned_at", _INT),
    Column("deleted_at", _INT, comment="its id and its version numbers stay reserved"),
    Column("created_at", _INT, nullable=False),
    Column("changed_at", _INT, nullable=False),
    Column("installs", _INT, nullable=False, server_default=text("0")),
)
_LISTED: Final = text("banned_at IS NULL AND deleted_at IS NULL")
partial_index("ix_published_nodes_listed", published_nodes.c.id, where=_LISTED)

node_versions = Table(
    "node_versions",
    metadata,
    Column("node_id", String(100), ForeignKey("published_nodes.id"), primary_key=True),
    Column("version", String(100), primary_key=True),
    Column("place", _INT, nullable=False, comment="counts the versions of its node from 1"),
    Column("document", Text, nullable=False, comment="JSON object of what it says of itself"),
    Column("created_at", _INT, nullable=False),
)

registry_acts = Table(
    "registry_acts",
    metadata,
    Column("id", _INT, primary_key=True, autoincrement=True),
    Column("act", String(32), nullable=False, comment="such as node_deleted"),
    Column("publisher_id", String(100), nullable=False, index=True),
    Column("node_id", String(100)),
    Column("workspace_id", _UUID, nullable=False),
    Column("key_id", _UUID, comment="the API key it was done with; null for a token"),
    Column("subject", String(200), comment="whom the token spoke for"),
    Column("at", _INT, nullable=False),
)
