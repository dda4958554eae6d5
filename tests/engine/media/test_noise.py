"""Noise as PyTorch's generator makes it."""

import numpy as np
import pytest

from fairlead.engine.media.noise import normal


def test_noise_of_a_seed_is_that_of_pytorch() -> None:
    """What `torch.manual_seed(seed); torch.randn(n)` prints, as countless pages show it."""
    assert normal((5,), 0) == pytest.approx([1.5410, -0.2934, -2.1788, 0.5684, -1.0845], abs=5e-5)
    assert normal((8,), 42) == pytest.approx(
        [0.3367, 0.1288, 0.2345, 0.2303, -1.1229, -0.1863, 2.2082, -0.6380], abs=5e-5
    )
    sixteen = [
        -1.1258, -1.1524, -0.2506, -0.4339, 0.8487, 0.6920, -0.3160, -2.1152,
        0.3223, -1.2633, 0.3500, 0.3081, 0.1198, 1.2377, 1.1168, -0.2473,
    ]  # fmt: skip
    assert normal((4, 4), 0).ravel() == pytest.approx(sixteen, abs=5e-5)
    assert normal((1000,), 42)[:4] == pytest.approx([1.9269, 1.4873, 0.9007, -2.1055], abs=5e-5)


def test_numbers_that_do_not_fill_a_group_follow_the_formula() -> None:
    """Twenty numbers are drawn, then sixteen more, which make the last sixteen, as the formula has it."""
    words = np.random.RandomState(7).randint(0, 2**32, 36, np.uint32)  # numpy's old generator is seeded alike
    uniform = (words & 0xFFFFFF) / 2**24
    first, last = uniform[:16], uniform[20:]

    def group(u: np.ndarray[tuple[int], np.dtype[np.float64]]) -> list[float]:
        pairs = zip(u[:8], u[8:], strict=True)
        complex_numbers = [np.sqrt(-2 * np.log(1 - a)) * np.exp(2j * np.pi * b) for a, b in pairs]
        return [z.real for z in complex_numbers] + [z.imag for z in complex_numbers]

    assert normal((20,), 7) == pytest.approx(group(first)[:4] + group(last), abs=1e-5)


def test_every_seed_counts_by_its_lower_32_bits() -> None:
    """The lower 32 bits count, as they do there."""
    assert (normal((3, 3), 2**64 - 1) == normal((3, 3), 2**32 - 1)).all()
    assert (normal((3, 3), 5) != normal((3, 3), 6)).any()


def test_much_noise_goes_on_seamlessly() -> None:
    """It is made in portions, which go on where the last one ended; its mean is 0 and its deviation 1."""
    much = normal((1100, 1000), 3)
    assert (much.ravel()[:160] == normal((160,), 3)).all()
    assert much.mean() == pytest.approx(0, abs=0.005)
    assert much.std() == pytest.approx(1, abs=0.005)
    words = np.random.RandomState(3).randint(0, 2**32, 2**20 + 16, np.uint32)
    uniform = (words[2**20 :] & 0xFFFFFF) / 2**24
    assert much.ravel()[2**20] == pytest.approx(
        np.sqrt(-2 * np.log(1 - uniform[0])) * np.cos(2 * np.pi * uniform[8]), abs=1e-5
    )
