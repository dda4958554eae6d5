"""Large documents that are kept outside the database: bodies of live runs, workflows of jobs."""

import msgspec


class DocumentBlob(msgspec.Struct, frozen=True):
    """The blob that holds a large document of one owner, and of this owner alone: its name, and its size in bytes."""

    name: str
    size: int
