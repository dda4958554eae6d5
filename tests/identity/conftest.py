"""An issuer of tokens: real keys, and a real server on a free port that publishes them."""

import base64
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from fairlead.identity.key_sets import KeySource
from fairlead.identity.tokens import TokenIssuer

NOW = 1_800_000_000
ISSUER = "https://id.example"
AUDIENCE = "fairlead"
_HELD_SECONDS_MOST = 40


class Clock:
    """A clock that tests move."""

    def __init__(self) -> None:
        """Begin at a fixed time."""
        self.time: float = NOW

    def __call__(self) -> float:
        """Tell the time."""
        return self.time


class Keys:
    """Private keys, made once for all tests."""

    def __init__(self) -> None:
        """Make two good RSA keys, one that is too short, and one good and one strange elliptic key."""
        self.rsa = rsa.generate_private_key(65537, 2048)
        self.other_rsa = rsa.generate_private_key(65537, 2048)
        self.short_rsa = rsa.generate_private_key(65537, 1024)  # noqa: S505 -- to be refused
        self.ec = ec.generate_private_key(ec.SECP256R1())
        self.strange_ec = ec.generate_private_key(ec.SECP384R1())
        self.secret = "a secret of more than thirty-two bytes"

    def public_pem(self) -> bytes:
        """Return what an attacker knows: the public half of the first RSA key."""
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        return self.rsa.public_key().public_bytes(serialization.Encoding.PEM, form)


class QuietServer(ThreadingHTTPServer):
    """A server that does not mind callers who leave."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing."""


class KeyServer:
    """The issuer's server: it answers what it is told to, and counts."""

    def __init__(self) -> None:
        """Start listening."""
        self.status = 200
        self.body = b""
        self.headers: dict[str, str] = {}
        self.requests = 0
        self.answers = threading.Event()
        """Clear while a test holds the answers back."""
        self.answers.set()
        self._http = QuietServer(("127.0.0.1", 0), _handler_of(self))
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._http.server_port}/keys"

    def publish(self, *entries: dict[str, Any]) -> None:
        """Answer with these keys from now on."""
        self.body = json.dumps({"keys": entries}).encode()

    def close(self) -> None:
        """Stop listening."""
        self.answers.set()
        if self._thread.is_alive():
            self._http.shutdown()
            self._thread.join()
            self._http.server_close()


def _handler_of(server: KeyServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server.requests += 1
            server.answers.wait(_HELD_SECONDS_MOST)
            self.send_response(server.status)
            for name, value in {"content-length": str(len(server.body)), **server.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(server.body)

        def log_message(self, *_: Any) -> None:
            pass

    return Handler


def public_entry(key: Any, kid: str | None = "one", **members: Any) -> dict[str, Any]:
    """Write the public half of a key as an entry of a key set; a member of None is left out."""
    algorithm: Any = RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else ECAlgorithm
    entry = {**algorithm.to_jwk(key.public_key(), as_dict=True), "use": "sig", "kid": kid, **members}
    return {name: value for name, value in entry.items() if value is not None and name != "key_ops"}


def signed_token(key: Any, *, algorithm: str = "RS256", header: dict[str, Any] | None = None, **claims: Any) -> str:
    """Sign a good token; a claim or a header of None is left out."""
    payload = {"sub": "ada", "workspace": "lab", "exp": NOW + 600, "iat": NOW, "iss": ISSUER, "aud": AUDIENCE, **claims}
    headers = {"kid": "one", **(header or {})}
    return jwt.encode(
        {name: value for name, value in payload.items() if value is not None},
        key,
        algorithm=algorithm,
        headers={name: value for name, value in headers.items() if value is not None},
    )


def hand_made_token(header: bytes | dict[str, Any], payload: bytes | dict[str, Any], key: Any = None) -> str:
    """Put a token together that PyJWT would not make, signed as RS256 or with one zero byte."""
    texts = (part if isinstance(part, bytes) else json.dumps(part).encode() for part in (header, payload))
    text = ".".join(_base64url(part) for part in texts)
    signature = b"\0" if key is None else key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256())
    return f"{text}.{_base64url(signature)}"


def trust_issuer(keys: KeySource, issuer: str = ISSUER, audience: str = AUDIENCE) -> TokenIssuer:
    """The issuer of these tests, with keys of one's own."""
    return TokenIssuer(issuer, audience, keys)


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


@pytest.fixture
def clock() -> Clock:
    """Return a clock of one's own."""
    return Clock()


@pytest.fixture(scope="session")
def keys() -> Keys:
    """Return the keys all tests share."""
    return Keys()


@pytest.fixture(scope="session")
def key_file(tmp_path_factory: pytest.TempPathFactory, keys: Keys) -> Path:
    """Return a file, not to be changed, with the first RSA key as `one` and the elliptic key as `two`."""
    path = tmp_path_factory.mktemp("keys") / "keys.json"
    path.write_text(json.dumps({"keys": [public_entry(keys.rsa), public_entry(keys.ec, "two")]}))
    return path


@pytest.fixture
def issuer(keys: Keys) -> Iterator[KeyServer]:
    """Return a server that publishes the first RSA key as `one`."""
    server = KeyServer()
    server.publish(public_entry(keys.rsa))
    yield server
    server.close()


@pytest.fixture(scope="session")
def entry() -> Callable[..., dict[str, Any]]:
    """Return the function that writes a key as an entry of a key set."""
    return public_entry


@pytest.fixture(scope="session")
def sign() -> Callable[..., str]:
    """Return the function that signs tokens."""
    return signed_token


@pytest.fixture(scope="session")
def forge() -> Callable[..., str]:
    """Return the function that puts tokens together by hand."""
    return hand_made_token
