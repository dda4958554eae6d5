"""Schemas of values on the wire that documents of several APIs share, as `/openapi.json` shows them."""

import datetime
from typing import Annotated, Any, Final, TypeAlias

import msgspec

from fairlead.domain.work.pools import POOL_MAX, POOL_PATTERN

_UUID_PATTERN: Final = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
_HASH_PATTERN: Final = "^blake3:[0-9a-f]{64}$"

Uuid: TypeAlias = Annotated[str, msgspec.Meta(extra_json_schema={"format": "uuid", "pattern": _UUID_PATTERN})]
"""A UUID in lower case, with its hyphens."""
Time: TypeAlias = Annotated[str, msgspec.Meta(extra_json_schema={"format": "date-time"})]
"""A time of RFC 3339 in UTC."""
Day: TypeAlias = Annotated[str, msgspec.Meta(extra_json_schema={"format": "date"})]
"""A day in UTC."""
Milliseconds: TypeAlias = Annotated[int, msgspec.Meta(extra_json_schema={"description": "Milliseconds since 1970."})]
Link: TypeAlias = Annotated[str, msgspec.Meta(extra_json_schema={"format": "uri"})]
"""An absolute address."""
Hash: TypeAlias = Annotated[str, msgspec.Meta(extra_json_schema={"pattern": _HASH_PATTERN})]
"""BLAKE3, in lower-case hexadecimal."""
Upload: TypeAlias = Annotated[str, msgspec.Meta(extra_json_schema={"format": "binary"})]
"""A file in a form."""
PoolName: TypeAlias = Annotated[
    str, msgspec.Meta(extra_json_schema={"minLength": 1, "maxLength": POOL_MAX, "pattern": POOL_PATTERN})
]
"""The name of a pool of servers and workers."""
Node: TypeAlias = Annotated[
    Any,
    msgspec.Meta(
        extra_json_schema={
            "type": "object",
            "required": ["class_type"],
            "properties": {
                "class_type": {"type": "string"},
                "inputs": {"type": "object"},
                "_meta": {"type": "object"},
            },
        }
    ),
]
"""A node of a workflow: its class, and its inputs, each a constant or a link to an output of another node."""
Workflow: TypeAlias = Annotated[
    dict[str, Node],
    msgspec.Meta(
        examples=[
            {
                "1": {"class_type": "LoadImage", "inputs": {"image": "photo.png"}},
                "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "evening"}},
            }
        ]
    ),
]
"""A graph of nodes by their ids, in the API format."""
AnyObject: TypeAlias = Annotated[Any, msgspec.Meta(extra_json_schema={"type": "object"})]
"""An object that is passed on unchanged."""
MaybeObject: TypeAlias = Annotated[msgspec.Raw | None, msgspec.Meta(extra_json_schema={"type": ["object", "null"]})]
"""An object that is JSON already, or null where there is none."""


def as_time(milliseconds: int) -> str:
    """A time as RFC 3339 writes it, in UTC."""
    moment = datetime.datetime.fromtimestamp(milliseconds / 1000, datetime.UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def optional_time(milliseconds: int | None) -> str | None:
    """A time likewise; None where there is none."""
    return None if milliseconds is None else as_time(milliseconds)
