"""Runs on an alternate: the body in its words and the answer in the native form (R-12), or neither (R-13)."""

import json
from typing import Any, Final

import httpx
import msgspec
import pytest

from api.legs import FAL, INLINE, NATIVE, WAVESPEED, images
from fake_partner import FakePartner, reply, reply_json
from servers import Server, wait_until

_DROPPED: Final = "x-service-router-dropped-params"
_LONG: Final = "x" * 100


def _run(legs: Server, body: Any, provider: str = "fal", model: str = "many-1", **params: str) -> httpx.Response:
    return legs.client.post(f"/v2/models/fake/{model}", params={"model_provider": provider, **params}, json=body)


def _read_dropped(response: httpx.Response) -> list[str]:
    """What the header holds: a JSON array of strings in ASCII, encoded once."""
    header = response.headers[_DROPPED]
    assert header.isascii()
    return msgspec.json.decode(header, type=list[str])


@pytest.mark.req("R-12")
def test_body_and_answer_are_translated(legs: Server, partner: FakePartner) -> None:
    """The provider gets the body in its own words, and the caller gets the answer in the native form."""
    partner.script(FAL, images("https://cdn.example/b.png"))
    response = _run(legs, {"prompt": "a", "size": "640x480", "style": "bright"})
    assert json.loads(partner.requests(FAL)[-1].body) == {
        "text": "a",
        "image_size": {"width": 640, "height": 480},
        "mood": "light",
        "sync_mode": True,
    }
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert response.json() == {"created": 0, "data": [{"url": "https://cdn.example/b.png"}], "seed": 5}
    assert _DROPPED not in response.headers


@pytest.mark.req("R-12")
def test_every_dropped_field_is_told(legs: Server, partner: FakePartner) -> None:
    """Each field that cannot be said is left out and listed with its reason, a comma in it or not."""
    partner.script(FAL, images())
    response = _run(legs, {"prompt": "a", "user": "me", "style": 'gl"oomy', "size": "large", "n": 2, "more": {"a": 1}})
    assert json.loads(partner.requests(FAL)[-1].body) == {"text": "a", "sync_mode": True}
    assert sorted(_read_dropped(response)) == [
        "more: this provider has no such field",
        "n: this provider has no such field",
        "size: this provider cannot express this value",
        "style: this provider cannot express this value",
        "user: the provider keeps no users apart",
    ]


@pytest.mark.req("R-12")
@pytest.mark.parametrize(
    ("fields", "kept", "last"),
    [
        pytest.param({f"extra_{n:03d}": "a" for n in range(64)}, 64, None, id="as many as there may be"),
        pytest.param({f"extra_{n:03d}": "a" for n in range(65)}, 64, "and 2 more", id="one more"),
        pytest.param({f"extra_{n:03d}": "a" for n in range(100)}, 64, "and 37 more", id="a hundred"),
    ],
)
def test_list_of_dropped_fields_is_bounded(legs: Server, fields: dict[str, str], kept: int, last: str | None) -> None:
    """At most 64 entries are listed; where there are more, the last one counts the rest."""
    entries = _read_dropped(_run(legs, {"prompt": "a", **fields}))
    assert len(entries) == kept
    if last is None:
        assert not any(entry.startswith("and ") for entry in entries)
    else:
        assert entries[-1] == last
        assert len([entry for entry in entries if entry.startswith("extra_")]) == 63


@pytest.mark.req("R-12")
def test_dropped_entries_are_bounded_in_the_bytes_of_the_header(legs: Server) -> None:
    """An entry has at most 300 bytes there and the header at most 4,096, all of them plain ASCII."""
    open_body = {"prompt": "a", **{f"{n:03d}é{_LONG * 4}": 1 for n in range(40)}}
    response = _run(legs, open_body, model="long-1")
    entries = _read_dropped(response)
    assert len(response.headers[_DROPPED].encode("latin-1")) <= 4096
    assert max(len(json.dumps(entry)) - 2 for entry in entries) == 300
    assert entries[0].startswith("000é")
    told = [entry for entry in entries if not entry.startswith("and ")]
    assert entries[-1] == f"and {40 - len(told)} more"
    assert len(told) > 10


@pytest.mark.req("R-12")
def test_dropped_link_hides_its_query(legs: Server) -> None:
    """A field's name that is a link loses its query, which may be a secret."""
    entries = _read_dropped(_run(legs, {"prompt": "a", "https://a.example/b?token=secret": 1}, model="long-1"))
    assert len(entries) == 1
    assert "secret" not in entries[0]


@pytest.mark.req("R-12")
@pytest.mark.parametrize(
    "answer",
    [{"images": [], "seed": 5}, {"pictures": [{"url": "https://cdn.example/a.png"}]}],
    ids=["no picture", "another form"],
)
def test_answer_that_cannot_be_translated_comes_raw(legs: Server, partner: FakePartner, answer: Any) -> None:
    """What cannot be said in the native form comes raw, byte for byte, billed, and with a line in the log."""
    raw = json.dumps(answer, indent=3).encode()
    partner.script(FAL, reply(200, raw, "application/json; charset=utf-8"))
    response = _run(legs, {"prompt": "a"})
    assert (response.status_code, response.content) == (200, raw)
    assert response.headers["content-type"] == "application/json"
    run_id = response.headers["x-service-request-id"]
    assert legs.charges(run_id) == ["0.02"]
    lines = wait_until(
        lambda: [r for r in legs.logged_events("AnswerLeftRaw") if r["run_id"] == run_id], "a line in the log"
    )
    assert (lines[0]["provider"], lines[0]["model_id"]) == ("fal", "fake/many-1")


@pytest.mark.req("R-12")
def test_leg_without_a_way_back_leaves_the_answer_raw(legs: Server, partner: FakePartner) -> None:
    """A translation that says nothing of answers leaves them as they are."""
    partner.script(WAVESPEED, reply(200, b' {"a" : 1.0e0} '))
    assert _run(legs, {"prompt": "a"}, "wavespeed").content == b' {"a" : 1.0e0} '


@pytest.mark.req("R-12")
def test_translated_body_is_validated_first(legs: Server, partner: FakePartner) -> None:
    """What is translated is a native body, and one that breaks the native schema is 422 before anybody is called."""
    response = _run(legs, {"text": "a"})
    assert response.status_code == 422
    assert not partner.requests()


@pytest.mark.req("R-13")
def test_strict_run_is_not_translated(legs: Server, partner: FakePartner) -> None:
    """With `strict_mode` the body goes as it is, the answer comes as it is, and no native schema is asked."""
    body = b' {"text" :"a", "image_size": {"width": 1},\n"model":"of/fal"} '
    raw = b'{"images" : [ {"url":"https://cdn.example/a.png"} ] }'
    partner.script(FAL, reply(200, raw))
    response = legs.client.post(
        "/v2/models/fake/many-1",
        params={"model_provider": "fal", "strict_mode": "true"},
        content=body,
        headers={"Content-Type": "application/json"},
    )
    assert (response.status_code, response.content) == (200, raw)
    assert partner.requests(FAL)[-1].body == body
    assert _DROPPED not in response.headers
    assert legs.charges(response.headers["x-service-request-id"]) == ["0.02"]


@pytest.mark.req("R-13", "R-14")
def test_strict_run_does_not_fall_back(legs: Server, partner: FakePartner) -> None:
    """A strict body is of one provider only: its failure reaches the caller, and nobody else is asked."""
    partner.script(FAL, reply_json({"detail": "no"}, 500))
    response = _run(legs, {"text": "a"}, strict_mode="true")
    assert (response.status_code, response.json()["error_type"]) == (502, "provider_error")
    assert [request.path for request in partner.requests()] == [FAL]


@pytest.mark.req("R-13")
def test_strict_mode_does_not_bypass_the_refusals(legs: Server) -> None:
    """The refusals come before the mode: an edit that the named provider does not serve is refused all the same."""
    response = _run(legs, {"prompt": "a", "image": INLINE}, strict_mode="true")
    assert (response.status_code, response.json()["error_type"]) == (409, "invalid_input")


@pytest.mark.parametrize("named", ["many-1", "fake/many-1"])
def test_missing_model_of_a_body_is_filled_in(legs: Server, partner: FakePartner, named: str) -> None:
    """A `model` field the schema asks for is filled in from the path, and one that says the same is fine."""
    for body in ({"prompt": "a"}, {"prompt": "a", "model": named}):
        assert legs.client.post("/v2/models/fake/many-1", json=body).status_code == 200
    filled, given = (json.loads(request.body) for request in partner.requests(NATIVE))
    assert filled == {"prompt": "a", "model": "many-1"}
    assert given == {"prompt": "a", "model": named}


def test_body_must_name_the_model_of_its_path(legs: Server, partner: FakePartner) -> None:
    """A body that names another model than the path is 422 at its field."""
    response = legs.client.post("/v2/models/fake/many-1", json={"prompt": "a", "model": "other-1"})
    assert (response.status_code, response.headers["x-service-error-type"]) == (422, "invalid_input")
    assert [entry["loc"] for entry in response.json()["detail"]] == [["body", "model"]]
    assert not partner.requests()


def test_filled_in_model_leaves_the_body_unchanged(legs: Server, partner: FakePartner) -> None:
    """Where the model is filled in, every byte the caller sent is still there."""
    sent = b'{"prompt" : "\\u00e9", "n":1 }\n'
    legs.client.post("/v2/models/fake/many-1", content=sent, headers={"Content-Type": "application/json"})
    assert partner.requests(NATIVE)[-1].body == b'{"model":"many-1",' + sent[1:]
