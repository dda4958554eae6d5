"""Nodes that lay images over each other."""

import numpy as np
import pytest

from fairlead.engine.media.arrays import Array
from fairlead.engine.nodes.compositing import (
    image_composite_masked,
    join_image_with_alpha,
    porter_duff_image_composite,
    split_image_with_alpha,
)


def _flat(value: float, height: int = 1, width: int = 1, channels: int = 3, count: int = 1) -> Array:
    return np.full((count, height, width, channels), value, np.float32)


def _mask(*rows: tuple[float, ...]) -> Array:
    return np.array([rows], np.float32)


def _grey(image: Array) -> list[list[float]]:
    """The first channel of the first image."""
    rows: list[list[float]] = image[0, ..., 0].tolist()
    return rows


def test_source_lands_at_its_place() -> None:
    """At x 2 and y 1 a source of 3 x 2 is cut off at the right; the destination itself does not change."""
    destination = _flat(0.0, 3, 4)
    result = image_composite_masked(destination, _flat(1.0, 2, 3), 2, 1, resize_source=False)
    assert _grey(result) == [[0, 0, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]]
    assert not destination.any()


def test_source_beyond_the_edge_changes_nothing() -> None:
    """There is nothing to be seen of it."""
    result = image_composite_masked(_flat(0.5, 2, 2), _flat(1.0, 2, 2), 2, 16384, resize_source=False)
    assert _grey(result) == [[0.5, 0.5], [0.5, 0.5]]


def test_mask_shows_the_source_where_it_is_one() -> None:
    """Where it is 1 the source shows, where it is 0 the destination."""
    mask = _mask((0.0, 0.25), (0.5, 1.0))
    result = image_composite_masked(_flat(0.0, 2, 2), _flat(0.8, 2, 2), 0, 0, False, mask)  # noqa: FBT003 -- a widget
    assert _grey(result)[0] == pytest.approx([0.0, 0.2])
    assert _grey(result)[1] == pytest.approx([0.4, 0.8])


def test_mask_is_scaled_to_the_source() -> None:
    """It is scaled to the source, not to the destination: of two columns [0, 1] four are 0, 1/4, 3/4, 1."""
    result = image_composite_masked(_flat(0.0, 1, 8), _flat(1.0, 1, 4), 2, 0, False, _mask((0.0, 1.0)))  # noqa: FBT003 -- same
    assert _grey(result)[0] == pytest.approx([0, 0, 0, 0.25, 0.75, 1, 0, 0])


def test_source_is_resized_to_the_destination() -> None:
    """A source of one pixel covers everything."""
    result = image_composite_masked(_flat(0.0, 2, 3), _flat(0.6), 0, 0, resize_source=True)
    assert _grey(result)[1] == pytest.approx([0.6, 0.6, 0.6])


def test_sources_are_repeated_for_every_image() -> None:
    """It starts again until every image of the destination has one; those too many are left off."""
    sources = np.concatenate([_flat(0.1), _flat(0.2)])
    result = image_composite_masked(_flat(0.0, count=3), sources, 0, 0, resize_source=False)
    assert result[:, 0, 0, 0] == pytest.approx([0.1, 0.2, 0.1])
    assert len(image_composite_masked(_flat(0.0), sources, 0, 0, resize_source=False)) == 1


def test_alpha_of_source_and_destination_is_matched() -> None:
    """The source's alpha is left off, or is full where the destination has one."""
    without = image_composite_masked(_flat(0.0), _flat(0.5, channels=4), 0, 0, resize_source=False)
    assert without.ravel() == pytest.approx([0.5, 0.5, 0.5])
    with_alpha = image_composite_masked(_flat(0.0, channels=4), _flat(0.5), 0, 0, resize_source=False)
    assert with_alpha.ravel() == pytest.approx([0.5, 0.5, 0.5, 1.0])


def test_mask_joins_as_inverted_alpha() -> None:
    """A mask says where an image is not: alpha is 1 - mask, scaled to the image."""
    result = join_image_with_alpha(_flat(0.5, 1, 4), _mask((0.0, 1.0)))
    assert result.shape == (1, 1, 4, 4)
    assert result[0, 0, :, 3] == pytest.approx([1.0, 0.75, 0.25, 0.0])


def test_joined_alpha_replaces_the_old_one() -> None:
    """It is replaced."""
    assert join_image_with_alpha(_flat(0.5, channels=4), _mask((1.0,))).ravel() == pytest.approx([0.5] * 3 + [0.0])


def test_longer_batch_decides_when_alpha_is_joined() -> None:
    """One image and three masks are three images."""
    masks = np.array([[[0.0]], [[0.5]], [[1.0]]], np.float32)
    assert join_image_with_alpha(_flat(0.5), masks)[:, 0, 0, 3] == pytest.approx([1.0, 0.5, 0.0])


def test_memory_of_joined_masks_is_bounded() -> None:
    """What would come out is counted before anything is made."""
    with pytest.raises(ValueError, match="one value"):
        join_image_with_alpha(_flat(0.0, 1024, 1024), np.zeros((1100, 1, 1), np.float32))


def test_splitting_gives_a_mask_and_no_alpha() -> None:
    """Alpha 0.3 is mask 0.7; without alpha nothing is masked."""
    image, mask = split_image_with_alpha(np.array([[[[0.1, 0.2, 0.4, 0.3]]]], np.float32))
    assert image.ravel() == pytest.approx([0.1, 0.2, 0.4])
    assert mask.ravel() == pytest.approx([0.7])
    assert split_image_with_alpha(_flat(0.5, 2, 3))[1].tolist() == [[[0, 0, 0], [0, 0, 0]]]


# Source 0.8 under a mask of 0.25, destination 0.4 under one of 0.5: alphas 3/4 and 1/2, multiplied colours 0.6 and 0.2.
_COMPOSED = {
    "ADD": ((0.6 + 0.2) / 1, 1),
    "CLEAR": (0, 0),
    "DARKEN": ((0.5 * 0.6 + 0.25 * 0.2 + 0.2) / 0.875, 0.875),
    "DST": (0.4, 0.5),
    "DST_ATOP": ((0.75 * 0.2 + 0.5 * 0.6) / 0.75, 0.75),
    "DST_IN": (0.4, 0.375),
    "DST_OUT": (0.4, 0.125),
    "DST_OVER": ((0.2 + 0.5 * 0.6) / 0.875, 0.875),
    "LIGHTEN": (1, 0.875),
    "MULTIPLY": (0.12 / 0.375, 0.375),
    "OVERLAY": (2 * 0.6 * 0.2 / 0.875, 0.875),
    "SCREEN": ((0.6 + 0.2 - 0.12) / 0.875, 0.875),
    "SRC": (0.8, 0.75),
    "SRC_ATOP": ((0.5 * 0.6 + 0.25 * 0.2) / 0.5, 0.5),
    "SRC_IN": (0.8, 0.375),
    "SRC_OUT": (0.8, 0.375),
    "SRC_OVER": ((0.6 + 0.25 * 0.2) / 0.875, 0.875),
    "XOR": ((0.5 * 0.6 + 0.25 * 0.2) / 0.5, 0.5),
}


@pytest.mark.parametrize(("mode", "colour", "alpha"), [(mode, *wanted) for mode, wanted in _COMPOSED.items()])
def test_porter_duff_modes_compose_as_defined(mode: str, colour: float, alpha: float) -> None:
    """Worked out by hand for one pixel; the mask that comes out is 1 - alpha."""
    image, mask = porter_duff_image_composite(_flat(0.8), _mask((0.25,)), _flat(0.4), _mask((0.5,)), mode)
    assert image.ravel() == pytest.approx([colour] * 3, abs=1e-5)
    assert mask.ravel() == pytest.approx([1 - alpha], abs=1e-5)


@pytest.mark.parametrize(("under", "over", "result"), [(0.25, 0.5, 0.25), (0.75, 0.5, 0.75), (0.75, 0.2, 0.6)])
def test_overlay_multiplies_what_is_dark(under: float, over: float, result: float) -> None:
    """Opaque: 2 s d below the middle, 1 - 2 (1 - s) (1 - d) above it."""
    opaque = _mask((0.0,))
    image, _ = porter_duff_image_composite(_flat(over), opaque, _flat(under), opaque, "OVERLAY")
    assert image.ravel() == pytest.approx([result] * 3, abs=1e-5)


def test_composing_takes_the_destinations_size() -> None:
    """Everything is scaled to the destination, cropped in the middle, and the shortest batch counts."""
    image, mask = porter_duff_image_composite(
        _flat(0.8, 8, 2, count=3), np.zeros((2, 5, 5), np.float32), _flat(0.4, 4, 6, count=2), _mask((0.0,)), "SRC"
    )
    assert image.shape == (1, 4, 6, 3)
    assert mask.shape == (1, 4, 6)
    assert image == pytest.approx(np.float32(0.8))


def test_channels_that_do_not_match_are_named() -> None:
    """The error names both numbers."""
    with pytest.raises(ValueError, match="4 are not 3"):
        porter_duff_image_composite(_flat(0.8, channels=4), _mask((0.0,)), _flat(0.4), _mask((0.0,)), "SRC")
