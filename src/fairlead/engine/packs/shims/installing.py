"""Installs the modules that packs import. Only done in a process that does nothing but execute nodes."""

import importlib.util
import sys
from collections.abc import Mapping, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any, Final, NamedTuple

from fairlead.engine.nodes.node import Blocked
from fairlead.engine.nodes.node_context import current_context
from fairlead.engine.nodes.registry import Registry
from fairlead.engine.packs import videos
from fairlead.engine.packs.folders import PackFolders
from fairlead.engine.packs.shims import (
    devices,
    extension_api,
    graph_builder,
    node_classes,
    progress,
    prompts,
    scaling,
    schema_form,
    server,
    shown,
    type_names,
    web,
)  # fmt: skip
from fairlead.engine.packs.shims.folder_paths import FolderPaths

PACKAGE: Final = "custom_nodes"
_API_VERSIONS: Final = ("comfy_api.latest", "comfy_api.v0_0_2")


class ExecutingContext(NamedTuple):
    """The job and the node that call this code."""

    prompt_id: str | None
    node_id: str
    list_index: int | None


class Arguments(SimpleNamespace):
    """The command line of the engine that packs expect: no option was given."""

    def __getattr__(self, name: str) -> None:
        if name.startswith("_"):
            raise AttributeError(name)


def install(registry: Registry, custom_nodes: Sequence[str], folders: PackFolders) -> ModuleType:
    """Make the modules importable by the names packs know. Returns `nodes`, whose mappings hold all classes."""
    tables = {PACKAGE: {}, **_comfy(), **_api(), **_aiohttp(), "folder_paths": FolderPaths(folders).members()}
    tables["server"] = {"PromptServer": server.PromptServer, "BinaryEventTypes": server.BinaryEventTypes}
    tables["nodes"] = node_classes.members(registry[name].definition for name in registry)
    for name, members in tables.items():
        _put(name, members)
    sys.modules[PACKAGE].__path__ = list(custom_nodes)
    return sys.modules["nodes"]


def _put(name: str, members: Mapping[str, object]) -> None:
    module = ModuleType(name, "What node packs import by this name.")
    module.__path__ = []  # submodules may exist, and missing ones raise errors with their own names
    vars(module).update(members)
    sys.modules[name] = module
    parent, _, own = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], own, module)


def _comfy() -> dict[str, dict[str, Any]]:
    """The packages `comfy` and `comfy_execution`."""
    scaled = {"common_upscale": scaling.common_upscale, "PROGRESS_BAR_ENABLED": True}
    builder = {name: getattr(graph_builder, name) for name in ("GraphBuilder", "is_link", "add_graph_prefix")}
    blocker = {"ExecutionBlocker": Blocked}
    return {
        "comfy": {},
        "comfy.utils": {"ProgressBar": progress.ProgressBar, **scaled},
        "comfy.model_management": devices.MEMBERS,
        "comfy.comfy_types": type_names.MEMBERS,
        "comfy.comfy_types.node_typing": type_names.MEMBERS,
        "comfy.cli_args": {"args": Arguments()},
        "comfy_execution": {},
        "comfy_execution.graph": {**blocker, "DynamicPrompt": prompts.DynamicPrompt},
        "comfy_execution.graph_utils": {**builder, **blocker, "Node": graph_builder.GraphNode},
        "comfy_execution.utils": {"get_executing_context": _executing_context, "ExecutionContext": ExecutingContext},
    }


def _api() -> dict[str, dict[str, object]]:
    """The package `comfy_api`, each of whose versions is the same."""
    extension = {
        "ComfyExtension": extension_api.ComfyExtension,
        "ComfyAPI": extension_api.ComfyAPI,
        "ComfyAPISync": extension_api.ComfyAPISync,
    }
    tables: dict[str, dict[str, Any]] = {
        "comfy_api": {},
        "comfy_api.input": {f"{name}Input": kind for name, kind in videos.API["Input"].items()},
        "comfy_api.input_impl": videos.API["InputImpl"],
        "comfy_api.util": videos.API["Types"],
    }
    for version in _API_VERSIONS:
        tables[version] = extension
        tables[f"{version}.io"] = tables[f"{version}._io"] = tables[f"{version}.IO"] = schema_form.MEMBERS
        tables |= {f"{version}.{name}": members for name, members in videos.API.items()}
        tables[f"{version}.ui"] = tables[f"{version}._ui"] = tables[f"{version}.UI"] = shown.MEMBERS
    return tables


def _aiohttp() -> dict[str, dict[str, object]]:
    if importlib.util.find_spec("aiohttp") is not None:
        return {}
    return {"aiohttp": {"__getattr__": web.attribute}, "aiohttp.web": {"__getattr__": web.attribute}}


def _executing_context() -> ExecutingContext | None:
    context = current_context()
    return None if context is None else ExecutingContext(None, context.place.node, None)
