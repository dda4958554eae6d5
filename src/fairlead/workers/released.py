"""What a worker knows of released work: what it was told of, and what it has found, in turn over workspaces."""

from collections.abc import Sequence
from typing import Final

from fairlead.domain.work.round_robin import RoundRobin

_WAITING_MAX: Final = 10_000


class ReleasedWork:
    """Released runs or jobs that this server may claim, round-robin over workspaces (S-03).

    What does not fit is found later. What was found is forgotten when the next look does not find it: another server
    has claimed it.
    """

    def __init__(self, most: int = _WAITING_MAX) -> None:
        self._waiting = RoundRobin(most)
        self._known = set[str]()
        self._found: dict[str, str] = {}
        self.last_workspace = ""
        """Where the last look for released work ended; the next begins behind it."""

    def __len__(self) -> int:
        return len(self._waiting)

    def tell(self, released: Sequence[tuple[str, str]]) -> None:
        """Hear of work that may be claimed: ids, and those of workspaces."""
        for id_, workspace_id in released:
            self._add(id_, workspace_id)

    def refresh(self, found: Sequence[tuple[str, str]]) -> None:
        """Take in what a look has found, in place of what the look before found and nobody here has claimed since."""
        now = dict(found)
        for id_, workspace_id in self._found.items():
            if id_ not in now and self._waiting.remove(id_, workspace_id):
                self._known.discard(id_)
        self._found = {id_: workspace_id for id_, workspace_id in now.items() if self._add(id_, workspace_id)}
        if found:
            self.last_workspace = found[-1][1]

    def take(self) -> tuple[str, str]:
        """Take what is next, with its workspace. It is known, and so not taken in again, until `forget`."""
        return self._waiting.pop()

    def forget(self, id_: str) -> None:
        """Know work no more that was taken: it may be released again."""
        self._known.discard(id_)

    def _add(self, id_: str, workspace_id: str) -> bool:
        """Take in work that is not known yet; whether it waits now."""
        if id_ in self._known:
            return id_ in self._found
        self._known.add(id_)
        dropped = self._waiting.push(id_, workspace_id)
        if dropped is not None:
            self._known.discard(dropped)
        return dropped != id_
