"""Nodes that load videos of files, make them of images and sounds, take them apart, cut and save them."""

from fractions import Fraction
from typing import Annotated, Any, Final

from fairlead.engine.media import clips
from fairlead.engine.media.arrays import Array
from fairlead.engine.media.clips import Clip, Components, FileClip, MadeClip
from fairlead.engine.media.sounds import Sound
from fairlead.engine.nodes.context import Context, SavedFile
from fairlead.engine.nodes.images_io import HIDDEN, file_digest, known_file, metadata
from fairlead.engine.nodes.node import Blocked, Output, Result, boolean, combo, integer, node, number, socket, text


def _digest(context: Context, file: str) -> str:
    return file_digest(context, file)


def _is_known(context: Context, file: str | None) -> bool | str:
    return known_file(context, file, "video")


@node("LoadVideo", "Load Video", "video", outputs=(Output("VIDEO"),), fingerprint=_digest, validate=_is_known)
def load_video(context: Context, file: Annotated[str, combo(video_upload=True, multiselect=False)]) -> Clip:
    """A video in a file; its frames are decoded where they are needed."""
    clip = clips.kept_clip(context.input_file(file))
    clip.get_dimensions()
    return clip


@node("CreateVideo", "Create Video", "video", outputs=(Output("VIDEO"),))
def create_video(
    images: Annotated[Array, socket("IMAGE")],
    fps: Annotated[float, number(30.0, 1.0, 120.0, step=1.0)],
    audio: Annotated[Sound | None, socket("AUDIO")] = None,
    bit_depth: Annotated[int | None, integer(8, 8, 10, step=2, display="number")] = None,
) -> Clip:
    """A video of images and a sound, which is encoded where it is saved."""
    return MadeClip(Components(images, audio, Fraction(fps), bit_depth=bit_depth or 8))


@node(
    "GetVideoComponents", "Get Video Components", "video",
    outputs=(Output("IMAGE", "images"), Output("AUDIO", "audio"), Output("FLOAT", "fps"), Output("INT", "bit_depth")),
)  # fmt: skip
def get_video_components(
    context: Context, video: Annotated[Clip, socket("VIDEO")]
) -> tuple[Array, Sound | Blocked | None, float, int]:
    """The frames of a video, its sound if it has one, its frames a second, and the bits that frames were decoded to.

    A sound that cannot be decoded blocks every node that would take it, and says why.
    """
    found = _clip(video).get_components(context.check)
    heard = found.audio if found.note is None else Blocked(found.note)
    return found.images, heard, float(found.frame_rate), found.bit_depth


@node("Video Slice", "Trim Video", "video", outputs=(Output("VIDEO"),))
def trim_video(
    video: Annotated[Clip, socket("VIDEO")],
    start_time: Annotated[float, number(0.0, -100000.0, 100000.0, step=0.001)],
    duration: Annotated[float, number(0.0, 0.0, step=0.001)],
    strict_duration: Annotated[bool, boolean(default=False)],
) -> Clip:
    """The part of a video from a second on (from the end when negative), of a duration: 0 is all the rest."""
    whole = _clip(video)
    trimmed = whole.as_trimmed(start_time, duration, strict_duration=strict_duration)
    if trimmed is None:
        asked = f"from {start_time} s on, and {duration} s long"
        raise ValueError(f"The video lasts {whole.get_duration():.3f} s; there is no part of it {asked}.")
    return trimmed


@node(
    "SaveVideo", "Save Video", "video", outputs=(Output("VIDEO", "video"),), hidden=HIDDEN, is_output=True
)  # fmt: skip
def save_video(
    context: Context,
    video: Annotated[Clip, socket("VIDEO")],
    filename_prefix: Annotated[str, text("video/ComfyUI", multiline=False)],
    format: Annotated[str, combo("auto", "mp4", default="auto", multiselect=False)],  # noqa: A002 -- its name
    codec: Annotated[str, combo("auto", "h264", default="auto", multiselect=False)],
) -> Result:
    """Save a video, with the prompt in it; one that is a file already is copied when its format is what is wanted."""
    clip = _clip(video)
    width, height = clip.get_dimensions()
    extension = clip.extension_for(format, codec)
    path, file = context.new_file(filename_prefix, extension, width=width, height=height)
    clip.save_to(path, format, codec, metadata(context), context.check)
    return Result((video,), _show(file))


@node(
    "SaveWEBM", "Save WEBM", "video", outputs=(Output("IMAGE", "images"),), hidden=HIDDEN, is_output=True,
    is_experimental=True,
)  # fmt: skip
def save_webm(
    context: Context,
    images: Annotated[Array, socket("IMAGE")],
    filename_prefix: Annotated[str, text("ComfyUI", multiline=False)],
    codec: Annotated[str, combo("vp9", "av1", multiselect=False)],
    fps: Annotated[float, number(24.0, 0.01, 1000.0, step=0.01)],
    crf: Annotated[float, number(32.0, 0, 63.0, step=1)],
) -> Result:
    """Save a batch as WebM of a quality, 0 the best; without the optional library VP9 is always of the best."""
    path, file = context.new_file(filename_prefix, "webm", width=images.shape[2], height=images.shape[1])
    clips.write_webm(path, images, fps, codec, crf, metadata(context), context.check)
    return Result((images,), _show(file))


def _show(file: SavedFile) -> dict[str, object]:
    """A saved video for display: editors look for it among the images, the specification has it among videos."""
    return {"images": [file.as_ui()], "animated": (True,), "video": [file.as_ui()]}


def _clip(video: Any) -> Clip:
    """A video of the engine, or of a node pack, of which only the components are used."""
    if isinstance(video, FileClip | MadeClip):
        return video
    found = video.get_components()
    return MadeClip(Components(found.images, found.audio, Fraction(found.frame_rate)))


NODES: Final = (
    load_video,
    create_video,
    get_video_components,
    trim_video,
    save_video,
    save_webm,
)
