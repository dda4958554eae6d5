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
def test_example_is_executed_with_live_progress(open_page: Open) -> None:
    """Nodes are told of over the socket while they are executed, and what they made is shown."""
    page = open_page("/console/workflows")
    page.get_by_role("button", name="Try an example").click()
    frames: list[str] = []
    page.on("websocket", lambda socket: socket.on("framereceived", lambda frame: frames.append(str(frame))))
    page.get_by_role("button", name="Run", exact=True).click()
    job = page.get_by_role("region", name="The job")
    expect(job.get_by_text("completed", exact=True)).to_be_visible()
    expect(job.get_by_role("img", name="Keep the picture is done")).to_be_visible()
    expect(job.get_by_role("figure").get_by_role("img")).to_have_count(2)
    assert any("executing" in frame or "progress_state" in frame for frame in frames)


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
    page.get_by_role("link", name="Its own page").click()
    expect(page.get_by_role("img", name="blue_00001_.png")).to_be_visible()
    page.get_by_role("link", name="All jobs").click()
    expect(page.get_by_role("table", name="Jobs").get_by_role("row").nth(1)).to_contain_text("completed")


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
    expect(page.get_by_role("alert")).to_contain_text("This JSON is no workflow")


def _drop(page: Page, folder: Path, workflow: dict[str, Any]) -> None:
    path = folder / "flow.json"
    path.write_text(json.dumps(workflow), encoding="utf-8")
    page.get_by_test_id("workflow-file").set_input_files(path)
