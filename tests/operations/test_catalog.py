"""The catalog in force: replaced whole when its files change, kept when they are wrong."""

import datetime
from pathlib import Path

import pytest

from fairlead.clock import Clock
from fairlead.domain.accounts.callers import Caller, Patterns
from fairlead.domain.declarations import BadFileError
from fairlead.domain.faults import FaultError, InvalidInput, ModelNotFound
from fairlead.domain.ledger.estimates import Caution
from fairlead.observing.observations import CatalogLoaded, CatalogRefused, Observation
from fairlead.operations.catalog import CatalogKeeper, cautioned_cards, price_rows, read_catalog, write_snapshots
from fairlead.providers.spec import Provider
from operations.servers import FLAG, providers_at

ANYBODY = Caller("id", "lab")
IDS = ["acme/careful-later", "acme/careful-now", "acme/plain-later", "acme/plain-now"]


@pytest.fixture
def proven_books() -> None:
    """Take the folder's proof away: there are no books here."""


@pytest.fixture
def providers() -> dict[str, Provider]:
    """Return the providers the models name."""
    return providers_at("http://127.0.0.1:1")


@pytest.fixture
def seen() -> list[Observation]:
    """Return what has been observed."""
    return []


@pytest.fixture
def keeper(folder: Path, providers: dict[str, Provider], seen: list[Observation]) -> CatalogKeeper:
    """Return a keeper of the folder."""
    return CatalogKeeper([folder], providers, FLAG, Clock(), seen.append)


def ids(
    keeper: CatalogKeeper, limit: int | None = None, build: str | None = None, after: str | None = None
) -> list[str]:
    """Return the ids of a page."""
    return [model.id for model in keeper.page(ANYBODY, limit, build, after).models]


def test_unchanged_files_are_not_read_again(keeper: CatalogKeeper, seen: list[Observation]) -> None:
    """A look that finds nothing new changes and observes nothing."""
    before = keeper.current
    keeper.reload_if_changed()
    assert keeper.current is before
    assert seen == [CatalogLoaded(before.build, 4)]


@pytest.mark.req("R-02")
def test_new_file_takes_effect_without_a_restart(keeper: CatalogKeeper, folder: Path, seen: list[Observation]) -> None:
    """A file that was added takes effect whole, under a new build."""
    build = keeper.current.build
    (folder / "more.toml").write_text((folder / "plain-now.toml").read_text().replace("acme/", "more/"))
    keeper.reload_if_changed()
    assert ids(keeper) == [*IDS, "more/plain-now"]
    assert keeper.current.build != build
    assert seen[1:] == [CatalogLoaded(keeper.current.build, 5)]


def test_invalid_file_leaves_the_catalog_as_it_was(
    keeper: CatalogKeeper, folder: Path, seen: list[Observation]
) -> None:
    """A file that cannot be used is observed once, and the catalog before it stays until it is mended."""
    file = folder / "plain-now.toml"
    good = file.read_text()
    file.write_text(good.replace('call = "now"', 'call = "never"'))
    for _ in range(3):
        keeper.reload_if_changed()
    assert ids(keeper) == IDS
    (refused,) = (entry for entry in seen if isinstance(entry, CatalogRefused))
    line = 1 + good[: good.index("call = ")].count("\n")
    assert f"plain-now.toml:{line}: " in refused.error
    file.unlink()
    keeper.reload_if_changed()
    assert "acme/plain-now" not in ids(keeper)


def test_files_that_ship_are_looked_at_every_tenth_time(folder: Path, providers: dict[str, Provider]) -> None:
    """Those of an operator's folder are looked at each time."""
    text = (folder / "plain-now.toml").read_text()
    own = folder.with_name("own")
    own.mkdir()
    for schema in folder.glob("*.json"):
        (own / schema.name).write_bytes(schema.read_bytes())
    keeper = CatalogKeeper([folder, own], providers, FLAG, Clock(), lambda _: None, shipped=folder)
    (own / "own.toml").write_text(text.replace("acme/", "own/"))
    keeper.reload_if_changed()
    assert "own/plain-now" in ids(keeper)
    (folder / "shipped.toml").write_text(text.replace("acme/", "shipped/"))
    for _ in range(8):
        keeper.reload_if_changed()
    assert "shipped/plain-now" not in ids(keeper)
    keeper.reload_if_changed()
    assert "shipped/plain-now" in ids(keeper)


def test_server_does_not_start_with_an_invalid_file(
    folder: Path, providers: dict[str, Provider], seen: list[Observation]
) -> None:
    """At the start there is no catalog to keep: the mistake is the operator's to mend."""
    (folder / "plain-now.toml").write_text("id = 5")
    with pytest.raises(BadFileError, match=r"plain-now\.toml:1: "):
        CatalogKeeper([folder], providers, FLAG, Clock(), seen.append)


@pytest.mark.req("R-02")
def test_pages_show_each_model_once(keeper: CatalogKeeper) -> None:
    """Each page says where the next begins, and the last says nothing."""
    first = keeper.page(ANYBODY, 3, None, None)
    assert ([model.id for model in first.models], first.limit, first.after) == (IDS[:3], 3, IDS[2])
    second = keeper.page(ANYBODY, 3, keeper.current.build, first.after)
    assert ([model.id for model in second.models], second.after) == (IDS[3:], None)
    assert keeper.page(ANYBODY, 500, None, None).limit == 100
    assert keeper.page(ANYBODY, None, None, None).limit == 20


@pytest.mark.req("R-03")
def test_cursor_dies_with_its_catalog(keeper: CatalogKeeper, folder: Path) -> None:
    """A cursor dies with the catalog it was made for, whichever catalog that was."""
    build = keeper.current.build
    (folder / "plain-now.toml").unlink()
    keeper.reload()
    for old in (build, "0" * 16, ""):
        with pytest.raises(FaultError) as caught:
            ids(keeper, 2, old, IDS[0])
        assert isinstance(caught.value.fault, InvalidInput)


@pytest.mark.req("R-02")
def test_caller_pages_only_through_what_it_may_see(keeper: CatalogKeeper) -> None:
    """Only models the caller may run are counted and listed."""
    limited = Caller("id", "lab", credential_models=Patterns(("acme/plain-*",)))
    page = keeper.page(limited, 2, None, None)
    assert ([model.id for model in page.models], page.after) == (IDS[2:], None)


@pytest.mark.req("R-05", "R-06")
def test_retired_model_is_refused_with_its_date(keeper: CatalogKeeper, folder: Path) -> None:
    """A model is found until its date, and afterwards refused with it."""
    assert keeper.model("acme/plain-now", ANYBODY).id == "acme/plain-now"
    file = folder / "plain-now.toml"
    file.write_text(file.read_text() + "\n[retirement]\ndate = 2021-05-06\n")
    keeper.reload()
    with pytest.raises(FaultError) as caught:
        keeper.model("acme/plain-now", ANYBODY)
    assert caught.value.fault == ModelNotFound("acme/plain-now", retired_on="2021-05-06")


@pytest.mark.req("R-09")
def test_snapshot_of_a_removed_model_is_deleted(folder: Path, providers: dict[str, Provider], tmp_path: Path) -> None:
    """Snapshots are the served documents of authored schemas; those of models that are gone are dropped."""
    catalog, snapshots = read_catalog([folder], providers, FLAG), tmp_path / "snapshots"
    assert write_snapshots(catalog, snapshots) == 4
    assert (snapshots / "acme" / "plain-now.json").read_bytes() == catalog.models["acme/plain-now"].openapi.content
    (folder / "plain-now.toml").unlink()
    assert write_snapshots(read_catalog([folder], providers, FLAG), snapshots) == 3
    assert not (snapshots / "acme" / "plain-now.json").exists()


def test_only_cards_in_force_are_cautioned(folder: Path, providers: dict[str, Provider]) -> None:
    """A promotion that another card has replaced troubles nobody, and neither does a card that is yet to come."""
    path = folder / "plain-now.toml"
    card = path.read_text()[path.read_text().index("[[legs.rate_cards]]") :]
    ended = card.replace("effective", "stale_after = 2026-02-01\neffective")
    derived = card.replace("effective = 2020-01-01", "derived = true\neffective = 2026-03-01").replace("v1", "v2")
    path.write_text(path.read_text().replace(card, ended + "\n" + derived))
    catalog = read_catalog([folder], providers, FLAG)

    def told(month: int) -> list[Caution]:
        today = datetime.date(2026, month, 15)
        rows = [caution for row in price_rows(catalog, today) for caution in row.cautions]
        found = cautioned_cards(catalog, today)
        assert rows == [caution for caution, cards in found.items() if cards == ["acme/plain-now at plain"]]
        return rows

    assert [told(month) for month in (1, 2, 3)] == [[], [Caution.STALE], [Caution.DERIVED]]
