"""Nodes that filter images."""

import math
from pathlib import Path

import numpy as np
import pytest

from engine.nodes.folders import FolderContext
from fairlead.engine.media.arrays import Array
from fairlead.engine.nodes.filters import (
    image_add_noise,
    image_blend,
    image_blur,
    image_quantize,
    image_sharpen,
    morphology,
)

_CENTRE = 1 / (1 + 2 * math.exp(-0.5))
"""The weight in the middle of three, when the outer ones lie one sigma away: 0.4519."""
_SIDE = math.exp(-0.5) * _CENTRE


@pytest.fixture
def context(tmp_path: Path) -> FolderContext:
    """The context of a node that needs no files."""
    return FolderContext(tmp_path)


def _flat(value: float, height: int = 1, width: int = 1, channels: int = 3, count: int = 1) -> Array:
    return np.full((count, height, width, channels), value, np.float32)


def _row(*values: float) -> Array:
    """One grey image, one pixel high."""
    return np.array(values, np.float32).reshape(1, 1, -1, 1).repeat(3, axis=-1)


def _random(height: int = 9, width: int = 11) -> Array:
    return np.random.default_rng(5).random((1, height, width, 3)).astype(np.float32)


@pytest.mark.parametrize(
    ("mode", "under", "over", "result"),
    [
        ("normal", 0.25, 0.75, 0.75),
        ("multiply", 0.25, 0.75, 0.1875),
        ("screen", 0.25, 0.75, 0.8125),
        ("overlay", 0.25, 0.75, 0.375),  # 2 * 0.25 * 0.75
        ("overlay", 0.75, 0.25, 0.625),  # 1 - 2 * 0.25 * 0.75
        ("soft_light", 0.25, 0.25, 0.15625),  # 0.25 - 0.5 * 0.25 * 0.75
        ("soft_light", 0.25, 0.75, 0.375),  # 0.25 + 0.5 * (g - 0.25), g = ((16/4 - 12)/4 + 4)/4 = 0.5
        ("soft_light", 0.64, 1.0, 0.8),  # the square root
        ("difference", 0.75, 0.25, 0.5),
        ("difference", 0.25, 0.75, 0.0),  # held at 0, not 0.5
    ],
)
def test_images_are_blended_by_their_formula(mode: str, under: float, over: float, result: float) -> None:
    """All of it, half of it and none of it; half of a difference below 0 is taken before it is held."""
    first, second = _flat(under), _flat(over)
    assert image_blend(first, second, 1.0, mode).ravel() == pytest.approx([result] * 3, abs=1e-6)
    assert image_blend(first, second, 0.0, mode).ravel() == pytest.approx([under] * 3)
    made = under - over if mode == "difference" else result
    half = max(0.0, (under + made) / 2)
    assert image_blend(first, second, 0.5, mode).ravel() == pytest.approx([half] * 3, abs=1e-6)


def test_images_of_different_sizes_are_blended() -> None:
    """The second takes the first's size and channels, cut in the middle: of 5 columns the 3 in the middle."""
    second = _row(9, 0.2, 0.4, 0.6, 9).repeat(3, axis=1)
    result = image_blend(_flat(0.0, 3, 3, channels=4), second, 1.0, "normal")
    assert result[0, 1, :, 0] == pytest.approx([0.2, 0.4, 0.6])
    assert result[0, 1, :, 3] == pytest.approx([1, 1, 1])


def test_one_image_is_blended_with_many() -> None:
    """It goes with each; two with three do not go."""
    second = np.concatenate([_flat(0.1), _flat(0.2), _flat(0.3)])
    assert image_blend(_flat(0.0), second, 1.0, "normal")[:, 0, 0, 0] == pytest.approx([0.1, 0.2, 0.3])
    with pytest.raises(ValueError, match="2 images cannot be blended with 3"):
        image_blend(_flat(0.0, count=2), second, 1.0, "normal")


def test_blurred_point_is_a_gaussian(context: FolderContext) -> None:
    """With radius 1 and sigma 1 the neighbours lie one sigma away, in both directions."""
    image = np.zeros((1, 5, 5, 3), np.float32)
    image[0, 2, 2] = 1
    weights = np.array([0, _SIDE, _CENTRE, _SIDE, 0])
    blurred = image_blur(context, image, 1, 1.0)
    assert blurred[0, ..., 1] == pytest.approx(np.outer(weights, weights), abs=1e-6)


def test_kernel_spans_the_radius(context: FolderContext) -> None:
    """The kernel always spans -1 to 1: with radius 2, the second neighbour lies one sigma away, the first a half."""
    blurred = image_blur(context, _row(0, 0, 0, 1, 0, 0, 0), 2, 1.0)[0, 0, :, 0]
    assert blurred[5] / blurred[3] == pytest.approx(math.exp(-0.5))
    assert blurred[4] / blurred[3] == pytest.approx(math.exp(-0.125))
    assert blurred.sum() == pytest.approx(1)


def test_border_is_mirrored_when_blurring(context: FolderContext) -> None:
    """It is a mirror: what lies one beyond the first pixel is the second, not the first again."""
    blurred = image_blur(context, _row(1, 0, 0, 0), 1, 1.0)[0, 0, :, 0]
    assert blurred == pytest.approx([_CENTRE, _SIDE, 0, 0], abs=1e-6)


def test_image_smaller_than_the_radius_is_blurred(context: FolderContext) -> None:
    """The mirrors mirror each other; a flat image stays as it is."""
    assert image_blur(context, _flat(0.5, 3, 2), 31, 1.0) == pytest.approx(np.float32(0.5), abs=1e-6)


def test_every_channel_of_every_image_is_blurred_alike(context: FolderContext) -> None:
    """Grey, and with alpha, in batches."""
    for channels in (1, 3, 4):
        images = np.random.default_rng(1).random((2, 6, 7, channels)).astype(np.float32)
        blurred = image_blur(context, images, 2, 0.7)
        assert blurred.shape == images.shape
        alone = image_blur(context, images[1:, :, :, :1], 2, 0.7)
        assert blurred[1, ..., 0] == pytest.approx(alone[0, ..., 0], abs=1e-6)


def test_sharpening_adds_the_difference_to_the_blur(context: FolderContext) -> None:
    """0.1 of ten times what the blur takes: 0.5 on 0.4 blurs to 0.4 + 0.1 * 0.4519^2 = 0.42042 and becomes 0.57958."""
    image = _flat(0.4, 3, 3)
    image[0, 1, 1] = 0.5
    sharpened = image_sharpen(context, image, 1, 1.0, 0.1)
    assert sharpened[0, 1, 1] == pytest.approx([0.579582] * 3, abs=1e-5)
    # Corners are blurred by four mirrored neighbours that are the middle: 0.4 + 0.1 * (2 * 0.2741)^2
    assert sharpened[0, 0, 0] == pytest.approx([0.4 - 0.1 * (2 * _SIDE) ** 2] * 3, abs=1e-5)


def test_sharpened_values_stay_in_the_range(context: FolderContext) -> None:
    """They are held between 0 and 1; alpha 0 changes nothing."""
    image = _random()
    sharpened = image_sharpen(context, image, 1, 1.0, 5.0)
    assert (sharpened.min(), sharpened.max()) == (0.0, 1.0)
    assert image_sharpen(context, image, 3, 1.0, 0.0) == pytest.approx(image)


def test_noise_of_a_seed_is_that_of_existing_workflows() -> None:
    """The numbers of PyTorch's generator for seed 0: 1.5410, -0.2934, -2.1788; held between 0 and 1."""
    noisy = image_add_noise(_flat(0.5), 0, 0.1)
    assert noisy.ravel() == pytest.approx([0.65410, 0.47066, 0.28212], abs=1e-5)
    assert image_add_noise(_flat(0.5), 0, 1.0).ravel() == pytest.approx([1.0, 0.2066, 0.0], abs=1e-4)
    assert image_add_noise(_flat(0.5), 7, 0.0).ravel() == pytest.approx([0.5] * 3)


def test_few_colours_survive_quantizing(context: FolderContext) -> None:
    """An image of four colours in four is what it was, dithered or not."""
    image = np.array([[[[0, 0, 0], [1, 0, 0]], [[0, 1, 0], [0, 0, 1]]]], np.float32)
    for dither in ("none", "floyd-steinberg"):
        assert image_quantize(context, image, 4, dither) == pytest.approx(image), dither


@pytest.mark.parametrize("dither", ["none", "floyd-steinberg", "bayer-2", "bayer-4", "bayer-8", "bayer-16"])
def test_no_more_colours_come_out_than_asked_for(context: FolderContext, dither: str) -> None:
    """At most five, near the original on the whole."""
    ramp = np.linspace(0, 1, 64, dtype=np.float32)[None, None, :, None].repeat(32, axis=1).repeat(3, axis=-1)
    quantized = image_quantize(context, ramp, 5, dither)
    assert len(np.unique(quantized.reshape(-1, 3), axis=0)) <= 5
    assert quantized.mean() == pytest.approx(0.5, abs=0.05)


def test_dithering_mixes_columns(context: FolderContext) -> None:
    """Between two colours, columns hold both, by an error that is carried on or by a pattern of thresholds."""
    ramp = np.linspace(0, 1, 64, dtype=np.float32)[None, None, :, None].repeat(32, axis=1).repeat(3, axis=-1)
    plain = image_quantize(context, ramp, 2, "none")
    assert np.ptp(plain, axis=1).max() == 0
    for dither in ("floyd-steinberg", "bayer-4"):
        mixed = np.ptp(image_quantize(context, ramp, 2, dither)[0, ..., 0], axis=0) > 0
        assert 16 < mixed.sum() <= 64, dither


def test_pattern_of_thresholds_is_bayers(context: FolderContext) -> None:
    """Around 0.5 of a ramp of two colours, a bayer-4 tile is light where Bayer's matrix of 4 x 4 is at least 8."""
    image = np.zeros((1, 4, 12, 3), np.float32)
    image[:, :, 4:8] = 128 / 255
    image[:, :, 8:] = 1
    bayer = np.array([[0, 8, 2, 10], [12, 4, 14, 6], [3, 11, 1, 9], [15, 7, 13, 5]])
    quantized = image_quantize(context, image, 3, "bayer-4")
    # Three colours spread thresholds over 170 levels: (b - 7.5) / 16 * 170.67 + 0.5 on 128, then the nearest colour.
    dithered = np.floor(128 + (bayer - 7.5) / 16 * (512 / 3) + 0.5)
    nearest = np.select([dithered < 64, dithered < 191.5], [0.0, 128 / 255], 1.0)
    assert quantized[0, :, 4:8, 0] == pytest.approx(nearest)


def test_alpha_is_left_off_by_quantizing(context: FolderContext) -> None:
    """It is left off: a palette has none."""
    assert image_quantize(context, _flat(0.5, 4, 4, channels=4), 2, "none").shape == (1, 4, 4, 3)


def _window(image: Array, start: int, stop: int, greatest: bool) -> Array:  # noqa: FBT001 -- one of two
    """The extreme from `start` to `stop` (included) around each pixel, by its definition."""
    height, width = image.shape[1:3]
    result = image.copy()
    for y in range(height):
        for x in range(width):
            part = image[:, max(0, y + start) : y + stop + 1, max(0, x + start) : x + stop + 1]
            result[:, y, x] = part.max(axis=(1, 2)) if greatest else part.min(axis=(1, 2))
    return result


@pytest.mark.parametrize(("size", "start", "stop"), [(3, -1, 1), (4, -2, 1), (5, -2, 2), (8, -4, 3), (999, -499, 499)])
def test_morphology_looks_at_its_own_window(context: FolderContext, size: int, start: int, stop: int) -> None:
    """A square, beyond the border nothing; an even one reaches further back when eroding, further on when dilating."""
    image = _random()
    eroded, dilated = _window(image, start, stop, greatest=False), _window(image, -stop, -start, greatest=True)
    opened, closed = _window(eroded, -stop, -start, greatest=True), _window(dilated, start, stop, greatest=False)
    wanted = {
        "erode": eroded, "dilate": dilated, "open": opened, "close": closed, "gradient": dilated - eroded,
        "top_hat": image - opened, "bottom_hat": closed - image,
    }  # fmt: skip
    for operation, expected in wanted.items():
        assert (morphology(context, image, operation, size) == expected).all(), operation


def test_opening_by_an_even_window_does_not_move_the_image(context: FolderContext) -> None:
    """A square of the window's size is where it was."""
    image = np.zeros((1, 12, 12, 3), np.float32)
    image[:, 3:7, 5:9] = 1
    assert (morphology(context, image, "open", 4) == image).all()


def test_long_batch_can_be_interrupted(context: FolderContext) -> None:
    """It is asked for before each image whether it is wanted."""
    image_blur(context, _flat(0.5, 4, 4, count=3), 1, 1.0)
    assert context.checks == 3
    morphology(context, _flat(0.5, 4, 4, count=2), "erode", 3)
    assert context.checks == 5


def test_filter_results_stay_in_single_precision(context: FolderContext) -> None:
    """Values stay in 32 bits."""
    image = _random()
    results = [
        image_blend(image, image, 0.3, "soft_light"), image_blur(context, image, 2, 1.0),
        image_sharpen(context, image, 2, 1.0, 1.0), image_add_noise(image, 1, 0.5),
        image_quantize(context, image, 9, "bayer-8"), morphology(context, image, "gradient", 3),
    ]  # fmt: skip
    assert {result.dtype for result in results} == {np.dtype(np.float32)}
