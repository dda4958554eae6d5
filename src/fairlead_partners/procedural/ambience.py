"""Sounds of places under the music: rain, sea and wind, where the prompt names them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .scenery.subject import read
from .seeds import words

Wave = NDArray[np.floating[Any]]

_WINDS = frozenset({"wind", "windy", "breeze", "gale", "storm"})
_LEVEL = {"rain": 0.16, "sea": 0.30, "wind": 0.22}
"""The deviation of each sound, where the peak of the music is 1."""


def find_sounds(prompt: str) -> tuple[str, ...]:
    """Return the sounds that a prompt names; what it negates is not heard."""
    subject = read(prompt)
    is_by_the_sea = not {"sea", "beach", "island"}.isdisjoint(subject.places)
    is_wet = not {"rain", "storm"}.isdisjoint(subject.conditions)
    is_windy = not _WINDS.isdisjoint(words(prompt)) and "storm" not in subject.refused
    heard = {"rain": is_wet, "sea": is_by_the_sea, "wind": is_windy}
    return tuple(sound for sound, is_heard in heard.items() if is_heard)


def ambience(prompt: str, rng: np.random.Generator, rate: int, samples: int) -> Wave:
    """Return the sounds a prompt names as two channels, for music whose peak is 1."""
    mix = np.zeros((2, samples), dtype=np.float32)
    times = np.arange(samples, dtype=np.float32) / np.float32(rate)
    for sound in find_sounds(prompt):
        low, high = {"rain": (900.0, 9000.0), "sea": (60.0, 900.0), "wind": (120.0, 500.0)}[sound]
        noise = _band(rng, rate, samples, low, high)
        if sound != "rain":
            # Waves come every seven seconds or so, gusts more often and less regularly.
            period, lag = float(rng.uniform(5, 8)) / (2 if sound == "wind" else 1), float(rng.uniform(0, 6.28))
            swell = 0.5 + 0.5 * np.sin(times * np.float32(2 * np.pi / period) + np.float32(lag))
            noise *= 0.25 + 0.75 * swell**2
        mix += np.float32(_LEVEL[sound]) * noise
    return mix


def _band(rng: np.random.Generator, rate: int, samples: int, low: float, high: float) -> Wave:
    """Return noise of deviation 1 between two frequencies in hertz, softly bounded."""
    size = 1 << max(1, samples - 1).bit_length()
    noise = rng.standard_normal((2, size), dtype=np.float32)
    hertz = np.fft.rfftfreq(size, 1 / rate)
    gain = 1 / (1 + (low / np.maximum(hertz, 1)) ** 4) / (1 + (hertz / high) ** 4)
    heard = np.fft.irfft(np.fft.rfft(noise, axis=1) * gain, size, axis=1)[:, :samples]
    return np.asarray(heard / max(float(heard.std()), 1e-6), dtype=np.float32)
