"""Ogg: packets out of pages and back (RFC 3533), to change the container or the comments of a sound."""

import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

_HEAD: Final = struct.Struct("<4sBBqIIIB")
_SEGMENTS_MAX: Final = 255
_SERIAL: Final = 1
_NO_POSITION: Final = -1
_CONTINUED, _FIRST, _LAST = 1, 2, 4
_REVERSED: Final = bytes(int(f"{value:08b}"[::-1], 2) for value in range(256))


def packets(stream: bytes) -> list[bytes]:
    """The packets of a file with one logical stream. ValueError for a broken one."""
    found: list[bytes] = []
    unfinished: list[bytes] = []  # joined once, because a packet may go on over any number of pages
    for flags, lacing, body in _pages(stream):
        start = 0
        if not flags & _CONTINUED:
            unfinished.clear()
        length = 0
        for value in lacing:
            length += value
            if value < _SEGMENTS_MAX:
                found.append(b"".join((*unfinished, body[start : start + length])))
                unfinished.clear()
                start, length = start + length, 0
        unfinished.append(body[start : start + length])
    return found


def positions(stream: bytes) -> list[int]:
    """The granule positions of the pages, in order."""
    return [_HEAD.unpack_from(stream, offset)[3] for offset, _, _ in _places(stream)]


class _Page(NamedTuple):
    """A page of a stream: its flags, its granule position, and the lengths of the segments of its content."""

    flags: int
    position: int
    lacing: bytes
    content: bytes

    def encode(self, number: int, edges: int) -> bytes:
        """Its bytes at a place of the stream; `edges` are the flags of the first and the last page."""
        flags = self.flags | edges
        head = _HEAD.pack(b"OggS", 0, flags, self.position, _SERIAL, number, 0, len(self.lacing)) + self.lacing
        # The checksum is that of the page with zeros in its place (RFC 3533, section 6).
        return head[:22] + struct.pack("<I", _checksum(head + self.content)) + head[26:] + self.content


def stream(headers: Sequence[bytes], body: Iterable[tuple[bytes, int]]) -> bytes:
    """A logical stream: each header on pages of its own, then packets, each with the position it ends at."""
    pages: list[_Page] = []
    for header in headers:
        pages.extend(_split_in_pages([(header, 0)]))
    pages.extend(_split_in_pages(list(body)))
    made = bytearray()
    for number, page in enumerate(pages):
        edges = (_FIRST if number == 0 else 0) | (_LAST if number == len(pages) - 1 else 0)
        made += page.encode(number, edges)
    return bytes(made)


def _split_in_pages(body: Sequence[tuple[bytes, int]]) -> Iterator[_Page]:
    """The pages that packets fill, each packet given with the position it ends at."""
    lacing, content = bytearray(), bytearray()
    position, is_continued = _NO_POSITION, False
    for packet, ends_at in body:
        values = bytes([_SEGMENTS_MAX]) * (len(packet) // _SEGMENTS_MAX) + bytes([len(packet) % _SEGMENTS_MAX])
        start = 0
        for index, value in enumerate(values):
            if len(lacing) == _SEGMENTS_MAX:
                yield _Page(_CONTINUED if is_continued else 0, position, bytes(lacing), bytes(content))
                lacing, content, position, is_continued = bytearray(), bytearray(), _NO_POSITION, index > 0
            lacing.append(value)
            content += packet[start : start + value]
            start += value
        position = ends_at
    if lacing:
        yield _Page(_CONTINUED if is_continued else 0, position, bytes(lacing), bytes(content))


def _checksum(page: bytes) -> int:
    """The CRC of Ogg is zlib's with all bits the other way round, from nothing and not inverted."""
    reversed_crc = zlib.crc32(page.translate(_REVERSED), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return int.from_bytes(reversed_crc.to_bytes(4, "little").translate(_REVERSED), "big")


def _places(stream: bytes) -> Iterator[tuple[int, bytes, int]]:
    """Where each page begins, its lacing, and where its content begins."""
    offset = 0
    while offset < len(stream):
        if len(stream) - offset < _HEAD.size:
            raise ValueError("The Ogg stream is cut off.")
        capture, *_, count = _HEAD.unpack_from(stream, offset)
        if capture != b"OggS":
            raise ValueError("The Ogg stream is broken.")
        content = offset + _HEAD.size + count
        lacing = stream[offset + _HEAD.size : content]
        yield offset, lacing, content
        offset = content + sum(lacing)


def _pages(stream: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    for offset, lacing, content in _places(stream):
        yield stream[offset + 5], lacing, stream[content : content + sum(lacing)]
