"""Second-order filters of sounds: two shelves and a peak, by the formulas of the Audio EQ Cookbook."""

import math
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fairlead.engine.media.arrays import Array

Numbers: TypeAlias = NDArray[np.float64]
Coefficients: TypeAlias = tuple[tuple[float, float, float], tuple[float, float, float]]
"""The factors of input samples (b) and of output samples (a)."""
_BLOCK: Final = 256
"""Samples per block: each is filtered by one matrix product, and only two numbers pass to the next block."""


def low_shelf(rate: int, gain_db: float, frequency: float, quality: float) -> Coefficients:
    """A filter that raises what is below a frequency."""
    gain, cosine, slope = _shelf(rate, gain_db, frequency, quality)
    up, down = gain + 1, gain - 1
    b = gain * (up - down * cosine + slope), 2 * gain * (down - up * cosine), gain * (up - down * cosine - slope)
    return b, (up + down * cosine + slope, -2 * (down + up * cosine), up + down * cosine - slope)


def high_shelf(rate: int, gain_db: float, frequency: float, quality: float) -> Coefficients:
    """A filter that raises what is above a frequency."""
    gain, cosine, slope = _shelf(rate, gain_db, frequency, quality)
    up, down = gain + 1, gain - 1
    b = gain * (up + down * cosine + slope), -2 * gain * (down + up * cosine), gain * (up + down * cosine - slope)
    return b, (up - down * cosine + slope, 2 * (down - up * cosine), up - down * cosine - slope)


def peak(rate: int, gain_db: float, frequency: float, quality: float) -> Coefficients:
    """A filter that raises what is around a frequency."""
    gain, cosine, alpha = _bases(rate, gain_db, frequency, quality)
    b = 1 + alpha * gain, -2 * cosine, 1 - alpha * gain
    return b, (1 + alpha / gain, -2 * cosine, 1 - alpha / gain)


def _bases(rate: int, gain_db: float, frequency: float, quality: float) -> tuple[float, float, float]:
    angle = 2 * math.pi * frequency / rate
    return 10 ** (gain_db / 40), math.cos(angle), math.sin(angle) / 2 / quality


def _shelf(rate: int, gain_db: float, frequency: float, quality: float) -> tuple[float, float, float]:
    gain, cosine, alpha = _bases(rate, gain_db, frequency, quality)
    return gain, cosine, 2 * math.sqrt(gain) * alpha


def apply_filter(waveform: Array, coefficients: Coefficients) -> Array:
    """Samples [batch, channels, samples] after a filter, clipped to 1. ValueError for an unstable filter."""
    b, a = (np.asarray(of) / coefficients[1][0] for of in coefficients)
    if not (abs(a[2]) < 1 and abs(a[1]) < 1 + a[2]):
        raise ValueError("The filter is not stable: its frequency is too high for the sample rate.")
    length = waveform.shape[-1]
    blocks = -(-length // _BLOCK)
    given = np.zeros((waveform.shape[0] * waveform.shape[1], blocks * _BLOCK))
    given[:, :length] = waveform.reshape(-1, length)
    made = _in_blocks(given.reshape(len(given), blocks, _BLOCK), b, a).reshape(len(given), -1)[:, :length]
    return np.clip(made, -1, 1).astype(np.float32).reshape(waveform.shape)


def _in_blocks(given: Numbers, b: Numbers, a: Numbers) -> Numbers:
    """The filter as a system with two states: the response of a block to its input, and to the states."""
    advance = np.array([[-a[1], 1.0], [-a[2], 0.0]])
    entry = np.array([b[1] - a[1] * b[0], b[2] - a[2] * b[0]])
    powers = [np.eye(2)]
    for _ in range(_BLOCK):
        powers.append(advance @ powers[-1])
    reactions = np.array([power @ entry for power in powers])  # of the states, so many samples later
    response = np.concatenate(([b[0]], reactions[:-1, 0]))
    lag = np.arange(_BLOCK)[None] - np.arange(_BLOCK)[:, None]
    alone = given @ np.where(lag >= 0, response[lag], 0)
    entered = given @ reactions[_BLOCK - 1 :: -1][:_BLOCK]
    readout = np.array([power[0] for power in powers[:_BLOCK]])
    states = np.zeros((*given.shape[:2], 2))
    for index in range(1, given.shape[1]):
        states[:, index] = states[:, index - 1] @ powers[_BLOCK].T + entered[:, index - 1]
    made: Numbers = alone + states @ readout.T
    return made
