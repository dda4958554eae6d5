"""The kernels, held against values worked out by hand and against their definitions taken literally."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from fairlead.engine.media.arrays import Array
from fairlead.engine.media.resampling import METHODS, in_proportion, proportional, resize, scale


def _line(values: Sequence[float], size: int, method: str) -> list[float]:
    """One row scaled to a length; the same of one column must come out."""
    row = np.array(values, np.float32).reshape(1, 1, -1, 1)
    across = resize(row, size, 1, method)
    down = resize(row.swapaxes(1, 2), 1, size, method)
    np.testing.assert_allclose(across.ravel(), down.ravel(), atol=1e-6)
    return [float(value) for value in across.ravel()]


def test_bilinear_takes_pixels_as_areas() -> None:
    """Twice as many: the centres lie at -1/4, 1/4, 3/4 and 5/4, and beyond the edge the last pixel goes on."""
    assert _line([0, 1], 4, "bilinear") == pytest.approx([0, 0.25, 0.75, 1])


def test_bilinear_does_not_widen_when_it_shrinks() -> None:
    """A quarter as many: only the two pixels beside a centre count, so the first of eight is lost."""
    assert _line([1, 0, 0, 0.5, 0, 0.2, 0.4, 0], 2, "bilinear") == pytest.approx([0, 0.3])


def test_bicubic_uses_its_documented_parameter() -> None:
    """Worked out with a = -3/4: W(1/4) = .87890625, W(3/4) = .26171875, W(5/4) = -.10546875, W(7/4) = -.03515625."""
    assert _line([0, 1], 4, "bicubic") == pytest.approx([-0.10546875, 0.2265625, 0.7734375, 1.10546875])


def test_area_averages_whole_pixels() -> None:
    """Five to two: the middle pixel belongs to both parts, wholly."""
    assert _line([0, 3, 6, 9, 12], 2, "area") == pytest.approx([3, 9])
    assert _line([0, 1], 3, "area") == pytest.approx([0, 0.5, 1])
    assert _line([1, 2, 3, 6], 2, "area") == pytest.approx([1.5, 4.5])


def test_nearest_exact_takes_the_pixel_under_the_centre() -> None:
    """Five to three: centres at 5/6, 5/2 and 25/6. Two to five: at .2, .6, 1, 1.4 and 1.8."""
    assert _line([0, 1, 2, 3, 4], 3, "nearest-exact") == [0, 2, 4]
    assert _line([0, 1], 5, "nearest-exact") == [0, 0, 1, 1, 1]


def test_lanczos_works_in_8_bits() -> None:
    """The middle of black and white is 127.5, which a picture library rounds up; 0.5 is 127 before anything happens."""
    assert _line([0, 1], 1, "lanczos") == pytest.approx([128 / 255])
    assert _line([0.5, 0.5, 0.5], 2, "lanczos") == pytest.approx([127 / 255] * 2)
    assert _line([0.5], 1, "lanczos") == pytest.approx([127 / 255])


_SIZES = [(1, 1), (1, 5), (2, 7), (5, 2), (7, 7), (9, 4), (4, 9), (13, 3), (31, 17)]


@pytest.mark.parametrize(("length", "size"), _SIZES)
@pytest.mark.parametrize("method", METHODS)
def test_every_kernel_agrees_with_its_definition(method: str, length: int, size: int) -> None:
    """Every kernel agrees with its definition written as a loop; lanczos within one step of 8 bits."""
    drawn = np.random.default_rng(length * 100 + size).random(length)
    values = (np.floor(drawn * 255) / 255 + 1e-4).astype(np.float32)  # not on the edge between two bytes
    expected = _DEFINITIONS[method](values, size)
    tolerance = 1.01 / 255 if method == "lanczos" else 2e-5
    np.testing.assert_allclose(_line(list(values), size, method), expected, atol=tolerance)


def test_height_and_width_are_scaled_apart() -> None:
    """Both sides are scaled, each by its own factor, and channels and batch stay apart."""
    images = np.random.default_rng(1).random((2, 6, 4, 3)).astype(np.float32)
    for method in METHODS:
        whole = resize(images, 10, 3, method)
        assert whole.shape == (2, 3, 10, 3)
        alone = resize(images[1:, :, :, 2:], 10, 3, method)
        np.testing.assert_allclose(whole[1:, :, :, 2:], alone, atol=1e-5)


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("method", METHODS)
def test_every_number_of_channels_is_kept(method: str, channels: int) -> None:
    """White stays white whatever the number of channels."""
    white = np.ones((1, 3, 5, channels), np.float32)
    scaled = resize(white, 4, 4, method)
    np.testing.assert_allclose(scaled, np.ones((1, 4, 4, channels)), atol=1e-6)


def test_size_without_pixels_is_refused() -> None:
    """Nothing is scaled to nothing, nor by a way there is not."""
    image = np.zeros((1, 2, 2, 3), np.float32)
    with pytest.raises(ValueError, match="0 x 4"):
        resize(image, 0, 4, "area")
    with pytest.raises(ValueError, match="bislerp"):
        resize(image, 2, 4, "bislerp")


def test_size_is_checked_before_memory_is_taken() -> None:
    """A size beyond what a value may hold is refused at once."""
    image = np.zeros((5, 1, 1, 3), np.float32)
    with pytest.raises(ValueError, match="5 x 16384 x 16384 pixels"):
        resize(image, 16384, 16384, "bilinear")


def test_crop_is_even_and_leaves_a_pixel() -> None:
    """Four by two cut to a square loses a column on each side; the thinnest cut leaves a pixel."""
    image = np.arange(8, dtype=np.float32).reshape(1, 2, 4, 1)
    assert in_proportion(image, 5, 5)[0, :, :, 0].tolist() == [[1, 2], [5, 6]]
    assert in_proportion(image.swapaxes(1, 2), 5, 5).shape == (1, 2, 2, 1)
    assert in_proportion(np.zeros((1, 1000, 3, 1), np.float32), 1, 100000).shape[2] == 1
    assert scale(image, 2, 2, "nearest-exact", "center")[0, :, :, 0].tolist() == [[1, 2], [5, 6]]
    assert scale(image, 2, 2, "nearest-exact", "disabled")[0, :, :, 0].tolist() == [[1, 3], [5, 7]]


def test_side_of_0_follows_from_the_other() -> None:
    """The other side's factor counts, and at least one pixel is left."""
    image: Array = np.zeros((1, 200, 301, 3), np.float32)
    assert proportional(image, 0, 100) == (150, 100)  # 150.5 to the even neighbour
    assert proportional(image, 602, 0) == (602, 400)
    assert proportional(image, 0, 0) == (301, 200)
    assert proportional(np.zeros((1, 1000, 1, 3), np.float32), 0, 10) == (1, 10)


def _bilinear(values: Array, size: int) -> list[float]:
    found = []
    for index in range(size):
        place = max((index + 0.5) * len(values) / size - 0.5, 0)
        left = min(int(place), len(values) - 1)
        right, share = min(left + 1, len(values) - 1), place - left
        found.append(values[left] * (1 - share) + values[right] * share)
    return found


def _bicubic(values: Array, size: int) -> list[float]:
    def weight(distance: float, a: float = -0.75) -> float:
        x = abs(distance)
        if x <= 1:
            return (a + 2) * x**3 - (a + 3) * x**2 + 1
        return a * (x**3 - 5 * x**2 + 8 * x - 4) if x < 2 else 0.0

    found = []
    for index in range(size):
        place = (index + 0.5) * len(values) / size - 0.5
        around = range(math.floor(place) - 1, math.floor(place) + 3)
        found.append(sum(weight(place - at) * values[min(max(at, 0), len(values) - 1)] for at in around))
    return found


def _area(values: Array, size: int) -> list[float]:
    length = len(values)
    parts = [
        values[math.floor(index * length / size) : math.ceil((index + 1) * length / size)] for index in range(size)
    ]
    return [float(np.mean(part)) for part in parts]


def _nearest_exact(values: Array, size: int) -> list[float]:
    return [float(values[((2 * index + 1) * len(values)) // (2 * size)]) for index in range(size)]


def _lanczos(values: Array, size: int) -> list[float]:
    pixels = np.floor(values * 255)
    stretch = max(len(values) / size, 1)
    found = []
    for index in range(size):
        centre = (index + 0.5) * len(values) / size
        distances = (np.arange(len(values)) + 0.5 - centre) / stretch
        weights = np.where(np.abs(distances) < 3, np.sinc(distances) * np.sinc(distances / 3), 0)
        found.append(float(np.clip(weights @ pixels / weights.sum(), 0, 255)) / 255)
    return found


_DEFINITIONS: dict[str, Callable[[Array, int], list[float]]] = {
    "bilinear": _bilinear,
    "bicubic": _bicubic,
    "area": _area,
    "nearest-exact": _nearest_exact,
    "lanczos": _lanczos,
}
