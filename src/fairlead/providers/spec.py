"""The language of provider files (docs/provider-files.md): strictly checked when loaded, plain values afterwards."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec

from fairlead.domain.declarations import BadFileError, line_of_toml, read_toml
from fairlead.domain.faults import REFUSAL_SUBJECTS
from fairlead.domain.identifiers import is_provider_segment
from fairlead.domain.pointers import Pointer, parse_pointer

_Seconds = Annotated[float, msgspec.Meta(gt=0, le=86_400)]
_Status = Annotated[int, msgspec.Meta(ge=100, le=599)]
_PathText = Annotated[str, msgspec.Meta(pattern=r"^/[A-Za-z0-9._~/{}:-]*$", max_length=256)]
_PointerText = Annotated[str, msgspec.Meta(pattern=r"^(/.*)?$", max_length=256)]

SPECS: Final = Path(__file__).parent / "specs"


class Protocol(enum.StrEnum):
    """The shapes of a call."""

    SYNC_JSON = "sync-json"
    SYNC_BYTES = "sync-bytes"
    SUBMIT_AND_POLL = "submit-and-poll"


class Meaning(enum.StrEnum):
    """What a sign in an answer means."""

    INVALID = "invalid"
    REFUSED = "refused"
    FAILED = "failed"
    TIMEOUT = "timeout"
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True, slots=True)
class Sign:
    """A pattern in an answer: all of its conditions must hold; then it means one thing, with its reasons."""

    means: Meaning
    status: frozenset[int] | None
    at: Pointer | None
    equals: frozenset[str] | None
    reason: Pointer | None
    field: Pointer | None
    kind: Pointer | None
    subject: Pointer | None
    subjects: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Polling:
    """How a submitted task is asked about: where, how often, and how its status is read."""

    path: str
    every: float
    slower_by: float
    at_most_every: float
    give_up_after: float
    patience: int
    status: Pointer
    pending: frozenset[str]
    succeeded: frozenset[str]
    failed: frozenset[str]


@dataclass(frozen=True, slots=True)
class Call:
    """One operation of a partner."""

    name: str
    protocol: Protocol
    path: str
    timeout: float
    answer_limit: int
    require: tuple[Pointer, ...]
    assets: tuple[Pointer, ...]
    media_types: tuple[str, ...]
    handle: Pointer | None
    polling: Polling | None


@dataclass(frozen=True, slots=True)
class Provider:
    """A partner: where it is, how it is authenticated to, what it offers, and how its failures look."""

    name: str
    base_url: str
    auth_header: str | None
    auth_format: str
    headers: Mapping[str, str]
    idempotency_header: str | None
    calls: Mapping[str, Call]
    signs: tuple[Sign, ...]

    def at(self, base_url: str) -> "Provider":
        """The same partner at another address: a proxy, a region, a program on this machine."""
        return replace(self, base_url=base_url.rstrip("/"))


class _AuthFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    scheme: Literal["none", "bearer", "header"]
    header: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9-]+$", max_length=64)] = "Authorization"
    prefix: Annotated[str, msgspec.Meta(max_length=32)] = ""


class _SignFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    means: Meaning
    status: Annotated[list[_Status], msgspec.Meta(min_length=1)] | None = None
    at: _PointerText | None = None
    equals: Annotated[list[str], msgspec.Meta(min_length=1)] | None = None
    reason: _PointerText | None = None
    field: _PointerText | None = None
    kind: _PointerText | None = None
    subject: _PointerText | None = None
    subjects: dict[str, str] = {}


class _PollFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: _PathText
    status: _PointerText
    succeeded: Annotated[list[str], msgspec.Meta(min_length=1)]
    failed: Annotated[list[str], msgspec.Meta(min_length=1)]
    pending: Annotated[list[str], msgspec.Meta(min_length=1)]
    every: _Seconds = 1.0
    slower_by: Annotated[float, msgspec.Meta(ge=1, le=4)] = 1.3
    at_most_every: _Seconds = 10.0
    give_up_after: _Seconds = 3600.0
    patience: Annotated[int, msgspec.Meta(ge=0, le=100)] = 5


class _CallFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    protocol: Protocol
    path: _PathText
    timeout: _Seconds = 120.0
    answer_limit_mib: Annotated[int, msgspec.Meta(ge=1, le=512)] = 64
    require: list[_PointerText] = []
    assets: list[_PointerText] = []
    media_types: list[str] = []
    handle: _PointerText | None = None
    poll: _PollFile | None = None


class _ProviderFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    provider: str
    title: str
    base_url: Annotated[str, msgspec.Meta(pattern=r"^https?://[^/]+(/.*[^/])?$", max_length=256)]
    auth: _AuthFile
    calls: Annotated[dict[str, _CallFile], msgspec.Meta(min_length=1)]
    headers: dict[str, str] = {}
    idempotency_header: str | None = None
    signs: list[_SignFile] = []


def load_provider(text: str, file: str) -> Provider:
    """Read one provider file; BadFileError with file, line and reason."""
    read = read_toml(text, file, _ProviderFile)
    if not is_provider_segment(read.provider):
        raise BadFileError(file, line_of_toml(text, ["provider"]), f"{read.provider!r} is not a provider name")
    for name, call in read.calls.items():
        if problem := _incoherence(call):
            raise BadFileError(file, line_of_toml(text, ["calls", name]), f"calls.{name}: {problem}")
    for index, sign in enumerate(read.signs):
        if (sign.at is None) != (sign.equals is None):
            line = line_of_toml(text, ["signs", str(index)])
            raise BadFileError(file, line, "signs: 'at' and 'equals' go together")
        if unknown := sorted(set(sign.subjects.values()) - REFUSAL_SUBJECTS):
            line = line_of_toml(text, ["signs", str(index), "subjects"])
            raise BadFileError(file, line, f"signs: {unknown[0]!r} is no refusal subject")
        if sign.at is None and sign.status is None:
            line = line_of_toml(text, ["signs", str(index)])
            raise BadFileError(file, line, "signs: a sign needs 'status', or 'at' and 'equals'; this one never holds")
    return Provider(
        name=read.provider,
        base_url=read.base_url,
        auth_header=None if read.auth.scheme == "none" else read.auth.header,
        auth_format="Bearer " if read.auth.scheme == "bearer" else read.auth.prefix,
        headers=read.headers,
        idempotency_header=read.idempotency_header,
        calls={name: _call(name, call) for name, call in read.calls.items()},
        signs=tuple(_sign(sign) for sign in read.signs),
    )


def load_providers(folder: Path) -> dict[str, Provider]:
    """Read every provider file of a folder; BadFileError for the first that cannot be used."""
    providers: dict[str, Provider] = {}
    for path in sorted(folder.glob("*.toml")):
        try:
            text = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise BadFileError(path.name, 1, f"cannot be read: {error}") from error
        provider = load_provider(text, path.name)
        if provider.name in providers:
            raise BadFileError(path.name, 1, f"the provider {provider.name!r} is declared twice")
        providers[provider.name] = provider
    return providers


def _incoherence(call: _CallFile) -> str | None:
    """What a call's parts contradict each other in, if anything."""
    polls = call.protocol is Protocol.SUBMIT_AND_POLL
    if polls and (call.handle is None or call.poll is None):
        return "submit-and-poll needs a 'handle' and a [poll] table"
    if not polls and (call.handle is not None or call.poll is not None):
        return f"{call.protocol} has neither 'handle' nor 'poll'"
    if (call.protocol is Protocol.SYNC_BYTES) != bool(call.media_types):
        return "'media_types' belongs to sync-bytes, which needs it"
    if call.poll is not None and "{handle}" not in call.poll.path:
        return "poll.path must contain {handle}"
    return None


def _call(name: str, read: _CallFile) -> Call:
    return Call(
        name=name,
        protocol=read.protocol,
        path=read.path,
        timeout=read.timeout,
        answer_limit=read.answer_limit_mib * 1024 * 1024,
        require=tuple(parse_pointer(text) for text in read.require),
        assets=tuple(parse_pointer(text) for text in read.assets),
        media_types=tuple(read.media_types),
        handle=_pointer(read.handle),
        polling=None if read.poll is None else _polling(read.poll),
    )


def _polling(read: _PollFile) -> Polling:
    return Polling(
        path=read.path,
        every=read.every,
        slower_by=read.slower_by,
        at_most_every=read.at_most_every,
        give_up_after=read.give_up_after,
        patience=read.patience,
        status=parse_pointer(read.status),
        pending=frozenset(read.pending),
        succeeded=frozenset(read.succeeded),
        failed=frozenset(read.failed),
    )


def _sign(read: _SignFile) -> Sign:
    return Sign(
        means=read.means,
        status=None if read.status is None else frozenset(read.status),
        at=_pointer(read.at),
        equals=None if read.equals is None else frozenset(read.equals),
        reason=_pointer(read.reason),
        field=_pointer(read.field),
        kind=_pointer(read.kind),
        subject=_pointer(read.subject),
        subjects=read.subjects,
    )


def _pointer(text: str | None) -> Pointer | None:
    return None if text is None else parse_pointer(text)
