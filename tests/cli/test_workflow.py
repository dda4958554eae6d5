"""`fairlead workflow`: a workflow is checked and run where it lies, without a server."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from click.testing import CliRunner, Result
from PIL import Image

from engine.executions import n
from fairlead.cli import commands
from servers import kill_at_last

Ran = Callable[..., Result]

_INVERTED: Final = {
    "1": n("LoadImage", image="photo.png"),
    "2": n("ImageInvert", image=["1", 0]),
    "3": n("ImageScale", image=["2", 0], upscale_method="nearest-exact", width=8, height=0, crop="disabled"),
    "4": n("SaveImage", images=["3", 0], filename_prefix="made/photo"),
    "5": n("PreviewImage", images=["1", 0]),
    "6": n("GetImageSize", image=["3", 0]),
    "7": n("PreviewAny", source=["6", 1]),
}


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ran:
    """Return a function that keeps a workflow in a file beside a picture, and runs a command on it."""
    monkeypatch.chdir(tmp_path)
    pixels = np.zeros((2, 4, 3), np.uint8)
    pixels[..., 0] = 255
    Image.fromarray(pixels).save(tmp_path / "photo.png")

    def run(verb: str, document: Any, *arguments: str) -> Result:
        content = document if isinstance(document, str) else json.dumps(document)
        (tmp_path / "flow.json").write_text(content)
        return CliRunner().invoke(commands, ["workflow", verb, "flow.json", *arguments])

    return run


def test_workflow_is_run_and_its_files_listed(ran: Ran, tmp_path: Path) -> None:
    """The picture beside the workflow is loaded, inverted, doubled and saved; a table says what was written."""
    done = ran("run", _INVERTED)
    assert done.exit_code == 0, done.output
    saved = tmp_path / "output" / "made" / "photo_00001_.png"
    with Image.open(saved) as picture:
        assert (picture.size, picture.getpixel((0, 0))) == ((8, 4), (0, 255, 255))
    rows = [line.split() for line in done.stdout.splitlines()]
    assert rows[0] == ["node", "7", "shows:", "4"]
    assert rows[1] == ["node", "class", "file", "bytes"]
    assert ["4", "SaveImage", "output/made/photo_00001_.png", str(saved.stat().st_size)] in rows
    assert [row[1] for row in rows[2:] if row[0] == "5"] == ["PreviewImage"]
    assert "ImageScale (3)" in done.stderr


def test_given_folders_are_used(ran: Ran, tmp_path: Path) -> None:
    """--input is where files are loaded from, --output where they go; numbers go on with the next run."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "photo.png").rename(tmp_path / "elsewhere" / "photo.png")
    for _ in range(2):
        done = ran("run", _INVERTED, "--input", "elsewhere", "--output", "made/here", "--target", "4")
        assert done.exit_code == 0, done.output
    files = sorted(path.relative_to(tmp_path).as_posix() for path in (tmp_path / "made").rglob("*.*"))
    assert files == ["made/here/made/photo_00001_.png", "made/here/made/photo_00002_.png"]
    assert ran("run", _INVERTED, "--input", "nowhere").exit_code == 1


def test_json_outcome_is_one_document(ran: Ran) -> None:
    """With --json the outcome is one document, and nothing else is printed."""
    done = ran("run", _INVERTED, "--json")
    document = json.loads(done.stdout)
    assert (document["status"], document["node_errors"], done.stderr) == ("succeeded", {}, "")
    assert document["outputs"]["7"]["text"] == ["4"]
    assert sorted(file["node"] for file in document["files"]) == ["4", "5"]


def test_node_that_fails_is_named(ran: Ran, tmp_path: Path) -> None:
    """The error names the node, its class and its inputs, and ends the command with 1."""
    (tmp_path / "photo.png").write_bytes(b"no picture")
    done = ran("run", _INVERTED)
    assert (done.exit_code, done.stdout) == (1, "Nothing was written.\n")
    assert "fairlead: node 1 (LoadImage): " in done.stderr
    assert "image = photo.png" in done.stderr
    document = json.loads(ran("run", _INVERTED, "--json").stdout)
    assert (document["status"], document["error"]["node"], document["error"]["class"]) == ("failed", "1", "LoadImage")


def test_faulty_output_leaves_the_others(ran: Ran, tmp_path: Path) -> None:
    """The others are made; the fault is told, and the status says that something was not made."""
    document = {**_INVERTED, "8": n("SaveImage", images=["1", 7], filename_prefix="x")}
    checked = ran("check", document)
    assert (checked.exit_code, checked.stdout) == (1, "8 nodes; these outputs can be made: 4, 5, 7\n")
    assert checked.stderr == "node 8 (SaveImage): Exception when validating node: list index out of range\n"
    done = ran("run", document)
    assert (done.exit_code, (tmp_path / "output" / "made" / "photo_00001_.png").exists()) == (1, True)
    assert "node 8 (SaveImage)" in done.stderr


def test_workflow_that_cannot_be_run_is_refused_by_fault(ran: Ran) -> None:
    """Nothing is made of it, and each fault is a line."""
    document = {**_INVERTED, "1": n("LoadImage", image="gone.png"), "5": n("PreviewImage", images=["2", 0])}
    for verb in ("check", "run"):
        done = ran(verb, document)
        assert (done.exit_code, done.stdout) == (1, "")
        assert "node 1 (LoadImage): Custom validation failed" in done.stderr
    missing = ran("check", {"1": n("Nothing")})
    assert missing.stderr.startswith("fairlead: Node 'Nothing' is of the class 'Nothing', which is not installed.")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[", "is not JSON"),
        ('{"nodes": [], "links": []}', "save the workflow in the API format"),
        ('{"1": {}}', "node '1' has no object `inputs`"),
    ],
)
def test_file_that_is_no_workflow_is_refused(ran: Ran, content: str, words: str) -> None:
    """It is refused in one line."""
    done = ran("run", content)
    assert done.exit_code == 1
    assert words in done.stderr


def test_nodes_are_listed() -> None:
    """All of them by name, or one with its inputs and outputs; an unknown one with what it might be."""
    listed = CliRunner().invoke(commands, ["workflow", "nodes"]).stdout
    assert "ImageScale " in listed
    one = CliRunner().invoke(commands, ["workflow", "nodes", "ImageScale"]).stdout
    assert "default 512, min 0, max 16384" in one
    assert one.splitlines()[-1] == "output  IMAGE  IMAGE"
    described = json.loads(CliRunner().invoke(commands, ["workflow", "nodes", "ImageScale", "--json"]).stdout)
    assert list(described) == ["ImageScale"]
    unknown = CliRunner().invoke(commands, ["workflow", "nodes", "ImageScal"])
    assert (unknown.exit_code, "ImageScale" in unknown.stderr) == (1, True)


def test_words_of_a_workflow_cannot_control_the_terminal(ran: Ran) -> None:
    """What a node shows is printed without control characters, and not without end."""
    words = "\x1b[2Jred" + "x" * 1000
    done = ran("run", {"1": n("PreviewAny", source=["2", 0]), "2": n("PrimitiveString", value=words)})
    assert "\x1b" not in done.stdout
    assert len(done.stdout) < 400


def test_engine_is_loaded_only_by_workflow_commands() -> None:
    """Anyone who does not run workflows does not wait for it."""
    script = "import sys, fairlead.cli; print([name for name in ('numpy', 'cv2', 'PIL') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_ctrl_c_leaves_no_files_behind(tmp_path: Path) -> None:
    """The first one ends the run between two nodes, with status 130 and a word."""
    pads = {
        str(index): n("ImagePadForOutpaint", image=[str(index - 1), 0], left=8, top=0, right=0, bottom=0, feathering=40)
        for index in range(1, 400)
    }
    document = {
        "0": n("EmptyImage", width=1024, height=1024, batch_size=1, color=0),
        **pads,
        "save": n("SaveImage", images=["399", 0], filename_prefix="x"),
    }
    (tmp_path / "flow.json").write_text(json.dumps(document))
    command = [sys.executable, "-m", "fairlead", "workflow", "run", "flow.json"]
    with (
        subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running,
        kill_at_last(running),
    ):
        assert running.stderr is not None
        assert "EmptyImage" in running.stderr.readline()
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=30)
    assert running.returncode == 130
    assert said.endswith("fairlead: interrupted\n")
    assert not (tmp_path / "output" / "x_00001_.png").exists()
