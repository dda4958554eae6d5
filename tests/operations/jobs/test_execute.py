"""Jobs over a real database and real files, with a stand-in for the engine hosts: outages, and servers that stop."""

import asyncio
import json
import threading
import zlib
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from sqlalchemy import func, select

from conftest import Run
from fairlead.domain.faults import FaultError, ServiceUnavailable
from fairlead.domain.jobs.entries import JobProgress
from fairlead.domain.jobs.events import (
    Ending,
    EventEnvelope,
    Executed,
    Executing,
    Failed,
    Failure,
    Finished,
    Place,
    Succeeded,
)
from fairlead.domain.jobs.outputs import SHOWN_BYTES_MAX
from fairlead.domain.work.entries import Claim
from fairlead.engine.hosts.service import DeclinedError, Execute, HostCallbacks, ModelAnswer
from fairlead.messaging.event_hub import HubLimits
from fairlead.messaging.local.event_hub import LocalEventHub
from fairlead.observing.observations import DatabaseTrouble, JobEnded, UnexpectedError
from fairlead.operations.accounts.authenticate import Authenticator
from fairlead.operations.jobs.callbacks import CheckCallbacks
from fairlead.operations.jobs.execute import JobExecutor
from fairlead.operations.jobs.models import NodeCall
from fairlead.operations.jobs.patience import Patience
from fairlead.operations.jobs.store import REFUSAL
from fairlead.operations.jobs.work import JobQueue, JobWork
from fairlead.operations.work.places import Places
from fairlead.operations.work.presence import ServerPresence
from fairlead.operations.work.queue import WorkQueue
from fairlead.operations.work.store import WorkStore
from fairlead.operations.work.stored_documents import StoredDocuments
from fairlead.storage.accounts.workspaces import create_key
from fairlead.storage.blobs.store import AdoptedBlob, BlobsUnavailableError
from fairlead.storage.db.database import Database
from fairlead.storage.db.tables import job_events, jobs, workflow_files
from fairlead.storage.jobs.entries import JobJournal, write_job_entries
from fairlead.storage.jobs.jobs import inflate
from fairlead.storage.work.journal import Journal
from fake_partner import FakePartner
from operations.assets.test_files import PNG, Cabinet
from operations.servers import Guarded
from storage.bookings import LAB, NOW, Books, new_key
from storage.jobs.test_jobs import submission
from waiting import until

Work = Callable[[HostCallbacks], Awaitable[Ending]]
JOB: Final = "job-1"
DONE: Final = Succeeded()
_ATTEMPTS: Final = 2


class Hosts:
    """Stands for the engine hosts: a job is what a test has its nodes ask and tell."""

    def __init__(self) -> None:
        """Begin with jobs that never end."""
        self.work: Work = lambda _: asyncio.Event().wait()  # type: ignore[assignment,return-value]

    async def execute(self, _workspace_id: str, _order: Execute, callbacks: HostCallbacks, _packs: object) -> Ending:
        """Do what the test says."""
        return await self.work(callbacks)

    def interrupt(self, _job_id: str) -> None:
        """Nothing here is interrupted."""


class Models:
    """Stands for partners' models."""

    async def run(self, payer: Any, asked: NodeCall, _wanted: object) -> ModelAnswer:
        """Answer with who pays, and for what."""
        return ModelAnswer(f"{payer.key_id} {asked.labels}".encode())


class Site:
    """One server's jobs, wired as a server does it; the next server is another one on the same database."""

    def __init__(self, cabinet: Cabinet, database: Guarded, number: int, seconds: float) -> None:
        """Have two places for jobs."""
        self.seen = cabinet.seen
        self.hosts = Hosts()
        self.files = cabinet.files
        self.journal: JobJournal = Journal(database, write_job_entries, lambda *_: None)
        self.store = WorkStore(self.journal, self.seen.append, REFUSAL)
        self.places = Places(2)
        patience = Patience(self.seen.append, seconds)
        event_hub = self.event_hub = LocalEventHub(HubLimits())
        server_id = f"server-{number}"
        self.executor = JobExecutor(
            self.hosts, self.store, cabinet.files, Models(), Authenticator(database, None), event_hub, cabinet.clock,  # type: ignore[arg-type]
            self.seen.append, patience, server_id=server_id, places=self.places, kept_ms=1000,
        )  # fmt: skip
        presence = ServerPresence(database, cabinet.clock, self.seen.append, server_id, alone=True, silent_ms=1)
        documents = StoredDocuments(cabinet.blobs, self.seen.append)
        work = JobWork(database, self.executor, event_hub, cabinet.clock, self.seen.append, 1000, documents, _ATTEMPTS)
        self.queue: JobQueue = WorkQueue(
            work, database, self.store, cabinet.clock, self.seen.append, presence, timeout_ms=10**9
        )

    async def begin(self) -> None:
        """Claim the job that waits, and have it executed."""
        await self.claim()

    async def claim(self) -> None:
        """Claim the job as a worker does: in a place, which is given back where there is nothing to execute."""
        reservation = self.executor.reserve(LAB)
        assert reservation is not None
        if await self.queue.claim(JOB, LAB, reservation) is None:
            reservation.give_back()

    async def wait_for_end(self) -> JobEnded:
        """Wait for the end of the job."""
        await until(lambda: any(isinstance(seen, JobEnded) for seen in self.seen))
        return next(seen for seen in self.seen if isinstance(seen, JobEnded))


@pytest.fixture
def guarded(database: Database) -> Guarded:
    """Return the test's database, which goes away when told so."""
    return Guarded(database)


@pytest.fixture
def cabinet(guarded: Guarded, books: Books, tmp_path: Path, shared_partner: FakePartner, run: Run) -> Iterator[Cabinet]:
    """Return the files of a workspace that may have jobs."""
    books.open(jobs_limit=1)
    made = Cabinet(guarded, tmp_path / "blobs", shared_partner)
    yield made
    assert [seen for seen in made.seen if isinstance(seen, UnexpectedError)] == []
    run(made.transport.close())


@pytest.fixture
def start(cabinet: Cabinet, guarded: Guarded, books: Books, run: Run) -> Iterator[Callable[..., Site]]:
    """Return a function that starts a server; a job waits for the first of them."""
    books.do(lambda c: create_key(c, new_key("payer")))
    sites: list[Site] = []

    def make(seconds: float = 30) -> Site:
        sites.append(Site(cabinet, guarded, len(sites) + 1, seconds))
        return sites[-1]

    first = make()
    run(first.store.write(submission(JOB, partner_key_id="payer", labels={"client": "acme"})))
    sites.clear()
    yield make
    for site in sites:
        run(site.executor.drain(0))
        run(site.journal.close())


def attempts(books: Books) -> dict[str, Any]:
    """Return where the job stands."""
    (row,) = books.rows("SELECT state, attempt, handed_back FROM jobs")
    return dict(row)


def test_questions_of_a_job_are_repeated_while_the_database_is_away(
    start: Callable[..., Site], cabinet: Cabinet, guarded: Guarded, tmp_path: Path, run: Run
) -> None:
    """A file that is read, named or kept, and the key that pays for a model: a short outage costs the job nothing."""
    site = start()
    answers: list[Any] = []

    async def work(callbacks: HostCallbacks) -> Ending:
        for question in (
            lambda: callbacks.find_file("a.png"),
            lambda: callbacks.list_files(""),
            lambda: callbacks.name_file("p", "png", "output", exact=False),
            lambda: callbacks.keep_file(made, "p_00001_.png", "output"),
            lambda: callbacks.run_model("7", 0, "acme/one", b"{}"),
        ):
            guarded.refusals = 1
            answers.append(await question())
        return DONE

    made = tmp_path / "made.png"
    made.write_bytes(PNG)
    run(cabinet.upload(PNG))
    site.hosts.work = work
    run(site.begin())
    assert run(site.wait_for_end()).state == "succeeded"
    path, names, name, nothing, model = answers
    assert (path.read_bytes(), names, name, nothing) == (PNG, ["a.png"], "p_00001_.png", None)
    assert model.body == b'payer {"client":"acme"}'
    assert [seen.doing for seen in site.seen if isinstance(seen, DatabaseTrouble)] == [
        "find a file", "list files", "name a file", "keep a file", "look up who pays",
    ]  # fmt: skip


def test_file_of_a_job_is_kept_once_the_store_takes_it_again(
    start: Callable[..., Site], cabinet: Cabinet, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full for a moment leaves the file where the host has written it."""
    site = start()
    made = tmp_path / "made.png"
    made.write_bytes(PNG)
    place, refusals = cabinet.blobs.place, [BlobsUnavailableError("full")]

    async def refusing(spooled: Path, name: str) -> None:
        if refusals:
            raise refusals.pop()
        await place(spooled, name)

    async def work(callbacks: HostCallbacks) -> Ending:
        await callbacks.keep_file(made, "p_00001_.png", "output")
        return DONE

    monkeypatch.setattr(cabinet.blobs, "place", refusing)
    site.hosts.work = work
    run(site.begin())
    assert run(site.wait_for_end()).state == "succeeded"
    assert not made.exists()
    assert run(cabinet.read_named("p_00001_.png [output]")) == PNG


def test_node_goes_on_while_its_file_is_made_durable_and_nothing_is_told_before(
    start: Callable[..., Site], cabinet: Cabinet, books: Books, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row of a file, its event and the end of its job come after its bytes are durable, in this order."""
    site = start()
    order: list[str] = []
    is_durable = asyncio.Event()
    put, keep, publish, write = cabinet.blobs.put, site.files.keep, site.event_hub.publish, site.store.write_at_last
    name, files = "p_00001_.png", select(func.count()).select_from(workflow_files)

    async def slow(content: bytes, limit: int) -> AdoptedBlob:
        await is_durable.wait()
        adopted = await put(content, limit)
        order.append("durable")
        return adopted

    async def noted_keep(*arguments: Any) -> None:
        order.append("row")
        await keep(*arguments)

    def noted_publish(envelope: EventEnvelope) -> None:
        order.append(type(envelope.event).__name__)
        publish(envelope)

    async def noted_write(entry: Any) -> Any:
        if not isinstance(entry, JobProgress):  # written of a job that takes some time, as on a busy machine
            order.append(type(entry).__name__)
        return await write(entry)

    async def work(callbacks: HostCallbacks) -> Ending:
        callbacks.tell([Executing(Place("1", "1"))])
        await callbacks.keep_bytes(PNG, name, "output")
        order.append("answered")
        callbacks.tell([Executed(Place("1", "1"), {"images": []}), Finished(Place("1", "1"))])
        asyncio.get_running_loop().call_later(0.1, is_durable.set)
        return DONE

    monkeypatch.setattr(cabinet.blobs, "put", slow)
    monkeypatch.setattr(site.files, "keep", noted_keep)
    monkeypatch.setattr(site.event_hub, "publish", noted_publish)
    monkeypatch.setattr(site.store, "write_at_last", noted_write)
    site.hosts.work = work
    run(site.begin())
    assert run(site.wait_for_end()).state == "succeeded"
    after_claim = order[order.index("Executing") :]
    assert after_claim == [
        "Executing", "answered", "durable", "row", "Executed", "Finished", "JobEnding", "Succeeded"
    ]  # fmt: skip
    assert books.do(lambda c: c.execute(files).scalar_one()) == 1
    assert run(cabinet.read_named(f"{name} [output]")) == PNG


def test_file_that_cannot_be_kept_fails_its_node_though_that_went_on(
    start: Callable[..., Site], books: Books, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What came after it is not told, and a later question hears of it as well."""
    site = start()
    interrupted: list[str] = []

    async def full(*_: object) -> None:
        raise DeclinedError("TooMuchOutputError", "full")

    async def work(callbacks: HostCallbacks) -> Ending:
        callbacks.tell([Executing(Place("1", "1")), Finished(Place("1", "1")), Executing(Place("2", "2"))])
        await callbacks.keep_bytes(PNG, "p_00001_.png", "output")
        callbacks.tell([Executed(Place("2", "2"), {"images": []}), Finished(Place("2", "2"))])
        with pytest.raises(DeclinedError):
            await callbacks.find_file("p_00001_.png [output]")
        return DONE

    monkeypatch.setattr(site.files, "keep", full)
    monkeypatch.setattr(site.hosts, "interrupt", interrupted.append)
    site.hosts.work = work
    run(site.begin())
    assert run(site.wait_for_end()).exception_type == "TooMuchOutputError"
    assert interrupted == [JOB]
    failure = books.do(lambda c: c.execute(select(jobs.c.failure)).scalar_one())
    ending = msgspec.json.decode(failure, type=Failed)
    assert (ending.failure.place.node, ending.failure.message, ending.failure.executed) == ("2", "full", ["1"])
    kinds = books.do(lambda c: c.execute(select(job_events.c.kind)).scalars().all())
    assert "Executed" not in kinds


def test_outage_that_lasts_is_told_as_what_it_is(start: Callable[..., Site], guarded: Guarded, run: Run) -> None:
    """The node fails with ServiceUnavailableError; nobody says that a key is not valid that nobody could look up."""
    site = start(0)
    declined: list[tuple[str, str]] = []

    async def work(callbacks: HostCallbacks) -> Ending:
        for question in (lambda: callbacks.run_model("7", 0, "acme/one", b"{}"), lambda: callbacks.find_file("a.png")):
            guarded.refusals = 1
            with pytest.raises(DeclinedError) as raised:
                await question()
            declined.append((raised.value.exception_type, raised.value.message))
        return DONE

    site.hosts.work = work
    run(site.begin())
    run(site.wait_for_end())
    assert declined == [
        ("ServiceUnavailableError", "Credentials cannot be checked right now."),
        ("ServiceUnavailableError", "Files cannot be read or written right now."),
    ]


def test_deleted_key_ends_a_model_at_once(start: Callable[..., Site], books: Books, run: Run) -> None:
    """What cannot pass is not asked again."""
    site = start()
    declined: list[str] = []

    async def work(callbacks: HostCallbacks) -> Ending:
        with pytest.raises(DeclinedError) as raised:
            await callbacks.run_model("7", 0, "acme/one", b"{}")
        declined.append(raised.value.message)
        return DONE

    books.sql("UPDATE api_keys SET revoked_at = 1")
    site.hosts.work = work
    run(site.begin())
    run(site.wait_for_end())
    assert declined == ["The key that pays for the partner nodes is not valid any more."]


def test_check_of_a_workflow_whose_files_cannot_be_looked_at_finds_nothing(cabinet: Cabinet, run: Run) -> None:
    """Its caller is told to come again, not that a file is missing."""
    callbacks = CheckCallbacks(cabinet.files, LAB)
    cabinet.database.refusing = True
    for question in (callbacks.find_file("a.png"), callbacks.list_files("")):
        with pytest.raises(DeclinedError):
            run(question)
    assert callbacks.missing == set()
    assert isinstance(callbacks.unanswered, FaultError)
    assert isinstance(callbacks.unanswered.fault, ServiceUnavailable)


def test_claim_and_end_whose_commits_were_not_confirmed_are_the_servers_own(
    start: Callable[..., Site], guarded: Guarded, books: Books, run: Run
) -> None:
    """The job is executed though its claim was answered by silence, and its end is told though that was as well."""
    site = start()

    async def work(_: HostCallbacks) -> Ending:
        guarded.lost_answers = 1
        return Failed(Failure(Place("1", "1"), "", "ValueError", "no", [], {}, []))

    site.hosts.work = work
    guarded.lost_answers = 1
    run(site.begin())
    assert run(site.wait_for_end()).state == "failed"
    assert attempts(books) == {"state": "failed", "attempt": 1, "handed_back": 0}


def test_events_whose_commit_was_not_confirmed_are_kept_once(
    start: Callable[..., Site], guarded: Guarded, books: Books, run: Run
) -> None:
    """The progress that is written every second may be written twice, and says the same."""
    site = start()

    async def work(callbacks: HostCallbacks) -> Ending:
        guarded.lost_answers = 1
        callbacks.tell([Executing(Place("1", "1"))])
        await until(lambda: any(isinstance(seen, DatabaseTrouble) for seen in site.seen))
        await asyncio.sleep(0.2)  # it is written again after a tenth of a second
        return DONE

    site.hosts.work = work
    run(site.begin())
    assert run(site.wait_for_end()).state == "succeeded"
    numbers = [row["number"] for row in books.rows("SELECT number FROM job_events ORDER BY number")]
    assert numbers == sorted(set(numbers))


def test_job_that_outlives_many_stops_of_its_server_is_executed_to_its_end(
    start: Callable[..., Site], books: Books, run: Run
) -> None:
    """A server that stops in good order hands its jobs back; no such stop is held against them."""

    async def stop(site: Site) -> None:
        await site.begin()
        await site.executor.drain(0)

    for number in range(1, _ATTEMPTS + 2):
        run(stop(start()))
        assert attempts(books) == {"state": "released", "attempt": number, "handed_back": number}
    last = start()

    async def work(_: HostCallbacks) -> Ending:
        return DONE

    last.hosts.work = work
    run(last.begin())
    assert run(last.wait_for_end()).state == "succeeded"


@pytest.mark.parametrize(("crashes", "is_executed"), [(_ATTEMPTS - 1, True), (_ATTEMPTS, False)])
def test_job_whose_servers_fell_silent_too_often_is_not_executed_again(
    start: Callable[..., Site], books: Books, run: Run, crashes: int, *, is_executed: bool
) -> None:
    """As often as the setting allows it is executed again; stops in good order among them change nothing."""
    books.sql(
        "UPDATE jobs SET attempt = :attempt, handed_back = 2, server_id = NULL, state = 'released'",
        attempt=crashes + 2,
    )
    site = start()

    async def work(_: HostCallbacks) -> Ending:
        return DONE

    site.hosts.work = work
    run(site.begin())
    ended = run(site.wait_for_end())
    assert ended.state == "succeeded" if is_executed else ended.exception_type == "EngineCrashError"


@pytest.mark.req("S-02", "C-12")
def test_job_whose_nodes_show_too_much_ends_with_the_bound(start: Callable[..., Site], books: Books, run: Run) -> None:
    """Of a workflow 2 MiB of JSON are kept; what goes beyond ends the job, and is neither kept nor read again."""
    site = start()
    interrupted: list[str] = []
    site.hosts.interrupt = interrupted.append  # type: ignore[method-assign,assignment]
    most = {"text": ["a" * (SHOWN_BYTES_MAX - len(b'{"text":[""]}'))]}

    async def work(callbacks: HostCallbacks) -> Ending:
        callbacks.tell([Executed(Place("1", "1"), most), Executed(Place("2", "2"), {"text": ["b"]})])
        return DONE

    site.hosts.work = work
    run(site.begin())
    assert run(site.wait_for_end()).exception_type == "TooMuchOutputError"
    (row,) = books.rows("SELECT outputs, failure FROM jobs")
    assert "more than 2 MiB" in json.loads(row["failure"])["failure"]["message"]
    assert {node: shown["ui"] for node, shown in json.loads(inflate(row["outputs"])).items()} == {"1": most}
    events = [json.loads(event["data"]) for event in books.rows("SELECT data FROM job_events ORDER BY number")]
    assert [(event["place"]["node"], event["ui"]) for event in events if event["type"] == "Executed"] == [("1", most)]
    assert interrupted == [JOB]


@pytest.mark.req("S-02")
def test_large_outputs_are_deflated_by_a_thread(
    start: Callable[..., Site], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event loop deflates nothing that takes long."""
    site = start()
    threads: list[str] = []
    compress = zlib.compress

    def note(document: bytes, *options: int) -> bytes:
        threads.append(threading.current_thread().name)
        return compress(document, *options)

    async def work(callbacks: HostCallbacks) -> Ending:
        callbacks.tell([Executed(Place("1", "1"), {"text": ["a" * 2**20]})])
        return DONE

    site.hosts.work = work
    monkeypatch.setattr(zlib, "compress", note)
    run(site.begin())
    assert run(site.wait_for_end()).state == "succeeded"
    assert [name for name in threads if name == threading.main_thread().name] == []
    assert len(threads) == 1


def test_claim_that_comes_twice_executes_a_job_once(start: Callable[..., Site], run: Run) -> None:
    """A look that was older than the claim names the job again, in the same millisecond."""
    site = start()

    async def both() -> int:
        await asyncio.gather(site.claim(), site.claim())
        return len(site.executor.job_ids())

    assert run(both()) == 1
    assert site.executor.reserve(LAB)


def test_claim_of_another_server_in_the_same_millisecond_finds_nothing(start: Callable[..., Site], run: Run) -> None:
    """Only the server that wrote a claim may write it again."""
    site = start()
    run(site.begin())
    verdict = run(site.store.write(Claim(JOB, LAB, "server-9", NOW)))
    assert type(verdict).__name__ == "Superseded"
