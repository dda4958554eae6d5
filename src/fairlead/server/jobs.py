"""Wiring of jobs: from a submitted workflow to its outputs, and the APIs that show them."""

import asyncio
from contextlib import AsyncExitStack
from typing import Final

import msgspec

from fairlead.api.admin.jobs import JobVerbs
from fairlead.api.cloud.api import CloudApi
from fairlead.api.cloud.credentials import CloudCallers
from fairlead.api.cloud.editors import EditorHandlers
from fairlead.api.cloud.jobs import HistoryHandlers, JobHandlers, QueueHandlers
from fairlead.api.cloud.nodes import NodeHandlers
from fairlead.api.cloud.socket import CloudSocket
from fairlead.api.cloud.submissions import PromptHandlers
from fairlead.api.cloud.uploads import UploadHandlers
from fairlead.api.cloud.views import ViewHandlers
from fairlead.api.cloud.wire import features_of
from fairlead.api.http.forwarding import BaseUrls
from fairlead.api.http.route import bind_handlers
from fairlead.api.jobs.addresses import DeploymentAddresses
from fairlead.api.jobs.api import JobsApi
from fairlead.api.jobs.assets import AssetHandlers
from fairlead.api.jobs.credentials import JobCallers, SelfHosted
from fairlead.api.jobs.deployments import DeploymentHandlers
from fairlead.api.jobs.jobs import JobHandlers as PublicJobHandlers
from fairlead.domain.catalog.models import Catalog
from fairlead.domain.catalog.partner_nodes import partner_nodes_document
from fairlead.domain.jobs.events import EventEnvelope, QueueChanged
from fairlead.domain.jobs.jobs import JobLifetime
from fairlead.domain.jobs.subscriptions import beyond
from fairlead.engine.hosts.pool import Hosts
from fairlead.fair_shares import FairShares
from fairlead.http_client.transport import Transport
from fairlead.identity.links import FILE_PATH, Links
from fairlead.identity.secret_ring import DerivedKeys
from fairlead.messaging.wakeups import Topic
from fairlead.moderation.pool import ModerationSettings, ModeratorNotStartedError, Moderators
from fairlead.observing.observations import JournalSplit, Observer, SubscriptionBeyondHosts
from fairlead.operations.accounts.editor_documents import EditorDocuments
from fairlead.operations.accounts.workspaces import DEFAULT_NAME
from fairlead.operations.assets.downloads import Downloads
from fairlead.operations.assets.files import FileLinks, WorkflowFiles
from fairlead.operations.assets.moderation import Moderation
from fairlead.operations.assets.records import Assets
from fairlead.operations.assets.results import AssetReader
from fairlead.operations.assets.views import FileViews
from fairlead.operations.deployment_keeper import DeploymentKeeper
from fairlead.operations.deployments import Deployments
from fairlead.operations.jobs.abandon import JobAbandoner
from fairlead.operations.jobs.cancel import JobCanceller
from fairlead.operations.jobs.execute import JobExecutor
from fairlead.operations.jobs.follow import Follow, JobFollower, follow_nobody
from fairlead.operations.jobs.model_files import ModelFiles
from fairlead.operations.jobs.models import ModelRunner
from fairlead.operations.jobs.nodes import NodeCatalog
from fairlead.operations.jobs.outputs import JobOutputs
from fairlead.operations.jobs.patience import Patience
from fairlead.operations.jobs.read import JobReader
from fairlead.operations.jobs.store import REFUSAL, JobStore
from fairlead.operations.jobs.submissions import JobSubmissions
from fairlead.operations.jobs.submit import Submitter
from fairlead.operations.jobs.watch import JobWatcher
from fairlead.operations.jobs.work import JobQueue, JobWork
from fairlead.operations.work.places import Places
from fairlead.operations.work.queue import WorkQueue
from fairlead.operations.work.store import WorkStore
from fairlead.operations.work.stored_documents import StoredDocuments
from fairlead.processes.tree import watch_trees
from fairlead.server.base import Base, Jobs, brand, credential_reader, header_names, known_hosts, start_background
from fairlead.server.blob_stores import spool_folder
from fairlead.server.confinement import Confinement
from fairlead.server.drain import Drain
from fairlead.server.hosts import ready_hosts
from fairlead.server.messaging import FOLLOW_SECONDS, listen_for_cancelled, listen_for_released, publish_released
from fairlead.server.posting import HOUR_MS
from fairlead.server.runs import Runs
from fairlead.server.settings import CLOUD, SELF_HOSTED, SERVERLESS, BadSettingError, Settings
from fairlead.storage.assets.files import find_file_of_id
from fairlead.storage.jobs.entries import JobJournal, WrittenJobs, write_job_entries
from fairlead.storage.work.journal import Journal
from fairlead.workers.deployments import DeploymentWorker
from fairlead.workers.periodic import run_periodically
from fairlead.workers.work import Chore, WorkLoop

_UPLOADS_WAITING_MAX: Final = 1_000
_TAKE_OVER_EVERY: Final = 5
_FORGET_EVERY: Final = 60


class _Working(msgspec.Struct, frozen=True):
    """The parts that execute jobs."""

    hosts: Hosts
    store: JobStore
    journal: JobJournal
    files: WorkflowFiles
    documents: StoredDocuments
    executor: JobExecutor
    places: Places
    models: ModelRunner
    kept_ms: int


class _Verbs(msgspec.Struct, frozen=True):
    """The operations on jobs that all APIs use."""

    submitter: Submitter
    submissions: JobSubmissions
    assets: Assets
    reader: JobReader
    canceller: JobCanceller
    deployments: Deployments
    keeper: DeploymentKeeper
    follow: Follow


async def ready_jobs(
    settings: Settings, base: Base, runs: Runs, drain: Drain, confinement: Confinement, stack: AsyncExitStack
) -> Jobs:
    """Wire the parts that execute workflows; the stack stops them."""
    if settings.work_pools:
        _tell_of_tiers(settings, base)
    working = await _working(settings, base, runs, confinement, stack)
    nodes = NodeCatalog(
        working.hosts, lambda: base.catalog.current, lambda catalog: _partner_nodes(catalog, base, runs)
    )
    work = _work(settings, base, working)
    timeout_ms = int(settings.queue_hours * HOUR_MS)
    queue: JobQueue = WorkQueue(work, base.database, working.store, base.clock, base.observe, runs.presence, timeout_ms)
    verbs = _verbs(settings, base, working, nodes, _follow(base, runs, stack))
    start_background(stack, DeploymentWorker(verbs.keeper, base.observe).work())
    forgets = (work.forget, working.files.forget_expired, verbs.submissions.forget)
    chores = (
        Chore(nodes.follow_catalog),
        Chore(queue.take_over, _TAKE_OVER_EVERY),
        Chore(queue.end_strays, _TAKE_OVER_EVERY),
        Chore(_abandoner(base, working).abandon),
        *(Chore(forget, _FORGET_EVERY) for forget in forgets),
    )
    worker = WorkLoop(queue, working.places, base.observe, chores)
    listen_for_released(base.messaging.wakeups, Topic.JOB_RELEASED, worker.tell, stack)
    listen_for_cancelled(base.messaging.wakeups, Topic.JOB_CANCELLED, working.executor.interrupt_all, stack)
    stack.push_async_callback(lambda: working.executor.drain(drain.seconds_left()))
    start_background(stack, worker.work())
    drain.tell(worker.stop)
    drain.tell(working.executor.stop, lambda: bool(working.executor.job_ids()))
    drain.tell(base.messaging.events.close)
    return Jobs(
        lambda: (_jobs_api(settings, base, working, verbs), _cloud_api(settings, base, working, nodes, verbs)),
        confinement.summary(),
        lambda: working.journal.entries_waiting,
        JobVerbs(verbs.reader, verbs.canceller),
        verbs.deployments,
    )


async def _working(
    settings: Settings, base: Base, runs: Runs, confinement: Confinement, stack: AsyncExitStack
) -> _Working:
    journal = _journal(base, stack)
    store = WorkStore(journal, base.observe, REFUSAL)
    kept_ms = int(settings.jobs_hours * HOUR_MS)
    transport = _transport(base, stack)
    moderation = await _ready_moderation(settings, base.observe, stack)
    files = _files(settings, base, moderation, kept_ms, stack)
    start_background(stack, watch_trees())
    nodes = _partner_nodes(base.catalog.current, base, runs)
    hosts = await ready_hosts(settings, confinement, nodes, base.observe, stack)
    models = _models(settings, base, runs, transport)
    hosts_here = settings.engine_hosts if settings.work_pools else 0
    places = Places(hosts_here, base.assets.has_store, extra=settings.engine_extra_hosts)
    executor = JobExecutor(
        hosts,
        store,
        files,
        models,
        base.authenticator,
        base.messaging.events,
        base.clock,
        base.observe,
        Patience(base.observe),
        server_id=runs.presence.server_id,
        places=places,
        kept_ms=kept_ms,
        flush_seconds=1.0 if base.is_alone else FOLLOW_SECONDS,
    )
    documents = _documents(base, stack)
    return _Working(hosts, store, journal, files, documents, executor, places, models, kept_ms)


def _journal(base: Base, stack: AsyncExitStack) -> JobJournal:
    journal: JobJournal = Journal(
        base.database,
        write_job_entries,
        split=lambda entries, error: base.observe(JournalSplit(entries, str(error))),
        released=publish_released(base.messaging.wakeups, Topic.JOB_RELEASED),
        listener=lambda written: _tell_remaining(base, written),
    )
    stack.push_async_callback(journal.close)
    return journal


def _transport(base: Base, stack: AsyncExitStack) -> Transport:
    """The HTTP transport to files of partners."""
    transport = Transport(trusted=[one.base_url for one in base.partners.providers.values() if not one.missing])
    stack.push_async_callback(transport.close)
    return transport


def _documents(base: Base, stack: AsyncExitStack) -> StoredDocuments:
    documents = StoredDocuments(base.assets.blobs, base.observe, what="workflow")
    stack.push_async_callback(documents.close)
    return documents


def _models(settings: Settings, base: Base, runs: Runs, transport: Transport) -> ModelRunner:
    return ModelRunner(
        runs.admitter,
        runs.executor,
        runs.collector,
        runs.canceller,
        runs.exchange,
        ModelFiles(
            AssetReader(base.assets.links, base.assets.blobs, base.database, base.clock),
            base.assets.links,
            base.assets.blobs,
            base.database,
            transport.fetch,
            lambda provider, url: base.partners.providers[provider].may_follow(url, with_credential=False),
            base.clock,
            runs.answers,
            base_url=settings.public_base_url or f"http://{settings.host}:{settings.port}",
            limit=settings.asset_limit_mib * 2**20,
        ),
        base.messaging.events,
        runs.awaited,
        base.clock,
        Patience(base.observe),
        backlog=settings.queue_backlog,
        keys_kept_ms=int(settings.queue_hours * HOUR_MS),
        seconds=settings.job_minutes * 60,
    )


def _tell_of_tiers(settings: Settings, base: Base) -> None:
    """Observe the tiers that promise more parallel jobs than this server can execute."""
    for name, promised in beyond(settings.subscriptions, settings.engine_hosts):
        base.observe(SubscriptionBeyondHosts(name, promised, settings.engine_hosts))


def _tell_remaining(base: Base, written: WrittenJobs) -> None:
    def publish() -> None:
        now = base.clock.now_ms()
        for workspace_id, jobs in written.remaining.items():
            base.messaging.events.publish(EventEnvelope(workspace_id, None, None, now, QueueChanged(jobs)))

    # After the writers of the batch have gone on: a job's end is sent before the number of jobs left (C-08).
    asyncio.get_running_loop().call_soon(publish)


async def _ready_moderation(settings: Settings, observe: Observer, stack: AsyncExitStack) -> Moderation:
    """The list of hashes, and the operator's callable where there is one; BadSettingError where it cannot be used."""
    if settings.moderation is None:
        return Moderation(observe, blocked=settings.blocked_hashes)
    moderators = Moderators(
        ModerationSettings(
            source=settings.moderation,
            folder=(settings.data / "moderation").resolve(),
            seconds=settings.moderation_seconds,
            processes=settings.moderation_processes,
            memory=settings.moderation_memory_mib * 2**20,
        )
    )
    stack.push_async_callback(moderators.close)
    try:
        await moderators.begin()
    except (ModeratorNotStartedError, OSError) as error:
        raise BadSettingError(f"FAIRLEAD_MODERATION: {settings.moderation} cannot be used: {error}") from error
    return Moderation(observe, blocked=settings.blocked_hashes, judge=moderators.judge)


def _files(
    settings: Settings, base: Base, moderation: Moderation, kept_ms: int, stack: AsyncExitStack
) -> WorkflowFiles:
    transport = Transport()
    stack.push_async_callback(transport.close)
    upload_bytes = settings.upload_limit_mib * 2**20
    downloads = Downloads(transport.fetch, base.assets.blobs, limit=upload_bytes)
    return WorkflowFiles(
        base.database,
        base.assets.blobs,
        downloads,
        base.clock,
        base.observe,
        moderation,
        FairShares(settings.uploads, _UPLOADS_WAITING_MAX, settings.uploads_per_workspace),
        upload_bytes=upload_bytes,
        kept_ms=kept_ms,
        limits=settings.storage_limits(),
    )


def _work(settings: Settings, base: Base, working: _Working) -> JobWork:
    return JobWork(
        base.database, working.executor, base.messaging.events, base.clock, base.observe, working.kept_ms,
        working.documents, settings.job_attempts,
    )  # fmt: skip


def _abandoner(base: Base, working: _Working) -> JobAbandoner:
    return JobAbandoner(
        base.database,
        working.store,
        working.executor,
        base.messaging.events,
        base.clock,
        base.observe,
        working.kept_ms,
    )


def _follow(base: Base, runs: Runs, stack: AsyncExitStack) -> Follow:
    """Follow jobs that other servers of the same database execute."""
    if base.is_alone:
        return follow_nobody
    follower = JobFollower(base.database, base.messaging.relay, base.observe, server_id=runs.presence.server_id)
    start_background(stack, run_periodically(follower.look, FOLLOW_SECONDS, "follow jobs", base.observe))
    return follower.begin


def _verbs(settings: Settings, base: Base, working: _Working, nodes: NodeCatalog, follow: Follow) -> _Verbs:
    reader = JobReader(base.database, working.documents, base.observe)
    submitter = _submitter(settings, base, working)
    links = FileLinks(_file_links(base), base.clock, settings.file_link_seconds)
    kept, verifies = base.assets.blobs, base.assets.direct is None
    assets = Assets(working.files, kept, links, base.database, base.clock, base.observe, verifies=verifies)
    keeper = DeploymentKeeper(base.database, working.hosts, base.clock, base.observe)
    return _Verbs(
        submitter,
        JobSubmissions(submitter, assets, reader, nodes, keeper, base.database, base.clock, base.observe),
        assets,
        reader,
        JobCanceller(
            base.database,
            working.store,
            base.messaging.wakeups,
            base.messaging.events,
            base.clock,
            base.observe,
            kept_ms=working.kept_ms,
        ),
        Deployments(base.database, base.clock, base.observe, working.hosts.pack_names),
        keeper,
        follow,
    )


def _jobs_api(settings: Settings, base: Base, working: _Working, verbs: _Verbs) -> JobsApi:
    """The jobs API; its outputs and assets have the links of the cloud API, which serves them."""
    lifetime = JobLifetime(
        waits=int(settings.queue_hours * HOUR_MS),
        runs=int(settings.job_minutes * HOUR_MS / 60),
        kept=working.kept_ms,
    )
    links = FileLinks(_file_links(base), base.clock, settings.file_link_seconds)
    outputs = JobOutputs(base.database, base.assets.blobs, working.files, links, lifetime, base.clock, base.observe)
    deployments = verbs.deployments if settings.jobs_surface == SERVERLESS else None
    callers = _job_callers(settings, base, deployments)
    base_urls, domain = BaseUrls(settings.public_base_url, settings.trusted_proxies), settings.deployment_domain
    handlers = PublicJobHandlers(
        base.readers,
        verbs.submissions,
        verbs.reader,
        outputs,
        verbs.canceller,
        JobWatcher(base.messaging.events, verbs.reader, outputs, verbs.follow, alone=base.is_alone),
        base_urls,
        brand(settings).partner_key_fields,
        lifetime,
        settings.workflow_limit_mib * 2**20,
        settings.workflow_values,
        has_archive=settings.jobs_surface != CLOUD,
    )
    asset_handlers = AssetHandlers(
        verbs.assets,
        base_urls,
        settings.upload_limit_mib * 2**20,
    )
    owners = (handlers, asset_handlers, DeploymentHandlers(deployments, base_urls, domain))
    addresses = None if deployments is None else DeploymentAddresses(base_urls, domain)
    return JobsApi(bind_handlers(owners), callers.caller, header_names(settings).request_id, base.observe, addresses)


def _job_callers(settings: Settings, base: Base, deployments: Deployments | None) -> JobCallers:
    """Who may call the jobs API."""
    is_self_hosted = settings.jobs_surface == SELF_HOSTED
    opened = SelfHosted(DEFAULT_NAME, settings.static_token, known_hosts(settings)) if is_self_hosted else None
    is_serverless = settings.jobs_surface == SERVERLESS
    return JobCallers(
        base.authenticator,
        base.windows,
        credential_reader(settings),
        opened,
        asks_for_sso=is_serverless,
        deployments=deployments,
    )


def _file_links(base: Base) -> Links:
    return Links(DerivedKeys(base.secret, "signed links of files"), FILE_PATH)


def _cloud_api(settings: Settings, base: Base, working: _Working, nodes: NodeCatalog, verbs: _Verbs) -> CloudApi:
    callers = CloudCallers(base.authenticator, base.windows, credential_reader(settings))
    reader, canceller, features = verbs.reader, verbs.canceller, features_of(settings.upload_limit_mib * 2**20)
    documents = EditorDocuments(base.database, base.clock, settings.storage_limits())
    return CloudApi(
        bind=bind_handlers(
            (
                PromptHandlers(
                    base.readers,
                    verbs.submitter,
                    reader,
                    BaseUrls(settings.public_base_url, settings.trusted_proxies),
                    brand(settings).partner_key_fields,
                    settings.workflow_limit_mib * 2**20,
                    settings.workflow_values,
                ),
                JobHandlers(reader, canceller),
                QueueHandlers(reader, canceller),
                HistoryHandlers(reader),
                NodeHandlers(nodes),
                EditorHandlers(documents, settings.document_values, features),
                *_file_handlers(settings, base, working),
            )
        ),
        authorize=callers.caller,
        socket=CloudSocket(
            base.messaging.events, callers, reader.remaining, verbs.follow, base.observe, features=features
        ),
        request_id=header_names(settings).request_id,
        observe=base.observe,
    )


def _file_handlers(settings: Settings, base: Base, working: _Working) -> tuple[UploadHandlers, ViewHandlers]:
    blobs, links = base.assets.blobs, _file_links(base)
    views = FileViews(
        working.files,
        blobs,
        FileLinks(links, base.clock, settings.file_link_seconds),
        working.hosts.render,
        base.clock,
        spool_folder(settings),
    )
    look_up = lambda id_: lambda c: find_file_of_id(c, id_)  # noqa: E731 -- short
    reader = AssetReader(links, blobs, base.database, base.clock, look_up, base.assets.direct)
    base_urls = BaseUrls(settings.public_base_url, settings.trusted_proxies)
    return (
        UploadHandlers(working.files, views, limit=settings.upload_limit_mib * 2**20),
        ViewHandlers(views, reader, base_urls),
    )


def _submitter(settings: Settings, base: Base, working: _Working) -> Submitter:
    return Submitter(
        working.hosts,
        working.store,
        working.executor,
        working.files,
        working.documents,
        base.authenticator,
        base.messaging.events,
        base.clock,
        backlog=settings.jobs_backlog,
        key_field=brand(settings).partner_key_fields[0],
        keys_kept_ms=working.kept_ms,
        pools=settings.pools,
        works_for=settings.work_pools,
    )


def _partner_nodes(catalog: Catalog, base: Base, runs: Runs) -> bytes:
    """The partner nodes of the models that can be run here: at least one of their providers is set up."""
    runnable = [
        model
        for model in catalog.models.values()
        if not model.is_retired(base.clock.today())
        and any(leg.provider in runs.exchange.configured for leg in model.legs)
    ]
    return partner_nodes_document(runnable)
