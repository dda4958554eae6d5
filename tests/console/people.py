"""What people do in a browser, and what is found wrong with the page in front of them."""

from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Page, expect

from form.sources import ROOT

_AXE: Final = ROOT / "console" / "node_modules" / "axe-core" / "axe.min.js"
_RULES: Final = (
    "options => axe.run(document, {resultTypes: ['violations'], ...options}).then(found => found.violations)"
)
_COLOURS: Final = {"runOnly": ["color-contrast"]}
_OVERFLOW: Final = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def sign_in(page: Page, url: str, key: str, path: str = "/console/explore") -> None:
    """Open an address by the link that signs in, and wait until its page is there."""
    page.goto(f"{url}{path}#key={key}")
    expect(page.get_by_role("main").get_by_role("heading", level=1)).to_be_visible()


def violations(page: Page, *, of_colours: bool = False) -> list[str]:
    """What axe finds wrong with a page for who uses a keyboard or a screen reader: rules, with what breaks them.

    The rules `of_colours` are those that another colour scheme can break.
    """
    if not page.evaluate("'axe' in window"):
        page.evaluate(axe())
    found: list[dict[str, Any]] = page.evaluate(_RULES, _COLOURS if of_colours else {})
    return [
        f"{one['id']}: {node['html'][:200]} {node['failureSummary'][:300]}" for one in found for node in one["nodes"]
    ]


def overflow(page: Page) -> int:
    """How many pixels a page is wider than its window."""
    found: int = page.evaluate(_OVERFLOW)
    return found


def axe() -> str:
    """The program of axe-core, which the console's development packages have."""
    return Path(_AXE).read_text(encoding="utf-8")


def is_axe_there() -> bool:
    """Whether the console's development packages are installed."""
    return _AXE.exists()


def run_model(page: Page, prompt: str) -> None:
    """Fill in the form of a model, and wait for the picture."""
    page.get_by_label("Prompt").fill(prompt)
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_role("region", name="Result").get_by_role("img", name=prompt)).to_be_visible()
