"""Looping clips: the same scenes, one moment after another round the circle of time."""

from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np

from .image import finish, fit, stage
from .requests import VideoRequest
from .seeds import generator

# Frames move, so a softer picture is not seen; the encoder is the slow part above this size.
PAINTED_PIXELS_MAX = 200_000

# Enough to break up the bands of a smooth sky; more would cost the encoder half its time.
GRAIN = 0.003


def render(request: VideoRequest, seed: int, path: Path, goes_on: Callable[[float], bool]) -> None:
    """Write an MP4 (VP9) to `path`, calling `goes_on` with the progress after each frame.

    Stops early when that returns False. Raises RuntimeError when the encoder cannot be opened.
    """
    width, height = request.width, request.height
    scene, canvas = stage(request.prompt, seed, width, height, PAINTED_PIXELS_MAX)
    count = max(1, round(request.duration_seconds * request.fps))
    writer = _open(path, request.fps, width, height)
    try:
        for number in range(count):
            canvas.turn = 2 * np.pi * number / count
            # The same grain in every frame: changing grain would be most of the file.
            grain = generator(request.prompt, seed, "grain")
            pixels = finish(fit(scene(canvas), width, height), grain, GRAIN)
            writer.write(np.ascontiguousarray(pixels[..., ::-1]))
            if not goes_on((number + 1) / count):
                return
    finally:
        writer.release()


def _open(path: Path, fps: int, width: int, height: int) -> cv2.VideoWriter:
    code = cv2.VideoWriter.fourcc(*"vp09")
    writer = cv2.VideoWriter(str(path), cv2.CAP_FFMPEG, code, float(fps), (width, height))
    if not writer.isOpened():
        raise RuntimeError("the VP9 encoder could not be opened")
    return writer
