"""Tasks for clips and enlargements: submitted, made one after another in a thread, polled, cancelled, dropped."""

import asyncio
import contextlib
import logging
import secrets
import shutil
import tempfile
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Literal

import msgspec

from .replays import conflict
from .requests import TaskRequest
from .wire import Problem

WAITING_MAX = 256
ENDED_MAX = 1024
KEEP_SECONDS = 3600.0
KEEP_BYTES_MAX = 256 * 1024 * 1024
HELD_BYTES_MAX = 256 * 1024 * 1024

Status = Literal["queued", "running", "succeeded", "failed", "cancelled"]


class Made(msgspec.Struct, frozen=True):
    """What a task has made: the description of its file, and what it is charged by."""

    result: Mapping[str, object]
    usage: Mapping[str, object]


Render = Callable[[TaskRequest, int, Path, Callable[[float], bool]], Made]

log = logging.getLogger("procedural")


class Task(msgspec.Struct, eq=False):
    """One task: what was asked, how far it is, and what it has made once it succeeded."""

    id: str
    request: TaskRequest | None
    seed: int
    fingerprint: bytes
    key: str | None
    created: int = msgspec.field(default_factory=lambda: int(time.time()))
    status: Status = "queued"
    made: Made | None = None
    progress: float = 0.0
    file: Path | None = None
    file_bytes: int = 0
    ended: float = 0.0
    stop: Event = msgspec.field(default_factory=Event)

    def goes_on(self, progress: float) -> bool:
        """Note progress from 0 to 1 and tell the renderer whether to go on; called in its thread."""
        self.progress = progress
        return not self.stop.is_set()


class Tasks:
    """All tasks of this process, bounded in number, age and bytes on disk."""

    def __init__(self, render: Render, on_drop: Callable[[str], None]) -> None:
        """`render` runs in the one rendering thread; `on_drop` gets the idempotency key of a dropped task."""
        self._render = render
        self._on_drop = on_drop
        self._tasks: OrderedDict[str, Task] = OrderedDict()
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="video")
        self._worker: asyncio.Task[None] | None = None
        self._folder: Path | None = None

    def submit(self, request: TaskRequest, seed: int, fingerprint: bytes, key: str | None, id_: str) -> Task:
        """Queue a task, or return the task this id already has.

        Raises Problem 409 when the id belongs to another request and 429 when too many are waiting.
        """
        known = self._tasks.get(id_)
        if known is not None:
            if known.fingerprint != fingerprint:
                raise conflict()
            return known
        if sum(task.status == "queued" for task in self._tasks.values()) >= WAITING_MAX:
            message = f"{WAITING_MAX} tasks are waiting already; try again later."
            raise Problem(429, "too_many_tasks", message, headers=(("retry-after", "5"),))
        held = sum(task.request.held_bytes for task in self._tasks.values() if task.request is not None)
        if held + request.held_bytes > HELD_BYTES_MAX:
            message = "Too many large pictures and clips are waiting; try again later."
            raise Problem(429, "too_many_tasks", message, headers=(("retry-after", "5"),))
        task = Task(id_, request, seed, fingerprint, key)
        self._tasks[id_] = task
        if self._worker is None:
            self._worker = asyncio.get_running_loop().create_task(self._work())
        return task

    def get(self, id_: str) -> Task:
        """Return a task; Problem 404 when it is unknown or was dropped."""
        task = self._tasks.get(id_)
        if task is None:
            raise Problem(404, "not_found", "There is no task with this id; it may have expired.")
        return task

    def cancel(self, id_: str) -> Task:
        """Cancel a queued or running task; an ended one stays as it is. Problem 404 when unknown."""
        task = self.get(id_)
        if task.status in ("queued", "running"):
            task.stop.set()
            self._end(task, "cancelled")
        return task

    def file(self, name: str) -> Path:
        """Return the path of a result file by its public name; Problem 404 when there is none."""
        for task in self._tasks.values():
            if task.file is not None and task.file.name == name:
                return task.file
        raise Problem(404, "not_found", "There is no file of this name; it may have expired.")

    def close(self) -> None:
        """Stop rendering and remove every file."""
        for task in self._tasks.values():
            task.stop.set()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    async def _work(self) -> None:
        while True:
            task = next((task for task in self._tasks.values() if task.status == "queued"), None)
            if task is None:
                self._worker = None
                return
            await self._run(task)

    async def _run(self, task: Task) -> None:
        task.status = "running"
        path: Path | None = None
        loop = asyncio.get_running_loop()
        request = task.request
        if request is None:
            return
        try:
            path = self._new_path(request.extension)
            task.made = await loop.run_in_executor(self._executor, self._render, request, task.seed, path, task.goes_on)
            self._finish(task, path)
        except Exception:
            log.exception("task %s failed", task.id)
            self._discard(task, path)

    def _new_path(self, extension: str) -> Path:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="procedural-"))
        return self._folder / f"{secrets.token_urlsafe(24)}.{extension}"

    def _finish(self, task: Task, path: Path) -> None:
        # Read through a call: a cancel may have changed the status while the thread rendered.
        if self._is_cancelled(task):
            path.unlink(missing_ok=True)
            return
        task.file_bytes = path.stat().st_size
        task.file = path
        task.progress = 1.0
        self._end(task, "succeeded")

    def _discard(self, task: Task, path: Path | None) -> None:
        if path is not None:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
        if not self._is_cancelled(task):
            self._end(task, "failed")

    @staticmethod
    def _is_cancelled(task: Task) -> bool:
        return task.status == "cancelled"

    def _end(self, task: Task, status: Status) -> None:
        task.status = status
        task.request = None  # it may hold a whole clip, and is not needed again
        task.ended = time.monotonic()
        self._drop_surplus()
        asyncio.get_running_loop().call_later(KEEP_SECONDS, self._drop, task)

    def _drop_surplus(self) -> None:
        ended = sorted((task for task in self._tasks.values() if task.ended), key=lambda task: task.ended)
        size = sum(task.file_bytes for task in ended)
        surplus = len(ended) - ENDED_MAX
        # The newest stays whatever its size, or a caller could never fetch it.
        for task in ended[:-1]:
            if surplus <= 0 and size <= KEEP_BYTES_MAX:
                return
            if surplus > 0 or task.file is not None:
                surplus -= 1
                size -= task.file_bytes
                self._drop(task)

    def _drop(self, task: Task) -> None:
        if self._tasks.get(task.id) is not task:
            return
        del self._tasks[task.id]
        if task.key is not None:
            self._on_drop(task.key)
        if task.file is not None:
            with contextlib.suppress(OSError):
                task.file.unlink()


def task_json(task: Task, base_url: str) -> dict[str, object]:
    """Describe a task as PROTOCOL.md says; `base_url` is this server as the poller knows it."""
    result: dict[str, object] | None = None
    usage: dict[str, object] | None = None
    if task.file is not None and task.made is not None:
        result = {"url": f"{base_url}/v1/files/{task.file.name}", **task.made.result}
        usage = dict(task.made.usage)
    error = {"code": "internal_error", "message": "The work could not be done; try again."}
    return {
        "id": task.id,
        "status": task.status,
        "progress": round(task.progress, 4),
        "created": task.created,
        "seed": task.seed,
        "result": result,
        "usage": usage,
        "error": error if task.status == "failed" else None,
    }
