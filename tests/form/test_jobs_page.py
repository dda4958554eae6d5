"""docs/jobs.md names every route of the jobs API, every status, every code of an error, and every kind of finding."""

import re
from typing import Final, get_args

from fairlead.api.jobs.routes import ROUTES
from fairlead.api.jobs.wire import ERROR_CODES, EXECUTION_FAILED, EXPIRED
from fairlead.domain.jobs.faults import SubmissionRefused
from fairlead.domain.jobs.listing import FILTERS_MAX, PAGE_MAX
from fairlead.domain.jobs.states import JobStatus
from fairlead.operations.jobs.watch import STREAMS_MAX
from form.sources import DOCS, PACKAGE

_ROUTE: Final = re.compile(r"^\| `((?:GET|HEAD|POST|PATCH|DELETE) /\S+)` \|", re.MULTILINE)
_WORDED: Final = re.compile(r"_Worded\((?P<status>\d{3}|METHOD_NOT_ALLOWED), \"(?P<code>\w+)\"")
_FINDING: Final = re.compile(r"Finding\([^\"]*\"(\w+)\"")
_COUNT: Final = re.compile(r"\"(\w+_(?:count|classes|truncated))\"")


def test_table_of_routes_is_that_of_the_code() -> None:
    """Each route has a row, and no row is of a route there is not."""
    assert set(_ROUTE.findall(_page())) == {f"{route.method} {route.path}" for route in ROUTES}


def test_every_error_is_described() -> None:
    """Each status with its code has a row, and no row is of an error there is not."""
    codes: list[str] = list(get_args(SubmissionRefused.__annotations__["code"]))
    worded = {(status.replace("METHOD_NOT_ALLOWED", "405"), code) for status, code in _WORDED.findall(_errors())}
    worded |= {("422", code) for code in codes}
    rows = set(re.findall(r"^\| (\d{3}) \| `(\w+)` \|", _page(), re.MULTILINE))
    assert rows == worded


def test_every_job_status_and_error_code_is_described() -> None:
    """Each status and each code of a failed job stands in a row."""
    told = set(re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", _page(), re.MULTILINE))
    named = {name for row in told for name in re.findall(r"`(\w+)`", row)}
    assert {*get_args(JobStatus), *ERROR_CODES.values(), EXECUTION_FAILED, EXPIRED} <= named


def test_every_finding_is_described() -> None:
    """Each type of finding and each detail of a refusal stands on the page."""
    source = (PACKAGE / "domain/jobs/findings.py").read_text(encoding="utf-8")
    names = {*_FINDING.findall(source), *_COUNT.findall(source)}
    assert len(names) >= 10
    assert sorted(name for name in names if f"`{name}`" not in _page()) == []


def test_bounds_on_the_page_are_those_of_the_code() -> None:
    """The bounds that the page writes in words are those of the code."""
    assert (PAGE_MAX, FILTERS_MAX, STREAMS_MAX) == (500, 3, 8)
    assert "500 where it is absent or more" in _page()
    assert "up to three, of which all must match" in _page()
    assert "An account has eight streams at a server." in _page()


def _page() -> str:
    return (DOCS / "jobs.md").read_text(encoding="utf-8")


def _errors() -> str:
    return (PACKAGE / "api/jobs/errors.py").read_text(encoding="utf-8")
