"""The administration API answers as the OpenAPI document says, whatever it is asked, and nobody without a credential.

As in `test_openapi.py`, but on a server of its own: what is made up here may change workspaces and members. What each
operation is for is tested in `tests/api/admin`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api.queues import QUEUE_SETTINGS, fill_queue
from end_to_end.test_openapi import CHECKS, DOCUMENT, EXAMPLES, Case, strict, ways_of
from fake_partner import CatalogFolder, reply, running_partner
from servers import Server, serving

_PREFIX: Final = "/api/admin/v1/"
_OPERATIONS: Final = [
    pytest.param(path, method.upper(), told, id=f"{method.upper()} {path}")
    for path, methods in DOCUMENT["paths"].items()
    if path.startswith(_PREFIX)
    for method, told in methods.items()
]


@dataclass(frozen=True)
class Administered:
    """A server, its operator's key, the names of what there is, and the document as it was fetched."""

    server: Server
    key: str
    names: dict[str, str]
    schema: schemathesis.BaseSchema
    session: requests.Session

    def send(self, case: Case, **credentials: str) -> int:
        """Make a call, have the answer compared with the document, and return its status."""
        kept = {name: value for name, value in dict(case.headers).items() if name.lower() != "x-api-key"}
        case.headers = {**kept, **credentials}  # type: ignore[assignment]
        response = case.call(base_url=self.server.url, session=self.session, allow_redirects=False, timeout=20)
        case.validate_response(response, checks=list(CHECKS))
        return int(response.status_code)


@pytest.fixture(scope="module")
def administered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Administered]:
    """Return a server with a workspace that has a run, a budget, a channel and a limit."""
    folder = tmp_path_factory.mktemp("administered")
    catalog = CatalogFolder(folder / "catalog")
    env = {**QUEUE_SETTINGS, "FAIRLEAD_REQUESTS_PER_MINUTE": "0", "FAIRLEAD_REQUESTS_PER_DAY": "0"}
    with running_partner() as partner:
        partner.script("/json", reply(200, b'{"made":true}'))
        fill_queue(catalog, partner.url)
        with serving(folder / "data", catalog=catalog.path, env=env, arguments=("--no-local-partner",)) as server:
            key = (server.data / "first-operator-key").read_text("ascii").strip()
            with requests.Session() as session:
                yield Administered(server, key, _make_each(server, key), _schema(server), session)


def _schema(server: Server) -> schemathesis.BaseSchema:
    return schemathesis.openapi.from_dict(strict(server.client.get("/openapi.json").json()))


def _make_each(server: Server, key: str) -> dict[str, str]:
    """Make one of everything that paths name; each by its parameter."""
    path, headers = f"{_PREFIX}workspaces/alice", {"X-API-Key": key}
    own = {"X-API-Key": server.new_workspace("alice")}
    kept = {"Idempotency-Key": "kept", **own}  # the result of a run without a key is its caller's alone
    run = server.client.post("/v2/models/fake/json-1", json={"prompt": "x"}, headers=kept)
    names = {"workspace": "alice", "provider": "fake", "model": "json-1"}
    names["run_id"] = run.headers["x-service-request-id"]
    for name, noun, body in (
        ("budget_id", "budgets", {"scope": "workspace", "limit": "5"}),
        ("channel_id", "alert-channels", {"kind": "slack", "target": "https://hooks.example.invalid/a"}),
        ("limit_id", "rate-limits", {"scope": "model", "subject": "fake/json-1", "per_minute": 9}),
    ):
        made = server.client.post(f"{path}/{noun}", json=body, headers=headers)
        assert made.status_code == 201, made.text
        names[name] = made.json()["id"]
    return names


@pytest.mark.req("A-01")
@pytest.mark.parametrize(("path", "method", "told"), _OPERATIONS)
def test_every_operation_answers_as_documented(administered: Administered, path: str, method: str, told: Any) -> None:
    """Whatever is wrong with a call, or right, it answers as the document says; what takes away takes away nothing."""
    operation = administered.schema[path][method]
    named = {one.name: quote(administered.names.get(one.name, "x"), safe="") for one in operation.path_parameters}
    takes_away = method == "DELETE" or path.endswith(("/suspend", "/{workspace}"))

    @settings(max_examples=max(2, EXAMPLES // 2), suppress_health_check=list(HealthCheck))
    @given(data=st.data())
    def fuzz(data: st.DataObject) -> None:
        drawn = data.draw(operation.as_strategy(data.draw(st.sampled_from(ways_of(told)))))
        if method == "GET" or (not takes_away and data.draw(st.booleans())):
            drawn.path_parameters = named
        administered.send(drawn, **{"X-API-Key": administered.key})

    fuzz()
    if method == "GET" and named and set(named) <= set(administered.names):
        assert administered.send(operation.Case(path_parameters=named), **{"X-API-Key": administered.key}) == 200
