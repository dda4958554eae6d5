"""Who is signed in, what each may, and what happens to an open page when that ends."""

import httpx
import pytest
from playwright.sync_api import BrowserContext, Route, expect

from api.admin.members import add_member, first_operator
from console.conftest import NewContext, Open
from console.people import run_model
from servers import Server

_PICTURES = "/console/models/local/procedural-image-1"
_LOSE_NETWORK = """
  Object.defineProperty(navigator, 'onLine', {get: () => false});
  window.dispatchEvent(new Event('offline'));
"""


def test_key_signs_in_and_signing_out_ends_the_session(new_context: NewContext, site: Server) -> None:
    """The key is typed once; the cookie that stands for it is not a script's to read."""
    page = new_context().new_page()
    page.goto(site.url)
    page.get_by_label("Personal key").fill(_operator_key(site))
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", level=1, name="Explore")).to_be_visible()
    assert page.evaluate("document.cookie") == ""
    page.get_by_role("button", name="Account").click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Personal key")).to_be_visible()


def test_link_with_a_key_leaves_no_key_behind(open_page: Open) -> None:
    """What stood behind the hash is gone from the address, and from the way back."""
    page = open_page()
    assert "#" not in page.url
    assert "flp_" not in page.evaluate("JSON.stringify([localStorage, sessionStorage, location.href])")


@pytest.mark.req("A-04")
def test_viewer_looks_and_owner_invites(open_page: Open, site: Server) -> None:
    """Two people of one workspace see what their roles allow; the server refuses the rest itself."""
    viewer = open_page(_PICTURES, key=_invite(site, "viewer"))
    expect(viewer.get_by_text("Viewers cannot run models.")).to_be_visible()
    expect(viewer.get_by_role("button", name="Run", exact=True)).to_have_count(0)
    expect(viewer.get_by_role("link", name="Workspaces")).to_have_count(0)
    owner = open_page("/console/members", key=_invite(site, "owner"))
    owner.get_by_role("button", name="Invite a person").click()
    owner.get_by_label("E-mail").fill("nonsense")
    owner.get_by_role("dialog").get_by_role("button", name="Invite").click()
    expect(owner.get_by_role("dialog").get_by_role("alert")).to_be_visible()
    owner.get_by_label("E-mail").fill("ada@example.com")
    owner.get_by_role("dialog").get_by_role("button", name="Invite").click()
    expect(owner.get_by_text("it is shown only once")).to_be_visible()
    owner.get_by_role("button", name="Done").click()
    expect(owner.get_by_role("row", name="ada@example.com")).to_contain_text("member")
    assert "flp_" not in owner.content()


@pytest.mark.req("A-04", "T-04")
def test_invited_person_accepts_in_the_browser(open_page: Open, new_context: NewContext) -> None:
    """By a link that leaves nothing in the address, once; more power for an unproven address has to be confirmed."""
    owner = open_page("/console/members")
    owner.get_by_role("button", name="Invite a person").first.click()
    owner.get_by_label("E-mail").fill("marie@example.com")
    owner.get_by_role("dialog").get_by_role("button", name="Invite").click()
    link = owner.get_by_role("dialog").locator(".secret code").inner_text()
    owner.get_by_role("button", name="Done").click()
    guest = new_context().new_page()
    guest.goto(link)
    guest.get_by_label("Your name").fill("Marie")
    assert "#" not in guest.url
    guest.get_by_role("button", name="Accept").click()
    expect(guest.get_by_role("heading", name="Explore")).to_be_visible()
    late = new_context().new_page()
    late.goto(link)
    expect(late.get_by_text("it has expired; ask for another")).to_be_visible()
    owner.reload()
    owner.get_by_label("Role of Marie").select_option("owner")
    owner.get_by_role("dialog").get_by_role("button", name="Do it all the same").click()
    expect(owner.get_by_text("Marie is now owner.")).to_be_visible()


@pytest.mark.req("A-04", "T-04")
def test_person_makes_a_narrowed_key_and_signs_out_everywhere(open_page: Open, site: Server) -> None:
    """The key says what it may and when it ends, rotates, and is gone with the sessions."""
    person = add_member(first_operator(site), "default", "member", "a-careful-one")
    page = open_page("/console/account", key=person.key)
    keys = page.get_by_role("region", name="Personal keys")
    keys.get_by_role("button", name="Create a personal key").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Label").fill("nightly")
    dialog.get_by_label("Ends after").select_option("30")
    dialog.get_by_label("see workspaces").check()
    dialog.get_by_label("Networks").fill("nonsense")
    dialog.get_by_role("button", name="Create the key").click()
    expect(dialog.get_by_role("alert")).to_contain_text("A network is an address")
    dialog.get_by_label("Networks").fill("203.0.113.0/24, 2001:db8::/32")
    dialog.get_by_role("button", name="Create the key").click()
    page.get_by_role("button", name="Done").click()
    row = keys.get_by_role("row", name="nightly")
    for words in ("read", "never used", "ends", "from 203.0.113.0/24, 2001:db8::/32"):
        expect(row).to_contain_text(words)
    keys.get_by_role("button", name="Rotate nightly").click()
    dialog.get_by_role("button", name="Make a new secret").click()
    assert dialog.locator(".secret code").inner_text().startswith("flp_")
    page.get_by_role("button", name="Done").click()
    expect(row).to_contain_text("old secret until")
    page.get_by_role("button", name="Sign out everywhere").click()
    page.get_by_role("dialog").get_by_role("button", name="Sign out everywhere").click()
    expect(page.get_by_label("Personal key")).to_be_visible()
    assert [key["label"] for key in person.get("/members/me")["keys"]] == ["first key"]


@pytest.mark.req("A-04")
def test_page_stays_when_its_key_is_revoked(open_page: Open, site: Server) -> None:
    """What was typed is still there when somebody has signed in again."""
    headers = {"X-API-Key": _operator_key(site)}
    address = f"{site.url}/api/admin/v1/members/me/keys"
    issued = httpx.post(address, json={"label": "lent"}, headers=headers).json()
    page = open_page(_PICTURES, key=issued["secret"])
    page.get_by_label("Prompt").fill("a bridge")
    assert httpx.delete(f"{address}/{issued['id']}", headers=headers).status_code == 204
    page.wait_for_timeout(1500)  # every server notices within a second
    # No click of the mouse: a page that has noticed by itself shows the dialog in front of the button.
    page.get_by_role("button", name="Run", exact=True).dispatch_event("click")
    dialog = page.get_by_role("dialog", name="Your session has ended")
    dialog.get_by_label("Personal key").fill(_operator_key(site))
    dialog.get_by_role("button", name="Sign in").click()
    expect(dialog).to_have_count(0)
    expect(page.get_by_label("Prompt")).to_have_value("a bridge")
    run_model(page, "a bridge")


def test_session_is_listed_and_ended(open_page: Open) -> None:
    """Somebody who has forgotten to sign out elsewhere does it from here."""
    other = open_page("/console/members")
    page = open_page("/console/account")
    buttons = page.get_by_role("button", name="End", exact=True)
    expect(buttons.first).to_be_visible()
    for left in reversed(range(buttons.count())):
        buttons.first.click()
        expect(buttons).to_have_count(left)
    other.get_by_role("link", name="Audit log").click()
    expect(other.get_by_role("dialog", name="Your session has ended")).to_be_visible()


@pytest.mark.req("A-04")
def test_lost_connection_is_told_and_found_again(open_page: Open) -> None:
    """While the server cannot be reached a banner says so, and goes when it can.

    The pages do not ask meanwhile: what the browser has in its cache would be answered, and the server seem to be back.
    """
    page = open_page(_PICTURES)
    expect(page.get_by_label("Prompt")).to_be_visible()
    context: BrowserContext = page.context
    context.set_offline(True)
    banner, asked = page.get_by_text("The connection to the server is lost."), list[str]()
    expect(banner).to_be_visible()
    page.on("request", lambda request: asked.append(request.url))
    for _ in range(2):
        with page.expect_request("**/healthz"):
            pass
    assert {url.rpartition("/")[2] for url in asked} == {"healthz"}
    context.set_offline(False)
    expect(banner).to_have_count(0)
    run_model(page, "a ship")


@pytest.mark.req("A-04")
def test_answer_without_a_network_is_not_believed(open_page: Open) -> None:
    """One may have been under way when the network went: the console looks by itself whether the server is back."""
    page, lost = open_page(_PICTURES), list[str]()

    def answer_until_it_looks(route: Route) -> None:
        if route.request.url.endswith("/healthz"):
            lost.append(route.request.url)
        if lost:
            route.abort()
        else:
            route.continue_()

    page.route("**/*", answer_until_it_looks)
    with page.expect_request("**/healthz"):
        page.evaluate(_LOSE_NETWORK)
    expect(page.get_by_text("The connection to the server is lost.")).to_be_visible()


def test_actions_of_the_console_are_in_the_audit_log(open_page: Open) -> None:
    """Signing in is the first thing that the log has of a session."""
    page = open_page("/console/audit-log")
    expect(page.get_by_role("table", name="Audit log").get_by_role("row").nth(1)).to_be_visible()


def _operator_key(site: Server) -> str:
    return (site.data / "first-operator-key").read_text("ascii").strip()


def _invite(site: Server, role: str) -> str:
    """A key of somebody new with a role in the workspace of the server."""
    return add_member(first_operator(site), "default", role, f"a-{role}").key
