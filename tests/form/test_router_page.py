"""docs/router.md names every route of the router, and prints the order of refusals of a run."""

import re
from typing import Final

from domain.every_fault import EVERY
from fairlead.api.http.faults import default_answer
from fairlead.api.router.routes import ROUTES
from fairlead.domain.faults import bucket
from fairlead.operations.runs.refusals import ORDER
from form.sources import DOCS

_ROW: Final = re.compile(r"^\| (\d+) \| (\w+) \| (.+?) \| (.+?) \|$", re.MULTILINE)
_LINK: Final = re.compile(r"\[([^]]+)]\([^)]*\)")


def test_every_route_is_described() -> None:
    """Each path stands on the page as a whole, not as the head of a longer one."""
    text = (DOCS / "router.md").read_text(encoding="utf-8")
    paths = {route.path for route in ROUTES}
    missing = sorted(path for path in paths if not re.search(rf"(?<![\w}}]){re.escape(path)}(?![\w/{{-])", text))
    assert missing == []


def test_order_of_refusals_is_that_of_the_code() -> None:
    """The page has the checks of the code, each with its stage and number."""
    rows = [(int(number), stage, _LINK.sub(r"\1", check)) for number, stage, check, _ in _rows()]
    assert rows == [(number, check.stage.value, check.condition) for number, check in enumerate(ORDER, 1)]


def test_answers_on_the_page_are_those_of_the_faults() -> None:
    """Each check is answered with the statuses of its faults, and with no bucket of others."""
    known = {type(fault): fault for fault in EVERY}
    for (number, _, _, told), check in zip(_rows(), ORDER, strict=True):
        faults = [known[kind] for kind in check.faults]
        assert set(re.findall(r"\b[45]\d\d\b", told)) == {str(default_answer(fault).status) for fault in faults}, number
        assert set(re.findall(r"`([a-z_]+)`", told)) <= {bucket(fault) for fault in faults}, number


def test_stages_follow_each_other() -> None:
    """No check of a stage stands behind one of a later stage."""
    stages = [check.stage for check in ORDER]
    assert stages == sorted(stages, key=[*type(stages[0])].index)


def _rows() -> list[tuple[str, str, str, str]]:
    text = (DOCS / "router.md").read_text(encoding="utf-8")
    return _ROW.findall(text.partition("### The order of refusals\n")[2].partition("###")[0])
