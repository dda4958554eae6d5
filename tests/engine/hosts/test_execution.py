"""A job in an engine host: what it is given, what it tells, and how it ends."""

import asyncio
import json
from pathlib import Path

import numpy as np
import pytest

from engine.executions import n
from engine.hosts.engines import Engine, FolderCallbacks, trouble, wait_for
from fairlead.domain.jobs.events import (
    Cached,
    Executed,
    Executing,
    Failed,
    Finished,
    Interrupted,
    Preview,
    Progress,
    ProgressText,
    Started,
    Succeeded,
)
from fairlead.engine.hosts.service import Execute
from fairlead.engine.media.pictures import write_png


def _chain(length: int, value: int) -> dict[str, object]:
    graph = {"0": n("PrimitiveInt", value=value)}
    graph |= {str(index): n("PrimitiveInt", value=[str(index - 1), 0]) for index in range(1, length)}
    return graph | {"show": n("PreviewAny", source=[str(length - 1), 0])}


def test_events_of_a_job_are_told_once_and_in_order(engine: Engine) -> None:
    """Every event comes once and in order, and the ending is what is returned."""
    seen = engine.execute(_chain(2, 4))
    kinds = [type(event) for event in seen.callbacks.events]
    assert kinds == [Started, Cached, Executing, Finished, Executing, Finished, Executing, Executed, Finished]
    assert (seen.ending, seen.texts) == (Succeeded(), ["4"])


@pytest.mark.req("C-10")
def test_cache_is_warm_for_the_next_job_of_a_workspace(engine: Engine) -> None:
    """What one job made is there for the next of the workspace, in the same process."""
    first, second = engine.execute(trouble("Costly"), "a"), engine.execute(trouble("Costly"), "a")
    assert first.texts == second.texts
    cached = [event.nodes for event in second.callbacks.events if isinstance(event, Cached)]
    assert cached == [["1"]]


def test_cache_never_crosses_workspaces(engine: Engine) -> None:
    """Another workspace has another process, which knows nothing."""
    [[count, process]] = engine.execute(trouble("Costly"), "b").texts
    [[other_count, other_process]] = engine.execute(trouble("Costly"), "c").texts
    assert (count, other_count) == (1, 1)
    assert process != other_process


def test_ten_thousand_nodes_in_a_chain_are_executed(engine: Engine) -> None:
    """They are executed, and told of."""
    seen = engine.execute(_chain(10_000, 1))
    assert (seen.ending, seen.texts) == (Succeeded(), ["1"])
    assert sum(isinstance(event, Executing) for event in seen.callbacks.events) == 10_001


@pytest.mark.req("C-12")
def test_error_of_a_node_ends_the_job_with_its_details(engine: Engine) -> None:
    """It ends the job with the node, its class, the error and what the node was given."""
    failure = engine.execute(trouble("Named", "ModelDownloadError")).failure
    assert (failure.place.node, failure.node_type, failure.exception_type) == ("1", "Named", "ModelDownloadError")
    assert (failure.message, failure.current_inputs) == ("as asked", {"how": ["ModelDownloadError"]})
    assert "as asked" in failure.traceback[-1]


def test_node_that_exits_is_an_error_of_the_node(engine: Engine) -> None:
    """`sys.exit` in a node is an error of the node."""
    assert engine.execute(trouble("Dead", "leave")).failure.exception_type == "SystemExit"


def test_values_that_are_no_json_are_told_as_text(engine: Engine) -> None:
    """Numbers stay numbers, those that are none become null, and everything else a text."""
    seen = engine.execute(trouble("Odd"))
    assert seen.ending == Succeeded()
    [shown] = [event.ui for event in seen.callbacks.events if isinstance(event, Executed)]
    assert shown["numbers"] == [0.5, 3, None, None, str(2**100), True]
    assert shown["others"] == ["b'bytes'", [1], "a", "float32 array [2, 3]", "half ?", {"1": [2, 3]}]
    json.dumps(shown)


def test_node_that_shows_too_much_fails_alone(engine: Engine) -> None:
    """The error names the bound and the node, and the host is as good as before."""
    failure = engine.execute(trouble("Vast", str(40 * 2**20))).failure
    assert (failure.node_type, failure.exception_type) == ("Vast", "TooMuchOutputError")
    assert "more than 2 MiB" in failure.message
    assert engine.execute(trouble("Vast", "10")).texts == ["x" * 10]


def test_nodes_of_a_job_share_what_they_may_show(engine: Engine) -> None:
    """Two nodes that show too much together fail as one would, and nothing of it is sent."""
    seen = engine.execute(trouble("Vast", str(3 * 2**19), **{"2": ("Vast", str(2**20))}))
    assert seen.failure.exception_type == "TooMuchOutputError"
    assert [len(text) for text in seen.texts] in ([3 * 2**19], [2**20])


def test_words_and_previews_are_shown_and_prints_are_dropped(engine: Engine) -> None:
    """Words and previews are shown at once; what is printed goes nowhere."""
    seen = engine.execute(trouble("Talkative", "3"))
    assert seen.ending == Succeeded()
    said = [shown.text for shown in seen.callbacks.shown if isinstance(shown, ProgressText)]
    previews = [
        (shown.place.node, shown.image_type, shown.image)
        for shown in seen.callbacks.shown
        if isinstance(shown, Preview)
    ]
    assert (said, previews) == (["0", "1", "2"], [("1", "image/png", b"picture")])


def test_server_that_is_behind_stops_reading(engine: Engine) -> None:
    """After much of it the server waits for the callbacks to catch up before it reads on."""
    seen = engine.execute(trouble("Vast", str(3 * 2**19)))
    assert seen.ending == Succeeded()
    assert engine.execute(trouble("Talkative", "10")).ending == Succeeded()
    assert seen.callbacks.caught_up_times == 1


def test_progress_is_told_between_start_and_end(engine: Engine) -> None:
    """It is told between a node's beginning and its end, in numbers that are some."""
    events = engine.execute(trouble("Talkative", "1")).callbacks.events
    [progress] = [event for event in events if isinstance(event, Progress)]
    assert (progress.value, progress.most) == (1.0, 0.0)
    kinds = [type(event) for event in events]
    assert kinds.index(Executing) < kinds.index(Progress) < kinds.index(Finished)


# Files.


def test_file_is_kept_when_its_node_ends_well(engine: Engine) -> None:
    """A new file has the name the server gave, is kept under it, and only if its node ends well."""
    seen = engine.execute(trouble("Writer", "hello"))
    [saved] = seen.texts
    assert saved["subfolder"] == ""
    assert seen.callbacks.kept == {saved["filename"]: ("output", b"hello")}
    assert saved["filename"].startswith("written-20")
    assert engine.execute(trouble("Writer", "fail")).callbacks.kept == {}


def test_pictures_are_loaded_and_saved_through_the_server(engine: Engine) -> None:
    """The engine's own nodes load and save by way of the server."""
    write_png(engine.folder / "in.png", np.full((4, 4, 3), 0.5, np.float32), {}, 1)
    graph = {"1": n("LoadImage", image="in.png"), "2": n("SaveImage", images=["1", 0], filename_prefix="out")}
    [(filename, (kind, content))] = engine.execute(graph).callbacks.kept.items()
    assert (filename, kind, content[:4]) == ("out_00001_.png", "output", b"\x89PNG")


def test_confined_host_saves_openexr(engine: Engine) -> None:
    """The library for it, which is loaded when it is first needed, works in a process that may do little."""
    write_png(engine.folder / "in.png", np.full((4, 4, 3), 0.5, np.float32), {}, 1)
    form = {"format": "exr", "format.bit_depth": "32-bit float", "format.input_color_space": "linear"}
    saving = n("SaveImageAdvanced", images=["1", 0], filename_prefix="out", **form)
    [(kind, content)] = engine.execute({"1": n("LoadImage", image="in.png"), "2": saving}).callbacks.kept.values()
    assert (kind, content[:4]) == ("output", bytes.fromhex("762f3101"))


async def _execute(engine: Engine, graph: dict[str, object], callbacks: FolderCallbacks) -> object:
    checked = await engine.hosts.check("p", "w", json.dumps(graph).encode(), None, callbacks)
    return await engine.hosts.execute("w", Execute("p", checked.workflow, checked.outputs, b"{}"), callbacks)  # type: ignore[union-attr]


@pytest.mark.req("C-12")
@pytest.mark.parametrize(
    ("name", "exception_type"),
    [
        ("nowhere.txt", "ValidationError"),
        ("https://example.com/a.png", "ImageDownloadError"),
        ("trouble", "InternalError"),
        ("x" * 5_000, "ValidationError"),
    ],
)
def test_unavailable_file_is_told_by_its_cause(engine: Engine, name: str, exception_type: str) -> None:
    """The error has the name the server gives; of an error within the server nothing is told."""
    failure = engine.execute(trouble("Reader", name)).failure
    assert failure.exception_type == exception_type
    assert "secret" not in failure.message


def test_node_cannot_keep_a_file_that_is_not_its_own(engine: Engine) -> None:
    """A link to a file elsewhere is refused."""
    seen = engine.execute(trouble("Thief", "/etc/hostname"))
    assert seen.failure.exception_type == "ValueError"
    assert seen.callbacks.kept == {}


# Models.


@pytest.mark.req("C-11")
def test_calls_of_models_are_numbered_and_answered(engine: Engine) -> None:
    """A node's calls are numbered, and get the answers and their files, in the event loop as well."""
    (engine.folder / "in.txt").write_text("a file")
    seen = engine.execute(trouble("Asynchronous", "x"))
    assert seen.ending == Succeeded()
    assert seen.texts == [["answer 0", "answer 1", "x", "a file"]]
    assert seen.callbacks.models == [("1", 0, "model/one", b"x"), ("1", 1, "model/one", b"x")]


@pytest.mark.req("C-12")
def test_unpaid_model_is_told_by_its_cause(engine: Engine) -> None:
    """The error has the name the server gives."""
    assert engine.execute(trouble("Asynchronous", "poor")).failure.exception_type == "InsufficientFundsError"


# Interruption.


def test_job_that_waits_for_an_answer_can_be_interrupted(engine: Engine) -> None:
    """A question without an answer keeps nobody: the node hears at once, and the server lets the answer be."""

    class Slow(FolderCallbacks):
        async def find_file(self, name: str) -> Path:
            engine.hosts.interrupt("p")
            await asyncio.sleep(60)
            return Path(name)

    before = list(engine.started)
    ending = engine.run(wait_for(_execute(engine, trouble("Reader", "a"), Slow(engine.folder))))
    assert isinstance(ending, Interrupted)
    assert ending.place is not None
    assert (ending.place.node, ending.node_type) == ("1", "Reader")
    assert engine.execute(trouble("Costly")).ending == Succeeded()
    assert engine.started in (before, [*before, *engine.started[len(before) :]])


def test_interrupting_an_unknown_job_does_nothing(engine: Engine) -> None:
    """Nothing happens."""
    engine.hosts.interrupt("nobody")


def test_workflow_with_a_missing_class_fails_alone(engine: Engine) -> None:
    """A workflow that cannot be executed any more is an error of the workflow."""
    ending = engine.run(
        engine.hosts.execute(
            "w", Execute("x", b'{"1":{"class_type":"Gone","inputs":{}}}', ["1"], b"{}"), FolderCallbacks(engine.folder)
        )
    )
    assert isinstance(ending, Failed)
    assert ending.failure.exception_type == "ValidationError"


# What a host has.


def test_host_has_no_secrets_in_its_environment(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what a Python program needs, neither as it was started nor later; and no open file of the server."""
    monkeypatch.setenv("FAIRLEAD_MASTER_SECRET", "s3cret")
    monkeypatch.setenv("FAL_KEY", "s3cret")
    with (engine.folder / "open").open("w"):
        [environment] = engine.execute(trouble("Environment"), "fresh").texts
    allowed = {"PATH", "LANG", "LC_ALL", "TMPDIR", "PYTHONPATH", "LD_LIBRARY_PATH", "MALLOC_ARENA_MAX"}
    assert {name for name in environment if "THREADS" not in name} <= allowed
    for process in (engine.started[-1], *engine.checking, *engine.of_kind("template")):
        started_with = Path(f"/proc/{process}/environ").read_bytes()
        assert b"s3cret" not in started_with
        open_files = [str(link.readlink()) for link in Path(f"/proc/{process}/fd").iterdir()]
        assert not [name for name in open_files if name.endswith("/open")]


def test_folder_of_a_host_is_its_own(engine: Engine) -> None:
    """Its folder is its own, and temporary files are made there."""
    [environment] = engine.execute(trouble("Environment")).texts
    folder = Path(environment["TMPDIR"])
    assert folder.is_relative_to(engine.folder)
    assert folder.stat().st_mode & 0o777 == 0o700
