"""Publishers, nodes and versions: whose they are, what stays reserved, and who has done what."""

import asyncio
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import Run
from fairlead.clock import Clock
from fairlead.domain.accounts.callers import Caller
from fairlead.domain.faults import FaultError, InvalidInput
from fairlead.domain.registry import (
    Banned,
    IdTaken,
    Kind,
    NodeEntry,
    NotOwner,
    NotThere,
    PublishedNode,
    PublisherEntry,
    RegistryFault,
    RegistryFaultError,
    TooMany,
    VersionEntry,
    VersionTaken,
)
from fairlead.operations.registry import publishing as operations
from fairlead.operations.registry.publishing import Registry, UnknownEntryError
from fairlead.storage.db.database import Database
from storage.bookings import NOW, Books

LAB: Final = Caller("lab-id", "lab", key_id="key-1")
OTHER: Final = Caller("other-id", "other", subject="somebody")
_CLOCK: Final = Clock(lambda: NOW * 1_000_000)
_EXAMPLES: Final = itertools.count()


@pytest.fixture
def registry(database: Database, books: Books) -> Registry:
    """Return the registry of two workspaces."""
    books.open()
    books.open(id_="other-id")
    return Registry(database, _CLOCK)


def publisher(id_: str = "acme", **said: Any) -> PublisherEntry:
    """Return a publisher to be made."""
    return PublisherEntry(id=id_, **{"name": id_.title(), **said})


def node(id_: str = "blur", **said: Any) -> NodeEntry:
    """Return a node to be made."""
    return NodeEntry(id=id_, **{"name": id_.title(), **said})


def version(number: str = "1.0.0", **said: Any) -> VersionEntry:
    """Return a version to be published."""
    return VersionEntry(version=number, **{"download_url": "https://example.com/x.zip", **said})


def fault_of(run: Run, work: Any) -> RegistryFault:
    """Return the fault that something ends in."""
    with pytest.raises(RegistryFaultError) as raised:
        run(work)
    return raised.value.fault


def latest(node: PublishedNode) -> str | None:
    """Return the version of a node that was published last."""
    return None if node.latest is None else node.latest.version


def acts(books: Books) -> list[tuple[Any, ...]]:
    """Return what was done to what, and by whom, in order."""
    rows = books.rows("SELECT * FROM registry_acts ORDER BY id")
    return [(row["act"], row["node_id"], row["workspace_id"], row["key_id"], row["subject"]) for row in rows]


async def publish_nodes(registry: Registry, caller: Caller = LAB, id_: str = "acme", *nodes: str) -> None:
    """Make a publisher with nodes, each with a version."""
    await registry.create_publisher(caller, publisher(id_))
    for name in nodes:
        await registry.create_node(caller, id_, node(name))
        await registry.publish_version(caller, id_, name, version())


@pytest.mark.req("G-03")
def test_published_entry_can_be_read_by_anybody(registry: Registry, run: Run) -> None:
    """A publisher, its node and the node's versions are what was said of them, by anyone who asks."""
    run(publish_nodes(registry, LAB, "acme", "blur"))
    newest = run(registry.publish_version(LAB, "acme", "blur", version("2.0.0-rc.1", changelog="Faster.")))
    found = run(registry.publisher("acme"))
    assert (found.id, found.document, found.created_at) == ("acme", {"name": "Acme"}, NOW)
    found_node = run(registry.node("blur"))
    assert (found_node.publisher_id, latest(found_node)) == ("acme", "2.0.0-rc.1")
    versions = run(registry.versions("blur", None, 10)).entries
    assert versions[0] == newest
    assert [one.version for one in versions] == ["2.0.0-rc.1", "1.0.0"]
    assert [one.id for one in run(registry.publishers(None, 10)).entries] == ["acme"]
    for page in (registry.nodes("", None, 10), registry.nodes_of("acme", None, 10)):
        assert [one.id for one in run(page).entries] == ["blur"]


@pytest.mark.req("G-03")
def test_changed_publisher_is_replaced_whole(registry: Registry, run: Run) -> None:
    """What is changed is changed whole."""
    run(registry.create_publisher(LAB, publisher(description="Old.")))
    changed = run(registry.change_publisher(LAB, "acme", publisher(name="New")))
    assert changed.document == run(registry.publisher("acme")).document == {"name": "New"}


@pytest.mark.req("G-01")
def test_deleting_a_node_leaves_the_others(registry: Registry, books: Books, run: Run) -> None:
    """A deletion takes that node out of every list with all it has said, leaves the others, and says who did it."""
    run(publish_nodes(registry, LAB, "acme", "blur", "sharpen"))
    before = acts(books)
    run(registry.delete_node(LAB, "acme", "blur"))
    for page in (registry.nodes("", None, 10), registry.nodes_of("acme", None, 10)):
        assert [one.id for one in run(page).entries] == ["sharpen"]
    assert run(registry.nodes("blur", None, 10)).entries == []
    assert fault_of(run, registry.node("blur")) == NotThere(Kind.NODE, "blur")
    assert fault_of(run, registry.versions("blur", None, 10)) == NotThere(Kind.NODE, "blur")
    assert [one.version for one in run(registry.versions("sharpen", None, 10)).entries] == ["1.0.0"]
    assert acts(books)[len(before) :] == [("node_deleted", "blur", "lab-id", "key-1", None)]
    (row,) = books.rows("SELECT document, search_text FROM published_nodes WHERE id = 'blur'")
    assert row == {"document": "{}", "search_text": ""}
    assert fault_of(run, registry.delete_node(LAB, "acme", "blur")) == NotThere(Kind.NODE, "blur")


@pytest.mark.req("G-01")
def test_version_number_of_a_deleted_node_is_never_used_again(registry: Registry, run: Run) -> None:
    """A node that is made again has none of its old versions, and can have none of their numbers."""
    run(publish_nodes(registry, LAB, "acme", "blur"))
    assert fault_of(run, registry.publish_version(LAB, "acme", "blur", version())) == VersionTaken("blur", "1.0.0")
    run(registry.delete_node(LAB, "acme", "blur"))
    missing = registry.publish_version(LAB, "acme", "blur", version("1.0.1"))
    assert fault_of(run, missing) == NotThere(Kind.NODE, "blur")
    again = run(registry.create_node(LAB, "acme", node(description="Again.")))
    assert (again.latest, again.document["description"]) == (None, "Again.")
    assert run(registry.versions("blur", None, 10)).entries == []
    assert fault_of(run, registry.publish_version(LAB, "acme", "blur", version())) == VersionTaken("blur", "1.0.0")
    assert run(registry.publish_version(LAB, "acme", "blur", version("1.0.1"))).place == 2
    assert latest(run(registry.node("blur"))) == "1.0.1"


@pytest.mark.req("G-01")
def test_deleted_id_stays_its_owners(registry: Registry, run: Run) -> None:
    """Ids of publishers and nodes are their first owner's for good; the owner may have them again."""
    run(publish_nodes(registry, LAB, "acme", "blur"))
    run(registry.create_publisher(OTHER, publisher("other")))
    run(registry.create_publisher(LAB, publisher("second")))
    assert fault_of(run, registry.create_publisher(LAB, publisher())) == IdTaken(Kind.PUBLISHER, "acme")
    run(registry.delete_publisher(LAB, "acme"))
    assert fault_of(run, registry.create_publisher(OTHER, publisher())) == IdTaken(Kind.PUBLISHER, "acme")
    assert fault_of(run, registry.create_node(OTHER, "other", node())) == IdTaken(Kind.NODE, "blur")
    assert fault_of(run, registry.create_node(LAB, "second", node())) == IdTaken(Kind.NODE, "blur")
    assert fault_of(run, registry.create_node(LAB, "acme", node())) == NotThere(Kind.PUBLISHER, "acme")
    assert run(registry.create_publisher(LAB, publisher())).deleted_at is None
    assert run(registry.nodes_of("acme", None, 10)).entries == []
    assert run(registry.create_node(LAB, "acme", node())).id == "blur"


@pytest.mark.req("G-01", "G-02")
def test_deleting_a_publisher_deletes_its_nodes(registry: Registry, books: Books, run: Run) -> None:
    """A publisher is deleted with its nodes, each of which is told of."""
    run(publish_nodes(registry, LAB, "acme", "blur", "sharpen"))
    run(registry.delete_publisher(LAB, "acme"))
    assert run(registry.nodes("", None, 10)).entries == []
    assert run(registry.publishers(None, 10)).entries == []
    for read in (registry.publisher("acme"), registry.nodes_of("acme", None, 10)):
        assert fault_of(run, read) == NotThere(Kind.PUBLISHER, "acme")
    assert [act[:2] for act in acts(books)[-3:]] == [
        ("node_deleted", "blur"),
        ("node_deleted", "sharpen"),
        ("publisher_deleted", None),
    ]
    for write in (registry.delete_publisher(LAB, "acme"), registry.change_publisher(LAB, "acme", publisher())):
        assert fault_of(run, write) == NotThere(Kind.PUBLISHER, "acme")


@pytest.mark.req("G-02")
def test_refused_deletion_changes_nothing(registry: Registry, books: Books, run: Run) -> None:
    """Anyone who is not the owner, or names what is not there or another publisher's, changes nothing."""
    run(publish_nodes(registry, LAB, "acme", "blur"))
    run(publish_nodes(registry, LAB, "second", "sharpen"))
    run(publish_nodes(registry, OTHER, "other", "theirs"))
    before = acts(books)
    refused = [
        (OTHER, "acme", "blur", NotOwner("acme")),
        (OTHER, "acme", "nothing", NotOwner("acme")),
        (LAB, "nobody", "blur", NotThere(Kind.PUBLISHER, "nobody")),
        (LAB, "acme", "nothing", NotThere(Kind.NODE, "nothing")),
        (LAB, "acme", "sharpen", NotThere(Kind.NODE, "sharpen")),
        (LAB, "acme", "theirs", NotThere(Kind.NODE, "theirs")),
        (LAB, "acme", "a\x00b", NotThere(Kind.NODE, "a\x00b")),
        (LAB, "..", "blur", NotThere(Kind.PUBLISHER, "..")),
    ]
    for caller, publisher_id, node_id, fault in refused:
        assert fault_of(run, registry.delete_node(caller, publisher_id, node_id)) == fault
    assert len(run(registry.nodes("", None, 10)).entries) == 3
    assert acts(books) == before


@pytest.mark.req("G-02")
def test_banned_entry_cannot_be_changed_or_created_again(
    registry: Registry, database: Database, books: Books, run: Run
) -> None:
    """What is banned is shown nowhere, and is not changed, deleted or made again before the ban ends."""
    run(publish_nodes(registry, LAB, "acme", "blur", "sharpen"))
    run(registry.delete_node(LAB, "acme", "sharpen"))

    def set_banned(kind: Kind, id_: str, *, banned: bool) -> bool:
        done: bool = run(operations.set_banned(database, kind, id_, _CLOCK, banned=banned))
        return done

    assert set_banned(Kind.NODE, "sharpen", banned=True)
    assert fault_of(run, registry.create_node(LAB, "acme", node("sharpen"))) == Banned(Kind.NODE, "sharpen")
    assert set_banned(Kind.NODE, "blur", banned=True)
    assert not set_banned(Kind.NODE, "blur", banned=True)
    banned: list[Callable[[], Any]] = [
        lambda: registry.delete_node(LAB, "acme", "blur"),
        lambda: registry.publish_version(LAB, "acme", "blur", version("2.0.0")),
    ]
    assert [fault_of(run, work()) for work in banned] == [Banned(Kind.NODE, "blur")] * 2
    assert run(registry.nodes("", None, 10)).entries == []
    assert fault_of(run, registry.node("blur")) == NotThere(Kind.NODE, "blur")
    assert set_banned(Kind.NODE, "blur", banned=False)
    assert set_banned(Kind.PUBLISHER, "acme", banned=True)
    banned += [
        lambda: registry.create_node(LAB, "acme", node("new")),
        lambda: registry.change_publisher(LAB, "acme", publisher()),
        lambda: registry.delete_publisher(LAB, "acme"),
    ]
    assert [fault_of(run, work()) for work in banned] == [Banned(Kind.PUBLISHER, "acme")] * 5
    assert fault_of(run, registry.node("blur")) == NotThere(Kind.NODE, "blur")
    assert fault_of(run, registry.publisher("acme")) == NotThere(Kind.PUBLISHER, "acme")
    assert set_banned(Kind.PUBLISHER, "acme", banned=False)
    assert latest(run(registry.node("blur"))) == "1.0.0"
    assert [act for act in acts(books) if act[0].startswith("publisher_") and "ban" in act[0]] == [
        ("publisher_banned", None, "lab-id", None, None),
        ("publisher_unbanned", None, "lab-id", None, None),
    ]
    with pytest.raises(UnknownEntryError):
        set_banned(Kind.NODE, "acme", banned=True)


def test_banned_publisher_cannot_return_by_being_deleted(registry: Registry, database: Database, run: Run) -> None:
    """A publisher that was banned after it had been deleted is not made again."""
    run(publish_nodes(registry))
    run(registry.delete_publisher(LAB, "acme"))
    run(operations.set_banned(database, Kind.PUBLISHER, "acme", _CLOCK, banned=True))
    assert fault_of(run, registry.create_publisher(LAB, publisher())) == Banned(Kind.PUBLISHER, "acme")


def test_pages_hold_every_entry_once(registry: Registry, run: Run) -> None:
    """Pages hold every entry once, in order, also while others are added and deleted."""
    run(publish_nodes(registry, LAB, "acme", "a", "b", "c", "d", "e"))
    run(publish_nodes(registry, LAB, "bcme"))
    page = run(registry.nodes("", None, 2))
    assert ([one.id for one in page.entries], page.after) == (["a", "b"], "b")
    run(registry.delete_node(LAB, "acme", "b"))
    run(registry.create_node(LAB, "acme", node("a0")))
    page = run(registry.nodes("", page.after, 2))
    assert ([one.id for one in page.entries], page.after) == (["c", "d"], "d")
    page = run(registry.nodes_of("acme", page.after, 1))
    assert ([one.id for one in page.entries], page.after) == (["e"], None)
    for number in range(1, 4):
        run(registry.publish_version(LAB, "acme", "e", version(f"1.0.{number}")))
    first = run(registry.versions("e", None, 3))
    rest = run(registry.versions("e", first.after, 3))
    assert [one.version for one in (*first.entries, *rest.entries)] == ["1.0.3", "1.0.2", "1.0.1", "1.0.0"]
    assert rest.after is None
    publishers = run(registry.publishers(None, 1))
    assert [one.id for one in run(registry.publishers(publishers.after, 1)).entries] == ["bcme"]


def test_forged_cursor_is_refused(registry: Registry, run: Run) -> None:
    """A cursor is written by its caller in the end, and what stands in it is looked at."""
    run(publish_nodes(registry, LAB, "acme", "blur"))
    for work in (
        registry.nodes("", "\x00", 2),
        registry.publishers("A", 2),
        registry.nodes_of("acme", "", 2),
        registry.versions("blur", "-1", 2),
        registry.versions("blur", "9" * 10, 2),
        registry.versions("blur", "", 2),
    ):
        with pytest.raises(FaultError) as raised:
            run(work)
        assert isinstance(raised.value.fault, InvalidInput)


def test_search_needs_every_word(registry: Registry, run: Run) -> None:
    """Every word must be there, whatever its case; a sign of the database's patterns is a letter like others."""
    run(registry.create_publisher(LAB, publisher()))
    run(registry.create_node(LAB, "acme", node("blur", description="100% GAUSSIAN\nsoft_ness", tags=("Filter",))))
    run(registry.create_node(LAB, "acme", node("sharpen", description="100 ways", author="Ärni")))

    def find_ids(search: str) -> list[str]:
        return [one.id for one in run(registry.nodes(search, None, 10)).entries]

    assert find_ids("100") == ["blur", "sharpen"]
    assert find_ids("gaussian FILTER") == ["blur"]
    assert find_ids("gaussian ways") == []
    assert find_ids("100%") == find_ids("t_n") == ["blur"]
    assert find_ids("%") == ["blur"]
    assert find_ids("ÄRNI") == ["sharpen"]
    assert find_ids("\\") == find_ids("'; --") == []


def test_registry_is_bounded(registry: Registry, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """There are so many of everything, those that were deleted among them, and what is too much changes nothing."""
    for name in ("PUBLISHERS_MAX", "NODES_MAX", "VERSIONS_MAX"):
        monkeypatch.setattr(operations, name, 1)
    run(publish_nodes(registry, LAB, "acme", "blur"))
    assert fault_of(run, registry.create_publisher(LAB, publisher("more"))) == TooMany("publishers", 1)
    assert fault_of(run, registry.create_node(LAB, "acme", node("more"))) == TooMany("nodes", 1)
    assert fault_of(run, registry.publish_version(LAB, "acme", "blur", version("2.0.0"))) == TooMany("versions", 1)
    run(registry.delete_node(LAB, "acme", "blur"))
    assert fault_of(run, registry.create_node(LAB, "acme", node("more"))) == TooMany("nodes", 1)
    run(registry.create_node(LAB, "acme", node("blur")))
    assert fault_of(run, registry.publish_version(LAB, "acme", "blur", version("2.0.0"))) == TooMany("versions", 1)
    run(registry.create_publisher(OTHER, publisher("other")))


def test_one_of_several_concurrent_creations_succeeds(registry: Registry, run: Run) -> None:
    """Of several that make the same thing at the same moment one succeeds, and the others are told."""

    async def at_once(*works: Any) -> list[str]:
        ended = await asyncio.gather(*works, return_exceptions=True)
        return sorted(
            type(one.fault).__name__ if isinstance(one, RegistryFaultError) else type(one).__name__ for one in ended
        )

    both = [registry.create_publisher(caller, publisher("contested")) for caller in (LAB, OTHER)]
    assert run(at_once(*both)) == ["IdTaken", "Publisher"]
    run(publish_nodes(registry, LAB, "acme"))
    run(publish_nodes(registry, OTHER, "other"))
    nodes = [registry.create_node(LAB, "acme", node()), registry.create_node(OTHER, "other", node())]
    assert run(at_once(*nodes)) == ["IdTaken", "PublishedNode"]
    owner, id_ = (LAB, "acme") if run(registry.node("blur")).publisher_id == "acme" else (OTHER, "other")
    versions = [registry.publish_version(owner, id_, "blur", version()) for _ in range(4)]
    assert run(at_once(*versions)) == ["NodeVersion", *["VersionTaken"] * 3]
    deletions = [registry.delete_node(owner, id_, "blur") for _ in range(3)]
    assert run(at_once(*deletions)) == ["NoneType", "NotThere", "NotThere"]


def test_node_never_outlives_its_publisher(registry: Registry, run: Run) -> None:
    """A node that arrives with its publisher's deletion is refused, or deleted with it; it is never left."""

    async def at_once() -> None:
        making = [registry.create_node(LAB, "acme", node(f"n-{number}")) for number in range(4)]
        await asyncio.gather(*making[:2], registry.delete_publisher(LAB, "acme"), *making[2:], return_exceptions=True)

    run(publish_nodes(registry))
    run(at_once())
    assert run(registry.nodes("", None, 10)).entries == []


@dataclass
class _World:
    """What the registry must be like: the rules in their plainest form."""

    owners: dict[str, str] = field(default_factory=dict)
    homes: dict[str, str] = field(default_factory=dict)
    alive: set[str] = field(default_factory=set)
    banned: set[str] = field(default_factory=set)
    numbers: dict[str, list[str]] = field(default_factory=dict)
    shown: dict[str, list[str]] = field(default_factory=dict)
    acts: int = 0

    def refusal(self, caller: str, publisher_id: str, node_id: str | None = None) -> str | None:
        """Name why something may not be changed."""
        if publisher_id not in self.alive:
            return "NotThere"
        if self.owners[publisher_id] != caller:
            return "NotOwner"
        if publisher_id in self.banned:
            return "Banned"
        if node_id is None:
            return None
        if node_id not in self.alive or self.homes[node_id] != publisher_id:
            return "NotThere"
        return "Banned" if node_id in self.banned else None

    def list_nodes(self) -> Iterator[str]:
        """Name the nodes that everybody may see."""
        for node_id, home in self.homes.items():
            if {node_id, home} <= self.alive and not {node_id, home} & self.banned:
                yield node_id

    def create_publisher(self, caller: str, publisher_id: str) -> str | None:
        """Make a publisher."""
        if publisher_id in self.owners:
            if self.owners[publisher_id] != caller or publisher_id in self.alive:
                return "IdTaken"
            if publisher_id in self.banned:
                return "Banned"
        self.owners[publisher_id] = caller
        self.alive.add(publisher_id)
        self.acts += 1
        return None

    def delete_publisher(self, caller: str, publisher_id: str) -> str | None:
        """Delete a publisher."""
        if refusal := self.refusal(caller, publisher_id):
            return refusal
        gone = {node_id for node_id in self.alive if self.homes.get(node_id) == publisher_id}
        self.alive -= {publisher_id, *gone}
        self.shown |= {node_id: [] for node_id in gone}
        self.acts += 1 + len(gone)
        return None

    def create_node(self, caller: str, publisher_id: str, node_id: str) -> str | None:
        """Make a node."""
        if refusal := self.refusal(caller, publisher_id):
            return refusal
        if node_id in self.homes:
            if self.homes[node_id] != publisher_id or node_id in self.alive:
                return "IdTaken"
            if node_id in self.banned:
                return "Banned"
        self.homes[node_id] = publisher_id
        self.alive.add(node_id)
        self.acts += 1
        return None

    def delete_node(self, caller: str, publisher_id: str, node_id: str) -> str | None:
        """Delete a node."""
        if refusal := self.refusal(caller, publisher_id, node_id):
            return refusal
        self.alive.remove(node_id)
        self.shown[node_id] = []
        self.acts += 1
        return None

    def publish(self, caller: str, publisher_id: str, node_id: str, number: str) -> str | None:
        """Publish a version."""
        if refusal := self.refusal(caller, publisher_id, node_id):
            return refusal
        if number in self.numbers.get(node_id, []):
            return "VersionTaken"
        self.numbers.setdefault(node_id, []).append(number)
        self.shown.setdefault(node_id, []).insert(0, number)
        self.acts += 1
        return None

    def set_banned(self, id_: str, *, banned: bool) -> str | None:
        """Ban something, or end its ban."""
        if id_ not in self.owners and id_ not in self.homes:
            return "UnknownEntryError"
        if (id_ in self.banned) != banned:
            self.banned.symmetric_difference_update({id_})
            self.acts += 1
        return None


_CALLERS: Final = {"lab-id": LAB, "other-id": OTHER}
_callers = st.sampled_from(sorted(_CALLERS))
_publishers = st.sampled_from(["p", "q"])
_nodes = st.sampled_from(["x", "y"])
_steps = st.one_of(
    st.tuples(st.just("create_publisher"), _callers, _publishers),
    st.tuples(st.just("delete_publisher"), _callers, _publishers),
    st.tuples(st.just("create_node"), _callers, _publishers, _nodes),
    st.tuples(st.just("create_node"), _callers, _publishers, _nodes),
    st.tuples(st.just("delete_node"), _callers, _publishers, _nodes),
    st.tuples(st.just("publish"), _callers, _publishers, _nodes, st.sampled_from(["1.0.0", "1.1.0"])),
    st.tuples(st.just("publish"), _callers, _publishers, _nodes, st.sampled_from(["1.0.0", "1.1.0"])),
    st.tuples(st.just("ban"), st.one_of(_publishers, _nodes)),
    st.tuples(st.just("unban"), st.one_of(_publishers, _nodes)),
)


async def _take(registry: Registry, database: Database, step: tuple[str, ...], mark: str) -> str | None:
    """Take a step; the name of the fault it ends in, or None."""
    ids = [mark + part if part in "pqxy" else part for part in step[1:]]
    match step[0]:
        case "create_publisher":
            work: Any = registry.create_publisher(_CALLERS[ids[0]], publisher(ids[1]))
        case "delete_publisher":
            work = registry.delete_publisher(_CALLERS[ids[0]], ids[1])
        case "create_node":
            work = registry.create_node(_CALLERS[ids[0]], ids[1], node(ids[2]))
        case "delete_node":
            work = registry.delete_node(_CALLERS[ids[0]], ids[1], ids[2])
        case "publish":
            work = registry.publish_version(_CALLERS[ids[0]], ids[1], ids[2], version(ids[3]))
        case ban:
            kind = Kind.PUBLISHER if step[1] in "pq" else Kind.NODE
            work = operations.set_banned(database, kind, ids[0], _CLOCK, banned=ban == "ban")
    try:
        await work
    except RegistryFaultError as error:
        return type(error.fault).__name__
    except UnknownEntryError as error:
        return type(error).__name__
    return None


def _expected_fault(world: _World, step: tuple[str, ...]) -> str | None:
    if step[0] in ("ban", "unban"):
        return world.set_banned(step[1], banned=step[0] == "ban")
    expected: str | None = getattr(world, step[0])(*step[1:])
    return expected


async def _has_versions(registry: Registry, node_id: str) -> list[str]:
    return [one.version for one in (await registry.versions(node_id, None, 100)).entries]


@pytest.mark.req("G-01", "G-02", "G-03")
@given(steps=st.lists(_steps, min_size=5, max_size=25))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_registry_agrees_with_a_plain_model(
    registry: Registry, database: Database, books: Books, run: Run, steps: list[tuple[str, ...]]
) -> None:
    """Whatever is done in whatever order, everything is answered and listed as the plainest model says."""
    mark, world, before = f"e{next(_EXAMPLES)}-", _World(), len(acts(books))

    async def play() -> None:
        for step in steps:
            assert await _take(registry, database, step, mark) == _expected_fault(world, step), step
        listed = [one for one in (await registry.nodes(mark, None, 100)).entries if one.id.startswith(mark)]
        assert {one.id for one in listed} == {mark + node_id for node_id in world.list_nodes()}
        for one in listed:
            assert (await registry.publisher(one.publisher_id)).id == one.publisher_id
            assert await _has_versions(registry, one.id) == world.shown.get(one.id.removeprefix(mark), [])

    run(play())
    assert len(acts(books)) - before == world.acts
