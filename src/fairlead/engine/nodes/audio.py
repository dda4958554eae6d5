"""Nodes that change sounds: cut, join, mix, louder, softer, brighter and darker."""

from typing import Annotated, Any, Final

import numpy as np

from fairlead.engine.media import equalizer
from fairlead.engine.media.arrays import Array, check_samples
from fairlead.engine.media.sounds import Sound, at_one_rate, parts, sound
from fairlead.engine.nodes.node import Output, combo, integer, node, number, socket

_STEREO: Final = 2
_LONGEST: Final = 0xFFFFFFFFFFFFFFFF
_SHELF_QUALITY: Final = 0.707


@node("EmptyAudio", "Empty Audio", "audio", outputs=(Output("AUDIO"),))
def empty_audio(
    duration: Annotated[float, number(60.0, 0.0, _LONGEST, step=0.01)],
    sample_rate: Annotated[int, integer(44100, 1, 192000, advanced=True)],
    channels: Annotated[int, integer(2, 1, 2, advanced=True)],
) -> Sound:
    """Silence."""
    count = round(duration * sample_rate)
    check_samples(1, channels, count)
    return sound(np.zeros((1, channels, count), np.float32), sample_rate)


@node("TrimAudioDuration", "Trim Audio Duration", "audio", outputs=(Output("AUDIO"),))
def trim_audio(
    audio: Annotated[Sound, socket("AUDIO")],
    start_index: Annotated[float, number(0.0, -_LONGEST, _LONGEST, step=0.01)],
    duration: Annotated[float, number(60.0, 0.0, step=0.01)],
) -> Sound:
    """The part that begins at a second, counted from the end when negative, and lasts so many seconds."""
    waveform, rate = parts(audio)
    length = waveform.shape[-1]
    start = round(start_index * rate) + (length if start_index < 0 else 0)
    start = max(0, min(start, length - 1))
    end = min(start + round(duration * rate), length)
    if start >= end:
        raise ValueError("Nothing is left of the sound: it must start before its end, and last longer than nothing.")
    # A copy, because a part would keep the whole in memory.
    return sound(waveform[..., start:end].copy(), rate)


@node(
    "SplitAudioChannels", "Split Audio Channels", "audio", outputs=(Output("AUDIO", "left"), Output("AUDIO", "right"))
)
def split_channels(audio: Annotated[Sound, socket("AUDIO")]) -> tuple[Sound, Sound]:
    """The left and the right channel."""
    waveform, rate = parts(audio)
    if waveform.shape[1] != _STEREO:
        raise ValueError(f"Only a sound of two channels can be split; this one has {waveform.shape[1]}.")
    return sound(waveform[:, :1].copy(), rate), sound(waveform[:, 1:].copy(), rate)


@node("JoinAudioChannels", "Join Audio Channels", "audio", outputs=(Output("AUDIO", "audio"),))
def join_channels(
    audio_left: Annotated[Sound, socket("AUDIO")], audio_right: Annotated[Sound, socket("AUDIO")]
) -> Sound:
    """Two mono sounds as one in stereo, at the higher rate, as long as the shorter."""
    left, right, rate = at_one_rate(audio_left, audio_right)
    if left.shape[1] != 1 or right.shape[1] != 1:
        raise ValueError("Only sounds of one channel each can be joined.")
    length = min(left.shape[-1], right.shape[-1])
    _check_batches(left, right)
    return sound(np.concatenate((left[..., :length], right[..., :length]), axis=1), rate)


@node("AudioConcat", "Concatenate Audio", "audio", outputs=(Output("AUDIO"),))
def concatenate_audio(
    audio1: Annotated[Sound, socket("AUDIO")],
    audio2: Annotated[Sound, socket("AUDIO")],
    direction: Annotated[str, combo("after", "before", default="after", multiselect=False)],
) -> Sound:
    """The second sound after the first, or before it, at the higher rate, with at least two channels."""
    first, second, rate = at_one_rate(audio1, audio2)
    first, second = (np.repeat(of, _STEREO, axis=1) if of.shape[1] == 1 else of for of in (first, second))
    if first.shape[1] != second.shape[1]:
        raise ValueError(f"Sounds of {first.shape[1]} and {second.shape[1]} channels cannot follow each other.")
    _check_batches(first, second)
    check_samples(len(first), first.shape[1], first.shape[2] + second.shape[2])
    return sound(np.concatenate((first, second) if direction == "after" else (second, first), axis=2), rate)


def _check_batches(first: Array, second: Array) -> None:
    if len(first) != len(second):
        raise ValueError(f"Batches of {len(first)} and {len(second)} sounds cannot be put together.")


@node("AudioMerge", "Merge Audio", "audio", outputs=(Output("AUDIO"),))
def merge_audio(
    audio1: Annotated[Sound, socket("AUDIO")],
    audio2: Annotated[Sound, socket("AUDIO")],
    merge_method: Annotated[str, combo("add", "mean", "subtract", "multiply", multiselect=False)],
) -> Sound:
    """Both sounds mixed, as long as the first; the mix is softened where it would clip."""
    first, second, rate = at_one_rate(audio1, audio2)
    length = first.shape[-1]
    second = np.pad(second[..., :length], ((0, 0), (0, 0), (0, max(length - second.shape[-1], 0))))
    try:
        batch, channels = np.broadcast_shapes(first.shape[:2], second.shape[:2])
    except ValueError as error:
        raise ValueError("The sounds differ in their channels, or in how many they are.") from error
    check_samples(batch, channels, length)
    mixed = _mix(first, second, merge_method)
    loudest = float(np.abs(mixed).max(initial=0))
    return sound(mixed / np.float32(loudest) if loudest > 1 else mixed, rate)


def _mix(first: Array, second: Array, method: str) -> Array:
    match method:
        case "add":
            return first + second
        case "subtract":
            return first - second
        case "multiply":
            return first * second
        case _:
            return (first + second) / np.float32(2)


@node("AudioAdjustVolume", "Adjust Audio Volume", "audio", outputs=(Output("AUDIO"),))
def adjust_volume(audio: Annotated[Sound, socket("AUDIO")], volume: Annotated[int, integer(1, -100, 100)]) -> Sound:
    """Louder or softer by decibels: 6 is about twice."""
    waveform, rate = parts(audio)
    return sound(waveform * np.float32(10 ** (volume / 20)), rate)


@node("AudioEqualizer3Band", "Audio Equalizer (3-Band)", "audio", outputs=(Output("AUDIO"),), is_experimental=True)
def equalize(
    audio: Annotated[Sound, socket("AUDIO")],
    low_gain_dB: Annotated[float, number(0.0, -24.0, 24.0, step=0.1)],  # noqa: N803 -- its name
    low_freq: Annotated[int, integer(100, 20, 500)],
    mid_gain_dB: Annotated[float, number(0.0, -24.0, 24.0, step=0.1)],  # noqa: N803 -- its name
    mid_freq: Annotated[int, integer(1000, 200, 4000)],
    mid_q: Annotated[float, number(0.707, 0.1, 10.0, step=0.1)],
    high_gain_dB: Annotated[float, number(0.0, -24.0, 24.0, step=0.1)],  # noqa: N803 -- its name
    high_freq: Annotated[int, integer(5000, 1000, 15000)],
) -> Sound:
    """Low, middle and high tones louder or softer by decibels."""
    waveform, rate = parts(audio)
    filters: list[Any] = [
        (low_gain_dB, equalizer.low_shelf, low_freq, _SHELF_QUALITY),
        (mid_gain_dB, equalizer.peak, mid_freq, mid_q),
        (high_gain_dB, equalizer.high_shelf, high_freq, _SHELF_QUALITY),
    ]
    for gain, design, frequency, quality in filters:
        if gain:
            waveform = equalizer.apply_filter(waveform, design(rate, gain, frequency, quality))
    return sound(waveform, rate)


NODES: Final = (
    empty_audio,
    trim_audio,
    split_channels,
    join_channels,
    concatenate_audio,
    merge_audio,
    adjust_volume,
    equalize,
)
