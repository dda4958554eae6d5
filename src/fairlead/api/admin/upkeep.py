"""What keeps an installation sound, for operators: audits of the stored files, and the server's master secrets."""

from collections.abc import Sequence
from typing import Final, Literal, TypedDict

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from fairlead.api.admin.access import actor_of
from fairlead.api.admin.bodies import answer, page_of, read_body
from fairlead.api.admin.documents import Page
from fairlead.api.http.route import Access, Answer, Body, Route
from fairlead.api.http.schemas import Time, Uuid, as_time
from fairlead.domain.accounts.rights import Right
from fairlead.domain.faults import FaultError, RequestNotFound
from fairlead.operations.accounts.secret_rotation import Rotated, SecretRotation, SecretStateName
from fairlead.operations.assets.stored_files import Finding, Problem
from fairlead.operations.file_audits import FileAudit, FileAudits

_ACCEPTED: Final = 202


class NamedBy(TypedDict):
    """A row of the database that names a stored file."""

    kind: str
    id: str
    workspace_id: Uuid


class FindingShown(TypedDict):
    """A stored file that is damaged or missing, and up to twenty rows that name it."""

    problem: Problem
    file: str
    named_by: Sequence[NamedBy]


class FileAuditShown(TypedDict):
    """An audit of the stored files, by the server that answers; `findings` has up to 200 of each kind.

    All is well when it has finished without an error and nothing is damaged or missing. Files that no row names
    (`orphaned`) do no harm, and a server removes them.
    """

    is_right: bool
    is_thorough: bool
    started_at: Time
    finished_at: Time | None
    progress: float
    error: str | None
    references: int
    files: int
    bytes: int
    damaged: int
    missing: int
    orphaned: int
    findings: Sequence[FindingShown]


class NewFileAudit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An audit to be begun: a thorough one reads every byte, any other looks at names and sizes."""

    is_thorough: bool = False


class SecretShown(TypedDict):
    """A master secret by its name, which reveals nothing of it, and how many sealed texts need it."""

    name: str | None
    state: SecretStateName
    since: Time | None
    sealed: int


class NewSecret(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the next secret is made: where it must first be copied to other hosts, it is made but not used yet."""

    is_only_prepared: bool = False


class SecretsFinish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How earlier secrets are forgotten: with `now` also while links signed with them may still be valid."""

    now: bool = False


class SecretsResealed(TypedDict):
    """The secret that is current, how many texts were sealed with it, and how many no known secret opens."""

    current: str
    resealed: int
    unreadable: int


class SecretMade(TypedDict):
    """The secret that was made; what was sealed with it is null where it is only prepared."""

    name: str
    state: Literal["next", "current"]
    resealed: int | None
    unreadable: int | None


class SecretsFinished(TypedDict):
    """How many secrets were forgotten, how many webhook secrets kept, and how many texts opened with none."""

    forgotten: int
    webhook_secrets_kept: int
    unreadable: int


class UpkeepHandlers(msgspec.Struct, frozen=True):
    """Answers the routes of the upkeep."""

    files: FileAudits
    secrets: SecretRotation

    async def show_file_audit(self, _request: Request) -> Response:
        """`GET /stored-files/audit`: the audit under way, or the last one since this server has started."""
        if self.files.last is None:
            raise FaultError(RequestNotFound(detail="No audit was begun since this server has started."))
        return answer(_shown_audit(self.files.last))

    async def begin_file_audit(self, request: Request) -> Response:
        """`POST /stored-files/audit`: begin one in the background; there is one at a time."""
        body = await read_body(request, NewFileAudit)
        begun = await self.files.begin(actor_of(request), is_thorough=body.is_thorough)
        return answer(_shown_audit(begun), _ACCEPTED)

    async def list_secrets(self, _request: Request) -> Response:
        """`GET /secrets`: the master secrets of this server, by their names."""
        found: list[SecretShown] = [
            {
                "name": one.name,
                "state": one.state,
                "since": None if one.since is None else as_time(one.since),
                "sealed": one.sealed,
            }
            for one in await self.secrets.states()
        ]
        return answer(page_of(found, "secrets", None))

    async def rotate_secret(self, request: Request) -> Response:
        """`POST /secrets/rotate`: make another secret, and use it unless it is only announced."""
        body, by = await read_body(request, NewSecret), actor_of(request)
        told: SecretMade
        if body.is_only_prepared:
            name = await self.secrets.prepare(by)
            told = {"name": name, "state": "next", "resealed": None, "unreadable": None}
        else:
            done = await self.secrets.rotate(by)
            resealed = done.resealed
            told = {
                "name": done.current,
                "state": "current",
                "resealed": resealed.done,
                "unreadable": resealed.unreadable,
            }
        return answer(told)

    async def reseal_secrets(self, request: Request) -> Response:
        """`POST /secrets/reseal`: seal with the current secret what others have sealed."""
        return answer(_show_rotation(await self.secrets.reseal(actor_of(request))))

    async def finish_secrets(self, request: Request) -> Response:
        """`POST /secrets/finish`: forget the earlier secrets."""
        body = await read_body(request, SecretsFinish)
        done = await self.secrets.finish(actor_of(request), at_once=body.now)
        told: SecretsFinished = {
            "forgotten": done.forgotten,
            "webhook_secrets_kept": done.webhook_secrets_kept,
            "unreadable": done.unreadable,
        }
        return answer(told)


def _show_rotation(done: Rotated) -> SecretsResealed:
    return {"current": done.current, "resealed": done.resealed.done, "unreadable": done.resealed.unreadable}


def _shown_audit(audit: FileAudit) -> FileAuditShown:
    count = audit.count
    return {
        "is_right": audit.finished_at is not None and audit.error is None and count.is_clean,
        "is_thorough": audit.is_thorough,
        "started_at": as_time(audit.started_at),
        "finished_at": None if audit.finished_at is None else as_time(audit.finished_at),
        "progress": round(audit.done / audit.parts, 3),
        "error": audit.error,
        "references": count.references,
        "files": count.blobs,
        "bytes": count.bytes,
        "damaged": count.damaged,
        "missing": count.missing,
        "orphaned": count.orphaned,
        "findings": [_shown_finding(one) for one in audit.findings],
    }


def _shown_finding(one: Finding) -> FindingShown:
    named_by: list[NamedBy] = [
        {"kind": row.kind, "id": row.id, "workspace_id": row.workspace_id} for row in one.named_by
    ]
    return {"problem": one.problem, "file": one.blob, "named_by": named_by}


_AUDIT: Final = "/stored-files/audit"
ROUTES: Final = (
    Route(
        "GET",
        _AUDIT,
        UpkeepHandlers.show_file_audit,
        "Show the last audit of the stored files",
        {200: Answer("The audit.", FileAuditShown)},
        (404,),
        access=Access.MEMBER,
        right=Right.OPERATE,
    ),
    Route(
        "POST",
        _AUDIT,
        UpkeepHandlers.begin_file_audit,
        "Begin an audit of the stored files",
        {202: Answer("The audit, which goes on in the background.", FileAuditShown)},
        (400, 409, 413, 422),
        body=Body(NewFileAudit),
        access=Access.MEMBER,
        right=Right.OPERATE,
    ),
    Route(
        "GET",
        "/secrets",
        UpkeepHandlers.list_secrets,
        "List the server's master secrets by their names",
        {200: Answer("All of them, the current one first.", Page[SecretShown])},
        (409,),
        access=Access.MEMBER,
        right=Right.OPERATE,
    ),
    Route(
        "POST",
        "/secrets/rotate",
        UpkeepHandlers.rotate_secret,
        "Make another master secret the current one, or prepare it",
        {200: Answer("The secret by its name.", SecretMade)},
        (400, 409, 413, 422),
        body=Body(NewSecret),
        access=Access.MEMBER,
        description="It changes the file of the host that answers. With files on several hosts, each must know the next"
        " secret before one uses it: prepare it, copy the file to the others, rotate, and copy it again.",
        right=Right.OPERATE,
    ),
    Route(
        "POST",
        "/secrets/reseal",
        UpkeepHandlers.reseal_secrets,
        "Seal with the current master secret what others have sealed",
        {200: Answer("What was sealed again.", SecretsResealed)},
        (409,),
        access=Access.MEMBER,
        right=Right.OPERATE,
    ),
    Route(
        "POST",
        "/secrets/finish",
        UpkeepHandlers.finish_secrets,
        "Forget the master secrets of before",
        {200: Answer("What was forgotten.", SecretsFinished)},
        (400, 409, 413, 422),
        body=Body(SecretsFinish),
        access=Access.MEMBER,
        right=Right.OPERATE,
    ),
)
