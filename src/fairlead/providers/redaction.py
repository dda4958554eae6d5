"""Our credentials taken out of what partners answer, before anybody reads it (S-10).

A partner may repeat what it was shown: in the text of an error, in a link, in a header, even in a result. Everything of
a partner enters through here, so that nothing behind this point, be it a caller's answer, a log, a trace or the
database, has to know what is secret. Each character of a secret becomes an asterisk: documents stay whole, and offsets
in files stay what they were. An answer without a secret is handed on as it is, without a copy.

A secret is found as it is, in base64 at any offset and in either alphabet, and each of these also with percent signs,
escapes of JSON, or several layers of them; and in parts that are more than the few characters that name a key.
"""

import asyncio
import base64
import re
import time
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Final
from urllib.parse import unquote_to_bytes

import msgspec

from fairlead.http_client.replies import Reply

SECRET_CHARACTERS_MIN: Final = 8
"""Shorter texts keep nothing secret, and would be found in innocent words."""
_PART_MIN, _PART_MAX = 8, 16
_MASK: Final = b"*"
_LAYERS: Final = 3
_LAYERS_CHARACTERS: Final = 24
"""The most characters that stand for one in this many layers, as a bound for what may lie across two pieces."""
PIECE_BYTES: Final = 256 * 1024
"""How much of an answer is searched at once."""
_STEP_BYTES: Final = 32 * 1024
"""How much of a larger one is, so that others run: a millisecond where most characters are escaped."""
_ESCAPE: Final = re.compile(rb"\\+u00([2-7][0-9a-fA-F])")
_QUOTED: Final = re.compile(rb"\\+([\"/\\'])")
_BINARY_WITHIN: Final = 1024
"""A file whose first bytes hold a zero is no text, and has no escapes."""


class Redactor:
    """Takes some secrets out of bytes; those that are too short to be secrets are left alone."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = tuple(
            dict.fromkeys(
                text.encode("utf-8", "surrogatepass") for text in secrets if len(text) >= SECRET_CHARACTERS_MIN
            )
        )
        self._spellings = tuple(spelling for secret in self._secrets for spelling in _spellings(secret))
        self._hints = tuple({hint for secret in self._secrets for hint in _hints(secret)} | {*self._spellings})
        self._hint_texts = tuple(hint.decode("latin-1") for hint in self._hints)

    def __repr__(self) -> str:
        return "Redactor(…)"

    def clean(self, reply: Reply) -> Reply:
        """An answer of at most PIECE_BYTES without the secrets: the same one where it has none of them.

        An answer that a secret cannot be taken out of keeps its status alone.
        """
        if not self._secrets or self._is_innocent(reply):
            return reply
        return self._with(reply, self.redact(reply.content))

    def _is_innocent(self, reply: Reply) -> bool:
        """Whether an answer has a single layer and no trace of a secret: so have nearly all, and all pass here.

        Texts are searched in half the time that bytes take, and by a loop in half the time of `any`.
        """
        head = "\n".join(reply.headers.values())
        text = reply.content.decode("latin-1") + "\n" + head
        if "\\" in text or "%" in text or not head.isascii():
            return False
        for hint in self._hint_texts:  # noqa: SIM110 -- see above
            if hint in text:
                return False
        return True

    async def clean_large(self, reply: Reply) -> Reply:
        """The same for an answer of any size, which is searched in pieces, between which others run."""
        return self._with(reply, await self._body(reply.content)) if self._secrets else reply

    def _with(self, reply: Reply, content: bytes | None) -> Reply:
        """An answer with its redacted content and headers."""
        if content is None:
            return Reply(reply.status, {}, b"")
        if self._may_hold("\n".join(reply.headers.values()).encode("utf-8", "surrogatepass")):
            headers = {name: self._header(value) for name, value in reply.headers.items()}
            return msgspec.structs.replace(reply, headers=headers, content=content)
        return reply if content is reply.content else msgspec.structs.replace(reply, content=content)

    def redact(self, content: bytes) -> bytes | None:
        """Bytes without the secrets: the same where there are none; None where one cannot be taken out."""
        if not self._may_hold(content):
            return content
        cleaned = bytearray(self._pattern.sub(_mask, content))
        for start, end in self._parts_in(bytes(cleaned)):
            cleaned[start:end] = _MASK * (end - start)
        left = any(spelling in layer for layer in _layers(bytes(cleaned)) for spelling in self._spellings)
        return None if left else bytes(cleaned)

    def _header(self, value: str) -> str:
        given = value.encode("utf-8", "surrogatepass")
        cleaned = self.redact(given)
        if cleaned is given:
            return value
        return "" if cleaned is None else cleaned.decode("utf-8", "replace")

    async def _body(self, content: bytes) -> bytes | None:
        if len(content) <= PIECE_BYTES:
            return self.redact(content)
        overlap = _LAYERS_CHARACTERS * max(map(len, self._spellings))
        cleaned: bytearray | None = None
        for start in range(0, len(content), _STEP_BYTES):
            began = time.perf_counter()
            piece = bytes((cleaned or content)[start : start + _STEP_BYTES + overlap])
            found = self.redact(piece)
            if found is None:
                return None
            if found is not piece:
                cleaned = bytearray(content) if cleaned is None else cleaned
                cleaned[start : start + len(piece)] = found
            # For as long as the step took: a call of another waits for the event loop dozens of times.
            await asyncio.sleep(time.perf_counter() - began)
        return content if cleaned is None else bytes(cleaned)

    def _may_hold(self, content: bytes) -> bool:
        """Whether there is a trace of a secret in any layer: quick, and never wrong where it says no."""
        return any(hint in layer for layer in _layers(content) for hint in self._hints)

    @cached_property
    def _pattern(self) -> re.Pattern[bytes]:
        """Each secret in each spelling, each character of it in any of its forms."""
        return re.compile(b"|".join(b"".join(map(_character, spelling)) for spelling in self._spellings))

    def _parts_in(self, content: bytes) -> Iterator[tuple[int, int]]:
        """Where parts of secrets stand that are longer than what may be shown of them, from where to where."""
        for secret in self._secrets:
            least = _part_length(secret)
            for first, block in _blocks(secret):
                at = content.find(block)
                while at >= 0:
                    start, end = _extend(content, secret, at, first, len(block))
                    if end - start >= least:
                        yield start, end
                    at = content.find(block, max(end, at + 1))


def _part_length(secret: bytes) -> int:
    """From how many characters on a part of a secret is hidden: half of it, and sixteen at most."""
    return max(_PART_MIN, min(_PART_MAX, len(secret) // 2))


def _blocks(secret: bytes) -> Iterator[tuple[int, bytes]]:
    """Blocks of a secret, one of which is whole in every part that is to be hidden, each with where it begins."""
    length = (_part_length(secret) + 1) // 2
    for first in range(0, len(secret) - length + 1, length):
        yield first, secret[first : first + length]


def _hints(secret: bytes) -> Iterator[bytes]:
    return (block for _, block in _blocks(secret))


def _extend(content: bytes, secret: bytes, at: int, first: int, length: int) -> tuple[int, int]:
    """The longest part of a secret around a block of it that was found."""
    start, end = at, at + length
    while start > 0 and first > 0 and content[start - 1] == secret[first - 1]:
        start, first = start - 1, first - 1
    place = first + end - start
    while end < len(content) and place < len(secret) and content[end] == secret[place]:
        end, place = end + 1, place + 1
    return start, end


def _spellings(secret: bytes) -> Iterator[bytes]:
    """A secret as it is, in hexadecimal digits, and what is certain of it in base64 whatever is before and after it."""
    yield secret
    yield secret.hex().encode()
    yield secret.hex().upper().encode()
    for offset in range(3):
        whole = base64.b64encode(bytes(offset) + secret + bytes(3))
        core = whole[-(-offset * 8 // 6) : (offset + len(secret)) * 8 // 6]
        yield core
        if core.translate(_URL_ALPHABET) != core:
            yield core.translate(_URL_ALPHABET)


_URL_ALPHABET: Final = bytes.maketrans(b"+/", b"-_")


def _character(code: int) -> bytes:
    """A pattern for a character as it is, percent-encoded, or escaped as in JSON, in several layers of each."""
    digits = b"%02x" % code
    pair = b"".join(b"[%c%c]" % (digit, digit - 32) if digit >= ord("a") else b"%c" % digit for digit in digits)
    escaped = rb"\\{1,8}u00" + pair
    forms = [rb"\\{0,8}" + re.escape(b"%c" % code), b"%(?:25){0,3}" + pair, escaped]
    if code == ord(" "):
        forms.append(rb"\+")
    return b"(?:" + b"|".join(forms) + b")"


def _layers(content: bytes) -> Iterator[bytes]:
    """Bytes as they are, and then without their escapes and percent signs, layer by layer."""
    yield content
    if b"\0" in content[:_BINARY_WITHIN]:
        return
    for _ in range(_LAYERS):
        inner = content
        if b"\\" in inner:
            inner = _QUOTED.sub(rb"\1", _ESCAPE.sub(lambda found: bytes([int(found[1], 16)]), inner))
        if b"%" in inner:
            inner = unquote_to_bytes(inner)
        if inner == content:
            return
        content = inner
        yield content


def _mask(found: re.Match[bytes]) -> bytes:
    return _MASK * (found.end() - found.start())
