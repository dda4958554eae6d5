"""Every change over the administration API is in the audit log: once, by whom, from where, without a secret."""

import asyncio
import re
from collections.abc import Callable, Iterator
from types import MappingProxyType
from typing import Any, Final, TypeAlias, TypeVar

import httpx
import pytest
from sqlalchemy import Connection, select, text

from api.admin.members import Person, add_member, first_operator, in_days, refusal_of, sign_in
from api.conftest import NewName
from api.queues import Client
from databases import opened_database
from fairlead.api.admin.api import ROUTES
from fairlead.api.http.route import Route
from fairlead.storage.db.tables import metadata
from fake_partner import FakePartner, reply
from servers import Server

pytestmark = pytest.mark.req("A-01")

T = TypeVar("T")

_LOG: Final = "audit_entries"
_MOVING: Final = frozenset({_LOG, "servers", "rate_windows"})
_ADDRESS: Final = "203.0.113.77"
_FROM: Final = MappingProxyType({"X-Forwarded-For": _ADDRESS})
_SECRET: Final = "sk-that-is-never-told-0123456789"
_ELSEWHERE: Final = frozenset(
    {"cancel_job", "accept_invitation", "show_invitation", "refund_run", "refund_runs", "rerate_run", "rerate_runs"}
)
"""Needs a server that executes workflows (`tests/api/cloud/test_administered_jobs.py`), is done by who is no operator
(`test_invitations.py`), changes nothing, or needs runs that were charged (`test_refunds.py`, `test_rerates.py`)."""


class _Act:
    """Somebody who changes one thing after the other in a workspace, and what is needed for each."""

    def __init__(
        self, operator: Person, site: Server, workspace: str, new_name: NewName, before: Callable[[], None]
    ) -> None:
        self.operator = operator
        self.site = site
        self.workspace = workspace
        self.new_name = new_name
        self.before = before
        """Is called when all is there that a change needs, right before it."""
        self.base = f"/workspaces/{workspace}"

    def ask(self, method: str, path: str, body: object = None) -> httpx.Response:
        """Ask from an address that the log must have."""
        self.before()
        return self.operator.ask(method, path, body, _FROM)

    def sign_in(self) -> httpx.Response:
        """Sign in from that address."""
        self.before()
        return sign_in(self.site, self.operator.key, _ADDRESS)

    def sign_out(self) -> httpx.Response:
        """End a session from that address."""
        session = self.operator.sign_in()
        self.before()
        return session.ask("DELETE", "/sessions/current", headers=_FROM)

    def make(self, path: str, body: object) -> dict[str, Any]:
        """Make something that a change is then made to."""
        answer = self.operator.ask("POST", path, body)
        assert answer.is_success, answer.text
        told: dict[str, Any] = answer.json()
        return told

    def member(self) -> str:
        """The id of a member without roles."""
        name = self.new_name()
        id_: str = self.make("/members", {"name": name, "email": f"{name}@example.com"})["id"]
        return id_

    def guest(self) -> str:
        """The id of a viewer of the workspace."""
        name = self.new_name()
        return add_member(self.operator, self.workspace, "viewer", name).id

    def key(self) -> str:
        """The id of an API key."""
        id_: str = self.make(f"{self.base}/keys", {"label": "a"})["key"]["id"]
        return id_

    def one(self, path: str, body: object) -> str:
        """The path of something that was just made below the workspace's."""
        return f"{self.base}{path}/{self.make(self.base + path, body)['id']}"


_Change: TypeAlias = Callable[[_Act], httpx.Response]
_BUDGET: Final = {"scope": "workspace", "limit": "5"}
_ADDITION: Final = {"amount": "1", "until": in_days(2), "reason": "fair"}
_LIMIT: Final = {"scope": "model", "subject": "fake/json-1", "per_minute": 9}
_CHANNEL: Final = {"kind": "webhook", "target": f"https://93.184.216.34/{_SECRET}/x"}
_ROLE: Final = {"role": "member", "unproven": True}
_INVITATION: Final = {"email": "guest@example.com", "role": "viewer"}
_DEPLOYMENT: Final = {"name": "a", "packs": []}
_BODY: Final = {"name": "n", "email": "x@example.com"}
_CHANGES: Final = MappingProxyType[str, _Change](
    {
        "sign_in": lambda act: act.sign_in(),
        "end_session": lambda act: act.sign_out(),
        "end_member_sessions": lambda act: act.ask("DELETE", f"/members/{act.member()}/sessions"),
        "create_member": lambda act: act.ask("POST", "/members", {**_BODY, "email": f"{act.new_name()}@example.com"}),
        "change_member": lambda act: act.ask("PATCH", f"/members/{act.member()}", {"name": "Another"}),
        "delete_member": lambda act: act.ask("DELETE", f"/members/{act.member()}"),
        "create_personal_key": lambda act: act.ask("POST", f"/members/{act.member()}/keys", {"label": "a"}),
        "rotate_personal_key": lambda act: _rotate(act, act.member()),
        "revoke_personal_key": lambda act: _revoke(act, act.member()),
        "invite": lambda act: act.ask("POST", f"{act.base}/invitations", _INVITATION),
        "withdraw_invitation": lambda act: act.ask("DELETE", act.one("/invitations", _INVITATION)),
        "grant_role": lambda act: act.ask("POST", f"{act.base}/members", {**_ROLE, "member": act.member()}),
        "change_role": lambda act: act.ask("PATCH", f"{act.base}/members/{act.guest()}", _ROLE),
        "remove_from_workspace": lambda act: act.ask("DELETE", f"{act.base}/members/{act.guest()}"),
        "create_workspace": lambda act: act.ask("POST", "/workspaces", _workspace(act)),
        "change_workspace": lambda act: act.ask("PATCH", act.base, {"cap": "7", "limits": {"storage_files": 3}}),
        "credit_workspace": lambda act: act.ask("POST", f"{act.base}/credit", {"amount": "1"}),
        "suspend_workspace": lambda act: act.ask("POST", f"{act.base}/suspend"),
        "resume_workspace": lambda act: act.ask("POST", f"{act.base}/resume"),
        "delete_workspace": lambda act: act.ask("DELETE", act.base),
        "restore_workspace": lambda act: act.ask("POST", f"{act.base}/restore"),
        "create_key": lambda act: act.ask("POST", f"{act.base}/keys", {"label": "a", "budget": "5"}),
        "change_key": lambda act: act.ask(
            "PATCH", f"{act.base}/keys/{act.key()}", {"label": "b", "team": "render", "budget": "6"}
        ),
        "rotate_key": lambda act: act.ask("POST", f"{act.base}/keys/{act.key()}/rotate", {}),
        "revoke_key": lambda act: act.ask("DELETE", f"{act.base}/keys/{act.key()}"),
        "put_provider_key": lambda act: act.ask("PUT", f"{act.base}/provider-keys/fake", {"key": _SECRET}),
        "delete_provider_key": lambda act: act.ask("DELETE", _provider_key(act)),
        "rotate_webhook_secret": lambda act: act.ask("POST", f"{act.base}/webhook-secret/rotate"),
        "ban_entry": lambda act: act.ask("PUT", f"/registry-bans/publisher/{_publish(act)}"),
        "unban_entry": lambda act: act.ask("DELETE", f"/registry-bans/publisher/{_publish(act, banned=True)}"),
        "create_budget": lambda act: act.ask("POST", f"{act.base}/budgets", {**_BUDGET, "period": "day"}),
        "change_budget": lambda act: act.ask(
            "PATCH", act.one("/budgets", {**_BUDGET, "period": "total"}), {"limit": "6", "thresholds": [90]}
        ),
        "add_to_budget": lambda act: act.ask("POST", f"{_budget(act, 'week')}/additions", _ADDITION),
        "withdraw_addition": lambda act: act.ask("DELETE", _added(act)),
        "delete_budget": lambda act: act.ask("DELETE", act.one("/budgets", {**_BUDGET, "period": "month"})),
        "create_channel": lambda act: act.ask("POST", f"{act.base}/alert-channels", _CHANNEL),
        "delete_channel": lambda act: act.ask("DELETE", act.one("/alert-channels", _CHANNEL)),
        "test_channel": lambda act: act.ask("POST", f"{act.one('/alert-channels', _CHANNEL)}/test"),
        "set_rate_limit": lambda act: act.ask("POST", f"{act.base}/rate-limits", _LIMIT),
        "delete_rate_limit": lambda act: act.ask("DELETE", act.one("/rate-limits", _LIMIT)),
        "cancel_run": lambda act: act.ask("POST", f"/runs/{_waiting(act)}/cancel"),
        "create_deployment": lambda act: act.ask("POST", f"{act.base}/deployments", _DEPLOYMENT),
        "change_deployment": lambda act: act.ask("PATCH", act.one("/deployments", _DEPLOYMENT), {"pool": "gpu"}),
        "publish_release": lambda act: act.ask("POST", f"{act.one('/deployments', _DEPLOYMENT)}/releases", {}),
        "stop_deployment": lambda act: act.ask("POST", f"{act.one('/deployments', _DEPLOYMENT)}/stop"),
        "start_deployment": lambda act: act.ask("POST", f"{act.one('/deployments', _DEPLOYMENT)}/start"),
        "delete_deployment": lambda act: act.ask("DELETE", act.one("/deployments", _DEPLOYMENT)),
        "end_cooldowns": lambda act: act.ask("POST", "/providers/fake/end-cooldowns"),
        "reload_catalog": lambda act: act.ask("POST", "/catalog/reload"),
        "begin_file_audit": lambda act: act.ask("POST", "/stored-files/audit", {}),
        "rotate_secret": lambda act: act.ask("POST", "/secrets/rotate", {"is_only_prepared": True}),
        "reseal_secrets": lambda act: act.ask("POST", "/secrets/reseal"),
        "finish_secrets": lambda act: act.ask("POST", "/secrets/finish", {"now": True}),
    }
)
"""A change by each route, that succeeds; in this order, as some make what others change."""


def _changing() -> Iterator[Route]:
    return (route for route in ROUTES if route.method != "GET")


def test_every_changing_route_is_tried_here() -> None:
    """A new one must be added."""
    assert {route.name for route in _changing()} == {*_CHANGES, *_ELSEWHERE}


def test_every_change_is_one_entry_without_a_secret(
    operator: Person, site: Server, workspace: str, new_name: NewName, partner: FakePartner
) -> None:
    """When, who, from where, what and to what; nothing that was shown once, and no secret that was sent."""
    partner.script("/json", partner.hold(reply(200, b"{}")))
    newest = [0]

    def note() -> None:
        newest[0] = operator.get("/audit-log", limit="1")["items"][0]["id"]

    act = _Act(operator, site, workspace, new_name, note)
    wrong: list[tuple[object, ...]] = []
    for name, change in _CHANGES.items():
        answer = change(act)
        assert answer.is_success, (name, answer.text)
        new = [one for one in operator.get("/audit-log", limit="5")["items"] if one["id"] > newest[0]]
        if [one["actor"]["id"] for one in new] != [operator.id] or new[0]["address"] != _ADDRESS:
            wrong.append((name, new))
        secrets = [_SECRET, *re.findall(r"fl[kp]_\w{20,}|(?<=#invitation=)\w+", answer.text)]
        if any(secret in str(new) for secret in secrets):
            wrong.append((name, "a secret is in", new))
    assert wrong == []


def test_change_without_its_entry_is_not_made(broken_site: Server, new_name: NewName, partner: FakePartner) -> None:
    """Where the log takes no entry, nothing changes: not in the database, in a file, or in the server's memory."""
    partner.script("/json", partner.hold(reply(200, b"{}")))
    operator, books, workspace = first_operator(broken_site), _Books(broken_site), new_name()
    assert operator.ask("POST", "/workspaces", {"name": workspace}).is_success
    wrong: list[tuple[str, int]] = []

    def show_state() -> tuple[object, ...]:
        last_audit = operator.ask("GET", "/stored-files/audit").json()
        return operator.get("/catalog"), operator.get("/secrets"), last_audit.get("started_at"), books.rows()

    for name, change in _CHANGES.items():
        before: list[tuple[object, ...]] = []

        def lock_log(before: list[tuple[object, ...]] = before) -> None:
            before.append(show_state())
            books.lock_log()

        try:
            answer = change(_Act(operator, broken_site, workspace, new_name, lock_log))
        finally:
            books.unlock_log()
        if answer.status_code < 500 or before != [show_state()]:
            wrong.append((name, answer.status_code))
    assert wrong == []


def test_audit_log_is_read_by_time(operator: Person, workspace: str) -> None:
    """From a time on, and before one; a day that is not a day is refused by its name."""
    made = operator.ask("POST", f"/workspaces/{workspace}/credit", {"amount": "1"})
    assert made.is_success
    (entry,) = operator.get("/audit-log", workspace=workspace, action="workspace.credited")["items"]
    for query, number in (({"from": entry["at"]}, 1), ({"to": entry["at"]}, 0), ({"from": "2999-01-01"}, 0)):
        wanted = {"workspace": workspace, "action": "workspace.credited", **query}
        assert len(operator.get("/audit-log", **wanted)["items"]) == number, query
    assert refusal_of(operator.ask("GET", "/audit-log", params={"from": "yesterday"})) == (422, "invalid_input", "from")


class _Books:
    """The database of a server, whose audit log can be made to take no entry."""

    def __init__(self, site: Server) -> None:
        self._url = site.database or f"sqlite:///{site.data / 'fairlead.db'}"

    def lock_log(self) -> None:
        """Have every entry fail."""
        self._do(lambda c: c.execute(text(f"ALTER TABLE {_LOG} RENAME TO {_LOG}_away")))

    def unlock_log(self) -> None:
        """Have entries written again."""
        self._do(lambda c: c.execute(text(f"ALTER TABLE {_LOG}_away RENAME TO {_LOG}")))

    def rows(self) -> dict[str, list[tuple[object, ...]]]:
        """What is in every table that only changes of people change."""
        wanted = [table for table in metadata.sorted_tables if table.name not in _MOVING]
        return self._do(lambda c: {one.name: sorted(map(tuple, c.execute(select(one))), key=repr) for one in wanted})

    def _do(self, work: Callable[[Connection], T]) -> T:
        async def do() -> T:
            async with opened_database(self._url) as database:
                return await database.write(work)

        return asyncio.run(do())


def _provider_key(act: _Act) -> str:
    path = f"{act.base}/provider-keys/fake"
    assert act.operator.ask("PUT", path, {"key": _SECRET}).is_success
    return path


def _budget(act: _Act, period: str) -> str:
    return act.one("/budgets", {**_BUDGET, "scope": "team", "subject": "render", "period": period})


def _added(act: _Act) -> str:
    path = f"{_budget(act, 'day')}/additions"
    return f"{path}/{act.make(path, _ADDITION)['additions'][0]['id']}"


def _rotate(act: _Act, member_id: str) -> httpx.Response:
    key = act.make(f"/members/{member_id}/keys", {})
    return act.ask("POST", f"/members/{member_id}/keys/{key['id']}/rotate", {})


def _revoke(act: _Act, member_id: str) -> httpx.Response:
    key = act.make(f"/members/{member_id}/keys", {})
    return act.ask("DELETE", f"/members/{member_id}/keys/{key['id']}")


def _workspace(act: _Act) -> dict[str, object]:
    return {"name": act.new_name(), "limits": {"storage_files": 3}}


def _publish(act: _Act, *, banned: bool = False) -> str:
    key, id_ = act.make(f"{act.base}/keys", {})["secret"], f"pub-{act.new_name()}"
    made = httpx.post(f"{act.site.url}/publishers", json={"id": id_, "name": id_}, headers={"X-API-Key": key})
    assert made.status_code == 201, made.text
    if banned:
        act.operator.ask("PUT", f"/registry-bans/publisher/{id_}")
    return id_


def _waiting(act: _Act) -> str:
    """A queued run that waits for the one place of its workspace, which another one has."""
    name = act.new_name()
    act.make("/workspaces", {"name": name, "limits": {"in_flight": 1}})
    client = Client(act.site, name, act.make(f"/workspaces/{name}/keys", {})["secret"])
    client.queue()
    return client.queue()
