"""Loads node packs from folders, one by one: a faulty one is reported and does not affect the others.

Only done in a process that executes nodes: a pack's code may do anything, and occupies module names.
"""

import importlib.util
import inspect
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Final

from fairlead.domain.deployments import PackSet
from fairlead.engine.hosts.service import PackReport
from fairlead.engine.nodes.node import Definition
from fairlead.engine.nodes.registry import Registry
from fairlead.engine.packs.calling import complete
from fairlead.engine.packs.class_mapping import definition_of_class
from fairlead.engine.packs.declarations import BadClassError
from fairlead.engine.packs.finding import Pack, find_packs
from fairlead.engine.packs.folders import PackFolders
from fairlead.engine.packs.schemas import definition_of_schema
from fairlead.engine.packs.shims.installing import PACKAGE, install
from fairlead.engine.packs.shims.schema_form import ComfyNode
from fairlead.engine.packs.shims.server import PromptServer

_WORDS_MAX: Final = 1_000
_ERRORS_SHOWN_MAX: Final = 5


class BadPackError(Exception):
    """A folder or file is not a valid pack; the message says why."""


def _silent(_: str) -> None:
    """Announce nothing."""


def load_packs(
    registry: Registry,
    folders: Sequence[str],
    scratch: str | None = None,
    selection: PackSet = None,
    announce: Callable[[str], None] = _silent,
) -> Sequence[PackReport]:
    """Load the packs of some `custom_nodes` folders, all or those selected, and add the nodes to a registry.

    Packs are loaded in alphabetical order, folder by folder, each announced by its name before. A class whose name is
    taken is left out. A name that is selected and not found has no report. Files of packs are kept below `scratch`, or
    in the system's temporary folder; models are looked for in `models` next to the packs.
    """
    present = [Path(folder).resolve() for folder in folders]
    found = find_packs(present)
    packs, unread = found.packs, found.unread
    if selection is not None:  # a folder that holds none of the wanted packs may be missing
        packs, unread = [pack for pack in packs if pack.name in selection], []
    reports = [PackReport(folder, 0, f"the folder cannot be read: {why}") for folder, why in unread]
    if not packs:
        return reports
    pack_folders = PackFolders(scratch, [folder.parent / "models" for folder in present])
    nodes = install(registry, [str(folder) for folder in present], pack_folders)
    for pack in packs:
        announce(pack.name)
        reports.append(_Loading(registry, nodes, pack_folders, pack).report())
    return reports


class _Loading:
    """A pack being loaded."""

    def __init__(self, registry: Registry, nodes: ModuleType, folders: PackFolders, pack: Pack) -> None:
        self._registry = registry
        self._nodes = nodes
        self._folders = folders
        self._pack = pack
        self._count = 0
        self._errors: list[str] = []
        self._notes: list[str] = []

    def report(self) -> PackReport:
        """Load the pack and report the outcome."""
        began, routes = time.monotonic(), PromptServer.instance.routes.count
        try:
            self._take(self._import())
        except (Exception, SystemExit) as error:  # noqa: BLE001 -- written by strangers, who may raise anything
            self._errors.insert(0, _words(error))
        if PromptServer.instance.routes.count > routes:
            self._notes.append("its routes are not served")
        more = len(self._errors) - _ERRORS_SHOWN_MAX
        shown = self._errors[:_ERRORS_SHOWN_MAX] + ([f"and {more} more"] if more > 0 else [])
        return PackReport(
            self._pack.name,
            self._count,
            "; ".join(shown)[:_WORDS_MAX] or None,
            round(time.monotonic() - began, 3),
            self._notes,
        )

    def _import(self) -> ModuleType:
        name, path = _module_name(self._pack), self._pack.path
        if name in sys.modules:
            if getattr(sys.modules[name], "__file__", None) == str(path):
                return sys.modules[name]  # another pack has imported it
            raise BadPackError("there is another pack of this name")
        below = [str(path.parent)] if path.name == "__init__.py" else None
        spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=below)
        if spec is None or spec.loader is None:
            raise BadPackError("it is not a Python module")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            for loaded in [other for other in sys.modules if other == name or other.startswith(f"{name}.")]:
                del sys.modules[loaded]
            raise
        return module

    def _take(self, module: ModuleType) -> None:
        classes: object = getattr(module, "NODE_CLASS_MAPPINGS", None)
        entrypoint: object = getattr(module, "comfy_entrypoint", None)
        if getattr(module, "WEB_DIRECTORY", None) is not None:
            self._notes.append("its scripts for editors are not served")
        elif classes is None and entrypoint is None:
            raise BadPackError("it has neither NODE_CLASS_MAPPINGS nor comfy_entrypoint")
        if classes is not None:
            self._take_mapping(classes, getattr(module, "NODE_DISPLAY_NAME_MAPPINGS", None) or {})
        if callable(entrypoint):
            self._take_extension(entrypoint)

    def _take_mapping(self, classes: object, titles: Mapping[str, object]) -> None:
        if not isinstance(classes, Mapping):
            raise BadPackError("its NODE_CLASS_MAPPINGS is not a dict")
        for name, kind in classes.items():
            self._add(str(name), kind, str(titles.get(name) or name))

    def _take_extension(self, entrypoint: Callable[[], object]) -> None:
        extension = complete(entrypoint())
        if not hasattr(extension, "get_node_list"):
            raise BadPackError("its comfy_entrypoint returns no extension")
        if hasattr(extension, "on_load"):
            complete(extension.on_load())
        kinds = complete(extension.get_node_list())
        if not isinstance(kinds, list | tuple):
            raise BadPackError("its get_node_list does not return a list")
        for kind in kinds:
            if not (isinstance(kind, type) and issubclass(kind, ComfyNode)):
                self._errors.append(f"{getattr(kind, '__name__', kind)!s:.100} is not a class of the schema form")
                continue
            self._add(kind.__name__, kind, "")

    def _add(self, name: str, kind: object, title: str) -> None:
        try:
            definition = self._definition(name, kind, title)
        except (Exception, SystemExit) as error:  # noqa: BLE001 -- as above
            self._errors.append(f"{name}: {_words(error)}")
            return
        if definition.name in self._registry:
            self._errors.append(f"{name}: another node has this name, and stays")
            return
        self._registry.add(definition)
        self._count += 1
        self._nodes.NODE_CLASS_MAPPINGS.setdefault(definition.name, kind)
        self._nodes.NODE_DISPLAY_NAME_MAPPINGS.setdefault(definition.name, definition.title)

    def _definition(self, name: str, kind: object, title: str) -> Definition:
        module = f"{PACKAGE}.{self._pack.title}"
        if inspect.isclass(kind) and issubclass(kind, ComfyNode):
            return definition_of_schema(kind, module, self._folders)
        return definition_of_class(name, kind, title, module, self._folders)


def _module_name(pack: Pack) -> str:
    """The name a pack is imported by. A dot would make it a part of something else."""
    return f"{PACKAGE}.{pack.title.replace('.', '_x_')}"


def _words(error: BaseException) -> str:
    """What is wrong, and where; for a missing module, its name."""
    if isinstance(error, BadPackError | BadClassError):
        return str(error)
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"it needs the module {error.name}, which is not installed"
    try:
        said = str(error)
    except Exception:  # noqa: BLE001 -- written by strangers, too
        said = ""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if len(frames) > 1 else ""
    return f"{type(error).__name__}: {said[:_WORDS_MAX]}{place}" if said else f"{type(error).__name__}{place}"
