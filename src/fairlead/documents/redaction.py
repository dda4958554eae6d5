"""Takes secrets out of bytes, in whatever form they are there (S-10).

Each character of a secret becomes an asterisk: documents stay whole, and offsets in files stay what they were.

A secret is found as it is, in base64 at any offset and in either alphabet, and each of these also with percent signs,
escapes of JSON, or several layers of them; and in parts that are more than the few characters that name a key.
"""

import base64
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Final
from urllib.parse import unquote_to_bytes

_PART_MIN, _PART_MAX = 8, 16
_MASK: Final = b"*"
_LAYERS: Final = 3
_LAYERS_CHARACTERS: Final = 24
"""The most characters that stand for one in this many layers: a bound for what may lie across two pieces."""
_STEP_BYTES: Final = 2**20
"""How much is searched at once: where most characters are escaped, a search takes several times its bytes."""
_ESCAPE: Final = re.compile(rb"\\+u00([2-7][0-9a-fA-F])")
_QUOTED: Final = re.compile(rb"\\+([\"/\\'])")
_BINARY_WITHIN: Final = 1024
"""A file whose first bytes hold a zero is not text, and has no escapes."""


class Redactor:
    """Takes some secrets out of bytes."""

    def __init__(self, secrets: Iterable[bytes]) -> None:
        self.secrets: Final = tuple(dict.fromkeys(secrets))
        """The secrets, each once."""
        self._spellings = tuple(spelling for secret in self.secrets for spelling in _spellings(secret))
        self._hints = tuple({hint for secret in self.secrets for hint in _hints(secret)} | {*self._spellings})

    def __repr__(self) -> str:
        return "Redactor(…)"

    def redact(self, content: bytes) -> bytes | None:
        """Bytes without the secrets: the same where there are none; None where one cannot be taken out."""
        if len(content) <= _STEP_BYTES or not self.secrets:
            return self._redact_step(content)
        # A secret may lie across two pieces, so each of them reaches into the next.
        overlap = _LAYERS_CHARACTERS * max(map(len, self._spellings))
        cleaned: bytearray | None = None
        for start in range(0, len(content), _STEP_BYTES):
            # From what the piece before has left, or its asterisks would be undone.
            piece = bytes((cleaned or content)[start : start + _STEP_BYTES + overlap])
            found = self._redact_step(piece)
            if found is None:
                return None
            if found is not piece:
                cleaned = bytearray(content) if cleaned is None else cleaned
                cleaned[start : start + len(piece)] = found
        return content if cleaned is None else bytes(cleaned)

    def _redact_step(self, content: bytes) -> bytes | None:
        if not self.may_hold(content):
            return content
        cleaned = bytearray(self._pattern.sub(_mask, content))
        for start, end in self._parts_in(bytes(cleaned)):
            cleaned[start:end] = _MASK * (end - start)
        # Mixed layers of escapes can hide what the pattern does not reach: such bytes are not passed on at all.
        left = any(spelling in layer for layer in _layers(bytes(cleaned)) for spelling in self._spellings)
        return None if left else bytes(cleaned)

    def may_hold(self, content: bytes) -> bool:
        """Whether there may be a trace of a secret in any layer: fast, and always right when it says no."""
        return any(hint in layer for layer in _layers(content) for hint in self._hints)

    @cached_property
    def hint_texts(self) -> Sequence[str]:
        """Fragments of which every trace of a secret in a single layer contains one, in Latin-1."""
        return tuple(hint.decode("latin-1") for hint in self._hints)

    @cached_property
    def _pattern(self) -> re.Pattern[bytes]:
        """Each secret in each spelling, each character of it in any of its forms."""
        return re.compile(b"|".join(b"".join(map(_character, spelling)) for spelling in self._spellings))

    def _parts_in(self, content: bytes) -> Iterator[tuple[int, int]]:
        """The ranges of parts of secrets that are longer than what may be shown of them."""
        for secret in self.secrets:
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
    """A secret as it is, in hexadecimal digits, and the part of its base64 that its surroundings do not change."""
    yield secret
    yield secret.hex().encode()
    yield secret.hex().upper().encode()
    for offset in range(3):
        # Base64 differs by the offset, and its first and last characters depend on the neighbours.
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
