"""Provider files: all facts about a partner, as data (docs/provider-files.md).

A partner that cannot be described needs a new field here first, and two partners that would use it; there is no code
per partner.
"""

import enum
import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from fairlead.domain.pointers import Condition, Pointer


class Protocol(enum.StrEnum):
    """The shapes of a call."""

    SYNC_JSON = "sync-json"
    SYNC_BYTES = "sync-bytes"
    SUBMIT_AND_POLL = "submit-and-poll"


class Meaning(enum.StrEnum):
    """The meaning of a sign in an answer."""

    INVALID = "invalid"
    REFUSED = "refused"
    FAILED = "failed"
    TIMEOUT = "timeout"
    UNAVAILABLE = "unavailable"
    CANCELLED = "cancelled"
    """Of work that was taken, and stopped since; an answer to a call itself never means it."""


class Scheme(enum.StrEnum):
    """How a partner is shown a credential."""

    NONE = "none"
    HEADER = "header"
    """The credential in a header, with a text before it."""
    PAIR = "pair"
    """A credential of two parts, `id:secret`, each in a header of its own."""
    JWT = "jwt"
    """A short-lived token signed with the credential (RFC 7519)."""
    TC3 = "tc3"
    """Each request signed with the credential, as version 3 of Tencent Cloud's API wants it (TC3-HMAC-SHA256)."""


class Auth(msgspec.Struct, frozen=True):
    """How a partner is authenticated to. `headers` are one name, or two with PAIR.

    With JWT the credential is `issuer:secret` for HS256, or a service account's JSON for RS256; `lifetime` is in
    seconds. With TC3 it is `SecretId:SecretKey`, and `service` is the product that signatures are for.
    """

    scheme: Scheme
    headers: tuple[str, ...] = ("Authorization",)
    prefix: str = ""
    algorithm: str = "HS256"
    audience: str | None = None
    lifetime: int = 1800
    service: str = ""


class Sign(msgspec.Struct, frozen=True):
    """A pattern in an answer: all of its conditions must hold; then it means one thing, with its reasons.

    `subjects` maps the partner's code at `subject` to the refused side; `side` is the side where there is no code.
    `calls` limits the sign to some calls.
    """

    means: Meaning
    status: frozenset[int] | None = None
    when: tuple[Condition, ...] = ()
    subjects: Mapping[str, str] = msgspec.field(default_factory=dict)
    reason: Pointer | None = None
    field: Pointer | None = None
    kind: Pointer | None = None
    subject: Pointer | None = None
    side: str | None = None
    calls: frozenset[str] | None = None


class Asking(msgspec.Struct, frozen=True):
    """A request about submitted work: its path or address made of the handle's parts, perhaps a body.

    `otherwise` is the path to ask at where the partner named no address to ask at. `headers` join those of the call,
    and win over them.
    """

    method: str
    path: str
    body: str | None = None
    """JSON text with `{name}` for parts of the handle, already escaped where they stand."""
    otherwise: str | None = None
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)


class Polling(msgspec.Struct, frozen=True):
    """How a submitted task is polled: where, how often, and how its status is read.

    `absent` among the texts stands for a status that is not there. An answer with one of `pending_status` is pending
    whatever it says, and one with one of `retried_status` says nothing of the work, as when the partner's replicas do
    not know it yet: it is asked for again, as often as `patience` allows. `cancelled` are the texts of work that was
    stopped before its end, and `unbilled` those of `failed` that the partner documents as costing nothing. `result` is
    asked for once the work has succeeded, where the result stands elsewhere.
    """

    asking: Asking
    every: float
    slower_by: float
    at_most_every: float
    give_up_after: float
    patience: int
    status: Pointer
    pending: frozenset[str]
    succeeded: frozenset[str]
    failed: frozenset[str]
    cancelled: frozenset[str] = frozenset()
    unbilled: frozenset[str] = frozenset()
    pending_status: frozenset[int] = frozenset()
    retried_status: frozenset[int] = frozenset()
    result: Asking | None = None


class Part(msgspec.Struct, frozen=True):
    """A file of a form: its name there, and where the body has it (as a data URI or a link)."""

    name: str
    at: Pointer


class Form(msgspec.Struct, frozen=True):
    """A body sent as multipart/form-data: its top-level scalars as fields, these places as files."""

    files: tuple[Part, ...]


class Call(msgspec.Struct, frozen=True):
    """One operation of a partner. `handle` names the parts of a handle and where the answer to a submit has them.

    The parts in `optional` may be missing there: the work is then asked about without them (`Asking.otherwise`). `told`
    are figures for prices by name, kept with the handle: the answer to a submit or to a poll may have them.
    `in_path` and `in_query` are top-level fields of a body that the partner takes in the address instead: as parts of
    the path, and as parameters behind it. `cancel` asks the partner to stop submitted work, where it can (R-35). A call
    that `is_free_when_left` costs nothing where its connection is closed before the answer.
    """

    name: str
    protocol: Protocol
    path: str
    timeout: float
    answer_limit: int
    require: tuple[Pointer, ...]
    assets: tuple[Pointer, ...]
    media_types: tuple[str, ...]
    handle: Mapping[str, Pointer]
    polling: Polling | None
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    form: Form | None = None
    is_in_array: bool = False
    accept: str | None = None
    cancel: Asking | None = None
    optional: frozenset[str] = frozenset()
    told: Mapping[str, Pointer] = msgspec.field(default_factory=dict)
    in_path: tuple[str, ...] = ()
    in_query: tuple[str, ...] = ()
    is_free_when_left: bool = False


class Retry(msgspec.Struct, frozen=True):
    """How often a call that the partner certainly did not take is sent again, and the pauses between (seconds)."""

    times: int = 2
    first: float = 0.5
    at_most: float = 8.0


LATER: Final = Retry(times=8, first=15.0, at_most=300.0)
"""How often a queued run goes back to wait after its partner was called, and the pauses before it is tried again."""


class Cooldown(msgspec.Struct, frozen=True):
    """After how many failing runs of a workspace in a row a credential of a partner cools down for it (seconds)."""

    after: int = 5
    seconds: float = 30.0


class Storage(msgspec.Struct, frozen=True):
    """Storage that a partner writes to: a call names it `at` a pointer, as `{scheme}://…`.

    What is there is read at `read_from`, with a token for `audience` where the partner's own will not do. `place` is
    the operator's; without one nothing is asked to be written anywhere.
    """

    at: Pointer
    scheme: str
    read_from: str
    audience: str | None = None
    place: str | None = None


class Provider(msgspec.Struct, frozen=True):
    """A partner: its address, its authentication, its calls, and the form of its failures.

    `hosts` may be followed from its answers with our credential, `asset_hosts` without; its own address is always among
    them. `variables` are parts of the address that an operator gives. An `is_alternate` provider can be named in
    `model_provider`.
    """

    name: str
    title: str
    base_url: str
    auth: Auth
    headers: Mapping[str, str]
    idempotency_header: str | None
    calls: Mapping[str, Call]
    signs: tuple[Sign, ...]
    hosts: tuple[str, ...] = ()
    asset_hosts: tuple[str, ...] = ()
    is_alternate: bool = False
    variables: tuple[str, ...] = ()
    retry: Retry = Retry()
    postpone: Retry = LATER
    cooldown: Cooldown = Cooldown()
    storage: Storage | None = None

    @property
    def wants_credential(self) -> bool:
        """Whether it requires a credential."""
        return self.auth.scheme is not Scheme.NONE

    @property
    def missing(self) -> tuple[str, ...]:
        """The parts of the address that are not set yet."""
        return tuple(name for name in self.variables if "{" + name + "}" in self.base_url)

    def at(self, base_url: str) -> "Provider":
        """The same partner at another address: a proxy, a region, a program on this machine."""
        return replace(self, base_url=base_url.rstrip("/"))

    def with_variables(self, variables: Mapping[str, str]) -> "Provider":
        """The same partner with parts of its address filled in."""
        address = self.base_url
        for name in self.variables:
            if name in variables:
                address = address.replace("{" + name + "}", variables[name])
        return replace(self, base_url=address)

    def writing_to(self, place: str) -> "Provider":
        """The same partner, writing to storage of the operator's; ValueError where it cannot."""
        if self.storage is None:
            raise ValueError(f"the provider {self.name} writes to no storage")
        begin = f"{self.storage.scheme}://"
        if not _PLACE.fullmatch(place.removeprefix(begin)) or not place.startswith(begin):
            raise ValueError(f"must be {begin}, the name of a bucket and perhaps of a folder in it")
        return replace(self, storage=replace(self.storage, place=place.rstrip("/")))

    def may_follow(self, url: str, *, with_credential: bool) -> bool:
        """Whether an address in an answer of this partner may be followed: only some hosts are trusted."""
        try:
            found, own = urlsplit(url), urlsplit(self.base_url)
        except ValueError:  # a partner's text need not be an address
            return False
        if (found.scheme, found.netloc) == (own.scheme, own.netloc):
            return True
        if found.scheme != "https" or found.username is not None or found.hostname is None:
            return False
        hosts = self.hosts if with_credential else (*self.hosts, *self.asset_hosts)
        return any(_is_host(found.hostname, pattern) for pattern in hosts)


ANY_HOST: Final = "*"
_PLACE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,62}(/[A-Za-z0-9._-]{1,200})*/?")


def _is_host(host: str, pattern: str) -> bool:
    """Whether a host is the one named, or (`*.example.com`) below it; `*` is any."""
    if pattern == ANY_HOST:
        return True
    return host.endswith(pattern[1:]) if pattern.startswith("*.") else host == pattern
