"""A real primary of PostgreSQL and the standby that follows it, for tests in which it takes the primary's place."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from sqlalchemy import Connection

from databases import Postgres, running_postgres
from servers import wait_until

T = TypeVar("T")


class PostgresPair:
    """A primary, its standby, and the database of both."""

    def __init__(self, primary: Postgres, standby: Postgres, name: str) -> None:
        self.primary: Final = primary
        self.standby: Final = standby
        self.name: Final = name

    @property
    def url(self) -> str:
        """Name both; the one that is no standby is connected to."""
        hosts = "&".join(f"host=127.0.0.1:{one.port}" for one in (self.primary, self.standby))
        return f"postgresql://postgres@/{self.name}?{hosts}&target_session_attrs=primary"

    def wait_until_followed(self, look: Callable[[Connection], T]) -> None:
        """Wait until the standby has what is seen in the primary."""
        of_primary, of_standby = ((one, one.url(self.name)) for one in (self.primary, self.standby))
        wait_until(
            lambda: of_primary[0].read(of_primary[1], look) == of_standby[0].read(of_standby[1], look),
            "the standby follows",
        )

    def promote(self) -> None:
        """Let the standby take the place of the primary, which is stopped."""
        self.primary.stop()
        self.standby.promote()


@contextmanager
def running_pair() -> Iterator[PostgresPair]:
    """Start both, with a migrated database, and stop them whatever happens."""
    with running_postgres(replicates=True) as primary:
        name = primary.create()
        with running_postgres(primary=primary) as standby:
            yield PostgresPair(primary, standby, name)
