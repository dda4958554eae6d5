"""Who is calling: keys and tokens, what is remembered of them, and for how long."""

import time
from collections.abc import Callable
from typing import Any, Final

import jwt
import pytest

from conftest import Run
from fairlead.clock import Clock
from fairlead.domain.accounts.callers import Caller, Gate, Patterns
from fairlead.domain.faults import Fault, FaultError, Forbidden, ServiceUnavailable, Unauthorized
from fairlead.identity.key_sets import KeyFile, SharedSecret
from fairlead.identity.tokens import TokenIssuer, TokenVerifier
from fairlead.operations.accounts import authenticate as authentication
from fairlead.operations.accounts.authenticate import ApiKey, Authenticator, Credential, Token
from fairlead.operations.accounts.keys import issue_key, revoke_key
from fairlead.operations.accounts.workspaces import NewWorkspace, change_workspace, create_workspace
from operations.servers import Guarded

ISSUER: Final = "https://id.example"
SECRET: Final = "a secret of more than thirty-two bytes"
CLOCK: Final = Clock()
Refusal = Callable[[Credential | None], Fault]
pytestmark = pytest.mark.usefixtures("lab")


@pytest.fixture
def lab(guarded: Guarded, run: Run) -> str:
    """Return the name of a workspace."""
    run(create_workspace(guarded, NewWorkspace(name="lab", models=("acme/*",)), CLOCK))
    return "lab"


@pytest.fixture
def authenticator(guarded: Guarded) -> Authenticator:
    """Return an authenticator for keys and for tokens signed with the secret."""
    return Authenticator(guarded, TokenVerifier(TokenIssuer(ISSUER, "fairlead", SharedSecret(SECRET))))


@pytest.fixture
def key(guarded: Guarded, lab: str, run: Run) -> Any:
    """Return a key of the workspace, just issued."""
    return run(issue_key(guarded, lab, "a key", ("acme/one",), "flk_", CLOCK))


@pytest.fixture
def refusal(authenticator: Authenticator, run: Run) -> Refusal:
    """Return a function that checks that a credential is refused, and returns the fault."""

    def check(credential: Credential | None) -> Fault:
        with pytest.raises(FaultError) as caught:
            run(authenticator.authenticate(credential))
        return caught.value.fault

    return check


def token(**claims: Any) -> Token:
    """Sign a token for the workspace."""
    payload = {
        "sub": "ada",
        "workspace": "lab",
        "exp": int(time.time()) + 86_400,
        "iss": ISSUER,
        "aud": "fairlead",
        **claims,
    }
    return Token(jwt.encode(payload, SECRET, algorithm="HS256"))


@pytest.mark.req("R-37")
def test_key_brings_its_workspace_and_models(authenticator: Authenticator, key: Any, run: Run) -> None:
    """A key brings its workspace and the models of both."""
    caller: Caller = run(authenticator.authenticate(ApiKey(key.text)))
    assert (caller.workspace, caller.key_id, caller.subject) == ("lab", key.id, None)
    assert (caller.workspace_models, caller.credential_models) == (Patterns(("acme/*",)), Patterns(("acme/one",)))


@pytest.mark.req("R-37", "R-38")
@pytest.mark.parametrize("credential", [None, ApiKey("flk_wrong"), ApiKey(""), ApiKey("\udce9"), Token("a.b.c")])
def test_unknown_credential_is_unauthorized(refusal: Refusal, credential: Credential | None) -> None:
    """No credential and wrong ones are unauthorized, in words that give nothing away."""
    fault = refusal(credential)
    assert isinstance(fault, Unauthorized)
    assert "flk_" not in fault.detail


def test_caller_is_remembered_for_a_moment(authenticator: Authenticator, key: Any, guarded: Guarded, run: Run) -> None:
    """A caller is remembered for a moment, also while the database is away."""
    first = run(authenticator.authenticate(ApiKey(key.text)))
    guarded.refusals = 1
    assert run(authenticator.authenticate(ApiKey(key.text))) is first
    assert guarded.refused == 0
    assert authenticator.recall(ApiKey(key.text)) is first


def test_refused_caller_is_never_remembered(authenticator: Authenticator, refusal: Refusal) -> None:
    """Nobody is remembered who was refused, and a token is never taken for a key."""
    refusal(ApiKey("flk_wrong"))
    for credential in (None, ApiKey("flk_wrong"), token()):
        assert authenticator.recall(credential) is None


@pytest.mark.req("R-37", "R-38")
def test_changed_rights_are_seen_after_a_moment(
    authenticator: Authenticator,
    key: Any,
    guarded: Guarded,
    refusal: Refusal,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is remembered is forgotten after its time: changed rights hold, a revoked key is unknown."""
    monkeypatch.setattr(authentication, "_CACHE_SECONDS", 0.0)
    run(authenticator.authenticate(ApiKey(key.text)))
    run(change_workspace(guarded, "lab", {"gates": {"router": Gate.OFF}}, CLOCK))
    assert run(authenticator.authenticate(ApiKey(key.text))).gates == {"router": Gate.OFF}
    run(revoke_key(guarded, key.id, CLOCK))
    assert isinstance(refusal(ApiKey(key.text)), Unauthorized)


def test_number_of_remembered_callers_is_bounded(
    authenticator: Authenticator, guarded: Guarded, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest makes room for the newest."""
    monkeypatch.setattr(authentication, "_CACHE_MAX", 2)
    keys = [run(issue_key(guarded, "lab", "", None, "flk_", CLOCK)) for _ in range(3)]
    for issued in keys:
        run(authenticator.authenticate(ApiKey(issued.text)))
    assert [authenticator.recall(ApiKey(issued.text)) is None for issued in keys] == [True, False, False]


@pytest.mark.req("R-37")
@pytest.mark.parametrize("credential", [ApiKey("flk_unseen"), token()])
def test_unavailable_database_is_503_and_not_401(guarded: Guarded, refusal: Refusal, credential: Credential) -> None:
    """What cannot be checked is unavailable, not unauthorized."""
    guarded.refusals = 1
    fault = refusal(credential)
    assert isinstance(fault, ServiceUnavailable)
    assert fault.retry_after is None


@pytest.mark.req("R-37")
def test_token_brings_its_subject_workspace_and_models(authenticator: Authenticator, run: Run) -> None:
    """A token brings its subject, its workspace and its models."""
    caller: Caller = run(authenticator.authenticate(token(models=["acme/two"])))
    assert (caller.workspace, caller.key_id, caller.subject) == ("lab", None, "ada")
    assert caller.credential_models == Patterns(("acme/two",))
    assert run(authenticator.authenticate(token())).credential_models == Patterns(None)


@pytest.mark.req("R-37", "R-38")
@pytest.mark.parametrize(
    ("credential", "kind"),
    [
        (token(exp=1), Unauthorized),
        (token(sub=""), Unauthorized),
        (token(models="all"), Unauthorized),
        (token(workspace="nobody"), Forbidden),
        (Token(token().text + "x"), Unauthorized),
    ],
    ids=["expired", "nobody's", "for no models", "for no workspace", "altered"],
)
def test_invalid_token_is_refused(refusal: Refusal, credential: Token, kind: type) -> None:
    """A token that proves nothing is unauthorized; one that names nobody here is forbidden."""
    fault = refusal(credential)
    assert type(fault) is kind
    assert credential.text not in str(fault)


@pytest.mark.req("R-37")
def test_token_is_refused_without_an_issuer(guarded: Guarded, run: Run) -> None:
    """A server without an issuer takes keys only, and says so."""
    with pytest.raises(FaultError, match="API keys only"):
        run(Authenticator(guarded, None).authenticate(token()))


@pytest.mark.req("R-37")
def test_unreadable_issuer_keys_are_503_and_not_401(guarded: Guarded, run: Run, tmp_path: Any) -> None:
    """Where the issuer's keys cannot be read nothing can be said of a token."""
    unreadable = Authenticator(
        guarded, TokenVerifier(TokenIssuer(ISSUER, "fairlead", KeyFile(tmp_path / "missing.json")))
    )
    rsa_header = Token("eyJhbGciOiJSUzI1NiJ9." + token().text.split(".", 1)[1])
    with pytest.raises(FaultError) as caught:
        run(unreadable.authenticate(rsa_header))
    assert isinstance(caught.value.fault, ServiceUnavailable)
