"""What is declared of a partner node: its inputs and where they go, its outputs and where they are found (C-11).

It travels as JSON from the server, which knows the catalog, to engine hosts, which do not: hence structs.
"""

import enum
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

NOT_SET: Final = "not set"
"""The choice that leaves a field out, where a model has no default of its own that could be shown instead."""
MODEL_INPUT: Final = "model"
"""The input that chooses among the variants of a family; a field of the same name is renamed."""
EXTRA_BODY: Final = "extra_body"
"""The input for everything in a schema that a node cannot show: a JSON object that is merged into the body."""


class Spelling(enum.StrEnum):
    """How media are written in a body."""

    DATA_URI = "data_uri"
    BASE64 = "base64"
    LINK = "link"
    """The partner takes links only: the host writes a marked data URI, which the server replaces by a link."""


class MaskColour(enum.StrEnum):
    """How a mask marks its part of a picture: by white, by black, or by transparency."""

    WHITE = "white"
    BLACK = "black"
    ALPHA = "alpha"


class Kind(enum.StrEnum):
    """What an answer holds; a file is neither picture, sound nor clip, such as a mesh."""

    IMAGE = "IMAGE"
    VIDEO = "VIDEO"
    AUDIO = "AUDIO"
    STRING = "STRING"
    FILE = "FILE"


class Found(enum.StrEnum):
    """How a result is written in an answer: as a link, as base64 (or a data URI), as a text, or as the whole answer."""

    LINK = "link"
    BASE64 = "base64"
    TEXT = "text"
    WHOLE = "whole"


class Media(msgspec.Struct, frozen=True, omit_defaults=True):
    """How pictures, sounds and clips are put into a body: their spelling, how many, as which kind of mask.

    `longest` bounds the spelled text in characters; where `may_be_link`, what is longer goes as a link.
    """

    spelling: Spelling
    most: int = 1
    mask: MaskColour | None = None
    longest: int | None = None
    may_be_link: bool = False


class NodeInput(msgspec.Struct, frozen=True, omit_defaults=True):
    """An input as editors show it, and where its value goes.

    `at` is a JSON Pointer into the body; the part `-` appends to an array, and `+` puts in front of one. Where there is
    a `template`, that goes there, with the value in it at `value_at`. Values among `omitted` leave the field out.
    `models` are the variants that take it, None for all.
    """

    name: str
    type: str
    at: str
    options: Mapping[str, Any] = {}
    is_optional: bool = False
    template: Any = None
    value_at: str = ""
    media: Media | None = None
    omitted: Sequence[object] = ()
    models: Sequence[str] | None = None


class NodeOutput(msgspec.Struct, frozen=True):
    """An output: what it holds, and its name."""

    kind: Kind
    name: str


class Place(msgspec.Struct, frozen=True):
    """Where an answer has a result: a JSON Pointer, in which `*` stands for all items; of which kind, and how."""

    at: str
    kind: Kind
    found: Found


class PartnerNode(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node that runs a family of a partner's models.

    `models` are the ids of the variants by what they are called in the node; `start` is what a body begins as.
    """

    name: str
    title: str
    category: str
    models: Mapping[str, str]
    inputs: Sequence[NodeInput]
    outputs: Sequence[NodeOutput]
    places: Sequence[Place]
    start: Mapping[str, object] = {}
    description: str = ""
