"""Schema documents over HTTP: the tag, the flag, and that what is served is what validates (R-07, R-08, R-09)."""

import hashlib
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
import pytest

from api.conftest import NESTED, MakeToken
from catalog_samples import shipped_catalog
from fairlead.operations.catalog import write_snapshots
from fairlead.server.installation import SNAPSHOTS
from servers import Server

_PATH = "/v2/models/fake/closed-1/openapi.json"


@pytest.fixture
def document(router: Server) -> httpx.Response:
    """Return the schema document of a model with an authored schema."""
    return router.client.get(_PATH)


@pytest.mark.req("R-07")
def test_document_has_its_specified_headers(document: httpx.Response) -> None:
    """A strong tag over the very bytes, and caching that is private and revalidates."""
    assert document.status_code == 200
    assert document.headers["etag"] == f'"{hashlib.sha256(document.content).hexdigest()}"'
    assert document.headers["cache-control"] == "private, max-age=300, must-revalidate"
    assert document.headers["content-type"] == "application/json"
    assert set(document.headers) == {
        "date",
        "etag",
        "cache-control",
        "content-length",
        "content-type",
        "x-content-type-options",
        "x-service-request-id",
    }


@pytest.mark.req("R-07")
def test_document_is_standalone_openapi(document: httpx.Response) -> None:
    """It stands alone as OpenAPI 3.1: the request's schema and the answer's media type."""
    told = document.json()
    operation = told["paths"]["/v2/models/fake/closed-1"]["post"]
    assert (told["openapi"], told["info"]["title"]) == ("3.1.0", "fake/closed-1")
    assert operation["requestBody"]["required"] is True
    assert operation["requestBody"]["content"]["application/json"]["schema"] == NESTED
    assert list(operation["responses"]["200"]["content"]) == ["*/*"]


@pytest.mark.req("R-07")
@pytest.mark.parametrize(
    ("wanted", "status"),
    [
        pytest.param("{tag}", 304, id="the tag"),
        pytest.param("W/{tag}", 304, id="the tag, weakly"),
        pytest.param("*", 304, id="any"),
        pytest.param('"other", {tag}', 304, id="in a list"),
        pytest.param('"other" ,W/{tag} , "more"', 304, id="weakly in a list"),
        pytest.param('"other"', 200, id="another"),
        pytest.param("{bare}", 200, id="the tag without quotes"),
        pytest.param('"{bare}x"', 200, id="a longer tag"),
        pytest.param("", 200, id="nothing"),
        pytest.param("W/*", 200, id="no tag at all"),
    ],
)
def test_known_document_is_304(
    router: Server, document: httpx.Response, token: MakeToken, wanted: str, status: int
) -> None:
    """`If-None-Match` is weak, takes lists and `*`; a 304 has no body and the same three headers, in v1 too."""
    tag = document.headers["etag"]
    conditional = {"If-None-Match": wanted.format(tag=tag, bare=tag.strip('"'))}
    answers = [
        router.client.get(_PATH, headers=conditional),
        httpx.get(
            router.url + _PATH.replace("/v2/", "/v1/"), headers={**conditional, "Authorization": f"Bearer {token()}"}
        ),
    ]
    for answer in answers:
        assert answer.status_code == status
        assert (answer.headers["etag"], answer.headers["cache-control"]) == (tag, document.headers["cache-control"])
        assert answer.headers["x-service-request-id"]
        if status == 304:
            assert answer.content == b""
            usual = {"date", "x-content-type-options", "x-service-request-id"}
            assert set(answer.headers) == {"etag", "cache-control", *usual}


@pytest.mark.req("R-07")
def test_several_lines_of_known_tags_are_one_list(router: Server, document: httpx.Response) -> None:
    """A header that was sent in several lines means the same as in one."""
    lines = [("If-None-Match", text) for text in ('"a"', document.headers["etag"], '"b"')]
    assert router.client.get(_PATH, headers=lines).status_code == 304
    assert router.client.get(_PATH, headers=lines[::2]).status_code == 200


@pytest.mark.req("R-07")
@pytest.mark.parametrize(
    ("path", "status", "name"),
    [
        ("fake/nothing-1", 404, "model_not_found"),
        ("fake/retired-1", 404, "model_not_found"),
        ("local/procedural-image-1", 403, "forbidden"),
    ],
)
def test_document_of_a_forbidden_model_is_refused(router: Server, path: str, status: int, name: str) -> None:
    """The document of a model one may not run, or that is not a model, is refused as the model itself is."""
    key = router.cli("keys", "create", "default", "--models", "fake/*", "--json")["key"]
    answer = router.client.get(f"/v2/models/{path}/openapi.json", headers={"X-API-Key": key, "If-None-Match": "*"})
    assert (answer.status_code, answer.headers["x-service-error-type"]) == (status, name)


@pytest.mark.req("R-07")
def test_document_needs_a_credential(router: Server) -> None:
    """Without a credential the document is 401; the public snapshot is what needs none."""
    assert httpx.get(router.url + _PATH).status_code == 401


@pytest.mark.req("R-08")
def test_flag_says_whether_a_schema_is_authored(router: Server, document: httpx.Response) -> None:
    """The flag says whether a schema is authored."""
    open_model = router.client.get("/v2/models/fake/json-1/openapi.json").json()
    assert (document.json()["x-service-input-schema-authored"], open_model["x-service-input-schema-authored"]) == (
        True,
        False,
    )


@pytest.mark.req("R-08")
@pytest.mark.parametrize(
    "body", [{}, {"anything": [1, {"goes": None}]}, {"model": "another/model"}, {"é": "\U0001f600"}]
)
def test_open_model_takes_any_object(router: Server, body: dict[str, Any]) -> None:
    """Where no schema is authored, any JSON object is passed on."""
    assert router.client.post("/v2/models/fake/json-1", json=body).status_code == 200


_BODIES: list[dict[str, Any]] = [
    {"prompt": "a"},
    {"prompt": "a", "count": 4, "layers": [{"kind": "sky", "alpha": 0.5, "more": 1}]},
    {"prompt": "x" * 20},
    {"prompt": "x" * 21},
    {"prompt": ""},
    {"prompt": 7},
    {},
    {"prompt": "a", "extra": 1},
    {"prompt": "a", "count": 0},
    {"prompt": "a", "count": 5},
    {"prompt": "a", "count": 1.5},
    {"prompt": "a", "count": 2.0},
    {"prompt": "a", "count": True},
    {"prompt": "a", "layers": [{"kind": "sky"}, {"kind": "fog"}]},
    {"prompt": "a", "layers": [{"alpha": 1}]},
    {"prompt": "a", "layers": [{"kind": "sea", "alpha": 1.01}]},
    {"prompt": "a", "layers": {}},
    {"prompt": None},
]


@pytest.mark.req("R-07", "R-08")
@pytest.mark.parametrize("body", _BODIES, ids=str)
def test_served_schema_is_the_one_that_validates(
    router: Server, document: httpx.Response, body: dict[str, Any]
) -> None:
    """A body is run if and only if the schema in the served document takes it."""
    path = document.json()["paths"]["/v2/models/fake/closed-1"]["post"]
    schema = path["requestBody"]["content"]["application/json"]["schema"]
    expected = 200 if jsonschema_rs.is_valid(schema, body) else 422
    assert router.client.post("/v2/models/fake/closed-1", json=body).status_code == expected


@pytest.mark.req("R-09")
@pytest.mark.parametrize("path", ["local/procedural-image-1", "local/procedural-video-1", "fake/closed-1"])
def test_snapshot_is_the_document_for_everybody(router: Server, path: str) -> None:
    """A shipped model's and an operator's own, without a key."""
    public = httpx.get(f"{router.url}/router-schemas/{path}.json")
    assert public.status_code == 200
    assert public.headers["x-service-request-id"]
    assert public.content == router.client.get(f"/v2/models/{path}/openapi.json").content


@pytest.mark.req("R-09")
@pytest.mark.parametrize(
    "path",
    [
        "local/procedural-image-1",
        "local/procedural-image-1.json.json",
        "local/nothing.json",
        "Local/x.json",
        "fake/json-1.json",
        "local/.json",
        "..%2F..%2Fcatalog/local/procedural-image-1.input.json",
    ],
)
def test_only_authored_models_have_a_snapshot(router: Server, ask_raw: Any, path: str) -> None:
    """Only models with an authored schema have one, and only by their ids."""
    status, headers, _ = ask_raw(router, "GET", f"/router-schemas/{path}")
    assert status == 404
    assert headers["x-service-error-type"] in ("model_not_found", "request_not_found")


@pytest.mark.req("R-09")
def test_snapshots_of_the_package_are_current(tmp_path: Path) -> None:
    """`fairlead catalog snapshots` was run since the catalog changed."""
    write_snapshots(shipped_catalog(), tmp_path)
    made = {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.glob("*/*.json")}
    kept = {path.relative_to(SNAPSHOTS): path.read_bytes() for path in SNAPSHOTS.glob("*/*.json")}
    assert kept == made, "run `fairlead catalog snapshots`"
