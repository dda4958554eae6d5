"""What the host that executes nothing is asked: checks, descriptions, pictures."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from engine.executions import n
from engine.hosts.engines import Engine, trouble
from fairlead.engine.hosts.service import Checked, Refused, Render, Rendered
from fairlead.engine.media.pictures import write_png
from fairlead.engine.nodes.families import own_nodes


@pytest.mark.req("C-01")
def test_described_nodes_are_those_of_the_registry(engine: Engine) -> None:
    """Editors are told of every node of the engine, as its registry does, and of those of packs."""
    described = json.loads(engine.run(engine.hosts.describe()))
    own = json.loads(json.dumps(own_nodes().object_info()))
    assert {name: described[name] for name in own} == own
    assert described["Costly"]["category"] == "troubles"
    assert [(report.name, report.error) for report in engine.packs] == [("troubles", None)]


@pytest.mark.req("C-04")
def test_workflow_is_checked_as_it_will_be_executed(engine: Engine) -> None:
    """Its constants are read as their types, its outputs found, and what is wrong with others told."""
    graph = {
        "1": n("PrimitiveInt", value="7"),
        "good": n("PreviewAny", source=["1", 0]),
        "bad": n("PreviewAny"),
        "other": n("PreviewAny", source=["1", 0]),
    }
    checked = engine.check(json.dumps(graph).encode())
    assert isinstance(checked, Checked)
    assert json.loads(checked.workflow)["1"]["inputs"] == {"value": 7}
    assert (checked.outputs, checked.nodes, checked.partner_nodes) == (["good", "other"], 4, 0)
    assert json.loads(checked.node_errors)["bad"]["errors"][0]["type"] == "required_input_missing"
    only = engine.check(json.dumps(graph).encode(), ["good"])
    assert isinstance(only, Checked)
    assert only.outputs == ["good"]


@pytest.mark.parametrize(
    ("content", "type_"),
    [
        (b"", "invalid_prompt"),
        (b"[]", "invalid_prompt"),
        (b'{"1":{"class_type":"PreviewAny"}}', "invalid_prompt"),
        (b'{"1":{"class_type":"Nothing","inputs":{}}}', "missing_node_type"),
        (b"{}", "prompt_no_outputs"),
        (b'{"1":{"class_type":"PreviewAny","inputs":{"source":["2",0]}}}', "prompt_outputs_failed_validation"),
        (b'{"1":{"class_type":"PreviewAny","inputs":{"source":1e999}}}', "invalid_prompt"),
        (b'{"nodes":[],"links":[]}', "invalid_prompt"),
    ],
)
def test_refused_workflow_says_why_and_where(engine: Engine, content: bytes, type_: str) -> None:
    """The refusal has the type of the error, and the faults of each node with their types."""
    refused = engine.check(content)
    assert isinstance(refused, Refused), refused
    error = json.loads(refused.error)
    assert (error["type"], set(error)) == (type_, {"type", "message", "details", "extra_info"})
    assert isinstance(json.loads(refused.node_errors), dict)


def test_check_of_a_class_is_asked(engine: Engine) -> None:
    """What a class says of its inputs is the node's fault."""
    refused = engine.check(json.dumps(trouble("Unwilling", "not like this")).encode())
    assert isinstance(refused, Refused)
    assert "not like this" in json.loads(refused.node_errors)["1"]["errors"][0]["details"]
    assert isinstance(engine.check(json.dumps(trouble("Unwilling", "yes")).encode()), Checked)


def test_missing_picture_fails_the_check(engine: Engine) -> None:
    """The callbacks find files before anything is executed."""
    graph = {"1": n("LoadImage", image="gone.png"), "2": n("PreviewImage", images=["1", 0])}
    assert isinstance(engine.check(json.dumps(graph).encode()), Refused)


# Pictures.


def _render(engine: Engine, how: str, **more: object) -> tuple[Rendered, Path]:
    target = engine.folder / "rendered"
    target.unlink(missing_ok=True)
    order = Render(how, str(engine.folder / "original.png"), str(target), **more)  # type: ignore[arg-type]
    return engine.run(engine.hosts.render("w", order)), target


@pytest.fixture
def original(engine: Engine) -> Path:
    """Return a red picture of 8 x 4 with a text in it, half of it clear."""
    pixels = np.zeros((4, 8, 4), np.float32)
    pixels[..., 0] = 1
    pixels[:, :4, 3] = 1
    path = engine.folder / "original.png"
    write_png(path, pixels, {"workflow": {"a": 1}}, 1)
    return path


@pytest.mark.req("C-03")
def test_mask_keeps_the_colours_of_the_original(engine: Engine, original: Path) -> None:
    """The colours and texts of the original, with the alpha of the drawing, whatever its colours."""
    del original
    Image.new("RGBA", (8, 4), (10, 20, 30, 77)).save(engine.folder / "drawn.png")
    rendered, target = _render(engine, "mask", other=str(engine.folder / "drawn.png"))
    assert rendered == Rendered("image/png")
    with Image.open(target) as image:
        assert image.format == "PNG"
        assert image.getpixel((0, 0)) == (255, 0, 0, 77)
        assert image.getpixel((7, 3)) == (255, 0, 0, 77)
        assert image.text == {"workflow": '{"a": 1}'}  # type: ignore[attr-defined]


@pytest.mark.req("C-06")
@pytest.mark.parametrize(
    ("how", "format_", "mode", "size"),
    [
        ("rgb", "PNG", "RGB", (8, 4)),
        ("a", "PNG", "RGBA", (8, 4)),
        ("webp", "WEBP", "RGBA", (8, 4)),
        ("jpeg", "JPEG", "RGB", (8, 4)),
        ("thumbnail", "JPEG", "RGB", (4, 2)),
    ],
)
def test_picture_is_shown_as_asked_for(
    engine: Engine, original: Path, how: str, format_: str, mode: str, size: tuple[int, int]
) -> None:
    """A picture is rendered in the format, with the channels and in the size that were asked for."""
    del original
    rendered, target = _render(engine, how, edge=4)
    assert rendered == Rendered(f"image/{format_.lower()}")
    with Image.open(target) as image:
        assert (image.format, image.mode, image.size) == (format_, mode, size)
        if how == "a":
            assert (image.getpixel((0, 0)), image.getpixel((7, 0))) == ((0, 0, 0, 255), (0, 0, 0, 0))


def test_picture_of_sixteen_bits_is_scaled_to_eight(engine: Engine) -> None:
    """Grey in 16 bits is scaled to 8, not cut off."""
    Image.fromarray(np.full((4, 4), 32896, np.uint16)).save(engine.folder / "original.png")
    rendered, target = _render(engine, "rgb")
    assert rendered.error is None
    with Image.open(target) as image:
        assert image.getpixel((0, 0)) == (128, 128, 128)


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"no picture", "cannot be"), (None, "cannot be"), ("bomb", "pixels"), ("long", "16384")],
)
def test_only_pictures_are_decoded(engine: Engine, content: bytes | str | None, words: str) -> None:
    """No picture, none at all, and one that would not fit in memory are told apart from pictures by their headers."""
    path = engine.folder / "original.png"
    path.unlink(missing_ok=True)
    if content == "bomb":
        Image.new("1", (16_000, 16_000)).save(path)
    elif content == "long":
        Image.new("1", (16_385, 1)).save(path)
    elif isinstance(content, bytes):
        path.write_bytes(content)
    for how in ("mask", "webp", "thumbnail"):
        rendered, target = _render(engine, how, other=str(path), edge=64)
        assert rendered.error is not None
        assert words in rendered.error
        assert str(engine.folder) not in rendered.error
        assert not target.exists()


def test_unknown_rendering_is_refused(engine: Engine, original: Path) -> None:
    """It is refused in words."""
    del original
    rendered, _ = _render(engine, "backwards")
    assert rendered.error == "There is no way 'backwards' to show a picture."
