"""Videos as packs know them, made of the videos of our own nodes."""

import io
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np

from fairlead.engine.media.clips import Clip, Components, FileClip, MadeClip
from fairlead.engine.nodes.node_context import current_context
from fairlead.engine.packs.tensors import for_pack as tensor
from fairlead.engine.packs.tensors import from_pack as array


class VideoContainer(StrEnum):
    """Kinds of files."""

    AUTO = "auto"
    MP4 = "mp4"


class VideoCodec(StrEnum):
    """Ways to encode pictures."""

    AUTO = "auto"
    H264 = "h264"


@dataclass
class VideoComponents:
    """What a video consists of, as packs know it."""

    images: object
    frame_rate: Fraction
    audio: object = None
    metadata: Mapping[str, object] | None = None
    bit_depth: int = 8
    alpha: object = None


class Video:
    """A video. All its results are in the packs' types."""

    def __init__(self, clip: Clip) -> None:
        self.clip: Final = clip

    def get_components(self) -> VideoComponents:
        """All of it, decoded. ValueError for a broken file, or one that is too large."""
        found = self.clip.get_components(_check)
        return VideoComponents(
            tensor(found.images), found.frame_rate, tensor(found.audio), found.metadata, found.bit_depth
        )

    def get_dimensions(self) -> tuple[int, int]:
        """Width and height."""
        return self.clip.get_dimensions()

    def get_duration(self) -> float:
        """Seconds."""
        return self.clip.get_duration()

    def get_frame_rate(self) -> Fraction:
        """Frames a second."""
        return self.clip.get_frame_rate()

    def get_frame_count(self) -> int:
        """Frames."""
        return self.clip.get_frame_count()

    def get_container_format(self) -> str:
        """The kind of file it would be saved to."""
        return self.clip.extension_for("auto", "auto")

    def get_stream_source(self) -> str | io.BytesIO:
        """The file it is in, as it is; without one, the bytes it would be saved as."""
        if isinstance(self.clip, FileClip) and not (self.clip.start_time or self.clip.duration):
            return str(self.clip.path)
        buffer = io.BytesIO()
        self.save_to(buffer)
        buffer.seek(0)
        return buffer

    def save_to(
        self,
        path: Any,
        format: object = VideoContainer.AUTO,  # noqa: A002 -- packs call it so
        codec: object = VideoCodec.AUTO,
        metadata: Mapping[str, object] | None = None,
        **_: object,
    ) -> None:
        """Write it to a file, by its path or into an open one. ValueError for what cannot be written."""
        if isinstance(path, str | Path):
            self.clip.save_to(Path(path), str(format), str(codec), metadata, _check)
            return
        with tempfile.TemporaryDirectory(prefix="video-") as folder:
            file = Path(folder) / f"video.{self.clip.extension_for(str(format), str(codec))}"
            self.clip.save_to(file, str(format), str(codec), metadata, _check)
            path.write(file.read_bytes())

    def as_trimmed(
        self,
        start_time: float = 0.0,
        duration: float = 0.0,
        strict_duration: bool = False,  # noqa: FBT001, FBT002 -- packs may give it by place
    ) -> "Video | None":
        """The part from a second on, of a duration (0: all the rest); None when it would be shorter and must not be."""
        part = self.clip.as_trimmed(start_time, duration, strict_duration=strict_duration)
        return None if part is None else Video(part)


class VideoFromFile(Video):
    """A video in a file, or in bytes."""

    def __init__(self, file: object, *, start_time: float = 0.0, duration: float = 0.0, **_: object) -> None:
        path = Path(file) if isinstance(file, str | Path) else _write(file)
        super().__init__(FileClip(path, start_time, duration))


class VideoFromComponents(Video):
    """A video of images in memory."""

    def __init__(self, components: VideoComponents) -> None:
        images = np.asarray(array(components.images), np.float32)
        sound = array(components.audio)
        rate = Fraction(components.frame_rate)
        super().__init__(MadeClip(Components(images, sound, rate, components.metadata, components.bit_depth)))


def for_pack(value: object) -> object:
    """A video of ours, or a list of them, as a pack takes it; anything else as it is."""
    if isinstance(value, list) and any(isinstance(item, MadeClip | FileClip) for item in value):
        return [for_pack(item) for item in value]
    return Video(value) if isinstance(value, MadeClip | FileClip) else value


def from_pack(value: object) -> object:
    """A video of a pack, or a list of them, as our nodes take it; anything else as it is."""
    if isinstance(value, list) and any(isinstance(item, Video) for item in value):
        return [from_pack(item) for item in value]
    return value.clip if isinstance(value, Video) else value


def _write(file: Any) -> Path:
    """Bytes as a file: videos are read from files only. It lasts as long as the host's folder."""
    with tempfile.NamedTemporaryFile(prefix="video-", suffix=".mp4", delete=False) as written:
        written.write(file.getvalue() if hasattr(file, "getvalue") else file.read())
    return Path(written.name)


def _check() -> None:
    context = current_context()
    if context is not None:
        context.check()


API: Final = {
    "Input": {"Video": Video, "Image": object, "Audio": dict[str, object], "Mask": object, "Latent": dict[str, object]},
    "InputImpl": {"VideoFromFile": VideoFromFile, "VideoFromComponents": VideoFromComponents},
    "Types": {"VideoComponents": VideoComponents, "VideoContainer": VideoContainer, "VideoCodec": VideoCodec},
}
"""Parts of the schema form's package, by name."""
