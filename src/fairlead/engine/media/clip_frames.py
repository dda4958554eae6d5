"""The pictures of a video file: their size, rate and duration, and the frames, one after the other."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Final

import cv2
import numpy as np

from fairlead.engine.media import clip_library
from fairlead.engine.media.arrays import CLIP_FRAMES_MAX, FRAME_PIXELS_MAX, PIXELS_MAX, Array, check_size
from fairlead.engine.media.clip_library import Facts
from fairlead.engine.media.pictures import Bytes

_TIME_ERROR: Final = 1e-4
"""Seconds that times may be off by, having been rounded."""
_RATE_MAX: Final = 1_000
_BEGINNING_BYTES: Final = 192
_ISO_BOXES: Final = frozenset({b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip"})
_SIGNATURES: Final = (
    b"\x1a\x45\xdf\xa3", b"GIF8", b"OggS", b"FLV\x01", b"\x00\x00\x01\xba", b"\x30\x26\xb2\x75", b"DKIF",
    b"\xff\xf1", b"\xff\xf9",
)  # fmt: skip
"""How files of Matroska, GIF, Ogg, Flash, MPEG, ASF and IVF begin, and AAC without a container."""
_TS_SYNC, _TS_PACKET_BYTES = 0x47, 188


def probe(path: Path) -> Facts:
    """The properties of a file's pictures. ValueError for what is not a video, or has too large frames."""
    check_kind(path)
    with _open(path) as capture:
        if capture is None:
            facts = clip_library.probe(path)
        else:
            width, height = (int(capture.get(of)) for of in (cv2.CAP_PROP_FRAME_WIDTH, cv2.CAP_PROP_FRAME_HEIGHT))
            rate = _rate(capture.get(cv2.CAP_PROP_FPS))
            count = capture.get(cv2.CAP_PROP_FRAME_COUNT)
            seconds = float(count / rate) if math.isfinite(count) and count > 0 else 0.0
            facts = Facts(width, height, rate, seconds)
    if facts.width < 1 or facts.height < 1 or facts.width * facts.height > FRAME_PIXELS_MAX:
        shown = f"{facts.width} x {facts.height}"
        raise ValueError(f"The video has frames of {shown}; they have at most {FRAME_PIXELS_MAX} pixels.")
    return facts


def count(path: Path) -> int:
    """The frames of a file that does not have their number."""
    found = 0
    for found, _ in enumerate(_frames(path), 1):
        _check_count(found)
    return found


def read(path: Path, start: float, end: float, check: Callable[[], object]) -> Array:
    """The frames [B,H,W,3] that are shown from a second on, up to another. ValueError where there are none.

    `check` is called between frames, and may raise.
    """
    facts = probe(path)
    expected = (min(end, facts.seconds) - start) * float(facts.rate)
    check_size(max(1, math.floor(expected)), facts.height, facts.width)
    found: list[Bytes] = []
    for time, frame in _frames(path):
        check()
        if time >= end - _TIME_ERROR:
            break
        if time >= start - _TIME_ERROR:
            if found and frame.shape != found[0].shape:
                raise ValueError("The frames of the video are not all of one size.")
            check_size(len(found) + 1, *frame.shape[:2])
            _check_count(len(found) + 1)
            found.append(frame)
    if not found:
        raise ValueError("The video has no frames in this time, or is broken.")
    return _as_images(found)


def _check_count(found: int) -> None:
    if found > CLIP_FRAMES_MAX:
        raise ValueError(f"The video has more than {CLIP_FRAMES_MAX} frames.")


def _as_images(found: list[Bytes]) -> Array:
    """Frames in bytes as images; each frame is released once it is converted, because together they fill the memory."""
    images = np.empty((len(found), *found[0].shape), np.float32)
    found.reverse()
    for image in images:
        np.divide(found.pop(), np.float32(255), out=image, dtype=np.float32)
    return images


def _frames(path: Path) -> Iterator[tuple[float, Bytes]]:
    """The frames in bytes, [H,W,3], each with the second it is shown at."""
    with _open(path) as capture:
        if capture is None:
            yield from clip_library.frames(path)
            return
        rate = _rate(capture.get(cv2.CAP_PROP_FPS))
        index = 0
        while capture.grab():
            is_there, frame = capture.retrieve()
            if not is_there:
                return
            if frame.shape[0] * frame.shape[1] > min(FRAME_PIXELS_MAX, PIXELS_MAX):
                raise ValueError("A frame of the video is larger than frames may be.")
            time = capture.get(cv2.CAP_PROP_POS_MSEC) / 1_000
            yield (
                (time if index == 0 or time > 0 else float(index / rate)),
                np.asarray(cv2.cvtColor(frame, cv2.COLOR_BGR2RGB), np.uint8),
            )
            index += 1


@contextmanager
def _open(path: Path) -> Iterator[cv2.VideoCapture | None]:
    """The file, opened by the required library, or None when only the optional one reads it."""
    capture = cv2.VideoCapture(str(path), cv2.CAP_FFMPEG)
    try:
        if capture.isOpened() and capture.get(cv2.CAP_PROP_FRAME_WIDTH) and _codec(capture) != "av01":
            yield capture
        elif clip_library.is_there():
            yield None
        else:
            raise ValueError(f"The video cannot be read: it is broken, or its format {clip_library.NEEDED}")
    finally:
        capture.release()


def _codec(capture: cv2.VideoCapture) -> str:
    """The four letters of the format; AV1 is opened by the library, but not decoded."""
    return int(capture.get(cv2.CAP_PROP_FOURCC)).to_bytes(4, "little").decode("latin-1").lower()


def _rate(given: float) -> Fraction:
    """Frames a second as the intended fraction: 29.97 is 30000/1001. One a second where a file has no rate."""
    if not math.isfinite(given) or not 0 < given <= _RATE_MAX:
        return Fraction(1)
    whole = round(given)
    television = Fraction(1_000 * round(given * 1.001), 1_001)
    if whole and abs(given - whole) < 1e-6:  # noqa: PLR2004 -- as exact as a double after a division
        return Fraction(whole)
    return (
        television
        if abs(television - Fraction(given)) < Fraction(1, 1_000)
        else Fraction(given).limit_denominator(100_000)
    )


def check_kind(path: Path) -> None:
    """Refuse what is not a video by its first bytes: the library also knows play lists, which name other files."""
    with path.open("rb") as file:
        beginning = file.read(_BEGINNING_BYTES)
    is_known = (
        beginning[4:8] in _ISO_BOXES
        or beginning.startswith(_SIGNATURES)
        or (beginning.startswith(b"RIFF") and beginning[8:12] == b"AVI ")
        or (len(beginning) == _BEGINNING_BYTES and beginning[0] == _TS_SYNC == beginning[_TS_PACKET_BYTES])
    )
    if not is_known:
        raise ValueError("The file is not a video of a known kind.")
