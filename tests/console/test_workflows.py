"""Workflows in the console: a file becomes a form, and its job is watched while it is executed."""

import json
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.sync_api import Page, expect

from console.conftest import Open

_FLOW: Final[dict[str, Any]] = {
    "1": {"class_type": "EmptyImage", "inputs": {"width": 64, "height": 48, "batch_size": 1, "color": 255}},
    "2": {"class_type": "ImageInvert", "inputs": {"image": ["1", 0]}, "_meta": {"title": "Turn the colours"}},
    "3": {"class_type": "SaveImage", "inputs": {"images": ["2", 0], "filename_prefix": "turned"}},
}


@pytest.mark.req("A-04")
def test_example_is_executed_and_its_pictures_are_shown(open_page: Open) -> None:
    """The graph shows what is done, and what the nodes made is shown."""
    page = open_page("/console/workflows")
    page.get_by_role("button", name="Try an example").click()
    page.get_by_role("button", name="Run", exact=True).click()
    job = page.get_by_role("region", name="The job")
    expect(job.get_by_text("succeeded", exact=True)).to_be_visible()
    expect(job.get_by_role("img", name="Save the picture done")).to_be_visible()
    expect(job.get_by_role("figure").get_by_role("img")).to_have_count(2)


@pytest.mark.req("A-04")
def test_nodes_are_told_of_while_they_are_executed(open_page: Open, tmp_path: Path) -> None:
    """The page hears over its socket what a job does that takes some seconds."""
    blurred: dict[str, Any] = {
        str(number): {
            "class_type": "ImageBlur",
            "inputs": {"image": [str(number - 1), 0], "blur_radius": 31, "sigma": 9.5},
        }
        for number in range(2, 22)
    }
    large = {"class_type": "EmptyImage", "inputs": {"width": 1024, "height": 1024, "batch_size": 1, "color": 255}}
    shown = {"class_type": "PreviewImage", "inputs": {"images": ["21", 0]}}
    page = open_page("/console/workflows")
    _drop(page, tmp_path, {"1": large, **blurred, "22": shown})
    with page.expect_websocket() as opened:
        page.get_by_role("button", name="Run", exact=True).click()
    opened.value.wait_for_event("framereceived", lambda frame: "executing" in str(frame))
    expect(page.get_by_role("region", name="The job").get_by_text("succeeded", exact=True)).to_be_visible(
        timeout=60_000
    )


def test_file_becomes_a_form_whose_values_are_executed(open_page: Open, tmp_path: Path) -> None:
    """Each constant of the workflow is a field with the bounds of its node, and what is typed is what is run."""
    page = open_page("/console/workflows")
    _drop(page, tmp_path, _FLOW)
    page.get_by_role("spinbutton", name="Width").fill("96")
    page.get_by_label("Filename prefix").fill("blue")
    page.get_by_role("button", name="Run", exact=True).click()
    picture = page.get_by_role("img", name="blue_00001_.png")
    expect(picture).to_be_visible()
    assert picture.evaluate("image => image.naturalWidth") == 96
    page.get_by_role("link", name="Open the job").click()
    expect(page.get_by_role("img", name="blue_00001_.png")).to_be_visible()
    page.get_by_role("link", name="All jobs").click()
    expect(page.get_by_role("table", name="Jobs").get_by_role("row").nth(1)).to_contain_text("succeeded")


def test_mistake_is_shown_at_the_input_of_its_node(open_page: Open, tmp_path: Path) -> None:
    """What the server finds wrong with a node stands at the field, and the node is marked in the graph."""
    page = open_page("/console/workflows")
    _drop(page, tmp_path, _FLOW)
    page.get_by_role("spinbutton", name="Width").fill("-4")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_role("spinbutton", name="Width")).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_role("form").get_by_role("group").first.get_by_role("alert")).to_contain_text("-4")


def test_file_that_is_no_workflow_is_refused_in_a_sentence(open_page: Open, tmp_path: Path) -> None:
    """A drawing of an editor, or anything else, is named for what it is."""
    page = open_page("/console/workflows")
    _drop(page, tmp_path, {"nodes": [], "links": []})
    expect(page.get_by_role("alert")).to_contain_text("Export it in the API format")
    _drop(page, tmp_path, {"title": "something else"})
    expect(page.get_by_role("alert")).to_contain_text("This JSON is not a workflow")


def _drop(page: Page, folder: Path, workflow: dict[str, Any]) -> None:
    path = folder / "flow.json"
    path.write_text(json.dumps(workflow), encoding="utf-8")
    page.get_by_test_id("workflow-file").set_input_files(path)
