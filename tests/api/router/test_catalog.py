"""The catalog over HTTP: pages, cursors, detail, suggestions, retirement (R-01 to R-06)."""

import base64
import json
from typing import Any

import pytest

from api.conftest import MakeToken, NewName
from cases import for_each
from servers import Server

_PAGED = [f"page/m-{number:03d}" for number in range(120)]


@pytest.fixture(scope="session")
def pager(shared_router: Server) -> str:
    """Return a key that sees the hundred and twenty models of `page/` and no other."""
    key: str = shared_router.cli("keys", "create", "default", "--models", "page/*", "--json")["key"]
    return key


def _list(router: Server, key: str, **query: Any) -> dict[str, Any]:
    response = router.client.get("/v2/models", params=query, headers={"X-API-Key": key})
    assert response.status_code == 200, response.text
    page: dict[str, Any] = response.json()
    return page


def _ids(page: dict[str, Any]) -> list[str]:
    return [entry["id"] for entry in page["data"]]


@pytest.mark.req("R-02")
def test_default_page_has_twenty_models(router: Server, pager: str) -> None:
    """Without a limit a page has twenty models and says so."""
    page = _list(router, pager)
    assert (_ids(page), page["limit"], page["has_more"]) == (_PAGED[:20], 20, True)


@pytest.mark.req("R-02")
def test_entry_names_a_model(router: Server, pager: str) -> None:
    """An entry is id, provider, model and billing, and beyond these a title; prices only where they are asked for."""
    entry = {
        "id": "page/m-000",
        "provider": "page",
        "model": "m-000",
        "billing": {"charges_on_policy_rejection": "unknown"},
        "title": "A fake model",
    }
    assert _list(router, pager, limit=1)["data"] == [entry]
    assert _list(router, pager, limit=1, prices="false")["data"] == [entry]
    assert _list(router, pager, limit=1, prices="true")["data"] == [entry | {"price": ["0.01 per run"]}]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"q": "PROMPT procedural PICTURES"}, ["local/procedural-image-1"]),
        ({"q": "pictures", "provider": "local"}, ["local/procedural-image-1"]),
        ({"modality": "video", "provider": "local"}, ["local/procedural-video-1"]),
        ({"q": "", "modality": "audio", "provider": "local"}, ["local/procedural-audio-1"]),
        ({"q": "procedural", "modality": "3d"}, []),
        ({"provider": "nobody"}, []),
    ],
)
def test_search_finds_models_by_words_modality_and_provider(
    router: Server, query: dict[str, str], found: list[str]
) -> None:
    """Every word of a search must be in the id or the title, in either case; all conditions hold together."""
    page = _list(router, router.key, limit=100, **query)
    assert (_ids(page), page["has_more"]) == (found, False)
    if query.get("modality") and found:
        assert page["data"][0]["modality"] == query["modality"]


@pytest.mark.req("R-02")
def test_search_is_paged_like_the_whole_catalog(router: Server, pager: str) -> None:
    """A cursor goes on with the search it is sent with."""
    first = _list(router, pager, q="m-01", limit=6)
    second = _list(router, pager, q="m-01", limit=6, cursor=first["next_cursor"])
    assert _ids(first) + _ids(second) == [f"page/m-{number:03d}" for number in range(10, 20)]
    assert second["has_more"] is False


@pytest.mark.parametrize(("name", "value"), [("modality", "smell"), ("q", "x" * 201)])
def test_search_that_means_nothing_is_invalid_input(router: Server, name: str, value: str) -> None:
    """Modalities that there are not, and texts without end, are 400 and named."""
    response = router.client.get("/v2/models", params={name: value})
    assert (response.status_code, response.json()["error_type"]) == (400, "invalid_input")
    assert response.json()["detail"].startswith(f"{name} must")


@pytest.mark.req("R-02", "R-04")
@pytest.mark.parametrize(
    ("asked", "applied"),
    [
        ("1", 1),
        ("99", 99),
        ("100", 100),
        ("101", 100),
        ("9" * 4000, 100),
        ("0", 20),
        ("-1", 20),
        ("-" + "9" * 4000, 20),
        ("+5", 5),
        ("0" * 40 + "7", 7),
    ],
)
def test_limit_is_clamped_and_echoed(router: Server, pager: str, token: MakeToken, asked: str, applied: int) -> None:
    """Above a hundred is clamped, zero and less are the default, in v2 and in v1; the stride is echoed."""
    page = _list(router, pager, limit=asked)
    assert (page["limit"], len(page["data"])) == (applied, applied)
    bearer = {"Authorization": f"Bearer {token(models=['page/*'])}"}
    old = router.client.get("/v1/models", params={"limit": asked}, headers=bearer).json()
    assert (old["limit"], _ids(old)) == (applied, _ids(page))


@pytest.mark.req("R-02")
@pytest.mark.parametrize("asked", ["", "ten", "1.0", "1e1", "0x10", " 5", "1_0", "--1", "٣", "null", "5,6"])
def test_limit_that_is_no_integer_is_400(router: Server, asked: str) -> None:
    """What is not an integer is 400 `invalid_input`."""
    response = router.client.get("/v2/models", params={"limit": asked})
    assert (response.status_code, response.json()["error_type"]) == (400, "invalid_input")
    assert response.json()["detail"] == "limit must be an integer."


@pytest.mark.req("R-02", "R-03")
@pytest.mark.parametrize("limit", [1, 7, 50, 100])
def test_traversal_meets_each_model_once(router: Server, pager: str, limit: int) -> None:
    """Following the cursors meets each model once, in a stable order, and the last page has no cursor at all."""
    seen, query = [], {"limit": limit}
    for _ in range(121):
        page = _list(router, pager, **query)
        seen += _ids(page)
        assert page["has_more"] == ("next_cursor" in page)
        if not page["has_more"]:
            break
        query["cursor"] = page["next_cursor"]
    assert seen == _PAGED


@pytest.mark.req("R-02")
def test_full_last_page_has_no_cursor(router: Server, pager: str) -> None:
    """When the models end with the page there is no next one."""
    first = _list(router, pager, limit=60)
    last = _list(router, pager, limit=60, cursor=first["next_cursor"])
    assert (_ids(last), last["has_more"]) == (_PAGED[60:], False)


@pytest.mark.req("R-03")
def test_cursor_goes_on_with_another_limit(router: Server, pager: str) -> None:
    """A cursor is a position: another limit goes on from it."""
    cursor = _list(router, pager, limit=3)["next_cursor"]
    assert _ids(_list(router, pager, limit=2, cursor=cursor)) == _PAGED[3:5]
    assert 1 <= len(cursor) <= 512


def _make_cursor(position: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(position, separators=(",", ":")).encode()).decode().rstrip("=")


@pytest.mark.req("R-03")
@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda _: "", id="empty"),
        pytest.param(lambda cursor: cursor[:-1], id="cut at its end"),
        pytest.param(lambda cursor: cursor[1:], id="cut at its beginning"),
        pytest.param(lambda cursor: cursor[: len(cursor) // 2], id="cut in half"),
        pytest.param(lambda cursor: cursor + "=", id="padded"),
        pytest.param(lambda cursor: cursor + "A", id="longer"),
        pytest.param(lambda cursor: cursor + "\n", id="with a line's end"),
        pytest.param(lambda cursor: f" {cursor}", id="with a space"),
        pytest.param(lambda _: "A" * 512, id="of As"),
        pytest.param(lambda _: "A" * 513, id="too long"),
        pytest.param(lambda _: "A" * 15_000, id="huge"),
        pytest.param(lambda _: "cursor;DROP TABLE", id="of another alphabet"),
        pytest.param(lambda _: "курсор", id="of another script"),
        pytest.param(lambda _: "20", id="an offset"),
        pytest.param(lambda _: "page/m-019", id="a model id"),
        pytest.param(lambda _: _make_cursor(["another-build", "page/m-019"]), id="of another catalog"),
        pytest.param(lambda _: _make_cursor(["build"]), id="short of a member"),
        pytest.param(lambda _: _make_cursor(["build", 3]), id="of another type"),
        pytest.param(lambda _: _make_cursor({"build": "b", "after": "a"}), id="an object"),
        pytest.param(lambda _: _make_cursor(["build", "a", "b"]), id="with a member too many"),
    ],
)
def test_malformed_cursor_is_400(router: Server, pager: str, spoil: Any) -> None:
    """Anything but a cursor of this catalog is 400 `invalid_input`, never a page."""
    cursor = spoil(_list(router, pager, limit=3)["next_cursor"])
    response = router.client.get("/v2/models", params={"cursor": cursor}, headers={"X-API-Key": pager})
    assert (response.status_code, response.json()["error_type"]) == (400, "invalid_input")


@pytest.mark.req("R-03")
def test_v1_refuses_a_malformed_cursor(router: Server, token: MakeToken) -> None:
    """v1 refuses it in the same words."""
    response = router.client.get(
        "/v1/models", params={"cursor": "nonsense"}, headers={"Authorization": f"Bearer {token()}"}
    )
    assert (response.status_code, response.json()["error_type"]) == (400, "invalid_input")


@pytest.mark.req("R-02", "R-38")
def test_catalog_shows_only_what_the_caller_may_run(router: Server, new_name: NewName) -> None:
    """Key and workspace both limit what is seen; a stranger model leaves no trace on any page."""
    key = router.new_workspace(new_name(), "--models", "fake/*,page/m-00*", models="page/*,local/*,fake/json-1")
    assert _ids(_list(router, key, limit=100)) == ["fake/json-1", *_PAGED[:10]]
    nothing = router.new_workspace(new_name(), models="nobody/*")
    assert _list(router, nothing) == {"data": [], "has_more": False, "limit": 20}


@pytest.mark.req("R-02")
def test_catalog_page_has_an_entity_tag(router: Server, pager: str) -> None:
    """A page carries an entity tag, and 304 answers who has it."""
    headers = {"X-API-Key": pager}
    first = router.client.get("/v2/models", headers=headers)
    again = router.client.get("/v2/models", headers={**headers, "If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", first.headers["etag"])
    assert router.client.get("/v2/models?limit=3", headers=headers).headers["etag"] != first.headers["etag"]


@pytest.mark.req("R-02")
@pytest.mark.parametrize("query", ["limit=3&unknown=1", "limit=3&limit=4", "limit=3&cursor_=x"])
def test_unknown_parameter_is_ignored(router: Server, pager: str, query: str) -> None:
    """Parameters nobody defined are left alone, and of a repeated one the first counts."""
    page = router.client.get(f"/v2/models?{query}", headers={"X-API-Key": pager}).json()
    assert page["limit"] == 3


@pytest.mark.parametrize("query", ["limit=%ff", "&".join(f"p{n}=1" for n in range(40))])
def test_malformed_query_is_400(router: Server, query: str) -> None:
    """A query that is not text, or of too many parts, is 400 `invalid_input`."""
    response = router.client.get(f"/v2/models?{query}")
    assert (response.status_code, response.json()["error_type"]) == (400, "invalid_input")


@pytest.mark.req("R-05")
def test_detail_has_entry_schema_link_and_providers(router: Server) -> None:
    """The detail is the entry, the link to its schema, and the providers that serve it; prices on request."""
    path = "/v2/models/fake/closed-1"
    detail = router.client.get(path).json()
    assert detail == {
        "id": "fake/closed-1",
        "provider": "fake",
        "model": "closed-1",
        "billing": {"charges_on_policy_rejection": "unknown"},
        "providers": [{"provider": "fake", "native": True, "model": "closed-1", "available": True}],
        "title": "A fake model",
        "input_schema_url": f"{router.url}/v2/models/fake/closed-1/openapi.json",
    }
    assert router.client.get(path, params={"prices": "true"}).json() == detail | {"price": ["0.01 per run"]}
    refused = router.client.get(path, params={"prices": "yes"})
    assert (refused.status_code, refused.json()["error_type"]) == (400, "invalid_input")


@pytest.mark.req("R-05")
def test_open_model_links_to_no_schema(router: Server, token: MakeToken) -> None:
    """`input_schema_url` is absent where no schema is authored, in both generations; v1 links into v1."""
    bearer = {"Authorization": f"Bearer {token()}"}
    assert "input_schema_url" not in router.client.get("/v2/models/fake/json-1").json()
    assert "input_schema_url" not in router.client.get("/v1/models/fake/json-1", headers=bearer).json()
    linked = router.client.get("/v1/models/fake/closed-1", headers=bearer).json()
    assert linked["input_schema_url"] == f"{router.url}/v1/models/fake/closed-1/openapi.json"


@pytest.mark.req("R-05")
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_unknown_model_comes_with_suggestions(router: Server, method: str) -> None:
    """A name that is nearly right brings up to three that are, for the detail and for a run alike."""
    response = router.client.request(method, "/v2/models/page/m-0")
    assert (response.status_code, response.json()["error_type"]) == (404, "model_not_found")
    detail = response.json()["detail"]
    assert detail.startswith("There is no model page/m-0. Did you mean page/m-")
    suggested = detail.removeprefix("There is no model page/m-0. Did you mean ").removesuffix("?").split(", ")
    assert len(suggested) == 3
    assert set(suggested) <= set(_PAGED)


@pytest.mark.req("R-05")
def test_suggestions_never_name_a_hidden_model(router: Server, pager: str) -> None:
    """Suggestions come from what the caller may see; and a hidden model that exists is 403, not 404."""
    hidden = router.client.get("/v2/models/fake/json-2", headers={"X-API-Key": pager}).json()["detail"]
    assert "fake/" not in hidden.removeprefix("There is no model fake/json-2.")
    assert router.client.get("/v2/models/fake/json-1", headers={"X-API-Key": pager}).status_code == 403


@pytest.mark.req("R-05")
def test_nothing_is_suggested_for_nonsense(router: Server) -> None:
    """Where nothing is near, nothing is suggested; an unknown provider is an unknown model."""
    detail = router.client.get("/v2/models/qqqqqqqqqq/zzzzzzzzzzzzzzzzzz").json()["detail"]
    assert detail == "There is no model qqqqqqqqqq/zzzzzzzzzzzzzzzzzz."


_BAD_IDS = [
    pytest.param("Fake/json-1", id="upper case"),
    pytest.param("fake/JSON-1", id="upper case model"),
    pytest.param("fake/json_.1", id="two separators"),
    pytest.param("fake/-json", id="a separator first"),
    pytest.param("fake/json-", id="a separator last"),
    pytest.param("fake/json%201", id="a space"),
    pytest.param("fake/json%00", id="a null"),
    pytest.param("fake/json-1%0A", id="a line's end"),
    pytest.param("fake/%E2%91%A0", id="a digit that is none"),
    pytest.param("fake/%ff", id="bytes that are not text"),
    pytest.param("fake/json%2D1%2Fx", id="an encoded slash"),
    pytest.param(f"{'a' * 65}/m", id="a provider of 65"),
    pytest.param(f"fake/{'a' * 129}", id="a model of 129"),
    pytest.param("fake/..", id="dots"),
    pytest.param("fake/%2e%2e", id="encoded dots"),
    pytest.param("../models", id="dots first"),
    pytest.param("fake/json-1:v2", id="a colon"),
    pytest.param("fake/*", id="a pattern"),
]


@pytest.mark.req("R-01")
@pytest.mark.parametrize("method", ["GET", "POST"])
@for_each("path", _BAD_IDS)
def test_malformed_id_is_never_looked_up(router: Server, ask_raw: Any, method: str, path: str) -> None:
    """What can be no model id is 404 without suggestions: it never reached a lookup."""
    status, headers, body = ask_raw(router, method, f"/v2/models/{path}")
    assert status == 404
    assert headers["x-service-error-type"] in ("model_not_found", "request_not_found")
    assert "Did you mean" not in body


@pytest.mark.req("R-01")
@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    "path", ["fake", "fake/json-1/v2", "fake/json-1/", "/fake/json-1", "fake//json-1", "fake%2Fjson-1", "fake/json%2f1"]
)
def test_id_has_exactly_two_segments(router: Server, ask_raw: Any, method: str, path: str) -> None:
    """Exactly two segments; an encoded slash separates nothing, and one slash more is another path."""
    status, headers, _ = ask_raw(router, method, f"/v2/models/{path}")
    assert status == 404
    assert headers["x-service-error-type"] in ("model_not_found", "request_not_found")


@pytest.mark.req("R-01")
@pytest.mark.parametrize("model_id", [f"{'a' * 64}/m", f"fake/{'a' * 128}", "a.b_c-d/e", "0/1"])
def test_longest_id_is_looked_up(router: Server, model_id: str) -> None:
    """A well-formed id is looked up, and the answer names it whole."""
    assert router.client.get(f"/v2/models/{model_id}").json()["detail"].startswith(f"There is no model {model_id}.")


@pytest.mark.req("R-06")
@pytest.mark.parametrize(
    ("path", "detail"),
    [
        ("fake/retired-1", "fake/retired-1 was retired on 2026-01-31; use fake/json-1"),
        ("fake/retired-2", "fake/retired-2 was retired on 2026-01-31"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_retired_model_says_when_and_what_to_use(router: Server, method: str, path: str, detail: str) -> None:
    """A retired model says since when, and what to use instead where that is recorded."""
    response = router.client.request(method, f"/v2/models/{path}")
    assert response.status_code == 404
    assert response.json() == {"detail": detail, "error_type": "model_not_found"}
    assert router.client.get(f"/v2/models/{path}/openapi.json").json()["detail"] == detail


@pytest.mark.req("R-06")
def test_retiring_model_is_runnable_until_its_date(router: Server) -> None:
    """Until its date a model is listed, shown and runnable."""
    listed = _ids(router.client.get("/v2/models?limit=100").json())
    assert "fake/retiring-1" in listed
    assert [name for name in listed if name.startswith("fake/retired")] == []
    assert router.client.get("/v2/models/fake/retiring-1").status_code == 200
    assert router.client.post("/v2/models/fake/retiring-1", json={}).status_code == 200
