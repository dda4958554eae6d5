"""What vendors' and hosted services' pages publish of models: tests/providers/published/<provider>/<page>.json.

Each file has the address of a page, the day it was read, the models it is of, requests as the page permits them, and
pointers to the members that it documents in their answers. The words in the requests are our own.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from cases import for_each
from catalog_run import run_calls
from catalog_samples import Call, Sample, shipped_catalog, shipped_providers
from fairlead.clock import Clock
from fairlead.domain.catalog.models import Model
from fairlead.domain.pointers import find_all, parse_pointer
from fairlead.operations.runs.requests import completed_body
from machine import limit

_FOLDER: Final = Path(__file__).parent / "published"
_CATALOG: Final = shipped_catalog()


class Page(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A published page; without `answer` its requests are only checked."""

    page: str
    read: str
    models: list[str]
    requests: list[dict[str, Any]]
    answer: list[str] = []


@dataclass(frozen=True, slots=True)
class Published:
    """One request of a page for one of its models."""

    page: Page
    model: Model
    body: dict[str, Any]
    id: str

    def call(self) -> Call:
        """The request as a run of the model's own provider."""
        operation, native = self.model.operation(completed_body(self.model, self.body)), self.model.native
        protocol = shipped_providers()[native.provider].calls[native.calls[operation.name]].protocol.value
        return Call(self.model, Sample(self.model, self.id, self.body, operation), native, protocol)


def _published() -> Iterator[Published]:
    for path in sorted(_FOLDER.glob("*/*.json")):
        page = msgspec.json.decode(path.read_bytes(), type=Page)
        for model in page.models:
            for number, body in enumerate(page.requests):
                yield Published(page, _CATALOG.models[model], body, f"{path.stem}-{model}-{number}")


_PUBLISHED: Final = list(_published())


@pytest.mark.req("X-03")
@for_each("published", [pytest.param(one, id=one.id) for one in _PUBLISHED])
def test_published_request_is_accepted(published: Published) -> None:
    """What a page shows or permits is a valid body, and the schema knows all of its fields."""
    schema, body = published.model.input_schema, completed_body(published.model, published.body)
    assert schema is not None
    assert schema.violations(body) == ()
    assert schema.unknown_fields(body) == ()


@pytest.mark.timeout(limit(300))
@pytest.mark.req("X-03")
def test_published_members_are_in_the_answer(tmp_path: Path) -> None:
    """A published request runs, and its answer has every member that its page documents."""
    today = Clock().today()
    wanted = [one for one in _PUBLISHED if one.page.answer and not one.model.is_retired(today)]
    made = run_calls(tmp_path / "data", [one.call() for one in wanted])
    assert [one.row() for one in made if not one.is_well] == []
    absent = {one.id: _absent(one.page, run.answer.json()) for one, run in zip(wanted, made, strict=True)}
    assert {id_: members for id_, members in absent.items() if members} == {}


def _absent(page: Page, answer: Any) -> list[str]:
    """The documented members that an answer lacks."""
    return [member for member in page.answer if not any(True for _ in find_all(answer, parse_pointer(member)))]


def test_published_pages_have_an_address_and_a_day() -> None:
    """A page that nobody can find again proves nothing."""
    pages = [json.loads(path.read_text("utf-8")) for path in _FOLDER.glob("*/*.json")]
    assert [page for page in pages if "/" not in page["page"] or not page["read"].startswith("20")] == []
