"""What the registry's rows are after a change that failed, and what is remembered of those that did not."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from fairlead.domain.registry import Actor
from fairlead.storage import registry
from storage.bookings import LAB, NOW, Books

_LAB: Final = Actor(LAB, key_id="key-1")
_TABLES: Final = ("publishers", "published_nodes", "node_versions", "registry_acts")
_MOST: Final = 10


@pytest.fixture
def books(books: Books) -> Books:
    """Return the books of a workspace with a publisher that has a node with a version."""
    books.open()
    books.do(_publish)
    return books


def _publish(connection: Connection) -> None:
    registry.create_publisher(connection, _LAB, "acme", {"name": "Acme"}, NOW, _MOST)
    registry.create_node(connection, _LAB, "acme", "blur", {"name": "Blur"}, "blur", NOW, _MOST)
    registry.publish_version(connection, _LAB, "acme", "blur", "1.0.0", {"changelog": "New."}, NOW, _MOST)


def _everything(books: Books) -> dict[str, Any]:
    return {table: books.rows(f"SELECT * FROM {table}") for table in _TABLES}  # noqa: S608 -- names of ours


@contextmanager
def _without_acts(books: Books) -> Iterator[None]:
    """Take the table away in which acts are written."""
    books.sql("ALTER TABLE registry_acts RENAME TO lost_acts")
    yield
    books.sql("ALTER TABLE lost_acts RENAME TO registry_acts")


@pytest.mark.req("G-01", "G-02")
def test_change_is_not_made_without_its_record(books: Books) -> None:
    """A change whose act cannot be written is not made: not of the node, its versions, its lists or its publisher."""
    before = _everything(books)
    with _without_acts(books):
        for change in (
            lambda c: registry.delete_node(c, _LAB, "acme", "blur", NOW),
            lambda c: registry.delete_publisher(c, _LAB, "acme", NOW),
            lambda c: registry.create_publisher(c, _LAB, "more", {}, NOW, _MOST),
            lambda c: registry.change_publisher(c, _LAB, "acme", {}, NOW),
            lambda c: registry.create_node(c, _LAB, "acme", "more", {}, "", NOW, _MOST),
            lambda c: registry.publish_version(c, _LAB, "acme", "blur", "2.0.0", {}, NOW, _MOST),
        ):
            with pytest.raises(DBAPIError):
                books.do(change)
    assert _everything(books) == before


@pytest.mark.req("G-01")
def test_deletion_leaves_only_ids_and_numbers(books: Books) -> None:
    """Of a deleted entry its id, its version numbers and its owner remain."""
    books.do(lambda c: registry.delete_publisher(c, _LAB, "acme", NOW + 1))
    left = _everything(books)
    assert [row["document"] for table in _TABLES[:3] for row in left[table]] == ["{}"] * 3
    assert left["published_nodes"][0]["search_text"] == ""
    assert left["node_versions"][0]["version"] == "1.0.0"
    assert {row["workspace_id"] for row in left["publishers"]} == {LAB}


def test_long_subject_is_cut(books: Books) -> None:
    """Whom a token speaks for may be longer than is kept of it."""
    somebody = Actor(LAB, subject="é" * 300)
    books.do(lambda c: registry.delete_node(c, somebody, "acme", "blur", NOW))
    (act,) = books.do(lambda c: registry.list_acts(c, "acme", 1))
    assert (act["act"], act["subject"], act["key_id"]) == ("node_deleted", "é" * 200, None)
    assert books.do(lambda c: registry.list_acts(c, "other", 1)) == []
