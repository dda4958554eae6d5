"""Encoded pictures and sounds for a file: packets, and the parameters for decoders."""

from collections.abc import Sequence
from fractions import Fraction

import msgspec


class PictureStream(msgspec.Struct, frozen=True):
    """Encoded frames, each shown for as long as the others."""

    codec: str
    """vp09 or av01."""
    width: int
    height: int
    rate: Fraction
    """Frames a second."""
    packets: Sequence[bytes]
    is_key: Sequence[bool]
    """Which frames can be decoded without those before."""
    settings: bytes = b""
    """The content of the box av1C, for AV1."""


class OpusStream(msgspec.Struct, frozen=True):
    """An encoded sound."""

    channels: int
    skipped: int
    """The samples at 48 kHz at the beginning that are not to be heard."""
    packets: Sequence[bytes]
    durations: Sequence[int]
    """The samples at 48 kHz of each packet."""
    length: int
    """The samples at 48 kHz that are to be heard."""
