"""Signed links to files of workflows: each is its own credential, for one file and a time (C-06, K-03)."""

from typing import Final, NamedTuple

from fairlead.domain.media import is_shown
from fairlead.identity.links import Links
from fairlead.operations.clock import Clock
from fairlead.storage.assets.files import WorkflowFile


class FileLink(NamedTuple):
    """Path and query of a link, and until when it is good, in ms since 1970."""

    path: str
    expires_at: int


class FileLinks:
    """Signs links to files, each good for `seconds` or until its file expires. `links` sign for the path of files."""

    def __init__(self, links: Links, clock: Clock, seconds: int = 3600) -> None:
        self._links = links
        self._clock = clock
        self.seconds: Final = seconds
        """For how long a link is good."""

    def sign(self, file: WorkflowFile) -> FileLink:
        """A link to a file. Browsers show pictures, films and sounds, and save anything else."""
        until = self._clock.now_ms() // 1000 + self.seconds
        if file.expires_at is not None:
            until = min(until, -(-file.expires_at // 1000))  # not before the file itself
        disposition = "inline" if is_shown(file.content_type) else "attachment"
        return FileLink(self._links.sign(file.id, until, file.name, disposition), until * 1000)
