"""Who becomes somebody else, or keeps what was never to last: invitations, stolen sessions, and narrow keys."""

import uuid
from typing import Any, Final

import httpx

from api.admin.members import Person, accept, first_operator, in_session, sign_in, token_of
from attacks.world import Attack, Verdict, World

_CONFLICT: Final = httpx.codes.CONFLICT
_UNAUTHORIZED: Final = httpx.codes.UNAUTHORIZED
_FORBIDDEN: Final = httpx.codes.FORBIDDEN


def become_another_person(world: World) -> Verdict:
    """Invite a chief who is no member yet into one's own workspace, accept in her place, and wait for her power."""
    operator, name = first_operator(world.server), uuid.uuid4().hex
    mallory, chief = _owner(operator, name, "mallory"), f"chief-{name}@example.com"
    issued = mallory.ask("POST", f"/workspaces/{name}/invitations", {"email": chief, "role": "owner"})
    impostor = in_session(world.server, accept(world.server, token_of(issued.json()["link"])))
    granted = [
        operator.ask("POST", "/workspaces/bob/members", {"member": chief, "role": "owner"}).status_code,
        operator.ask("PATCH", f"/members/{impostor.id}", {"is_operator": True}).status_code,
    ]
    seen = [impostor.ask("GET", path).status_code for path in ("/members", "/workspaces/bob/members")]
    held = granted == [_CONFLICT, _CONFLICT] and seen == [_FORBIDDEN, httpx.codes.NOT_FOUND]
    shows_key = "flp_" in issued.text
    return Verdict(held and not shows_key, f"power without a word {granted}, sees {seen}, a key is shown: {shows_key}")


def outlive_a_session(world: World) -> Verdict:
    """With a stolen session make whatever lasts: a key, a key by that key, a link; the member signs out everywhere."""
    operator, name = first_operator(world.server), uuid.uuid4().hex
    victim = _owner(operator, name, "victim")
    stolen = victim.sign_in()
    first = Person(world.server, _secret(stolen.ask("POST", "/members/me/keys", {})))
    second = Person(world.server, _secret(first.ask("POST", "/members/me/keys", {})))
    body = {"email": f"friend-{name}@example.com", "role": "owner"}
    link = second.ask("POST", f"/workspaces/{name}/invitations", body).json()["link"]
    ends = [key["expires_at"] is not None for key in victim.get("/members/me")["keys"]]
    victim.sign_in().ask("DELETE", "/members/me/sessions")
    left = [one.ask("GET", "/me").status_code for one in (stolen, first, second)]
    accepted = accept(world.server, token_of(link)).status_code
    held = left == [_UNAUTHORIZED] * 3 and accepted == httpx.codes.NOT_FOUND and ends == [False, True, True]
    return Verdict(held, f"session and keys {left}, the link {accepted}, keys with an end {ends}")


def widen_a_key(world: World) -> Verdict:
    """With a key that may only see, for one workspace: make another, sign in, rotate, and look elsewhere."""
    operator, name = first_operator(world.server), uuid.uuid4().hex
    owner = _owner(operator, name, "owner")
    terms = {"scopes": ["see"], "workspace": name}
    made = owner.ask("POST", "/members/me/keys", terms).json()
    narrow = Person(world.server, made["secret"])
    answers = [
        narrow.ask("POST", "/members/me/keys", {}).status_code,
        narrow.ask("POST", f"/members/me/keys/{made['id']}/rotate", {}).status_code,
        sign_in(world.server, narrow.key).status_code,
        narrow.ask("GET", f"/workspaces/{name}/keys").status_code,
        narrow.ask("DELETE", "/members/me/sessions").status_code,
    ]
    elsewhere = narrow.ask("GET", "/usage", params={"workspace": "bob"}).status_code
    held = set(answers) == {_FORBIDDEN} and elsewhere == httpx.codes.NOT_FOUND
    return Verdict(held, f"answered {answers}, elsewhere {elsewhere}")


def _owner(operator: Person, workspace: str, name: str) -> Person:
    """Somebody new who owns a new workspace."""
    made: dict[str, Any] = operator.ask(
        "POST", "/members", {"name": name, "email": f"{name}-{workspace}@example.com"}
    ).json()
    key = operator.ask("POST", f"/members/{made['id']}/keys", {}).json()["secret"]
    operator.ask("POST", "/workspaces", {"name": workspace})
    body = {"member": made["id"], "role": "owner", "unproven": True}
    operator.ask("POST", f"/workspaces/{workspace}/members", body)
    return Person(operator.server, key, made["id"])


def _secret(answer: httpx.Response) -> str:
    secret: str = answer.json()["secret"]
    return secret


ATTACKS: Final = (
    Attack("become another person", "an invitation that its inviter accepts", become_another_person),
    Attack("outlive a session", "keys and links that a stolen session makes", outlive_a_session),
    Attack("widen a key", "a key for one workspace that may only see", widen_a_key),
)
