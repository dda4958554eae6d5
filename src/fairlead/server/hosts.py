"""The engine hosts of an installation, and their observations."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

from fairlead.engine.hosts.notes import (
    AnswerFailed,
    ClassesShadowed,
    EngineUnavailableError,
    HostEnded,
    HostNote,
    HostNotStarted,
    HostStarted,
    PackProbed,
)
from fairlead.engine.hosts.pool import Hosts
from fairlead.engine.hosts.service import PackReport
from fairlead.engine.hosts.templates import HostSettings
from fairlead.observing.observations import (
    EngineHostFailed,
    EngineHostStarted,
    EngineHostStopped,
    NodeClassesShadowed,
    NodePackLoaded,
    Observer,
    UnexpectedError,
)
from fairlead.server.confinement import Confinement, copies_folder
from fairlead.server.installation import DataDirectoryError
from fairlead.server.settings import Settings


async def ready_hosts(
    settings: Settings, confinement: Confinement, partner_nodes: bytes, observe: Observer, stack: AsyncExitStack
) -> Hosts:
    """The engine hosts of a server, of which the process they are forked from is being started."""
    given = host_settings(settings, confinement, settings.data / "scratch")
    copies_folder(settings).mkdir(mode=0o700, exist_ok=True)
    hosts = Hosts(given, partner_nodes, partial(_note, observe))
    stack.push_async_callback(hosts.close)
    try:
        await hosts.begin()
    except EngineUnavailableError as error:
        raise DataDirectoryError(str(error)) from error
    return hosts


async def try_node_packs(settings: Settings, confinement: Confinement, scratch: Path) -> Sequence[PackReport]:
    """The reports about loading each node pack in a process like those of a server.

    EngineUnavailableError where none can be started. `scratch` is a folder for temporary files.
    """
    hosts = Hosts(await asyncio.to_thread(host_settings, settings, confinement, scratch), b"[]", lambda _: None)
    try:
        await hosts.begin()
        return (await hosts.prepare(None)).packs
    finally:
        await hosts.close()


def host_settings(settings: Settings, confinement: Confinement, scratch: Path) -> HostSettings:
    """The options of an installation's engine hosts."""
    return HostSettings(
        scratch=scratch.resolve(),
        places=settings.engine_hosts,
        extra_places=settings.engine_extra_hosts,
        memory=settings.engine_memory_mib * 2**20,
        cache=settings.engine_cache_mib * 2**20,
        packs=() if confinement.packs is None else (str(confinement.packs),),
        packs_refused=confinement.refusal,
        copies=str(copies_folder(settings)),
        pack_seconds=settings.engine_pack_seconds,
        heartbeat_seconds=settings.engine_heartbeat_seconds,
        policies=confinement.policies,
        idle_seconds=settings.engine_idle_seconds,
        job_seconds=settings.job_minutes * 60,
    )


def _note(observe: Observer, note: HostNote) -> None:
    match note:
        case HostStarted(pid=pid, seconds=seconds, kind=kind, packs=packs):
            observe(EngineHostStarted(pid, kind, list(packs), seconds))
        case PackProbed(report=report):
            observe(NodePackLoaded(report.name, report.nodes, report.error, report.seconds))
        case ClassesShadowed(pack=pack, owner=owner, classes=classes):
            observe(NodeClassesShadowed(pack, owner, list(classes)))
        case HostEnded(pid=pid, reason=reason, died=died):
            observe(EngineHostStopped(pid, reason or died, by_itself=reason is None))
        case HostNotStarted(why=why):
            observe(EngineHostFailed(why))
        case AnswerFailed(question=question, error=error):
            observe(UnexpectedError(f"answer an engine host's {question}", error))
