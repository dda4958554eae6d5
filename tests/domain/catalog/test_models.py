"""The catalog: what is visible, what is retired, and what is suggested instead."""

import datetime

import pytest

from fairlead.domain.accounts.callers import Caller, Patterns
from fairlead.domain.catalog.models import Catalog, Document, Leg, Model, Retirement
from fairlead.domain.faults import ModelNotFound

TODAY = datetime.date(2026, 11, 20)
ANYBODY = Caller("id", "lab")


def model(id_: str, retirement: Retirement | None = None) -> Model:
    """Return a model with nothing to it but its id."""
    return Model(
        id_, (Leg("acme", {"run": "image"}, {"run": "image"}, ()),), "no", Document(b"{}", '"x"'), retirement=retirement
    )


CATALOG = Catalog(
    "build",
    {
        one.id: one
        for one in (
            model("acme/image-2"),
            model("acme/image-1"),
            model("acme/old", Retirement(TODAY, "acme/image-1")),
            model("acme/ending", Retirement(TODAY + datetime.timedelta(1))),
            model("other/image-1"),
        )
    },
)


@pytest.mark.req("R-02", "R-06")
def test_caller_sees_only_models_it_can_run() -> None:
    """Only models both allow are listed, in order; a retired one is not, one that retires later is."""
    assert CATALOG.visible_ids(ANYBODY, TODAY) == ["acme/ending", "acme/image-1", "acme/image-2", "other/image-1"]
    limited = Caller("id", "lab", workspace_models=Patterns(("acme/*",)), credential_models=Patterns(("*/image-1",)))
    assert CATALOG.visible_ids(limited, TODAY) == []
    limited = Caller("id", "lab", workspace_models=Patterns(("acme/*",)), credential_models=Patterns(("acme/i*",)))
    assert CATALOG.visible_ids(limited, TODAY) == ["acme/image-1", "acme/image-2"]


@pytest.mark.req("R-06")
def test_retired_model_is_gone_with_its_date_and_successor() -> None:
    """From its date on a model cannot be found; the refusal says since when, and what to use instead."""
    assert CATALOG.find("acme/old", ANYBODY, TODAY) == ModelNotFound(
        "acme/old", retired_on="2026-11-20", successor="acme/image-1"
    )
    before = CATALOG.find("acme/old", ANYBODY, TODAY - datetime.timedelta(1))
    assert isinstance(before, Model)


@pytest.mark.req("R-06")
def test_model_that_retires_tomorrow_is_found_today() -> None:
    """A future date changes nothing."""
    assert isinstance(CATALOG.find("acme/ending", ANYBODY, TODAY), Model)


@pytest.mark.req("R-05")
def test_suggestions_are_close_ids_the_caller_may_see() -> None:
    """Up to three close ids, out of what the caller may see."""
    found = CATALOG.find("acme/image-3", ANYBODY, TODAY)
    assert isinstance(found, ModelNotFound)
    assert set(found.suggestions) == {"acme/image-1", "acme/image-2", "other/image-1"}
    limited = Caller("id", "lab", workspace_models=Patterns(("other/*",)))
    assert CATALOG.find("acme/image-3", limited, TODAY) == ModelNotFound("acme/image-3", ("other/image-1",))
    assert CATALOG.find("zzzz/qqqq", ANYBODY, TODAY) == ModelNotFound("zzzz/qqqq")


def test_id_is_cut_at_its_slash() -> None:
    """An id is provider and name."""
    assert (CATALOG.models["acme/old"].provider, CATALOG.models["acme/old"].name) == ("acme", "old")
