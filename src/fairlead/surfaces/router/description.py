"""What is said of the router's routes (docs/router.md, docs/queue.md)."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Annotated, Any, Final

import msgspec

from fairlead.domain.runs.replays import KEY_MAX
from fairlead.surfaces.openapi.description import (
    ANYTHING,
    IF_NONE_MATCH,
    JSON,
    KNOWN,
    Access,
    Answer,
    Body,
    DescribedRoute,
    Description,
    Operation,
    Parameter,
)
from fairlead.surfaces.router.documents import (
    InputError,
    ProviderKeyBody,
    ProviderKeyList,
    ProviderKeyShown,
    RouterError,
    UsageShown,
    WebhookDeliveries,
    WebhookSecretShown,
)
from fairlead.surfaces.router.generations import V1
from fairlead.surfaces.router.routes import ROUTES, Route
from fairlead.surfaces.router.wire import (
    CostEstimate,
    ModelDetail,
    ModelListResponse,
    QueueCancelResponse,
    QueueStatusResponse,
    QueueSubmitResponse,
)
from fairlead.surfaces.schemas import AnyObject, Day, Link

_COMMITTED: Final = ("x-committed-spend-limit", "x-committed-spend-current", "x-committed-spend-remaining")
_CONCURRENCY: Final = ("x-concurrency-limit", "x-concurrency-current", "x-concurrency-remaining")
_RESULT: Final = ("credits_used", "router_dropped_params")
_PROVIDER: Final = Parameter("model_provider", "The provider that is to serve the run; `native` is the model's own.")
_STRICT: Final = Parameter("strict_mode", "Whether the body is in the named provider's own form.", bool)
_FALLBACK: Final = Parameter("fallback_provider", "Whether another provider may serve the run after a failure.", bool)
_REJECT: Final = Parameter("reject_unknown_fields", "Whether fields that the schema does not name are refused.", bool)
_KEY: Final = Parameter(
    "Idempotency-Key",
    "Names this call, so that sending it again makes no second run.",
    Annotated[str, msgspec.Meta(min_length=1, max_length=KEY_MAX)],
    where="header",
)
_WEBHOOK: Final = Parameter("webhook_url", "Where to post to when the run has ended.", Link)
_DATE: Final = "in UTC, as YYYY-MM-DD."
_INPUT: Final = Body(AnyObject)
_IN_QUEUE: Final = (404, 410)
# What may become of a run: the partner, the money and the queue each have their say.
_ENDS: Final = (400, 402, 409, 422, 500, 502, 503, 504)

OPERATIONS: Final[Mapping[str, Operation]] = MappingProxyType(
    {
        "run": Operation(
            "Run a model and wait for its result",
            {
                200: Answer(
                    "The model's own answer, as its partner gave it.",
                    Any,
                    (JSON, ANYTHING),
                    (*_RESULT, "router_fallback_provider", "idempotent-replayed", *_COMMITTED),
                )
            },
            (*_ENDS, 404, 413),
            (_PROVIDER, _STRICT, _FALLBACK, _REJECT, _KEY),
            _INPUT,
            description="What the body may have in it, says the model's own document at its `openapi.json`.",
        ),
        "estimate": Operation(
            "Ask what a run would cost",
            {200: Answer("The price, or the bounds it is within.", CostEstimate)},
            (400, 404, 409, 413, 422),
            (_PROVIDER,),
            _INPUT,
        ),
        "list_models": Operation(
            "List the models that the caller may run",
            {
                200: Answer("A page of the catalog.", ModelListResponse, headers=("etag!", "cache-control!")),
                304: KNOWN,
            },
            (400,),
            (
                Parameter("limit", "How many models at most: 20 where it is absent, 100 where it is more.", int),
                Parameter("cursor", "The `next_cursor` of the page before; repeat the search with it."),
                Parameter("q", "Words that id or title have, in any order and either case; 200 characters at most."),
                Parameter("modality", "What is made: `image`, `video`, `audio`, `text` or `3d`."),
                Parameter("provider", "A provider that serves the model, be it as an alternate."),
                IF_NONE_MATCH,
            ),
        ),
        "show_model": Operation("Show one model", {200: Answer("The model.", ModelDetail)}, (404,)),
        "show_schema": Operation(
            "Show the document that a model's calls are validated against",
            {
                200: Answer("An OpenAPI document of this one model.", AnyObject, headers=("etag!", "cache-control!")),
                304: KNOWN,
            },
            (404,),
            (IF_NONE_MATCH,),
        ),
        "submit_request": Operation(
            "Take a run into the queue",
            {
                201: Answer(
                    "The run was taken in, or was taken in before under the same idempotency key.",
                    QueueSubmitResponse,
                    headers=("retry-after!", "idempotent-replayed"),
                )
            },
            (400, 402, 404, 409, 413, 422),
            (_PROVIDER, _STRICT, _REJECT, _WEBHOOK, _KEY),
            _INPUT,
            description="What the body may have in it, says the model's own document at its `openapi.json`.",
        ),
        "show_request": Operation(
            "Collect what a queued run has ended in",
            {
                200: Answer("The model's own answer.", Any, (JSON, ANYTHING), _RESULT),
                202: Answer("The run has not ended.", QueueStatusResponse, headers=("retry-after!",)),
            },
            (*_ENDS, 404, 410),
        ),
        "show_status": Operation(
            "Tell how a queued run stands",
            {200: Answer("How it stands.", QueueStatusResponse, headers=("retry-after!",))},
            _IN_QUEUE,
        ),
        "cancel_request": Operation(
            "Ask that a queued run may stop",
            {
                202: Answer("It is to stop.", QueueCancelResponse),
                409: Answer("It has ended already.", QueueCancelResponse, headers=("error_type!",)),
            },
            _IN_QUEUE,
        ),
        "watch_request": Operation(
            "Watch how a queued run stands, until it has ended",
            {
                200: Answer(
                    "Server-sent events named `status`, each with a QueueStatusResponse.",
                    Any,
                    ("text/event-stream",),
                )
            },
            _IN_QUEUE,
        ),
        "list_deliveries": Operation(
            "Tell what became of the webhook of a run",
            {200: Answer("The webhook and its tries.", WebhookDeliveries, headers=("cache-control!",))},
            (404,),
        ),
        "show_webhook_secret": Operation(
            "Show the secret that the workspace's webhooks are signed with",
            {200: Answer("The newest secret.", WebhookSecretShown, headers=("cache-control!",))},
        ),
        "rotate_webhook_secret": Operation(
            "Sign webhooks with a new secret from now on",
            {200: Answer("The new secret; the one before signs along for a day.", WebhookSecretShown)},
        ),
        "show_usage": Operation(
            "Tell what the workspace has used",
            {200: Answer("Runs and charges, in groups and in all.", UsageShown, headers=("cache-control!",))},
            (400,),
            (
                Parameter("from", f"The first day, {_DATE}", Day),
                Parameter("to", f"The last day, {_DATE}", Day),
                Parameter("group_by", "What is told apart: some of `day`, `model` and `key`, with commas between."),
            ),
        ),
        "list_provider_keys": Operation(
            "List the workspace's own keys at providers",
            {200: Answer("What may be told of each.", ProviderKeyList, headers=("cache-control!",))},
        ),
        "show_provider_key": Operation(
            "Show the workspace's own key at a provider",
            {200: Answer("What may be told of it.", ProviderKeyShown, headers=("cache-control!",))},
            (404,),
        ),
        "put_provider_key": Operation(
            "Store a key at a provider, in place of the one before",
            {
                200: Answer("It was stored in place of another.", ProviderKeyShown),
                201: Answer("It was stored.", ProviderKeyShown),
            },
            (400, 404, 413),
            body=Body(ProviderKeyBody),
        ),
        "delete_provider_key": Operation("Forget a key at a provider", {204: Answer("It is forgotten.")}, (404,)),
    }
)
"""By the names of the handlers, as the table of routes has them."""

_PATH: Final = {
    "provider": Parameter("provider", "The first part of a model's id.", where="path"),
    "model": Parameter("model", "The second part of a model's id.", where="path"),
    "request_id": Parameter("request_id", "The id of a queued run.", where="path"),
}
_USUAL: Final = (401, 403, 429, 500, 503)


def _routes() -> Iterator[DescribedRoute]:
    for route in ROUTES:
        is_old = route.generation is V1
        name = f"router_v1_{route.handler}" if is_old else f"router_{route.handler}"
        yield DescribedRoute(name, route.method, route.path, _operation(route))


def _operation(route: Route) -> Operation:
    """What is said of a route; the older generation takes tokens only, and steers no run (R-40)."""
    operation = OPERATIONS[route.handler]
    if route.generation is not V1:
        return operation
    parameters = operation.parameters if route.handler != "run" else ()
    return replace(operation, parameters=parameters, access=Access.TOKEN)


def describe_router() -> Description:
    """Both generations of the router's API."""
    return Description(
        name="router",
        title="Router",
        summary="Models of many providers, run at once or through a queue, with exact books.",
        error=RouterError,
        routes=tuple(_routes()),
        path_parameters=_PATH,
        refusals={Access.CREDENTIAL: _USUAL, Access.TOKEN: _USUAL},
        errors_of={422: InputError},
        error_headers=("error_type!",),
        headers_of={
            400: ("upstream_status", "upstream_detail", "refusal_subject"),
            409: ("retry-after",),
            422: ("upstream_status",),
            429: ("retry-after", *_CONCURRENCY, *_COMMITTED),
            502: ("upstream_status",),
            503: ("upstream_status", "retry-after"),
            504: ("upstream_status", "retry-after"),
        },
    )
