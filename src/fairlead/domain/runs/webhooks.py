"""Webhooks, which report the end of queued runs: allowed addresses, messages, signatures, and retries.

Messages, headers and secrets have the form of Standard Webhooks, so that receivers verify them with any of its
libraries. Times are milliseconds since 1970 unless a name says otherwise; jitter is given from outside.
"""

import base64
import datetime
import hashlib
import hmac
import ipaddress
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from fairlead.domain.accounts.callers import Caller
from fairlead.domain.faults import Fault, Forbidden, InvalidInput, ProviderError, bucket
from fairlead.domain.runs.states import RunState

IPAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

URL_MAX: Final = 2048
"""Characters of a webhook URL."""
OLD_SECRET_MS: Final = 24 * 3600 * 1000
"""How long after a rotation the old secret also signs."""
PAUSES_MS: Final = tuple(seconds * 1000 for seconds in (5, 5 * 60, 30 * 60, 2 * 3600, 5 * 3600, 10 * 3600, 10 * 3600))
"""The pause after each failed attempt; after the last pause there is one more attempt."""
TRIES_MAX: Final = len(PAUSES_MS) + 1

_JITTER: Final = 0.1
_SECRET_BYTES: Final = range(24, 65)
_GONE: Final = 410
_SUCCESS: Final = range(200, 300)
_PORT_MAX: Final = 65535
_HOST_MAX: Final = 253
_URL: Final = re.compile(
    r"(?i:https?)://(?:\[(?P<literal>[0-9A-Fa-f:.]+)\]|(?P<host>[A-Za-z0-9_.-]+))(?::(?P<port>[0-9]{1,5}))?"
    r"(?:[/?][!-~]*)?"
)
_NOT_IN_A_URL: Final = re.compile(r"[#\\]")
_HOST: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_.])?")
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_LOOPBACK: Final = ipaddress.IPv4Address("127.0.0.1")
_OWN_NETWORKS: Final = tuple(
    ipaddress.ip_network(text)
    for text in ("10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "::1/128", "fc00::/7")
)
_METADATA: Final = frozenset(ipaddress.ip_address(text) for text in ("100.100.100.200", "fd00:ec2::254"))
"""Addresses in those networks at which the host of a virtual machine answers, with its credentials."""


class EndedRun(msgspec.Struct, frozen=True):
    """What a receiver may learn of a run that has ended: never its result."""

    run_id: str
    model_id: str
    state: RunState
    reason: str
    finished_at: int
    base_url: str


class KeptSecrets(msgspec.Struct, frozen=True):
    """What is stored of a workspace's secrets: sealed ones by their numbers, and the `origin` of all others.

    That is the name of a master secret; None in an installation that has recorded none.
    """

    sealed: Mapping[int, bytes] = msgspec.field(default_factory=dict)
    origin: str | None = None


class DueDelivery(msgspec.Struct, frozen=True):
    """A delivery that a server has claimed until `lease`: the address, the message, and the workspace's secrets.

    `tries` attempts were made before. `secret` counts the workspace's rotations, the last of which was at `rotated_at`.
    """

    workspace_id: str
    url: str
    tries: int
    lease: int
    secret: int
    rotated_at: int | None
    run: EndedRun
    kept: KeptSecrets = KeptSecrets()


class Try(msgspec.Struct, frozen=True):
    """One attempt: when it began, how long it took, and the receiver's status, or else the reason why there is none."""

    at: int
    milliseconds: int
    status: int | None = None
    error: str | None = None

    @property
    def is_delivered(self) -> bool:
        """Whether the receiver took the message: any 2xx."""
        return self.status in _SUCCESS


class Prospect(msgspec.Struct, frozen=True):
    """What is left to do for a delivery: another attempt, or nothing, because it was delivered or given up."""

    next_at: int | None = None
    delivered_at: int | None = None
    gave_up_at: int | None = None


class Delivery(msgspec.Struct, frozen=True):
    """A webhook's log: its address, its attempts in order, and what is left to do."""

    url: str
    tries: Sequence[Try]
    prospect: Prospect


class _Data(msgspec.Struct, frozen=True, omit_defaults=True):
    request_id: str
    model: str
    status: str
    status_url: str
    response_url: str
    error_type: str | None = None


class _Message(msgspec.Struct, frozen=True):
    type: str
    timestamp: str
    data: _Data


def is_of_own_network(address: IPAddress) -> bool:
    """Whether an address is in an organisation's own network: private, shared or loopback.

    Link-local addresses are not: there, clouds answer with the credentials of the machine that asks.
    """
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return is_of_own_network(address.ipv4_mapped)
    return any(address in network for network in _OWN_NETWORKS) and address not in _METADATA


def refuse_url(url: str, allows: Callable[[IPAddress], bool], name: str = "webhook_url") -> InvalidInput | None:
    """Why a webhook cannot be posted to a URL, or None; `allows` decides about numeric addresses.

    Plain http is accepted: a message holds no result and no secret, its signature shows any change, and receivers
    inside a network often have no certificate. A name is looked up only when it is posted to.
    """
    if len(url) > URL_MAX:
        return InvalidInput(f"{name} has more than {URL_MAX} characters.")
    found = _URL.fullmatch(url)
    if found is None or _NOT_IN_A_URL.search(url) or not 0 < int(found["port"] or 1) <= _PORT_MAX:
        return InvalidInput(
            f"{name} must be an absolute http or https address in ASCII, without a user name or a fragment."
        )
    try:
        address = _address_of(found["literal"] or found["host"].lower(), is_literal=found["literal"] is not None)
    except ValueError:
        return InvalidInput(f"{name} names no host: a name, or an IP address in its usual form.")
    if address is not None and not allows(address):
        return InvalidInput(f"{name} must lead to a public address.")
    return None


def _address_of(host: str, *, is_literal: bool) -> IPAddress | None:
    """The address that a host is by itself; None for a name. ValueError for neither.

    A host that ends in a number must be an address: systems read `127.1` and `0x7f000001` as addresses.
    """
    if is_literal:
        return ipaddress.IPv6Address(host)
    if len(host) > _HOST_MAX or not _HOST.fullmatch(host):
        raise ValueError(host)
    labels = host.removesuffix(".").split(".")
    if _NUMBER.fullmatch(labels[-1]):
        return ipaddress.IPv4Address(host)
    return _LOOPBACK if labels[-1] == "localhost" else None


def refuse_managing_secret(caller: Caller) -> Fault | None:
    """Refuse a credential that is limited to some models: the secret signs for all runs of its workspace."""
    if caller.credential_models.allowed is None:
        return None
    return Forbidden("This credential is limited to some models; the webhook secret needs one that is not.")


def message_id(run_id: str) -> str:
    """The `webhook-id` of a run's message, the same at every attempt, by which receivers recognize duplicates."""
    return f"msg_{run_id}"


def message_of(run: EndedRun) -> bytes:
    """The message about a run that has ended, the same bytes at every attempt: it never has the result itself."""
    succeeded = run.state is RunState.SUCCEEDED
    link = f"{run.base_url.rstrip('/')}/v2/models/{run.model_id}/requests/{run.run_id}"
    moment = datetime.datetime.fromtimestamp(run.finished_at / 1000, datetime.UTC)
    return msgspec.json.encode(
        _Message(
            type="run.completed" if succeeded else "run.failed",
            timestamp=moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            data=_Data(
                request_id=run.run_id,
                model=run.model_id,
                status="COMPLETED",
                status_url=f"{link}/status",
                response_url=link,
                error_type=None if succeeded else _error_type(run),
            ),
        )
    )


def _error_type(run: EndedRun) -> str:
    """The bucket of a failure; a lost run is reported as the provider's failure."""
    return bucket(ProviderError()) if run.state is RunState.LOST else run.reason


def signed_headers(secrets: Sequence[bytes], run_id: str, at_seconds: int, body: bytes) -> Mapping[str, str]:
    """The headers of an attempt at `at_seconds` since 1970: each secret signs, the newest first."""
    name = message_id(run_id)
    signed = b"%s.%d.%s" % (name.encode(), at_seconds, body)
    signatures = (base64.b64encode(hmac.digest(secret, signed, hashlib.sha256)).decode() for secret in secrets)
    return {
        "Content-Type": "application/json",
        "webhook-id": name,
        "webhook-timestamp": str(at_seconds),
        "webhook-signature": " ".join(f"v1,{signature}" for signature in signatures),
    }


def secret_text(secret: bytes) -> str:
    """A secret in the form for receivers; ValueError for one that does not have 24 to 64 bytes."""
    if len(secret) not in _SECRET_BYTES:
        raise ValueError("a webhook secret has 24 to 64 bytes")
    return f"whsec_{base64.b64encode(secret).decode()}"


def signing_numbers(newest: int, rotated_at: int | None, now: int) -> Sequence[int]:
    """The secrets that sign: the newest, and for a day after a rotation also the one before it."""
    is_young = rotated_at is not None and now < rotated_at + OLD_SECRET_MS
    return (newest, newest - 1) if is_young else (newest,)


def after_try(number: int, done: Try, now: int, jitter: float) -> Prospect:
    """What is left to do after an attempt, whose number counts from 1; `jitter` is 0 to 1 and spreads attempts.

    2xx means delivered and 410 ends it. After anything else, also a redirect, it is tried again as `PAUSES_MS` says.
    """
    if done.is_delivered:
        return Prospect(delivered_at=now)
    if done.status == _GONE or number > len(PAUSES_MS):
        return Prospect(gave_up_at=now)
    pause = PAUSES_MS[number - 1]
    return Prospect(next_at=now + pause + int(pause * _JITTER * jitter))
