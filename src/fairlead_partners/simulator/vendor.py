"""The contract of a vendor module: what it declares, what its handlers are given, and what they answer.

A module `vendors/<name>.py` exposes `VENDOR = Vendor(...)`.
Its handlers are plain functions from a `Call` to a `Reply`; whatever they refuse, they refuse by raising `Problem`,
and the vendor's own `problem` function puts it in the vendor's own words, status and shape.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from .forms import Form, read_form
from .media import Media
from .memory import Memory
from .prompts import asked
from .tasks import Task

ProblemKind = Literal[
    "unauthorized",  # no key, a malformed one, or one that is not accepted
    "invalid",  # a field missing, of the wrong type, or out of bounds; also a body that cannot be read
    "not_found",  # an unknown path, task or file
    "rate_limited",
    "server_error",
    "refused",  # moderation refused the input
    "refused_output",  # moderation refused what was made
    "failed",  # it was accepted and could not be made
]

JsonObject: TypeAlias = Mapping[str, Any]


class Problem(Exception):  # noqa: N818 -- a refusal is not an error of this program
    """Something a vendor says no to; its `problem` function makes the answer."""

    def __init__(
        self,
        kind: ProblemKind,
        message: str = "",
        *,
        field: str = "",
        status: int = 0,
        retry_after: str = "",
        code: str = "",
    ) -> None:
        """Say what it is; the field at fault, a status other than the vendor's usual one, and a code are optional."""
        super().__init__(message)
        self.kind: ProblemKind = kind
        self.message = message
        self.field = field
        self.status = status
        self.retry_after = retry_after
        self.code = code
        self.path = ""
        """The path of the call, set before the vendor renders it: some vendors have an envelope per API version."""


class Reply(msgspec.Struct, frozen=True):
    """A whole answer; header names are lower case."""

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()


def json_reply(status: int, value: object, *headers: tuple[str, str]) -> Reply:
    """Make a JSON answer."""
    body = json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
    return Reply(status, body, (("content-type", "application/json"), *headers))


def media_reply(media: Media, *headers: tuple[str, str]) -> Reply:
    """Answer with the bytes of a file."""
    return Reply(200, media.content, (("content-type", media.content_type), *headers))


class Call(msgspec.Struct, frozen=True):
    """One call of a vendor, read within bounds; header names are lower case and `path` begins after the provider."""

    vendor: str
    method: str
    path: str
    origin: str
    parameters: Mapping[str, str]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    faults: Mapping[str, str]
    memory: Memory
    made: list[dict[str, object]] = msgspec.field(default_factory=list)
    """What this call makes the vendor do, as the log of calls tells it."""

    def value(self) -> Any:
        """Return the JSON body, whatever it is; Problem `invalid` if there is none."""
        try:
            return json.loads(self.body.decode("utf-8"))
        except (ValueError, RecursionError):
            raise Problem("invalid", "The request body is not valid JSON.", code="invalid_json") from None

    def json(self) -> JsonObject:
        """Return the JSON object in the body; Problem `invalid` if there is none."""
        value = self.value()
        if not isinstance(value, dict):
            raise Problem("invalid", "The request body must be a JSON object.", code="invalid_json")
        return value

    def form(self) -> Form:
        """Return the multipart or urlencoded form in the body; Problem `invalid` if there is none."""
        form = read_form(self.headers.get("content-type", ""), self.body)
        if form is None:
            raise Problem("invalid", "The request body is not a form.", code="invalid_form")
        return form

    def has(self, fault: str) -> bool:
        """Tell whether this call is to meet a fault, such as `refused`."""
        return fault in self.faults

    def url(self, path: str) -> str:
        """Return the absolute address of a path of this vendor, as the caller knows this server."""
        return f"{self.origin}/{self.vendor}{path}"

    def link(self, media: Media, name: str = "", task: Task | None = None) -> str:
        """Return the absolute address of a file; with a task, the same file has one address at every poll.

        The fault `expired-link`, of the task or else of the call, makes it an address that no longer answers.
        """
        name = name or f"output.{media.extension}"
        faults = self.faults if task is None else task.faults
        path = None if task is None else task.links.get(name)
        if path is None:
            path = self.memory.files.add(media, name, expired=faults.get("expired-link"))
            if task is not None:
                task.links[name] = path
        return self.origin + path

    def submit(self, id_: str, request: Mapping[str, object], **facts: object) -> Task:
        """Begin a task that inherits the faults of this call; `facts` is what the vendor wants to remember."""
        return self.memory.tasks.add(Task(self.vendor, id_, request, self.faults, facts, self.memory.clock))

    def task(self, id_: str) -> Task:
        """Return a task of this vendor; Problem `not_found` when there is none."""
        task = self.memory.tasks.get(self.vendor, id_)
        if task is None:
            raise Problem("not_found", f"Task {id_[:80]} not found.", code="task_not_found")
        asked.set(task.request)
        return task

    def notify(self, task: Task, address: object, body: Callable[[], object]) -> None:
        """Post `body()` to the caller's webhook once the task ended; twice under `duplicate-webhook`.

        Nothing happens when the address is not a string, or not one of this machine's own network.
        """
        if isinstance(address, str) and address:
            self.memory.webhooks.post_at_end(task, address, body)

    def seed(self) -> int:
        """Return a number from 0 to 2^31-1 that is the same for the same body."""
        return int.from_bytes(hashlib.sha256(self.body).digest()[:4]) >> 1


Handler = Callable[[Call], Reply]


class Route(msgspec.Struct, frozen=True):
    """One address of a vendor, with path parameters as Starlette writes them: `/v1/tasks/{id}`, `/{app:path}`.

    A creating route takes faults from the words of its body; one that only reads does not. POST creates unless said
    otherwise. Where a vendor has one address for everything, `headers` says which call is meant: by lower-case name,
    what a header must say.
    """

    method: str
    path: str
    handler: Handler
    creates: bool | None = None
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)

    @property
    def is_creating(self) -> bool:
        """Tell whether a call of this route starts work."""
        return self.method == "POST" if self.creates is None else self.creates


class Vendor(msgspec.Struct, frozen=True):
    """One vendor: its addresses below `/{name}`, its idea of a key, and its words for every problem.

    `authorize` returns what is wrong with the caller's key, or None.
    `supports` are the faults its handlers act on, of `refused`, `refused-output`, `failed`, `stuck`, `expired-link`
    and `duplicate-webhook`; those in `raises` are raised as a Problem before a creating handler is called.
    A vendor that accepts an invalid request and complains later has `invalid` there too.
    What is not supported is replaced: see `faults.settle`.
    """

    name: str
    routes: tuple[Route, ...]
    authorize: Callable[[Call], str | None]
    problem: Callable[[Problem], Reply]
    supports: frozenset[str] = msgspec.field(
        default_factory=lambda: frozenset({"refused", "failed", "stuck", "expired-link"})
    )
    raises: frozenset[str] = frozenset()


_DETAIL_TYPES = {
    "missing": "missing",
    "enum": "enum",
    "invalid_json": "json_invalid",
    "too_long": "string_too_long",
    "range": "greater_than_equal",
    "type": "value_error",
}


def details(problem: Problem) -> list[dict[str, object]]:
    """Return the one element of `detail` for a problem, as FastAPI writes it, which several vendors never changed."""
    place = ["body", *problem.field.split(".")] if problem.field else ["body"]
    message = "Field required" if problem.code == "missing" else problem.message
    return [{"type": _DETAIL_TYPES.get(problem.code, "value_error"), "loc": place, "msg": message, "input": None}]
