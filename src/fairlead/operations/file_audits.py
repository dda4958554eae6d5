"""Audits of the stored files on a running server: one at a time, in the background; the last one is kept."""

import asyncio
from collections import Counter
from typing import Final

import msgspec

from fairlead.clock import Clock
from fairlead.domain.accounts.rights import Actor
from fairlead.domain.faults import FaultError
from fairlead.observing.observations import Observer, UnexpectedError
from fairlead.operations.accounts.audit_log import Act, record_act
from fairlead.operations.assets.stored_files import AuditedBlobs, BlobAudit, Count, Finding
from fairlead.storage.blobs.store import BlobsUnavailableError
from fairlead.storage.db.database import Database

FINDINGS_MAX: Final = 200
"""How many findings of each kind are kept; all are counted."""


class AuditUnderWayError(Exception):
    """An audit of the stored files is under way on this server."""


class FileAudit(msgspec.Struct):
    """An audit: `done` of its `parts` are read, and `finished_at` is None while it runs. Times in ms since 1970."""

    started_at: int
    is_thorough: bool
    count: Count
    findings: list[Finding] = msgspec.field(default_factory=list)
    done: int = 0
    parts: int = 1
    finished_at: int | None = None
    error: str | None = None
    """Why the audit was abandoned; None if it has finished or is running."""


class FileAudits:
    """Begins audits, and keeps the last one."""

    def __init__(self, database: Database, blobs: AuditedBlobs, clock: Clock, observe: Observer) -> None:
        self._database = database
        self._blobs = blobs
        self._clock = clock
        self._observe = observe
        self._task: asyncio.Task[None] | None = None
        self.last: FileAudit | None = None

    async def begin(self, by: Actor, *, is_thorough: bool) -> FileAudit:
        """Begin an audit, which reads every byte if it `is_thorough`; AuditUnderWayError, FaultError.

        It is in the audit log before anything is read.
        """
        if self.last is not None and self.last.finished_at is None:
            raise AuditUnderWayError
        audit = FileAudit(self._clock.now_ms(), is_thorough, Count())
        self.last, before = audit, self.last
        act = Act("stored_files.audited", None, None, {"is_thorough": is_thorough})
        try:
            await record_act(self._database, by, act, self._clock)
        except BaseException:
            self.last = before
            raise
        self._task = asyncio.get_running_loop().create_task(self._run(audit))
        return audit

    async def close(self) -> None:
        """Stop a running audit."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self, audit: FileAudit) -> None:
        kept = Counter[str]()

        def keep(finding: Finding) -> None:
            kept[finding.problem] += 1
            if kept[finding.problem] <= FINDINGS_MAX:
                audit.findings.append(finding)

        def show(done: int, parts: int, _count: Count) -> None:
            audit.done, audit.parts = done, parts

        auditor = BlobAudit(self._database, self._blobs, self._clock, keep, show)
        audit.count = auditor.count
        try:
            await (auditor.verify_all() if audit.is_thorough else auditor.look_for_all())
            audit.done = audit.parts
        except (BlobsUnavailableError, FaultError) as error:
            audit.error = f"the stored files or the database cannot be read ({type(error).__name__})"
        except Exception as error:  # noqa: BLE001 -- a task of its own: nobody else would be told
            audit.error = "the audit has failed; the log says why"
            self._observe(UnexpectedError("audit stored files", error))
        finally:
            audit.finished_at = self._clock.now_ms()
