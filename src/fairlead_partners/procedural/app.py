"""The vendor's HTTP interface: routes, token, idempotency keys, and every error as one envelope."""

import hashlib
import hmac
import logging
import re
import secrets
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Generic, TypeVar

import msgspec

from . import files, studio
from .pool import Pool
from .replays import Replays
from .requests import AudioRequest, Body, ImageRequest, Request, TextRequest, UpscaleRequest, VideoRequest, fingerprint
from .tasks import Tasks, task_json
from .wire import (
    Answer,
    Problem,
    Receive,
    Scope,
    Send,
    header,
    json_answer,
    parse_object,
    read_body,
    require_json,
    send_answer,
)

R = TypeVar("R", bound=Request)
Handler = Callable[[Scope, Receive, str], Awaitable[Answer | files.FileAnswer]]

KEY_CHARACTERS_MAX = 255
HELD_BODY_BYTES_MAX = 256 * 1024 * 1024

_HOST = re.compile(r"[A-Za-z0-9._:\[\]-]{1,255}")

log = logging.getLogger("procedural")


class Call(msgspec.Struct, Generic[R], frozen=True):
    """One generation to make: a checked request with its seed settled."""

    request: R
    seed: int
    name: str
    fingerprint: bytes
    key: str | None


Make = Callable[[Call[R]], Awaitable[Answer]]


class App:
    """The ASGI application. One per process; `close` it to stop rendering and remove the files."""

    def __init__(self, token: str | None = None) -> None:
        """With a token, every /v1 call but the fetching of result files must carry it."""
        self._token = token
        self._pool = Pool()
        self._replays = Replays()
        self._tasks = Tasks(studio.render, self._replays.forget)
        self._held_bytes = 0
        self._exact: dict[str, dict[str, Handler]] = {
            "/healthz": {"GET": self._healthz},
            "/v1/images": {"POST": partial(self._post, ImageRequest.read, self._image)},
            "/v1/audio": {"POST": partial(self._post, AudioRequest.read, self._audio)},
            "/v1/text": {"POST": partial(self._post, TextRequest.read, self._text)},
            "/v1/videos": {"POST": partial(self._post, VideoRequest.read, self._video)},
            "/v1/upscales": {"POST": partial(self._post, UpscaleRequest.read, self._upscale)},
        }
        self._named: dict[str, dict[str, Handler]] = {
            "/v1/videos/": {"GET": self._get_task, "DELETE": self._cancel_task},
            "/v1/upscales/": {"GET": self._get_task, "DELETE": self._cancel_task},
            "/v1/files/": {"GET": self._file},
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        if scope["type"] != "http":
            return
        answer: Answer | files.FileAnswer
        try:
            answer = await self._answer(scope, receive)
        except Problem as problem:
            answer = problem.answer()
        except Exception:
            log.exception("%s %s failed", scope["method"], scope["path"])
            answer = Problem(500, "internal_error", "Something went wrong on our side; try again.").answer()
        if isinstance(answer, files.FileAnswer):
            await files.send_file(send, answer)
        else:
            await send_answer(send, answer)

    def close(self) -> None:
        """Stop rendering and remove every result file."""
        self._tasks.close()

    async def _answer(self, scope: Scope, receive: Receive) -> Answer | files.FileAnswer:
        path: str = scope["path"]
        self._authorize(scope, path)
        handlers, name = self._find(path)
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        handler = handlers.get(method)
        if handler is None:
            message = f"This address does not take {scope['method'][:20]}."
            allow = (("allow", ", ".join(handlers)),)
            raise Problem(405, "method_not_allowed", message, headers=allow)
        return await handler(scope, receive, name)

    def _find(self, path: str) -> tuple[dict[str, Handler], str]:
        exact = self._exact.get(path)
        if exact is not None:
            return exact, ""
        for prefix, handlers in self._named.items():
            if path.startswith(prefix) and len(path) > len(prefix):
                return handlers, path[len(prefix) :]
        raise Problem(404, "not_found", "There is nothing at this address.")

    def _authorize(self, scope: Scope, path: str) -> None:
        if self._token is None or not path.startswith("/v1/") or path.startswith("/v1/files/"):
            return
        scheme, _, given = (header(scope, "authorization") or "").partition(" ")
        right = hmac.compare_digest(given.strip().encode("latin-1"), self._token.encode())
        if scheme.lower() != "bearer" or not right:
            message = "Send the token as 'Authorization: Bearer <token>'."
            challenge = (("www-authenticate", "Bearer"),)
            raise Problem(401, "unauthorized", message, headers=challenge)

    async def _post(
        self, read: Callable[[Body], R], make: Make[R], scope: Scope, receive: Receive, _name: str
    ) -> Answer:
        key = header(scope, "idempotency-key")
        if key is not None and not 1 <= len(key) <= KEY_CHARACTERS_MAX:
            message = f"Idempotency-Key must have 1 to {KEY_CHARACTERS_MAX} characters."
            raise Problem(422, "invalid_value", message, "Idempotency-Key")
        require_json(scope)
        body = await read_body(scope, receive)
        size = len(body)
        self._hold(size)
        try:
            request = read(parse_object(body))
            del body
            call = _call(request, key, fingerprint(scope["path"], request))
            if key is None:
                return await make(call)
            return await self._replays.once(key, call.fingerprint, partial(make, call))
        finally:
            self._held_bytes -= size

    def _hold(self, size: int) -> None:
        """Count a body against what all waiting calls may hold together."""
        if self._held_bytes + size > HELD_BODY_BYTES_MAX:
            message = "Too many large requests are waiting; try again in a second."
            raise Problem(429, "too_many_tasks", message, headers=(("retry-after", "1"),))
        self._held_bytes += size

    async def _image(self, call: Call[ImageRequest]) -> Answer:
        return await self._pool.run(partial(studio.image_answer, call.request, call.seed, f"img_{call.name}"))

    async def _audio(self, call: Call[AudioRequest]) -> Answer:
        return await self._pool.run(partial(studio.audio_answer, call.request, call.seed))

    async def _text(self, call: Call[TextRequest]) -> Answer:
        return await self._pool.run(partial(studio.text_answer, call.request, call.seed, f"txt_{call.name}"))

    async def _video(self, call: Call[VideoRequest]) -> Answer:
        id_ = f"vid_{call.name}"
        task = self._tasks.submit(call.request, call.seed, call.fingerprint, call.key, id_)
        return json_answer(202, {"id": task.id, "status": task.status, "created": task.created})

    async def _upscale(self, call: Call[UpscaleRequest]) -> Answer:
        await self._pool.run(partial(studio.check_upscale, call.request))
        task = self._tasks.submit(call.request, call.seed, call.fingerprint, call.key, f"ups_{call.name}")
        return json_answer(202, {"id": task.id, "status": task.status, "created": task.created})

    async def _get_task(self, scope: Scope, _receive: Receive, name: str) -> Answer:
        return json_answer(200, task_json(self._tasks.get(name), _base_url(scope)))

    async def _cancel_task(self, scope: Scope, _receive: Receive, name: str) -> Answer:
        return json_answer(200, task_json(self._tasks.cancel(name), _base_url(scope)))

    async def _file(self, scope: Scope, _receive: Receive, name: str) -> files.FileAnswer:
        head = scope["method"] == "HEAD"
        return files.open_range(self._tasks.file(name), header(scope, "range"), head=head)

    async def _healthz(self, _scope: Scope, _receive: Receive, _name: str) -> Answer:
        return json_answer(200, {"status": "ok"})


def _call(request: R, key: str | None, digest: bytes) -> Call[R]:
    """Settle seed and name; both follow from the key, so that a repeat after a restart is the same."""
    if key is None:
        seed, name = secrets.randbits(32), secrets.token_hex(12)
    else:
        derived = hashlib.sha256(b"procedural\0" + key.encode()).digest()
        seed, name = int.from_bytes(derived[:4]), derived[4:16].hex()
    return Call(request, seed if request.seed is None else request.seed, name, digest, key)


def _base_url(scope: Scope) -> str:
    """Return this server's address as the caller sees it, from the Host header when that is sane."""
    host = header(scope, "host")
    if host is None or _HOST.fullmatch(host) is None:
        address, port = scope["server"]
        host = f"{address}:{port}"
    return f"http://{host}"
