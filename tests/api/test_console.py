"""The console's files are served to browsers: safe, compressed, and kept for as long as they are the same."""

import re

import httpx
import pytest

from servers import Server


@pytest.mark.parametrize("path", ["/", "/console", "/console/explore", "/console/models/local/procedural-image-1"])
def test_every_address_of_a_page_has_the_same_document(router: Server, path: str) -> None:
    """The script of the document finds out which page is meant."""
    answer = httpx.get(router.url + path)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.text == httpx.get(router.url).text


def test_document_may_load_nothing_inline_and_nothing_from_elsewhere(router: Server) -> None:
    """The Content-Security-Policy starts from nothing and adds what is our own."""
    policy = httpx.get(router.url).headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "unsafe" not in policy
    assert "http" not in policy
    assert "frame-ancestors 'none'" in policy


def test_files_named_by_their_content_are_kept_for_good(router: Server) -> None:
    """A browser never asks again for a script or a style whose name has its digest."""
    names = re.findall(r'"(/console/assets/[^"]+)"', httpx.get(router.url).text)
    assert {name.rpartition(".")[2] for name in names} == {"css", "js"}
    for name in names:
        answer = httpx.get(router.url + name, headers={"Accept-Encoding": "gzip"})
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert answer.headers["content-encoding"] == "gzip"
        assert answer.headers["x-content-type-options"] == "nosniff"
        plain = httpx.get(router.url + name, headers={"Accept-Encoding": "identity"})
        assert plain.content == answer.content


def test_file_of_another_version_is_not_found(router: Server) -> None:
    """A document in place of a script would be executed as one."""
    assert httpx.get(f"{router.url}/console/assets/index-00000000.js").status_code == 404


def test_path_out_of_the_folder_leads_to_the_document(router: Server) -> None:
    """Only names that the folder has are read."""
    with httpx.Client(base_url=router.url) as client:
        answer = client.send(client.build_request("GET", "/console/%2e%2e/py.typed"))
    assert answer.text == httpx.get(router.url).text


def test_document_that_a_browser_has_is_not_sent_again(router: Server) -> None:
    """Its tag is that of its bytes."""
    first = httpx.get(router.url)
    again = httpx.get(router.url, headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert httpx.head(router.url).headers["etag"] == first.headers["etag"]
