"""Results with assets: copied from the native partner, linked to by us, and left alone at others (R-36)."""

import asyncio
import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypeAlias

import httpx
import pytest

from api.conftest import SETTINGS, NewName
from api.legs import EDITS, FAL, INLINE, KEYS, NATIVE, PICTURE, at_ease, fill_legs
from fake_partner import SECRET, CatalogFolder, FakePartner, Request, drop, echo, reply, reply_json
from servers import Server, serving

pytestmark = pytest.mark.req("R-36")

_REPLAYED: Final = "idempotent-replayed"
Run: TypeAlias = Callable[..., httpx.Response]


@pytest.fixture
def run(legs: Server) -> Run:
    """Return a function that runs the model whose assets are copied."""

    def ask(body: Any = None, model: str = "many-1", headers: Any = None, **params: str) -> httpx.Response:
        body = {"prompt": "a"} if body is None else body
        return legs.client.post(f"/v2/models/fake/{model}", params=params, json=body, headers=headers)

    return ask


def _answer(partner: FakePartner, *names: str, path: str = NATIVE) -> list[str]:
    """Let the partner answer with links to pictures of its own, byte for byte known; the links."""
    links = [f"{partner.url}/made/{name}" for name in names]
    partner.script(path, reply_json({"created": 1, "data": [{"url": link} for link in links]}))
    for name in names:
        partner.script(f"/made/{name}", reply(200, PICTURE, "image/png"))
    return links


def _links(response: httpx.Response) -> list[str]:
    assert response.status_code == 200, response.text
    return [item["url"] for item in response.json()["data"]]


def test_listed_asset_is_copied_and_its_link_replaced(legs: Server, partner: FakePartner, run: Run) -> None:
    """Each listed link is replaced by one of ours, which gives the same bytes without a key, whole and in parts."""
    theirs = _answer(partner, "a.png", "b.png")
    response = run()
    ours = _links(response)
    assert len(set(ours)) == 2
    for link, old in zip(ours, theirs, strict=True):
        assert link.startswith(f"{legs.url}/assets/")
        assert old not in response.text
        whole = httpx.get(link)
        assert (whole.status_code, whole.content, whole.headers["content-type"]) == (200, PICTURE, "image/png")
        part = httpx.get(link, headers={"Range": "bytes=8-15"})
        assert (part.status_code, part.content) == (206, PICTURE[8:16])
        assert part.headers["content-range"] == f"bytes 8-15/{len(PICTURE)}"
    assert response.json()["created"] == 1
    assert len(partner.requests("/made/a.png")) == 1
    assert "authorization" not in partner.requests("/made/a.png")[0].headers


@pytest.mark.req("S-02")
def test_link_in_a_large_answer_is_exchanged(partner: FakePartner, run: Run) -> None:
    """A large answer has our link in place of the partner's, and else every byte as it was."""
    link = f"{partner.url}/made/a.png"
    document = {"before": 'é\n"' * 30_000, "data": [{"b64": "x" * 300_000, "url": link}], "after": "y" * 9_000}
    partner.script(NATIVE, reply_json(document))
    partner.script("/made/a.png", reply(200, PICTURE, "image/png"))
    response = run()
    (ours,) = _links(response)
    assert httpx.get(ours).content == PICTURE
    assert response.json() == {**document, "data": [{"b64": "x" * 300_000, "url": ours}]}
    assert response.content.replace(ours.encode(), link.encode()) == partner_bytes(document)


def partner_bytes(document: Any) -> bytes:
    """The bytes of a document as the partner sends it."""
    return json.dumps(document).encode()


def test_altered_link_is_403_and_tells_nothing(run: Run, partner: FakePartner) -> None:
    """Every altered, shortened or lengthened link is 403, and tells nothing."""
    _answer(partner, "a.png")
    (link,) = _links(run())
    head, _, signature = link.rpartition("signature=")
    altered = [
        f"{head}signature={'A' if signature[0] != 'A' else 'B'}{signature[1:]}",
        link.replace("expires=", "expires=1"),
        link.replace("disposition=inline", "disposition=attachment"),
        link.partition("?")[0],
        f"{link}&more=1",
        link.replace("/assets/", "/assets/0"),
    ]
    for other in altered:
        assert other != link
        answer = httpx.get(other)
        assert (answer.status_code, answer.json()["error_type"]) == (403, "forbidden"), other
    assert httpx.get(link).status_code == 200


def test_assets_of_a_named_alternate_are_not_copied(partner: FakePartner, run: Run) -> None:
    """A named alternate's links are its own, and nothing is downloaded."""
    link = f"{partner.url}/made/a.png"
    partner.script(FAL, reply_json({"images": [{"url": link}]}))
    assert _links(run(model_provider="fal")) == [link]
    assert not partner.requests("/made/a.png")


@pytest.mark.req("R-14")
def test_assets_of_a_fallback_are_not_copied(partner: FakePartner, run: Run) -> None:
    """Assets of the alternate keep its links; a run that falls back to the native provider has its assets copied."""
    link = f"{partner.url}/made/a.png"
    partner.script(NATIVE, reply(500))
    partner.script(FAL, reply_json({"images": [{"url": link}]}))
    assert _links(run()) == [link]
    partner.script(FAL, reply(500))
    _answer(partner, "a.png")
    back = run(model_provider="fal")
    assert back.headers["x-service-router-fallback-provider"] == "fake"
    assert httpx.get(_links(back)[0]).content == PICTURE


@pytest.mark.parametrize("alias", ["default", "service", "native"])
def test_aliased_run_is_copied(legs: Server, partner: FakePartner, run: Run, alias: str) -> None:
    """The aliases are native runs."""
    _answer(partner, "a.png")
    assert _links(run(model_provider=alias))[0].startswith(legs.url)


@pytest.mark.req("R-29")
def test_failed_copy_keeps_its_link_and_the_run_succeeds(legs: Server, partner: FakePartner, run: Run) -> None:
    """Assets that cannot be fetched keep the partner's link; the run succeeds and is billed."""
    theirs = _answer(partner, "a.png", "b.png", "c.png")
    partner.script("/made/b.png", reply(404))
    partner.script("/made/c.png", drop())
    response = run()
    ours = _links(response)
    assert httpx.get(ours[0]).content == PICTURE
    assert ours[1:] == theirs[1:]
    assert legs.charges(response.headers["x-service-request-id"]) == ["0.01"]


def test_private_address_is_never_fetched(partner: FakePartner, run: Run) -> None:
    """A link that leads to an address nobody may be sent to stays as it is, and the result is delivered."""
    link = "http://127.0.0.1:1/secret"
    partner.script(NATIVE, reply_json({"data": [{"url": link}, {"url": "http://169.254.169.254/latest"}]}))
    assert _links(run()) == [link, "http://169.254.169.254/latest"]


def test_inline_bytes_stay_untouched(partner: FakePartner, run: Run) -> None:
    """A result without a link is the partner's bytes, untouched; every byte around a link is as well."""
    raw = b'{ "data":[{"b64_json" : "AAAA"}] ,"url":"https://other.example/x"}'
    partner.script(NATIVE, reply(200, raw))
    assert run().content == raw
    link = _answer(partner, "a.png")[0].encode()
    raw = b'{"data" : [ {"url":"' + link + b'", "n":1.0e0}],"see" :"' + link + b'"}'
    partner.script(NATIVE, reply(200, raw))
    before, after = raw.split(b'"' + link + b'"', 1)
    content = run().content
    assert content.startswith(before + b'"http')
    assert content.endswith(after)


@pytest.mark.req("R-16")
def test_result_of_an_edit_is_copied(legs: Server, partner: FakePartner, run: Run) -> None:
    """The result of an edit is a native result like any other."""
    _answer(partner, "a.png", path=EDITS)
    assert _links(run({"prompt": "a", "image": INLINE}))[0].startswith(legs.url)


def test_clip_link_becomes_ours_for_a_day(legs: Server, partner: FakePartner, run: Run) -> None:
    """In the video family's `response.videos[]` a web link becomes ours for a day; inline clips and others stay."""
    partner.script("/made/a.mp4", reply(200, PICTURE, "video/mp4"))
    videos = [
        {"gcsUri": f"{partner.url}/made/a.mp4", "mimeType": "video/mp4"},
        {"bytesBase64Encoded": "AAAA", "mimeType": "video/mp4"},
        {"gcsUri": "gs://bucket/b.mp4"},
    ]
    partner.script(NATIVE, reply_json({"done": True, "response": {"videos": videos}}))
    read = run({}, "veo-1").json()["response"]["videos"]
    assert read[1:] == videos[1:]
    assert read[0]["mimeType"] == "video/mp4"
    answer = httpx.get(read[0]["gcsUri"])
    assert (answer.status_code, answer.content, answer.headers["content-type"]) == (200, PICTURE, "video/mp4")
    assert read[0]["gcsUri"].startswith(f"{legs.url}/assets/")
    age = int(answer.headers["cache-control"].rpartition("=")[2])
    assert 23 * 3600 < age <= 24 * 3600


@pytest.mark.req("R-36")
def test_clip_in_the_operators_bucket_is_answered_as_a_link(legs: Server, partner: FakePartner) -> None:
    """The provider is told where to write; what it wrote there is read with our key, and other places stay."""
    places: list[str] = []

    async def behave(request: Request, writer: asyncio.StreamWriter) -> None:
        place = json.loads(request.body)["parameters"]["storageUri"]
        places.append(place)
        name = place.removeprefix("gs://").rstrip("/")
        partner.script(f"/storage/{name}/a%20b.mp4", reply(200, PICTURE, "video/mp4"))
        videos = [{"gcsUri": f"{place.rstrip('/')}/a b.mp4"}, {"gcsUri": "gs://theirs/b.mp4"}]
        await reply_json({"done": True, "response": {"videos": videos}})(request, writer)

    partner.script(NATIVE, behave)
    answer = legs.client.post("/v2/models/filming/veo-1", json={"prompt": "a", "parameters": {"n": 1}})
    first, second = answer.json()["response"]["videos"]
    assert places == [f"gs://ours/films/{answer.headers['x-service-request-id']}/"]
    assert second == {"gcsUri": "gs://theirs/b.mp4"}
    assert httpx.get(first["gcsUri"]).content == PICTURE
    (read,) = [request for request in partner.requests() if request.path.startswith("/storage/")]
    assert read.headers["authorization"] == f"Bearer {SECRET}"
    own = {"parameters": {"storageUri": "gs://theirs/"}}
    partner.script(NATIVE, echo())
    assert legs.client.post("/v2/models/filming/veo-1", json=own).json() == own


@pytest.fixture
def unforgiving(partner: FakePartner, tmp_path: Path) -> Iterator[Server]:
    """Return a server that tells no result with a partner's link again."""
    at_ease(partner)
    catalog = CatalogFolder(tmp_path / "catalog")
    fill_legs(catalog, partner.url)
    env = {**SETTINGS, **KEYS, "FAIRLEAD_REPLAY_LINKS_SECONDS": "0", "FAIRLEAD_ASSET_LIMIT_MIB": "1"}
    with serving(tmp_path / "data", catalog=catalog.path, env=env, arguments=("--no-local-partner",)) as server:
        yield server
        server.prove_settled()


@pytest.mark.req("R-18")
def test_copied_result_outlives_the_partners_link(unforgiving: Server, partner: FakePartner) -> None:
    """A result whose links are all ours is told again, byte for byte, after the partner's have died."""
    _answer(partner, "a.png")
    headers = {"Idempotency-Key": "once"}
    first = unforgiving.client.post("/v2/models/fake/many-1", json={"prompt": "a"}, headers=headers)
    partner.script("/made/a.png", reply(410))
    again = unforgiving.client.post("/v2/models/fake/many-1", json={"prompt": "a"}, headers=headers)
    assert (again.status_code, again.headers[_REPLAYED], again.content) == (200, "true", first.content)
    assert httpx.get(_links(again)[0]).content == PICTURE
    assert len(partner.requests("/made/a.png")) == 1


@pytest.mark.req("R-18")
def test_half_copied_result_is_replayed_within_its_window_only(unforgiving: Server, partner: FakePartner) -> None:
    """A result that still names a link of the partner's is told again only within its window."""
    _answer(partner, "a.png", "b.png")
    partner.script("/made/b.png", reply(404))
    headers = {"Idempotency-Key": "once"}
    answers = [
        unforgiving.client.post("/v2/models/fake/many-1", json={"prompt": "a"}, headers=headers) for _ in range(2)
    ]
    assert [answer.status_code for answer in answers] == [200, 409]
    assert len(partner.requests(NATIVE)) == 1


def test_large_asset_keeps_its_link_and_the_others_are_copied(unforgiving: Server, partner: FakePartner) -> None:
    """An asset beyond the cap keeps its link."""
    theirs = _answer(partner, "a.png", "b.png")
    partner.script("/made/a.png", reply(200, bytes(1024 * 1024 + 1), "image/png"))
    links = _links(unforgiving.client.post("/v2/models/fake/many-1", json={"prompt": "a"}))
    assert links[0] == theirs[0]
    assert hashlib.sha256(httpx.get(links[1]).content).digest() == hashlib.sha256(PICTURE).digest()


def test_result_of_a_run_with_ones_own_key_is_copied(legs: Server, partner: FakePartner, new_name: NewName) -> None:
    """A run with the caller's own key is a native run: its assets are copied too."""
    _answer(partner, "a.png")
    headers = {"X-API-Key": legs.new_workspace(new_name())}
    httpx.put(f"{legs.url}/v2/provider-keys/fake", headers=headers, json={"key": "mine"})
    response = httpx.post(f"{legs.url}/v2/models/fake/many-1", headers=headers, json={"prompt": "a"})
    assert _links(response)[0].startswith(legs.url)
