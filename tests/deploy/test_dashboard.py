"""The dashboard in `deploy/grafana`: Grafana can place its panels, and each shows what servers measure."""

import re
from collections.abc import Mapping
from typing import Final, Literal

import msgspec
import pytest

from deploy.promql import groupings_in, metrics_in
from form.sources import ROOT

_FILE: Final = ROOT / "deploy" / "grafana" / "fairlead.json"
_COLUMNS: Final = 24
_ADDED: Final = frozenset({"job", "instance", "le"})


class _Source(msgspec.Struct):
    type: Literal["prometheus"]
    uid: Literal["${datasource}"]


class _Place(msgspec.Struct, forbid_unknown_fields=True):
    h: int
    w: int
    x: int
    y: int


class _Target(msgspec.Struct, kw_only=True):
    ref_id: str = msgspec.field(name="refId")
    expr: str
    legend: str = msgspec.field(name="legendFormat")
    datasource: _Source


class _Panel(msgspec.Struct, kw_only=True):
    id: int
    type: Literal["row", "timeseries", "stat", "table"]
    title: str
    place: _Place = msgspec.field(name="gridPos")
    description: str = ""
    datasource: _Source | None = None
    targets: list[_Target] = []


class _Variable(msgspec.Struct):
    name: str
    type: str
    query: str


class _Variables(msgspec.Struct):
    list: list[_Variable]


class _Dashboard(msgspec.Struct, kw_only=True):
    uid: str
    title: str
    schema_version: int = msgspec.field(name="schemaVersion")
    templating: _Variables
    panels: list[_Panel]


DASHBOARD: Final = msgspec.json.decode(_FILE.read_bytes(), type=_Dashboard)
_SHOWN: Final = [panel for panel in DASHBOARD.panels if panel.type != "row"]


def test_panels_do_not_cover_each_other() -> None:
    """Each has an id of its own, is within the columns there are, and covers no other."""
    assert len({panel.id for panel in DASHBOARD.panels}) == len(DASHBOARD.panels)
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD.panels:
        place = panel.place
        cells = {(x, y) for x in range(place.x, place.x + place.w) for y in range(place.y, place.y + place.h)}
        assert place.x + place.w <= _COLUMNS
        assert not cells & taken, panel.title
        taken |= cells


@pytest.mark.parametrize("panel", _SHOWN, ids=lambda panel: panel.title)
def test_panel_shows_what_servers_measure(
    panel: _Panel, samples: Mapping[str, str], labels: Mapping[str, frozenset[str]]
) -> None:
    """Every expression names metrics of a real server, selects by labels that these have, and says what it shows."""
    assert panel.description
    assert panel.targets
    for target in panel.targets:
        named = list(metrics_in(target.expr))
        assert named
        known = {label for one in named for label in labels[samples[one.metric]]} | _ADDED
        for one in named:
            assert one.labels <= labels[samples[one.metric]] | _ADDED, one
        assert groupings_in(target.expr) <= known


def test_variables_that_are_used_are_declared() -> None:
    """Grafana asks for the installation and the servers once, and each panel takes them from there."""
    variables = {variable.name: variable for variable in DASHBOARD.templating.list}
    assert set(variables) == {"datasource", "job", "instance"}
    text = _FILE.read_text(encoding="utf-8").replace("$__rate_interval", "")
    assert set(re.findall(r"\$\{?(\w+)\}?", text)) == set(variables)
