"""How the engine's processes are confined on this machine: by the settings, and by which mechanisms work."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Final

import msgspec

from fairlead.engine.hosts.policies import HostPolicies
from fairlead.engine.packs.finding import find_packs
from fairlead.observing.observations import ConfinementMissing, EngineConfined, NodePacksRefused, Observer
from fairlead.processes.confinement.cgroups import ControlGroups, find_control_groups
from fairlead.processes.confinement.policy import MEMORY, ConfinementError, Policy, Report
from fairlead.processes.confinement.probe import probe, with_filters
from fairlead.server.blob_stores import files_folder
from fairlead.server.installation import DataDirectoryError
from fairlead.server.settings import CONFINEMENT_OFF, CONFINEMENT_REQUIRED, Settings
from fairlead.storage.db.opening import file_of

_MODELS: Final = "models"
_AS_ROOT: Final = "the server runs as root; run it as another user, or set FAIRLEAD_ENGINE_ALLOW_ROOT=true"
_HINT: Final = "FAIRLEAD_ENGINE_CONFINEMENT=available goes on without it"

_NOTHING: Final = Report()


class Confinement(msgspec.Struct, frozen=True):
    """The confinement of the engine's processes.

    `refusal` says why no node pack is loaded, in which case `packs` is their folder.

    `policies` is None where the settings turn confinement off.
    """

    mode: str
    report: Report = _NOTHING
    policies: HostPolicies | None = None
    packs: Path | None = None
    refusal: str | None = None

    def summary(self) -> dict[str, object]:
        """The document for operators' tools; none of it is secret."""
        mechanisms = {mechanism.name: mechanism.is_held for mechanism in self.report.mechanisms}
        told: dict[str, object] = {"mode": self.mode, "mechanisms": mechanisms}
        return told if self.refusal is None else {**told, "node_packs_refused": self.refusal}

    def tell(self, observe: Observer) -> None:
        """Observe which mechanisms hold."""
        held = {mechanism.name: mechanism.detail for mechanism in self.report.mechanisms if mechanism.is_held}
        observe(EngineConfined(self.mode, held, [mechanism.name for mechanism in self.report.missing]))
        for mechanism in self.report.missing:
            observe(ConfinementMissing(mechanism.name, mechanism.detail))
        if self.refusal is not None:
            observe(NodePacksRefused(self.refusal))


def packs_folder(settings: Settings) -> Path | None:
    """The folder of node packs, where there is one."""
    folder = settings.data / "custom_nodes" if settings.node_packs is None else settings.node_packs
    return folder.resolve() if folder.is_dir() else None


def copies_folder(settings: Settings) -> Path:
    """The folder of the copies of node packs that releases keep."""
    return (settings.data / "release_packs").resolve()


async def ready_confinement(settings: Settings) -> Confinement:
    """Find out how hosts can be confined here; DataDirectoryError where packs could read what they must not."""
    return await asyncio.to_thread(examine_confinement, settings)


def examine_confinement(settings: Settings) -> Confinement:
    """The same. The calling thread waits for a probe, a tenth of a second."""
    packs, mode = packs_folder(settings), settings.engine_confinement
    if mode == CONFINEMENT_OFF:
        return Confinement(mode, packs=packs)
    groups = find_control_groups()
    if groups is not None:
        groups.end_left()
    base = _policy(settings, packs)
    try:
        report = probe(base, groups)
    except ConfinementError as error:
        if packs is not None:
            raise DataDirectoryError(str(error)) from error
        base = msgspec.structs.replace(base, protected=())
        report = probe(base, groups)
    refusal = None if packs is None else _refusal(settings, report)
    is_required = mode == CONFINEMENT_REQUIRED and packs is not None and refusal is None
    base = msgspec.structs.replace(base, is_required=is_required)
    policies = _policies(settings, base, groups, report)
    return Confinement(mode, report, policies, None if refusal else packs, refusal)


def _policy(settings: Settings, packs: Path | None) -> Policy:
    """The policy of every host, as far as it is known before one starts."""
    database = file_of(settings.database_url())
    secrets = (settings.data, *(() if database is None else (database,)))
    folders = (
        () if packs is None else (packs, packs.with_name(_MODELS), copies_folder(settings), *_resolve_links(packs))
    )
    return Policy(
        readable=[str(path) for path in (*folders, *settings.engine_readable)],
        named=[str(files_folder(settings))],
        devices=[str(path) for path in settings.engine_devices],
        protected=[str(path.resolve()) for path in secrets],
        memory=settings.engine_memory_mib * 2**20,
    )


def _resolve_links(packs: Path) -> list[Path]:
    """The real paths of packs that are links in the folder, such as one under development."""
    found = (pack.path for pack in find_packs([packs]).packs)
    lying = (path.parent if path.parent != packs else path for path in found)
    return [path.resolve() for path in lying if path.is_symlink()]


def _refusal(settings: Settings, report: Report) -> str | None:
    """Why no pack may be loaded."""
    if sys.platform != "win32" and os.getuid() == 0 and not settings.engine_allow_root:
        return _AS_ROOT
    if settings.engine_confinement != CONFINEMENT_REQUIRED or not report.missing:
        return None
    missing = "; ".join(f"{mechanism.name}: {mechanism.detail}" for mechanism in report.missing)
    return f"{missing}; {_HINT}"


def _policies(settings: Settings, base: Policy, groups: ControlGroups | None, report: Report) -> HostPolicies:
    counts_memory = any(one.name == MEMORY and "control group" in one.detail for one in report.mechanisms)

    def filter_calls(policy: Policy) -> Policy:
        try:
            return with_filters(policy, shared_memory=counts_memory)
        except ConfinementError:  # already reported as missing
            return policy

    networked = settings.engine_network
    opened = filter_calls(msgspec.structs.replace(base, allows_network=True)) if networked else None
    return HostPolicies(filter_calls(base), opened, networked, groups)
