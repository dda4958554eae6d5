"""Which hosts a call without a credential may name.

A site can point its name at this machine (DNS rebinding); browsers then treat this server as part of that site. Such
calls name the site's host, so routes without a credential answer only calls that name a known host.
"""

from typing import Final

import msgspec

from fairlead.api.http.asgi import Scope
from fairlead.api.http.forwarding import BaseUrls, address_of
from fairlead.domain.faults import FaultError, Forbidden

_LOCAL: Final = "localhost"


class KnownHosts(msgspec.Struct, frozen=True):
    """The known hosts of this server: its own machine, the public URL's host, and those of an operator's setting.

    `more` are names and addresses in lower case, without a port.
    """

    base_urls: BaseUrls
    more: frozenset[str] = frozenset()

    def check(self, scope: Scope) -> None:
        """Refuse a call to any other host, or without one: FaultError(Forbidden)."""
        host = self.base_urls.find_host(scope)
        if host is None or not (self.base_urls.is_public(host) or self._is_known(_without_port(host))):
            raise FaultError(Forbidden("This service is not called by that host name; see FAIRLEAD_ALLOWED_HOSTS."))

    def _is_known(self, name: str) -> bool:
        return name in self.more or is_this_machine(name)


def is_this_machine(name: str) -> bool:
    """Whether a host, in lower case and without a port, is the machine of the one who names it."""
    if name == _LOCAL or name.endswith(f".{_LOCAL}"):
        return True
    address = address_of(name)
    return address is not None and address.is_loopback


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower().removesuffix(".")
