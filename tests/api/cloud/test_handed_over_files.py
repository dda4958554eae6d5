"""Files that node packs hand over, on servers with real engine hosts: what a pack does afterwards changes no blob."""

import pytest

from api.cloud.clients import Client
from api.cloud.conftest import NewCloudClient

_TEXT = "the very same bytes that another workspace has kept " * 40


def _look(client: Client, name: str, kind: str) -> bytes:
    response = client.ask("GET", "/api/view", params={"filename": name, "type": kind}, follow_redirects=True)
    assert response.status_code == 200, response.text
    return response.content


@pytest.mark.req("S-08")
def test_pack_cannot_rewrite_a_file_after_it_was_handed_over(caller: Client, new_cloud_client: NewCloudClient) -> None:
    """A descriptor and a mapping that a pack has kept lead to its own file, not to the blob that others share."""
    other = new_cloud_client()
    uploaded = other.ask("POST", "/api/upload/image", files={"image": ("mine.txt", _TEXT.encode())})
    assert uploaded.status_code == 200, uploaded.text
    workflow = {
        "1": {"class_type": "HandOver", "inputs": {"name": "same.txt", "text": _TEXT}},
        "2": {"class_type": "WriteOn", "inputs": {"after": ["1", 0]}},
    }
    outputs = caller.get(f"/api/jobs/{caller.runs(workflow)}")["outputs"]
    assert outputs["2"]["written"] == [1]
    (made,) = outputs["1"]["images"]
    assert _look(other, "mine.txt", "input") == _TEXT.encode()
    assert _look(caller, made["filename"], "output") == _TEXT.encode()


@pytest.mark.req("S-08")
def test_pack_cannot_change_a_file_that_it_was_given(caller: Client, new_cloud_client: NewCloudClient) -> None:
    """It reads its input, which is the blob that others share, and there is no way to write, cut, move or list it."""
    content = b"an input that two workspaces have " * 30
    other = new_cloud_client()
    for client in (caller, other):
        sent = client.ask("POST", "/api/upload/image", files={"image": ("shared.txt", content)})
        assert sent.status_code == 200, sent.text
    job = caller.runs({"1": {"class_type": "Tamper", "inputs": {"name": "shared.txt"}}})
    outputs = caller.get(f"/api/jobs/{job}")["outputs"]["1"]
    assert (outputs["read"], outputs["ways"]) == ([len(content)], [])
    assert _look(other, "shared.txt", "input") == content
