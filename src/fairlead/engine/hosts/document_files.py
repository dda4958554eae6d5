"""Large documents travel between a server and a host as files in the host's folder.

A frame of megabytes would be encoded, sent and read in the server's event loop and block it. Files are written and
read by threads. The reader of a document removes its file; what a host leaves behind goes with its folder.
"""

import os
import stat
import uuid
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

INLINE_BYTES: Final = 256 * 1024
"""The largest document that is sent within a frame."""
BYTES_MAX: Final = 320 * 2**20
"""A whole workflow fits (256 MiB), with constants that were converted."""


class DocumentFile(msgspec.Struct, frozen=True):
    """The name of the file in the host's folder that holds a large document."""

    name: str


Document: TypeAlias = bytes | DocumentFile


def hand_over(content: bytes, folder: Path) -> Document:
    """Write a document to a file for the other side. OSError, for example on a full disk."""
    if len(content) <= INLINE_BYTES:
        return content
    name = f"document-{uuid.uuid4().hex}"
    # A host can put links into its folder, so existing files are never written to.
    descriptor = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    return DocumentFile(name)


def take(document: Document, folder: Path) -> bytes:
    """The content of a document from the other side. OSError; ValueError for a bad name or size."""
    if isinstance(document, bytes):
        return document
    path = folder / document.name
    if path.parent != folder:
        raise ValueError("a document lies right in the folder of the host")
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > BYTES_MAX:
            raise ValueError("a document is a plain file of bounded size")
        path.unlink()
        return file.read(BYTES_MAX)
