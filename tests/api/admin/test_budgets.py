"""Budgets, alert channels and alerts over HTTP: who may, what is answered, and what it does (A-03)."""

import datetime

import pytest

from api.admin.conftest import NewPerson
from api.admin.members import Person, in_days, refusal_of

pytestmark = pytest.mark.req("A-03")


@pytest.fixture
def owner(new_person: NewPerson) -> Person:
    """Return an owner of the workspace of this test."""
    return new_person("owner")


def test_owner_makes_changes_and_deletes_a_budget(owner: Person, workspace: str, operator: Person) -> None:
    """A budget is answered with its figures in dollars, and each change is in the audit log."""
    path = f"/workspaces/{workspace}/budgets"
    made = owner.ask("POST", path, {"scope": "team", "subject": "render", "limit": "12.5", "period": "day"})
    assert made.status_code == 201
    budget = made.json()
    assert {name: budget[name] for name in ("scope", "subject", "period", "limit", "spent", "held")} == {
        "scope": "team", "subject": "render", "period": "day", "limit": "12.5", "spent": "0", "held": "0",
    }  # fmt: skip
    assert (budget["thresholds"], budget["is_enforced"]) == ([50, 80, 100], True)
    again = owner.ask("POST", path, {"scope": "team", "subject": "render", "limit": "1", "period": "day"})
    assert refusal_of(again) == (409, "conflict", "period")
    changed = owner.ask("PATCH", f"{path}/{budget['id']}", {"limit": "20", "thresholds": [90], "is_enforced": False})
    assert (changed.json()["limit"], changed.json()["thresholds"], changed.json()["is_enforced"]) == ("20", [90], False)
    assert owner.get(path)["items"] == [changed.json()]
    assert owner.ask("DELETE", f"{path}/{budget['id']}").status_code == 204
    assert refusal_of(owner.ask("DELETE", f"{path}/{budget['id']}"))[:2] == (404, "not_found")
    assert owner.get(path)["items"] == []
    acts = operator.get("/audit-log", workspace=workspace)["items"]
    assert [one["action"] for one in acts][:3] == ["budget.deleted", "budget.changed", "budget.created"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"scope": "team", "limit": "1"}, "subject"),
        ({"scope": "workspace", "subject": "x", "limit": "1"}, "subject"),
        ({"scope": "model", "subject": "nothing", "limit": "1"}, "subject"),
        ({"scope": "key", "subject": "nothing", "limit": "1"}, "subject"),
        ({"scope": "label", "subject": "client", "limit": "1"}, "subject"),
        ({"scope": "label", "subject": "=acme", "limit": "1"}, "subject"),
        ({"scope": "label", "subject": "client=a\nb", "limit": "1"}, "subject"),
        ({"scope": "label", "subject": f"client={'x' * 187}", "limit": "1"}, "subject"),
        ({"scope": "workspace", "limit": "-1"}, "limit"),
        ({"scope": "workspace", "limit": "a lot"}, "limit"),
        ({"scope": "workspace", "limit": "1", "period": "year"}, "period"),
        ({"scope": "workspace", "limit": "1", "thresholds": [0]}, "thresholds[0]"),
        ({"scope": "galaxy", "limit": "1"}, "scope"),
        ({"limit": "1"}, "scope"),
        ({"scope": "workspace", "limit": "1", "time_zone": "Europe/Wien"}, "time_zone"),
        ({"scope": "workspace", "limit": "1", "reset_time": "24:00"}, "reset_time"),
        ({"scope": "workspace", "limit": "1", "reset_weekday": "monday"}, "reset_weekday"),
        ({"scope": "workspace", "limit": "1", "period": "week", "reset_weekday": "someday"}, "reset_weekday"),
        ({"scope": "workspace", "limit": "1", "period": "total", "time_zone": "UTC"}, "period"),
    ],
)
def test_bad_field_of_a_budget_is_named(owner: Person, workspace: str, body: dict[str, object], field: str) -> None:
    """The field that is wrong is in the answer, and nothing is made."""
    assert refusal_of(owner.ask("POST", f"/workspaces/{workspace}/budgets", body)) == (422, "invalid_input", field)


@pytest.mark.req("M-07")
def test_owner_says_when_a_period_begins(owner: Person, workspace: str) -> None:
    """By the clocks of a zone; what is of no use for another period is forgotten."""
    path = f"/workspaces/{workspace}/budgets"
    body = {"scope": "workspace", "limit": "1", "period": "week", "time_zone": "Asia/Kolkata", "reset_time": "06:00"}
    budget = owner.ask("POST", path, {**body, "reset_weekday": "friday"}).json()
    names = "time_zone", "reset_time", "reset_weekday"
    assert [budget[name] for name in names] == ["Asia/Kolkata", "06:00", "friday"]
    assert datetime.date.fromisoformat(budget["since"]).strftime("%A") == "Friday"
    assert budget["resets_at"].endswith("T00:30:00.000Z")
    changed = owner.ask("PATCH", f"{path}/{budget['id']}", {"period": "day", "reset_time": "00:30"}).json()
    assert [changed[name] for name in names] == ["Asia/Kolkata", "00:30", None]
    refused = owner.ask("PATCH", f"{path}/{budget['id']}", {"reset_weekday": "monday"})
    assert refusal_of(refused) == (422, "invalid_input", "reset_weekday")
    total = owner.ask("PATCH", f"{path}/{budget['id']}", {"period": "total"}).json()
    assert [total[name] for name in (*names, "resets_at")] == ["UTC", "00:00", None, None]


@pytest.mark.req("M-07")
def test_owner_sets_a_budget_of_a_label(owner: Person, workspace: str) -> None:
    """The subject is the label as it is searched for; the longest one fits."""
    path = f"/workspaces/{workspace}/budgets"
    for subject in ("client=acme=corp", f"client={'é' * 128}"):
        made = owner.ask("POST", path, {"scope": "label", "subject": subject, "limit": "1"})
        assert (made.status_code, made.json()["subject"]) == (201, subject)


def test_owner_adds_to_a_budget_until_a_day(owner: Person, workspace: str, operator: Person) -> None:
    """What is added is shown with who, why and its end, with the limit in force, and is in the audit log."""
    base = f"/workspaces/{workspace}/budgets"
    path = f"{base}/{owner.ask('POST', base, {'scope': 'workspace', 'limit': '10'}).json()['id']}"
    body = {"amount": "50", "until": in_days(2), "reason": "the fair"}
    added = owner.ask("POST", f"{path}/additions", body)
    assert added.status_code == 201
    budget = added.json()
    (addition,) = budget["additions"]
    assert (budget["limit"], budget["limit_in_force"]) == ("10", "60")
    assert (addition["amount"], addition["reason"]) == ("50", "the fair")
    assert addition["by"] == owner.get("/me")["name"]
    assert addition["until"] == f"{in_days(3)}T00:00:00.000Z"
    assert owner.get(base)["items"] == [budget]
    assert owner.ask("PATCH", path, {"limit": "20"}).json()["limit_in_force"] == "70"
    assert owner.ask("DELETE", f"{path}/additions/{addition['id']}").status_code == 204
    assert refusal_of(owner.ask("DELETE", f"{path}/additions/{addition['id']}"))[:2] == (404, "not_found")
    assert owner.get(base)["items"][0]["additions"] == []
    acts = operator.get("/audit-log", workspace=workspace)["items"]
    assert [one["action"] for one in acts][:3:2] == ["budget.addition_withdrawn", "budget.addition_created"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("amount", "0"),
        ("amount", "-1"),
        ("amount", "a lot"),
        ("until", "2026-01-01"),
        ("until", "9999-12-31"),
        ("until", "Christmas"),
        ("reason", ""),
        ("reason", "  "),
        ("reason", "a\nb"),
    ],
)
def test_bad_field_of_an_addition_is_named(owner: Person, workspace: str, field: str, value: str) -> None:
    """An addition is more than nothing, ends later than now and within a year, and says why."""
    base = f"/workspaces/{workspace}/budgets"
    path = f"{base}/{owner.ask('POST', base, {'scope': 'workspace', 'limit': '10'}).json()['id']}/additions"
    body = {"amount": "50", "until": in_days(2), "reason": "the fair", field: value}
    assert refusal_of(owner.ask("POST", path, body)) == (422, "invalid_input", field)


def test_budgets_are_listed_in_pages(owner: Person, workspace: str) -> None:
    """The newest first, each once."""
    path = f"/workspaces/{workspace}/budgets"
    for number in range(5):
        body = {"scope": "team", "subject": f"team {number}", "limit": "1"}
        assert owner.ask("POST", path, body).status_code == 201
    first = owner.get(path, limit="3")
    second = owner.get(path, limit="3", cursor=first["next_cursor"])
    assert [one["subject"] for one in (*first["items"], *second["items"])] == [f"team {n}" for n in (4, 3, 2, 1, 0)]
    assert second["next_cursor"] is None
    assert refusal_of(owner.ask("GET", f"{path}?cursor=x"))[:2] == (400, "invalid_request")


def test_roles_decide_who_sees_and_sets_budgets(new_person: NewPerson, workspace: str, operator: Person) -> None:
    """Viewers and members read; owners and operators change; strangers see nothing of the workspace."""
    path = f"/workspaces/{workspace}/budgets"
    body = {"scope": "workspace", "limit": "1"}
    for role in ("viewer", "member"):
        person = new_person(role)
        assert person.get(path)["items"] == []
        assert refusal_of(person.ask("POST", path, body))[:2] == (403, "forbidden")
        assert refusal_of(person.ask("POST", f"/workspaces/{workspace}/alert-channels", {}))[:2] == (403, "forbidden")
    stranger = new_person("owner", "default")
    assert refusal_of(stranger.ask("GET", path))[:2] == (404, "not_found")
    assert operator.ask("POST", path, body).status_code == 201


def test_channel_is_made_tried_and_deleted(owner: Person, workspace: str) -> None:
    """Its address is not shown again; a test is listed with the alerts."""
    path = f"/workspaces/{workspace}/alert-channels"
    made = owner.ask("POST", path, {"kind": "slack", "target": "https://127.0.0.1/hook"})
    assert refusal_of(made) == (422, "invalid_input", "target")
    assert refusal_of(owner.ask("POST", path, {"kind": "email", "target": "a@b.de"})) == (422, "invalid_input", "kind")
    made = owner.ask("POST", path, {"kind": "slack", "target": "https://hooks.example.invalid/T0/secretword"})
    assert made.status_code == 201
    channel = made.json()
    assert channel["target"] == "https://hooks.example.invalid/…word"
    assert owner.get(path)["items"] == [channel]
    assert owner.ask("POST", f"{path}/{channel['id']}/test").status_code == 202
    (alert,) = owner.get(f"/workspaces/{workspace}/alerts")["items"]
    assert (alert["kind"], [one["channel"] for one in alert["delivered"]]) == ("test", [channel["id"]])
    assert owner.ask("DELETE", f"{path}/{channel['id']}").status_code == 204
    for method, tail in (("DELETE", ""), ("POST", "/test")):
        assert refusal_of(owner.ask(method, f"{path}/{channel['id']}{tail}"))[:2] == (404, "not_found")
