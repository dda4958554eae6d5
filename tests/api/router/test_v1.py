"""The first generation of the API: its routes, its credentials, its statuses, its buckets, and nothing newer (R-40)."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import httpx
import pytest

from api.conftest import MakeToken, NewName
from fairlead.api.router.generations import V1, V2, generation_of
from fairlead.api.router.routes import ROUTES
from fake_partner import Behaviour, FakePartner, hang, reply, reply_json
from servers import PLAIN, Server, wait_until

pytestmark = pytest.mark.req("R-40")

_RUN: Final = "/v1/models/fake/json-1"
_ID: Final = "01890000-0000-7000-8000-000000000000"
_NEWER: Final = [
    ("POST", f"{_RUN}/estimate"),
    ("POST", f"{_RUN}/requests"),
    ("GET", f"{_RUN}/requests/{_ID}"),
    ("GET", f"{_RUN}/requests/{_ID}/status"),
    ("PUT", f"{_RUN}/requests/{_ID}/cancel"),
    ("GET", "/v1/provider-keys"),
    ("GET", "/v1/provider-keys/fake"),
    ("PUT", "/v1/provider-keys/fake"),
    ("DELETE", "/v1/provider-keys/fake"),
]


class _Caller:
    """Somebody with a token, who calls v1."""

    def __init__(self, router: Server, make: MakeToken) -> None:
        """Speak for the default workspace."""
        self._url = router.url
        self._make = make

    def ask(self, method: str, path: str, workspace: str = "default", **options: Any) -> httpx.Response:
        """Send a request."""
        headers = {"Authorization": f"Bearer {self._make(workspace)}", **options.pop("headers", {})}
        return httpx.request(method, self._url + path, headers=headers, timeout=60, verify=PLAIN, **options)

    def run(self, model: str = "fake/json-1", **options: Any) -> httpx.Response:
        """Run a model."""
        given = {"json": {}, **options} if "content" not in options else options
        return self.ask("POST", f"/v1/models/{model}", **given)


@pytest.fixture
def caller(router: Server, token: MakeToken) -> _Caller:
    """Return somebody with a token."""
    return _Caller(router, token)


def _is(response: httpx.Response, status: int, error_type: str) -> None:
    """Assert a refusal in the envelope of the router."""
    assert (response.status_code, response.headers["x-service-error-type"]) == (status, error_type)
    assert response.headers["x-service-request-id"]
    if status != 422:
        assert response.json()["error_type"] == error_type


def test_v1_has_four_routes(caller: _Caller) -> None:
    """v1 has four routes, and each answers."""
    assert {(route.method, route.path) for route in ROUTES if generation_of({"path": route.path}) is V1} == {
        ("GET", "/v1/models"),
        ("GET", "/v1/models/{provider}/{model}"),
        ("GET", "/v1/models/{provider}/{model}/openapi.json"),
        ("POST", "/v1/models/{provider}/{model}"),
    }
    for path in ("/v1/models", _RUN, f"{_RUN}/openapi.json"):
        assert caller.ask("GET", path).status_code == 200
    assert caller.run().status_code == 200


@pytest.mark.parametrize(("method", "path"), _NEWER)
def test_newer_routes_are_not_on_v1(caller: _Caller, method: str, path: str) -> None:
    """Estimates, the queue and provider keys are not paths of v1: 404 in the envelope, under a bucket that v1 knows."""
    _is(caller.ask(method, path, json={} if method in ("POST", "PUT") else None), 404, "model_not_found")


@pytest.mark.parametrize("path", ["/v1/models", _RUN, f"{_RUN}/openapi.json"])
def test_v1_links_to_v1(caller: _Caller, router: Server, path: str) -> None:
    """A key opens nothing on v1, in whichever header; and what v1 shows links to v1."""
    for headers in ({"X-API-Key": router.key}, {"Authorization": f"Bearer {router.key}"}):
        _is(httpx.get(router.url + path, headers=headers), 401, "unauthorized")
    detail = caller.ask("GET", "/v1/models/fake/closed-1").json()
    assert detail["input_schema_url"] == f"{router.url}/v1/models/fake/closed-1/openapi.json"


@pytest.mark.parametrize(
    ("model", "status", "error_type"),
    [
        ("fake/none-1", 404, "model_not_found"),
        ("fake/closed-1", 422, "invalid_input"),
        ("lockbox/json-1", 503, "service_unavailable"),
        ("fake/hasty-1", 504, "provider_timeout"),
    ],
)
def test_v1_refuses_a_run_under_its_listed_statuses(
    caller: _Caller, partner: FakePartner, model: str, status: int, error_type: str
) -> None:
    """The statuses that v1 lists for its run route, each over HTTP; 403 and 429 are below."""
    partner.script("/hasty", hang())
    _is(caller.run(model), status, error_type)


@pytest.mark.parametrize(
    ("options", "error_type"), [(("--models", "none"), "forbidden"), (("--gate", "router=off"), "not_enabled")]
)
def test_v1_has_both_buckets_of_403(
    caller: _Caller, router: Server, new_name: NewName, options: tuple[str, ...], error_type: str
) -> None:
    """403 has the two buckets it has in v2."""
    name = new_name()
    router.new_workspace(name, *options)
    _is(caller.run(workspace=name), 403, error_type)


def test_v1_refuses_a_run_beyond_the_limit(
    caller: _Caller, router: Server, partner: FakePartner, new_name: NewName
) -> None:
    """429 when as many runs are in flight as allowed."""
    name = new_name()
    router.new_workspace(name, "--in-flight-limit", "1")
    partner.script("/json", partner.hold(reply(200, b"{}")))
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(caller.run, workspace=name)
        wait_until(lambda: router.workspace(name)["in_flight"] == 1, "a run in flight")
        _is(caller.run(workspace=name), 429, "concurrency_limit_exceeded")
        partner.release()
        assert first.result().status_code == 200


@pytest.mark.parametrize(
    ("behaviour", "status", "error_type"),
    [
        (reply(500), 502, "provider_error"),
        (reply_json({"error": {"code": "refused"}}, 400), 400, "content_policy_violation"),
    ],
)
def test_unlisted_partner_status_is_kept_on_v1(
    caller: _Caller, partner: FakePartner, behaviour: Behaviour, status: int, error_type: str
) -> None:
    """A status that v1 does not list stays what it is in v2: one that is listed would tell a caller something false."""
    partner.script("/json", behaviour)
    _is(caller.run(), status, error_type)


def test_unlisted_caller_status_is_kept_on_v1(caller: _Caller, router: Server, new_name: NewName) -> None:
    """The statuses of a bad body, a missing credential and an empty workspace are those of v2."""
    name = new_name()
    router.new_workspace(name, "--billing", "prepaid")
    _is(caller.run(content=b"{"), 400, "invalid_input")
    _is(caller.run(headers={"Authorization": "Bearer no"}), 401, "unauthorized")
    _is(caller.run(workspace=name), 402, "insufficient_credits")


def test_only_v2_has_run_parameters_and_keys() -> None:
    """Only v2 has the parameters of the run route and idempotency keys."""
    assert (V1.has_controls, V2.has_controls) == (False, True)


@pytest.mark.parametrize(
    "query",
    [
        "model_provider=nobody",
        "model_provider=other",
        "strict_mode=maybe",
        "fallback_provider=maybe",
        "reject_unknown_fields=maybe",
        "strict_mode=%FF",
    ],
)
def test_v1_ignores_parameters_of_v2(caller: _Caller, router: Server, partner: FakePartner, query: str) -> None:
    """v1 leaves the parameters of v2 alone, as it does any it does not know: the model's own provider runs it."""
    partner.script("/json", reply(200, b'{"native":true}'))
    response = caller.run(f"fake/json-1?{query}", json={"nobody_knows": 1})
    assert (response.status_code, response.content) == (200, b'{"native":true}')
    assert partner.requests()[-1].body == b'{"nobody_knows":1}'
    if query not in ("model_provider=other", "fallback_provider=maybe"):
        assert router.client.post(f"/v2/models/fake/json-1?{query}", json={}).status_code == 400


@pytest.mark.parametrize("key", ["the-same-key", "k" * 256])
def test_v1_ignores_idempotency_keys(caller: _Caller, router: Server, partner: FakePartner, key: str) -> None:
    """On v1 each call is a run of its own, whatever key it is sent with, and none is a replay."""
    answers = [caller.run(headers={"Idempotency-Key": key}) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 200]
    run_ids = [answer.headers["x-service-request-id"] for answer in answers]
    assert len(set(run_ids)) == len(partner.requests("/json")) == 2
    assert [router.charges(run_id) for run_id in run_ids] == [["0.01"], ["0.01"]]
    assert all("idempotent-replayed" not in answer.headers for answer in answers)
