"""Frames and sounds as streams, by the required libraries: VP9 by OpenCV, AV1 by Pillow, Opus by libsndfile."""

import struct
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from itertools import chain, islice
from pathlib import Path
from typing import Final

import cv2
import numpy as np
from PIL import Image

from fairlead.engine.media import mp4, ogg, sound_files
from fairlead.engine.media.arrays import Array
from fairlead.engine.media.pictures import Bytes, to_bytes
from fairlead.engine.media.streams import OpusStream, PictureStream

_IVF_HEAD_BYTES: Final = 32
_IVF_FRAME: Final = struct.Struct("<IQ")
_OPUS_QUALITY: Final = "128k"
_CRF_MAX: Final = 63
_AV1_SPEED: Final = 8
_SEQUENCE_HEADER: Final = 1
"""The kind of unit (OBU) that key frames of AV1 begin with."""
_EDGE_MAX: Final = 16_384
Check = Callable[[], object]


def vp9(folder: Path, images: Iterable[Array], rate: Fraction, check: Check) -> PictureStream:
    """Images [H,W,3] as VP9, at the encoder's best quality, which cannot be set.

    `folder` is for a temporary file; `check` is called between frames, and may raise.
    """
    path = folder / "frames.ivf"
    writer: cv2.VideoWriter | None = None
    size = (0, 0)
    try:
        for frame in _even(images):
            check()
            if writer is None:
                size = frame.shape[1], frame.shape[0]
                writer = _writer(path, size)
            writer.write(cv2.cvtColor(frame, cv2.COLOR_RGB2BGR))
    finally:
        if writer is not None:
            writer.release()
    packets = _ivf_packets(path.read_bytes())
    # A frame marker of two bits, two of the profile, then whether a frame is only shown again, or depends on others.
    return PictureStream("vp09", *size, rate, packets, [not packet[0] & 0b1100 for packet in packets])


def _writer(path: Path, size: tuple[int, int]) -> cv2.VideoWriter:
    if max(size) > _EDGE_MAX:
        raise ValueError(f"A video of {size[0]} x {size[1]} cannot be saved; its edges have at most {_EDGE_MAX}.")
    # Its rate only decides how many bits a second are allowed, in proportion to the frames.
    writer = cv2.VideoWriter(str(path), cv2.CAP_FFMPEG, cv2.VideoWriter.fourcc(*"VP90"), 30, size)
    if not writer.isOpened():
        raise ValueError("The video cannot be saved: the encoder does not take frames of this size.")
    return writer


def _ivf_packets(content: bytes) -> list[bytes]:
    found, offset = [], _IVF_HEAD_BYTES
    while offset < len(content):
        size, _ = _IVF_FRAME.unpack_from(content, offset)
        offset += _IVF_FRAME.size
        found.append(content[offset : offset + size])
        offset += size
    return found


def av1(folder: Path, images: Iterable[Array], rate: Fraction, crf: float, check: Check) -> PictureStream:
    """Images [H,W,3] as AV1 of a quality from 0, the best, to 63."""
    path = folder / "frames.avif"
    frames = (_check_frame(Image.fromarray(frame), check) for frame in _even(images))
    first = next(frames)
    others = [*islice(frames, 1)]
    quality = round(100 * (1 - min(max(crf, 0), _CRF_MAX) / _CRF_MAX))
    # A single frame would become a still picture, which is not a track.
    first.save(
        path, "AVIF", save_all=True, append_images=chain(others or [first], frames), quality=quality, speed=_AV1_SPEED,
        subsampling="4:2:0", range="limited",
    )  # fmt: skip
    track = next(track for track in mp4.tracks(path) if track.codec == "av01")
    packets = track.packets(path)[: None if others else 1]
    keys = [packet[0] >> 3 & 0xF == _SEQUENCE_HEADER for packet in packets]
    return PictureStream("av01", *first.size, rate, packets, keys, track.settings["av1C"])


def _check_frame(frame: Image.Image, check: Check) -> Image.Image:
    check()
    return frame


def _even(images: Iterable[Array]) -> Iterator[Bytes]:
    """Frames in bytes, of an even width and height, which the colours of video need: the last line is doubled."""
    for image in images:
        frame = to_bytes(image[..., :3])
        if frame.shape[2] == 1:
            frame = np.repeat(frame, 3, axis=2)
        yield np.pad(frame, ((0, frame.shape[0] % 2), (0, frame.shape[1] % 2), (0, 0)), mode="edge")


def opus(folder: Path, samples: Array, rate: int) -> OpusStream:
    """Samples [channels, samples] as Opus."""
    made = sound_files.opus(folder / "sound.opus", samples, rate, _OPUS_QUALITY)
    head, _, *packets = ogg.packets(made)
    skipped = int.from_bytes(head[10:12], "little")
    length = ogg.positions(made)[-1] - skipped
    return OpusStream(len(samples), skipped, packets, [sound_files.opus_duration(of) for of in packets], length)
