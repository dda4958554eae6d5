"""Models, the legs that serve them, and the catalog of them all (R-02, R-05, R-06)."""

import bisect
import datetime
import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Final

import msgspec

from fairlead.domain.accounts.callers import Caller
from fairlead.domain.catalog.operations import SOLE, Operation, select_operation
from fairlead.domain.catalog.schema import InputSchema
from fairlead.domain.catalog.strict_forms import StrictForm
from fairlead.domain.catalog.translations import Translation
from fairlead.domain.faults import ModelNotFound
from fairlead.domain.ledger.markups import Markups
from fairlead.domain.ledger.quantities import files_in
from fairlead.domain.ledger.rates import RateCard
from fairlead.domain.pointers import Pointer, find_all

CATALOG_LIMIT_DEFAULT: Final = 20
CATALOG_LIMIT_MAX: Final = 100
SUGGESTIONS_MAX: Final = 3
_SUGGESTION_LIKENESS: Final = 0.5


class Assets(msgspec.Struct, frozen=True):
    """Which links of a result are copied to our storage, and for how many seconds our links are valid (R-36)."""

    at: tuple[Pointer, ...]
    lifetime: int | None = None


class Leg(msgspec.Struct, frozen=True):
    """One way to run a model: a provider, its calls by operation, and what it costs there.

    `name` is the provider's own name of the model, by operation where it has several; `fixed` are top-level fields the
    provider wants and callers do not send. The first leg of a model is its native one and needs no translation.
    `strict` says what a body in the provider's own form may hold; every leg that callers can name has it.
    `hold_times` bounds the holds of its runs, as a multiple of what they usually cost; None where nothing does.
    """

    provider: str
    calls: Mapping[str, str]
    names: Mapping[str, str]
    rate_cards: tuple[RateCard, ...]
    fixed: Mapping[str, object] = msgspec.field(default_factory=dict)
    translation: Translation | None = None
    strict: StrictForm | None = None
    hold_times: Decimal | None = None

    def call(self, operation: str) -> str | None:
        """The call that serves an operation; None when this provider does not."""
        return self.calls.get(operation)


class Retirement(msgspec.Struct, frozen=True):
    """When a model stops being runnable, and what to use instead."""

    date: datetime.date
    successor: str | None = None


class Document(msgspec.Struct, frozen=True):
    """Bytes served as they are, with their entity tag."""

    content: bytes
    etag: str


_NO_ASSETS: Final = Assets(())


@dataclass(frozen=True, slots=True)
class Model:
    """A runnable model: the legs that serve it, its schema, and the public facts of its catalog entry.

    `operations` are tried in their order. `billed_as` are further operations that exist only in prices; where a body
    names the work of an earlier run at `draft_of`, it is billed as that run was (R-16). `canonical_id` is the model an
    alternate provider's own catalog id belongs to. `modality` is what it makes, where its file says so.
    """

    id: str
    legs: tuple[Leg, ...]
    charges_on_policy_rejection: str
    openapi: Document
    input_schema: InputSchema | None = None
    retirement: Retirement | None = None
    operations: tuple[Operation, ...] = (SOLE,)
    billed_as: tuple[Operation, ...] = ()
    draft_of: Pointer | None = None
    assets: Assets = _NO_ASSETS
    canonical_id: str | None = None
    title: str = ""
    modality: str | None = None
    native: Leg = field(init=False)
    """The leg of the model's own provider."""
    only: Operation | None = field(init=False)
    """The operation of every body, where the model has one operation and its prices know no others."""
    measured_files: tuple[Pointer, ...] = field(init=False)
    """The places in a body whose files its prices depend on."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "native", self.legs[0])
        is_single = len(self.operations) == 1 and not self.billed_as
        object.__setattr__(self, "only", self.operations[0] if is_single else None)
        components = [part for leg in self.legs for card in leg.rate_cards for part in card.components]
        places = (place for part in components if part.requested is not None for place in files_in(part.requested))
        object.__setattr__(self, "measured_files", tuple(dict.fromkeys(places)))

    def leg(self, provider: str) -> Leg | None:
        """The leg of a provider, None when it does not serve this model."""
        return next((leg for leg in self.legs if leg.provider == provider), None)

    def operation(self, body: object) -> Operation:
        """The operation that a body asks for (R-16); the last one where the conditions of no other hold."""
        return select_operation(self.operations, body)

    def billed_operation(self, body: object, operation: Operation) -> str | None:
        """The operation that a body is priced as; None for a model whose prices know no operations."""
        if self.billed_as:
            return select_operation(self.billed_as, body).name
        return operation.name if len(self.operations) > 1 else None

    def draft(self, body: object) -> str | None:
        """The provider's name of the earlier work a body goes on with, if it names one."""
        if self.draft_of is None:
            return None
        return next((str(found) for _, found in find_all(body, self.draft_of) if isinstance(found, str | int)), None)

    @property
    def provider(self) -> str:
        """The provider segment of the id."""
        return self.id.partition("/")[0]

    @property
    def name(self) -> str:
        """The model segment of the id."""
        return self.id.partition("/")[2]

    @property
    def bills_refusals(self) -> bool:
        """Whether a call refused on content grounds is charged like one that completed (R-27)."""
        return self.charges_on_policy_rejection == "yes"

    def is_retired(self, today: datetime.date) -> bool:
        """Whether its retirement date has come; a future date changes nothing (R-06)."""
        return self.retirement is not None and self.retirement.date <= today


class Selection(msgspec.Struct, frozen=True):
    """A search of the catalog: words of the id or the title, what is made, and the provider.

    A model may be served by several providers, and any of them matches.
    """

    words: tuple[str, ...] = ()
    modality: str | None = None
    provider: str | None = None

    def fits(self, model: Model) -> bool:
        """Whether a model matches; words are compared in lower case, anywhere in the text."""
        text = f"{model.id} {model.title}".lower()
        return (
            all(word in text for word in self.words)
            and self.modality in (None, model.modality)
            and (self.provider is None or model.leg(self.provider) is not None)
        )


ALL: Final = Selection()
MODALITIES: Final = ("image", "video", "audio", "text", "3d")
"""What a model may make, as its file says it."""


@dataclass(frozen=True, slots=True)
class Catalog:
    """Every model by id, frozen. `build` changes whenever a file behind it does, and cursors die with it (R-03)."""

    build: str
    models: Mapping[str, Model]
    ids: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "ids", tuple(sorted(self.models)))

    def with_markups(self, markups: Markups) -> "Catalog":
        """The same catalog with an operator's markups on its rate cards."""
        if not any(markups.percent.values()):
            return self
        return replace(self, models={name: _with_markup(model, markups) for name, model in self.models.items()})

    def with_hold_times(self, multiple: Decimal | None) -> "Catalog":
        """The same catalog with an operator's bound of holds: a multiple of the typical price, or None for no bound."""
        if multiple is None:
            return self
        return replace(self, models={name: _with_hold_times(one, multiple) for name, one in self.models.items()})

    def visible_ids(self, caller: Caller, today: datetime.date) -> list[str]:
        """The ids a caller may see, sorted: models that it may run and that are not retired."""
        return [
            model_id
            for model_id in self.ids
            if caller.may_run(model_id) and not self.models[model_id].is_retired(today)
        ]

    def selected_ids(self, caller: Caller, today: datetime.date, wanted: Selection) -> list[str]:
        """The ids that match a search, of those that a caller may see."""
        visible = self.visible_ids(caller, today)
        return visible if wanted == ALL else [one for one in visible if wanted.fits(self.models[one])]

    def find(self, model_id: str, caller: Caller, today: datetime.date) -> Model | ModelNotFound:
        """Look up a runnable model, or return the fault: unknown with suggestions, or retired."""
        model = self.models.get(model_id)
        if model is None:
            return ModelNotFound(model_id, self._suggest(model_id, caller, today))
        if model.retirement is not None and model.is_retired(today):
            return ModelNotFound(
                model_id, retired_on=model.retirement.date.isoformat(), successor=model.retirement.successor
            )
        return model

    def _suggest(self, model_id: str, caller: Caller, today: datetime.date) -> tuple[str, ...]:
        visible = self.visible_ids(caller, today)
        close = difflib.get_close_matches(model_id, visible, SUGGESTIONS_MAX, _SUGGESTION_LIKENESS)
        return tuple(close)


def _with_markup(model: Model, markups: Markups) -> Model:
    legs = []
    for leg in model.legs:
        percent = markups.of(model.id, leg.provider)
        cards = tuple(replace(card, markup=percent) for card in leg.rate_cards)
        legs.append(msgspec.structs.replace(leg, rate_cards=cards))
    return replace(model, legs=tuple(legs))


def _with_hold_times(model: Model, multiple: Decimal) -> Model:
    return replace(model, legs=tuple(msgspec.structs.replace(leg, hold_times=multiple) for leg in model.legs))


def catalog_limit(asked: int | None) -> int:
    """Apply the catalog's page size (R-02, R-04): absent, 0 and negatives are the default, large ones are clamped."""
    if asked is None or asked <= 0:
        return CATALOG_LIMIT_DEFAULT
    return min(asked, CATALOG_LIMIT_MAX)


def page_after(keys: Sequence[str], after: str | None, limit: int) -> tuple[Sequence[str], bool]:
    """Cut one page out of sorted keys: those after `after`, and whether more follow."""
    start = 0 if after is None else bisect.bisect_right(keys, after)
    return keys[start : start + limit], start + limit < len(keys)
