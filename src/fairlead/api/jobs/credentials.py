"""Who is calling the jobs API: a key or a token as bearer, or a key in `X-API-Key`; and how often (J-09, J-11).

A self-hosted surface is open to everybody, or to anyone who has its one static token; both act for one workspace. A
serverless one refuses keys of accounts that must use single sign-on.
"""

import hmac
from typing import Final

import msgspec
from msgspec.structs import replace
from starlette.requests import Request

from fairlead.api.http.asgi import Scope, header, is_read
from fairlead.api.http.credentials import CredentialReader
from fairlead.api.http.hosts import KnownHosts
from fairlead.api.jobs.addresses import address_of
from fairlead.api.jobs.errors import SsoRequiredError
from fairlead.domain.accounts.callers import Caller
from fairlead.domain.deployments import Deployment
from fairlead.domain.faults import FaultError, Forbidden, Unauthorized
from fairlead.operations.accounts.authenticate import Authenticator, Credential, Token
from fairlead.operations.accounts.rate_windows import RateWindows
from fairlead.operations.deployments import Deployments

_SUBJECT: Final = "self-hosted"
_DEPLOYMENT: Final = "fairlead.admitting_deployment"


class SelfHosted(msgspec.Struct, frozen=True):
    """A surface for one workspace: each caller who shows its token acts for it; without a token, every caller does."""

    workspace: str
    token: str | None
    hosts: KnownHosts

    def admits(self, credential: Credential | None, scope: Scope) -> bool:
        """Whether a call acts for the workspace; FaultError for one that a page of another site sends."""
        if self.token is not None:
            return credential is not None and hmac.compare_digest(credential.text.encode(), self.token.encode())
        if credential is not None:
            return False
        self.hosts.check(scope)
        if _is_foreign(scope):
            raise FaultError(Forbidden("A page of another site may not call this service without a credential."))
        return True


class JobCallers(msgspec.Struct, frozen=True):
    """Finds out who calls, and counts the call. Where it is `self_hosted`, keys and tokens of callers count too.

    `asks_for_sso` has the single sign-on of organizations respected. At the address of one of the `deployments` only
    its own workspace is let in.
    """

    authenticator: Authenticator
    windows: RateWindows
    credentials: CredentialReader
    self_hosted: SelfHosted | None = None
    asks_for_sso: bool = False
    deployments: Deployments | None = None

    async def caller(self, request: Request) -> Caller:
        """The caller of a request, by its headers; `deployment_of` is the deployment it was sent to.

        FaultError: Unauthorized, Forbidden, RateLimited and others. DeploymentFaultError where the caller's workspace
        has no such deployment. SsoRequiredError for a valid key of an account that must use single sign-on; the call is
        counted.
        """
        caller = await self._authenticate(request.scope)
        self.windows.count(caller.workspace_id, caller.rate_limits, is_read=is_read(request.scope))
        if self.asks_for_sso and caller.single_sign_on is not None:
            raise SsoRequiredError(caller.single_sign_on.organization_id)
        address = address_of(request.scope)
        if address is None or self.deployments is None:
            return caller
        deployment = await self.deployments.one(caller.workspace_id, address.deployment_id)
        if (refusal := deployment.refuse_token(caller.token_kind)) is not None:
            raise FaultError(refusal)
        request.scope[_DEPLOYMENT] = deployment
        return caller

    async def _authenticate(self, scope: Scope) -> Caller:
        credential = self.credentials.of_call(scope)
        if self.self_hosted is not None:
            if self.self_hosted.admits(credential, scope):
                caller = await self.authenticator.caller_of_workspace(self.self_hosted.workspace, _SUBJECT)
                return replace(caller, is_unproven=credential is None)
            if isinstance(credential, Token) and not self.authenticator.takes_tokens:
                raise FaultError(Unauthorized("This is not a token that this service takes."))
        return self.authenticator.recall(credential) or await self.authenticator.authenticate(credential)


def deployment_of(request: Request) -> Deployment | None:
    """The deployment that a call was sent to, whose caller is known; None at the workspace's own address."""
    deployment: Deployment | None = request.scope.get(_DEPLOYMENT)
    return deployment


def _is_foreign(scope: Scope) -> bool:
    """Whether a browser sends this for a page of another site, to which an open surface is not meant to be open."""
    site = header(scope, b"sec-fetch-site")
    if site is not None:
        return site not in (b"same-origin", b"none")
    origin = header(scope, b"origin")  # the only such header that browsers send without TLS
    return origin is not None and origin.partition(b"://")[2] != header(scope, b"host")
