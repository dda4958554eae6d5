"""`/openapi.json` over HTTP, and the command that prints the same."""

import json

import httpx
import pytest
from click.testing import CliRunner

from fairlead import __version__
from fairlead.cli import commands
from servers import Server


def _print_document(monkeypatch: pytest.MonkeyPatch, **settings: str) -> str:
    for name, value in settings.items():
        monkeypatch.setenv(f"FAIRLEAD_{name}", value)
    result = CliRunner().invoke(commands, ["openapi"])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_document_needs_no_credential(router: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody may read it; it is the one that the command prints."""
    answer = httpx.get(f"{router.url}/openapi.json")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert answer.headers["cache-control"] == "public, max-age=300, must-revalidate"
    assert answer.json()["info"]["version"] == __version__
    assert answer.json() == json.loads(_print_document(monkeypatch, ENGINE="false"))


def test_known_document_is_304(router: Server) -> None:
    """Who has it is told so; and it may be asked about without being fetched."""
    url = f"{router.url}/openapi.json"
    first = httpx.get(url)
    again = httpx.get(url, headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", first.headers["etag"])
    head = httpx.head(url)
    assert (head.status_code, head.content, head.headers["etag"]) == (200, b"", first.headers["etag"])


def test_documented_headers_carry_the_brand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Headers are spelled as the settings have it."""
    printed = _print_document(monkeypatch, BRAND="acme")
    assert "X-Acme-Request-Id" in printed
    assert "X-Service-" not in printed


def test_only_an_open_service_needs_no_credential(monkeypatch: pytest.MonkeyPatch) -> None:
    """A jobs API without a token is open, and one with a token is not."""
    opened = _print_document(monkeypatch, JOBS_SURFACE="self_hosted")
    assert {} in json.loads(opened)["paths"]["/api/v2/jobs"]["get"]["security"]
    closed = _print_document(monkeypatch, JOBS_SURFACE="self_hosted", STATIC_TOKEN="a-token-of-the-service")
    assert {} not in json.loads(closed)["paths"]["/api/v2/jobs"]["get"]["security"]
