"""Where everything is wired together: from settings to a running server."""

import asyncio
import gc
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

import msgspec

from fairlead.api.http.asgi import AsgiApplication
from fairlead.observing.metrics import Metrics
from fairlead.observing.observations import Observer
from fairlead.operations.accounts.sweeping import AccountSweeper
from fairlead.operations.catalog import CatalogKeeper
from fairlead.operations.clock import Clock
from fairlead.operations.readiness import Readiness
from fairlead.server.base import Base, Jobs, observers, ready_base, start_background
from fairlead.server.drain import Drain
from fairlead.server.http_app import application
from fairlead.server.installation import FirstKeys
from fairlead.server.runs import Runs, ready_runs
from fairlead.server.settings import Settings
from fairlead.workers.janitor import Janitor
from fairlead.workers.periodic import watch_loop

_GC_THRESHOLDS: Final = (50_000, 50, 100)
_SWITCH_SECONDS: Final = 0.0005
"""Seconds after which a thread must release the interpreter lock to a waiting one.

The event loop waits for the lock several times in each call. At Python's 5 ms, a thread that copies one caller's large
document would delay every other call by that much each time.
"""


class RunningServer(msgspec.Struct, frozen=True):
    """A server that has started: its application, the first keys it has just made, the simulator's address.

    Begin the `drain` before waiting for answers under way: it stops claiming from the queue and ends streams, which
    otherwise end only with their run or job.
    """

    application: AsgiApplication
    first_keys: FirstKeys
    observe: Observer
    catalog: CatalogKeeper
    simulator: str | None
    drain: Drain


@asynccontextmanager
async def running_server(settings: Settings, clock: Clock | None = None) -> AsyncIterator[RunningServer]:
    """Start everything behind the HTTP application, and stop it in the reverse order."""
    async with AsyncExitStack() as stack:
        _rest_collector(stack)
        metrics = Metrics()
        observe = observers(settings, metrics, stack)
        base = await ready_base(settings, clock or Clock(), observe, stack)
        drain = Drain(settings.drain_seconds, settings.drain_pause_seconds)
        runs = ready_runs(settings, base, metrics, drain, stack)
        start_background(stack, watch_loop(metrics.loop.record))
        await runs.presence.announce()
        runs.posting.start(base, stack)
        start_background(stack, runs.queue_worker.work())
        start_background(
            stack,
            Janitor(
                runs.presence,
                runs.queue,
                base.catalog,
                base.windows,
                base.assets.sweeper,
                runs.replayer,
                AccountSweeper(base.database, base.clock, observe),
                observe,
            ).work(),
        )
        jobs = await _ready_jobs(settings, base, runs, drain, stack)
        if jobs is not None:
            metrics.journals.append(jobs.entries_waiting)
        readiness = Readiness(base.database, runs.presence.announce_in, base.assets.blobs.check_writable)
        stack.push_async_callback(readiness.close)
        served = application(settings, base, runs, jobs, metrics, readiness, stack)
        drain.tell_first(readiness.begin_draining)
        _settle_collector()
        sys.setswitchinterval(_SWITCH_SECONDS)
        yield RunningServer(served, base.first_keys, observe, base.catalog, base.partners.simulator, drain)


def reload_on_hangup(server: RunningServer) -> None:
    """Read the catalog again on SIGHUP, as operators expect of a server."""
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, server.catalog.reload)


async def _ready_jobs(settings: Settings, base: Base, runs: Runs, drain: Drain, stack: AsyncExitStack) -> Jobs | None:
    if not settings.engine:
        return None
    from fairlead.server.jobs import ready_jobs  # noqa: PLC0415 -- 5 MB that a server without the engine must not pay

    return await ready_jobs(settings, base, runs, drain, stack)


def _rest_collector(stack: AsyncExitStack) -> None:
    """Pause the cyclic collector until the server is ready or has failed to start: nearly all objects made stay."""
    gc.disable()
    stack.callback(gc.enable)


def _settle_collector() -> None:
    """Exclude objects that live as long as the server from the cyclic collector: its walks delay answers."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
    gc.enable()
