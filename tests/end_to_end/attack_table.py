"""The table of attacks: for every route of every API, what an intruder asks, and the answer that must follow.

A path is written as the route tables have it. What stands in braces, there and in queries and bodies, is a thing: it is
asked for once as the owner has it, and once as something of the same length that nobody has. A path that the cloud API
serves at two places is written once, and attacked at both.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

OWN_GRAPH: Final = {
    "1": {"class_type": "PrimitiveInt", "inputs": {"value": 1}},
    "2": {"class_type": "PreviewAny", "inputs": {"source": ["1", 0]}},
}
BORROWED_GRAPH: Final = {
    "1": {"class_type": "LoadImage", "inputs": {"image": "{input_file}"}},
    "2": {"class_type": "PreviewImage", "inputs": {"images": ["1", 0]}},
}
AT_DEPLOYMENT: Final = "/deployments/{deployment_id}"
"""Where the routes of the jobs API are the owner's deployment's."""
Access = Literal["credential", "public", "link"]


@dataclass(frozen=True, slots=True)
class Attack:
    """One request of the intruder, and the status that reveals nothing.

    `access` says who may ask: holders of a credential, everybody, or holders of a signed link. `known` marks what the
    owner has made public: an intruder may learn that it is there, and still must not change it.
    """

    method: str
    path: str
    status: int
    access: Access = "credential"
    known: bool = False
    params: Mapping[str, str] = field(default_factory=dict)
    json: Any = None
    content: bytes | None = None
    files: Mapping[str, tuple[str, bytes]] | None = None
    data: Mapping[str, str] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def route(self) -> tuple[str, str]:
        """The route it attacks."""
        return self.method, self.path.removeprefix(AT_DEPLOYMENT)


_MODEL: Final = "/v2/models/{provider}/{model}"
_RUN: Final = f"{_MODEL}/requests/{{request_id}}"
_PROMPT: Final = {"prompt": "a harbour", "seed": 1}
_DELETED: Final = {"delete": ["{job_id}"]}
_REPEATED: Final = {"Idempotency-Key": "{idempotency_key}"}
_PICTURE: Final = b"\x89PNG an intruder's"
_VIEW: Final = {"filename": "{output_file}", "subfolder": ""}

ROUTER: Final = (
    Attack("POST", _MODEL, 200, json=_PROMPT),
    Attack("POST", f"{_MODEL}/estimate", 200, json=_PROMPT),
    Attack("GET", _RUN, 404),
    Attack("GET", f"{_RUN}/status", 404),
    Attack("PUT", f"{_RUN}/cancel", 404),
    Attack("POST", f"{_RUN}/cancel", 404),
    Attack("GET", f"{_RUN}/events", 404),
    Attack("GET", f"{_RUN}/deliveries", 404),
    Attack("GET", "/v2/webhook-secret", 200),
    Attack("POST", "/v2/webhook-secret/rotate", 200),
    Attack("GET", "/v2/usage", 200),
    Attack("GET", "/v2/models", 200),
    Attack("GET", _MODEL, 200),
    Attack("GET", f"{_MODEL}/openapi.json", 200),
    Attack("GET", "/v2/provider-keys", 200),
    Attack("DELETE", "/v2/provider-keys/{provider}", 404),
    Attack("GET", "/v2/provider-keys/{provider}", 404),
    Attack("PUT", "/v2/provider-keys/{provider}", 201, json={"key": "a-key-of-the-intruder"}),
    Attack("POST", "/v1/models/{provider}/{model}", 200, json=_PROMPT),
    Attack("GET", "/v1/models", 200),
    Attack("GET", "/v1/models/{provider}/{model}", 200),
    Attack("GET", "/v1/models/{provider}/{model}/openapi.json", 200),
    Attack("POST", f"{_MODEL}/requests", 201, json=_PROMPT),
    Attack("POST", f"{_MODEL}/requests", 201, json=_PROMPT, headers=_REPEATED),
)

JOBS: Final = (
    Attack("POST", "/api/v2/jobs", 201, json={"workflow": OWN_GRAPH}),
    Attack("POST", "/api/v2/jobs", 201, json={"workflow": OWN_GRAPH}, headers=_REPEATED),
    Attack("POST", "/api/v2/jobs", 422, json={"workflow": BORROWED_GRAPH}),
    Attack("GET", "/api/v2/jobs", 200),
    Attack("GET", "/api/v2/jobs", 200, params={"metadata[project]": "{label}"}),
    Attack("GET", "/api/v2/jobs", 200, params={"cursor": "{cursor}"}),
    Attack("GET", "/api/v2/jobs/{job_id}", 404),
    Attack("GET", "/api/v2/jobs/{job_id}/workflow", 404),
    Attack("GET", "/api/v2/jobs/{job_id}/logs", 404),
    Attack("GET", "/api/v2/jobs/{job_id}/events", 404),
    Attack("POST", "/api/v2/jobs/{job_id}/cancel", 404),
)

_ASSETS: Final = "/api/v2/assets"
_ASSET: Final = f"{_ASSETS}/{{asset_id}}"

ASSETS: Final = (
    Attack("POST", _ASSETS, 201, files={"file": ("{second_file}", _PICTURE)}),
    Attack("POST", f"{_ASSETS}/from-hash", 404, json={"hash": "{hash}", "file_path": "photo.png"}),
    Attack("HEAD", f"{_ASSETS}/by-hash/{{hash}}", 404),
    Attack("GET", _ASSET, 404),
    Attack("GET", f"{_ASSET}/content", 404),
    Attack("DELETE", _ASSET, 404),
)

_DEPLOYMENTS: Final = "/api/v2/deployments"
_DEPLOYMENT: Final = f"{_DEPLOYMENTS}/{{deployment_id}}"

DEPLOYMENTS: Final = (
    Attack("GET", _DEPLOYMENTS, 200),
    Attack("GET", _DEPLOYMENT, 404),
    Attack("PATCH", _DEPLOYMENT, 404, json={"pool": "intruders"}),
    Attack("GET", f"{_DEPLOYMENT}/releases", 404),
    Attack("POST", f"{_DEPLOYMENT}/releases", 404, json={"node_packs": []}),
    Attack("POST", f"{_DEPLOYMENT}/stop", 404),
    Attack("POST", f"{_DEPLOYMENT}/start", 404),
    Attack("DELETE", _DEPLOYMENT, 404),
    Attack("POST", _DEPLOYMENTS, 201, json={"name": "intruders", "node_packs": []}),
    *(replace(attack, path=AT_DEPLOYMENT + attack.path, status=404) for attack in (*JOBS, *ASSETS)),
)

CLOUD: Final = (
    Attack("POST", "/api/prompt", 200, json={"prompt": OWN_GRAPH}),
    Attack("POST", "/api/prompt", 400, json={"prompt": BORROWED_GRAPH}),
    Attack("GET", "/api/prompt", 200),
    Attack("GET", "/api/job/{job_id}/status", 404),
    Attack("GET", "/api/jobs", 200),
    Attack("POST", "/api/jobs/cancel", 404, json={"job_ids": ["{job_id}"]}),
    Attack("GET", "/api/jobs/{job_id}", 404),
    Attack("POST", "/api/jobs/{job_id}/cancel", 404),
    Attack("GET", "/api/queue", 200),
    Attack("POST", "/api/queue", 200, json=_DELETED),
    Attack("POST", "/api/queue", 200, json={"clear": True}),
    Attack("POST", "/api/interrupt", 200, json={}),
    Attack("POST", "/api/interrupt", 200, json={"prompt_id": "{job_id}"}),
    Attack("GET", "/api/history_v2", 200),
    Attack("GET", "/api/history_v2/{job_id}", 404),
    Attack("GET", "/api/history", 200),
    Attack("GET", "/api/history/{job_id}", 200),  # nothing, as where there is none (engine-wire)
    Attack("POST", "/api/history", 200, json={**_DELETED, "clear": True}),
    Attack("GET", "/api/object_info", 200),
    Attack("GET", "/api/object_info/{class_name:path}", 200),
    Attack("POST", "/api/upload/image", 200, files={"image": ("{second_file}", _PICTURE)}),
    Attack("POST", "/api/upload/image", 200, files={"image": ("{second_file}", _PICTURE)}, data={"overwrite": "true"}),
    Attack(
        "POST",
        "/api/upload/mask",
        400,
        files={"image": ("mask.png", _PICTURE)},
        data={"original_ref": '{"filename": "{output_file}", "type": "output"}'},
    ),
    Attack("GET", "/api/view", 404, params={**_VIEW, "type": "output"}),
    Attack("GET", "/api/view", 404, params={**_VIEW, "type": "output", "res": "64"}),
    Attack("GET", "/files/{file_id}", 403, access="link"),
    Attack("GET", "/files/{file_id}", 403, access="link", params={"expires": "{expires}", "signature": "{signature}"}),
    Attack("GET", "/api/features", 200, access="public"),
    Attack("GET", "/api/system_stats", 200),
    Attack("GET", "/api/user", 200),
    Attack("GET", "/api/users", 200),
    Attack("GET", "/api/extensions", 200),
    Attack("GET", "/api/embeddings", 200),
    Attack("GET", "/api/node_replacements", 200),
    Attack("GET", "/api/i18n", 200),
    Attack("GET", "/api/global_subgraphs", 200),
    Attack("GET", "/api/workflow_templates", 200),
    Attack("GET", "/api/experiment/models", 200),
    Attack("POST", "/api/free", 200, json={"unload_models": True, "free_memory": True}),
    Attack("GET", "/api/settings", 200),
    Attack("GET", "/api/settings/{setting:path}", 200),
    Attack("POST", "/api/settings", 200, json={"{setting}": "the intruder's"}),
    Attack("POST", "/api/settings/{setting:path}", 200, json="the intruder's"),
    Attack("GET", "/api/userdata", 200),
    Attack("GET", "/api/userdata", 200, params={"dir": "{folder}", "recurse": "true", "full_info": "true"}),
    Attack("GET", "/api/userdata/{file:path}", 404),
    Attack("DELETE", "/api/userdata/{file:path}", 404),
    Attack("POST", "/api/userdata/{file:path}/move/{to:path}", 404),
    Attack("POST", "/api/userdata/{file:path}", 200, content=b"the intruder's"),
)

_PUBLISHER: Final = "/publishers/{publisher_id}"
_OTHER_NODE: Final = {"id": "intruders-node", "name": "Theirs"}
_VERSION: Final = {"version": "9.9.9", "download_url": "https://example.com/theirs.zip"}
_ARCHIVE: Final = b"PK\x03\x04 an intruder's"
_SIGNED: Final = {"expires": "{expires}", "signature": "{signature}"}

REGISTRY: Final = (
    Attack("GET", "/publishers", 200, access="public", known=True),
    Attack("POST", "/publishers", 409, known=True, json={"id": "{publisher_id}", "name": "Theirs"}),
    Attack("GET", _PUBLISHER, 200, access="public", known=True),
    Attack("PUT", _PUBLISHER, 403, known=True, json={"name": "Theirs"}),
    Attack("DELETE", _PUBLISHER, 403, known=True),
    Attack("GET", f"{_PUBLISHER}/nodes", 200, access="public", known=True),
    Attack("POST", f"{_PUBLISHER}/nodes", 403, known=True, json=_OTHER_NODE),
    Attack("DELETE", f"{_PUBLISHER}/nodes/{{node_id}}", 403, known=True),
    Attack("POST", f"{_PUBLISHER}/nodes/{{node_id}}/versions", 403, known=True, json=_VERSION),
    Attack("GET", "/nodes", 200, access="public", known=True),
    Attack("GET", "/nodes/{node_id}", 200, access="public", known=True),
    Attack("GET", "/nodes/{node_id}/versions", 200, access="public", known=True),
    Attack("GET", "/nodes/{node_id}/install", 200, access="public", known=True),
    Attack("GET", "/archives/{archive_id}", 404, access="public"),
    Attack("PUT", "/archives/{archive_id}", 403, access="link", content=_ARCHIVE),
    Attack("PUT", "/archives/{archive_id}", 403, access="link", content=_ARCHIVE, params=_SIGNED),
)

REST: Final = (
    Attack("GET", "/assets/{asset_id}", 403, access="link"),
    Attack(
        "GET", "/assets/{asset_id}", 403, access="link", params={"expires": "{expires}", "signature": "{signature}"}
    ),
    Attack("GET", "/router-schemas/{provider}/{model}", 404, access="public"),
    Attack("GET", "/openapi.json", 200, access="public"),
    Attack("GET", "/", 200, access="public"),
    Attack("GET", "/console/{file:path}", 404, access="public"),
    Attack("GET", "/healthz", 200, access="public"),
    Attack("GET", "/readyz", 200, access="public"),
    Attack("GET", "/metrics", 200, access="public"),
)

ATTACKS: Final = (*ROUTER, *JOBS, *ASSETS, *DEPLOYMENTS, *CLOUD, *REGISTRY, *REST)
