"""Two APIs at one address: each answers its own paths, in its own envelope."""

import pytest

from api.cloud.clients import Client, refusal_of


@pytest.mark.req("C-14", "R-20")
def test_unknown_path_is_answered_by_its_own_api(visitor: Client) -> None:
    """What nobody serves is refused by the API whose path it would be."""
    for path in ("/api/v2x", "/api/nothing", "/prompt/nothing", "/api"):
        assert refusal_of(visitor.ask("GET", path)) == (404, "request_not_found"), path
    for path in ("/v2/nothing", "/nothing", "/v2/models/a/b", "/jobs"):
        response = visitor.ask("GET", path)
        assert response.status_code == 404, path
        assert set(response.json()) == {"detail", "error_type"}, path
        assert response.headers["x-service-request-id"]
    assert visitor.ask("GET", "/healthz").json() == {"status": "ok"}


@pytest.mark.req("C-14")
def test_wrong_method_is_405_with_the_methods_of_the_path(visitor: Client) -> None:
    """A path that is known takes its own methods, and says which."""
    response = visitor.ask("PUT", "/api/queue")
    assert refusal_of(response) == (405, "method_not_allowed")
    assert set(response.headers["allow"].replace(",", " ").split()) == {"GET", "HEAD", "POST"}
    head = visitor.ask("HEAD", "/api/prompt")
    assert (head.status_code, head.content) == (200, b"")
