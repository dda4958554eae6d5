"""Packs are found, loaded and reported one by one, whatever is wrong with some of them."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from engine.packs.conftest import PACK, Load, WatchedBench, copy
from fairlead.engine.hosts.service import PackReport
from fairlead.engine.nodes.families import own_nodes
from fairlead.engine.nodes.registry import Registry, describe
from fairlead.engine.packs.loader import load_packs

_GOOD: Final = """
class Node:
    INPUT_TYPES = classmethod(lambda cls: {"required": {"value": ("INT", {"default": 1})}})
    RETURN_TYPES = ("INT",)
    FUNCTION = "run"
    CATEGORY = "x"
    def run(self, value):
        return (value,)
NODE_CLASS_MAPPINGS = {%r: Node}
"""


def _by_name(reports: Any) -> dict[str, PackReport]:
    return {report.name: report for report in reports}


def test_pack_with_a_strange_name_is_loaded(custom_nodes: Path, load: Load) -> None:
    """Hyphens, dots and spaces are names; what is hidden, private or disabled is not a pack."""
    for name in ("a-pack", "b.pack", "c pack", "_private", ".hidden", "d.disabled"):
        (custom_nodes / name).mkdir()
        (custom_nodes / name / "names.py").write_text(f"NAME = {name!r}")
        source = f"from .names import NAME\nfrom . import names{_GOOD % name}assert names.NAME == NAME == {name!r}"
        (custom_nodes / name / "__init__.py").write_text(source)
    (custom_nodes / "single.py").write_text(_GOOD % "single")
    (custom_nodes / "_no.py").write_text("raise SystemExit")
    (custom_nodes / "off.py.disabled").write_text("raise SystemExit")
    (custom_nodes / "not-a-pack").mkdir()
    (custom_nodes / "readme.md").write_text("words")
    registry = Registry()
    reports = load(registry)
    assert [(report.name, report.nodes, report.error) for report in reports] == [
        (name, 1, None) for name in ("a-pack", "b.pack", "c pack", "single")
    ]
    assert list(registry) == ["a-pack", "b.pack", "c pack", "single"]
    assert describe(registry["a-pack"].definition)["python_module"] == "custom_nodes.a-pack"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("raise ValueError('broken')", "ValueError: broken (bad.py, line 1)"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("import torch_of_another_world.nn", "it needs the module torch_of_another_world, which is not installed"),
        ("import comfy.samplers", "it needs the module comfy.samplers, which is not installed"),
        ("def broken(:", "SyntaxError: invalid syntax"),
        ("VALUE = 1", "it has neither NODE_CLASS_MAPPINGS nor comfy_entrypoint"),
        ("NODE_CLASS_MAPPINGS = [1]", "its NODE_CLASS_MAPPINGS is not a dict"),
        ("NODE_CLASS_MAPPINGS = {'X': 1}", "X: its FUNCTION names no method"),
        ("comfy_entrypoint = lambda: None", "its comfy_entrypoint returns no extension"),
        ("async def comfy_entrypoint():\n    raise KeyError('x')", "KeyError: 'x'"),
        ("def recursive():\n    recursive()\nrecursive()", "RecursionError"),
        ("import os\nos.environ['NO_SUCH_SECRET']", "KeyError: 'NO_SUCH_SECRET'"),
    ],
)
def test_broken_pack_is_reported_and_the_others_loaded(custom_nodes: Path, load: Load, source: str, words: str) -> None:
    """It is reported by name with what is wrong; those before and after it are loaded, and nothing of it stays."""
    (custom_nodes / "bad.py").write_text(source)
    (custom_nodes / "after.py").write_text(_GOOD % "after")
    (custom_nodes / "zuletzt.py").write_text(_GOOD % "zuletzt")
    registry = Registry()
    reports = _by_name(load(registry))
    assert words in (reports["bad"].error or "")
    assert list(registry) == ["after", "zuletzt"]
    assert reports["bad"].nodes == 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("Node.FUNCTION = 'gone'", "its FUNCTION names no method"),
        ("Node.RETURN_TYPES = ('INT')", "its RETURN_TYPES is not a tuple"),
        ("Node.RETURN_TYPES = (5,)", "5 is not a type of an output"),
        ("Node.INPUT_TYPES = classmethod(lambda cls: None)", "its INPUT_TYPES does not return a dict"),
        ("Node.INPUT_TYPES = classmethod(lambda cls: {'required': {'a': 'INT'}})", "input a: an input is declared"),
        ("Node.INPUT_TYPES = classmethod(lambda cls: {'required': {'a': (5,)}})", "input a: 5 is not a type"),
        ("Node.INPUT_TYPES = classmethod(lambda cls: 1 / 0)", "ZeroDivisionError"),
    ],
)
def test_broken_class_is_reported_and_the_others_kept(custom_nodes: Path, load: Load, change: str, words: str) -> None:
    """The others of the pack are there, and the report says which is not."""
    source = f"{_GOOD % 'Bad'}{change}\nclass Fine(Node):\n    FUNCTION = 'run'\n    RETURN_TYPES = ()\n"
    fine = "    INPUT_TYPES = classmethod(lambda cls: {})\nNODE_CLASS_MAPPINGS['Fine'] = Fine"
    (custom_nodes / "pack.py").write_text(source + fine)
    registry = Registry()
    (report,) = load(registry)
    assert (report.nodes, list(registry)) == (1, ["Fine"])
    assert (report.error or "").startswith("Bad: ")
    assert words in (report.error or "")


def test_first_node_of_a_name_stays(custom_nodes: Path, load: Load) -> None:
    """The first of a name stays: a node of ours before any pack, and a pack before those after it."""
    for name in ("a", "b"):
        (custom_nodes / f"{name}.py").write_text(f"{_GOOD % 'SaveImage'}NODE_CLASS_MAPPINGS['Mine'] = Node")
    registry = own_nodes()
    first, second = load(registry)
    assert (first.nodes, first.error) == (1, "SaveImage: another node has this name, and stays")
    assert (second.nodes, (second.error or "").count("another node has this name")) == (0, 2)
    assert registry["SaveImage"].definition.title == "Save Image"


def test_report_of_broken_classes_is_bounded(custom_nodes: Path, load: Load) -> None:
    """Some are named, the rest counted, and no text is long."""
    words = "'x' * 100_000"
    (custom_nodes / "pack.py").write_text("NODE_CLASS_MAPPINGS = {str(number): number for number in range(100)}")
    (custom_nodes / "wordy.py").write_text(f"raise ValueError({words})")
    many, wordy = load()
    assert (many.error or "").endswith("and 95 more")
    assert len(wordy.error or "") == 1_000


def test_missing_folder_is_reported(custom_nodes: Path, tmp_path: Path) -> None:
    """It is reported; those that are there are loaded; without a pack nothing is put in anybody's way."""
    before = set(sys.modules)
    gone = str(tmp_path / "gone")
    assert load_packs(Registry(), [gone, str(custom_nodes)]) == [
        PackReport(gone, 0, "the folder cannot be read: No such file or directory")
    ]
    assert "folder_paths" not in set(sys.modules) - before


def test_second_pack_of_a_name_is_reported(custom_nodes: Path, tmp_path: Path) -> None:
    """The second is reported; loading the same twice takes no harm."""
    other = tmp_path / "other"
    other.mkdir()
    (custom_nodes / "pack.py").write_text(_GOOD % "First")
    (other / "pack.py").write_text(_GOOD % "Second")
    registry = Registry()
    first, second = load_packs(registry, [str(custom_nodes), str(other)], str(tmp_path))
    assert (first.error, second.error) == (None, "there is another pack of this name")
    assert list(registry) == ["First"]


def test_only_selected_packs_are_loaded(custom_nodes: Path, tmp_path: Path) -> None:
    """Those named are announced and loaded; a name that is not found is passed by."""
    for name in "abc":
        (custom_nodes / f"{name}.py").write_text(_GOOD % name.upper())
    registry = Registry()
    announced: list[str] = []
    reports = load_packs(registry, [str(custom_nodes)], str(tmp_path), ("a", "c", "d", "."), announced.append)
    assert [report.name for report in reports] == announced == ["a", "c"]
    assert list(registry) == ["A", "C"]
    gone = str(tmp_path / "gone")
    assert load_packs(Registry(), [str(custom_nodes), gone], str(tmp_path), (), announced.append) == []


def test_name_that_is_no_text_is_reported_with_a_mark(custom_nodes: Path, load: Load) -> None:
    """The system's names are bytes: what cannot be told of is told with a mark in its place."""
    Path(os.fsdecode(os.fsencode(custom_nodes) + b"/odd\xff.py")).write_text(_GOOD % "Odd")
    assert [(report.name, report.nodes, report.error) for report in load()] == [("odd?", 1, None)]


def test_pack_that_imports_another_loads_it_once(custom_nodes: Path, load: Load) -> None:
    """It is the same module, loaded once."""
    (custom_nodes / "a.py").write_text(f"import custom_nodes.b\n{_GOOD % 'A'}\nassert custom_nodes.b.LOADED == [1]")
    (custom_nodes / "b.py").write_text(f"LOADED = []\nLOADED.append(1)\n{_GOOD % 'B'}")
    registry = Registry()
    assert [report.error for report in load(registry)] == [None, None]
    assert list(registry) == ["A", "B"]


def test_routes_and_scripts_that_are_not_served_are_reported(custom_nodes: Path, load: Load) -> None:
    """Routes and scripts of a pack are noted in its report."""
    copy(PACK, custom_nodes / "third-party-nodes")
    (report,) = load(own_nodes())
    assert report.notes == ["its scripts for editors are not served", "its routes are not served"]
    assert (report.nodes, report.error) == (30, None)


def test_pack_is_loaded_while_an_event_loop_runs(custom_nodes: Path, tmp_path: Path) -> None:
    """Its entry point is awaited elsewhere."""
    copy(PACK, custom_nodes / "third-party-nodes")

    async def load() -> PackReport:
        (report,) = load_packs(own_nodes(), [str(custom_nodes)], str(tmp_path))
        return report

    assert asyncio.run(load()).error is None


def test_pack_with_routes_is_loaded_without_aiohttp(
    custom_nodes: Path, load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Packs that import it for routes are loaded without it; anyone who really calls it is told."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "aiohttp"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    source = "from aiohttp import web\nclass Routes(web.View): pass\ntry:\n    web.json_response({})\n"
    (custom_nodes / "a.py").write_text(f"{source}except RuntimeError as error:\n    SAID = str(error)\n{_GOOD % 'A'}")
    (report,) = load()
    assert report.error is None
    assert sys.modules["custom_nodes.a"].SAID.endswith("routes of node packs are not served")


def test_editors_are_told_all_of_a_packs_classes(party: WatchedBench) -> None:
    """Both forms are told of as the peer does, and all of it is JSON."""
    told = json.loads(json.dumps(party.registry.object_info()))
    classic, schema = told["PartyBrighten"], told["PartyBlend"]
    assert classic["display_name"] == "Brighten ☀"
    assert classic["description"] == "Makes a picture brighter."
    assert classic["python_module"] == "custom_nodes.third-party-nodes"
    assert classic["input"]["required"]["image"] == ["IMAGE", {"tooltip": "what to make brighter"}]
    assert classic["input"]["hidden"] == {"unique_id": "UNIQUE_ID", "prompt": "PROMPT", "extra": "EXTRA_PNGINFO"}
    assert (classic["output"], classic["output_name"]) == (["IMAGE", "STRING"], ["image", "report"])
    assert classic["output_tooltips"] == ["the brighter one", "what was done"]
    assert "deprecated" not in classic
    assert (told["PartyInterrupting"]["deprecated"], told["PartyInterrupting"]["experimental"]) == (True, True)
    assert told["PartyLazySwitch"]["input"]["required"]["yes"] == ["*", {"lazy": True}]
    assert told["PartyEven"]["input"]["required"]["other"] == ["*", {}]
    assert told["PartyChanging"]["input"]["required"]["mode"] == [["world", "always", "broken"], {"default": "world"}]
    assert told["PartySavePicture"]["input"]["required"]["image"] == ["IMAGE"]
    counted = told["PartyCountedClose"]
    assert counted["input"]["hidden"] == {
        "dynprompt": "DYNPROMPT", "unique_id": "UNIQUE_ID", "total": ["INT"], "turn": ["INT", {}],
    }  # fmt: skip
    assert list(counted["input"]["required"]) == counted["input_order"]["required"] == ["flow", "value"]
    assert schema["display_name"] is None
    flags = ("deprecated", "experimental", "dev_only", "api_node", "has_intermediate_output")
    assert [schema[flag] for flag in flags] == [False] * 5
    assert schema["input"]["hidden"]["prompt"] == ["PROMPT"]
    assert schema["input"]["required"]["part"][1] == {
        "default": 0.5, "min": 0.0, "max": 1.0, "step": 0.1, "display": "slider",
    }  # fmt: skip
    assert schema["input"]["required"]["mode"] == [
        "COMBO",
        {"default": "mix", "multiselect": False, "options": ["mix", "add"]},
    ]
    assert schema["input_order"]["optional"] == ["b"]


def test_editors_are_told_all_of_inputs_that_grow(party: WatchedBench) -> None:
    """Growing inputs, choices, matched and mixed types are told in the words editors know."""
    told = describe(party.registry["PartyJoin"].definition)
    required, optional = told["input"]["required"], told["input"]["optional"]
    template = {"input": {"required": {"part": ["STRING", {}]}}, "prefix": "part", "min": 1, "max": 5}
    assert required["parts"] == ["COMFY_AUTOGROW_V3", {"template": template}]
    between = {"required": {"separator": ["STRING", {"default": "-"}]}}
    options = [{"key": "plain", "inputs": {"required": {}}}, {"key": "between", "inputs": between}]
    assert required["how"] == ["COMFY_DYNAMICCOMBO_V3", {"options": options}]
    matched = {"template_id": "any", "allowed_types": "*"}
    assert optional["echo"] == ["COMFY_MATCHTYPE_V3", {"lazy": True, "template": matched}]
    assert (optional["size"][0], optional["other"][0]) == ("INT,FLOAT", "THIRD_PARTY")
    assert told["output_matchtypes"] == [None, "any"]
