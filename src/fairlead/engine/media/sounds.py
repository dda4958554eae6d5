"""Sounds as nodes know them: their shape, its checks, and conversion of the rate by band-limited interpolation."""

import math
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fairlead.engine.media.arrays import Array, check_samples

Sound: TypeAlias = Mapping[str, Any]
"""`waveform`, float32 [batch, channels, samples] around 0 and mostly within 1, and `sample_rate` in Hz."""

RATE_MAX: Final = 768_000
_ZERO_CROSSINGS: Final = 6
_ROLLOFF: Final = 0.99
_CHUNK: Final = 65_536


def sound(waveform: Array, rate: int) -> dict[str, object]:
    """A sound of samples [batch, channels, samples], which become read-only, because it goes to many nodes."""
    waveform.flags.writeable = False
    return {"waveform": waveform, "sample_rate": rate}


def parts(given: Sound) -> tuple[Array, int]:
    """The samples and the rate of a sound. ValueError for what is not a sound, as a node of a pack may return it."""
    try:
        waveform = np.asarray(given["waveform"], np.float32)
        rate = int(given["sample_rate"])
    except (KeyError, TypeError) as error:
        raise ValueError("A sound has a waveform and a sample_rate.") from error
    if waveform.ndim != 3:  # noqa: PLR2004 -- batch, channels, samples
        raise ValueError(f"A waveform has 3 dimensions, batch, channels and samples, not {waveform.ndim}.")
    if not 1 <= rate <= RATE_MAX:
        raise ValueError(f"A sample rate of {rate} Hz is not between 1 and {RATE_MAX}.")
    return waveform, rate


def resample(waveform: Array, rate: int, wanted: int) -> Array:
    """The same sound at another rate: sinc interpolation in a Hann window over six zero crossings.

    The pass band ends at 99 % of the lower of both Nyquist frequencies, as in torchaudio.
    """
    if rate == wanted:
        return waveform
    common = math.gcd(rate, wanted)
    step, phases = rate // common, wanted // common
    length = waveform.shape[-1]
    count = -(-length * phases // step)
    check_samples(waveform.shape[0], waveform.shape[1], count)
    half, kernels = _kernels(step, phases)
    padded = np.pad(waveform, ((0, 0), (0, 0), (half, half + 1)))
    taps = np.arange(2 * half + 1)
    made = np.empty((*waveform.shape[:2], count), np.float32)
    for start in range(0, count, _CHUNK):
        index = np.arange(start, min(start + _CHUNK, count), dtype=np.int64)
        before, phase = np.divmod(index * step, phases)
        windows = padded[..., before[:, None] + taps]
        made[..., index] = np.einsum("bcnt,nt->bcn", windows, kernels[phase])
    return made


def _kernels(step: int, phases: int) -> tuple[int, NDArray[np.float32]]:
    """The weights of the samples around a point, for each place it may have between two of them."""
    cutoff = min(step, phases) / step * _ROLLOFF
    half = math.ceil(_ZERO_CROSSINGS / cutoff)
    distance = np.arange(-half, half + 1)[None] - np.arange(phases)[:, None] / phases
    crossings = np.clip(distance * cutoff, -_ZERO_CROSSINGS, _ZERO_CROSSINGS)
    window = np.cos(crossings * np.pi / _ZERO_CROSSINGS / 2) ** 2
    return half, (np.sinc(crossings) * window * cutoff).astype(np.float32)


def at_one_rate(first: Sound, second: Sound) -> tuple[Array, Array, int]:
    """The samples of two sounds at the higher of their rates."""
    waveform, rate = parts(first)
    other, other_rate = parts(second)
    highest = max(rate, other_rate)
    return resample(waveform, rate, highest), resample(other, other_rate, highest), highest
