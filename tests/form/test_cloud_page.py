"""docs/cloud.md names every route of the cloud API, every error of it, and every kind of error of a job."""

import re
from typing import Final

from fairlead.api.cloud.routes import ROUTES, SOCKETS
from fairlead.domain.jobs.errors import JOB_ERRORS
from form.sources import DOCS, PACKAGE

_CONVERTED: Final = re.compile(r":path(?=\})")
_ROUTE: Final = re.compile(r"^\| `((?:GET|POST|DELETE) /\S+)` \|", re.MULTILINE)
_WORDED: Final = re.compile(r"_Worded\((?P<status>\d{3}), \"(?P<type>\w+)\"")
_BAD: Final = re.compile(r"(?:_bad|BadSubmission)\(\"(\w+)\"")
_FAULT: Final = re.compile(r"Fault\(\"(\w+)\"")
_KIND: Final = re.compile(r"^[A-Z_]+: Final = \"(\w+Error)\"$", re.MULTILINE)
_INTERRUPTED: Final = "InterruptedByCallerError"
"""What a node is told of a job that is not wanted any more: such a job is cancelled, and has no error."""


def test_table_of_routes_is_that_of_the_code() -> None:
    """Each route has a row, with its prefix where it has one, and no row is of a route there is not."""
    served = {f"{route.method} {_CONVERTED.sub('', route.path)}" for route in ROUTES} | {f"GET {SOCKETS[0]}"}
    assert set(_ROUTE.findall(_page())) == served


def test_every_error_is_described() -> None:
    """Each `type` that the API words by itself stands in a row, beside its status where it has one there."""
    page = _page()
    worded = _WORDED.findall(_source("api/cloud/errors.py"))
    assert worded
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    missing = [
        (status, type_)
        for status, type_ in worded
        if type_ != "invalid_workflow"
        and not any(line.startswith(f"| {status} |") and f"`{type_}`" in line for line in rows)
    ]
    assert missing == []


def test_every_fault_of_a_submission_is_described() -> None:
    """Each type of fault of a body, of a workflow and of its nodes stands on the page."""
    sources = ("api/cloud/submissions.py", "api/cloud/bodies.py", "operations/jobs/submit.py")
    types = {type_ for source in sources for type_ in _BAD.findall(_source(source))}
    types |= set(_FAULT.findall(_source("engine/graph/faults.py")))
    assert types
    assert sorted(type_ for type_ in types if f"`{type_}`" not in _page()) == []


def test_every_kind_of_job_error_is_described() -> None:
    """Each kind that is ours, and not the name of a node's own error, has a row."""
    kinds = JOB_ERRORS | set(_KIND.findall(_source("operations/jobs/model_faults.py")))
    assert sorted(kind for kind in kinds - {_INTERRUPTED} if f"\n| `{kind}` |" not in _page()) == []


def _page() -> str:
    return (DOCS / "cloud.md").read_text(encoding="utf-8")


def _source(name: str) -> str:
    return (PACKAGE / name).read_text(encoding="utf-8")
