"""The sound of a video file, taken out of its container for the library of sounds, which knows no videos."""

import io
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from fairlead.engine.media import clip_frames, clip_library, mp4, ogg, sound_files, webm
from fairlead.engine.media.arrays import Array
from fairlead.engine.media.mp4 import Track

_BEGINNING_BYTES: Final = 4_096
_AVI_SOUND: Final = b"auds"
"""What an AVI file says of a stream of sound, in the headers it begins with."""
_OPUS_RATE: Final = 48_000


class UndecodableSoundError(ValueError):
    """A video has a sound in a format that only an optional library decodes."""


def read(path: Path) -> tuple[Array, int] | None:
    """The samples [channels, samples] of the last sound in a video, and their rate; None for one without a sound.

    UndecodableSoundError where the optional library is needed, ValueError for a broken file.
    """
    clip_frames.check_kind(path)
    if clip_library.is_there():
        return clip_library.read_sound(path)
    try:
        return _read(path)
    except (struct.error, KeyError, IndexError) as error:
        raise ValueError("The sound of the video is broken.") from error


def _read(path: Path) -> tuple[Array, int] | None:
    with path.open("rb") as file:
        beginning = file.read(_BEGINNING_BYTES)
    if beginning[4:8] in {b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip"}:
        track = next((track for track in reversed(mp4.tracks(path)) if track.kind == "sound"), None)
        return None if track is None else _of_mp4(path, track)
    if beginning.startswith(webm.SIGNATURE):
        found = webm.sound_packets(path)
        return None if found is None else _of_webm(*found)
    if beginning.startswith(b"GIF8") or (beginning.startswith(b"RIFF") and _AVI_SOUND not in beginning):
        return None
    raise UndecodableSoundError(f"The sound of this kind of file {clip_library.NEEDED}")


def _of_mp4(path: Path, track: Track) -> tuple[Array, int]:
    if track.codec == "Opus":
        version, channels, skipped, rate, gain, family = struct.unpack_from(">BBHIhB", track.settings["dOps"])
        head = struct.pack("<8sBBHIhB", b"OpusHead", version + 1, channels, skipped, rate, gain, family)
        body = track.packets(path)
        length = round(track.seconds * _OPUS_RATE)
        return _opus(head + track.settings["dOps"][11:], body, track.skipped + length)
    name = "AAC" if track.codec == "mp4a" else track.codec
    raise UndecodableSoundError(f"The sound of this video is in {name}, which {clip_library.NEEDED}")


def _of_webm(codec: str, settings: bytes, packets: Sequence[bytes]) -> tuple[Array, int]:
    if codec == "A_OPUS":
        return _opus(settings, packets, None)
    raise UndecodableSoundError(f"The sound of this video is in {codec}, which {clip_library.NEEDED}")


def _opus(head: bytes, packets: Sequence[bytes], last: int | None) -> tuple[Array, int]:
    tags = b"OpusTags" + struct.pack("<II", 0, 0)
    whole = sum(map(sound_files.opus_duration, packets))
    ends = sound_files.opus_positions(list(packets), whole if last is None else last)
    return _decode(ogg.stream([head, tags], zip(packets, ends, strict=True)))


def _decode(stream: bytes) -> tuple[Array, int]:
    return sound_files.read(io.BytesIO(stream))
