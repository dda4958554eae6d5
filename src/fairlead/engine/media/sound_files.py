"""Files of sounds: read within bounds, and written as FLAC, MP3 or Opus with what they are made of in them."""

import struct
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, Final

import numpy as np
import soundfile

from fairlead.engine.media import ogg, pictures
from fairlead.engine.media.arrays import Array, check_samples
from fairlead.engine.media.sounds import RATE_MAX, resample

_READABLE: Final = frozenset({"WAV", "WAVEX", "RF64", "W64", "AIFF", "AU", "CAF", "FLAC", "OGG", "MP3"})
_BLOCK: Final = 65_536
_WRITTEN_BLOCK: Final = 4_096
"""Encoders of the library put a whole write on their stack, so writes are split."""
_CHANNELS_MAX: Final = 8
OPUS_RATES: Final = (8_000, 12_000, 16_000, 24_000, 48_000)
_MP3_RATES: Final = (8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000)
_MP3_BIT_RATES: Final = MappingProxyType({8_000: (8, 64), 16_000: (8, 160), 32_000: (32, 320)})
"""The least and the most kbit/s of an MP3, from each of these sample rates on."""
_FLAC_BLOCK_MAX: Final = 2**24 - 1


class UnreadableSoundError(ValueError):
    """A file is not a sound, is broken, or is longer than sounds may be."""


def read(source: Path | BinaryIO) -> tuple[Array, int]:
    """The samples [channels, samples] of a file of sound, and their rate.

    UnreadableSoundError for what is not a sound; a truncated file gives the samples that it has.
    """
    try:
        with soundfile.SoundFile(source) as file:
            _check(file)
            return _samples(file), int(file.samplerate)
    except (soundfile.SoundFileError, TypeError, OSError) as error:
        raise UnreadableSoundError(
            "The sound cannot be read: it is broken, or of a format that is not known."
        ) from error


def _check(file: soundfile.SoundFile) -> None:
    if file.format not in _READABLE:
        raise UnreadableSoundError(f"Sounds in {file.format} are not read.")
    if not 1 <= file.channels <= _CHANNELS_MAX or not 1 <= file.samplerate <= RATE_MAX:
        message = f"A sound of {file.channels} channels at {file.samplerate} Hz is not read."
        raise UnreadableSoundError(message)


def _samples(file: soundfile.SoundFile) -> Array:
    """The samples, block by block: how many there are is only known at the end, whatever a header says."""
    blocks, count = [], 0
    while len(block := file.read(_BLOCK, "float32", always_2d=True)):
        count += len(block)
        check_samples(1, file.channels, count)
        blocks.append(block.T)
    if not blocks:
        raise UnreadableSoundError("The sound has no samples.")
    return np.concatenate(blocks, axis=1)


def write_flac(path: Path, samples: Array, rate: int, texts: Mapping[str, object]) -> None:
    """Save samples [channels, samples] in 16 bits without loss; texts as JSON among the Vorbis comments."""
    _check_channels(samples, _CHANNELS_MAX)
    _write(path, samples, rate, format="FLAC", subtype="PCM_16")
    comments = _vorbis_comments(b"fairlead", pictures.as_json(texts))
    if texts and len(comments) <= _FLAC_BLOCK_MAX:
        made = path.read_bytes()
        path.write_bytes(_with_flac_comments(made, comments))


def write_mp3(path: Path, samples: Array, rate: int, texts: Mapping[str, object], quality: str) -> None:
    """Save samples as MP3 of a constant bit rate (`128k`), or of a varying one (`V0`); texts in an ID3 tag."""
    _check_channels(samples, 2)
    wanted = _next_rate(rate, _MP3_RATES)
    options: dict[str, object] = {"bitrate_mode": "VARIABLE", "compression_level": 0.0}
    if quality.endswith("k"):
        low, high = next(_MP3_BIT_RATES[least] for least in (32_000, 16_000, 8_000) if wanted >= least)
        level = (high - min(max(int(quality[:-1]), low), high)) / (high - low)
        options = {"bitrate_mode": "CONSTANT", "compression_level": level}
    _write(path, resample(samples[None], rate, wanted)[0], wanted, format="MP3", subtype="MPEG_LAYER_III", **options)
    tag = _id3(pictures.as_json(texts))
    made = path.read_bytes()
    path.write_bytes(tag + made)


def write_opus(path: Path, samples: Array, rate: int, texts: Mapping[str, object], quality: str) -> None:
    """Save samples as Opus in Ogg at a bit rate such as `128k`; texts as JSON among the comments."""
    made = opus(path, samples, rate, quality)
    head, _, *body = ogg.packets(made)
    tags = b"OpusTags" + _vorbis_comments(b"fairlead", pictures.as_json(texts))
    path.write_bytes(ogg.stream([head, tags], zip(body, opus_positions(body, ogg.positions(made)[-1]), strict=True)))


def opus(path: Path, samples: Array, rate: int, quality: str) -> bytes:
    """Samples as a stream of Opus in Ogg, which a file is used for that stays."""
    _check_channels(samples, 2)
    channels = len(samples)
    wanted = _next_rate(rate, OPUS_RATES)
    # The library counts from 6 to 256 kbit/s a channel.
    level = 1 - (int(quality[:-1]) * 1_000 / channels - 6_000) / 250_000
    _write(
        path, resample(samples[None], rate, wanted)[0], wanted, format="OGG", subtype="OPUS",
        compression_level=min(max(level, 0.0), 1.0),
    )  # fmt: skip
    return path.read_bytes()


def opus_positions(body: list[bytes], last: int) -> list[int]:
    """The position each packet ends at, in samples at 48 kHz; the last ends where the sound does."""
    ends, position = [], 0
    for packet in body:
        position += opus_duration(packet)
        ends.append(position)
    return [*ends[:-1], min(last, ends[-1])] if ends else []


def opus_duration(packet: bytes) -> int:
    """The samples at 48 kHz of an Opus packet, from its first bytes (RFC 6716, 3.1). ValueError for none."""
    if not packet:
        raise ValueError("A packet of Opus is empty.")
    configuration, code = packet[0] >> 3, packet[0] & 3
    if configuration < 12:  # noqa: PLR2004 -- SILK
        size = (480, 960, 1920, 2880)[configuration & 3]
    elif configuration < 16:  # noqa: PLR2004 -- both
        size = (480, 960)[configuration & 1]
    else:
        size = (120, 240, 480, 960)[configuration & 3]
    if code < 3:  # noqa: PLR2004 -- one frame, or two
        return size * (1 if code == 0 else 2)
    if len(packet) < 2:  # noqa: PLR2004 -- the count stands in the second byte
        raise ValueError("A packet of Opus is cut off.")
    return size * (packet[1] & 0x3F)


def _check_channels(samples: Array, most: int) -> None:
    if not 1 <= len(samples) <= most:
        raise ValueError(f"A sound of {len(samples)} channels cannot be saved; this format takes at most {most}.")
    if not samples.shape[1]:
        raise ValueError("A sound without samples cannot be saved.")


def _next_rate(rate: int, rates: tuple[int, ...]) -> int:
    """The lowest of some rates that holds all of a sound, or the highest there is."""
    return next((known for known in rates if known >= rate), rates[-1])


def _write(path: Path, samples: Array, rate: int, **options: Any) -> None:
    try:
        with soundfile.SoundFile(path, "w", rate, len(samples), **options) as file:
            for start in range(0, samples.shape[1], _WRITTEN_BLOCK):
                # NaN would become noise.
                file.write(np.nan_to_num(samples[:, start : start + _WRITTEN_BLOCK]).T)
    except soundfile.SoundFileError as error:
        raise ValueError(f"The sound cannot be saved: {error}") from error


def _vorbis_comments(vendor: bytes, texts: Mapping[str, str]) -> bytes:
    comments = [f"{name}={value}".encode() for name, value in texts.items() if "=" not in name]
    fields = b"".join(struct.pack("<I", len(comment)) + comment for comment in comments)
    return struct.pack("<I", len(vendor)) + vendor + struct.pack("<I", len(comments)) + fields


def _with_flac_comments(made: bytes, comments: bytes) -> bytes:
    """A FLAC stream whose block of comments is another one."""
    stream_info_end, offset, kept = 42, 42, b""
    is_last = bool(made[4] & 0x80)
    while not is_last:
        kind, size = made[offset], int.from_bytes(made[offset + 1 : offset + 4], "big")
        is_last = bool(kind & 0x80)
        if kind & 0x7F != 4:  # noqa: PLR2004 -- the block of comments
            kept += bytes([kind & 0x7F]) + made[offset + 1 : offset + 4 + size]
        offset += 4 + size
    head = made[:4] + bytes([made[4] & 0x7F]) + made[5:stream_info_end]
    return head + kept + b"\x84" + len(comments).to_bytes(3, "big") + comments + made[offset:]


def _id3(texts: Mapping[str, str]) -> bytes:
    """An ID3v2.3 tag with a text frame for each text; they are in ASCII."""
    frames = b""
    for name, value in texts.items():
        content = b"\0" + name.encode("ascii") + b"\0" + value.encode("ascii")
        frames += b"TXXX" + len(content).to_bytes(4, "big") + b"\0\0" + content
    if not frames or len(frames) >= 1 << 28:
        return b""
    size = bytes(len(frames) >> shift & 0x7F for shift in (21, 14, 7, 0))
    return b"ID3\x03\x00\x00" + size + frames
