"""The outputs of jobs as assets, texts too (J-13, K-02).

A node sends a text within the event that shows it, so a text has no file. It gets one when the jobs API is first asked
for it; callers of other APIs, which show texts directly, do not pay for that.
"""

from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

import msgspec
from blake3 import blake3
from msgspec.structs import replace

from fairlead.clock import Clock
from fairlead.domain.accounts.callers import Caller
from fairlead.domain.faults import FaultError, ServiceUnavailable
from fairlead.domain.jobs.events import Event, Executed, Started
from fairlead.domain.jobs.jobs import Job, JobLifetime
from fairlead.domain.jobs.outputs import (
    TEXT_CHARACTERS_MAX,
    JobOutput,
    ShownFile,
    ShownText,
    outputs_of_events,
    outputs_of_job,
    outputs_of_node,
)
from fairlead.domain.jobs.states import WORKING
from fairlead.observing.observations import DatabaseTrouble, Observer
from fairlead.operations.assets.files import TEXTS_KIND, FileLinks, WorkflowFiles
from fairlead.storage.assets.files import WorkflowFile, find_files
from fairlead.storage.blobs.store import BlobsUnavailableError, FileBlobs
from fairlead.storage.db.database import Database, DatabaseUnavailableError, Work
from fairlead.storage.jobs.jobs import events_of

T = TypeVar("T")
_KINDS: Final = (Started.__name__, Executed.__name__)
_DIGITS: Final = 32
"""How many digits of a text's BLAKE3 are in the name of its file: the same text is one file of its workspace."""
_events: Final = msgspec.json.Decoder(Event)
_Name = tuple[str, str]


class JobOutputs:
    """Finds the outputs of jobs. Every method raises FaultError where the database or the store is away.

    A file that was deleted is no longer an output; one whose bytes are missing is marked as lost.
    """

    def __init__(
        self,
        database: Database,
        blobs: FileBlobs,
        files: WorkflowFiles,
        links: FileLinks,
        lifetime: JobLifetime,
        clock: Clock,
        observe: Observer,
    ) -> None:
        self._database = database
        self._blobs = blobs
        self._files = files
        self._links = links
        self._lifetime = lifetime
        self._clock = clock
        self._observe = observe

    async def of_job(self, caller: Caller, job: Job) -> Sequence[JobOutput]:
        """All outputs of a job; of one that is executed, those that were committed so far."""
        if job.state not in WORKING:
            return await self._find(caller, job, outputs_of_job(job.outputs))
        kept = await self._read(lambda c: events_of(c, caller.workspace_id, job.id, _KINDS))
        return await self._find(caller, job, outputs_of_events([_events.decode(event.data) for event in kept]))

    async def of_node(self, caller: Caller, job: Job, event: Executed) -> Sequence[JobOutput]:
        """The outputs that a node of a job has just shown."""
        return await self._find(caller, job, list(outputs_of_node(event.place.real_node, event.ui)))

    async def _find(self, caller: Caller, job: Job, shown: Sequence[ShownFile | ShownText]) -> Sequence[JobOutput]:
        if not shown:
            return ()
        contents = {item.text: _Content(item.text) for item in shown if isinstance(item, ShownText)}
        names: list[_Name] = [
            (item.kind, item.name) if isinstance(item, ShownFile) else contents[item.text].name for item in shown
        ]
        now = self._clock.now_ms()
        files = await self._read(lambda c: find_files(c, caller.workspace_id, set(names), now))
        sizes = await self._sizes(files)
        files |= await self._kept_texts(caller, job, contents, files, sizes)
        files |= await self._keep_longer(caller, job, files)
        outputs = []
        for item, name in zip(shown, names, strict=True):
            if (file := files.get(name)) is not None:
                is_lost = sizes.get(file.blob, file.size) != file.size
                outputs.append(self._output(job, item, file, is_lost=is_lost and isinstance(item, ShownFile)))
        return outputs

    async def _kept_texts(
        self,
        caller: Caller,
        job: Job,
        contents: Mapping[str, "_Content"],
        files: Mapping[_Name, WorkflowFile],
        sizes: Mapping[str, int | None],
    ) -> Mapping[_Name, WorkflowFile]:
        """The files of texts that have none yet, or none that lives as long as the job, or a lost one."""
        until = self._lifetime.end_of(job)
        wanting = {}
        for content in contents.values():
            file = files.get(content.name)
            is_kept = file is not None and file.blob == content.digest and sizes.get(file.blob) == file.size
            if not is_kept or (file is not None and file.expires_at is not None and file.expires_at < until):
                wanting[content.name] = content.text
        if not wanting:
            return {}
        texts = {filename: text for (_, filename), text in wanting.items()}
        kept = await self._files.keep_texts(caller.workspace_id, job.id, texts, until)
        return {(TEXTS_KIND, filename): file for filename, file in kept.items()}

    async def _keep_longer(
        self, caller: Caller, job: Job, files: Mapping[_Name, WorkflowFile]
    ) -> Mapping[_Name, WorkflowFile]:
        """Files that would expire before the job that has made them, which are kept as long as the job from now on.

        A file's time begins when it is made, and so ends before that of a job that went on afterwards.
        """
        until = job.expires_at
        if until is None:
            return {}
        sooner = {name: file for name, file in files.items() if file.expires_at is not None and file.expires_at < until}
        try:
            if sooner:
                await self._files.keep_longer(caller.workspace_id, sooner, until)
        except FaultError:
            return {}  # the next read of the job keeps them
        return {name: replace(file, expires_at=until) for name, file in sooner.items()}

    async def _sizes(self, files: Mapping[_Name, WorkflowFile]) -> Mapping[str, int | None]:
        """How many bytes are stored of each file, by blobs; None for those that are missing."""
        try:
            return await self._blobs.sizes(sorted({file.blob for file in files.values()}))
        except BlobsUnavailableError as error:
            raise FaultError(_away()) from error

    async def _read(self, work: Work[T]) -> T:
        try:
            return await self._database.read(work)
        except DatabaseUnavailableError as error:
            self._observe(DatabaseTrouble("find the outputs of a job", str(error)))
            raise FaultError(_away()) from error

    def _output(self, job: Job, shown: ShownFile | ShownText, file: WorkflowFile, *, is_lost: bool) -> JobOutput:
        link = self._links.sign(file)
        return JobOutput(
            job_id=job.public_id,
            node_id=shown.node_id,
            name=file.name,
            content_type=file.content_type,
            size=file.size,
            id=file.id,
            blob=file.blob,
            link=link.path,
            link_expires_at=link.expires_at,
            text=shown.text[:TEXT_CHARACTERS_MAX] if isinstance(shown, ShownText) else None,
            is_latent=isinstance(shown, ShownFile) and shown.is_latent,
            is_lost=is_lost,
        )


class _Content:
    """A text as the file it is."""

    def __init__(self, text: str) -> None:
        self.text = text.encode("utf-8", "replace")
        self.digest: str = blake3(self.text).hexdigest()
        self.name: _Name = (TEXTS_KIND, f"text_{self.digest[:_DIGITS]}.txt")


def _away() -> ServiceUnavailable:
    return ServiceUnavailable("Outputs cannot be read right now.")
