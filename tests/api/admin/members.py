"""Members as tests have them: a server, a key or a session, and what they ask."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import httpx

from servers import Server

PATH: Final = "/api/admin/v1"


@dataclass
class Person:
    """Somebody with a personal key, who may have signed in."""

    server: Server
    key: str
    id: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    """What is sent with every call: the key, or after `sign_in` the cookie and the token of the session."""

    def __post_init__(self) -> None:
        self.headers = self.headers or {"X-API-Key": self.key}

    def ask(
        self, method: str, path: str, json: object = None, headers: Mapping[str, str] | None = None, **more: Any
    ) -> httpx.Response:
        """Ask for a path of the administration API."""
        return self.call(method, PATH + path, json, headers, **more)

    def call(
        self, method: str, path: str, json: object = None, headers: Mapping[str, str] | None = None, **more: Any
    ) -> httpx.Response:
        """Ask for a path of any API."""
        sent = {**self.headers, **(headers or {})}
        return httpx.request(method, self.server.url + path, headers=sent, timeout=60, json=json, verify=False, **more)  # noqa: S501 -- plain HTTP; loading certificates would be most of a call

    def get(self, path: str, **query: str) -> Any:
        """What a path answers, which must be a success."""
        answer = self.ask("GET", path, params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def sign_in(self) -> "Person":
        """The same person in a session."""
        answer = sign_in(self.server, self.key)
        assert answer.status_code == 201, answer.text
        cookie = answer.headers["set-cookie"].partition(";")[0]
        headers = {"Cookie": cookie, "X-CSRF-Token": answer.json()["csrf_token"]}
        return Person(self.server, self.key, self.id, headers)


def first_operator(server: Server) -> Person:
    """The operator that the first start of a server has made."""
    person = Person(server, (server.data / "first-operator-key").read_text("ascii").strip())
    person.id = person.get("/me")["id"]
    return person


_ADDRESSES: Final = itertools.count(1)


def sign_in(server: Server, key: str, address: str | None = None, **headers: str) -> httpx.Response:
    """Sign in by a key, from an address that nobody has used unless one is given."""
    number = next(_ADDRESSES)
    told = {"X-Forwarded-For": address or f"198.51.{number // 250}.{number % 250 + 1}", **headers}
    return httpx.post(f"{server.url}{PATH}/sessions", json={"key": key}, headers=told)


def refusal_of(answer: httpx.Response) -> tuple[int, str, str | None]:
    """The status, the code and the field of an error, whose envelope is whole."""
    error = answer.json()["error"]
    assert set(error) == {"code", "message", "field", "request_id"}
    assert error["message"]
    assert error["request_id"] == answer.headers["x-service-request-id"]
    return answer.status_code, error["code"], error["field"]
