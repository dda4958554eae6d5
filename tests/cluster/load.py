"""Callers of an installation: synchronous runs, queued runs and jobs, each repeated under its idempotency key.

A caller does what documentation tells callers to do: it repeats a call that failed or broke off, under the same key,
and waits as long as `Retry-After` says. Every failure is noted with its cause. A caller that has waited too long gives
up; `ask_again` asks in its place, once the load is over, so that only what the installation has lost counts as lost.
"""

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import httpx
import msgspec

from servers import PLAIN

RUN_MODEL: Final = "fake/task-1"
PATIENCE_SECONDS: Final = 120.0
"""How long a caller repeats its call, or asks for its result, before it gives up."""
_LAST_SECONDS: Final = 600.0
"""The same of the last call under its key: what has not ended by then is lost."""
_ANSWER_SECONDS: Final = 30.0
_RETRY_SECONDS_MAX: Final = 1.0
_POLL_SECONDS: Final = 0.2
_PAUSE_SECONDS: Final = 0.05
_WORKFLOW: Final = {
    "1": {"class_type": "EmptyImage", "inputs": {"width": 32, "height": 32, "batch_size": 1, "color": 0}},
    "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "cluster"}},
}
_JOB_ENDS: Final = ("succeeded", "failed", "canceled", "expired")


class Submitted(msgspec.Struct, frozen=True):
    """What a caller has submitted: of which kind, under which key, and how it ended; None where the caller gave up."""

    kind: str
    key: str
    ending: str | None


class Tally:
    """What callers have seen so far; `phase` is what happens to the installation meanwhile."""

    def __init__(self) -> None:
        self.phase = "start"
        self.submitted: list[Submitted] = []
        self._failures = Counter[tuple[str, str, str]]()
        self._lock = threading.Lock()

    def note(self, submitted: Submitted) -> None:
        """Note how something ended."""
        with self._lock:
            self.submitted.append(submitted)

    def note_failure(self, kind: str, cause: str) -> None:
        """Note a request that failed, whether it is repeated or not."""
        with self._lock:
            self._failures[self.phase, kind, cause] += 1

    def count(self) -> int:
        """How many submissions have ended."""
        with self._lock:
            return len(self.submitted)

    def failures(self) -> Sequence[tuple[str, str, str, int]]:
        """The failed requests: phase, kind, cause and how many."""
        with self._lock:
            return [(*key, count) for key, count in self._failures.items()]


class Caller:
    """Makes calls of one kind, one after the other, until it is told to stop."""

    def __init__(self, url: str, api_key: str, tally: Tally, patience: float) -> None:
        """Take where to call and under which key; `patience` is the seconds after which a call is given up."""
        self._http = httpx.Client(
            base_url=url, headers={"X-API-Key": api_key}, timeout=_ANSWER_SECONDS, verify=PLAIN, follow_redirects=True
        )
        self._tally = tally
        self._patience = patience

    def work(self, kind: str, name: str, is_over: threading.Event) -> None:
        """Submit, wait for the end, and begin again, until it is over."""
        with self._http:
            for number in itertools.count():
                if is_over.wait(_PAUSE_SECONDS):
                    return
                self._tally.note(self.submit(kind, f"{name}-{number}"))

    def submit(self, kind: str, key: str) -> Submitted:
        """Submit under a key and wait for the end; of what was submitted under it before, that is the end."""
        ways = {"synchronous run": self._run, "queued run": self._queued_run, "job": self._job}
        return Submitted(kind, key, ways[kind](kind, key))

    def _run(self, kind: str, key: str) -> str | None:
        answer = self._repeat(
            kind, lambda: self._http.post(f"/v2/models/{RUN_MODEL}", json={"prompt": key}, headers=_under(key))
        )
        return None if answer is None else _ending(answer, key)

    def _queued_run(self, kind: str, key: str) -> str | None:
        taken = self._repeat(
            kind, lambda: self._http.post(f"/v2/models/{RUN_MODEL}/requests", json={"prompt": key}, headers=_under(key))
        )
        if taken is None or not taken.is_success:
            return None if taken is None else _ending(taken, key)
        place = httpx.URL(taken.json()["response_url"]).raw_path.decode()
        answer = self._repeat(kind, lambda: self._http.get(place), pending=httpx.codes.ACCEPTED)
        return None if answer is None else _ending(answer, key)

    def _job(self, kind: str, key: str) -> str | None:
        document = {"workflow": _WORKFLOW, "metadata": {"key": key}}
        taken = self._repeat(kind, lambda: self._http.post("/api/v2/jobs", json=document, headers=_under(key)))
        if taken is None:
            return None
        if _error_type(taken) == "idempotency_key_reuse":  # the answer before was lost: the label finds its job
            found = self._repeat(kind, lambda: self._http.get("/api/v2/jobs", params={"metadata[key]": key}))
            ids = [] if found is None else [job["id"] for job in found.json()["jobs"]]
        else:
            ids = [taken.json()["id"]] if taken.is_success else []
        if len(ids) != 1:
            return f"{len(ids)} jobs of one key" if ids else _ending(taken, key)
        return self._job_ending(kind, ids[0])

    def _job_ending(self, kind: str, job_id: str) -> str | None:
        give_up_at = time.monotonic() + self._patience
        while time.monotonic() < give_up_at:
            found = self._repeat(kind, lambda: self._http.get(f"/api/v2/jobs/{job_id}"))
            if found is None or not found.is_success:
                return None if found is None else f"{found.status_code} {found.text[:200]}"
            job: dict[str, Any] = found.json()
            if job["status"] in _JOB_ENDS:
                return self._download(kind, job) if job["status"] == "succeeded" else str(job["status"])
            time.sleep(_POLL_SECONDS)
        return None

    def _download(self, kind: str, job: dict[str, Any]) -> str | None:
        """Fetch what a job has made, as its caller would."""
        for output in job["outputs"]:
            link = httpx.URL(output["url"]).raw_path.decode()
            content = self._repeat(kind, partial(self._http.get, link))
            if content is None or not content.content.startswith(b"\x89PNG"):
                return "no picture"
        return "completed" if job["outputs"] else "no outputs"

    def _repeat(
        self, kind: str, call: Callable[[], httpx.Response], pending: int | None = None
    ) -> httpx.Response | None:
        """Call until there is a final answer; None when patience has run out."""
        give_up_at = time.monotonic() + self._patience
        while time.monotonic() < give_up_at:
            try:
                answer = call()
            except httpx.HTTPError as error:
                self._tally.note_failure(kind, type(error).__name__)
                time.sleep(_POLL_SECONDS)
                continue
            if answer.status_code == pending:
                time.sleep(_POLL_SECONDS)
            elif answer.is_success or not _is_passing(answer):
                return answer
            else:
                self._tally.note_failure(kind, _cause(answer))
                time.sleep(min(_RETRY_SECONDS_MAX, float(answer.headers.get("Retry-After", _POLL_SECONDS))))
        return None


@contextmanager
def calling(url: str, api_key: str, tally: Tally, callers_of_each: int, patience: float) -> Iterator[None]:
    """Call from several threads of each kind; leaving the block waits until what was begun has ended."""
    is_over = threading.Event()
    threads = [
        threading.Thread(
            target=Caller(url, api_key, tally, patience).work,
            args=(kind, f"{kind.replace(' ', '-')}-{number}", is_over),
        )
        for kind in ("synchronous run", "queued run", "job")
        for number in range(callers_of_each)
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        for thread in threads:
            thread.join(3 * patience + _ANSWER_SECONDS)


def ask_again(url: str, api_key: str, tally: Tally) -> Sequence[str]:
    """Submit what callers gave up once more, under its key, and note how it ended; return those keys."""
    given_up = [one for one in tally.submitted if one.ending is None]
    caller = Caller(url, api_key, tally, _LAST_SECONDS)
    ends = {one.key: caller.submit(one.kind, one.key) for one in given_up}
    tally.submitted = [ends.get(one.key, one) for one in tally.submitted]
    return list(ends)


def _under(key: str) -> dict[str, str]:
    return {"Idempotency-Key": key}


def _is_passing(answer: httpx.Response) -> bool:
    """Whether a caller is told to come again: the server is busy, stopping, or still at it."""
    if answer.status_code == httpx.codes.CONFLICT:
        return _error_type(answer) == "concurrency_limit_exceeded"
    return (
        answer.status_code >= httpx.codes.INTERNAL_SERVER_ERROR or answer.status_code == httpx.codes.TOO_MANY_REQUESTS
    )


def _ending(answer: httpx.Response, key: str) -> str:
    """`completed` for the result of this very call, else what was answered."""
    if answer.is_success and answer.json().get("prompt") == key:
        return "completed"
    return f"{answer.status_code} {answer.text[:200]}"


def _cause(answer: httpx.Response) -> str:
    return f"{answer.status_code} {_error_type(answer)}".strip()


def _error_type(answer: httpx.Response) -> str:
    try:
        document = answer.json()
    except ValueError:
        return ""
    error = document.get("error")
    found = document.get("error_type") or (error.get("code") if isinstance(error, dict) else error)
    return str(found or "")
