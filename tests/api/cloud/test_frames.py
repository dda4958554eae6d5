"""The messages and frames of /ws, byte by byte: each kind with its fields (C-08, C-09)."""

import json
import struct
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode

from fairlead.api.cloud.frames import PLAIN, Payload, Reading, hello, pack_broadcast, pack_frame, payloads
from fairlead.domain.jobs.events import (
    Cached,
    EventEnvelope,
    Executed,
    Executing,
    Failed,
    Failure,
    Finished,
    Interrupted,
    JobEvent,
    Notice,
    Place,
    Preview,
    Progress,
    ProgressText,
    QueueChanged,
    Started,
    Stopped,
    Succeeded,
)
from fairlead.messaging.event_hub import Broadcast, NodeProgress

JOB: Final = "0197f000-0000-7000-8000-000000000001"
NOW: Final = 1_790_000_000_000
INNER: Final = Place("5.0.0.1", "5", parent="5", real="5")
OUTER: Final = Place("7", "7")
METADATA: Final = Reading(reads_preview_metadata=True)
MESSAGES: Final[list[tuple[JobEvent, str, dict[str, Any]]]] = [
    (QueueChanged(3), "status", {"status": {"exec_info": {"queue_remaining": 3}}, "queue_remaining": 3}),
    (Notice("Wait."), "notification", {"value": "Wait.", "prompt_id": JOB}),
    (Started(), "execution_start", {"prompt_id": JOB, "timestamp": NOW}),
    (Cached(["1", "2"]), "execution_cached", {"nodes": ["1", "2"], "prompt_id": JOB, "timestamp": NOW}),
    (Executing(INNER), "executing", {"node": "5.0.0.1", "display_node": "5", "prompt_id": JOB}),
    (Progress(OUTER, 4.0, 20.0), "progress", {"value": 4, "max": 20, "prompt_id": JOB, "node": "7"}),
    (Progress(OUTER, 0.5, 1), "progress", {"value": 0.5, "max": 1, "prompt_id": JOB, "node": "7"}),
    (
        Executed(INNER, {"images": [{"filename": "a.png", "subfolder": "", "type": "output"}]}),
        "executed",
        {
            "node": "5.0.0.1",
            "display_node": "5",
            "output": {"images": [{"filename": "a.png", "subfolder": "", "type": "output"}]},
            "prompt_id": JOB,
        },
    ),
    (Succeeded(), "execution_success", {"prompt_id": JOB, "timestamp": NOW}),
    (
        Interrupted(INNER, "Slow", ["1"]),
        "execution_interrupted",
        {"prompt_id": JOB, "node_id": "5", "node_type": "Slow", "executed": ["1"], "timestamp": NOW},
    ),
    (
        Interrupted(None, None, []),
        "execution_interrupted",
        {"prompt_id": JOB, "node_id": None, "node_type": None, "executed": [], "timestamp": NOW},
    ),
    (
        Failed(Failure(INNER, "Load", "ImageDownloadError", "Not there.", ["line"], {"url": ["x", 1]}, ["1"])),
        "execution_error",
        {
            "prompt_id": JOB,
            "node_id": "5",
            "node_type": "Load",
            "executed": ["1"],
            "exception_message": "Not there.",
            "exception_type": "ImageDownloadError",
            "traceback": ["line"],
            "current_inputs": {"url": ["x", 1]},
            "current_outputs": ["1"],
            "timestamp": NOW,
        },
    ),
    (
        Stopped(OUTER, "Save", "Nothing to save."),
        "execution_error",
        {
            "prompt_id": JOB,
            "node_id": "7",
            "node_type": "Save",
            "executed": [],
            "exception_message": "Nothing to save.",
            "exception_type": "ExecutionBlocked",
            "traceback": [],
            "current_inputs": {},
            "current_outputs": [],
            "timestamp": NOW,
        },
    ),
]


def broadcast(event: JobEvent, *progress: NodeProgress, ended_jobs: tuple[str, ...] = ()) -> Broadcast:
    """Something that happened to the job."""
    return Broadcast(EventEnvelope("lab", "own-id", JOB, NOW, event), progress, ended_jobs)


def read(payload: Payload) -> tuple[str, dict[str, Any]]:
    """A message as its type and data; nothing else may be in it."""
    assert payload.is_text
    told = json.loads(payload.content)
    assert set(told) == {"type", "data"}
    return told["type"], told["data"]


@pytest.mark.req("C-08")
@pytest.mark.parametrize(("event", "kind", "data"), MESSAGES, ids=[f"{row[1]}-{i}" for i, row in enumerate(MESSAGES)])
def test_every_message_has_its_specified_fields(event: JobEvent, kind: str, data: dict[str, Any]) -> None:
    """Every kind of message has the fields the specification and existing clients know."""
    (payload,) = payloads(broadcast(event), PLAIN)
    assert read(payload) == (kind, data)


@pytest.mark.req("C-08")
def test_first_message_says_who_the_client_is() -> None:
    """The greeting is a status with a session id."""
    assert read(hello(2, "me")) == (
        "status",
        {"status": {"exec_info": {"queue_remaining": 2}}, "queue_remaining": 2, "sid": "me"},
    )


@pytest.mark.req("C-08")
def test_end_of_a_job_is_told_without_a_node() -> None:
    """The last word of a job is `executing` without a node, after the status."""
    status, last = payloads(broadcast(QueueChanged(0), ended_jobs=(JOB,)), PLAIN)
    assert read(status)[0] == "status"
    assert read(last) == ("executing", {"node": None, "prompt_id": JOB})
    assert payloads(Broadcast(None, ended_jobs=(JOB,)), PLAIN) == [last]


@pytest.mark.req("C-08")
def test_progress_of_a_node_has_its_place() -> None:
    """`progress_state` says of a node how far it is, whether it runs, and where to show it."""
    begins = payloads(broadcast(Executing(INNER), NodeProgress(INNER)), PLAIN)
    assert [read(payload)[0] for payload in begins] == ["progress_state", "executing"]
    goes_on = payloads(broadcast(Progress(INNER, 1, 2), NodeProgress(INNER, 1, 2)), PLAIN)
    assert [read(payload)[0] for payload in goes_on] == ["progress", "progress_state"]
    through = NodeProgress(INNER, 2, 2, is_running=False)
    (told,) = payloads(broadcast(Finished(INNER), through, NodeProgress(OUTER)), PLAIN)
    inner = {
        "value": 2,
        "max": 2,
        "state": "finished",
        "node_id": "5.0.0.1",
        "prompt_id": JOB,
        "display_node_id": "5",
        "parent_node_id": "5",
        "real_node_id": "5",
    }
    outer = inner | {"value": 0, "max": 1, "state": "running", "node_id": "7", "display_node_id": "7"}
    outer |= {"parent_node_id": None, "real_node_id": "7"}
    assert read(told) == ("progress_state", {"prompt_id": JOB, "nodes": {"5.0.0.1": inner, "7": outer}})


@pytest.mark.req("C-09")
@pytest.mark.parametrize(("image_type", "number"), [("image/jpeg", 1), ("image/png", 2)])
def test_preview_says_the_type_of_its_picture(image_type: str, number: int) -> None:
    """Without metadata: what it is, which type the picture has, and the picture, big-endian."""
    (payload,) = payloads(broadcast(Preview(INNER, image_type, b"pixels")), PLAIN)
    assert payload == Payload(is_text=False, content=struct.pack(">II", 1, number) + b"pixels")


@pytest.mark.req("C-09")
def test_preview_with_metadata_says_whose_it_is() -> None:
    """A preview with metadata holds its kind, the length of the metadata, the metadata and the picture."""
    (payload,) = payloads(broadcast(Preview(INNER, "image/png", b"pixels")), METADATA)
    kind, length = struct.unpack(">II", payload.content[:8])
    assert (payload.is_text, kind) == (False, 4)
    assert json.loads(payload.content[8 : 8 + length]) == {
        "node_id": "5.0.0.1",
        "prompt_id": JOB,
        "display_node_id": "5",
        "parent_node_id": "5",
        "real_node_id": "5",
        "image_type": "image/png",
    }
    assert payload.content[8 + length :] == b"pixels"


@pytest.mark.req("C-09")
def test_preview_of_a_node_of_the_workflow_names_no_parent() -> None:
    """Such a node has no parent, and is itself the real one."""
    (payload,) = payloads(broadcast(Preview(OUTER, "image/jpeg", b"")), METADATA)
    told = json.loads(payload.content[8:])
    assert (told["parent_node_id"], told["real_node_id"]) == (None, "7")


def test_picture_of_an_unknown_type_is_left_out() -> None:
    """What a node says is not to be believed: such a preview is left out."""
    assert payloads(broadcast(Preview(OUTER, "text/html", b"x")), METADATA) == []
    assert pack_broadcast(broadcast(Preview(OUTER, "text/html", b"x")), METADATA) == b""


@pytest.mark.req("C-09")
def test_text_frame_is_laid_out_as_specified() -> None:
    """What it is, the node's id with its length, and the text; the job's id first for clients that can read it."""
    said = broadcast(ProgressText(OUTER, "größer"))
    (plain,) = payloads(said, PLAIN)
    assert plain == Payload(is_text=False, content=struct.pack(">II", 3, 1) + b"7" + "größer".encode())
    (whole,) = payloads(said, Reading(reads_text_metadata=True))
    head = struct.pack(">II", 3, len(JOB)) + JOB.encode() + struct.pack(">I", 1) + b"7"
    assert whole == Payload(is_text=False, content=head + "größer".encode())


def test_one_event_is_encoded_once_for_all_sockets() -> None:
    """The same bytes go to all who can read the same, and most go to all."""
    preview = broadcast(Preview(OUTER, "image/png", bytes(100)))
    assert pack_broadcast(preview, METADATA) is pack_broadcast(preview, METADATA)
    assert pack_broadcast(preview, METADATA) != pack_broadcast(preview, PLAIN)
    started = broadcast(Started())
    assert pack_broadcast(started, METADATA) is pack_broadcast(started, PLAIN)


@pytest.mark.req("C-08")
def test_chain_of_nodes_is_told_in_bounded_messages() -> None:
    """What is told of 500 nodes, one after another, is less than a megabyte: so much for each of them, and no more."""
    told = 0
    for number in range(500):
        place = Place(str(number), str(number))
        through = NodeProgress(place, 1, 1, is_running=False)
        told += len(pack_broadcast(broadcast(Executing(place), NodeProgress(place)), PLAIN))
        told += len(pack_broadcast(broadcast(Finished(place), through), PLAIN))
    assert told < 500 * 1_000


@given(
    st.booleans(), st.sampled_from([0, 1, 125, 126, 127, 65_535, 65_536, 100_000]), st.binary(min_size=1, max_size=1)
)
def test_frames_are_those_of_the_protocol(is_text: bool, length: int, byte: bytes) -> None:  # noqa: FBT001 -- drawn
    """Our frames are what a library for the protocol makes of the same content."""
    content = byte * length
    made = Frame(Opcode.TEXT if is_text else Opcode.BINARY, content).serialize(mask=False)
    assert pack_frame(Payload(is_text, content)) == made
