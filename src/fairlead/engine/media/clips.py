"""Videos as nodes know them: a file, of which nothing is decoded until it is needed, or images.

Methods have the names that node packs know.
"""

import math
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Final, Protocol

import msgspec
import numpy as np

from fairlead.engine.media import clip_encoding, clip_frames, clip_library, clip_sound, mp4, mp4_writing, pictures, webm
from fairlead.engine.media.arrays import Array
from fairlead.engine.media.sounds import Sound, parts, resample, sound
from fairlead.engine.media.streams import OpusStream

_RATE_STEPS: Final = 1_000
"""Parts of a frame a second that rates are rounded to, so that they are exact in files."""
_AAC_RATE_MAX: Final = 48_000
_WRITTEN_CHANNELS_MAX: Final = 2
_H264: Final = frozenset({"avc1", "avc3"})
Check = Callable[[], object]


def _go_on() -> None:
    """The check of a caller that never stops."""


class Components(msgspec.Struct, frozen=True):
    """What a video consists of."""

    images: Array
    audio: Sound | None
    frame_rate: Fraction
    metadata: Mapping[str, object] | None = None
    bit_depth: int = 8
    note: str | None = None
    """Why there is no sound, when the video has one that cannot be decoded."""


class Clip(Protocol):
    """A video."""

    def get_components(self, check: Check = _go_on) -> Components:
        """All of it, decoded. ValueError for a broken file, or one that is too large."""
        ...

    def get_dimensions(self) -> tuple[int, int]:
        """Width and height."""
        ...

    def get_duration(self) -> float:
        """Seconds."""
        ...

    def get_frame_rate(self) -> Fraction:
        """Frames a second."""
        ...

    def get_frame_count(self) -> int:
        """Frames."""
        ...

    def as_trimmed(self, start_time: float, duration: float, *, strict_duration: bool = True) -> "Clip | None":
        """The part from a second on (from the end when negative), of a duration (0: all the rest).

        None when it would be shorter and must not be.
        """
        ...

    def extension_for(self, format: str, codec: str) -> str:  # noqa: A002 -- its name
        """The extension of a file that it would be saved to."""
        ...

    def save_to(
        self,
        path: Path,
        format: str = "auto",  # noqa: A002 -- its name
        codec: str = "auto",
        metadata: Mapping[str, object] | None = None,
        check: Check = _go_on,
    ) -> None:
        """Write it to a file. ValueError for what cannot be written."""
        ...


class MadeClip(msgspec.Struct, frozen=True):
    """A video of images in memory."""

    components: Components

    def get_components(self, check: Check = _go_on) -> Components:  # noqa: ARG002 -- nothing takes long
        """What it consists of."""
        return self.components

    def get_dimensions(self) -> tuple[int, int]:
        """Width and height."""
        return self.components.images.shape[2], self.components.images.shape[1]

    def get_duration(self) -> float:
        """Seconds."""
        return float(len(self.components.images) / self.components.frame_rate)

    def get_frame_rate(self) -> Fraction:
        """Frames a second."""
        return self.components.frame_rate

    def get_frame_count(self) -> int:
        """Frames."""
        return len(self.components.images)

    def as_trimmed(self, start_time: float, duration: float, *, strict_duration: bool = True) -> "MadeClip | None":
        """A part of it, whose frames and samples begin within the time."""
        length = self.get_duration()
        start = max(length + start_time, 0) if start_time < 0 else start_time
        end = min(start + duration, length) if duration else length
        if (strict_duration and end - start < duration - 1e-9) or end <= start:
            return None
        rate = self.components.frame_rate
        first, last = _first_at(start, rate), _first_at(end, rate)
        if last <= first:
            return None
        part = msgspec.structs.replace(self.components, images=self.components.images[first:last])
        return MadeClip(msgspec.structs.replace(part, audio=_cut(part.audio, start, end)))

    def extension_for(self, format: str, codec: str) -> str:  # noqa: A002, ARG002 -- it is always the same
        """The ending of the name of a file."""
        return "mp4"

    def save_to(
        self,
        path: Path,
        format: str = "auto",  # noqa: A002, ARG002 -- there is only one
        codec: str = "auto",
        metadata: Mapping[str, object] | None = None,
        check: Check = _go_on,
    ) -> None:
        """Write it as MP4: in H.264 and AAC with the optional library, otherwise in VP9 and Opus."""
        _write_mp4(path, self.components, codec, metadata or {}, check)


@dataclass(frozen=True, slots=True)
class FileClip:
    """A video in a file, or a part of it."""

    path: Path
    start_time: float = 0.0
    duration: float = 0.0
    """0 for all that follows."""
    _known: dict[str, float] = field(default_factory=dict, compare=False, repr=False)
    _keeper: object = field(default=None, compare=False, repr=False)
    """An object that keeps the file as long as the clip is referenced."""
    nbytes: int = field(default=0, compare=False, repr=False)
    """The size of the kept file on disk: a cache counts it as memory, so that it cannot fill the disk."""

    def __repr__(self) -> str:
        """Its text for display, which does not reveal the path."""
        return f"FileClip(start_time={self.start_time}, duration={self.duration})"

    def get_components(self, check: Check = _go_on) -> Components:
        """All of it, decoded."""
        start, end = self._window()
        images = clip_frames.read(self.path, start, end, check)
        heard, note = None, None
        try:
            found = clip_sound.read(self.path)
            heard = None if found is None else _cut(sound(found[0][None], found[1]), start, end)
        except clip_sound.UndecodableSoundError as error:
            note = str(error)
        texts = mp4.texts(mp4.read_index(self.path)) if self._container() == "mp4" else None
        return Components(images, heard, self.get_frame_rate(), texts, note=note)

    def get_dimensions(self) -> tuple[int, int]:
        """Width and height."""
        facts = clip_frames.probe(self.path)
        return facts.width, facts.height

    def get_duration(self) -> float:
        """Seconds."""
        start, end = self._window()
        return max(end - start, 0.0)

    def get_frame_rate(self) -> Fraction:
        """Frames a second."""
        return clip_frames.probe(self.path).rate

    def get_frame_count(self) -> int:
        """Frames, as far as their number is known without decoding."""
        return round(self.get_duration() * self.get_frame_rate())

    def as_trimmed(self, start_time: float, duration: float, *, strict_duration: bool = True) -> "FileClip | None":
        """A part of it; nothing is decoded."""
        start, end = self._window()
        begins = max(end + start_time, start) if start_time < 0 else start + start_time
        left = end - begins
        if left <= 0 or (strict_duration and left < duration - 1e-9):
            return None
        return replace(self, start_time=begins, duration=min(duration, left) if duration else left)

    def extension_for(self, format: str, codec: str) -> str:  # noqa: A002 -- its name
        """The extension of a file: that of its own container when it can stay as it is."""
        return self._container() if self._stays(format, codec) else "mp4"

    def save_to(
        self,
        path: Path,
        format: str = "auto",  # noqa: A002 -- its name
        codec: str = "auto",
        metadata: Mapping[str, object] | None = None,
        check: Check = _go_on,
    ) -> None:
        """Copy the file, with its sound, when nothing of it is to change; otherwise decode and encode it again."""
        if not self._stays(format, codec):
            _write_mp4(path, self.get_components(check), codec, metadata or {}, check)
        elif self._container() == "mp4":
            clip_frames.probe(self.path)
            mp4_writing.copy_with_texts(self.path, path, pictures.as_json(metadata or {}))
        else:
            clip_frames.probe(self.path)
            shutil.copyfile(self.path, path)

    def _window(self) -> tuple[float, float]:
        """The seconds at which it begins and ends."""
        if "seconds" not in self._known:
            facts = clip_frames.probe(self.path)
            self._known["seconds"] = facts.seconds or float(clip_frames.count(self.path) / facts.rate)
        whole = self._known["seconds"]
        return self.start_time, min(self.start_time + self.duration, whole) if self.duration else whole

    def _stays(self, format: str, codec: str) -> bool:  # noqa: A002 -- its name
        container = self._container()
        if self.start_time or self.duration or not container or format not in {"auto", container}:
            return False
        return codec == "auto" or (codec == "h264" and container == "mp4" and self._is_h264())

    def _container(self) -> str:
        with self.path.open("rb") as file:
            beginning = file.read(12)
        if beginning.startswith(webm.SIGNATURE):
            return "webm"
        return "mp4" if beginning[4:8] == b"ftyp" else ""

    def _is_h264(self) -> bool:
        return any(track.codec in _H264 for track in mp4.tracks(self.path))


def kept_clip(path: Path) -> FileClip:
    """A video in a file that may be removed: its bytes are kept as long as the clip is referenced."""
    keeper = _Keeper(path)
    return FileClip(keeper.path, _keeper=keeper, nbytes=keeper.path.stat().st_size)


class _Keeper:
    """A hard link to a file, or a copy where that is not possible; it is removed with its last reference."""

    def __init__(self, path: Path) -> None:
        folder = Path(tempfile.mkdtemp(prefix="clip-"))
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self.path: Final = folder / "clip"
        try:
            self.path.hardlink_to(path)
        except OSError:
            shutil.copyfile(path, self.path)


def _first_at(second: float, rate: Fraction) -> int:
    """The first frame that is shown at a second or later."""
    return math.ceil(second * float(rate) - 1e-6)


def _cut(given: Sound | None, start: float, end: float) -> Sound | None:
    """A sound from a second on up to another; None when nothing is left of it."""
    if given is None:
        return None
    waveform, rate = parts(given)
    part = waveform[..., round(start * rate) : max(round(end * rate), 0)]
    return sound(part, rate) if part.shape[-1] else None


def _write_mp4(path: Path, given: Components, codec: str, metadata: Mapping[str, object], check: Check) -> None:
    if given.note is not None:
        raise ValueError(f"The video cannot be encoded again with its sound. {given.note}")
    rate = Fraction(round(given.frame_rate * _RATE_STEPS), _RATE_STEPS)
    if rate <= 0 or not len(given.images):
        raise ValueError("A video has at least one frame, and more than none a second.")
    texts = pictures.as_json(metadata)
    heard = _sound_of(given, rate)
    if clip_library.is_there():
        size = given.images.shape[2] // 2 * 2, given.images.shape[1] // 2 * 2
        images = _check_each(given.images[:, : size[1], : size[0], :3], check)
        aac = heard and (
            resample(heard[0][None], heard[1], min(heard[1], _AAC_RATE_MAX))[0],
            min(heard[1], _AAC_RATE_MAX),
        )
        clip_library.write(path, "mp4", "h264", images, size, rate, aac, texts, bit_depth=given.bit_depth)
        return
    if codec == "h264" or given.bit_depth > 8:  # noqa: PLR2004 -- what bytes hold
        needed = "H.264" if codec == "h264" else "more than 8 bits"
        raise ValueError(f"A video in {needed} {clip_library.NEEDED} The format auto needs nothing.")
    with _folder(path) as folder:
        frames = clip_encoding.vp9(Path(folder), given.images, rate, check)
        opus: OpusStream | None = None if heard is None else clip_encoding.opus(Path(folder), *heard)
        mp4_writing.write(path, frames, opus, texts)


def _sound_of(given: Components, rate: Fraction) -> tuple[Array, int] | None:
    """The first sound of a batch, as long as the frames are shown, in at most two channels."""
    if given.audio is None:
        return None
    waveform, sample_rate = parts(given.audio)
    samples = waveform[0, :_WRITTEN_CHANNELS_MAX, : math.ceil(sample_rate / rate * len(given.images))]
    return (np.nan_to_num(samples), sample_rate) if samples.size else None


def write_webm(
    path: Path, images: Array, fps: float, codec: str, crf: float, metadata: Mapping[str, object], check: Check
) -> None:
    """Write images as WebM in VP9 or AV1; of VP9 the quality can only be chosen with the optional library."""
    rate = Fraction(round(fps * _RATE_STEPS), _RATE_STEPS)
    texts = pictures.as_json(metadata)
    if clip_library.is_there():
        size = images.shape[2] // 2 * 2, images.shape[1] // 2 * 2
        wanted = _check_each(images[:, : size[1], : size[0], :3], check)
        clip_library.write(path, "webm", codec, wanted, size, rate, None, texts, crf=crf)
        return
    with _folder(path) as folder:
        if codec == "av1":
            frames = clip_encoding.av1(Path(folder), images, rate, crf, check)
        else:
            frames = clip_encoding.vp9(Path(folder), images, rate, check)
        webm.write(path, frames, texts)


def _check_each(images: Array, check: Check) -> Iterable[Array]:
    for image in images:
        check()
        yield image


def _folder(path: Path) -> "tempfile.TemporaryDirectory[str]":
    """A temporary folder beside a file, hidden from listings of new files."""
    return tempfile.TemporaryDirectory(prefix=".partial-", dir=path.parent)
