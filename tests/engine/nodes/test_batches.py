"""Batches joined, split, repeated and put in order."""

import numpy as np
import pytest

from fairlead.engine.media.arrays import Array
from fairlead.engine.nodes.batches import (
    batch_images,
    image_batch,
    image_deduplication,
    image_from_batch,
    image_grid,
    image_merge_tile_list,
    merge_image_lists,
    rebatch_images,
    repeat_image_batch,
    shuffle_dataset,
    shuffle_image_text_dataset,
    split_image_to_tile_list,
)


def _batch(*values: float, rows: int = 1, columns: int = 1, channels: int = 3) -> Array:
    """Images of one value each."""
    pixels = np.array(values, np.float32)[:, None, None, None]
    return np.broadcast_to(pixels, (len(values), rows, columns, channels)).copy()


def _values(images: Array) -> list[float]:
    return [float(value) for value in images[:, 0, 0, 0]]


def test_images_are_joined_in_order() -> None:
    """Images are joined in the order of their input names, however many there are."""
    assert _values(batch_images({"image0": _batch(0, 1), "image1": _batch(2), "image2": _batch(3)})) == [0, 1, 2, 3]
    assert _values(image_batch(_batch(0), _batch(1, 2))) == [0, 1, 2]


def test_image_of_another_size_is_cut_and_scaled() -> None:
    """It is cut to the proportions of the first and scaled to its size."""
    wide = np.array([[9, 1, 1, 9]], np.float32)[None, :, :, None].repeat(2, axis=1)
    joined = image_batch(_batch(0, rows=4, columns=4, channels=1), wide)
    assert joined.shape == (2, 4, 4, 1)
    np.testing.assert_allclose(joined[1], 1)


def test_image_without_alpha_is_opaque_next_to_one_with_it() -> None:
    """An image without one is opaque beside one with it."""
    joined = image_batch(_batch(0, channels=3), _batch(0.5, channels=4))
    assert joined[:, 0, 0].tolist() == [[0, 0, 0, 1], [0.5, 0.5, 0.5, 0.5]]


def test_place_in_a_batch_is_clamped() -> None:
    """Places beyond the ends are moved onto them; negative ones count from the end."""
    batch = _batch(0, 1, 2, 3)
    assert _values(image_from_batch(batch, 1, 2)) == [1, 2]
    assert _values(image_from_batch(batch, 3, 9)) == [3]
    assert _values(image_from_batch(batch, 99, 1)) == [3]
    assert _values(image_from_batch(batch, -2, 2)) == [2, 3]
    assert _values(image_from_batch(batch, -99, 1)) == [0]


def test_whole_batch_is_repeated_within_a_bound() -> None:
    """The whole batch comes again; what would not fit into memory is refused."""
    assert _values(repeat_image_batch(_batch(0, 1), 2)) == [0, 1, 0, 1]
    with pytest.raises(ValueError, match="more than the"):
        repeat_image_batch(_batch(0, rows=1024, columns=1024), 4096)


def test_rebatched_list_keeps_its_order() -> None:
    """Batches are taken apart and made again; images of two sizes make no batch."""
    rebatched = rebatch_images([_batch(0, 1, 2), _batch(3), _batch(4)], [2])
    assert [_values(batch) for batch in rebatched] == [[0, 1], [2, 3], [4]]
    with pytest.raises(ValueError, match="different sizes"):
        rebatch_images([_batch(0), _batch(0, rows=2)], [2])


def test_same_picture_is_kept_once() -> None:
    """Left half bright and right half bright differ everywhere; a fainter left half does not differ at all."""
    left = np.zeros((1, 16, 16, 3), np.float32)
    left[:, :, :8] = 1
    right, faint = left[:, :, ::-1], left * np.float32(0.5)
    kept = image_deduplication([left, right, faint, np.concatenate([right, left])], [0.95])
    assert len(kept) == 2
    np.testing.assert_array_equal(kept[0], left)
    np.testing.assert_array_equal(kept[1], right)
    assert len(image_deduplication([left, right], [0.0])) == 1


def test_grid_has_its_order_and_gaps() -> None:
    """Three images in two columns: a sheet of two rows, black between them and in the place that is left."""
    sheet = image_grid([_batch(1, 1), _batch(1, channels=1)], [2], [32], [40], [5])
    assert sheet.shape == (1, 85, 69, 3)
    expected = np.zeros((85, 69))
    expected[:40, :32] = expected[:40, 37:] = expected[45:, :32] = 1
    np.testing.assert_array_equal(sheet[0, :, :, 0], expected)
    with pytest.raises(ValueError, match="no images"):
        image_grid([], [2], [32], [32], [0])


def test_tiles_at_the_far_edge_are_of_full_size() -> None:
    """They overlap more instead: 150 by tiles of 64 that overlap by 16 begin at 0, 48 and 86."""
    image = np.zeros((1, 64, 150, 1), np.float32)
    image[0, :, :, 0] = np.arange(150)
    tiles = split_image_to_tile_list(image, 64, 64, 16)
    assert [int(tile[0, 0, 0, 0]) for tile in tiles] == [0, 48, 86]
    assert {tile.shape for tile in tiles} == {(1, 64, 64, 1)}


def test_tiles_go_on_by_a_quarter_at_least() -> None:
    """A tile goes on by a quarter of its length at least."""
    tiles = split_image_to_tile_list(np.zeros((1, 64, 128, 1), np.float32), 64, 64, 4096)
    assert len(tiles) == 5  # at 0, 16, 32, 48 and 64
    with pytest.raises(ValueError, match="tiles are more than"):
        split_image_to_tile_list(np.broadcast_to(np.float32(0), (1, 8192, 8192, 1)), 64, 64, 4096)


@pytest.mark.parametrize("overlap", [0, 16])
def test_split_image_is_made_whole_of_its_tiles(overlap: int) -> None:
    """What was split and merged is what it was."""
    image = np.random.default_rng(3).random((2, 100, 150, 3)).astype(np.float32)
    tiles = split_image_to_tile_list(image, 64, 64, overlap)
    merged = image_merge_tile_list(tiles, [150], [100], [overlap])
    np.testing.assert_allclose(merged, image, atol=1e-5)


def test_tiles_blend_where_they_overlap() -> None:
    """Between a black and a white tile, a pixel is white by its share of the two half sine waves."""
    merged = image_merge_tile_list([_batch(0, rows=64, columns=64), _batch(1, rows=64, columns=64)], [112], [64], [16])
    # Pixel 50 is the black tile's pixel 50 and the white tile's pixel 2.
    black, white = np.sin(np.pi * 50 / 63), np.sin(np.pi * 2 / 63)
    assert merged[0, 32, 50, 0] == pytest.approx(white / (black + white), abs=1e-5)
    assert merged[0, 32, 47, 0] == 0
    assert merged[0, 32, 64, 0] == 1


def test_size_of_a_merged_sheet_is_bounded() -> None:
    """The final size is refused before it is made."""
    with pytest.raises(ValueError, match="65536 x 65536"):
        image_merge_tile_list([_batch(0, rows=64, columns=64)], [65536], [65536], [16])


def test_shuffle_is_that_of_numpy() -> None:
    """The order is that of numpy's old generator, and texts stay with their images."""
    order = [int(index) for index in np.random.RandomState(5).permutation(4)]
    images = [_batch(value) for value in range(4)]
    assert [_values(image)[0] for image in shuffle_dataset(images, [5])] == order
    shuffled, texts = shuffle_image_text_dataset(images, ["0", "1", "2", "3"], [5 + (1 << 32) - 1])
    assert [_values(image)[0] for image in shuffled] == order
    assert [int(text) for text in texts] == order
    with pytest.raises(ValueError, match="not pairs"):
        shuffle_image_text_dataset(images, ["0"], [5])


def test_merged_list_is_unchanged() -> None:
    """It is one list already."""
    images = [_batch(0), _batch(1)]
    assert merge_image_lists(images) is images
