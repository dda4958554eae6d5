"""What the nodes of a job have made, one by one: files by name, and texts (J-13, K-02)."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from fairlead.domain.jobs.events import Event, Executed, Place, Started

SHOWN_BYTES_MAX: Final = 2 * 2**20
"""How many bytes of JSON the nodes of a job may show, all of them together."""
SHOWS_TOO_MUCH: Final = (
    f"The nodes of this workflow show more than {SHOWN_BYTES_MAX // 2**20} MiB of JSON, which is the most that is kept"
    " of a job."
)
OUTPUTS_MAX: Final = 1_000
"""How many outputs of a job are told."""
TEXT_CHARACTERS_MAX: Final = 100_000
"""How many characters of a text stand in the job; its asset has all of them."""
_KINDS: Final = ("image", "video", "audio", "text")
_LATENTS: Final = "latents"
_LATENT_EXTENSION: Final = ".latent"
_FOLDERS: Final = frozenset({"output", "temp", "input"})


class ShownFile(msgspec.Struct, frozen=True):
    """A file that a node has shown: its name, whether it is an output or a temporary one, and whether a latent."""

    node_id: str
    name: str
    kind: str
    is_latent: bool = False


class ShownText(msgspec.Struct, frozen=True):
    """A text that a node has shown."""

    node_id: str
    text: str


class JobOutput(msgspec.Struct, frozen=True):
    """Something that a job has made, which is an asset: its id, its BLAKE3, and a signed link, path and query.

    `job_id` is the job's public id, `link_expires_at` in ms since 1970. A text also stands in `text`, as far as
    TEXT_CHARACTERS_MAX. The stored bytes of one that `is_lost` are missing, or too few.
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


def shown_by_job(outputs: bytes | None) -> Sequence[ShownFile | ShownText]:
    """What the nodes of a job have shown, in the order of their nodes, up to OUTPUTS_MAX; see `Job.outputs`."""
    shown = _shown.decode(outputs or b"{}")
    found = (item for node in shown.values() for item in shown_by_node(node.place.real_node, node.ui))
    return list(itertools.islice(found, OUTPUTS_MAX))


def shown_by_events(events: Sequence[Event]) -> Sequence[ShownFile | ShownText]:
    """What the nodes of a job that is still executed have shown, by its events: what a node shows again counts once.

    Events from before the last start are of an attempt that was given up.
    """
    shown: dict[str, Executed] = {}
    for event in events:
        if isinstance(event, Started):
            shown.clear()
        elif isinstance(event, Executed):
            shown[event.place.node] = event
    found = (item for event in shown.values() for item in shown_by_node(event.place.real_node, event.ui))
    return list(itertools.islice(found, OUTPUTS_MAX))


def shown_by_node(node_id: str, ui: Mapping[str, object]) -> Iterator[ShownFile | ShownText]:
    """What a node has shown. Whatever else its user interface is told is passed by."""
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
