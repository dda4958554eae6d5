"""What a body asks for, at which price, and which of its fields a model knows (R-15, R-16, R-27)."""

from typing import Any, Final

import httpx
import pytest

from api.conftest import NewName
from api.legs import EDITS, INLINE, NATIVE, PICTURE
from fake_partner import FakePartner, Request, reply_json
from servers import Server

_FIRST: Final = {"type": "image_url", "role": "first_frame", "image_url": {"url": "https://a"}}
_REFERENCE: Final = {"type": "image_url", "role": "reference_image", "image_url": {"url": "https://a"}}
_CLIP: Final = {"type": "video_url", "role": "reference_video", "video_url": {"url": "https://a"}}
_BARE: Final = {"type": "image_url", "image_url": {"url": "https://a"}}
_TEXT: Final = {"type": "text", "text": "a"}


def _run(legs: Server, model: str, body: Any, **params: str) -> httpx.Response:
    return legs.client.post(f"/v2/models/fake/{model}", params=params, json=body)


def _charge(legs: Server, response: httpx.Response) -> str:
    (charged,) = legs.charges(response.headers["x-service-request-id"])
    return charged


@pytest.mark.req("R-15")
@pytest.mark.parametrize(
    ("model", "status"), [("undeclared", 422), ("closed", 422), ("open", 200), ("unauthored", 200)]
)
def test_unknown_field_is_refused_on_request(legs: Server, partner: FakePartner, model: str, status: int) -> None:
    """With `reject_unknown_fields` a top-level field is refused unless the schema takes others, or there is none."""
    response = _run(legs, f"{model}-1", {"prompt": "a", "other": 1}, reject_unknown_fields="true")
    assert response.status_code == status
    if status == 422:
        (entry,) = response.json()["detail"]
        assert (entry["loc"], entry["type"]) == (["body", "other"], "extra_forbidden")
        assert response.headers["x-service-error-type"] == "invalid_input"
        assert not partner.requests()


@pytest.mark.req("R-15")
@pytest.mark.parametrize(
    ("model", "status"), [("undeclared", 200), ("closed", 422), ("open", 200), ("unauthored", 200)]
)
@pytest.mark.parametrize("params", [{}, {"reject_unknown_fields": "false"}])
def test_unknown_field_is_accepted_by_default(legs: Server, params: dict[str, str], model: str, status: int) -> None:
    """Without the switch only a schema that says it takes no others refuses a field it does not know."""
    assert _run(legs, f"{model}-1", {"prompt": "a", "other": 1}, **params).status_code == status


@pytest.mark.req("R-15")
def test_nested_field_is_never_refused_as_unknown(legs: Server) -> None:
    """Only the top level is looked at."""
    body = {"prompt": "a", "more": {"other": 1}}
    assert _run(legs, "many-1", body, reject_unknown_fields="true").status_code == 200


@pytest.mark.req("R-13", "R-15")
@pytest.mark.parametrize(
    ("model", "status"), [("undeclared", 422), ("closed", 422), ("open", 200), ("unauthored", 200)]
)
def test_synchronous_strict_run_refuses_unknown_fields(legs: Server, model: str, status: int) -> None:
    """The exemption of strict bodies is the queue's: a synchronous strict run is held against the declared fields."""
    strict = {"model_provider": "fal", "strict_mode": "true"}
    body = {"prompt": 1, "other": 1}
    assert _run(legs, f"{model}-1", body, **strict).status_code == 200
    assert _run(legs, f"{model}-1", body, **strict, reject_unknown_fields="true").status_code == status


def _parts(request: Request) -> list[tuple[str, bytes]]:
    """The parts of a form: what each says of itself, and its content."""
    boundary = request.headers["content-type"].partition("boundary=")[2].encode()
    pieces = request.body.split(b"--" + boundary)[1:-1]
    read = [piece.strip(b"\r\n").partition(b"\r\n\r\n") for piece in pieces]
    return [(head.decode(), content) for head, _, content in read]


@pytest.mark.req("R-16")
def test_picture_makes_it_an_edit(legs: Server, partner: FakePartner) -> None:
    """A body with an input image is sent to the edit call, as a form with the file in it, at the price of edits."""
    response = _run(legs, "many-1", {"prompt": "é", "image": INLINE, "n": 2})
    assert (response.status_code, response.json()) == (200, {"leg": "edits"})
    (sent,) = partner.requests()
    assert (sent.path, sent.headers["content-type"].partition(";")[0]) == (EDITS, "multipart/form-data")
    parts = _parts(sent)
    assert [content for head, content in parts if 'name="prompt"' in head] == ["é".encode()]
    assert [content for head, content in parts if 'name="n"' in head] == [b"2"]
    assert [content for head, content in parts if 'name="model"' in head] == [b"many-1"]
    files = [(head, content) for head, content in parts if "filename=" in head]
    assert [content for _, content in files] == [PICTURE]
    assert 'name="image[]"' in files[0][0]
    assert "Content-Type: image/png" in files[0][0]
    assert _charge(legs, response) == "0.03"


@pytest.mark.req("R-16")
def test_several_pictures_are_several_files(legs: Server, partner: FakePartner) -> None:
    """An array of images is as many files."""
    assert _run(legs, "many-1", {"prompt": "a", "image": [INLINE, INLINE]}).status_code == 200
    files = [content for head, content in _parts(partner.requests(EDITS)[0]) if "filename=" in head]
    assert files == [PICTURE, PICTURE]


@pytest.mark.req("R-16")
@pytest.mark.parametrize("image", [None, "", []])
def test_body_without_a_picture_is_no_edit(legs: Server, partner: FakePartner, image: Any) -> None:
    """A body without an input image generates, at the price of that."""
    body = {"prompt": "a", "n": 3} | ({} if image is None else {"image": image})
    response = _run(legs, "many-1", body)
    assert [request.path for request in partner.requests()] == [NATIVE]
    assert _charge(legs, response) == "0.03"


@pytest.mark.req("R-16")
def test_edit_at_an_alternate_costs_that_providers_rate(legs: Server) -> None:
    """With an alternate an operation has that provider's own rate."""
    prices = {}
    for name, more in (("generate", {}), ("edit", {"image": INLINE})):
        response = _run(legs, "many-1", {"prompt": "a", **more}, model_provider="wavespeed")
        prices[name] = _charge(legs, response)
    assert prices == {"generate": "0.03", "edit": "0.04"}


@pytest.mark.req("R-16")
@pytest.mark.parametrize("image", ["no-link", "data:image/png;base64,@@@", "data:text"])
def test_missing_file_is_400(legs: Server, partner: FakePartner, image: str) -> None:
    """A picture that can be had from nowhere is 400, and the partner is not asked."""
    response = _run(legs, "many-1", {"prompt": "a", "image": image})
    assert (response.status_code, response.json()["error_type"]) == (400, "invalid_input")
    assert not partner.requests()


@pytest.mark.req("R-16")
@pytest.mark.parametrize(
    ("content", "called", "price"),
    [
        pytest.param([_TEXT], "t2v", "0.05", id="text"),
        pytest.param([_TEXT, _FIRST], "i2v", "0.06", id="a first frame"),
        pytest.param([_TEXT, _REFERENCE], "r2v", "0.06", id="a reference image"),
        pytest.param([_TEXT, _CLIP], "r2v", "0.07", id="a reference clip"),
        pytest.param([_TEXT, _REFERENCE, _CLIP], "r2v", "0.07", id="an image and a clip"),
        pytest.param([_FIRST, {**_CLIP, "role": "anything"}], "i2v", "0.07", id="a first frame and a clip"),
        pytest.param([_TEXT, _BARE], "t2v", "0.06", id="an image without a role"),
    ],
)
def test_role_selects_the_operation_and_media_the_price(
    legs: Server, partner: FakePartner, content: list[Any], called: str, price: str
) -> None:
    """The role of the items selects the operation; the kind of media among them selects the price."""
    partner.script(f"/named/{called}", reply_json({"id": "t-1"}))
    partner.script("/named/tasks/t-1", reply_json({"state": "done"}))
    response = _run(legs, "roles-1", {"content": content})
    assert response.status_code == 200, response.text
    assert _charge(legs, response) == price


@pytest.mark.req("R-16")
def test_final_render_is_billed_as_its_draft(legs: Server, partner: FakePartner, new_name: NewName) -> None:
    """What is made from a draft is billed as that draft was; a draft of nobody's as what the body says itself."""
    mine, yours = (legs.new_workspace(new_name()) for _ in range(2))
    partner.script("/named/i2v", reply_json({"id": "draft-7"}))
    partner.script("/named/t2v", reply_json({"id": "final-7"}))
    for task in ("draft-7", "final-7"):
        partner.script(f"/named/tasks/{task}", reply_json({"state": "done"}))

    def price(key: str, content: list[Any]) -> str:
        response = httpx.post(
            f"{legs.url}/v2/models/fake/roles-1", headers={"X-API-Key": key}, json={"content": content}
        )
        assert response.status_code == 200, response.text
        return response.headers["x-service-credits-used"]

    final = [{"type": "draft_task", "draft_task": {"id": "draft-7"}}]
    assert price(mine, [_TEXT, _FIRST]) == "12.66"
    assert price(mine, final) == "12.66"
    assert price(yours, final) == "10.55"
    assert price(mine, [{"type": "draft_task", "draft_task": {"id": "unknown"}}]) == "10.55"


@pytest.mark.req("R-27", "R-29")
@pytest.mark.parametrize(("model", "charged"), [("refusing-1", ["0.01"]), ("many-1", [])])
def test_refusal_is_billed_as_the_model_says(
    legs: Server, partner: FakePartner, model: str, charged: list[str]
) -> None:
    """A content refusal is charged where the model's entry says so, and only there; no credits are told of an error."""
    shown = legs.client.get(f"/v2/models/fake/{model}").json()["billing"]["charges_on_policy_rejection"]
    assert shown == ("yes" if charged else "no")
    partner.script(NATIVE, reply_json({"error": {"code": "refused", "side": "prompt"}}, 400))
    response = _run(legs, model, {"prompt": "a"})
    assert (response.status_code, response.json()["error_type"]) == (400, "content_policy_violation")
    assert response.json()["refusal_subject"] == response.headers["x-service-refusal-subject"] == "input_text"
    assert "x-service-credits-used" not in response.headers
    assert legs.charges(response.headers["x-service-request-id"]) == charged


@pytest.mark.req("R-14", "R-27")
def test_refusal_after_a_fallback_is_final(legs: Server, partner: FakePartner) -> None:
    """A content refusal of the alternate that a run fell back to is told, and charged at that one's rate."""
    partner.script(NATIVE, reply_json({}, 500))
    partner.script(
        "/fal/json", reply_json({"detail": [{"type": "content_policy_violation", "loc": ["body", "prompt"]}]}, 422)
    )
    response = _run(legs, "refusing-1", {})
    assert (response.status_code, response.json()["error_type"]) == (400, "content_policy_violation")
    assert response.json()["refusal_subject"] == "input_text"
    assert _charge(legs, response) == "0.02"
    assert "x-service-router-fallback-provider" not in response.headers
