"""The queue's routes (R-32 to R-35): submit, status, collect, cancel, and a stream of the status."""

from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from typing import Final, cast

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from fairlead.api.http.asgi import REQUEST_ID, Receive, header, read_whole
from fairlead.api.http.forwarding import BaseUrls
from fairlead.api.http.headers import (
    CONTENT_TYPE,
    LABELS,
    REPLAYED,
    RETRY_AFTER,
    HeaderNames,
)
from fairlead.api.http.route import caller_of
from fairlead.api.router.runs import (
    check_content_type,
    idempotency_key_of,
    labels_of,
    model_id_of,
    traceparent_of,
)
from fairlead.api.router.wire import (
    cancel_response,
    dropped_text,
    queue_query,
    status_response,
    submit_response,
    webhook_of,
)
from fairlead.domain.faults import FaultError
from fairlead.domain.ledger.money import as_credits
from fairlead.domain.runs.entries import QueueTicket
from fairlead.domain.runs.outcomes import Completed
from fairlead.operations.runs.admit import Admitter, RunCommand
from fairlead.operations.runs.cancel import Canceller
from fairlead.operations.runs.collect import Collector, RequestStatus
from fairlead.operations.runs.estimate import Estimator
from fairlead.operations.runs.results import Answer
from fairlead.operations.runs.watch import Watcher

_ALREADY_COMPLETED: Final = b"already_completed"
"""What the 409 of a cancellation that came too late has in place of a bucket (decisions)."""
_encode: Final = msgspec.json.Encoder().encode


class QueueHandlers(msgspec.Struct, frozen=True):
    """Answers the routes below `/v2/models/{provider}/{model}/requests`."""

    admitter: Admitter
    estimator: Estimator
    collector: Collector
    canceller: Canceller
    watcher: Watcher
    names: HeaderNames
    base_urls: BaseUrls
    check_webhook: Callable[[str], None]
    native_aliases: frozenset[str]
    body_limit: int
    body_values: int
    backlog: int
    keys_kept_ms: int
    now_ms: Callable[[], int]

    async def submit_request(self, request: Request) -> Response:
        """`POST …/requests`: take a run into the queue (R-32)."""
        caller = caller_of(request)
        query = partial(queue_query, request.scope["query_string"], self.native_aliases)
        call = self.admitter.checks.check_headers(caller, _model_of(request), query)
        model, webhook = call.model, webhook_of(request.scope["query_string"])
        if webhook is not None:
            self.check_webhook(webhook)
        check_content_type(header(request.scope, b"content-type"))
        receive = cast("Receive", request.receive)  # the server's own: Starlette hands it on as it is
        content = await read_whole(request.scope, receive, self.body_limit, self.body_values)
        named, until = header(request.scope, b"idempotency-key"), self.now_ms() + self.keys_kept_ms
        key = None if named is None else await idempotency_key_of(named, request.scope, caller, content, until)
        base = self.base_urls.of(request.scope)
        trace = traceparent_of(header(request.scope, b"traceparent"))
        named = header(request.scope, LABELS)
        labels = None if named is None else labels_of(named)
        command = RunCommand(request.scope[REQUEST_ID], content, key, base, trace, labels)
        queued = await self.admitter.enqueue(call, command, QueueTicket(self.backlog, base, webhook))
        if queued.position is None:
            status = await self.collector.status(caller, model.id, queued.run_id)
            return self._answer(201, submit_response(status, base, None), status, [REPLAYED])
        status = self.collector.just_queued(caller, model.id, queued.run_id, queued.position)
        quoted = self.estimator.of_queued(caller, model, queued)
        return self._answer(201, submit_response(status, base, quoted), status)

    async def show_request(self, request: Request) -> Response:
        """`GET …/requests/{request_id}`: the result of a run, byte by byte as in the synchronous answer (R-34)."""
        caller = caller_of(request)
        found = await self.collector.collect(caller, _model_of(request), request.path_params["request_id"])
        if isinstance(found, RequestStatus):
            return self._answer(202, status_response(found, self.base_urls.of(request.scope)), found)
        return self._result(found)

    async def show_status(self, request: Request) -> Response:
        """`GET …/requests/{request_id}/status`: the status of a run (R-33)."""
        caller = caller_of(request)
        found = await self.collector.status(caller, _model_of(request), request.path_params["request_id"])
        return self._answer(200, status_response(found, self.base_urls.of(request.scope)), found)

    async def cancel_request(self, request: Request) -> Response:
        """`PUT` or `POST …/requests/{request_id}/cancel`: request a run to stop (R-35)."""
        caller = caller_of(request)
        request_id = request.path_params["request_id"]
        is_requested = await self.canceller.cancel(caller, _model_of(request), request_id)
        response = Response(_encode(cancel_response(request_id, is_requested=is_requested)), 202, _JSON)
        if not is_requested:
            response.status_code = 409
            response.raw_headers.append((self.names.error_type, _ALREADY_COMPLETED))
        return response

    async def watch_request(self, request: Request) -> Response:
        """`GET …/requests/{request_id}/events`: the status as server-sent events, until the run is completed."""
        caller = caller_of(request)
        if request.method == "HEAD":  # there would be nothing to stream until the run ends
            await self.collector.status(caller, _model_of(request), request.path_params["request_id"])
            return Response(headers=_UNBUFFERED, media_type="text/event-stream")
        changes = await self.watcher.watch(caller, _model_of(request), request.path_params["request_id"])
        base = self.base_urls.of(request.scope)
        return StreamingResponse(_events(changes, base), 200, _UNBUFFERED, media_type="text/event-stream")

    def _answer(
        self, status_code: int, body: object, status: RequestStatus, more: list[tuple[bytes, bytes]] | None = None
    ) -> Response:
        response = Response(_encode(body), status_code, _JSON)
        response.raw_headers.append((RETRY_AFTER, b"%d" % status.retry_after))
        response.raw_headers.extend(more or ())
        return response

    def _result(self, answer: Answer) -> Response:
        outcome = answer.outcome
        if not isinstance(outcome, Completed):
            raise FaultError(outcome.fault, is_replay=True)
        response = Response(outcome.content)
        response.raw_headers.append((CONTENT_TYPE, outcome.content_type.encode("latin-1", "replace")))
        if answer.charge is not None:
            response.raw_headers.append((self.names.credits_used, as_credits(answer.charge).encode()))
        if answer.dropped:
            response.raw_headers.append((self.names.router_dropped_params, dropped_text(answer.dropped)))
        return response


_JSON: Final[Mapping[str, str]] = {"Content-Type": "application/json"}
_UNBUFFERED: Final[Mapping[str, str]] = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


async def _events(changes: AsyncIterator[RequestStatus | None], base: str) -> AsyncIterator[bytes]:
    """Statuses as server-sent events; a comment where there is nothing new, so that the stream is not cut."""
    async for status in changes:
        yield (
            b": waiting\n\n"
            if status is None
            else b"event: status\ndata: %b\n\n" % _encode(status_response(status, base))
        )


def _model_of(request: Request) -> str:
    return model_id_of(request.path_params["provider"], request.path_params["model"])
