"""What comes over the network: how much and how soon, what a broken call costs, and pages of plain http."""

from collections.abc import Callable
from typing import Final

import pytest
from playwright.sync_api import Request, Route, expect

from console.conftest import NewContext, Open
from console.people import run_model, sign_in
from servers import Server

_PICTURES: Final = "/console/models/local/procedural-image-1"
_FIRST_LOAD_MAX: Final = 300 * 1024
_SIZES: Final = """() => {
  const files = performance.getEntriesByType('resource').filter(one => one.name.includes('/console/'));
  const document = performance.getEntriesByType('navigation')[0];
  return [document.encodedBodySize + files.reduce((sum, one) => sum + one.encodedBodySize, 0), performance.now()];
}"""
_PLAIN_HTTP: Final = """
  delete Crypto.prototype.randomUUID;
  Object.defineProperty(Navigator.prototype, 'clipboard', {value: undefined});
"""


@pytest.mark.req("A-04")
def test_first_load_is_small_in_a_browser(new_context: NewContext, site: Server) -> None:
    """All that a browser fetches for its first page has at most 300 KB; the time it took is printed with -s."""
    page = new_context().new_page()
    sign_in(page, site.url, _operator_key(site))
    expect(page.get_by_role("link", name="procedural-image-1")).to_be_visible()
    size, milliseconds = page.evaluate(_SIZES)
    assert 0 < size <= _FIRST_LOAD_MAX
    print(f"\nThe first load: {size / 1024:.0f} KB, {milliseconds:.0f} ms to the list of models.")  # noqa: T201 -- shown with -s


@pytest.mark.req("A-04")
def test_no_page_asks_another_server(open_page: Open, site: Server) -> None:
    """Whatever a page shows, its requests go to the server that it came from."""
    page, asked = open_page(), list[str]()
    page.on("request", _note(asked))
    for path in ("explore", "models/local/procedural-image-1", "workflows", "money", "providers"):
        page.goto(f"{site.url}/console/{path}")
        expect(page.get_by_role("main").get_by_role("heading", level=1)).to_be_visible()
    assert asked
    assert [url for url in asked if not url.startswith((f"{site.url}/", "data:", "blob:"))] == []


@pytest.mark.req("A-04")
def test_run_whose_answer_was_lost_is_shown_and_charged_once(open_page: Open, site: Server) -> None:
    """The server has run it, the answer did not come: the console asks again, and gets the same run."""
    page = open_page(_PICTURES)
    lost = list[str]()

    def lose_first(route: Route) -> None:
        if lost:
            route.fallback()
            return
        lost.append(route.fetch().headers["x-service-request-id"])
        route.abort("connectionreset")

    page.route("**/v2/models/local/procedural-image-1", lose_first)
    run_model(page, "a buoy in the fog")
    page.get_by_role("navigation").get_by_role("link", name="Runs").click()
    page.goto(f"{site.url}/console/runs/{lost[0]}")
    expect(page.get_by_role("heading", name="Timeline")).to_be_visible()
    expect(page.get_by_text("Replayed")).to_be_visible()
    expect(page.get_by_role("region", name="Result").get_by_role("img")).to_be_visible()


@pytest.mark.req("A-04")
def test_page_of_plain_http_runs_and_copies(new_context: NewContext, site: Server) -> None:
    """A browser gives a page of plain http neither random ids nor a clipboard; the console works all the same."""
    page = new_context().new_page()
    page.add_init_script(_PLAIN_HTTP)
    sign_in(page, site.url, _operator_key(site), _PICTURES)
    run_model(page, "a pier")
    page.get_by_role("button", name="Copy").first.click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    page.goto(f"{site.url}/console/workflows")
    page.get_by_role("button", name="Try an example").click()
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_role("region", name="The job").get_by_text("succeeded", exact=True)).to_be_visible()


@pytest.mark.parametrize(
    ("code", "sentence"), [("unknown_member", "Ask an owner to invite it."), ("expired", "took too long")]
)
def test_refused_single_sign_on_is_explained(new_context: NewContext, site: Server, code: str, sentence: str) -> None:
    """Somebody who comes back from the OpenID Connect provider without a session reads why."""
    page = new_context().new_page()
    page.goto(f"{site.url}/?sign_in_error={code}")
    expect(page.get_by_role("alert")).to_contain_text(sentence)
    assert "sign_in_error" not in page.url


def _note(asked: list[str]) -> Callable[[Request], None]:
    return lambda request: asked.append(request.url)


def _operator_key(site: Server) -> str:
    return (site.data / "first-operator-key").read_text("ascii").strip()
