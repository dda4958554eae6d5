"""Enlargements of pictures and clips, as tasks: checked before they are queued, and made tile by tile."""

import base64
import binascii
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final

import cv2
import msgspec
import numpy as np

from . import network
from .edit import INPUT_BYTES_MAX, decode
from .image import encode_png
from .network import Pixels
from .requests import UpscaleRequest
from .tasks import Made
from .video import open_writer
from .wire import Problem

PICTURE_PIXELS_MAX: Final = 1024 * 1024
FRAME_PIXELS_MAX: Final = 512 * 512
CLIP_PIXELS_MAX: Final = 16_000_000
"""Of all frames together: about three minutes of two processors."""
LARGE_FRAME_PIXELS_MAX: Final = 2048 * 1024
FRAMES_PER_SECOND_MAX: Final = 60.0

_CLIP: Final = "data:video/mp4;base64"
_MEGAPIXEL: Final = 1_000_000


class _Clip(msgspec.Struct, frozen=True):
    width: int
    height: int
    fps: float
    frames: int


def check(request: UpscaleRequest) -> None:
    """Look at what is to be enlarged before it is queued.

    Raises Problem 501 when the network is not installed, and 422 when the file is not a picture or clip, or too large.
    """
    network.require()
    if request.image is not None:
        height, width = decode(request.image).shape[:2]
        if width * height > PICTURE_PIXELS_MAX:
            raise _refuse("image", f"must have at most {PICTURE_PIXELS_MAX:,} pixels")
        return
    with _open_clip(request.video or "") as capture:
        _check_clip(_describe(capture), request.scale)


def enlarge(request: UpscaleRequest, path: Path, goes_on: Callable[[float], bool]) -> Made:
    """Write the enlargement to `path`; it is incomplete where `goes_on` said no."""
    if request.image is None:
        return _enlarge_clip(request, path, goes_on)
    picture = decode(request.image)
    height, width = picture.shape[:2]
    large = network.enlarge(picture, request.scale, goes_on)
    if large is not None:
        path.write_bytes(encode_png(large))
    result = {"mime_type": "image/png", "width": width * request.scale, "height": height * request.scale}
    return Made(result, {"megapixels": round(width * height / _MEGAPIXEL, 6)})


def _enlarge_clip(request: UpscaleRequest, path: Path, goes_on: Callable[[float], bool]) -> Made:
    scale = request.scale
    with _open_clip(request.video or "") as capture:
        clip = _describe(capture)
        width, height = _even(clip.width * scale), _even(clip.height * scale)
        writer = open_writer(path, clip.fps, width, height)
        done = 0
        try:
            for frame in _frames(capture, clip):
                large = network.enlarge(frame, scale, _share_of(goes_on, done, clip.frames))
                if large is None:
                    break
                writer.write(np.ascontiguousarray(large[:height, :width, ::-1]))
                done += 1
        finally:
            writer.release()
    result = {"mime_type": "video/mp4", "duration_seconds": round(done / clip.fps, 6), "width": width, "height": height}
    megapixels = round(done * clip.width * clip.height / _MEGAPIXEL, 6)
    return Made({**result, "fps": round(clip.fps, 6)}, {"megapixels": megapixels})


def _share_of(goes_on: Callable[[float], bool], done: int, frames: int) -> Callable[[float], bool]:
    """Return `goes_on` for one frame: its share is one of many."""
    return lambda share: goes_on(min(1.0, (done + share) / frames))


def _even(side: int) -> int:
    """Return the side that the encoder, which halves the colour planes, can take."""
    return side - side % 2


def _frames(capture: cv2.VideoCapture, clip: _Clip) -> Iterator[Pixels]:
    """Read the frames, no more than the file has declared and was checked for."""
    for _ in range(clip.frames):
        there, frame = capture.read()
        if not there:
            return
        yield np.ascontiguousarray(np.asarray(frame, dtype=np.uint8)[..., ::-1])


@contextmanager
def _open_clip(uri: str) -> Iterator[cv2.VideoCapture]:
    """Open a clip in a data URI; Problem 422 if it is not one."""
    kind, _, encoded = uri.partition(",")
    if kind != _CLIP:
        raise _refuse("video", "must be a data URI: data:video/mp4, in base64")
    if len(encoded) > INPUT_BYTES_MAX * 4 // 3 + 4:
        raise _refuse("video", f"must be at most {INPUT_BYTES_MAX // 2**20} MiB")
    try:
        content = base64.b64decode(encoded, validate=True)
    except binascii.Error:
        raise _refuse("video", "is not valid base64") from None
    # The library guesses the kind of a file from its content, and some kinds are lists of other files and addresses.
    if content[4:8] != b"ftyp":
        raise _refuse("video", "is not an MP4 file")
    with NamedTemporaryFile(prefix="procedural-", suffix=".mp4") as file:
        file.write(content)
        file.flush()
        capture = cv2.VideoCapture(file.name, cv2.CAP_FFMPEG)
        try:
            yield capture
        finally:
            capture.release()


def _describe(capture: cv2.VideoCapture) -> _Clip:
    """Return what a clip says of itself; Problem 422 when it cannot be decoded."""
    if not capture.isOpened():
        raise _refuse("video", "could not be decoded")
    names = (cv2.CAP_PROP_FRAME_WIDTH, cv2.CAP_PROP_FRAME_HEIGHT, cv2.CAP_PROP_FPS, cv2.CAP_PROP_FRAME_COUNT)
    width, height, fps, frames = (capture.get(name) for name in names)
    if not (width >= 2 and height >= 2 and frames >= 1 and 1 <= fps <= FRAMES_PER_SECOND_MAX):
        raise _refuse("video", f"must have frames, at most {FRAMES_PER_SECOND_MAX:g} a second")
    return _Clip(int(width), int(height), fps, int(frames))


def _check_clip(clip: _Clip, scale: int) -> None:
    pixels = clip.width * clip.height
    if pixels > FRAME_PIXELS_MAX or pixels * scale * scale > LARGE_FRAME_PIXELS_MAX:
        raise _refuse(
            "video",
            f"must have at most {FRAME_PIXELS_MAX:,} pixels a frame, and {LARGE_FRAME_PIXELS_MAX:,} when enlarged",
        )
    if pixels * clip.frames > CLIP_PIXELS_MAX:
        raise _refuse("video", f"must have at most {CLIP_PIXELS_MAX:,} pixels in all its frames together")


def _refuse(field: str, message: str) -> Problem:
    return Problem(422, "invalid_value", f"{field} {message}.", field)
