"""Wiring of runs: from an admitted call to its settlement, synchronous or queued."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import partial
from typing import Final

import msgspec

from fairlead.clock import new_id
from fairlead.document_readers import DocumentReaders
from fairlead.domain.runs.queue import Throughput
from fairlead.domain.work.pools import DEFAULT_POOL, WorkedPools
from fairlead.http_client.transport import Transport
from fairlead.messaging.wakeups import Topic
from fairlead.observing.metrics import Metrics
from fairlead.observing.observations import (
    BodyReaderFailed,
    CredentialHealth,
    CredentialRefused,
    JournalSplit,
    Observer,
)
from fairlead.operations.assets.results import AssetCopier, AssetReader
from fairlead.operations.partners import Partners
from fairlead.operations.runs.admit import Admitter
from fairlead.operations.runs.awaited_runs import AwaitedRuns
from fairlead.operations.runs.cancel import Canceller
from fairlead.operations.runs.collect import Collector
from fairlead.operations.runs.dispatch import Dispatcher
from fairlead.operations.runs.estimate import Estimator
from fairlead.operations.runs.execute import Executor
from fairlead.operations.runs.follow import RunFollower
from fairlead.operations.runs.given_files import GivenFiles
from fairlead.operations.runs.large_bodies import LargeBodies
from fairlead.operations.runs.postpone import Postponer
from fairlead.operations.runs.replay import Replayer
from fairlead.operations.runs.requests import CallChecks
from fairlead.operations.runs.results import Results
from fairlead.operations.runs.resume import Resumer
from fairlead.operations.runs.void import Voider
from fairlead.operations.runs.watch import Watcher
from fairlead.operations.runs.work import RunQueue, RunWork
from fairlead.operations.work.places import Places
from fairlead.operations.work.presence import ServerPresence
from fairlead.operations.work.queue import WorkQueue
from fairlead.operations.work.store import WorkStore
from fairlead.operations.work.stored_documents import StoredDocuments
from fairlead.providers.answers import AnswerDecoder
from fairlead.providers.attempts import Attempts
from fairlead.providers.credentials import Credentials
from fairlead.providers.exchange import Exchange
from fairlead.providers.health import CredentialRef, Health, Healths
from fairlead.providers.spec import Provider
from fairlead.server.base import Base, start_background
from fairlead.server.drain import Drain
from fairlead.server.messaging import (
    FOLLOW_SECONDS,
    listen_for_cancelled,
    listen_for_released,
    publish_changed_runs,
    publish_released,
)
from fairlead.server.posting import HOUR_MS, Posting, ready_posting
from fairlead.server.settings import LINKS_ALL, Settings
from fairlead.storage.runs.entries import RunJournal, write_entries
from fairlead.storage.work.journal import Journal
from fairlead.workers.periodic import run_periodically
from fairlead.workers.work import WorkLoop

_ANSWERS_WAITING_MAX: Final = 1_000_000


class Runs(msgspec.Struct, frozen=True):
    """The parts that run models and report outcomes."""

    admitter: Admitter
    estimator: Estimator
    executor: Executor
    exchange: Exchange
    answers: AnswerDecoder
    replayer: Replayer
    presence: ServerPresence
    queue: RunQueue
    collector: Collector
    canceller: Canceller
    awaited: AwaitedRuns
    watcher: Watcher
    queue_worker: WorkLoop
    posting: Posting
    partners: Partners


class _Working(msgspec.Struct, frozen=True):
    """What executes runs."""

    journal: RunJournal
    exchange: Exchange
    answers: AnswerDecoder
    credentials: Credentials
    partners: Partners
    results: Results
    replayer: Replayer
    executor: Executor
    resumer: Resumer
    voider: Voider
    server_id: str
    checks: CallChecks
    stored: StoredDocuments
    awaited: AwaitedRuns


def ready_runs(settings: Settings, base: Base, metrics: Metrics, drain: Drain, stack: AsyncExitStack) -> Runs:
    """Wire the parts that run models; the stack stops them."""
    working = _working(settings, base, stack)
    metrics.in_flight.set_function(lambda: working.executor.under_way)
    metrics.journals.append(lambda: working.journal.entries_waiting)
    stack.push_async_callback(lambda: working.executor.drain(drain.seconds_left()))
    throughput, collectable_ms = Throughput(), int(settings.results_hours * HOUR_MS)
    presence = _presence(settings, base, working)
    queue = _queue(settings, base, working, presence, throughput)
    places = Places(settings.queue_places if settings.work_pools else 0, base.assets.has_store)
    queue_worker = WorkLoop(queue, places, base.observe, awaited=working.awaited.runs)
    listen_for_released(base.messaging.wakeups, Topic.RUN_RELEASED, queue_worker.tell, stack)
    listen_for_cancelled(base.messaging.wakeups, Topic.RUN_CANCELLED, working.executor.cancel, stack)
    drain.tell(queue_worker.stop, lambda: working.executor.under_way > 0)
    collector = Collector(base.database, working.results, base.clock, throughput)
    watcher = _watcher(base, collector, stack)
    drain.tell(watcher.close)
    return Runs(
        admitter=_admitter(settings, base, working),
        estimator=Estimator(working.checks, base.catalog, base.clock),
        executor=working.executor,
        exchange=working.exchange,
        answers=working.answers,
        replayer=working.replayer,
        presence=presence,
        queue=queue,
        collector=collector,
        canceller=Canceller(
            base.database, working.journal, base.messaging.wakeups, base.clock, base.observe, collectable_ms
        ),
        awaited=working.awaited,
        watcher=watcher,
        queue_worker=queue_worker,
        posting=ready_posting(settings, base, stack),
        partners=working.partners,
    )


def _watcher(base: Base, collector: Collector, stack: AsyncExitStack) -> Watcher:
    """Let callers watch runs, also those that other servers of the same database execute."""
    if not base.is_alone:
        follower = RunFollower(base.database, base.messaging.relay, base.observe)
        start_background(stack, run_periodically(follower.look, FOLLOW_SECONDS, "follow runs", base.observe))
    return Watcher(collector, base.messaging.events)


def _observe_health(observe: Observer, ref: CredentialRef, health: Health, workspaces: int, reason: str) -> None:
    observe(CredentialHealth(*ref, health.value, workspaces, reason))


def _transport(providers: Mapping[str, Provider], stack: AsyncExitStack) -> Transport:
    """The HTTP transport to partners, and to the storage they write to."""
    own = [provider.base_url for provider in providers.values() if not provider.missing]
    storages = [one.storage.read_from for one in providers.values() if one.storage is not None]
    transport = Transport(trusted=[*own, *storages])
    stack.push_async_callback(transport.close)
    return transport


def _working(settings: Settings, base: Base, stack: AsyncExitStack) -> _Working:
    providers, clock, observe = base.partners.providers, base.clock, base.observe
    transport = _transport(providers, stack)
    credentials = Credentials(providers, base.partners.secrets)
    answers = AnswerDecoder(_answer_readers(settings, base, stack))
    exchange = _exchange(settings, base, transport, credentials, answers)
    results = Results(base.assets.blobs)
    replayer = _replayer(settings, base, results)
    bodies, stored = LargeBodies(base.readers), StoredDocuments(base.assets.blobs, base.observe)
    files = _given_files(settings, base, stack)
    stack.push_async_callback(stored.close)
    journal = _journal(base, stored, stack)
    healths = Healths(partial(_observe_health, observe))
    attempts = Attempts(exchange, credentials, healths)
    dispatcher = _dispatcher(settings, base, exchange, transport, attempts)
    collectable_ms = int(settings.results_hours * HOUR_MS)
    postponer = Postponer(providers, clock)
    executor = Executor(dispatcher, replayer, results, postponer, journal, clock, observe, collectable_ms)
    return _Working(
        journal=journal,
        exchange=exchange,
        answers=answers,
        credentials=credentials,
        partners=Partners(base.catalog, exchange, credentials, healths, base.database, clock),
        results=results,
        replayer=replayer,
        executor=executor,
        resumer=_resumer(settings, base, credentials, bodies, stored),
        voider=Voider(executor, clock, collectable_ms),
        server_id=new_id(),
        checks=CallChecks(base.catalog, base.partners.providers, base.database, bodies, files),
        stored=stored,
        awaited=AwaitedRuns(),
    )


def _given_files(settings: Settings, base: Base, stack: AsyncExitStack) -> GivenFiles:
    """A transport of its own: where callers' links lead, no address is trusted."""
    fetch = None
    if settings.measured_links == LINKS_ALL:
        transport = Transport()
        stack.push_async_callback(transport.close)
        fetch = transport.fetch
    reader = AssetReader(base.assets.links, base.assets.blobs, base.database, base.clock)
    return GivenFiles(reader, base.assets.blobs, settings.public_base_url, fetch)


def _exchange(
    settings: Settings, base: Base, transport: Transport, credentials: Credentials, answers: AnswerDecoder
) -> Exchange:
    providers, observe = base.partners.providers, base.observe
    return Exchange(
        providers,
        transport,
        credentials,
        answers,
        settings.answer_values,
        lambda provider, label, status: observe(CredentialRefused(provider, label, status)),
    )


def _resumer(
    settings: Settings, base: Base, credentials: Credentials, bodies: LargeBodies, stored: StoredDocuments
) -> Resumer:
    return Resumer(
        base.catalog,
        credentials,
        base.own_keys,
        bodies,
        stored,
        base.clock,
        settings.idempotency_hours * HOUR_MS,
        settings.public_base_url or f"http://{settings.host}:{settings.port}",
    )


def _answer_readers(settings: Settings, base: Base, stack: AsyncExitStack) -> DocumentReaders:
    """Separate readers for partners' answers, which wait as long as it takes; callers' documents never delay them."""
    readers = DocumentReaders(
        settings.body_readers, lambda reason: base.observe(BodyReaderFailed(reason)), _ANSWERS_WAITING_MAX, None
    )
    stack.push_async_callback(readers.close)
    return readers


def _queue(
    settings: Settings, base: Base, working: _Working, presence: ServerPresence, throughput: Throughput
) -> RunQueue:
    timeout_ms = int(settings.queue_hours * HOUR_MS)
    work = RunWork(
        base.database,
        working.exchange,
        working.resumer,
        working.executor,
        working.voider,
        base.clock,
        base.observe,
        working.server_id,
        int(settings.results_hours * HOUR_MS),
        timeout_ms,
        throughput,
    )
    store = WorkStore(working.journal, base.observe, "Runs cannot be recorded right now.")
    return WorkQueue(work, base.database, store, base.clock, base.observe, presence, timeout_ms)


def _admitter(settings: Settings, base: Base, working: _Working) -> Admitter:
    return Admitter(
        working.checks,
        working.exchange,
        working.credentials,
        base.own_keys,
        working.replayer,
        base.database,
        working.journal,
        base.clock,
        base.observe,
        working.server_id,
        working.stored,
        base.windows,
        settings.pools,
    )


def _presence(settings: Settings, base: Base, working: _Working) -> ServerPresence:
    silent_ms, pools = int(settings.silent_server_seconds * 1000), settings.work_pools
    return ServerPresence(
        base.prompt_database,
        base.clock,
        base.observe,
        working.server_id,
        alone=base.is_alone,
        silent_ms=silent_ms,
        pools=pools,
        takes_synchronous=base.has_api or DEFAULT_POOL in pools,
        executes=WorkedPools(pools if settings.queue_places else (), pools if settings.engine else ()),
    )


def _dispatcher(
    settings: Settings, base: Base, exchange: Exchange, transport: Transport, attempts: Attempts
) -> Dispatcher:
    observe = base.observe
    copier = AssetCopier(
        transport.fetch,
        lambda provider, url: base.partners.providers[provider].may_follow(url, with_credential=False),
        base.assets.blobs,
        base.database,
        base.assets.links,
        base.clock,
        observe,
        limit=settings.asset_limit_mib * 1024 * 1024,
        lifetime=settings.asset_lifetime_hours * 3600,
        stored=exchange.locate_stored,
    )
    return Dispatcher(attempts, exchange, copier, base.clock, observe)


def _replayer(settings: Settings, base: Base, results: Results) -> Replayer:
    return Replayer(
        base.database,
        results,
        base.clock,
        most=settings.replay_limit_mib * 1024 * 1024,
        with_links=settings.replay_links_seconds,
    )


def _journal(base: Base, stored: StoredDocuments, stack: AsyncExitStack) -> RunJournal:
    journal: RunJournal = Journal(
        base.database,
        partial(write_entries, machine_ms=base.clock.now_ms),
        split=lambda entries, error: base.observe(JournalSplit(entries, str(error))),
        released=publish_released(base.messaging.wakeups, Topic.RUN_RELEASED),
        listener=publish_changed_runs(base.messaging.events, stored.delete_soon),
    )
    stack.push_async_callback(journal.close)
    return journal
