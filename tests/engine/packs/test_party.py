"""A pack as strangers write them, in both forms, unmodified: what its nodes do when they are executed."""

import io
import json
import sys
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from PIL import Image

from engine.executions import Seen, n
from engine.packs.conftest import Execute, WatchedBench
from fairlead.domain.jobs.events import Executed, Failed, Failure, Interrupted, Progress, Stopped, Succeeded
from fairlead.engine.graph.validation import InvalidGraphError

_PICTURE: Final = n("EmptyImage", width=8, height=4, batch_size=1, color=0)


def _output_of(seen: Seen, node: str = "s", key: str = "values") -> Any:
    assert isinstance(seen.outcome.ending, Succeeded), seen.outcome.ending
    return seen.output_of(node, key)


def _failure(seen: Seen) -> Failure:
    assert isinstance(seen.outcome.ending, Failed)
    return seen.outcome.ending.failure


def _module(name: str) -> Any:
    """A module of the pack, whose classes hold what its nodes look at."""
    return sys.modules[f"custom_nodes.third-party-nodes.{name}"]


def _show(node: str, slot: int = 0) -> dict[str, Any]:
    return n("PartyShow", value=[node, slot])


def test_progress_previews_and_words_of_a_pack_are_told(execute: Execute, party: WatchedBench) -> None:
    """All of them reach who watches, as the node's own; hidden inputs reach the node."""
    graph = {"i": _PICTURE, "b": n("PartyBrighten", image=["i", 0], amount=0.25, steps=2), "s": _show("b", 1)}
    seen = execute(graph, EXTRA_PNGINFO={"workflow": 1})
    assert json.loads(_output_of(seen)[0]) == {"id": "b", "class": "PartyBrighten", "extra": {"workflow": 1}}
    assert [(event.value, event.most) for event in seen.of(Progress)][-1] == (2, 2)
    assert [(node, kind) for node, kind, _ in party.watcher.previews] == [("b", "image/jpeg")] * 2
    assert Image.open(io.BytesIO(party.watcher.previews[0][2])).size == (8, 4)
    assert party.watcher.texts == [("b", "2 steps")]


def test_lists_are_mapped_over_a_packs_node(execute: Execute) -> None:
    """Each item is a call; a class that takes lists is called once; calls of coroutines go on at the same time."""
    graph = {
        "l": n("PartyNumbers", count=4),
        "d": n("PartySlowDouble", value=["l", 0]),
        "sum": n("PartySumAll", values=["d", 0]),
        "each": _show("d"),
        "s": _show("sum"),
    }
    seen = execute(graph)
    assert _output_of(seen) == [12]
    assert _output_of(seen, "each") == [0, 2, 4, 6]


def test_lazy_input_of_a_pack_is_executed_only_when_asked_for(execute: Execute) -> None:
    """What the pack does not ask for is not executed."""
    graph = {
        "y": n("PartyNumber", value=1),
        "n": n("PartyNumber", value=2),
        "w": n("PartyLazySwitch", on=False, yes=["y", 0], no=["n", 0]),
        "s": _show("w"),
    }
    seen = execute(graph)
    assert (_output_of(seen), "y" in seen.executed) == ([2], False)


def test_blocker_of_a_pack_stops_only_its_consumers(execute: Execute) -> None:
    """It stops who would take the value, with or without a word, and nobody else."""
    graph = {
        "v": n("PartyNumber", value=1),
        "silent": n("PartyGate", value=["v", 0], open=False, message=""),
        "loud": n("PartyGate", value=["v", 0], open=False, message="closed today"),
        "a": _show("silent"),
        "b": _show("loud"),
        "s": _show("v"),
    }
    seen = execute(graph)
    assert _output_of(seen) == [1]
    assert [(event.place.node, event.message) for event in seen.of(Stopped)] == [("b", "closed today")]
    assert {"a", "b"}.isdisjoint(seen.outcome.ui)


def test_changed_world_changes_the_result_of_a_pack(execute: Execute) -> None:
    """IS_CHANGED is part of what a result depends on; NaN and an error equal nothing."""
    kind = _module("classic").Changing

    def look(mode: str) -> int:
        found: int = _output_of(execute({"c": n("PartyChanging", mode=mode), "s": _show("c")}))[0]
        return found

    assert look("world") == look("world") == 1
    kind.world = 1
    assert look("world") == 2
    assert look("always") != look("always")
    assert look("broken") != look("broken")


def test_instance_of_a_packs_node_lasts(execute: Execute) -> None:
    """There is one instance for each node, and it lasts; nodes that are not idempotent share nothing."""
    graph = {
        "a": n("PartyCounter", seed=1), "b": n("PartyCounter", seed=1), "sa": _show("a"), "sb": _show("b"),
    }  # fmt: skip
    seen = execute(graph)
    assert (_output_of(seen, "sa"), _output_of(seen, "sb")) == ([1], [1])
    again = execute({**graph, "a": n("PartyCounter", seed=2)})
    assert (_output_of(again, "sa"), _output_of(again, "sb")) == ([2], [1])


def test_check_of_a_pack_is_asked(execute: Execute) -> None:
    """Its words are the fault; the bounds of what it checks are its own business; it may ask for types."""
    number, picture = n("PartyNumber", value=1), _PICTURE

    def even(value: int, link: str) -> dict[str, Any]:
        return {"v": number, "i": picture, "e": n("PartyEven", value=value, other=[link, 0]), "s": _show("e")}

    assert _output_of(execute(even(12, "v"))) == [12]
    for graph, words in ((even(3, "v"), "3 is not even"), (even(2, "i"), "no pictures")):
        with pytest.raises(InvalidGraphError) as caught:
            execute(graph)
        assert any(words in fault.details for fault in caught.value.node_faults["e"].faults)


def test_undeclared_links_are_given_to_a_method_that_takes_anything(execute: Execute) -> None:
    """A method that takes anything is given them; constants nobody declared are widgets' and are not."""
    collect = n("PartyCollect", first=["v", 0], second=["v", 0], widget="image")
    seen = execute({"v": n("PartyNumber", value=7), "c": collect, "s": _show("c")})
    assert json.loads(_output_of(seen)[0]) == {"first": 7, "second": 7}


def test_class_that_takes_any_name_is_given_everything(execute: Execute) -> None:
    """It declares all names there are: constants and links alike; what it shows is shown again when it is known."""
    graph = {"v": n("PartyNumber", value=7), "f": n("PartyFlexible", one=["v", 0], two={"on": True}), "s": _show("f")}
    taken = '{"one": 7, "two": {"on": true}}'
    seen = execute(graph)
    assert (_output_of(seen), _output_of(seen, "f", "taken")) == ([taken], [taken])
    gate = n("PartyGate", value=["f", 0], open=True, message="")
    again = execute({**graph, "g": gate, "t": _show("g")})
    assert ("f" in again.executed, _output_of(again, "f", "taken")) == (False, [taken])


def test_missing_output_of_a_pack_blocks_its_consumers(execute: Execute) -> None:
    """It blocks who would take it, and says why."""
    graph = {"f": n("PartyFlexible", one=1), "s": _show("f", 1), "t": _show("f", 0)}
    seen = execute(graph)
    assert isinstance(seen.outcome.ending, Succeeded)
    assert [event.message for event in seen.of(Stopped)] == ["the node gave no value for its output 1"]


def test_loop_of_a_pack_turns_until_its_condition_is_false(execute: Execute) -> None:
    """It copies a part of the graph into its own place until a condition is false, by looking at the live graph."""
    graph = {
        "start": n("PartyNumber", value=4),
        "open": n("PartyWhileOpen", condition=True, value=["start", 0]),
        "minus": n("PartyMinus", value=["open", 1], by=1),
        "close": n("PartyWhileClose", flow=["open", 0], condition=["minus", 1], value=["minus", 0]),
        "s": _show("close"),
    }
    seen = execute(graph)
    assert _output_of(seen) == [0]
    assert "close.0.0.minus" in seen.executed
    assert sum(node.endswith("minus") for node in seen.executed) == 4


def test_hidden_counter_of_a_loop_is_set(execute: Execute) -> None:
    """The turns of a loop are counted by it, in graphs the pack makes; what one node notes, another reads."""
    graph = {
        "open": n("PartyCountedOpen", turns=4),
        "close": n("PartyCountedClose", flow=["open", 0], value=["open", 1]),
        "s": _show("close"),
    }
    assert _output_of(execute(graph)) == [0 + 1 + 2 + 3]


def test_graphs_of_one_call_have_their_own_ids(execute: Execute) -> None:
    """Their nodes have ids of their own, whatever the pack calls them."""
    seen = execute({"t": n("PartyTwoGraphs", value=5), "a": _show("t", 0), "b": _show("t", 1)})
    assert (_output_of(seen, "a"), _output_of(seen, "b")) == ([5], [6])


def test_file_that_a_pack_writes_by_path_is_a_file_of_the_job(execute: Execute, tmp_path: Path) -> None:
    """It becomes a file of the job, numbered after the job's others, and is shown by that name."""
    graph = {"i": _PICTURE, "s": n("PartySavePicture", image=["i", 0], prefix="third/party")}
    again = {**graph, "i": {**_PICTURE, "inputs": {**_PICTURE["inputs"], "color": 255}}}
    first, second = _output_of(execute(graph), "s", "images"), _output_of(execute(again), "s", "images")
    assert first == [{"filename": "party_00001_.png", "subfolder": "third", "type": "output"}]
    assert second == [{"filename": "party_00002_.png", "subfolder": "third", "type": "output"}]
    assert Image.open(tmp_path / "output" / "third" / "party_00002_.png").getpixel((0, 0)) == (0, 0, 255)


def test_pack_finds_an_upload_by_path(execute: Execute, tmp_path: Path) -> None:
    """What a caller has named lies where packs look for it; a name that leads elsewhere does not."""
    Image.new("RGB", (3, 2), (255, 0, 0)).save(tmp_path / "input" / "red.png")
    graph = {"l": n("PartyLoadPicture", image="red.png"), "s": n("PartySavePicture", image=["l", 0], prefix="x")}
    assert _output_of(execute(graph), "s", "images")[0]["filename"] == "x_00001_.png"
    assert execute(graph).executed == []
    Image.new("RGB", (3, 2), (0, 255, 0)).save(tmp_path / "input" / "red.png")
    assert execute(graph).executed == ["l", "s"]
    for name in ("gone.png", "../secret.png", "/etc/hostname"):
        with pytest.raises(InvalidGraphError):
            execute({**graph, "l": n("PartyLoadPicture", image=name)})


@pytest.mark.req("C-12")
def test_missing_model_is_a_model_download_error(execute: Execute, custom_nodes: Path) -> None:
    """It is a ModelDownloadError that names the model; one that is there is found next to the packs."""
    seen = execute({"c": n("PartyCheckpoint", name="large.safetensors"), "s": _show("c")})
    failure = _failure(seen)
    assert failure.exception_type == "ModelDownloadError"
    assert failure.message == "this installation has no model large.safetensors in checkpoints"
    model = custom_nodes.parent / "models" / "checkpoints" / "large.safetensors"
    model.parent.mkdir(parents=True)
    model.touch()
    assert _output_of(execute({"c": n("PartyCheckpoint", name="large.safetensors"), "s": _show("c")})) == [str(model)]
    assert _failure(execute({"c": n("PartyCheckpoint", name="../../x"), "s": _show("c")})).message


def test_class_derived_from_the_engines_own_works(execute: Execute, tmp_path: Path) -> None:
    """A preview that a pack changes is a preview still, and a file of the job."""
    seen = execute({"i": _PICTURE, "p": n("PartyPreviewTwice", images=["i", 0])})
    shown = _output_of(seen, "p", "images")
    assert (len(shown), shown[0], shown[0]["type"]) == (2, shown[1], "temp")
    assert (tmp_path / "temp" / shown[0]["filename"]).is_file()


def test_node_that_interrupts_interrupts_its_job(execute: Execute) -> None:
    """The job is interrupted, as if its caller had asked for it."""
    ending = execute({"i": n("PartyInterrupting"), "s": _show("i")}).outcome.ending
    assert isinstance(ending, Interrupted)


def test_node_in_the_schema_form_shows_progress_and_pictures(execute: Execute, tmp_path: Path) -> None:
    """It has its hidden inputs, tells its progress, shows a picture and gives its value."""
    graph = {"i": _PICTURE, "b": n("PartyBlend", a=["i", 0], b=["i", 0], part=0.5, mode="mix")}
    seen = execute(graph)
    shown = _output_of(seen, "b", "images")[0]
    assert (tmp_path / "temp" / shown["filename"]).is_file()
    assert [(event.value, event.most) for event in seen.of(Progress)] == [(1, 2)]


@pytest.mark.parametrize(
    ("inputs", "joined", "echoed"),
    [({"how": "plain"}, "ab", None), ({"how": "between", "how__separator": "+"}, "a+b", 9)],
)
def test_inputs_that_grow_or_depend_on_a_choice_come_as_dicts(
    execute: Execute, inputs: dict[str, Any], joined: str, echoed: int | None
) -> None:
    """They come as dicts; the lazy one is worked out when the choice needs it."""
    parts = {"parts__part0": "a", "parts__part1": "b"}
    join = n("PartyJoin", **parts, **inputs, echo=["v", 0], size=1.5)
    seen = execute({"v": n("PartyNumber", value=9), "j": join, "s": _show("j"), "t": _show("j", 1)})
    assert (_output_of(seen), _output_of(seen, "t")) == ([joined], [echoed])
    assert ("v" in seen.executed) == (echoed is not None)


def test_coroutine_in_the_schema_form_is_awaited(execute: Execute) -> None:
    """It is awaited, checked, fingerprinted and may block; what it writes on its class goes with the call."""
    graph = {"t": n("PartyText", text="word"), "s": _show("t")}
    seen = execute(graph)
    assert (_output_of(seen), _output_of(seen, "t", "text")) == (["word"], ["word"])
    assert execute(graph).executed == []
    _module("schema").Text.world = 1
    assert execute(graph).executed == ["t", "s"]
    blocked = execute({"t": n("PartyText", text="block"), "s": _show("t")})
    assert [event.message for event in blocked.of(Stopped)] == ["blocked by the schema"]
    with pytest.raises(InvalidGraphError):
        execute({"t": n("PartyText", text="")})


def test_graph_in_place_of_a_schema_node_is_executed(execute: Execute) -> None:
    """It is executed like any other; nodes that are not idempotent are executed each by itself."""
    seen = execute({"a": n("PartyGrow", value=1), "b": n("PartyGrow", value=1), "s": _show("a"), "t": _show("b")})
    assert (_output_of(seen), _output_of(seen, "t")) == ([2], [2])
    assert {"a", "b"} <= set(seen.executed)


def test_output_of_a_pack_is_told_once(execute: Execute) -> None:
    """Each node shows what it has once."""
    seen = execute({"v": n("PartyNumber", value=7), "s": _show("v")})
    assert [event.place.node for event in seen.of(Executed)] == ["s"]


def test_image_of_a_pack_is_a_float32_array(execute: Execute) -> None:
    """Own nodes take what packs give: float32 arrays."""
    graph = {
        "i": _PICTURE,
        "b": n("PartyBrighten", image=["i", 0], amount=0.5, steps=1),
        "v": n("ImageInvert", image=["b", 0]),
        "s": _show("v"),
    }
    image = _output_of(execute(graph))[0]
    assert image.dtype == np.float32
    assert float(image.max()) == 0.5


def test_coroutines_of_packs_run_concurrently(execute: Execute) -> None:
    """Nodes whose methods are coroutines go on at the same time."""
    graph = {str(value): n("PartySlowDouble", value=value) for value in range(8)}
    seen = execute({**graph, **{f"s{value}": _show(str(value)) for value in range(8)}})
    assert [_output_of(seen, f"s{value}") for value in range(8)] == [[value * 2] for value in range(8)]
    assert _module("classic").SlowDouble.most > 1


def test_video_of_a_pack_is_a_video(execute: Execute) -> None:
    """Packs make, take and cut videos, and own nodes take them."""
    pictures = n("EmptyImage", width=16, height=16, batch_size=8, color=255)
    graph = {
        "i": pictures,
        "f": n("PartyFilm", images=["i", 0]),
        "g": n("PartyFilm", images=["i", 0], other=["f", 0]),
        "own": n("GetVideoComponents", video=["g", 0]),
        "s": _show("own", 0),
        "frames": _show("g", 1),
    }
    seen = execute(graph)
    assert (_output_of(seen, "frames"), _output_of(seen)[0].shape) == ([2], (2, 16, 16, 3))


@pytest.mark.parametrize(
    ("what", "key", "kind", "beginning", "extension"),
    [
        ("images", "images", "output", "saved_00001_", "png"),
        ("animation", "images", "output", "moving_00001_", "webp"),
        ("audio", "audio", "output", "heard_00001_", "flac"),
        ("sound", "audio", "temp", "preview_00001_", "flac"),
        ("mask", "images", "temp", "ComfyUI_temp_", "png"),
    ],
)
def test_file_saved_by_a_helper_of_the_schema_form_is_a_file_of_the_job(
    execute: Execute, tmp_path: Path, what: str, key: str, kind: str, beginning: str, extension: str
) -> None:
    """It is a file of the job, and is shown."""
    (shown,) = _output_of(execute({"i": _PICTURE, "w": n("PartySaved", images=["i", 0], what=what)}), "w", key)
    assert shown["filename"].startswith(beginning)
    assert shown["filename"].endswith(f".{extension}")
    assert shown["type"] == kind
    assert (tmp_path / kind / shown["filename"]).stat().st_size > 0
