"""Our credentials: taken in turn by weight, shown as each partner wants them, and told of by nothing."""

import hashlib
import json
from collections import Counter
from itertools import pairwise
from typing import Any, Final

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from hypothesis import given
from hypothesis import strategies as st

from fairlead.providers.credentials import OWN, BadCredentialError, Credential, Credentials, Secret
from fairlead.providers.spec import Auth, Provider, Scheme
from fairlead.providers.spec_files import load_provider
from fake_partner import provider_text

_BEARER: Final = load_provider(provider_text("http://127.0.0.1:9"), "fake.toml")
_HMAC: Final = "secret-of-at-least-thirty-two-characters"
_NOW: Final = 1_800_000_000


def _with(auth: Auth) -> Provider:
    return Provider("fake", "Fake", "http://127.0.0.1:9", auth, {}, None, {}, ())


def _of(provider: Provider, *texts: str) -> Credentials:
    return Credentials({"fake": provider}, {"fake": [Secret(text) for text in texts]}, lambda: _NOW)


def _only(credentials: Credentials) -> Credential:
    (one,) = credentials.all("fake")
    return one


def _anybody(_: Credential) -> bool:
    return True


@given(st.lists(st.integers(1, 9), min_size=1, max_size=5))
def test_credentials_are_taken_by_their_weights(weights: list[int]) -> None:
    """In every cycle of as many turns as the sum of the weights, each credential is taken by its weight."""
    secrets = [Secret(f"key-{number}", weight) for number, weight in enumerate(weights)]
    credentials = Credentials({"fake": _BEARER}, {"fake": secrets})
    for _ in range(3):
        turns = [credentials.next("fake", _anybody) for _ in range(sum(weights))]
        assert Counter(one.text for one in turns if one) == {one.text: one.weight for one in secrets}


def test_turns_of_a_heavy_credential_are_spread() -> None:
    """Turns are spread: with weights 2, 1 and 1 nobody is taken twice running."""
    secrets = [Secret("a", 2), Secret("b"), Secret("c")]
    credentials = Credentials({"fake": _BEARER}, {"fake": secrets})
    taken = [one.text for one in (credentials.next("fake", _anybody) for _ in range(8)) if one]
    assert sum(one == two for one, two in pairwise(taken[:4])) == 0


@given(st.lists(st.sampled_from("abc"), max_size=30), st.sampled_from("abc"))
def test_cooldown_never_starves_a_credential(cooling: list[str], last: str) -> None:
    """Anyone who rested for a while, everybody is taken again afterwards, and nobody who may not is ever taken."""
    secrets = [Secret("a", 3), Secret("b", 2), Secret("c")]
    credentials = Credentials({"fake": _BEARER}, {"fake": secrets})
    for one in [*cooling, last]:
        taken = credentials.next("fake", lambda credential, one=one: credential.text != one)  # type: ignore[misc]
        assert taken is not None
        assert taken.text != one
    assert {one.text for one in (credentials.next("fake", _anybody) for _ in range(60)) if one} == {"a", "b", "c"}


def test_no_credential_is_taken_when_none_may() -> None:
    """Without a credential that may be shown there is none."""
    for texts in ((), ("a",), ("a", "b")):
        assert _of(_BEARER, *texts).next("fake", lambda _: False) is None
    assert _of(_BEARER).next("gone", _anybody) is None


def test_partner_without_its_credential_is_not_configured() -> None:
    """A partner that wants one has none until an operator gives it; one that wants none always has it."""
    known = (_of(_BEARER).all("fake"), _of(_BEARER, "a").all("fake"), _of(_BEARER).all("gone"))
    assert [bool(one) for one in known] == [False, True, False]
    open_to_all = _of(_with(Auth(Scheme.NONE)))
    assert open_to_all.all("fake")
    assert open_to_all.headers(_only(open_to_all)) == {}


def test_label_identifies_a_credential_without_showing_it() -> None:
    """A label is short, the same after a restart, another for every key, and no plain digest of it."""
    one, again, other = (_only(_of(_BEARER, text)).label for text in ("key-1", "key-1", "key-2"))
    assert one == again != other
    assert len(one) == 12
    assert "key-1" not in one
    assert hashlib.sha256(b"key-1").hexdigest()[:12] != one
    for shown in (Secret("key-1"), _only(_of(_BEARER, "key-1"))):
        assert "key-1" not in repr(shown)


def test_work_goes_on_under_its_own_credential() -> None:
    """Work is asked about under the credential it was taken with; where that is gone, under another of ours."""
    credentials = _of(_BEARER, "a", "b")
    first, second = credentials.all("fake")
    assert credentials.find_by_label("fake", second.label) is second
    assert credentials.find_by_label("fake", "gone") is first
    assert credentials.find_by_label("gone", second.label) is None


def test_pair_is_shown_as_two_headers() -> None:
    """Both parts go into headers of their own; only the first colon parts them."""
    credentials = _of(_with(Auth(Scheme.PAIR, ("X-Id", "X-Secret"))), "id:se:cret")
    assert credentials.headers(_only(credentials)) == {"X-Id": "id", "X-Secret": "se:cret"}


def test_callers_credential_has_the_partners_form() -> None:
    """A caller's own credential has the partner's form and a label that is nobody's."""
    credentials = _of(_BEARER, "ours")
    own = credentials.own("fake", "own-key")
    assert (own.label, credentials.headers(own)) == (OWN, {"Authorization": "Bearer own-key"})
    assert [one.text for one in credentials.all("fake")] == ["ours"]


def _claims(headers: dict[str, str], key: Any, algorithm: str, audience: str | None = None) -> dict[str, Any]:
    """The claims of a token, its signature checked against the clock of the test."""
    scheme, _, token = headers["Authorization"].partition(" ")
    assert scheme == "Bearer"
    found: dict[str, Any] = jwt.decode(
        token,
        key,
        [algorithm],
        audience=audience,
        options={"verify_exp": False, "verify_nbf": False, "verify_iat": False},
    )
    return found


def test_token_is_signed_with_the_second_part() -> None:
    """HS256: issued by the first part, signed with the second, valid from a moment ago for the file's time."""
    credentials = _of(_with(Auth(Scheme.JWT, prefix="Bearer ", lifetime=1800)), f"issuer:{_HMAC}")
    claims = _claims(credentials.headers(_only(credentials)), _HMAC, "HS256")
    assert claims == {"iss": "issuer", "nbf": _NOW - 5, "exp": _NOW + 1800}


def test_token_is_renewed_a_minute_before_its_end() -> None:
    """A token is used again until a minute before its end, then made again."""
    credential = Credential("label", Auth(Scheme.JWT, prefix="Bearer ", lifetime=600), f"issuer:{_HMAC}")
    first = credential.headers(_NOW)
    assert credential.headers(_NOW + 539) == first
    renewed = credential.headers(_NOW + 540)
    assert renewed != first
    assert _claims(renewed, _HMAC, "HS256")["exp"] == _NOW + 540 + 600


@pytest.fixture(scope="module")
def account() -> tuple[str, Any]:
    """Return the JSON of a service account, and the key its tokens are checked with."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    document = {"client_email": "me@x.example", "private_key": pem, "private_key_id": "key-7", "type": "ignored"}
    return json.dumps(document), key.public_key()


def test_service_account_signs_its_own_token(account: tuple[str, Any]) -> None:
    """RS256: a token of the account itself, for the audience of the file, naming its key."""
    text, public = account
    auth = Auth(Scheme.JWT, prefix="Bearer ", algorithm="RS256", audience="https://x.example/", lifetime=3600)
    credentials = _of(_with(auth), text)
    headers = credentials.headers(_only(credentials))
    assert _claims(headers, public, "RS256", "https://x.example/") == {
        "iss": "me@x.example",
        "sub": "me@x.example",
        "aud": "https://x.example/",
        "iat": _NOW,
        "nbf": _NOW - 5,
        "exp": _NOW + 3600,
    }
    assert jwt.get_unverified_header(headers["Authorization"].partition(" ")[2])["kid"] == "key-7"


@pytest.mark.parametrize(
    ("auth", "text"),
    [
        (Auth(Scheme.PAIR, ("X-Id", "X-Secret")), "distinctive-without-a-colon"),
        (Auth(Scheme.JWT), "distinctive-without-a-colon"),
        (Auth(Scheme.TC3, service="ai3d"), "distinctive-without-a-colon"),
        (Auth(Scheme.TC3, service="ai3d"), "distinctive:\u00e9"),
        (Auth(Scheme.JWT, algorithm="RS256"), "distinctive: no JSON"),
        (Auth(Scheme.JWT, algorithm="RS256"), '{"client_email": "distinctive"}'),
        (Auth(Scheme.JWT, algorithm="RS256"), '{"client_email": 5, "private_key": "distinctive"}'),
        (Auth(Scheme.JWT, algorithm="RS256"), '{"client_email": "a", "private_key": "distinctive"}'),
        (Auth(Scheme.JWT, algorithm="RS256"), "[]"),
    ],
)
def test_malformed_credential_is_found_at_the_start(auth: Auth, text: str) -> None:
    """A credential of another form is found at the start, in words that say the form and nothing of it."""
    credentials = _of(_with(auth), text)
    with pytest.raises(BadCredentialError) as caught:
        credentials.headers(_only(credentials))
    assert "distinctive" not in str(caught.value)
    ((provider, problem),) = credentials.check()
    assert (provider, problem) == ("fake", str(caught.value))


def test_good_credential_passes_the_check(account: tuple[str, Any]) -> None:
    """The check at the start is silent about credentials that can be used."""
    auth = Auth(Scheme.JWT, algorithm="RS256")
    assert list(_of(_with(auth), account[0]).check()) == []
    assert list(_of(_BEARER, "a", "b").check()) == []
