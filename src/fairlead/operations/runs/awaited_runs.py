"""The runs that jobs of this server wait for. A stopping server still claims them, or its jobs would never end."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from fairlead.domain.work.entries import Released


class AwaitedRuns:
    """Counts how many jobs wait for each run."""

    def __init__(self) -> None:
        self._waiting = Counter[Released]()

    @contextmanager
    def waiting(self, run_id: str, workspace_id: str, pool: str = "") -> Iterator[None]:
        """Count a run as awaited; the pool is empty if it is unknown."""
        run = Released(run_id, workspace_id, pool)
        self._waiting[run] += 1
        try:
            yield
        finally:
            self._waiting[run] -= 1
            if not self._waiting[run]:
                del self._waiting[run]

    def runs(self) -> Sequence[Released]:
        """The runs that are awaited, in any state."""
        return list(self._waiting)
