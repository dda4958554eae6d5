"""Node packs in tests: a pack as strangers write them, loaded into an executor that is watched."""

import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest

from conftest import Run
from engine.executions import Bench, Seen
from fairlead.domain.jobs.events import Event, Place
from fairlead.engine.graph.executor import Work
from fairlead.engine.graph.graph import read_graph
from fairlead.engine.graph.validation import validate
from fairlead.engine.hosts.service import PackReport
from fairlead.engine.nodes.context import ModelReply
from fairlead.engine.nodes.families import own_nodes
from fairlead.engine.nodes.node_context import looking_context
from fairlead.engine.nodes.registry import Registry
from fairlead.engine.packs.loader import load_packs

PACK: Final = Path(__file__).parent / "node_packs" / "third-party-nodes"
"""A pack as strangers write them: it keeps to no rules of ours."""

_OWNED: Final = frozenset({"comfy", "comfy_api", "comfy_execution", "custom_nodes", "folder_paths", "nodes", "server"})

Load: TypeAlias = Callable[..., Sequence[PackReport]]
Execute: TypeAlias = Callable[..., Seen]


@dataclass
class Watcher:
    """Who watches: what nodes have shown and said on the way."""

    previews: list[tuple[str, str, bytes]] = field(default_factory=list)
    texts: list[tuple[str, str]] = field(default_factory=list)

    def preview(self, place: Place, image_type: str, image: bytes) -> None:
        """Note a preview."""
        self.previews.append((place.node, image_type, image))

    def say(self, place: Place, text: str) -> None:
        """Note a word."""
        self.texts.append((place.node, text))

    async def run_model(self, node: str, turn: int, model: str, body: bytes) -> ModelReply:
        """Refuse: no pack runs models."""
        raise NotImplementedError(node, turn, model, body)


class WatchedBench(Bench):
    """An executor of every node there is, with somebody who watches."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, cache_bytes=64 << 20)
        self.watcher = Watcher()
        self.folder = folder
        own = own_nodes()
        for name in own:
            self.registry.add(own[name].definition)

    async def execute(self, document: Mapping[str, Any], hidden: Mapping[str, Any]) -> Seen:
        """Validate a graph, as hosts do, and execute it."""
        checked = await validate(read_graph(document), self.registry, None, looking_context(self.files))
        events: list[Event] = []
        work = Work(checked.graph, checked.outputs, self.files, hidden, self.watcher)
        return Seen(await self.executor.run(work, events.append), events)


@pytest.fixture(autouse=True)
def _forgotten_modules() -> Iterator[None]:
    """Take back the modules that packs import, and packs themselves: other code uses some of the names."""
    before, path = dict(sys.modules), list(sys.path)
    yield
    for name, module in list(sys.modules.items()):
        if before.get(name) is not module and _is_of_packs(name, module):
            del sys.modules[name]
    sys.modules.update({name: module for name, module in before.items() if name not in sys.modules})
    sys.path[:] = path


def _is_of_packs(name: str, module: Any) -> bool:
    top = name.partition(".")[0]
    return top in _OWNED or (top == "aiohttp" and getattr(module, "__spec__", None) is None)


@pytest.fixture
def custom_nodes(tmp_path: Path) -> Path:
    """Return an empty folder for packs."""
    folder = tmp_path / "engine" / "custom_nodes"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def load(custom_nodes: Path, tmp_path: Path) -> Load:
    """Return a function that loads the folder into a registry, by default one of its own."""

    def load_party(registry: Registry | None = None) -> Sequence[PackReport]:
        return load_packs(Registry() if registry is None else registry, [str(custom_nodes)], str(tmp_path))

    return load_party


@pytest.fixture
def party(custom_nodes: Path, load: Load, tmp_path: Path) -> Iterator[WatchedBench]:
    """Return an executor that has loaded the pack strangers wrote."""
    copy(PACK, custom_nodes / "third-party-nodes")
    (tmp_path / "input").mkdir()
    bench = WatchedBench(tmp_path)
    assert [report.error for report in load(bench.registry)] == [None]
    yield bench
    bench.executor.close()


@pytest.fixture
def execute(party: WatchedBench, run: Run) -> Execute:
    """Return a function that executes a graph with the pack's nodes."""

    def execute_document(document: Mapping[str, Any], **hidden: Any) -> Seen:
        seen: Seen = run(party.execute(document, hidden))
        return seen

    return execute_document


def copy(pack: Path, target: Path) -> None:
    """Put a pack in place."""
    shutil.copytree(pack, target, ignore=shutil.ignore_patterns("__pycache__"))
