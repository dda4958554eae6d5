"""Nodes that load, create, save and show images."""

import hashlib
import json
import re
import secrets
import string
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Final

import numpy as np

from fairlead.domain.assets.filenames import is_web_link
from fairlead.engine.media import exr, pictures
from fairlead.engine.media.arrays import Array, check_size
from fairlead.engine.nodes.context import Context, NoSuchFileError
from fairlead.engine.nodes.node import (
    Declared,
    Output,
    Result,
    bare_socket,
    boolean,
    combo,
    integer,
    node,
    number,
    old_combo,
    socket,
    text,
)

_EDGE: Final = 16384
_NO_MASK_SIDE: Final = 64
"""The side of the mask of a picture that has no alpha."""
_SAVED_COMPRESSION: Final = 4
_SHOWN_COMPRESSION: Final = 1
_WEBP_METHODS: Final = MappingProxyType({"default": 4, "fastest": 0, "slowest": 6})
_SVG_START: Final = re.compile(rb"<svg\b")
_SVG_STARTS_MAX: Final = 8
_SVG_OPENING: Final = re.compile(rb"""<svg\b(?:[^>"']|"[^"]*"|'[^']*')*>""")
_OLD_HIDDEN: Final = MappingProxyType({"prompt": "PROMPT", "extra_pnginfo": "EXTRA_PNGINFO"})
HIDDEN: Final = MappingProxyType({"prompt": ["PROMPT"], "extra_pnginfo": ["EXTRA_PNGINFO"]})
"""The hidden inputs of newer nodes that write metadata into files."""


@node("EmptyImage", "Empty Image", "image", outputs=(Output("IMAGE"),))
def empty_image(
    width: Annotated[int, integer(512, 1, _EDGE, step=1)],
    height: Annotated[int, integer(512, 1, _EDGE, step=1)],
    batch_size: Annotated[int, integer(1, 1, 4096)],
    color: Annotated[int, integer(0, 0, 0xFFFFFF, step=1, display="color")],
) -> Array:
    """Images of one colour, which is a number 0xRRGGBB."""
    check_size(batch_size, height, width)
    image = np.empty((batch_size, height, width, 3), np.float32)
    image[...] = [(color >> shift & 0xFF) / 255 for shift in (16, 8, 0)]
    return image


@node(
    "GetImageSize", "Get Image Size", "image",
    outputs=(Output("INT", "width"), Output("INT", "height"), Output("INT", "batch_size")),
    hidden=MappingProxyType({"unique_id": ["UNIQUE_ID"]}),
)  # fmt: skip
def get_image_size(image: Annotated[Array, socket("IMAGE")]) -> tuple[int, int, int]:
    """Width, height and number of the images."""
    count, height, width = image.shape[:3]
    return width, height, count


def file_digest(context: Context, name: str) -> str:
    """A digest of the bytes of a file: what nodes that load it depend on."""
    with context.input_file(name).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def known_file(context: Context, name: str | None, kind: str) -> bool | str:
    """True if a file exists, otherwise what is wrong, naming the kind of file; for the check of a class."""
    if name is None or is_web_link(name):
        return True  # it comes through a link, and is known when the node runs (C-12)
    try:
        context.input_file(name)
    except NoSuchFileError:
        return f"Invalid {kind} file: {name}"
    return True


def _file_digest(context: Context, image: str) -> str:
    return file_digest(context, image)


def _known_file(context: Context, image: str | None) -> bool | str:
    return known_file(context, image, "image")


@node(
    "LoadImage", "Load Image", "image", outputs=(Output("IMAGE"), Output("MASK")), fingerprint=_file_digest,
    validate=_known_file,
)  # fmt: skip
def load_image(context: Context, image: Annotated[str, old_combo(image_upload=True)]) -> tuple[Array, Array]:
    """The frames of a file, and a mask of what is transparent; a small empty mask where the file has no alpha."""
    return _with_mask(pictures.read(context.input_file(image)))


def _with_mask(picture: pictures.Picture) -> tuple[Array, Array]:
    if picture.alpha is not None:
        return picture.colours, 1 - picture.alpha
    return picture.colours, np.zeros((len(picture.colours), _NO_MASK_SIDE, _NO_MASK_SIDE), np.float32)


@node(
    "LoadImageMask", "Load Image (as Mask)", "image", outputs=(Output("MASK"),), fingerprint=_file_digest,
    validate=_known_file,
)  # fmt: skip
def load_image_mask(
    context: Context,
    image: Annotated[str, old_combo(image_upload=True)],
    channel: Annotated[str, old_combo("alpha", "red", "green", "blue")],
) -> Array:
    """One channel of the first frame as a mask; of alpha what is transparent."""
    found = pictures.read_channel(context.input_file(image), channel[0].upper())
    return (1 - found if channel == "alpha" else found)[None]


def _of_outputs(image: str) -> str:
    return image if image.endswith("]") else f"{image} [output]"


def _output_digest(context: Context, image: str) -> str:
    return _file_digest(context, _of_outputs(image))


def _known_output(context: Context, image: str | None) -> bool | str:
    return _known_file(context, image and _of_outputs(image))


_OUTPUT_PICKER: Final = Declared(
    "COMBO",
    {
        "image_upload": True,
        "image_folder": "output",
        "remote": {"route": "/internal/files/output", "refresh_button": True, "control_after_refresh": "first"},
    },
)


@node(
    "LoadImageOutput", "Load Image (from Outputs)", "image", outputs=(Output("IMAGE"), Output("MASK")),
    is_experimental=True, fingerprint=_output_digest, validate=_known_output,
)  # fmt: skip
def load_image_output(context: Context, image: Annotated[str, _OUTPUT_PICKER]) -> tuple[Array, Array]:
    """Like LoadImage, for a file among the outputs."""
    return _with_mask(pictures.read(context.input_file(_of_outputs(image))))


@node(
    "Painter", "Painter", "image", outputs=(Output("IMAGE"), Output("MASK"))
)  # fmt: skip
def painter(
    context: Context,
    mask: Annotated[str, text("", widgetType="PAINTER", image_upload=True, socketless=True, multiline=False)],
    width: Annotated[int, integer(512, 64, 4096, step=64, hidden=True, socketless=True)],
    height: Annotated[int, integer(512, 64, 4096, step=64, hidden=True, socketless=True)],
    bg_color: Annotated[str, socket("COLOR", default="#000000", socketless=True)],
    image: Annotated[Array | None, socket("IMAGE")] = None,
) -> tuple[Array, Array]:
    """A painting that an editor stored as a file, over an image or a colour; its alpha is the mask."""
    if image is None:
        base = np.empty((1, height, width, 3), np.float32)
        base[...] = _colour(bg_color)
    else:
        base = image[:1, :, :, :3]
    if not mask.strip():
        return base, np.zeros(base.shape[:3], np.float32)
    painted = pictures.read_painting(context.input_file(mask), base.shape[2], base.shape[1])
    alpha = painted[..., 3:]
    return painted[..., :3] * alpha + base * (1 - alpha), alpha[..., 0]


def _colour(written: str) -> list[float]:
    digits = re.fullmatch(r"#?([0-9a-fA-F]{6})(?:[0-9a-fA-F]{2})?", written.strip())
    if digits is None:
        raise ValueError(f"{written!r} is not a colour; write it as #rrggbb.")
    return [value / 255 for value in bytes.fromhex(digits[1])]


@node(
    "SaveImage", "Save Image", "image", outputs=(Output("IMAGE", "images"),), hidden=_OLD_HIDDEN, is_output=True
)  # fmt: skip
def save_image(
    context: Context, images: Annotated[Array, socket("IMAGE")], filename_prefix: Annotated[str, text("ComfyUI")]
) -> Result:
    """Save each image as a PNG in 8 bits, with the prompt and the caller's metadata."""
    saved = _each(context, images, filename_prefix, "png", "output", _png(context, _SAVED_COMPRESSION))
    return Result((images,), {"images": saved})


@node(
    "PreviewImage", "Preview Image", "image", outputs=(Output("IMAGE", "images"),), hidden=_OLD_HIDDEN, is_output=True
)  # fmt: skip
def preview_image(context: Context, images: Annotated[Array, bare_socket("IMAGE")]) -> Result:
    """Save each image as a PNG that is not kept."""
    return Result((images,), {"images": show_images(context, images)})


@node(
    "ImageCompare", "Compare Images", "image", hidden=HIDDEN, is_output=True, is_experimental=True
)  # fmt: skip
def image_compare(
    context: Context,
    compare_view: Annotated[object, socket("IMAGECOMPARE", socketless=True)],  # noqa: ARG001 -- where editors draw
    image_a: Annotated[Array | None, socket("IMAGE")] = None,
    image_b: Annotated[Array | None, socket("IMAGE")] = None,
) -> Result:
    """Show two images for an editor to lay over each other."""
    pairs = {"a_images": image_a, "b_images": image_b}
    return Result(ui={name: [] if images is None else show_images(context, images) for name, images in pairs.items()})


def show_images(context: Context, images: Array) -> list[dict[str, str]]:
    """Save images for watchers only, under unique names; returns references to them."""
    letters = "".join(secrets.choice(string.ascii_lowercase) for _ in range(5))
    return _each(context, images, f"ComfyUI_temp_{letters}", "png", "temp", _png(context, _SHOWN_COMPRESSION))


_BIT_DEPTH_PNG: Final = combo("8-bit", "16-bit", advanced=True, default="8-bit", multiselect=False)
_BIT_DEPTH_EXR: Final = combo("32-bit float", advanced=True, default="32-bit float", multiselect=False)
_SPACE_PNG: Final = combo("sRGB", advanced=True, default="sRGB", multiselect=False)
_SPACE_EXR: Final = combo("sRGB", "HDR", "linear", advanced=True, default="sRGB", multiselect=False)


def _format(key: str, bit_depth: Declared, space: Declared) -> dict[str, object]:
    inputs = {"bit_depth": bit_depth, "input_color_space": space}
    return {"key": key, "inputs": {"required": {name: [of.type, dict(of.options)] for name, of in inputs.items()}}}


_FORMATS: Final = [_format("png", _BIT_DEPTH_PNG, _SPACE_PNG), _format("exr", _BIT_DEPTH_EXR, _SPACE_EXR)]


@node(
    "SaveImageAdvanced", "Save Image (Advanced)", "image", outputs=(Output("IMAGE", "images"),), hidden=HIDDEN,
    is_output=True,
)  # fmt: skip
def save_image_advanced(
    context: Context,
    images: Annotated[Array, socket("IMAGE")],
    filename_prefix: Annotated[str, text("ComfyUI", multiline=False)],
    format: Annotated[Mapping[str, Any], socket("COMFY_DYNAMICCOMBO_V3", options=_FORMATS)],  # noqa: A002 -- its name
) -> Result:
    """Save each image as a PNG in 8 or 16 bits, or as scene-linear OpenEXR."""
    if format["format"] == "exr":
        saved = _each(context, images, filename_prefix, "exr", "output", _exr(context, format["input_color_space"]))
    elif format["bit_depth"] == "16-bit":
        saved = _each(context, images, filename_prefix, "png", "output", _png_16(context))
    else:
        saved = _each(context, images, filename_prefix, "png", "output", _png(context, _SAVED_COMPRESSION))
    return Result((images,), {"images": saved})


def metadata(context: Context) -> dict[str, object]:
    """Metadata about a file's origin: the prompt, and the caller's additions."""
    prompt, extra = context.hidden.get("prompt"), context.hidden.get("extra_pnginfo")
    return {**({} if prompt is None else {"prompt": prompt}), **(extra if isinstance(extra, Mapping) else {})}


def _each(
    context: Context, images: Array, prefix: str, extension: str, kind: str, encode: Callable[[Array], bytes]
) -> list[dict[str, str]]:
    """Save the images of a batch one by one; `%batch_num%` in the prefix is the number of each."""
    saved = []
    height, width = images.shape[1:3]
    for index, image in enumerate(images):
        context.check()
        name = prefix.replace("%batch_num%", str(index))
        saved.append(context.save(encode(image), name, extension, kind, width=width, height=height).as_ui())
    return saved


def _png(context: Context, compression: int) -> Callable[[Array], bytes]:
    texts = metadata(context)
    return lambda image: pictures.encode_png(image, texts, compression)


def _png_16(context: Context) -> Callable[[Array], bytes]:
    texts = metadata(context)
    return lambda image: pictures.encode_png_16(image, texts, _SAVED_COMPRESSION)


def _exr(context: Context, space: str) -> Callable[[Array], bytes]:
    texts = pictures.as_json(metadata(context))
    primaries = exr.PRIMARIES_2020 if space == "HDR" else exr.PRIMARIES_709
    return lambda image: exr.encode(exr.scene_linear(image, space), primaries, texts)


@node(
    "SaveAnimatedPNG", "Save Animated PNG", "image", outputs=(Output("IMAGE", "images"),), hidden=HIDDEN, is_output=True
)
def save_animated_png(
    context: Context,
    images: Annotated[Array, socket("IMAGE")],
    filename_prefix: Annotated[str, text("ComfyUI", multiline=False)],
    fps: Annotated[float, number(6.0, 0.01, 1000.0, step=0.01)],
    compress_level: Annotated[int, integer(4, 0, 9, advanced=True)],
) -> Result:
    """Save a batch as the frames of one PNG."""
    path, file = _one(context, images, filename_prefix, "png")
    pictures.write_animated_png(path, images, fps, metadata(context), compress_level)
    return Result((images,), {"images": [file], "animated": (True,)})


@node(
    "SaveAnimatedWEBP", "Save Animated WEBP", "image", outputs=(Output("IMAGE", "images"),), hidden=HIDDEN,
    is_output=True,
)  # fmt: skip
def save_animated_webp(
    context: Context,
    images: Annotated[Array, socket("IMAGE")],
    filename_prefix: Annotated[str, text("ComfyUI", multiline=False)],
    fps: Annotated[float, number(6.0, 0.01, 1000.0, step=0.01)],
    lossless: Annotated[bool, boolean(default=True)],
    quality: Annotated[int, integer(80, 0, 100)],
    method: Annotated[str, combo("default", "fastest", "slowest", multiselect=False)],
) -> Result:
    """Save a batch as the frames of one WebP; `quality` is that of the picture, or the effort where lossless."""
    path, file = _one(context, images, filename_prefix, "webp")
    effort = _WEBP_METHODS[method]
    pictures.write_animated_webp(
        path, images, fps, metadata(context), lossless=lossless, quality=quality, method=effort
    )
    return Result((images,), {"images": [file], "animated": (len(images) != 1,)})


def _one(context: Context, images: Array, prefix: str, extension: str) -> tuple[Path, dict[str, str]]:
    height, width = images.shape[1:3]
    path, file = context.new_file(prefix, extension, width=width, height=height)
    return path, file.as_ui()


@node("SaveSVGNode", "Save SVG", "image", outputs=(Output("SVG", "svg"),), hidden=HIDDEN, is_output=True)
def save_svg(
    context: Context,
    svg: Annotated[Sequence[bytes], socket("SVG")],
    filename_prefix: Annotated[str, text("svg/ComfyUI", multiline=False)],
) -> Result:
    """Save each document of an SVG value, which is a sequence of them as bytes, with the prompt as metadata in it."""
    texts, saved = metadata(context), []
    for index, document in enumerate(svg):
        path, file = context.new_file(filename_prefix.replace("%batch_num%", str(index)), "svg")
        path.write_bytes(_describe(document, texts))
        saved.append(file.as_ui())
    return Result((svg,), {"images": saved})


def _describe(document: bytes, texts: Mapping[str, object]) -> bytes:
    # Each attempt may read to the end of the document, so their number is bounded.
    starts = islice(_SVG_START.finditer(document), _SVG_STARTS_MAX)
    opening = next(filter(None, (_SVG_OPENING.match(document, start.start()) for start in starts)), None)
    if not texts or opening is None or opening[0].endswith(b"/>"):
        return document
    # A text that would end the section is split over two sections.
    value = json.dumps(texts, indent=4).replace("]]>", "]]]]><![CDATA[>")
    metadata = f"\n<metadata>\n<![CDATA[\n{value}\n]]>\n</metadata>".encode()
    return document[: opening.end()] + metadata + document[opening.end() :]


NODES: Final = (
    empty_image,
    get_image_size,
    load_image,
    load_image_mask,
    load_image_output,
    painter,
    save_image,
    preview_image,
    image_compare,
    save_image_advanced,
    save_animated_png,
    save_animated_webp,
    save_svg,
)
