"""What a provider may say that signs somebody in: an ID token of it, for us, of this sign-in, that counts now."""

import asyncio
import json
import time
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import pytest

from fairlead.identity.oidc import Identity, OidcClient, OidcProvider, ProviderError
from fake_partner import FakePartner, reply, running_partner
from identity.conftest import Keys, public_entry, signed_token

pytestmark = pytest.mark.req("A-01")

_NONCE: Final = "the nonce of this sign-in"
_BACK: Final = "https://fairlead.example/callback"
_CLIENT: Final = "fairlead"
_CHALLENGE: Final = "1feKYP2squaeWAiJic4eC-LS4zxucSgWGrt51hG2aRA"
"""S256 of `the verifier` (RFC 7636)."""


@pytest.fixture(scope="module")
def provider() -> Iterator[FakePartner]:
    """Return a server that answers as a provider does."""
    with running_partner() as running:
        yield running


@pytest.fixture
def issuer(provider: FakePartner, keys: Keys) -> str:
    """Return the name of a provider that tells of itself and publishes its keys."""
    provider.reset()
    _discovery(provider)
    provider.script("/jwks", reply(200, json.dumps({"keys": [public_entry(keys.rsa)]}).encode()))
    return provider.url


def _discovery(provider: FakePartner, **changes: object) -> None:
    document = {
        "issuer": provider.url,
        "authorization_endpoint": f"{provider.url}/auth",
        "token_endpoint": f"{provider.url}/token",
        "jwks_uri": f"{provider.url}/jwks",
        **changes,
    }
    provider.script("/.well-known/openid-configuration", reply(200, json.dumps(document).encode()))


def _identify(issuer: str, named: str | None = None) -> Identity:
    async def work() -> Identity:
        client = OidcClient(OidcProvider(issuer, _CLIENT, None, "openid email", "roles"))
        try:
            return await client.identify("a-code", _BACK, _NONCE, "the verifier", named)
        finally:
            await client.close()

    return asyncio.run(work())


def _answer_with(provider: FakePartner, keys: Keys, **changes: Any) -> None:
    """Have the provider answer a code with an ID token that is good but for some changes."""
    now = int(time.time())
    key = changes.pop("key", keys.rsa)
    good = {"iss": provider.url, "aud": _CLIENT, "nonce": _NONCE, "sub": "ada", "iat": now, "exp": now + 300}
    address = {"email": "Ada@Example.org", "email_verified": True, "workspace": None}
    token = signed_token(key, **{**good, **address, **changes})
    provider.script("/token", reply(200, json.dumps({"id_token": token, "access_token": "x"}).encode()))


def test_good_id_token_says_who_has_signed_in(provider: FakePartner, keys: Keys, issuer: str) -> None:
    """The code is exchanged with the verifier that the browser's challenge was made of."""
    _answer_with(provider, keys)
    assert _identify(issuer) == Identity(issuer, "ada", "ada@example.org")
    form = parse_qs(provider.requests("/token")[-1].body.decode())
    assert (form["code"], form["code_verifier"], form["redirect_uri"]) == (["a-code"], ["the verifier"], [_BACK])


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"nonce": "that of another sign-in"}, "its 'nonce' is wrong"),
        ({"nonce": None}, "its 'nonce' is wrong"),
        ({"aud": "another client"}, "another audience"),
        ({"aud": None}, "another audience"),
        ({"aud": [_CLIENT, "another client"]}, "its 'azp' is wrong"),
        ({"aud": [_CLIENT, "another client"], "azp": "another client"}, "its 'azp' is wrong"),
        ({"azp": "another client"}, "its 'azp' is wrong"),
        ({"iss": "https://id.evil.example"}, "the issuer is another"),
        ({"exp": int(time.time()) - 3600}, "has expired"),
        ({"exp": None}, "never expires"),
        ({"iat": int(time.time()) + 3600}, "not valid yet"),
        ({"sub": None}, "its 'sub' is wrong"),
        ({"sub": ""}, "no usable subject"),
        ({"sub": "x" * 300}, "no usable subject"),
    ],
)
def test_id_token_that_is_not_of_this_sign_in_signs_nobody_in(
    provider: FakePartner, keys: Keys, issuer: str, changes: dict[str, Any], reason: str
) -> None:
    """Each claim that must hold is looked at, and the reason repeats nothing of the token."""
    _answer_with(provider, keys, **changes)
    with pytest.raises(ProviderError, match=reason):
        _identify(issuer)


def test_id_token_of_another_key_signs_nobody_in(provider: FakePartner, keys: Keys, issuer: str) -> None:
    """Nobody who answers in place of the provider can sign it."""
    _answer_with(provider, keys, key=keys.other_rsa)
    with pytest.raises(ProviderError, match="the signature is wrong"):
        _identify(issuer)


@pytest.mark.parametrize("said", [False, None, "true", 1])
def test_address_that_is_not_verified_is_nobodys(provider: FakePartner, keys: Keys, issuer: str, said: Any) -> None:
    """Anything but `true` proves nothing."""
    _answer_with(provider, keys, email_verified=said)
    assert _identify(issuer).email is None


@pytest.mark.parametrize(
    ("status", "body"), [(400, b'{"error":"invalid_grant"}'), (200, b"{}"), (200, b"not JSON"), (500, b"")]
)
def test_code_that_the_provider_refuses_signs_nobody_in(
    provider: FakePartner, issuer: str, status: int, body: bytes
) -> None:
    """A code that was used before is one of them."""
    provider.script("/token", reply(status, body))
    with pytest.raises(ProviderError):
        _identify(issuer)


@pytest.mark.parametrize(
    "changes", [{"issuer": "https://id.evil.example"}, {"token_endpoint": "ftp://id.example/token"}]
)
def test_discovery_that_cannot_be_believed_is_refused(
    provider: FakePartner, keys: Keys, issuer: str, changes: dict[str, str]
) -> None:
    """Neither one of another issuer, nor one that leads elsewhere than over HTTP."""
    _discovery(provider, **changes)
    _answer_with(provider, keys)
    with pytest.raises(ProviderError):
        _identify(issuer)


@pytest.mark.req("T-04")
@pytest.mark.parametrize(
    ("names_itself", "named"),
    [(False, "https://id.evil.example"), (True, "https://id.evil.example"), (True, None), (True, "{}/")],
)
def test_code_of_another_provider_is_sent_nowhere(
    provider: FakePartner, keys: Keys, issuer: str, *, names_itself: bool, named: str | None
) -> None:
    """A foreign issuer is refused, and a missing one where the provider always names itself (RFC 9207)."""
    _discovery(provider, authorization_response_iss_parameter_supported=names_itself)
    _answer_with(provider, keys)
    with pytest.raises(ProviderError, match="the browser has come back"):
        _identify(issuer, named and named.format(issuer))
    assert provider.requests("/token") == []
    assert _identify(issuer, issuer).subject == "ada"


@pytest.mark.req("T-04")
@pytest.mark.parametrize(
    ("said", "groups"),
    [(["a", "b", 1], {"a", "b"}), ("a", {"a"}), (None, set()), ({"a": True}, set()), ([], set())],
)
def test_groups_are_those_of_the_claim(
    provider: FakePartner, keys: Keys, issuer: str, said: object, groups: set[str]
) -> None:
    """A list of names or one name; anything else names none."""
    _answer_with(provider, keys, roles=said)
    assert _identify(issuer).groups == groups


def test_browser_leaves_with_state_nonce_and_challenge(issuer: str) -> None:
    """The verifier itself stays here until the code is exchanged."""

    async def work() -> str:
        client = OidcClient(OidcProvider(issuer, _CLIENT, None, "openid email"))
        try:
            return await client.authorization_url(_BACK, "the state", _NONCE, "the verifier")
        finally:
            await client.close()

    url = asyncio.run(work())
    query = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
    assert query == {
        "response_type": "code",
        "client_id": _CLIENT,
        "redirect_uri": _BACK,
        "scope": "openid email",
        "state": "the state",
        "nonce": _NONCE,
        "code_challenge": _CHALLENGE,
        "code_challenge_method": "S256",
    }
    assert "verifier" not in url
