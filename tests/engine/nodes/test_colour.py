"""Nodes that change colours."""

import math
from pathlib import Path

import numpy as np
import pytest

from engine.nodes.folders import FolderContext
from fairlead.engine.media.arrays import Array
from fairlead.engine.nodes.colour import (
    adjust_brightness,
    adjust_contrast,
    color_transfer,
    curve_editor,
    image_histogram,
    image_invert,
    image_rgb_to_yuv,
    image_yuv_to_rgb,
    normalize_images,
)

_STEP = 2 / 255
_PER_FRAME = {"source_stats": "per_frame"}


@pytest.fixture
def context(tmp_path: Path) -> FolderContext:
    """The context of a node that needs no files."""
    return FolderContext(tmp_path)


def _image(*colours: tuple[float, ...]) -> Array:
    """One image, one pixel high."""
    return np.array([[colours]], np.float32)


def _random(seed: int, count: int = 1, low: float = 0.2, high: float = 0.7) -> Array:
    return np.random.default_rng(seed).uniform(low, high, (count, 24, 24, 3)).astype(np.float32)


def test_image_is_inverted() -> None:
    """Every value is subtracted from 1."""
    assert image_invert(_image((0.0, 0.25, 1.0))).tolist() == [[[[1.0, 0.75, 0.0]]]]


def test_brightness_is_multiplied_within_the_range() -> None:
    """Twice 0.3 is 0.6; twice 0.6 stays at 1."""
    assert adjust_brightness(_image((0.0, 0.3, 0.6)), 2.0).ravel() == pytest.approx([0.0, 0.6, 1.0])


def test_contrast_turns_around_middle_grey() -> None:
    """Distances from 0.5 are halved, or doubled and held."""
    assert adjust_contrast(_image((0.0, 0.5, 0.8)), 0.5).ravel() == pytest.approx([0.25, 0.5, 0.65])
    assert adjust_contrast(_image((0.1, 0.5, 0.6)), 2.0).ravel() == pytest.approx([0.0, 0.5, 0.7])


def test_normalized_images_may_be_negative() -> None:
    """Models want -1 for black."""
    assert normalize_images(_image((0.0, 0.5, 1.0)), 0.5, 0.5).ravel() == pytest.approx([-1.0, 0.0, 1.0])


def test_colour_results_stay_in_single_precision(context: FolderContext) -> None:
    """Values stay in 32 bits."""
    image = _image((0.1, 0.2, 0.3))
    results = [
        image_invert(image), adjust_brightness(image, 1.5), adjust_contrast(image, 1.5),
        normalize_images(image, 0.5, 0.5), *image_rgb_to_yuv(image), image_yuv_to_rgb(image, image, image),
        color_transfer(context, image, image, "reinhard_lab", _PER_FRAME, 0.5),
    ]  # fmt: skip
    assert {result.dtype for result in results} == {np.dtype(np.float32)}


@pytest.mark.parametrize(
    ("rgb", "yuv"),
    [
        ((1.0, 1.0, 1.0), (1.0, 0.5, 0.5)),
        # red: Y = 0.299, U = (0 - 0.299) * 0.564 + 0.5, V = (1 - 0.299) * 0.713 + 0.5
        ((1.0, 0.0, 0.0), (0.299, 0.331364, 0.999813)),
        ((0.0, 1.0, 0.0), (0.587, 0.168932, 0.081469)),
        ((0.0, 0.0, 1.0), (0.114, 0.999704, 0.418718)),
    ],
)
def test_yuv_is_that_of_jpeg(rgb: tuple[float, ...], yuv: tuple[float, ...]) -> None:
    """The coefficients of JPEG, each plane a grey image; and the way back within 2 of 255."""
    planes = image_rgb_to_yuv(_image(rgb))
    for plane, expected in zip(planes, yuv, strict=True):
        assert plane.ravel() == pytest.approx([expected] * 3, abs=1e-5)
    assert image_yuv_to_rgb(*planes).ravel() == pytest.approx(rgb, abs=_STEP)


def test_yuv_planes_count_by_the_mean_of_their_channels() -> None:
    """The mean of the channels counts: 0.5 of 0.2, 0.5 and 0.8."""
    plane, grey = _image((0.2, 0.5, 0.8)), _image((0.5, 0.5, 0.5))
    assert image_yuv_to_rgb(plane, grey, grey).ravel() == pytest.approx([0.5, 0.5, 0.5])


def test_yuv_planes_of_several_sizes_are_refused() -> None:
    """The error says what is wanted."""
    with pytest.raises(ValueError, match="one size"):
        image_yuv_to_rgb(_random(1), _random(1), _random(1)[:, :5])


def test_grey_image_is_refused_where_colours_are_needed() -> None:
    """One channel is not red, green and blue."""
    with pytest.raises(ValueError, match=r"red, green and blue; the image has 1"):
        image_rgb_to_yuv(np.zeros((1, 2, 2, 1), np.float32))


def test_histogram_counts_levels_of_each_channel() -> None:
    """Levels are cut off, not rounded; luminance is BT.709's, rgb the mean of the three, of the first image only."""
    image = np.concatenate([_image((1.0, 0.0, 0.0), (1.0, 1.0, 1.0), (0.5, 0.5, 0.5)), np.zeros((1, 1, 3, 3))])
    rgb, luminance, red, green, blue = image_histogram(image.astype(np.float32))
    assert {level: count for level, count in enumerate(red) if count} == {127: 1, 255: 2}
    assert {level: count for level, count in enumerate(green) if count} == {0: 1, 127: 1, 255: 1}
    assert green == blue
    assert {level: count for level, count in enumerate(rgb) if count} == {127: 1, 255: 1}  # (1+1+1)/3, (2+1+1)//3
    assert luminance[54] == 1, "0.2126 * 255 = 54.2"
    assert [len(counts) for counts in (rgb, luminance, red)] == [256, 256, 256]


def test_curve_comes_out_as_it_went_in() -> None:
    """It comes out as it went in; the histogram is only shown."""
    result = curve_editor({"points": [[0, 0], [0.5, 0.7], [1, 1]], "interpolation": "linear"}, [1, 2, 3])
    assert result.values == ({"points": [[0.0, 0.0], [0.5, 0.7], [1.0, 1.0]], "interpolation": "linear"},)
    assert result.ui == {"histogram": [1, 2, 3]}


def test_points_alone_are_a_monotone_curve() -> None:
    """The older form has no interpolation."""
    curve = curve_editor([[0, 0], [0.2, 0.3], [1, 1]]).values[0]
    assert curve == {"points": [[0.0, 0.0], [0.2, 0.3], [1.0, 1.0]], "interpolation": "monotone_cubic"}


def test_value_that_is_no_curve_is_refused() -> None:
    """The error says what a curve is."""
    with pytest.raises(ValueError, match=r"points \[x, y\]"):
        curve_editor({"points": ["a"]})


def _lab(rgb: Array) -> Array:
    """CIE L*a*b* by its definition, for one colour after the other."""
    results = []
    for colour in rgb.reshape(-1, 3).astype(float):
        linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in colour]
        rows = [(0.412453, 0.35758, 0.180423), (0.212671, 0.71516, 0.072169), (0.019334, 0.119193, 0.950227)]
        x, y, z = (sum(a * b for a, b in zip(row, linear, strict=True)) for row in rows)
        fx, fy, fz = (
            math.cbrt(t) if t > 216 / 24389 else (24389 / 27 * t + 16) / 116 for t in (x / 0.95047, y, z / 1.08883)
        )
        results.append([116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)])
    return np.array(results)


def test_reinhard_transfer_has_the_references_mean_and_deviation(context: FolderContext) -> None:
    """In Lab, each channel of the result has the mean and the deviation of the reference."""
    target, reference = _random(1), _random(2, low=0.4, high=0.6)
    result = _lab(color_transfer(context, target, reference, "reinhard_lab", _PER_FRAME, 1.0))
    assert result.mean(axis=0) == pytest.approx(_lab(reference).mean(axis=0), abs=0.05)
    assert result.std(axis=0) == pytest.approx(_lab(reference).std(axis=0), rel=0.02)


def test_linear_transfer_has_the_references_covariance(context: FolderContext) -> None:
    """In Lab, the result has the mean and the covariance of a reference with correlated channels."""
    target, grey = _random(1, low=0.3, high=0.6), _random(2, low=0.4, high=0.6)
    reference = 0.5 * grey + 0.5 * grey.mean(axis=-1, keepdims=True)
    result = _lab(color_transfer(context, target, reference, "mkl_lab", _PER_FRAME, 1.0))
    assert result.mean(axis=0) == pytest.approx(_lab(reference).mean(axis=0), abs=0.05)
    assert np.cov(result.T) == pytest.approx(np.cov(_lab(reference).T), abs=0.5)


def test_linear_transfer_of_an_image_onto_itself_changes_nothing(context: FolderContext) -> None:
    """Between images that differ by a factor per channel of Lab it is that factor: an image onto itself stays."""
    target = _random(1)
    for method in ("reinhard_lab", "mkl_lab", "histogram"):
        result = color_transfer(context, target, target, method, _PER_FRAME, 1.0)
        assert np.abs(result - target).max() < _STEP, method


def test_histogram_transfer_keeps_the_order_of_levels(context: FolderContext) -> None:
    """The darkest quarter of the target takes the reference's darkest level, and so on."""
    target = _image(*[(v, v, v) for v in (0.8, 0.0, 0.4, 0.2)])
    reference = _image(*[(v, v, v) for v in (0.2, 0.4, 0.6, 1.0)])
    result = color_transfer(context, target, reference, "histogram", _PER_FRAME, 1.0)
    assert result[0, 0, :, 0] == pytest.approx([1.0, 0.2, 0.6, 0.4], abs=1e-6)


def test_grey_target_takes_the_references_mean(context: FolderContext) -> None:
    """Without variance there is nothing to stretch: one colour becomes the reference's mean."""
    target, reference = np.full((1, 4, 4, 3), 0.3, np.float32), _random(2)
    for method in ("reinhard_lab", "mkl_lab"):
        result = color_transfer(context, target, reference, method, _PER_FRAME, 1.0)
        assert _lab(result).mean(axis=0) == pytest.approx(_lab(reference).mean(axis=0), abs=0.3), method
        assert np.ptp(result, axis=(0, 1, 2)).max() < _STEP


def test_strength_mixes_target_and_result(context: FolderContext) -> None:
    """Half of it is half way; none of it is the target."""
    target, reference = _random(1), _random(2, low=0.5, high=0.6)
    whole = color_transfer(context, target, reference, "reinhard_lab", _PER_FRAME, 1.0)
    half = color_transfer(context, target, reference, "reinhard_lab", _PER_FRAME, 0.5)
    assert half == pytest.approx((target + whole) / 2, abs=1e-5)
    assert color_transfer(context, target, reference, "reinhard_lab", _PER_FRAME, 0.0) is target


@pytest.mark.parametrize(
    ("source_stats", "means"),
    [
        # frames of grey 0.3 and 0.5 (both with a spread), reference around 0.4
        ({"source_stats": "per_frame"}, (0.4, 0.4)),
        ({"source_stats": "target_frame", "target_index": 0}, (0.4, 0.6)),
        ({"source_stats": "target_frame", "target_index": 99}, (0.2, 0.4)),
        ({"source_stats": "uniform"}, (0.3, 0.5)),
    ],
)
def test_frames_are_matched_to_the_statistics_asked_for(
    context: FolderContext, source_stats: dict[str, str | int], means: tuple[float, float]
) -> None:
    """Frame by frame they come to the same; by one frame or all together they keep their distance."""
    spread = np.linspace(-0.1, 0.1, 64, dtype=np.float32).reshape(1, 8, 8, 1).repeat(3, axis=-1)
    target, reference = np.concatenate([0.3 + spread, 0.5 + spread]), 0.4 + spread
    if source_stats["source_stats"] == "uniform":
        reference = 0.4 + np.concatenate([spread - 0.1, spread + 0.1])
    result = color_transfer(context, target, reference, "reinhard_lab", source_stats, 1.0)
    assert result.mean(axis=(1, 2, 3)) == pytest.approx(means, abs=0.03)


def test_frames_are_matched_one_by_one_with_their_references(context: FolderContext) -> None:
    """Each frame of the target goes with the reference's of its number, or its last."""
    spread = np.linspace(-0.1, 0.1, 64, dtype=np.float32).reshape(1, 8, 8, 1).repeat(3, axis=-1)
    target = np.concatenate([0.5 + spread] * 3)
    reference = np.concatenate([0.3 + spread, 0.7 + spread])
    result = color_transfer(context, target, reference, "histogram", _PER_FRAME, 1.0)
    assert result.mean(axis=(1, 2, 3)) == pytest.approx([0.3, 0.7, 0.7], abs=_STEP)


def test_alpha_is_kept_when_colours_are_transferred(context: FolderContext) -> None:
    """It stays as it is."""
    target = np.concatenate([_random(1), np.full((1, 24, 24, 1), 0.25, np.float32)], axis=-1)
    result = color_transfer(context, target, _random(2), "mkl_lab", _PER_FRAME, 1.0)
    assert result.shape == target.shape
    assert (result[..., 3] == 0.25).all()


def test_long_batch_can_be_interrupted(context: FolderContext) -> None:
    """It is asked for before each frame whether it is wanted."""
    color_transfer(context, _random(1, 3), _random(2), "reinhard_lab", _PER_FRAME, 1.0)
    assert context.checks == 3
