"""Nodes that make masks, change them, and turn them into images and back."""

from collections.abc import Callable, Mapping
from typing import Annotated, Final

import numpy as np
from numpy.typing import NDArray

from fairlead.engine.media.arrays import Array, check_size
from fairlead.engine.media.resampling import scale
from fairlead.engine.nodes.colour import rgb_of
from fairlead.engine.nodes.compositing import repeat_batch
from fairlead.engine.nodes.context import Context
from fairlead.engine.nodes.images_io import HIDDEN, show_images
from fairlead.engine.nodes.node import Output, Result, boolean, combo, integer, node, number, socket

_SIDE_MAX: Final = 16384
_CHANNELS: Final = ("red", "green", "blue", "alpha")
_MASKS: Final = {"input": {"required": {"mask": ["MASK", {}]}}, "prefix": "mask", "min": 1, "max": 50}


@node("SolidMask", "Create Solid Mask", "image/mask", outputs=(Output("MASK"),))
def solid_mask(
    value: Annotated[float, number(1.0, 0.0, 1.0, step=0.01)],
    width: Annotated[int, integer(512, 1, _SIDE_MAX, step=1)],
    height: Annotated[int, integer(512, 1, _SIDE_MAX, step=1)],
) -> Array:
    """One mask of one value."""
    check_size(1, height, width)
    return np.full((1, height, width), value, np.float32)


@node("InvertMask", "Invert Mask", "image/mask", outputs=(Output("MASK"),))
def invert_mask(mask: Annotated[Array, socket("MASK")]) -> Array:
    """The inverse of the mask."""
    return 1.0 - mask


@node("ThresholdMask", "Threshold Mask", "image/mask", outputs=(Output("MASK"),))
def threshold_mask(
    mask: Annotated[Array, socket("MASK")], value: Annotated[float, number(0.5, 0.0, 1.0, step=0.01)]
) -> Array:
    """1 where the mask is more than the value, otherwise 0."""
    return (mask > value).astype(np.float32)


@node("CropMask", "Crop Mask", "image/mask", outputs=(Output("MASK"),))
def crop_mask(
    mask: Annotated[Array, socket("MASK")],
    x: Annotated[int, integer(0, 0, _SIDE_MAX, step=1)],
    y: Annotated[int, integer(0, 0, _SIDE_MAX, step=1)],
    width: Annotated[int, integer(512, 1, _SIDE_MAX, step=1)],
    height: Annotated[int, integer(512, 1, _SIDE_MAX, step=1)],
) -> Array:
    """The part from (x, y) of at most this size; ValueError where it lies outside the mask."""
    rows, columns = mask.shape[1:]
    if x >= columns or y >= rows:
        raise ValueError(f"There is nothing to crop at ({x}, {y}) in a mask of {columns} x {rows}.")
    return mask[:, y : y + height, x : x + width]


@node("FeatherMask", "Feather Mask", "image/mask", outputs=(Output("MASK"),))
def feather_mask(
    mask: Annotated[Array, socket("MASK")],
    left: Annotated[int, integer(0, 0, _SIDE_MAX, step=1)],
    top: Annotated[int, integer(0, 0, _SIDE_MAX, step=1)],
    right: Annotated[int, integer(0, 0, _SIDE_MAX, step=1)],
    bottom: Annotated[int, integer(0, 0, _SIDE_MAX, step=1)],
) -> Array:
    """The mask rising from its edges: 1/n, 2/n … of it in the n pixels at each edge."""
    rows, columns = mask.shape[1:]
    return mask * _ramps(rows, top, bottom)[:, None] * _ramps(columns, left, right)


@node("MaskComposite", "Combine Masks", "image/mask", outputs=(Output("MASK"),))
def mask_composite(
    destination: Annotated[Array, socket("MASK")],
    source: Annotated[Array, socket("MASK")],
    x: Annotated[int, integer(0, 0, _SIDE_MAX, step=1)],
    y: Annotated[int, integer(0, 0, _SIDE_MAX, step=1)],
    operation: Annotated[str, combo("multiply", "add", "subtract", "and", "or", "xor", multiselect=False)],
) -> Array:
    """The destination combined with the source laid on it at (x, y); and, or, xor take both as yes or no."""
    result = np.clip(destination, 0.0, 1.0)
    under = destination[:, y : y + source.shape[1], x : x + source.shape[2]]
    over = repeat_batch(source, len(destination))[:, : under.shape[1], : under.shape[2]]
    combined = _OPERATIONS[operation](under, over)
    result[:, y : y + under.shape[1], x : x + under.shape[2]] = np.clip(combined, 0.0, 1.0)
    return result


@node("GrowMask", "Grow Mask", "image/mask", outputs=(Output("MASK"),))
def grow_mask(
    context: Context,
    mask: Annotated[Array, socket("MASK")],
    expand: Annotated[int, integer(0, -_SIDE_MAX, _SIDE_MAX, step=1)],
    tapered_corners: Annotated[bool, boolean(default=True, advanced=True)],
) -> Array:
    """The mask grown by so many pixels, or shrunk: by squares, or with tapered corners by diamonds."""
    extreme = np.maximum if expand > 0 else np.minimum
    rows, columns = mask.shape[1:]
    reach = min(abs(expand), rows + columns)
    if tapered_corners:
        return _spread(mask, reach, (1, 2), extreme, context)
    return _spread(_spread(mask, reach, (1,), extreme, context), reach, (2,), extreme, context)


@node("BatchMasksNode", "Batch Masks", "image/mask", outputs=(Output("MASK"),))
def batch_masks(masks: Annotated[Mapping[str, Array], socket("COMFY_AUTOGROW_V3", template=_MASKS)]) -> Array:
    """All masks in one batch, in the size of the first."""
    ordered = list(masks.values())
    height, width = ordered[0].shape[1:]
    check_size(sum(len(mask) for mask in ordered), height, width)
    return np.concatenate([scale(mask[..., None], width, height, "bilinear", "center")[..., 0] for mask in ordered])


@node("MaskToImage", "Convert Mask to Image", "image/mask", outputs=(Output("IMAGE"),))
def mask_to_image(mask: Annotated[Array, socket("MASK")]) -> Array:
    """The mask as a grey image."""
    return np.repeat(mask[..., None], 3, axis=-1)


@node("ImageToMask", "Convert Image to Mask", "image/mask", outputs=(Output("MASK"),))
def image_to_mask(
    image: Annotated[Array, socket("IMAGE")],
    channel: Annotated[str, combo(*_CHANNELS, multiselect=False)],
) -> Array:
    """One channel of the image, as it is."""
    index = _CHANNELS.index(channel)
    if index >= image.shape[-1]:
        raise ValueError(f"The image has no {channel} channel.")
    return image[..., index]


@node("ImageColorToMask", "Convert Image Color to Mask", "image/mask", outputs=(Output("MASK"),))
def image_color_to_mask(
    image: Annotated[Array, socket("IMAGE")],
    color: Annotated[int, integer(0, 0, 0xFFFFFF, step=1, display="number")],
) -> Array:
    """1 where the image has exactly this colour (0xRRGGBB) in 8 bits, otherwise 0."""
    wanted = np.array([color >> 16 & 0xFF, color >> 8 & 0xFF, color & 0xFF], np.float32)
    pixels: Array = np.rint(np.clip(rgb_of(image), 0.0, 1.0) * np.float32(255))
    found: Array = np.all(pixels == wanted, axis=-1).astype(np.float32)
    return found


@node("MaskPreview", "Preview Mask", "image/mask", hidden=HIDDEN, is_output=True)
def mask_preview(context: Context, mask: Annotated[Array, socket("MASK")]) -> Result:
    """Show the masks as grey pictures that are not kept."""
    return Result(ui={"images": show_images(context, mask_to_image(mask)), "animated": [False]})


def _ramps(length: int, start: int, end: int) -> Array:
    """What is left of each line of `length` when `start` lines rise at one side and `end` lines at the other."""
    factors = np.ones(length, np.float32)
    start, end = min(start, length), min(end, length)
    factors[:start] *= np.arange(1, start + 1, dtype=np.float32) / max(start, 1)
    # Both sides alike, as version 0.27 has it (Comfy-Org/ComfyUI#12881); before, a step of the end hit the first line.
    factors[length - end :] *= np.arange(end, 0, -1, dtype=np.float32) / max(end, 1)
    return factors


def _spread(
    mask: Array, reach: int, axes: tuple[int, ...], extreme: Callable[[Array, Array], Array], context: Context
) -> Array:
    """Each pixel the extreme of those at most `reach` steps along the axes away, in about log2(reach) passes.

    With the result for reach n, looking n further along each axis gives that for 2n. At the border the look stops at
    the last pixel, whose result for n covers everything within reach.
    """
    reached = 0
    while reached < reach:
        context.check()
        step = min(max(reached, 1), reach - reached)
        found = mask
        for axis in axes:
            places = np.arange(mask.shape[axis])
            for shift in (step, -step):
                found = extreme(found, mask.take(np.clip(places + shift, 0, len(places) - 1), axis))
        mask, reached = found, reached + step
    return mask


def _both(one: Array, other: Array) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    return np.rint(one) != 0, np.rint(other) != 0


_OPERATIONS: Final[Mapping[str, Callable[[Array, Array], Array]]] = {
    "multiply": lambda under, over: under * over,
    "add": lambda under, over: under + over,
    "subtract": lambda under, over: under - over,
    "and": lambda under, over: np.logical_and(*_both(under, over)).astype(np.float32),
    "or": lambda under, over: np.logical_or(*_both(under, over)).astype(np.float32),
    "xor": lambda under, over: np.logical_xor(*_both(under, over)).astype(np.float32),
}

NODES: Final = (
    solid_mask,
    invert_mask,
    threshold_mask,
    crop_mask,
    feather_mask,
    mask_composite,
    grow_mask,
    batch_masks,
    mask_to_image,
    image_to_mask,
    image_color_to_mask,
    mask_preview,
)
