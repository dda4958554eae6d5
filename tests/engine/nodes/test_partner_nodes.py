"""Partner nodes in an engine host: what is sent to a model for their inputs, and what becomes of its answers."""

import asyncio
import base64
import gc
import io
import json
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import numpy as np
import pytest
import soundfile
from PIL import Image

from catalog_samples import shipped_catalog
from conftest import Run
from engine import sample_nodes
from engine.executions import Seen, n
from fairlead.domain.catalog.partner_bodies import LINK_WANTED
from fairlead.domain.catalog.partner_nodes import partner_nodes_document
from fairlead.domain.jobs.events import Event, Failed, Place, Stopped, Succeeded
from fairlead.engine.graph.cache import ResultCache
from fairlead.engine.graph.executor import Executor, Work
from fairlead.engine.graph.graph import read_graph
from fairlead.engine.graph.validation import validate
from fairlead.engine.media.clips import Components, FileClip, MadeClip
from fairlead.engine.nodes.context import ModelReply, NamedFaultError
from fairlead.engine.nodes.families import own_nodes
from fairlead.engine.nodes.files import Folders
from fairlead.engine.nodes.node import Output, integer, node
from fairlead.engine.nodes.partner_nodes import partner_nodes
from fairlead.engine.nodes.registry import Registry

pytestmark = pytest.mark.req("C-11")

RATE: Final = 8000
_TEXT: Final = "PartnerLocalProceduralText1"
_IMAGE: Final = "PartnerLocalProceduralImage1"
_COLOURS: Final = np.array([[[0.0, 0.5, 1.0], [1.0, 1.0, 1.0]]], np.float32)


@node("Pictures", "Pictures", "test", outputs=(Output("IMAGE"), Output("MASK")))
def pictures(count: Annotated[int, integer(1)]) -> Any:
    """Some pictures of two pixels, and a mask that means the first pixel."""
    return np.stack([_COLOURS] * count), np.array([[[1.0, 0.0]]], np.float32)


@node("Thin", "Thin", "test", outputs=(Output("IMAGE"),))
def thin() -> Any:
    """A picture of channels that no picture has."""
    return np.zeros((1, 2, 2, 5), np.float32)


@node("Tone", "Tone", "test", outputs=(Output("AUDIO"),))
def tone() -> Any:
    """A sound."""
    return {"waveform": np.full((1, 2, 100), 0.5, np.float32), "sample_rate": RATE}


@node("Film", "Film", "test", outputs=(Output("VIDEO"),))
def film() -> Any:
    """A clip."""
    return clip()


def clip() -> MadeClip:
    """A clip of four frames."""
    return MadeClip(Components(np.full((4, 32, 32, 3), 0.5, np.float32), None, Fraction(8)))


@cache
def document() -> bytes:
    """The partner nodes of the catalog that ships."""
    return partner_nodes_document(shipped_catalog().models.values())


class Partner:
    """What stands for the server: it answers each call with what a test says, and remembers the calls."""

    def __init__(self, answer: Callable[[str, Any], Any]) -> None:
        """Answer by a function of the model and the body."""
        self._answer = answer
        self.calls: list[tuple[str, int, str, Any]] = []
        self.said: list[str] = []

    def preview(self, place: Place, image_type: str, image: bytes) -> None:
        """Nobody watches."""

    def say(self, place: Place, text: str) -> None:
        """Remember a word."""
        self.said.append(f"{place.node}: {text}")

    async def run_model(self, node_id: str, turn: int, model: str, body: bytes) -> ModelReply:
        """Answer."""
        self.calls.append((node_id, turn, model, json.loads(body)))
        answered = self._answer(model, json.loads(body))
        if asyncio.iscoroutine(answered):
            answered = await answered
        if isinstance(answered, Exception):
            raise answered
        return answered if isinstance(answered, ModelReply) else ModelReply(msgspec.json.encode(answered))


class Bench:
    """An executor of sample and partner nodes, with a cache of its own."""

    def __init__(self, folder: Path) -> None:
        """Make folders for the files of jobs."""
        self.registry = Registry(sample_nodes.NODES, [pictures, thin, tone, film])
        for definition in partner_nodes(document()):
            self.registry.add(definition)
        self.executor = Executor(self.registry, ResultCache(1 << 24))
        self.folder = folder
        self.files = Folders(folder / "input", folder / "output", folder / "temp")

    async def run(self, graph: Mapping[str, Any], partner: Partner) -> Seen:
        """Validate a graph and execute it."""
        validated = await validate(read_graph(graph), self.registry, None)
        events: list[Event] = []
        work = Work(validated.graph, validated.outputs, self.files, {}, partner)
        return Seen(await self.executor.run(work, events.append), events)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """Return an executor."""
    return Bench(tmp_path)


def output_of_node(bench: Bench, run: Run, partner: Partner, class_type: str, slot: int = 0, **inputs: Any) -> Any:
    """Execute one partner node, and return the value of one of its outputs."""
    seen = run(bench.run({"1": n(class_type, **inputs), "show": n("Show", value=["1", slot]), **SOURCES}, partner))
    assert isinstance(seen.outcome.ending, Succeeded), seen.outcome.ending
    return seen.output_of("show")[0]


def failure_of(bench: Bench, run: Run, partner: Partner, class_type: str, **inputs: Any) -> tuple[str, str]:
    """Execute one partner node, and return the kind and the words of its failure."""
    seen = run(bench.run({"1": n(class_type, **inputs), "show": n("Show", value=["1", 0]), **SOURCES}, partner))
    assert isinstance(seen.outcome.ending, Failed), seen.outcome.ending
    return seen.outcome.ending.failure.exception_type, seen.outcome.ending.failure.message


SOURCES: Final = {
    "one": n("Pictures", count=1), "two": n("Pictures", count=2), "five": n("Pictures", count=5), "tone": n("Tone"),
    "thin": n("Thin"),
    "film": n("Film"),
}  # fmt: skip


def png(colour: tuple[int, ...], size: tuple[int, int] = (3, 2)) -> bytes:
    """A picture of one colour."""
    file = io.BytesIO()
    Image.new("RGBA" if len(colour) > 3 else "RGB", size, colour).save(file, "PNG")
    return file.getvalue()


def b64(content: bytes) -> str:
    """Bytes as partners spell them."""
    return base64.b64encode(content).decode()


def pixels_of(uri: str) -> Any:
    """The pixels of a picture in a body."""
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(uri.rpartition(",")[2]))))


def test_every_shipped_partner_node_is_registered_with_the_engines_own() -> None:
    """No name is taken twice, and editors know whose they are."""
    registry = own_nodes()
    for definition in partner_nodes(document()):
        registry.add(definition)
    told = registry.object_info()["PartnerBflFlux2"]
    assert told["api_node"] is True
    assert told["category"] == "api node/image/bfl"
    assert told["input"]["required"]["model"][1]["options"] == ["flux-2-max", "flux-2-pro"]
    assert told["input"]["required"]["prompt"] == [
        "STRING",
        {"default": "", "multiline": True, "tooltip": "What the picture shows, or how to change those given."},
    ]
    assert list(told["input"]["optional"])[-1] == "extra_body"
    assert told["output"] == ["IMAGE"]
    json.dumps(registry.object_info(), allow_nan=False)


def test_text_is_run_with_the_words_of_the_node_and_comes_as_a_string(bench: Bench, run: Run) -> None:
    """The node is named to the server, and those who watch are told that it waits."""
    partner = Partner(lambda _model, body: {"text": body["prompt"].upper()})
    assert output_of_node(bench, run, partner, _TEXT, prompt="a story", max_characters=400, seed=5) == "A STORY"
    assert partner.calls == [("1", 0, "local/procedural-text-1", {"prompt": "a story", "seed": 5})]
    assert partner.said == ["1: procedural-text-1 is running", "1: procedural-text-1 has answered"]


def test_chosen_variant_is_run(bench: Bench, run: Run) -> None:
    """The variant is run by its id in the catalog, and the body does not name it again."""
    partner = Partner(lambda _model, _body: {"choices": [{"message": {"content": "Yes."}}]})
    assert output_of_node(bench, run, partner, "PartnerOpenaiGpt5", model="gpt-5-nano", prompt="Is it?") == "Yes."
    assert partner.calls[0][2] == "openai/gpt-5-nano"
    assert partner.calls[0][3] == {"messages": [{"role": "user", "content": [{"type": "text", "text": "Is it?"}]}]}


def test_same_inputs_are_run_once_and_another_seed_again(bench: Bench, run: Run) -> None:
    """What a partner has made is in the cache like anything else, and costs nothing twice."""
    partner = Partner(lambda _model, body: {"text": str(body["seed"])})
    for seed in (1, 1, 2):
        assert output_of_node(bench, run, partner, _TEXT, prompt="x", seed=seed) == str(seed)
    assert [call[3]["seed"] for call in partner.calls] == [1, 2]


def test_models_of_one_workflow_run_at_the_same_time(bench: Bench, run: Run) -> None:
    """The fake answers neither model before both were asked."""
    both = asyncio.Barrier(2)

    async def answer() -> Any:
        await both.wait()
        return {"text": "done"}

    graph = {"1": n(_TEXT, prompt="a"), "2": n(_TEXT, prompt="b"), "show": n("Show", value=["1", 0])}
    graph["other"] = n("Show", value=["2", 0])
    seen = run(bench.run(graph, Partner(lambda _model, _body: answer())))
    assert seen.output_of("show") == seen.output_of("other") == ["done"]


def test_picture_goes_as_a_data_uri_and_pictures_come_as_a_batch(bench: Bench, run: Run) -> None:
    """8 bits a channel, cut off as everywhere; pictures of another size than the first cannot be in its batch."""
    pictures_made = [png((255, 0, 0)), png((0, 0, 255, 128)), png((0, 0, 0), (9, 9))]
    partner = Partner(lambda _model, _body: {"data": [{"b64_json": b64(content)} for content in pictures_made]})
    made = output_of_node(bench, run, partner, _IMAGE, prompt="x", image=["one", 0])
    sent = partner.calls[0][3]["image"]
    assert sent.startswith("data:image/png;base64,")
    assert pixels_of(sent).tolist() == [[[0, 127, 255], [255, 255, 255]]]
    assert made.shape == (2, 2, 3, 4)
    assert made[0, 0, 0].tolist() == [1, 0, 0, 1]
    assert made[1, 0, 0].tolist() == pytest.approx([0, 0, 1, 128 / 255])


def test_batch_goes_into_a_list_picture_by_picture(bench: Bench, run: Run) -> None:
    """Each picture of a batch is an item, and a single picture makes a list of one."""
    partner = Partner(lambda _model, _body: {"data": [{"b64_json": b64(png((1, 2, 3)))}]})
    output_of_node(bench, run, partner, "PartnerOpenaiGptImage2", prompt="x", image=["two", 0])
    assert len(partner.calls[0][3]["image"]) == 2


@pytest.mark.parametrize(
    ("class_type", "pixels"),
    [
        ("PartnerOpenaiGptImage2", [[[255, 255, 255, 0], [255, 255, 255, 255]]]),
        ("PartnerIdeogramV3", [[0, 255]]),
        ("PartnerBriaImageEditErase", [[255, 0]]),
    ],
)
def test_mask_shows_what_is_meant_as_the_partner_reads_it(bench: Bench, run: Run, class_type: str, pixels: Any) -> None:
    """Transparent, black or white; the mask of the engine is 1 where something is meant."""
    result = {"url": "https://a.example/1"}
    reply = {"data": [result], "result": {"image_url": "https://a.example/1"}}
    partner = Partner(lambda _model, _body: reply_with(reply, png((1, 2, 3)), bench.folder))
    given: dict[str, Any] = {"prompt": "x"} if class_type != "PartnerBriaImageEditErase" else {}
    output_of_node(bench, run, partner, class_type, image=["one", 0], mask=["one", 1], **given)
    assert pixels_of(partner.calls[0][3]["mask"]).tolist() == pixels


def reply_with(body: Any, content: bytes, folder: Path, link: str = "https://a.example/1") -> ModelReply:
    """An answer with a file that a link in it leads to."""
    path = folder / "result"
    path.write_bytes(content)
    return ModelReply(msgspec.json.encode(body), {link: path})


def test_media_a_partner_takes_only_as_a_link_is_marked_for_the_server(bench: Bench, run: Run) -> None:
    """The host has no address that a partner could ask."""
    reply = {"assets": {"image": "https://a.example/1"}}
    partner = Partner(lambda _model, _body: reply_with(reply, png((1, 2, 3)), bench.folder))
    output_of_node(bench, run, partner, "PartnerLumaPhoton1", model="photon-1", prompt="xyz", image_ref=["two", 0])
    (first, second) = partner.calls[0][3]["image_ref"]
    assert first["url"].startswith(f"{LINK_WANTED}data:image/png;base64,")
    assert first == second


def test_sound_goes_as_wav_and_comes_as_a_waveform(bench: Bench, run: Run, tmp_path: Path) -> None:
    """An answer that is a file and nothing else is the result."""
    path = tmp_path / "sound"
    soundfile.write(path, np.full((200, 1), 0.25, np.float32), RATE, format="WAV")
    partner = Partner(lambda _model, _body: ModelReply(b"", {"": path}, {"": "audio/wav"}))
    made = output_of_node(bench, run, partner, "PartnerElevenlabsElevenSfxV2", text="a bell")
    assert made["waveform"].shape == (1, 1, 200)
    assert made["sample_rate"] == RATE
    reply = {"output": {"video_url": "https://a.example/1"}}
    clip().save_to(tmp_path / "clip.mp4")
    film_made = (tmp_path / "clip.mp4").read_bytes()
    other = Partner(lambda _model, _body: reply_with(reply, film_made, tmp_path))
    output_of_node(bench, run, other, "PartnerWan2I2v", img_url=["one", 0], audio_url=["tone", 0])
    sent = base64.b64decode(other.calls[0][3]["input"]["audio_url"].partition("base64,")[2])
    samples, rate = soundfile.read(io.BytesIO(sent))
    assert (samples.shape, rate) == ((100, 2), RATE)


def test_clip_goes_as_mp4_and_comes_as_one_that_outlives_its_job(bench: Bench, run: Run, tmp_path: Path) -> None:
    """The files of an answer go with the job; what is in the cache has a file of its own, and leaves none behind."""
    clip().save_to(tmp_path / "clip.mp4")
    content = (tmp_path / "clip.mp4").read_bytes()
    reply = {"data": {"outputs": ["https://a.example/1"]}}
    partner = Partner(lambda _model, _body: reply_with(reply, content, tmp_path))
    made = output_of_node(bench, run, partner, "PartnerWavespeedFlashvsr", video=["film", 0], duration=1.0)
    assert base64.b64decode(partner.calls[0][3]["video"].partition("base64,")[2])[4:8] == b"ftyp"
    (tmp_path / "result").unlink()
    assert isinstance(made, FileClip)
    assert made.get_dimensions() == (32, 32)
    assert made.get_components().images.shape == (4, 32, 32, 3)
    path = Path(made.path)
    del made
    bench.executor = Executor(bench.registry, ResultCache(0))
    gc.collect()
    assert not path.exists()


def test_missing_output_of_a_model_stops_only_its_consumers(bench: Bench, run: Run, tmp_path: Path) -> None:
    """A clip without its last frame is a clip."""
    clip().save_to(tmp_path / "clip.mp4")
    content = (tmp_path / "clip.mp4").read_bytes()
    reply = {"content": {"video_url": "https://a.example/1"}}
    partner = Partner(lambda _model, _body: reply_with(reply, content, tmp_path))
    graph = {
        "1": n("PartnerByteplusSeedance1", model="seedance-1-5-pro-251215", prompt="x"),
        "clip": n("Show", value=["1", 0]),
        "frame": n("Show", value=["1", 1]),
    }
    seen = run(bench.run(graph, partner))
    assert isinstance(seen.outcome.ending, Succeeded)
    assert isinstance(seen.output_of("clip")[0], FileClip)
    (stopped,) = seen.of(Stopped)
    assert stopped.message == "Seedance 1 (byteplus): the model gave no image."
    assert "frame" not in seen.outcome.ui


def test_mesh_is_saved_among_the_outputs_and_told_by_its_name(bench: Bench, run: Run, tmp_path: Path) -> None:
    """No other node need want it: the node is an output."""
    reply = {"model_urls": {"glb": "https://a.example/1"}}
    partner = Partner(lambda _model, _body: reply_with(reply, b"glTF\x02\x00\x00\x00mesh", tmp_path))
    seen = run(bench.run({"1": n("PartnerMeshyRemesh", input_task_id="t")}, partner))
    (saved,) = seen.output_of("1", "3d")
    assert saved == {"filename": "model_00001_.glb", "subfolder": "", "type": "output"}
    assert (tmp_path / "output" / "model_00001_.glb").read_bytes() == b"glTF\x02\x00\x00\x00mesh"


_QWEN = {"model": "qwen-image-3.0", "prompt": "x"}


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({"extra_body": "nonsense"}, "extra_body must be a JSON object"),
        ({"images": ["five", 0]}, "images: 5 were given; the model takes at most 3."),
        ({"images": ["thin", 0]}, "An image of 5 channels cannot be saved as a picture."),
        ({"prompt": "\ud800"}, "'utf-8' codec can't encode"),
    ],
)
def test_inputs_that_make_no_body_are_the_nodes_error_and_nothing_is_run(
    bench: Bench, run: Run, inputs: dict[str, Any], words: str
) -> None:
    """Before a cent is held."""
    partner = Partner(lambda _model, _body: {})
    kind, message = failure_of(bench, run, partner, "PartnerQwenImage3", **{**_QWEN, **inputs})
    assert kind == "ValidationError"
    assert message.startswith(words)
    assert partner.calls == []


def test_refusal_by_the_server_is_the_nodes_error_by_its_own_name(bench: Bench, run: Run) -> None:
    """For instance InsufficientFundsError (C-12)."""
    partner = Partner(lambda _model, _body: NamedFaultError("InsufficientFundsError", "0.00 US dollars are left."))
    assert failure_of(bench, run, partner, _TEXT, prompt="x") == (
        "InsufficientFundsError", "0.00 US dollars are left."
    )  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (ModelReply(b"<html>"), "The provider's answer is not JSON."),
        ({}, "The provider answered without a result that can be used."),
        ({"data": [{"b64_json": "%%%"}]}, "What the model gave is not base64."),
        ({"data": [{"b64_json": b64(b"\x89PNG\r\n\x1a\nbroken")}]}, "The picture that the model gave cannot be read"),
        ({"data": [{"b64_json": b64(b"no picture")}]}, "The provider answered without a result that can be used."),
        ({"data": [{"b64_json": 7}]}, "The provider answered without a result that can be used."),
    ],
)
def test_answer_that_cannot_be_used_is_the_providers_error(bench: Bench, run: Run, answer: Any, words: str) -> None:
    """It says what is wrong, whatever a partner sends."""
    kind, message = failure_of(bench, run, Partner(lambda _model, _body: answer), _IMAGE, prompt="x")
    assert kind == "ProviderError"
    assert message.startswith(words)


def test_picture_larger_than_a_host_may_say_is_refused_with_the_bound(
    bench: Bench, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rather than the host being ended for what it says."""
    monkeypatch.setattr("fairlead.engine.nodes.partner_media.ENCODED_BYTES_MAX", 50)
    kind, message = failure_of(bench, run, Partner(lambda _model, _body: {}), _IMAGE, prompt="x", image=["one", 0])
    assert kind == "ValidationError"
    assert message.startswith("A model is given at most 50 bytes of media")


def test_text_of_a_model_that_says_nothing_is_empty(bench: Bench, run: Run) -> None:
    """A model that only calls tools has said nothing: that is no error."""
    partner = Partner(lambda _model, _body: {"choices": [{"message": {"content": None}}]})
    assert output_of_node(bench, run, partner, "PartnerOpenaiO3", prompt="x") == ""
