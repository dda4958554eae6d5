"""The terms of a key: when it ends, from where it may be used, and what a personal key may do (T-04)."""

import enum
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import Final, TypeAlias

import msgspec

from fairlead.domain.accounts.rights import Right
from fairlead.domain.days import DAY_MS

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

NETWORKS_MAX: Final = 20
DAYS_MAX: Final = 3650
"""The longest time after which a key ends; a key may also have no end."""
SESSION_DAYS: Final = 90
"""After how many days a key ends that was made in a session, where nothing else is said."""
SESSION_DAYS_MAX: Final = 366
OVERLAP_HOURS: Final = 24
OVERLAP_HOURS_MAX: Final = 720
_SEPARATOR: Final = ","


class Scope(enum.StrEnum):
    """What a personal key may do, of what its member may."""

    SEE = "see"
    READ = "read"
    RUN = "run"
    MANAGE = "manage"
    OPERATE = "operate"


_RIGHTS: Final = {
    Scope.SEE: (Right.SEE,),
    Scope.READ: (Right.SEE, Right.READ),
    Scope.RUN: (Right.RUN,),
    Scope.MANAGE: (Right.MANAGE,),
    Scope.OPERATE: (Right.OPERATE,),
}


class BadTermsError(ValueError):
    """The terms of a key are not good; `field` says which."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class KeyTerms(msgspec.Struct, frozen=True):
    """When a key ends (ms since 1970), and the networks it may be used from; None and none do not limit it."""

    expires_at: int | None = None
    networks: tuple[Network, ...] = ()


class PersonalTerms(KeyTerms, frozen=True):
    """Terms of a personal key: also what it may do, None for all that its member may, and in which workspace alone."""

    scopes: tuple[Scope, ...] | None = None
    workspace_id: str | None = None

    @property
    def is_narrowed(self) -> bool:
        """Whether it may do less than its member."""
        return self.scopes is not None or self.workspace_id is not None


UNLIMITED: Final = PersonalTerms()
"""The terms of a key that has no end, may be used from anywhere, and may do what its member may."""


def rights_of(scopes: Iterable[Scope]) -> frozenset[Right]:
    """The rights that scopes leave; whoever calls is always told who it is."""
    return frozenset({Right.KNOWN, *(right for scope in scopes for right in _RIGHTS[scope])})


def allows(networks: Sequence[Network], address: Address | None) -> bool:
    """Whether a key may be used from an address; an unknown one is in no network."""
    return not networks or (address is not None and any(address in network for network in networks))


def end_of(days: int | None, now: int) -> int | None:
    """When a key ends that is to be good for some days from now on; None for one without an end."""
    return None if days is None else now + days * DAY_MS


def read_networks(texts: Sequence[str]) -> tuple[Network, ...]:
    """Networks from their texts; BadTermsError."""
    if len(texts) > NETWORKS_MAX:
        raise BadTermsError("networks", f"A key has at most {NETWORKS_MAX} networks.")
    try:
        return tuple(ip_network(text.strip()) for text in texts)
    except ValueError as error:
        message = "A network is an address, or one with a prefix such as 203.0.113.0/24, without bits behind it."
        raise BadTermsError("networks", message) from error


def networks_text(networks: Sequence[Network]) -> str | None:
    """Networks as they are stored."""
    return _SEPARATOR.join(map(str, networks)) or None


def stored_networks(text: str | None) -> tuple[Network, ...]:
    """Networks from the form in which they are stored."""
    return tuple(map(ip_network, text.split(_SEPARATOR))) if text else ()


def scopes_text(scopes: Sequence[Scope] | None) -> str | None:
    """Scopes as they are stored."""
    return None if scopes is None else _SEPARATOR.join(scopes)


def stored_scopes(text: str | None) -> tuple[Scope, ...] | None:
    """Scopes from the form in which they are stored."""
    return None if text is None else tuple(map(Scope, filter(None, text.split(_SEPARATOR))))
