"""Take a picture of every page of the console, wide and narrow, light and dark, into `screenshots/` or another folder.

    .venv/bin/python tests/console/screenshots.py [folder]

It starts a server of its own with simulated partners, uses it a little, and opens each page in Chromium. The few
pictures that pages show, which are in docs/images, are renewed with the others.
"""

import shutil
import sys
import tempfile
from io import BytesIO
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1]))

import httpx
from PIL import Image
from playwright.sync_api import Browser, Page, expect, sync_playwright

from console.conftest import launch_browser
from console.people import run_model, sign_in
from form.sources import DOCS, ROOT
from servers import Server, serving

_ADMIN: Final = "/api/admin/v1"
_PICTURES: Final = "local/procedural-image-1"
_SIZES: Final = {"wide": (1360, 850), "narrow": (390, 800)}
_QUALITY: Final = 72
_ENV: Final = {"FAIRLEAD_ENGINE": "true", "FAIRLEAD_TRUSTED_PROXIES": "127.0.0.1"}


def main() -> None:
    """Take all pictures."""
    images = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "screenshots"
    images.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(Path(folder) / "data", env=_ENV, arguments=("--simulate",)) as server,
        sync_playwright() as playwright,
    ):
        pages = _pages(_use(server))
        browser = launch_browser(playwright)
        for colours in ("light", "dark"):
            for size, (width, height) in _SIZES.items():
                page = _open(browser, server, colours, width, height)
                for name, path in pages.items():
                    page.goto(f"{server.url}/console/{path}")
                    _prepare(page, name)
                    _save(page, images / f"console-{name}-{size}-{colours}.webp")
                page.context.clear_cookies()
                page.goto(f"{server.url}/console/explore")
                expect(page.get_by_role("button", name="Sign in")).to_be_visible()
                _save(page, images / f"console-sign-in-{size}-{colours}.webp")
                page.close()
        browser.close()


def _pages(used: dict[str, str]) -> dict[str, str]:
    """Every page by the name of its pictures: a page with tabs has one for each of them."""
    return {
        "explore": "explore",
        "model": "models/local/procedural-image-1",
        "workflows": "workflows",
        "runs": "runs",
        "run": f"runs/{used['run']}",
        "run-failed": f"runs/{used['failed']}",
        "jobs": "jobs",
        "job": f"jobs/{used['job']}",
        "money": "money",
        "money-budgets": "money?tab=budgets",
        "money-alerts": "money?tab=alerts",
        "money-ledger": "money?tab=ledger",
        "money-statement": "money?tab=statement",
        "money-books": "money?tab=books",
        "keys": "keys",
        "keys-limits": "keys?tab=limits",
        "members": "members",
        "members-all": "members?tab=everybody",
        "providers": "providers",
        "providers-keys": "providers?tab=keys",
        "providers-prices": "providers?tab=prices",
        "deployments": "deployments",
        "deployment": f"deployments/{used['deployment']}",
        "settings": "settings",
        "settings-server": "settings?tab=server",
        "settings-upkeep": "settings?tab=upkeep",
        "audit-log": "audit-log",
        "workspaces": "workspaces",
        "workspace": "workspaces/studio",
        "registry": "registry",
        "account": "account",
    }


def _use(server: Server) -> dict[str, str]:
    """Use a server as a small team would; the ids of what was made."""
    with httpx.Client(base_url=server.url, timeout=120) as client:
        client.headers["X-API-Key"] = (server.data / "first-operator-key").read_text("ascii").strip()
        ours = f"{_ADMIN}/workspaces/default"
        _post(client, f"{_ADMIN}/workspaces", {"name": "studio"})
        _post(client, f"{_ADMIN}/workspaces/studio/credit", {"amount": "250", "reason": "invoice 2026-11"})
        for name, role in (("Grace Hopper", "owner"), ("Ada Lovelace", "member"), ("Alan Turing", "viewer")):
            email = f"{name.split()[0].lower()}@example.com"
            _post(client, f"{_ADMIN}/members", {"name": name, "email": email})
            _post(client, f"{ours}/members", {"member": email, "role": role, "unproven": True})
        keys = [
            _post(client, f"{ours}/keys", {"label": label, "team": team, "budget": "40", "budget_period": "month"})
            for label, team in (("website", "web"), ("batch jobs", "studio"))
        ]
        key_id = keys[0]["key"]["id"]
        _post(client, f"{ours}/budgets", {"scope": "workspace", "limit": "50", "period": "month"})
        daily = {"scope": "model", "subject": _PICTURES, "limit": "0.05", "period": "day", "is_enforced": False}
        _post(client, f"{ours}/budgets", daily)
        _post(client, f"{ours}/alert-channels", {"kind": "webhook", "target": "https://alerts.example.com/fairlead"})
        _post(client, f"{ours}/rate-limits", {"scope": "key", "subject": key_id, "per_minute": 120})
        client.put(f"{ours}/provider-keys/fal", json={"key": "0123456789abcdef"}).raise_for_status()
    with httpx.Client(base_url=server.url, timeout=120, headers={"X-API-Key": keys[0]["secret"]}) as client:
        used = _run_models(client)
    with httpx.Client(base_url=server.url, timeout=120, headers={"X-API-Key": keys[1]["secret"]}) as client:
        for subject in ("a castle on a hill", "a train in the snow"):
            _post(client, f"/v2/models/{_PICTURES}", {"prompt": subject, "width": 256, "height": 192})
        used["deployment"] = _post(client, "/api/v2/deployments", {"name": "pictures", "node_packs": []})["id"]
    return used


def _run_models(client: httpx.Client) -> dict[str, str]:
    for subject in ("a harbour at dawn", "a city at night", "a forest in autumn"):
        _post(client, f"/v2/models/{_PICTURES}", {"prompt": subject, "width": 384, "height": 256})
    _post(client, "/v2/models/local/procedural-text-1", {"prompt": "the sea"})
    _post(client, "/v2/models/bfl/flux-2-pro", {"prompt": "a red boat"})
    body = {"prompt": "a lighthouse above a stormy sea", "width": 640, "height": 400}
    run = client.post(f"/v2/models/{_PICTURES}", json=body, headers={"Idempotency-Key": "a-lighthouse"})
    client.post(f"/v2/models/{_PICTURES}", json=body, headers={"Idempotency-Key": "a-lighthouse"})
    failing = {"model_name": "kling-v3", "prompt": "a boat [[fault:failed]]"}
    failed = client.post("/v2/models/kling/kling-v3", json=failing)
    flow = {
        "1": {
            "class_type": "PartnerLocalProceduralImage1",
            "inputs": {"prompt": "a windmill at sunset", "width": 480, "height": 320, "seed": 7},
            "_meta": {"title": "Make a picture"},
        },
        "2": {
            "class_type": "SaveImage",
            "inputs": {"images": ["1", 0], "filename_prefix": "windmill"},
            "_meta": {"title": "Keep the picture"},
        },
    }
    job = _post(client, "/api/prompt", {"prompt": flow})["prompt_id"]
    return {"run": _run_id(run), "failed": _run_id(failed), "job": job}


def _run_id(answer: httpx.Response) -> str:
    return answer.headers["x-service-request-id"]


def _post(client: httpx.Client, path: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = client.post(path, json=body)
    if answer.is_error:
        raise SystemExit(f"{path}: {answer.status_code} {answer.text}")
    document: dict[str, Any] = answer.json()
    return document


def _open(browser: Browser, server: Server, colours: str, width: int, height: int) -> Page:
    headers = {"X-Forwarded-For": f"198.51.100.{width % 250}"}
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme=colours,  # type: ignore[arg-type]
        extra_http_headers=headers,
    )
    page = context.new_page()
    page.set_default_timeout(60_000)
    expect.set_options(timeout=60_000)
    sign_in(page, server.url, (server.data / "first-operator-key").read_text("ascii").strip())
    return page


def _prepare(page: Page, name: str) -> None:
    """Have something on the page that it is for."""
    expect(page.get_by_role("main").get_by_role("heading", level=1)).to_be_visible()
    expect(page.get_by_role("main").get_by_text("Loading…")).to_have_count(0)
    if name == "model":
        run_model(page, "a lighthouse above a stormy sea at dusk")
        page.evaluate("scrollTo(0, 0)")
    if name == "workflows":
        page.get_by_role("button", name="Try an example").click()
        page.get_by_role("button", name="Run", exact=True).click()
        expect(page.get_by_text("succeeded", exact=True)).to_be_visible()
        expect(page.get_by_role("figure").get_by_role("img")).to_have_count(2)
        page.get_by_role("region", name="The job").scroll_into_view_if_needed()
    if name == "money-books":
        page.get_by_role("button", name="Check the books").click()
        expect(page.get_by_text("The books are correct.")).to_be_visible()
    page.wait_for_timeout(700)  # pictures are decoded, charts drawn


def _save(page: Page, path: Path) -> None:
    Image.open(BytesIO(page.screenshot())).convert("RGB").save(path, "WEBP", quality=_QUALITY, method=6)
    if (shown := DOCS / "images" / path.name).exists():
        shutil.copy(path, shown)


if __name__ == "__main__":
    main()
