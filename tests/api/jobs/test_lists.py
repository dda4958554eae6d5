"""Lists of jobs over HTTP: pages, cursors, filters (J-01 to J-05, J-16)."""

import base64
import struct
from typing import Any, Final
from urllib.parse import quote, urlencode

import pytest

from api.cloud.clients import holding
from api.jobs.callers import JobsCaller, refusal_of
from api.jobs.conftest import NewJobsCaller
from cases import for_each

_JOBS: Final = "/api/v2/jobs"


def list_ids(caller: JobsCaller, query: str = "") -> list[str]:
    """Return the ids on the one page of a list."""
    page = caller.get(f"{_JOBS}?{query}")
    assert "next_cursor" not in page
    return [job["id"] for job in page["jobs"]]


def pages(caller: JobsCaller, query: str) -> list[list[str]]:
    """Return the ids on all pages of a list."""
    found, cursor = [], ""
    while True:
        page = caller.get(f"{_JOBS}?{query}{cursor}")
        found.append([job["id"] for job in page["jobs"]])
        if "next_cursor" not in page:
            return found
        cursor = f"&cursor={page['next_cursor']}"


@pytest.fixture
def crowd(new_jobs_caller: NewJobsCaller) -> tuple[JobsCaller, list[str]]:
    """Return a caller with five jobs that go on, the newest first, and labels by which they differ."""
    caller = new_jobs_caller()
    made = [
        caller.submit(holding(number), metadata={"team": "a", "parity": "odd" if number % 2 else "even"})["id"]
        for number in range(4)
    ]
    made.append(caller.submit(holding(4))["id"])
    return caller, made[::-1]


@pytest.mark.req("J-01", "J-02", "J-05")
def test_each_job_is_on_one_page_newest_first(crowd: tuple[JobsCaller, list[str]]) -> None:
    """Each job is on one page, the newest first, also when jobs are added between two pages."""
    caller, made = crowd
    assert list_ids(caller) == made
    assert pages(caller, "limit=2") == [made[:2], made[2:4], made[4:]]
    assert pages(caller, "limit=5") == [made]
    first = caller.get(f"{_JOBS}?limit=3")
    caller.submit(holding(5))
    second = caller.get(f"{_JOBS}?limit=3&cursor={first['next_cursor']}")
    assert [job["id"] for job in (*first["jobs"], *second["jobs"])] == made
    assert "next_cursor" not in second


@pytest.mark.req("J-05")
def test_listed_job_is_its_stored_record(crowd: tuple[JobsCaller, list[str]]) -> None:
    """An item has its stored record and no outputs or links; labels only where it was sent with some."""
    caller, _ = crowd
    newest, before, *_ = caller.get(_JOBS)["jobs"]
    assert set(newest) == {"id", "status", "create_time", "update_time"}
    assert set(before) == {"id", "status", "create_time", "update_time", "metadata"}
    assert before["metadata"] == {"team": "a", "parity": "odd"}


@pytest.mark.req("J-04")
def test_filter_lists_only_matching_jobs(crowd: tuple[JobsCaller, list[str]]) -> None:
    """A job is listed when each pair matches exactly; pages go on within the filter."""
    caller, made = crowd
    assert list_ids(caller, "metadata[team]=a") == made[1:]
    assert list_ids(caller, "metadata%5Bteam%5D=a&metadata[parity]=even") == [made[2], made[4]]
    assert list_ids(caller, "metadata[team]=A") == list_ids(caller, "metadata[team]=") == []
    assert list_ids(caller, "metadata[Team]=a") == list_ids(caller, "metadata[team]=a&metadata[parity]=none") == []
    assert list_ids(caller, "METADATA[team]=a") == list_ids(caller, "Limit=1") == made
    assert list_ids(caller, "m%65tadata[team]=a") == made[1:]
    assert pages(caller, "limit=2&metadata[team]=a&metadata[parity]=odd") == [[made[1], made[3]]]
    assert pages(caller, "limit=1&metadata[team]=a&metadata[parity]=odd") == [[made[1]], [made[3]]]


@pytest.mark.req("J-04", "J-12")
def test_labels_come_back_as_they_were_sent(caller: JobsCaller) -> None:
    """Labels come back as they were sent, at their limits, and are found by what they are."""
    labels = {f"k{number}": "x" * 256 for number in range(13)}
    labels |= {"a.b-c_D" + "e" * 33: "é" * 128, "empty": "", "odd": 'a+b&c=d;"%é \u200f'}
    job = caller.submit(holding(), metadata=labels)
    assert job["metadata"] == caller.job(job["id"])["metadata"] == labels
    query = urlencode({f"metadata[{name}]": labels[name] for name in ("odd", "empty", "k1")})
    assert list_ids(caller, query) == [job["id"]]
    assert "metadata" not in caller.submit(holding(1), metadata={})
    assert "metadata" not in caller.submit(holding(2), metadata=None)


@pytest.mark.req("J-02")
@pytest.mark.parametrize("limit", ["0", "-1", "", "a", "1.0", "1_0", "+1", "%201", "%D9%A1", "1e2", "000"])
def test_malformed_limit_is_422(visitor: JobsCaller, limit: str) -> None:
    """A limit that is not a positive integer is refused with 422."""
    assert refusal_of(visitor.ask("GET", f"{_JOBS}?limit={limit}")) == (422, "invalid_request")


@pytest.mark.req("J-02", "J-16")
@pytest.mark.parametrize("query", ["limit=501", "limit=" + "9" * 5000, "limit=007", "order=asc&unknown[x]=%zz;", "&&="])
def test_limit_is_clamped_and_unknown_parameters_are_ignored(visitor: JobsCaller, query: str) -> None:
    """A limit above 500 is 500, and parameters that nobody knows are passed by."""
    assert visitor.get(f"{_JOBS}?{query}") == {"jobs": []}


@pytest.mark.req("J-03")
@for_each(
    "cursor",
    [
        "", "x", "AQAAAAAAAAAF=", "AQAAAAAAAAA", "AQAAAAAAAAAFA", "AgAAAAAAAAAF", "AQAAAAAAAAAA", "AYAAAAAAAAAF",
        "AQAAAAAAAA+F", "%00", "A" * 12, "A" * 9000, "eyJhIjoxfQ", "AQAAAAAAAAA%C3%A9",
    ],
)  # fmt: skip
def test_malformed_cursor_is_400(visitor: JobsCaller, cursor: str) -> None:
    """A cursor that was cut, padded or made up is refused with 400."""
    assert refusal_of(visitor.ask("GET", f"{_JOBS}?cursor={cursor}")) == (400, "invalid_cursor")


@pytest.mark.req("J-03")
def test_cursor_of_another_list_is_a_position(crowd: tuple[JobsCaller, list[str]], visitor: JobsCaller) -> None:
    """A cursor is a position, no matter who has made it: of another list, or by hand."""
    caller, made = crowd
    cursor = caller.get(f"{_JOBS}?limit=1&metadata[parity]=odd")["next_cursor"]
    assert list_ids(caller, f"cursor={cursor}") == made[2:]
    assert list_ids(visitor, f"cursor={cursor}") == []
    for number, expected in ((3, made[3:]), (1, []), (2**63 - 1, made)):
        by_hand = base64.urlsafe_b64encode(struct.pack(">BQ", 1, number)).decode()
        assert list_ids(caller, f"cursor={by_hand}") == expected


@pytest.mark.req("J-04")
@for_each(
    "query",
    [
        "metadata[a]=1&metadata[b]=1&metadata[c]=1&metadata[d]=1",
        "metadata[a]=1&metadata[a]=1",
        "metadata[a]=1&metadata%5ba%5d=2",
        "metadata[]=1",
        "metadata[" + "k" * 41 + "]=1",
        "metadata[a%20b]=1",
        "metadata[a/b]=1",
        "metadata[%C3%A9]=1",
        "metadata[a][b]=1",
        "metadata[a=1",
        "metadata[a]x=1",
        "metadata=1",
        "metadata[a]=%00",
        "metadata[a]=%1F",
        "metadata[a]=x%0Ay",
        "metadata[a]=%7F",
        f"metadata[a]={quote(chr(0x9F))}",
        f"metadata[a]={quote(chr(0x202A))}",
        f"metadata[a]={quote(chr(0x202E))}",
        f"metadata[a]={quote(chr(0x2066))}",
        f"metadata[a]={quote(chr(0x2069))}",
        "metadata[a]=x;y",
        "metadata[a]=x;metadata[b]=y",
        "metadata[a]=%",
        "metadata[a]=%4",
        "metadata[a]=%zz",
        "metadata[a]=%C3",
        "metadata[%zz]=1",
        "metadata[a;b]=1",
    ],
)
def test_malformed_filter_is_400(visitor: JobsCaller, query: str) -> None:
    """What no filter can be is refused, and not another list told."""
    assert refusal_of(visitor.ask("GET", f"{_JOBS}?{query}")) == (400, "invalid_metadata_filter")


@pytest.mark.req("J-12")
@for_each(
    ("metadata", "key"),
    [
        ({f"k{number}": "" for number in range(17)}, None),
        ([], None),
        ("a", None),
        ({"a": "x" * 70_000}, None),
        ({"": "x"}, ""),
        ({"k" * 41: "x"}, "k" * 41),
        ({"ok": "x", "a b": "x"}, "a b"),
        ({"é": "x"}, "é"),
        ({"a\n": "x"}, "a\n"),
        ({"a": 1}, "a"),
        ({"a": None}, "a"),
        ({"a": {"b": "c"}}, "a"),
        ({"a": "x" * 257}, "a"),
        ({"a": "é" * 128 + "x"}, "a"),
        *(({"a": f"x{chr(code)}"}, "a") for code in (0, 0x1F, 0x7F, 0x85, 0x9F, 0x202A, 0x202E, 0x2066, 0x2069)),
    ],
)
def test_label_past_its_limits_is_refused(visitor: JobsCaller, metadata: Any, key: str | None) -> None:
    """A label that breaks a rule is refused by its key; too many of them without one."""
    response = visitor.ask("POST", _JOBS, json={"workflow": holding(), "metadata": metadata})
    assert refusal_of(response) == (422, "metadata_invalid")
    assert response.json()["error"].get("details") == (None if key is None else {"key": key})
    assert list_ids(visitor) == []
