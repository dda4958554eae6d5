"""Nodes that crop, turn, pad, stitch and resize images."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Annotated, Any, Final

import numpy as np

from fairlead.engine.media.arrays import Array, check_size
from fairlead.engine.media.resampling import METHODS, proportional, resize, scale
from fairlead.engine.nodes.node import Output, bare_socket, boolean, combo, integer, node, socket
from fairlead.engine.nodes.upscaling import for_pixels, multiply_size, with_longer, with_shorter

_EDGE: Final = 16384
_SEED_MAX: Final = (1 << 64) - 1
_SEEDS: Final = (1 << 32) - 1
"""The reference engine reduces seeds modulo this to the range of its generator."""
_COLOURS: Final[Mapping[str, tuple[float, float, float]]] = MappingProxyType(
    {"white": (1, 1, 1), "black": (0, 0, 0), "red": (1, 0, 0), "green": (0, 1, 0), "blue": (0, 0, 1)}
)
_COLOUR_CHANNELS: Final = 3


@node("ImageCrop", "Crop Image (DEPRECATED)", "image/transform", outputs=(Output("IMAGE"),), is_deprecated=True)
def image_crop(
    image: Annotated[Array, socket("IMAGE")],
    width: Annotated[int, integer(512, 1, _EDGE, step=1)],
    height: Annotated[int, integer(512, 1, _EDGE, step=1)],
    x: Annotated[int, integer(0, 0, _EDGE, step=1)],
    y: Annotated[int, integer(0, 0, _EDGE, step=1)],
) -> Array:
    """Cut out a rectangle; it is smaller where it reaches beyond the image."""
    left, top = min(x, image.shape[2] - 1), min(y, image.shape[1] - 1)
    return _cut(image, left, top, width, height)


@node("ImageCropV2", "Crop Image", "image/transform", outputs=(Output("IMAGE"),))
def image_crop_region(
    image: Annotated[Array, socket("IMAGE")],
    crop_region: Annotated[
        Mapping[str, Any],
        socket(
            "BOUNDING_BOX", default={"x": 0, "y": 0, "width": 512, "height": 512}, socketless=True,
            component="ImageCrop",
        ),
    ],
) -> Array:  # fmt: skip
    """Cut out a rectangle given as one value; it is smaller where it reaches beyond the image."""
    x, y, width, height = (int(crop_region.get(side, 0)) for side in ("x", "y", "width", "height"))
    if width < 1 or height < 1:
        raise ValueError(f"A region of {width} x {height} pixels cannot be cut out.")
    left, top = (min(max(0, side), most - 1) for side, most in ((x, image.shape[2]), (y, image.shape[1])))
    return _cut(image, left, top, width, height)


@node(
    "CenterCropImages", "Crop Image (Center)", "image/transform", outputs=(Output("IMAGE", "images"),),
    is_experimental=True,
)  # fmt: skip
def center_crop_images(
    images: Annotated[Array, socket("IMAGE")],
    width: Annotated[int, integer(512, 1, 8192)],
    height: Annotated[int, integer(512, 1, 8192)],
) -> Array:
    """Cut the middle out; an image that is smaller stays as it is."""
    left, top = max(0, (images.shape[2] - width) // 2), max(0, (images.shape[1] - height) // 2)
    return _cut(images, left, top, width, height)


@node(
    "RandomCropImages", "Crop Image (Random)", "image/transform", outputs=(Output("IMAGE", "images"),),
    is_experimental=True,
)  # fmt: skip
def random_crop_images(
    images: Annotated[Array, socket("IMAGE")],
    width: Annotated[int, integer(512, 1, 8192)],
    height: Annotated[int, integer(512, 1, 8192)],
    seed: Annotated[int, integer(0, 0, _SEED_MAX)],
) -> Array:
    """Cut out a rectangle at a position chosen by the seed, the same in each image."""
    generator = seeded_generator(seed)
    left, top = (
        int(generator.randint(0, free + 1)) if free > 0 else 0
        for free in (images.shape[2] - width, images.shape[1] - height)
    )
    return _cut(images, left, top, width, height)


def seeded_generator(seed: int) -> np.random.RandomState:
    """The reference engine's generator for a seed: a legacy one that numpy keeps bit for bit."""
    return np.random.RandomState(seed % _SEEDS)


def _cut(images: Array, left: int, top: int, width: int, height: int) -> Array:
    # A copy, so that a corner does not keep the whole image in memory.
    return images[:, top : top + height, left : left + width].copy()


@node("ImageFlip", "Flip Image", "image/transform", outputs=(Output("IMAGE"),))
def image_flip(
    image: Annotated[Array, socket("IMAGE")],
    flip_method: Annotated[str, combo("x-axis: vertically", "y-axis: horizontally", multiselect=False)],
) -> Array:
    """Mirror at the horizontal axis (upside down) or at the vertical one."""
    axis = 1 if flip_method.startswith("x") else 2
    return np.flip(image, axis).copy()


@node("ImageRotate", "Rotate Image", "image/transform", outputs=(Output("IMAGE"),))
def image_rotate(
    image: Annotated[Array, socket("IMAGE")],
    rotation: Annotated[str, combo("none", "90 degrees", "180 degrees", "270 degrees", multiselect=False)],
) -> Array:
    """Turn clockwise."""
    quarters = {"90 degrees": 1, "180 degrees": 2, "270 degrees": 3}.get(rotation, 0)
    return np.rot90(image, quarters, axes=(2, 1)).copy()


@node("ImagePadForOutpaint", "Pad Image for Outpainting", "image/transform", outputs=(Output("IMAGE"), Output("MASK")))
def image_pad_for_outpaint(
    image: Annotated[Array, bare_socket("IMAGE")],
    left: Annotated[int, integer(0, 0, _EDGE, step=8)],
    top: Annotated[int, integer(0, 0, _EDGE, step=8)],
    right: Annotated[int, integer(0, 0, _EDGE, step=8)],
    bottom: Annotated[int, integer(0, 0, _EDGE, step=8)],
    feathering: Annotated[int, integer(40, 0, _EDGE, step=1, advanced=True)],
) -> tuple[Array, Array]:
    """Grey around the image, and a mask of what is to be painted, which fades into the image over the feathering."""
    count, rows, columns, channels = image.shape
    height, width = rows + top + bottom, columns + left + right
    check_size(count, height, width)
    padded = np.full((count, height, width, channels), 0.5, np.float32)
    padded[:, top : top + rows, left : left + columns] = image
    mask = np.ones((1, height, width), np.float32)
    mask[0, top : top + rows, left : left + columns] = 0
    if 0 < feathering * 2 < min(rows, columns):
        vertical = _distances(rows, bool(top), bool(bottom))
        horizontal = _distances(columns, bool(left), bool(right))
        # How far the nearest edge is that something was added to, where it is nearer than the feathering.
        nearest = np.minimum(np.minimum.outer(vertical, horizontal), feathering)
        mask[0, top : top + rows, left : left + columns] = ((feathering - nearest) / feathering) ** 2
    return padded, mask


def _distances(length: int, before: bool, after: bool) -> np.ndarray[tuple[int], np.dtype[np.int64]]:  # noqa: FBT001 -- the two ends
    """The distance of each pixel of a line from the padded ends; the line's length where neither is padded."""
    place = np.arange(length, dtype=np.int64)
    start = place if before else np.full_like(place, length)
    return np.minimum(start, length - place) if after else start


@node("ImageStitch", "Stitch Images", "image/transform", outputs=(Output("IMAGE"),))
def image_stitch(
    image1: Annotated[Array, socket("IMAGE")],
    direction: Annotated[str, combo("right", "down", "left", "up", default="right", multiselect=False)],
    match_image_size: Annotated[bool, boolean(default=True)],
    spacing_width: Annotated[int, integer(0, 0, 1024, step=2, advanced=True)],
    spacing_color: Annotated[
        str, combo("white", "black", "red", "green", "blue", default="white", advanced=True, multiselect=False)
    ],
    image2: Annotated[Array | None, socket("IMAGE")] = None,
) -> Array:
    """Put an image at a side of another, scaled to its edge or centred in black; the last of a batch is repeated."""
    if image2 is None:
        return image1
    axis = 2 if direction in ("left", "right") else 1
    first, second = _of_one_length(image1, image2)
    if match_image_size:
        second = _at_edge(second, first, axis)
    else:
        across = 3 - axis
        most = max(first.shape[across], second.shape[across])
        first, second = _centre(first, most, across), _centre(second, most, across)
    channels = max(first.shape[3], second.shape[3])
    parts = [with_channels(first, channels), with_channels(second, channels)]
    if direction in ("left", "up"):
        parts.reverse()
    if spacing_width > 0:
        shape = list(parts[0].shape)
        shape[axis] = spacing_width + spacing_width % 2
        parts.insert(1, _fill(shape, _COLOURS[spacing_color]))
    height, width = ((sum if of == axis else max)(part.shape[of] for part in parts) for of in (1, 2))
    check_size(len(first), height, width)
    return np.concatenate(parts, axis=axis)


def _of_one_length(first: Array, second: Array) -> tuple[Array, Array]:
    """Two batches, of which the shorter one repeats its last image."""
    count = max(len(first), len(second))
    for images in (first, second):
        check_size(count, *images.shape[1:3])
    return _repeat(first, count), _repeat(second, count)


def _repeat(images: Array, count: int) -> Array:
    return images[np.minimum(np.arange(count), len(images) - 1)]


def _at_edge(images: Array, other: Array, axis: int) -> Array:
    rows, columns = images.shape[1:3]
    if axis == 2:  # noqa: PLR2004 -- beside the other: as high as it
        size = max(1, int(other.shape[1] * (columns / rows))), other.shape[1]
    else:
        size = other.shape[2], max(1, int(other.shape[2] / (columns / rows)))
    return resize(images, *size, "lanczos")


def _centre(images: Array, length: int, axis: int) -> Array:
    missing = length - images.shape[axis]
    if missing == 0:
        return images
    sides = [(0, 0)] * 4
    sides[axis] = (missing // 2, missing - missing // 2)
    check_size(len(images), *(images.shape[of] + sum(sides[of]) for of in (1, 2)))
    return np.pad(images, sides)


def with_channels(images: Array, channels: int) -> Array:
    """Images with added channels of 1: an added alpha is opaque."""
    missing = channels - images.shape[3]
    return images if missing <= 0 else np.pad(images, [(0, 0)] * 3 + [(0, missing)], constant_values=1)


def _fill(shape: list[int], colour: tuple[float, float, float]) -> Array:
    area = np.ones(shape, np.float32)
    shown = min(shape[3], _COLOUR_CHANNELS)
    area[..., :shown] = colour[:shown]
    return area


@node("ResizeAndPadImage", "Resize And Pad Image", "image/transform", outputs=(Output("IMAGE"),))
def resize_and_pad_image(
    image: Annotated[Array, socket("IMAGE")],
    target_width: Annotated[int, integer(512, 1, _EDGE, step=1)],
    target_height: Annotated[int, integer(512, 1, _EDGE, step=1)],
    padding_color: Annotated[str, combo("white", "black", advanced=True, multiselect=False)],
    interpolation: Annotated[
        str, combo("area", "bicubic", "nearest-exact", "bilinear", "lanczos", advanced=True, multiselect=False)
    ],
) -> Array:
    """Scale so that the whole image fits into a size, and fill the rest around it."""
    count, rows, columns, channels = image.shape
    check_size(count, target_height, target_width)
    factor = min(target_width / columns, target_height / rows)
    width, height = max(1, int(columns * factor)), max(1, int(rows * factor))
    padded = np.full(
        (count, target_height, target_width, channels), 1.0 if padding_color == "white" else 0.0, np.float32
    )
    left, top = (target_width - width) // 2, (target_height - height) // 2
    padded[:, top : top + height, left : left + width] = resize(image, width, height, interpolation)
    return padded


_SIDE: Final = ["INT", {"default": 512, "min": 0, "max": _EDGE, "step": 1}]
_CROP: Final = ["COMBO", {"default": "center", "multiselect": False, "options": ["disabled", "center"]}]
_RESIZE_TYPES: Final[Mapping[str, Mapping[str, object]]] = MappingProxyType(
    {
        "scale dimensions": {"width": _SIDE, "height": _SIDE, "crop": _CROP},
        "scale by multiplier": {"multiplier": ["FLOAT", {"default": 1.0, "min": 0.01, "max": 8.0, "step": 0.01}]},
        "scale longer dimension": {"longer_size": _SIDE},
        "scale shorter dimension": {"shorter_size": _SIDE},
        "scale width": {"width": _SIDE},
        "scale height": {"height": _SIDE},
        "scale total pixels": {"megapixels": ["FLOAT", {"default": 1.0, "min": 0.01, "max": 16.0, "step": 0.01}]},
        "match size": {"match": ["IMAGE,MASK", {}], "crop": _CROP},
        "scale to multiple": {"multiple": ["INT", {"default": 8, "min": 1, "max": _EDGE, "step": 1}]},
    }
)
_MATCHTYPE: Final = {"template_id": "input_type", "allowed_types": "IMAGE,MASK"}
_IMAGE_DIMENSIONS: Final = 4


@node(
    "ResizeImageMaskNode", "Resize Image/Mask", "image/transform",
    outputs=(Output("COMFY_MATCHTYPE_V3", "resized"),),
)  # fmt: skip
def resize_image_mask(
    input: Annotated[Array, socket("COMFY_MATCHTYPE_V3", template=_MATCHTYPE)],  # noqa: A002 -- its name in workflows
    resize_type: Annotated[
        Mapping[str, object],
        socket(
            "COMFY_DYNAMICCOMBO_V3",
            options=[{"key": key, "inputs": {"required": dict(inputs)}} for key, inputs in _RESIZE_TYPES.items()],
        ),
    ],
    scale_method: Annotated[str, combo(*METHODS, default="area", multiselect=False)],
) -> Array:
    """Resize an image or a mask in one of nine ways; a side of 0 follows from the other."""
    is_image = input.ndim == _IMAGE_DIMENSIONS
    images = input if is_image else input[..., None]
    resized = _resize(images, resize_type, scale_method)
    return resized if is_image else resized[..., 0]


def _resize(images: Array, resize_type: Mapping[str, Any], method: str) -> Array:
    way = resize_type["resize_type"]
    if way == "scale dimensions":
        size = proportional(images, resize_type["width"], resize_type["height"])
        return scale(images, *size, method, resize_type["crop"])
    if way == "match size":
        height, width = resize_type["match"].shape[1:3]
        return scale(images, width, height, method, resize_type["crop"])
    if way == "scale to multiple":
        return _cover(images, resize_type["multiple"], method)
    return resize(images, *_SIZES[way](images, resize_type), method)


_SIZES: Final[Mapping[str, Callable[[Array, Mapping[str, Any]], tuple[int, int]]]] = MappingProxyType(
    {
        "scale by multiplier": lambda images, of: multiply_size(images, of["multiplier"]),
        "scale longer dimension": lambda images, of: with_longer(images, of["longer_size"]),
        "scale shorter dimension": lambda images, of: with_shorter(images, of["shorter_size"]),
        "scale width": lambda images, of: proportional(images, of["width"], 0),
        "scale height": lambda images, of: proportional(images, 0, of["height"]),
        "scale total pixels": lambda images, of: multiply_size(images, for_pixels(images, of["megapixels"])),
    }
)


def _cover(images: Array, multiple: int, method: str) -> Array:
    """Scale down to the multiples below the size: to cover them, and what then reaches beyond is cut off evenly."""
    rows, columns = images.shape[1:3]
    width, height = columns // multiple * multiple, rows // multiple * multiple
    if 0 in (width, height) or (width, height) == (columns, rows):
        return images
    # The side that shrinks less decides; the other is rounded up so that it is covered too.
    if width * rows >= height * columns:
        scaled = resize(images, width, max(height, -(-rows * width // columns)), method)
    else:
        scaled = resize(images, max(width, -(-columns * height // rows)), height, method)
    left, top = (scaled.shape[2] - width) // 2, (scaled.shape[1] - height) // 2
    return _cut(scaled, left, top, width, height)


@node(
    "ResizeImagesByLongerEdge", "Resize Images by Longer Edge (DEPRECATED)", "image/transform",
    outputs=(Output("IMAGE", "images"),), is_experimental=True,
)  # fmt: skip
def resize_images_by_longer_edge(
    images: Annotated[Array, socket("IMAGE")], longer_edge: Annotated[int, integer(1024, 1, 8192)]
) -> Array:
    """Scale by Lanczos so that the longer side has a length; the other is cut off to whole pixels, not rounded."""
    rows, columns = images.shape[1:3]
    if columns > rows:
        size = longer_edge, max(1, int(rows * (longer_edge / columns)))
    else:
        size = max(1, int(columns * (longer_edge / rows))), longer_edge
    return resize(images, *size, "lanczos")


@node(
    "ResizeImagesByShorterEdge", "Resize Images by Shorter Edge (DEPRECATED)", "image/transform",
    outputs=(Output("IMAGE", "images"),), is_experimental=True,
)  # fmt: skip
def resize_images_by_shorter_edge(
    images: Annotated[Array, socket("IMAGE")], shorter_edge: Annotated[int, integer(512, 1, 8192)]
) -> Array:
    """Scale by Lanczos so that the shorter side has a length; the other is cut off to whole pixels, not rounded."""
    rows, columns = images.shape[1:3]
    if columns < rows:
        size = shorter_edge, max(1, int(rows * (shorter_edge / columns)))
    else:
        size = max(1, int(columns * (shorter_edge / rows))), shorter_edge
    return resize(images, *size, "lanczos")


NODES: Final = (
    image_crop,
    image_crop_region,
    center_crop_images,
    random_crop_images,
    image_flip,
    image_rotate,
    image_pad_for_outpaint,
    image_stitch,
    resize_and_pad_image,
    resize_image_mask,
    resize_images_by_longer_edge,
    resize_images_by_shorter_edge,
)
