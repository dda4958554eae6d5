"""The modules packs import, each by itself: what packs call of them gives what they expect."""

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.packs.conftest import Watcher
from fairlead.domain.jobs.events import Place, Progress
from fairlead.engine.nodes.context import InterruptedByCallerError
from fairlead.engine.nodes.families import own_nodes
from fairlead.engine.nodes.files import Folders
from fairlead.engine.nodes.node_context import NodeContext, Stop, current
from fairlead.engine.packs.folders import PackFolders
from fairlead.engine.packs.shims.graph_builder import numbered_graphs
from fairlead.engine.packs.shims.installing import install


@pytest.fixture
def modules(tmp_path: Path) -> dict[str, Any]:
    """Return the modules as packs find them."""
    install(own_nodes(), [str(tmp_path)], PackFolders(str(tmp_path), [tmp_path / "models"]))
    return dict(sys.modules)


class Told:
    """A node that is being executed, and what is told of it."""

    def __init__(self, folder: Path) -> None:
        self.stop = Stop()
        self.progress: list[Progress] = []
        self.watcher = Watcher()
        files = Folders(folder / "input", folder / "output", folder / "temp")
        self.context = NodeContext(
            Place("7", "7"), files, {}, lambda: not self.stop.is_wanted, self.progress.append, self.watcher
        )


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Told]:
    """Return a node that is being executed."""
    node = Told(tmp_path)
    with current(node.context):
        yield node


def test_graph_builder_has_its_own_ids(modules: dict[str, Any]) -> None:
    """Ids of one call differ; a node is looked up, linked to, replaced and removed by the name the pack gave it."""
    builder = modules["comfy_execution.graph_utils"].GraphBuilder
    with numbered_graphs():
        first, second = builder(), builder()
    one, other = first.node("A", "a", x=1), second.node("A", "a")
    assert (one.id, other.id, first.lookup_node("a"), first.lookup_node("b")) == ("a", "1.a", one, None)
    user = second.node("B", y=other.out(0), z=5)
    second.replace_node_output("a", 0, ["elsewhere", 2])
    assert (user.id, user.get_input("y"), user.get_input("gone")) == ("1.1", ["elsewhere", 2], None)
    second.remove_node("a")
    user.set_input("z", None)
    assert second.finalize() == {"1.1": {"class_type": "B", "inputs": {"y": ["elsewhere", 2]}}}
    assert builder(prefix="own.").node("A", "a").id == "own.a"
    assert builder.alloc_prefix("7", 1, 2) == "7.1.2."


def test_link_is_told_from_a_list(modules: dict[str, Any]) -> None:
    """It is an id and a number; graphs can be moved below a prefix."""
    graphs = modules["comfy_execution.graph_utils"]
    answers = [graphs.is_link(value) for value in (["1", 0], ["1"], ["1", "0"], [1, 0], "10", ("1", 0), None)]
    assert answers == [True, *[False] * 6]
    graph = {"a": {"class_type": "A", "inputs": {"x": ["b", 0], "y": ["out", 0], "z": 3}}}
    graph["b"] = {"class_type": "B", "inputs": {}}
    moved, outputs = graphs.add_graph_prefix(graph, (["a", 0], 5), "p.")
    assert moved["p.a"]["inputs"] == {"x": ["p.b", 0], "y": ["out", 0], "z": 3}
    assert outputs == (["p.a", 0], 5)


def test_models_are_found_in_every_folder(modules: dict[str, Any], tmp_path: Path) -> None:
    """A pack may add folders and kinds; names of old kinds are known; nothing outside is found."""
    paths = modules["folder_paths"]
    for name in ("models/unet/no.txt", "models/diffusion_models/deep/b.safetensors", "more/a.gguf", "secret.pt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    paths.add_model_folder_path("unet", str(tmp_path / "more"), is_default=True)
    paths.add_model_folder_path("new_kind", str(tmp_path / "more"))
    assert paths.get_filename_list("diffusion_models") == ["a.gguf", "deep/b.safetensors"]
    assert paths.get_filename_list("new_kind") == ["a.gguf"]
    assert paths.get_filename_list("nobody") == []
    assert paths.get_full_path("unet", "deep/b.safetensors") == str(
        tmp_path / "models/diffusion_models/deep/b.safetensors"
    )
    assert paths.get_full_path("unet", "../../secret.pt") is None
    assert paths.get_folder_paths("unet")[0] == str(tmp_path / "more")
    assert paths.models_dir == str(tmp_path / "models")


def test_pack_writes_only_below_its_folder(modules: dict[str, Any]) -> None:
    """A prefix has folders and placeholders, files are counted, and a prefix that leads elsewhere is refused."""
    paths = modules["folder_paths"]
    output = paths.get_output_directory()
    found = paths.get_save_image_path("deep/%width%x%height%", output, 3, 2)
    assert found == (f"{output}/deep", "3x2", 1, "deep", "deep/%width%x%height%")
    Path(found[0], "3x2_00009_.png").touch()
    assert paths.get_save_image_path("deep/3x2", output)[2] == 10
    for prefix in ("../x", "/etc/x"):
        with pytest.raises(ValueError, match="leads out"):
            paths.get_save_image_path(prefix, output)
    with pytest.raises(ValueError, match="leads out"):
        paths.get_annotated_filepath("../../x")
    assert paths.get_directory_by_type("nothing") is None
    assert paths.filter_files_content_types(["a.png", "b.mp4", "c.safetensors"], ["image", "model"]) == [
        "a.png",
        "c.safetensors",
    ]


def test_progress_bar_belongs_to_its_node_in_every_thread(modules: dict[str, Any], told: Told) -> None:
    """It belongs to the node that made it; a preview may be an array; outside of nodes it is quiet."""
    bar = modules["comfy.utils"].ProgressBar(2)
    thread = threading.Thread(target=lambda: bar.update_absolute(2, 2, ("PNG", np.ones((1, 2, 4, 3), np.float32), 2)))
    thread.start()
    thread.join()
    assert [(event.place.node, event.value, event.most) for event in told.progress] == [("7", 2, 2)]
    assert [(node, kind) for node, kind, _ in told.watcher.previews] == [("7", "image/png")]
    with current(None):
        modules["comfy.utils"].ProgressBar(2).update(1)
    with pytest.raises(TypeError, match="a preview is a picture"):
        bar.update_absolute(1, 2, ("PNG", "words", 2))


def test_messages_to_the_server_reach_who_watches(modules: dict[str, Any], told: Told) -> None:
    """Progress, previews and words reach who watches; messages for a pack's own scripts do not."""
    server = modules["server"].PromptServer.instance
    server.send_sync("progress", {"value": 1, "max": 4})
    server.send_sync("third-party.event", {"anything": 1})
    image = np.zeros((2, 2, 3), np.float32)
    server.send_sync(modules["server"].BinaryEventTypes.UNENCODED_PREVIEW_IMAGE, ("JPEG", image, None))
    server.send_progress_text(b"half", "7")
    assert [(event.value, event.most) for event in told.progress] == [(1, 4)]
    assert (len(told.watcher.previews), told.watcher.texts) == (1, [("7", "half")])
    assert (server.last_node_id, server.client_id) == ("7", None)
    assert modules["comfy_execution.utils"].get_executing_context().node_id == "7"
    with current(None):
        server.send_sync("progress", {"value": 1, "max": 4})
        assert (server.last_node_id, len(told.progress)) == (None, 1)


def test_pack_that_asks_is_told_of_an_interruption(modules: dict[str, Any], told: Told) -> None:
    """It is, by a question or an error, which has the name packs catch."""
    management = modules["comfy.model_management"]
    management.throw_exception_if_processing_interrupted()
    assert not management.processing_interrupted()
    told.stop.set()
    assert management.processing_interrupted()
    for ask in (
        management.throw_exception_if_processing_interrupted,
        management.interrupt_current_processing,
        lambda: modules["comfy_api.latest"].ComfyAPISync().execution.set_progress(1, 2),
    ):
        with pytest.raises(management.InterruptProcessingException):
            ask()
    assert management.InterruptProcessingException is InterruptedByCallerError
    assert (management.get_torch_device(), management.intermediate_device()) == ("cpu", "cpu")


def test_images_with_channels_first_are_scaled(modules: dict[str, Any]) -> None:
    """They are cut and scaled as our own nodes do it."""
    image = np.zeros((1, 3, 2, 4), np.float32)
    image[:, :, :, 1:3] = 1
    scaled = modules["comfy.utils"].common_upscale(image, 4, 4, "nearest-exact", "center")
    assert (scaled.shape, float(scaled.min())) == ((1, 3, 4, 4), 1.0)


def test_pack_can_call_a_node_of_ours(modules: dict[str, Any]) -> None:
    """A pack calls a node by its class; the engine's own classes look like those of the older form."""
    classes = modules["nodes"].NODE_CLASS_MAPPINGS
    invert = classes["ImageInvert"]
    (image,) = getattr(invert(), invert.FUNCTION)(image=np.zeros((1, 1, 1, 3), np.float32))
    assert float(image.min()) == 1
    assert (invert.RETURN_TYPES, invert.OUTPUT_NODE) == (("IMAGE",), False)
    assert "image" in invert.INPUT_TYPES()["required"]
    assert classes["SaveImage"] is modules["nodes"].SaveImage


def test_type_of_a_packs_own_has_sockets(modules: dict[str, Any]) -> None:
    """It may be made of a name or of a class; the two versions of the package are one."""
    io = modules["comfy_api.latest"].io

    @io.comfytype(io_type="THEIRS")
    class Theirs:
        pass

    assert (Theirs.Input("a").spec(), Theirs.Output().get_io_type()) == (("THEIRS", {}), "THEIRS")  # type: ignore[attr-defined]
    assert io.Custom("X").Input("a").get_io_type() == "X"
    assert modules["comfy_api.v0_0_2"].io.Image is io.Image
    assert modules["comfy.cli_args"].args.anything is None


@pytest.mark.parametrize(
    ("make", "spec"),
    [
        (lambda io: io.Int.Input("a", min=1, force_input=True), ("INT", {"min": 1, "forceInput": True})),
        (lambda io: io.Combo.Input("a", io.FolderType), ("COMBO", {"options": ["input", "output", "temp"]})),
        (lambda io: io.Combo.Input("a", upload=io.UploadType.image), ("COMBO", {"image_upload": True})),
        (lambda io: io.MultiCombo.Input("a", ["x"]), ("COMBO", {"options": ["x"], "multiselect": True})),
        (lambda io: io.Combo.Input("a", remote=io.RemoteOptions("/r", refresh_button=True)), ("COMBO", {
            "remote": {"route": "/r", "refresh_button": True, "control_after_refresh": "first"},
        })),
        (lambda io: io.MultiType.Input(io.Float.Input("a", default=1.0), [io.Mask]), ("FLOAT,MASK", {
            "default": 1.0, "widgetType": "FLOAT",
        })),
        (lambda io: io.AnyType.Input("a", raw_link=True, extra_dict={"more": 1}), ("*", {"rawLink": True, "more": 1})),
    ],
)  # fmt: skip
def test_option_has_the_name_packs_call_it_by(modules: dict[str, Any], make: Any, spec: Any) -> None:
    """Editors are told of it by theirs."""
    expected = {"multiselect": False, **spec[1]} if spec[0] == "COMBO" else spec[1]
    assert make(modules["comfy_api.latest"].io).spec() == (spec[0], expected)
