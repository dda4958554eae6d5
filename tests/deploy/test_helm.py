"""The Helm chart, rendered by Helm itself: valid for Kubernetes, without rights, with time to stop, and scaled."""

import asyncio
import importlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
import pytest
from sqlalchemy import text

from databases import opened_database
from deploy.kit import DEPLOY, assert_is_command, unknown_settings

_CHART: Final = str(DEPLOY / "helm" / "fairlead")
_KUBERNETES: Final = ("1.27", "1.37")
"""The oldest that the chart says it is for, and the newest whose schemas there are."""
_FULL: Final[Mapping[str, Any]] = {
    "servers": {"work": False, "nodeSelector": {"disk": "fast"}},
    "workers": {
        "gpu": {
            "places": 2,
            "settings": {"FAIRLEAD_ENGINE_DEVICES": "/dev/nvidia0"},
            "resources": {"limits": {"nvidia.com/gpu": 1}},
            "tolerations": [{"key": "gpu", "operator": "Exists"}],
            "autoscaling": {"enabled": True, "min": 0, "max": 4},
        },
        "models": {"places": 200, "replicas": 2},
    },
    "secretsFrom": ["fairlead-providers"],
    "imagePullSecrets": [{"name": "registry"}],
    "releasePacks": {"existingClaim": "packs"},
    "ingress": {"enabled": True, "className": "nginx", "tls": [{"hosts": ["fairlead.example"], "secretName": "tls"}]},
    "podMonitor": {"enabled": True},
}
_OTHERS: Final = frozenset({"ScaledObject", "PodMonitor"})
"""Of KEDA and of Prometheus's operator, whose schemas are not those of Kubernetes."""


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        pytest.skip(f"{name} is not installed: `make test` installs what requirements/kit.txt names")


@pytest.fixture(scope="module")
def chart() -> Iterator[Any]:
    """Return the chart, as Helm has loaded it."""
    with _library("helm_python").Chart.load(_CHART) as loaded:
        yield loaded


@pytest.fixture(scope="module", params=[{}, _FULL], ids=["as it is", "with everything"])
def rendered(request: pytest.FixtureRequest, chart: Any) -> list[dict[str, Any]]:
    """Return everything that the chart makes, with its own values and with all that can be set."""
    chart.validate_schema(dict(request.param))
    return _documents(chart.render(dict(request.param), name="prod", namespace="media"))


def _documents(texts: Mapping[str, str]) -> list[dict[str, Any]]:
    parts = [part for one in texts.values() for part in one.split("\n---\n")]
    return [found for part in parts if (found := msgspec.yaml.decode(part)) is not None]


def _pods(rendered: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one["spec"]["template"]["spec"] for one in rendered if one["kind"] in ("Deployment", "Job")]


def _of_kind(rendered: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [one for one in rendered if one["kind"] == kind]


def test_helm_finds_no_fault_in_the_chart() -> None:
    """Nothing is an error or a warning."""
    found = _library("helm_python").lint(_CHART)
    assert found["errors"] == []
    assert [message for message in found["messages"] if message["severity"] > 1] == []


@pytest.mark.parametrize("version", _KUBERNETES)
def test_everything_is_valid_for_kubernetes(rendered: list[dict[str, Any]], version: str) -> None:
    """By the schemas of the oldest version and of the newest, without a field that they do not know."""
    validate = _library("kubernetes_validate").validate
    for document in rendered:
        if document["kind"] not in _OTHERS:
            validate(document, version, strict=True)


def test_pods_have_no_rights(rendered: list[dict[str, Any]]) -> None:
    """A user without a name, no capabilities, nothing to write to but volumes, and no token of the cluster."""
    for pod in _pods(rendered):
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        for container in (*pod["containers"], *pod.get("initContainers", ())):
            context = container["securityContext"]
            assert (context["allowPrivilegeEscalation"], context["readOnlyRootFilesystem"]) == (False, True)
            assert context["capabilities"] == {"drop": ["ALL"]}


def test_pods_start_commands_that_exist(rendered: list[dict[str, Any]]) -> None:
    """With options and settings that exist, and secrets only by reference."""
    for pod in _pods(rendered):
        (container,) = pod["containers"]
        assert_is_command(container["args"])
        named = " ".join(variable["name"] for variable in container["env"])
        assert unknown_settings(named) == set()
        by_reference = {variable["name"] for variable in container["env"] if "valueFrom" in variable}
        assert by_reference == {"FAIRLEAD_DATABASE", "FAIRLEAD_SECRET_KEY"}
        names = [variable["name"] for variable in container["env"]]
        assert len(set(names)) == len(names)


def test_pods_are_asked_and_have_time_to_stop(rendered: list[dict[str, Any]]) -> None:
    """Alive at /healthz, ready at /readyz; the grace is longer than the pause and the wait together."""
    for deployment in _of_kind(rendered, "Deployment"):
        pod = deployment["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
        assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
        waits = [int(one["value"]) for one in container["env"] if one["name"].startswith("FAIRLEAD_DRAIN_")]
        assert pod["terminationGracePeriodSeconds"] > sum(waits) > 0
    budgets = {one["metadata"]["name"] for one in _of_kind(rendered, "PodDisruptionBudget")}
    assert budgets == {one["metadata"]["name"] for one in _of_kind(rendered, "Deployment")}


def test_selectors_find_their_pods_and_no_others(rendered: list[dict[str, Any]]) -> None:
    """Each deployment, budget and service selects the pods of one deployment."""
    labels = [one["spec"]["template"]["metadata"]["labels"].items() for one in _of_kind(rendered, "Deployment")]
    for one in rendered:
        selector = one["spec"]["selector"] if one["kind"] == "Service" else one.get("spec", {}).get("selector", {})
        wanted = selector.get("matchLabels", selector)
        if one["kind"] in ("Deployment", "PodDisruptionBudget", "Service"):
            assert sum(wanted.items() <= found for found in labels) == 1


@pytest.mark.parametrize(
    "values",
    [
        {"workers": {"Not a name": {"places": 1}}},
        {"workers": {"gpu": {}}},
        {"settings": {"LOG_FORMAT": "json"}},
        {"secrets": {"FAIRLEAD_SECRET_KEY": "in the open"}},
        {"replicas": 3},
    ],
)
def test_values_that_would_be_ignored_are_refused(chart: Any, values: dict[str, Any]) -> None:
    """A misspelled value, a secret as text, or a pool without places stops the installation with the reason."""
    with pytest.raises(Exception, match=r"propertyName|missing propert|additional propert|got string"):
        chart.validate_schema(values)


def test_scaled_pool_asks_the_database_what_waits_for_it(chart: Any, postgresql_url: str) -> None:
    """KEDA's query is one that the database answers; a pool that is scaled has no number of its own."""
    documents = _documents(chart.render(dict(_FULL), name="prod", namespace="media"))
    (scaled,) = _of_kind(documents, "ScaledObject")
    (trigger,) = scaled["spec"]["triggers"]
    target = scaled["spec"]["scaleTargetRef"]["name"]
    (deployment,) = [one for one in _of_kind(documents, "Deployment") if one["metadata"]["name"] == target]
    assert "replicas" not in deployment["spec"]
    assert trigger["metadata"]["connectionFromEnv"] == "FAIRLEAD_DATABASE"

    async def ask() -> Any:
        async with opened_database(postgresql_url) as database:
            return await database.read(lambda c: c.execute(text(trigger["metadata"]["query"])).scalar_one())

    assert asyncio.run(ask()) == 0
