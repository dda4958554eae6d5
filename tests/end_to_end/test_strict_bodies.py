"""Bodies in a provider's own form cannot bypass the price, the model and the budget of a key (S-01)."""

from collections.abc import Iterator
from typing import Any, Final

import httpx
import pytest

from servers import Server, serving, wait_until

_GEMINI: Final = "vertexai/gemini-3-pro-image"
_FLUX: Final = "bfl/flux-pro-1.1"
_TASK: Final = {
    "taskType": "imageInference",
    "taskUUID": "0190d3c8-1111-4222-8333-944445555666",
    "model": "bfl:2@1",
    "includeCost": True,
    "outputType": "URL",
    "positivePrompt": "a lighthouse",
}


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return a server that calls every provider at its simulator."""
    data = tmp_path_factory.mktemp("strict") / "data"
    with serving(data, arguments=("--simulate", "--no-local-partner")) as server:
        yield server
        server.prove_settled()


class _Limited:
    """A caller whose key may run one model for a dime."""

    def __init__(self, server: Server, model: str, budget: str = "0.10") -> None:
        self.server = server
        self.model = model
        limits = ("--models", model, "--budget", budget, "--budget-period", "total")
        self._key = server.cli("keys", "create", "default", *limits, "--json")["key"]

    def run(self, provider: str, body: dict[str, Any], path: str = "") -> httpx.Response:
        """Send a strict body."""
        params = {"model_provider": provider, "strict_mode": "true"}
        url, headers = f"/v2/models/{self.model}{path}", {"X-API-Key": self._key}
        return self.server.client.post(url, params=params, headers=headers, json=body, timeout=30)


@pytest.fixture(scope="module")
def gemini(simulated: Server) -> _Limited:
    """Return a caller that may not afford one picture of the alternate."""
    return _Limited(simulated, _GEMINI)


@pytest.fixture(scope="module")
def flux(simulated: Server) -> _Limited:
    """Return a caller that affords two pictures."""
    return _Limited(simulated, _FLUX)


@pytest.mark.req("S-01", "R-13")
@pytest.mark.parametrize("path", ["", "/requests"])
@pytest.mark.parametrize(
    ("body", "needed"),
    [
        ({"prompt": "a", "num_images": 4, "resolution": "4K"}, "1.2"),
        ({"prompt": "a", "num_images": "many", "resolution": "2K"}, "0.6"),
        ({"prompt": "a", "resolution": "8K"}, "0.3"),
        ({"prompt": "a"}, "0.15"),
    ],
)
def test_budget_holds_whatever_a_strict_body_asks(
    gemini: _Limited, path: str, body: dict[str, Any], needed: str
) -> None:
    """At once and through the queue the hold is that of the provider's own fields, and the key cannot pay it."""
    answer = gemini.run("fal", body, path)
    assert (answer.status_code, answer.headers["x-service-error-type"]) == (402, "insufficient_credits")
    assert f"may cost {needed} US dollars" in answer.json()["detail"]


@pytest.mark.req("S-01", "R-13")
@pytest.mark.parametrize("path", ["", "/requests"])
@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"model": "openai:gpt-image@2"}, "model"),
        ({"model": "bfl:2@1 "}, "model"),
        ({"taskType": "videoInference"}, "taskType"),
        ({"outputType": "base64Data"}, "outputType"),
        ({"includeCost": False}, "includeCost"),
        ({"webhookURL": "https://x.example"}, "webhookURL"),
        ({"deliveryMethod": "async"}, "deliveryMethod"),
        ({"numberResults": 21}, "numberResults"),
        ({"lora": [{"model": "civitai:1@1"}]}, "lora"),
    ],
)
def test_other_work_than_the_models_own_is_refused(
    flux: _Limited, path: str, change: dict[str, Any], field: str
) -> None:
    """Another model, another task, or a field without a price is 422 at its field, and nothing is sent."""
    answer = flux.run("runware", {**_TASK, **change}, path)
    assert (answer.status_code, answer.headers["x-service-error-type"]) == (422, "invalid_input")
    assert [entry["loc"] for entry in answer.json()["detail"]] == [["body", field]]


@pytest.mark.req("S-01")
@pytest.mark.parametrize("content", [b"[{}, {}]", b'[{"taskType": "imageInference"}]'])
def test_several_tasks_in_one_body_are_refused(simulated: Server, content: bytes) -> None:
    """A body is one object: nobody sends a vendor of task lists more than one task."""
    params = {"model_provider": "runware", "strict_mode": "true"}
    headers = {"Content-Type": "application/json"}
    answer = simulated.client.post(f"/v2/models/{_FLUX}", params=params, content=content, headers=headers)
    assert (answer.status_code, answer.headers["x-service-error-type"]) == (400, "invalid_input")


@pytest.mark.req("S-01", "R-13", "R-28")
def test_strict_run_within_its_price_is_charged_by_the_providers_own_fields(simulated: Server) -> None:
    """Two pictures asked in the provider's words cost two pictures, at once and through the queue."""
    rich = _Limited(simulated, _FLUX, "1")
    answer = rich.run("runware", {**_TASK, "numberResults": 2})
    assert (answer.status_code, len(answer.json()["data"])) == (200, 2)
    assert simulated.charges(answer.headers["x-service-request-id"]) == ["0.08"]
    queued = rich.run("runware", {**_TASK, "numberResults": 2}, "/requests").json()
    assert (queued["estimate"]["source"], queued["estimate"]["amount"]) == ("exact", "0.08")
    wait_until(lambda: simulated.charges(queued["request_id"]), "the queued run is charged")
    assert simulated.charges(queued["request_id"]) == ["0.08"]
