"""The administration API as a whole: its paths, and the routes of every noun."""

from typing import Final

from fairlead.api.admin import (
    audit_log,
    budgets,
    deployments,
    installation,
    jobs,
    keys,
    ledger,
    rate_limits,
    refunds,
    registry,
    rerates,
    runs,
    upkeep,
    workspaces,
)
from fairlead.api.admin.documents import AdminError
from fairlead.api.admin.errors import EXPECTED, refusal
from fairlead.api.admin.people import invitations, members, oidc, personal_keys, sessions
from fairlead.api.http.api import HttpApi, routes_of
from fairlead.api.http.route import Access, Api, Authorize, Bind, path_parameters
from fairlead.observing.observations import Observer

PREFIX: Final = "/api/admin/v1"
ROUTES: Final = (
    *sessions.ROUTES,
    *oidc.ROUTES,
    *members.ROUTES,
    *personal_keys.ROUTES,
    *invitations.ROUTES,
    *workspaces.ROUTES,
    *keys.ROUTES,
    *audit_log.ROUTES,
    *registry.ROUTES,
    *budgets.ROUTES,
    *runs.ROUTES,
    *refunds.ROUTES,
    *rerates.ROUTES,
    *jobs.ROUTES,
    *deployments.ROUTES,
    *ledger.ROUTES,
    *rate_limits.ROUTES,
    *installation.ROUTES,
    *upkeep.ROUTES,
)

API: Final = Api(
    name="admin",
    title="Administration",
    summary="Workspaces, members, keys and money, for those who operate them and those who use them.",
    error=AdminError,
    routes=ROUTES,
    path_parameters=path_parameters(
        workspace="The name or the id of a workspace.",
        member_id="The id of a member.",
        invitation_id="The id of an invitation.",
        session_id="The id of a session, or `current`.",
        key_id="The id of a key.",
        kind="`publisher` or `node`.",
        entry_id="The id of a publisher or of a node in the registry.",
        provider="The name of a provider.",
        model="The model segment of a model's id.",
        deployment_id="The id of a deployment.",
        budget_id="The id of a budget.",
        addition_id="The id of an addition to a budget.",
        job_id="The id of a job.",
        run_id="The id of a run.",
        limit_id="The id of a limit of requests.",
        channel_id="The id of an alert channel.",
    ),
    refusals={Access.MEMBER: (401, 403, 429, 500, 503), Access.NOTHING: (500, 503)},
    headers_of={429: ("retry-after!",), 503: ("retry-after",)},
    prefix=PREFIX,
)


class AdminApi(HttpApi):
    """Answers the administration API; `bind` finds what answers each of its routes, `authorize` who calls."""

    def __init__(self, bind: Bind, authorize: Authorize, request_id: bytes, observe: Observer) -> None:
        super().__init__(routes_of(ROUTES, bind, authorize, PREFIX), refusal, request_id, observe, expected=EXPECTED)

    def serves(self, path: str) -> bool:
        """Whether a path is one of this API's."""
        return path == PREFIX or path.startswith(f"{PREFIX}/")
