"""The pack that strangers wrote, in the processes that servers run: all of it is by questions and answers there."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from engine.executions import n
from engine.hosts.engines import Engine, running_engine
from engine.packs.conftest import PACK, copy
from fairlead.domain.jobs.events import Executed, Preview, ProgressText, Succeeded


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """Return hosts that have loaded the pack."""
    folder = tmp_path_factory.mktemp("hosted")
    packs = folder / "custom_nodes"
    packs.mkdir()
    copy(PACK, packs / "third-party-nodes")
    (packs / "broken.py").write_text("raise SystemExit('not today')")
    with running_engine(folder / "engine", packs=(str(packs),)) as running:
        yield running


def test_server_hears_of_every_pack(engine: Engine) -> None:
    """It is told of every pack, and its editors of every class of those that could be loaded."""
    told = json.loads(engine.run(engine.hosts.describe()))  # which waits for all of them
    broken, party = engine.packs
    assert (broken.name, broken.nodes, broken.error) == ("broken", 0, "SystemExit: not today (broken.py, line 1)")
    assert (party.name, party.error) == ("third-party-nodes", None)
    assert told["PartyJoin"]["python_module"] == "custom_nodes.third-party-nodes"


def test_pack_in_a_host_works_through_the_server(engine: Engine, tmp_path: Path) -> None:
    """Its uploads, progress, previews, words and files go by way of the server."""
    Image.new("RGB", (6, 4), (10, 20, 30)).save(engine.folder / "photo.png")
    seen = engine.execute(
        {
            "l": n("PartyLoadPicture", image="photo.png"),
            "b": n("PartyBrighten", image=["l", 0], amount=0.5, steps=2),
            "s": n("PartySavePicture", image=["b", 0], prefix="third/party"),
        }
    )
    assert isinstance(seen.ending, Succeeded)
    assert [event.ui for event in seen.callbacks.events if isinstance(event, Executed)] == [
        {"images": [{"filename": "third-party_00001_.png", "subfolder": "", "type": "output"}]}
    ]
    kind, content = seen.callbacks.kept["third-party_00001_.png"]
    (tmp_path / "kept.png").write_bytes(content)
    assert (kind, Image.open(tmp_path / "kept.png").getpixel((0, 0))) == ("output", (137, 147, 157))
    assert [type(shown) for shown in seen.callbacks.shown] == [Preview, Preview, ProgressText]


def test_loop_of_a_pack_turns_in_a_host(engine: Engine) -> None:
    """Graphs that packs put in their places are executed there as well."""
    seen = engine.execute(
        {
            "start": n("PartyNumber", value=3),
            "open": n("PartyWhileOpen", condition=True, value=["start", 0]),
            "minus": n("PartyMinus", value=["open", 1], by=1),
            "close": n("PartyWhileClose", flow=["open", 0], condition=["minus", 1], value=["minus", 0]),
            "s": n("PartyShow", value=["close", 0]),
        }
    )
    assert isinstance(seen.ending, Succeeded)
    assert [event.ui for event in seen.callbacks.events if isinstance(event, Executed)] == [{"values": [0]}]


@pytest.mark.req("C-12")
def test_missing_model_of_a_pack_has_its_documented_name(engine: Engine) -> None:
    """The name that clients know reaches the server."""
    failure = engine.execute({"c": n("PartyCheckpoint", name="x.pt"), "s": n("PartyShow", value=["c", 0])}).failure
    assert failure.exception_type == "ModelDownloadError"
