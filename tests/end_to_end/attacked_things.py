"""What the owner has when the intruder comes: one of everything, made through the same routes, and how it all reads."""

import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, quote, urlsplit

import httpx
import jwt

from end_to_end.workflow_clients import WorkflowClient, graph_showing, node, picture
from fake_partner import SECRET, CatalogFolder, FakePartner, reply
from servers import wait_until

Things = dict[str, str]
JWT_SECRET: Final = "a shared secret of these tests, long enough for every variant of HMAC with SHA-2"
PARTNER_KEY: Final = "sk-alices-own-key-at-the-partner"
_FOREVER: Final = 10_000
_MOVING: Final = {"installs", "progress", "update_time", "metrics", "updated_at", "queue_position", "url_expires_at"}
_RUN_PATH: Final = "/v2/models/{provider}/{model}/requests/{request_id}"
_ENTRIES: Final = ("/api/jobs/{}", "/api/v2/jobs/{}", "/api/v2/jobs/{}/workflow", "/api/history_v2/{}")
_LISTS: Final = (
    *("/api/prompt", "/api/jobs", "/api/v2/jobs", "/api/queue", "/api/history_v2", "/api/settings"),
    *("/api/userdata?dir=&recurse=true&full_info=true", "/v2/webhook-secret", "/v2/provider-keys", "/v2/usage"),
)


def token(workspace: str, expires: int = 4_000_000_000) -> str:
    """Sign a token for a workspace, as the issuer would."""
    claims = {"sub": "somebody", "workspace": workspace, "exp": expires, "iss": "https://id.example", "aud": "attacked"}
    return jwt.encode(claims, JWT_SECRET, "HS256")


def environment(packs: Path) -> dict[str, str]:
    """The settings of the server that is attacked."""
    return {
        "FAIRLEAD_ENGINE": "true",
        "FAIRLEAD_NODE_PACKS": str(packs),
        "FAIRLEAD_ENGINE_MEMORY_MIB": "1500",
        "FAIRLEAD_ENGINE_HOSTS": "3",
        "FAIRLEAD_JWT_SECRET": JWT_SECRET,
        "FAIRLEAD_JWT_ISSUER": "https://id.example",
        "FAIRLEAD_JWT_AUDIENCE": "attacked",
        "FAIRLEAD_PROVIDER_FAKE_KEY": SECRET,
        "FAIRLEAD_PROVIDER_MOCK_KEY": SECRET,
    }


def fill(catalog: CatalogFolder, partner: FakePartner) -> None:
    """Write a partner that holds what it is asked until it is released, and one that answers at once."""
    catalog.add_provider(partner.url, "fake")
    catalog.add_provider(partner.url, "mock")
    catalog.add_model("fake/json-1")
    catalog.add_model("fake/bytes-1", "bytes")
    partner.script("/json", partner.hold(reply(200, b'{"made":true}')))
    partner.script("/bytes", reply(200, picture(), "image/png"))


@dataclass(frozen=True)
class Property:
    """What the owner has: its jobs and runs by how they stand, and the names of everything else."""

    client: WorkflowClient
    jobs: Sequence[str]
    runs: Sequence[Things]
    names: Things

    def variants(self, asked: str) -> Sequence[Things]:
        """The things a request may be aimed at, for every job or run where it names one of them."""
        if "{job_id}" in asked:
            return [{**self.names, "job_id": job_id} for job_id in self.jobs]
        if "{request_id}" in asked:
            return [{**self.names, **run} for run in self.runs]
        if "/provider-keys/" in asked:
            return [{**self.names, "provider": "fake"}]
        return [self.names]

    def reading(self) -> Mapping[str, Any]:
        """Everything the owner can read of what it has, but for what moves by itself."""
        paths = [*_LISTS, *(entry.format(job_id) for job_id in self.jobs for entry in _ENTRIES)]
        paths += [f"{_RUN_PATH.format(**run)}/status" for run in self.runs]
        paths += [_RUN_PATH.format(**self.runs[0]), f"/api/userdata/{quote(self.names['file'], safe='')}"]
        paths += [f"/publishers/{self.names['publisher_id']}", f"/publishers/{self.names['publisher_id']}/nodes"]
        paths += [f"/nodes/{self.names['node_id']}/versions"]
        deployment = f"/api/v2/deployments/{self.names['deployment_id']}"
        paths += ["/api/v2/deployments", deployment, f"{deployment}/releases"]
        asset = f"/api/v2/assets/{self.names['asset_id']}"
        paths += [asset, f"{asset}/content"]
        read = {path: _still(self._read(path)) for path in paths}
        for name, kind in (("input_file", "input"), ("second_file", "input"), ("output_file", "output")):
            link = self.client.http.get("/api/view", params={"filename": self.names[name], "type": kind})
            read[name] = self._read(link.headers.get("location", "/"))
        return read

    def secrets(self) -> Sequence[str]:
        """Texts that nobody else may be shown, unless they have sent them."""
        private = (
            "input_file",
            "second_file",
            "output_file",
            "setting",
            "file",
            "folder",
            "label",
            "idempotency_key",
            "file_id",
            "hash",
            "deployment_id",
        )
        ids = [*self.jobs, *(run["request_id"] for run in self.runs), *(self.names[name] for name in private)]
        return [*ids, "alices-words", PARTNER_KEY, self.client.key, self.names["webhook_secret"]]

    def _read(self, path: str) -> tuple[int, Any]:
        answer = self.client.http.get(path)
        if answer.is_redirect:
            answer = self.client.http.get(answer.headers["location"])
        return answer.status_code, answer.json() if "json" in answer.headers["content-type"] else answer.content


def nobodys(things: Things) -> Things:
    """Things of the same length, or the same form, that nobody has."""
    made = {name: text.replace("alice", "nobod") for name, text in things.items()}
    ids: Things = {
        name: str(uuid.uuid4()) for name in ("job_id", "request_id", "file_id", "asset_id") if name in things
    }
    ids["hash"] = f"blake3:{uuid.uuid4().hex * 2}"
    return {**made, **ids, "provider": "mock" if things["provider"] == "fake" else things["provider"]}


@contextmanager
def owning(client: WorkflowClient) -> Iterator[Property]:
    """Make one of everything; in the end, the job that never ends is given up."""
    names = {
        "provider": "local",
        "model": "procedural-text-1",
        "class_name:path": "LoadImage",
        "setting": "alice.Setting",
        "setting:path": "alice.Setting",
        "folder": "alices-folder",
        "file": "alices-folder/graph.txt",
        "to:path": "alices-folder%2Fmoved.txt",
        "file:path": "alices-folder%2Fgraph.txt",
        "label": "alices-label",
        "idempotency_key": "alices-idempotency-key",
        "publisher_id": "alices-house",
        "node_id": "alices-node",
        "archive_id": "alices-node@1.0.0",
        **_picture(client),
    }
    names["deployment_id"] = _deploy(client)
    _publish(client, names)
    _keep(client, names)
    jobs, output = _jobs(client, names)
    runs = _runs(client, names)
    location = urlsplit(client.http.get("/api/view", params={"filename": output, "type": "output"}).headers["location"])
    names |= {"output_file": output, "file_id": location.path.rpartition("/")[2], "cursor": _cursor(client)}
    names |= {"expires": parse_qs(location.query)["expires"][0], "signature": "A" * 43}
    names["webhook_secret"] = client.http.get("/v2/webhook-secret").json()["secret"]
    yield Property(client, jobs, runs, names)
    client.http.post("/api/queue", json={"delete": jobs, "clear": True})
    client.http.post("/api/interrupt", json={})
    client.wait_for_end(jobs[1])


def _picture(client: WorkflowClient) -> Things:
    """A picture that is an input of workflows twice, and an asset of the jobs API."""
    name, content = "alices-photo.png", picture()
    kept = client.http.post("/api/upload/image", files={"image": (name, content)}).json()
    asset = client.http.post("/api/v2/assets", files={"file": (name, content)}, data={"file_path": "alices-asset.png"})
    assert asset.status_code in {200, 201}, asset.text
    second = client.upload(content, "alices-second.png")
    return {"input_file": kept["name"], "second_file": second, "hash": kept["hash"], "asset_id": asset.json()["id"]}


def _deploy(client: WorkflowClient) -> str:
    """A deployment that is ready."""
    made = client.http.post("/api/v2/deployments", json={"name": "alices", "node_packs": []}).json()
    wait_until(lambda: client.http.get(made["urls"]["self"]).json()["status"] == "ready", "it is ready")
    return str(made["id"])


def _publish(client: WorkflowClient, names: Things) -> None:
    publisher, node_id = names["publisher_id"], names["node_id"]
    version = {"version": "1.0.0", "download_url": "https://example.com/node.zip"}
    for path, document in (
        ("/publishers", {"id": publisher, "name": "A house"}),
        (f"/publishers/{publisher}/nodes", {"id": node_id, "name": "A node"}),
        (f"/publishers/{publisher}/nodes/{node_id}/versions", version),
    ):
        assert client.http.post(path, json=document).status_code == 201


def _keep(client: WorkflowClient, names: Things) -> None:
    client.http.post(f"/api/settings/{names['setting']}", json="alices-words").raise_for_status()
    client.http.post(f"/api/userdata/{names['file:path']}", json={"kept": "alices-words"}).raise_for_status()
    client.http.put("/v2/provider-keys/fake", json={"key": PARTNER_KEY}).raise_for_status()


def _jobs(client: WorkflowClient, names: Things) -> tuple[list[str], str]:
    """One job that has ended, one that is executed forever, one that waits; and the file that the first has made.

    The first and the last have ids that the owner has chosen.
    """
    made = {
        "1": node("LoadImage", image=names["input_file"]),
        "2": node("SaveImage", images=["1", 0], filename_prefix="alices-made"),
    }
    first = client.run(made, prompt_id=str(uuid.uuid4()))
    headers = {"Idempotency-Key": names["idempotency_key"]}
    body = {"workflow": graph_showing("Slowly", value=_FOREVER), "metadata": {"project": names["label"]}}
    second = client.http.post("/api/v2/jobs", json=body, headers=headers).json()["id"]
    wait_until(lambda: client.status(second) == "in_progress", "it is executed")
    third = client.submit(graph_showing("PrimitiveInt", value=2), prompt_id=str(uuid.uuid4()))
    return [first["id"], second, third], str(client.files_of(first)[0]["filename"])


def _runs(client: WorkflowClient, names: Things) -> list[Things]:
    """One run that has ended, one that a partner has, and one that waits."""

    def submit_run(provider: str, model: str, **headers: str) -> Things:
        answer = client.http.post(
            f"/v2/models/{provider}/{model}/requests", json={"prompt": "alices-words"}, headers=headers
        )
        assert answer.status_code == 201, answer.text
        return {"provider": provider, "model": model, "request_id": answer.json()["request_id"]}

    def status(run: Things) -> str:
        return str(client.http.get(f"{_RUN_PATH.format(**run)}/status").json()["status"])

    headers = {"Idempotency-Key": names["idempotency_key"]}
    ended = submit_run("local", "procedural-text-1", **headers)
    wait_until(lambda: status(ended) == "COMPLETED", "the first run ends")
    running = submit_run("fake", "json-1")
    wait_until(lambda: status(running) == "IN_PROGRESS", "the partner has the second")
    waiting = submit_run("fake", "json-1")
    assert status(waiting) == "IN_QUEUE"
    return [ended, running, waiting]


def _cursor(client: WorkflowClient) -> str:
    return str(client.http.get("/api/v2/jobs", params={"limit": "1"}).json()["next_cursor"])


def _still(read: Any) -> Any:
    """What was read without what moves by itself."""
    match read:
        case dict():
            return {name: _still(value) for name, value in read.items() if name not in _MOVING}
        case list() | tuple():
            return [_still(value) for value in read]
        case str():
            return read.partition("?expires=")[0]
        case _:
            return read


_VARYING: Final = (
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "<id>"),
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z"), "<time>"),
    (re.compile(r"whsec_[\w+/=-]+"), "<secret>"),
    (re.compile(r"\b\d{13}\b"), "<ms>"),
    (re.compile(r'"(number|priority|queue_remaining|created|seed)":\d+'), r'"\1":<n>'),
    (re.compile(r'"(id|text)":"[^"]*"'), r'"\1":"<text>"'),
)
_UNCOMPARED: Final = {"date", "x-service-request-id"}
_OF_A_SUCCESS: Final = {"content-length", "retry-after"}
"""Of what is the intruder's own, and moves: how long it is, and how far."""


def _members(answer: httpx.Response) -> str:
    """What varies in a document of the intruder's own, such as the progress of a job or a run."""
    return " ".join(sorted(set(answer.json()) - {"metrics"}))


def shape(answer: httpx.Response, things: Things) -> tuple[int, Mapping[str, str], str]:
    """A whole answer, with names in place of what was asked for, and of what differs in every answer."""
    text = answer.text if answer.status_code != httpx.codes.CREATED else _members(answer)
    for name, value in sorted(things.items(), key=lambda pair: -len(pair[1])):
        if name not in {"expires", "signature", "cursor", "provider", "model", "class_name:path"}:
            text = text.replace(value, f"<{name.partition(':')[0]}>")
    text = text.replace(f'"{things["provider"]}"', '"<provider>"').replace(f" {things['provider']}.", " <provider>.")
    for pattern, mark in _VARYING:
        text = pattern.sub(mark, text)
    uncompared = _UNCOMPARED | (_OF_A_SUCCESS if answer.status_code < httpx.codes.BAD_REQUEST else set())
    headers = {name: value for name, value in answer.headers.items() if name not in uncompared}
    return answer.status_code, headers, text
