"""A real browser, without a screen, in front of a real server with simulated partners."""

import itertools
import shutil
from collections.abc import Callable, Iterator
from typing import Final, Literal, TypeAlias

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Playwright, ViewportSize, expect, sync_playwright

from console.people import sign_in
from machine import limit
from servers import Server, serving

Open: TypeAlias = Callable[..., Page]
NewContext: TypeAlias = Callable[..., BrowserContext]
Colours: TypeAlias = Literal["light", "dark"]
WIDE: Final[ViewportSize] = {"width": 1360, "height": 900}
NARROW: Final[ViewportSize] = {"width": 390, "height": 844}
_BROWSERS: Final = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""The first, which never has a window, takes two thirds of the others' processor time."""
_QUIET: Final = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--in-process-gpu", "--no-zygote",
    "--disable-site-isolation-trials",
)  # fmt: skip
_WAIT_MS: Final = 1000 * limit(60)
"""How long a page may take to show what is waited for."""
_ADDRESSES: Final = itertools.count(1)


def find_browser() -> str | None:
    """Where a Chromium is, if one is installed."""
    return next(filter(None, map(shutil.which, _BROWSERS)), None)


def launch_browser(playwright: Playwright) -> Browser:
    """Start it without a screen, and without what it would do for itself."""
    return playwright.chromium.launch(executable_path=find_browser(), args=_QUIET)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Return the browser of this module: as long as it is there, an event loop runs that other tests would meet."""
    if find_browser() is None:
        pytest.skip(
            "No Chromium is installed: `apt-get install chromium-headless-shell` lets these tests open the console."
        )
    with sync_playwright() as playwright:
        browser = launch_browser(playwright)
        expect.set_options(timeout=_WAIT_MS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return the server that the tests of this folder share."""
    # Tests sign in from one address, more often than anybody may: a trusted proxy tells them apart.
    env = {"FAIRLEAD_TRUSTED_PROXIES": "127.0.0.1", "FAIRLEAD_REQUESTS_PER_MINUTE": "100000", "FAIRLEAD_ENGINE": "true"}
    with serving(tmp_path_factory.mktemp("console") / "data", env=env, arguments=("--simulate",)) as server:
        yield server


@pytest.fixture
def new_context(browser: Browser) -> Iterator[NewContext]:
    """Return a function that makes a browser nobody has used, with the sizes and colours that are wanted."""
    made: list[BrowserContext] = []

    def make(viewport: ViewportSize = WIDE, color_scheme: Colours = "light") -> BrowserContext:
        number = next(_ADDRESSES)
        headers = {"X-Forwarded-For": f"198.51.{number // 250}.{number % 250 + 1}"}
        context = browser.new_context(viewport=viewport, color_scheme=color_scheme, extra_http_headers=headers)
        context.set_default_timeout(_WAIT_MS)
        made.append(context)
        return context

    yield make
    for context in made:
        context.close()


@pytest.fixture
def open_page(site: Server, new_context: NewContext) -> Open:
    """Return a function that opens an address of the console for somebody with a key, who is signed in."""

    def open_one(
        path: str = "/console/explore",
        key: str | None = None,
        viewport: ViewportSize = WIDE,
        color_scheme: Colours = "light",
    ) -> Page:
        page = new_context(viewport, color_scheme).new_page()
        sign_in(page, site.url, key or (site.data / "first-operator-key").read_text("ascii").strip(), path)
        return page

    return open_one
