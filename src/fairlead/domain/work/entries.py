"""Entries that runs and jobs share. Times are in ms since 1970."""

from typing import final

import msgspec


@final
class Claim(msgspec.Struct, frozen=True):
    """A server takes released work: from here on its intent to execute it is durable."""

    id: str
    workspace_id: str
    server_id: str
    at: int


@final
class Release(msgspec.Struct, frozen=True):
    """Give free slots of a workspace to the work that waits for one, because a limit of the workspace was raised."""

    workspace_id: str


@final
class Superseded(msgspec.Struct, frozen=True):
    """The entry named an attempt that is no longer the work's, or a state it is not in: nothing was written."""


class DocumentBlob(msgspec.Struct, frozen=True):
    """The blob that holds a large document of one owner, and of this owner alone: its name, and its size in bytes."""

    name: str
    size: int
