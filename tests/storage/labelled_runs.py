"""Made-up runs with labels, and what is kept of their usage."""

from typing import Final

import msgspec

from fairlead.domain.days import DAY_MS, day_of
from fairlead.domain.runs.entries import BookedRun
from storage.bookings import LAB, NOW, Books, admission, settlement

TODAY: Final = day_of(NOW).isoformat()
TOMORROW: Final = day_of(NOW + DAY_MS).isoformat()


def label(pairs: dict[str, str]) -> str:
    """Return labels as they are stored."""
    return msgspec.json.encode(dict(sorted(pairs.items()))).decode()


def ran(books: Books, id_: str, pairs: dict[str, str], charge: int = 10) -> None:
    """Have a run with labels begin and end."""
    labels = label(pairs) if pairs else None
    books.write(admission(id_, labels=labels))
    books.write(settlement(id_, charge, booked=BookedRun(100, None, "acme/one", labels=labels)))


def figures(books: Books, workspace_id: str = LAB) -> dict[tuple[str, str, str], tuple[int, int, int]]:
    """Return runs, successes and charge by day, name and value of a workspace."""
    rows = books.rows("SELECT * FROM label_days WHERE workspace_id = :id", id=workspace_id)
    return {(row["day"], row["name"], row["value"]): (row["runs"], row["succeeded"], row["charge"]) for row in rows}
