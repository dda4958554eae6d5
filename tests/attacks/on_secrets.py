"""Who gets what is not theirs: strict bodies, echoed keys, tokens of nobody, and pages in a browser on this machine."""

import json
import uuid
from typing import Any, Final

import httpx

from attacks.world import Attack, Verdict, World, environment
from end_to_end.workflow_clients import graph_showing
from fake_partner import SECRET, reply
from servers import PLAIN, ServerFailedError, command, serving

_FLUX: Final = "/v2/models/bfl/flux-2-pro"
_BUDGET: Final = "0.10"
_STRICT: Final = (
    ("fal", {"prompt": "a harbour", "num_images": 4, "image_size": {"width": 4096, "height": 4096}}),
    ("fal", {"prompt": "a harbour", "image_size": {"width": 14142, "height": 14142}}),
    ("runware", {"taskType": "imageInference", "model": "google:4@2", "positivePrompt": "a harbour"}),
    ("runware", {"taskType": "videoInference", "model": "klingai:5@3", "positivePrompt": "a harbour", "duration": 10}),
)


def strict_bodies(world: World) -> Verdict:
    """Run other, dearer models with a key that may run one, and has a budget of ten cents."""
    folder = world.folder / f"strict-{uuid.uuid4().hex}"
    with serving(folder, env={"FAIRLEAD_ENGINE": "false"}, arguments=("--simulate",)) as server:
        server.cli("workspaces", "create", "frugal")
        limits = ("--models", "bfl/flux-2-pro", "--budget", _BUDGET)
        key = server.cli("keys", "create", "frugal", *limits, "--json")["key"]
        with httpx.Client(base_url=server.url, headers={"X-API-Key": key}, timeout=60, verify=PLAIN) as client:
            statuses = [_strict(client, provider, body) for provider, body in _STRICT]
    return Verdict(set(statuses) == {httpx.codes.UNPROCESSABLE_ENTITY}, f"answered {statuses}")


def _strict(client: httpx.Client, provider: str, body: dict[str, Any]) -> int:
    sent = {**body, "taskUUID": str(uuid.uuid4())} if provider == "runware" else body
    answer = client.post(_FLUX, params={"model_provider": provider, "strict_mode": "true"}, json=sent)
    return answer.status_code


def echoed_key(world: World) -> Verdict:
    """Have a partner say our own key in everything that it may say."""
    document = {"error": {"message": f"the key {SECRET} is out of credit", "key": SECRET}, "detail": SECRET}
    said = []
    for status in (400, 401, 402, 403, 404, 422, 429, 500, 503):
        world.partner.script("/json", reply(status, json.dumps(document).encode(), X_Key=SECRET))
        answer = world.attacker.http.post("/v2/models/fake/json-1", json={"prompt": "a harbour"})
        said.append(answer.text + str(answer.headers))
    world.partner.reset()
    echoed = sum(SECRET in text for text in said)
    is_logged = SECRET in world.server.log.read_text("utf-8")
    return Verdict(not echoed and not is_logged, f"in {echoed} of {len(said)} answers; in the log: {is_logged}")


def foreign_pages(world: World) -> Verdict:
    """Ask an open server as a page of another site would: under another name, and from another origin."""
    settings = {"FAIRLEAD_JOBS_SURFACE": "self_hosted"}
    body = json.dumps({"workflow": graph_showing("PrimitiveInt", value=1)})
    with serving(world.folder / f"open-{uuid.uuid4().hex}", env=environment(settings)) as server:
        own = _submit(server.url, body, {})
        rebound = _submit(server.url, body, {"Host": "rebound.example"})
        other_origin = _submit(server.url, body, {"Origin": "https://evil.example", "Content-Type": "text/plain"})
    held = own == httpx.codes.CREATED and min(rebound, other_origin) >= httpx.codes.BAD_REQUEST
    return Verdict(held, f"by its own name {own}, by another {rebound}, from another origin {other_origin}")


def _submit(url: str, body: str, headers: dict[str, str]) -> int:
    sent = {"Content-Type": "application/json", **headers}
    return httpx.post(f"{url}/api/v2/jobs", content=body, headers=sent, verify=PLAIN, timeout=30).status_code


def tokens_of_anybody(world: World) -> Verdict:
    """Start a server that would take tokens of any issuer, for any audience."""
    settings = {"FAIRLEAD_JWT_SECRET": "x" * 40, "FAIRLEAD_ENGINE": "false"}
    try:
        with serving(world.folder / f"tokens-{uuid.uuid4().hex}", env=settings):
            return Verdict(held=False, found="it starts without FAIRLEAD_JWT_ISSUER and FAIRLEAD_JWT_AUDIENCE")
    except ServerFailedError as error:
        return Verdict("FAIRLEAD_JWT_ISSUER" in str(error), "it does not start, and says what is missing")


def nested_lambdas(world: World) -> Verdict:
    """Have an expression evaluated that nests deeper than the interpreter's stack."""
    expression = "lambda:" * 500 + "1"
    graph = graph_showing("ComfyMathExpression", expression=expression, **{"values.a": 1})
    answer = world.attacker.post(graph)
    if not answer.is_success:
        return Verdict("Recursion" not in answer.text, f"answered {answer.status_code}")
    said = str(world.attacker.wait_for_end(answer.json()["prompt_id"]))
    return Verdict("RecursionError" not in said, "the job fails with a sentence about the expression")


def revoked_secret(world: World) -> Verdict:
    """Give a key's secret to `keys revoke` where its id is wanted, as one does; it must not be printed."""
    secret = world.server.cli("keys", "create", world.attacker.workspace, "--models", "all", "--json")["key"]
    try:
        said = str(command("keys", "revoke", secret, "--data", str(world.server.data)))
    except AssertionError as error:
        said = str(error)
    return Verdict(secret not in said, "it is not repeated" if secret not in said else "it is printed")


def watch_the_metrics(world: World) -> Verdict:
    """Read /metrics from another machine, which a proxy's header stands for, without a credential."""
    settings = {"FAIRLEAD_ENGINE": "false", "FAIRLEAD_TRUSTED_PROXIES": "127.0.0.1"}
    with serving(world.folder / f"metrics-{uuid.uuid4().hex}", env=settings) as server:
        headers = {"X-Forwarded-For": "203.0.113.9"}
        answer = httpx.get(f"{server.url}/metrics", headers=headers, verify=PLAIN)
    return Verdict(answer.is_client_error, f"answered {answer.status_code}")


ATTACKS: Final = (
    Attack("strict bodies", "dearer models in the provider's own form", strict_bodies, on_both=True, is_elsewhere=True),
    Attack("echoed key", "a partner repeats our key in what it says", echoed_key),
    Attack(
        "foreign pages", "a web page calls an open server on its visitor's machine", foreign_pages, is_elsewhere=True
    ),
    Attack("tokens of anybody", "tokens without an issuer and an audience", tokens_of_anybody, is_elsewhere=True),
    Attack("nested lambdas", "an expression of five hundred lambdas", nested_lambdas),
    Attack("revoked secret", "the secret of a key where its id is wanted", revoked_secret),
    Attack("watched metrics", "metrics without a credential from elsewhere", watch_the_metrics, is_elsewhere=True),
)
