"""Looping clips: the same scenes, one moment after another round the circle of time."""

from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np

from .image import finish, fit, stage
from .requests import VideoRequest
from .seeds import generator
from .tasks import Made

# Frames move, so a softer picture is not seen; the encoder is the slow part above this size.
PAINTED_PIXELS_MAX = 200_000

# Enough to break up the bands of a smooth sky; more would cost the encoder half its time.
GRAIN = 0.003


def render(request: VideoRequest, seed: int, path: Path, goes_on: Callable[[float], bool]) -> Made:
    """Write an MP4 (VP9) to `path`, calling `goes_on` with the progress after each frame.

    Stops early when that returns False; the description of the clip is then of no use.
    Raises RuntimeError when the encoder cannot be opened.
    """
    width, height = request.width, request.height
    scene, canvas = stage(request.prompt, seed, width, height, PAINTED_PIXELS_MAX)
    count = max(1, round(request.duration_seconds * request.fps))
    writer = open_writer(path, request.fps, width, height)
    try:
        for number in range(count):
            canvas.turn = 2 * np.pi * number / count
            # The same grain in every frame: changing grain would be most of the file.
            grain = generator(request.prompt, seed, "grain")
            pixels = finish(fit(scene(canvas), width, height), grain, GRAIN)
            writer.write(np.ascontiguousarray(pixels[..., ::-1]))
            if not goes_on((number + 1) / count):
                break
    finally:
        writer.release()
    seconds = request.duration_seconds
    result = {"mime_type": "video/mp4", "duration_seconds": seconds, "width": width, "height": height}
    return Made({**result, "fps": request.fps}, {"seconds": seconds})


def open_writer(path: Path, fps: float, width: int, height: int) -> cv2.VideoWriter:
    """Open the VP9 encoder; RuntimeError when there is none."""
    code = cv2.VideoWriter.fourcc(*"vp09")
    writer = cv2.VideoWriter(str(path), cv2.CAP_FFMPEG, code, float(fps), (width, height))
    if not writer.isOpened():
        raise RuntimeError("the VP9 encoder could not be opened")
    return writer
