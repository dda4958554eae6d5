"""Deployments over HTTP: their life, their addresses, and what is refused there (J-10, J-15)."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from api.cloud.clients import holding
from api.conftest import JWT_AUDIENCE, JWT_ISSUER, MakeToken
from api.jobs.callers import TERMINAL, JobsCaller, refusal_of
from api.jobs.conftest import ENGINE, NewJobsCaller
from api.jobs.test_lists import list_ids
from cases import for_each
from databases import Postgres
from servers import Server, serving, wait_until

_DEPLOYMENTS: Final = "/api/v2/deployments"
_JOBS: Final = "/api/v2/jobs"
_QUICK: Final = {"1": {"class_type": "PrimitiveInt", "inputs": {"value": 1}},
                 "2": {"class_type": "PreviewAny", "inputs": {"source": ["1", 0]}}}  # fmt: skip
_UNKNOWN: Final = "pictures-00000000"
_ADDING: Final = """
class Add:
    RETURN_TYPES = ("INT",)
    FUNCTION = "run"
    CATEGORY = "x"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"value": ("INT", {})}}

    def run(self, value):
        return (value,)


NODE_CLASS_MAPPINGS = {"Add": Add}
"""
_DOMAIN: Final = "deployments.example"
_APPS: Final = "https://apps.example"


def make_ready(caller: JobsCaller, name: str = "pictures", **more: Any) -> dict[str, Any]:
    """Make a deployment that is ready, and return it."""
    response = caller.ask("POST", _DEPLOYMENTS, json={"name": name, **more})
    assert response.status_code == 201, response.text
    return reaches(caller, response.json()["id"], "ready")


def reaches(caller: JobsCaller, id_: str, *statuses: str) -> dict[str, Any]:
    """Wait until a deployment has one of some statuses, and return it."""
    path = f"{_DEPLOYMENTS}/{id_}"
    return wait_until(lambda: (one := caller.get(path))["status"] in statuses and one, f"{id_} to be {statuses}") or {}


def send(caller: JobsCaller, id_: str, workflow: Any, **more: Any) -> httpx.Response:
    """Send a workflow to the path of a deployment."""
    return caller.ask("POST", f"/deployments/{id_}{_JOBS}", json={"workflow": workflow, **more})


@pytest.mark.req("J-15")
def test_deployment_becomes_ready_with_its_release(caller: JobsCaller) -> None:
    """It begins not ready, with its first release; another release serves once it is prepared."""
    response = caller.ask("POST", _DEPLOYMENTS, json={"name": "pictures", "node_packs": []})
    assert response.status_code == 201, response.text
    new = response.json()
    assert new["id"].startswith("pictures-")
    assert (new["status"], new["release_version"], new["latest_release_version"]) == ("not_ready", None, 1)
    one = reaches(caller, new["id"], "ready")
    assert (one["release_version"], one["reason"]) == (1, None)
    published = caller.ask("POST", f"{_DEPLOYMENTS}/{one['id']}/releases", json={"node_packs": ["holding"]})
    assert published.status_code == 201
    assert (published.json()["version"], published.json()["status"]) == (2, "preparing")
    wait_until(lambda: caller.get(f"{_DEPLOYMENTS}/{one['id']}")["release_version"] == 2, "the release to serve")
    found = caller.get(one["urls"]["releases"])["releases"]
    assert [(each["version"], each["status"], each["node_packs"]) for each in found] == [
        (2, "prepared", ["holding"]), (1, "prepared", []),
    ]  # fmt: skip
    assert found[0]["nodes"] > 0
    assert found[1]["nodes"] == 0
    assert [each["id"] for each in caller.get(_DEPLOYMENTS)["deployments"]] == [one["id"]]


@pytest.mark.req("J-10", "J-15")
def test_deployment_lists_its_own_jobs(caller: JobsCaller) -> None:
    """Its address shows its jobs and no others, and their links stay there; the workspace's address shows all."""
    one, other = make_ready(caller, "one", node_packs=[]), make_ready(caller, "other", node_packs=[])
    sent = send(caller, one["id"], _QUICK, metadata={"team": "a"})
    assert sent.status_code == 201, sent.text
    job = sent.json()
    assert (job["deployment_id"], job["release_version"]) == (one["id"], 1)
    base = f"{caller.server.url}/deployments/{one['id']}"
    assert all(url.startswith(base) for url in job["urls"].values())
    bare = caller.submit(_QUICK)
    assert "deployment_id" not in bare
    caller.reaches(job["id"], "succeeded")
    (item,) = caller.get(f"/deployments/{one['id']}{_JOBS}?metadata[team]=a")["jobs"]
    assert (item["id"], item["release_version"], item["metadata"]) == (job["id"], 1, {"team": "a"})
    assert caller.get(f"/deployments/{other['id']}{_JOBS}") == {"jobs": []}
    assert list_ids(caller) == [bare["id"], job["id"]]
    for path in ("", "/workflow", "/logs", "/events"):
        assert refusal_of(caller.ask("GET", f"/deployments/{other['id']}{_JOBS}/{job['id']}{path}")) == (
            404,
            "not_found",
        )
        assert refusal_of(caller.ask("GET", f"/deployments/{one['id']}{_JOBS}/{bare['id']}{path}")) == (
            404,
            "not_found",
        )
    assert refusal_of(caller.ask("POST", f"/deployments/{one['id']}{_JOBS}/{bare['id']}/cancel")) == (404, "not_found")
    assert caller.ask("GET", job["urls"]["self"]).json()["id"] == job["id"]


@pytest.mark.req("J-10")
def test_deployment_executes_with_its_own_nodes(caller: JobsCaller) -> None:
    """Each has the node packs of its release; what it lacks is an unknown class there."""
    with_pack, without = (
        make_ready(caller, "with", node_packs=["holding"]),
        make_ready(caller, "without", node_packs=[]),
    )
    sent = send(caller, with_pack["id"], holding())
    assert sent.status_code == 201, sent.text
    caller.reaches(sent.json()["id"], "running")
    answer = send(caller, without["id"], holding())
    assert refusal_of(answer) == (422, "invalid_workflow")
    assert answer.json()["error"]["details"]["unknown_node_classes"] == ["HoldOn"]


@pytest.mark.req("J-15")
def test_stopped_deployment_refuses_jobs(caller: JobsCaller) -> None:
    """It refuses them for good and goes on with those it has; started, it is ready again. Twice is no mistake."""
    one = make_ready(caller, node_packs=["holding"])
    job = send(caller, one["id"], holding()).json()
    for _ in range(2):
        assert caller.ask("POST", one["urls"]["stop"]).json()["status"] == "stopped"
    answer = send(caller, one["id"], holding())
    assert refusal_of(answer) == (422, "deployment_stopped")
    assert "retry-after" not in answer.headers
    unread = caller.ask("POST", f"/deployments/{one['id']}{_JOBS}", content=b"no JSON")
    assert refusal_of(unread) == (422, "deployment_stopped")
    assert caller.job(job["id"])["status"] == "running"
    for _ in range(2):
        assert caller.ask("POST", one["urls"]["start"]).json()["status"] in ("not_ready", "ready")
    reaches(caller, one["id"], "ready")
    assert send(caller, one["id"], holding()).status_code == 201


@pytest.mark.req("J-07", "J-15")
def test_deployment_that_is_not_ready_says_when_to_ask_again(caller: JobsCaller) -> None:
    """Right after it was made it may not be ready; then it says so, and when to ask again."""
    made_now = caller.ask("POST", _DEPLOYMENTS, json={"name": "late", "node_packs": ["holding"]}).json()
    answer = send(caller, made_now["id"], {"not even": "looked at"})
    assert refusal_of(answer) == (429, "deployment_not_ready")
    assert int(answer.headers["retry-after"]) >= 1
    reaches(caller, made_now["id"], "ready")
    assert refusal_of(send(caller, made_now["id"], {"not even": "looked at"})) == (422, "invalid_workflow")


@pytest.mark.req("J-06", "J-15")
def test_jobs_of_a_deleted_deployment_end(caller: JobsCaller) -> None:
    """The one that is executed is canceled, those that wait fail, others go on; the address is gone at once."""
    caller.server.cli("workspaces", "change", caller.workspace, "--subscription", "standard")
    one, other = make_ready(caller, "one", node_packs=["holding"]), make_ready(caller, "other", node_packs=["holding"])
    running = send(caller, one["id"], holding()).json()["id"]
    caller.reaches(running, "running")
    waiting = [send(caller, where["id"], holding()).json()["id"] for where in (one, other)]
    assert caller.ask("DELETE", one["urls"]["self"]).status_code == 204
    assert refusal_of(caller.ask("GET", one["urls"]["self"])) == (404, "not_found")
    assert refusal_of(caller.ask("DELETE", one["urls"]["self"])) == (404, "not_found")
    assert refusal_of(send(caller, one["id"], holding())) == (404, "not_found")
    failed = caller.reaches(waiting[0], *TERMINAL)
    assert (failed["status"], failed["error"]["code"]) == ("failed", "deployment_deleted")
    assert (failed["deployment_id"], failed["outputs"]) == (one["id"], [])
    assert caller.reaches(running, *TERMINAL)["status"] == "canceled"
    caller.reaches(waiting[1], "running")


@pytest.mark.req("J-10")
def test_deployment_of_another_workspace_looks_unknown(new_jobs_caller: NewJobsCaller) -> None:
    """Whatever is asked of it, the answer is that of a deployment there is not; without a credential it is 401."""
    owner, stranger = new_jobs_caller(), new_jobs_caller()
    one = make_ready(owner, node_packs=[])
    job = send(owner, one["id"], _QUICK).json()["id"]
    asked = [
        ("GET", f"{_DEPLOYMENTS}/{{}}"), ("DELETE", f"{_DEPLOYMENTS}/{{}}"), ("PATCH", f"{_DEPLOYMENTS}/{{}}"),
        ("POST", f"{_DEPLOYMENTS}/{{}}/stop"),
        ("POST", f"{_DEPLOYMENTS}/{{}}/start"), ("GET", f"{_DEPLOYMENTS}/{{}}/releases"),
        ("POST", f"{_DEPLOYMENTS}/{{}}/releases"), ("GET", f"/deployments/{{}}{_JOBS}"),
        ("GET", f"/deployments/{{}}{_JOBS}/{job}"), ("POST", f"/deployments/{{}}{_JOBS}"),
        ("GET", f"/deployments/{{}}/api/v2/assets/{job}"),
    ]  # fmt: skip
    for method, path in asked:
        answers = [
            stranger.ask(method, path.format(id_), json={"pool": None}) for id_ in (one["id"], _UNKNOWN, "No_Label")
        ]
        assert [refusal_of(answer) for answer in answers] == [(404, "not_found")] * 3, path
        assert len({answer.text for answer in answers}) == 1
        nobody = httpx.request(method, owner.server.url + path.format(one["id"]), json={})
        assert refusal_of(nobody) == (401, "unauthorized")
    assert owner.get(one["urls"]["self"])["status"] == "ready"


@for_each(
    ("body", "told"),
    [
        ({}, "JSON such as"), ([], "JSON such as"), ({"name": 1}, "JSON such as"), ({"name": ""}, "a-z"),
        ({"name": "a_b"}, "a-z"), ({"name": "x" * 41}, "1 to 40"), ({"name": "a", "node_packs": "holding"}, "JSON"),
        ({"name": "a", "node_packs": [1]}, "JSON"), ({"name": "a", "node_packs": ["nope"]}, "nope"),
        ({"name": "a", "node_packs": ["../packs"]}, "no such node packs"), ({"name": "a", "node_packs": [""]}, "1 to"),
        ({"name": "a", "node_packs": [f"p{number}" for number in range(101)]}, "at most 100"),
        ({"name": "a", "node_packs": ["x" * 256]}, "255"),
        ({"name": "a", "credential_kinds": ["password"]}, "JSON such as"),
    ],
)  # fmt: skip
def test_malformed_deployment_is_refused(visitor: JobsCaller, body: Any, told: str) -> None:
    """It is refused with a sentence that says what is wrong, and nothing is made."""
    answer = visitor.ask("POST", _DEPLOYMENTS, json=body)
    assert refusal_of(answer) == (422, "invalid_request")
    assert told in answer.json()["error"]["message"]
    assert visitor.get(_DEPLOYMENTS) == {"deployments": []}


@pytest.mark.parametrize("content", [b"{", b'{"name": "a', b"\xff", b'{"name":"\xff"}', b"[" * 100_000])
def test_malformed_body_for_a_deployment_is_422(visitor: JobsCaller, content: bytes) -> None:
    """What cannot be read is refused like any other bad body."""
    answer = visitor.ask("POST", _DEPLOYMENTS, content=content)
    assert answer.status_code in (413, 422), answer.text
    assert refusal_of(answer)[1] == "invalid_request"


def test_address_of_a_deployment_has_the_rest_of_the_jobs_api(caller: JobsCaller) -> None:
    """At a deployment's address there is the rest of the jobs API, and its assets have links that stay there."""
    one = make_ready(caller, node_packs=[])
    at = f"/deployments/{one['id']}"
    assert refusal_of(caller.ask("GET", f"{at}{_DEPLOYMENTS}")) == (404, "not_found")
    assert refusal_of(caller.ask("GET", f"{at}/v2/models")) == (404, "not_found")
    assert refusal_of(caller.ask("GET", at)) == (404, "not_found")
    uploaded = caller.ask("POST", f"{at}/api/v2/assets", files={"file": ("a.txt", b"some bytes")})
    assert uploaded.status_code == 201
    assert uploaded.json()["urls"]["self"].startswith(f"{caller.server.url}{at}/api/v2/assets/")
    content = caller.ask("GET", uploaded.json()["urls"]["content"])
    assert caller.server.client.get(content.headers["location"]).content == b"some bytes"


@pytest.fixture(scope="module")
def signing() -> ec.EllipticCurvePrivateKey:
    """Return the key with which another issuer signs."""
    return ec.generate_private_key(ec.SECP256R1())


@pytest.fixture(scope="module")
def domain(tmp_path_factory: pytest.TempPathFactory, signing: ec.EllipticCurvePrivateKey) -> Iterator[Server]:
    """Return a server with a domain for deployments, a proxy's word to be believed, and a second issuer of tokens."""
    folder = tmp_path_factory.mktemp("domain")
    public = ECAlgorithm.to_jwk(signing.public_key(), as_dict=True)
    (folder / "keys.json").write_text(json.dumps({"keys": [{**public, "kid": "one", "use": "sig"}]}))
    issuer = {"issuer": _APPS, "audience": ["apps", "more"], "keys": str(folder / "keys.json"), "kind": "oauth"}
    env = {
        **ENGINE,
        "FAIRLEAD_DEPLOYMENT_DOMAIN": _DOMAIN,
        "FAIRLEAD_TRUSTED_PROXIES": "127.0.0.1",
        "FAIRLEAD_TOKEN_ISSUERS": json.dumps([issuer]),
    }
    with serving(folder / "data", env=env, arguments=("--no-local-partner",)) as server:
        yield server


@pytest.mark.req("J-09", "R-37")
def test_deployment_takes_only_the_token_kinds_it_names(
    domain: Server, signing: ec.EllipticCurvePrivateKey, token: MakeToken
) -> None:
    """Tokens of several issuers are taken; where a deployment takes none of a kind it says so, and keys always do."""
    caller = JobsCaller(domain, "default", domain.key)
    claims = {"sub": "app", "workspace": "default", "exp": int(time.time()) + 600, "iss": _APPS, "aud": "more"}
    oauth = jwt.encode(claims, signing, "ES256", {"kid": "one"})
    forged = jwt.encode({**claims, "iss": JWT_ISSUER, "aud": JWT_AUDIENCE}, signing, "ES256", {"kid": "one"})
    elsewhere = jwt.encode({**claims, "aud": JWT_AUDIENCE}, signing, "ES256", {"kid": "one"})

    def list_at(prefix: str, credential: str) -> tuple[int, str]:
        headers = {"Authorization": f"Bearer {credential}"}
        answer = httpx.get(f"{domain.url}{prefix}{_JOBS}", headers=headers)
        return answer.status_code, answer.json().get("error", {}).get("message", "")

    assert [list_at("", one)[0] for one in (oauth, token(), domain.key, forged, elsewhere)] == [
        200, 200, 200, 401, 401,
    ]  # fmt: skip
    every, sessions, keys = (
        make_ready(caller, name, node_packs=[], **({} if kinds is None else {"credential_kinds": kinds}))
        for name, kinds in (("every", None), ("sessions", ["session"]), ("keys", ["api_key"]))
    )
    assert every["credential_kinds"] == ["api_key", "session", "oauth"]
    assert (sessions["credential_kinds"], keys["credential_kinds"]) == (["api_key", "session"], ["api_key"])
    taken = {one["name"]: [list_at(f"/deployments/{one['id']}", shown)[0] for shown in (domain.key, token(), oauth)]
             for one in (every, sessions, keys)}  # fmt: skip
    assert taken == {"every": [200, 200, 200], "sessions": [200, 200, 401], "keys": [200, 401, 401]}
    told = "This deployment takes no oauth tokens; use an API key."
    assert list_at(f"/deployments/{sessions['id']}", oauth) == (401, told)
    assert list_at(f"/deployments/{keys['id']}", token()) == (401, "This deployment takes no tokens; use an API key.")


@pytest.mark.req("J-10")
def test_subdomain_and_path_lead_to_the_same_deployment(domain: Server) -> None:
    """The label of the host names the deployment, whatever its case, and links stay there; other hosts are none."""
    caller = JobsCaller(domain, "default", domain.key)
    one = make_ready(caller, node_packs=[])
    port = domain.url.rpartition(":")[2]
    host = f"{one['id']}.{_DOMAIN}:{port}"
    assert one["address"] == f"http://{host}"
    bare = caller.submit(_QUICK)
    for name in (host, host.upper(), f"{one['id']}.{_DOMAIN}"):
        sent = caller.ask("POST", _JOBS, json={"workflow": _QUICK}, headers={"Host": name})
        assert sent.status_code == 201, sent.text
        assert sent.json()["deployment_id"] == one["id"]
        assert sent.json()["urls"]["self"].startswith(f"http://{name}/api/v2/jobs/")
    forwarded = {"X-Forwarded-Host": f"{one['id']}.{_DOMAIN}", "X-Forwarded-Proto": "https"}
    sent = caller.ask("POST", _JOBS, json={"workflow": _QUICK}, headers=forwarded)
    assert sent.json()["urls"]["self"].startswith(f"https://{one['id']}.{_DOMAIN}/api/v2/jobs/")
    assert len(caller.get(_JOBS, headers={"Host": host})["jobs"]) == 4
    assert refusal_of(caller.ask("GET", f"{_JOBS}/{bare['id']}", headers={"Host": host})) == (404, "not_found")
    for stranger in (f"{_UNKNOWN}.{_DOMAIN}", f"a.b.{_DOMAIN}", f"_.{_DOMAIN}"):
        assert refusal_of(caller.ask("GET", _JOBS, headers={"Host": stranger})) == (404, "not_found")
    for usual in (_DOMAIN, f"x{_DOMAIN}", "localhost", f"{one['id']}.{_DOMAIN}.example.com"):
        assert len(caller.get(_JOBS, headers={"Host": usual})["jobs"]) == 5


def take_away(server: Server, pack: Path) -> None:
    """Remove a pack of one file, and the copies of it that releases have."""
    pack.unlink()
    for copy in (server.data / "release_packs").glob(f"{pack.stem}@*"):
        copy.unlink()


@pytest.mark.req("J-15")
def test_release_keeps_its_own_copy_of_its_packs(tmp_path: Path) -> None:
    """What is changed or taken away in the folder of packs changes no release; the next one has it."""
    packs = tmp_path / "packs"
    packs.mkdir()
    pack = packs / "adding.py"
    pack.write_text(_ADDING)
    graph = {"1": {"class_type": "Add", "inputs": {"value": 1}},
             "2": {"class_type": "PreviewAny", "inputs": {"source": ["1", 0]}}}  # fmt: skip
    env = {**ENGINE, "FAIRLEAD_NODE_PACKS": str(packs), "FAIRLEAD_ENGINE_IDLE_SECONDS": "0.2"}
    plain = ("--no-local-partner",)

    def ends(caller: JobsCaller, id_: str) -> str:
        job = send(caller, id_, graph)
        assert job.status_code == 201, job.text
        return str(caller.reaches(job.json()["id"], *TERMINAL)["status"])

    with serving(tmp_path / "data", env=env, arguments=plain) as server:
        caller = JobsCaller(server, "default", server.key)
        named, every = make_ready(caller, node_packs=["adding"]), make_ready(caller, "every")
        pack.write_text(_ADDING.replace("return (value,)", "raise ValueError(value)"))
        later = make_ready(caller, "later", node_packs=["adding"])
        assert [ends(caller, one["id"]) for one in (named, every, later)] == ["succeeded", "succeeded", "failed"]
        assert len(list((server.data / "release_packs").glob("adding@*"))) == 2
        pack.unlink()
    with serving(tmp_path / "data", env=env, arguments=plain) as server:
        caller = JobsCaller(server, "default", server.key)
        assert [ends(caller, one["id"]) for one in (named, later)] == ["succeeded", "failed"]
        path = f"{_DEPLOYMENTS}/{named['id']}/releases"
        assert caller.get(path)["releases"][0]["node_packs"] == ["adding"]
        assert refusal_of(caller.ask("POST", path, json={"node_packs": ["adding"]})) == (422, "invalid_request")


@pytest.mark.req("J-15")
def test_server_that_shares_copies_has_releases_that_others_prepared(tmp_path: Path, postgres: Postgres) -> None:
    """One that joins with changed packs runs what was released before; without the shared copies it cannot."""
    packs = [tmp_path / name for name in ("packs-1", "packs-2")]
    for folder, code in zip(packs, (_ADDING, _ADDING.replace("return (value,)", "return (7,)")), strict=True):
        folder.mkdir()
        (folder / "adding.py").write_text(code)
    data = [tmp_path / name for name in ("data-1", "data-2", "data-3")]
    url, plain = postgres.url(postgres.create()), ("--no-local-partner",)
    env = {**ENGINE, "FAIRLEAD_SECRET_KEY": "A" * 43 + "="}
    with serving(data[0], database=url, env={**env, "FAIRLEAD_NODE_PACKS": str(packs[0])}, arguments=plain) as first:
        id_ = make_ready(JobsCaller(first, "default", first.key), node_packs=["adding"])["id"]
        for folder in data[1:]:
            folder.mkdir(mode=0o700)
            (folder / "blobs").symlink_to(first.data / "blobs")
            (folder / "first-key").write_text(first.key)
        (data[1] / "release_packs").symlink_to(first.data / "release_packs")
    joined = {**env, "FAIRLEAD_NODE_PACKS": str(packs[1])}
    with serving(data[1], database=url, env=joined, arguments=plain) as second:
        caller = JobsCaller(second, "default", second.key)
        graph = {"1": {"class_type": "Add", "inputs": {"value": 1}},
                 "2": {"class_type": "PreviewAny", "inputs": {"source": ["1", 0]}}}  # fmt: skip
        reaches(caller, id_, "ready")
        ended = caller.reaches(send(caller, id_, graph).json()["id"], *TERMINAL)
        assert ended["status"] == "succeeded", ended
        assert httpx.get(ended["outputs"][0]["url"]).text == "1"
    with serving(data[2], database=url, env=joined, arguments=plain) as alone:
        caller = JobsCaller(alone, "default", alone.key)
        assert "adding" in reaches(caller, id_, "unavailable")["reason"]


def test_missing_pack_makes_a_deployment_unavailable_until_it_is_back(tmp_path: Path) -> None:
    """It is unavailable, tells why, and is ready again when the pack is back; a broken pack is a reason too."""
    packs = tmp_path / "packs"
    packs.mkdir()
    pack = packs / "adding.py"
    pack.write_text(_ADDING)
    (packs / "broken.py").write_text("import there_is_no_such_module\n")
    env = {**ENGINE, "FAIRLEAD_NODE_PACKS": str(packs), "FAIRLEAD_ENGINE_IDLE_SECONDS": "0.2"}
    with serving(tmp_path / "data", env=env, arguments=("--no-local-partner",)) as server:
        caller = JobsCaller(server, "default", server.key)
        failed = caller.ask("POST", _DEPLOYMENTS, json={"name": "broken", "node_packs": ["broken"]}).json()
        stopped = reaches(caller, failed["id"], "stopped")
        assert "there_is_no_such_module" in stopped["reason"]
        assert refusal_of(send(caller, failed["id"], _QUICK)) == (422, "deployment_stopped")
        one = make_ready(caller, node_packs=["adding"])
        take_away(server, pack)
        wait_until(lambda: len(server.logged_events("EngineHostStopped")) >= 2, "the hosts of both sets to be gone")
        answer = send(caller, one["id"], _QUICK)
        assert refusal_of(answer) == (429, "deployment_unavailable")
        assert int(answer.headers["retry-after"]) >= 1
        assert "adding" in reaches(caller, one["id"], "unavailable")["reason"]
        pack.write_text(_ADDING)
        reaches(caller, one["id"], "ready")
        assert send(caller, one["id"], _QUICK).status_code == 201


@pytest.mark.req("J-15")
def test_deployment_whose_pack_no_longer_loads_is_not_ready(tmp_path: Path) -> None:
    """A pack that breaks while no server runs takes its deployment out of service at the next start, unasked."""
    packs = tmp_path / "packs"
    packs.mkdir()
    broken = tmp_path / "broken"
    check = f"import os\nif os.path.exists({str(broken)!r}):\n    raise RuntimeError('its model is gone')\n"
    (packs / "adding.py").write_text(check + _ADDING)
    env = {**ENGINE, "FAIRLEAD_NODE_PACKS": str(packs)}
    plain = ("--no-local-partner",)
    with serving(tmp_path / "data", env=env, arguments=plain) as server:
        id_ = make_ready(JobsCaller(server, "default", server.key), node_packs=["adding"])["id"]
    broken.touch()
    with serving(tmp_path / "data", env=env, arguments=plain) as server:
        caller = JobsCaller(server, "default", server.key)
        assert "its model is gone" in reaches(caller, id_, "unavailable")["reason"]
        assert refusal_of(send(caller, id_, _QUICK)) == (429, "deployment_unavailable")
        broken.unlink()
        reaches(caller, id_, "ready")


def test_broken_deployments_do_not_delay_others(tmp_path: Path) -> None:
    """Neither a pack that takes forever to load, nor a dozen whose pack is gone, are in the way of another."""
    packs = tmp_path / "packs"
    packs.mkdir()
    (packs / "gone.py").write_text(_ADDING)
    (packs / "back.py").write_text(_ADDING)
    (packs / "endless.py").write_text("import time\ntime.sleep(600)\n")
    env = {**ENGINE, "FAIRLEAD_NODE_PACKS": str(packs), "FAIRLEAD_ENGINE_IDLE_SECONDS": "0.2"}
    with serving(tmp_path / "data", env=env, arguments=("--no-local-partner",)) as server:
        caller = JobsCaller(server, "default", server.key)
        endless = caller.ask("POST", _DEPLOYMENTS, json={"name": "endless", "node_packs": ["endless"]}).json()["id"]
        stuck = [make_ready(caller, f"stuck-{number}", node_packs=["gone"])["id"] for number in range(12)]
        last = make_ready(caller, "last", node_packs=["back"])["id"]
        take_away(server, packs / "gone.py")
        take_away(server, packs / "back.py")
        for id_ in (*stuck, last):
            wait_until(lambda: send(caller, id_, {}).status_code == 429, "the pack to be missed")  # noqa: B023 -- now
        (packs / "back.py").write_text(_ADDING)
        reaches(caller, last, "ready")
        assert {caller.get(f"{_DEPLOYMENTS}/{id_}")["status"] for id_ in stuck} == {"unavailable"}
        assert caller.get(f"{_DEPLOYMENTS}/{endless}")["status"] == "not_ready"


@pytest.mark.req("J-10")
@pytest.mark.parametrize("kind", ["cloud", "self_hosted"])
def test_surface_without_deployments_answers_501(tmp_path: Path, kind: str) -> None:
    """Their routes say that there are none, and their addresses are nothing."""
    env = {**ENGINE, "FAIRLEAD_JOBS_SURFACE": kind}
    with serving(tmp_path / "data", env=env, arguments=("--no-local-partner",)) as server:
        caller = JobsCaller(server, "default", server.key)
        assert refusal_of(caller.ask("GET", _DEPLOYMENTS)) == (501, "not_implemented")
        assert refusal_of(caller.ask("POST", _DEPLOYMENTS, json={"name": "a"})) == (501, "not_implemented")
        assert refusal_of(caller.ask("GET", f"/deployments/{_UNKNOWN}{_JOBS}")) == (404, "not_found")
