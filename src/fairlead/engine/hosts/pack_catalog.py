"""The node packs, the result of probing each, the classes of nodes that each provides, and the engine's own classes.

Each pack is probed by itself in a process that loads nothing else, within a time limit, and ends then. A pack that
crashes, or takes too long, is disabled alone; it is probed again on request.
"""

import asyncio
import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from fairlead.domain.deployments import PackSet, is_copy, title_of
from fairlead.engine.hosts.notes import ClassesShadowed, EngineUnavailableError, PackProbed, TakeNote
from fairlead.engine.hosts.process import HostNotStartedError
from fairlead.engine.hosts.service import PackReport
from fairlead.engine.hosts.templates import Packs, Templates
from fairlead.engine.packs.finding import Pack, absence, absent, find_packs

_TRIES: Final = 2
_CLASSES_MAX: Final = 10_000
_NAME_LENGTH_MAX: Final = 500
Classes: TypeAlias = Mapping[str, bytes]
"""The description of each class for editors, by name."""


class _Pack(msgspec.Struct):
    """A pack: its probe under way, then its report and classes. `edition` numbers that probe among all."""

    name: str
    edition: int = 0
    report: PackReport | None = None
    classes: Classes = msgspec.field(default_factory=dict)
    probe: "asyncio.Task[PackReport] | None" = None
    shadowed_by: Mapping[str, Sequence[str]] = msgspec.field(default_factory=dict)
    """Its classes that other packs provide, by those packs."""


class PackCatalog:
    """The packs of some folders. `changed` is called whenever the known classes change."""

    def __init__(
        self, templates: Templates, folders: Sequence[Path], note: TakeNote, changed: Callable[[], None]
    ) -> None:
        self._templates = templates
        self._folders = folders
        self._note = note
        self._changed = changed
        self._packs: dict[str, _Pack] = {}
        """In the order in which packs are loaded: where two have a class of the same name, the first provides it."""
        self._editions = itertools.count(1)
        self._owners: dict[PackSet, Mapping[str, str]] = {}
        self._is_looked_at = asyncio.Event()

    async def begin(self) -> None:
        """Look for packs, and begin to probe each that is not a copy; copies are probed when they are needed."""
        for name in await self.names():
            if not is_copy(name):
                self.probe(name)
        self._is_looked_at.set()

    async def names(self) -> list[str]:
        """The names of the present packs, in the order in which they are loaded."""
        return [pack.name for pack in await self.packs()]

    async def packs(self) -> list[Pack]:
        """The same, with their folders."""
        found = await asyncio.to_thread(find_packs, self._folders)
        return list({pack.name: pack for pack in reversed(found.packs)}.values())[::-1]

    def close(self) -> None:
        """Probe nothing more."""
        for pack in self._packs.values():
            if pack.probe is not None:
                pack.probe.cancel()

    @property
    def reports(self) -> Sequence[PackReport]:
        """The reports about all probed packs."""
        return [pack.report for pack in self._packs.values() if pack.report is not None]

    @property
    def is_settled(self) -> bool:
        """Whether every pack was probed."""
        return self._is_looked_at.is_set() and not self._pending(None)

    async def wait_for_probes(self, allowed: PackSet) -> None:
        """Return when all allowed packs were probed."""
        await self._is_looked_at.wait()
        for name in set(allowed or ()).difference(self._packs):
            if is_copy(name):
                self.probe(name)
        if pending := self._pending(allowed):
            await asyncio.wait(pending)

    def edition_of(self, name: str) -> int:
        """The number of a pack's last probe: a host that loaded the pack before that is out of date."""
        pack = self._packs.get(name)
        return 0 if pack is None else pack.edition

    async def refuse(self, packs: Packs) -> str | None:
        """Why not all of some packs can be used, as far as is known; None where they can."""
        return self.refuse_among(packs, await self.names())

    def refuse_among(self, packs: Packs, names: Collection[str]) -> str | None:
        """The same, for names of packs that were just read."""
        if missing := absent(packs, names):
            return absence(missing)
        reports = [self._packs[name].report for name in packs if name in self._packs]
        broken = next((report for report in reports if report is not None and report.error is not None), None)
        return None if broken is None else f"the node pack {title_of(broken.name)!r} cannot be loaded: {broken.error}"

    def owners(self, allowed: PackSet) -> Mapping[str, str]:
        """The allowed pack that provides each class, by the name of the class."""
        found = self._owners.get(allowed)
        if found is None:
            if len(self._owners) > _CLASSES_MAX:
                self._owners.clear()
            found = {name: pack.name for pack in reversed(self._packs_of(allowed)) for name in pack.classes}
            self._owners[allowed] = found
        return found

    def classes(self, allowed: PackSet) -> Classes:
        """The descriptions of the classes of allowed packs, for editors."""
        return {name: self._packs[owner].classes[name] for name, owner in self.owners(allowed).items()}

    def probe(self, name: str, *, again: bool = False) -> "asyncio.Task[PackReport]":
        """Have a pack probed, unless that was done or is under way; with `again` in any case."""
        pack = self._packs.setdefault(name, _Pack(name))
        if pack.probe is None or (again and pack.probe.done()):
            pack.probe = asyncio.ensure_future(self._probe(pack))
        return pack.probe

    def forget(self, names: Iterable[str]) -> None:
        """Forget packs that no longer exist."""
        for name in names:
            if (pack := self._packs.pop(name, None)) is not None and pack.probe is not None:
                pack.probe.cancel()
        self._change()

    async def _probe(self, pack: _Pack) -> PackReport:
        pack.edition = next(self._editions)
        report, classes = await self._try(pack.name)
        pack.report, pack.classes = report, classes
        self._change()
        self._note(PackProbed(report))
        self._note_shadowed()
        return report

    def _note_shadowed(self) -> None:
        """Report once which classes of a pack are never used, because an earlier pack provides them."""
        owners = self.owners(None)
        for pack in self._packs_of(None):
            shadowed: dict[str, list[str]] = {}
            for name in pack.classes:
                if owners[name] != pack.name:
                    shadowed.setdefault(owners[name], []).append(name)
            for owner, classes in shadowed.items():
                if pack.shadowed_by.get(owner) != classes:
                    self._note(ClassesShadowed(pack.name, owner, classes))
            pack.shadowed_by = shadowed

    async def _try(self, name: str) -> tuple[PackReport, Classes]:
        """Load a pack, a second time if it ends its process, as memory may have been short; not if it was too slow."""
        for is_last in (False, True):
            try:
                report, classes = await self._templates.probe(name)
            except HostNotStartedError as error:
                if is_last or error.is_slow or error.missing:
                    return PackReport(name, 0, error.why), {}
            else:
                return await asyncio.to_thread(_read, report, classes)
        raise AssertionError

    def _change(self) -> None:
        self._owners.clear()
        self._changed()

    def _packs_of(self, allowed: PackSet) -> list[_Pack]:
        """The packs of a set; the set of all packs has no copies."""
        return [
            pack
            for pack in self._packs.values()
            if (not is_copy(pack.name) if allowed is None else pack.name in allowed)
        ]

    def _pending(self, allowed: PackSet) -> "list[asyncio.Task[Any]]":
        return [pack.probe for pack in self._packs_of(allowed) if pack.probe is not None and not pack.probe.done()]


def _read(report: PackReport, object_info: bytes) -> tuple[PackReport, Classes]:
    """The report of a pack and its classes; both are the pack's own words, and so may be wrong."""
    try:
        classes = _classes_in(object_info)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        return PackReport(report.name, 0, f"what it says of its classes cannot be read: {error}"), {}
    if len(classes) > _CLASSES_MAX or any(len(name) > _NAME_LENGTH_MAX for name in classes):
        return PackReport(report.name, 0, f"it has more than {_CLASSES_MAX} classes, or names that are too long"), {}
    return report, classes


class NodeClasses:
    """The classes that templates have reported, kept until they are out of date."""

    def __init__(self, templates: Templates, catalog: PackCatalog) -> None:
        self._templates = templates
        self._catalog = catalog
        self._own: Classes = {}
        self._generation = 0
        self._generation_known = -1
        self._asking = asyncio.Lock()

    @property
    def is_current(self) -> bool:
        """Whether the known classes of the engine are current."""
        return self._generation_known == self._generation

    def expire(self) -> None:
        """Note that the engine's own classes have changed; the known ones are used until the new ones are known."""
        self._generation += 1

    async def own(self) -> AbstractSet[str]:
        """The names of the classes that belong to no pack. EngineUnavailableError."""
        if not self._own:
            await self.refresh()
        return self._own.keys()

    async def refresh(self) -> None:
        """Ask for the engine's own classes, where the known ones are out of date. EngineUnavailableError."""
        async with self._asking:
            while not self.is_current:
                generation = self._generation
                try:
                    told = await self._templates.classes()
                except HostNotStartedError as error:
                    raise EngineUnavailableError(str(error)) from error
                self._own = await asyncio.to_thread(_classes_in, told)
                self._generation_known = generation

    async def describe(self, packs: PackSet) -> bytes:
        """The classes with some packs, as one JSON object. EngineUnavailableError."""
        await self.own()
        return await asyncio.to_thread(_encode_classes, self._own, self._catalog.classes(packs))


def _classes_in(object_info: bytes) -> Classes:
    told = msgspec.json.decode(object_info, type=dict[str, msgspec.Raw])
    return {name: bytes(raw) for name, raw in told.items()}


def _encode_classes(own: Classes, of_packs: Classes) -> bytes:
    classes = {**of_packs, **own}
    return msgspec.json.encode({name: msgspec.Raw(raw) for name, raw in classes.items()})
