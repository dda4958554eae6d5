"""Every route of the administration API against everybody who may ask: what its record says is what happens (A-01)."""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import httpx
import pytest

from api.admin.conftest import NewPerson
from api.admin.members import PATH, Person, in_days
from api.conftest import NewName
from fairlead.api.admin.api import ROUTES
from fairlead.api.http.route import Access, Route
from fairlead.domain.accounts.rights import Right, Role, has_right
from servers import Server

pytestmark = pytest.mark.req("A-01")

_NOBODY: Final = "00000000-0000-7000-8000-000000000000"
_NAMES: Final = MappingProxyType(
    {
        "member_id": _NOBODY,
        "session_id": _NOBODY,
        "invitation_id": _NOBODY,
        "key_id": _NOBODY,
        "budget_id": _NOBODY,
        "addition_id": _NOBODY,
        "channel_id": _NOBODY,
        "limit_id": _NOBODY,
        "run_id": _NOBODY,
        "job_id": _NOBODY,
        "deployment_id": "nothing-00000000",
        "provider": "nothing",
        "model": "nothing",
        "kind": "node",
        "entry_id": "nothing",
    }
)
_CALLERS: Final = ("nobody", "viewer", "member", "owner", "operator", "key", "foreign key", "foreign owner")


@pytest.fixture
def everybody(
    site: Server, operator: Person, new_person: NewPerson, workspace: str, new_name: NewName
) -> Mapping[str, Person]:
    """Return one caller of each kind, as the workspace of this test sees them."""
    elsewhere = new_name()
    foreign = site.new_workspace(elsewhere)
    roles = {role: new_person(role) for role in ("viewer", "member", "owner")}
    return {
        **roles,
        "operator": operator,
        "key": Person(site, site.cli("keys", "create", workspace, "--json")["key"]),
        "foreign key": Person(site, foreign),
        "foreign owner": new_person("owner", elsewhere),
    }


def test_every_route_of_the_api_names_a_right() -> None:
    """One without a right would be for operators; what needs no credential is signing in and accepting invitations."""
    assert [route.path for route in ROUTES if route.access is Access.MEMBER and route.right is None] == []
    opened = {route.path for route in ROUTES if route.access is not Access.MEMBER}
    assert opened == {
        "/login-methods", "/sessions", "/oidc/start", "/oidc/callback", "/invitations/show", "/invitations/accept",
    }  # fmt: skip


def test_nobody_changes_anything_who_may_only_look() -> None:
    """Viewers and API keys see; what changes something wants more than that."""
    allowed = {Right.PERSON, Right.RUN, Right.MANAGE, Right.OPERATE}
    changing = [route for route in ROUTES if route.method != "GET" and route.access is Access.MEMBER]
    assert [f"{route.method} {route.path}" for route in changing if route.right not in allowed] == []


def test_every_caller_may_do_what_the_route_says_and_nothing_else(
    everybody: Mapping[str, Person], site: Server, workspace: str
) -> None:
    """A role that does not suffice is 403, no credential 401, and a workspace of others is not there: 404."""
    wrong = []
    for route in ROUTES:
        for kind in _CALLERS:
            if _is_destructive(route) and _expected_refusal(route, kind) is None:
                continue  # what these do is in tests of their own
            answer = _ask(route, everybody.get(kind), site, workspace)
            told, expected = _refusal(answer), _expected_refusal(route, kind)
            if told != expected:
                wrong.append((kind, route.method, route.path, told or answer.status_code, "expected", expected))
    assert wrong == []


def test_no_change_is_made_in_a_session_without_its_token(
    everybody: Mapping[str, Person], site: Server, workspace: str
) -> None:
    """A page elsewhere makes a browser send the cookie, and no more than that."""
    owner = everybody["owner"].sign_in()
    del owner.headers["X-CSRF-Token"]
    unsafe = [route for route in ROUTES if route.method != "GET" and route.access is Access.MEMBER]
    answers = {f"{route.method} {route.path}": _ask(route, owner, site, workspace) for route in unsafe}
    assert {name: answer.status_code for name, answer in answers.items() if answer.status_code != 403} == {}
    assert all("X-CSRF-Token" in answer.json()["error"]["message"] for answer in answers.values())


def test_no_route_answers_for_another_workspace(
    everybody: Mapping[str, Person], operator: Person, site: Server, workspace: str
) -> None:
    """An owner elsewhere who knows every name and id is answered as if there were none of it."""
    stranger = everybody["foreign owner"]
    own = stranger.get("/me")["workspaces"][0]["name"]
    ids = _fill(operator, workspace)
    secrets = {workspace, *ids.values()} - {"fake"}
    found = []
    for route in ROUTES:
        if route.access is not Access.MEMBER or route.right is Right.OPERATE:
            continue
        for where in (own, workspace):
            if where == own and not set(re.findall(r"{(\w+)}", route.path)) & set(ids) and route.method != "GET":
                continue  # it changes what is the stranger's own
            answer = _ask(route, stranger, site, where, ids)
            if any(secret in answer.text for secret in secrets if secret not in str(answer.request.url)):
                found.append((route.method, route.path, where, answer.text))
            if answer.is_success and where == workspace and "{workspace}" in route.path:
                found.append((route.method, route.path, where, answer.text))
    assert found == []
    left = _fill(operator, workspace, again=True)
    assert left == ids


def _expected_refusal(route: Route, kind: str) -> int | None:
    """How a route refuses somebody; None where it does not."""
    right = route.right
    match kind:
        case _ if right is None:
            return None
        case "nobody":
            return 401
        case _ if right is Right.KNOWN or kind == "operator":
            return None
        case "key" | "foreign key" if right is Right.PERSON:
            return 403
        case "foreign key" | "foreign owner" if right.is_in_workspace:
            return 404
        case "key" | "viewer" | "member" | "owner" if right.is_in_workspace:
            is_allowed = has_right(Role.CALLER if kind == "key" else Role(kind), right)
        case _:
            is_allowed = right is Right.PERSON
    return None if is_allowed else 403


def _refusal(answer: httpx.Response) -> int | None:
    """How somebody was refused for who they are: 401, 403, or 404 where it is said that there is no workspace."""
    if answer.status_code in (401, 403):
        message = answer.json()["error"]["message"]
        return None if message == "This server executes no workflows." else answer.status_code
    is_unknown = answer.status_code == 404 and "There is no workspace" in answer.json()["error"]["message"]
    return 404 if is_unknown else None


def _is_destructive(route: Route) -> bool:
    """Whether an allowed call would change what other tests of this file stand on."""
    return route.method != "GET" and (
        re.fullmatch(r"/workspaces/{workspace}(/(suspend|resume|restore|webhook-secret/rotate))?", route.path)
        is not None
        and route.body is None
    )


def _ask(
    route: Route,
    person: Person | None,
    site: Server,
    workspace: str,
    names: Mapping[str, str] = MappingProxyType({}),
) -> httpx.Response:
    """Ask for a route, about a workspace and things that are not there, unless they are named; no body is right."""
    names = {**_NAMES, **({"member_id": "me"} if route.right is Right.PERSON else {}), **names, "workspace": workspace}
    path = PATH + route.path.format(**names)
    query = (
        {} if "{workspace}" in route.path or route.right in (Right.OPERATE, Right.PERSON) else {"workspace": workspace}
    )
    content: Any = [] if route.body is not None else None
    headers = {} if person is None else person.headers
    sent = {"X-Forwarded-For": "203.0.113.9", **headers} if route.access is Access.NOTHING else headers
    asker = Person(site, "", headers=sent or {"Accept": "*/*"})
    return asker.call(route.method, path, content, params=query)


def _fill(operator: Person, workspace: str, *, again: bool = False) -> dict[str, str]:
    """Make one thing of each kind in a workspace, or find those again; their ids by the names of parameters."""
    base, guest = f"/workspaces/{workspace}", f"theirs@{workspace}.example"
    if not again:
        assert operator.ask("POST", "/members", {"name": "Theirs", "email": guest}).is_success
    made: dict[str, Callable[[], tuple[str, dict[str, Any]]]] = {
        "key_id": lambda: ("/keys", {"label": "theirs"}),
        "budget_id": lambda: ("/budgets", {"scope": "workspace", "limit": "1000"}),
        "limit_id": lambda: ("/rate-limits", {"scope": "model", "subject": "fake/json-1", "per_minute": 1000}),
        "channel_id": lambda: ("/alert-channels", {"kind": "webhook", "target": "https://93.184.216.34/x"}),
        "deployment_id": lambda: ("/deployments", {"name": "theirs", "packs": []}),
        "member_id": lambda: ("/members", {"member": guest, "role": "viewer", "unproven": True}),
        "invitation_id": lambda: ("/invitations", {"email": "theirs@example.com", "role": "viewer"}),
    }  # fmt: skip
    ids = {}
    for name, describe in made.items():
        path, body = describe()
        if again:
            items = operator.get(base + path)["items"]
            one = next(one for one in items if one.get("email") == guest) if name == "member_id" else items[0]
        else:
            answer = operator.ask("POST", base + path, body)
            assert answer.is_success, answer.text
            told = answer.json()
            one = told["key"] if name == "key_id" else told
        ids[name] = one["id"]
    if not again:
        addition = {"amount": "1", "until": in_days(2), "reason": "theirs"}
        added = operator.ask("POST", f"{base}/budgets/{ids['budget_id']}/additions", addition)
        assert added.is_success, added.text
        stored = operator.ask("PUT", f"{base}/provider-keys/fake", {"key": "sk-of-theirs"})
        assert stored.is_success, stored.text
    assert operator.get(f"{base}/provider-keys")["items"][0]["provider"] == "fake"
    (added,) = operator.get(f"{base}/budgets")["items"][0]["additions"]
    return {**ids, "addition_id": added["id"], "provider": "fake"}
