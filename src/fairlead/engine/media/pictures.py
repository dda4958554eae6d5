"""Picture files: read into arrays within bounds, written from arrays as existing editors expect them."""

import io
import json
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, TypeAlias

import cv2
import msgspec
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError
from PIL.PngImagePlugin import PngInfo

from fairlead.engine.media.arrays import FRAME_PIXELS_MAX, FRAMES_MAX, Array, check_size

Bytes: TypeAlias = NDArray[np.uint8]

_FORMATS: Final = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "AVIF", "JPEG2000", "PPM", "TGA")
"""What is read. The library knows more formats, some by running other programs, which no file name may cause."""
_UNREADABLE: Final = (
    OSError, ValueError, SyntaxError, EOFError, LookupError, TypeError, RuntimeError, ArithmeticError, struct.error,
    zlib.error, Image.DecompressionBombError, Image.DecompressionBombWarning,
)  # fmt: skip
"""What the library raises, by the format and by how a file is broken."""
_WHITE_16: Final = 65535
_PNG_HEADER_BYTES: Final = 33
"""The signature and the IHDR chunk, after which other chunks may stand."""
_PNG_KEYWORD_MAX: Final = 79


class UnreadablePictureError(ValueError):
    """A file is not a picture, is broken, or is larger than pictures may be."""


class Picture(msgspec.Struct, frozen=True):
    """The frames of a file: colours [B,H,W,3], and alpha [B,H,W] when any frame has some."""

    colours: Array
    alpha: Array | None


def to_bytes(values: Array) -> Bytes:
    """Values between 0 and 1 as bytes, truncated, not rounded: 0.5 is 127. Others are clipped, and NaN becomes 0."""
    return _clip(np.float32(255.0) * values, 255).astype(np.uint8)


def _clip(values: Array, most: float) -> Array:
    # Unlike `clip`, these replace NaN by a number.
    clipped: Array = np.fmin(np.fmax(values, np.float32(0)), np.float32(most))
    return clipped


def from_bytes(pixels: Bytes) -> Array:
    """Bytes as values between 0 and 1."""
    return pixels.astype(np.float32) / np.float32(255.0)


def read(path: Path, frames_max: int = FRAMES_MAX) -> Picture:
    """The frames of a file, turned as its camera says; those of another size than the first are left out.

    UnreadablePictureError for what is not a picture, or has more frames or pixels than fit.
    """
    with open_picture(path) as image:
        colours: list[Array] = []
        alphas: list[Array | None] = []
        for frame in _frames(image, frames_max):
            check_size(len(colours) + 1, frame.height, frame.width)
            found = _colours(frame)
            if colours and found.shape != colours[0].shape:
                continue  # turned another way than the first
            colours.append(found)
            alphas.append(_alpha(frame))
    return Picture(np.stack(colours), _stack(alphas, colours[0].shape[:2]))


def read_channel(path: Path, channel: str) -> Array:
    """One channel of the first frame of a file, [H,W]: R, G, B or A; a picture without alpha is opaque."""
    with open_picture(path) as image:
        frame = next(_frames(image, 1))
        if channel != "A":
            return np.ascontiguousarray(_colours(frame)[..., "RGB".index(channel)])
        alpha = _alpha(frame)
        return np.ones((frame.height, frame.width), np.float32) if alpha is None else alpha


def read_painting(path: Path, width: int, height: int) -> Array:
    """The first frame of a file with its alpha, [1,H,W,4], scaled by Lanczos to a size if it has another."""
    with open_picture(path) as image:
        painting = next(_frames(image, 1)).convert("RGBA")
        if painting.size != (width, height):
            painting = painting.resize((width, height), Image.Resampling.LANCZOS)
        return from_bytes(np.asarray(painting))[None]


@contextmanager
def open_picture(path: Path) -> Iterator[Image.Image]:
    """A file as the library opens it, by its header; what the library raises meanwhile is UnreadablePictureError."""
    try:
        with Image.open(path, formats=_FORMATS) as image:
            yield image
    except UnreadablePictureError:
        raise
    except UnidentifiedImageError:  # its message names the server's file, which callers must not learn
        raise UnreadablePictureError("The picture cannot be read: it is of no kind that is known.") from None
    except _UNREADABLE as error:
        raise UnreadablePictureError(f"The picture cannot be read: {error}") from error


def _frames(image: Image.Image, frames_max: int) -> Iterator[Image.Image]:
    """The frames that have the size of the first, turned upright; sizes are known before anything is decoded."""
    size = None
    for index in range(frames_max):
        if not _goes_to(image, index):
            return
        size = size or image.size
        if image.size != size:
            continue
        if image.width * image.height > FRAME_PIXELS_MAX:
            shape = f"{image.width} x {image.height}"
            raise UnreadablePictureError(
                f"The picture has {shape} pixels, more than the {FRAME_PIXELS_MAX} of a frame."
            )
        yield ImageOps.exif_transpose(image)
        if image.format == "MPO":
            return  # its other frames are views and depth of the same photograph
    if frames_max == FRAMES_MAX and _goes_to(image, frames_max):
        raise UnreadablePictureError(f"The picture has more than {FRAMES_MAX} frames.")


def _goes_to(image: Image.Image, index: int) -> bool:
    try:
        image.seek(index)
    except EOFError:
        return False
    return True


def _colours(frame: Image.Image) -> Array:
    if frame.mode.startswith("I") or frame.mode == "F":
        grey = np.asarray(frame).astype(np.float32)
        if frame.mode != "F":  # floating point is taken as it is
            grey = np.clip(grey / np.float32(_WHITE_16), 0, 1)
        return np.repeat(grey[..., None], 3, axis=2)
    return from_bytes(np.asarray(frame.convert("RGB")))


def _alpha(frame: Image.Image) -> Array | None:
    if not frame.has_transparency_data or frame.mode.startswith(("I", "F")):
        return None
    return from_bytes(np.asarray(frame.convert("RGBA").getchannel("A")))


def _stack(alphas: Sequence[Array | None], shape: tuple[int, ...]) -> Array | None:
    if all(alpha is None for alpha in alphas):
        return None
    return np.stack([np.ones(shape, np.float32) if alpha is None else alpha for alpha in alphas])


def as_picture(image: Array) -> Image.Image:
    """An image [H,W,C] as a picture in 8 bits: grey, grey and alpha, colours, or colours and alpha."""
    channels = image.shape[2]
    if not 1 <= channels <= 4:  # noqa: PLR2004 -- as the docstring counts them
        raise ValueError(f"An image of {channels} channels cannot be saved as a picture.")
    pixels = to_bytes(image)
    return Image.fromarray(pixels[..., 0] if channels == 1 else pixels)


def write_png(target: Path | BinaryIO, image: Array, texts: Mapping[str, object], compression: int) -> None:
    """Save an image [H,W,C] in 8 bits a channel, with texts as JSON."""
    info = PngInfo()
    for name, value in _writable(texts):
        info.add_text(name, value)
    as_picture(image).save(target, "PNG", pnginfo=info, compress_level=compression)


def encode_png(image: Array, texts: Mapping[str, object], compression: int) -> bytes:
    """The same as bytes."""
    target = io.BytesIO()
    write_png(target, image, texts, compression)
    return target.getvalue()


def encode_png_16(image: Array, texts: Mapping[str, object], compression: int) -> bytes:
    """An image [H,W,C] as a PNG of 16 bits a channel, with texts as JSON."""
    channels = image.shape[2]
    if channels not in (1, 3, 4):
        raise ValueError(f"An image of {channels} channels cannot be saved in 16 bits.")
    values = _clip(np.float32(_WHITE_16) * image, _WHITE_16).astype(np.uint16)
    order = {1: (0,), 3: (2, 1, 0), 4: (2, 1, 0, 3)}[channels]  # the encoder takes blue first
    _, encoded = cv2.imencode(".png", values[..., order], [cv2.IMWRITE_PNG_COMPRESSION, compression])
    png = encoded.tobytes()
    chunks = b"".join(_text_chunk(name, value) for name, value in _writable(texts))
    return png[:_PNG_HEADER_BYTES] + chunks + png[_PNG_HEADER_BYTES:]


def write_animated_png(path: Path, images: Array, fps: float, texts: Mapping[str, object], compression: int) -> None:
    """Save a batch as frames of one PNG, each shown for the same whole number of milliseconds."""
    info = PngInfo()
    for name, value in _writable(texts):
        # Players stop at a text before the frames; ComfyUI's editors read this chunk after them.
        info.add(b"comf", name.encode("latin-1") + b"\0" + value.encode("latin-1"), after_idat=True)
    first, *others = [as_picture(image) for image in images]
    first.save(
        path, "PNG", pnginfo=info, compress_level=compression, save_all=True, duration=int(1000 / fps),
        append_images=others,
    )  # fmt: skip


def write_animated_webp(
    path: Path, images: Array, fps: float, texts: Mapping[str, object], *, lossless: bool, quality: int, method: int
) -> None:
    """Save a batch as frames of one WebP; texts go into Exif tags, Model and those below it, where editors look."""
    first, *others = [as_picture(image) for image in images]
    exif = first.getexif()
    tag = 0x010F
    for name, value in _writable(texts):
        if name == "prompt":
            exif[0x0110] = f"{name}:{value}"
        else:
            exif[tag] = f"{name}:{value}"
            tag -= 1
    first.save(
        path, "WEBP", save_all=True, duration=int(1000 / fps), append_images=others, exif=exif,
        lossless=lossless, quality=quality, method=method,
    )  # fmt: skip


def as_json(texts: Mapping[str, object]) -> Mapping[str, str]:
    """The texts a file can hold, as JSON in ASCII."""
    return dict(_writable(texts))


def _writable(texts: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Texts by name as JSON in ASCII; a name that no file can hold is left out."""
    for name, value in texts.items():
        if name.isascii() and name.isprintable() and 1 <= len(name) <= _PNG_KEYWORD_MAX:
            yield name, json.dumps(value)


def _text_chunk(name: str, value: str) -> bytes:
    chunk = io.BytesIO()
    body = b"tEXt" + name.encode("latin-1") + b"\0" + value.encode("latin-1")
    chunk.write(struct.pack(">I", len(body) - 4))
    chunk.write(body)
    chunk.write(struct.pack(">I", zlib.crc32(body)))
    return chunk.getvalue()
