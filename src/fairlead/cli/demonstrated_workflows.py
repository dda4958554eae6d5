"""The workflows of `fairlead demo`: files are uploaded, jobs watched over the socket, and their outputs downloaded.

It uses the cloud API as any client would.
"""

import json
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import click
from msgspec.structs import replace
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from fairlead.cli.demonstration import (
    Demonstration,
    Photo,
    Reply,
    Step,
    ask,
    expect,
    fetch,
    frames_of,
    send,
    size_of,
    step_of,
)

_WATCH_SECONDS: Final = 300.0
_LINE_LENGTH_MAX: Final = 78
_ERASE_LINE: Final = "\r\x1b[K"
_BOUNDARY: Final = "fairlead-demo-7f3a91"
_SIDE: Final = 384
_FRAMES: Final = 24
_ENDINGS: Final = ("execution_success", "execution_error", "execution_interrupted")
Graph = dict[str, dict[str, object]]


def workflow_steps(shown: Demonstration) -> Iterator[Step]:
    """Run a workflow on a picture and one that ends in a video; ClickException for the first that fails."""
    name, uploaded = _upload(shown, shown.picture)
    yield uploaded
    pictures, job = _run_workflow(shown, _picture_workflow(name))
    shown.partner_nodes += 1
    width, height = size_of(pictures)
    expect((width, height) == (2 * _SIDE, _SIDE), f"the workflow made {width} x {height} pixels")
    yield step_of(shown, "a workflow on it", job, f"{width} x {height} pixels in", ("workflow.png", pictures))
    again, cached = _run_workflow(shown, _picture_workflow(name))
    expect(again == pictures, "the same workflow made another picture")
    yield step_of(shown, "the same again", cached, "the same picture, and no node was executed")
    clip, made = _run_workflow(shown, _video_workflow(name))
    step = step_of(shown, "a workflow to a clip", made, "", ("workflow-clip.mp4", clip))
    frames, rate = frames_of(shown.output / "workflow-clip.mp4")
    expect(frames == _FRAMES, f"the clip has {frames} frames, not {_FRAMES}")
    yield Step(
        step.name, step.status, step.seconds, step.credits, f"{frames} frames at {rate:g} a second in{step.result}"
    )


def _picture_workflow(name: str) -> Graph:
    """A picture beside a sketch of it that the local model draws, both framed; ten nodes, one of them a partner's."""
    return {
        "1": _node("LoadImage", image=name),
        "2": _node("ImageScale", image=["1", 0], upscale_method="lanczos", width=_SIDE, height=_SIDE, crop="center"),
        "3": _node("ImageSharpen", image=["2", 0], sharpen_radius=1, sigma=1.0, alpha=0.6),
        "4": _node("PartnerLocalProceduralImage1", prompt="a pencil sketch", image=["3", 0], strength=0.9, seed=7),
        "5": _node("ImageBlur", image=["4", 0], blur_radius=2, sigma=0.8),
        "6": _node("ImageBlend", image1=["5", 0], image2=["3", 0], blend_factor=0.35, blend_mode="normal"),
        "7": _node("ImageStitch", image1=["3", 0], image2=["6", 0], direction="right", match_image_size=True,
                   spacing_width=0, spacing_color="white"),
        "8": _node("ImageQuantize", image=["7", 0], colors=200, dither="none"),
        "9": _node("GetImageSize", image=["8", 0]),
        "10": _node("PreviewAny", source=["9", 0]),
        "11": _node("SaveImage", images=["8", 0], filename_prefix="demo/workflow"),
    }  # fmt: skip


def _video_workflow(name: str) -> Graph:
    """A clip in which a picture comes out of a haze."""
    graph: Graph = {
        "1": _node("LoadImage", image=name),
        "2": _node("ImageScale", image=["1", 0], upscale_method="area", width=_SIDE, height=_SIDE, crop="center"),
        "3": _node("ImageBlur", image=["2", 0], blur_radius=24, sigma=8.0),
        "clip": _node("CreateVideo", images=[f"joined{_FRAMES - 1}", 0], fps=12.0),
        "saved": _node("SaveVideo", video=["clip", 0], filename_prefix="demo/clip", format="auto", codec="auto"),
    }
    for number in range(_FRAMES):
        blend = {"blend_factor": round(number / (_FRAMES - 1), 2), "blend_mode": "normal"}
        graph[f"frame{number}"] = _node("ImageBlend", image1=["3", 0], image2=["2", 0], **blend)
        if number:
            before = "frame0" if number == 1 else f"joined{number - 1}"
            graph[f"joined{number}"] = _node("ImageBatch", image1=[before, 0], image2=[f"frame{number}", 0])
    return graph


def _node(class_type: str, **inputs: object) -> dict[str, object]:
    return {"class_type": class_type, "inputs": inputs}


def _upload(shown: Demonstration, photo: Photo) -> tuple[str, Step]:
    """Upload a picture; the name it has in workflows."""
    extension = photo.media_type.rpartition("/")[2]
    head = (
        f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="type"\r\n\r\ninput\r\n'
        f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="image"; filename="demo.{extension}"\r\n'
        f"Content-Type: {photo.media_type}\r\n\r\n"
    )
    content = head.encode() + photo.content + f"\r\n--{_BOUNDARY}--\r\n".encode()
    reply = send(shown, "/api/upload/image", content, f"multipart/form-data; boundary={_BOUNDARY}")
    name = str(reply.json()["name"])
    return name, Step(
        "a picture, uploaded", reply.status, reply.seconds, None, f"{len(photo.content):,} bytes as {name}"
    )


def _run_workflow(shown: Demonstration, graph: Graph) -> tuple[bytes, Reply]:
    """Run a workflow, showing its progress, and download the file it has made; the answer lasts as long as the job."""
    began = time.perf_counter()
    address = shown.url.replace("http", "ws", 1)
    try:
        with connect(f"{address}/ws?{urlencode({'token': shown.key})}", max_size=None) as socket:
            body = {"prompt": graph, "extra_data": {"api_key_service_org": shown.key}}
            reply = ask(shown, "POST", "/api/prompt", 200, body)
            job_id = str(reply.json()["prompt_id"])
            ending = _watch_job(socket, job_id, graph)
    except (OSError, WebSocketException) as error:
        raise click.ClickException(f"the socket of {shown.url} failed: {str(error) or type(error).__name__}") from error
    if ending["type"] != _ENDINGS[0]:
        raise click.ClickException(
            f"the job {job_id} failed: {ending['data'].get('exception_message', ending['type'])}"
        )
    job = ask(shown, "GET", f"/api/jobs/{job_id}", 200).json()
    file = _file_of(job["outputs"])
    query = urlencode({part: file[part] for part in ("filename", "subfolder", "type")})
    link = ask(shown, "GET", f"/api/view?{query}", 302).headers["location"]
    expect(urlsplit(link).netloc == urlsplit(shown.url).netloc, f"the link leads to {link}")
    return fetch(link), replace(reply, seconds=time.perf_counter() - began)


def _watch_job(socket: Any, job_id: str, graph: Graph) -> dict[str, Any]:
    """Follow a job to its end, with a line that shows its progress."""
    done: set[str] = set()
    is_live = sys.stderr.isatty()
    give_up_at = time.monotonic() + _WATCH_SECONDS
    while time.monotonic() < give_up_at:
        said = socket.recv(timeout=_WATCH_SECONDS)
        if isinstance(said, bytes):
            continue  # a preview, which a terminal cannot show
        message: dict[str, Any] = json.loads(said)
        data = message["data"]
        if data.get("prompt_id") != job_id:
            continue
        if message["type"] == "execution_cached":
            done.update(data["nodes"])
        elif message["type"] == "progress_state":
            done.update(id_ for id_, one in data["nodes"].items() if one["state"] == "finished")
        elif message["type"] == "executing" and data["node"] in graph and is_live:
            line = f"{len(done)} of {len(graph)} nodes done, now {graph[data['node']]['class_type']}"
            click.echo(f"{_ERASE_LINE}{line[:_LINE_LENGTH_MAX]}", err=True, nl=False)
        elif message["type"] in _ENDINGS:
            if is_live:
                click.echo(_ERASE_LINE, err=True, nl=False)
            return message
    raise click.ClickException(f"the job {job_id} had not ended within {_WATCH_SECONDS:g} seconds")


def _file_of(outputs: Mapping[str, Mapping[str, Any]]) -> Mapping[str, object]:
    """The one file among the outputs of a job."""
    files: dict[str, Mapping[str, object]] = {
        item["filename"]: item
        for shown in outputs.values()
        for kind in ("images", "video", "audio")
        for item in shown.get(kind, ())
        if item.get("type") == "output"
    }
    expect(len(files) == 1, f"the workflow left {len(files)} files, not one")
    return next(iter(files.values()))
