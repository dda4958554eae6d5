"""Tokens are believed of one issuer and for one audience, on every API, in each one's form of a refusal (S-10)."""

import time
from pathlib import Path
from typing import Any, Final

import httpx
import jwt
import pytest

from api.conftest import JWT_AUDIENCE, JWT_ISSUER, JWT_SECRET
from api.jobs.callers import JobsCaller
from cases import for_each
from servers import Server, ServerFailedError

pytestmark = pytest.mark.req("S-10")

_APIS: Final = {
    "/v1/models": ("GET", 200),
    "/v2/models": ("GET", 200),
    "/api/jobs": ("GET", 200),
    "/api/v2/jobs": ("GET", 200),
    "/publishers": ("POST", 400),
}
"""A route of each API that asks who calls, and what it answers a caller it knows, to a call without a body."""


def _ask(server: Server, caller: JobsCaller, path: str, **claims: Any) -> httpx.Response:
    good = {"sub": "app", "workspace": caller.workspace, "exp": int(time.time()) + 600}
    named = {"iss": JWT_ISSUER, "aud": JWT_AUDIENCE, **claims}
    token = jwt.encode({**good, **{name: value for name, value in named.items() if value is not None}}, JWT_SECRET)
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.request(_APIS[path][0], server.url + path, headers=headers, timeout=60)


def _reason(document: Any) -> str:
    """What a refusal says, wherever its API has it."""
    match document:
        case {"error": {"message": str(words)}} | {"message": str(words)} | {"detail": str(words)}:
            return words
        case _:
            raise AssertionError(document)


@pytest.mark.parametrize("path", _APIS)
@for_each(
    "claims",
    [
        {"iss": None}, {"iss": "https://other.example"}, {"iss": JWT_ISSUER + "/"}, {"iss": JWT_ISSUER.upper()},
        {"aud": None}, {"aud": "another-service"}, {"aud": []}, {"aud": ["another-service"]}, {"aud": ""},
        {"iss": None, "aud": None}, {"iss": JWT_AUDIENCE, "aud": JWT_ISSUER},
    ],
    ids=str,
)  # fmt: skip
def test_token_of_another_issuer_or_audience_is_refused_by_every_api(
    jobs_server: Server, visitor: JobsCaller, path: str, claims: dict[str, Any]
) -> None:
    """The signature is right and the workspace there; the refusal tells nothing of what was expected."""
    response = _ask(jobs_server, visitor, path, **claims)
    assert response.status_code == 401
    assert _reason(response.json()) == "This token is not valid."
    assert JWT_AUDIENCE not in response.text


@pytest.mark.parametrize("path", _APIS)
def test_token_of_the_issuer_for_several_audiences_is_taken(
    jobs_server: Server, visitor: JobsCaller, path: str
) -> None:
    """Ours among others is enough."""
    assert _ask(jobs_server, visitor, path, aud=["other", JWT_AUDIENCE]).status_code == _APIS[path][1]


@pytest.mark.parametrize("keys", [{"FAIRLEAD_JWT_SECRET": JWT_SECRET}, {"FAIRLEAD_JWT_JWKS": "https://id.example/k"}])
@pytest.mark.parametrize(
    ("named", "lacking"),
    [
        ({}, "FAIRLEAD_JWT_ISSUER and FAIRLEAD_JWT_AUDIENCE"),
        ({"FAIRLEAD_JWT_ISSUER": JWT_ISSUER}, "FAIRLEAD_JWT_AUDIENCE"),
        ({"FAIRLEAD_JWT_AUDIENCE": JWT_AUDIENCE}, "FAIRLEAD_JWT_ISSUER"),
    ],
)
def test_server_with_keys_but_without_issuer_and_audience_does_not_start(
    tmp_path: Path, keys: dict[str, str], named: dict[str, str], lacking: str
) -> None:
    """One line says which setting is missing and why; the secret is not in it."""
    with pytest.raises(ServerFailedError, match=f"exit status 1: .*{lacking}: needed with") as raised:
        Server(tmp_path / "data", env={**keys, **named})
    assert JWT_SECRET not in str(raised.value)
    assert len(str(raised.value).strip().splitlines()) == 1
