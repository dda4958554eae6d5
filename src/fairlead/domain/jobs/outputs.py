"""The outputs of a job's nodes, one by one: files by name, and texts (J-13, K-02)."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from fairlead.domain.jobs.events import Event, Executed, Place, Started

SHOWN_BYTES_MAX: Final = 2 * 2**20
"""How many bytes of JSON the outputs of a job's nodes may take together."""
SHOWS_TOO_MUCH: Final = (
    f"The nodes of this workflow show more than {SHOWN_BYTES_MAX // 2**20} MiB of JSON, which is the most that is kept"
    " of a job."
)
OUTPUTS_MAX: Final = 1_000
"""How many outputs of a job are listed."""
TEXT_CHARACTERS_MAX: Final = 100_000
"""How many characters of a text the job itself has; its asset has all of them."""
_KINDS: Final = ("image", "video", "audio", "text")
_LATENTS: Final = "latents"
_LATENT_EXTENSION: Final = ".latent"
_FOLDERS: Final = frozenset({"output", "temp", "input"})


class ShownFile(msgspec.Struct, frozen=True):
    """A file among the outputs of a node: its name, its kind (output or temporary), and whether it is a latent."""

    node_id: str
    name: str
    kind: str
    is_latent: bool = False


class ShownText(msgspec.Struct, frozen=True):
    """A text among the outputs of a node."""

    node_id: str
    text: str


class JobOutput(msgspec.Struct, frozen=True):
    """An output of a job, which is an asset: its id, its BLAKE3, and the path and query of a signed link.

    `job_id` is the job's public id, `link_expires_at` in ms since 1970. `text` has up to TEXT_CHARACTERS_MAX of a text.
    The stored bytes of one that `is_lost` are missing, or too few.
    """

    job_id: str
    node_id: str
    name: str
    content_type: str
    size: int
    id: str
    blob: str
    link: str
    link_expires_at: int
    text: str | None = None
    is_latent: bool = False
    is_lost: bool = False

    @property
    def type(self) -> str:
        """What kind of media it is: image, video, audio, text, latent, or file for anything else."""
        if self.is_latent:
            return "latent"
        family = self.content_type.partition("/")[0]
        return family if family in _KINDS else "file"


class _Shown(msgspec.Struct, frozen=True):
    ui: dict[str, object]
    place: Place


_shown: Final = msgspec.json.Decoder(dict[str, _Shown])


def outputs_of_job(outputs: bytes | None) -> Sequence[ShownFile | ShownText]:
    """The outputs of a job, in the order of their nodes, up to OUTPUTS_MAX; see `Job.outputs`."""
    shown = _shown.decode(outputs or b"{}")
    found = (item for node in shown.values() for item in outputs_of_node(node.place.real_node, node.ui))
    return list(itertools.islice(found, OUTPUTS_MAX))


def outputs_of_events(events: Sequence[Event]) -> Sequence[ShownFile | ShownText]:
    """The outputs so far of a job that is executed, from its events; the last output of each node counts.

    Events before the last start belong to an attempt that was given up.
    """
    shown: dict[str, Executed] = {}
    for event in events:
        if isinstance(event, Started):
            shown.clear()
        elif isinstance(event, Executed):
            shown[event.place.node] = event
    found = (item for event in shown.values() for item in outputs_of_node(event.place.real_node, event.ui))
    return list(itertools.islice(found, OUTPUTS_MAX))


def outputs_of_node(node_id: str, ui: Mapping[str, object]) -> Iterator[ShownFile | ShownText]:
    """The outputs of a node. Anything else in the document for its user interface is ignored."""
    for name, items in ui.items():
        for item in items if isinstance(items, list | tuple) else ():
            match item:
                case {"filename": str(filename), "type": str(kind)} if kind in _FOLDERS:
                    is_latent = name == _LATENTS or filename.endswith(_LATENT_EXTENSION)
                    yield ShownFile(node_id, filename, kind, is_latent)
                case str() if name == "text":
                    yield ShownText(node_id, item)
                case _:
                    pass
