"""What the nodes of a job have made, one by one: files by name, and texts (J-13)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from fairlead.domain.jobs.events import Place

OUTPUTS_MAX: Final = 1_000
"""How many outputs of a job are told."""
TEXT_CHARACTERS_MAX: Final = 100_000
_KINDS: Final = ("image", "video", "audio", "text")
_FOLDERS: Final = frozenset({"output", "temp", "input"})


class ShownFile(msgspec.Struct, frozen=True):
    """A file that a node has shown: its name, and whether it is an output or a temporary one."""

    node_id: str
    name: str
    kind: str


class ShownText(msgspec.Struct, frozen=True):
    """A text that a node has shown."""

    node_id: str
    text: str


class JobOutput(msgspec.Struct, frozen=True):
    """Something that a job has made. A file has an id, its BLAKE3 and a signed link, path and query, with its end.

    A text has none of these, and stands in `text`. Times are in ms since 1970.
    """

    node_id: str
    name: str
    content_type: str
    size: int
    id: str | None = None
    blob: str | None = None
    link: str | None = None
    link_expires_at: int | None = None
    text: str | None = None

    @property
    def type(self) -> str:
        """What kind of media it is: image, video, audio, text, or file for anything else."""
        family = self.content_type.partition("/")[0]
        return family if family in _KINDS else "file"


class _Shown(msgspec.Struct, frozen=True):
    ui: dict[str, Any]
    place: Place


_shown: Final = msgspec.json.Decoder(dict[str, _Shown])


def shown_by_job(outputs: bytes | None) -> Sequence[ShownFile | ShownText]:
    """What the nodes of a job have shown, in the order of their nodes, up to OUTPUTS_MAX; see `Job.outputs`."""
    shown = _shown.decode(outputs or b"{}")
    found = (item for node in shown.values() for item in shown_by_node(node.place.real_node, node.ui))
    return [item for _, item in zip(range(OUTPUTS_MAX), found, strict=False)]


def shown_by_node(node_id: str, ui: Mapping[str, Any]) -> Iterator[ShownFile | ShownText]:
    """What a node has shown. Whatever else its user interface is told is passed by."""
    for name, items in ui.items():
        for item in items if isinstance(items, list | tuple) else ():
            match item:
                case {"filename": str(filename), "type": str(kind)} if kind in _FOLDERS:
                    yield ShownFile(node_id, filename, kind)
                case str() if name == "text":
                    yield ShownText(node_id, item[:TEXT_CHARACTERS_MAX])
                case _:
                    pass
