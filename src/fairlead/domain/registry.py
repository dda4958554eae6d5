"""The registry of published nodes: publishers, their nodes, the versions of those, and who may change them (G-01).

    RegistryFault   BadEntry  NotThere  NotOwner  Banned  IdTaken  VersionTaken  TooMany  StorageSpent

An id belongs to its first owner for good: nobody else can take it, even after what it named was deleted.
"""

import enum
import re
import unicodedata
from collections.abc import Mapping
from typing import Annotated, Any, Final, TypeAlias

import msgspec

ID_MAX: Final = 100
VERSION_MAX: Final = 100
ADDRESS_MAX: Final = 2_000
PUBLISHERS_MAX: Final = 100
"""How many publishers a workspace may have; deleted ones count, as with nodes and versions."""
NODES_MAX: Final = 1_000
"""How many nodes a publisher may have."""
VERSIONS_MAX: Final = 1_000
"""How many versions a node may have."""
_SEARCHED_MAX: Final = 100
_ID: Final = re.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?")
_NUMBER: Final = r"(?:0|[1-9][0-9]*)"
_PART: Final = rf"(?:{_NUMBER}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_VERSION: Final = re.compile(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-{_PART}(?:\.{_PART})*)?")
_ADDRESS: Final = re.compile(r"https://(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+)(?::[0-9]{1,5})?(?:[/?#][!-~]*)?")
_ADDRESSES: Final = frozenset({"website", "source_code_repo", "logo", "repository", "icon", "download_url"})
_OF_MANY_LINES: Final = frozenset({"description", "changelog"})
_LINE_ENDS: Final = str.maketrans("", "", "\n\r\t")
_PREFIX: Final = re.compile(r"(?=.{2,64}\Z)(?:/[a-z0-9-]+)+/?")
_TURNS: Final = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c")
"""Characters that change how text is displayed, so that two names could look the same."""

_Name: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
_Line: TypeAlias = Annotated[str, msgspec.Meta(max_length=200)]
_Pages: TypeAlias = Annotated[str, msgspec.Meta(max_length=10_000)]
_Address: TypeAlias = Annotated[str, msgspec.Meta(max_length=ADDRESS_MAX)]
_Tag: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=50)]
_Dependency: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class PublisherEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The id of a new publisher, and its description."""

    id: str
    name: _Name
    description: _Pages = ""
    website: _Address = ""
    source_code_repo: _Address = ""
    support: _Line = ""
    logo: _Address = ""


class PublisherChange(PublisherEntry, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The new description of a publisher; the id may be left out."""

    id: str = ""


class NodeEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The id of a new node, and its description."""

    id: str
    name: _Name
    description: _Pages = ""
    author: _Line = ""
    license: _Line = ""
    repository: _Address = ""
    icon: _Address = ""
    category: _Line = ""
    tags: Annotated[tuple[_Tag, ...], msgspec.Meta(max_length=20)] = ()


class VersionEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A version to be published, and where it is downloaded from."""

    version: str
    download_url: _Address
    changelog: _Pages = ""
    dependencies: Annotated[tuple[_Dependency, ...], msgspec.Meta(max_length=100)] = ()
    deprecated: bool = False


class SaidOfNode(msgspec.Struct, frozen=True):
    """What a command line says of the node whose version it publishes; unknown fields are ignored."""

    id: str | None = None
    name: str | None = None
    description: str | None = None
    author: str | None = None
    license: str | None = None
    repository: str | None = None
    icon: str | None = None
    category: str | None = None
    tags: tuple[str, ...] | None = None


class SaidOfVersion(msgspec.Struct, frozen=True):
    """What a command line says of a version, whose archive it sends afterwards."""

    version: str
    changelog: str | None = None
    dependencies: tuple[str, ...] | None = None
    deprecated: bool | None = None


class Publication(msgspec.Struct, frozen=True):
    """What a command line publishes: the description of a node, a version of it, and its credential."""

    node: SaidOfNode
    node_version: SaidOfVersion
    personal_access_token: str | None = None

    def entries(self, node_id: str) -> tuple[NodeEntry, VersionEntry]:
        """The description of the node of an id, and the version; RegistryFaultError where they cannot be used."""
        if self.node.id not in (None, "", node_id):
            raise RegistryFaultError(BadEntry("The id of the node in the body is not the one in the address."))
        node = {**_without_empty(self.node), "id": node_id}
        version = {**_without_empty(self.node_version), "download_url": ""}
        try:
            return msgspec.convert({"name": node_id, **node}, NodeEntry), msgspec.convert(version, VersionEntry)
        except msgspec.ValidationError as error:
            raise RegistryFaultError(BadEntry(f"The body cannot be used: {error}.")) from error


Entry: TypeAlias = PublisherEntry | NodeEntry | VersionEntry
_KEYS: Final = ("id", "version")


class Kind(enum.StrEnum):
    """The kinds of entries; publishers and nodes can be banned."""

    PUBLISHER = "publisher"
    NODE = "node"
    VERSION = "version"


class Publisher(msgspec.Struct, frozen=True):
    """A publisher as it is stored; `document` is its description. Times in ms since 1970."""

    id: str
    workspace_id: str
    document: Mapping[str, Any]
    banned_at: int | None
    deleted_at: int | None
    created_at: int
    changed_at: int


class PublishedNode(msgspec.Struct, frozen=True):
    """A node as it is stored; `latest` is the version that was published last, None before the first.

    `installs` is how often it was installed.
    """

    id: str
    publisher_id: str
    document: Mapping[str, Any]
    banned_at: int | None
    deleted_at: int | None
    created_at: int
    changed_at: int
    installs: int = 0
    latest: "NodeVersion | None" = None


class NodeVersion(msgspec.Struct, frozen=True):
    """A version; `place` counts those of its node from 1, in the order they were published.

    A version that waits for its archive has the place 0, and is not shown.
    """

    node_id: str
    version: str
    place: int
    document: Mapping[str, Any]
    created_at: int


class Actor(msgspec.Struct, frozen=True):
    """Who changes what a workspace owns: its key, or the subject of its token."""

    workspace_id: str
    key_id: str | None = None
    subject: str | None = None


class BadEntry(msgspec.Struct, frozen=True):
    """What was sent cannot be used; `detail` says how to fix it."""

    detail: str


class NotThere(msgspec.Struct, frozen=True):
    """There is no such publisher or node, or the node is another publisher's."""

    kind: Kind
    id: str


class NothingPublished(msgspec.Struct, frozen=True):
    """The node has no version that could be installed: none was published, or the archive of none has arrived."""

    node_id: str


class NotOwner(msgspec.Struct, frozen=True):
    """The publisher is another workspace's."""

    publisher_id: str


class Banned(msgspec.Struct, frozen=True):
    """The publisher or the node was banned by the registry's operator, and is not to be changed."""

    kind: Kind
    id: str


class IdTaken(msgspec.Struct, frozen=True):
    """The id is taken, or reserved for its first owner."""

    kind: Kind
    id: str


class VersionTaken(msgspec.Struct, frozen=True):
    """The node has, or once had, a version of this number."""

    node_id: str
    version: str


class TooMany(msgspec.Struct, frozen=True):
    """There is no room for another; `what` names them in the plural."""

    what: str
    limit: int


class StorageSpent(msgspec.Struct, frozen=True):
    """The publisher's workspace keeps as many bytes or files as it may."""

    what: str
    limit: int


RegistryFault: TypeAlias = (
    BadEntry | NotThere | NothingPublished | NotOwner | Banned | IdTaken | VersionTaken | TooMany | StorageSpent
)


class RegistryFaultError(Exception):
    """Carries a fault to the API that answers it."""

    def __init__(self, fault: RegistryFault) -> None:
        super().__init__(type(fault).__name__)
        self.fault = fault


def require(fault: RegistryFault | None) -> None:
    """Raise RegistryFaultError where there is a fault."""
    if fault is not None:
        raise RegistryFaultError(fault)


def path_prefix(text: str) -> str:
    """Read the prefix of a registry's paths: it begins with a slash and does not end with one; ValueError."""
    if not _PREFIX.fullmatch(text):
        raise ValueError("must be a slash and up to 63 lower-case letters, digits, dashes and more slashes")
    return text.rstrip("/")


def is_registry_id(text: str) -> bool:
    """Whether a text may be the id of a publisher or a node: it is part of addresses, and so never `.` or `..`."""
    return len(text) <= ID_MAX and _ID.fullmatch(text) is not None


def is_version(text: str) -> bool:
    """Whether a text is a version as Semantic Versioning 2.0.0 has it, without build metadata."""
    return len(text) <= VERSION_MAX and _VERSION.fullmatch(text) is not None


def archive_id(node_id: str, version: str) -> str:
    """The id of a node's version in addresses and for clients; neither of its parts has an `@`."""
    return f"{node_id}@{version}"


def split_archive_id(id_: str) -> tuple[str, str] | None:
    """The node and the version of such an id; None for any other text."""
    node_id, _, version = id_.partition("@")
    return (node_id, version) if is_registry_id(node_id) and is_version(version) else None


def archive_name(node_id: str, version: str) -> str:
    """The name of a version's archive."""
    return f"{archive_id(node_id, version)}.zip"


def refuse_entry(entry: Entry, *, without_address: bool = False) -> BadEntry | None:
    """What is wrong with something that is to be published, apart from lengths and types, or None.

    A version may be `without_address` where its archive is sent here.
    """
    for name, value in msgspec.structs.asdict(entry).items():
        if without_address and name == "download_url":
            continue
        for text in value if isinstance(value, tuple) else (value,):
            if isinstance(text, str) and (detail := _wrong(name, text)):
                return BadEntry(detail)
    return None


def document_of(entry: Entry) -> dict[str, object]:
    """The description of an entry without its id; what was not said is absent."""
    told: dict[str, object] = msgspec.json.decode(msgspec.json.encode(entry))
    return {name: value for name, value in told.items() if name not in _KEYS}


def search_text_of(entry: NodeEntry) -> str:
    """The text that a node is searched by, in lower case: a line for each field of its description."""
    said = (entry.id, entry.name, entry.author, entry.category, *entry.tags, entry.description)
    return "\n".join(text.lower() for text in said if text)


def words_of(search: str) -> tuple[str, ...]:
    """The words of a search; RegistryFaultError for a bad search."""
    if len(search) > _SEARCHED_MAX or _is_odd(search):
        raise RegistryFaultError(BadEntry(f"search has at most {_SEARCHED_MAX} printable characters."))
    return tuple(dict.fromkeys(search.lower().split()))


def refuse_writing(publisher: Publisher | None, publisher_id: str, workspace_id: str) -> RegistryFault | None:
    """The fault where a workspace may not change a publisher or anything of it, or None (G-02)."""
    if publisher is None or publisher.deleted_at is not None:
        return NotThere(Kind.PUBLISHER, publisher_id)
    if publisher.workspace_id != workspace_id:
        return NotOwner(publisher_id)
    return None if publisher.banned_at is None else Banned(Kind.PUBLISHER, publisher_id)


def refuse_writing_node(node: PublishedNode | None, node_id: str, publisher_id: str) -> RegistryFault | None:
    """The fault where a publisher's owner may not change a node, or None (G-02)."""
    if node is None or node.deleted_at is not None or node.publisher_id != publisher_id:
        return NotThere(Kind.NODE, node_id)
    return None if node.banned_at is None else Banned(Kind.NODE, node_id)


def refuse_publisher_id(before: Publisher, workspace_id: str) -> RegistryFault | None:
    """The fault where the id of a deleted publisher may not be used again, or None: its owner may use it."""
    if before.workspace_id != workspace_id or before.deleted_at is None:
        return IdTaken(Kind.PUBLISHER, before.id)
    return None if before.banned_at is None else Banned(Kind.PUBLISHER, before.id)


def refuse_node_id(before: PublishedNode, publisher_id: str) -> RegistryFault | None:
    """The fault where the id of a deleted node may not be used again, or None: its publisher may use it."""
    if before.publisher_id != publisher_id or before.deleted_at is None:
        return IdTaken(Kind.NODE, before.id)
    return None if before.banned_at is None else Banned(Kind.NODE, before.id)


def _without_empty(said: SaidOfNode | SaidOfVersion) -> dict[str, object]:
    """A document without its empty texts, which released clients send for what they do not know."""
    return {name: value for name, value in msgspec.to_builtins(said).items() if value not in (None, "")}


def _wrong(name: str, text: str) -> str | None:
    match name:
        case "id" if not is_registry_id(text):
            return (
                f"An id has 1 to {ID_MAX} lower-case letters, digits, dashes and dots, "
                "and begins and ends with a letter or a digit."
            )
        case "version" if not is_version(text):
            return f"A version is major.minor.patch, or major.minor.patch-pre; at most {VERSION_MAX} characters."
        case _ if name in _ADDRESSES:
            is_absent = not text and name != "download_url"
            return None if is_absent or _ADDRESS.fullmatch(text) else f"{name} must be an https address in ASCII."
        case "name" if not text.strip():
            return "name must not be blank."
        case _ if _is_odd(text.translate(_LINE_ENDS) if name in _OF_MANY_LINES else text):
            return f"{name} has characters that cannot be seen."
        case _:
            return None


def _is_odd(text: str) -> bool:
    return any(char in _TURNS or unicodedata.category(char) in {"Cc", "Cs"} for char in text)
