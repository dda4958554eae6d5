"""Music as WAV files."""

import io
import wave
from typing import Any

import numpy as np


def read(answer: Any) -> tuple[tuple[int, int, int], np.ndarray[Any, Any]]:
    """Return a WAV answer's channels, bytes per sample and rate, and its samples."""
    with wave.open(io.BytesIO(answer.content)) as sound:
        form = (sound.getnchannels(), sound.getsampwidth(), sound.getframerate())
        return form, np.frombuffer(sound.readframes(sound.getnframes()), "<i2").reshape(-1, 2)


def test_wav_has_the_asked_length_and_is_heard_without_clicks_at_the_ends(vendor: Any) -> None:
    """The file is 16-bit stereo of the asked length, normalised, and starts and ends in silence."""
    answer = vendor.post("/v1/audio", {"prompt": "calm piano", "duration_seconds": 1.5, "sample_rate": 22050})
    form, samples = read(answer)
    assert answer.headers["content-type"] == "audio/wav"
    assert answer.headers["x-usage-seconds"] == "1.5"
    assert form == (2, 2, 22050)
    assert len(samples) == 33075
    assert 25000 < np.abs(samples.astype(int)).max() < 32767
    assert np.abs(samples[[0, -1]].astype(int)).max() < 10


def test_same_seed_gives_the_same_sound(vendor: Any) -> None:
    """The bytes depend on the request alone; the chosen seed is reported."""
    body = {"prompt": "space", "duration_seconds": 0.5}
    first = vendor.post("/v1/audio", body)
    again = vendor.post("/v1/audio", {**body, "seed": int(first.headers["x-seed"])})
    other = vendor.post("/v1/audio", {**body, "seed": (int(first.headers["x-seed"]) + 1) % 2**32})
    assert first.content == again.content != other.content


def test_every_sample_rate_works(vendor: Any) -> None:
    """All rates in the documentation are accepted."""
    for rate in (22050, 44100, 48000):
        body = {"prompt": "bells", "duration_seconds": 0.5, "sample_rate": rate}
        assert len(read(vendor.post("/v1/audio", body))[1]) == rate // 2


def test_named_rain_is_heard_and_negated_rain_is_not(vendor: Any) -> None:
    """Rain fills the frequencies where the music alone has next to nothing."""

    def hiss(prompt: str) -> float:
        answer = vendor.post("/v1/audio", {"prompt": prompt, "duration_seconds": 2, "seed": 3})
        power = np.abs(np.fft.rfft(read(answer)[1][:, 0].astype(float))) ** 2
        hertz = np.fft.rfftfreq(88200, 1 / 44100)
        return float(power[(hertz > 5000) & (hertz < 9000)].sum() / power.sum())

    assert hiss("calm piano, rain") > 20 * hiss("calm piano, no rain")


def test_sea_and_wind_swell_below_the_rain(vendor: Any) -> None:
    """Prompts that name different sounds give different pieces, none of them silent."""
    pieces = [
        vendor.post("/v1/audio", {"prompt": prompt, "duration_seconds": 1, "seed": 3}).content
        for prompt in ("waves of the sea", "a cold wind", "a thunderstorm")
    ]
    assert len(set(pieces)) == len(pieces)
