"""The runs that jobs of this server wait for. A stopping server still claims them, or its jobs would never end."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


class AwaitedRuns:
    """Counts how many jobs wait for each run."""

    def __init__(self) -> None:
        self._waiting = Counter[tuple[str, str]]()

    @contextmanager
    def waiting(self, run_id: str, workspace_id: str) -> Iterator[None]:
        """Count a run among those that are waited for."""
        self._waiting[run_id, workspace_id] += 1
        try:
            yield
        finally:
            self._waiting[run_id, workspace_id] -= 1
            if not self._waiting[run_id, workspace_id]:
                del self._waiting[run_id, workspace_id]

    def workspaces(self) -> Mapping[str, str]:
        """The runs that are waited for, each with its workspace."""
        return dict(self._waiting.keys())
