"""What each endpoint accepts, as checked values: a request that exists here is within every bound."""

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Self

import msgspec
from msgspec.structs import asdict

from .wire import Problem

Body = Mapping[str, object]

PROMPT_CHARACTERS_MAX = 2000
SEED_MAX = 4294967295
SIDE_MIN = 64
IMAGE_SIDE_MAX = 2048
VIDEO_SIDE_MAX = 1024


class ImageRequest(msgspec.Struct, frozen=True):
    """A picture from words, or an edit when `image` (a data URI) is present; sides are pixels or None."""

    prompt: str
    seed: int | None
    width: int | None
    height: int | None
    image: str | None
    strength: float

    @classmethod
    def read(cls, body: Body) -> Self:
        """Check a body; Problem 422 names the first field that is out of bounds."""
        return cls(
            prompt=_prompt(body),
            seed=_seed(body),
            width=_whole(body, "width", SIDE_MIN, IMAGE_SIDE_MAX),
            height=_whole(body, "height", SIDE_MIN, IMAGE_SIDE_MAX),
            image=_text(body, "image"),
            strength=_number(body, "strength", 0.0, 1.0, 0.6),
        )


class AudioRequest(msgspec.Struct, frozen=True):
    """A piece of music: length in seconds, rate in samples per second."""

    prompt: str
    seed: int | None
    duration_seconds: float
    sample_rate: int

    @classmethod
    def read(cls, body: Body) -> Self:
        """Check a body; Problem 422 names the first field that is out of bounds."""
        return cls(
            prompt=_prompt(body),
            seed=_seed(body),
            duration_seconds=_number(body, "duration_seconds", 0.5, 30.0, 4.0),
            sample_rate=_choice(body, "sample_rate", (22050, 44100, 48000), 44100),
        )


class VideoRequest(msgspec.Struct, frozen=True):
    """A looping clip: length in seconds, sides in pixels (even), frames per second."""

    prompt: str
    seed: int | None
    duration_seconds: float
    width: int
    height: int
    fps: int

    @classmethod
    def read(cls, body: Body) -> Self:
        """Check a body; Problem 422 names the first field that is out of bounds."""
        return cls(
            prompt=_prompt(body),
            seed=_seed(body),
            duration_seconds=_number(body, "duration_seconds", 0.5, 10.0, 2.0),
            width=_even(body, "width", 384),
            height=_even(body, "height", 216),
            fps=_choice(body, "fps", (12, 24, 30), 24),
        )

    @property
    def extension(self) -> str:
        """The kind of file the result is."""
        return "mp4"

    @property
    def held_bytes(self) -> int:
        """What the request holds in memory while it waits: next to nothing."""
        return 0


class TextRequest(msgspec.Struct, frozen=True):
    """A piece of prose no longer than `max_characters`."""

    prompt: str
    seed: int | None
    max_characters: int

    @classmethod
    def read(cls, body: Body) -> Self:
        """Check a body; Problem 422 names the first field that is out of bounds."""
        length = _whole(body, "max_characters", 1, 20000)
        return cls(prompt=_prompt(body), seed=_seed(body), max_characters=400 if length is None else length)


class UpscaleRequest(msgspec.Struct, frozen=True):
    """A picture or a clip to enlarge, each a data URI; exactly one of them is there. `scale` is for both sides."""

    image: str | None
    video: str | None
    scale: int
    seed: int | None = None

    @classmethod
    def read(cls, body: Body) -> Self:
        """Check a body; Problem 422 names the first field that is out of bounds."""
        image, video = _text(body, "image"), _text(body, "video")
        if (image is None) == (video is None):
            raise _invalid("image", "or video is required, and not both")
        return cls(image, video, _choice(body, "scale", (2, 3, 4), 2))

    @property
    def extension(self) -> str:
        """The kind of file the result is."""
        return "mp4" if self.image is None else "png"

    @property
    def held_bytes(self) -> int:
        """What the request holds in memory while it waits."""
        return len(self.image or "") + len(self.video or "")


TaskRequest = VideoRequest | UpscaleRequest
Request = ImageRequest | AudioRequest | TextRequest | TaskRequest


def fingerprint(path: str, request: Request) -> bytes:
    """Return a digest equal for two calls that ask for the same thing at the same endpoint."""
    return hashlib.sha256(json.dumps([path, asdict(request)]).encode()).digest()


def _invalid(name: str, message: str) -> Problem:
    return Problem(422, "invalid_value", f"{name} {message}.", name)


def _text(body: Body, name: str) -> str | None:
    value = body.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise _invalid(name, "must be a string")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _invalid(name, "contains half of a surrogate pair") from None
    return value


def _prompt(body: Body) -> str:
    value = _text(body, "prompt")
    if value is None:
        raise _invalid("prompt", "is required")
    if not 1 <= len(value) <= PROMPT_CHARACTERS_MAX:
        raise _invalid("prompt", f"must have 1 to {PROMPT_CHARACTERS_MAX} characters")
    return value


def _seed(body: Body) -> int | None:
    return _whole(body, "seed", 0, SEED_MAX)


def _whole(body: Body, name: str, low: int, high: int) -> int | None:
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise _invalid(name, f"must be a whole number from {low} to {high}")
    return value


def _even(body: Body, name: str, default: int) -> int:
    value = _whole(body, name, SIDE_MIN, VIDEO_SIDE_MAX)
    if value is None:
        return default
    if value % 2:
        raise _invalid(name, "must be even, because the video encoder halves the colour planes")
    return value


def _number(body: Body, name: str, low: float, high: float, default: float) -> float:
    value = body.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _invalid(name, "must be a number")
    if (isinstance(value, float) and not math.isfinite(value)) or not low <= value <= high:
        raise _invalid(name, f"must be from {low:g} to {high:g}")
    return float(value)


def _choice(body: Body, name: str, allowed: tuple[int, ...], default: int) -> int:
    value = body.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or value not in allowed:
        raise _invalid(name, f"must be one of {', '.join(map(str, allowed))}")
    return value
