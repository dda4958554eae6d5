"""PyAV, where it is installed: H.264, AAC and whatever else FFmpeg knows.

It is optional because its packages hold encoders under the GPL; without it videos are written in VP9 and Opus.
"""

import importlib
import importlib.util
import math
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairlead.engine.media.arrays import Array, check_samples
from fairlead.engine.media.pictures import Bytes

NEEDED: Final = "needs an optional library: pip install 'fairlead[media]'."
_OPEN: Final = MappingProxyType({"protocol_whitelist": "file", "enable_drefs": "0"})
"""A file must not make the library open another one, or an address."""
_ENCODERS: Final = MappingProxyType({"h264": "h264", "vp9": "libvpx-vp9", "av1": "libsvtav1"})
_LAYOUTS: Final = MappingProxyType({1: "mono", 2: "stereo", 6: "5.1"})


@cache
def is_there() -> bool:
    """Whether the library is installed."""
    return importlib.util.find_spec("av") is not None


@cache
def _library() -> Any:
    return importlib.import_module("av")


def read_sound(path: Path) -> tuple[Array, int] | None:
    """The samples [channels, samples] of the last sound in a file, from the beginning of its time, and their rate."""
    av = _library()
    try:
        with av.open(path, options=dict(_OPEN)) as file:
            if not file.streams.audio:
                return None
            stream = file.streams.audio[-1]
            resampler = av.AudioResampler(format="fltp")
            blocks: list[Array] = []
            count = 0
            for frame in file.decode(stream):
                for block in resampler.resample(frame):
                    blocks.append(block.to_ndarray())
                    count += blocks[-1].shape[1]
                    check_samples(1, len(blocks[-1]), count)
            return (np.concatenate(blocks, axis=1), int(stream.sample_rate)) if blocks else None
    except av.FFmpegError as error:
        raise ValueError(f"The sound of the video cannot be read: {error}") from error


class Facts(NamedTuple):
    """The properties of a file's pictures that are known before they are decoded."""

    width: int
    height: int
    rate: Fraction
    """Frames a second."""
    seconds: float
    """Their duration; 0 when the file does not have it."""


def probe(path: Path) -> Facts:
    """The properties of the first pictures in a file."""
    av = _library()
    try:
        with av.open(path, options=dict(_OPEN)) as file:
            if not file.streams.video:
                raise ValueError("The video has no pictures.")
            stream = file.streams.video[0]
            seconds = float(file.duration / av.time_base) if file.duration else 0.0
            return Facts(stream.width, stream.height, Fraction(stream.average_rate or 1), seconds)
    except av.FFmpegError as error:
        raise ValueError(f"The video cannot be read: {error}") from error


def frames(path: Path) -> Iterator[tuple[float, Bytes]]:
    """The frames of the first pictures in a file in 8 bits, [H,W,3], each with the second it is shown at."""
    av = _library()
    try:
        with av.open(path, options=dict(_OPEN)) as file:
            for frame in file.decode(file.streams.video[0]):
                yield frame.time or 0.0, frame.to_ndarray(format="rgb24")
    except av.FFmpegError as error:
        raise ValueError(f"The video cannot be read: {error}") from error


def write(
    path: Path, container: str, codec: str, images: Iterable[Array], size: tuple[int, int], rate: Fraction,
    sound: tuple[Array, int] | None, texts: Mapping[str, str], *, crf: float | None = None, bit_depth: int = 8,
) -> None:  # fmt: skip
    """Encode images [H,W,3] of a size (width, height) and a sound into a file: mp4 with AAC, or webm without sound."""
    av = _library()
    options = {"movflags": "use_metadata_tags+faststart"} if container == "mp4" else {}
    try:
        with av.open(path, "w", format=container, options=options) as file:
            file.metadata.update(texts)
            stream = _picture_stream(file, codec, size, rate, crf, bit_depth)
            heard = None if sound is None else file.add_stream("aac", rate=sound[1], layout=_LAYOUTS[len(sound[0])])
            for image in images:
                file.mux(stream.encode(_frame(av, image, stream.pix_fmt, bit_depth)))
            file.mux(stream.encode(None))
            if sound is not None and heard is not None:
                samples = av.AudioFrame.from_ndarray(np.ascontiguousarray(sound[0]), "fltp", _LAYOUTS[len(sound[0])])
                samples.sample_rate, samples.pts = sound[1], 0
                file.mux(heard.encode(samples))
                file.mux(heard.encode(None))
    except av.FFmpegError as error:
        raise ValueError(f"The video cannot be saved: {error}") from error


def _picture_stream(
    file: Any, codec: str, size: tuple[int, int], rate: Fraction, crf: float | None, bit_depth: int
) -> Any:
    stream = file.add_stream(_ENCODERS[codec], rate=rate)
    stream.width, stream.height = size
    is_deep = bit_depth > 8 or codec == "av1"  # noqa: PLR2004 -- what bytes hold
    stream.pix_fmt = "yuv420p10le" if is_deep else "yuv420p"
    if crf is not None:
        stream.bit_rate = 0
        stream.options = {"crf": str(math.floor(crf)), **({"preset": "6"} if codec == "av1" else {})}
    return stream


def _frame(av: Any, image: Array, pixel_format: str, bit_depth: int) -> object:
    if bit_depth == 8:  # noqa: PLR2004 -- what bytes hold
        pixels: NDArray[Any] = np.clip(image * np.float32(255), 0, 255).astype(np.uint8)
        return av.VideoFrame.from_ndarray(pixels, "rgb24").reformat(format=pixel_format)
    pixels = np.round(np.clip(image, 0, 1) * np.float32(65535)).astype(np.uint16)
    return av.VideoFrame.from_ndarray(pixels, "rgb48le").reformat(format=pixel_format)
