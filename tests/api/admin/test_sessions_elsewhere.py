"""A session is a credential of the router, too: for the workspace that a call names, as far as the role goes."""

import pytest

from api.admin.conftest import NewPerson
from api.admin.members import Person
from fake_partner import FakePartner, reply
from servers import Server, wait_until

_RUN = "/v2/models/fake/json-1"
_HEADER = "X-Fairlead-Workspace"


@pytest.fixture(autouse=True)
def _answering(partner: FakePartner) -> None:
    """Have the partner answer."""
    partner.script("/json", reply(200, b'{"made":true}'))


@pytest.mark.req("A-01")
@pytest.mark.parametrize(("role", "status"), [("owner", 200), ("member", 200), ("viewer", 403)])
def test_member_runs_models_in_a_session(
    site: Server, new_person: NewPerson, workspace: str, role: str, status: int
) -> None:
    """A run is paid for by the workspace that is named; a viewer only looks."""
    session = new_person(role).sign_in()
    assert session.call("POST", _RUN, {"prompt": "x"}, {_HEADER: workspace}).status_code == status
    assert session.call("GET", "/v2/models", headers={_HEADER: workspace}).status_code == 200
    assert session.call("GET", f"/v2/models?workspace={workspace}").status_code == 200
    paid = [row for row in site.ledger(workspace) if row["kind"] == "post"]
    assert bool(paid) is (status == 200)


def test_session_names_its_workspace(new_person: NewPerson) -> None:
    """Without a workspace a call is not understood, and one without a role there is refused like an unknown one."""
    session = new_person("owner").sign_in()
    assert session.call("GET", "/v2/models").status_code == 400
    for named in ("default", "nothing-of-the-kind", "x" * 100):
        answer = session.call("GET", "/v2/models", headers={_HEADER: named})
        assert answer.status_code in (400, 403)


def test_run_needs_the_token_of_the_session(new_person: NewPerson, workspace: str, site: Server) -> None:
    """A page elsewhere that makes a browser send the cookie makes nobody pay."""
    session = new_person().sign_in()
    del session.headers["X-CSRF-Token"]
    assert session.call("POST", _RUN, {"prompt": "x"}, {_HEADER: workspace}).status_code == 403
    foreign = {_HEADER: workspace, "Sec-Fetch-Site": "cross-site"}
    assert session.call("GET", "/v2/models", headers=foreign).status_code == 403
    assert site.ledger(workspace) == []


@pytest.mark.parametrize(("role", "status"), [("owner", 200), ("member", 403), ("viewer", 403)])
def test_only_owners_see_and_change_secrets_of_a_workspace(
    new_person: NewPerson, workspace: str, role: str, status: int
) -> None:
    """What an API key of the workspace may do, a member's session may not: a role is less than a key."""
    session = new_person(role).sign_in()
    named = {_HEADER: workspace}
    assert session.call("GET", "/v2/webhook-secret", headers=named).status_code == status
    assert session.call("POST", "/v2/webhook-secret/rotate", {}, named).status_code == status
    stored = session.call("PUT", "/v2/provider-keys/fake", {"key": "a-key-of-ours"}, named)
    assert stored.status_code == (201 if status == 200 else 403)
    assert session.call("GET", "/v2/provider-keys", headers=named).status_code == 200


def test_operator_runs_in_every_workspace(operator: Person, workspace: str) -> None:
    """Without a role there an operator counts as an owner."""
    session = operator.sign_in()
    assert session.call("POST", _RUN, {"prompt": "x"}, {_HEADER: workspace}).status_code == 200


@pytest.mark.req("A-01")
def test_lost_role_is_noticed_within_a_second(operator: Person, new_person: NewPerson, workspace: str) -> None:
    """A member who is removed, and a key that is revoked under an open page, open nothing a moment later."""
    removed, revoked = new_person("owner"), new_person("owner")
    sessions = [removed.sign_in(), revoked.sign_in()]
    named = {_HEADER: workspace}
    assert [one.call("GET", "/v2/models", headers=named).status_code for one in sessions] == [200, 200]
    assert operator.ask("DELETE", f"/workspaces/{workspace}/members/{removed.id}").status_code == 204
    key = operator.get(f"/members/{revoked.id}")["keys"][0]["id"]
    assert operator.ask("DELETE", f"/members/{revoked.id}/keys/{key}").status_code == 204
    wait_until(
        lambda: [one.call("GET", "/v2/models", headers=named).status_code for one in sessions] == [403, 401],
        "both are out",
    )


def test_personal_key_is_no_key_of_the_router(operator: Person, workspace: str) -> None:
    """It has no workspace that could pay."""
    assert operator.call("POST", _RUN, {"prompt": "x"}, {_HEADER: workspace}).status_code == 401
