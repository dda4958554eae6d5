"""The router as released clients read it: each row is what a client sends, and what it must be able to read."""

from typing import Any, Final

import msgspec
import pytest

from api.legs import FAL, NATIVE
from fake_partner import FakePartner, reply
from servers import Server

_SOUND: Final = b"RIFF" + bytes(range(200))
_MANY: Final = "fake/many-1"
_LEFT_OUT: Final = {"user": "é", "é€\U0001f31f": 1}
ROWS: Final = (
    pytest.param({"model_provider": "fal"}, FAL, id="an alternate"),
    pytest.param({}, NATIVE, id="no provider"),
    pytest.param({"model_provider": "default"}, NATIVE, id="the default"),
    pytest.param({"model_provider": "service"}, NATIVE, id="the brand"),
    pytest.param({"model_provider": "service-ui"}, NATIVE, id="another alias of the brand"),
)


@pytest.mark.req("R-11")
@pytest.mark.parametrize(("params", "path"), ROWS)
def test_every_alias_of_the_brand_means_the_models_own_provider(
    legs: Server, partner: FakePartner, params: dict[str, str], path: str
) -> None:
    """A JSON result is `application/json` to the letter, however the partner spells it."""
    before = len(partner.requests(path))
    partner.script(NATIVE, reply(200, b'{"made":1}', "Application/JSON; charset=utf-8"))
    response = legs.client.post(f"/v2/models/{_MANY}", params=params, json={"prompt": "a"})
    assert (response.status_code, response.headers["content-type"]) == (200, "application/json")
    assert len(partner.requests(path)) == before + 1


@pytest.mark.req("R-12")
def test_dropped_parameters_are_an_array_in_ascii_that_is_decoded_once(legs: Server) -> None:
    """Other characters are escapes, never replaced, and each entry is a whole text."""
    body: dict[str, Any] = {"prompt": "a", **_LEFT_OUT}
    response = legs.client.post("/v2/models/fake/long-1", params={"model_provider": "fal"}, json=body)
    assert response.status_code == 200, response.text
    header = response.headers.raw
    (value,) = (value for name, value in header if name.lower() == b"x-service-router-dropped-params")
    assert value.isascii()
    assert b"\\u00e9\\u20ac\\ud83c\\udf1f: " in value
    entries = msgspec.json.decode(value, type=list[str])
    assert sorted(entry.partition(":")[0] for entry in entries) == sorted(_LEFT_OUT)


@pytest.mark.req("R-10")
def test_bytes_have_the_partners_content_type(legs: Server, partner: FakePartner) -> None:
    """The parameters of the content type are kept."""
    partner.script("/bytes", reply(200, _SOUND, "audio/wav; rate=22050"))
    response = legs.client.post("/v2/models/fake/bytes-1", json={})
    assert (response.content, response.headers["content-type"]) == (_SOUND, "audio/wav; rate=22050")
