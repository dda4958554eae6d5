"""Which tokens are believed: signature, times, issuer, audience and claims; and for how long without looking again."""

import asyncio
import base64
import hashlib
import hmac
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from fairlead.identity import tokens
from fairlead.identity.key_sets import KeyFile, SharedSecret, VerificationKey
from fairlead.identity.tokens import Claims, InvalidTokenError, TokenVerifier
from identity.conftest import AUDIENCE, ISSUER, trust_issuer

NOW = 1_800_000_000
NO_TEXT = "the claim {} is missing or no printable text"
NO_MODELS = "the claim models is not a list of at most 100 names"

Verify = Callable[..., Claims]


class CountingFile(KeyFile):
    """A key file that counts how often it is asked."""

    asked = 0

    async def find(self, algorithm: str, kid: str | None) -> tuple[VerificationKey, ...]:
        """Count, then find."""
        self.asked += 1
        return await super().find(algorithm, kid)


@pytest.fixture
def verify(key_file: Path, clock: Any) -> Verify:
    """Return a function that verifies one token with the key file, by the test's clock."""

    def _verify(token: str, **options: Any) -> Claims:
        names = {name: options.pop(name) for name in ("issuer", "audience") if name in options}
        verifier = TokenVerifier(trust_issuer(KeyFile(key_file), **names), now=clock, **options)
        return asyncio.run(verifier.verify(token))

    return _verify


def verify_secret(secret: str, token: str) -> Claims:
    """Verify one token with a shared secret, at NOW."""
    return asyncio.run(TokenVerifier(trust_issuer(SharedSecret(secret)), now=lambda: NOW).verify(token))


def refusal(verify: Verify, token: str, **options: Any) -> str:
    """Check that a token is refused for a reason that does not repeat it, and return the reason."""
    with pytest.raises(InvalidTokenError) as caught:
        verify(token, **options)
    reason = str(caught.value)
    assert len(reason) < 100
    assert not any(len(part) > 4 and part in reason for part in token.split("."))
    return reason


def good_claims(**claims: Any) -> dict[str, Any]:
    """Return the claims of a good token with some changed."""
    return {"sub": "ada", "workspace": "lab", "exp": NOW + 600, "iss": ISSUER, "aud": AUDIENCE, **claims}


def hmac_signed(token: str, secret: bytes) -> str:
    """Replace the signature of a token by HS256 with a secret that PyJWT would refuse."""
    text = token.rpartition(".")[0]
    signature = hmac.digest(secret, text.encode(), hashlib.sha256)
    return f"{text}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


@pytest.mark.req("R-37")
def test_rs256_token_is_accepted(verify: Verify, keys: Any, sign: Any) -> None:
    """A token signed with the issuer's RSA key says who calls."""
    assert verify(sign(keys.rsa, models=["acme/*"])) == Claims("ada", "lab", ("acme/*",), NOW + 600)


@pytest.mark.req("R-37")
def test_es256_token_is_accepted(verify: Verify, keys: Any, sign: Any) -> None:
    """A token signed with the issuer's elliptic key says who calls."""
    token = sign(keys.ec, algorithm="ES256", header={"kid": "two"})
    assert verify(token) == Claims("ada", "lab", None, NOW + 600)


@pytest.mark.req("R-37")
def test_hs256_token_is_accepted(keys: Any, sign: Any) -> None:
    """A token signed with the shared secret says who calls, whatever it calls the secret."""
    token = sign(keys.secret, algorithm="HS256")
    assert verify_secret(keys.secret, token) == Claims("ada", "lab", None, NOW + 600)


@pytest.mark.req("R-37")
def test_token_that_names_no_key_is_tried_with_all(verify: Verify, keys: Any, sign: Any) -> None:
    """A token that names no key is tried with the keys of its algorithm."""
    assert verify(sign(keys.rsa, header={"kid": None})).subject == "ada"


@pytest.mark.req("R-37")
def test_configured_claims_are_read(verify: Verify, keys: Any, sign: Any) -> None:
    """Workspace and models are read from the claims that are configured."""
    token = sign(keys.rsa, workspace=None, **{"https://x.example/org": "lab", "allowed": ["a/b"]})
    names = {"workspace_claim": "https://x.example/org", "models_claim": "allowed"}
    assert verify(token, **names) == Claims("ada", "lab", ("a/b",), NOW + 600)


@pytest.mark.req("R-37", "R-38")
@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"exp": NOW - 30}, "the token has expired"),
        ({"exp": NOW - 86400}, "the token has expired"),
        ({"exp": 0}, "the token has expired"),
        ({"exp": None}, "the token never expires"),
        ({"nbf": NOW + 31}, "the token is not valid yet"),
        ({"iat": NOW + 31}, "the token is not valid yet"),
        ({"exp": "1900000000"}, "the claim exp is not a time"),
        ({"exp": True}, "the claim exp is not a time"),
        ({"exp": -1}, "the claim exp is not a time"),
        ({"exp": 10**400}, "the claim exp is not a time"),
        ({"exp": (NOW + 60) * 1000}, "the claim exp is not a time"),
        ({"exp": float("inf")}, "the payload is not JSON"),
        ({"exp": float("nan")}, "the payload is not JSON"),
        ({"nbf": []}, "the claim nbf is not a time"),
        ({"iat": "now"}, "the claim iat is not a time"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_token_of_another_time_is_refused(
    verify: Verify, keys: Any, sign: Any, claims: dict[str, Any], reason: str
) -> None:
    """A token without an end, after its end or before its beginning proves nothing."""
    assert refusal(verify, sign(keys.rsa, **claims)) == reason


@pytest.mark.req("R-37")
@pytest.mark.parametrize("claims", [{"exp": NOW - 29}, {"exp": NOW - 29.5}, {"nbf": NOW + 30}, {"iat": NOW + 30}])
def test_token_within_leeway_is_accepted(verify: Verify, keys: Any, sign: Any, claims: dict[str, Any]) -> None:
    """Clocks may differ by half a minute."""
    assert verify(sign(keys.rsa, **claims)).workspace == "lab"


@pytest.mark.req("R-37")
def test_leeway_of_zero_ends_on_the_second(verify: Verify, keys: Any, sign: Any) -> None:
    """Without leeway a token ends on the second."""
    assert refusal(verify, sign(keys.rsa, exp=NOW), leeway=0) == "the token has expired"
    assert verify(sign(keys.rsa, exp=NOW + 1), leeway=0).expires_at == NOW + 1


@pytest.mark.req("R-37", "R-38")
@pytest.mark.parametrize("issuer", [None, "https://evil.example", "https://id.example/", "", ["https://id.example"], 5])
def test_token_of_another_issuer_is_refused(verify: Verify, keys: Any, forge: Any, issuer: Any) -> None:
    """A configured issuer must be named exactly."""
    token = forge({"alg": "RS256", "kid": "one"}, good_claims(iss=issuer), keys.rsa)
    assert refusal(verify, token, issuer="https://id.example") == "the issuer is another"


@pytest.mark.req("S-10")
@pytest.mark.parametrize("names", [("", AUDIENCE), (ISSUER, ""), ("", "")])
def test_verifier_needs_an_issuer_and_an_audience(key_file: Path, names: tuple[str, str]) -> None:
    """There is no verifier that would believe anybody."""
    with pytest.raises(ValueError, match="a named issuer and for a named audience"):
        trust_issuer(KeyFile(key_file), *names)


@pytest.mark.req("R-37", "R-38")
@pytest.mark.parametrize(
    "audience", [None, "other", "", [], ["other"], ["fair", "lead"], [["fairlead"]], {"fairlead": 1}, "fairlead "]
)
def test_token_for_another_audience_is_refused(verify: Verify, keys: Any, sign: Any, audience: Any) -> None:
    """A configured audience must be named, alone or in a list."""
    reason = "the token is meant for another audience"
    assert refusal(verify, sign(keys.rsa, aud=audience), audience="fairlead") == reason


@pytest.mark.req("R-37")
@pytest.mark.parametrize("audience", ["fairlead", ["fairlead"], ["other", "fairlead"]])
def test_token_for_us_is_accepted(verify: Verify, keys: Any, sign: Any, audience: Any) -> None:
    """The right issuer and audience are accepted, the audience as text and in a list."""
    token = sign(keys.rsa, aud=audience, iss="https://id.example")
    assert verify(token, audience="fairlead", issuer="https://id.example").subject == "ada"


@pytest.mark.req("R-37", "R-38")
@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"sub": None}, NO_TEXT.format("sub")),
        ({"sub": ""}, NO_TEXT.format("sub")),
        ({"sub": 5}, NO_TEXT.format("sub")),
        ({"sub": "a\nb"}, NO_TEXT.format("sub")),
        ({"workspace": None}, NO_TEXT.format("workspace")),
        ({"workspace": ""}, NO_TEXT.format("workspace")),
        ({"workspace": "a\0b"}, NO_TEXT.format("workspace")),
        ({"workspace": "\ud800"}, "the payload is not JSON"),
        ({"workspace": ["lab"]}, NO_TEXT.format("workspace")),
        ({"workspace": "x" * 65}, "the name of the workspace is too long"),
        ({"models": None}, NO_MODELS),
        ({"models": "acme/*"}, NO_MODELS),
        ({"models": {}}, NO_MODELS),
        ({"models": ["acme/*", 5]}, NO_MODELS),
        ({"models": ["m"] * 101}, NO_MODELS),
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_token_without_a_needed_claim_is_refused(
    verify: Verify, keys: Any, forge: Any, claims: dict[str, Any], reason: str
) -> None:
    """Subject and workspace are needed as text, and the models, if given, must be a list of names."""
    token = forge({"alg": "RS256", "kid": "one"}, good_claims(**claims), keys.rsa)
    assert refusal(verify, token) == reason


@pytest.mark.req("R-37")
def test_empty_list_of_models_allows_none(verify: Verify, keys: Any, sign: Any) -> None:
    """No models is not the same as no list of models; a hundred are as many as there may be."""
    assert verify(sign(keys.rsa, models=[])).models == ()
    assert verify(sign(keys.rsa, models=["m"] * 100, workspace="x" * 64)).models == ("m",) * 100


@pytest.mark.req("R-37", "R-38")
@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "", None, 5, ["RS256"], "RS512", "PS256", "HS256"])
def test_token_of_another_algorithm_is_refused(verify: Verify, keys: Any, forge: Any, algorithm: Any) -> None:
    """Only the algorithms of the key set count, even when the signature would be good."""
    token = forge({"alg": algorithm, "kid": "one"}, good_claims(), keys.rsa)
    assert refusal(verify, token) == "the algorithm is not accepted"


@pytest.mark.req("R-37", "R-38")
def test_unsigned_token_is_refused(verify: Verify, keys: Any, sign: Any) -> None:
    """A token needs a signature, and the right one."""
    unsigned = sign(None, algorithm="none")
    assert refusal(verify, unsigned) == "the token does not have the form of one"
    assert refusal(verify, f"{unsigned}AA") == "the algorithm is not accepted"
    assert refusal(verify, sign(keys.rsa).rpartition(".")[0] + ".AA") == "the signature is wrong"


@pytest.mark.req("R-37", "R-38")
def test_public_key_is_never_taken_for_a_secret(verify: Verify, keys: Any, forge: Any) -> None:
    """Who knows the public key cannot sign with it as if it were the secret of HS256."""
    token = hmac_signed(forge({"alg": "HS256", "kid": "one"}, good_claims()), keys.public_pem())
    assert refusal(verify, token) == "the algorithm is not accepted"
    with pytest.raises(ValueError, match="a key of another kind"):
        SharedSecret(keys.public_pem().decode())


@pytest.mark.req("R-37", "R-38")
def test_shared_secret_verifies_hs256_alone(keys: Any, sign: Any) -> None:
    """A shared secret verifies HS256 and nothing else, and only when it is the right one."""
    wrong = sign("another secret of thirty-two bytes", algorithm="HS256")
    for token, reason in ((sign(keys.rsa), "the algorithm is not accepted"), (wrong, "the signature is wrong")):
        assert refusal(lambda text: verify_secret(keys.secret, text), token) == reason


@pytest.mark.parametrize("secret", ["", "short", "x" * 31, '{"kty": "oct", "k": "AAAAAAAAAAAAAAAAAAAAAAAAAAAA"}'])
def test_secret_that_can_be_guessed_is_refused(secret: str) -> None:
    """A secret has at least 32 bytes and is not a key of another form."""
    with pytest.raises(ValueError, match="secret of tokens"):
        SharedSecret(secret)


@pytest.mark.req("R-37", "R-38")
def test_key_of_another_issuer_under_the_same_name_is_refused(verify: Verify, keys: Any, sign: Any) -> None:
    """The name of a key proves nothing; nor does an elliptic key under the name of an RSA key."""
    assert refusal(verify, sign(keys.other_rsa)) == "the signature is wrong"
    assert refusal(verify, sign(keys.rsa, header={"kid": "two"})) == "the key is unknown"
    assert refusal(verify, sign(keys.ec, algorithm="ES256")) == "the key is unknown"


@pytest.mark.req("R-37", "R-38")
@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ({"crit": ["exp"], "exp": 1}, "the header demands an extension"),
        ({"crit": ["b64"], "b64": False}, "the header demands an extension"),
        ({"crit": []}, "the header demands an extension"),
        ({"crit": None}, "the header demands an extension"),
        ({"b64": False}, "the signature is wrong"),
        ({"kid": 5}, "the name of the key is not text"),
        ({"kid": ["one"]}, "the name of the key is not text"),
        ({"kid": ""}, "the key is unknown"),
        ({"kid": "../../dev/null"}, "the key is unknown"),
    ],
    ids=str,
)
def test_header_with_demands_is_refused(
    verify: Verify, keys: Any, forge: Any, header: dict[str, Any], reason: str
) -> None:
    """A header that demands what we do not know is refused, and the name of a key is text."""
    token = forge({"alg": "RS256", "kid": "one", **header}, good_claims(), keys.rsa)
    assert refusal(verify, token) == reason


@pytest.mark.req("R-37", "R-38")
def test_key_that_a_token_brings_along_is_ignored(verify: Verify, keys: Any, sign: Any, entry: Any) -> None:
    """Keys and addresses in a header are not looked at."""
    header = {"kid": None, "jwk": entry(keys.other_rsa), "jku": "http://127.0.0.1:1/keys"}
    assert refusal(verify, sign(keys.other_rsa, header=header)) == "the signature is wrong"


@pytest.mark.req("R-37", "R-38")
@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"null", b'"x"', b"\xff", b"[" * 3000, b'{"a":1,"a":2}', b"1e999"])
def test_garbage_in_a_token_is_refused(verify: Verify, keys: Any, forge: Any, text: bytes) -> None:
    """Header and payload are JSON objects in which no name stands twice."""
    header = {"alg": "RS256", "kid": "one"}
    for token in (forge(text, good_claims(), keys.rsa), forge(header, text, keys.rsa)):
        assert refusal(verify, token)


@pytest.mark.req("R-37", "R-38")
def test_giant_token_is_refused(verify: Verify, keys: Any, sign: Any) -> None:
    """A token has at most 8 KiB, no matter who signed it."""
    assert refusal(verify, sign(keys.rsa, padding="x" * 8192)) == "the token is too long"
    assert refusal(verify, "." * 10**6) == "the token is too long"
    assert verify(sign(keys.rsa, padding="x" * 5000)).subject == "ada"


@pytest.mark.req("R-37", "R-38")
@pytest.mark.parametrize(
    "token", ["", ".", "..", "a.b", "a.b.c.d", "a.b.c\n", " a.b.c", "é.b.c", "\ud800.b.c", "a.b.c="]
)
def test_text_that_is_no_token_is_refused(verify: Verify, token: str) -> None:
    """A token is three parts of base64url, and nothing around them."""
    assert refusal(verify, token) == "the token does not have the form of one"


@pytest.mark.req("R-37", "R-38")
def test_token_has_one_spelling(verify: Verify, keys: Any, sign: Any) -> None:
    """The last character of a signature has spare bits, and padding may be added: both are refused."""
    token = sign(keys.rsa)
    assert token[-1] in "AQgw"
    altered = token[:-1] + chr(ord(token[-1]) + 1)
    assert refusal(verify, altered) == "the token is not encoded as one"
    assert refusal(verify, f"{token}==") == "the token does not have the form of one"


TEXTS = st.text("ABCxyz019-_.= +/{}\n", max_size=4) | st.text(max_size=3)


@pytest.mark.req("R-37", "R-38")
@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "HS256"])
def test_altered_token_is_refused(key_file: Path, keys: Any, sign: Any, algorithm: str) -> None:
    """Whatever is cut out of a good token or put into it, it is good no more."""
    key = {"RS256": keys.rsa, "ES256": keys.ec, "HS256": keys.secret}[algorithm]
    source = SharedSecret(keys.secret) if algorithm == "HS256" else KeyFile(key_file)
    token = sign(key, algorithm=algorithm, header={"kid": "two" if algorithm == "ES256" else "one"})
    verifier = TokenVerifier(trust_issuer(source), now=lambda: NOW)

    @settings(max_examples=150, deadline=None)
    @given(st.integers(0, len(token)), st.integers(0, 3), TEXTS)
    @example(len(token), 0, "=")
    @example(0, 0, " ")
    def _check(position: int, removed: int, added: str) -> None:
        altered = token[:position] + added + token[position + removed :]
        assume(altered != token)
        with pytest.raises(InvalidTokenError):
            asyncio.run(verifier.verify(altered))

    assert asyncio.run(verifier.verify(token)).subject == "ada"
    _check()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
NAMES = st.sampled_from(["sub", "workspace", "models", "exp", "nbf", "iat", "iss", "aud"])


@pytest.mark.req("R-38")
def test_strange_claims_are_understood_or_refused(key_file: Path, keys: Any, forge: Any) -> None:
    """Whatever an issuer signs is either understood or refused."""
    verifier = TokenVerifier(trust_issuer(KeyFile(key_file), "i", "a"), now=lambda: NOW)

    @settings(max_examples=150, deadline=None)
    @given(st.dictionaries(NAMES, JSON, max_size=4))
    def _check(claims: dict[str, Any]) -> None:
        token = forge({"alg": "RS256"}, good_claims(**{"iss": "i", "aud": "a", **claims}), keys.rsa)
        try:
            understood = asyncio.run(verifier.verify(token))
        except InvalidTokenError:
            return
        assert understood.subject
        assert understood.workspace
        assert understood.expires_at > NOW - 30

    _check()


def test_verified_token_is_remembered_for_a_minute(key_file: Path, clock: Any, keys: Any, sign: Any) -> None:
    """For a minute a token is believed without its signature, and then looked at again."""
    source = CountingFile(key_file)
    verifier = TokenVerifier(trust_issuer(source), now=clock)
    asked = []
    for later in (0, 59.9, 60, 61, 120):
        clock.time = NOW + later
        asyncio.run(verifier.verify(sign(keys.rsa)))
        asked.append(source.asked)
    assert asked == [1, 1, 2, 2, 3]


@pytest.mark.req("R-37", "R-38")
def test_remembered_token_ends_with_the_token(key_file: Path, clock: Any, keys: Any, sign: Any) -> None:
    """What is remembered ends with the token."""
    verifier = TokenVerifier(trust_issuer(KeyFile(key_file)), now=clock)
    token = sign(keys.rsa, exp=NOW + 10)
    for later in (0, 39):
        clock.time = NOW + later
        asyncio.run(verifier.verify(token))
    clock.time = NOW + 40
    assert refusal(lambda text: asyncio.run(verifier.verify(text)), token) == "the token has expired"


def test_remembered_tokens_are_bounded(key_file: Path, keys: Any, sign: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only so many tokens are remembered; the oldest is forgotten first, and refused ones never are."""
    monkeypatch.setattr(tokens, "_CACHE_ENTRIES_MAX", 2)
    source = CountingFile(key_file)
    verifier = TokenVerifier(trust_issuer(source), now=lambda: NOW)
    asked = []
    for name in ("a", "b", "c", "c", "b", "a", "c"):
        asyncio.run(verifier.verify(sign(keys.rsa, sub=name)))
        asked.append(source.asked)
    assert asked == [1, 2, 3, 3, 3, 4, 4]
    for _ in range(2):
        refusal(lambda text: asyncio.run(verifier.verify(text)), sign(keys.other_rsa))
    assert source.asked == 6


def test_server_without_tokens_loads_no_cryptography() -> None:
    """Importing these modules costs neither PyJWT nor cryptography."""
    code = "import sys, fairlead.identity.tokens as t; print(sorted({'jwt', 'cryptography'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
