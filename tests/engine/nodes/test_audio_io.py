"""Sounds come from files and go into files, with what they are made of, and bad files are errors of their nodes."""

import asyncio
import io
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from engine.nodes.folders import FolderContext
from fairlead.domain.jobs.events import Failed, Succeeded
from fairlead.engine.graph.cache import ResultCache
from fairlead.engine.graph.executor import Executor, Outcome, Work
from fairlead.engine.graph.graph import read_graph
from fairlead.engine.graph.validation import InvalidGraphError, validate
from fairlead.engine.media import clip_library, ogg, sound_files
from fairlead.engine.media.arrays import Array
from fairlead.engine.media.sounds import sound
from fairlead.engine.nodes import audio, audio_io
from fairlead.engine.nodes.files import Folders
from fairlead.engine.nodes.registry import Registry

_RATE = 44_100
_HIDDEN = {"prompt": {"1": {"class_type": "LoadAudio", "name": "é"}}, "extra_pnginfo": {"workflow": ["w" * 100_000]}}


def _tones(seconds: float = 1, rate: int = _RATE) -> Array:
    times = np.arange(round(seconds * rate)) / rate
    return np.stack([0.5 * np.sin(2 * np.pi * 440 * times), 0.25 * np.sin(2 * np.pi * 880 * times)]).astype(np.float32)


def _saved_files(root: Path, result: Any) -> list[Path]:
    return [root / file["type"] / file["subfolder"] / file["filename"] for file in result.ui["audio"]]


@pytest.mark.parametrize(
    ("save", "quality", "name", "rate", "error"),
    [
        (audio_io.save_audio, (), "a_00001_.flac", _RATE, 2 / 65536),
        (audio_io.save_audio_mp3, ("V0",), "a_00001_.mp3", _RATE, 0.005),
        (audio_io.save_audio_mp3, ("128k",), "a_00001_.mp3", _RATE, 0.05),
        (audio_io.save_audio_opus, ("192k",), "a_00001_.opus", 48_000, 0.03),
    ],
)
def test_saved_sound_is_loaded_as_it_was(
    tmp_path: Path, save: Any, quality: tuple[str, ...], name: str, rate: int, error: float
) -> None:
    """What is loaded is what was saved, as long and as exact as the format can; Opus knows its own rates only."""
    context = FolderContext(tmp_path, _HIDDEN)
    result = save(context, sound(_tones()[None], _RATE), "sounds/a", *quality)
    (path,) = _saved_files(tmp_path, result)
    assert (path.name, path.parent.name) == (name, "sounds")
    path.rename(tmp_path / "input" / "no-extension")
    loaded = audio_io.load_audio(context, "no-extension")
    assert (loaded["sample_rate"], loaded["waveform"].shape) == (rate, (1, 2, rate))
    middle = slice(2_000, -2_000)
    assert np.abs(loaded["waveform"][0][:, middle] - _tones(1, rate)[:, middle]).max() < error


@pytest.mark.parametrize(("quality", "least", "most"), [("64k", 60, 72), ("320k", 300, 335)])
def test_size_of_a_sound_follows_its_bit_rate(tmp_path: Path, quality: str, least: int, most: int) -> None:
    """The size of a file follows its quality, in Opus and in MP3."""
    noise = np.random.default_rng(0).uniform(-0.3, 0.3, (2, 5 * 48_000)).astype(np.float32)
    path = tmp_path / "noise"
    sound_files.write_opus(path, noise, 48_000, {}, quality)
    assert least < path.stat().st_size * 8 / 5_000 < most
    sound_files.write_mp3(path, noise, 48_000, {}, "128k" if quality == "64k" else quality)
    assert least < path.stat().st_size * 8 / 5_000 < max(most, 135)


def test_saved_sound_holds_its_workflow(tmp_path: Path) -> None:
    """The prompt and what the caller adds stand in the comments of FLAC and Opus and in the tag of MP3, as JSON."""
    context = FolderContext(tmp_path, _HIDDEN)
    given = sound(_tones(0.1)[None], _RATE)
    (flac,) = _saved_files(tmp_path, audio_io.save_audio(context, given, "a"))
    (mp3,) = _saved_files(tmp_path, audio_io.save_audio_mp3(context, given, "a", "V0"))
    (opus,) = _saved_files(tmp_path, audio_io.save_audio_opus(context, given, "a", "64k"))
    prompt = b'{"1": {"class_type": "LoadAudio", "name": "\\u00e9"}}'
    comment = struct.pack("<I", len(prompt) + 7) + b"prompt=" + prompt
    assert comment in flac.read_bytes()
    assert comment in ogg.packets(opus.read_bytes())[1]
    assert b"\0prompt\0" + prompt in mp3.read_bytes()
    assert all(b"w" * 60_000 in path.read_bytes() for path in (flac, mp3))
    for path in (flac, mp3, opus):
        assert soundfile.info(path).duration == pytest.approx(0.1, abs=0.001)


def test_every_sound_of_a_batch_is_saved(tmp_path: Path) -> None:
    """Each becomes a file, and may be numbered; previews are temporary, and the sound goes on."""
    given = sound(np.stack([_tones(0.1), -_tones(0.1)]), _RATE)
    context = FolderContext(tmp_path)
    files = _saved_files(tmp_path, audio_io.save_audio(context, given, "a%batch_num%"))
    assert [path.name for path in files] == ["a0_00001_.flac", "a1_00001_.flac"]
    preview = audio_io.preview_audio(context, given)
    assert preview.values == (given,)
    assert {file["type"] for file in preview.ui["audio"]} == {"temp"}


def test_format_is_the_one_asked_for(tmp_path: Path) -> None:
    """It comes with what the format needs."""
    context, given = FolderContext(tmp_path), sound(_tones(0.1)[None], _RATE)
    for wanted in ({"format": "flac"}, {"format": "mp3", "quality": "320k"}, {"format": "opus", "quality": "96k"}):
        (path,) = _saved_files(tmp_path, audio_io.save_audio_advanced(context, given, "a", wanted))
        assert path.suffix == f".{wanted['format']}"


@pytest.mark.parametrize(
    ("waveform", "rate", "text"),
    [
        (np.zeros((1, 1, 0), np.float32), _RATE, "without samples"),
        (np.zeros((1, 3, 10), np.float32), _RATE, "3 channels"),
    ],
)
def test_sound_that_fits_no_file_is_refused(tmp_path: Path, waveform: Array, rate: int, text: str) -> None:
    """MP3 and Opus take one channel or two, and no file takes nothing."""
    with pytest.raises(ValueError, match=text):
        audio_io.save_audio_opus(FolderContext(tmp_path), sound(waveform, rate), "a", "64k")


def test_values_that_are_no_numbers_become_silence(tmp_path: Path) -> None:
    """It is silence, and what is too loud is cut off."""
    waveform = np.array([[[np.nan, 5, -5, 0.5]]], np.float32)
    (path,) = _saved_files(tmp_path, audio_io.save_audio(FolderContext(tmp_path), sound(waveform, _RATE), "a"))
    assert soundfile.read(path)[0].tolist() == pytest.approx([0, 1, -1, 0.5], abs=1e-4)


def _wav(frames: int) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, np.full(frames, 0.5, np.float32), 8_000, format="WAV", subtype="PCM_16")
    return file.getvalue()


def test_file_that_was_cut_off_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    """What is there of it is the sound, whatever its header says."""
    context = FolderContext(tmp_path)
    cut = bytearray(_wav(1_000)[:1_044])
    cut[40:44] = struct.pack("<I", 0x7FFFFFF0)
    (tmp_path / "input" / "cut.wav").write_bytes(cut)
    assert audio_io.load_audio(context, "cut.wav")["waveform"].shape == (1, 1, 500)


@pytest.mark.parametrize(
    "content", [b"", b"#EXTM3U\nhttp://127.0.0.1/x", b"\0" * 4_000, _wav(0), b"OggS" + b"\xff" * 300, b"fLaC\0\0\0"]
)
def test_file_that_is_no_sound_is_refused(tmp_path: Path, content: bytes) -> None:
    """Anything else is a clear error; a play list is not followed."""
    context = FolderContext(tmp_path)
    (tmp_path / "input" / "x").write_bytes(content)
    with pytest.raises(ValueError, match=r"sound|video|broken|file"):
        audio_io.load_audio(context, "x")


def test_length_of_a_sound_is_counted_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples are counted while they are read, not believed."""
    monkeypatch.setattr("fairlead.engine.media.arrays.SAMPLES_MAX", 100_000)
    context = FolderContext(tmp_path)
    (tmp_path / "input" / "x.wav").write_bytes(_wav(200_000))
    with pytest.raises(ValueError, match="more than the 100000"):
        audio_io.load_audio(context, "x.wav")


def _element(name: bytes, content: bytes) -> bytes:
    return name + struct.pack(">Q", len(content) | 1 << 56) + content


def test_recording_of_a_browser_is_read(tmp_path: Path) -> None:
    """Browsers record Opus in WebM, whose segments and clusters have no end."""
    made = sound_files.opus(tmp_path / "x", _tones(0.5, 48_000), 48_000, "128k")
    head, _, *packets = ogg.packets(made)
    entry = _element(b"\xd7", b"\x01") + _element(b"\x83", b"\x02") + _element(b"\x86", b"A_OPUS")
    tracks = _element(b"\x16\x54\xae\x6b", _element(b"\xae", entry + _element(b"\x63\xa2", head)))
    blocks = [_element(b"\xa3", b"\x81" + struct.pack(">hB", 20 * at, 0) + of) for at, of in enumerate(packets)]
    endless = b"\x01" + b"\xff" * 7
    content = _element(b"\x1a\x45\xdf\xa3", b"") + b"\x18\x53\x80\x67" + endless + tracks
    content += b"\x1f\x43\xb6\x75" + endless + b"".join(blocks)
    context = FolderContext(tmp_path)
    (tmp_path / "input" / "recording.webm").write_bytes(content)
    loaded = audio_io.load_audio(context, "recording.webm")["waveform"][0]
    assert np.abs(loaded[:, 2_000:20_000] - _tones(0.5, 48_000)[:, 2_000:20_000]).max() < 0.03
    if not clip_library.is_there():  # which forgives more
        (tmp_path / "input" / "recording.webm").write_bytes(content.replace(b"A_OPUS", b"A_XYZW"))
        with pytest.raises(ValueError, match="A_XYZW"):
            audio_io.load_audio(context, "recording.webm")


def _execute(root: Path, document: dict[str, Any]) -> Outcome:
    for kind in ("input", "output", "temp"):
        (root / kind).mkdir(exist_ok=True)
    files = Folders(root / "input", root / "output", root / "temp")
    registry = Registry(audio.NODES, audio_io.NODES)

    async def run() -> Outcome:
        validated = await validate(read_graph(document), registry, context=files)
        executor = Executor(registry, ResultCache(100_000_000))
        try:
            return await executor.run(Work(validated.graph, validated.outputs, files), lambda _: None)
        finally:
            executor.close()

    return asyncio.run(run())


def _node(class_type: str, **inputs: Any) -> dict[str, Any]:
    return {"class_type": class_type, "inputs": inputs}


def test_workflow_of_sounds_is_executed(tmp_path: Path) -> None:
    """Load, cut, split, change, join, mix with silence, and save in a chosen format."""
    (tmp_path / "input").mkdir()
    soundfile.write(tmp_path / "input" / "tones.wav", _tones().T, _RATE)
    document = {
        "1": _node("LoadAudio", audio="tones.wav"),
        "2": _node("TrimAudioDuration", audio=["1", 0], start_index=0.5, duration=10),
        "3": _node("SplitAudioChannels", audio=["2", 0]),
        "4": _node("AudioAdjustVolume", audio=["3", 1], volume=6),
        "5": _node("JoinAudioChannels", audio_left=["3", 0], audio_right=["4", 0]),
        "6": _node("EmptyAudio", duration=0.25, sample_rate=44100, channels=1),
        "7": _node("AudioMerge", audio1=["5", 0], audio2=["6", 0], merge_method="add"),
        "8": _node("AudioConcat", audio1=["7", 0], audio2=["6", 0], direction="before"),
        "9": _node("SaveAudioAdvanced", audio=["8", 0], filename_prefix="a", format="mp3", **{"format.quality": "V0"}),
        "10": _node("PreviewAudio", audio=["8", 0]),
    }
    outcome = _execute(tmp_path, document)
    assert isinstance(outcome.ending, Succeeded), outcome.ending
    assert [file["filename"] for file in outcome.ui["9"]["audio"]] == ["a_00001_.mp3"]
    heard, rate = soundfile.read(tmp_path / "temp" / outcome.ui["10"]["audio"][0]["filename"], always_2d=True)
    assert (heard.shape, rate) == ((33_075, 2), _RATE)
    assert not heard[:11_025].any()
    assert np.abs(heard[11_025:, 1] - _tones()[1, 22_050:] * 10 ** (6 / 20)).max() < 0.001


def test_recording_is_refused_before_anything_runs(tmp_path: Path) -> None:
    """It is refused before anything runs, with a word about what to do instead; so is a file there is not."""
    for first, text in (
        (_node("RecordAudio", audio="x.webm"), "recorded in a browser"),
        (_node("LoadAudio", audio="../x.wav"), "Invalid audio file: ../x.wav"),
    ):
        with pytest.raises(InvalidGraphError) as refused:
            _execute(tmp_path, {"1": first, "2": _node("PreviewAudio", audio=["1", 0])})
        (fault,) = refused.value.node_faults["1"].faults
        assert text in fault.details


def test_broken_sound_is_the_error_of_its_node(tmp_path: Path) -> None:
    """It is the error of its node."""
    (tmp_path / "input").mkdir()
    (tmp_path / "input" / "x.wav").write_bytes(b"RIFF")
    outcome = _execute(tmp_path, {"1": _node("LoadAudio", audio="x.wav"), "2": _node("PreviewAudio", audio=["1", 0])})
    assert isinstance(outcome.ending, Failed)
