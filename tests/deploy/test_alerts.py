"""The alert rules in `deploy/prometheus`: they are rules, they name what servers measure, and promtool takes them."""

import re
import shutil
import subprocess
from collections.abc import Mapping
from typing import Final, Literal

import msgspec
import pytest

from deploy.promql import Named, groupings_in, metrics_in
from form.sources import ROOT

_FILE: Final = ROOT / "deploy" / "prometheus" / "alerts.yaml"
_OF_PROMETHEUS: Final = "up"
"""Made by Prometheus itself for each server that it reads metrics of."""
_ADDED: Final = frozenset({"job", "instance", "le"})
"""Labels that Prometheus adds."""


class _Labels(msgspec.Struct, forbid_unknown_fields=True):
    severity: Literal["critical", "warning"]


class _Annotations(msgspec.Struct, forbid_unknown_fields=True):
    summary: str
    description: str


class Rule(msgspec.Struct, forbid_unknown_fields=True):
    """An alerting rule."""

    alert: str
    expr: str
    labels: _Labels
    annotations: _Annotations
    for_: str = msgspec.field(name="for", default="0m")


class _Group(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    rules: list[Rule]


class _Rules(msgspec.Struct, forbid_unknown_fields=True):
    groups: list[_Group]


RULES: Final = [rule for group in msgspec.yaml.decode(_FILE.read_bytes(), type=_Rules).groups for rule in group.rules]


@pytest.mark.parametrize(
    ("expression", "named"),
    [
        ('rate(a{x="b{c}",y=~"d"}[5m]) / on (j) group_left (z) e > 0.5', {Named("a", frozenset("xy")), Named("e")}),
        ("sum by (a, b) (c) unless ignoring (d) f offset 5m", {Named("c"), Named("f")}),
        ("topk(10, a1e6 * 1e9) or predict_linear(b[6h:1m], 86400) < 0", {Named("a1e6"), Named("b")}),
    ],
)  # fmt: skip
def test_metrics_of_expressions_are_found(expression: str, named: set[Named]) -> None:
    """Strings, labels, ranges, functions and words of the language are not metrics."""
    assert set(metrics_in(expression)) == named


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.alert)
def test_rule_names_what_servers_measure(
    rule: Rule, samples: Mapping[str, str], labels: Mapping[str, frozenset[str]]
) -> None:
    """Every metric is one of a real server's, with labels that it has; a rule about anything else would never fire."""
    named = [one for one in metrics_in(rule.expr) if one.metric != _OF_PROMETHEUS]
    known = {label for one in named for label in labels[samples[one.metric]]} | _ADDED
    for one in named:
        assert one.labels <= labels[samples[one.metric]] | _ADDED, one
    assert groupings_in(rule.expr) <= known
    words = rule.annotations.summary + rule.annotations.description
    assert set(re.findall(r"\$labels\.(\w+)", words)) <= known


def test_alerts_have_names_of_their_own() -> None:
    """An operator can silence each by its name."""
    assert len({rule.alert for rule in RULES}) == len(RULES)


def test_promtool_takes_the_rules() -> None:
    """Prometheus's own tool finds every expression valid."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed: it is in Debian's package prometheus")
    done = subprocess.run([promtool, "check", "rules", str(_FILE)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(RULES)} rules found" in done.stdout + done.stderr
