"""Wires everything together: from settings to a running server."""

import asyncio
import gc
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Final, TypeAlias

import msgspec
from prometheus_client.registry import Collector

from fairlead.api.http.asgi import AsgiApplication
from fairlead.clock import Clock
from fairlead.observing.metrics import Metrics
from fairlead.observing.observations import Observer
from fairlead.operations.accounts.sweeping import AccountSweeper, KeptDays, RecordSweeper
from fairlead.operations.catalog import CatalogKeeper
from fairlead.operations.model_trials import ModelTrials
from fairlead.operations.overview import Overview
from fairlead.operations.readiness import Readiness, Shared
from fairlead.server.base import Base, Jobs, describe_build, observers, ready_base, start_background
from fairlead.server.drain import Drain
from fairlead.server.http_app import application, operator_application
from fairlead.server.installation import FirstKeys, require_shared_database
from fairlead.server.runs import Runs, ready_runs
from fairlead.server.settings import Settings
from fairlead.storage.db.opening import file_of
from fairlead.workers.janitor import Janitor
from fairlead.workers.periodic import watch_loop

_ReadyJobs: TypeAlias = Callable[[Base, Runs, Drain], Awaitable[Jobs]]
"""Wires and starts the execution of workflows."""

_GC_THRESHOLDS: Final = (50_000, 50, 100)
_SWITCH_SECONDS: Final = 0.0005
"""Seconds after which a thread must release the interpreter lock to a waiting one.

The event loop waits for the lock several times in each call. At Python's 5 ms, a thread that copies one caller's large
document would delay every other call by that much each time.
"""


class RunningServer(msgspec.Struct, frozen=True):
    """A server or a worker that has started: its application, the first keys it has just made, the simulator's address.

    Begin the `drain` before waiting for answers under way: it stops claiming from the queue and ends streams, which
    otherwise end only with their run or job.
    """

    application: AsgiApplication
    first_keys: FirstKeys
    observe: Observer
    catalog: CatalogKeeper
    simulator: str | None
    drain: Drain


class _Parts(msgspec.Struct, frozen=True):
    """What servers and workers have in common: everything behind the HTTP application, running."""

    base: Base
    runs: Runs
    jobs: Jobs | None
    metrics: Metrics
    readiness: Readiness
    overview: Overview
    drain: Drain

    def running(self, application: AsgiApplication) -> RunningServer:
        """The running server, with the application that answers requests."""
        base = self.base
        return RunningServer(
            application, base.first_keys, base.observe, base.catalog, base.partners.simulator, self.drain
        )


@asynccontextmanager
async def running_server(
    settings: Settings, clock: Clock | None = None, meters: Sequence[Collector] = ()
) -> AsyncIterator[RunningServer]:
    """Start a server: everything behind the HTTP application, then that. Stop it in the reverse order.

    `meters` are those of what stands in front of the application, for its metrics.
    """
    async with _running_parts(settings, clock, meters, has_api=True) as parts, AsyncExitStack() as stack:
        shown = parts.metrics, parts.readiness, parts.overview
        served = application(settings, parts.base, parts.runs, parts.jobs, *shown, stack)
        _settle()
        yield parts.running(served)


@asynccontextmanager
async def running_worker(
    settings: Settings, clock: Clock | None = None, meters: Sequence[Collector] = ()
) -> AsyncIterator[RunningServer]:
    """Start a worker (M-05): the same without an API. BadSettingError where it could share no work.

    Its application answers an operator's tools, at a port where there is one.
    """
    require_shared_database(settings)
    async with _running_parts(settings, clock, meters, has_api=False) as parts:
        shown = parts.metrics, parts.readiness, parts.overview
        served = operator_application(settings, parts.base, parts.jobs, *shown)
        _settle()
        yield parts.running(served)


@asynccontextmanager
async def running_trials(settings: Settings) -> AsyncIterator[ModelTrials]:
    """Start what runs need, without an API, to try models at their vendors.

    Beside servers of a shared database it leaves queued work to them; alone on SQLite it is the server.
    """
    is_shared = file_of(settings.database_url()) is None
    alone = replace(settings, work_pools=() if is_shared else settings.work_pools, engine=False)
    async with _running_parts(alone, None, (), has_api=False) as parts:
        base, runs = parts.base, parts.runs
        yield ModelTrials(
            base.database,
            base.catalog,
            base.authenticator,
            runs.admitter,
            runs.executor,
            runs.exchange,
            base.clock,
            {name: provider.base_url for name, provider in base.partners.providers.items()},
            settings.public_base_url or f"http://{settings.host}:{settings.port}",
            is_simulated=base.partners.simulator is not None,
        )


@asynccontextmanager
async def _running_parts(
    settings: Settings, clock: Clock | None, meters: Sequence[Collector], *, has_api: bool
) -> AsyncIterator[_Parts]:
    async with AsyncExitStack() as stack:
        _rest_collector(stack)
        metrics = Metrics(describe_build(settings), meters)
        observe = observers(settings, metrics, stack)
        ready_jobs = _begin_jobs(settings, stack) if settings.engine else None
        base = await ready_base(settings, clock or Clock(), metrics.database, observe, stack, has_api=has_api)
        metrics.messages.sources.append(base.messaging.counts)
        drain = Drain(settings.drain_seconds, settings.drain_pause_seconds if has_api else 0.0)
        runs = ready_runs(settings, base, metrics, drain, stack)
        start_background(stack, watch_loop(metrics.loop.record))
        await runs.presence.announce()
        runs.posting.start(base, stack)
        start_background(stack, runs.queue_worker.work())
        start_background(stack, _janitor(settings, base, runs, observe).work())
        jobs = None if ready_jobs is None else await ready_jobs(base, runs, drain)
        if jobs is not None:
            metrics.journals.append(jobs.entries_waiting)
        shared = Shared(database=not base.is_alone, files=settings.blobs is not None)
        announce, blobs = runs.presence.announce_in, base.assets.blobs
        readiness = Readiness(base.prompt_database, announce, blobs, settings.data, shared)
        stack.push_async_callback(readiness.close)
        drain.tell_first(readiness.begin_draining)
        silent_ms, pools = runs.presence.silent_ms, settings.pools.pools
        overview = Overview(base.prompt_database, base.clock, settings.data, silent_ms, pools)
        stack.push_async_callback(overview.close)
        yield _Parts(base, runs, jobs, metrics, readiness, overview, drain)


def reload_on_hangup(server: RunningServer) -> None:
    """Read the catalog again on SIGHUP, as operators expect of a server."""
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, server.catalog.reload)


def _janitor(settings: Settings, base: Base, runs: Runs, observe: Observer) -> Janitor:
    kept = KeptDays(settings.audit_log_days, settings.revoked_keys_days, settings.inputs_days)
    return Janitor(
        runs.presence,
        runs.queue,
        base.catalog,
        base.windows,
        base.assets.sweeper,
        runs.replayer,
        AccountSweeper(base.database, base.clock, observe),
        RecordSweeper(base.database, base.clock, observe, kept),
        observe,
    )


def _begin_jobs(settings: Settings, stack: AsyncExitStack) -> _ReadyJobs:
    """Begin to find out how hosts can be confined: another process takes a tenth of a second for it."""
    from fairlead.server.confinement import ready_confinement  # noqa: PLC0415 -- only with the engine

    examining = asyncio.ensure_future(ready_confinement(settings))

    async def give_up() -> None:
        examining.cancel()
        await asyncio.gather(examining, return_exceptions=True)  # where the start has failed for another reason

    stack.push_async_callback(give_up)

    async def ready(base: Base, runs: Runs, drain: Drain) -> Jobs:
        from fairlead.server.jobs import ready_jobs  # noqa: PLC0415 -- 5 MB that only a server with the engine pays

        confinement = await examining
        confinement.tell(base.observe)
        return await ready_jobs(settings, base, runs, drain, confinement, stack)

    return ready


def _rest_collector(stack: AsyncExitStack) -> None:
    """Pause the cyclic collector until the server is ready or has failed to start: nearly all objects made stay."""
    gc.disable()
    stack.callback(gc.enable)


def _settle() -> None:
    """Exclude objects that live as long as the server from the cyclic collector, and share the interpreter often."""
    sys.setswitchinterval(_SWITCH_SECONDS)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
    gc.enable()
