"""`fairlead demo` shows a newcomer everything, and fails in one line when it cannot."""

import re
import subprocess
import sys
import wave
from pathlib import Path

import cv2
import PIL.Image
import pytest

_SECONDS = 400


def _demo(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the demonstration in a folder of its own, on a free port."""
    return subprocess.run(
        [sys.executable, "-m", "fairlead", "demo", "--once", "--port", "0", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )


@pytest.mark.timeout(_SECONDS * 2)
def test_everything_is_run_and_shown_also_on_a_photo(tmp_path: Path) -> None:
    """One run of each model, an edit and two workflows, each on a line of the table, in files that open."""
    shown = _demo(tmp_path)

    assert (shown.returncode, shown.stderr) == (0, "")
    for name in ("an image", "audio", "video", "text", "an edit of that image"):
        assert re.search(rf"^{name} +200 +\d+\.\d\d +\d+\.\d\d? ", shown.stdout, re.MULTILINE), name
    assert re.search(r"^a model's schema +200 ", shown.stdout, re.MULTILINE)
    assert re.search(r"^the same, with its ETag +304 ", shown.stdout, re.MULTILINE)
    assert "HTTP/1.1 422 Unprocessable Entity" in shown.stdout
    assert "x-service-error-type: invalid_input" in shown.stdout
    assert len(re.findall(r"^  (?:hold|post) +local/", shown.stdout, re.MULTILINE)) == 12
    assert re.search(r"^a workflow on it +200 ", shown.stdout, re.MULTILINE)
    assert re.search(r"^a workflow to a clip +200 .* 24 frames ", shown.stdout, re.MULTILINE)
    assert "The books are right.\n" in shown.stdout
    assert shown.stdout.endswith("sign in with the key in demo-data/first-operator-key.\n")
    _check_results(tmp_path / "demo-output")
    _check_photo(tmp_path)


def _check_results(output: Path) -> None:
    for name in ("picture.png", "picture-edited.png"):
        with PIL.Image.open(output / name) as picture:
            assert picture.size == (768, 512)
    with wave.open(str(output / "music.wav")) as sound:
        assert sound.getnframes() / sound.getframerate() == pytest.approx(4, abs=0.1)
    with PIL.Image.open(output / "workflow.png") as picture:
        assert picture.size == (768, 384)
    for name in ("clip.mp4", "workflow-clip.mp4"):
        assert cv2.VideoCapture(str(output / name)).read()[0]
    assert (output / "prose.txt").read_text("utf-8").strip()


def _check_photo(folder: Path) -> None:
    """A picture of the caller's keeps its shape; a second demonstration finds the key the first one made."""
    PIL.Image.new("RGB", (300, 200), "teal").save(folder / "holiday.jpg")
    shown = _demo(folder, "--photo", "holiday.jpg")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert re.search(r"^an edit of holiday\.jpg +200 ", shown.stdout, re.MULTILINE)
    with PIL.Image.open(folder / "demo-output" / "photo-edited.png") as picture:
        assert picture.size == (300, 200)
    assert len(re.findall(r"^  (?:hold|post) +local/", shown.stdout, re.MULTILINE)) == 12


def test_photo_that_is_no_picture_is_refused_in_one_line(tmp_path: Path) -> None:
    """Nothing is started for it."""
    (tmp_path / "notes.txt").write_text("not a picture")

    shown = _demo(tmp_path, "--photo", "notes.txt")

    assert (shown.returncode, shown.stdout) == (1, "")
    assert shown.stderr == "Error: notes.txt is not a picture that can be edited; use a PNG, JPEG or WebP\n"
    assert not (tmp_path / "demo-data").exists()


def test_photo_that_is_too_large_is_refused_in_one_line(tmp_path: Path) -> None:
    """The limit is named."""
    PIL.Image.new("L", (4097, 1)).save(tmp_path / "panorama.png")

    shown = _demo(tmp_path, "--photo", "panorama.png")

    assert (shown.returncode, shown.stdout) == (1, "")
    assert re.fullmatch(r"Error: panorama\.png is too large; .*4,096 pixels.*\n", shown.stderr)
