"""Serving a result file, whole or one range of it."""

import re
from pathlib import Path
from typing import BinaryIO

import msgspec

from .wire import Problem, Send

CHUNK_BYTES = 256 * 1024

_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


class FileAnswer(msgspec.Struct, frozen=True):
    """An open file and the part of it to send; `send_file` closes it."""

    status: int
    source: BinaryIO
    start: int
    length: int
    headers: tuple[tuple[str, str], ...]


def open_range(path: Path, range_header: str | None, *, head: bool) -> FileAnswer:
    """Open a file for sending.

    A Range of one part is honoured; anything else in that header is ignored, as HTTP allows.
    `head` leaves the body out. Raises Problem 416 when the range lies outside the file.
    """
    size = path.stat().st_size
    span = _span(range_header, size)
    start, end = (0, size - 1) if span is None else span
    headers = [
        ("content-type", "image/png" if path.suffix == ".png" else "video/mp4"),
        ("accept-ranges", "bytes"),
        ("content-length", str(end - start + 1)),
    ]
    if span is not None:
        headers.append(("content-range", f"bytes {start}-{end}/{size}"))
    source = path.open("rb")
    return FileAnswer(200 if span is None else 206, source, start, 0 if head else end - start + 1, tuple(headers))


def _span(range_header: str | None, size: int) -> tuple[int, int] | None:
    """Return the first and last byte asked for, or None for the whole file."""
    match = _RANGE.fullmatch((range_header or "").strip())
    if match is None or match.group(1) == match.group(2) == "":
        return None
    first, last = match.groups()
    if first == "":
        start, end = max(0, size - int(last)), size - 1
    else:
        start, end = int(first), min(int(last) if last else size - 1, size - 1)
        if last and int(last) < start:
            return None
    if start >= size:
        message = f"The range starts beyond the end of the file, which has {size} bytes."
        content_range = (("content-range", f"bytes */{size}"),)
        raise Problem(416, "range_not_satisfiable", message, headers=content_range)
    return start, end


async def send_file(send: Send, answer: FileAnswer) -> None:
    """Write the file to the connection in chunks, at the speed the receiver reads."""
    headers = [(name.encode(), value.encode()) for name, value in answer.headers]
    with answer.source as source:
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        source.seek(answer.start)
        left = answer.length
        while left > 0:
            chunk = source.read(min(CHUNK_BYTES, left))
            if not chunk:
                break
            left -= len(chunk)
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
