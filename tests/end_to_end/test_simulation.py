"""The partner simulator, by itself and behind a server: every provider without a key, a cost or a network."""

import base64
import io
import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from PIL import Image

from servers import COMMAND, Server, environment, serving

_SECONDS = 30


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return a server that calls every provider at its simulator."""
    data = tmp_path_factory.mktemp("simulated") / "data"
    with serving(data, arguments=("--simulate", "--no-local-partner")) as server:
        yield server
        server.prove_settled()


def _run(server: Server, model: str, prompt: str) -> httpx.Response:
    return server.client.post(f"/v2/models/{model}", json={"prompt": prompt}, timeout=_SECONDS)


@pytest.mark.req("R-10", "R-28")
def test_synchronous_vendor_can_be_tried(simulated: Server) -> None:
    """A picture of OpenAI's form comes back, opens, and is charged, without a key for anybody."""
    response = _run(simulated, "openai/gpt-image-2", "a red kite over a harbour")
    assert response.status_code == 200, response.text
    picture = base64.b64decode(response.json()["data"][0]["b64_json"])
    assert Image.open(io.BytesIO(picture)).size[0] > 0
    assert len(simulated.charges(response.headers["x-service-request-id"])) == 1
    assert float(response.headers["x-service-credits-used"]) > 0


@pytest.mark.req("R-10", "R-36")
def test_polled_vendor_can_be_tried(simulated: Server) -> None:
    """Work that is submitted and polled ends in a picture, which we have copied and link to."""
    response = _run(simulated, "bfl/flux-2-pro", "a lighthouse in fog")
    assert response.status_code == 200, response.text
    link = response.json()["result"]["sample"]
    assert link.startswith(f"{simulated.url}/assets/")
    assert Image.open(io.BytesIO(httpx.get(link).content)).size[0] > 0
    assert len(simulated.charges(response.headers["x-service-request-id"])) == 1


@pytest.mark.req("R-20", "R-27")
@pytest.mark.parametrize(("model", "subject"), [("openai/gpt-image-2", None), ("bfl/flux-2-pro", "input")])
def test_refusal_can_be_scripted(simulated: Server, model: str, subject: str | None) -> None:
    """A prompt that asks for it is refused as that vendor would: which side it names, or none; nothing is charged."""
    response = _run(simulated, model, "a red kite [[fault:refused]]")
    assert (response.status_code, response.json()["error_type"]) == (400, "content_policy_violation")
    assert response.json().get("refusal_subject") == subject
    assert simulated.charges(response.headers["x-service-request-id"]) == []


def test_simulator_can_be_run_by_itself() -> None:
    """`fairlead simulate` says where it listens, answers a vendor's API there, and ends when it is told to."""
    process = subprocess.Popen(
        [*COMMAND, "simulate", "--port", "0", "--task-seconds", "0.1"],
        stdout=subprocess.PIPE,
        env=environment(),
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("listening on http://127.0.0.1:"), line
        url = line.removeprefix("listening on ").strip()
        body = {"model": "gpt-image-2", "prompt": "a kite"}
        headers = {"Authorization": "Bearer anything"}
        made = httpx.post(f"{url}/openai/v1/images/generations", json=body, headers=headers, timeout=_SECONDS)
        assert made.status_code == 200, made.text
        assert json.loads(made.text)["data"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(_SECONDS) == 0
    finally:
        process.kill()
        process.wait(_SECONDS)
        if process.stdout is not None:
            process.stdout.close()


def test_models_of_a_vendor_are_tried(tmp_path: Path) -> None:
    """On the data of a server that has stopped; a bound is kept, and nothing is claimed of a vendor not called."""
    with serving(tmp_path / "data") as server:
        server.idle()
    data = ("--json", "--data", str(tmp_path / "data"))
    settings = {"FAIRLEAD_SIMULATE": "true", "FAIRLEAD_ENGINE": "false", "FAIRLEAD_LOG_LEVEL": "error"}
    words = [*COMMAND, "providers", "verify", "openai", "--spend", "0.01", *data]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=120, env=environment() | settings, check=False)
    made = {one["model_id"]: one for one in json.loads(ran.stdout)}
    assert made["openai/gpt-5"]["result"] == "verified", made["openai/gpt-5"]
    assert made["openai/whisper-1"]["result"] == "not tried"
    assert 0 < sum(float(one["charge"]) for one in made.values()) <= 0.01
    assert "so nothing was recorded" in ran.stderr
    words = [*COMMAND, "providers", "verified", *data]
    assert json.loads(subprocess.check_output(words, timeout=60, env=environment())) == []
