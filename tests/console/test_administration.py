"""What owners and operators set up in the console: deployments, limits, keys at providers, workspaces, members."""

import httpx
import pytest
from playwright.sync_api import Locator, Page, expect

from console.conftest import Open
from servers import Server


@pytest.mark.req("A-04")
def test_deployment_is_created_released_moved_stopped_and_deleted(open_page: Open) -> None:
    """A deployment becomes ready by itself, serves its next release, and takes no jobs while it is stopped.

    Its jobs can be given a pool, whose name is checked.
    """
    page = open_page("/console/deployments")
    page.get_by_role("button", name="Create a deployment").click()
    dialog = page.get_by_role("dialog", name="Create a deployment")
    dialog.get_by_label("Name").fill("Not A Name")
    dialog.get_by_role("button", name="Create it").click()
    expect(dialog.get_by_role("alert")).not_to_be_empty()
    dialog.get_by_label("Name").fill("pictures")
    dialog.get_by_role("button", name="Create it").click()
    page.get_by_role("link", name="pictures").click()
    main = page.get_by_role("main")
    expect(main.locator(".page-head").get_by_text("ready", exact=True)).to_be_visible()
    page.get_by_role("button", name="Publish a release").click()
    page.get_by_role("dialog").get_by_role("button", name="Publish").click()
    releases = page.get_by_role("region", name="Releases")
    expect(releases.get_by_role("row").nth(1)).to_contain_text("2")
    expect(releases.get_by_role("row").nth(1)).to_contain_text("serving")
    page.get_by_role("button", name="Change the pool").click()
    dialog = page.get_by_role("dialog", name="Change the pool")
    dialog.get_by_label("Pool").fill("No Pool")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("alert")).to_contain_text("A pool must be")
    dialog.get_by_label("Pool").fill("gpu")
    dialog.get_by_role("button", name="Save").click()
    expect(main.get_by_text("gpu", exact=True)).to_be_visible()
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(main.locator(".page-head").get_by_text("stopped", exact=True)).to_be_visible()
    page.get_by_role("button", name="Delete the deployment").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_text("This workspace has no deployment yet.")).to_be_visible()


@pytest.mark.req("A-04")
def test_key_is_changed_and_gets_a_rate_limit(open_page: Open) -> None:
    """A key keeps its secret when it is changed; its limit is listed by the label that it has then."""
    page = open_page("/console/keys")
    page.get_by_role("button", name="Create a key").first.click()
    page.get_by_label("Label").fill("mobile")
    page.get_by_role("dialog").get_by_role("button", name="Create the key").click()
    page.get_by_role("button", name="Done").click()
    page.get_by_role("button", name="Change mobile").click()
    dialog = page.get_by_role("dialog", name="Change mobile")
    dialog.get_by_label("Budget in dollars").fill("a lot")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("alert")).not_to_be_empty()
    dialog.get_by_label("Budget in dollars").fill("5")
    dialog.get_by_role("button", name="Save").click()
    expect(page.get_by_role("row", name="mobile")).to_contain_text("of $5.00 a month")
    page.get_by_role("tab", name="Rate limits").click()
    page.get_by_role("button", name="Set a limit").click()
    dialog = page.get_by_role("dialog", name="Set a rate limit")
    dialog.get_by_label("Key").select_option(label="mobile")
    dialog.get_by_label("Requests a minute").fill("30")
    dialog.get_by_role("button", name="Set the limit").click()
    expect(page.get_by_role("row", name="mobile")).to_contain_text("30")
    page.get_by_role("button", name="Delete the limit of mobile").click()
    expect(page.get_by_role("row", name="mobile")).to_have_count(0)


@pytest.mark.req("A-04")
def test_stored_and_rotated_secrets_are_never_shown_again(open_page: Open, site: Server) -> None:
    """A key at a provider is never shown; a webhook secret is, when it is made; later it is only copied."""
    page = open_page("/console/providers?tab=keys")
    page.get_by_role("button", name="Store a key").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Provider").select_option("fal")
    dialog.get_by_label("Key", exact=True).fill("a-secret-of-ours")
    dialog.get_by_role("button", name="Store the key").click()
    expect(page.get_by_role("row", name="fal")).to_be_visible()
    assert "a-secret-of-ours" not in page.content()
    page.get_by_role("button", name="Delete the key at fal").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_text("This workspace uses the keys of the server.")).to_be_visible()

    page.get_by_role("navigation").get_by_role("link", name="Settings").click()
    page.get_by_role("button", name="Rotate").click()
    page.get_by_role("dialog").get_by_role("button", name="Rotate").click()
    secret = page.get_by_role("dialog").locator(".secret code").inner_text()
    headers = {"X-API-Key": (site.data / "first-operator-key").read_text("ascii").strip()}
    known = httpx.get(f"{site.url}/api/admin/v1/workspaces/default/webhook-secret", headers=headers).json()
    assert known["secret"] == secret
    page.get_by_role("button", name="Done").click()
    page.get_by_role("button", name="Copy the secret").click()
    expect(page.get_by_text("The secret is on the clipboard.")).to_be_visible()
    assert secret not in page.content()


@pytest.mark.req("A-04")
def test_workspace_is_limited_suspended_deleted_and_restored(open_page: Open) -> None:
    """A workspace's page changes only what was changed in its form, and its deletion is taken back."""
    page = open_page("/console/workspaces")
    page.get_by_role("button", name="Create a workspace").click()
    page.get_by_role("dialog").get_by_label("Name").fill("lab")
    page.get_by_role("dialog").get_by_role("button", name="Create it").click()
    page.get_by_role("link", name="lab", exact=True).click()
    page.get_by_role("button", name="Change", exact=True).click()
    dialog = page.get_by_role("dialog", name="Change lab")
    dialog.get_by_label("Subscription").fill("no such subscription")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("alert")).not_to_be_empty()
    dialog.get_by_label("Subscription").fill("standard")
    dialog.get_by_label("Runs at a time").fill("3")
    dialog.get_by_label("Allowed models").fill("local/*")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_have_count(0)
    expect(_value(page, "Runs at a time")).to_have_text("3")
    expect(_value(page, "Subscription")).to_have_text("standard")
    expect(_value(page, "Models")).to_have_text("local/*")
    page.get_by_role("button", name="Suspend").click()
    expect(page.get_by_text("This workspace is suspended")).to_be_visible()
    page.get_by_role("button", name="Resume").click()
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
    page.get_by_role("button", name="Restore").click()
    expect(page.get_by_role("button", name="Suspend")).to_be_visible()


@pytest.mark.req("A-04")
def test_operator_adds_a_member_whose_keys_can_be_revoked(open_page: Open) -> None:
    """A member of the installation gets a personal key, shown once, and loses it again."""
    page = open_page("/console/members?tab=everybody")
    page.get_by_role("button", name="Add a member").click()
    page.get_by_label("Name").fill("Katherine")
    page.get_by_label("E-mail").fill("katherine@example.com")
    page.get_by_role("dialog").get_by_role("button", name="Add").click()
    page.get_by_role("button", name="Keys of Katherine").click()
    page.get_by_role("dialog").get_by_role("button", name="Create a key").click()
    page.get_by_label("Label").fill("laptop")
    page.get_by_role("dialog").get_by_role("button", name="Create the key").click()
    secret = page.get_by_role("dialog").locator(".secret code").inner_text()
    page.get_by_role("button", name="Done").click()
    keys = page.get_by_role("dialog", name="Personal keys of Katherine")
    expect(keys.get_by_text("laptop")).to_be_visible()
    assert secret not in page.content()
    keys.get_by_role("button", name="Revoke").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(keys.get_by_text("No personal key.")).to_be_visible()


@pytest.mark.req("A-04", "T-04")
def test_operator_is_asked_before_an_unproven_address_operates(open_page: Open) -> None:
    """The form says why, and does it once that is confirmed."""
    page = open_page("/console/members?tab=everybody")
    page.get_by_role("button", name="Add a member").click()
    page.get_by_label("Name").fill("Emmy")
    page.get_by_label("E-mail").fill("emmy@example.com")
    page.get_by_label("Operator: has every right").check()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Add").click()
    expect(dialog.get_by_role("alert")).to_contain_text("Nobody has proven")
    dialog.get_by_label("Do it all the same").check()
    dialog.get_by_role("button", name="Add").click()
    expect(page.get_by_role("row", name="Emmy")).to_contain_text("unproven")
    page.get_by_role("button", name="Delete Emmy").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("row", name="Emmy")).to_have_count(0)


@pytest.mark.req("A-04")
def test_last_operator_cannot_be_demoted(open_page: Open) -> None:
    """The server's refusal is shown in the form, which stays open."""
    page = open_page("/console/members?tab=everybody")
    page.get_by_role("button", name="Change operator").click()
    dialog = page.get_by_role("dialog", name="Change operator")
    dialog.get_by_label("Operator: has every right").uncheck()
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("alert")).to_contain_text("operator")


@pytest.mark.req("A-04")
def test_operator_keeps_the_installation_sound(open_page: Open) -> None:
    """The catalog is read again, stored files are checked, the next master secret is prepared, the books are proven."""
    page = open_page("/console/settings?tab=upkeep")
    page.get_by_role("button", name="Reload the files").click()
    expect(page.get_by_text("models are in force.")).to_be_visible()
    page.get_by_role("button", name="Check names and sizes").click()
    expect(page.get_by_text("Every file is there and intact.")).to_be_visible()
    page.get_by_role("button", name="Prepare").click()
    page.get_by_role("dialog").get_by_role("button", name="Prepare").click()
    expect(page.get_by_role("region", name="Master secrets").get_by_text("next", exact=True)).to_be_visible()
    page.get_by_role("navigation").get_by_role("link", name="Money").click()
    page.get_by_role("tab", name="Books").click()
    page.get_by_role("button", name="Check the books").click()
    expect(page.get_by_text("The books are correct.")).to_be_visible()


def _value(page: Page, name: str) -> Locator:
    """The value that stands for a name in a list of facts."""
    return page.locator("dt", has_text=name).first.locator("xpath=following-sibling::dd[1]")


@pytest.mark.req("A-03", "M-07")
def test_label_gets_a_budget_and_its_spend_is_shown(open_page: Open, site: Server) -> None:
    """Runs with a label are limited apart; spend by its name has its values, and what has none."""
    url = f"{site.url}/v2/models/local/procedural-text-1"
    for labels in ("client=acme", ""):
        headers = {"X-API-Key": site.key, "X-Fairlead-Labels": labels}
        assert httpx.post(url, json={"prompt": "a harbour"}, headers=headers, timeout=60).status_code == 200
    page = open_page("/console/money?tab=budgets")
    page.get_by_role("button", name="Set a budget").click()
    dialog = page.get_by_role("dialog", name="Set a budget")
    dialog.get_by_label("Scope").select_option("label")
    dialog.get_by_label("Label").fill("acme")
    dialog.get_by_label("Limit in dollars").fill("3")
    dialog.get_by_role("button", name="Set the budget").click()
    expect(dialog.get_by_role("alert")).to_contain_text("such as client=acme")
    dialog.get_by_label("Label").fill("client=acme")
    dialog.get_by_role("button", name="Set the budget").click()
    expect(page.get_by_role("heading", name="Label client=acme")).to_be_visible()
    page.get_by_role("tab", name="Spend").click()
    page.get_by_role("button", name="Label", exact=True).click()
    expect(page.get_by_role("row", name="acme")).to_contain_text("1")
    expect(page.get_by_role("row", name="without this label")).to_be_visible()
    page.get_by_label("Name of the label").fill("project")
    expect(page.get_by_role("row", name="acme")).to_have_count(0)
