"""Nodes that make batches of images, take them apart, and go between batches and lists.

A batch is one value of several images of one size; a list is several values that go on one by one.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fairlead.engine.media.arrays import Array, check_items, check_size
from fairlead.engine.media.pictures import as_picture
from fairlead.engine.media.resampling import resize, scale
from fairlead.engine.nodes.node import Output, bare_socket, integer, node, number, socket, text
from fairlead.engine.nodes.transform import seeded_generator, with_channels

_SEED_MAX: Final = (1 << 64) - 1
_COLOUR_CHANNELS: Final = 3
_HASH_SIDE: Final = 8
_FAINTEST: Final = 1e-5
"""The least weight of a pixel of a tile, to avoid a division by zero."""

_Region: TypeAlias = tuple[slice, slice]


@node(
    "BatchImagesNode", "Batch Images", "image/batch", outputs=(Output("IMAGE"),),
)  # fmt: skip
def batch_images(
    images: Annotated[
        Mapping[str, Array],
        socket(
            "COMFY_AUTOGROW_V3",
            template={"input": {"required": {"image": ["IMAGE", {}]}}, "prefix": "image", "min": 1, "max": 50},
        ),
    ],
) -> Array:
    """One batch of several, each cropped and scaled to the size of the first."""
    return join_batches(list(images.values()))


@node("ImageBatch", "Batch Images (DEPRECATED)", "image/batch", outputs=(Output("IMAGE"),), is_deprecated=True)
def image_batch(
    image1: Annotated[Array, bare_socket("IMAGE")], image2: Annotated[Array, bare_socket("IMAGE")]
) -> Array:
    """One batch of two, the second cropped and scaled to the size of the first."""
    return join_batches([image1, image2])


def join_batches(batches: Sequence[Array]) -> Array:
    """One batch of several; an alpha that some lack is opaque."""
    if not batches:
        raise ValueError("There are no images to make a batch of.")
    height, width = batches[0].shape[1:3]
    channels = max(images.shape[3] for images in batches)
    check_size(sum(map(len, batches)), height, width)
    fitting = [
        images if images.shape[1:3] == (height, width) else scale(images, width, height, "bilinear", "center")
        for images in (with_channels(images, channels) for images in batches)
    ]
    return np.concatenate(fitting)


@node("ImageFromBatch", "Get Image from Batch", "image/batch", outputs=(Output("IMAGE"),))
def image_from_batch(
    image: Annotated[Array, socket("IMAGE")],
    batch_index: Annotated[int, integer(0, -16384, 16384)],
    length: Annotated[int, integer(1, 1, 4096)],
) -> Array:
    """Some images of a batch from a place on, which counts from the end when it is negative; at least one."""
    first = batch_index if batch_index >= 0 else len(image) + batch_index
    first = min(max(0, first), len(image) - 1)
    return image[first : first + length].copy()


@node("RepeatImageBatch", "Repeat Image Batch", "image/batch", outputs=(Output("IMAGE"),))
def repeat_image_batch(image: Annotated[Array, socket("IMAGE")], amount: Annotated[int, integer(1, 1, 4096)]) -> Array:
    """The batch several times over."""
    check_size(len(image) * amount, *image.shape[1:3])
    return np.tile(image, (amount, 1, 1, 1))


@node("RebatchImages", "Rebatch Images", "image/batch", outputs=(Output("IMAGE", is_list=True),), is_input_list=True)
def rebatch_images(
    images: Annotated[list[Array], socket("IMAGE")], batch_size: Annotated[list[int], integer(1, 1, 4096)]
) -> list[Array]:
    """A list of batches of a length, made of all images of the list in their order; the last may be shorter."""
    singles, size = list(_singles(images)), batch_size[0]
    groups = [singles[first : first + size] for first in range(0, len(singles), size)]
    for group in groups:
        if len({single.shape for single in group}) > 1:
            raise ValueError("Images of different sizes cannot be in one batch; scale them to one size before.")
    return [np.concatenate(group) for group in groups]


@node(
    "ImageDeduplication", "Deduplicate Images", "image/batch", outputs=(Output("IMAGE", "images", is_list=True),),
    is_input_list=True, is_experimental=True,
)  # fmt: skip
def image_deduplication(
    images: Annotated[list[Array], socket("IMAGE")],
    similarity_threshold: Annotated[list[float], number(0.95, 0.0, 1.0, advanced=True)],
) -> list[Array]:
    """The images of the list without those that look like one before them.

    Two are alike by the share of 64 places in which both are brighter than their own average, or both are not.
    """
    kept: list[Array] = []
    seen = np.empty((0, _HASH_SIDE**2), bool)
    for single in _singles(images):
        found = _brighter_places(single)
        alike = 1 - (seen != found).sum(axis=1) / _HASH_SIDE**2
        if not (alike >= similarity_threshold[0]).any():
            kept.append(single)
            seen = np.vstack([seen, found])
    return kept


def _brighter_places(single: Array) -> NDArray[np.bool_]:
    small = resize(in_colour(single), _HASH_SIDE, _HASH_SIDE, "lanczos")[0]
    grey = np.asarray(as_picture(small).convert("L"))
    return np.asarray((grey > grey.mean()).ravel())


def in_colour(images: Array) -> Array:
    """Images in three channels: grey thrice, or without their alpha."""
    return images[..., :_COLOUR_CHANNELS] if images.shape[3] >= _COLOUR_CHANNELS else np.repeat(images[..., :1], 3, 3)


@node(
    "ImageGrid", "Make Image Grid", "image/batch", outputs=(Output("IMAGE", "images"),), is_input_list=True,
    is_experimental=True,
)  # fmt: skip
def image_grid(
    images: Annotated[list[Array], socket("IMAGE")],
    columns: Annotated[list[int], integer(4, 1, 20)],
    cell_width: Annotated[list[int], integer(256, 32, 2048, advanced=True)],
    cell_height: Annotated[list[int], integer(256, 32, 2048, advanced=True)],
    padding: Annotated[list[int], integer(4, 0, 50, advanced=True)],
) -> Array:
    """All images of the list on one black sheet, row by row, each stretched to its cell by Lanczos."""
    singles = list(_singles(images))
    if not singles:
        raise ValueError("There are no images to make a grid of.")
    (across, width, height, gap) = (columns[0], cell_width[0], cell_height[0], padding[0])
    down = -(-len(singles) // across)
    sheet_height, sheet_width = down * (height + gap) - gap, across * (width + gap) - gap
    check_size(1, sheet_height, sheet_width)
    sheet = np.zeros((1, sheet_height, sheet_width, _COLOUR_CHANNELS), np.float32)
    for index, single in enumerate(singles):
        row, column = divmod(index, across)
        top, left = row * (height + gap), column * (width + gap)
        sheet[:, top : top + height, left : left + width] = resize(in_colour(single), width, height, "lanczos")
    return sheet


@node("SplitImageToTileList", "Split Image into List of Tiles", "image/batch", outputs=(Output("IMAGE", is_list=True),))
def split_image_to_tile_list(
    image: Annotated[Array, socket("IMAGE")],
    tile_width: Annotated[int, integer(1024, 64, 16384)],
    tile_height: Annotated[int, integer(1024, 64, 16384)],
    overlap: Annotated[int, integer(128, 0, 4096)],
) -> list[Array]:
    """Overlapping tiles, row by row; those at the far edges overlap more, so that all have one size."""
    return [image[:, *region] for region in _tiles(image.shape[1:3], (tile_height, tile_width), overlap)]


@node(
    "ImageMergeTileList", "Merge List of Tiles to Image", "image/batch", outputs=(Output("IMAGE"),), is_input_list=True
)
def image_merge_tile_list(
    image_list: Annotated[list[Array], socket("IMAGE")],
    final_width: Annotated[list[int], integer(1024, 64, 32768)],
    final_height: Annotated[list[int], integer(1024, 64, 32768)],
    overlap: Annotated[list[int], integer(128, 0, 4096)],
) -> Array:
    """An image of its tiles, in the order in which it was split.

    Where tiles overlap, a pixel counts the more the nearer it is to the middle of its tile. Extra tiles are left out.
    """
    count, rows, columns, channels = image_list[0].shape
    height, width = final_height[0], final_width[0]
    check_size(count, height, width)
    hump = np.outer(_hump(rows), _hump(columns)) if overlap[0] > 0 else np.ones((rows, columns))
    weight = hump.astype(np.float32)[..., None]
    sheet = np.zeros((count, height, width, channels), np.float32)
    total = np.zeros((height, width, 1), np.float32)
    for tile, (down, across) in zip(image_list, _tiles((height, width), (rows, columns), overlap[0]), strict=False):
        if tile.shape[0] != count or tile.shape[3] != channels:
            raise ValueError("The tiles of one image have as many images and channels as the first of them.")
        region = (
            slice(down.start, min(down.stop, down.start + tile.shape[1])),
            slice(across.start, min(across.stop, across.start + tile.shape[2])),
        )
        size = slice(region[0].stop - region[0].start), slice(region[1].stop - region[1].start)
        sheet[:, *region] += tile[:, *size] * weight[size]
        total[region] += weight[size]
    total[total == 0] = 1
    sheet /= total
    return sheet


def _hump(length: int) -> NDArray[np.float64]:
    """Half a wave of the sine over a tile."""
    return np.maximum(np.sin(np.pi * np.linspace(0, 1, length)), _FAINTEST)


def _tiles(size: tuple[int, ...], tile: tuple[int, int], overlap: int) -> Iterator[_Region]:
    down, across = (_spans(length, part, overlap) for length, part in zip(size, tile, strict=True))
    check_items(len(down) * len(across), "tiles")
    return ((rows, columns) for rows in down for columns in across)


def _spans(length: int, part: int, overlap: int) -> list[slice]:
    """Where the tiles of a line lie. A tile goes on by a quarter of its length at least, whatever the overlap."""
    step = round(max(part * 0.25, part - overlap))
    spans = []
    for start in range(0, length, step):
        end = min(start + part, length)
        spans.append(slice(max(end - part, 0), end))
        if end == length:
            break
    return spans


@node(
    "MergeImageLists", "Merge Image Lists (DEPRECATED)", "image/batch",
    outputs=(Output("IMAGE", "images", is_list=True),), is_input_list=True, is_experimental=True,
)  # fmt: skip
def merge_image_lists(images: Annotated[list[Array], socket("IMAGE")]) -> list[Array]:
    """The list unchanged: all that is linked to one input is one list already."""
    return images


@node(
    "ShuffleDataset", "Shuffle Images List", "image/batch", outputs=(Output("IMAGE", "images", is_list=True),),
    is_input_list=True, is_experimental=True,
)  # fmt: skip
def shuffle_dataset(
    images: Annotated[list[Array], socket("IMAGE")], seed: Annotated[list[int], integer(0, 0, _SEED_MAX)]
) -> list[Array]:
    """The list in an order that follows from the seed."""
    return [images[index] for index in seeded_generator(seed[0]).permutation(len(images))]


@node(
    "ShuffleImageTextDataset", "Shuffle Pairs of Image-Text", "image/batch",
    outputs=(Output("IMAGE", "images", is_list=True), Output("STRING", "texts", is_list=True)),
    is_input_list=True, is_experimental=True,
)  # fmt: skip
def shuffle_image_text_dataset(
    images: Annotated[list[Array], socket("IMAGE")],
    texts: Annotated[list[str], text(forceInput=True, multiline=False)],
    seed: Annotated[list[int], integer(0, 0, _SEED_MAX)],
) -> tuple[list[Array], list[str]]:
    """Both lists in the order that follows from the seed, each text with its image."""
    if len(images) != len(texts):
        raise ValueError(f"{len(images)} images and {len(texts)} texts are not pairs.")
    order = seeded_generator(seed[0]).permutation(len(images))
    return [images[index] for index in order], [texts[index] for index in order]


def _singles(batches: Sequence[Array]) -> Iterator[Array]:
    for images in batches:
        for index in range(len(images)):
            yield images[index : index + 1]


NODES: Final = (
    batch_images,
    image_batch,
    image_from_batch,
    repeat_image_batch,
    rebatch_images,
    image_deduplication,
    image_grid,
    split_image_to_tile_list,
    image_merge_tile_list,
    merge_image_lists,
    shuffle_dataset,
    shuffle_image_text_dataset,
)
