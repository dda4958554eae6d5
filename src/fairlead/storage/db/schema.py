"""The whole schema: `tables.py`, the other modules of tables, and the triggers.

Triggers count what is stored, so that no statement is missed, not even those of servers of an earlier version (S-09).
Files of workflows, copies of results, editors' documents and the large workflows of jobs are counted, each row by
itself.
"""

from collections.abc import Iterator
from typing import Final

from sqlalchemy import BigInteger, Column, Connection, ForeignKey, Integer, LargeBinary, String, Table, text

from fairlead.storage.db import archive_tables, budget_tables, member_tables, registry_tables
from fairlead.storage.db.tables import metadata

__all__ = [
    "archive_tables",
    "budget_tables",
    "count_all",
    "make_document_triggers",
    "make_triggers",
    "member_tables",
    "metadata",
    "registry_tables",
]

_UUID: Final = String(36)
_INT: Final = BigInteger().with_variant(Integer(), "sqlite")

storage_usage = Table(
    "storage_usage",
    metadata,
    Column("workspace_id", _UUID, ForeignKey("workspaces.id"), primary_key=True),
    Column("bytes", _INT, nullable=False, server_default=text("0")),
    Column("files", _INT, nullable=False, server_default=text("0")),
    Column("bytes_limit", _INT, comment="its own; 0 none, null that of the settings"),
    Column("files_limit", _INT, comment="likewise"),
)
webhook_secrets = Table(
    "webhook_secrets",
    metadata,
    Column("workspace_id", String(36), ForeignKey("workspaces.id"), primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False, comment="counts rotations"),
    Column("sealed", LargeBinary, nullable=False, comment="as provider_keys.sealed"),
)
webhook_origin = Table(
    "webhook_origin",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False, comment="1: there is one row"),
    Column("secret", String(32), nullable=False, comment="the master secret that secrets without a row derive from"),
)

blob_store = Table(
    "blob_store",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False, comment="1: there is one row"),
    Column("marker", String(36), nullable=False, comment="names an object that the installation's store has"),
    Column("recorded_at", _INT, nullable=False),
)

model_verifications = Table(
    "model_verifications",
    metadata,
    Column("model_id", String(200), primary_key=True),
    Column("provider", String(64), primary_key=True, comment="who served it"),
    Column("verified_at", _INT, nullable=False),
    Column("version", String(64), nullable=False, comment="of the program that tried it"),
    Column("address", String(300), nullable=False, comment="of the provider's API"),
    Column("run_id", _UUID, nullable=False),
    Column("charge", _INT, nullable=False),
)

_SIZES: Final = frozenset({"size", "documents_size"})
_COUNTED: Final = {"workflow_files": "size", "assets": "size", "editor_documents": "content"}


def make_triggers(connection: Connection) -> None:
    """Have the database count. A change here needs a revision that replaces the triggers."""
    statements = _in_sqlite() if connection.dialect.name == "sqlite" else _in_postgresql()
    for statement in statements:
        connection.execute(text(statement))


def make_document_triggers(connection: Connection) -> None:
    """Have the database count the large workflows of jobs, too; the rows of other jobs cost nothing."""
    column = "documents_size"
    for event, row, body in (("INSERT", "NEW", _more(column)), ("DELETE", "OLD", _less(column))):
        name = f"count_documents_{event.lower()}"
        head = f"CREATE TRIGGER {name} AFTER {event} ON jobs"
        if connection.dialect.name == "sqlite":
            connection.execute(text(f"{head} WHEN {row}.{column} IS NOT NULL BEGIN {body} END"))
            continue
        function = f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body} RETURN NULL; END $$"
        connection.execute(text(function))
        connection.execute(text(f"{head} FOR EACH ROW WHEN ({row}.{column} IS NOT NULL) EXECUTE FUNCTION {name}()"))


def count_all(connection: Connection) -> None:
    """Count what is kept already, for databases that were made before."""
    kept = " UNION ALL ".join(
        f"SELECT workspace_id, {_bytes(column)} AS size FROM {table}"  # noqa: S608 -- names of ours
        for table, column in _COUNTED.items()
    )
    connection.execute(
        text(
            "INSERT INTO storage_usage (workspace_id, bytes, files)"  # noqa: S608 -- same
            f" SELECT workspace_id, SUM(size), COUNT(*) FROM ({kept}) AS kept GROUP BY workspace_id"
        )
    )


def _bytes(column: str, row: str = "") -> str:
    named = f"{row}.{column}" if row else column
    return named if column in _SIZES else f"length({named})"


def _less(column: str) -> str:
    return (
        f"UPDATE storage_usage SET bytes = bytes - {_bytes(column, 'OLD')}, files = files - 1"  # noqa: S608 -- same
        " WHERE workspace_id = OLD.workspace_id;"
    )


def _more(column: str) -> str:
    return (
        "INSERT INTO storage_usage (workspace_id, bytes, files)"  # noqa: S608 -- same
        f" VALUES (NEW.workspace_id, {_bytes(column, 'NEW')}, 1) ON CONFLICT (workspace_id)"
        " DO UPDATE SET bytes = storage_usage.bytes + excluded.bytes, files = storage_usage.files + excluded.files;"
    )


def _in_sqlite() -> Iterator[str]:
    for table, column in _COUNTED.items():
        bodies = (("INSERT", _more(column)), (f"UPDATE OF {column}", _less(column) + _more(column)))
        for event, body in (*bodies, ("DELETE", _less(column))):
            name = f"count_{table}_{event.partition(' ')[0].lower()}"
            yield f"CREATE TRIGGER {name} AFTER {event} ON {table} BEGIN {body} END"


def _in_postgresql() -> Iterator[str]:
    for table, column in _COUNTED.items():
        yield (
            f"CREATE FUNCTION count_{table}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            f" IF TG_OP <> 'INSERT' THEN {_less(column)} END IF;"
            f" IF TG_OP <> 'DELETE' THEN {_more(column)} END IF;"
            " RETURN NULL; END $$"
        )
        yield (
            f"CREATE TRIGGER count_{table} AFTER INSERT OR DELETE OR UPDATE OF {column} ON {table}"
            f" FOR EACH ROW EXECUTE FUNCTION count_{table}()"
        )
