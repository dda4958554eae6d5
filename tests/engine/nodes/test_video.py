"""Videos are made of images and sounds, taken apart again, cut and saved; a bad file is an error of its node."""

import asyncio
import json
import struct
from fractions import Fraction
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from engine.nodes.folders import FolderContext
from fairlead.domain.jobs.events import Failed, Succeeded
from fairlead.engine.graph.cache import ResultCache, size_of
from fairlead.engine.graph.executor import Executor, Outcome, Work
from fairlead.engine.graph.graph import read_graph
from fairlead.engine.graph.validation import InvalidGraphError, validate
from fairlead.engine.media import clip_library, mp4, webm
from fairlead.engine.media.arrays import Array
from fairlead.engine.media.clips import Components, FileClip, MadeClip, kept_clip
from fairlead.engine.media.sounds import sound
from fairlead.engine.nodes import audio_io, images_io, video
from fairlead.engine.nodes.context import InterruptedByCallerError
from fairlead.engine.nodes.files import Folders
from fairlead.engine.nodes.node import Blocked
from fairlead.engine.nodes.registry import Registry

_RATE = 48_000
_HIDDEN = {"prompt": {"1": {"class_type": "LoadVideo"}}, "extra_pnginfo": {"workflow": ["w" * 100_000]}}
alone = pytest.mark.skipif(clip_library.is_there(), reason="the optional library does it")
together = pytest.mark.skipif(not clip_library.is_there(), reason="the optional library is not installed")


def _fading(count: int = 20, width: int = 48, height: int = 32) -> Array:
    """Frames of one colour each, from blue to red."""
    images = np.empty((count, height, width, 3), np.float32)
    for index in range(count):
        images[index] = index / count, 0.5, 1 - index / count
    return images


def _tone(seconds: float, rate: int = _RATE) -> dict[str, Any]:
    times = np.arange(round(seconds * rate)) / rate
    channels = [0.5 * np.sin(2 * np.pi * frequency * times) for frequency in (440, 880)]
    return sound(np.array([channels], np.float32), rate)


def _clip(count: int = 20, fps: float = 10) -> MadeClip:
    return MadeClip(Components(_fading(count), _tone(count / fps), Fraction(fps)))


def _saved_files(root: Path, result: Any) -> Path:
    (file,) = result.ui["images"]
    assert result.ui["animated"] == (True,)
    found: Path = root / file["type"] / file["subfolder"] / file["filename"]
    return found


@pytest.fixture
def context(tmp_path: Path) -> FolderContext:
    """Return the hand of a node, with a prompt for its files."""
    return FolderContext(tmp_path, _HIDDEN)


@pytest.fixture
def saved(tmp_path: Path, context: FolderContext) -> Path:
    """Return a file of twenty frames in two seconds, with a tone."""
    path = _saved_files(tmp_path, video.save_video(context, _clip(), "video/%width%x%height%", "auto", "auto"))
    assert (path.name, path.parent.name) == ("48x32_00001_.mp4", "video")
    return path.rename(tmp_path / "input" / "saved.mp4")


def test_saved_video_is_loaded_as_it_was(context: FolderContext, saved: Path) -> None:
    """Its frames, its rate and its sound are loaded as they were, as far as they can be encoded."""
    loaded = video.load_video(context, saved.name)
    assert (loaded.get_dimensions(), loaded.get_frame_count()) == ((48, 32), 20)
    assert loaded.get_frame_rate() == Fraction(10)
    assert loaded.get_duration() == pytest.approx(2)
    images, heard, fps, depth = video.get_video_components(context, loaded)
    assert (images.shape, fps, depth) == ((20, 32, 48, 3), 10.0, 8)
    assert np.abs(images - _fading()).max() < 0.03
    assert isinstance(heard, dict)
    rate, waveform = heard["sample_rate"], heard["waveform"]
    assert waveform.shape[-1] == pytest.approx(2 * rate, abs=1)
    if not clip_library.is_there():  # AAC changes tones more
        assert np.abs(waveform - _tone(2)["waveform"])[..., 1_000:-1_000].max() < 0.03


def test_saved_video_holds_its_workflow(saved: Path) -> None:
    """The prompt and what the caller adds stand under their names in the index, which comes before the frames."""
    content = saved.read_bytes()
    assert content.index(b"moov") < content.index(b"mdat")
    assert b"mdtaprompt" in content
    assert b"mdtaworkflow" in content
    assert json.dumps(_HIDDEN["prompt"]).encode() in content
    assert b"w" * 100_000 in content


@alone
def test_tracks_of_a_file_have_one_length(saved: Path) -> None:
    """Both last two seconds; the sound begins after what its encoder put before it."""
    pictures, heard = mp4.tracks(saved)
    assert (pictures.codec, len(pictures.places), pictures.seconds) == ("vp09", 20, 2)
    assert heard.codec == "Opus"
    assert heard.seconds == pytest.approx(2, abs=0.0001)
    assert heard.skipped > 0


@pytest.mark.parametrize("rate", [Fraction(30_000, 1_001), Fraction(24), Fraction(25, 2), Fraction(120)])
def test_frame_rate_is_kept_exactly(tmp_path: Path, rate: Fraction) -> None:
    """Frames are shown when they should be, to a thousandth of a frame a second."""
    MadeClip(Components(_fading(6), None, rate)).save_to(tmp_path / "x.mp4")
    loaded = FileClip(tmp_path / "x.mp4")
    assert float(loaded.get_frame_rate()) == pytest.approx(float(rate), abs=0.001)
    found = loaded.get_components()
    assert (len(found.images), found.audio, found.note) == (6, None, None)


@pytest.mark.parametrize(
    ("start", "duration", "first", "count"), [(0.5, 1, 5, 10), (-0.5, 0, 15, 5), (0, 0.3, 0, 3), (1.8, 5, 18, 2)]
)
def test_part_of_a_video_has_its_frames_and_sound(
    context: FolderContext, saved: Path, start: float, duration: float, first: int, count: int
) -> None:
    """Frames that are shown in the time are in it, and the sound of the time; of a file and of images alike."""
    for whole in (video.load_video(context, saved.name), _clip()):
        part = video.trim_video(whole, start, duration, strict_duration=False)
        images, heard, _, _ = video.get_video_components(context, part)
        assert part.get_duration() == pytest.approx(count / 10, abs=0.001)
        assert len(images) == count
        assert np.abs(images - _fading()[first : first + count]).max() < 0.03
        assert isinstance(heard, dict)
        assert heard["waveform"].shape[-1] == pytest.approx(count / 10 * heard["sample_rate"], abs=2)


def test_part_of_a_part_begins_where_it_should(context: FolderContext, saved: Path) -> None:
    """Times are counted within the part that is cut."""
    part = video.trim_video(video.load_video(context, saved.name), 0.5, 1, strict_duration=True)
    images = video.get_video_components(context, video.trim_video(part, 0.2, 0.3, strict_duration=True))[0]
    assert np.abs(images - _fading()[7:10]).max() < 0.03
    last = video.get_video_components(context, video.trim_video(part, -0.1, 0, strict_duration=False))[0]
    assert np.abs(last - _fading()[14:15]).max() < 0.03


@pytest.mark.parametrize(("start", "duration", "is_strict"), [(2.5, 0, False), (1.5, 1, True)])
def test_part_after_the_end_is_refused(saved: Path, start: float, duration: float, is_strict: bool) -> None:  # noqa: FBT001 -- a case
    """Nothing is left after the end, and a strict duration is not shortened."""
    for whole in (FileClip(saved), _clip()):
        with pytest.raises(ValueError, match=r"lasts 2\.000 s"):
            video.trim_video(whole, start, duration, strict_duration=is_strict)


def test_unchanged_file_is_copied_and_not_encoded(tmp_path: Path, context: FolderContext, saved: Path) -> None:
    """Its packets are copied, and texts of now are added to its own."""
    other = FolderContext(tmp_path, {"prompt": {"2": "new"}})
    path = _saved_files(
        tmp_path, video.save_video(other, video.load_video(context, saved.name), "copy", "auto", "auto")
    )
    assert [track.packets(path) for track in mp4.tracks(path)] == [track.packets(saved) for track in mp4.tracks(saved)]
    found = FileClip(path).get_components()
    assert len(found.images) == 20
    assert found.metadata is not None
    assert found.metadata["prompt"] == '{"2": "new"}'
    assert found.metadata["workflow"] == json.dumps(["w" * 100_000])


@pytest.mark.parametrize("codec", ["vp9", "av1"])
def test_webm_file_holds_frames_rate_and_texts(tmp_path: Path, context: FolderContext, codec: str) -> None:
    """It holds each frame, its rate, and the texts as tags; an unchanged one is copied."""
    result = video.save_webm(context, _fading(), "x", codec, 12.5, 20)
    path = _saved_files(tmp_path, result)
    content = path.read_bytes()
    assert path.suffix == ".webm"
    assert webm.sound_packets(path) is None
    assert all(name in content for name in (b"PROMPT", b"WORKFLOW", b"V_VP9" if codec == "vp9" else b"V_AV1"))
    if codec == "av1" and not clip_library.is_there():
        with pytest.raises(ValueError, match="optional library"):
            FileClip(path).get_components()
        return
    found = FileClip(path).get_components()
    assert (found.images.shape, found.frame_rate) == ((20, 32, 48, 3), Fraction(25, 2))
    assert np.abs(found.images - _fading()).max() < 0.04
    copied = _saved_files(tmp_path, video.save_video(context, FileClip(path), "y", "auto", "auto"))
    assert (copied.suffix, copied.read_bytes()) == (".webm", content)
    again = _saved_files(tmp_path, video.save_video(context, FileClip(path), "y", "mp4", "auto"))
    assert (again.suffix, len(FileClip(again).get_components().images)) == (".mp4", 20)


def test_av1_of_a_single_frame_is_a_video(tmp_path: Path) -> None:
    """One frame is a video too, and a coarse quality makes a small one."""
    noise = np.random.default_rng(0).uniform(0, 1, (1, 64, 64, 3)).astype(np.float32)
    sizes = []
    for crf in (0, 60):
        path = _saved_files(tmp_path, video.save_webm(FolderContext(tmp_path), noise, "x", "av1", 1, crf))
        sizes.append(path.stat().st_size)
    assert sizes[1] < sizes[0] / 4


def test_odd_sizes_and_other_channels_are_saved(tmp_path: Path) -> None:
    """Videos have even edges, to which a line is added or from which one is cut; alpha is left out, grey is grey."""
    for channels in (1, 4):
        images = np.full((2, 33, 47, channels), 0.5, np.float32)
        if channels == 1 and clip_library.is_there():
            continue
        MadeClip(Components(images, None, Fraction(5))).save_to(tmp_path / "x.mp4")
        found = FileClip(tmp_path / "x.mp4").get_components().images
        assert (found.shape[1] % 2, found.shape[2] % 2, abs(found.shape[1] - 33), abs(found.shape[2] - 47)) == (
            0,
            0,
            1,
            1,
        )
        assert np.abs(found - 0.5).max() < 0.03


@alone
def test_missing_encoder_is_named(tmp_path: Path) -> None:
    """Who asks for H.264 or ten bits is told what is missing, and gets no other format instead."""
    with pytest.raises(ValueError, match=r"H\.264 needs an optional library"):
        _clip().save_to(tmp_path / "x.mp4", codec="h264")
    deep = video.create_video(_fading(2), 5, None, 10)
    with pytest.raises(ValueError, match="more than 8 bits needs an optional library"):
        deep.save_to(tmp_path / "x.mp4")
    assert not list(tmp_path.iterdir())


@alone
def test_sound_that_cannot_be_decoded_is_reported(context: FolderContext, saved: Path) -> None:
    """Its frames are there, no matter who wants its sound is told why not, and it is not written again without it."""
    saved.write_bytes(saved.read_bytes().replace(b"Opus\0\0\0\0\0\0\0\1", b"mp4a\0\0\0\0\0\0\0\1"))
    loaded = video.load_video(context, saved.name)
    images, heard, _, _ = video.get_video_components(context, loaded)
    assert len(images) == 20
    assert isinstance(heard, Blocked)
    assert "AAC" in (heard.message or "")
    with pytest.raises(ValueError, match="with its sound"):
        video.save_video(context, video.trim_video(loaded, 0, 1, strict_duration=False), "x", "auto", "auto")
    path = context.root / "output" / "copy_00001_.mp4"
    video.save_video(context, loaded, "copy", "auto", "auto")
    assert mp4.tracks(path)[1].codec == "mp4a"
    with pytest.raises(ValueError, match="AAC"):
        audio_io.load_audio(context, saved.name)


def test_sound_of_a_video_can_be_loaded(context: FolderContext, saved: Path) -> None:
    """A video is a file of sound too, unless it has none."""
    assert audio_io.load_audio(context, saved.name)["waveform"].shape[1] == 2
    MadeClip(Components(_fading(2), None, Fraction(5))).save_to(saved)
    with pytest.raises(ValueError, match="no sound"):
        audio_io.load_audio(context, saved.name)


def test_sound_is_cut_where_the_frames_end(tmp_path: Path) -> None:
    """It is cut where they end; a shorter one stays as it is."""
    for seconds, heard in ((5.0, 1.0), (0.4, 0.4)):
        MadeClip(Components(_fading(10), _tone(seconds, 44_100), Fraction(10))).save_to(tmp_path / "x.mp4")
        found = FileClip(tmp_path / "x.mp4").get_components().audio
        assert found is not None
        assert found["waveform"].shape[-1] / found["sample_rate"] == pytest.approx(heard, abs=0.03)


def _avi(path: Path, count: int) -> None:
    named = path.with_suffix(".avi")
    writer = cv2.VideoWriter(str(named), cv2.CAP_FFMPEG, cv2.VideoWriter.fourcc(*"MJPG"), 10, (48, 32))
    for image in _fading(count):
        writer.write(np.ascontiguousarray((image[..., ::-1] * 255).astype(np.uint8)))
    writer.release()
    named.rename(path)


def test_avi_is_read_and_written_as_mp4(tmp_path: Path) -> None:
    """An AVI without a sound has frames, and is written again as MP4."""
    _avi(tmp_path / "x", 5)
    clip = FileClip(tmp_path / "x")
    assert clip.get_components().images.shape == (5, 32, 48, 3)
    clip.save_to(tmp_path / "y.mp4", codec="auto")
    assert len(FileClip(tmp_path / "y.mp4").get_components().images) == 5


@pytest.mark.parametrize(
    "content",
    [
        b"", b"#EXTM3U\n#EXTINF:1,\nhttp://127.0.0.1:1/x.ts\n", b"ffconcat version 1.0\nfile /etc/passwd\n",
        b"\x1a\x45\xdf\xa3" + b"\0" * 200, b"\0\0\0\x18ftypisom" + b"\xff" * 300, b"GIF89a\xff\xff\xff\xff",
    ],
)  # fmt: skip
def test_file_that_is_no_video_is_refused(context: FolderContext, content: bytes) -> None:
    """Anything else is a clear error; lists that name other files are not followed."""
    (context.root / "input" / "x.mp4").write_bytes(content)
    with pytest.raises(ValueError, match=r"video"):
        video.load_video(context, "x.mp4")
    with pytest.raises(ValueError, match=r"video|sound"):
        audio_io.load_audio(context, "x.mp4")


def test_broken_video_is_an_error_or_what_is_left_of_it(tmp_path: Path, saved: Path) -> None:
    """Cut off anywhere, or with bytes of its index changed, it is an error that says so, or what is left of it."""
    content, path = saved.read_bytes(), tmp_path / "x.mp4"
    generator = np.random.default_rng(7)
    for length in generator.integers(0, len(content), 12):
        path.write_bytes(content[:length])
        _look_at(path)
    index = content.index(b"moov"), content.index(b"mdtaprompt")
    for _ in range(30):
        broken = bytearray(content)
        for place in generator.integers(*index, 4):
            broken[place] = generator.integers(256)
        path.write_bytes(broken)
        _look_at(path)


def _look_at(path: Path) -> None:
    for look in (lambda: FileClip(path).get_components(), lambda: mp4.tracks(path)):
        try:
            look()
        except ValueError as error:
            assert str(error)  # noqa: PT017 -- that it is one, and says something, is all there is to assert


def test_impossible_packet_table_is_refused(saved: Path) -> None:
    """It is not believed, and nothing is allocated for it."""
    content = saved.read_bytes()
    place = content.index(b"stsz") + 8
    for each, count in ((0, 2**31), (2**31, 2**31), (1, 2**30)):
        saved.write_bytes(content[:place] + struct.pack(">II", each, count) + content[place + 8 :])
        with pytest.raises(ValueError, match=r"more packets|broken"):
            mp4.tracks(saved)


def test_pixels_of_a_video_are_bounded(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are counted before they are decoded, and again while they are; single frames have a bound of their own."""
    monkeypatch.setattr("fairlead.engine.media.arrays.PIXELS_MAX", 19 * 32 * 48)
    with pytest.raises(ValueError, match="more than the"):
        FileClip(saved).get_components()
    assert len(FileClip(saved, 0, 1.9).get_components().images) == 19
    monkeypatch.setattr("fairlead.engine.media.clip_frames.FRAME_PIXELS_MAX", 32 * 48 - 1)
    with pytest.raises(ValueError, match="48 x 32"):
        FileClip(saved).get_dimensions()


def test_video_can_be_interrupted_between_frames(saved: Path) -> None:
    """Between frames the node asks whether it should go on, while reading and while writing."""

    def stop() -> None:
        raise InterruptedByCallerError

    with pytest.raises(InterruptedByCallerError):
        FileClip(saved).get_components(stop)
    with pytest.raises(InterruptedByCallerError):
        _clip().save_to(saved.with_name("x.mp4"), check=stop)
    assert [path.name for path in saved.parent.iterdir() if path.is_dir()] == []


def test_clip_keeps_its_file_as_long_as_it_lives(tmp_path: Path, saved: Path) -> None:
    """A clip in the cache keeps its file, and gives it up when it goes itself."""
    clip = kept_clip(saved)
    assert size_of(clip) > saved.stat().st_size
    saved.unlink()
    part = clip.as_trimmed(0.5, 0.5)
    assert part is not None
    path = part.path
    del clip
    assert len(part.get_components().images) == 5
    del part
    assert not path.exists()
    assert not tmp_path.joinpath("clip").exists()


def test_video_of_a_pack_is_saved(tmp_path: Path, context: FolderContext) -> None:
    """Whatever says what it consists of is a video."""

    class PackVideo:
        def get_components(self) -> Any:
            return Components(_fading(4), None, Fraction(4))

    given: Any = PackVideo()
    path = _saved_files(tmp_path, video.save_video(context, given, "x", "auto", "auto"))
    assert len(FileClip(path).get_components().images) == 4


@together
def test_h264_is_written_with_the_optional_library(tmp_path: Path) -> None:
    """With the optional library a video is H.264 and AAC, and stays so when it is asked for."""
    _clip().save_to(tmp_path / "x.mp4")
    assert [track.codec for track in mp4.tracks(tmp_path / "x.mp4")] == ["avc1", "mp4a"]
    FileClip(tmp_path / "x.mp4").save_to(tmp_path / "y.mp4", codec="h264", metadata={"prompt": 1})
    assert [track.codec for track in mp4.tracks(tmp_path / "y.mp4")] == ["avc1", "mp4a"]
    video.create_video(_fading(4), 5, None, 10).save_to(tmp_path / "deep.mp4")
    assert len(FileClip(tmp_path / "deep.mp4").get_components().images) == 4


def _execute(root: Path, document: dict[str, Any]) -> Outcome:
    for kind in ("input", "output", "temp"):
        (root / kind).mkdir(exist_ok=True)
    files = Folders(root / "input", root / "output", root / "temp")
    registry = Registry(images_io.NODES, audio_io.NODES, video.NODES)

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


def test_workflow_of_videos_is_executed(tmp_path: Path, saved: Path) -> None:
    """Load, cut, take apart, put together with a sound, and save as both formats; nothing else is left behind."""
    document = {
        "1": _node("LoadVideo", file=saved.name),
        "2": _node("Video Slice", video=["1", 0], start_time=0.5, duration=1, strict_duration=True),
        "3": _node("GetVideoComponents", video=["2", 0]),
        "4": _node("CreateVideo", images=["3", 0], audio=["3", 1], fps=["3", 2], bit_depth=["3", 3]),
        "5": _node("SaveVideo", video=["4", 0], filename_prefix="v/x", format="mp4", codec="auto"),
        "6": _node("SaveWEBM", images=["3", 0], filename_prefix="v/y", codec="vp9", fps=["3", 2], crf=32),
        "7": _node("SaveAudio", audio=["3", 1], filename_prefix="v/z"),
    }
    outcome = _execute(tmp_path, document)
    assert isinstance(outcome.ending, Succeeded), outcome.ending
    saved_file = {"filename": "x_00001_.mp4", "subfolder": "v", "type": "output"}
    assert outcome.ui["5"] == {"images": [saved_file], "animated": [True], "video": [saved_file]}
    made = sorted(path.name for path in (tmp_path / "output" / "v").iterdir())
    assert made == ["x_00001_.mp4", "y_00001_.webm", "z_00001_.flac"]
    found = FileClip(tmp_path / "output" / "v" / "x_00001_.mp4").get_components()
    assert np.abs(found.images - _fading()[5:15]).max() < 0.05
    assert found.audio is not None


def test_missing_video_fails_validation(tmp_path: Path) -> None:
    """Validation says which file there is not; a broken one is the error of the node that loads it."""
    document = {
        "1": _node("LoadVideo", file="x.mp4"),
        "2": _node("SaveVideo", video=["1", 0], filename_prefix="x", format="auto", codec="auto"),
    }
    with pytest.raises(InvalidGraphError) as refused:
        _execute(tmp_path, document)
    (fault,) = refused.value.node_faults["1"].faults
    assert "Invalid video file: x.mp4" in fault.details
    (tmp_path / "input" / "x.mp4").write_bytes(b"no video")
    outcome = _execute(tmp_path, document)
    assert isinstance(outcome.ending, Failed)
    assert "not a video" in str(outcome.ending)
