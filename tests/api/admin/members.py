"""Members as tests have them: a server, a key or a session, and what they ask."""

import datetime
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import httpx

from servers import Server

PATH: Final = "/api/admin/v1"


def in_days(number: int) -> str:
    """The day after so many days, in UTC."""
    return (datetime.datetime.now(datetime.UTC).date() + datetime.timedelta(days=number)).isoformat()


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


def add_member(operator: Person, workspace: str, role: str, name: str) -> Person:
    """Somebody new with a personal key and a role in a workspace, whose address nobody has proven."""
    made = operator.ask("POST", "/members", {"name": name, "email": f"{name}@example.com"})
    assert made.status_code == 201, made.text
    person = Person(operator.server, "", made.json()["id"])
    key = operator.ask("POST", f"/members/{person.id}/keys", {"label": "first key"})
    body = {"member": person.id, "role": role, "unproven": True}
    granted = operator.ask("POST", f"/workspaces/{workspace}/members", body)
    assert granted.status_code == 201, granted.text
    return Person(operator.server, key.json()["secret"], person.id)


def accepted(server: Server, inviter: Person, workspace: str, email: str, role: str) -> Person:
    """Somebody who was not a member and has accepted an invitation by its link, in the session that begins by it."""
    issued = inviter.ask("POST", f"/workspaces/{workspace}/invitations", {"email": email, "role": role})
    assert issued.status_code == 201, issued.text
    answer = accept(server, token_of(issued.json()["link"]))
    assert answer.status_code == 201, answer.text
    return in_session(server, answer)


def token_of(link: str) -> str:
    """The token behind the `#` of an invitation's link."""
    return link.partition("#invitation=")[2]


def accept(server: Server, token: str, **headers: str) -> httpx.Response:
    """Accept an invitation, from an address that nobody has used."""
    told = {"X-Forwarded-For": _new_address(), **headers}
    return httpx.post(f"{server.url}{PATH}/invitations/accept", json={"token": token}, headers=told)


def in_session(server: Server, answer: httpx.Response) -> Person:
    """Whom an answer has signed in."""
    told = answer.json()
    session = told.get("session", told)
    cookie = answer.headers["set-cookie"].partition(";")[0]
    return Person(server, "", session["me"]["id"], {"Cookie": cookie, "X-CSRF-Token": session["csrf_token"]})


_ADDRESSES: Final = itertools.count(1)


def sign_in(server: Server, key: str, address: str | None = None, **headers: str) -> httpx.Response:
    """Sign in by a key, from an address that nobody has used unless one is given."""
    told = {"X-Forwarded-For": address or _new_address(), **headers}
    return httpx.post(f"{server.url}{PATH}/sessions", json={"key": key}, headers=told)


def _new_address() -> str:
    number = next(_ADDRESSES)
    return f"198.51.{number // 250}.{number % 250 + 1}"


def refusal_of(answer: httpx.Response) -> tuple[int, str, str | None]:
    """The status, the code and the field of an error, whose envelope is whole."""
    error = answer.json()["error"]
    assert set(error) == {"code", "message", "field", "request_id"}
    assert error["message"]
    assert error["request_id"] == answer.headers["x-service-request-id"]
    return answer.status_code, error["code"], error["field"]
