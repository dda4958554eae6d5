"""The estimate route (R-30): what a call would cost, with nothing begun, held or charged."""

from functools import partial
from typing import Final, cast

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from fairlead.api.http.asgi import Receive, header, read_whole
from fairlead.api.http.route import caller_of
from fairlead.api.router.runs import check_content_type, model_id_of
from fairlead.api.router.wire import estimate_query, estimate_response
from fairlead.operations.runs.estimate import Estimator
from fairlead.operations.runs.requests import ESTIMATE_GATES

_encode: Final = msgspec.json.Encoder().encode


class EstimateHandlers(msgspec.Struct, frozen=True):
    """Answers `POST /v2/models/{provider}/{model}/estimate`.

    A body has at most `body_limit` bytes and `body_values` JSON values; `native_aliases` are other names for the
    model's own provider.
    """

    estimator: Estimator
    native_aliases: frozenset[str]
    body_limit: int
    body_values: int

    async def estimate(self, request: Request) -> Response:
        """Answer one estimate; FaultError, which the application turns into the answer."""
        caller = caller_of(request)
        model_id = model_id_of(request.path_params["provider"], request.path_params["model"])
        query = partial(estimate_query, request.scope["query_string"], self.native_aliases)
        call = self.estimator.checks.check_headers(caller, model_id, query, ESTIMATE_GATES)
        check_content_type(header(request.scope, b"content-type"))
        receive = cast("Receive", request.receive)  # the server's own: Starlette hands it on as it is
        content = await read_whole(request.scope, receive, self.body_limit, self.body_values)
        quoted = await self.estimator.estimate(call, content)
        return Response(_encode(estimate_response(quoted)), media_type="application/json")
