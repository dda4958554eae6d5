"""Sounds are cut, joined, mixed and coloured as arithmetic says."""

import math
from typing import Any

import numpy as np
import pytest

from fairlead.engine.media.arrays import Array
from fairlead.engine.media.sounds import resample, sound
from fairlead.engine.nodes import audio


def _sound(*channels: list[float], rate: int = 10) -> dict[str, Any]:
    return sound(np.array([channels], np.float32), rate)


def _sine(frequency: float, rate: int, seconds: float, amplitude: float = 0.1) -> Array:
    times = np.arange(round(rate * seconds)) / rate
    return (amplitude * np.sin(2 * np.pi * frequency * times)).astype(np.float32)


def _samples_of(given: Any) -> list[Any]:
    found: list[Any] = given["waveform"].round(6).tolist()[0]
    return found


def test_silence_has_the_length_asked_for() -> None:
    """Its samples are its seconds at its rate, rounded."""
    made = audio.empty_audio(0.25, 1001, 2)
    assert made["waveform"].shape == (1, 2, 250)
    assert (made["sample_rate"], made["waveform"].any()) == (1001, False)


def test_length_of_silence_is_bounded() -> None:
    """It is refused before anything is made."""
    with pytest.raises(ValueError, match="more than the"):
        audio.empty_audio(1e18, 192_000, 2)


@pytest.mark.parametrize(
    ("start", "duration", "left"),
    [(0.2, 0.3, [2, 3, 4]), (-0.3, 0.2, [7, 8]), (-5, 0.1, [0]), (0.8, 60, [8, 9]), (7, 1, [9]), (0.24, 0.16, [2, 3])],
)
def test_trimmed_sound_is_the_part_asked_for(start: float, duration: float, left: list[float]) -> None:
    """It begins at a second, from the end when negative, and ends with the sound at the latest."""
    assert _samples_of(audio.trim_audio(_sound([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]), start, duration)) == [left]


def test_trimmed_sound_is_a_read_only_copy() -> None:
    """It is a copy, that nobody may change."""
    part = audio.trim_audio(_sound([0, 1, 2, 3]), 0.1, 0.1)["waveform"]
    assert (part.base is None, part.flags.writeable) == (True, False)


@pytest.mark.parametrize("given", [_sound([1, 2, 3]), sound(np.zeros((1, 1, 0), np.float32), 10)])
def test_part_of_no_length_is_an_error(given: Any) -> None:
    """A part of no length is an error that says so."""
    with pytest.raises(ValueError, match="Nothing is left"):
        audio.trim_audio(given, 0, 0)


def test_split_and_joined_channels_are_what_they_were() -> None:
    """Left is the first; joined again they are what they were."""
    left, right = audio.split_channels(_sound([1, 2], [3, 4]))
    assert (_samples_of(left), _samples_of(right)) == ([[1, 2]], [[3, 4]])
    assert _samples_of(audio.join_channels(left, right)) == [[1, 2], [3, 4]]
    assert _samples_of(audio.join_channels(_sound([1, 2, 3]), _sound([4]))) == [[1], [4]]


def test_only_two_channels_can_be_split_and_single_ones_joined() -> None:
    """Only two can be split, and only single ones joined."""
    with pytest.raises(ValueError, match="two channels"):
        audio.split_channels(_sound([1, 2]))
    with pytest.raises(ValueError, match="one channel each"):
        audio.join_channels(_sound([1], [2]), _sound([1]))


def test_sounds_follow_in_the_order_asked_for() -> None:
    """The second comes after the first, or before it; one channel becomes two."""
    first, second = _sound([1, 2]), _sound([3], [4])
    assert _samples_of(audio.concatenate_audio(first, second, "after")) == [[1, 2, 3], [1, 2, 4]]
    assert _samples_of(audio.concatenate_audio(first, second, "before")) == [[3, 1, 2], [4, 1, 2]]
    with pytest.raises(ValueError, match="of 3 and 2 channels"):
        audio.concatenate_audio(_sound([1], [2], [3]), second, "after")
    with pytest.raises(ValueError, match="Batches"):
        audio.concatenate_audio(sound(np.zeros((2, 2, 1), np.float32), 10), second, "after")


@pytest.mark.parametrize(
    ("method", "mixed"),
    [
        ("add", [0.75, 1.0, 0.5]),
        ("subtract", [0.25, -0.5, 0.5]),
        ("multiply", [0.125, 0.1875, 0]),
        ("mean", [0.375, 0.5, 0.25]),
    ],
)
def test_mix_is_as_long_as_the_first_sound(method: str, mixed: list[float]) -> None:
    """It is as long as the first; the second is cut, or silence follows it."""
    assert _samples_of(audio.merge_audio(_sound([0.5, 0.25, 0.5]), _sound([0.25, 0.75]), method)) == [mixed]
    longer = _sound([0.25, 0.75, 0, 1])
    assert _samples_of(audio.merge_audio(_sound([0.5, 0.25, 0.5]), longer, method)) == [mixed]


def test_loud_mix_is_scaled_down() -> None:
    """All of it becomes softer, so that its loudest sample is 1."""
    assert _samples_of(audio.merge_audio(_sound([1, 0.5], [0, 0]), _sound([1, 0.5]), "add")) == [[1, 0.5], [0.5, 0.25]]
    empty = sound(np.zeros((1, 1, 0), np.float32), 10)
    assert _samples_of(audio.merge_audio(empty, empty, "add")) == [[]]
    with pytest.raises(ValueError, match="differ"):
        audio.merge_audio(_sound([1], [2]), _sound([1], [2], [3]), "add")


@pytest.mark.parametrize(("decibels", "factor"), [(0, 1), (20, 10), (-40, 0.01), (6, 1.9952623)])
def test_twenty_decibels_are_ten_times_the_amplitude(decibels: int, factor: float) -> None:
    """Twenty of them are ten times the amplitude."""
    assert _samples_of(audio.adjust_volume(_sound([0.5]), decibels)) == [[pytest.approx(0.5 * factor, rel=1e-5)]]


@pytest.mark.parametrize(("rate", "wanted"), [(24_000, 48_000), (44_100, 48_000), (48_000, 44_099), (48_000, 8_000)])
def test_resampling_keeps_tones_below_both_limits(rate: int, wanted: int) -> None:
    """A tone far below both limits stays what it is, and one above the lower limit is gone."""
    made = resample(_sine(1_000, rate, 1)[None, None], rate, wanted)[0, 0]
    expected = _sine(1_000, wanted, 1)
    assert len(made) == wanted
    assert np.abs(made - expected)[200:-200].max() < 0.0002
    high = resample(_sine(0.45 * rate, rate, 1)[None, None], rate, 8_000)[0, 0]
    assert np.abs(high)[200:-200].max() < 0.002


def test_sounds_of_other_rates_keep_their_tones() -> None:
    """The higher rate wins, and both keep their tones."""
    low = sound(_sine(100, 8_000, 0.5)[None, None], 8_000)
    high = sound(_sine(100, 16_000, 0.5)[None, None], 16_000)
    for first, second in ((low, high), (high, low)):
        made = audio.merge_audio(first, second, "subtract")
        assert (made["sample_rate"], made["waveform"].shape) == (16_000, (1, 1, 8_000))
        assert np.abs(made["waveform"][..., 100:-100]).max() < 0.0002


def _equalize(wave: Array, rate: int, **gains: float) -> Array:
    settings = {"low_gain_dB": 0.0, "mid_gain_dB": 0.0, "high_gain_dB": 0.0, **gains}
    made: Array = audio.equalize(
        sound(wave[None, None], rate), low_freq=100, mid_freq=1_000, mid_q=0.707, high_freq=5_000, **settings
    )["waveform"][0, 0]
    return made


def test_equalizer_raises_the_tones_asked_for() -> None:
    """A low shelf raises a constant signal, a peak its middle, and a high shelf the highest frequency."""
    still, tone = np.full(20_000, 0.1, np.float32), _sine(1_000, 44_100, 1)
    fastest = np.resize(np.array([0.1, -0.1], np.float32), 20_000)
    assert _equalize(still, 44_100, low_gain_dB=12)[-1] == pytest.approx(0.1 * 10 ** (12 / 20), rel=1e-4)
    assert _equalize(tone, 44_100, mid_gain_dB=-6)[-4410:].max() == pytest.approx(0.1 * 10 ** (-6 / 20), rel=1e-3)
    assert abs(_equalize(fastest, 44_100, high_gain_dB=6)[-1]) == pytest.approx(0.1 * 10 ** (6 / 20), rel=1e-4)
    assert _equalize(still, 44_100, mid_gain_dB=12, high_gain_dB=12)[-1] == pytest.approx(0.1, rel=1e-4)


def test_filter_is_seamless_across_its_blocks() -> None:
    """What it does to noise is what the recursion does, sample by sample, in each channel."""
    noise = np.random.default_rng(1).uniform(-0.1, 0.1, 700).astype(np.float32)
    gain, angle = 10 ** (6 / 40), 2 * math.pi * 1_000 / 44_100
    alpha = math.sin(angle) / 2 / 0.707
    b = np.array([1 + alpha * gain, -2 * math.cos(angle), 1 - alpha * gain]) / (1 + alpha / gain)
    a = np.array([-2 * math.cos(angle), 1 - alpha / gain]) / (1 + alpha / gain)
    expected = np.zeros(702)
    given = np.concatenate(([0, 0], noise))
    for at in range(2, 702):
        expected[at] = b @ given[at - 2 : at + 1][::-1] - a @ expected[at - 2 : at][::-1]
    assert np.abs(_equalize(noise, 44_100, mid_gain_dB=6) - expected[2:]).max() < 1e-6


def test_filter_above_the_rate_is_refused() -> None:
    """It is refused: there are no such tones in the sound."""
    with pytest.raises(ValueError, match="not stable"):
        _equalize(np.ones(100, np.float32), 8_000, high_gain_dB=6)


@pytest.mark.parametrize(
    "given",
    [
        7,
        {"waveform": np.zeros((1, 1, 1))},
        {"waveform": np.zeros(3), "sample_rate": 8},
        {"waveform": np.zeros((1, 1, 1)), "sample_rate": 0},
    ],
)
def test_value_that_is_no_sound_is_refused(given: Any) -> None:
    """A pack may give anything; the error says what a sound is."""
    with pytest.raises(ValueError, match=r"sound|waveform|sample rate"):
        audio.adjust_volume(given, 6)
