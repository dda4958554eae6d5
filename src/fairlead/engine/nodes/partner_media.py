"""Media for a partner's model and from it: values of the engine encoded as files, and files decoded."""

import base64
import io
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path, PosixPath
from typing import Any, Final

import numpy as np
import soundfile

from fairlead.domain.assets.media_types import HEAD_BYTES, media_type
from fairlead.domain.catalog.partner_bodies import LINK_WANTED
from fairlead.domain.catalog.partner_declarations import Kind, MaskColour, NodeInput, Spelling
from fairlead.engine.media import pictures, sound_files, sounds
from fairlead.engine.media.arrays import Array
from fairlead.engine.media.clips import FileClip

ENCODED_BYTES_MAX: Final = 22 * 2**20
"""The encoded bytes that all media of a call may have: as base64 they must fit into one message of a host."""
_PNG_COMPRESSION: Final = 4
_EITHER: Final = "IMAGE,VIDEO"
_IMAGE_DIMENSIONS: Final = 4
_MASK_DIMENSIONS: Final = 3


class UnusableMediaError(ValueError):
    """A value cannot be sent to a model, or a model's answer cannot be read."""


def encode_media(input_: NodeInput, value: object) -> list[str]:
    """The values of a socket as texts of a body, one for each picture of a batch. UnusableMediaError."""
    media = input_.media
    if media is None:
        raise TypeError(f"{input_.name} takes no media")
    texts: list[str] = []
    size = 0
    for content in _encode(input_, value):
        size += len(content)
        _check_size(size)
        type_ = media_type(None, content[:HEAD_BYTES])
        text = base64.b64encode(content).decode()
        uri = f"data:{type_};base64,{text}"
        plain = uri if media.spelling is Spelling.DATA_URI else text
        if media.spelling is Spelling.LINK or (media.may_be_link and _is_longer(plain, media.longest)):
            texts.append(LINK_WANTED + uri)
        else:
            texts.append(plain)
    return texts


def kind_of(type_: str) -> Kind:
    """The kind of content of a media type."""
    major = type_.partition("/")[0].upper()
    return Kind(major) if major in {"IMAGE", "VIDEO", "AUDIO"} else Kind.FILE


def _is_longer(text: str, longest: int | None) -> bool:
    return longest is not None and len(text) > longest


def _encode(input_: NodeInput, value: object) -> Iterator[bytes]:
    type_ = input_.type
    if type_ == _EITHER:
        type_ = "IMAGE" if hasattr(value, "shape") else "VIDEO"
    match type_:
        case "MASK":
            colour = (input_.media.mask if input_.media is not None else None) or MaskColour.WHITE
            for mask in _batch(input_, value, _MASK_DIMENSIONS):
                yield _mask(mask, colour)
        case "IMAGE":
            for image in _batch(input_, value, _IMAGE_DIMENSIONS):
                yield _png(image)
        case "AUDIO":
            yield sound_file(value)
        case _:
            yield clip_file(value)


def _batch(input_: NodeInput, value: object, dimensions: int) -> Array:
    values = np.asarray(value, np.float32)
    if values.ndim == dimensions - 1:
        values = values[None]
    if values.ndim != dimensions or values.shape[0] == 0:
        raise UnusableMediaError(f"{input_.name} must be a batch of pictures, and not of the shape {values.shape}.")
    return values


def _png(image: Array) -> bytes:
    file = io.BytesIO()
    pictures.as_picture(image).save(file, "PNG", compress_level=_PNG_COMPRESSION)
    return file.getvalue()


def _mask(mask: Array, colour: MaskColour) -> bytes:
    """A mask in the colours the model expects; 1 marks the area to change."""
    if colour is MaskColour.ALPHA:
        opaque = np.ones((*mask.shape, 3), np.float32)
        return _png(np.concatenate([opaque, 1.0 - mask[..., None]], axis=2))
    return _png((mask if colour is MaskColour.WHITE else 1.0 - mask)[..., None])


def read_pictures(path: Path) -> Array:
    """The frames of a picture file, with alpha where it has some. UnusableMediaError."""
    try:
        found = pictures.read(path)
    except pictures.UnreadablePictureError as error:
        raise UnusableMediaError(f"The picture that the model gave cannot be read: {error}") from error
    if found.alpha is None:
        return found.colours
    return np.concatenate([found.colours, found.alpha[..., None]], axis=3)


def as_batch(found: list[Array]) -> Array:
    """Pictures as one batch: those of another size or without alpha are brought to that of the first."""
    if len(found) == 1:
        return found[0]
    channels = max(one.shape[3] for one in found)
    size = found[0].shape[1:3]
    alike = [_with_channels(one, channels) for one in found if one.shape[1:3] == size]
    return np.concatenate(alike)


def _with_channels(images: Array, channels: int) -> Array:
    missing = channels - images.shape[3]
    return images if missing == 0 else np.concatenate([images, np.ones((*images.shape[:3], missing), np.float32)], 3)


def sound_file(value: Any) -> bytes:
    """A sound as WAV in 16 bits; of a batch its first. UnusableMediaError."""
    try:
        waveform, rate = sounds.parts(value)
    except (ValueError, TypeError) as error:
        raise UnusableMediaError(str(error)) from error
    if 0 in waveform.shape:
        raise UnusableMediaError("A sound without samples cannot be sent.")
    file = io.BytesIO()
    soundfile.write(file, waveform[0].T, rate, format="WAV", subtype="PCM_16")
    return file.getvalue()


def read_sound(path: Path) -> dict[str, object]:
    """A file as a sound. UnusableMediaError."""
    try:
        samples, rate = sound_files.read(path)
    except ValueError as error:
        raise UnusableMediaError(f"The sound that the model gave cannot be read: {error}") from error
    return sounds.sound(samples[None], rate)


def clip_file(value: object) -> bytes:
    """A clip as MP4. UnusableMediaError."""
    if not hasattr(value, "save_to"):
        raise UnusableMediaError("A video has to be one that can be saved.")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "clip.mp4"
        try:
            value.save_to(path, format="mp4", codec="auto")
            size = path.stat().st_size
        except (ValueError, OSError) as error:
            raise UnusableMediaError(f"The video cannot be sent: {error}") from error
        _check_size(size)
        return path.read_bytes()


def read_clip(path: Path) -> FileClip:
    """A file as a clip, which keeps its own copy as long as the clip is referenced. UnusableMediaError."""
    clip = FileClip(_OwnFile.copy(path))
    try:
        clip.get_dimensions()
    except (ValueError, OSError) as error:
        raise UnusableMediaError(f"The video that the model gave cannot be read: {error}") from error
    return clip


class _OwnFile(PosixPath):
    """A file that is removed with its last reference, because a cached clip outlives the files of its job."""

    @classmethod
    def copy(cls, path: Path) -> "_OwnFile":
        handle, name = tempfile.mkstemp(prefix="clip-", suffix=path.suffix)
        os.close(handle)
        shutil.copyfile(path, name)
        own = cls(name)
        weakref.finalize(own, Path(name).unlink, missing_ok=True)
        return own


def _check_size(size: int) -> None:
    if size > ENCODED_BYTES_MAX:
        raise UnusableMediaError(f"A model is given at most {ENCODED_BYTES_MAX} bytes of media, and not {size}.")
