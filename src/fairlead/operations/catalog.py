"""The catalog in force: loaded from files, replaced when they change, never by one that cannot be used."""

import datetime
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Final

import msgspec

from fairlead.clock import Clock
from fairlead.domain.accounts.callers import Caller, Patterns, refuse_model
from fairlead.domain.catalog.models import ALL, Catalog, Model, Selection, catalog_limit, page_after
from fairlead.domain.declarations import BadFileError
from fairlead.domain.faults import FaultError, InvalidInput, ModelNotFound
from fairlead.domain.ledger.estimates import Caution, cautions_of, price_lines
from fairlead.domain.ledger.markups import Markups
from fairlead.domain.ledger.rates import card_in_force
from fairlead.observing.observations import CatalogLoaded, CatalogRefused, Observer
from fairlead.providers.spec import Provider
from fairlead.storage.accounts.workspace_records import find_record
from fairlead.storage.catalog.files import Offer
from fairlead.storage.catalog.reader import Fingerprint, fingerprint, load_catalog
from fairlead.storage.db.database import Database


class Page(msgspec.Struct, frozen=True):
    """One page of the catalog; `after` is the position of the next page, None on the last."""

    models: Sequence[Model]
    limit: int
    after: str | None


class UnknownModelError(Exception):
    """No model has this id; the text names those that are alike, and `field` where it was named."""

    def __init__(self, field: str, fault: ModelNotFound) -> None:
        hint = f" Did you mean {', '.join(fault.suggestions)}?" if fault.suggestions else ""
        super().__init__(f"There is no model {fault.model_id[:200]}.{hint}")
        self.field = field


class ReadFiles(msgspec.Struct, frozen=True):
    """The files of a catalog as they were read, with their fingerprints: not in force yet."""

    seen: Mapping[Path, Fingerprint]
    catalog: Catalog


class PriceRow(msgspec.Struct, frozen=True):
    """The prices of a model at a provider from a day on: one text per component.

    `cautions` are those of the card in force; a card that was replaced, or is yet to come, has none.
    """

    model: str
    provider: str
    price: tuple[str, ...]
    effective: datetime.date
    source: str | None
    checked: datetime.date | None
    markup: str
    check_by: datetime.date | None
    stale_after: datetime.date | None
    cautions: tuple[Caution, ...]

    def age(self, today: datetime.date) -> int | None:
        """Days since the price was compared with its source; None if it never was."""
        return None if self.checked is None else (today - self.checked).days


_SHIPPED_EVERY: Final = 10
"""The shipped files are checked once in so many checks: they change only with an upgrade, and a check takes 2 ms."""


class CatalogKeeper:
    """Holds the catalog in force. Reading it never waits; a reload swaps it whole.

    Every check covers all files of an operator's folders; the `shipped` folder is checked every tenth time. `flag` is
    the extension of schema documents that says whether a schema is authored (R-08). `markups` are on every price;
    `hold_times` bounds holds, as a multiple of the typical price.
    """

    def __init__(
        self,
        folders: Sequence[Path],
        providers: Mapping[str, Provider],
        flag: str,
        clock: Clock,
        observe: Observer,
        markups: Markups | None = None,
        shipped: Path | None = None,
        hold_times: Decimal | None = None,
    ) -> None:
        self._folders = folders
        self._hold_times = hold_times
        self._watched = [folder for folder in folders if folder != shipped]
        self._looks = 0
        self._markups = Markups() if markups is None else markups
        self._flag = flag
        self._offers = _offers(providers)
        self._clock = clock
        self._observe = observe
        self._seen: Mapping[Path, Fingerprint] = self._fingerprints(folders)
        self.current: Catalog = self._load()
        self.loaded_at = clock.now_ms()
        """When the catalog in force, and every rate card in it, was read (ms since 1970)."""
        self.mistake: str | None = None
        """The mistake in the files as they were last read, because of which they are not in force."""
        observe(CatalogLoaded(self.current.build, len(self.current.models)))

    def reload(self) -> None:
        """Read the files again. A mistake in them is observed and changes nothing."""
        if (read := self.read()) is not None:
            self.put_in_force(read)

    def read(self) -> ReadFiles | None:
        """The files as they are now, for `put_in_force`; None for a mistake in them, which is observed."""
        seen = self._fingerprints(self._folders)
        try:
            return ReadFiles(seen, self._load())
        except BadFileError as error:
            self._seen = seen
            self.mistake = str(error)
            self._observe(CatalogRefused(self.mistake))
            return None

    def put_in_force(self, read: ReadFiles) -> None:
        """Replace the catalog in force. Files that were written since they were read are seen by the next check."""
        self._seen = read.seen
        self.mistake = None
        self.current = read.catalog
        self.loaded_at = self._clock.now_ms()
        self._observe(CatalogLoaded(read.catalog.build, len(read.catalog.models)))

    def _load(self) -> Catalog:
        loaded = load_catalog(self._folders, self._offers, self._flag)
        return loaded.with_markups(self._markups).with_hold_times(self._hold_times)

    def reload_if_changed(self) -> None:
        """Reload when a file was added, removed or written since the last check; to be called once a second."""
        self._looks += 1
        folders = self._watched if self._looks % _SHIPPED_EVERY else self._folders
        if any(self._seen[folder] != seen for folder, seen in self._fingerprints(folders).items()):
            self.reload()

    @staticmethod
    def _fingerprints(folders: Sequence[Path]) -> dict[Path, Fingerprint]:
        return {folder: fingerprint(folder) for folder in folders}

    def today(self) -> datetime.date:
        """The day (UTC) by which models retire and rate cards come into force."""
        return self._clock.today()

    def cautions(self) -> dict[str, int]:
        """How many rate cards in force deserve attention today, by why."""
        return {caution.value: len(cards) for caution, cards in cautioned_cards(self.current, self.today()).items()}

    def page(
        self, caller: Caller, limit: int | None, build: str | None, after: str | None, wanted: Selection = ALL
    ) -> Page:
        """A page of what a caller may see (R-02); FaultError when the cursor's catalog is no longer in force (R-03)."""
        catalog = self.current
        if build is not None and build != catalog.build:
            raise FaultError(InvalidInput("The cursor has expired: the catalog changed. Start again without one."))
        applied = catalog_limit(limit)
        ids, more = page_after(catalog.selected_ids(caller, self._clock.today(), wanted), after, applied)
        return Page([catalog.models[model_id] for model_id in ids], applied, ids[-1] if more else None)

    def model(self, model_id: str, caller: Caller) -> Model:
        """A runnable model by id (R-05, R-06); FaultError with ModelNotFound, or Forbidden without entitlement."""
        found = self.current.find(model_id, caller, self._clock.today())
        if isinstance(found, ModelNotFound):
            raise FaultError(found)
        if fault := refuse_model(caller, model_id):
            raise FaultError(fault)
        return found


async def check_models(
    database: Database, catalog: Catalog, workspace_id: str, field: str, names: Iterable[str], today: datetime.date
) -> None:
    """Check that models exist, retired ones too; a name with `*` at its end may stand for none. UnknownModelError.

    Only models that the workspace may run are suggested.
    """
    unknown = next((name for name in names if not name.endswith("*") and name not in catalog.models), None)
    if unknown is None:
        return
    record = await database.read(lambda c: find_record(c, workspace_id))
    allowed = Patterns(None if record.models is None else tuple(record.models))
    found = catalog.find(unknown, Caller(record.id, record.name, workspace_models=allowed), today)
    if isinstance(found, ModelNotFound):
        raise UnknownModelError(field, found)


def read_catalog(folders: Sequence[Path], providers: Mapping[str, Provider], flag: str) -> Catalog:
    """Read the catalog's files without a server; BadFileError. `flag` is what schema documents are marked with."""
    return load_catalog(folders, _offers(providers), flag)


def price_rows(catalog: Catalog, today: datetime.date) -> list[PriceRow]:
    """One row per rate card: models sorted by id, legs and cards as in their files."""
    return [
        PriceRow(
            model_id,
            leg.provider,
            tuple(price_lines(card)),
            card.effective,
            card.source,
            card.checked,
            f"{card.markup:f}",
            card.check_by,
            card.stale_after,
            cautions_of(card, today) if card is card_in_force(leg.rate_cards, today) else (),
        )
        for model_id in catalog.ids
        for leg in catalog.models[model_id].legs
        for card in leg.rate_cards
    ]


def cautioned_cards(catalog: Catalog, today: datetime.date) -> dict[Caution, list[str]]:
    """The cards in force that deserve attention, by why, each as `model at provider`; every caution is a key."""
    found: dict[Caution, list[str]] = {caution: [] for caution in Caution}
    for model_id in catalog.ids:
        for leg in catalog.models[model_id].legs:
            card = card_in_force(leg.rate_cards, today)
            for caution in () if card is None else cautions_of(card, today):
                found[caution].append(f"{model_id} at {leg.provider}")
    return found


def write_snapshots(catalog: Catalog, folder: Path) -> int:
    """Write the public snapshot of every authored schema (R-09), delete those of removed models, and count them."""
    wanted = {folder / f"{model.id}.json": model for model in catalog.models.values() if model.input_schema is not None}
    for path in set(folder.glob("*/*.json")) - set(wanted):
        path.unlink()
    for path, model in wanted.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(model.openapi.content)
    return len(wanted)


def _offers(providers: Mapping[str, Provider]) -> dict[str, Offer]:
    """What each provider offers, as model files may name it."""
    return {name: Offer(frozenset(provider.calls), provider.is_alternate) for name, provider in providers.items()}
