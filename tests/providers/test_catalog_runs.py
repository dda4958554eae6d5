"""The catalog as a caller meets it: every model over every leg through a real server, as `make catalog-run` does it."""

import json
from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Final

import jsonschema_rs
import pytest

from catalog_queue import compare_queued
from catalog_run import Made, models_without_samples, run_calls, run_catalog
from catalog_samples import Call, calls
from fairlead.domain.assets.links import links_in
from fairlead.domain.catalog.models import Model
from fairlead.server.installation import LOCAL
from machine import limit

_PROMPTS: Final = {"prompt", "promptText", "prompt_text", "text", "text_prompt", "texture_prompt"}
"""What fields are called that hold a caller's own words."""
_INLINE: Final = {"gemini-interactions", "openai", "veo"}
"""Those that send what they make in their answers, unless they are asked for links."""


@pytest.mark.timeout(limit(600))
@pytest.mark.req("R-12", "X-02")
def test_every_model_of_the_catalog_runs(tmp_path: Path) -> None:
    """Every model completes over every leg, costs what was estimated, and answers as described; the books add up."""
    made = run_catalog(tmp_path / "data")
    assert models_without_samples() == []
    assert [one.row() for one in made if not one.is_well] == []
    completed = [one for one in made if one.call.leg is not None]
    assert [(one.row(), problem) for one in completed if (problem := _mismatch(one))] == []
    assert [one.row() for one in completed if not one.is_as_told] == []
    native = [one for one in completed if one.call.leg is one.call.model.native]
    assert [one.row() for one in native if not _is_ours(one)] == []
    measured = {one.call.model.id: float(one.credits) for one in native if _is_measured_here(one.call.model)}
    assert {"bria/video-edit-erase", "freepik/ai-image-upscaler-precision-v2"} <= measured.keys()
    assert measured["bria/video-edit-remove-background"] < 211 * 0.0225 * 10, "a clip of a second costs no minute"


@pytest.mark.timeout(limit(600))
@pytest.mark.req("R-32", "R-34")
def test_every_call_ends_alike_through_the_queue(tmp_path: Path) -> None:
    """Every call of a provider ends in the same bytes, type, credits and dropped fields; bytes are refused.

    `make catalog-run` compares every model.
    """
    wanted = _one_of_each_call()
    compared = compare_queued(tmp_path, wanted)
    assert [one.row() for one in compared if one.difference or one.status != 200] == []
    assert {one.is_queueable for one in compared} == {True, False}


def _one_of_each_call() -> list[Call]:
    """A run of each call of each provider file."""
    found: dict[tuple[str, str], Call] = {}
    for call in calls():
        if call.leg is not None and call.sample is not None:
            found.setdefault((call.leg.provider, call.leg.calls[call.sample.operation.name]), call)
    return list(found.values())


@pytest.mark.req("R-36")
def test_result_with_an_expired_link_is_delivered(tmp_path: Path) -> None:
    """A result whose assets cannot be copied is told all the same, priced, and with the vendor's own links."""
    wanted = list(_with_expired_links())
    made = run_calls(tmp_path / "data", wanted)
    assert len({call.model.provider for call in wanted}) >= 20
    assert [one.row() for one in made if not one.is_well] == []
    assert [one.row() for one in made if not _links(one) or any("/assets/" in link for link in _links(one))] == []


def _with_expired_links() -> Iterator[Call]:
    """A native run of each vendor whose answers have links, asking its simulator in words that they have expired."""
    seen = {*_INLINE, LOCAL}
    for call in calls():
        if call.sample is None or call.leg is not call.model.native or not call.model.assets.at:
            continue
        body = _asking(call.sample.body, "[[fault:expired-link]]")
        if body != call.sample.body and call.model.provider not in seen:
            seen.add(call.model.provider)
            yield replace(call, sample=replace(call.sample, body=body))


def _asking(value: Any, words: str) -> Any:
    """A body with some words added to its prompts."""
    if isinstance(value, list):
        return [_asking(item, words) for item in value]
    if isinstance(value, dict):
        return {
            name: f"{inner} {words}" if isinstance(inner, str) and name in _PROMPTS else _asking(inner, words)
            for name, inner in value.items()
        }
    return value


def _mismatch(made: Made) -> str | None:
    """Why a result is not what the model's schema document promises, whichever provider it is of."""
    described = _described_results(made.call.model)
    if described is None:
        return None
    media_type, schema = described
    if not fnmatch(made.answer.headers["content-type"].partition(";")[0], media_type):
        return f"{made.answer.headers['content-type']} instead of {media_type}"
    if schema is None:
        return None
    errors = jsonschema_rs.Draft202012Validator(schema).iter_errors(made.answer.json())
    return next((f"{error.instance_path}: {error.message}"[:200] for error in errors), None)


def _described_results(model: Model) -> tuple[str, Any] | None:
    """The media type of a model's results, and their schema where they are JSON that is described."""
    document = json.loads(model.openapi.content)
    content = document["paths"][f"/v2/models/{model.id}"]["post"]["responses"]["200"].get("content")
    if not content:
        return None
    ((media_type, entry),) = content.items()
    return media_type, entry.get("schema") if media_type == "application/json" else None


def _is_measured_here(model: Model) -> bool:
    """Whether a model's price is made of a property of the stored result."""
    return any(part.measured and part.measured.result for part in model.native.rate_cards[-1].components)


def _is_ours(made: Made) -> bool:
    """Whether the links that are to be copied are links to this server's copies (R-36)."""
    if not made.call.model.assets.at:
        return True
    links = _links(made)
    return all("/assets/" in link for link in links) and (bool(links) or made.call.model.provider in _INLINE)


def _links(made: Made) -> list[str]:
    """The links of a result that the model's file lists."""
    return list(links_in(made.call.model.assets, made.answer.json()).values())
