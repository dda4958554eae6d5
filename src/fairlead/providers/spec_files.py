"""Reading provider files: TOML into a `Provider`, every mistake with its file and line."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
from msgspec.structs import replace

from fairlead.domain.catalog.identifiers import is_provider_segment
from fairlead.domain.declarations import BadFileError, line_of_toml, read_toml
from fairlead.domain.faults import REFUSAL_SUBJECTS
from fairlead.domain.pointers import ConditionFile, Pointer, PointerText, conditions, parse_pointer
from fairlead.providers.spec import (
    LATER,
    Asking,
    Auth,
    Call,
    Cooldown,
    Form,
    Meaning,
    Part,
    Polling,
    Protocol,
    Provider,
    Retry,
    Scheme,
    Sign,
    Storage,
)

SPECS: Final = Path(__file__).parent / "specs"
_PART: Final = re.compile(r"[a-z_]{1,32}")
_POINTER_MAX: Final = 256
_PLACEHOLDER: Final = re.compile(r"\{([a-z_]+)\}")

_Seconds = Annotated[float, msgspec.Meta(gt=0, le=86_400)]
_Status = Annotated[int, msgspec.Meta(ge=100, le=599)]
_PathText = Annotated[str, msgspec.Meta(pattern=r"^/[A-Za-z0-9._~/{}:?=&-]*\Z", max_length=256)]
_AskText = Annotated[
    str, msgspec.Meta(pattern=r"^(/[A-Za-z0-9._~/{}:?=&-]*|\{[a-z_]+\}(/[A-Za-z0-9._~/{}:?=&-]*)?)\Z", max_length=256)
]
_HostText = Annotated[str, msgspec.Meta(pattern=r"^(\*\.)?[a-z0-9-]+(\.[a-z0-9-]+)+\Z", max_length=128)]
_AssetHostText = Annotated[str, msgspec.Meta(pattern=r"^(\*|(\*\.)?[a-z0-9-]+(\.[a-z0-9-]+)+)\Z", max_length=128)]
_HeaderName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_-]+\Z", max_length=64)]
_HeaderText = Annotated[str, msgspec.Meta(pattern=r"^[ -~]*\Z", max_length=256)]
_Name = Annotated[str, msgspec.Meta(pattern=r"^[a-z_]{1,32}\Z")]


class _AuthFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    scheme: Literal["none", "bearer", "header", "pair", "jwt", "tc3"]
    header: _HeaderName = "Authorization"
    prefix: _HeaderText = ""
    headers: Annotated[list[_HeaderName], msgspec.Meta(min_length=2, max_length=2)] | None = None
    algorithm: Literal["HS256", "RS256"] = "HS256"
    audience: str | None = None
    lifetime: Annotated[int, msgspec.Meta(ge=60, le=3600)] = 1800
    service: Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9]{1,32}\Z")] | None = None


class _SignFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    means: Meaning
    status: Annotated[list[_Status], msgspec.Meta(min_length=1)] | None = None
    when: list[ConditionFile] = []
    reason: PointerText | None = None
    field: PointerText | None = None
    kind: PointerText | None = None
    subject: PointerText | None = None
    subjects: dict[str, str] = {}
    side: str | None = None
    calls: Annotated[list[str], msgspec.Meta(min_length=1)] | None = None


class _ResultFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: _AskText
    method: Literal["GET", "POST"] = "GET"
    body: object = None
    headers: dict[_HeaderName, _HeaderText] = {}


class _CancelFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: _AskText
    method: Literal["POST", "PUT", "DELETE"] = "POST"
    body: object = None
    headers: dict[_HeaderName, _HeaderText] = {}


class _PollFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: _AskText
    status: PointerText
    succeeded: Annotated[list[str], msgspec.Meta(min_length=1)]
    failed: list[str] = []
    cancelled: list[str] = []
    unbilled: list[str] = []
    pending: list[str] = []
    pending_status: list[_Status] = []
    retried_status: list[_Status] = []
    otherwise: _PathText | None = None
    method: Literal["GET", "POST"] = "GET"
    body: object = None
    headers: dict[_HeaderName, _HeaderText] = {}
    every: _Seconds = 1.0
    slower_by: Annotated[float, msgspec.Meta(ge=1, le=4)] = 1.3
    at_most_every: _Seconds = 10.0
    give_up_after: _Seconds = 3600.0
    patience: Annotated[int, msgspec.Meta(ge=0, le=100)] = 5
    result: _ResultFile | None = None


class _PartFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_.\[\]-]+\Z", max_length=64)]
    at: PointerText


class _FormFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    files: list[_PartFile] = []


class _CallFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    protocol: Protocol
    path: _PathText
    timeout: _Seconds = 120.0
    answer_limit_mib: Annotated[int, msgspec.Meta(ge=1, le=512)] = 64
    require: list[PointerText] = []
    assets: list[PointerText] = []
    media_types: list[str] = []
    # Plain texts, for the reason given in storage/catalog/files.py.
    handle: str | dict[str, str] | None = None
    told: Annotated[dict[str, str], msgspec.Meta(max_length=8)] = {}
    poll: _PollFile | None = None
    cancel: _CancelFile | None = None
    headers: dict[_HeaderName, _HeaderText] = {}
    form: _FormFile | None = None
    in_array: bool = False
    free_when_left: bool = False
    in_path: list[_Name] = []
    in_query: list[_Name] = []
    accept: _HeaderText | None = None


class _RetryFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    times: Annotated[int, msgspec.Meta(ge=0, le=10)] = 2
    first: _Seconds = 0.5
    at_most: _Seconds = 8.0


class _PostponeFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    times: Annotated[int, msgspec.Meta(ge=0, le=100)] = LATER.times
    first: _Seconds = LATER.first
    at_most: _Seconds = LATER.at_most


class _CooldownFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    after: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 5
    seconds: _Seconds = 30.0


class _StorageFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    at: PointerText
    scheme: Annotated[str, msgspec.Meta(pattern=r"^[a-z][a-z0-9]{0,15}\Z")]
    read_from: Annotated[str, msgspec.Meta(pattern=r"^https?://[^/]+(/.*[^/])?\Z", max_length=256)]
    audience: str | None = None


class _ProviderFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    provider: str
    title: str
    base_url: Annotated[str, msgspec.Meta(pattern=r"^https?://[^/]+(/.*[^/])?\Z", max_length=256)]
    auth: _AuthFile
    calls: Annotated[dict[str, _CallFile], msgspec.Meta(min_length=1)]
    headers: dict[_HeaderName, _HeaderText] = {}
    idempotency_header: _HeaderName | None = None
    signs: list[_SignFile] = []
    hosts: list[_HostText] = []
    asset_hosts: list[_AssetHostText] = []
    alternate: bool = False
    variables: list[_Name] = []
    retry: _RetryFile = _RetryFile()
    postpone: _PostponeFile = _PostponeFile()
    cooldown: _CooldownFile = _CooldownFile()
    storage: _StorageFile | None = None


def load_provider(text: str, file: str) -> Provider:
    """Read one provider file; BadFileError with file, line and reason."""
    read = read_toml(text, file, _ProviderFile)
    for steps, problem in _problems(read):
        raise BadFileError(file, line_of_toml(text, steps), f"{'.'.join(steps)}: {problem}")
    return Provider(
        name=read.provider,
        title=read.title,
        base_url=read.base_url,
        auth=_auth(read.auth),
        headers=read.headers,
        idempotency_header=read.idempotency_header,
        calls={name: _call(name, call) for name, call in read.calls.items()},
        signs=tuple(_sign(sign) for sign in read.signs),
        hosts=tuple(read.hosts),
        asset_hosts=tuple(read.asset_hosts),
        is_alternate=read.alternate,
        variables=tuple(read.variables),
        retry=Retry(read.retry.times, read.retry.first, read.retry.at_most),
        postpone=Retry(read.postpone.times, read.postpone.first, read.postpone.at_most),
        cooldown=Cooldown(read.cooldown.after, read.cooldown.seconds),
        storage=None if read.storage is None else _storage(read.storage),
    )


def _storage(read: _StorageFile) -> Storage:
    return Storage(parse_pointer(read.at), read.scheme, read.read_from, read.audience)


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


Problem = tuple[list[str], str]


def _problems(read: _ProviderFile) -> list[Problem]:
    """Contradictions between the parts of a file, each with its place."""
    found: list[Problem] = []
    if not is_provider_segment(read.provider):
        found.append((["provider"], f"{read.provider!r} is not a provider name"))
    if (read.auth.scheme == "tc3") != (read.auth.service is not None):
        found.append((["auth", "service"], "'service' belongs to the scheme tc3, which needs it"))
    if (read.auth.scheme == "pair") != (read.auth.headers is not None):
        found.append((["auth", "headers"], "'headers' belongs to the scheme pair, which needs it"))
    if unnamed := set(_PLACEHOLDER.findall(read.base_url)) ^ set(read.variables):
        found.append((["base_url"], f"the variables and the address disagree about {min(unnamed)!r}"))
    for name, call in read.calls.items():
        found.extend(([*("calls", name), *steps], problem) for steps, problem in _call_problems(call))
    for index, sign in enumerate(read.signs):
        here = ["signs", str(index)]
        found.extend(([*here, *steps], problem) for steps, problem in _sign_problems(sign, read.calls))
    return found


_PARTS_WITH_TOLD: Final = 2
"""A handle of fewer parts is kept as the partner wrote it, which has no room for figures."""


def _call_problems(call: _CallFile) -> list[Problem]:
    polls = call.protocol is Protocol.SUBMIT_AND_POLL
    handle = _handle_parts(call.handle)
    found = _address_problems(call)
    if polls and (not handle or call.poll is None):
        found.append(([], "submit-and-poll needs a 'handle' and a [poll] table"))
    if not polls and (handle or call.poll is not None):
        found.append(([], f"{call.protocol} has neither 'handle' nor 'poll'"))
    if not polls and call.cancel is not None:
        found.append((["cancel"], f"{call.protocol} has ended with its answer, and there is nothing to cancel"))
    if polls and call.free_when_left:
        found.append((["free_when_left"], "submit-and-poll goes on without a connection; 'cancel' stops it"))
    if not all(_is_part(name, place) for name, place in handle.items()):
        found.append((["handle"], "a handle's parts have names of lower-case letters, and are pointers such as /id"))
    found.extend(_told_problems(call.told, handle))
    if (call.protocol is Protocol.SYNC_BYTES) != bool(call.media_types):
        found.append(([], "'media_types' belongs to sync-bytes, which needs it"))
    if call.poll is not None and handle:
        found.extend(_poll_problems(call.poll, set(handle)))
        found.extend(_cancel_problems(call.cancel, set(handle)))
        if _optional(call.poll) & (_placeholders(call.poll.result) | _placeholders(call.cancel)):
            found.append((["poll", "otherwise"], "the address that may be missing is needed for another request"))
    return found


def _told_problems(told: Mapping[str, str], handle: Mapping[str, str]) -> list[Problem]:
    found: list[Problem] = []
    if not all(_is_part(name, place) and name not in handle for name, place in told.items()):
        found.append((["told"], "what is told has other names than the handle's parts, and pointers such as /cost"))
    if told and len(handle) < _PARTS_WITH_TOLD:
        found.append((["told"], "what is told is kept beside a handle of several parts"))
    return found


def _address_problems(call: _CallFile) -> list[Problem]:
    """Placeholders of a path without a value, and fields of the body that cannot be in a path."""
    placeholders = set(_PLACEHOLDER.findall(call.path))
    strange = sorted(placeholders - {"model", *call.in_path})
    found: list[Problem] = []
    if strange:
        found.append((["path"], f"nothing stands for {strange[0]!r}; there is only {{model}} and what 'in_path' names"))
    if "model" in call.in_path or not placeholders.issuperset(call.in_path):
        found.append((["in_path"], "it names fields of the body that 'path' has in braces, and {model} is not one"))
    if {*call.in_path} & {*call.in_query}:
        found.append((["in_query"], "a field is in the path or in the query, not in both"))
    return found


def _poll_problems(poll: _PollFile, parts: set[str]) -> list[Problem]:
    named = _placeholders(poll)
    if not parts & named:
        return [(["poll", "path"], f"nothing of the handle is asked about; it has {', '.join(sorted(parts))}")]
    if poll.otherwise is not None:
        if poll.path.startswith("/"):
            return [(["poll", "otherwise"], "'otherwise' stands in for an address in an answer, and 'path' has none")]
        known = set(_PLACEHOLDER.findall(poll.otherwise))
        if not known & (parts - _optional(poll)):
            return [(["poll", "otherwise"], "nothing of the handle is asked about without the address")]
        named |= known
    if strange := (named | _placeholders(poll.result)) - parts - {"model"}:
        return [(["poll"], f"the handle has no part {min(strange)!r}")]
    return _status_problems(poll)


def _status_problems(poll: _PollFile) -> list[Problem]:
    if doubled := {*poll.cancelled} & {*poll.pending, *poll.succeeded, *poll.failed}:
        return [(["poll", "cancelled"], f"{min(doubled)!r} means something else as well")]
    if strange := {*poll.unbilled} - {*poll.failed}:
        return [(["poll", "unbilled"], f"{min(strange)!r} is not among the texts of 'failed'")]
    return []


def _optional(poll: _PollFile | None) -> set[str]:
    """The part of a handle that may be missing: the address that `otherwise` replaces."""
    return set(_PLACEHOLDER.findall(poll.path.partition("/")[0])) if poll is not None and poll.otherwise else set()


def _cancel_problems(cancel: _CancelFile | None, parts: set[str]) -> list[Problem]:
    if cancel is None:
        return []
    named = _placeholders(cancel)
    if not parts & named:
        return [(["cancel", "path"], f"nothing of the handle is cancelled; it has {', '.join(sorted(parts))}")]
    if strange := named - parts - {"model"}:
        return [(["cancel"], f"the handle has no part {min(strange)!r}")]
    return []


def _placeholders(asking: _PollFile | _ResultFile | _CancelFile | None) -> set[str]:
    """The placeholders in a request about submitted work."""
    if asking is None:
        return set()
    return set(_PLACEHOLDER.findall(msgspec.json.encode([asking.path, asking.body]).decode()))


def _sign_problems(sign: _SignFile, calls: Mapping[str, _CallFile]) -> list[Problem]:
    if sign.status is None and not sign.when:
        return [([], "a sign needs 'status' or 'when'; this one always holds")]
    if problem := next(filter(None, (one.problem() for one in sign.when)), None):
        return [(["when"], problem)]
    if unknown := sorted({*sign.subjects.values()} - REFUSAL_SUBJECTS):
        return [(["subjects"], f"{unknown[0]!r} is not a refusal subject")]
    if sign.side is not None and sign.side not in REFUSAL_SUBJECTS:
        return [(["side"], f"{sign.side!r} is not a refusal subject")]
    return _reach_problems(sign, calls)


def _reach_problems(sign: _SignFile, calls: Mapping[str, _CallFile]) -> list[Problem]:
    if strange := sorted(set(sign.calls or ()) - set(calls)):
        return [(["calls"], f"there is no call {strange[0]!r}")]
    if sign.means is Meaning.CANCELLED and all(calls[name].poll is None for name in sign.calls or calls):
        return [(["means"], "only submitted work is cancelled, and none of its calls submits any")]
    return []


def _auth(read: _AuthFile) -> Auth:
    if read.scheme == "bearer":
        return Auth(Scheme.HEADER, (read.header,), "Bearer ")
    return Auth(
        scheme=Scheme(read.scheme),
        headers=(read.header,) if read.headers is None else tuple(read.headers),
        prefix="Bearer " if read.scheme == "jwt" and not read.prefix else read.prefix,
        algorithm=read.algorithm,
        audience=read.audience,
        lifetime=read.lifetime,
        service=read.service or "",
    )


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
        handle=_handle(read.handle),
        polling=None if read.poll is None else _polling(read.poll),
        cancel=None if read.cancel is None else _asking(read.cancel),
        headers=read.headers,
        form=None if read.form is None else Form(tuple(Part(p.name, parse_pointer(p.at)) for p in read.form.files)),
        is_in_array=read.in_array,
        in_path=tuple(read.in_path),
        in_query=tuple(read.in_query),
        accept=read.accept,
        optional=frozenset(_optional(read.poll)),
        told={told: parse_pointer(text) for told, text in read.told.items()},
        is_free_when_left=read.free_when_left,
    )


def _handle(read: str | dict[str, str] | None) -> dict[str, Pointer]:
    return {name: parse_pointer(text) for name, text in _handle_parts(read).items()}


def _handle_parts(read: str | dict[str, str] | None) -> dict[str, str]:
    """The parts of a handle; a handle of one part calls it `handle`."""
    if read is None:
        return {}
    return {"handle": read} if isinstance(read, str) else read


def _is_part(name: str, place: str) -> bool:
    return _PART.fullmatch(name) is not None and place.startswith("/") and len(place) <= _POINTER_MAX


def _polling(read: _PollFile) -> Polling:
    return Polling(
        asking=replace(_asking(read), otherwise=read.otherwise),
        every=read.every,
        slower_by=read.slower_by,
        at_most_every=read.at_most_every,
        give_up_after=read.give_up_after,
        patience=read.patience,
        status=parse_pointer(read.status),
        pending=frozenset(read.pending),
        succeeded=frozenset(read.succeeded),
        failed=frozenset(read.failed),
        cancelled=frozenset(read.cancelled),
        unbilled=frozenset(read.unbilled),
        pending_status=frozenset(read.pending_status),
        retried_status=frozenset(read.retried_status),
        result=None if read.result is None else _asking(read.result),
    )


def _asking(read: _PollFile | _ResultFile | _CancelFile) -> Asking:
    body = None if read.body is None else msgspec.json.encode(read.body).decode()
    return Asking(read.method, read.path, body, headers=read.headers)


def _sign(read: _SignFile) -> Sign:
    return Sign(
        means=read.means,
        status=None if read.status is None else frozenset(read.status),
        when=conditions(read.when),
        reason=_pointer(read.reason),
        field=_pointer(read.field),
        kind=_pointer(read.kind),
        subject=_pointer(read.subject),
        subjects=read.subjects,
        side=read.side,
        calls=None if read.calls is None else frozenset(read.calls),
    )


def _pointer(text: str | None) -> Pointer | None:
    return None if text is None else parse_pointer(text)
