"""Budgets, limits and keys name models that exist: a typing error would bound, or allow, nothing (A-03)."""

from typing import Any

import pytest

from api.admin.conftest import NewPerson
from api.admin.members import Person, refusal_of
from api.conftest import NewName
from servers import Server

pytestmark = pytest.mark.req("A-03")

_NAMING: dict[str, tuple[str, Any]] = {
    "budgets": ("subject", lambda name: {"scope": "model", "subject": name, "limit": "5", "period": "day"}),
    "rate-limits": ("subject", lambda name: {"scope": "model", "subject": name, "per_minute": 9}),
    "keys": ("models", lambda name: {"label": "a", "models": ["fake/*", name]}),
}


@pytest.mark.parametrize("noun", _NAMING)
def test_model_that_does_not_exist_is_refused_with_those_alike(operator: Person, workspace: str, noun: str) -> None:
    """The refusal names the field; a model that exists is taken."""
    field, body = _NAMING[noun]
    path = f"/workspaces/{workspace}/{noun}"
    refused = operator.ask("POST", path, body("fake/json-11"))
    assert refusal_of(refused) == (422, "invalid_input", field)
    assert refused.json()["error"]["message"].startswith("There is no model fake/json-11. Did you mean fake/json-1")
    assert operator.ask("POST", path, body("fake/json-1")).status_code == 201


def test_only_models_that_a_workspace_may_run_are_suggested(
    site: Server, new_person: NewPerson, new_name: NewName
) -> None:
    """An owner learns of no others."""
    name = new_name()
    site.new_workspace(name, "--models", "fake/free-1")
    owner = new_person("owner", name)
    refused = owner.ask("POST", f"/workspaces/{name}/keys", {"label": "a", "models": ["fake/json-11"]})
    assert refused.json()["error"]["message"] == "There is no model fake/json-11."


def test_models_of_a_key_that_is_changed_must_exist(operator: Person, workspace: str) -> None:
    """Those that it gets; what it may run already is left alone."""
    made = operator.ask("POST", f"/workspaces/{workspace}/keys", {"label": "a", "models": ["fake/*"]}).json()["key"]
    path = f"/workspaces/{workspace}/keys/{made['id']}"
    assert operator.ask("PATCH", path, {"label": "b", "models": ["fake/*", "fake/json-1"]}).is_success
    assert refusal_of(operator.ask("PATCH", path, {"models": ["fake/none-1"]})) == (422, "invalid_input", "models")
