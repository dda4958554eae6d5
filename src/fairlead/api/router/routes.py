"""The router's routes (docs/router.md, docs/queue.md)."""

from typing import Annotated, Any, Final

import msgspec
from msgspec.structs import replace

from fairlead.api.http.route import (
    ANYTHING,
    IF_NONE_MATCH,
    JSON,
    KNOWN,
    Access,
    Answer,
    Api,
    Body,
    Parameter,
    Route,
    path_parameters,
)
from fairlead.api.http.schemas import AnyObject, Day, Link
from fairlead.api.router.documents import (
    InputError,
    ProviderKeyBody,
    ProviderKeyList,
    ProviderKeyShown,
    RouterError,
    UsageShown,
    WebhookDeliveries,
    WebhookSecretShown,
)
from fairlead.api.router.estimates import EstimateHandlers
from fairlead.api.router.generations import V1, V2
from fairlead.api.router.handlers import Handlers
from fairlead.api.router.provider_keys import ProviderKeyHandlers
from fairlead.api.router.queue import QueueHandlers
from fairlead.api.router.runs import RunHandler
from fairlead.api.router.usage import UsageHandlers
from fairlead.api.router.webhooks import WebhookHandlers
from fairlead.api.router.wire import (
    CostEstimate,
    ModelDetail,
    ModelListResponse,
    QueueCancelResponse,
    QueueStatusResponse,
    QueueSubmitResponse,
)
from fairlead.domain.accounts.rights import Right
from fairlead.domain.runs.replays import KEY_MAX

_COMMITTED: Final = ("x-committed-spend-limit", "x-committed-spend-current", "x-committed-spend-remaining")
_CONCURRENCY: Final = ("x-concurrency-limit", "x-concurrency-current", "x-concurrency-remaining")
_RESULT: Final = ("credits_used", "router_dropped_params")
_COST: Final = ("x-litellm-response-cost", "x-litellm-total-tokens")
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
_LABELS: Final = Parameter(
    "X-Fairlead-Labels",
    "Up to eight labels that the run is found by, such as `client=acme,project=spring`; values are percent-encoded.",
    where="header",
)
_WEBHOOK: Final = Parameter("webhook_url", "Where to post to when the run has ended.", Link)
_PRICES: Final = Parameter("prices", "Whether prices are to be told, in words and with the operator's markup.", bool)
_DATE: Final = "in UTC, as YYYY-MM-DD."
_INPUT: Final = Body(Annotated[AnyObject, msgspec.Meta(examples=[{"prompt": "a lighthouse at dusk"}])])
_IN_QUEUE: Final = (404, 410)
# The answers to a run that failed: the partner, the money and the queue each have reasons of their own.
_ENDS: Final = (400, 402, 409, 422, 500, 502, 503, 504)

_V2: Final = (
    Route(
        "POST",
        "/v2/models/{provider}/{model}",
        RunHandler.run,
        "Run a model and wait for its result",
        {
            200: Answer(
                "The model's own answer, as its partner gave it.",
                Any,
                (JSON, ANYTHING),
                (*_RESULT, *_COST, "router_fallback_provider", "idempotent-replayed", *_COMMITTED),
            )
        },
        (*_ENDS, 404, 413),
        (_PROVIDER, _STRICT, _FALLBACK, _REJECT, _KEY, _LABELS),
        _INPUT,
        description="What the body may have in it, says the model's own document at its `openapi.json`.",
    ),
    Route(
        "POST",
        "/v2/models/{provider}/{model}/estimate",
        EstimateHandlers.estimate,
        "Ask what a run would cost",
        {200: Answer("The price, or the bounds it is within.", CostEstimate)},
        (400, 404, 409, 413, 422),
        (_PROVIDER,),
        _INPUT,
    ),
    Route(
        "POST",
        "/v2/models/{provider}/{model}/requests",
        QueueHandlers.submit_request,
        "Take a run into the queue",
        {
            201: Answer(
                "The run was taken in, or was taken in before under the same idempotency key.",
                QueueSubmitResponse,
                headers=("retry-after!", "idempotent-replayed"),
            )
        },
        (400, 402, 404, 409, 413, 422),
        (_PROVIDER, _STRICT, _REJECT, _WEBHOOK, _KEY, _LABELS),
        _INPUT,
        description="What the body may have in it, says the model's own document at its `openapi.json`.",
    ),
    Route(
        "GET",
        "/v2/models/{provider}/{model}/requests/{request_id}",
        QueueHandlers.show_request,
        "Collect what a queued run has ended in",
        {
            200: Answer("The model's own answer.", Any, (JSON, ANYTHING), _RESULT),
            202: Answer("The run has not ended.", QueueStatusResponse, headers=("retry-after!",)),
        },
        (*_ENDS, 404, 410),
    ),
    Route(
        "GET",
        "/v2/models/{provider}/{model}/requests/{request_id}/status",
        QueueHandlers.show_status,
        "Tell how a queued run stands",
        {200: Answer("How it stands.", QueueStatusResponse, headers=("retry-after!",))},
        _IN_QUEUE,
    ),
    Route(
        "PUT",
        "/v2/models/{provider}/{model}/requests/{request_id}/cancel",
        QueueHandlers.cancel_request,
        "Ask that a queued run may stop",
        {
            202: Answer("It is to stop.", QueueCancelResponse),
            409: Answer("It has ended already.", QueueCancelResponse, headers=("error_type!",)),
        },
        _IN_QUEUE,
    ),
    Route(
        "GET",
        "/v2/models/{provider}/{model}/requests/{request_id}/events",
        QueueHandlers.watch_request,
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
    Route(
        "GET",
        "/v2/models/{provider}/{model}/requests/{request_id}/deliveries",
        WebhookHandlers.list_deliveries,
        "Tell what became of the webhook of a run",
        {200: Answer("The webhook and its tries.", WebhookDeliveries, headers=("cache-control!",))},
        (404,),
    ),
    Route(
        "GET",
        "/v2/webhook-secret",
        WebhookHandlers.show_webhook_secret,
        "Show the secret that the workspace's webhooks are signed with",
        {200: Answer("The newest secret.", WebhookSecretShown, headers=("cache-control!",))},
        right=Right.MANAGE,
    ),
    Route(
        "POST",
        "/v2/webhook-secret/rotate",
        WebhookHandlers.rotate_webhook_secret,
        "Sign webhooks with a new secret from now on",
        {200: Answer("The new secret; the one before signs along for a day.", WebhookSecretShown)},
        right=Right.MANAGE,
    ),
    Route(
        "GET",
        "/v2/usage",
        UsageHandlers.show_usage,
        "Tell what the workspace has used",
        {200: Answer("Runs and charges, in groups and in all.", UsageShown, headers=("cache-control!",))},
        (400,),
        (
            Parameter("from", f"The first day, {_DATE}", Day),
            Parameter("to", f"The last day, {_DATE}", Day),
            Parameter(
                "group_by",
                "What is told apart: some of `day`, `model` and `key`, or `day` and `label:NAME`, with commas between.",
            ),
            Parameter("label", "Only runs with this label, `client=acme`, by day or in all."),
        ),
    ),
    Route(
        "GET",
        "/v2/models",
        Handlers.list_models,
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
            _PRICES,
            IF_NONE_MATCH,
        ),
    ),
    Route(
        "GET",
        "/v2/models/{provider}/{model}",
        Handlers.show_model,
        "Show one model",
        {200: Answer("The model.", ModelDetail)},
        (400, 404),
        (_PRICES,),
    ),
    Route(
        "GET",
        "/v2/models/{provider}/{model}/openapi.json",
        Handlers.show_schema,
        "Show the document that a model's calls are validated against",
        {
            200: Answer("An OpenAPI document of this one model.", AnyObject, headers=("etag!", "cache-control!")),
            304: KNOWN,
        },
        (404,),
        (IF_NONE_MATCH,),
    ),
    Route(
        "GET",
        "/v2/provider-keys",
        ProviderKeyHandlers.list_provider_keys,
        "List the workspace's own keys at providers",
        {200: Answer("What may be told of each.", ProviderKeyList, headers=("cache-control!",))},
    ),
    Route(
        "GET",
        "/v2/provider-keys/{provider}",
        ProviderKeyHandlers.show_provider_key,
        "Show the workspace's own key at a provider",
        {200: Answer("What may be told of it.", ProviderKeyShown, headers=("cache-control!",))},
        (404,),
    ),
    Route(
        "PUT",
        "/v2/provider-keys/{provider}",
        ProviderKeyHandlers.put_provider_key,
        "Store a key at a provider, in place of the one before",
        {
            200: Answer("It was stored in place of another.", ProviderKeyShown),
            201: Answer("It was stored.", ProviderKeyShown),
        },
        (400, 404, 413),
        body=Body(ProviderKeyBody),
        right=Right.MANAGE,
    ),
    Route(
        "DELETE",
        "/v2/provider-keys/{provider}",
        ProviderKeyHandlers.delete_provider_key,
        "Forget a key at a provider",
        {204: Answer("It is forgotten.")},
        (404,),
        right=Right.MANAGE,
    ),
)


_IN_V1: Final = (RunHandler.run, Handlers.list_models, Handlers.show_model, Handlers.show_schema)


def _in_v1(route: Route) -> Route:
    """A route of the older generation, which takes tokens only and steers no run (R-40)."""
    return replace(
        route,
        path=V1.prefix + route.path.removeprefix(V2.prefix),
        parameters=() if route.handler == RunHandler.run else route.parameters,
        access=Access.TOKEN,
        operation_id=f"v1_{route.name}",
    )


_CANCEL: Final = next(route for route in _V2 if route.handler == QueueHandlers.cancel_request)
_POSTED: Final = replace(_CANCEL, method="POST", operation_id="post_cancel_request")
ROUTES: Final = (*_V2, _POSTED, *(_in_v1(route) for route in _V2 if route.handler in _IN_V1))

_USUAL: Final = (401, 403, 429, 500, 503)
API: Final = Api(
    name="router",
    title="Router",
    summary="Models of many providers, run at once or through a queue, with exact books.",
    error=RouterError,
    routes=ROUTES,
    path_parameters=path_parameters(
        provider="The first part of a model's id.",
        model="The second part of a model's id.",
        request_id="The id of a queued run.",
    ),
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
