"""Request quotas over HTTP, on servers that grant few requests (R-23)."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx
import pytest
from sqlalchemy import text

from api.conftest import SETTINGS, MakeToken, NewName, catalog_of
from databases import Postgres
from fairlead.domain.accounts.rate_windows import Quota, Span, quotas_of
from fairlead.server.settings import read_settings
from fake_partner import CatalogFolder, FakePartner
from servers import PLAIN, Server, serving, wait_until

_MODEL: Final = "/v2/models/fake/json-1"
_PLAIN: Final = ("--no-local-partner",)


@pytest.fixture(scope="module")
def few(shared_partner: FakePartner, tmp_path_factory: pytest.TempPathFactory) -> CatalogFolder:
    """Return a catalog with two models."""
    catalog = catalog_of(tmp_path_factory.mktemp("quotas"), shared_partner.url)
    catalog.add_model("fake/json-1")
    catalog.add_model("fake/bytes-1", "bytes")
    return catalog


def _limits(per_minute: int, per_day: int) -> dict[str, str]:
    return {
        **SETTINGS,
        "FAIRLEAD_REQUESTS_PER_MINUTE": str(per_minute),
        "FAIRLEAD_REQUESTS_PER_DAY": str(per_day),
    }


@pytest.fixture(scope="module")
def _strict(few: CatalogFolder) -> Iterator[Server]:
    with serving(few.path.parent / "data", catalog=few.path, env=_limits(0, 4), arguments=_PLAIN) as server:
        yield server


@pytest.fixture
def strict(_strict: Server, partner: FakePartner) -> Server:  # noqa: ARG001 -- its partner answers
    """Return a server that grants each workspace four requests a day: a minute might turn during a test."""
    if time.time() % 86_400 > 86_390:
        time.sleep(11)  # nor may the day
    return _strict


def _ask(server: Server, key: str, method: str = "GET", path: str = "/v2/models", **headers: str) -> httpx.Response:
    sent = headers or {"X-API-Key": key}
    content = b"{}" if method == "POST" else None
    return httpx.request(method, server.url + path, headers=sent, content=content, verify=PLAIN)


def _is_refused(response: httpx.Response, window: str = "day", limit: int = 4) -> None:
    assert (response.status_code, response.headers["x-service-error-type"]) == (429, "rate_limited")
    assert response.json() == {
        "detail": f"The quota of {limit} requests per {window} is spent.",
        "error_type": "rate_limited",
    }
    assert re.fullmatch(r"[1-9][0-9]*", response.headers["retry-after"])


@pytest.mark.req("R-19", "R-23")
def test_every_request_is_counted(strict: Server, new_name: NewName) -> None:
    """Runs, catalog, detail and schema count alike, refused ones too; over the quota each of them is refused."""
    key = strict.new_workspace(new_name())
    routes = [
        ("POST", _MODEL),
        ("GET", "/v2/models"),
        ("GET", "/v2/models/fake/none-1"),
        ("GET", f"{_MODEL}/openapi.json"),
    ]
    assert [_ask(strict, key, *route).status_code for route in routes] == [200, 200, 404, 200]
    for route in routes:
        _is_refused(_ask(strict, key, *route))


@pytest.mark.req("R-23")
def test_wait_ends_with_the_next_window(strict: Server, new_name: NewName) -> None:
    """`Retry-After` ends in the first seconds of the next day."""
    key = strict.new_workspace(new_name())
    refused = [_ask(strict, key) for _ in range(5)][-1]
    ends = time.time() + int(refused.headers["retry-after"])
    assert -2 < ends - 86_400 * round(ends / 86_400) < 2


@pytest.mark.req("R-23")
def test_request_over_the_quota_is_neither_run_nor_billed(
    strict: Server, partner: FakePartner, new_name: NewName
) -> None:
    """Over the quota a run is refused before its model, its body and its money are looked at."""
    name = new_name()
    key = strict.new_workspace(name, "--billing", "prepaid", credit="1")
    for _ in range(4):
        _ask(strict, key)
    _is_refused(_ask(strict, key, "POST", "/v2/models/fake/none-1"))
    _is_refused(_ask(strict, key, "POST", _MODEL))
    assert (partner.requests(), strict.workspace(name)["balance"]) == ([], "1")


@pytest.mark.req("R-23", "R-40")
def test_workspace_has_one_quota_for_all_credentials(strict: Server, token: MakeToken, new_name: NewName) -> None:
    """Keys and tokens of a workspace share its quota, in both generations; another workspace has its own."""
    name = new_name()
    keys = [strict.new_workspace(name), strict.cli("keys", "create", name, "--models", "all", "--json")["key"]]
    bearer = {"Authorization": f"Bearer {token(name)}"}
    answers = [_ask(strict, key) for key in keys] + [
        _ask(strict, "", path=f"/{v}/models", **bearer) for v in ("v1", "v2")
    ]
    assert [answer.status_code for answer in answers] == [200] * 4
    _is_refused(_ask(strict, keys[0]))
    _is_refused(_ask(strict, "", path="/v1/models", **bearer))
    assert _ask(strict, strict.new_workspace(new_name())).status_code == 200


@pytest.mark.req("R-23")
def test_request_without_a_caller_is_not_counted(strict: Server, new_name: NewName) -> None:
    """Operators' routes, public snapshots, unknown paths and bad credentials spend nobody's quota."""
    key = strict.new_workspace(new_name())
    for path in ("/healthz", "/metrics", "/nowhere", "/router-schemas/fake/json-1.json"):
        for _ in range(5):
            assert _ask(strict, key, path=path).status_code != 429
    assert [_ask(strict, key).status_code for _ in range(5)] == [200] * 4 + [429]


@pytest.mark.req("R-23")
def test_minute_quota_comes_back_with_the_next_minute(few: CatalogFolder, tmp_path: Path) -> None:
    """The quota of a minute is named as such, and comes back with the next minute."""
    with serving(tmp_path / "data", catalog=few.path, env=_limits(2, 0), arguments=_PLAIN) as server:
        answers = [_ask(server, server.key) for _ in range(5)]  # at least one is refused, should the minute turn
        refused = [answer for answer in answers if answer.status_code == 429]
        assert refused
        for answer in refused:
            _is_refused(answer, "minute", 2)
            assert int(answer.headers["retry-after"]) <= 60


@pytest.mark.req("R-23")
def test_servers_and_restarts_share_a_quota(
    few: CatalogFolder, tmp_path: Path, postgres: Postgres, postgresql_url: str
) -> None:
    """Servers of one database refuse what all of them have admitted, once they have told each other, and restarted."""

    def wait_until_told(count: int) -> None:
        counted = text("SELECT requests FROM rate_windows WHERE span = 'day'")
        wait_until(
            lambda: postgres.read(postgresql_url, lambda connection: connection.scalar(counted)) == count, "the count"
        )

    @contextmanager
    def start(name: str, key: str | None = None) -> Iterator[Server]:
        data = tmp_path / name
        if key is not None:
            data.mkdir()
            (data / "first-key").write_text(key)
        with serving(data, database=postgresql_url, catalog=few.path, env=_limits(0, 6), arguments=_PLAIN) as server:
            yield server

    with start("one") as one:
        assert [_ask(one, one.key).status_code for _ in range(3)] == [200] * 3
        wait_until_told(3)
        with start("two", one.key) as two:
            statuses = [_ask(two, one.key).status_code]
            wait_until_told(4)  # and so the second knows of the first
            statuses += [_ask(two, one.key).status_code for _ in range(4)]
            assert statuses == [200, 200, 200, 429, 429]
            wait_until(lambda: _ask(one, one.key).status_code == 429, "the first server knows", 20, 1.2)
    with start("three", one.key) as three:
        wait_until(lambda: _ask(three, one.key).status_code == 429, "the third server knows", 20, 1.2)


def test_default_quota_is_600_a_minute_and_100000_a_day() -> None:
    """Without a setting a workspace has 600 requests a minute and 100,000 a day."""
    settings = read_settings({})
    assert quotas_of(settings.requests_per_minute, settings.requests_per_day) == (
        Quota(Span.MINUTE, 600),
        Quota(Span.DAY, 100_000),
    )
