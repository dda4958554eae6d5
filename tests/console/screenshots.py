"""Take a picture of every page of the console, wide and narrow, light and dark, for docs/images.

    .venv/bin/python tests/console/screenshots.py

It starts a server of its own with simulated partners, uses it a little, and opens each page in Chromium.
"""

import shutil
import sys
import tempfile
from io import BytesIO
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1]))

from PIL import Image
from playwright.sync_api import Browser, Page, expect, sync_playwright

from console.people import run_model, sign_in
from form.sources import DOCS
from servers import Server, serving

_PAGES: Final = (
    "explore", "models/local/procedural-image-1", "workflows", "runs", "jobs", "money", "keys", "members", "workspaces",
    "providers", "settings",
    "audit-log", "sessions",
)  # fmt: skip
_SIZES: Final = {"wide": (1360, 850), "narrow": (390, 800)}
_QUALITY: Final = 55


def main() -> None:
    """Take all pictures."""
    images = DOCS / "images"
    images.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(Path(folder) / "data", env={"FAIRLEAD_ENGINE": "true"}, arguments=("--simulate",)) as server,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for colours in ("light", "dark"):
            for size, (width, height) in _SIZES.items():
                page = _opened(browser, server, colours, width, height)
                for path in _PAGES:
                    page.goto(f"{server.url}/console/{path}")
                    _prepare(page, path)
                    name = path.split("/")[0].replace("models", "model")
                    _save(page, images / f"console-{name}-{size}-{colours}.webp")
                page.close()
        browser.close()


def _opened(browser: Browser, server: Server, colours: str, width: int, height: int) -> Page:
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=colours)  # type: ignore[arg-type]
    page.set_default_timeout(60_000)
    expect.set_options(timeout=60_000)
    sign_in(page, server.url, (server.data / "first-operator-key").read_text("ascii").strip())
    return page


def _prepare(page: Page, path: str) -> None:
    """Have something on the page that it is for."""
    expect(page.get_by_role("main").get_by_role("heading", level=1)).to_be_visible()
    if path.startswith("models/"):
        run_model(page, "a lighthouse above a stormy sea at dusk")
        page.evaluate("scrollTo(0, 0)")
    if path == "workflows":
        page.get_by_role("button", name="Try an example").click()
        page.get_by_role("button", name="Run", exact=True).click()
        expect(page.get_by_text("completed", exact=True)).to_be_visible()
        expect(page.get_by_role("figure").get_by_role("img")).to_have_count(2)
        page.get_by_role("region", name="The job").scroll_into_view_if_needed()
    page.wait_for_timeout(700)  # pictures are decoded, charts drawn


def _save(page: Page, path: Path) -> None:
    Image.open(BytesIO(page.screenshot())).convert("RGB").save(path, "WEBP", quality=_QUALITY, method=6)


if __name__ == "__main__":
    main()
