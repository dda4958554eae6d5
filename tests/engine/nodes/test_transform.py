"""Nodes that crop, turn, pad, stitch and resize, on images small enough to be read."""

from typing import Any

import numpy as np
import pytest

from fairlead.engine.media.arrays import Array
from fairlead.engine.nodes.transform import (
    center_crop_images,
    image_crop,
    image_crop_region,
    image_flip,
    image_pad_for_outpaint,
    image_rotate,
    image_stitch,
    random_crop_images,
    resize_and_pad_image,
    resize_image_mask,
    resize_images_by_longer_edge,
    resize_images_by_shorter_edge,
)
from fairlead.engine.nodes.upscaling import (
    image_scale,
    image_scale_by,
    image_scale_to_max_dimension,
    image_scale_to_total_pixels,
)


def _numbered_images(rows: int, columns: int, count: int = 1) -> Array:
    """Grey images whose pixels are numbered from 0."""
    return np.arange(count * rows * columns, dtype=np.float32).reshape(count, rows, columns, 1)


def _read(images: Array) -> list[Any]:
    return list(images[0, :, :, 0].tolist())


def _size(images: Array) -> tuple[int, int]:
    """Width and height."""
    return images.shape[2], images.shape[1]


def test_crop_stays_within_the_image() -> None:
    """What is not there is not made up; a corner beyond the image is moved onto its last pixel."""
    image = _numbered_images(3, 4)
    assert _read(image_crop(image, 2, 2, 1, 1)) == [[5, 6], [9, 10]]
    assert _read(image_crop(image, 9, 9, 2, 2)) == [[10, 11]]
    assert _read(image_crop(image, 5, 5, 100, 100)) == [[11]]


def test_crop_is_a_copy() -> None:
    """What comes out is a copy, not a view."""
    assert image_crop(_numbered_images(3, 4), 2, 2, 1, 1).base is None


def test_region_is_cropped() -> None:
    """The region comes as one value; one without pixels is refused."""
    image = _numbered_images(3, 4)
    assert _read(image_crop_region(image, {"x": 1, "y": 2, "width": 2, "height": 7})) == [[9, 10]]
    assert _read(image_crop_region(image, {"x": -5, "y": -5, "width": 1, "height": 1})) == [[0]]
    with pytest.raises(ValueError, match="0 x 2"):
        image_crop_region(image, {"x": 1, "y": 2, "width": 0, "height": 2})


def test_centre_crop_cuts_the_odd_remainder_at_the_far_end() -> None:
    """An odd remainder is cut off at the far end; an image that is smaller stays."""
    image = _numbered_images(3, 4)
    assert _read(center_crop_images(image, 1, 2)) == [[1], [5]]
    assert _read(center_crop_images(image, 9, 9)) == _read(image)


def test_random_crop_depends_on_the_seed_alone() -> None:
    """The place is drawn as numpy's old generator draws it, left before top; large seeds fold by 2^32 - 1."""
    image = _numbered_images(40, 50)
    generator = np.random.RandomState(7)
    left, top = int(generator.randint(0, 48)), int(generator.randint(0, 37))
    assert _read(random_crop_images(image, 3, 4, 7))[0][0] == top * 50 + left
    folded = random_crop_images(image, 3, 4, 7 + (1 << 32) - 1)
    np.testing.assert_array_equal(random_crop_images(image, 3, 4, 7), folded)
    assert _size(random_crop_images(image, 99, 4, 0)) == (50, 4)


def test_flip_turns_at_the_axis_asked_for() -> None:
    """At the x axis it goes upside down."""
    image = _numbered_images(2, 2)
    assert _read(image_flip(image, "x-axis: vertically")) == [[2, 3], [0, 1]]
    assert _read(image_flip(image, "y-axis: horizontally")) == [[1, 0], [3, 2]]


def test_quarter_turn_is_clockwise() -> None:
    """A quarter turn clockwise puts the first column on top."""
    image = _numbered_images(2, 3)  # 0 1 2 / 3 4 5
    assert _read(image_rotate(image, "90 degrees")) == [[3, 0], [4, 1], [5, 2]]
    assert _read(image_rotate(image, "180 degrees")) == [[5, 4, 3], [2, 1, 0]]
    assert _read(image_rotate(image, "270 degrees")) == [[2, 5], [1, 4], [0, 3]]
    assert _read(image_rotate(image, "none")) == _read(image)


def test_padding_is_grey_and_its_mask_white() -> None:
    """Around the image there is grey to be painted; the image itself is kept."""
    image = np.zeros((2, 2, 2, 3), np.float32)
    padded, mask = image_pad_for_outpaint(image, 1, 2, 3, 0, 0)
    assert padded.shape == (2, 4, 6, 3)
    assert mask.shape == (1, 4, 6)
    assert (padded[:, 2:, 1:3] == 0).all()
    assert padded.sum() == 0.5 * 2 * 3 * (4 * 6 - 4)
    np.testing.assert_array_equal(mask[0, 2:, 1:3], np.zeros((2, 2)))
    assert mask.sum() == 4 * 6 - 4


def test_mask_fades_only_at_an_edge_that_was_extended() -> None:
    """With a feathering of 2 at the left only, the mask is 1 at the edge, (1/2)^2 next to it, then 0."""
    image = np.zeros((1, 5, 6, 3), np.float32)
    _, mask = image_pad_for_outpaint(image, 1, 0, 0, 0, 2)
    np.testing.assert_allclose(mask[0], np.tile([1, 1, 0.25, 0, 0, 0, 0], (5, 1)))


def test_mask_fades_by_the_nearest_edge() -> None:
    """At the right and below, the distance counts from the far end of the pixel: the last is 1 away, not 0."""
    image = np.zeros((1, 5, 5, 3), np.float32)
    _, mask = image_pad_for_outpaint(image, 0, 0, 1, 1, 2)
    expected = [[0] * 4 + [0.25, 1]] * 4 + [[0.25] * 5 + [1], [1] * 6]
    np.testing.assert_allclose(mask[0], expected)


def test_feathering_larger_than_half_the_image_is_left_out() -> None:
    """It is left out altogether."""
    _, mask = image_pad_for_outpaint(np.zeros((1, 4, 9, 3), np.float32), 8, 0, 0, 0, 2)
    assert mask[0, :, 8:].sum() == 0


def test_padded_size_is_bounded() -> None:
    """Four sides of 16384 pixels are refused."""
    with pytest.raises(ValueError, match="32769 x 32769"):
        image_pad_for_outpaint(np.zeros((1, 1, 1, 3), np.float32), 16384, 16384, 16384, 16384, 0)


def _stitch(
    first: Array, direction: str, second: Array, *, matched: bool = True, gap: int = 0, colour: str = "white"
) -> Array:
    return image_stitch(first, direction, matched, gap, colour, second)


@pytest.mark.parametrize(("direction", "expected"), [("right", [[1, 1, 0]]), ("left", [[0, 1, 1]])])
def test_image_is_stitched_to_the_side_asked_for(direction: str, expected: list[list[float]]) -> None:
    """The second image lies where the direction says."""
    white, black = np.ones((1, 1, 2, 3), np.float32), np.zeros((1, 1, 1, 3), np.float32)
    assert _read(_stitch(white, direction, black)) == expected
    downwards = {"right": "down", "left": "up"}[direction]
    turned = _stitch(white.swapaxes(1, 2), downwards, black.swapaxes(1, 2))
    assert _read(turned.swapaxes(1, 2)) == expected


def test_stitching_matches_sizes() -> None:
    """The second takes the edge of the first and keeps its proportions."""
    first, second = np.zeros((1, 6, 4, 3), np.float32), np.ones((1, 2, 3, 3), np.float32)
    assert _size(_stitch(first, "right", second)) == (4 + 9, 6)
    assert _size(_stitch(first, "down", second)) == (4, 6 + 2)  # 2.67 cut off


def test_stitching_centres_unmatched_sizes_in_black() -> None:
    """Unmatched sizes: the smaller one gets black around, the odd line at the far end."""
    first, second = np.ones((1, 4, 1, 3), np.float32), np.ones((1, 1, 1, 3), np.float32)
    assert _read(_stitch(first, "right", second, matched=False)) == [[1, 0], [1, 1], [1, 0], [1, 0]]


def test_gap_has_an_even_width_and_its_colour() -> None:
    """An odd width is made even; the colour is opaque where there is an alpha."""
    first, second = np.zeros((1, 1, 1, 4), np.float32), np.zeros((1, 1, 1, 3), np.float32)
    stitched = _stitch(first, "right", second, gap=3, colour="red")
    assert stitched[0, 0].tolist() == [[0, 0, 0, 0], *[[1, 0, 0, 1]] * 4, [0, 0, 0, 1]]


def test_shorter_batch_is_repeated_in_stitching() -> None:
    """Its last image is repeated; without a second image nothing happens."""
    first, second = _numbered_images(1, 1, 3), _numbered_images(1, 1, 2)
    stitched = _stitch(first, "down", second, matched=False)
    assert stitched[:, :, 0, 0].tolist() == [[0, 0], [1, 1], [2, 1]]
    assert image_stitch(first, "right", match_image_size=True, spacing_width=0, spacing_color="white") is first


def test_padded_image_is_in_the_middle() -> None:
    """Four by two into three by three: scaled to 3 x 1 (1.5 cut off), a white line above and below."""
    padded = resize_and_pad_image(np.zeros((1, 2, 4, 3), np.float32), 3, 3, "white", "area")
    assert _read(padded) == [[1, 1, 1], [0, 0, 0], [1, 1, 1]]
    assert resize_and_pad_image(np.ones((1, 2, 4, 3), np.float32), 3, 3, "black", "area").sum() == 9


_WAYS = [
    ({"resize_type": "scale dimensions", "width": 40, "height": 0, "crop": "center"}, (40, 20)),
    ({"resize_type": "scale dimensions", "width": 7, "height": 9, "crop": "disabled"}, (7, 9)),
    ({"resize_type": "scale dimensions", "width": 0, "height": 0, "crop": "center"}, (20, 10)),
    ({"resize_type": "scale by multiplier", "multiplier": 0.33}, (7, 3)),
    ({"resize_type": "scale longer dimension", "longer_size": 50}, (50, 25)),
    ({"resize_type": "scale shorter dimension", "shorter_size": 50}, (100, 50)),
    ({"resize_type": "scale width", "width": 5}, (5, 2)),
    ({"resize_type": "scale height", "height": 5}, (10, 5)),
    ({"resize_type": "scale total pixels", "megapixels": 0.01}, (145, 72)),  # the square root of 10485.76 / 200 = 7.24
    ({"resize_type": "match size", "match": np.zeros((3, 6, 8)), "crop": "center"}, (8, 6)),
    ({"resize_type": "scale to multiple", "multiple": 8}, (16, 8)),
    ({"resize_type": "scale to multiple", "multiple": 32}, (20, 10)),
]


@pytest.mark.parametrize(("way", "size"), _WAYS)
@pytest.mark.parametrize("is_mask", [False, True])
def test_each_way_of_resizing_gives_its_size(way: dict[str, Any], size: tuple[int, int], *, is_mask: bool) -> None:
    """A mask stays a mask and an image an image."""
    given = np.ones((2, 10, 20) if is_mask else (2, 10, 20, 3), np.float32)
    resized = resize_image_mask(given, way, "area")
    assert resized.ndim == given.ndim
    assert _size(resized) == size
    np.testing.assert_allclose(resized, 1)


def test_multiple_crops_and_does_not_stretch() -> None:
    """Six by eight to multiples of four: 4 x 8 covers by its full height, so a column is cut off at each side."""
    image = _numbered_images(1, 6).repeat(8, axis=1)
    covered = resize_image_mask(image, {"resize_type": "scale to multiple", "multiple": 4}, "bilinear")
    assert _read(covered) == [[1, 2, 3, 4]] * 8


def test_edge_is_cut_off_to_whole_pixels() -> None:
    """These two cut a length off to whole pixels."""
    image = np.zeros((1, 100, 199, 3), np.float32)
    assert _size(resize_images_by_longer_edge(image, 100)) == (100, 50)  # 50.25
    assert _size(resize_images_by_longer_edge(image, 197)) == (197, 98)  # 98.99
    assert _size(resize_images_by_shorter_edge(image, 99)) == (197, 99)  # 197.01
    assert _size(resize_images_by_shorter_edge(image.swapaxes(1, 2), 99)) == (99, 197)


def test_each_way_of_upscaling_gives_its_size() -> None:
    """Each of the four ways, and a side of 0 that follows from the other."""
    image = np.zeros((1, 30, 20, 3), np.float32)
    assert _size(image_scale(image, "area", 10, 0, "disabled")) == (10, 15)
    assert _size(image_scale(image, "area", 10, 10, "center")) == (10, 10)
    assert image_scale(image, "lanczos", 0, 0, "center") is image
    assert _size(image_scale_by(image, "bilinear", 0.01)) == (1, 1)
    assert _size(image_scale_by(image, "bilinear", 2.5)) == (50, 75)
    assert _size(image_scale_to_max_dimension(image, "bilinear", 100)) == (67, 100)
    assert _size(image_scale_to_max_dimension(image.swapaxes(1, 2), "bilinear", 100)) == (100, 67)
    # The factor is the square root of 1048576 / 600, 41.80: 836.1 by 1254.2.
    assert _size(image_scale_to_total_pixels(image, "nearest-exact", 1.0, 1)) == (836, 1254)
    assert _size(image_scale_to_total_pixels(image, "nearest-exact", 1.0, 64)) == (832, 1280)


def test_upscaled_size_is_bounded() -> None:
    """A batch that would be too large is refused."""
    with pytest.raises(ValueError, match="more than the"):
        image_scale(np.zeros((16, 8, 8, 3), np.float32), "bilinear", 16384, 16384, "disabled")
