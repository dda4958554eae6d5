"""For every operation of the OpenAPI document, a call that does what the operation is for, aimed at what there is.

What a call has in its path is looked up among the names of what the caller has, unless the table says otherwise. Where
an operation takes something away, it is made again each time.
"""

import itertools
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import httpx

from end_to_end.attack_table import OWN_GRAPH
from end_to_end.workflow_clients import picture

Names = Mapping[str, Any]
Make = Callable[[httpx.Client, Names], Names]

_number = itertools.count(1)
_NAMED: Final = re.compile(r"\{\w+(\[\w+\])?\}")


@dataclass(frozen=True, slots=True)
class Call:
    """What is sent. `{name}` stands for a name, in all texts; `make` adds more of them, just before."""

    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    make: Make | None = None

    def names(self, client: httpx.Client, known: Names) -> Names:
        """The names this call may use, with what had to be made for it."""
        return known if self.make is None else {**known, **self.make(client, known)}


def fill_in(template: Any, names: Names) -> Any:
    """A template with names in place of their braces."""
    match template:
        case str():
            return template.format_map(names) if _NAMED.fullmatch(template) else template
        case list() | tuple():
            return [fill_in(one, names) for one in template]
        case dict():
            return {name: fill_in(value, names) for name, value in template.items()}
        case _:
            return template


def _unique(word: str) -> str:
    return f"{word}-{next(_number)}"


def _some_asset(client: httpx.Client, _names: Names) -> Names:
    made = client.post("/api/v2/assets", files={"file": (_unique("asset"), _unique("bytes").encode())})
    return {"asset_id": made.json()["id"]}


def _some_file(client: httpx.Client, _names: Names) -> Names:
    name = _unique("kept")
    client.post(f"/api/userdata/{name}.txt", content=b"kept").raise_for_status()
    return {"file": f"{name}.txt", "to": f"{name}-moved.txt"}


def _some_provider_key(client: httpx.Client, _names: Names) -> Names:
    client.put("/v2/provider-keys/fake", json={"key": "a-key-at-a-partner"}).raise_for_status()
    return {"provider": "fake"}


def _some_publisher(client: httpx.Client, _names: Names) -> Names:
    publisher = _unique("publisher")
    client.post("/publishers", json={"id": publisher, "name": "A house"})  # there may be no room for more
    return {"publisher_id": publisher}


def _some_node(client: httpx.Client, names: Names) -> Names:
    node_id = _unique("node")
    path = f"/publishers/{names['publisher_id']}/nodes"
    client.post(path, json={"id": node_id, "name": "A node"}).raise_for_status()
    return {"node_id": node_id}


def _announce(client: httpx.Client, names: Names) -> Names:
    """A version that waits for its archive."""
    node_id = _unique("node")
    body = {"node": {"id": node_id}, "node_version": {"version": "1.0.0"}}
    told = client.post(f"/publishers/{names['publisher_id']}/nodes/{node_id}/versions", json=body).json()
    return {**_query_of(told["signedUrl"]), "archive_id": f"{node_id}@1.0.0", "to": told["signedUrl"]}


def _archive(client: httpx.Client, names: Names) -> Names:
    announced = _announce(client, names)
    client.put(announced["to"], content=_ARCHIVE).raise_for_status()
    return announced


def _some_deployment(client: httpx.Client, names: Names) -> Names:
    made = client.post("/api/v2/deployments", json={"name": _unique("made"), "node_packs": []})
    if not made.is_success:  # there is no room for more
        for one in client.get("/api/v2/deployments").json()["deployments"]:
            if one["id"] != names["deployment_id"]:
                client.delete(f"/api/v2/deployments/{one['id']}")
        return _some_deployment(client, names)
    return {"deployment_id": made.json()["id"]}


def _some_run(client: httpx.Client, _names: Names) -> Names:
    """One that the partner keeps for as long as it may."""
    made = client.post("/v2/models/fake/json-1/requests", json={"prompt": "a harbour"})
    return {"provider": "fake", "model": "json-1", "request_id": made.json()["request_id"]}


def _new_name(_client: httpx.Client, _names: Names) -> Names:
    return {"new": _unique("new")}


def _query_of(location: str) -> Names:
    address = urlsplit(location)
    return {"linked": address.path.rpartition("/")[2], "link": dict(parse_qsl(address.query))}


def _file_link(client: httpx.Client, names: Names) -> Names:
    query = {"filename": names["output_file"], "type": "output"}
    return _query_of(client.get("/api/view", params=query).headers["location"])


def _asset_link(client: httpx.Client, _names: Names) -> Names:
    return _query_of(client.post("/v2/models/fake/asset-1", json={"prompt": "a"}).json()["url"])


_INPUT: Final = {"prompt": "a harbour", "seed": 1}
_LINK: Final = {name: f"{{link[{name}]}}" for name in ("expires", "disposition", "name", "signature")}
_PNG: Final = picture()
_ORIGINAL: Final = json.dumps({"filename": "alices-photo.png", "type": "input"})
_ARCHIVE: Final = b"PK\x03\x04 an archive"
_AT_FAKE: Final = {"provider": "{provider}"}

CALLS: Final[Mapping[str, Call]] = {
    "service_show_console_file": Call({"file": "icon.svg"}),
    "router_run": Call(body=_INPUT),
    "router_v1_run": Call(body=_INPUT),
    "router_estimate": Call(body=_INPUT),
    "router_submit_request": Call(body=_INPUT),
    "router_cancel_request": Call(make=_some_run),
    "router_post_cancel_request": Call(make=_some_run),
    "router_put_provider_key": Call({"provider": "fake"}, body={"key": "a-key-at-a-partner"}),
    "router_show_provider_key": Call(_AT_FAKE, make=_some_provider_key),
    "router_delete_provider_key": Call(_AT_FAKE, make=_some_provider_key),
    "router_show_usage": Call(query={"group_by": "day,model,key"}),
    "jobs_submit_job": Call(body={"workflow": OWN_GRAPH, "metadata": {"project": "a"}}),
    "jobs_list_jobs": Call(query={"limit": "2", "metadata[key]": "a"}),
    "jobs_upload_asset": Call(body={"file": b"some bytes", "tags": "a,b"}),
    "jobs_make_asset": Call(body={"hash": "{hash}", "file_path": "again.png"}),
    "jobs_delete_asset": Call(make=_some_asset),
    "jobs_create_deployment": Call(body={"name": "{new}", "node_packs": []}, make=_new_name),
    "jobs_change_deployment": Call(body={"pool": "default"}),
    "jobs_delete_deployment": Call(make=_some_deployment),
    "jobs_publish_release": Call(body={"node_packs": []}),
    "cloud_submit_prompt": Call(body={"prompt": OWN_GRAPH}),
    "cloud_cancel_jobs": Call(body={"job_ids": ["{job_id}"]}),
    "cloud_change_queue": Call(body={"delete": ["{job_id}"]}),
    "cloud_interrupt": Call(body={"prompt_id": "{job_id}"}),
    "cloud_change_history": Call(body={"clear": True}),
    "cloud_upload_image": Call(body={"image": _PNG, "type": "input"}),
    "cloud_upload_mask": Call(body={"image": _PNG, "original_ref": _ORIGINAL}),
    "cloud_view": Call(query={"filename": "{output_file}", "type": "output"}),
    "cloud_show_file": Call({"file_id": "{linked}"}, _LINK, make=_file_link),
    "cloud_change_settings": Call(body={"some.Setting": 1}),
    "cloud_change_setting": Call(body=[1, "two"]),
    "cloud_list_user_files": Call(query={"dir": "", "recurse": "true", "full_info": "true"}),
    "cloud_put_user_file": Call(body=b"kept"),
    "cloud_move_user_file": Call(make=_some_file),
    "cloud_delete_user_file": Call(make=_some_file),
    "registry_create_publisher": Call(body={"id": "{new}", "name": "A house"}, make=_new_name),
    "registry_change_publisher": Call(body={"name": "Another house"}),
    "registry_delete_publisher": Call(make=_some_publisher),
    "registry_create_node": Call(body={"id": "{new}", "name": "A node"}, make=_new_name),
    "registry_delete_node": Call(make=_some_node),
    "registry_publish_version": Call(
        body={"version": "1.0.0", "download_url": "https://example.com/node.zip"}, make=_some_node
    ),
    "registry_show_archive": Call(make=_archive),
    "registry_receive_archive": Call(query=_LINK, body=_ARCHIVE, make=_announce),
    "service_show_asset": Call({"asset_id": "{linked}"}, _LINK, make=_asset_link),
    "service_show_snapshot": Call({"provider": "local", "model": "procedural-text-1.json"}),
}


def call_of(operation_id: str) -> Call:
    """The call of an operation; the clients' own paths without the prefix do what those with it do."""
    return CALLS.get(operation_id.replace("cloud_root_", "cloud_"), Call())
