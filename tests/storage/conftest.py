"""Books of one's own, proven after every test."""

import pytest

from conftest import Run
from fairlead.storage.db.database import Database
from storage.bookings import Books


@pytest.fixture(autouse=True)
def _books_are_proven(proven_books: None) -> None:
    """Prove the books after each test of this folder."""


@pytest.fixture
def books(database: Database, run: Run) -> Books:
    """Return the books of the test's database."""
    return Books(database, run)
