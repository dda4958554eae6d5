"""A server under another brand, over HTTP: what follows from the one setting, and what never does."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from api.conftest import NESTED, SETTINGS, catalog_of
from fairlead.server.base import brand
from fairlead.server.settings import BadSettingError, read_settings
from fake_partner import CatalogFolder, FakePartner, reply
from servers import Server, serving

_REGISTRY = {"FAIRLEAD_REGISTRY_PREFIX": "/registry/v1/"}
_PLAIN = ("--no-local-partner",)


@pytest.fixture(scope="module")
def branded_catalog(shared_partner: FakePartner, tmp_path_factory: pytest.TempPathFactory) -> CatalogFolder:
    """Return a catalog with a model whose schema is authored, and one without."""
    catalog = catalog_of(tmp_path_factory.mktemp("branded"), shared_partner.url)
    catalog.add_model("fake/json-1")
    catalog.add_model("fake/closed-1", schema=NESTED)
    return catalog


@pytest.fixture(scope="module")
def _acme(branded_catalog: CatalogFolder) -> Iterator[Server]:
    env = {**SETTINGS, "FAIRLEAD_BRAND": "acme", "FAIRLEAD_NATIVE_ALIASES": "acme-ui", **_REGISTRY}
    data = branded_catalog.path.parent / "data"
    with serving(data, catalog=branded_catalog.path, env=env, arguments=_PLAIN) as server:
        yield server


@pytest.fixture
def acme(_acme: Server, partner: FakePartner) -> Server:  # noqa: ARG001 -- its partner answers
    """Return a server of the brand `acme`."""
    return _acme


def _names(response: httpx.Response) -> set[str]:
    usual = {"date", "content-type", "content-length", "x-content-type-options"}
    return {name for name in response.headers if name not in usual}


def test_headers_carry_the_brand(acme: Server, partner: FakePartner) -> None:
    """The service's own headers carry the brand, on successes, refusals and 404s alike; the others do not."""
    made = acme.client.post("/v2/models/fake/json-1", json={})
    cost = {"x-litellm-response-cost", "x-litellm-total-tokens"}
    assert _names(made) == {"x-acme-request-id", "x-acme-credits-used", *cost}
    partner.script("/json", reply(504))
    late = acme.client.post("/v2/models/fake/json-1", json={})
    assert _names(late) == {"x-acme-request-id", "x-acme-error-type", "x-acme-upstream-status", "retry-after"}
    assert _names(acme.client.get("/nowhere")) == {"x-acme-request-id", "x-acme-error-type"}
    assert "x-acme-request-id" in acme.client.get("/v2/models").headers


@pytest.mark.req("R-08", "R-09")
def test_snapshot_has_the_flag_of_the_brand(acme: Server) -> None:
    """The public snapshot is the document of the endpoint, under whatever brand."""
    public = httpx.get(f"{acme.url}/router-schemas/fake/closed-1.json")
    assert public.json()["x-acme-input-schema-authored"] is True
    assert public.content == acme.client.get("/v2/models/fake/closed-1/openapi.json").content


@pytest.mark.req("R-11")
def test_alias_of_the_brand_is_native_dispatch(acme: Server) -> None:
    """The brand names native dispatch, as `default` and `native` do everywhere; another brand names nobody."""
    for alias, status in (("acme", 200), ("acme-ui", 200), ("default", 200), ("native", 200), ("service", 400)):
        answer = acme.client.post("/v2/models/fake/json-1", params={"model_provider": alias}, json={})
        assert answer.status_code == status


def test_prefix_of_its_own_changes_headers_alone(branded_catalog: CatalogFolder, tmp_path: Any) -> None:
    """A header prefix changes the names of the headers and nothing else."""
    env = {**SETTINGS, "FAIRLEAD_BRAND": "acme", "FAIRLEAD_HEADER_PREFIX": "Router-"}
    with serving(tmp_path / "data", catalog=branded_catalog.path, env=env, arguments=_PLAIN) as server:
        refused = server.client.post("/v2/models/fake/none-1", params={"model_provider": "acme"}, json={})
        assert (refused.status_code, _names(refused)) == (404, {"router-request-id", "router-error-type"})


@pytest.mark.req("R-11")
def test_brand_has_the_aliases_that_its_clients_send_unless_a_setting_names_others() -> None:
    """Released clients of one brand send two names; an operator may name others, or none."""
    named = {"FAIRLEAD_BRAND": "comfy"}
    assert _aliases(named) == {"default", "native", "comfy", "comfyui"}
    assert _aliases({"FAIRLEAD_BRAND": "acme", "FAIRLEAD_NATIVE_ALIASES": "acme-ui, a2"}) == {
        "default", "native", "acme", "acme-ui", "a2",
    }  # fmt: skip
    assert _aliases({**named, "FAIRLEAD_NATIVE_ALIASES": "studio"}) == {"default", "native", "comfy", "studio"}


def _aliases(environment: dict[str, str]) -> frozenset[str]:
    return brand(read_settings(environment)).native_aliases


@pytest.mark.req("K-08")
def test_registry_may_have_a_prefix_of_its_own(acme: Server) -> None:
    """Nothing of it is at the root then; links of its answers and the OpenAPI document have the prefix."""
    assert acme.client.get("/registry/v1/nodes").json()["nodes"] == []
    made = acme.client.post("/registry/v1/publishers", json={"id": "acme", "name": "Acme"})
    assert made.status_code == 201
    body = {"node": {"id": "blur"}, "node_version": {"version": "1.0.0"}}
    told = acme.client.post("/registry/v1/publishers/acme/nodes/blur/versions", json=body).json()
    assert told["signedUrl"].startswith(f"{acme.url}/registry/v1/archives/blur%401.0.0?")
    assert told["node_version"]["downloadUrl"] == f"{acme.url}/registry/v1/archives/blur@1.0.0"
    assert acme.client.put(told["signedUrl"], content=b"PK\x03\x04").status_code == 200
    assert acme.client.get(told["node_version"]["downloadUrl"]).status_code == 200
    for path in ("/nodes", "/publishers", "/registry/v1", "/registry/v1nodes", "/registry/nodes"):
        assert acme.client.get(path).json()["error_type"] == "request_not_found"
    paths = acme.client.get("/openapi.json").json()["paths"]
    assert "/registry/v1/nodes/{node_id}/install" in paths
    assert "/nodes" not in paths


@pytest.mark.parametrize(
    "environment",
    [
        {"FAIRLEAD_REGISTRY_PREFIX": "registry"},
        {"FAIRLEAD_NATIVE_ALIASES": "Acme UI"},
        {"FAIRLEAD_BRAND": "Acme Media"},
        {"FAIRLEAD_HEADER_PREFIX": "X Acme"},
    ],
    ids=["registry", "alias", "brand", "prefix"],
)
def test_malformed_brand_stops_the_start(environment: dict[str, str]) -> None:
    """A brand that cannot be spelled is refused at the start, by the name of its variable."""
    (variable,) = environment
    with pytest.raises(BadSettingError, match=rf"^{variable}: must be"):
        read_settings(environment)
