"""docs/add-a-partner.md, as it stands: its files are written, its server is started, its commands are run."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from docs.pages import blocks, commands, start_server, type_in, with_commands
from fake_partner import Behaviour, FakePartner, Request, reply, reply_json, running_partner
from servers import environment

_PAGE: Final = "add-a-partner.md"
_PNG: Final = b"\x89PNG\r\n\x1a\n and the rest of a picture"
_ORDERS: Final = "/v1/paintings"


@pytest.fixture
def paintbox() -> Iterator[FakePartner]:
    """Return the vendor of the page: it paints, refuses and complains as the page says it does."""
    with running_partner() as vendor:
        vendor.script(_ORDERS, _take(vendor))
        vendor.script("/p.png", reply(200, _PNG, "image/png"))
        yield vendor


def _take(vendor: FakePartner) -> Behaviour:
    """Take an order and lay out what its polls will answer."""

    async def behave(request: Request, writer: Any) -> None:
        order = json.loads(request.body)
        if request.headers.get("x-paint-key") != "the-secret":
            answer = reply_json({"error": {"message": "Who are you?"}}, 401)
        elif order.get("style") == "crayon":
            answer = reply_json({"error": {"field": "style", "message": "There is no style crayon."}}, 422)
        else:
            name = f"p-{len(vendor.requests(_ORDERS))}"
            vendor.script(f"{_ORDERS}/{name}", reply_json({"state": "painting"}), reply_json(_end(vendor, order)))
            answer = reply_json({"id": name}, 202)
        await answer(request, writer)

    return behave


def _end(vendor: FakePartner, order: Mapping[str, Any]) -> dict[str, Any]:
    if "forbidden" in order["prompt"]:
        return {"state": "rejected", "reason": {"code": "moderation", "side": "prompt"}}
    megapixels = order.get("width", 1000) * order.get("height", 1000) / 1e6
    return {"state": "done", "picture": {"url": f"{vendor.url}/p.png", "megapixels": megapixels}}


def test_page_can_be_followed_from_files_to_charges(tmp_path: Path, paintbox: FakePartner) -> None:
    """Anyone who types the page into two terminals sees what it says, from the files to the books."""
    for block in blocks(_PAGE):
        if block.name:
            path = tmp_path / block.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
    elsewhere = {"FAIRLEAD_PORT": "0", "FAIRLEAD_PROVIDER_PAINTBOX_BASE_URL": paintbox.url}
    env = with_commands(environment(elsewhere))
    pairs = commands(_PAGE)
    place = next(number for number, (script, _) in enumerate(pairs) if "fairlead serve" in script)
    type_in(tmp_path, pairs[:place], env)
    with start_server(pairs[place][0], tmp_path, env) as (url, _):
        type_in(tmp_path, pairs[place + 1 :], {**env, "URL": url})
    assert paintbox.requests(_ORDERS)[0].headers["x-paint-key"] == "the-secret"
