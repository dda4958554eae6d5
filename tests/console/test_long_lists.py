"""Long lists: only the rows in sight exist, the end can be reached, and filters narrow them."""

import sqlite3
from contextlib import closing

import pytest
from playwright.sync_api import Page, expect

from console.conftest import Open
from servers import Server

_ROWS = 10_000
_ACTS = 450
_WATCH = """() => {
  window.longest = 0;
  new PerformanceObserver(list => {
    for (const entry of list.getEntries()) window.longest = Math.max(window.longest, entry.duration);
  }).observe({type: 'longtask', buffered: false});
}"""
_SCROLL = """async (list) => {
  for (let step = 0; step < 60; step += 1) {
    list.scrollTop += 1500;
    await new Promise(requestAnimationFrame);
  }
}"""


@pytest.mark.req("A-04")
def test_ten_thousand_runs_are_scrolled_with_few_rows(open_page: Open, site: Server) -> None:
    """However long the list is, the page holds some tens of rows; what a step took longest is printed with -s."""
    made = site.client.post("/v2/models/local/procedural-text-1", json={"prompt": "rows"})
    assert made.status_code == 200
    _copy_run(site, made.headers["x-service-request-id"])
    try:
        page = open_page("/console/runs")
        table = page.get_by_role("table", name="Runs")
        expect(table.get_by_role("row").nth(5)).to_be_visible()
        page.evaluate(_WATCH)
        _reach_the_end(page)
        assert table.get_by_role("row").count() < 80
        print(f"\nThe longest task while {_ROWS:,} runs were scrolled: {page.evaluate('window.longest'):.0f} ms.")  # noqa: T201 -- shown with -s
    finally:  # the books know nothing of these rows
        with closing(sqlite3.connect(site.data / "fairlead.db")) as database, database:
            database.execute("delete from runs where id like '0000%'")


@pytest.mark.req("A-04")
def test_jobs_are_searched_by_state_deployment_and_label(open_page: Open, site: Server) -> None:
    """What is chosen stands in the address; a label counts once it is whole, and the way back is offered."""
    flow = {"1": {"class_type": "PreviewAny", "inputs": {"source": "sea"}}}
    made = site.client.post("/api/v2/deployments", json={"name": "searched", "node_packs": []}).json()
    job = site.client.post("/api/prompt", json={"prompt": flow}).json()["prompt_id"]
    page = open_page("/console/jobs")
    table = page.get_by_role("table", name="Jobs")
    expect(table.get_by_role("link", name=job[-6:])).to_be_visible()
    page.get_by_label("Label").fill("team")
    expect(table.get_by_role("link", name=job[-6:])).to_be_visible()
    page.get_by_label("Label").fill("team=render")
    expect(page.get_by_text("No job matches these filters.")).to_be_visible()
    page.get_by_role("button", name="Show all jobs").click()
    expect(table.get_by_role("link", name=job[-6:])).to_be_visible()
    page.get_by_label("State").select_option("canceled")
    expect(page.get_by_text("No job matches these filters.")).to_be_visible()
    page.goto(f"{site.url}/console/jobs?state=succeeded")
    expect(table.get_by_role("row", name=job[-6:])).to_contain_text("succeeded")
    page.get_by_label("Deployment").select_option(label="searched")
    expect(page.get_by_text("No job matches these filters.")).to_be_visible()
    assert f"deployment={made['id']}" in page.url
    assert site.client.delete(f"/api/v2/deployments/{made['id']}").status_code == 204


@pytest.mark.req("A-04")
def test_audit_log_is_narrowed_by_day(open_page: Open) -> None:
    """From a day on and up to one; no entry is of tomorrow."""
    page = open_page("/console/audit-log")
    table = page.get_by_role("table", name="Audit log")
    expect(table.get_by_role("row").nth(1)).to_be_visible()
    page.get_by_label("From").fill("2999-01-01")
    expect(page.get_by_text("No change matches.")).to_be_visible()
    page.get_by_role("button", name="Show everything").click()
    expect(table.get_by_role("row").nth(1)).to_be_visible()
    page.get_by_label("To").fill("2001-01-01")
    expect(page.get_by_text("No change matches.")).to_be_visible()


@pytest.mark.req("A-04")
def test_registry_is_read_to_its_end(open_page: Open, site: Server) -> None:
    """Page after page, with few rows at a time."""
    made = site.client.post("/publishers", json={"id": "reader", "name": "Reader"})
    assert made.status_code == 201, made.text
    _copy_acts(site, "reader")
    page = open_page("/console/registry")
    page.get_by_label("Publisher").fill("reader")
    table = page.get_by_role("table", name="Registry")
    while int(table.get_attribute("aria-rowcount") or "0") <= _ACTS:
        table.evaluate(_SCROLL)
    assert table.get_by_role("row").count() < 80


@pytest.mark.req("A-04")
def test_names_are_whole_where_the_page_is_narrow(open_page: Open) -> None:
    """A row has two lines there: models whose names begin alike are told apart. The list follows the window."""
    page = open_page("/console/providers?tab=prices")
    row = page.get_by_role("table", name="Prices").get_by_role("row").nth(1)
    model = row.get_by_role("cell").first
    expect(row).to_be_visible()
    wide = row.bounding_box()
    page.set_viewport_size({"width": 390, "height": 800})
    expect(row.get_by_role("cell")).to_have_count(2)
    narrow = row.bounding_box()
    assert wide is not None
    assert narrow is not None
    assert narrow["height"] > wide["height"]
    assert model.evaluate("cell => cell.scrollHeight <= cell.clientHeight && cell.scrollWidth <= cell.clientWidth")


def _reach_the_end(page: Page) -> None:
    table = page.get_by_role("table", name="Runs")
    while int(table.get_attribute("aria-rowcount") or "0") < _ROWS:
        table.evaluate(_SCROLL)


def _copy_run(site: Server, run: str) -> None:
    """Have ten thousand more runs like this one, which a test has no time to make."""
    with closing(sqlite3.connect(site.data / "fairlead.db", timeout=30)) as database, database:
        columns = [row[1] for row in database.execute("pragma table_info(runs)") if row[1] != "id"]
        names = ", ".join(columns)
        numbers = f"with recursive n(i) as (select 1 union all select i + 1 from n limit {_ROWS})"  # noqa: S608 -- names of columns
        copied = f"select printf('00000000-0000-7000-8000-%012d', i), {names} from n, (select * from runs where id = ?)"  # noqa: S608 -- same
        database.execute(f"insert into runs (id, {names}) {numbers} {copied}", (run,))


def _copy_acts(site: Server, publisher: str) -> None:
    """Have as many more acts of a publisher, each like its first."""
    with closing(sqlite3.connect(site.data / "fairlead.db", timeout=30)) as database, database:
        columns = [row[1] for row in database.execute("pragma table_info(registry_acts)") if row[1] != "id"]
        names = ", ".join(columns)
        numbers = f"with recursive n(i) as (select 1 union all select i + 1 from n limit {_ACTS})"  # noqa: S608 -- names of columns
        copied = f"select {names} from n, (select * from registry_acts where publisher_id = ? limit 1)"  # noqa: S608 -- same
        database.execute(f"insert into registry_acts ({names}) {numbers} {copied}", (publisher,))
