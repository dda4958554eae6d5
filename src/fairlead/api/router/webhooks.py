"""The webhook routes: the deliveries of a run's webhook, and the secret that a workspace's webhooks are signed with."""

from collections.abc import Sequence
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from fairlead.api.http.forwarding import BaseUrls
from fairlead.api.http.route import caller_of
from fairlead.api.http.schemas import as_time
from fairlead.api.router.documents import WebhookDeliveries, WebhookDelivery, WebhookSecretShown, WebhookTry
from fairlead.api.router.runs import model_id_of
from fairlead.domain.accounts.callers import ROUTER_GATE, Caller, refuse_gate
from fairlead.domain.faults import FaultError
from fairlead.domain.runs.webhooks import Delivery, Try, refuse_managing_secret
from fairlead.operations.accounts.webhook_secrets import WebhookSecrets, WorkspaceSecret
from fairlead.operations.runs.webhooks import DeliveryLog

_UNCACHED: Final = {"Cache-Control": "no-store"}
_encode: Final = msgspec.json.Encoder().encode


class WebhookHandlers(msgspec.Struct, frozen=True):
    """Answers the webhook routes, for the workspace of the caller alone."""

    log: DeliveryLog
    secrets: WebhookSecrets
    base_urls: BaseUrls

    async def list_deliveries(self, request: Request) -> Response:
        """`GET …/requests/{request_id}/deliveries`: the run's webhook and its attempts; null where it named no URL."""
        caller = self._caller(request)
        parts = request.path_params
        found = await self.log.of_caller(caller, model_id_of(parts["provider"], parts["model"]), parts["request_id"])
        return _answer(WebhookDeliveries(data=_describe(found)))

    async def show_webhook_secret(self, request: Request) -> Response:
        """`GET /webhook-secret`: the newest secret, which is made when there is none."""
        caller = self._manager(request)
        return _answer(_secret(await self.secrets.show(caller.workspace_id)))

    async def rotate_webhook_secret(self, request: Request) -> Response:
        """`POST /webhook-secret/rotate`: make a new secret; the old one also signs for a day. Any body is ignored."""
        caller = self._manager(request)
        by = self.base_urls.actor_of(request.scope, caller)
        return _answer(_secret(await self.secrets.rotate(caller.workspace_id, by)))

    def _caller(self, request: Request) -> Caller:
        caller = caller_of(request)
        if fault := refuse_gate(caller, ROUTER_GATE, "The model router"):
            raise FaultError(fault)
        return caller

    def _manager(self, request: Request) -> Caller:
        """The caller, whose credential is not limited to some models; FaultError."""
        caller = self._caller(request)
        if fault := refuse_managing_secret(caller):
            raise FaultError(fault)
        return caller


def _describe(found: Delivery | None) -> Sequence[WebhookDelivery]:
    if found is None:
        return ()
    prospect = found.prospect
    delivery: WebhookDelivery = {
        "url": found.url,
        "tries": [_try(number, one) for number, one in enumerate(found.tries, 1)],
        "delivered_at": _time(prospect.delivered_at),
        "gave_up_at": _time(prospect.gave_up_at),
        "next_at": _time(prospect.next_at),
    }
    return (delivery,)


def _try(number: int, one: Try) -> WebhookTry:
    return {
        "number": number,
        "at": as_time(one.at),
        "milliseconds": one.milliseconds,
        "status": one.status,
        "error": one.error,
    }


def _secret(found: WorkspaceSecret) -> WebhookSecretShown:
    return {"secret": found.text, "rotated_at": _time(found.rotated_at)}


def _time(milliseconds: int | None) -> str | None:
    return None if milliseconds is None else as_time(milliseconds)


def _answer(document: object) -> Response:
    return Response(_encode(document), headers=_UNCACHED, media_type="application/json")
