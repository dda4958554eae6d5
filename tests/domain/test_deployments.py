"""Deployments: the table of their states, their names, and what they take."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.domain.deployments import (
    ID_MAX,
    NAME_MAX,
    TRANSITIONS,
    DeploymentEvent,
    DeploymentNotReady,
    DeploymentState,
    DeploymentStopped,
    DeploymentUnavailable,
    after,
    is_deployment_id,
    pack_set,
    refuse_job,
    refuse_name,
    refuse_pool,
)


@pytest.mark.req("J-15")
@pytest.mark.parametrize(("state", "event"), list(itertools.product(DeploymentState, DeploymentEvent)))
def test_deployment_event_leads_where_the_table_says(state: DeploymentState, event: DeploymentEvent) -> None:
    """Every state and event is a row of the table, or changes nothing."""
    assert after(state, event) is TRANSITIONS.get((state, event), state)


@pytest.mark.req("J-15")
def test_only_a_ready_deployment_takes_jobs() -> None:
    """Only a ready one takes jobs; each of the others has its own refusal."""
    assert refuse_job(DeploymentState.READY, None) is None
    assert refuse_job(DeploymentState.NOT_READY, "why") == DeploymentNotReady()
    assert refuse_job(DeploymentState.UNAVAILABLE, "why") == DeploymentUnavailable()
    assert refuse_job(DeploymentState.STOPPED, "why") == DeploymentStopped("why")


@pytest.mark.parametrize("name", ["a", "a1", "my-pictures", "0", "x" * NAME_MAX])
def test_domain_label_is_a_good_deployment_name(name: str) -> None:
    """What is a label of a domain name, and short enough, is a name."""
    assert refuse_name(name) is None


@pytest.mark.parametrize(
    "name",
    ["", "-a", "a-", "A", "a_b", "a.b", "a b", "ä", "a/b", "..", "a\n", "x" * (NAME_MAX + 1)],
)
def test_name_that_is_no_domain_label_is_refused(name: str) -> None:
    """What could not stand in an address, or would read otherwise there, is not a name."""
    assert refuse_name(name) is not None


@pytest.mark.parametrize(("pool", "refused"), [(None, False), ("gpu", False), ("", True), ("GPU", True)])
def test_pool_of_a_deployment_is_named_as_pools_are(pool: str | None, *, refused: bool) -> None:
    """It has none of its own, or one of a name that settings and commands take."""
    assert (refuse_pool(pool) is not None) is refused


@given(st.text(max_size=80))
def test_deployment_id_is_a_domain_label_of_bounded_length(text: str) -> None:
    """An id has the characters of a label, and as many as one may have."""
    if is_deployment_id(text):
        assert 1 <= len(text) <= ID_MAX
        assert set(text) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
        assert not text.startswith("-")
        assert not text.endswith("-")


def test_set_of_packs_does_not_depend_on_order_or_repetition() -> None:
    """The same packs are the same set; no packs are another than all."""
    assert pack_set(["b", "a", "b"]) == pack_set(["a", "b"]) == ("a", "b")
    assert pack_set([]) == ()
    assert pack_set(None) is None
