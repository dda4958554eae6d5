"""A list of ten thousand runs: only the rows in sight exist, and its end can be reached."""

import sqlite3
from contextlib import closing

import pytest
from playwright.sync_api import Page, expect

from console.conftest import Open
from servers import Server

_ROWS = 10_000
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
