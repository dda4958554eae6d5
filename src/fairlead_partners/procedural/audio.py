"""Ambient music as a WAV file: chords, a bass, a wandering melody, a room, and the sounds of a named place."""

import struct
from typing import TypeVar

import msgspec
import numpy as np

from .ambience import Wave, ambience
from .seeds import generator, words

T = TypeVar("T")

EDGE_SECONDS = 0.03
PEAK = 0.89

_SCALES = {
    "major": (0, 2, 4, 7, 9),
    "minor": (0, 3, 5, 7, 10),
    "dorian": (0, 2, 3, 7, 9),
    "lydian": (0, 2, 4, 6, 7, 11),
    "hijaz": (0, 1, 4, 5, 7, 10),
    "suspended": (0, 2, 5, 7, 9),
}

_SCALE_WORDS = {
    "major": "happy bright sunny joyful summer spring morning love warm sunrise dawn major",
    "minor": "sad dark night lonely rain winter melancholy storm autumn minor sunset",
    "dorian": "forest river folk journey mist celtic old walk",
    "lydian": "space dream dreamy stars magic aurora wonder cosmic floating",
    "hijaz": "desert mystic ancient temple east caravan",
    "suspended": "ocean sea calm ambient peaceful slow meditation sleep water",
}

_TEMPO_WORDS = {
    58: "slow calm sleep meditation peaceful ambient drone lullaby",
    112: "fast dance energetic upbeat run happy techno race party",
}

_TIMBRES = {
    "bell": ((1.0, 1.0), (2.76, 0.45), (5.4, 0.2)),
    "piano": ((1.0, 1.0), (2.0, 0.42), (3.0, 0.2), (4.01, 0.1)),
    "flute": ((1.0, 1.0), (2.0, 0.16), (3.0, 0.05)),
    "harp": ((1.0, 1.0), (2.0, 0.5), (3.0, 0.3), (5.0, 0.08)),
    "glass": ((1.0, 1.0), (3.01, 0.25), (4.2, 0.12)),
}

_TIMBRE_WORDS = {
    "bell": "bell bells chime chimes temple winter",
    "piano": "piano keys nocturne rain",
    "flute": "flute wind bird birds forest",
    "harp": "harp guitar strings lute folk",
    "glass": "glass ice crystal space stars synth electronic",
}


class _Piece(msgspec.Struct, frozen=True):
    """The choices that make a piece: root in hertz, scale in semitones, beat in seconds."""

    root: float
    scale: tuple[int, ...]
    beat: float
    partials: tuple[tuple[float, float], ...]
    rate: int
    samples: int

    def pitch(self, degree: int) -> float:
        """Return the frequency of a step of the scale; steps beyond it go on in the next octave."""
        octave, place = divmod(degree, len(self.scale))
        return float(self.root * 2 ** (octave + self.scale[place] / 12))


def compose(prompt: str, seed: int, duration_seconds: float, sample_rate: int) -> tuple[bytes, float]:
    """Return a 16-bit stereo WAV file and its exact length in seconds."""
    samples = max(1, round(duration_seconds * sample_rate))
    piece = _plan(prompt, seed, sample_rate, samples)
    dry = np.zeros((2, samples), dtype=np.float32)
    _chords(piece, dry, generator(prompt, seed, "chords"))
    _melody(piece, dry, generator(prompt, seed, "melody"))
    dry = _echo(piece, dry)
    wet = _room(piece, dry, generator(prompt, seed, "room"))
    music = dry + 0.5 * wet
    music /= np.float32(max(float(np.abs(music).max()), 1e-6))
    music += ambience(prompt, generator(prompt, seed, "ambience"), sample_rate, samples)
    return _wav(_master(music, sample_rate), sample_rate), samples / sample_rate


def _plan(prompt: str, seed: int, rate: int, samples: int) -> _Piece:
    rng = generator(prompt, seed, "piece")
    scale = _pick_named(prompt, _SCALE_WORDS, str(rng.choice(list(_SCALES))))
    timbre = _pick_named(prompt, _TIMBRE_WORDS, str(rng.choice(list(_TIMBRES))))
    tempo = _pick_named(prompt, _TEMPO_WORDS, int(rng.integers(66, 92)))
    root = 55.0 * 2 ** (int(rng.integers(0, 12)) / 12)
    return _Piece(root, _SCALES[scale], 60.0 / tempo, _TIMBRES[timbre], rate, samples)


def _pick_named(prompt: str, table: dict[T, str], otherwise: T) -> T:
    """Return the entry whose words the prompt uses first, else `otherwise`."""
    for word in words(prompt):
        for name, asked in table.items():
            if word in asked.split():
                return name
    return otherwise


def _chords(piece: _Piece, mix: Wave, rng: np.random.Generator) -> None:
    """Add a bass note and a soft chord every four beats, each swelling into the next."""
    span = 4 * piece.beat
    steps = rng.permutation(len(piece.scale))
    for number in range(int(np.ceil(piece.samples / piece.rate / span))):
        degree = 0 if number % 4 == 0 else int(steps[number % len(steps)])
        start, length = number * span - 0.3, span + 1.6
        _add(piece, mix, start, _pad(piece, piece.pitch(degree), length, 3) * 0.30, 0.0)
        for voice, pan in (
            (len(piece.scale), -0.5),
            (len(piece.scale) + 2, 0.5),
            (len(piece.scale) + 4, 0.1),
        ):
            _add(piece, mix, start, _pad(piece, piece.pitch(degree + voice), length, 4) * 0.13, pan)


def _melody(piece: _Piece, mix: Wave, rng: np.random.Generator) -> None:
    """Add plucked notes on a walk through the scale, leaving rests."""
    degree = 2 * len(piece.scale) + int(rng.integers(0, 4))
    low, high = 2 * len(piece.scale) - 2, 4 * len(piece.scale)
    for half_beat in range(int(piece.samples / piece.rate / piece.beat * 2)):
        degree = int(np.clip(degree + rng.integers(-2, 3), low, high))
        strong = half_beat % 4 == 0
        loud, pan, play = float(rng.uniform(0.5, 1)), float(rng.uniform(-0.7, 0.7)), float(rng.random())
        if play < (0.85 if strong else 0.42):
            note = _pluck(piece, piece.pitch(degree), float(rng.uniform(1.2, 2.4)))
            _add(piece, mix, half_beat * piece.beat / 2, note * (0.22 * loud), pan)


def _times(piece: _Piece, seconds: float) -> Wave:
    return np.arange(int(seconds * piece.rate), dtype=np.float32) / np.float32(piece.rate)


def _sine(times: Wave, frequency: float) -> Wave:
    """Return a sine; cycles are wrapped before the sine, or float32 would lose pitch on long notes."""
    cycles = times.astype(np.float64) * frequency
    wrapped = (cycles - np.floor(cycles)).astype(np.float32)
    return np.asarray(np.sin(wrapped * np.float32(2 * np.pi)), dtype=np.float32)


def _pad(piece: _Piece, frequency: float, seconds: float, voices: int) -> Wave:
    times = _times(piece, seconds)
    sound = np.zeros_like(times)
    for voice in range(voices):
        detuned = frequency * (1 + 0.0025 * (voice - (voices - 1) / 2))
        sound += _sine(times, detuned) + 0.28 * _sine(times, 2 * detuned)
    swell = np.sin(np.pi * times / seconds) ** 2
    return np.asarray(sound * swell / np.float32(voices), dtype=np.float32)


def _pluck(piece: _Piece, frequency: float, seconds: float) -> Wave:
    times = _times(piece, seconds)
    sound = np.zeros_like(times)
    for ratio, loud in piece.partials:
        if frequency * ratio < piece.rate * 0.45:
            sound += loud * _sine(times, frequency * ratio) * np.exp(-times * (2.2 + 1.1 * ratio))
    attack = np.minimum(times / 0.008, 1)
    release = np.clip((seconds - times) / 0.1, 0, 1)
    return np.asarray(sound * attack * release, dtype=np.float32)


def _add(piece: _Piece, mix: Wave, start_seconds: float, sound: Wave, pan: float) -> None:
    """Mix a sound in at a time, cut to the piece; pan goes from -1 left to 1 right."""
    start = round(start_seconds * piece.rate)
    sound = sound[max(0, -start) :]
    start = max(0, start)
    sound = sound[: max(0, piece.samples - start)]
    angle = (pan + 1) * np.pi / 4
    mix[0, start : start + len(sound)] += np.float32(np.cos(angle)) * sound
    mix[1, start : start + len(sound)] += np.float32(np.sin(angle)) * sound


def _echo(piece: _Piece, mix: Wave) -> Wave:
    """Add three fading repeats, each on the other side, three quarters of a beat apart."""
    result = mix.copy()
    delay = int(0.75 * piece.beat * piece.rate)
    for number, loud in ((1, 0.30), (2, 0.16), (3, 0.08)):
        shift = number * delay
        if shift < piece.samples:
            source = mix[::-1] if number % 2 else mix
            result[:, shift:] += np.float32(loud) * source[:, : piece.samples - shift]
    return result


def _room(piece: _Piece, mix: Wave, rng: np.random.Generator) -> Wave:
    """Return the reverberation of a large soft room: a convolution with fading, darkened noise."""
    times = _times(piece, 1.8)
    noise = rng.standard_normal((2, len(times)), dtype=np.float32) * np.exp(-times * 3.2)
    dark = np.cumsum(noise, axis=1)
    smooth = (dark[:, 12:] - dark[:, :-12]) / np.float32(12)
    size = 1 << (piece.samples + smooth.shape[1]).bit_length()
    wet = np.fft.irfft(np.fft.rfft(mix, size) * np.fft.rfft(smooth, size), size)[:, : piece.samples]
    level = np.sqrt(np.mean(smooth**2) * smooth.shape[1])
    return np.asarray(wet / level, dtype=np.float32)


def _master(mix: Wave, rate: int) -> Wave:
    """Set the peak and fade both ends, so that no click is heard."""
    edge = min(mix.shape[1] // 2, int(EDGE_SECONDS * rate))
    ramp = np.linspace(0, 1, edge, dtype=np.float32) ** 2
    mix[:, :edge] *= ramp
    fade = min(mix.shape[1] // 2, 12 * edge)
    mix[:, mix.shape[1] - fade :] *= np.linspace(1, 0, fade, dtype=np.float32) ** 2
    peak = float(np.abs(mix).max())
    return mix * np.float32(PEAK / max(peak, 1e-6))


def _wav(mix: Wave, rate: int) -> bytes:
    data = np.ascontiguousarray((mix.T * 32767).round().astype("<i2")).tobytes()
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 2, rate, rate * 4, 4, 16)
    chunk = struct.pack("<4sI", b"data", len(data))
    return struct.pack("<4sI4s", b"RIFF", 4 + len(form) + 8 + len(data), b"WAVE") + form + chunk + data
