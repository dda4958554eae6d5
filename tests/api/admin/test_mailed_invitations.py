"""Invitations of a server with a mail server: the letter alone has the link, and leads to the installation (T-04)."""

import re
from collections.abc import Iterator
from typing import Final

import pytest
from aiosmtpd.controller import Controller

from api.admin.members import Person, accept, first_operator, in_session, refusal_of
from operations.letters import Letters
from ports import free_ports
from servers import Server, serving

pytestmark = pytest.mark.req("T-04")

_PUBLIC: Final = "https://fairlead.example"


@pytest.fixture(scope="module")
def letters() -> Iterator[Letters]:
    """Return the letters of a mail server that listens."""
    taken = Letters()
    (taken.port,) = free_ports(1)
    controller = Controller(taken, hostname="127.0.0.1", port=taken.port)
    controller.start()
    yield taken
    controller.stop()


@pytest.fixture(scope="module")
def mailing(letters: Letters, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return a server that mails, and knows its own address."""
    env = {
        "FAIRLEAD_SMTP_HOST": "127.0.0.1",
        "FAIRLEAD_SMTP_PORT": str(letters.port),
        "FAIRLEAD_SMTP_SECURITY": "none",
        "FAIRLEAD_PUBLIC_BASE_URL": _PUBLIC,
        "FAIRLEAD_TRUSTED_PROXIES": "127.0.0.1",
    }
    with serving(tmp_path_factory.mktemp("mailing") / "data", env=env, arguments=("--no-local-partner",)) as server:
        yield server


@pytest.fixture
def operator(mailing: Server) -> Person:
    """Return the operator of that server."""
    return first_operator(mailing)


def _invite(operator: Person, email: str, **more: object) -> dict[str, object]:
    body = {"email": email, "role": "owner", **more}
    headers = {"Host": "evil.example", "X-Forwarded-Host": "evil.example"}
    answer = operator.ask("POST", "/workspaces/default/invitations", body, headers)
    assert answer.status_code == 201, answer.text
    told: dict[str, object] = answer.json()
    return told


def test_link_is_in_the_letter_alone_and_proves_the_address(
    mailing: Server, operator: Person, letters: Letters
) -> None:
    """Whatever host the inviter has named: or the reader, and with it the proof, could be led elsewhere."""
    issued = _invite(operator, "grace@example.com")
    assert (issued["link"], issued["is_mailed"]) == (None, True)
    recipients, letter = letters.taken[-1]
    assert recipients == ["grace@example.com"]
    link = re.search(r"\S+#invitation=(\w+)", letter.get_content())
    assert link is not None
    assert link[0].startswith(f"{_PUBLIC}/console#")
    assert "evil" not in letter.as_string()
    grace = in_session(mailing, accept(mailing, link[1]))
    assert operator.get(f"/members/{grace.id}")["is_unproven"] is False
    assert operator.ask("PATCH", f"/members/{grace.id}", {"is_operator": True}).status_code == 200


def test_link_by_hand_is_not_mailed_and_proves_nothing(mailing: Server, operator: Person, letters: Letters) -> None:
    """The inviter wanted to have it, and so may have used it."""
    before = len(letters.taken)
    issued = _invite(operator, "ada@example.com", by_hand=True)
    assert len(letters.taken) == before
    ada = in_session(mailing, accept(mailing, str(issued["link"]).partition("#invitation=")[2]))
    assert operator.get(f"/members/{ada.id}")["is_unproven"] is True


def test_refused_letter_leaves_no_invitation(operator: Person, letters: Letters) -> None:
    """The inviter is told why, and how else."""
    letters.answer = "550 no such mailbox"
    body = {"email": "gone@example.com", "role": "viewer"}
    refused = operator.ask("POST", "/workspaces/default/invitations", body)
    letters.answer = "250 OK"
    assert refusal_of(refused)[:2] == (503, "unavailable")
    assert "by_hand" in refused.json()["error"]["message"]
    assert operator.get("/workspaces/default/invitations")["items"] == []
