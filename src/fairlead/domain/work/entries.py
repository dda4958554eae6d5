"""Entries that runs and jobs share. Times are in ms since 1970."""

from typing import NamedTuple, final

import msgspec


class Released(NamedTuple):
    """Work that may be claimed: its id, its workspace's id, and the pool whose servers may claim it."""

    id: str
    workspace_id: str
    pool: str


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
class TakeOver(msgspec.Struct, frozen=True):
    """The server that had work fell silent: the work goes to another, and entries of the first name an old attempt.

    A run goes on at `server_id`. A job waits for any server, or ends if it was cancelled, and then expires at
    `expires_at`. With `is_handed_back` the server itself gives the job back because it stops, which does not count as a
    crash.
    """

    id: str
    workspace_id: str
    attempt: int
    server_id: str | None
    at: int
    expires_at: int = 0
    is_handed_back: bool = False


@final
class Superseded(msgspec.Struct, frozen=True):
    """The entry named an attempt that is no longer the work's, or a state it is not in: nothing was written."""


class DocumentBlob(msgspec.Struct, frozen=True):
    """The blob that holds a large document of one owner, and of this owner alone: its name, and its size in bytes."""

    name: str
    size: int
