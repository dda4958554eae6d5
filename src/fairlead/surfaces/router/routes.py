"""The router's route table, and nothing else: what may be called, and what answers it."""

from dataclasses import dataclass
from typing import Final, Literal

from fairlead.surfaces.router.generations import V1, V2, Generation


@dataclass(frozen=True, slots=True)
class Route:
    """One route: the handler is a method of one of the classes of handlers in this package.

    That of `run` is `runs.RunHandler`.
    """

    method: Literal["GET", "POST", "PUT", "DELETE"]
    path: str
    handler: Literal[
        "run", "estimate", "list_models", "show_model", "show_schema",
        "submit_request", "show_request", "show_status", "cancel_request", "watch_request", "list_deliveries",
        "show_usage", "show_webhook_secret", "rotate_webhook_secret",
        "list_provider_keys", "show_provider_key", "put_provider_key", "delete_provider_key",
    ]  # fmt: skip
    generation: Generation


ROUTES: Final = (
    Route("POST", "/v2/models/{provider}/{model}", "run", V2),
    Route("POST", "/v2/models/{provider}/{model}/estimate", "estimate", V2),
    Route("POST", "/v2/models/{provider}/{model}/requests", "submit_request", V2),
    Route("GET", "/v2/models/{provider}/{model}/requests/{request_id}", "show_request", V2),
    Route("GET", "/v2/models/{provider}/{model}/requests/{request_id}/status", "show_status", V2),
    Route("PUT", "/v2/models/{provider}/{model}/requests/{request_id}/cancel", "cancel_request", V2),
    Route("GET", "/v2/models/{provider}/{model}/requests/{request_id}/events", "watch_request", V2),
    Route("GET", "/v2/models/{provider}/{model}/requests/{request_id}/deliveries", "list_deliveries", V2),
    Route("GET", "/v2/webhook-secret", "show_webhook_secret", V2),
    Route("POST", "/v2/webhook-secret/rotate", "rotate_webhook_secret", V2),
    Route("GET", "/v2/usage", "show_usage", V2),
    Route("GET", "/v2/models", "list_models", V2),
    Route("GET", "/v2/models/{provider}/{model}", "show_model", V2),
    Route("GET", "/v2/models/{provider}/{model}/openapi.json", "show_schema", V2),
    Route("GET", "/v2/provider-keys", "list_provider_keys", V2),
    Route("GET", "/v2/provider-keys/{provider}", "show_provider_key", V2),
    Route("PUT", "/v2/provider-keys/{provider}", "put_provider_key", V2),
    Route("DELETE", "/v2/provider-keys/{provider}", "delete_provider_key", V2),
    Route("POST", "/v1/models/{provider}/{model}", "run", V1),
    Route("GET", "/v1/models", "list_models", V1),
    Route("GET", "/v1/models/{provider}/{model}", "show_model", V1),
    Route("GET", "/v1/models/{provider}/{model}/openapi.json", "show_schema", V1),
)
