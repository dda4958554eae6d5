"""The synchronous run route, as a raw ASGI application: it is the hot path, and a framework would double its cost."""

from dataclasses import dataclass
from functools import partial
from typing import Final
from urllib.parse import unquote

from fairlead.domain.callers import Caller
from fairlead.domain.faults import FaultError, InvalidInput, ModelNotFound
from fairlead.domain.identifiers import is_model_segment, is_provider_segment
from fairlead.domain.money import as_credits
from fairlead.domain.runs.outcomes import Completed
from fairlead.operations.authenticate import Authenticator
from fairlead.operations.runs.admit import Admitter, RunCommand
from fairlead.operations.runs.execute import Answer, Executor
from fairlead.surfaces.asgi import Headers, Receive, Scope, Send, answer, has_left, header, read_whole
from fairlead.surfaces.router.generations import Generation
from fairlead.surfaces.router.headers import CONTENT_TYPE, NOSNIFF, HeaderNames
from fairlead.surfaces.router.wire import check_run_query

_TRACEPARENT_MAX: Final = 64


def model_id_of(provider: str, model: str) -> str:
    """The model id of two path segments; FaultError(ModelNotFound) for what can be none (R-01)."""
    if not (is_provider_segment(provider) and is_model_segment(model)):
        raise FaultError(ModelNotFound(f"{provider[:64]}/{model[:128]}"))
    return f"{provider}/{model}"


@dataclass(frozen=True, slots=True)
class RunHandler:
    """Answers `POST /v?/models/{provider}/{model}`: one model run, its native output forwarded untouched (R-10)."""

    authenticator: Authenticator
    admitter: Admitter
    executor: Executor
    names: HeaderNames
    key_prefix: str
    body_limit: int
    deadline_seconds: float

    async def __call__(
        self, scope: Scope, receive: Receive, send: Send, generation: Generation, path: tuple[str, str], request_id: str
    ) -> None:
        """Answer one call; FaultError travels to the application, which words it."""
        caller = await self._caller(scope, generation)
        model = self.admitter.check(caller, model_id_of(unquote(path[0]), unquote(path[1])))
        check_run_query(scope["query_string"])
        _check_content_type(scope)
        content = await read_whole(scope, receive, self.body_limit)
        command = RunCommand(request_id, model.id, content, _traceparent(scope))
        admitted = await self.admitter.admit(caller, model, command)
        execution = self.executor.start(admitted, has_left=partial(has_left, receive))
        answered = await self.executor.answer_in_time(execution, self.deadline_seconds)
        await self._answer(send, answered, request_id)

    async def _caller(self, scope: Scope, generation: Generation) -> Caller:
        credential = generation.credential(scope, self.key_prefix)
        remembered = self.authenticator.remembered(credential)
        return remembered if remembered is not None else await self.authenticator.authenticate(credential)

    async def _answer(self, send: Send, answered: Answer, request_id: str) -> None:
        outcome = answered.outcome
        if not isinstance(outcome, Completed):
            raise FaultError(outcome.fault)
        names = self.names
        headers: Headers = [
            (CONTENT_TYPE, outcome.content_type.encode("latin-1", "replace")),
            NOSNIFF,
            (names.request_id, request_id.encode()),
            (names.credits_used, as_credits(answered.charge).encode()),
        ]
        await answer(send, 200, headers, outcome.content)


def _check_content_type(scope: Scope) -> None:
    """Take JSON only: a form or a text that happens to parse was meant for somebody else."""
    value = header(scope, b"content-type")
    if value is None or value == b"application/json":
        return
    media_type = value.partition(b";")[0].strip().lower()
    if media_type != b"application/json" and not media_type.endswith(b"+json"):
        shown = media_type[:80].decode("latin-1")
        raise FaultError(InvalidInput(f"Send the body as application/json, not {shown}."))


def _traceparent(scope: Scope) -> str | None:
    value = header(scope, b"traceparent")
    return value.decode("ascii", "replace") if value is not None and len(value) <= _TRACEPARENT_MAX else None
