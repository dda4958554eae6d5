"""The jobs API as a whole: its paths, and its routes."""

from typing import Final

from fairlead.api.http.api import HttpApi, routes_of
from fairlead.api.http.asgi import Receive, Scope, Send
from fairlead.api.http.route import Access, Api, Authorize, Bind, path_parameters
from fairlead.api.jobs.addresses import PATH_PREFIX, PREFIX, DeploymentAddresses
from fairlead.api.jobs.documents import JobsError
from fairlead.api.jobs.errors import refusal
from fairlead.api.jobs.routes import ROUTES
from fairlead.observing.observations import Observer

API: Final = Api(
    name="jobs",
    title="Jobs",
    summary="Workflows as jobs with labels, their results, and assets; also behind the address of a deployment.",
    error=JobsError,
    routes=ROUTES,
    path_parameters=path_parameters(
        job_id="The id of a job: a UUID in lower case.",
        asset_id="The id of an asset: a UUID in lower case.",
        deployment_id="The id of a deployment.",
        hash="`blake3:` and 64 digits of lower-case hexadecimal.",
    ),
    refusals={Access.OPENED: (401, 403, 404, 429, 500)},
    headers_of={429: ("retry-after!",)},
)


class JobsApi(HttpApi):
    """Answers the jobs API; `bind` finds what answers each of its routes, `authorize` who calls.

    With `addresses` it is also at those of deployments.
    """

    def __init__(
        self,
        bind: Bind,
        authorize: Authorize,
        request_id: bytes,
        observe: Observer,
        addresses: DeploymentAddresses | None = None,
    ) -> None:
        super().__init__(routes_of(ROUTES, bind, authorize), refusal, request_id, observe)
        self._addresses = addresses

    def serves(self, path: str) -> bool:
        """Whether a path is one of this API's."""
        return path == PREFIX or path.startswith((f"{PREFIX}/", PATH_PREFIX))

    async def __call__(self, scope: Scope, receive: Receive, send: Send, request_id: str) -> None:
        """Answer one request. It raises nothing."""
        placed = scope if self._addresses is None else self._addresses.resolve(scope)
        await super().__call__(placed, receive, send, request_id)
