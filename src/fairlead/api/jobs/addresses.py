"""The addresses of deployments: `{id}.{domain}`, or `/deployments/{id}` where there is no wildcard DNS (J-10).

At both, the jobs API is under `/api/v2` as usual. Only callers with access learn whether a deployment exists
(api/jobs/credentials.py).
"""

import re
from typing import Final

import msgspec

from fairlead.api.http.asgi import Scope
from fairlead.api.http.forwarding import BaseUrls

PREFIX: Final = "/api/v2"
PATH_PREFIX: Final = "/deployments/"
_PORT: Final = re.compile(r":[0-9]+\Z")
_ADDRESS: Final = "fairlead.deployment"
"""The key of the address in the scope of a call that was sent to a deployment."""


class Address(msgspec.Struct, frozen=True):
    """Where a call was sent.

    `host` is the deployment's own host as the caller has spelled it; None where the path names the deployment.
    """

    deployment_id: str
    host: str | None = None


class DeploymentAddresses(msgspec.Struct, frozen=True):
    """Tells whether a call was sent to a deployment. Without a `domain`, only paths name deployments."""

    base_urls: BaseUrls
    domain: str | None = None

    def resolve(self, scope: Scope) -> Scope:
        """A call with the address it was sent to, as if it had been sent to the workspace's own."""
        path: str = scope["path"]
        if path.startswith(PATH_PREFIX):
            deployment_id, slash, rest = path.removeprefix(PATH_PREFIX).partition("/")
            raw = scope["raw_path"].removeprefix(PATH_PREFIX.encode()).partition(b"/")[2]
            inner = {"path": slash + rest, "raw_path": slash.encode() + raw}
            return {**scope, **inner, _ADDRESS: Address(deployment_id)}
        if self.domain is None:
            return scope
        host = self.base_urls.host_of(scope)
        label = _name_of(host).removesuffix(f".{self.domain}")
        if label == _name_of(host) or self.base_urls.is_public(host):
            return scope
        return {**scope, _ADDRESS: Address(label, host)}


def address_of(scope: Scope) -> Address | None:
    """The deployment's address a call was sent to; None for the workspace's own."""
    address: Address | None = scope.get(_ADDRESS)
    return address


def api_base(base_urls: BaseUrls, scope: Scope) -> str:
    """The base URL of links to this API in an answer, at the address that the call was sent to."""
    base, address = base_urls.of(scope), address_of(scope)
    return base if address is None else base_of(base, address)


def base_of(base: str, address: Address) -> str:
    """The base URL of a deployment's address, made of that of its workspace's."""
    if address.host is None:
        return f"{base}{PATH_PREFIX}{address.deployment_id}"
    return f"{base.partition('://')[0]}://{address.host}"


def port_of(base: str) -> str:
    """The port of a base URL with its colon; nothing where it names none."""
    found = _PORT.search(base.split("/")[2])
    return "" if found is None else found[0]


def _name_of(host: str) -> str:
    """A host without its port, in lower case."""
    return _PORT.sub("", host).lower()
