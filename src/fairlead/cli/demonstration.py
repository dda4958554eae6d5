"""The steps of `fairlead demo`: the calls to the server, and the proof that the answers are what they claim to be.

It calls the server as any caller would, over HTTP, and opens every result with the library people would use.
"""

import asyncio
import base64
import http.client
import io
import json
import time
import uuid
import warnings
import wave
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import click
import msgspec

from fairlead.domain.ledger.money import as_dollars
from fairlead.operations.ledger import books
from fairlead.server.installation import opened_database
from fairlead.server.settings import read_settings

PHOTO_BYTES_MAX: Final = 16 * 1024 * 1024
PHOTO_SIDE_MAX: Final = 4096
_WAIT_SECONDS: Final = 300.0
_LINE: Final = 96
_SENT_SHOWN: Final = 300
_MODELS: Final = "/v2/models"
_EXTENSIONS: Final = {"image/png": "png", "image/jpeg": "jpg", "image/webp": "webp"}
_MEDIA_TYPES: Final = {"PNG": "image/png", "JPEG": "image/jpeg", "MPO": "image/jpeg", "WEBP": "image/webp"}
"""By the names Pillow gives; MPO is what phones write when a JPEG holds a second picture."""
_HEADERS_SHOWN: Final = ("content-type", "x-service-error-type", "x-service-request-id")


class Photo(msgspec.Struct, frozen=True):
    """A picture to edit: its name for people, its media type and its bytes."""

    name: str
    media_type: str
    content: bytes

    @property
    def data_uri(self) -> str:
        """The picture as the model takes it."""
        return f"data:{self.media_type};base64,{base64.b64encode(self.content).decode('ascii')}"


class Reply(msgspec.Struct, frozen=True):
    """An answer of the server, with how long it took; header names are lower-case."""

    path: str
    sent: str
    status: int
    headers: Mapping[str, str]
    content: bytes
    seconds: float

    def json(self) -> Any:
        """The decoded body."""
        return json.loads(self.content)


class Step(msgspec.Struct, frozen=True):
    """A line of the table."""

    name: str
    status: int
    seconds: float
    credits: str | None
    result: str


@dataclass(slots=True)
class Demonstration:
    """What the steps share: the server, the folder of results, and the results of earlier steps."""

    url: str
    key: str
    data: Path
    output: Path
    photo: Photo | None
    run_ids: list[str] = field(default_factory=list)
    picture: Photo = field(init=False)
    refusal: Reply = field(init=False)
    began: int = field(default_factory=lambda: time.time_ns() // 1_000_000)
    partner_nodes: int = 0
    """Runs that workflows have made, whose ids are only in the ledger."""


def read_photo(path: Path) -> Photo:
    """Read a picture to edit; ClickException in one line when it cannot be one."""
    import PIL.Image  # noqa: PLC0415 -- the server and every other command do without pictures

    try:
        content = path.read_bytes()
        with (
            warnings.catch_warnings(action="ignore"),  # the picture is about to be refused
            PIL.Image.open(io.BytesIO(content), formats=("PNG", "JPEG", "WEBP")) as picture,
        ):
            width, height = picture.size
            if len(content) > PHOTO_BYTES_MAX or max(width, height) > PHOTO_SIDE_MAX:
                raise _too_large(path)
            picture.load()
            return Photo(path.name, _MEDIA_TYPES[str(picture.format)], content)
    except PIL.Image.DecompressionBombError as error:
        raise _too_large(path) from error
    except (PIL.UnidentifiedImageError, SyntaxError, ValueError) as error:
        raise click.ClickException(f"{path} is not a picture that can be edited; use a PNG, JPEG or WebP") from error
    except OSError as error:
        raise click.ClickException(f"{path} cannot be read: {error.strerror or error}") from error


def _too_large(path: Path) -> click.ClickException:
    limits = f"{PHOTO_SIDE_MAX:,} pixels a side and {PHOTO_BYTES_MAX // 2**20} MiB"
    return click.ClickException(f"{path} is too large; a picture to edit may have {limits}")


def steps(shown: Demonstration) -> Iterator[Step]:
    """Run every local model, one step after the other; ClickException for the first that fails."""
    yield _catalog(shown)
    yield from _schema(shown)
    picture = yield from _image(shown)
    shown.picture = shown.photo or picture
    yield _audio(shown)
    yield _video(shown)
    yield _text(shown)
    yield _edit(shown, shown.picture)
    yield _show_refusal(shown)


def spell_out(reply: Reply) -> list[str]:
    """An answer as `curl -i` would show it: its status, the headers that matter, its JSON."""
    reason = http.client.responses.get(reply.status, "")
    headers = [f"{name}: {reply.headers[name]}" for name in _HEADERS_SHOWN]
    return [f"HTTP/1.1 {reply.status} {reason}", *headers, *_lay_out(reply.json()).splitlines()]


def ledger_lines(shown: Demonstration) -> list[str]:
    """The ledger entries of the steps, an aligned line each, in dollars."""
    newest, _ = _in_books(shown, books.entries, "default", 1000)
    entries = [entry for entry in newest if entry["created_at"] >= shown.began]
    wanted = ("kind", "model", "held", "balance", "rates")
    rows = [
        (
            entry["kind"],
            entry["model_id"],
            _with_sign(entry["held_change"]),
            _with_sign(entry["balance_change"]),
            entry["rate_version"],
        )
        for entry in entries
    ]
    runs = len(shown.run_ids) + shown.partner_nodes
    expect(len(rows) == 2 * runs, f"{runs} runs left {len(rows)} entries in the ledger, not two each")
    return _align([wanted, *rows])


def prove_books(shown: Demonstration) -> str:
    """Prove the books, and say so in a sentence; ClickException when they are wrong."""
    report = _in_books(shown, books.audit)
    if not report.is_clean:
        raise click.ClickException(f"the books are wrong; run `fairlead audit --data {shown.data}`")
    return (
        f"Audit: {report.totals['entries']} entries of {report.totals['runs_succeeded']} runs add up to every balance, "
        "and every hold is settled. The books are right."
    )


def _catalog(shown: Demonstration) -> Step:
    reply = ask(shown, "GET", _MODELS, 200)
    models = reply.json()["data"]
    return step_of(shown, "the catalog", reply, f"{len(models)} models in", ("catalog.json", reply.content))


def _schema(shown: Demonstration) -> Iterator[Step]:
    path = f"{_MODELS}/local/procedural-image-1/openapi.json"
    reply = ask(shown, "GET", path, 200)
    fields = reply.json()["paths"][path.removesuffix("/openapi.json")]["post"]["requestBody"]["content"]
    names = fields["application/json"]["schema"]["properties"]
    yield step_of(shown, "a model's schema", reply, f"{len(names)} input fields in", ("schema.json", reply.content))
    again = ask(shown, "GET", path, 304, headers={"If-None-Match": reply.headers["etag"]})
    yield step_of(shown, "the same, with its ETag", again, f"unchanged, {len(again.content)} bytes sent")


def _image(shown: Demonstration) -> Generator[Step, None, Photo]:
    body = {"prompt": "dawn over a harbour", "width": 768, "height": 512, "seed": 7}
    reply = _run(shown, "image", body)
    picture, size = _picture_of(reply)
    expect(size == (768, 512), f"the picture is {size[0]} x {size[1]} pixels, not 768 x 512")
    yield step_of(shown, "an image", reply, "768 x 512 pixels in", ("picture.png", picture.content))
    return picture


def _audio(shown: Demonstration) -> Step:
    reply = _run(shown, "audio", {"prompt": "calm piano by the sea", "duration_seconds": 4, "seed": 7})
    with wave.open(io.BytesIO(reply.content)) as sound:
        seconds = sound.getnframes() / sound.getframerate()
    expect(abs(seconds - 4) < 0.1, f"the audio lasts {seconds:.2f} seconds, not 4")  # noqa: PLR2004 -- 4 was asked for
    return step_of(shown, "audio", reply, f"{seconds:.1f} seconds of sound in", ("music.wav", reply.content))


def _video(shown: Demonstration) -> Step:
    reply = _run(shown, "video", {"prompt": "aurora over the hills", "duration_seconds": 2, "seed": 7})
    content = fetch(reply.json()["result"]["url"])
    step = step_of(shown, "video", reply, "", ("clip.mp4", content))
    frames, rate = frames_of(shown.output / "clip.mp4")
    expect(frames == round(2 * rate), f"the video has {frames} frames at {rate:g} a second, not 2 seconds of them")
    return Step(step.name, step.status, step.seconds, step.credits, f"{frames} frames, 2.0 seconds in{step.result}")


def _text(shown: Demonstration) -> Step:
    reply = _run(shown, "text", {"prompt": "a lighthouse in the fog", "max_characters": 300, "seed": 7})
    text = reply.json()["text"]
    expect(0 < len(text) <= 300, f"the text has {len(text)} characters, not 1 to 300")  # noqa: PLR2004 -- 300 was asked for
    return step_of(shown, "text", reply, f"{len(text)} characters in", ("prose.txt", (text + "\n").encode()))


def _edit(shown: Demonstration, photo: Photo) -> Step:
    body = {"prompt": "a pencil sketch", "image": photo.data_uri, "strength": 0.9, "seed": 7}
    picture, size = _picture_of(reply := _run(shown, "image", body))
    name = f"{'picture' if shown.photo is None else 'photo'}-edited.{_EXTENSIONS[picture.media_type]}"
    return step_of(
        shown, f"an edit of {_short(photo.name)}", reply, f"{size[0]} x {size[1]} pixels in", (name, picture.content)
    )


def _show_refusal(shown: Demonstration) -> Step:
    shown.refusal = ask(shown, "POST", _path("image"), 422, {"prompt": "dawn over a harbour", "width": 70000})
    mistakes = len(shown.refusal.json()["detail"])
    return step_of(shown, "an image 70,000 pixels wide", shown.refusal, f"refused for {mistakes} mistake, shown below")


def _run(shown: Demonstration, kind: str, body: Mapping[str, object]) -> Reply:
    # With a key the server keeps the result, and the console shows it.
    reply = ask(shown, "POST", _path(kind), 200, body, {"Idempotency-Key": str(uuid.uuid4())})
    shown.run_ids.append(reply.headers["x-service-request-id"])
    return reply


def _path(kind: str) -> str:
    return f"{_MODELS}/local/procedural-{kind}-1"


def ask(
    shown: Demonstration,
    method: str,
    path: str,
    expected: int,
    body: Mapping[str, object] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Reply:
    """Make one call with the key; ClickException when it is not answered as expected."""
    sent = "" if body is None else json.dumps(body)
    given = {**({"Content-Type": "application/json"} if body else {}), **(headers or {})}
    return _ask(shown, method, path, expected, sent.encode(), given)


def send(shown: Demonstration, path: str, content: bytes, content_type: str) -> Reply:
    """Send bytes of some type with the key; ClickException when they are refused."""
    return _ask(shown, "POST", path, 200, content, {"Content-Type": content_type})


def _ask(
    shown: Demonstration, method: str, path: str, expected: int, content: bytes, headers: Mapping[str, str]
) -> Reply:
    began = time.perf_counter()
    given = {"X-API-Key": shown.key, **headers}
    status, answered, received = _exchange(method, shown.url + path, content or None, given)
    reply = Reply(path, content[:_SENT_SHOWN].decode("utf-8", "replace"), status, answered, received, _since(began))
    if status != expected:
        words = received[:300].decode("utf-8", "replace")
        raise click.ClickException(f"{method} {path} was answered with {status} instead of {expected}: {words}")
    return reply


def _since(began: float) -> float:
    return time.perf_counter() - began


def fetch(url: str) -> bytes:
    """The bytes behind a signed link; ClickException when it leads nowhere."""
    status, _, content = _exchange("GET", url, None, {})
    expect(status == 200, f"the result at {url} was answered with {status}")  # noqa: PLR2004 -- HTTP's 200 OK
    return content


def _exchange(
    method: str, url: str, content: bytes | None, headers: Mapping[str, str]
) -> tuple[int, Mapping[str, str], bytes]:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=_WAIT_SECONDS)
    try:
        connection.request(method, f"{parts.path}?{parts.query}" if parts.query else parts.path, content, dict(headers))
        response = connection.getresponse()
        return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
    except (OSError, http.client.HTTPException) as error:
        raise click.ClickException(f"{method} {url} was not answered: {str(error) or type(error).__name__}") from error
    finally:
        connection.close()


def step_of(shown: Demonstration, name: str, reply: Reply, result: str, file: tuple[str, bytes] | None = None) -> Step:
    """The line of a step; its result is kept in a file where it has one."""
    if file is not None:
        path = shown.output / file[0]
        try:
            path.write_bytes(file[1])
        except OSError as error:
            raise click.ClickException(f"{path} cannot be written: {error.strerror}") from error
        result = f"{result} {path}"
    return Step(name, reply.status, reply.seconds, reply.headers.get("x-service-credits-used"), result)


def _picture_of(reply: Reply) -> tuple[Photo, tuple[int, int]]:
    """The picture in an answer and its size, which must be the size the answer gives."""
    import PIL.Image  # noqa: PLC0415 -- the server and every other command do without pictures

    data = reply.json()["data"][0]
    content = base64.b64decode(data["b64_json"])
    with PIL.Image.open(io.BytesIO(content)) as picture:
        picture.load()
        size = picture.size
    told = (data["width"], data["height"])
    expect(size == told, f"the picture is {size[0]} x {size[1]} pixels, its answer says {told[0]} x {told[1]}")
    return Photo("that image", data["mime_type"], content), size


def size_of(content: bytes) -> tuple[int, int]:
    """The width and height of a picture that can be opened."""
    import PIL.Image  # noqa: PLC0415 -- the server and every other command do without pictures

    with PIL.Image.open(io.BytesIO(content)) as picture:
        picture.load()
        return picture.size


def frames_of(path: Path) -> tuple[int, float]:
    """How many frames of a video can be decoded, and how many it shows a second."""
    import cv2  # noqa: PLC0415 -- the server and every other command do without video

    video, frames = cv2.VideoCapture(str(path)), 0
    while video.read()[0]:
        frames += 1
    rate = video.get(cv2.CAP_PROP_FPS)
    video.release()
    return frames, rate


def _in_books(shown: Demonstration, work: Any, *arguments: object) -> Any:
    """Read the books the server writes: SQLite in WAL mode lets others read beside it."""

    async def read() -> object:
        async with opened_database(read_settings({}, data=shown.data)) as opened:
            return await work(opened, *arguments)

    return asyncio.run(read())


def expect(truth: bool, otherwise: str) -> None:
    """ClickException with `otherwise`, unless a condition holds."""
    if not truth:
        raise click.ClickException(otherwise)


def _align(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _with_sign(amount: int) -> str:
    return f"+{as_dollars(amount)}" if amount > 0 else as_dollars(amount)


def _short(name: str) -> str:
    return name if len(name) <= 18 else name[:8] + "…" + name[-9:]  # noqa: PLR2004 -- what the column has room for


def _lay_out(value: object, column: int = 0) -> str:
    """JSON on as few lines as fit the page: what does not fit on one is broken after its commas."""
    text = json.dumps(value, ensure_ascii=False)
    if column + len(text) <= _LINE or not isinstance(value, dict | list):
        return text
    if isinstance(value, list):
        parts, ends = [_lay_out(item, column + 1) for item in value], "[]"
    else:
        names = [(json.dumps(name) + ": ", item) for name, item in value.items()]
        parts, ends = [name + _lay_out(item, column + 1 + len(name)) for name, item in names], "{}"
    return ends[0] + (",\n" + " " * (column + 1)).join(parts) + ends[1]
