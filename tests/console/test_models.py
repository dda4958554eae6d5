"""Running models in the console: at once, through the queue, again, and wrongly."""

import re
from base64 import b64decode
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, ViewportSize, expect

from console.conftest import NARROW, WIDE, Open
from console.people import run_model
from servers import Server

_PICTURES = "/console/models/local/procedural-image-1"


def test_model_is_found_by_what_it_makes_and_by_name(open_page: Open) -> None:
    """Search and filters together leave what fits both, and an empty search offers the way back."""
    page = open_page()
    page.get_by_role("button", name="Sound").click()
    page.get_by_label("Search").fill("procedural")
    expect(page.get_by_text("1 model", exact=True)).to_be_visible()
    expect(page.get_by_role("link", name="procedural-audio-1")).to_be_visible()
    page.get_by_label("Search").fill("no such model")
    page.get_by_role("button", name="Show all models").click()
    expect(page.get_by_role("link", name="procedural-image-1")).to_be_visible()


def test_price_follows_the_form(open_page: Open) -> None:
    """A larger picture costs more, before anything is run."""
    page = open_page(_PICTURES)
    page.get_by_label("Prompt").fill("a boat")
    price = page.get_by_role("form").locator(".estimate strong")
    expect(price).to_contain_text("about $")
    first = price.inner_text()
    page.get_by_role("spinbutton", name="Width").fill("2048")
    expect(price).not_to_have_text(first)


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_page_of_a_model_opens_at_its_top_and_stays_there(open_page: Open, size: ViewportSize) -> None:
    """Title and prompt are in view when everything has appeared, also what is far below."""
    page = open_page(_PICTURES, viewport=size)
    expect(page.get_by_role("tab", name="curl")).to_be_attached()
    expect(page.get_by_role("heading", level=1)).to_be_in_viewport()
    assert page.evaluate("scrollY") == 0


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_button_stays_under_the_pointer_while_the_price_changes(open_page: Open, size: ViewportSize) -> None:
    """A longer or shorter price that has just come makes no click miss the button."""
    page = open_page(_PICTURES, viewport=size)
    price = page.get_by_role("form").locator(".estimate")
    button = page.get_by_role("button", name="Run", exact=True)
    expect(price).to_contain_text("Price: ")
    before = button.bounding_box()
    page.get_by_label("Prompt").fill("a boat")
    expect(price).to_contain_text("This run costs")
    assert button.bounding_box() == before


def test_picture_is_made_kept_and_made_again_with_changes(open_page: Open) -> None:
    """What was made stays in the history; any two are compared, and a body is taken over to be changed."""
    page = open_page(_PICTURES)
    run_model(page, "a red boat on the sea")
    run_model(page, "a forest in the snow")
    for box in page.get_by_role("checkbox", name="Compare").all():
        box.check()
    page.get_by_role("button", name="Compare", exact=True).click()
    dialog = page.get_by_role("dialog", name="Side by side")
    expect(dialog.get_by_role("img")).to_have_count(2)
    expect(dialog.get_by_role("row", name="Prompt")).to_contain_text("a red boat on the sea")
    dialog.get_by_role("button", name="Close").click()
    page.get_by_role("button", name="Run again with changes").last.click()
    expect(page.get_by_label("Prompt")).to_have_value("a red boat on the sea")
    page.reload()
    expect(page.get_by_role("button", name="Show: a red boat on the sea")).to_be_visible()


def test_queued_run_is_waited_for(open_page: Open, site: Server) -> None:
    """A run through the queue shows how it stands, and then its result."""
    page = open_page(_PICTURES)
    page.get_by_label("Prompt").fill("a city at night")
    with page.expect_response("**/requests") as submitted:
        page.get_by_role("button", name="Queue").click()
    expect(page.get_by_role("region", name="Result").get_by_role("img", name="a city at night")).to_be_visible()
    assert submitted.value.json()["request_id"] in [run["id"] for run in site.cli("runs", "list", "default", "--json")]


def test_server_says_at_the_field_what_is_wrong(open_page: Open) -> None:
    """A field shows the server's own message, and the rest of the form stays as it was."""
    page = open_page(_PICTURES)
    page.get_by_label("Prompt").fill("a mountain")
    page.get_by_role("spinbutton", name="Width").fill("9")
    page.get_by_role("button", name="Run", exact=True).click()
    field = page.get_by_role("spinbutton", name="Width")
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_role("form").get_by_role("alert")).to_have_text("9 is less than the minimum of 64")
    expect(page.get_by_label("Prompt")).to_have_value("a mountain")


def test_picture_of_ones_own_is_dropped_and_edited(open_page: Open, tmp_path: Path) -> None:
    """A file becomes part of the body in the form that the model takes."""
    page = open_page(_PICTURES)
    run_model(page, "a lake")
    with page.expect_download() as saved:
        page.get_by_role("link", name="Save").click()
    picture = tmp_path / "lake.png"
    saved.value.save_as(picture)
    page.locator("input[type=file]").first.set_input_files(picture)
    expect(page.get_by_role("img", name="The chosen file")).to_be_visible()
    run_model(page, "make it night")
    expect(page.get_by_role("tabpanel", name="curl")).to_contain_text("data:image/png;base64,")


@pytest.mark.parametrize(
    ("model", "smaller", "made"),
    [
        ("video", {"Width": "64", "Height": "64", "Duration seconds": "0.5"}, "video"),
        ("audio", {}, "audio"),
        ("text", {}, ".prose"),
    ],
)
def test_result_is_shown_as_what_it_is(open_page: Open, model: str, smaller: dict[str, str], made: str) -> None:
    """Clips and sounds are played, texts are read."""
    page = open_page(f"/console/models/local/procedural-{model}-1")
    page.get_by_label("Prompt").fill("rain over the harbour")
    for name, value in smaller.items():
        page.get_by_role("spinbutton", name=name).fill(value)
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_role("region", name="Result").locator(made).first).to_be_visible()


@pytest.mark.req("A-04")
def test_3d_model_is_turned_named_and_saved(open_page: Open, tmp_path: Path) -> None:
    """It is drawn where the browser can, stands with its preview, name and size, and so do forms nobody can draw here.

    Its preview is its picture in the history.
    """
    page = open_page("/console/models/meshy/meshy-6")
    page.get_by_label("Prompt", exact=True).fill("a chair")
    page.get_by_role("button", name="Run", exact=True).click()
    result = page.get_by_role("region", name="Result")
    model = result.get_by_role("figure").filter(has_text=".glb")
    expect(model.locator("canvas").or_(model.get_by_text("This browser cannot draw 3D."))).to_be_visible()
    expect(model).to_contain_text(re.compile(r"meshy-6-\w+-1\.glb, [\d.]+ (bytes|KiB)"))
    expect(result.get_by_role("figure").filter(has_text=".obj")).to_contain_text("A file")
    expect(result.locator("figure > img")).to_have_count(1)
    with page.expect_download() as saved:
        model.get_by_role("link", name="Save").click()
    saved.value.save_as(tmp_path / "chair.glb")
    assert saved.value.suggested_filename.endswith(".glb")
    assert (tmp_path / "chair.glb").read_bytes().startswith(b"glTF")
    expect(page.get_by_role("button", name="Show: a chair").locator("img")).to_be_visible()


@pytest.mark.parametrize("language", ["curl", "Python", "TypeScript"])
def test_call_is_shown_in_code(open_page: Open, language: str) -> None:
    """The code makes the call of the form, with the key in the reader's environment."""
    page = open_page(_PICTURES)
    page.get_by_label("Prompt").fill("an island")
    page.get_by_role("tab", name=language).click()
    code = page.get_by_role("tabpanel", name=language)
    expect(code).to_contain_text("/v2/models/local/procedural-image-1")
    expect(code).to_contain_text("an island")
    expect(code).to_contain_text("FAIRLEAD_KEY")


def test_mask_is_drawn_over_the_picture(open_page: Open, picture: Path) -> None:
    """Strokes become a picture of the same size, white where something is to change."""
    page = open_page("/console/models/bfl/flux-pro-1.0-fill")
    page.locator("input[type=file]").first.set_input_files(picture)
    canvas = page.get_by_role("img", name="Paint over the part that should change")
    _draw(page, canvas)
    expect(page.get_by_role("tabpanel", name="curl")).to_contain_text('"mask"')


@pytest.fixture
def picture(site: Server, tmp_path: Path) -> Path:
    """Return a small picture."""
    made = site.client.post("/v2/models/local/procedural-image-1", json={"prompt": "sea", "width": 256, "height": 192})
    path = tmp_path / "sea.png"
    path.write_bytes(b64decode(made.json()["data"][0]["b64_json"]))
    return path


def _draw(page: Page, canvas: Locator) -> None:
    box = canvas.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + box["height"] * 0.5)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.7, box["y"] + box["height"] * 0.5, steps=5)
    page.mouse.up()
