"""Every page, wide and narrow, light and dark: it is there, fits its window, and everybody can use it."""

from typing import Final

import httpx
import pytest
from playwright.sync_api import Page, ViewportSize, expect

from console.conftest import NARROW, WIDE, Colours, NewContext, Open
from console.people import is_axe_there, overflow, violations
from servers import Server

_PAGES: Final = {
    "explore": "Explore",
    "models/local/procedural-image-1": "procedural-image-1",
    "models/openai/gpt-5": "gpt-5",
    "workflows": "Workflows",
    "runs": "Runs",
    "jobs": "Jobs",
    **{f"money?tab={tab}": "Money" for tab in ("spend", "budgets", "alerts", "ledger", "statement", "books")},
    "keys": "Keys",
    "members": "Members",
    "workspaces": "Workspaces",
    "members?tab=everybody": "Members",
    "keys?tab=limits": "Keys",
    "providers": "Providers",
    "providers?tab=keys": "Providers",
    "providers?tab=prices": "Providers",
    "deployments": "Deployments",
    "settings": "Settings",
    "settings?tab=server": "Settings",
    "settings?tab=upkeep": "Settings",
    "audit-log": "Audit log",
    "workspaces/default": "default",
    "registry": "Registry",
    "account": "Your account",
}
_LOOKS: Final = [(WIDE, "light"), (NARROW, "dark")]


@pytest.mark.req("A-04")
@pytest.mark.parametrize(("size", "colours"), _LOOKS, ids=["wide light", "narrow dark"])
def test_every_page_is_complete_and_fits(open_page: Open, site: Server, size: ViewportSize, colours: Colours) -> None:
    """No page is wider than its window, fails in the browser, or shows a raw error; axe finds nothing."""
    key = (site.data / "first-operator-key").read_text("ascii").strip()
    # Until files were checked once, the server says 404 of the last check, which a browser logs as an error.
    httpx.post(f"{site.url}/api/admin/v1/stored-files/audit", json={}, headers={"X-API-Key": key}).raise_for_status()
    page = open_page(viewport=size, color_scheme=colours)
    told = _problems(page)
    for path, title in _PAGES.items():
        _go(page, path)
        expect(page.get_by_role("heading", level=1, name=title)).to_be_visible()
        expect(page.get_by_role("main").get_by_text("Loading…")).to_have_count(0)
        assert page.get_by_role("alert").all_inner_texts() == [], (path, told)
        assert overflow(page) == 0, path
        assert (violations(page, of_colours=colours == "dark") if is_axe_there() else []) == [], path
    assert told == []


@pytest.mark.req("A-04")
def test_login_is_complete(open_page: Open, new_context: NewContext) -> None:
    """Nobody has to be signed in to be told how to sign in, and a wrong key is answered at the field."""
    there = open_page()
    page = new_context().new_page()
    page.goto(there.url)
    page.get_by_label("Personal key").fill("flp_wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).not_to_be_empty()
    assert overflow(page) == 0
    assert (violations(page) if is_axe_there() else []) == []


@pytest.mark.req("A-04")
def test_pages_can_be_reached_by_keyboard(open_page: Open) -> None:
    """The first stop leads past the menu, and the content has the focus after a page was changed."""
    page = open_page()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.get_by_role("link", name="Jobs", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1, name="Jobs")).to_be_visible()
    expect(page.get_by_role("main")).to_be_focused()


@pytest.mark.req("A-04")
def test_narrow_page_has_its_menu_behind_a_button(open_page: Open) -> None:
    """Where there is no room for the menu, a button opens it, and a choice closes it."""
    page = open_page(viewport=NARROW)
    expect(page.get_by_role("navigation")).to_be_hidden()
    page.get_by_role("button", name="Open the menu").click()
    page.get_by_role("navigation").get_by_role("link", name="Workflows").click()
    expect(page.get_by_role("heading", level=1, name="Workflows")).to_be_visible()
    expect(page.get_by_role("navigation")).to_be_hidden()


def test_address_without_a_page_says_so(open_page: Open) -> None:
    """An address that no page has leads back."""
    page = open_page()
    _go(page, "nowhere")
    expect(page.get_by_text("There is no page at this address.")).to_be_visible()
    page.get_by_role("link", name="Go to Explore").click()
    expect(page.get_by_role("heading", level=1, name="Explore")).to_be_visible()


def _go(page: Page, path: str) -> None:
    page.evaluate(
        "path => { history.pushState(null, '', path); dispatchEvent(new PopStateEvent('popstate')); }",
        f"/console/{path}",
    )


def _problems(page: Page) -> list[str]:
    """What goes wrong in the browser from now on, refusals of its Content-Security-Policy among it."""
    told: list[str] = []
    page.on("console", lambda message: told.append(message.text) if message.type == "error" else None)
    page.on("response", lambda answer: told.append(f"{answer.status} {answer.url}") if answer.status >= 400 else None)
    page.on("pageerror", lambda error: told.append(str(error)))
    return told
