"""Models, the legs that serve them, and the catalog of them all (R-02, R-05, R-06)."""

import datetime
import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from fairlead.domain.billing.rates import RateCard
from fairlead.domain.callers import Caller
from fairlead.domain.catalog.schema import InputSchema
from fairlead.domain.faults import ModelNotFound

SUGGESTIONS_MAX: Final = 3
_SUGGESTION_LIKENESS: Final = 0.5


@dataclass(frozen=True, slots=True)
class Leg:
    """One way to run a model: a provider, the call of its provider file, and what it costs there."""

    provider: str
    call: str
    rate_cards: tuple[RateCard, ...]


@dataclass(frozen=True, slots=True)
class Retirement:
    """When a model stops being runnable, and what to use instead."""

    date: datetime.date
    successor: str | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """Bytes served as they are, with their entity tag."""

    content: bytes
    etag: str


@dataclass(frozen=True, slots=True)
class Model:
    """A runnable model: its native leg, its schema, and the public facts of its catalog entry."""

    id: str
    native: Leg
    charges_on_policy_rejection: str
    openapi: Document
    input_schema: InputSchema | None = None
    retirement: Retirement | None = None

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


@dataclass(frozen=True, slots=True)
class Catalog:
    """Every model by id, frozen. `build` changes whenever a file behind it does, and cursors die with it (R-03)."""

    build: str
    models: Mapping[str, Model]
    ids: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "ids", tuple(sorted(self.models)))

    def visible_ids(self, caller: Caller, today: datetime.date) -> list[str]:
        """The ids a caller may see, sorted: those it may run and that are not retired."""
        return [
            model_id
            for model_id in self.ids
            if caller.may_run(model_id) and not self.models[model_id].is_retired(today)
        ]

    def find(self, model_id: str, caller: Caller, today: datetime.date) -> Model | ModelNotFound:
        """Look up a runnable model, or say why there is none: unknown with suggestions, or retired."""
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
