"""Nodes that lay images over each other, and take alpha from images and give it to them.

A mask is 1 where an image is transparent: what editors call alpha is 1 - mask. Compositing by Porter and Duff works
with alpha.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Final, TypeAlias

import numpy as np

from fairlead.engine.media.arrays import Array, check_size
from fairlead.engine.media.resampling import resize, scale
from fairlead.engine.nodes.node import Output, boolean, combo, integer, node, socket
from fairlead.engine.nodes.transform import with_channels

_COORDINATE_MAX: Final = 16384
_COLOURS: Final = 3
_INVISIBLE: Final = 1e-5
"""The alpha below which the colour of a pixel cannot be recovered."""

_Pixels: TypeAlias = tuple[Array, Array]
"""Colours already multiplied by their alpha, and the alpha."""
_Mode: TypeAlias = Callable[[Array, Array, Array, Array], _Pixels]


@node("ImageCompositeMasked", "Image Composite Masked", "image/compositing", outputs=(Output("IMAGE"),))
def image_composite_masked(
    destination: Annotated[Array, socket("IMAGE")],
    source: Annotated[Array, socket("IMAGE")],
    x: Annotated[int, integer(0, 0, _COORDINATE_MAX, step=1)],
    y: Annotated[int, integer(0, 0, _COORDINATE_MAX, step=1)],
    resize_source: Annotated[bool, boolean(default=False)],
    mask: Annotated[Array | None, socket("MASK")] = None,
) -> Array:
    """The source at (x, y) over the destination, as far as the mask lets it; it is cut off at the edges."""
    count, rows, columns, channels = destination.shape
    source = as_many_channels(repeat_batch(source, min(count, len(source))), channels)
    if resize_source:
        source = resize(source, columns, rows, "bilinear")
    height, width = source.shape[1:3]
    left, top = min(x, columns), min(y, rows)
    visible = (slice(None), slice(0, min(height, rows - top)), slice(0, min(width, columns - left)))
    portion = repeat_batch(source[visible], count)
    result = destination.copy()
    target = result[:, top : top + portion.shape[1], left : left + portion.shape[2]]
    if mask is None:
        target[...] = portion
    else:
        weights = mask_sized(repeat_batch(mask, min(count, len(mask))), width, height)[visible]
        weight = repeat_batch(weights, count)[..., None]
        target[...] = weight * portion + (1 - weight) * target
    return result


@node("JoinImageWithAlpha", "Join Image with Alpha", "image/compositing", outputs=(Output("IMAGE"),))
def join_image_with_alpha(image: Annotated[Array, socket("IMAGE")], alpha: Annotated[Array, socket("MASK")]) -> Array:
    """The image, transparent where the mask is 1; the shorter batch starts again until it is as long as the other."""
    count, (rows, columns) = max(len(image), len(alpha)), image.shape[1:3]
    check_size(count, rows, columns)
    opacity = 1.0 - repeat_batch(mask_sized(alpha, columns, rows), count)
    return np.concatenate([repeat_batch(image, count)[..., :_COLOURS], opacity[..., None]], axis=-1)


@node("SplitImageWithAlpha", "Split Image with Alpha", "image/compositing", outputs=(Output("IMAGE"), Output("MASK")))
def split_image_with_alpha(image: Annotated[Array, socket("IMAGE")]) -> tuple[Array, Array]:
    """The colours, and a mask that is 1 where the image is transparent: nowhere, when it has no alpha."""
    if image.shape[-1] > _COLOURS:
        return image[..., :_COLOURS], 1.0 - image[..., _COLOURS]
    return image, np.zeros(image.shape[:3], np.float32)


@node(
    "PorterDuffImageComposite",
    "Porter-Duff Image Composite",
    "image/compositing",
    outputs=(Output("IMAGE"), Output("MASK")),
)
def porter_duff_image_composite(
    source: Annotated[Array, socket("IMAGE")],
    source_alpha: Annotated[Array, socket("MASK")],
    destination: Annotated[Array, socket("IMAGE")],
    destination_alpha: Annotated[Array, socket("MASK")],
    mode: Annotated[
        str,
        combo(
            "ADD", "CLEAR", "DARKEN", "DST", "DST_ATOP", "DST_IN", "DST_OUT", "DST_OVER", "LIGHTEN", "MULTIPLY",
            "OVERLAY", "SCREEN", "SRC", "SRC_ATOP", "SRC_IN", "SRC_OUT", "SRC_OVER", "XOR",
            default="DST", multiselect=False,
        ),
    ],
) -> tuple[Array, Array]:  # fmt: skip
    """The source composed with the destination by one of the modes of Porter and Duff, or one made since.

    Everything takes the size of the destination, and there are as many results as the shortest batch has images.
    """
    if source.shape[-1] != destination.shape[-1]:
        raise ValueError(
            f"Source and destination must have as many channels: {source.shape[-1]} are not {destination.shape[-1]}."
        )
    rows, columns = destination.shape[1:3]
    count = min(len(source), len(source_alpha), len(destination), len(destination_alpha))
    over = scale(source[:count], columns, rows, "bicubic", "center")
    over_alpha = 1 - scale(source_alpha[:count, :, :, None], columns, rows, "bicubic", "center")
    under = destination[:count]
    under_alpha = 1 - scale(destination_alpha[:count, :, :, None], columns, rows, "bicubic", "center")
    colours, alpha = _MODES[mode](over * over_alpha, over_alpha, under * under_alpha, under_alpha)
    visible = alpha > _INVISIBLE
    plain = np.where(visible, colours / np.where(visible, alpha, 1), 0)
    return np.clip(plain, 0.0, 1.0), 1.0 - alpha[..., 0]


def repeat_batch(batch: Array, count: int) -> Array:
    """A batch of so many: cut off, or begun again from its first as often as it takes."""
    if len(batch) == count:
        return batch
    return batch[np.arange(count) % len(batch)]


def as_many_channels(images: Array, channels: int) -> Array:
    """Images of so many channels: those too many are left off, an alpha that is missing is opaque."""
    return with_channels(images, channels)[..., :channels]


def mask_sized(mask: Array, width: int, height: int) -> Array:
    """Masks scaled to a size."""
    return resize(mask[..., None], width, height, "bilinear")[..., 0]


# --- The modes: colours (multiplied by alpha) and alpha of the source, then of the destination ------------------------


def _add(s: Array, sa: Array, d: Array, da: Array) -> _Pixels:
    return np.clip(s + d, 0, 1), np.clip(sa + da, 0, 1)


def _overlay(s: Array, sa: Array, d: Array, da: Array) -> _Pixels:
    # As Android documents its mode; for opaque images all definitions agree.
    return np.where(2 * d < da, 2 * s * d, sa * da - 2 * (da - s) * (sa - d)), _union(sa, da)


def _union(sa: Array, da: Array) -> Array:
    return sa + da - sa * da


_MODES: Final[Mapping[str, _Mode]] = {
    "ADD": _add,
    "CLEAR": lambda s, sa, _d, _da: (np.zeros_like(s), np.zeros_like(sa)),
    "DARKEN": lambda s, sa, d, da: ((1 - da) * s + (1 - sa) * d + np.minimum(s, d), _union(sa, da)),
    "DST": lambda _s, _sa, d, da: (d, da),
    "DST_ATOP": lambda s, sa, d, da: (sa * d + (1 - da) * s, sa),
    "DST_IN": lambda _s, sa, d, da: (sa * d, sa * da),
    "DST_OUT": lambda _s, sa, d, da: ((1 - sa) * d, (1 - sa) * da),
    "DST_OVER": lambda s, sa, d, da: (d + (1 - da) * s, da + (1 - da) * sa),
    "LIGHTEN": lambda s, sa, d, da: ((1 - da) * s + (1 - sa) * d + np.maximum(s, d), _union(sa, da)),
    "MULTIPLY": lambda s, sa, d, da: (s * d, sa * da),
    "OVERLAY": _overlay,
    "SCREEN": lambda s, sa, d, da: (s + d - s * d, _union(sa, da)),
    "SRC": lambda s, sa, _d, _da: (s, sa),
    "SRC_ATOP": lambda s, sa, d, da: (da * s + (1 - sa) * d, da),
    "SRC_IN": lambda s, sa, _d, da: (da * s, sa * da),
    "SRC_OUT": lambda s, sa, _d, da: ((1 - da) * s, (1 - da) * sa),
    "SRC_OVER": lambda s, sa, d, da: (s + (1 - sa) * d, sa + (1 - sa) * da),
    "XOR": lambda s, sa, d, da: ((1 - da) * s + (1 - sa) * d, (1 - da) * sa + (1 - sa) * da),
}

NODES: Final = (
    image_composite_masked,
    join_image_with_alpha,
    split_image_with_alpha,
    porter_duff_image_composite,
)
