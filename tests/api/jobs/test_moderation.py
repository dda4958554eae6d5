"""A server at which an operator's own callable judges what is sent, in both APIs that take files (J-14, C-02)."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from PIL import Image

from api.cloud.clients import picture
from api.jobs.callers import JobsCaller, refusal_of
from api.jobs.conftest import ENGINE
from fairlead.server.settings import BadSettingError, read_settings
from moderation.callables import callable_file
from servers import ServerFailedError, serving

_ASSETS: Final = "/api/v2/assets"
_JUDGE: Final = """
import sys
from PIL import Image

print("made by the callable")

def judge(content):
    if content.content_type != "image/png":
        sys.exit("it takes pictures only")
    with Image.open(content.path) as picture:
        return "it is too red" if picture.convert("RGB").getpixel((0, 0))[0] > 200 else False
"""


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JobsCaller]:
    """Return a caller of a server with a callable that blocks red pictures, and dies of what is not a picture."""
    folder = tmp_path_factory.mktemp("judged")
    env = {**ENGINE, "FAIRLEAD_MODERATION": callable_file(folder, _JUDGE)}
    with serving(folder / "data", env=env, arguments=("--no-local-partner",)) as server:
        yield JobsCaller(server, "default", server.key)


def draw(red: int) -> bytes:
    """Return a small picture."""
    content = io.BytesIO()
    Image.new("RGBA", (8, 8), (red, 0, 0, 255)).save(content, "PNG")
    return content.getvalue()


def send(caller: JobsCaller, content: bytes, **fields: str) -> httpx.Response:
    """Send an asset."""
    return caller.ask("POST", _ASSETS, files={"file": ("a.png", content)}, data=fields)


def upload(caller: JobsCaller, content: bytes, what: str = "image", **fields: str) -> tuple[int, Any]:
    """Upload a file at the cloud API, and return the status of the answer and the type of its error."""
    response = caller.ask("POST", f"/api/upload/{what}", files={"image": ("a.png", content)}, data=fields)
    return response.status_code, response.json().get("code")


def stored_files(caller: JobsCaller) -> list[Path]:
    """Return the bytes that a server keeps."""
    return [path for path in (caller.server.data / "blobs").rglob("*") if path.is_file()]


@pytest.mark.req("J-14", "J-07")
def test_blocked_bytes_are_451_in_the_jobs_api(judged: JobsCaller) -> None:
    """They are refused with 451, what cannot be judged with 500 as anything that fails; neither is kept.

    It does not help to say that they are something else.
    """
    before = stored_files(judged)
    assert refusal_of(send(judged, draw(250))) == (451, "content_blocked")
    assert refusal_of(send(judged, draw(250), content_type="video/mp4")) == (451, "content_blocked")
    assert refusal_of(send(judged, b"no picture")) == (500, "upstream_error")
    assert stored_files(judged) == before
    assert send(judged, draw(20)).status_code == 201
    assert [line["reason"] for line in judged.server.logged_events("ContentRefused")][:1] == ["it is too red"]
    assert "the code 1" in judged.server.logged_events("ModerationFailed")[0]["reason"]
    assert "made by the callable" not in judged.server.log.read_text("utf-8")


@pytest.mark.req("C-02", "C-03", "C-14", "J-14")
def test_blocked_bytes_are_451_in_the_cloud_api(judged: JobsCaller) -> None:
    """The cloud API refuses them in its own envelope; a mask is judged as it was drawn."""
    before = stored_files(judged)
    assert upload(judged, draw(251)) == (451, "content_blocked")
    assert upload(judged, b"no picture either") == (503, "service_unavailable")
    assert stored_files(judged) == before
    assert upload(judged, draw(21)) == (200, None)
    original = json.dumps({"filename": "a.png", "type": "input"})
    assert upload(judged, draw(252), "mask", original_ref=original) == (451, "content_blocked")
    assert upload(judged, draw(22), "mask", original_ref=original) == (200, None)


@pytest.mark.req("J-14")
def test_output_of_a_job_is_not_judged(judged: JobsCaller) -> None:
    """It is not, until a caller makes an asset of it."""
    job = judged.runs(picture(colour=0xFF0000))
    assert job["status"] == "succeeded", job
    made = judged.ask("POST", f"{_ASSETS}/from-hash", json={"hash": job["outputs"][0]["hash"], "file_path": "b.png"})
    assert refusal_of(made) == (451, "content_blocked")


@pytest.mark.req("J-14")
def test_server_does_not_start_without_its_callable(tmp_path: Path) -> None:
    """One that cannot be loaded stops the start with one line that says why."""
    env = {**ENGINE, "FAIRLEAD_MODERATION": callable_file(tmp_path, "import no_such_module")}
    with pytest.raises(ServerFailedError) as raised, serving(tmp_path / "data", env=env):
        pass
    (line,) = [line for line in str(raised.value).splitlines() if "FAIRLEAD_MODERATION" in line]
    assert line.endswith("cannot be used: ModuleNotFoundError: No module named 'no_such_module' (judge.py, line 1)")
    assert "Traceback" not in str(raised.value)


def test_moderation_setting_must_name_a_callable() -> None:
    """A module or a file, and a function; a file is found wherever the server looks for it."""
    for bad in ("judge", "judge.py", ":judge", "rules:", "rules:a.b", "rules/strict:judge", "rules..strict:judge"):
        with pytest.raises(BadSettingError, match="FAIRLEAD_MODERATION: must be module:function"):
            read_settings({}, moderation=bad)
    assert read_settings({}, moderation="rules.strict:judge").moderation == "rules.strict:judge"
    named = read_settings({}, moderation="rules/strict.py:judge").moderation
    assert named == f"{Path('rules/strict.py').absolute()}:judge"
